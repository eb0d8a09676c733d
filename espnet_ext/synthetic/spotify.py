"""The synthetic corpora for P5: Spotify podcasts to train on, TED-LIUM, Earnings-22 and Rev16 to test on.

The folder holds ``spotify``, ``spotify-dev`` and ``spotify-control`` (podcasts too), ``TEDLIUM_release-3``,
``earnings22`` and ``rev16``. The modules of the same names in :mod:`espnet_ext.corpora` describe the layouts.

In Earnings-22 and TED-LIUM, as in training, bursts of noise drown names that recur. In Rev16 there are none, so that
context has nothing to add. In ``spotify-control`` there are, but names do not recur, so that context does not tell
them. ``kinds/<set>.txt`` has the kind of each transcribed word, one recording per line; the kinds are those of
:mod:`espnet_ext.synthetic.long_recordings`.
"""

import csv
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import batched
from pathlib import Path

import numpy as np

from espnet_ext.audio.files import save_audio
from espnet_ext.corpora.rev16 import EPISODES
from espnet_ext.kaldi.tables import write_table
from espnet_ext.synthetic.acoustics import SAMPLE_RATE
from espnet_ext.synthetic.long_recordings import (
    BURST_BEGINS,
    BURST_ENDS,
    BURST_LEVEL,
    NAMES,
    PATTERNS,
    QUIET,
    WORDS,
    LongRecording,
    SentenceWord,
    draw_recording,
    render,
)
from espnet_ext.synthetic.parameters import LONGFORM_SIZES, WHAT, LongformSize, generator, resource, size_called
from espnet_ext.synthetic.voices import Speaker, draw_speakers
from espnet_ext.work.once import fingerprint, make_folder
from espnet_ext.work.parallel import map_shards

FORMAT = 4  # increase it when the same parameters no longer give the same bytes (voices, grammar ...)
UNTRANSCRIBED = 2  # sentences at the start of a TED talk
FIRST_TALKS = 2012  # the year in the names of the speakers' first talks
DROWNED_SHARE = 0.6  # of the mentions of names, but for the parts below
PODCASTS = {"train": "spotify", "dev": "spotify-dev", "control": "spotify-control"}
_CLEAR_PARTS = ("rev16",)
_PARTS_WITHOUT_RECURRENCE = ("control",)
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

NLP_HEADER = "token|speaker|ts|endTs|punctuation|prepunctuation|case|tags|wer_tags"
IGNORED = "ignore_time_segment_in_scoring"
_SENTENCES_OF_A_RESULT = 4  # in a Google transcript, which has a result every half minute or so
_OGG_PAGE = 27  # bytes of a page's header before its table of segments
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True)
class RecordingFiles:
    """The work of one shard: a recording, and where its audio and transcript go. ``id`` is its name in the corpus."""

    recording: LongRecording
    part: str
    id: str
    audio: str
    transcript: str

    @property
    def name(self) -> str:
        return self.recording.id


def make_spotify(output: str | Path, size: str = "mini", seed: int = 0, nj: int = 1) -> bool:
    """Write the synthetic corpora of long recordings (see the module's description).

    ``size`` is a key of ``LONGFORM_SIZES``. The same size and seed give the same bytes, with any ``nj``. What is
    returned and raised: :func:`espnet_ext.work.once.make_folder`.
    """
    wanted = size_called(size, LONGFORM_SIZES)
    parameters = {
        "corpus": "spotify",
        "format": FORMAT,
        "size": asdict(wanted),
        "condition": asdict(QUIET),
        "text": [NAMES, WORDS, PATTERNS],
        "bursts": [DROWNED_SHARE, BURST_BEGINS, BURST_ENDS, BURST_LEVEL],
        "seed": seed,
    }
    return make_folder(output, fingerprint(parameters), lambda folder: _write_corpora(folder, wanted, seed, nj), WHAT)


def _write_corpora(folder: Path, size: LongformSize, seed: int, nj: int) -> None:
    shards = shards_of(folder, size, seed)
    written = map_shards(write_file, shards, nj=nj, describe=WHAT)
    _write_metadata(folder, shards, [seconds for seconds, _ in written])
    for part in size.recordings:
        kinds = {
            f"rev16-{int(file.id):02d}" if part == "rev16" else file.id: words
            for file, (_, words) in zip(shards, written, strict=True)
            if file.part == part
        }
        write_table(folder / "kinds" / f"{part.removesuffix('-test')}.txt", kinds)
    (folder / "README.TXT").write_text(resource("spotify_readme.txt"), encoding="utf-8")


def shards_of(folder: Path, size: LongformSize, seed: int) -> list[RecordingFiles]:
    """Draw the recordings of all parts. All parts share the voices; each recording has its own pitch and rate."""
    speakers = draw_speakers({"every part": size.voices}, seed)["every part"]
    return [
        _file(folder, part, index, _draw(part, index, speakers[index % len(speakers)], size, seed), size.voices)
        for part, number in size.recordings.items()
        for index in range(number)
    ]


def _draw(part: str, index: int, speaker: Speaker, size: LongformSize, seed: int) -> LongRecording:
    drowned = 0.0 if part in _CLEAR_PARTS else DROWNED_SHARE
    recurring = part not in _PARTS_WITHOUT_RECURRENCE
    return draw_recording(part, index, speaker, size.seconds_of(part), seed, drowned, recurring)


def _file(folder: Path, part: str, index: int, recording: LongRecording, voices: int) -> RecordingFiles:
    if part in PODCASTS:
        root = folder / PODCASTS[part]
        show, episode = (_base62(generator(recording.seed, kind, recording.id)) for kind in ("show", "episode"))
        below = Path(show[0], show[1], f"show_{show}", episode)
        audio = root / "podcasts-audio" / below.with_suffix(".ogg")
        return RecordingFiles(
            recording, part, episode, str(audio), str(root / "podcasts-transcripts" / f"{below}.json")
        )
    if part.startswith("tedlium"):
        root = folder / "TEDLIUM_release-3" / "legacy" / part.removeprefix("tedlium-")
        talk = f"Speaker{recording.speaker.id}_{FIRST_TALKS + index // voices}"  # a talk of each speaker a year
        return RecordingFiles(
            recording, part, talk, str(root / "sph" / f"{talk}.sph"), str(root / "stm" / f"{talk}.stm")
        )
    if part == "rev16":
        id, transcripts = str(EPISODES[index]), "verbatim_transcripts/nlp_references"
    else:
        id, transcripts = str(4400000 + index), "transcripts/nlp_references"
    root = folder / part
    return RecordingFiles(recording, part, id, str(root / "media" / f"{id}.mp3"), str(root / transcripts / f"{id}.nlp"))


def _base62(rng: np.random.Generator) -> str:
    return "".join(_BASE62[digit] for digit in rng.integers(len(_BASE62), size=22))  # as long as Spotify's


def write_file(file: RecordingFiles) -> tuple[float, str]:
    """Write a recording's audio and transcript. Returns its seconds, and the kinds of the words in the transcript."""
    samples, words = render(file.recording)
    seconds = len(samples) / SAMPLE_RATE
    write_audio(Path(file.audio), samples)
    transcribed: Sequence[SentenceWord] = words
    if file.transcript.endswith(".json"):
        text = google_json(words)
    elif file.transcript.endswith(".stm"):
        text = stm(file.id, words, seconds, UNTRANSCRIBED)
        transcribed = [word for sentence in list(sentences_of(words))[UNTRANSCRIBED:] for word in sentence]
    else:
        text = nlp_table(words)
    transcript = Path(file.transcript)
    transcript.parent.mkdir(parents=True, exist_ok=True)
    transcript.write_text(text, encoding="utf-8")
    return seconds, " ".join(word.kind for word in transcribed)


def _write_metadata(folder: Path, shards: Sequence[RecordingFiles], seconds: Sequence[float]) -> None:
    rows: dict[str, list[list[str]]] = {name: [] for name in (*PODCASTS.values(), "earnings22", "rev16")}
    for file, duration in zip(shards, seconds, strict=True):
        name = f"The podcast of {file.recording.names[0].capitalize()}"
        if file.part in PODCASTS:
            show = Path(file.audio).parent.name
            id = show.removeprefix("show_")
            minutes = f"{duration / 60:.6f}"
            rows[PODCASTS[file.part]].append(
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
    for part in PODCASTS.values():
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


# --- files as the corpora have them ---


def sentences_of(words: Sequence[SentenceWord]) -> Iterator[list[SentenceWord]]:
    """Yield the words, sentence by sentence."""
    sentence: list[SentenceWord] = []
    for word in words:
        sentence.append(word)
        if word.ends_sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def written(sentence: Sequence[SentenceWord]) -> list[tuple[str, str]]:
    """Write words as in print, with the punctuation after each: a capital at the beginning, a full stop at the end."""
    last = len(sentence) - 1
    return [
        (word.text.capitalize() if index == 0 else word.text, "." if index == last else "")
        for index, word in enumerate(sentence)
    ]


def google_json(words: Sequence[SentenceWord]) -> str:
    """Write a podcast's transcript as Google's recogniser gives it; the last result has all words and speakers.

    It is without capitals and punctuation, so that a small corpus has few tokens.
    """
    entries = []
    results = []
    for group in batched(sentences_of(words), _SENTENCES_OF_A_RESULT):
        own = [
            {"startTime": _google_time(word.start), "endTime": _google_time(word.end), "word": word.text}
            for sentence in group
            for word in sentence
        ]
        transcript = " ".join(entry["word"] for entry in own)
        results.append(
            {"alternatives": [{"transcript": transcript, "confidence": 0.9, "words": own}], "languageCode": "en-us"}
        )
        entries += own
    results.append({"alternatives": [{"words": [{**entry, "speakerTag": 1} for entry in entries]}]})
    return json.dumps({"results": results})


def _google_time(seconds: float) -> str:
    return f"{round(seconds, 1):.3f}s"


def nlp_table(words: Sequence[SentenceWord]) -> str:
    """Write a transcript in Rev's nlp format: one token per line, without times, below a header."""
    lines = [NLP_HEADER]
    for sentence in sentences_of(words):
        for text, mark in written(sentence):
            lines.append(f"{text}|1|||{mark}||{'UC' if text[0].isupper() else 'LC'}|[]|[]")
    return "\n".join(lines) + "\n"


def stm(talk: str, words: Sequence[SentenceWord], seconds: float, untranscribed: int) -> str:
    """Write a talk in TED-LIUM's stm format, a sentence per line. Scoring ignores the first ``untranscribed`` sentences
    and the gaps between the others."""
    lines = []
    before = 0.0
    for index, sentence in enumerate(sentences_of(words)):
        start, end = sentence[0].start, sentence[-1].end
        if index >= untranscribed:
            lines.append(_stm_line(talk, "inter_segment_gap", before, start, "<o,,unknown>", IGNORED))
            text = " ".join(word.text for word in sentence).replace("'", " '")  # TED-LIUM writes "we 're"
            lines.append(_stm_line(talk, talk, start, end, "<o,f0,male>", text))
            before = end
    lines.append(_stm_line(talk, "inter_segment_gap", before, seconds, "<o,,unknown>", IGNORED))
    return "".join(lines)


def _stm_line(talk: str, speaker: str, start: float, end: float, labels: str, text: str) -> str:
    return f"{talk} 1 {speaker} {start:.2f} {end:.2f} {labels} {text}\n"


def write_audio(path: Path, samples: np.ndarray) -> None:
    """Write 16 kHz audio in the format of the name's ending (.ogg, .mp3, .sph); the same samples give the same bytes.

    Args:
        samples: int16, (samples,).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    formats = {".ogg": ("OGG", "VORBIS"), ".mp3": ("MP3", "MPEG_LAYER_III"), ".sph": ("NIST", "PCM_16")}
    name, subtype = formats[path.suffix]
    save_audio(path, samples, SAMPLE_RATE, format=name, subtype=subtype)
    if name == "OGG":
        path.write_bytes(without_serial(path.read_bytes()))


def without_serial(ogg: bytes) -> bytes:
    """Return an Ogg file with the serial number 0 instead of a random one, and with the checksums that this needs.

    RFC 3533, section 6: the number is at byte 14 of each page, the checksum at byte 22.
    """
    pages = bytearray()
    start = 0
    while start < len(ogg):
        table = ogg[start + _OGG_PAGE : start + _OGG_PAGE + ogg[start + _OGG_PAGE - 1]]
        end = start + _OGG_PAGE + len(table) + sum(table)
        page = bytearray(ogg[start:end])
        page[14:18] = page[22:26] = bytes(4)
        page[22:26] = _ogg_checksum(bytes(page)).to_bytes(4, "little")
        pages += page
        start = end
    return bytes(pages)


def _ogg_checksum(page: bytes) -> int:
    """Compute CRC-32 with the bits in the reverse order of zlib's, and without its inversions."""
    reflected = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)
