"""Make a synthetic ASRU 2019 corpus, and English in LibriSpeech's layout.

Transcripts are as people write them, with lower-case English and a full stop, for the
text rules.
"""

import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import batched
from pathlib import Path

from espnet_ext.audio.files import save_audio
from espnet_ext.synthetic import parameters
from espnet_ext.synthetic.acoustics import CLEAN, SAMPLE_RATE, draw_scene, record
from espnet_ext.synthetic.librispeech import Chapter, write_chapter, write_speakers
from espnet_ext.synthetic.mandarin_english import (
    ENGLISH,
    MANDARIN,
    Fragment,
    build_bilingual_grammar,
)
from espnet_ext.synthetic.voices import BRITISH, Speaker, draw_speakers
from espnet_ext.work.once import fingerprint, make_folder
from espnet_ext.work.parallel import map_shards

# To be increased when the same parameters no longer give the same bytes (voices,
# grammar ...).
FORMAT = 2
MIXED = "cs"
LIBRISPEECH = "LibriSpeech"
ENGLISH_PARTS = ("train-clean-100", "train-clean-360")
EVALUATION = ("dev", "test")
# What is spoken, in the order in which sentences are drawn: mixed sentences are made
# from fragments of the others, and evaluation comes before mixed training speech, which
# avoids its sentences.
LANGUAGES = {
    "train-zh": MANDARIN,
    LIBRISPEECH: ENGLISH,
    "dev": MIXED,
    "test": MIXED,
    "train-cs": MIXED,
}
# Ids are task, speaker and sentence, as in the corpora of the challenge's donor.
_TASKS = {"train-cs": "T0001", "train-zh": "T0002", "dev": "T0003", "test": "T0004"}
# Of four speakers, the first reads in train-clean-100 and three in train-clean-360:
# about the real ratio.
_EVERY = 4

Sentence = tuple[Fragment, ...]


@dataclass(frozen=True)
class Reading:
    """The work of one shard: a speaker reads the sentences of one part."""

    folder: str
    name: str  # task and speaker, the beginning of the utterances' ids
    speaker: Speaker
    language: str
    sentences: tuple[Sentence, ...]
    beside: bool  # whether each file has a transcript beside it
    seed: int


def make_asru2019(
    output: str | Path,
    size: str = "mini",
    seed: int = 0,
    nj: int = 1,
) -> bool:
    """Write a synthetic ASRU 2019 corpus.

    Its parts are ``train-cs``, ``train-zh``, ``dev``, ``test`` and ``LibriSpeech``.
    ``size`` is a key of ``ASRU2019_SIZES``; the rest is as in
    :func:`espnet_ext.synthetic.librispeech.make_librispeech`.
    """
    wanted = parameters.find_size(size, parameters.ASRU2019_SIZES)
    made_from = {
        "corpus": "asru2019",
        "format": FORMAT,
        "size": asdict(wanted),
        "condition": asdict(CLEAN),
        "seed": seed,
    }
    return make_folder(
        output,
        fingerprint(made_from),
        lambda folder: _write_corpus(folder, wanted, seed, nj),
        parameters.WHAT,
    )


def _write_corpus(
    folder: Path,
    size: parameters.BilingualSize,
    seed: int,
    nj: int,
) -> None:
    readings, chapters = draw_shards(folder, size, seed)
    shards: list[Reading | Chapter] = [*readings, *chapters]
    written = map_shards(write_shard, shards, nj=nj, describe=parameters.WHAT)
    listed: dict[Path, str] = {}
    # The chapters, which follow the readings, have no lines.
    for reading, (text, _) in zip(readings, written[: len(readings)], strict=True):
        if not reading.beside:
            path = Path(reading.folder).parent / "transcript.txt"
            listed[path] = listed.get(path, "") + text
    for path, text in listed.items():
        path.write_text(text, encoding="utf-8")
    minutes = {}
    members: dict[str, list[Speaker]] = {part: [] for part in ENGLISH_PARTS}
    for chapter, (_, seconds) in zip(chapters, written[len(readings) :], strict=True):
        minutes[chapter.speaker.id] = seconds / 60
        # part/speaker/chapter
        part = Path(chapter.folder).parts[-3]
        members[part].append(chapter.speaker)
    write_speakers(folder / LIBRISPEECH / "SPEAKERS.TXT", members, minutes)
    (folder / "README.TXT").write_text(
        parameters.read_resource("asru2019_readme.txt"), encoding="utf-8"
    )


def draw_shards(
    folder: Path,
    size: parameters.BilingualSize,
    seed: int,
) -> tuple[list[Reading], list[Chapter]]:
    """Draw the work: readings of the challenge's parts, and chapters of LibriSpeech.

    There is one for each speaker and part.
    """
    readers = _draw_readers(size, seed)
    counts = _count_sentences(size.utterances, readers)
    later = _count_sentences(size.later, readers)
    sentences = draw_sentences(counts, seed, later)
    shared = {}
    for part in LANGUAGES:
        shares = _share_sentences(sentences[part], size, part)
        shared[part] = zip(readers[part], shares, strict=True)
    readings = []
    for part, task in _TASKS.items():
        for speaker, read in shared[part]:
            person = f"G{speaker.id:0>4}"
            readings.append(
                Reading(
                    folder=str(folder / part / person),
                    name=task + person,
                    speaker=speaker,
                    language=LANGUAGES[part],
                    sentences=read,
                    beside=part == "train-zh",
                    seed=seed,
                )
            )
    chapters = []
    for index, (speaker, read) in enumerate(shared[LIBRISPEECH]):
        part = ENGLISH_PARTS[0 if index % _EVERY == 0 else 1]
        number = f"{speaker.id}0"
        where = folder / LIBRISPEECH / part / speaker.id / number
        texts = tuple(sentence[0].text for sentence in read)
        chapters.append(Chapter(str(where), speaker, number, texts, CLEAN, (), seed))
    return readings, chapters


def _count_sentences(
    utterances: Mapping[str, int],
    readers: Mapping[str, Sequence[Speaker]],
) -> dict[str, int]:
    """Count the sentences of each part; ``utterances`` are those of one speaker."""
    return {part: number * len(readers[part]) for part, number in utterances.items()}


def _share_sentences(
    sentences: list[Sentence],
    size: parameters.BilingualSize,
    part: str,
) -> Iterator[tuple[Sentence, ...]]:
    """Yield what each speaker of a part reads.

    It is a share of the first sentences, then one of those drawn later.
    """
    first = size.utterances[part]
    later = size.later.get(part, 0)
    border = first * len(sentences) // (first + later)
    shares = batched(sentences[:border], first)
    if not later:
        yield from shares
        return
    for one, other in zip(shares, batched(sentences[border:], later), strict=True):
        yield one + other


def _draw_readers(
    size: parameters.BilingualSize,
    seed: int,
) -> dict[str, list[Speaker]]:
    """Draw the speakers of each part.

    Their English is British in English sentences, as in mixed ones.
    """
    # All groups share the variants of one use, "all", the beginning of their names.
    counts = {f"all-{group}": count for group, count in size.speakers.items()}
    drawn = draw_speakers(counts, seed, {"all": size.voices})
    speakers = {}
    for group in size.speakers:
        members = drawn[f"all-{group}"]
        speakers[group] = [
            dataclasses.replace(speaker, accent=BRITISH) for speaker in members
        ]
    readers = {}
    for part in LANGUAGES:
        readers[part] = speakers[part if part in EVALUATION else "train"]
    return readers


def draw_sentences(
    counts: Mapping[str, int],
    seed: int,
    later: Mapping[str, int] | None = None,
) -> dict[str, list[Sentence]]:
    """Draw the sentences of each part of ``LANGUAGES``, all different within a part.

    ``counts`` says how many. ``later`` says how many more sentences of ``dev`` and
    ``test`` are drawn after all others, and follow those of their part. So the others
    do not depend on them.

    Every fragment of a mixed sentence occurs in a monolingual training sentence (P1,
    section 1). No training sentence says, in any language, what a sentence of ``dev``
    or ``test`` says; nor do these two share a sentence.
    """
    bilingual = build_bilingual_grammar()
    sentences: dict[str, list[Sentence]] = {}
    trained: set[str] = set()
    held_out: set[str] = set()
    rounds = [(part, counts[part]) for part in LANGUAGES]
    rounds += (later or {}).items()
    for part, count in rounds:
        language = LANGUAGES[part]
        names = ["sentences", part]
        if part in sentences:
            names.append("later")
        rng = random.Random(parameters.derive_seed(seed, *names))
        monolingual = {
            MANDARIN: _join_words(sentences, "train-zh"),
            ENGLISH: _join_words(sentences, LIBRISPEECH),
        }
        # A dict in place of a set, since it keeps the order of the draws.
        drawn: dict[Sentence, None] = {}
        while len(drawn) < count:
            phrase = bilingual.derive(rng)
            said = {
                side: Fragment(side, tuple(phrase.say(side)))
                for side in (MANDARIN, ENGLISH)
            }
            meaning = {_bound_words(fragment) for fragment in said.values()}
            sentence: Sentence | None = (said[MANDARIN],)
            if language == ENGLISH:
                sentence = (said[ENGLISH],)
            elif language == MIXED:
                sentence = bilingual.mix(phrase, rng)
            if sentence is None or meaning & held_out:
                continue
            if part in EVALUATION and meaning & trained:
                continue
            if language == MIXED and not _are_heard(sentence, monolingual):
                continue
            drawn[sentence] = None
            seen = held_out if part in EVALUATION else trained
            seen.update(meaning)
        sentences[part] = [*sentences.get(part, ()), *drawn]
    return sentences


def _are_heard(sentence: Sentence, monolingual: Mapping[str, str]) -> bool:
    """Tell whether every fragment occurs in the speech of its language."""
    return all(
        _bound_words(fragment) in monolingual[fragment.language]
        for fragment in sentence
    )


def _join_words(sentences: dict[str, list[Sentence]], part: str) -> str:
    lines = []
    for sentence in sentences.get(part, ()):
        lines += [_bound_words(fragment) for fragment in sentence]
    return "\n".join(lines)


def _bound_words(fragment: Fragment) -> str:
    """Join words with a space on each side, so that a part of a word is not found."""
    return "".join(f" {word} " for word in fragment.words)


def write_shard(shard: Reading | Chapter) -> tuple[str, float]:
    """Write a reading or a chapter.

    Returns the lines of a reading's list, empty for a chapter, and a chapter's seconds
    of audio, 0 for a reading.
    """
    if isinstance(shard, Reading):
        return write_reading(shard), 0.0
    return "", write_chapter(shard)


def write_reading(reading: Reading) -> str:
    """Write a reading's WAV files, and a transcript beside each if there is no list.

    Returns the lines of the list.
    """
    folder = Path(reading.folder)
    # A shard may run again after its worker died.
    folder.mkdir(parents=True, exist_ok=True)
    scene_rng = parameters.make_generator(reading.seed, "scene", reading.name)
    scene = draw_scene(CLEAN, [], scene_rng)
    lines = []
    for index, sentence in enumerate(reading.sentences):
        utterance = f"{reading.name}S{index:04d}"
        rng = parameters.make_generator(reading.seed, "utterance", utterance)
        text = " ".join(fragment.text for fragment in sentence)
        speech = reading.speaker.say(text, reading.language, rng)
        samples = record(speech, scene, CLEAN, rng)
        save_audio(folder / f"{utterance}.wav", samples, SAMPLE_RATE, subtype="PCM_16")
        transcript = f"{text.lower()}。\n"
        if reading.beside:
            (folder / f"{utterance}.txt").write_text(transcript, encoding="utf-8")
        lines.append(f"{utterance} {transcript}")
    return "".join(lines)
