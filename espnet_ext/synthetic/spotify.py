"""The mini corpus in the layouts of P5's data: Spotify podcasts to train on, TED-LIUM, Earnings-22 and Rev16 to test.

The folder holds ``spotify``, ``spotify-dev`` (podcasts too), ``TEDLIUM_release-3``, ``earnings22`` and ``rev16``. Their
layouts are those that the modules of the same names in :mod:`espnet_ext.corpora` describe.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from espnet_ext.corpora.rev16 import EPISODES
from espnet_ext.synthetic import longform_files as files
from espnet_ext.synthetic.acoustics import SAMPLE_RATE
from espnet_ext.synthetic.longform import NAMES, NOISY, Recording, draw_recording, render
from espnet_ext.synthetic.seeds import generator
from espnet_ext.synthetic.sizes import LONGFORM_SIZES, LongformSize, size_called
from espnet_ext.synthetic.voices import draw_speakers
from espnet_ext.synthetic.whole_folder import make_whole
from espnet_ext.work.parallel import map_shards

FORMAT = 1  # raise it when the same parameters no longer give the same bytes (voices, grammar ...)
UNTRANSCRIBED = 2  # sentences at the start of a TED talk
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

_README = """\
Synthetic speech in the layouts of the Spotify podcasts, TED-LIUM, Earnings-22 and Rev16, made by
espnet_ext.bin.make_mini with espeak-ng. No person speaks here; results on it say that a pipeline works and how systems
compare on this corpus, not how well they do on those corpora.
"""


@dataclass(frozen=True)
class File:
    """The work of one shard: a recording, and where its audio and transcript go. ``id`` is its name in the corpus."""

    recording: Recording
    part: str
    id: str
    audio: str
    transcript: str

    @property
    def name(self) -> str:
        return self.recording.id


def make_spotify(output: str | Path, size: str = "mini", seed: int = 0, nj: int = 1) -> bool:
    """Write the mini corpus of long recordings (see the module's description).

    ``size`` is a key of ``LONGFORM_SIZES``. Same size and seed give the same bytes, with any ``nj``. For what
    is returned and raised see :func:`~espnet_ext.synthetic.whole_folder.make_whole`.
    """
    wanted = size_called(size, LONGFORM_SIZES)
    parameters = {
        "corpus": "spotify",
        "format": FORMAT,
        "size": asdict(wanted),
        "condition": asdict(NOISY),
        "names": NAMES,
        "seed": seed,
    }
    return make_whole(output, parameters, lambda folder: _write_corpora(folder, wanted, seed, nj))


def _write_corpora(folder: Path, size: LongformSize, seed: int, nj: int) -> None:
    shards = shards_of(folder, size, seed)
    seconds = map_shards(write_file, shards, nj=nj, describe="mini corpus")
    _write_metadata(folder, shards, seconds)
    (folder / "README.TXT").write_text(_README, encoding="utf-8")


def shards_of(folder: Path, size: LongformSize, seed: int) -> list[File]:
    """The recordings of all parts. Those of training share its voices, each at another pitch and rate."""
    voices = {part: size.voices if part == "train" else number for part, number in size.recordings.items()}
    speakers = draw_speakers(voices, seed)
    return [
        _file(
            folder, part, index, draw_recording(part, index, speakers[part][index % voices[part]], size.seconds, seed)
        )
        for part, number in size.recordings.items()
        for index in range(number)
    ]


def _file(folder: Path, part: str, index: int, recording: Recording) -> File:
    if part in ("train", "dev"):
        root = folder / ("spotify" if part == "train" else "spotify-dev")
        show, episode = (_base62(generator(recording.seed, kind, recording.id)) for kind in ("show", "episode"))
        below = Path(show[0], show[1], f"show_{show}", episode)
        audio = root / "podcasts-audio" / below.with_suffix(".ogg")
        return File(recording, part, episode, str(audio), str(root / "podcasts-transcripts" / f"{below}.json"))
    if part.startswith("tedlium"):
        root = folder / "TEDLIUM_release-3" / "legacy" / part.removeprefix("tedlium-")
        talk = f"Speaker{recording.speaker.id}_2012"
        return File(recording, part, talk, str(root / "sph" / f"{talk}.sph"), str(root / "stm" / f"{talk}.stm"))
    if part == "rev16":
        id, transcripts = str(EPISODES[index]), "verbatim_transcripts/nlp_references"
    else:
        id, transcripts = str(4400000 + index), "transcripts/nlp_references"
    root = folder / part
    return File(recording, part, id, str(root / "media" / f"{id}.mp3"), str(root / transcripts / f"{id}.nlp"))


def _base62(rng: np.random.Generator) -> str:
    return "".join(_BASE62[digit] for digit in rng.integers(len(_BASE62), size=22))  # as long as Spotify's


def write_file(file: File) -> float:
    """Write a recording's audio and transcript. Returns its seconds."""
    samples, words = render(file.recording)
    seconds = len(samples) / SAMPLE_RATE
    files.write_audio(Path(file.audio), samples)
    if file.transcript.endswith(".json"):
        text = files.google_json(words)
    elif file.transcript.endswith(".stm"):
        text = files.stm(file.id, words, seconds, UNTRANSCRIBED)
    else:
        text = files.nlp_table(words)
    transcript = Path(file.transcript)
    transcript.parent.mkdir(parents=True, exist_ok=True)
    transcript.write_text(text, encoding="utf-8")
    return seconds


def _write_metadata(folder: Path, shards: Sequence[File], seconds: Sequence[float]) -> None:
    rows: dict[str, list[list[str]]] = {
        "spotify": [], "spotify-dev": [], "earnings22": [], "rev16": []
    }  # fmt: skip
    for file, duration in zip(shards, seconds, strict=True):
        name = f"The podcast of {file.recording.names[0].capitalize()}"
        if file.part in ("train", "dev"):
            show = Path(file.audio).parent.name
            id = show.removeprefix("show_")
            minutes = f"{duration / 60:.6f}"
            rows["spotify" if file.part == "train" else "spotify-dev"].append(
                [f"spotify:show:{id}", name, name, "espnet_ext", "['en']", "https://example.org/rss",
                 f"spotify:episode:{file.id}", name, name, minutes, show, file.id]
            )  # fmt: skip
        elif file.part == "earnings22":
            rows["earnings22"].append(
                [file.id, "MINI", "United States", "Northern America", "North American", "English", f"{duration:.0f}",
                 str(SAMPLE_RATE)]
            )  # fmt: skip
        elif file.part == "rev16":
            rows["rev16"].append([file.id, name, name, "https://example.org", f"media/{file.id}.mp3"])
    for part in ("spotify", "spotify-dev"):
        _write_table(folder / part / "metadata.tsv", _SPOTIFY_FIELDS, rows[part], "\t")
    _write_table(folder / "earnings22" / "metadata.csv", _EARNINGS_FIELDS, rows["earnings22"], ",")
    _write_table(folder / "rev16" / "podcasts.csv", _REV_FIELDS, rows["rev16"], ",")


_SPOTIFY_FIELDS = (
    "show_uri", "show_name", "show_description", "publisher", "language", "rss_link", "episode_uri", "episode_name",
    "episode_description", "duration", "show_filename_prefix", "episode_filename_prefix",
)  # fmt: skip
_EARNINGS_FIELDS = (
    "File ID", "Ticker Symbol", "Country by Ticker", "UN Defined", "Major Dialect Family",
    "Language Family + Area Based", "File Length (seconds)", "Sampling Rate (Hz)",
)  # fmt: skip
_REV_FIELDS = ("File number", "Show Title", "Episode Title", "iTunes ID", "MP3 file")


def _write_table(path: Path, fields: Sequence[str], rows: Sequence[Sequence[str]], delimiter: str) -> None:
    if not rows:
        return
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8")
