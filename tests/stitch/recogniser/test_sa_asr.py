"""The speaker-attributed model: its loss by the equations, labels, and refusals."""

import numpy as np
import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.stitch.recogniser.sa_asr import SAASRModel

GAMMA = 0.3
LOSS = {"gamma": GAMMA, "lsm_weight": 0.0}


def batch() -> dict[str, torch.Tensor]:
    """ "A B <sc> C" of speakers 1 and 0 of three, and "B <sc> A" of 0 and 1 of two."""
    torch.manual_seed(1)
    return {
        "speech": torch.randn(2, 40, 12),
        "speech_lengths": torch.tensor([40, 32]),
        "text": torch.tensor([[3, 4, 2, 5], [4, 2, 3, -1]]),
        "text_lengths": torch.tensor([4, 3]),
        "profiles": torch.randn(2, 3, 4),
        "profiles_lengths": torch.tensor([3, 2]),
        "speakers": torch.tensor([[1, 0], [0, 1]]),
        "speakers_lengths": torch.tensor([2, 2]),
    }


def test_loss_is_that_of_the_tokens_and_gamma_times_that_of_the_speakers(build_sa_asr):
    model = build_sa_asr(model_conf=LOSS)
    data = batch()
    loss, stats, weight = model(**data)
    with torch.no_grad():
        encodings, speaker_encodings, lengths = model.encode_both(
            data["speech"], data["speech_lengths"]
        )
        ys_in = torch.tensor([[6, 3, 4, 2, 5], [6, 4, 2, 3, 6]])
        present = torch.tensor([[True, True, True], [True, True, False]])
        scores, posteriors = model.decoder(
            encodings,
            lengths,
            speaker_encodings,
            ys_in,
            torch.tensor([5, 4]),
            data["profiles"],
            present,
        )
    # the symbol of a change and the end have the speaker of the utterance that they end
    tokens = [[3, 4, 2, 5, 6], [4, 2, 3, 6]]
    speakers = [[1, 1, 1, 0, 0], [0, 0, 1, 1]]
    scores = scores.log_softmax(-1).numpy()
    posteriors = posteriors.numpy()
    of_tokens = 0.0
    of_speakers = 0.0
    right = 0
    for b in range(2):
        for n, (token, speaker) in enumerate(zip(tokens[b], speakers[b], strict=True)):
            of_tokens -= scores[b, n, token] / 2
            of_speakers -= posteriors[b, n, speaker] / 2
            right += posteriors[b, n].argmax() == speaker
    np.testing.assert_allclose(stats["loss_att"].item(), of_tokens, rtol=1e-4)
    np.testing.assert_allclose(stats["loss_speaker"].item(), of_speakers, rtol=1e-4)
    np.testing.assert_allclose(loss.item(), of_tokens + GAMMA * of_speakers, rtol=1e-4)
    assert stats["acc_speaker"] == pytest.approx(right / 9) and weight == 2


def test_absent_speakers_get_gradients_of_neither_label_nor_padding(build_sa_asr):
    model = build_sa_asr(model_conf=LOSS)
    data = batch()
    data["profiles"].requires_grad_()
    model(**data)[0].backward()
    gradient = data["profiles"].grad
    # A speaker who is absent takes part in the choice, padding does not.
    assert gradient[0, 2].abs().sum() > 0
    assert not gradient[1, 2].any()


def test_ctc_joins_the_loss(build_sa_asr):
    model = build_sa_asr(model_conf=LOSS | {"ctc_weight": 0.4})
    data = batch()
    loss, stats, _ = model(**data)
    expected = 0.4 * stats["loss_ctc"] + 0.6 * (
        stats["loss_att"] + GAMMA * stats["loss_speaker"]
    )
    torch.testing.assert_close(loss, expected)


def test_bad_models_and_batches_are_refused(build_sa_asr):
    for change, place in (
        ({"profiles": torch.randn(2, 3, 5)}, "5 dimensions"),
        ({"profiles": None}, "speakers"),
    ):
        with pytest.raises(InputError, match=place):
            build_sa_asr()(**batch() | change)
    with pytest.raises(InputError, match="speaker encoder"):
        SAASRModel(7, list("abcdefg"))
    with pytest.raises(InputError, match="<turn>"):
        build_sa_asr(model_conf={"change_symbol": "<turn>"})
    encoder = {
        "output_size": 8,
        "attention_heads": 2,
        "linear_units": 8,
        "num_blocks": 1,
        "input_layer": "conv2d6",
    }
    with pytest.raises(InputError, match="9 and the speaker encoder 5"):
        build_sa_asr(speaker_encoder_conf=encoder)(**batch())
