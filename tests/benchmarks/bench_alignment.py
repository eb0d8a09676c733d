"""How exact the word times are that a small trained model with CTC finds in long recordings (not speed).

    python tests/benchmarks/bench_alignment.py CORPUS [--folder DIR] [--output FILE]

The corpus is in LibriSpeech's layout, with the parts train-clean-100, dev-clean, test-clean and test-other. ESPnet
trains a Conformer with CTC on letters (alignment.yaml) on the utterances of the first. The utterances of each speaker
of a test part are joined to one recording, longer than one forced alignment, and aligned as `./run.sh --audio DIR
--text FILE --aligner MODEL` does. Where utterances begin and end is known, so counted are:

- words whose middle is not in their own utterance, and how far away they are;
- seconds from the beginning of an utterance to its first word, and from its last word to its end;
- words with the same times if the recording is aligned in one piece, as torchaudio's `forced_align` does;
- recordings that are refused: with their transcripts, with other ones of the same length, and with part of the words
  left out or replaced.
"""

import argparse
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.longform.alignment import forced
from espnet_ext.longform.alignment.recordings import align_recordings
from espnet_ext.sharing.model_files import ModelFiles, find_model
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.text.transcript import Word

CONFIG = Path(__file__).with_name("alignment.yaml")
TRAIN, DEV, TESTS = "train-clean-100", "dev-clean", ("test-clean", "test-other")
FAULTY = (0.1, 0.3, 0.6)  # share of the words that are left out, or replaced
ABOUT = (
    "Word times that a Conformer of two blocks with CTC, trained on LibriSpeech-digits, finds in its joined test "
    "utterances: words inside of their utterance, distances from its ends in seconds, recordings refused"
)


@dataclass(frozen=True)
class Utterance:
    """A part of a joined recording, from ``start`` to ``end`` in seconds, and its words."""

    start: float
    end: float
    words: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="in LibriSpeech's layout")
    parser.add_argument("--folder", type=Path, help="for the model and the recordings; a model there is taken again")
    parser.add_argument("--output", type=Path, metavar="FILE", help="file of facts")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        values = measure(args.corpus, folder)
    for name, found in values.items():
        print(f"{name}: {found}")
    if args.output:
        write_facts(args.output, ABOUT, "python tests/benchmarks/bench_alignment.py CORPUS --output FILE", values)


def measure(corpus: Path, folder: Path) -> dict[str, Any]:
    model = folder / "model"
    if not (model / "valid.loss.best.pth").is_file():
        train(corpus, folder)
    aligner = find_model(model)
    values: dict[str, Any] = {}
    for part in TESTS:
        recordings = join(corpus / part, folder / part)
        files = {name: folder / part / f"{name}.flac" for name in recordings}
        texts = {name: words_of(spoken) for name, spoken in recordings.items()}
        found = dict(align_recordings(texts, files, aligner, folder / part / "aligned"))
        values[part] = {
            "recordings": len(recordings),
            "minutes": sum(spoken[-1].end for spoken in recordings.values()) / 60,
            "aligned": compare(recordings, found, whole(files, texts, found, aligner)),
            "refused": refusals(files, texts, aligner, folder / part),
        }
    return values


def utterances(part: Path) -> dict[str, tuple[Path, str]]:
    """The audio file and the transcript of each utterance."""
    return {
        key: (transcripts.parent / f"{key}.flac", text)
        for transcripts in sorted(part.glob("*/*/*.trans.txt"))
        for key, text in read_table(transcripts).items()
    }


def train(corpus: Path, folder: Path) -> None:
    """Train ESPnet's Conformer on the utterances of the training part."""
    from espnet_ext.bin import asr_train

    data, shapes = ["--config", str(CONFIG), "--token_list", str(folder / "tokens.txt")], []
    letters: set[str] = set()
    for name, part in (("train", TRAIN), ("valid", DEV)):
        found = utterances(corpus / part)
        (folder / name).mkdir(parents=True, exist_ok=True)
        write_table(folder / name / "wav.scp", {key: str(path.resolve()) for key, (path, _) in found.items()})
        write_table(folder / name / "text", {key: text for key, (_, text) in found.items()})
        letters.update(*(text.replace(" ", "") for _, text in found.values()))
        data += [f"--{name}_data_path_and_name_and_type", f"{folder / name / 'wav.scp'},speech,sound"]
        data += [f"--{name}_data_path_and_name_and_type", f"{folder / name / 'text'},text,text"]
        shapes += [f"--{name}_shape_file", str(folder / "stats" / name / "speech_shape")]
    tokens = ["<blank>", "<unk>", "<space>", *sorted(letters), "<sos/eos>"]
    (folder / "tokens.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    shapes += ["--normalize_conf", f"stats_file={folder / 'stats' / 'train' / 'feats_stats.npz'}"]
    stats = ["--collect_stats", "true", "--normalize", "none", "--output_dir", str(folder / "stats")]
    asr_train.main([*data, *stats])
    asr_train.main([*data, *shapes, "--output_dir", str(folder / "model")])


def join(part: Path, folder: Path) -> dict[str, list[Utterance]]:
    """Write a recording of each speaker's utterances; return what is said where in it."""
    found = utterances(part)
    folder.mkdir(parents=True, exist_ok=True)
    speakers: dict[str, list[str]] = {}
    for key in found:
        speakers.setdefault(key.partition("-")[0], []).append(key)
    recordings = {}
    for name, keys in speakers.items():
        pieces, spoken, at = [], [], 0
        for key in keys:
            path, text = found[key]
            samples, rate = soundfile.read(path, dtype="int16")
            spoken.append(Utterance(at / rate, (at + len(samples)) / rate, tuple(text.split())))
            pieces.append(samples)
            at += len(samples)
        soundfile.write(folder / f"{name}.flac", np.concatenate(pieces), rate)
        recordings[name] = spoken
    return recordings


def words_of(spoken: Sequence[Utterance]) -> list[str]:
    return [word for utterance in spoken for word in utterance.words]


def compare(
    recordings: Mapping[str, list[Utterance]], found: Mapping[str, list[Word] | str], same: Sequence[bool]
) -> dict[str, Any] | None:
    """Words inside of their utterances, and seconds from the ends of these to their first and last words."""
    outside, first, last = [], [], []
    for name, spoken in recordings.items():
        words = found[name]
        if isinstance(words, str):
            continue
        at = 0
        for utterance in spoken:
            own = words[at : at + len(utterance.words)]
            at += len(own)
            outside += [max(utterance.start - word.middle, word.middle - utterance.end, 0.0) for word in own]
            first.append(own[0].start - utterance.start)
            last.append(utterance.end - own[-1].end)
    if not outside:
        return None
    return {
        "words": len(outside),
        "outside": sum(distance > 0.0 for distance in outside),
        "furthest_outside_s": max(outside),
        "first_word_s": quantiles(first),
        "last_word_s": quantiles(last),
        "as_in_one_piece": sum(same),
    }


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    return {name: float(np.quantile(seconds, share)) for name, share in (("5", 0.05), ("50", 0.5), ("95", 0.95))}


def whole(
    files: Mapping[str, Path], texts: Mapping[str, list[str]], found: Mapping[str, Any], aligner: ModelFiles
) -> list[bool]:
    """Whether each word has the same times if its recording is aligned in one piece."""
    piece, forced.PIECE = forced.PIECE, 1e6
    try:
        model = forced.load_aligner(aligner.config, aligner.model)
        return [
            (word.start, word.end) == (other.start, other.end)
            for name, words in found.items()
            if not isinstance(words, str)
            for word, other in zip(words, model.words(files[name], texts[name]), strict=True)
        ]
    finally:
        forced.PIECE = piece


def refusals(
    files: Mapping[str, Path], texts: Mapping[str, list[str]], aligner: ModelFiles, folder: Path
) -> dict[str, int]:
    """By what is wrong with the transcripts, how many recordings are refused."""
    chosen = random.Random(0)
    vocabulary = sorted({word for words in texts.values() for word in words})
    names = list(texts)
    wrong: dict[str, dict[str, list[str]]] = {"right": dict(texts)}
    wrong["of another recording"] = {
        name: texts[other] for name, other in zip(names, [*names[1:], names[0]], strict=True)
    }
    for share in FAULTY:
        left = {name: [word for word in words if chosen.random() >= share] for name, words in texts.items()}
        other = {
            name: [word if chosen.random() >= share else chosen.choice(vocabulary) for word in words]
            for name, words in texts.items()
        }
        wrong |= {f"{share:.0%} left out": left, f"{share:.0%} replaced": other}
    return {
        kind: sum(isinstance(found, str) for _, found in align_recordings(each, files, aligner, folder / f"w{number}"))
        for number, (kind, each) in enumerate(wrong.items())
    }


if __name__ == "__main__":
    main()
