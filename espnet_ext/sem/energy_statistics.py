"""How the energy of speech is distributed over its time-frequency bins (P2, section 2).

Energies are compared within an utterance: ``eta = 10 log10(e / e_peak)`` in dB, with
``e_peak`` its 95th percentile (P2, eq. 2 and 3). The share of the energy is over all
bins of all utterances (eq. 4), so that loud ones weigh more.
"""

import dataclasses
import random
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from espnet_ext.errors import InputError
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples
from espnet_ext.sem.energy_mask import POWER, compute_mask, find_peak
from espnet_ext.sem.power_mel import PowerMelFrontend

STEP_DB = 0.5
# The edges of the histogram. Multiples of 1/2 are exact in binary, so no bin falls on
# the wrong side.
EDGES_DB = np.arange(-120.0, 40.0 + STEP_DB, STEP_DB)
SHOWN_THRESHOLDS_DB = (-40.0, -20.0, 0.0)  # P2, Fig. 3
EXAMPLE_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class EnergyHistogram:
    """Hold number and energy of the time-frequency bins by eta.

    Histograms of different utterances add up. ``counts``: bins below, between and from
    ``EDGES_DB`` on, without zero energy, (edges + 1,), integer; ``energies``: sum of
    the filterbank energies e[m, c] of the same bins; ``zeros``: bins with exactly zero
    energy, whose eta is minus infinity; ``utterances``: those counted; ``silent``:
    those left out, as their e_peak is zero and eta undefined.
    """

    counts: np.ndarray
    energies: np.ndarray
    zeros: int
    utterances: int
    silent: int = 0

    @classmethod
    def empty(cls) -> "EnergyHistogram":
        size = len(EDGES_DB) + 1
        return cls(
            np.zeros(size, dtype=np.int64), np.zeros(size), zeros=0, utterances=0
        )

    def __add__(self, other: "EnergyHistogram") -> "EnergyHistogram":
        sums = {name: mine + vars(other)[name] for name, mine in vars(self).items()}
        return EnergyHistogram(**sums)

    @property
    def total(self) -> int:
        """Return the number of bins, including those of zero energy."""
        return int(self.counts.sum()) + self.zeros

    def compute_density(self) -> np.ndarray:
        """Return the probability density of eta per dB, (edges - 1,).

        The density is that between the edges. Bins of zero energy count in the total,
        so with them the density integrates to less than 1.
        """
        # The first and the last count are of bins beyond the edges.
        return self.counts[1:-1] / (self.total * STEP_DB)

    def compute_share_below(self) -> np.ndarray:
        """Return the share of bins with eta below each edge: what is masked.

        Zero energy is included (P2, Fig. 1b).
        """
        return (np.cumsum(self.counts[:-1]) + self.zeros) / self.total

    def compute_energy_below(self) -> np.ndarray:
        """Return the share r_e of the energy with eta below each edge (P2, eq. 4)."""
        return np.cumsum(self.energies[:-1]) / self.energies.sum()


def find_edge(eta_db: float) -> int:
    """Return the index of a threshold in ``EDGES_DB``.

    ValueError: it is not one of the edges.
    """
    return EDGES_DB.tolist().index(eta_db)


def find_peak_energy(energies: torch.Tensor) -> float:
    """Return e_peak of one utterance with filterbank energies (T, C) (P2, eq. 2)."""
    return find_peak(energies.unsqueeze(0), torch.tensor([energies.size(0)])).item()


def count_bins(energies: torch.Tensor) -> EnergyHistogram:
    """Count the bins of one utterance with filterbank energies (T, C).

    One whose e_peak is zero adds only to ``silent``.
    """
    e_peak = find_peak_energy(energies)
    if e_peak <= 0.0:
        return dataclasses.replace(EnergyHistogram.empty(), silent=1)
    audible = energies[energies > 0.0]
    # 0: below the first edge; 1: from the first to the second; ...; len(EDGES_DB): from
    # the last edge on.
    eta = 10.0 * np.log10(audible.double().numpy() / e_peak)  # P2, eq. 3
    place = np.searchsorted(EDGES_DB, eta, side="right")
    size = len(EDGES_DB) + 1
    return EnergyHistogram(
        counts=np.bincount(place, minlength=size),
        energies=np.bincount(place, audible.double().numpy(), minlength=size),
        zeros=energies.numel() - audible.numel(),
        utterances=1,
    )


def draw_utterances(
    utterances: Mapping[str, AudioSpan], count: int, seed: int
) -> list[str]:
    """Draw up to ``count`` ids without replacement, sorted.

    Ids are the same for the same seed. Raises InputError: count < 1.
    """
    if count < 1:
        raise InputError(f"{count} utterances were asked for: ask for at least 1")
    # Sorted first: the same draw whatever the order of the table.
    ids = sorted(utterances)
    return ids if count >= len(ids) else sorted(random.Random(seed).sample(ids, count))


def survey_energies(
    spans: Mapping[str, AudioSpan],
    frontend: PowerMelFrontend,
) -> tuple[EnergyHistogram, str]:
    """Return the histogram of utterances, and one that is a good example.

    The example is the longest below ``EXAMPLE_SECONDS``, or the shortest. One utterance
    is in memory at a time; its audio must have the frontend's sampling rate. Raises
    InputError for bad audio (:func:`espnet_ext.kaldi.utterance_audio.read_samples`), or
    if all utterances are silent.
    """
    histogram = EnergyHistogram.empty()
    example = (float("inf"), "")
    limit = EXAMPLE_SECONDS * frontend.fs
    for utterance, span in tqdm(spans.items(), desc="energies", unit="utt"):
        energies, samples = read_energies(utterance, span, frontend)
        part = count_bins(energies)
        histogram += part
        if part.utterances:
            # Below the limit, longer is better (negative, so always first); above it,
            # shorter is.
            rank = -samples if samples < limit else samples
            example = min(example, (rank, utterance))
    if not histogram.utterances:
        raise InputError(
            f"all {len(spans)} utterances are silent (e_peak is zero): choose "
            "data that holds speech"
        )
    return histogram, example[1]


def read_energies(
    utterance: str,
    span: AudioSpan,
    frontend: PowerMelFrontend,
) -> tuple[torch.Tensor, int]:
    """Return an utterance's filterbank energies, (T, C), and number of samples.

    Energies are those of P2, eq. 1.
    """
    samples = read_samples(utterance, span, frontend.fs)
    with torch.inference_mode():
        (energies,) = frontend.energies(torch.from_numpy(samples).unsqueeze(0))
    return energies, len(samples)


@dataclass(frozen=True, eq=False)
class MaskExample:
    """Hold an utterance's power-mel spectrogram, (T, C), and masks (P2, Fig. 3).

    ``kept``: threshold in dB -> where a bin is kept, (T, C) (P2, eq. 8);
    ``hop_seconds``: distance between frames.
    """

    utterance: str
    features: np.ndarray
    kept: dict[float, np.ndarray]
    hop_seconds: float

    def compute_masked_share(self, eta_db: float) -> float:
        """Return the share of the bins that are masked at this threshold."""
        return 1.0 - float(self.kept[eta_db].mean())


def make_mask_example(
    utterance: str,
    span: AudioSpan,
    frontend: PowerMelFrontend,
    thresholds_db: tuple[float, ...] = SHOWN_THRESHOLDS_DB,
) -> MaskExample:
    """Mask an utterance at fixed thresholds, with the functions of the training.

    Raises InputError: it is silent.
    """
    energies, _ = read_energies(utterance, span, frontend)
    x = energies.pow(POWER).unsqueeze(0)
    lengths = torch.tensor([energies.size(0)])
    if find_peak_energy(energies) <= 0.0:
        raise InputError(
            f"{span.path}: utterance {utterance}: silent (e_peak is zero): name "
            "another utterance"
        )
    kept = {}
    for eta in thresholds_db:
        (mask,) = compute_mask(x, lengths, torch.tensor([eta]))
        kept[eta] = mask.numpy()
    return MaskExample(utterance, x[0].numpy(), kept, frontend.hop_length / frontend.fs)


def list_values(histogram: EnergyHistogram, example: MaskExample) -> dict:
    """Return the numbers behind the figures, for a file of facts.

    Shares are from 0 to 1, below each 10 dB.
    """
    marks = {}
    for eta in np.arange(-80.0, 1.0, 10.0).tolist():
        marks[f"{eta:g}"] = find_edge(eta)
    share = histogram.compute_share_below()
    energy = histogram.compute_energy_below()
    return {
        "utterances": histogram.utterances,
        "silent_utterances_left_out": histogram.silent,
        "bins": histogram.total,
        "zero_energy_bins": histogram.zeros,
        "bins_below": {name: float(share[index]) for name, index in marks.items()},
        "energy_below": {name: float(energy[index]) for name, index in marks.items()},
        "example": {
            "utterance": example.utterance,
            "frames": len(example.features),
            "masked": {
                f"{eta:g}": example.compute_masked_share(eta) for eta in example.kept
            },
        },
    }
