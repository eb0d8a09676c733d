"""The statistics of P2, eq. 2 to 4, against the equations written out in numpy on all
bins at once.
"""

import json

import numpy as np
import pytest
import soundfile
import torch

from espnet_ext.errors import InputError
from espnet_ext.kaldi.utterance_audio import AudioSpan
from espnet_ext.sem import energy_statistics
from espnet_ext.sem.power_mel import PowerMelFrontend

RATE = 16000


def random_energies(seed: int, frames: int = 200) -> np.ndarray:
    """Energies over 100 dB, at a loudness of their own."""
    generator = np.random.default_rng(seed)
    return (
        10.0
        ** (generator.normal(-30.0, 20.0, (frames, 40)) / 10.0 + generator.normal())
    ).astype(np.float32)


def eta_of(energies: np.ndarray) -> np.ndarray:
    e_peak = np.percentile(energies, 95.0, method="inverted_cdf").astype(np.float64)
    with np.errstate(divide="ignore"):
        return 10.0 * np.log10(energies.astype(np.float64) / e_peak)


def accumulated(arrays: list[np.ndarray]) -> energy_statistics.EnergyHistogram:
    return sum(
        (energy_statistics.count_bins(torch.from_numpy(array)) for array in arrays),
        energy_statistics.EnergyHistogram.empty(),
    )


def test_shares_over_several_utterances_are_those_of_all_bins_together():
    arrays = [
        random_energies(seed, frames) for seed, frames in enumerate((50, 200, 333))
    ]
    arrays[1][:20] = 0.0
    histogram = accumulated(arrays)
    eta = np.concatenate([eta_of(array).ravel() for array in arrays])
    energy = np.concatenate([array.ravel() for array in arrays]).astype(np.float64)
    assert histogram.utterances == 3
    assert histogram.zeros == 20 * 40
    assert histogram.total == eta.size
    for threshold in (-120.0, -90.0, -40.0, -20.0, -0.5, 0.0, 0.5, 10.0, 40.0):
        index = energy_statistics.find_edge(threshold)
        assert histogram.compute_share_below()[index] == pytest.approx(
            (eta < threshold).mean(), abs=1e-12
        )
        assert histogram.compute_energy_below()[index] == pytest.approx(
            energy[eta < threshold].sum() / energy.sum(), rel=1e-9, abs=1e-15
        )


def test_density_is_numpys_histogram():
    energies = random_energies(5)
    eta = eta_of(energies).ravel()
    inside = (eta >= energy_statistics.EDGES_DB[0]) & (
        eta < energy_statistics.EDGES_DB[-1]
    )
    expected, _ = np.histogram(
        eta[inside], bins=energy_statistics.EDGES_DB, density=True
    )
    density = accumulated([energies]).compute_density()
    np.testing.assert_allclose(density, expected * inside.mean(), atol=1e-12)


def test_a_bin_on_the_threshold_is_not_below_it():
    # 100 bins: the 95th is the peak. Eq. 8 keeps e >= e_th, and eta of the peak itself
    # is exactly 0.
    energies = torch.cat([torch.full((94,), 1e-6), torch.full((6,), 3.0)]).reshape(
        10, 10
    )
    histogram = energy_statistics.count_bins(energies)
    assert histogram.compute_share_below()[
        energy_statistics.find_edge(0.0)
    ] == pytest.approx(0.94)
    assert histogram.compute_share_below()[energy_statistics.find_edge(0.5)] == 1.0


def test_share_below_is_the_share_that_the_training_mask_takes(tmp_path):
    span = audio(tmp_path, "a", seconds=3.0)
    frontend = PowerMelFrontend()
    histogram = energy_statistics.survey_energies({"a": span}, frontend)[0]
    example = energy_statistics.make_mask_example("a", span, frontend)
    assert list(example.kept) == [-40.0, -20.0, 0.0]
    for eta in example.kept:
        # float32 features against float64 energies: a bin may lie on the threshold.
        assert example.compute_masked_share(eta) == pytest.approx(
            histogram.compute_share_below()[energy_statistics.find_edge(eta)], abs=2e-4
        )
    assert (
        0.0
        < example.compute_masked_share(-40.0)
        < example.compute_masked_share(-20.0)
        < example.compute_masked_share(0.0)
        < 1.0
    )


def test_silent_utterance_is_left_out_and_counted():
    energies = random_energies(7)
    histogram = accumulated([np.zeros((10, 40), dtype=np.float32), energies])
    assert (histogram.utterances, histogram.silent) == (1, 1)
    assert histogram.total == energies.size


def test_choice_is_seeded_and_sorted_and_without_repetition():
    spans = {f"u{index:03d}": AudioSpan("x") for index in range(100)}
    first = energy_statistics.draw_utterances(spans, 10, seed=1)
    assert first == sorted(set(first))
    assert len(first) == 10
    assert first == energy_statistics.draw_utterances(
        dict(reversed(spans.items())), 10, seed=1
    )
    assert first != energy_statistics.draw_utterances(spans, 10, seed=2)
    assert energy_statistics.draw_utterances(spans, 1000, seed=1) == list(spans)
    with pytest.raises(InputError, match="0 utterances"):
        energy_statistics.draw_utterances(spans, 0, seed=1)


def audio(folder, name: str, seconds: float, loudness: float = 0.3) -> AudioSpan:
    """Noise in bursts, so that energies differ by tens of dB."""
    generator = np.random.default_rng(len(name) + round(1000 * seconds))
    samples = generator.normal(size=round(seconds * RATE)) * loudness / 4.0
    samples *= np.where(np.arange(samples.size) // (RATE // 4) % 2, 1.0, 0.003)
    soundfile.write(folder / f"{name}.wav", samples, RATE)
    return AudioSpan(str(folder / f"{name}.wav"))


def test_example_is_the_longest_below_ten_seconds_that_is_not_silent(tmp_path):
    seconds = {"short": 1.0, "good": 4.0, "long": 10.0}
    spans = {name: audio(tmp_path, name, length) for name, length in seconds.items()}
    spans["silent"] = audio(tmp_path, "silent", 6.0, loudness=0.0)
    assert energy_statistics.survey_energies(spans, PowerMelFrontend())[1] == "good"


def test_only_silence_is_refused(tmp_path):
    span = audio(tmp_path, "silent", 1.0, loudness=0.0)
    with pytest.raises(InputError, match="all 1 utterances are silent"):
        energy_statistics.survey_energies({"silent": span}, PowerMelFrontend())
    with pytest.raises(InputError, match="silent.wav: utterance silent: silent"):
        energy_statistics.make_mask_example("silent", span, PowerMelFrontend())


def test_values_are_plain(tmp_path):
    span = audio(tmp_path, "a", 2.0)
    frontend = PowerMelFrontend()
    histogram = energy_statistics.survey_energies({"a": span}, frontend)[0]
    values = json.loads(
        json.dumps(
            energy_statistics.list_values(
                histogram, energy_statistics.make_mask_example("a", span, frontend)
            ),
            allow_nan=False,
        )
    )
    assert list(values["example"]["masked"]) == ["-40", "-20", "0"]
    assert (
        values["bins_below"]["-20"]
        == histogram.compute_share_below()[energy_statistics.find_edge(-20.0)]
    )
    assert values["bins"] == 198 * 40
