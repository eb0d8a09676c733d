"""MWER: the loss against the equations in numpy, and gradients in chunks against one
graph of each model.
"""

from dataclasses import replace

import numpy as np
import pytest
import tiny_scorers
import torch
from torch.autograd.graph import saved_tensors_hooks

from espnet_ext.errors import InputError
from espnet_ext.rescore.training.mwer import (
    Example,
    MwerLoss,
    backward,
    count_kept_graphs,
)
from espnet_ext.text.nbest import Hypothesis, NBest

SENTENCES = [
    "THE CAT SAT ON THE MAT",
    "A DOG RAN",
    "THE DOG SAT",
    "TWO CATS RAN HOME",
    "HE SAT AT HOME",
]


def example(
    utterance: str, scores: dict[str, float], errors: tuple[int, ...], reference: str
) -> Example:
    return Example(
        NBest(
            utterance, tuple(Hypothesis(*pair) for pair in scores.items()), reference
        ),
        errors,
    )


BATCH = [
    example(
        "a",
        {"THE CAT SAT ON A MAT": -3.0, SENTENCES[0]: -3.5, "CATS AT MAT": -6.0},
        (1, 0, 5),
        SENTENCES[0],
    ),
    example(
        "b",
        {"A DOG RAN": -1.0, "A DOG": -2.5, "": -9.0, "THE DOG RAN HOME": -2.0},
        (0, 1, 3, 2),
        "A DOG RAN",
    ),
    example("c", {"TWO CATS RAN": -4.0}, (1,), "TWO CATS RAN HOME"),
]


def make_scorer(which: str, dropout: float = 0.0, dtype: torch.dtype = torch.float64):
    """With large weights, so that scores differ well; several chunks a batch."""
    scorer = tiny_scorers.make_scorer(
        which, SENTENCES, dropout, units=32, hidden_size=16
    )
    torch.manual_seed(2)
    for parameter in scorer.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    scorer.budget = 26
    return scorer.to(dtype)


def naive_score(scorer, text: str) -> torch.Tensor:
    """Eq. 2, 3 and 10 to 12 for one hypothesis, nothing shared, nothing padded."""
    tokenizer, model = scorer.tokenizer, scorer.model
    ids = tokenizer(text, add_special_tokens=False).input_ids
    if scorer.name == "causal":
        whole = torch.tensor([[tokenizer.bos_token_id, *ids, tokenizer.eos_token_id]])
        logp = model(input_ids=whole).logits[0].log_softmax(dim=-1)
        return sum(logp[place, whole[0, place + 1]] for place in range(len(ids) + 1))
    whole = (
        [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]
        if tokenizer.cls_token_id
        else [tokenizer.bos_token_id, *ids]
    )
    if scorer.name == "pll":
        total = torch.zeros((), dtype=torch.float64)
        for place in range(1, len(ids) + 1):
            masked = torch.tensor([whole])
            masked[0, place] = tokenizer.mask_token_id
            total = (
                total
                + model(input_ids=masked)
                .logits[0, place]
                .log_softmax(dim=-1)[whole[place]]
            )
        return total
    hidden, head = (
        model(input_ids=torch.tensor([whole])).last_hidden_state[0],
        scorer.head,
    )
    if scorer.pooling == "attention":
        query, keys, values = (
            head.query(head.origin),
            head.key(hidden),
            head.value(hidden),
        )
        return head.score((keys @ query / len(query) ** 0.5).softmax(dim=0) @ values)[0]
    return head.score(hidden[0 if scorer.pooling == "cls" else -1])[0]


def balanced(scorer, weight: float) -> list[Example]:
    """First-pass scores by which s_i is what BATCH has for them, so that no posterior
    is nearly 1.
    """

    def moved(hyp: Hypothesis) -> Hypothesis:
        return replace(
            hyp, score=(hyp.score - naive_score(scorer, hyp.text).item()) / weight
        )

    return [
        replace(
            item, nbest=replace(item.nbest, hyps=tuple(map(moved, item.nbest.hyps)))
        )
        for item in BATCH
    ]


def naive_loss(scorer, batch: list[Example], loss: MwerLoss) -> torch.Tensor:
    """Eq. 7 to 9 written out, and alpha CE."""
    total = 0.0
    for item in batch:
        s = [
            naive_score(scorer, hyp.text) + loss.first_pass_weight * hyp.score
            for hyp in item.nbest.hyps
        ]
        exponentials = [each.exp() for each in s]
        total = total + sum(
            e / sum(exponentials) * errors
            for e, errors in zip(exponentials, item.errors, strict=True)
        )
        if loss.ce_weight:
            total = total - loss.ce_weight * naive_score(scorer, item.nbest.ref)
    return total / len(batch)


def gradients(scorer) -> dict[str, torch.Tensor]:
    return {
        name: value.grad.clone()
        for name, value in scorer.named_parameters()
        if value.grad is not None
    }


@pytest.mark.parametrize(
    ("which", "ce_weight"),
    [("gpt2", 0.0), ("gpt2", 0.1), ("bert", 0.0), ("bert", 0.1)]
    + [
        (which, 0.0)
        for which in ("gpt2-last", "gpt2-attention", "bert-cls", "bert-attention")
    ],
)
def test_gradients_in_chunks_are_those_of_one_graph(which, ce_weight):
    scorer = make_scorer(which).train()
    loss = MwerLoss(first_pass_weight=0.7, ce_weight=ce_weight)
    batch = balanced(scorer, loss.first_pass_weight)
    assert len(scorer.chunks(loss.list_texts(batch))) > 1
    values = backward(scorer, batch, loss)
    found = gradients(scorer)
    scorer.zero_grad()
    expected = naive_loss(scorer, batch, loss)
    expected.backward()
    wanted = gradients(scorer)
    assert values["loss"] == pytest.approx(expected.item(), rel=1e-9)
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-9)
    assert max(gradient.abs().max() for gradient in wanted.values()) > 1e-2


def test_the_parts_of_the_loss():
    scores = [
        torch.tensor([-2.0, -1.0, -3.0, -4.0]),
        torch.tensor([0.0] * 4 + [-8.0]),
        torch.tensor([0.0, -6.0]),
    ]
    values = MwerLoss(first_pass_weight=0.0, ce_weight=0.01)(scores, BATCH)
    assert values["ce"].item() == pytest.approx(6.0)
    weights = np.exp([-2.0, -1.0, -3.0])
    assert values["mwer"].item() == pytest.approx(
        (weights @ [1, 0, 5] / weights.sum() + 1.5 + 1.0) / 3
    )
    assert values["loss"].item() == pytest.approx(values["mwer"].item() + 0.06)
    assert list(MwerLoss()([each[:-1] for each in scores], BATCH)) == [
        "loss",
        "mwer",
        "effective",
    ]


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_posteriors_are_those_of_scaled_scores(scale):
    lm, first, errors = (
        np.array([-20.0, -22.0, -19.0]),
        np.array([-3.0, -2.5, -4.0]),
        np.array([1.0, 0.0, 5.0]),
    )
    item = example(
        "u", dict(zip("ABC", first.tolist(), strict=True)), tuple(map(int, errors)), "B"
    )
    values = MwerLoss(first_pass_weight=6.0, posterior_scale=scale)(
        [torch.tensor(lm)], [item]
    )
    weights = np.exp(scale * (lm + 6.0 * first))
    posteriors = weights / weights.sum()
    assert values["mwer"].item() == pytest.approx(posteriors @ errors)
    assert values["effective"].item() == pytest.approx(
        np.exp(-(posteriors * np.log(posteriors)).sum())
    )


def recorded(scorer) -> list[torch.Tensor]:
    """What the scorer gives of each chunk from now on."""
    seen: list[torch.Tensor] = []
    scorer.register_forward_hook(
        lambda module, given, output: seen.append(output[0].detach().clone())
    )
    return seen


@pytest.mark.parametrize("which", ["gpt2", "bert", "gpt2-last"])
def test_dropout_is_the_same_in_both_passes_and_another_in_the_next_batch(which):
    scorer = make_scorer(which, dropout=0.3).train()
    scorer.budget, seen = 16, recorded(scorer)
    positions = [
        chunk.ids.numel() for chunk in scorer.chunks(MwerLoss().list_texts(BATCH))
    ]
    count = len(positions)
    torch.manual_seed(5)
    backward(scorer, BATCH, MwerLoss())
    first, second = seen[:count], seen[count:]
    again = count - count_kept_graphs(positions, scorer.budget)
    assert 0 < len(second) == again < count
    for once, again in zip(first, second, strict=False):
        torch.testing.assert_close(once, again)
    seen.clear()
    backward(scorer, BATCH, MwerLoss())
    assert not torch.allclose(seen[0], first[0])


@pytest.mark.parametrize("which", ["gpt2", "bert", "gpt2-last"])
def test_chunks_whose_graphs_fit_at_once_are_computed_once(which):
    scorer = make_scorer(which)
    scorer.budget = 16
    bounded = backward(scorer, BATCH, MwerLoss())
    expected = gradients(scorer)
    scorer.zero_grad()
    scorer.budget, seen = 10_000, recorded(scorer)
    assert backward(scorer, BATCH, MwerLoss()) == pytest.approx(bounded)
    assert len(seen) == len(scorer.chunks(MwerLoss().list_texts(BATCH)))
    torch.testing.assert_close(gradients(scorer), expected, rtol=1e-4, atol=1e-6)


class Saved:
    """A tensor that a graph keeps, counted while it is there."""

    now = most = 0

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor
        Saved.now += tensor.nbytes
        Saved.most = max(Saved.most, Saved.now)

    def __del__(self):
        Saved.now -= self.tensor.nbytes


def most_saved(run) -> int:
    Saved.now = Saved.most = 0
    with saved_tensors_hooks(Saved, lambda saved: saved.tensor):
        run()
    return Saved.most


def test_memory_is_that_of_one_chunk():
    scorer = make_scorer("bert")
    whole = most_saved(lambda: naive_loss(scorer, BATCH, MwerLoss()).backward())
    bounded = most_saved(lambda: backward(scorer, BATCH, MwerLoss()))
    largest = max(
        most_saved(lambda chunk=chunk: scorer.terms(chunk)[0].sum().backward())
        for chunk in scorer.chunks(MwerLoss().list_texts(BATCH))
    )
    assert largest <= bounded < 1.1 * largest
    assert bounded < whole / 4


def test_a_score_that_is_not_finite_is_refused_and_nothing_learnt():
    scorer = make_scorer("gpt2")
    with torch.no_grad():
        scorer.model.transformer.wte.weight[scorer.tokenizer("HOME").input_ids] = (
            torch.nan
        )
    with pytest.raises(
        InputError, match="b: the language model gives a score that is not finite"
    ):
        backward(scorer, BATCH[1:], MwerLoss())
    assert not gradients(scorer)
