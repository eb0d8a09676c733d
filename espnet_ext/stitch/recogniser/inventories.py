"""Draw the speaker profiles that a model chooses from, and label who spoke."""

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.stitch.recogniser.profiles import average_profile
from espnet_ext.text.words import SPEAKER_CHANGE

SIZE = 8  # P4, 4.2: eight speakers in a session of LibriCSS


@dataclass(frozen=True)
class Inventories:
    """Make the inventory of each mixture.

    ``profiles`` has the enrolment utterances of each speaker, (utterances, E).

    Without an inventory of its own, a mixture has ``size`` profiles, of its speakers
    and of others, and a training profile is made of ``enrolment`` of the utterances;
    both are drawn again each time.
    """

    profiles: Mapping[str, np.ndarray]
    size: int = SIZE
    enrolment: int = 2

    def select(self, names: Sequence[str], owner: str) -> np.ndarray:
        """Return these speakers' profiles from all their enrolment utterances, (K, E).

        Raises InputError, which names the mixture ``owner``: no speaker, one twice, or
        one that has no profile.
        """
        _require_profiles(names, self.profiles, owner)
        return np.stack([average_profile(self.profiles[name]) for name in names])

    def draw(
        self, speakers: Sequence[str], owner: str, random: np.random.Generator
    ) -> tuple[list[str], np.ndarray]:
        """Draw an inventory for training: names in random order, and profiles, (K, E).

        The names are those of the mixture's ``speakers`` and of others.
        """
        _require_profiles(list(dict.fromkeys(speakers)), self.profiles, owner)
        names = draw_names(speakers, self.profiles, self.size, random)
        # Of some utterances only, so that a model sees several profiles of a speaker.
        rows = [self._draw_some(self.profiles[name], random) for name in names]
        return names, np.stack([average_profile(own) for own in rows])

    def _draw_some(self, rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
        if len(rows) <= self.enrolment:
            return rows
        return rows[random.choice(len(rows), self.enrolment, replace=False)]


def _require_profiles(names: Sequence[str], known: Collection[str], owner: str) -> None:
    if not names:
        raise InputError(f"{owner}: an inventory without speakers: name at least one")
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise InputError(
            f"{owner}: {twice} is in the inventory twice: name each speaker once"
        )
    missing = [name for name in names if name not in known]
    if missing:
        shown = ", ".join(missing[:3])
        if len(missing) > 3:
            shown += " ..."
        raise InputError(
            f"{owner}: no profile for {shown}: "
            "make the profiles of all speakers, or check the names"
        )


def draw_names(
    speakers: Sequence[str],
    known: Collection[str],
    size: int,
    random: np.random.Generator,
) -> list[str]:
    """Draw the names of an inventory, in random order.

    The names are of those who speak and, up to ``size``, of other known speakers.
    """
    names = list(dict.fromkeys(speakers))
    # Sorted: the order of a set differs from process to process.
    absent = sorted(set(known) - set(names))
    count = min(max(0, size - len(names)), len(absent))
    if count:
        names += random.choice(absent, count, replace=False).tolist()
    # In random order, as a model must not learn who speaks from the place.
    return random.permutation(names).tolist()


def write_inventories(
    speakers: Path, profiles: Path, output: Path, *, size: int = SIZE, seed: int = 0
) -> None:
    """Draw the inventory of each mixture of a set, and write them as a table.

    That of a mixture does not depend on the other mixtures.

    ``speakers``: ``text_speakers`` of the set; ``profiles``: ``profiles.scp`` of those
    to choose from; ``size``: profiles of an inventory, more if more people speak.
    Raises InputError for a speaker without a profile, or a size below 1.
    """
    if size < 1:
        raise InputError(
            f"inventories of {size} profiles were asked for: give at least 1"
        )
    known = set(read_table(profiles))
    rows: dict[str, str] = {}
    absent = 0
    for mixture, row in read_table(speakers).items():
        own = row.split()
        _require_profiles(list(dict.fromkeys(own)), known, mixture)
        # A generator for each mixture. Its seed is a checksum of the id, as Python's
        # hash of a string differs from process to process.
        random = np.random.default_rng([seed, zlib.crc32(mixture.encode())])
        names = draw_names(own, known, size, random)
        rows[mixture] = " ".join(names)
        absent += len(set(names) - set(own))
    write_table(output, rows)
    say(
        f"{len(rows)} mixtures, {absent / len(rows):.1f} profiles of absent speakers "
        f"each -> {output}"
    )


def label_segments(
    text: str, speakers: Sequence[str], inventory: Sequence[str], owner: str
) -> np.ndarray:
    """Return each utterance's speaker as a place in the inventory, (utterances,).

    The utterances are those of a serialised transcript.

    >>> speakers, inventory = ["x", "y", "x"], ["w", "x", "y"]
    >>> label_segments("A B <sc> C <sc> D", speakers, inventory, "mix-1").tolist()
    [1, 2, 1]
    """
    count = text.split().count(SPEAKER_CHANGE) + 1
    if count != len(speakers):
        raise InputError(
            f"{owner}: the transcript has {count} utterances between "
            f"{SPEAKER_CHANGE}, but {len(speakers)} speakers "
            "are given: name the speaker of each"
        )
    missing = next((name for name in speakers if name not in inventory), None)
    if missing is not None:
        raise InputError(
            f"{owner}: {missing} speaks, but is not in the inventory: add the "
            "speaker's profile to it"
        )
    return np.array([list(inventory).index(name) for name in speakers], dtype=np.int64)
