"""Who says which word: turns are found from d-vectors of all runs of words, not from
pauses.

D-vectors depend on the length of a run, whose mean is subtracted. Voices, clusters of
these, and turns, their most likely sequence (Viterbi), are estimated in turn. It begins
with too many voices, and merges those that are alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

UNKNOWN = "unknown"
MOST = 10  # voices to begin with; twice as many as are asked for, if that is more
EACH = 4.0  # seconds of speech for each of them
CHUNK = 1.2  # seconds of the runs that are clustered first
PAUSE = 0.4  # seconds of a pause, which ends these
CLUSTERED = (
    2000  # of these, at most: clustering needs memory in proportion to the square
)
FEWEST = 2.0  # seconds of a voice's words, at least, where there are others
CHANGE = 0.02  # of a speaker, in seconds times cosine
SAME_VOICE = 0.82  # cosine above which two voices are one
SURE, UNSURE = (
    0.85,
    0.32,
)  # with few seconds a voice is unsure: above 0.85 - 0.32 / seconds, if that is less
SPOKEN, SHARE = (
    5.0,
    0.2,
)  # seconds of a speaker's words, at least, but no more than this share of all
KNOWN = 0.75  # cosine of a voice and a profile, less UNSURE / seconds
LONG = (
    0.8  # seconds from which a d-vector can be compared with those of other recordings
)
ROUNDS, AGAIN = 5, 2  # of estimation: at first, and after two voices were merged
LENGTHS = (
    0.3,
    0.5,
    0.8,
    1.2,
    1.6,
)  # seconds between which runs are about as long as each other


@dataclass(frozen=True)
class Runs:
    """The runs of a recording's words, by their first word, then by their length."""

    vectors: np.ndarray  # of norm 1, (runs, E)
    seconds: np.ndarray  # lengths without pauses, (runs,)
    first: np.ndarray  # the first run that begins with each word, (words + 1,)
    pauses: np.ndarray  # before each word, in seconds, (words,)

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def words(self) -> np.ndarray:
        """The first word of each run, (runs,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    @property
    def counts(self) -> np.ndarray:
        """The number of words of each run, (runs,)."""
        return np.arange(len(self.seconds)) - self.first[self.words] + 1


@dataclass(frozen=True)
class Voices:
    """Voices of a recording."""

    centred: np.ndarray  # for comparisons within the recording, of norm 1, (K, E)
    plain: np.ndarray  # for comparisons with other voices, of norm 1, (K, E)
    seconds: np.ndarray  # of their words, (K,)


def find_turns(
    runs: Runs,
    profiles: Mapping[str, np.ndarray] | None = None,
    number: int | None = None,
) -> list[str]:
    """Return the speaker of each word: speaker1, speaker2 ... in the order in which
    they are first heard.

    With ``profiles`` of enrolled speakers, (E,) each, these have their names, and
    others are ``unknown``. ``number`` is that of the speakers, if it is known.
    """
    if not len(runs):
        return []
    centred = centre(runs)
    most = max(
        2, min(MOST, int(runs.seconds[runs.first[:-1]].sum() / EACH)), 2 * (number or 0)
    )
    voices = _estimated(runs, centred, _first_voices(runs, centred, most), ROUNDS)
    if profiles:
        names = match(voices, profiles)
        known = sorted(set(names))
        merged = [
            voices.centred[[name == other for other in names]]
            for name in known
            if name != UNKNOWN
        ]
        start = [each.mean(axis=0) for each in merged] + [
            vector
            for vector, name in zip(voices.centred, names, strict=True)
            if name == UNKNOWN
        ]
        voices = _estimated(runs, centred, unit(np.stack(start)), AGAIN)
        names = match(voices, profiles)
        return [names[voice] for voice in decode(runs, centred @ voices.centred.T)]
    while len(voices.seconds) > 1:
        pair = _most_alike(voices, number)
        if pair is None:
            break
        one, other = pair
        left = voices.centred * voices.seconds[:, None]
        left[one] += left[other]
        voices = _estimated(runs, centred, unit(np.delete(left, other, axis=0)), AGAIN)
    found = decode(runs, centred @ voices.centred.T).tolist()
    order = {
        voice: number for number, voice in enumerate(dict.fromkeys(found), start=1)
    }
    return [f"speaker{order[voice]}" for voice in found]


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors, (..., E), to norm 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-8)


def centre(runs: Runs) -> np.ndarray:
    """Return d-vectors less the mean of those of runs of about the same length, of norm
    1, (runs, E).
    """
    kinds, centred = np.digitize(runs.seconds, LENGTHS), np.empty_like(runs.vectors)
    for kind in np.unique(kinds):
        own = kinds == kind
        centred[own] = unit(runs.vectors[own] - runs.vectors[own].mean(axis=0))
    return centred


def decode(runs: Runs, likeness: np.ndarray) -> np.ndarray:
    """Return the best voice of each word, (words,), by the likeness of each run to each
    voice, (runs, K).

    A stretch of words of one voice scores its seconds times the mean likeness of all
    runs within it, so that a word from another voice at its edge costs what that word
    alone is unlike.
    """
    words, voices = len(runs), likeness.shape[1]
    sums = np.empty_like(likeness)
    for word in reversed(range(words)):
        start, end = runs.first[word], runs.first[word + 1]
        sums[start:end] = likeness[start:end].cumsum(axis=0)
        sums[start + 1 : end] += sums[end : end + (end - start - 1)]
    counts = runs.counts
    scores = sums * (runs.seconds / (counts * (counts + 1) / 2))[:, None]
    best = np.full((words + 1, voices), -np.inf)
    best[0] = 0.0
    before = np.zeros(
        (words + 1, voices, 2), dtype=np.int64
    )  # the first word of a stretch, the voice before it
    for word in range(words):
        stay, other = best[word], int(best[word].argmax())
        changed = stay < stay[other] - CHANGE
        came, level = (
            np.where(changed, other, np.arange(voices)),
            np.where(changed, stay[other] - CHANGE, stay),
        )
        for end, row in enumerate(
            level + scores[runs.first[word] : runs.first[word + 1]], start=word + 1
        ):
            better = row > best[end]
            best[end][better] = row[better]
            before[end][better, 0] = word
            before[end][better, 1] = came[better]
    labels, end, voice = (
        np.empty(words, dtype=np.int64),
        words,
        int(best[words].argmax()),
    )
    while end:
        start, previous = before[end, voice]
        labels[start:end] = voice
        end, voice = start, previous
    return labels


def _first_voices(runs: Runs, centred: np.ndarray, most: int) -> np.ndarray:
    """Return voices to begin with, (K, E): runs without a pause, one after another, by
    average linkage.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    chunks, word = list[int](), 0
    while word < len(runs):
        own = range(runs.first[word], runs.first[word + 1])
        last = own[0]
        for count, row in enumerate(own[1:], start=1):
            if runs.seconds[row] > CHUNK or runs.pauses[word + count] >= PAUSE:
                break
            last = row
        chunks.append(last)
        word += last - own[0] + 1
    # a run that is the only one of its length is its own mean
    long = [
        row for row in chunks if runs.seconds[row] >= CHUNK / 2 and centred[row].any()
    ] or chunks[:1]
    rows = np.array(long[:: -(-len(long) // CLUSTERED)])
    if len(rows) == 1:
        return centred[rows]
    found = fcluster(linkage(centred[rows], "average", "cosine"), most, "maxclust")
    mass = {
        label: runs.seconds[rows[found == label]].sum() for label in np.unique(found)
    }
    enough = [label for label in mass if mass[label] >= FEWEST] or [
        max(mass, key=mass.__getitem__)
    ]
    return np.stack(
        [_mean(centred, runs.seconds, rows[found == label]) for label in enough]
    )


def _mean(vectors: np.ndarray, seconds: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return unit((vectors[rows] * seconds[rows, None]).sum(axis=0))


def _estimated(
    runs: Runs, centred: np.ndarray, vectors: np.ndarray, rounds: int
) -> Voices:
    """Find turns and estimate their voices again, some times; voices with few seconds
    are left out.
    """
    alone = runs.seconds[runs.first[:-1]]
    for _ in range(rounds):
        labels = decode(runs, centred @ vectors.T)
        ends = np.append(np.flatnonzero(np.diff(labels)) + 1, len(labels))  # of turns
        last = ends[np.searchsorted(ends, np.arange(len(labels)), side="right")]
        inside = runs.words + runs.counts <= last[runs.words]
        seconds = np.bincount(labels, alone, len(vectors))
        enough = (
            np.flatnonzero(seconds >= FEWEST)
            if seconds.max() >= FEWEST
            else np.array([seconds.argmax()])
        )
        rows = [
            np.flatnonzero(inside & (labels[runs.words] == voice)) for voice in enough
        ]
        vectors = np.stack([_mean(centred, runs.seconds, own) for own in rows])
    long = [own[runs.seconds[own] >= LONG] for own in rows]
    plain = [
        _mean(runs.vectors, runs.seconds, few if len(few) else own)
        for few, own in zip(long, rows, strict=True)
    ]
    return Voices(vectors, np.stack(plain), seconds[enough])


def _most_alike(voices: Voices, number: int | None) -> tuple[int, int] | None:
    """Return the pair of voices to merge; None: all are different."""
    fewer = np.minimum(voices.seconds[:, None], voices.seconds)
    limits = np.minimum(SAME_VOICE, SURE - UNSURE / fewer)
    limits[fewer < min(SPOKEN, SHARE * voices.seconds.sum())] = -1.0
    margins = voices.plain @ voices.plain.T - limits - 9 * np.eye(len(voices.seconds))
    one, other = np.unravel_index(margins.argmax(), margins.shape)
    merge = len(voices.seconds) > number if number else margins[one, other] > 0
    return (int(one), int(other)) if merge else None


def match(voices: Voices, profiles: Mapping[str, np.ndarray]) -> list[str]:
    """Return the enrolled speaker of each voice; ``unknown`` where none is near enough."""
    names = list(profiles)
    cosines = voices.plain @ np.stack([profiles[name] for name in names]).T
    return [
        names[best] if row[best] >= limit else UNKNOWN
        for row, best, limit in zip(
            cosines,
            cosines.argmax(axis=1),
            KNOWN - UNSURE / voices.seconds,
            strict=True,
        )
    ]
