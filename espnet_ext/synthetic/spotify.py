"""The synthetic corpora of long recordings for P5.

Spotify podcasts are for training, TED-LIUM, Earnings-22 and Rev16 for tests.
Bursts of noise drown names that recur; in Rev16 there are none, and in
``spotify-control`` names do not recur, so that context adds nothing.
``kinds/<set>.txt`` has the kind of each transcribed word, one recording per line.
"""

import csv
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import batched, chain
from pathlib import Path

import numpy as np

from espnet_ext.audio.files import save_audio
from espnet_ext.corpora.rev16 import EPISODES
from espnet_ext.kaldi.tables import write_table
from espnet_ext.synthetic import long_recordings as talks
from espnet_ext.synthetic import parameters
from espnet_ext.synthetic.acoustics import SAMPLE_RATE
from espnet_ext.synthetic.long_recordings import (
    LongRecording,
    SentenceWord,
    draw_recording,
    speak_recording,
)
from espnet_ext.synthetic.voices import draw_speakers
from espnet_ext.work.once import fingerprint, make_folder
from espnet_ext.work.parallel import map_shards
from espnet_ext.work.yaml_files import read_yaml

# To be increased when the same parameters no longer give the same bytes (voices,
# grammar ...).
FORMAT = 4
UNTRANSCRIBED = 2  # sentences at the start of a TED talk
FIRST_TALKS = 2012  # the year in the names of the speakers' first talks
DROWNED_SHARE = 0.6  # of the mentions of names, but for the parts below
PODCASTS = {"train": "spotify", "dev": "spotify-dev", "control": "spotify-control"}
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

NLP_HEADER = "token|speaker|ts|endTs|punctuation|prepunctuation|case|tags|wer_tags"
IGNORED = "ignore_time_segment_in_scoring"
# A Google transcript has a result every half minute or so.
_SENTENCES_OF_A_RESULT = 4
_OGG_PAGE = 27  # bytes of a page's header before its table of segments
# byte -> the byte with its bits in the reverse order
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True)
class RecordingFiles:
    """The work of one shard: a recording, and where its audio and transcript go."""

    recording: LongRecording
    part: str
    id: str  # its name in the corpus
    audio: str
    transcript: str

    @property
    def name(self) -> str:
        return self.recording.id


def make_spotify(
    output: str | Path,
    size: str = "mini",
    seed: int = 0,
    nj: int = 1,
) -> bool:
    """Write the synthetic corpora of long recordings (see the module's description).

    ``size`` is a key of ``LONGFORM_SIZES``; the rest is as in
    :func:`espnet_ext.synthetic.librispeech.make_librispeech`.
    """
    wanted = parameters.find_size(size, parameters.LONGFORM_SIZES)
    made_from = {
        "corpus": "spotify",
        "format": FORMAT,
        "size": asdict(wanted),
        "condition": asdict(talks.QUIET),
        "text": [talks.NAMES, talks.WORDS, talks.PATTERNS],
        "bursts": [
            DROWNED_SHARE,
            talks.BURST_BEGINS,
            talks.BURST_ENDS,
            talks.BURST_LEVEL,
        ],
        "seed": seed,
    }
    return make_folder(
        output,
        fingerprint(made_from),
        lambda folder: _write_corpora(folder, wanted, seed, nj),
        parameters.WHAT,
    )


def _write_corpora(
    folder: Path,
    size: parameters.LongformSize,
    seed: int,
    nj: int,
) -> None:
    shards = draw_shards(folder, size, seed)
    written = map_shards(write_file, shards, nj=nj, describe=parameters.WHAT)
    _write_metadata(folder, shards, [seconds for seconds, _ in written])
    for part in size.recordings:
        kinds = {}
        for file, (_, words) in zip(shards, written, strict=True):
            if file.part == part:
                id = f"rev16-{int(file.id):02d}" if part == "rev16" else file.id
                kinds[id] = words
        write_table(folder / "kinds" / f"{part.removesuffix('-test')}.txt", kinds)
    (folder / "README.TXT").write_text(
        parameters.read_resource("spotify_readme.txt"), encoding="utf-8"
    )


def draw_shards(
    folder: Path,
    size: parameters.LongformSize,
    seed: int,
) -> list[RecordingFiles]:
    """Draw the recordings of all parts.

    All parts share the voices; each recording has its own pitch and rate.
    """
    speakers = draw_speakers({"every part": size.voices}, seed)["every part"]
    shards = []
    for part, number in size.recordings.items():
        # In these two parts context adds nothing (see the module's description).
        drowned = 0.0 if part == "rev16" else DROWNED_SHARE
        recurring = part != "control"
        limits = size.find_length_limits(part)
        for index in range(number):
            speaker = speakers[index % len(speakers)]
            recording = draw_recording(
                part, index, speaker, limits, seed, drowned, recurring
            )
            shards.append(_place_files(folder, part, index, recording, size.voices))
    return shards


def _place_files(
    folder: Path,
    part: str,
    index: int,
    recording: LongRecording,
    voices: int,
) -> RecordingFiles:
    """Name a recording and its files as its corpus does."""
    if part in PODCASTS:
        root = folder / PODCASTS[part]
        show = _draw_base62(recording, "show")
        id = _draw_base62(recording, "episode")
        below = Path(show[0], show[1], f"show_{show}", id)
        audio = root / "podcasts-audio" / f"{below}.ogg"
        text = root / "podcasts-transcripts" / f"{below}.json"
    elif part.startswith("tedlium"):
        root = folder / "TEDLIUM_release-3" / "legacy" / part.removeprefix("tedlium-")
        # a talk of each speaker a year
        id = f"Speaker{recording.speaker.id}_{FIRST_TALKS + index // voices}"
        audio = root / "sph" / f"{id}.sph"
        text = root / "stm" / f"{id}.stm"
    elif part == "rev16":
        root = folder / part
        id = str(EPISODES[index])
        audio = root / "media" / f"{id}.mp3"
        text = root / "verbatim_transcripts" / "nlp_references" / f"{id}.nlp"
    else:
        root = folder / part
        id = str(4400000 + index)
        audio = root / "media" / f"{id}.mp3"
        text = root / "transcripts" / "nlp_references" / f"{id}.nlp"
    return RecordingFiles(recording, part, id, str(audio), str(text))


def _draw_base62(recording: LongRecording, kind: str) -> str:
    """Draw an id as long as Spotify's."""
    rng = parameters.make_generator(recording.seed, kind, recording.id)
    digits = rng.integers(len(_BASE62), size=22)
    return "".join(_BASE62[digit] for digit in digits)


def write_file(file: RecordingFiles) -> tuple[float, str]:
    """Write a recording's audio and transcript.

    Returns its seconds, and the kinds of the words in the transcript.
    """
    samples, words = speak_recording(file.recording)
    seconds = len(samples) / SAMPLE_RATE
    write_audio(Path(file.audio), samples)
    transcribed: Sequence[SentenceWord] = words
    if file.transcript.endswith(".json"):
        text = format_google_json(words)
    elif file.transcript.endswith(".stm"):
        text = format_stm(file.id, words, seconds, UNTRANSCRIBED)
        sentences = list(split_sentences(words))[UNTRANSCRIBED:]
        transcribed = list(chain(*sentences))
    else:
        text = format_nlp(words)
    transcript = Path(file.transcript)
    transcript.parent.mkdir(parents=True, exist_ok=True)
    transcript.write_text(text, encoding="utf-8")
    return seconds, " ".join(word.kind for word in transcribed)


def _write_metadata(
    folder: Path,
    shards: Sequence[RecordingFiles],
    seconds: Sequence[float],
) -> None:
    """Write the lists of recordings that come with the corpora; TED-LIUM has none."""
    rows: dict[str, list[list[str]]] = defaultdict(list)
    for file, duration in zip(shards, seconds, strict=True):
        if file.part in PODCASTS:
            place = f"{PODCASTS[file.part]}/metadata.tsv"
            rows[place].append(_list_podcast(file, duration))
        elif file.part == "earnings22":
            rows["earnings22/metadata.csv"].append(_list_call(file, duration))
        elif file.part == "rev16":
            rows["rev16/podcasts.csv"].append(_list_episode(file))
    columns = read_yaml(parameters.RESOURCES / "podcast_lists.yaml")
    for place, own in rows.items():
        corpus = place.partition("/")[0].partition("-")[0]
        delimiter = "\t" if place.endswith("tsv") else ","
        with open(folder / place, "w", encoding="utf-8", newline="") as lines:
            writer = csv.writer(lines, delimiter=delimiter, lineterminator="\n")
            writer.writerows([columns[corpus], *own])


def _name_podcast(file: RecordingFiles) -> str:
    return f"The podcast of {file.recording.names[0].capitalize()}"


def _list_podcast(file: RecordingFiles, seconds: float) -> list[str]:
    name = _name_podcast(file)
    show = Path(file.audio).parent.name
    return [
        f"spotify:show:{show.removeprefix('show_')}",
        name,
        name,
        "espnet_ext",
        "['en']",
        "https://example.org/rss",
        f"spotify:episode:{file.id}",
        name,
        name,
        f"{seconds / 60:.6f}",
        show,
        file.id,
    ]


def _list_call(file: RecordingFiles, seconds: float) -> list[str]:
    return [
        file.id,
        "MINI",
        "United States",
        "Northern America",
        "North American",
        "English",
        f"{seconds:.0f}",
        str(SAMPLE_RATE),
    ]


def _list_episode(file: RecordingFiles) -> list[str]:
    name = _name_podcast(file)
    return [file.id, name, name, "https://example.org", f"media/{file.id}.mp3"]


# --- files as the corpora have them ---


def split_sentences(words: Sequence[SentenceWord]) -> Iterator[list[SentenceWord]]:
    """Yield the words, sentence by sentence."""
    sentence: list[SentenceWord] = []
    for word in words:
        sentence.append(word)
        if word.ends_sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def format_google_json(words: Sequence[SentenceWord]) -> str:
    """Return a podcast's transcript as Google's recogniser gives it.

    The last result has all words again, with their speakers. The words are without
    capitals and punctuation, so that a small corpus has few tokens.
    """
    entries: list[dict[str, str]] = []
    results: list[dict] = []
    for group in batched(split_sentences(words), _SENTENCES_OF_A_RESULT):
        own = []
        for word in chain(*group):
            # Times are rounded to 0.1 s, as Google's are.
            start = f"{round(word.start, 1):.3f}s"
            end = f"{round(word.end, 1):.3f}s"
            own.append({"startTime": start, "endTime": end, "word": word.text})
        heard = {
            "transcript": " ".join(entry["word"] for entry in own),
            "confidence": 0.9,
            "words": own,
        }
        results.append({"alternatives": [heard], "languageCode": "en-us"})
        entries += own
    spoken = [{**entry, "speakerTag": 1} for entry in entries]
    results.append({"alternatives": [{"words": spoken}]})
    return json.dumps({"results": results})


def format_nlp(words: Sequence[SentenceWord]) -> str:
    """Return a transcript in Rev's nlp format: a token on each line, without times.

    Words are written as in print, with a capital at the beginning of a sentence, and a
    full stop at its end.
    """
    lines = [NLP_HEADER]
    for sentence in split_sentences(words):
        texts = [sentence[0].text.capitalize()]
        texts += [word.text for word in sentence[1:]]
        marks = [""] * (len(texts) - 1) + ["."]
        for text, mark in zip(texts, marks, strict=True):
            case = "UC" if text[0].isupper() else "LC"
            lines.append(f"{text}|1|||{mark}||{case}|[]|[]")
    return "\n".join(lines) + "\n"


def format_stm(
    talk: str,
    words: Sequence[SentenceWord],
    seconds: float,
    untranscribed: int,
) -> str:
    """Return a talk in TED-LIUM's stm format.

    Scoring ignores the first ``untranscribed`` sentences and all gaps.
    """
    lines = []
    before = 0.0
    gap = f"{talk} 1 inter_segment_gap {{:.2f}} {{:.2f}} <o,,unknown> {IGNORED}\n"
    for sentence in list(split_sentences(words))[untranscribed:]:
        start = sentence[0].start
        end = sentence[-1].end
        text = " ".join(word.text for word in sentence)
        # TED-LIUM writes "we 're".
        text = text.replace("'", " '")
        lines.append(gap.format(before, start))
        lines.append(f"{talk} 1 {talk} {start:.2f} {end:.2f} <o,f0,male> {text}\n")
        before = end
    lines.append(gap.format(before, seconds))
    return "".join(lines)


def write_audio(path: Path, samples: np.ndarray) -> None:
    """Write 16 kHz audio, int16, (samples,), as the name's ending says.

    Endings are .ogg, .mp3 and .sph. The same samples give the same bytes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    formats = {
        ".ogg": ("OGG", "VORBIS"),
        ".mp3": ("MP3", "MPEG_LAYER_III"),
        ".sph": ("NIST", "PCM_16"),
    }
    name, subtype = formats[path.suffix]
    save_audio(path, samples, SAMPLE_RATE, format=name, subtype=subtype)
    if name == "OGG":
        path.write_bytes(clear_serial(path.read_bytes()))


def clear_serial(ogg: bytes) -> bytes:
    """Return an Ogg file with the serial number 0 instead of a random one.

    The checksums are made to fit. RFC 3533, section 6: the number is at byte 14 of each
    page, the checksum, which counts as 0 itself, at byte 22.
    """
    pages = bytearray()
    start = 0
    while start < len(ogg):
        # The last byte of the header is the length of the table of segments' sizes.
        body = start + _OGG_PAGE
        table = ogg[body : body + ogg[body - 1]]
        end = body + len(table) + sum(table)
        page = bytearray(ogg[start:end])
        page[14:18] = bytes(4)
        page[22:26] = bytes(4)
        page[22:26] = _compute_checksum(bytes(page)).to_bytes(4, "little")
        pages += page
        start = end
    return bytes(pages)


def _compute_checksum(page: bytes) -> int:
    """Compute Ogg's CRC-32.

    Its bits are in the reverse order of zlib's, and it is not inverted at both ends.
    """
    reflected = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)
