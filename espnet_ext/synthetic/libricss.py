"""A synthetic corpus in LibriCSS's layout, with the synthetic LibriSpeech whose
``test-clean`` it replays.

``LibriCSS/`` also holds what the real corpus's repository has: the enrolment list and
the STM references.
"""

import json
import string
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import soundfile
from scipy.signal import fftconvolve

from espnet_ext.audio.files import save_audio
from espnet_ext.corpora.checks import Faults
from espnet_ext.corpora.libricss import (
    CHANNELS,
    CONDITIONS,
    ENROLMENT_LIST,
    FOLDER,
    MEETING_INFO,
    SAMPLING_RATE,
    SPEAKERS,
    speech_segments,
)
from espnet_ext.corpora.librispeech import scan_librispeech
from espnet_ext.synthetic.acoustics import CLEAN, draw_scene
from espnet_ext.synthetic.librispeech import FORMAT as LIBRISPEECH_FORMAT
from espnet_ext.synthetic.librispeech import write_corpus
from espnet_ext.synthetic.overlap import Part, SourceUtterance, draw_distances, place
from espnet_ext.synthetic.parameters import (
    LIBRICSS_SIZES,
    WHAT,
    LibriCssSize,
    generator,
    size_called,
)
from espnet_ext.text.words import overlap_ratio
from espnet_ext.work.once import fingerprint, make_folder
from espnet_ext.work.parallel import map_shards

FORMAT = 1  # increase it when the same parameters no longer give the same bytes
PART = "test-clean"
# Condition -> share of overlap in percent, and seconds of silence between groups, as in
# the sessions' names.
_OVERLAPS = {"0S": (0, (0.1, 0.5)), "0L": (0, (2.9, 3.0))} | {
    f"OV{n}": (n, (0.1, 1.0)) for n in (10, 20, 30, 40)
}
_NOISE = 10 ** (-35 / 20)  # of the loudest channel's power
_FARTHEST = 8  # samples between the arrivals at two microphones


@dataclass(frozen=True)
class Session:
    """The work of one shard: a session's folder, its utterances and their starts, and
    those left for enrolment.
    """

    folder: str
    parts: tuple[Part, ...]
    unused: dict[str, list[str]]
    seed: int

    @property
    def name(self) -> str:
        return Path(self.folder).name


def make_libricss(
    output: str | Path, size: str = "mini", seed: int = 0, nj: int = 1
) -> bool:
    """Write a synthetic LibriSpeech and a synthetic LibriCSS, the folders
    ``LibriSpeech`` and ``LibriCSS``.

    ``size`` is a key of ``LIBRICSS_SIZES``; the rest is as in
    :func:`espnet_ext.synthetic.librispeech.make_librispeech`.
    """
    wanted = size_called(size, LIBRICSS_SIZES)
    parameters = {
        "corpus": "libricss", "format": [FORMAT, LIBRISPEECH_FORMAT], "size": asdict(wanted), "conditions": _OVERLAPS,
        "seed": seed,
    }  # fmt: skip
    return make_folder(
        output,
        fingerprint(parameters),
        lambda folder: _write_corpora(folder, wanted, seed, nj),
        WHAT,
    )


def _write_corpora(folder: Path, size: LibriCssSize, seed: int, nj: int) -> None:
    (folder / "LibriSpeech").mkdir()
    write_corpus(folder / "LibriSpeech", size.librispeech, seed, nj)
    sources = read_part(folder / "LibriSpeech")
    root = folder / "LibriCSS"
    sessions = [
        draw_session(root / FOLDER / condition, condition, number, sources, size, seed)
        for condition in CONDITIONS
        for number in range(size.sessions)
    ]
    map_shards(write_session, sessions, nj=nj, describe="synthetic LibriCSS")
    segments = {
        session.name: [
            [round(time * SAMPLING_RATE) for time in span]
            for span in _segments(session)
        ]
        for session in sessions
    }
    (root / FOLDER / "all_res.json").write_text(
        json.dumps(segments) + "\n", encoding="utf-8"
    )
    (root / "speaker_enrollment").mkdir()
    (root / "speaker_enrollment" / ENROLMENT_LIST).write_text(
        "".join(json.dumps(_enrolment(session)) + "\n" for session in sessions),
        encoding="utf-8",
    )
    for session in sessions:
        references = root / "scoring" / "references" / session.name
        references.mkdir(parents=True)
        for number, span in enumerate(_segments(session)):
            (references / f"segment_{number}.stm").write_text(
                _stm(session, number, span), encoding="utf-8"
            )


def read_part(corpus: Path) -> list[SourceUtterance]:
    """Read the utterances that sessions are made of, by id."""
    scanned = scan_librispeech(corpus, [PART], Faults(corpus, corpus / "faults.txt"))[
        PART
    ]
    seconds = {key: soundfile.info(path).duration for key, (path, _) in scanned.items()}
    return [
        SourceUtterance(
            key, key.split("-")[0], str(path), seconds[key], tuple(text.split())
        )
        for key, (path, text) in scanned.items()
    ]


def draw_session(
    folder: Path,
    condition: str,
    number: int,
    sources: Sequence[SourceUtterance],
    size: LibriCssSize,
    seed: int,
) -> Session:
    """Draw eight speakers, their utterances and when each is played. The session's name
    tells the actual overlap.
    """
    percent, silence = _OVERLAPS[condition]
    rng = generator(seed, "session", condition, number)
    every = sorted({source.speaker for source in sources})
    speakers = {str(speaker) for speaker in rng.choice(every, SPEAKERS, replace=False)}
    chosen: list[SourceUtterance] = []
    unused: dict[str, list[str]] = {}
    for speaker in sorted(speakers):
        own = [source for source in sources if source.speaker == speaker]
        picked = {
            int(index) for index in rng.choice(len(own), size.utterances, replace=False)
        }
        chosen += [own[index] for index in sorted(picked)]
        unused[speaker] = [
            source.id for index, source in enumerate(own) if index not in picked
        ]
    rng.shuffle(chosen)
    parts: list[Part] = []
    clock = 0.0
    group = size.group if percent else 1
    for first in range(0, len(chosen), group):
        members = chosen[first : first + group]
        begin = clock + rng.uniform(*silence)
        starts = place(members, draw_distances(len(members), rng), percent / 100)
        parts += [
            Part(source, round(begin + start, 4))
            for source, start in zip(members, starts, strict=True)
        ]
        clock = max(part.end for part in parts)
    actual = 100 * overlap_ratio([(part.start, part.end) for part in parts])
    name = f"overlap_ratio_{percent}.0_sil{silence[0]}_{silence[1]}_session{number}_actual{actual:.1f}"
    return Session(str(folder / name), tuple(parts), unused, seed)


def write_session(session: Session) -> float:
    """Write a session's audio and its ``meeting_info.txt``. Returns its seconds."""
    folder = Path(session.folder)
    for name in ("record", "clean", "transcription"):
        (folder / name).mkdir(
            parents=True, exist_ok=True
        )  # a shard may run again after its worker died
    length = round((max(part.end for part in session.parts) + 0.5) * SAMPLING_RATE)
    clean = np.zeros((length, SPEAKERS))
    speakers = sorted({part.source.speaker for part in session.parts})
    for part in session.parts:
        samples, _ = soundfile.read(part.source.path)
        start = round(part.start * SAMPLING_RATE)
        clean[start : start + len(samples), speakers.index(part.source.speaker)] += (
            samples
        )
    _write(folder / "clean" / "mix.wav", clean.sum(axis=1))
    _write(folder / "record" / "raw_recording.wav", _replay(clean, session))
    lines = [
        "\t".join(
            ("start_time", "end_time", "speaker", "utterance_id", "transcription")
        )
    ]
    lines += [
        f"{part.start:.4f}\t{part.end:.4f}\t{part.source.speaker}\t{part.source.id}\t{' '.join(part.source.words)}"
        for part in session.parts
    ]
    (folder / "transcription" / MEETING_INFO).write_text(
        "\n".join(lines) + "\n", encoding="utf-8"
    )
    return length / SAMPLING_RATE


def _write(path: Path, samples: np.ndarray) -> None:
    samples = samples * min(1.0, 0.89 / max(float(np.abs(samples).max()), 1e-9))
    save_audio(
        path,
        np.round(samples * 32767).astype(np.int16),
        SAMPLING_RATE,
        subtype="PCM_16",
    )


def _replay(clean: np.ndarray, session: Session) -> np.ndarray:
    """Replay (samples, speakers) from eight places in a room before seven microphones:
    (samples, channels).
    """
    rng = generator(session.seed, "room", session.name)
    heard = np.zeros((len(clean), CHANNELS))
    for speaker in range(clean.shape[1]):
        response = draw_scene(CLEAN, [], rng).impulse_response
        wet = fftconvolve(clean[:, speaker], response)[: len(clean)]
        for channel in range(CHANNELS):
            delay = int(rng.integers(_FARTHEST + 1))
            heard[delay:, channel] += rng.uniform(0.7, 1.0) * wet[: len(wet) - delay]
    noise = _NOISE * np.sqrt(np.mean(heard**2, axis=0).max())
    return heard + noise * rng.standard_normal(heard.shape)


def _segments(session: Session) -> list[tuple[float, float]]:
    return speech_segments((part.start, part.end) for part in session.parts)


def _enrolment(session: Session) -> dict:
    used: dict[str, list[str]] = {speaker: [] for speaker in session.unused}
    for part in session.parts:
        used[part.source.speaker].append(part.source.id)
    return {"dataid": session.name, "unused_uttid": session.unused, "used_uttid": used}


def _stm(session: Session, number: int, span: tuple[float, float]) -> str:
    """Write the reference of a segment: each utterance on the first track that is free,
    whoever speaks it.
    """
    free_at: list[float] = []
    lines = []
    for part in session.parts:
        if not span[0] <= part.start < span[1]:
            continue
        track = next(
            (index for index, end in enumerate(free_at) if end <= part.start),
            len(free_at),
        )
        free_at[track : track + 1] = [part.end]
        times = f"{part.start - span[0]:.2f} {part.end - span[0]:.2f}"
        words = " ".join(part.source.words)
        lines.append(
            f"{session.name}_{number} 0 {string.ascii_uppercase[track]} {times} "
            f"<O,N> {words}\n"
        )
    return "".join(lines)
