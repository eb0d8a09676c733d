"""Speaker profiles and the inventories that a model chooses speakers from.

Profiles are in Kaldi's ark format: of each speaker a matrix with a row for each enrolment utterance, of norm 1, or one
vector. A profile is the mean of the rows, brought to norm 1.
"""

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from espnet_ext.data.kaldi import read_table, write_table
from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write

CHANGE_SYMBOL = "<sc>"
SHOWN = 3


def read_profiles(paths: Sequence[str | Path]) -> dict[str, np.ndarray]:
    """Read ``profiles.scp`` files: speaker -> (enrolment utterances, E) float32.

    Raises:
        InputError: a file that is missing or cannot be read, a speaker that comes twice, values that are not finite, a
            profile of zeros, or profiles of different dimensions.
    """
    from omniio import kaldi  # the library that ESPnet reads ark files with

    profiles: dict[str, np.ndarray] = {}
    first = None
    for path in paths:
        for speaker, position in read_table(path).items():
            if speaker in profiles:
                raise InputError(f"{path}: {speaker} has a profile in another file too: keep one of them")
            try:
                rows = np.atleast_2d(np.asarray(kaldi.load_mat(position), dtype=np.float32))
            except Exception:  # a broken ark fails in as many ways as it can be broken
                raise InputError(f"{path}: {speaker}: no profile can be read from {position}: make them anew") from None
            if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all() or not rows.any(axis=1).all():
                raise InputError(f"{path}: {speaker}: its profile is empty, zero, NaN or infinite: make it anew")
            first = first or (speaker, rows.shape[1])
            if rows.shape[1] != first[1]:
                raise InputError(
                    f"{path}: {speaker}: a profile of {rows.shape[1]} dimensions, but that of {first[0]} has "
                    f"{first[1]}: make all with the same extractor"
                )
            profiles[speaker] = rows
    return profiles


def write_profiles(folder: str | Path, profiles: Mapping[str, np.ndarray]) -> Path:
    """Write ``profiles.ark`` and ``profiles.scp``, sorted by speaker; returns the path of the latter.

    Raises:
        InputError: there is no profile.
    """
    from omniio import kaldi

    if not profiles:
        raise InputError(f"{folder}: there are no profiles to write: give enrolment utterances")
    folder = Path(folder)
    ark, scp = folder / "profiles.ark", folder / "profiles.scp"
    positions = {}
    with atomic_write(ark, "wb") as file:
        for speaker in sorted(profiles):
            # Kaldi's position is that of the matrix, behind the name and a blank
            positions[speaker] = f"{ark.resolve()}:{file.tell() + len(speaker.encode()) + 1}"
            kaldi.save_ark(file, {speaker: profiles[speaker].astype(np.float32)})
    write_table(scp, positions)
    return scp


def profile(rows: np.ndarray) -> np.ndarray:
    """One profile of norm 1, (E,), from those of enrolment utterances, (utterances, E)."""
    mean = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).mean(axis=0)
    return mean / np.linalg.norm(mean)


@dataclass(frozen=True)
class Inventories:
    """The profiles that stand for choice with each mixture.

    Attributes:
        profiles: speaker -> enrolment utterances, (utterances, E).
        size: number of profiles of a mixture that comes without an inventory of its own: those of its speakers and of
            others, drawn anew each time.
        enrolment: how many of a speaker's enrolment utterances a training profile is made of, drawn anew each time.
    """

    profiles: Mapping[str, np.ndarray]
    size: int = 8
    enrolment: int = 2

    def of(self, names: Sequence[str], owner: str) -> np.ndarray:
        """The profiles of these speakers, of all enrolment utterances, (K, E).

        Args:
            names: the speakers, each once.
            owner: whose inventory it is, for the messages.

        Raises:
            InputError: no speaker, one twice, or one that has no profile.
        """
        self._check(names, owner)
        return np.stack([profile(self.profiles[name]) for name in names])

    def draw(self, speakers: Sequence[str], owner: str, random: np.random.Generator) -> tuple[list[str], np.ndarray]:
        """An inventory for training: the speakers and others in random order, and their profiles, (K, E).

        Raises:
            InputError: as :meth:`of`.
        """
        self._check(list(dict.fromkeys(speakers)), owner)
        names = draw_names(speakers, self.profiles, self.size, random)
        return names, np.stack([profile(self._some(self.profiles[name], random)) for name in names])

    def _some(self, rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
        if len(rows) <= self.enrolment:
            return rows
        return rows[random.choice(len(rows), self.enrolment, replace=False)]

    def _check(self, names: Sequence[str], owner: str) -> None:
        if not names:
            raise InputError(f"{owner}: an inventory without speakers: name at least one")
        if len(set(names)) < len(names):
            twice = next(name for name in names if list(names).count(name) > 1)
            raise InputError(f"{owner}: {twice} is in the inventory twice: name each speaker once")
        missing = [name for name in names if name not in self.profiles]
        if missing:
            raise InputError(
                f"{owner}: no profile for {', '.join(missing[:SHOWN])}{' ...' if len(missing) > SHOWN else ''}: "
                "make the profiles of all speakers, or check the names"
            )


def draw_names(speakers: Sequence[str], known: Collection[str], size: int, random: np.random.Generator) -> list[str]:
    """The names of an inventory: those who speak and, up to ``size``, others that are known, in random order."""
    present = list(dict.fromkeys(speakers))
    absent = sorted(set(known) - set(present))
    count = min(max(0, size - len(present)), len(absent))
    names = [*present, *random.choice(absent, count, replace=False).tolist()] if count else present
    return random.permutation(names).tolist()


def draw_inventories(
    spoken: Mapping[str, Sequence[str]], known: Collection[str], size: int, seed: int
) -> dict[str, list[str]]:
    """An inventory for each mixture, which does not depend on the other mixtures.

    Args:
        spoken: mixture -> its speakers.
        known: whoever has a profile.
        size: profiles of an inventory; more where more people speak.
        seed: of the choice.

    Raises:
        InputError: a speaker without a profile, or a size below 1.
    """
    if size < 1:
        raise InputError(f"inventories of {size} profiles were asked for: give at least 1")
    names = set(known)
    for mixture, speakers in spoken.items():
        missing = next((name for name in speakers if name not in names), None)
        if missing is not None:
            raise InputError(
                f"{mixture}: no profile for {missing}: make the profiles of all speakers, or check the names"
            )
    return {
        mixture: draw_names(speakers, names, size, np.random.default_rng([seed, zlib.crc32(mixture.encode())]))
        for mixture, speakers in spoken.items()
    }


def segment_labels(text: str, speakers: Sequence[str], inventory: Sequence[str], owner: str) -> np.ndarray:
    """Which profile is of the speaker of each utterance of a serialized transcript, (utterances,).

    >>> segment_labels("A B <sc> C <sc> D", ["x", "y", "x"], ["w", "x", "y"], "mix-1").tolist()
    [1, 2, 1]

    Raises:
        InputError: another number of speakers than of utterances, or a speaker that is not in the inventory.
    """
    count = text.split().count(CHANGE_SYMBOL) + 1
    if count != len(speakers):
        raise InputError(
            f"{owner}: the transcript has {count} utterances between {CHANGE_SYMBOL}, but {len(speakers)} speakers are "
            "given: name the speaker of each"
        )
    places = {name: place for place, name in enumerate(inventory)}
    missing = next((name for name in speakers if name not in places), None)
    if missing is not None:
        raise InputError(f"{owner}: {missing} speaks, but is not in the inventory: add the speaker's profile to it")
    return np.array([places[name] for name in speakers], dtype=np.int64)
