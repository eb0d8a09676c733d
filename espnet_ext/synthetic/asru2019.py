"""A synthetic corpus in the layout of the ASRU 2019 code-switching corpus, with English
in LibriSpeech's.

Transcripts are as people write them, with lower-case English and a full stop, for the
text rules.
"""

import dataclasses
import random
from collections.abc import Iterator, Mapping
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
    bilingual_grammar,
)
from espnet_ext.synthetic.voices import BRITISH, Speaker, draw_speakers
from espnet_ext.work.once import fingerprint, make_folder
from espnet_ext.work.parallel import map_shards

# increase it when the same parameters no longer give the same bytes (voices, grammar
# ...)
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
# Ids have the form that the corpora of the challenge's donor have: task, speaker,
# sentence.
_TASKS = {"train-cs": "T0001", "train-zh": "T0002", "dev": "T0003", "test": "T0004"}
# of four speakers, the first reads in train-clean-100 and three in train-clean-360,
# near the real ratio
_EVERY = 4

Sentence = tuple[Fragment, ...]


@dataclass(frozen=True)
class Reading:
    """The work of one shard: a speaker reads the sentences of one part. ``beside``: a
    transcript beside each file.
    """

    folder: str
    name: str  # task and speaker, the beginning of the utterances' ids
    speaker: Speaker
    language: str
    sentences: tuple[Sentence, ...]
    beside: bool
    seed: int


def make_asru2019(
    output: str | Path, size: str = "mini", seed: int = 0, nj: int = 1
) -> bool:
    """Write a synthetic ASRU 2019 corpus: ``train-cs``, ``train-zh``, ``dev``, ``test``
    and ``LibriSpeech``.

    ``size`` is a key of ``ASRU2019_SIZES``; the rest is as in
    :func:`espnet_ext.synthetic.librispeech.make_librispeech`.
    """
    wanted = parameters.size_called(size, parameters.ASRU2019_SIZES)
    size_of, condition = asdict(wanted), asdict(CLEAN)
    made_from = {
        "corpus": "asru2019",
        "format": FORMAT,
        "size": size_of,
        "condition": condition,
        "seed": seed,
    }
    return make_folder(
        output,
        fingerprint(made_from),
        lambda folder: _write_corpus(folder, wanted, seed, nj),
        parameters.WHAT,
    )


def _write_corpus(
    folder: Path, size: parameters.BilingualSize, seed: int, nj: int
) -> None:
    readings, chapters = shards_of(folder, size, seed)
    shards: list[Reading | Chapter] = [*readings, *chapters]
    lines, seconds = zip(
        *map_shards(write_shard, shards, nj=nj, describe=parameters.WHAT), strict=True
    )
    listed: dict[Path, str] = {}
    for reading, text in zip(
        readings, lines, strict=False
    ):  # the chapters, which follow, have no lines
        if not reading.beside:
            path = Path(reading.folder).parent / "transcript.txt"
            listed[path] = listed.get(path, "") + text
    for path, text in listed.items():
        path.write_text(text, encoding="utf-8")
    minutes = {
        chapter.speaker.id: each / 60
        for chapter, each in zip(chapters, seconds[len(readings) :], strict=True)
    }
    members: dict[str, list[Speaker]] = {part: [] for part in ENGLISH_PARTS}
    for chapter in chapters:
        members[Path(chapter.folder).parts[-3]].append(chapter.speaker)
    write_speakers(folder / LIBRISPEECH / "SPEAKERS.TXT", members, minutes)
    (folder / "README.TXT").write_text(
        parameters.resource("asru2019_readme.txt"), encoding="utf-8"
    )


def shards_of(
    folder: Path, size: parameters.BilingualSize, seed: int
) -> tuple[list[Reading], list[Chapter]]:
    """List the work: readings of the challenge's parts and chapters of LibriSpeech, one
    for each speaker and part.
    """
    readers = _readers(size, seed)
    counts, later = (
        {part: number * len(readers[part]) for part, number in each.items()}
        for each in (size.utterances, size.later)
    )
    sentences = draw_sentences(counts, seed, later)
    shared = {
        part: zip(readers[part], _shares(sentences[part], size, part), strict=True)
        for part in LANGUAGES
    }
    readings, chapters = [], []
    for part, task in _TASKS.items():
        for speaker, read in shared[part]:
            person, beside = f"G{speaker.id:0>4}", part == "train-zh"
            where = folder / part / person
            readings.append(
                Reading(
                    str(where),
                    task + person,
                    speaker,
                    LANGUAGES[part],
                    read,
                    beside,
                    seed,
                )
            )
    for index, (speaker, read) in enumerate(shared[LIBRISPEECH]):
        number, texts = f"{speaker.id}0", tuple(sentence[0].text for sentence in read)
        where = (
            folder
            / LIBRISPEECH
            / ENGLISH_PARTS[index % _EVERY > 0]
            / speaker.id
            / number
        )
        chapters.append(Chapter(str(where), speaker, number, texts, CLEAN, (), seed))
    return readings, chapters


def _shares(
    sentences: list[Sentence], size: parameters.BilingualSize, part: str
) -> Iterator[tuple[Sentence, ...]]:
    """Yield what each speaker of a part reads: a share of the first sentences, then one
    of those drawn later.
    """
    first, later = size.utterances[part], size.later.get(part, 0)
    border = first * len(sentences) // (first + later)
    shares = batched(sentences[:border], first)
    if not later:
        return shares
    return (
        one + other
        for one, other in zip(shares, batched(sentences[border:], later), strict=True)
    )


def _readers(size: parameters.BilingualSize, seed: int) -> dict[str, list[Speaker]]:
    """Draw the speakers of each part. Their English is British in English sentences, as
    in mixed ones.
    """
    named = {
        f"all-{group}": count for group, count in size.speakers.items()
    }  # all groups share the variants
    everybody = draw_speakers(named, seed, {"all": size.voices})
    drawn = {group: everybody[f"all-{group}"] for group in size.speakers}
    speakers = {
        group: [dataclasses.replace(speaker, accent=BRITISH) for speaker in members]
        for group, members in drawn.items()
    }
    return {
        part: speakers[part] if part in EVALUATION else speakers["train"]
        for part in LANGUAGES
    }


def draw_sentences(
    counts: Mapping[str, int], seed: int, later: Mapping[str, int] | None = None
) -> dict[str, list[Sentence]]:
    """Draw as many sentences of each part of ``LANGUAGES`` as ``counts`` says, all
    different within a part.

    ``later`` says how many more sentences of ``dev`` and ``test`` are drawn after all
    others, and follow those of their part. So the others do not depend on them.

    Every fragment of a mixed sentence occurs in a monolingual training sentence (P1,
    section 1). No training sentence says, in any language, what a sentence of ``dev``
    or ``test`` says; nor do these two share a sentence.
    """
    bilingual = bilingual_grammar()
    sentences: dict[str, list[Sentence]] = {}
    trained: set[str] = set()
    held_out: set[str] = set()
    for part, count in [
        *((part, counts[part]) for part in LANGUAGES),
        *(later or {}).items(),
    ]:
        language = LANGUAGES[part]
        rng = random.Random(
            parameters.seed_of(
                seed, "sentences", part, *(["later"] if part in sentences else [])
            )
        )
        monolingual = {
            MANDARIN: _joined(sentences, "train-zh"),
            ENGLISH: _joined(sentences, LIBRISPEECH),
        }
        drawn: dict[Sentence, None] = {}
        while len(drawn) < count:
            phrase = bilingual.derive(rng)
            said = {
                side: Fragment(side, tuple(phrase.say(side)))
                for side in (MANDARIN, ENGLISH)
            }
            meaning = {_bounded(fragment) for fragment in said.values()}
            sentence = (
                bilingual.mix(phrase, rng) if language == MIXED else (said[language],)
            )
            if (
                sentence is None
                or meaning & held_out
                or (part in EVALUATION and meaning & trained)
            ):
                continue
            if language == MIXED and not all(
                _bounded(one) in monolingual[one.language] for one in sentence
            ):
                continue
            drawn[sentence] = None
            (held_out if part in EVALUATION else trained).update(meaning)
        sentences[part] = [*sentences.get(part, ()), *drawn]
    return sentences


def _joined(sentences: dict[str, list[Sentence]], part: str) -> str:
    return "\n".join(
        _bounded(fragment)
        for sentence in sentences.get(part, ())
        for fragment in sentence
    )


def _bounded(fragment: Fragment) -> str:
    """Join the words with a space on each side of each word, so that part of a word is
    not taken for a word.
    """
    return "".join(f" {word} " for word in fragment.words)


def write_shard(shard: Reading | Chapter) -> tuple[str, float]:
    """Write a reading, and return the lines of a list; or write a chapter, and return
    its seconds of audio.
    """
    return (
        (write_reading(shard), 0.0)
        if isinstance(shard, Reading)
        else ("", write_chapter(shard))
    )


def write_reading(reading: Reading) -> str:
    """Write a reading's WAV files, and a transcript beside each if there is no list.
    Returns the lines of the list.
    """
    folder = Path(reading.folder)
    folder.mkdir(
        parents=True, exist_ok=True
    )  # a shard may run again after its worker died
    scene = draw_scene(
        CLEAN, [], parameters.generator(reading.seed, "scene", reading.name)
    )
    lines = []
    for index, sentence in enumerate(reading.sentences):
        utterance = f"{reading.name}S{index:04d}"
        rng = parameters.generator(reading.seed, "utterance", utterance)
        text = " ".join(fragment.text for fragment in sentence)
        samples = record(
            reading.speaker.say(text, reading.language, rng), scene, CLEAN, rng
        )
        save_audio(folder / f"{utterance}.wav", samples, SAMPLE_RATE, subtype="PCM_16")
        transcript = f"{text.lower()}。\n"
        if reading.beside:
            (folder / f"{utterance}.txt").write_text(transcript, encoding="utf-8")
        lines.append(f"{utterance} {transcript}")
    return "".join(lines)
