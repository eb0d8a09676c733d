"""d-vectors of sliding windows, against Resemblyzer, numpy and item by item."""

import numpy as np
import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.stitch.recogniser.d_vectors import DVectorEncoder

RATE = 16000
QUERY = {"hidden_size": 6, "residual": True}


def sound(seconds: float, loudness: float = 0.01, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return loudness * torch.randn(round(seconds * RATE), generator=generator)


@pytest.fixture(scope="module")
def encoder() -> DVectorEncoder:
    return DVectorEncoder()


@pytest.mark.parametrize("loudness", [0.01, 0.2])
def test_windows_are_what_resemblyzer_makes_of_them(encoder, loudness):
    from resemblyzer.audio import normalize_volume, wav_to_mel_spectrogram

    samples = sound(3.0, loudness)
    vectors, windows, _ = encoder(samples.unsqueeze(0), torch.tensor([len(samples)]))
    frames = wav_to_mel_spectrogram(
        normalize_volume(samples.numpy(), -30, increase_only=True)
    )
    frames = np.pad(frames, ((0, 100), (0, 0)))
    assert windows.tolist() == [
        3
    ]  # 0 to 1.6, 0.8 to 2.4, and 1.6 to 3.2 s: the end is covered
    expected = encoder.network(
        torch.from_numpy(
            np.stack([frames[start : start + 160] for start in (0, 80, 160)])
        )
    )
    torch.testing.assert_close(vectors[0], expected, rtol=1e-3, atol=1e-4)


def test_a_batch_is_its_items(encoder):
    items = [sound(2.9), sound(0.7, seed=1), sound(4.13, seed=2)]
    lengths = torch.tensor([len(item) for item in items])
    vectors, windows, _ = encoder(
        torch.nn.utils.rnn.pad_sequence(items, batch_first=True), lengths
    )
    frames = torch.tensor([36, 9, 52])
    stretched = encoder.interpolate_at_frames(vectors, windows, lengths, frames)
    for number, item in enumerate(items):
        alone, count, _ = encoder(item.unsqueeze(0), lengths[number : number + 1])
        assert count == windows[number]
        torch.testing.assert_close(vectors[number, :count], alone[0])
        wanted = encoder.interpolate_at_frames(
            alone, count, lengths[number : number + 1], frames[number : number + 1]
        )
        torch.testing.assert_close(stretched[number, : frames[number]], wanted[0])


def test_frames_lie_between_the_centres_of_windows(encoder):
    length = 5 * RATE
    count = 61
    vectors, windows, _ = encoder(sound(5).unsqueeze(0), torch.tensor([length]))
    found = encoder.interpolate_at_frames(
        vectors, windows, torch.tensor([length]), torch.tensor([count])
    )[0]
    centres = 0.8 + 0.8 * np.arange(len(vectors[0]))
    times = (np.arange(count) + 0.5) * 5 / count
    for dimension in (0, 100, 255):
        expected = np.interp(times, centres, vectors[0, :, dimension])
        np.testing.assert_allclose(found[:, dimension], expected, atol=1e-5)


def test_bad_options_and_features_are_refused(encoder):
    with pytest.raises(InputError, match="2.0 s"):
        DVectorEncoder(window=1.0, shift=2.0)
    with pytest.raises(InputError, match="samples"):
        encoder(torch.zeros(1, 10, 80), torch.tensor([10]))


def test_the_model_takes_known_d_vectors_and_trains_all_but_the_network(build_sa_asr):
    options = {
        "frontend": "default",
        "frontend_conf": {"fs": 16000, "n_mels": 12, "n_fft": 400},
        "input_size": None,
        "speaker_encoder": "d_vectors",
        "speaker_encoder_conf": {},
        "model_conf": {
            "profile_size": 256,
            "speaker_conf": {"cosine_scale": 30, "query_conf": QUERY},
        },
    }
    model = build_sa_asr(**options)
    speech = torch.stack([sound(2.5), sound(2.5, seed=1)])
    data = {
        "speech": speech,
        "speech_lengths": torch.tensor([40000, 33000]),
        "text": torch.tensor([[3, 4, 2, 5], [4, 2, 3, -1]]),
        "text_lengths": torch.tensor([4, 3]),
        "profiles": torch.rand(2, 3, 256),
        "profiles_lengths": torch.tensor([3, 2]),
        "speakers": torch.tensor([[1, 0], [0, 1]]),
        "speakers_lengths": torch.tensor([2, 2]),
    }
    loss = model(**data)[0]
    vectors, windows, _ = model.speaker_encoder(speech, data["speech_lengths"])
    torch.testing.assert_close(
        model(**data, d_vectors=vectors, d_vectors_lengths=windows)[0], loss
    )
    others = torch.nn.functional.normalize(torch.rand_like(vectors), dim=-1)
    assert (
        model(**data, d_vectors=others, d_vectors_lengths=windows)[0] - loss
    ).abs() > 1e-3
    model.train()(**data)[0].backward()
    trained = {name for name, p in model.named_parameters() if p.grad is not None}
    assert any(name.startswith("decoder.query") for name in trained)
    assert not any(name.startswith("speaker_encoder") for name in trained)
