"""The loss per second of audio: its scale, and equal gradients at all lengths."""

import pytest
import torch
from espnet2.tasks.asr import ASRTask

TOKENS = ["<blank>", "<unk>", *"abcdefgh", "<sos/eos>"]
SECONDS = 160
RATE = 100
TOKENS_PER_SECOND = 3


@pytest.fixture
def build(build_model):
    """Return a function that builds a model by its name."""
    encoder = {
        "output_size": 32,
        "attention_heads": 2,
        "num_blocks": 2,
        "subsampling_channels": 8,
    }
    settings = {
        "token_list": TOKENS,
        "input_size": 20,
        "frontend": None,
        "normalize": None,
        "decoder": None,
    }
    settings |= {"encoder": "long_fastconformer", "encoder_conf": encoder}

    def build(model: str, **options):
        return build_model(
            ASRTask, **settings, model=model, model_conf={"ctc_weight": 1.0, **options}
        )

    return build


def batch(length: int) -> dict[str, torch.Tensor]:
    """The same audio and text, in sequences of ``length`` seconds."""
    generator = torch.Generator().manual_seed(1)
    speech = torch.randn(SECONDS * RATE, 20, generator=generator)
    text = torch.randint(2, 10, (SECONDS * TOKENS_PER_SECOND,), generator=generator)
    count = SECONDS // length
    return {
        "speech": speech.view(count, length * RATE, 20),
        "speech_lengths": torch.full((count,), length * RATE),
        "text": text.view(count, length * TOKENS_PER_SECOND),
        "text_lengths": torch.full((count,), length * TOKENS_PER_SECOND),
    }


def gradient_norm(model: torch.nn.Module, length: int) -> float:
    model.zero_grad()
    loss, _, _ = model(**batch(length))
    loss.sum().backward()
    return float(
        torch.linalg.vector_norm(
            torch.stack(
                [p.grad.norm() for p in model.parameters() if p.grad is not None]
            )
        )
    )


def test_gradients_of_equal_audio_are_equal_at_all_lengths(build):
    model = build("ctc_per_second")
    norms = {length: gradient_norm(model, length) for length in (5, 10, 40, 160)}
    assert max(norms.values()) < 1.3 * min(norms.values()), norms
    mean_of_utterances = build("espnet")
    assert gradient_norm(mean_of_utterances, 160) > 20 * gradient_norm(
        mean_of_utterances, 5
    )


@pytest.mark.parametrize("input_seconds", [0.01, 0.02])
def test_loss_is_espnets_sum_by_seconds(build, input_seconds):
    """With padding: 8 and 5 s of frames of 10 ms, or twice as long ones."""
    models = [build("espnet"), build("ctc_per_second", input_seconds=input_seconds)]
    assert list(models[0].state_dict()) == list(models[1].state_dict())
    given = {name: value[:2] for name, value in batch(8).items()} | {
        "speech_lengths": torch.tensor([800, 500])
    }
    given["text_lengths"] = torch.tensor([24, 12])
    (theirs, _, count), (ours, stats, seconds) = (model(**given) for model in models)
    torch.testing.assert_close(seconds, torch.tensor([1300 * input_seconds]))
    torch.testing.assert_close(ours * seconds, theirs * count)
    torch.testing.assert_close(stats["loss"], ours.detach())
    torch.testing.assert_close(stats["loss_ctc"], ours.detach())
