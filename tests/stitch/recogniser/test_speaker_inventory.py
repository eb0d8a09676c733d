"""The speaker block of P4 against its equations written out in numpy."""

import numpy as np
import pytest
import torch

from espnet_ext.stitch.recogniser.speaker_inventory import (
    SpeakerQuery,
    attend_to_inventory,
    average_posteriors,
    number_segments,
)

CHANGE = 2


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("scale", [1.0, 7.5])
def test_inventory_attention_is_equations_9_and_10(scale):
    random = np.random.default_rng(0)
    queries = random.normal(size=(2, 5, 4))
    profiles = random.normal(size=(2, 3, 4))
    posteriors, weighted = attend_to_inventory(
        torch.tensor(queries), torch.tensor(profiles), scale=scale
    )
    for b in range(2):
        for n in range(5):
            q = queries[b, n]
            cosines = [
                q @ d / np.linalg.norm(q) / np.linalg.norm(d) for d in profiles[b]
            ]
            expected = softmax(scale * np.array(cosines))
            np.testing.assert_allclose(posteriors[b, n].exp(), expected, atol=1e-12)
            np.testing.assert_allclose(
                weighted[b, n], expected @ profiles[b], atol=1e-12
            )


def test_speaker_query_is_equation_8():
    """An LSTM cell over [p, embedding of y], written out gate by gate."""
    torch.manual_seed(0)
    query = SpeakerQuery(
        vocab_size=7, context_size=3, profile_size=4, hidden_size=5
    ).double()
    contexts = torch.randn(2, 6, 3).double()
    previous = torch.randint(7, (2, 6))
    found, _ = query(contexts, previous)
    w = {name: value.detach().numpy() for name, value in query.named_parameters()}
    for b in range(2):
        h = np.zeros(5)
        c = np.zeros(5)
        for n in range(6):
            x = np.concatenate(
                (contexts[b, n].numpy(), w["embed.weight"][previous[b, n]])
            )
            gates = (
                w["lstm.weight_ih_l0"] @ x
                + w["lstm.bias_ih_l0"]
                + w["lstm.weight_hh_l0"] @ h
                + w["lstm.bias_hh_l0"]
            )
            i, f, g, o = gates.reshape(4, 5)
            i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
            c = f * c + i * np.tanh(g)
            h = o * np.tanh(c)
            expected = w["output.weight"] @ h + w["output.bias"]
            np.testing.assert_allclose(found[b, n].detach(), expected, atol=1e-10)


def test_the_change_symbol_ends_its_segment():
    tokens = torch.tensor([[5, 6, CHANGE, 5, CHANGE, CHANGE, 9], [9, 9, 9, 9, 9, 9, 9]])
    assert number_segments(tokens, CHANGE).tolist() == [[0, 0, 0, 1, 1, 2, 3], [0] * 7]


def test_segment_posteriors_are_means_with_the_closing_symbol():
    random = np.random.default_rng(0)
    posteriors = softmax(random.normal(size=(6, 3)))
    tokens = [5, CHANGE, 5, 6, 7, 9]
    means = average_posteriors(torch.tensor(posteriors), torch.tensor(tokens), CHANGE)
    np.testing.assert_allclose(means, [posteriors[:2].mean(0), posteriors[2:].mean(0)])
