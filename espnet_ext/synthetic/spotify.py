"""The synthetic corpora for P5: Spotify podcasts to train on, TED-LIUM, Earnings-22 and
Rev16 to test on.

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
    render,
)
from espnet_ext.synthetic.voices import draw_speakers
from espnet_ext.work.once import fingerprint, make_folder
from espnet_ext.work.parallel import map_shards
from espnet_ext.work.yaml_files import read_yaml

# increase it when the same parameters no longer give the same bytes (voices, grammar
# ...)
FORMAT = 4
UNTRANSCRIBED = 2  # sentences at the start of a TED talk
FIRST_TALKS = 2012  # the year in the names of the speakers' first talks
DROWNED_SHARE = 0.6  # of the mentions of names, but for the parts below
PODCASTS = {"train": "spotify", "dev": "spotify-dev", "control": "spotify-control"}
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

NLP_HEADER = "token|speaker|ts|endTs|punctuation|prepunctuation|case|tags|wer_tags"
IGNORED = "ignore_time_segment_in_scoring"
_SENTENCES_OF_A_RESULT = (
    4  # in a Google transcript, which has a result every half minute or so
)
_OGG_PAGE = 27  # bytes of a page's header before its table of segments
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True)
class RecordingFiles:
    """The work of one shard: a recording, and where its audio and transcript go. ``id``
    is its name in the corpus.
    """

    recording: LongRecording
    part: str
    id: str
    audio: str
    transcript: str

    @property
    def name(self) -> str:
        return self.recording.id


def make_spotify(
    output: str | Path, size: str = "mini", seed: int = 0, nj: int = 1
) -> bool:
    """Write the synthetic corpora of long recordings (see the module's description).

    ``size`` is a key of ``LONGFORM_SIZES``; the rest is as in
    :func:`espnet_ext.synthetic.librispeech.make_librispeech`.
    """
    wanted = parameters.size_called(size, parameters.LONGFORM_SIZES)
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
    folder: Path, size: parameters.LongformSize, seed: int, nj: int
) -> None:
    shards = shards_of(folder, size, seed)
    written = map_shards(write_file, shards, nj=nj, describe=parameters.WHAT)
    _write_metadata(folder, shards, [seconds for seconds, _ in written])
    for part in size.recordings:
        kinds = {
            f"rev16-{int(file.id):02d}" if part == "rev16" else file.id: words
            for file, (_, words) in zip(shards, written, strict=True)
            if file.part == part
        }
        write_table(folder / "kinds" / f"{part.removesuffix('-test')}.txt", kinds)
    (folder / "README.TXT").write_text(
        parameters.resource("spotify_readme.txt"), encoding="utf-8"
    )


def shards_of(
    folder: Path, size: parameters.LongformSize, seed: int
) -> list[RecordingFiles]:
    """Draw the recordings of all parts. All parts share the voices; each recording has
    its own pitch and rate.
    """
    speakers = draw_speakers({"every part": size.voices}, seed)["every part"]
    shards = []
    for part, number in size.recordings.items():
        drowned, recurring = (
            0.0 if part == "rev16" else DROWNED_SHARE,
            part != "control",
        )
        for index in range(number):
            speaker = speakers[index % len(speakers)]
            recording = draw_recording(
                part, index, speaker, size.seconds_of(part), seed, drowned, recurring
            )
            shards.append(_file(folder, part, index, recording, size.voices))
    return shards


def _file(
    folder: Path, part: str, index: int, recording: LongRecording, voices: int
) -> RecordingFiles:
    if part in PODCASTS:
        root = folder / PODCASTS[part]
        show, id = (
            _base62(parameters.generator(recording.seed, kind, recording.id))
            for kind in ("show", "episode")
        )
        below = Path(show[0], show[1], f"show_{show}", id)
        audio, text = (
            root / "podcasts-audio" / f"{below}.ogg",
            root / "podcasts-transcripts" / f"{below}.json",
        )
    elif part.startswith("tedlium"):
        root = folder / "TEDLIUM_release-3" / "legacy" / part.removeprefix("tedlium-")
        # a talk of each speaker a year
        id = f"Speaker{recording.speaker.id}_{FIRST_TALKS + index // voices}"
        audio, text = root / "sph" / f"{id}.sph", root / "stm" / f"{id}.stm"
    else:
        root, id = (
            folder / part,
            str(EPISODES[index] if part == "rev16" else 4400000 + index),
        )
        transcripts = f"{'verbatim_' if part == 'rev16' else ''}transcripts"
        audio, text = (
            root / "media" / f"{id}.mp3",
            root / transcripts / "nlp_references" / f"{id}.nlp",
        )
    return RecordingFiles(recording, part, id, str(audio), str(text))


def _base62(rng: np.random.Generator) -> str:
    return "".join(
        _BASE62[digit] for digit in rng.integers(len(_BASE62), size=22)
    )  # as long as Spotify's


def write_file(file: RecordingFiles) -> tuple[float, str]:
    """Write a recording's audio and transcript. Returns its seconds, and the kinds of
    the words in the transcript.
    """
    samples, words = render(file.recording)
    seconds = len(samples) / SAMPLE_RATE
    write_audio(Path(file.audio), samples)
    transcribed: Sequence[SentenceWord] = words
    if file.transcript.endswith(".json"):
        text = google_json(words)
    elif file.transcript.endswith(".stm"):
        text = stm(file.id, words, seconds, UNTRANSCRIBED)
        transcribed = [
            word
            for sentence in list(sentences_of(words))[UNTRANSCRIBED:]
            for word in sentence
        ]
    else:
        text = nlp_table(words)
    transcript = Path(file.transcript)
    transcript.parent.mkdir(parents=True, exist_ok=True)
    transcript.write_text(text, encoding="utf-8")
    return seconds, " ".join(word.kind for word in transcribed)


def _write_metadata(
    folder: Path, shards: Sequence[RecordingFiles], seconds: Sequence[float]
) -> None:
    rows: dict[str, list[list[str]]] = defaultdict(list)
    for file, duration in zip(shards, seconds, strict=True):
        name = f"The podcast of {file.recording.names[0].capitalize()}"
        if file.part in PODCASTS:
            show, rss = Path(file.audio).parent.name, "https://example.org/rss"
            named = [
                f"spotify:show:{show.removeprefix('show_')}",
                name,
                name,
                "espnet_ext",
                "['en']",
                rss,
            ]
            named += [
                f"spotify:episode:{file.id}",
                name,
                name,
                f"{duration / 60:.6f}",
                show,
                file.id,
            ]
            rows[f"{PODCASTS[file.part]}/metadata.tsv"].append(named)
        elif file.part == "earnings22":
            where = [
                "MINI",
                "United States",
                "Northern America",
                "North American",
                "English",
            ]
            rows["earnings22/metadata.csv"].append(
                [file.id, *where, f"{duration:.0f}", str(SAMPLE_RATE)]
            )
        elif file.part == "rev16":
            rows["rev16/podcasts.csv"].append(
                [file.id, name, name, "https://example.org", f"media/{file.id}.mp3"]
            )
    columns = read_yaml(parameters.RESOURCES / "podcast_lists.yaml")
    for place, own in rows.items():
        with open(folder / place, "w", encoding="utf-8", newline="") as lines:
            writer = csv.writer(
                lines,
                delimiter="\t" if place.endswith("tsv") else ",",
                lineterminator="\n",
            )
            writer.writerows([columns[place.partition("/")[0].partition("-")[0]], *own])


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


def google_json(words: Sequence[SentenceWord]) -> str:
    """Write a podcast's transcript as Google's recogniser gives it; the last result has
    all words and speakers.

    It is without capitals and punctuation, so that a small corpus has few tokens.
    """
    entries: list[dict[str, str]] = []
    results: list[dict] = []
    for group in batched(sentences_of(words), _SENTENCES_OF_A_RESULT):
        times = [
            (word.text, *(f"{round(time, 1):.3f}s" for time in (word.start, word.end)))
            for word in chain(*group)
        ]
        own = [
            {"startTime": start, "endTime": end, "word": text}
            for text, start, end in times
        ]
        heard = {
            "transcript": " ".join(text for text, *_ in times),
            "confidence": 0.9,
            "words": own,
        }
        results.append({"alternatives": [heard], "languageCode": "en-us"})
        entries += own
    results.append(
        {"alternatives": [{"words": [{**entry, "speakerTag": 1} for entry in entries]}]}
    )
    return json.dumps({"results": results})


def nlp_table(words: Sequence[SentenceWord]) -> str:
    """Write a transcript in Rev's nlp format: one token per line, without times, below
    a header.

    Words are written as in print, with a capital at the beginning of a sentence, and a
    full stop at its end.
    """
    lines = [NLP_HEADER]
    for sentence in sentences_of(words):
        texts = [sentence[0].text.capitalize(), *(word.text for word in sentence[1:])]
        for text, mark in zip(texts, [*[""] * (len(texts) - 1), "."], strict=True):
            lines.append(
                f"{text}|1|||{mark}||{'UC' if text[0].isupper() else 'LC'}|[]|[]"
            )
    return "\n".join(lines) + "\n"


def stm(
    talk: str, words: Sequence[SentenceWord], seconds: float, untranscribed: int
) -> str:
    """Write a talk in TED-LIUM's stm format. Scoring ignores the first
    ``untranscribed`` sentences and all gaps.
    """
    lines = []
    before = 0.0
    gap = f"{talk} 1 inter_segment_gap {{:.2f}} {{:.2f}} <o,,unknown> {IGNORED}\n"
    for sentence in list(sentences_of(words))[untranscribed:]:
        start, end = sentence[0].start, sentence[-1].end
        text = " ".join(word.text for word in sentence).replace(
            "'", " '"
        )  # TED-LIUM writes "we 're"
        lines += [
            gap.format(before, start),
            f"{talk} 1 {talk} {start:.2f} {end:.2f} <o,f0,male> {text}\n",
        ]
        before = end
    return "".join([*lines, gap.format(before, seconds)])


def write_audio(path: Path, samples: np.ndarray) -> None:
    """Write 16 kHz audio, int16, (samples,), as the name's ending says (.ogg, .mp3,
    .sph), with the same bytes.
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
        path.write_bytes(without_serial(path.read_bytes()))


def without_serial(ogg: bytes) -> bytes:
    """Return an Ogg file with the serial number 0 instead of a random one, and with the
    checksums that this needs.

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
    """Compute CRC-32 with the bits in the reverse order of zlib's, and without its
    inversions.
    """
    reflected = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)
