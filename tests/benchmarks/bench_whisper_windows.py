"""Ten minutes in turns, by Whisper tiny.en: windows that one command joins, and Whisper's own long-form output.

Four synthetic voices read this repository's licence in turns, with pauses of 0.1 to 0.7 s and a little noise; or give a
recording of your own (--recording, --references). The peer is faster-whisper on the whole recording, which decides by
itself where the next 30 s begin. Word error rates are of lower-case words without punctuation; cpWER also counts words
of wrong speakers. Times are of one thread. --output writes a file of facts.
"""

import argparse
import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from meeteval.wer.wer.cp import cp_word_error_rate
from tabulate import tabulate

from espnet_ext.longform.recording_audio import RecordingAudio
from espnet_ext.multitalker.profiles import resemblyzer
from espnet_ext.scoring.error_rate import count_errors
from espnet_ext.stitcher.by_time import key, merge_by_time
from espnet_ext.synthetic.acoustics import VOICE_RATE
from espnet_ext.synthetic.voices import draw_speakers
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.text.turns import Turn, read_turns, write_turns
from espnet_ext.transcription.voices import tell_voices
from espnet_ext.whisper.model import load_whisper
from espnet_ext.whisper.recordings import transcribe_windows

LICENCE = Path(__file__).parents[2] / "LICENSE"
ABOUT = (
    "Ten minutes in turns by Whisper tiny.en: word error rate and cpWER in percent, words, neighbours whose times run "
    "backwards, and seconds of processor time of one thread"
)
RATE, SECONDS = 16000, 600


def make_talk(folder: Path) -> tuple[Path, Path]:
    """The recording and its reference."""
    rng = np.random.default_rng(0)
    speakers = draw_speakers({"talk": 4}, 3)["talk"]
    licence = LICENCE.read_text(encoding="utf-8").replace("\n", " ")
    sentences = [re.sub(r"\s+", " ", found).upper() for found in re.findall(r"[A-Za-z][A-Za-z' ]*[A-Za-z]", licence)]
    sentences = [text for text in sentences if 3 <= len(text.split()) <= 25]
    turns, pieces, length, who = [], [], 0, 0
    for number in range(10_000):
        text = sentences[number % len(sentences)]
        speech = speakers[who].speak(text, "en", np.random.default_rng(number)).samples.astype(np.float32)
        samples = soxr.resample(speech, VOICE_RATE, RATE)
        samples *= 0.5 / max(1e-6, float(np.abs(samples).max()))
        start, end = length / RATE, (length + len(samples)) / RATE
        turns.append(Turn("talk", speakers[who].id, tuple(text.split()), start, end))
        pieces += [samples, np.zeros(int(RATE * rng.uniform(0.1, 0.7)), dtype=np.float32)]
        length += len(samples) + len(pieces[-1])
        who = (who + int(rng.integers(1, 4))) % 4 if rng.random() < 0.4 else who
        if length > SECONDS * RATE:
            break
    samples = np.concatenate(pieces)
    soundfile.write(folder / "talk.wav", samples + 0.003 * rng.standard_normal(len(samples)), RATE)
    write_turns(folder / "talk_ref.json", turns)
    return folder / "talk.wav", folder / "talk_ref.json"


def words_of(texts) -> list[str]:  # noqa: ANN001 - any words
    return [key(word) for text in texts for word in str(text).replace("-", " ").split() if any(map(str.isalnum, word))]


def measure(recording: Path, references: Path) -> dict[str, Any]:
    said = read_turns(references)
    reference = words_of(word for turn in said for word in turn.words)
    by_speaker: dict[str, list[str]] = {}
    for turn in said:
        by_speaker.setdefault(turn.speaker, []).extend(words_of(turn.words))
    begin = time.process_time()
    network = load_whisper(threads=1)
    with RecordingAudio(recording.stem, recording, RATE) as audio:
        heard = list(transcribe_windows(network, audio))
        merged = merge_by_time(heard)
        voices = tell_voices(merged, audio, resemblyzer())
    ours = time.process_time() - begin
    found = {who: words_of(word.text for word in own) for who, own in voices.items()}
    error = cp_word_error_rate(
        {name: " ".join(own) for name, own in by_speaker.items()}, {name: " ".join(own) for name, own in found.items()}
    )
    begin = time.process_time()
    model = load_whisper(threads=1)
    with RecordingAudio(recording.stem, recording, RATE) as audio:
        samples = audio.read(0, audio.length)
    segments, _ = model.transcribe(samples, language="en", beam_size=5, word_timestamps=True)
    whole = [word for segment in segments for word in segment.words or ()]
    peer = time.process_time() - begin
    blocks = [word for item in heard for word in item.words]

    def row(words, spans, seconds: float | None) -> dict[str, float | None]:  # noqa: ANN001 - words of any kind
        text = words_of(words)
        return {
            "wer": round(100 * count_errors(reference, text).rate, 1),
            "words": len(text),
            "backwards": sum(bool(one > other) for one, other in pairwise(spans)),
            "seconds": seconds and round(seconds, 1),
        }

    transcripts = {
        "windows joined by time": row([word.text for word in merged], [word.start for word in merged], ours),
        "windows as they are": row(blocks, [start for item in heard for start, _ in item.times or ()], None),
        "Whisper's own long form": row([word.word for word in whole], [word.start for word in whole], peer),
    }
    return {
        "transcripts": transcripts,
        "minutes": round(soundfile.info(recording).duration / 60, 1),
        "words": len(reference),
        "speakers": len(by_speaker),
        "voices": len(found),
        "cpwer": round(100 * error.error_rate, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for audio and transcripts")
    parser.add_argument("--recording", type=Path, help="of your own")
    parser.add_argument("--references", type=Path, help="its SegLST")
    parser.add_argument("--output", type=Path, help="JSON of facts")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    files = (options.recording, options.references) if options.recording else make_talk(options.folder)
    values = measure(*files)
    if options.output:
        write_facts(options.output, ABOUT, "tests/benchmarks/bench_whisper_windows.py", values)
    print(tabulate([[name, *row.values()] for name, row in values["transcripts"].items()]))
    print(values)


if __name__ == "__main__":
    main()
