"""The training loop on a linear model: killed and resumed to the same bits, the best
kept, bad settings refused.
"""

import json
from pathlib import Path

import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.rescore.training import write_quantities
from espnet_ext.rescore.training.settings import TrainingSettings
from espnet_ext.rescore.training.trainer import (
    TrainingTask,
    compute_digest,
    compute_module_digest,
    describe_result,
    refuse_foreign,
    train,
)
from espnet_ext.work.files import atomic_write

SETTINGS = TrainingSettings(
    batch_size=3, epochs=4, lr=0.05, warmup_steps=2, evaluate_every=3, seed=7
)


class Killed(Exception):
    pass


class Line:
    """Least squares with dropout on the input, so that every update draws random
    numbers.
    """

    def __init__(self, kill_at: int | None = None):
        torch.manual_seed(0)
        self.module = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(4, 1))
        x = torch.randn(10, 4)
        self.examples = list(
            zip(x, x @ torch.tensor([1.0, -2.0, 3.0, 0.5]), strict=True)
        )
        self.kill_at, self.batches = kill_at, []

    def loss(self, batch) -> torch.Tensor:
        x, y = (torch.stack(part) for part in zip(*batch, strict=True))
        return (self.module(x).squeeze(1) - y).square().mean()

    def backward(self, batch) -> dict[str, float]:
        if len(self.batches) == self.kill_at:
            raise Killed
        assert self.module.training
        self.batches.append([y.item() for _, y in batch])
        loss = self.loss(batch)
        loss.backward()
        return {"loss": loss.item()}

    def evaluate(self) -> dict[str, float]:
        assert not self.module.training
        return {"loss": self.loss(self.examples).item()}

    def save(self, folder: Path) -> None:
        with atomic_write(folder / "weights.pth", "wb") as file:
            torch.save(self.module.state_dict(), file)

    def train(
        self,
        output: Path,
        settings: TrainingSettings = SETTINGS,
        data: str = "a",
        log=lambda _: None,
    ) -> dict:
        task = TrainingTask(
            self.module,
            self.examples,
            self.backward,
            self.evaluate,
            ("loss",),
            self.save,
            measure=lambda example: int(100 * example[1].abs()),
        )
        return train(task, settings, output, {"data": data}, log)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "model" / "weights.pth", weights_only=True)


@pytest.mark.parametrize("kill_at", [0, 1, 3, 5, 15])
def test_killed_and_resumed_it_comes_to_the_same_bits(tmp_path, kill_at):
    whole = Line()
    expected = whole.train(tmp_path / "whole")
    assert len(whole.batches) == 16
    assert sorted(sum(whole.batches[:4], [])) == sorted(
        y.item() for _, y in whole.examples
    )
    assert whole.batches[:4] != whole.batches[4:8]
    with pytest.raises(Killed):
        Line(kill_at).train(tmp_path / "killed")
    found = Line().train(tmp_path / "killed")
    assert (
        found["history"] == expected["history"]
        and found["best_step"] == expected["best_step"]
    )
    for name, value in weights(tmp_path / "whole").items():
        assert torch.equal(weights(tmp_path / "killed")[name], value)
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == [
        "model",
        "training.json",
    ]


def test_batches_by_length_hold_examples_that_are_about_equally_long(tmp_path):
    grouped = SETTINGS.model_copy(update={"group_by_length": True})
    line = Line()
    line.train(tmp_path / "whole", grouped)
    lengths = sorted(abs(y.item()) for _, y in line.examples)
    size = SETTINGS.batch_size
    alike = [lengths[start : start + size] for start in range(0, len(lengths), size)]
    epochs = [line.batches[start : start + 4] for start in range(0, 16, 4)]
    in_turn = []
    for batches in epochs:
        found = [sorted(abs(value) for value in batch) for batch in batches]
        assert sorted(found) == alike
        in_turn.append([batch[0] for batch in found])
    # neither from short to long, nor the same turns in each epoch
    assert any(turns != sorted(turns) for turns in in_turn)
    assert in_turn[0] != in_turn[1]
    with pytest.raises(Killed):
        Line(5).train(tmp_path / "killed", grouped)
    resumed = Line()
    resumed.train(tmp_path / "killed", grouped)
    # its last checkpoint was written after three updates
    assert resumed.batches == line.batches[3:]


def test_killed_while_it_finishes(tmp_path, monkeypatch):
    expected = Line().train(tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(
            "espnet_ext.rescore.training.trainer.write_json",
            lambda *args: (_ for _ in ()).throw(Killed()),
        )
        with pytest.raises(Killed):
            Line().train(tmp_path / "killed")
    assert Line().train(tmp_path / "killed")["history"] == expected["history"]
    assert torch.equal(
        weights(tmp_path / "killed")["1.weight"],
        weights(tmp_path / "whole")["1.weight"],
    )


def test_the_best_evaluation_is_kept_and_not_the_last(tmp_path):
    line = Line()
    values = iter([5.0, 3.0, float("nan"), 1.0, 1.0, 4.0, 2.0])
    states = []

    def evaluate() -> dict[str, float]:
        states.append(
            {name: value.clone() for name, value in line.module.state_dict().items()}
        )
        return {"loss": next(values)}

    line.evaluate = evaluate
    report = line.train(tmp_path)
    assert [each["step"] for each in report["history"]] == [0, 3, 6, 9, 12, 15, 16]
    assert report["best_step"] == 9
    assert torch.equal(weights(tmp_path)["1.weight"], states[3]["1.weight"])
    assert describe_result(tmp_path, report).startswith(
        f"{tmp_path}/model: after 9 updates: dev_loss 1 "
    )


def test_updates_are_those_of_adamw_with_linear_decay(tmp_path):
    settings = TrainingSettings(
        batch_size=10, epochs=5, lr=0.1, grad_clip=0.5, warmup_steps=1
    )
    line, other = Line(), Line()
    for each in (line, other):
        each.module[0].p = 0.0
        each.evaluate = lambda: {"loss": 1.0}
    line.train(tmp_path, settings)
    optimizer = torch.optim.AdamW(other.module.parameters(), lr=0.1, weight_decay=0.0)
    for rate in (0.0, 0.1, 0.075, 0.05, 0.025):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        other.loss(other.examples).backward()
        torch.nn.utils.clip_grad_norm_(other.module.parameters(), 0.5)
        optimizer.step()
    torch.testing.assert_close(line.module[1].weight, other.module[1].weight)


def test_what_is_done_is_reported_and_what_was_begun_otherwise_refused(tmp_path):
    report = Line().train(tmp_path)
    again = Line(kill_at=0)
    assert (
        again.train(tmp_path)
        == report
        == json.loads((tmp_path / "training.json").read_text())
    )
    with pytest.raises(InputError, match=r"another data \(a, now b\)"):
        Line().train(tmp_path, data="b")
    with pytest.raises(Killed):
        Line(kill_at=4).train(tmp_path / "killed")
    with pytest.raises(InputError, match=r"another lr \(0.05, now 0.1\)"):
        Line().train(tmp_path / "killed", SETTINGS.model_copy(update={"lr": 0.1}))


def test_a_model_of_others_is_not_replaced(tmp_path):
    (tmp_path / "model" / "model").mkdir(parents=True)
    with pytest.raises(
        InputError, match="model/model was not written by this training"
    ):
        Line().train(tmp_path / "model")
    Line().train(tmp_path / "own")
    for lm in (tmp_path / "own" / "model", tmp_path / "own"):
        with pytest.raises(InputError, match="the model to begin with"):
            refuse_foreign(tmp_path / "own", lm)


def test_a_training_that_never_leaves_its_warm_up_is_warned_of(tmp_path):
    said = []
    Line().train(
        tmp_path, SETTINGS.model_copy(update={"warmup_steps": 99}), log=said.append
    )
    assert any(
        "all 16 updates are in the warm-up of 99: lower warmup_steps" in text
        for text in said
    )


def test_divergence_is_said(tmp_path):
    line = Line()
    line.examples[0][0][0] = torch.nan
    with pytest.raises(InputError, match="update [1-4]: no finite gradient"):
        line.train(tmp_path)


def test_a_last_evaluation_that_is_not_finite_is_no_end(tmp_path):
    line = Line()
    values = iter([5.0, 3.0, 2.0, 1.0, 1.0, 4.0, float("nan")])
    line.evaluate = lambda: {"loss": next(values)}
    with pytest.raises(InputError, match="after update 16 .*diverged"):
        line.train(tmp_path)
    assert not (tmp_path / "training.json").exists()


def test_digests_tell_models_and_texts_apart():
    assert compute_digest(["ab", "c"]) != compute_digest(["a", "bc"])
    line, other = Line().module, Line().module
    assert compute_module_digest(line) == compute_module_digest(other)
    with torch.no_grad():
        other[1].bias += 1
    assert compute_module_digest(line) != compute_module_digest(other)


def test_quantities_of_several_seeds(tmp_path):
    for seed, best, effective in ((1, 0, 1.5), (2, 20, 2.5), (3, 10, 3.0), (21, 7, 9)):
        folder = tmp_path / f"seed{seed}"
        folder.mkdir()
        report = {
            "best_step": best,
            "history": [{"step": 0, "dev_effective": effective}],
        }
        (folder / "training.json").write_text(json.dumps(report))
    write_quantities(tmp_path, [1, 2, 3])  # 21 is in no table
    found = {
        path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")
    }
    assert found == {
        "best_step": {"value": 10, "unit": "updates", "seeds": 3},
        "initial_kept": {"value": 1, "unit": "seeds", "seeds": 3},
        "effective": {"value": 2.33, "unit": "hypotheses", "seeds": 3},
    }
    write_quantities(tmp_path / "nothing", [1])
