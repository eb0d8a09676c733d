"""Make a synthetic LibriCSS, and the synthetic LibriSpeech that it replays.

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
    find_speech_segments,
)
from espnet_ext.corpora.librispeech import scan_librispeech
from espnet_ext.synthetic.acoustics import CLEAN, draw_scene
from espnet_ext.synthetic.librispeech import FORMAT as LIBRISPEECH_FORMAT
from espnet_ext.synthetic.librispeech import write_corpus
from espnet_ext.synthetic.overlap import (
    Part,
    SourceUtterance,
    draw_distances,
    place_utterances,
)
from espnet_ext.synthetic.parameters import (
    LIBRICSS_SIZES,
    WHAT,
    LibriCssSize,
    find_size,
    make_generator,
)
from espnet_ext.text.words import measure_overlap_ratio
from espnet_ext.work.once import fingerprint, make_folder
from espnet_ext.work.parallel import map_shards

FORMAT = 1  # increase it when the same parameters no longer give the same bytes
PART = "test-clean"
# Condition -> share of overlap in percent, and seconds of silence between groups, as in
# the sessions' names.
_OVERLAPS = {
    "0S": (0, (0.1, 0.5)),
    "0L": (0, (2.9, 3.0)),
    "OV10": (10, (0.1, 1.0)),
    "OV20": (20, (0.1, 1.0)),
    "OV30": (30, (0.1, 1.0)),
    "OV40": (40, (0.1, 1.0)),
}
_NOISE = 10 ** (-35 / 20)  # of the loudest channel's power
_FARTHEST = 8  # samples between the arrivals at two microphones
_PEAK = 0.89  # 1 dB below full scale


@dataclass(frozen=True)
class Session:
    """The work of one shard: a session.

    ``unused`` are the ids of each speaker's utterances that are left for enrolment.
    """

    folder: str
    parts: tuple[Part, ...]
    unused: dict[str, list[str]]
    seed: int

    @property
    def name(self) -> str:
        return Path(self.folder).name


def make_libricss(
    output: str | Path,
    size: str = "mini",
    seed: int = 0,
    nj: int = 1,
) -> bool:
    """Write a synthetic LibriSpeech and a synthetic LibriCSS.

    They are the folders ``LibriSpeech`` and ``LibriCSS``. ``size`` is a key of
    ``LIBRICSS_SIZES``; the rest is as in
    :func:`espnet_ext.synthetic.librispeech.make_librispeech`.
    """
    wanted = find_size(size, LIBRICSS_SIZES)
    parameters = {
        "corpus": "libricss",
        "format": [FORMAT, LIBRISPEECH_FORMAT],
        "size": asdict(wanted),
        "conditions": _OVERLAPS,
        "seed": seed,
    }
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
    _write_segment_list(root / FOLDER / "all_res.json", sessions)
    (root / "speaker_enrollment").mkdir()
    enrolments = [json.dumps(_list_enrolment(session)) + "\n" for session in sessions]
    (root / "speaker_enrollment" / ENROLMENT_LIST).write_text(
        "".join(enrolments), encoding="utf-8"
    )
    for session in sessions:
        _write_references(root / "scoring" / "references" / session.name, session)


def _write_segment_list(path: Path, sessions: Sequence[Session]) -> None:
    """Write the first and last sample of each segment, by session."""
    segments = {}
    for session in sessions:
        segments[session.name] = [
            [round(time * SAMPLING_RATE) for time in span]
            for span in _find_segments(session)
        ]
    path.write_text(json.dumps(segments) + "\n", encoding="utf-8")


def _write_references(folder: Path, session: Session) -> None:
    """Write an STM file for each segment of a session."""
    folder.mkdir(parents=True)
    for number, span in enumerate(_find_segments(session)):
        (folder / f"segment_{number}.stm").write_text(
            _format_stm(session, number, span), encoding="utf-8"
        )


def read_part(corpus: Path) -> list[SourceUtterance]:
    """Read the utterances that sessions are made of, by id."""
    faults = Faults(corpus, corpus / "faults.txt")
    scanned = scan_librispeech(corpus, [PART], faults)[PART]
    sources = []
    for key, (path, text) in scanned.items():
        speaker = key.split("-")[0]
        seconds = soundfile.info(path).duration
        sources.append(
            SourceUtterance(key, speaker, str(path), seconds, tuple(text.split()))
        )
    return sources


def draw_session(
    folder: Path,
    condition: str,
    number: int,
    sources: Sequence[SourceUtterance],
    size: LibriCssSize,
    seed: int,
) -> Session:
    """Draw eight speakers, their utterances and when each is played.

    The session's name tells the actual overlap.
    """
    percent, silence = _OVERLAPS[condition]
    rng = make_generator(seed, "session", condition, number)
    # Sorted, since the order of a set of names differs between processes.
    every = sorted({source.speaker for source in sources})
    speakers = {str(speaker) for speaker in rng.choice(every, SPEAKERS, replace=False)}
    chosen: list[SourceUtterance] = []
    unused: dict[str, list[str]] = {}
    for speaker in sorted(speakers):
        own = [source for source in sources if source.speaker == speaker]
        indices = rng.choice(len(own), size.utterances, replace=False)
        picked = {int(index) for index in indices}
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
        distances = draw_distances(len(members), rng)
        starts = place_utterances(members, distances, percent / 100)
        for source, start in zip(members, starts, strict=True):
            parts.append(Part(source, round(begin + start, 4)))
        clock = max(part.end for part in parts)
    # LibriCSS has it in the names of its sessions.
    actual = 100 * measure_overlap_ratio([(part.start, part.end) for part in parts])
    shortest, longest = silence
    name = (
        f"overlap_ratio_{percent}.0_sil{shortest}_{longest}_session{number}"
        f"_actual{actual:.1f}"
    )
    return Session(str(folder / name), tuple(parts), unused, seed)


def write_session(session: Session) -> float:
    """Write a session's audio and its ``meeting_info.txt``. Returns its seconds."""
    folder = Path(session.folder)
    for name in ("record", "clean", "transcription"):
        # A shard may run again after its worker died.
        (folder / name).mkdir(parents=True, exist_ok=True)
    length = round((max(part.end for part in session.parts) + 0.5) * SAMPLING_RATE)
    clean = np.zeros((length, SPEAKERS))
    speakers = sorted({part.source.speaker for part in session.parts})
    for part in session.parts:
        samples, _ = soundfile.read(part.source.path)
        start = round(part.start * SAMPLING_RATE)
        column = speakers.index(part.source.speaker)
        clean[start : start + len(samples), column] += samples
    _write_audio(folder / "clean" / "mix.wav", clean.sum(axis=1))
    _write_audio(folder / "record" / "raw_recording.wav", _replay(clean, session))
    lines = ["start_time\tend_time\tspeaker\tutterance_id\ttranscription"]
    for part in session.parts:
        source = part.source
        words = " ".join(source.words)
        times = f"{part.start:.4f}\t{part.end:.4f}"
        lines.append(f"{times}\t{source.speaker}\t{source.id}\t{words}")
    (folder / "transcription" / MEETING_INFO).write_text(
        "\n".join(lines) + "\n", encoding="utf-8"
    )
    return length / SAMPLING_RATE


def _write_audio(path: Path, samples: np.ndarray) -> None:
    # Silence has no peak to scale by.
    peak = max(float(np.abs(samples).max()), 1e-9)
    scaled = samples * min(1.0, _PEAK / peak)
    integers = np.round(scaled * 32767).astype(np.int16)
    save_audio(path, integers, SAMPLING_RATE, subtype="PCM_16")


def _replay(clean: np.ndarray, session: Session) -> np.ndarray:
    """Replay (samples, speakers) before seven microphones: (samples, channels).

    Each speaker has a place in the room: one impulse response, and a delay and a factor
    for each microphone.
    """
    rng = make_generator(session.seed, "room", session.name)
    heard = np.zeros((len(clean), CHANNELS))
    for speaker in range(clean.shape[1]):
        response = draw_scene(CLEAN, [], rng).impulse_response
        wet = fftconvolve(clean[:, speaker], response)[: len(clean)]
        for channel in range(CHANNELS):
            delay = int(rng.integers(_FARTHEST + 1))
            heard[delay:, channel] += rng.uniform(0.7, 1.0) * wet[: len(wet) - delay]
    noise = _NOISE * np.sqrt(np.mean(heard**2, axis=0).max())
    return heard + noise * rng.standard_normal(heard.shape)


def _find_segments(session: Session) -> list[tuple[float, float]]:
    return find_speech_segments((part.start, part.end) for part in session.parts)


def _list_enrolment(session: Session) -> dict:
    used: dict[str, list[str]] = {speaker: [] for speaker in session.unused}
    for part in session.parts:
        used[part.source.speaker].append(part.source.id)
    return {"dataid": session.name, "unused_uttid": session.unused, "used_uttid": used}


def _format_stm(session: Session, number: int, span: tuple[float, float]) -> str:
    """Return the reference of a segment.

    Each utterance is on the first track that is free, whoever speaks it.
    """
    begin, end = span
    free_at: list[float] = []
    lines = []
    for part in session.parts:
        if not begin <= part.start < end:
            continue
        free = [track for track, time in enumerate(free_at) if time <= part.start]
        track = free[0] if free else len(free_at)
        # Replaces the time of a track, or appends that of a new one.
        free_at[track : track + 1] = [part.end]
        times = f"{part.start - begin:.2f} {part.end - begin:.2f}"
        words = " ".join(part.source.words)
        lines.append(
            f"{session.name}_{number} 0 {string.ascii_uppercase[track]} {times} "
            f"<O,N> {words}\n"
        )
    return "".join(lines)
