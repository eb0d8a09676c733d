"""Transcripts and audio files of the long-form corpora, as those corpora have them."""

import json
import zlib
from collections.abc import Iterator, Sequence
from itertools import batched
from pathlib import Path

import numpy as np

from espnet_ext.data.audio_files import save_audio
from espnet_ext.synthetic.acoustics import SAMPLE_RATE
from espnet_ext.synthetic.longform import Word

NLP_HEADER = "token|speaker|ts|endTs|punctuation|prepunctuation|case|tags|wer_tags"
IGNORED = "ignore_time_segment_in_scoring"
_SENTENCES_OF_A_RESULT = 4  # of a Google transcript; it has a result every half minute or so
_OGG_PAGE = 27  # bytes of a page's header before its table of segments
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def sentences_of(words: Sequence[Word]) -> Iterator[list[Word]]:
    """The words, sentence by sentence."""
    sentence: list[Word] = []
    for word in words:
        sentence.append(word)
        if word.ends_sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def written(sentence: Sequence[Word]) -> list[tuple[str, str]]:
    """Words as in print, with the punctuation after each: the first begins with a capital, the last has a full stop."""
    last = len(sentence) - 1
    return [
        (word.text.capitalize() if index == 0 else word.text, "." if index == last else "")
        for index, word in enumerate(sentence)
    ]


def google_json(words: Sequence[Word]) -> str:
    """A podcast's transcript as Google's recogniser gives it: results, and a last one with all words and speakers."""
    entries = []
    results = []
    for group in batched(sentences_of(words), _SENTENCES_OF_A_RESULT):
        own = [
            {"startTime": _google_time(word.start), "endTime": _google_time(word.end), "word": text + mark}
            for sentence in group
            for word, (text, mark) in zip(sentence, written(sentence), strict=True)
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


def nlp_table(words: Sequence[Word]) -> str:
    """A transcript in Rev's nlp format: a token a line, without times, under a header."""
    lines = [NLP_HEADER]
    for sentence in sentences_of(words):
        for text, mark in written(sentence):
            lines.append(f"{text}|1|||{mark}||{'UC' if text[0].isupper() else 'LC'}|[]|[]")
    return "\n".join(lines) + "\n"


def stm(talk: str, words: Sequence[Word], seconds: float, untranscribed: int) -> str:
    """A talk in TED-LIUM's stm format, a sentence a line; the first ``untranscribed`` ones are to be ignored, as are
    the gaps between the others."""
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
    """An Ogg file with the serial number 0, which is drawn at random when it is written; the checksums are made anew.

    RFC 3533, section 6: the number stands at byte 14 of each page, the checksum at byte 22.
    """
    pages = bytearray()
    start = 0
    while start < len(ogg):
        table = ogg[start + _OGG_PAGE : start + _OGG_PAGE + ogg[start + _OGG_PAGE - 1]]
        end = start + _OGG_PAGE + len(table) + sum(table)
        page = bytearray(ogg[start:end])
        page[14:18] = page[22:26] = bytes(4)
        page[22:26] = _ogg_checksum(page).to_bytes(4, "little")
        pages += page
        start = end
    return bytes(pages)


def _ogg_checksum(page: bytes) -> int:
    """CRC-32 with the bits in the other order than zlib's, and without its inversions."""
    reflected = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)
