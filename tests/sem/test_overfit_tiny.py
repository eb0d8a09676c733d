"""A tiny model of the recipe's kind overfits four synthetic utterances."""

import numpy as np
import pytest
import torch
from espnet2.tasks.asr import ASRTask

WORDS = {"HIGH": 2500.0, "LOW": 300.0, "MID": 900.0}
TEXTS = ["HIGH LOW MID", "LOW LOW", "MID HIGH HIGH LOW", "LOW MID"]
TOKENS = ["<blank>", "<unk>", *sorted(WORDS), "<sos/eos>"]


def batch() -> dict[str, torch.Tensor]:
    """Each word is a tone of 0.3 s with its silence of 0.1 s, on a noise floor."""
    random = np.random.default_rng(0)
    time = np.arange(4800) / 16000
    waves = []
    for text in TEXTS:
        tones = [
            np.pad(0.3 * np.sin(2 * np.pi * WORDS[word] * time), (0, 1600))
            for word in text.split()
        ]
        wave = np.concatenate(tones)
        waves.append(
            torch.from_numpy(wave + 1e-3 * random.standard_normal(len(wave))).float()
        )
    labels = [
        torch.tensor([TOKENS.index(word) for word in text.split()]) for text in TEXTS
    ]
    order = sorted(range(len(waves)), key=lambda index: -len(waves[index]))
    pad = torch.nn.utils.rnn.pad_sequence
    return {
        "speech": pad([waves[index] for index in order], batch_first=True),
        "speech_lengths": torch.tensor([len(waves[index]) for index in order]),
        "text": pad(
            [labels[index] for index in order], batch_first=True, padding_value=-1
        ),
        "text_lengths": torch.tensor([len(labels[index]) for index in order]),
    }


@pytest.mark.parametrize("normalize", ["global_mvn", "sem_global_mvn"])
def test_tiny_model_overfits(build_model, tmp_path, normalize):
    data = batch()
    stats = {
        "count": 1000,
        "sum": np.full(40, 600.0),
        "sum_square": np.full(40, 1000 * (0.6**2 + 0.15**2)),
    }
    np.savez(tmp_path / "feats_stats.npz", **stats)
    model = build_model(
        ASRTask,
        token_list=TOKENS,
        frontend="power_mel",
        frontend_conf={},
        normalize=normalize,
        normalize_conf={"stats_file": str(tmp_path / "feats_stats.npz")},
        encoder="blstm_maxpool",
        encoder_conf={"num_layers": 3, "hidden_size": 24},
        decoder="weight_feedback_rnn",
        decoder_conf={
            "hidden_size": 24,
            "embed_size": 16,
            "attention_size": 24,
            "readout_size": 24,
        },
        model_conf={"ctc_weight": 0.5, "lsm_weight": 0.0},
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    model.train()
    first = model(**data)[0].item()
    for _ in range(60):
        optimizer.zero_grad()
        model(**data)[0].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        loss, stats, _ = model(**data)
    assert first > 5.0
    assert loss.item() < 0.5 and stats["acc"] > 0.99
