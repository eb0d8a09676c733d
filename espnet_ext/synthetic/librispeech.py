"""A synthetic corpus in LibriSpeech's layout, so that nothing need be downloaded to run
a recipe.
"""

import gzip
import io
import random
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np

from espnet_ext.audio.files import save_audio
from espnet_ext.synthetic.acoustics import SAMPLE_RATE, Condition, draw_scene, record
from espnet_ext.synthetic.english import (
    Grammar,
    english_grammar,
    phrase_grammar,
    text_grammar,
)
from espnet_ext.synthetic.parameters import (
    LIBRISPEECH_SIZES,
    WHAT,
    PartSize,
    Size,
    generator,
    resource,
    seed_of,
    size_called,
)
from espnet_ext.synthetic.voices import Speaker, draw_speakers
from espnet_ext.work.once import fingerprint, make_folder
from espnet_ext.work.parallel import map_shards

LANGUAGE = "en"
LM_TEXT = "librispeech-lm-norm.txt.gz"
# increase it when the same parameters no longer give the same bytes (voices, grammar
# ...)
FORMAT = 1
_TALKERS, _TALKER_SENTENCES = 5, 4  # in the babble of one chapter


@dataclass(frozen=True)
class Chapter:
    """The work of one shard: a speaker reads ``sentences`` in one scene. ``babble``
    holds the talkers behind them.
    """

    folder: str  # where the chapter's files go
    speaker: Speaker
    id: str
    sentences: tuple[str, ...]
    condition: Condition
    babble: tuple[Speaker, ...]
    seed: int

    @property
    def name(self) -> str:
        """``speaker-chapter``, the beginning of its files' names."""
        return f"{self.speaker.id}-{self.id}"


def make_librispeech(
    output: str | Path, size: str = "mini", seed: int = 0, nj: int = 1
) -> bool:
    """Write a synthetic LibriSpeech: audio, transcripts, SPEAKERS.TXT and the
    language-model text.

    ``size`` is a key of ``LIBRISPEECH_SIZES``. The same size and seed give the same
    bytes, with any ``nj``. What is returned and raised:
    :func:`espnet_ext.work.once.make_folder`.
    """
    wanted = size_called(size, LIBRISPEECH_SIZES)
    parameters = {
        "corpus": "librispeech",
        "format": FORMAT,
        "size": {
            "parts": asdict(wanted)["parts"],
            "lm_sentences": wanted.lm_sentences,
            "voices": wanted.voices,
        },
        "conditions": {"clean": asdict(wanted.clean), "other": asdict(wanted.other)},
        "seed": seed,
        **({"text": "other grammar"} if wanted.other_text else {}),
        **({"variants": list(wanted.variants)} if wanted.variants else {}),
        **({"sentences": "phrases"} if wanted.phrases else {}),
    }
    return make_folder(
        output,
        fingerprint(parameters),
        lambda folder: write_corpus(folder, wanted, seed, nj),
        WHAT,
    )


def make_lm_text(output: str | Path, size: str = "mini", seed: int = 0) -> None:
    """Write the language-model text of the corpus that :func:`make_librispeech` makes
    of this size and seed, without its speech.
    """
    wanted = size_called(size, LIBRISPEECH_SIZES)
    _, held_out = draw_sentences(wanted.parts, _spoken(wanted), seed)
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    _write_lm_text(Path(output), wanted, held_out, seed)


def _spoken(size: Size) -> Grammar:
    return phrase_grammar() if size.phrases else english_grammar()


def write_corpus(folder: Path, size: Size, seed: int, nj: int) -> None:
    """Write the parts of a corpus, SPEAKERS.TXT, the language-model text and a README
    into an existing folder.
    """
    counts = {part: part_size.speakers for part, part_size in size.parts.items()}
    speakers = draw_speakers(counts, seed, size.voices, size.variants)
    sentences, held_out = draw_sentences(size.parts, _spoken(size), seed)
    shards = [
        chapter
        for part, own in size.parts.items()
        for chapter in _chapters(
            folder / part,
            speakers[part],
            sentences[part],
            own,
            condition_of(part, size),
            seed,
        )
    ]
    minutes: dict[str, float] = defaultdict(float)
    for chapter, seconds in zip(
        shards, map_shards(write_chapter, shards, nj=nj, describe=WHAT), strict=True
    ):
        minutes[chapter.speaker.id] += seconds / 60
    write_speakers(folder / "SPEAKERS.TXT", speakers, minutes)
    _write_lm_text(folder / LM_TEXT, size, held_out, seed)
    (folder / "README.TXT").write_text(
        resource("librispeech_readme.txt"), encoding="utf-8"
    )


def draw_sentences(
    parts: dict[str, PartSize], grammar: Grammar, seed: int
) -> tuple[dict[str, list[str]], frozenset[str]]:
    """Draw the sentences of each part, all different, and those held out for
    evaluation, which are not in training.
    """
    sentences: dict[str, list[str]] = {}
    held_out: set[str] = set()
    # Evaluation first, so that training can avoid its sentences.
    for part in sorted(parts, key=lambda part: part.startswith("train")):
        count = parts[part].speakers * parts[part].chapters * parts[part].utterances
        rng = random.Random(seed_of(seed, "sentences", part))
        sentences[part] = []
        drawn: set[str] = set()
        while len(sentences[part]) < count:
            sentence = grammar.sentence(rng)
            if sentence not in held_out and sentence not in drawn:
                sentences[part].append(sentence)
                drawn.add(sentence)
        if not part.startswith("train"):
            held_out |= drawn
    return sentences, frozenset(held_out)


def condition_of(part: str, size: Size) -> Condition:
    """Return how a part such as ``dev-clean`` or ``train-other-500`` sounds."""
    return size.other if "other" in part.split("-") else size.clean


def _chapters(
    folder: Path,
    speakers: list[Speaker],
    sentences: list[str],
    size: PartSize,
    condition: Condition,
    seed: int,
) -> list[Chapter]:
    """Share a part's sentences among its speakers' chapters."""
    # The babble behind a noisy recording has voices of its own part, never of training
    # or another evaluation part.
    chapters: list[Chapter] = []
    for speaker, index in product(speakers, range(size.chapters)):
        start, id = len(chapters) * size.utterances, f"{speaker.id}{index}"
        rng = generator(seed, "babble", id)
        talkers = (
            rng.choice(len(speakers), _TALKERS).tolist()
            if rng.uniform() < condition.babble
            else []
        )
        own, babble = (
            tuple(sentences[start : start + size.utterances]),
            tuple(speakers[talker] for talker in talkers),
        )
        chapters.append(
            Chapter(
                str(folder / speaker.id / id), speaker, id, own, condition, babble, seed
            )
        )
    return chapters


def write_chapter(chapter: Chapter) -> float:
    """Write a chapter's FLAC files and its transcript. Returns the seconds of audio."""
    folder = Path(chapter.folder)
    folder.mkdir(
        parents=True, exist_ok=True
    )  # a shard may run again after its worker died
    scene = draw_scene(
        chapter.condition,
        _talkers(chapter),
        generator(chapter.seed, "scene", chapter.name),
    )
    samples_written = 0
    lines = []
    for index, sentence in enumerate(chapter.sentences):
        utterance = f"{chapter.name}-{index:04d}"
        rng = generator(chapter.seed, "utterance", utterance)
        samples = record(
            chapter.speaker.say(sentence, LANGUAGE, rng), scene, chapter.condition, rng
        )
        save_audio(folder / f"{utterance}.flac", samples, SAMPLE_RATE, subtype="PCM_16")
        samples_written += len(samples)
        lines.append(f"{utterance} {sentence}\n")
    (folder / f"{chapter.name}.trans.txt").write_text("".join(lines), encoding="utf-8")
    return samples_written / SAMPLE_RATE


def _talkers(chapter: Chapter) -> list[np.ndarray]:
    """Return the speech of the chapter's babble, one array at 22050 Hz for each talker."""
    grammar = english_grammar()
    talkers = []
    for index, speaker in enumerate(chapter.babble):
        rng = generator(chapter.seed, "talker", chapter.name, index)
        drawn = random.Random(seed_of(chapter.seed, "talk", chapter.name, index))
        talkers.append(
            np.concatenate(
                [
                    speaker.say(grammar.sentence(drawn), LANGUAGE, rng)
                    for _ in range(_TALKER_SENTENCES)
                ]
            )
        )
    return talkers


def write_speakers(
    path: Path, speakers: dict[str, list[Speaker]], minutes: dict[str, float]
) -> None:
    """Write SPEAKERS.TXT: the speakers of each part, and the minutes of speech by the
    speaker's id.
    """
    lines = [
        f"{speaker.id:<6} | {speaker.sex} | {part:<16} | "
        f"{minutes[speaker.id]:.2f} | {speaker.variant}\n"
        for part, members in speakers.items()
        for speaker in members
    ]
    path.write_text(resource("speakers_header.txt") + "".join(lines), encoding="utf-8")


def _write_lm_text(path: Path, size: Size, held_out: frozenset[str], seed: int) -> None:
    """Write sentences of a grammar, without the held-out ones. Some occur more than
    once, as in any text.
    """
    grammar = text_grammar() if size.other_text else _spoken(size)
    rng = random.Random(seed_of(seed, "lm"))
    lines: list[str] = []
    while len(lines) < size.lm_sentences:
        sentence = grammar.sentence(rng)
        if sentence not in held_out:
            lines.append(sentence + "\n")
    packed = io.BytesIO()
    with gzip.GzipFile(
        "", "wb", fileobj=packed, mtime=0
    ) as file:  # no name and no time, so the same bytes
        file.write("".join(lines).encode())
    path.write_bytes(packed.getvalue())
