"""Language-related self-attention against P1's equations written out in numpy."""

import numpy as np
import pytest
import torch
from espnet2.legacy.nets.pytorch_backend.transformer.attention import (
    MultiHeadedAttention,
)

from espnet_ext.codeswitch.language_attention import (
    ReweightedAttention,
    SeparateStreams,
    SharedStreams,
    compute_score_weights,
)

HEADS, WIDTH, LENGTH = 2, 3, 6
OPTIONS = {"n_head": HEADS, "n_feat": HEADS * WIDTH, "dropout_rate": 0.0}
# of either language and of neither, in no order
LANGUAGES = [0, 1, 2, 1, 0, 2]


def linear(module: torch.nn.Linear, x: np.ndarray) -> np.ndarray:
    return x @ module.weight.detach().numpy().T + module.bias.detach().numpy()


def causal_attention(
    module: MultiHeadedAttention, x: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Compute softmax(QK / sqrt(d_k) W) V (P1, eq. 2) over tokens and those before.

    ``x``: (L, D); ``weights``: (L, L).
    """
    queries = linear(module.linear_q, x).reshape(-1, HEADS, WIDTH)
    keys = linear(module.linear_k, x).reshape(-1, HEADS, WIDTH)
    values = linear(module.linear_v, x).reshape(-1, HEADS, WIDTH)
    rows = []
    for position in range(len(x)):
        seen = slice(position + 1)
        heads = []
        for head in range(HEADS):
            scores = keys[seen, head] @ queries[position, head] / np.sqrt(WIDTH)
            terms = np.exp(scores * weights[position, seen])
            heads.append(terms / terms.sum() @ values[seen, head])
        rows.append(np.concatenate(heads))
    return linear(module.linear_out, np.stack(rows))


@pytest.fixture
def x():
    torch.manual_seed(1)
    return torch.randn(1, LENGTH, HEADS * WIDTH, dtype=torch.float64)


MASK = torch.ones(1, LENGTH, LENGTH, dtype=torch.bool).tril()
CODES = torch.tensor([LANGUAGES])


def test_reweight_is_equation_2(x):
    module = ReweightedAttention(1.7, 0.4, **OPTIONS).double()
    weights = np.ones((LENGTH, LENGTH))
    for i, left in enumerate(LANGUAGES):
        for j, right in enumerate(LANGUAGES):
            if left and right:
                weights[i, j] = 1.7 if left == right else 0.4
    found = module(x, MASK, CODES)[0].detach()
    expected = causal_attention(module, x[0].numpy(), weights)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    computed = compute_score_weights(CODES, CODES, 1.7, 0.4, torch.float64)[0]
    assert torch.equal(computed, torch.from_numpy(weights))


def test_a_bias_multiplies_the_weights_by_w_and_normalises_them_again(x):
    module = ReweightedAttention(1.7, 0.4, additive=True, **OPTIONS).double()
    output = module(x, MASK, CODES)
    factors = compute_score_weights(CODES, CODES, 1.7, 0.4, torch.float64)
    plain = MultiHeadedAttention(**OPTIONS).double()
    plain.load_state_dict(module.state_dict())
    plain(x, x, x, MASK)
    weights = plain.attn * factors.unsqueeze(1)
    weights = weights / weights.sum(-1, keepdim=True)
    torch.testing.assert_close(module.attn, weights, rtol=1e-9, atol=1e-12)
    values = plain.linear_v(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
    torch.testing.assert_close(
        output, plain.linear_out((weights @ values).transpose(1, 2).flatten(2))
    )


@pytest.mark.parametrize("kind", [SharedStreams, SeparateStreams])
def test_a_tokens_output_is_that_of_its_own_languages_stream(x, kind):
    module = kind(2, 0.1, **OPTIONS).double()
    outputs = []
    ones = np.ones((LENGTH, LENGTH))
    for language, attention in zip((1, 2), module.attentions, strict=True):
        factors = [1.0 if other in (0, language) else 0.1 for other in LANGUAGES]
        scaled = x[0].numpy() * np.array(factors)[:, None]
        outputs.append(causal_attention(attention, scaled, ones))
    by_language = {0: (outputs[0] + outputs[1]) / 2, 1: outputs[0], 2: outputs[1]}
    rows = []
    for position, language in enumerate(LANGUAGES):
        rows.append(by_language[language][position])
    expected = np.stack(rows)
    np.testing.assert_allclose(module(x, MASK, CODES)[0].detach(), expected, rtol=1e-9)


def test_shared_has_espnets_keys_and_separate_a_set_of_them_a_language():
    keys = MultiHeadedAttention(**OPTIONS).state_dict().keys()
    assert SharedStreams(2, 0.1, **OPTIONS).state_dict().keys() == keys
    assert ReweightedAttention(1.5, 0.5, **OPTIONS).state_dict().keys() == keys
    assert set(SeparateStreams(2, 0.1, **OPTIONS).state_dict()) == {
        f"{i}.{key}" for i in range(2) for key in keys
    }
