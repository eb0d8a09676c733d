"""WeightFeedbackRNNDecoder and its search against its equations in numpy."""

from functools import partial

import numpy as np
import pytest
import torch
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.batch_beam_search_online_sim import BatchBeamSearchOnlineSim
from espnet2.legacy.nets.beam_search import BeamSearch
from small_decoders import frames, padded

from espnet_ext.errors import InputError
from espnet_ext.sem.weight_feedback_rnn import WeightFeedbackRNNDecoder

VOCABULARY, ENCODINGS = 7, 6
EOS = VOCABULARY - 1
SIZES = {"hidden_size": 5, "embed_size": 4, "attention_size": 3, "readout_size": 8}
LENGTHS = [9, 5, 14, 1]
encodings = partial(frames, ENCODINGS)


def decoder(seed: int = 0, dropout: float = 0.0) -> WeightFeedbackRNNDecoder:
    """Make a decoder in double precision whose choices are far from uniform."""
    torch.manual_seed(seed)
    made = WeightFeedbackRNNDecoder(VOCABULARY, ENCODINGS, **SIZES, dropout=dropout)
    made = made.double().eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            # the embedding of the start must stay zero
            if name == "embed.weight":
                parameter.mul_(2)
            else:
                parameter.add_(torch.randn_like(parameter))
    return made


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def equations(
    module: WeightFeedbackRNNDecoder, h: np.ndarray, tokens: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Compute log p[l] and beta[l], one frame and one token at a time.

    The equations are those of the module's description.
    """
    p = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    cells = SIZES["hidden_size"]
    frames = len(h)
    s = np.zeros(cells)
    cell = np.zeros(cells)
    c = np.zeros(ENCODINGS)
    beta = np.zeros(frames)
    logps = []
    betas = []
    for number, token in enumerate(tokens):
        y = p["embed.weight"][token] if number else np.zeros(SIZES["embed_size"])
        gates = p["cell.weight_ih"] @ np.concatenate([y, c]) + p["cell.bias_ih"]
        gates = gates + p["cell.weight_hh"] @ s + p["cell.bias_hh"]
        i, f, g, o = np.split(gates, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        s = sigmoid(o) * np.tanh(cell)
        e = np.zeros(frames)
        for m in range(frames):
            key = p["key.weight"] @ h[m] + p["key.bias"]
            feedback = p["feedback.weight"][:, 0] * beta[m]
            argument = key + p["query.weight"] @ s + feedback
            e[m] = p["energy.weight"][0] @ np.tanh(argument)
        a = np.exp(e - e.max())
        a = a / a.sum()
        for m in range(frames):
            beta[m] += 0.5 * sigmoid(p["inverse_fertility.weight"][0] @ h[m]) * a[m]
        c = sum(a[m] * h[m] for m in range(frames))
        read = p["readout.weight"] @ np.concatenate([s, y, c]) + p["readout.bias"]
        out = p["output.weight"] @ np.maximum(read[0::2], read[1::2]) + p["output.bias"]
        logps.append(out - np.log(np.exp(out).sum()))
        betas.append(beta.copy())
    return np.array(logps), np.array(betas)


def assert_close(found: torch.Tensor, expected: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=0, atol=tolerance)


def test_scores_step_by_step_are_the_equations():
    module, h = decoder(1), encodings(seed=3)
    tokens = [EOS, 2, 5, 0, 3]
    expected, betas = equations(module, h.numpy(), tokens)
    state = module.init_state(h)
    for end in range(1, len(tokens) + 1):
        logp, state = module.score(torch.tensor(tokens[:end]), state, h)
        assert_close(logp, expected[end - 1], 1e-12)
        assert_close(state["feedback"], betas[end - 1], 1e-12)


@pytest.mark.parametrize("filler", [0.0, 1e6])
def test_a_padded_batch_is_its_utterances_one_by_one(filler):
    module = decoder(2)
    batch, lengths = padded(ENCODINGS, LENGTHS, filler)
    tokens = torch.cat((torch.full((4, 1), EOS), torch.randint(EOS, (4, 5))), dim=1)
    scores, _ = module(batch, lengths, tokens, torch.full((4,), 6))
    states = [module.batch_init_state(batch, lengths)] * 4
    for step in range(6):
        logp, states = module.batch_score(tokens[:, : step + 1], states, batch)
        torch.testing.assert_close(logp, scores[:, step].log_softmax(dim=-1))
    for row, length in enumerate(LENGTHS):
        own = batch[row, :length].numpy()
        expected, _ = equations(module, own, tokens[row].tolist())
        assert_close(scores[row].log_softmax(dim=-1), expected, 1e-10)


def test_gradients_reach_every_parameter_but_the_embedding_of_the_start():
    module = decoder(dropout=0.3).train()
    batch, lengths = padded(ENCODINGS, LENGTHS)
    tokens = torch.cat((torch.full((4, 1), EOS), torch.randint(EOS, (4, 5))), dim=1)
    scores, _ = module(batch, lengths, tokens, torch.full((4,), 6))
    scores.square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in module.parameters())
    assert module.embed.weight.grad[EOS].eq(0).all()
    assert WeightFeedbackRNNDecoder(9, 2).embed.weight[8].eq(0).all()


def test_dropout_is_before_the_softmax_only():
    """Two runs in training differ, but not in what goes into the next step."""
    module = decoder(dropout=0.5).train()
    h = encodings()
    start = torch.tensor([EOS])
    one, first = module.score(start, module.init_state(h), h)
    other, second = module.score(start, module.init_state(h), h)
    assert not torch.equal(one, other)
    for name in ("z", "c", "context", "feedback"):
        assert torch.equal(first[name], second[name])


def search(
    kind: type[BeamSearch], module: WeightFeedbackRNNDecoder, beam: int
) -> BeamSearch:
    return kind({"decoder": module}, {"decoder": 1.0}, beam, VOCABULARY, EOS, EOS)


def test_search_finds_hypotheses_with_the_scores_of_the_equations():
    """One by one and batched, in which many hypotheses continue one and the same."""
    module = decoder(4)
    h = encodings(6)
    with torch.no_grad():
        alone = search(BeamSearch, module, VOCABULARY)(h, maxlenratio=-6.0)
        found = search(BatchBeamSearch, module, VOCABULARY)(h, maxlenratio=-6.0)
    sequences = [hyp.yseq.tolist() for hyp in found]
    assert [hyp.yseq.tolist() for hyp in alone] == sequences
    assert len(set(map(tuple, sequences))) > 5
    for hyp, sequence in zip(found, sequences, strict=True):
        *given, _ = sequence
        logps, _ = equations(module, h.numpy(), given)
        # the search ends what has six tokens, without a score for that
        scored = sequence[1:7]
        expected = sum(logps[step, token] for step, token in enumerate(scored))
        assert float(hyp.score) == pytest.approx(expected, abs=1e-10)


def test_bad_settings_and_streaming_are_refused():
    with pytest.raises(InputError, match="readout_size is 7, it must be even"):
        WeightFeedbackRNNDecoder(VOCABULARY, ENCODINGS, readout_size=7)
    blocks = search(BatchBeamSearchOnlineSim, decoder(), 2)
    blocks.block_size, blocks.hop_size, blocks.look_ahead = 6, 2, 2
    with pytest.raises(
        InputError, match="attends to whole utterances: decode without --streaming"
    ):
        blocks(encodings(14))
