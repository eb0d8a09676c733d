"""A training whose encoder grows, in ESPnet's own trainer: networks, data, going on
after a kill, two processes.
"""

import json
import sys
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
import yaml

import espnet_ext
from espnet_ext.errors import InputError
from espnet_ext.sem import training
from espnet_ext.sem.blstm_maxpool import BLSTMMaxPoolEncoder
from espnet_ext.sem.pretraining import Stage
from espnet_ext.sem.training import (
    GrowingASRTask,
    GrowingTrainer,
    StagedIterFactory,
    find_stage,
)
from espnet_ext.upstream.checkpoint import load_checkpoint, load_parameters

STAGES = [
    {"epochs": 1, "num_layers": 2, "pooling": [8], "dropout_rate": 0.0},
    {"epochs": 1, "num_layers": 2, "pooling": [8], "dropout_rate": 0.0},
    {"epochs": 1, "num_layers": 3, "pooling": [2, 4], "dropout_rate": 0.1},
]
CONFIG = {
    "frontend": "power_mel",
    "normalize": "utterance_mvn",
    "encoder": "blstm_maxpool",
    "encoder_conf": {
        "num_layers": 3,
        "hidden_size": 4,
        "pooling": [2, 2],
        "dropout_rate": 0.1,
    },
    "decoder": "weight_feedback_rnn",
    "decoder_conf": {
        "hidden_size": 4,
        "embed_size": 4,
        "attention_size": 4,
        "readout_size": 4,
    },
    "model_conf": {
        "ctc_weight": 0.5,
        "lsm_weight": 0.1,
        "report_cer": False,
        "report_wer": False,
    },
    "optim": "adam",
    "optim_conf": {"lr": 0.001},
    "batch_type": "sorted",
    "batch_size": 2,
    "max_epoch": 5,
    "keep_nbest_models": 9,
    "token_type": "char",
    "use_matplotlib": False,
    "use_tensorboard": False,
    "num_att_plot": 0,
    "num_workers": 0,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    keys = [f"u{number}" for number in range(8)]
    for key in keys:
        soundfile.write(folder / f"{key}.wav", rng.normal(scale=0.1, size=8000), 16000)
    (folder / "wav.scp").write_text(
        "".join(f"{key} {folder / key}.wav\n" for key in keys)
    )
    (folder / "text").write_text("".join(f"{key} AB\n" for key in keys))
    (folder / "shape").write_text("".join(f"{key} 8000\n" for key in keys))
    (folder / "short").write_text("".join(f"{key} 8000\n" for key in keys[:4]))
    return folder


def train(*arguments, **settings) -> None:
    espnet_ext.register()
    GrowingASRTask.main(cmd=options_of(*arguments, **settings))


def options_of(data: Path, output: Path, token_list: Path, **settings) -> list[str]:
    shapes = ("short", "short", "shape")
    stages = [
        stage | {"shape_file": str(data / name)}
        for stage, name in zip(STAGES, shapes, strict=True)
    ]
    config = output.parent / f"{output.name}.yaml"
    config.write_text(yaml.safe_dump({**CONFIG, "stages": stages, **settings}))
    options = [
        "--config",
        str(config),
        "--output_dir",
        str(output),
        "--token_list",
        str(token_list),
        "--ngpu",
        "0",
    ]
    for part in ("train", "valid"):
        options += [
            f"--{part}_data_path_and_name_and_type",
            f"{data / 'wav.scp'},speech,sound",
        ]
        options += [
            f"--{part}_data_path_and_name_and_type",
            f"{data / 'text'},text,text",
        ]
        options += [f"--{part}_shape_file", str(data / "shape")]
    return options


def test_stages_by_epoch():
    stages = [Stage(epochs=2, num_layers=2, pooling=(8,), dropout_rate=0.0)] * 2
    expected = [
        (0, True),
        (0, False),
        (1, True),
        (1, False),
        (2, True),
        (2, False),
        (2, False),
    ]
    assert [find_stage(stages, epoch) for epoch in range(1, 8)] == expected
    assert find_stage([], 1) == (0, True)


def test_a_grown_network_is_one_that_is_built_at_its_size():
    """The top layer stays on top, and new ones come below it."""
    torch.manual_seed(0)
    whole = BLSTMMaxPoolEncoder(5, num_layers=4, hidden_size=3, pooling=[2, 2]).eval()
    x, lengths = torch.randn(3, 37, 5), torch.tensor([37, 20, 5])
    for layers, pooling in ((2, [8]), (3, [2, 4]), (4, [2, 2, 2]), (4, [2, 2])):
        built = BLSTMMaxPoolEncoder(
            5, num_layers=layers, hidden_size=3, pooling=pooling
        ).eval()
        for number, layer in enumerate(built.layers):
            own = whole.layers[-1 if number == layers - 1 else number]
            layer.load_state_dict(own.state_dict())
        whole.use(layers, pooling, 0.0)
        for found, expected in zip(
            whole(x, lengths)[:2], built(x, lengths)[:2], strict=True
        ):
            assert torch.equal(found, expected)
    whole.use(2, [8], 0.0)
    whole.use_all()
    assert whole.used == [0, 1, 2, 3] and whole.pooling == [2, 2, 1, 1]
    with pytest.raises(InputError, match="cannot use 5 of 4 layers"):
        whole.use(5, [], 0.0)


def test_one_training_grows_and_goes_on_exactly(
    data, tmp_path, token_list, monkeypatch
):
    seen = []
    original = GrowingTrainer.__mro__[1].train_one_epoch.__func__

    def observed(cls, model, optimizers, iterator, reporter, **others):
        encoder = model.encoder
        seen.append(
            (
                reporter.get_epoch(),
                list(encoder.used),
                encoder.layers[1].dropout.p,
                model.criterion_att.smoothing,
                len(optimizers[0].state) > 0,
                {key for keys, _ in iterator for key in keys},
            )
        )
        return original(
            cls,
            model=model,
            optimizers=optimizers,
            iterator=iterator,
            reporter=reporter,
            **others,
        )

    monkeypatch.setattr(
        GrowingTrainer.__mro__[1], "train_one_epoch", classmethod(observed)
    )
    train(data, tmp_path / "whole", token_list)
    short, all_keys = (
        {f"u{number}" for number in range(4)},
        {f"u{number}" for number in range(8)},
    )
    assert seen == [
        (1, [0, 2], 0.0, 0.0, False, short),
        (2, [0, 2], 0.0, 0.0, True, short),  # the same network: its moments go on
        (3, [0, 1, 2], 0.1, 0.0, False, all_keys),
        (
            4,
            [0, 1, 2],
            0.1,
            0.1,
            False,
            all_keys,
        ),  # the final time reduction, and label smoothing
        (5, [0, 1, 2], 0.1, 0.1, True, all_keys),
    ]
    epochs = [
        load_parameters(tmp_path / "whole" / f"{epoch}epoch.pth") for epoch in (1, 2, 3)
    ]
    new = [name for name in epochs[0] if name.startswith("encoder.layers.1.")]
    assert new and all(torch.equal(epochs[0][name], epochs[1][name]) for name in new)
    assert any(not torch.equal(epochs[1][name], epochs[2][name]) for name in new)

    build = StagedIterFactory.build_iter
    for killed in (3, 5):  # at the first epoch of a stage, and within one

        def interrupted(self, epoch, shuffle=None, killed=killed):
            if epoch == killed:
                raise KeyboardInterrupt
            return build(self, epoch, shuffle)

        monkeypatch.setattr(StagedIterFactory, "build_iter", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(data, tmp_path / "parts", token_list, resume=True)
    monkeypatch.setattr(StagedIterFactory, "build_iter", build)
    train(data, tmp_path / "parts", token_list, resume=True)
    parameters = [
        load_parameters(tmp_path / name / "latest.pth") for name in ("whole", "parts")
    ]
    assert all(
        torch.equal(value, parameters[1][name]) for name, value in parameters[0].items()
    )
    moments = [
        load_checkpoint(tmp_path / name / "checkpoint.pth")["optimizers"]
        for name in ("whole", "parts")
    ]
    steps = [
        {number: int(state["step"]) for number, state in found[0]["state"].items()}
        for found in moments
    ]
    assert steps[0] == steps[1] and set(steps[0].values()) == {
        8
    }  # two epochs of the whole network


def test_a_pass_sees_nearly_all_utterances():
    """At P2's size: 20 epochs a pass, batches of some 16 utterances; a training anew in
    each stage saw a quarter.
    """
    from espnet2.iterators.sequence_iter_factory import SequenceIterFactory

    batches = [
        [f"{batch}-{number}" for number in range(16)] for batch in range(1250)
    ]  # 20,000 utterances
    made = SequenceIterFactory(
        dataset=None,
        batches=batches,
        num_iters_per_epoch=len(batches) // 20,
        shuffle=True,
        seed=1,
    )
    stages = [Stage(epochs=5, num_layers=2, pooling=(8,), dropout_rate=0.0)] * 8
    factory = StagedIterFactory(stages, [made] * 9)

    def count(epochs) -> int:
        return len(
            {
                key
                for epoch in epochs
                for batch in factory.build_iter(epoch).batch_sampler
                for key in batch
            }
        )

    assert [count([epoch]) for epoch in (1, 11, 60)] == [992] * 3
    assert (count(range(1, 21)), count(range(1, 41))) == (19840, 20000)
    assert count(list(range(1, 6)) * 4) == 4960


def test_bad_stages_are_refused(data, tmp_path, token_list):
    for stage, place in (
        ({"epochs": 0}, r"stages\[0\]: epochs"),
        ({"layers": 2}, r"stages\[0\]: unknown key 'layers'"),
    ):
        with pytest.raises(InputError, match=place):
            training.read_stages([STAGES[0] | stage])
    for value in (3, "x", STAGES[0], [3]):
        with pytest.raises(InputError, match="stages is .*list"):
            training.read_stages(value)
    with pytest.raises(InputError, match="cannot use 4 of 3 layers"):
        train(
            data,
            tmp_path / "bad",
            token_list,
            stages=[STAGES[0] | {"num_layers": 4, "shape_file": f"{data}/shape"}],
        )


TWO_PROCESSES = {
    "normalize": "sem_global_mvn",
    "batch_size": 4,
    "num_workers": 1,
    "max_epoch": 9,
    "patience": 1,
    "early_stopping_criterion": [
        "train",
        "total_count",
        "min",
    ],  # the first epoch that counts is the best
    "preprocessor_conf": {
        "data_aug_effects": [
            [1.0, "speed_perturb", {"factor": number / 20}] for number in range(14, 24)
        ],
        "data_aug_prob": 1.0,
        "fs": 16000,
    },
    "dist_world_size": 2,
    "dist_backend": "gloo",
    "multiprocessing_distributed": False,
}


def train_rank(rank: int, options: list[str], output: Path) -> None:
    """Train as one of several processes, and write what it drew in each epoch."""
    sys.argv = ["growing_asr_train", *options, "--dist_rank", str(rank)]
    from espnet_ext.bin import growing_asr_train
    from espnet_ext.sem import sem_global_mvn

    drawn: list[dict] = []
    draw = sem_global_mvn.draw_threshold_db
    train, validate = (
        GrowingTrainer.train_one_epoch.__func__,
        GrowingTrainer.validate_one_epoch.__func__,
    )

    def thresholds(*arguments):
        values = draw(*arguments)
        drawn[-1]["thresholds"] += values.tolist()
        return values

    def train_epoch(cls, *, iterator, **others):
        batches = list(iterator)
        lengths = [
            length
            for _, batch in batches
            for length in batch["speech_lengths"].tolist()
        ]
        mask = torch.nn.functional.dropout(torch.ones(40)).tolist()
        drawn.append({"thresholds": [], "speed": lengths, "dropout": mask})
        return train(cls, iterator=batches, **others)

    def validate_epoch(cls, *, model, **others):
        drawn[-1]["parameters"] = [
            float(value.double().sum()) for value in model.parameters()
        ]
        drawn[-1]["unused"] = model.find_unused_parameters
        return validate(cls, model=model, **others)

    sem_global_mvn.draw_threshold_db = thresholds
    GrowingTrainer.train_one_epoch, GrowingTrainer.validate_one_epoch = map(
        classmethod, (train_epoch, validate_epoch)
    )
    growing_asr_train.main()
    output.write_text(json.dumps(drawn))


@pytest.fixture(scope="module")
def ranks(data, token_list, tmp_path_factory) -> list[list[dict]]:
    """What each of two processes drew in each epoch, and the sums of the parameters
    after it.
    """
    folder = tmp_path_factory.mktemp("ranks")
    np.savez(
        folder / "stats.npz",
        count=100,
        sum=np.full(40, 50.0),
        sum_square=np.full(40, 30.0),
    )
    more = {
        "normalize_conf": {"stats_file": str(folder / "stats.npz")},
        "dist_init_method": f"file://{folder}/meet",
    }
    options = options_of(data, folder / "out", token_list, **TWO_PROCESSES, **more)
    outputs = [folder / f"drawn{rank}.json" for rank in (0, 1)]
    fork = get_context("fork")  # with the plugins that this process has
    processes = [
        fork.Process(target=train_rank, args=(rank, options, output))
        for rank, output in enumerate(outputs)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(600)
    assert [process.exitcode for process in processes] == [0, 0]
    return [json.loads(output.read_text()) for output in outputs]


@pytest.mark.parametrize("what", ["thresholds", "speed", "dropout"])
def test_processes_draw_numbers_of_their_own(ranks, what):
    for first, second in zip(*ranks, strict=True):
        assert len(first[what]) == len(second[what]) > 0 and first[what] != second[what]


def test_processes_have_equal_parameters(ranks):
    first, second = ([epoch["parameters"] for epoch in rank] for rank in ranks)
    assert first == second and first[0] != first[1]


def test_unused_parameters_are_sought_while_the_network_grows(ranks):
    growing = sum(stage["epochs"] for stage in STAGES)
    for rank in ranks:
        sought = [epoch["unused"] for epoch in rank]
        assert sought == [True] * growing + [False] * (len(rank) - growing)


def test_patience_counts_from_the_whole_network(ranks):
    """Three epochs grow it; the fourth is the best, and two later none was better."""
    assert len(ranks[0]) == 6
