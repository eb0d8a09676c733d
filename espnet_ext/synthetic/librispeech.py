"""Make a synthetic corpus in LibriSpeech's layout: nothing need be downloaded."""

import gzip
import io
import random
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.audio.files import save_audio
from espnet_ext.synthetic.acoustics import SAMPLE_RATE, Condition, draw_scene, record
from espnet_ext.synthetic.english import (
    Grammar,
    build_english_grammar,
    build_phrase_grammar,
    build_text_grammar,
)
from espnet_ext.synthetic.parameters import (
    LIBRISPEECH_SIZES,
    WHAT,
    PartSize,
    Size,
    derive_seed,
    find_size,
    make_generator,
    read_resource,
)
from espnet_ext.synthetic.voices import Speaker, draw_speakers
from espnet_ext.work.once import fingerprint, make_folder
from espnet_ext.work.parallel import map_shards

LANGUAGE = "en"
LM_TEXT = "librispeech-lm-norm.txt.gz"
# To be increased when the same parameters no longer give the same bytes (voices,
# grammar ...).
FORMAT = 1
_TALKERS = 5  # in the babble of one chapter
_TALKER_SENTENCES = 4  # of each of them


@dataclass(frozen=True)
class Chapter:
    """The work of one shard: a speaker reads ``sentences`` in one scene.

    ``babble`` holds the talkers behind them.
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
    output: str | Path,
    size: str = "mini",
    seed: int = 0,
    nj: int = 1,
) -> bool:
    """Write a synthetic LibriSpeech.

    It has audio, transcripts, SPEAKERS.TXT and the language-model text. ``size`` is a
    key of ``LIBRISPEECH_SIZES``. The same size and seed give the same bytes, with any
    ``nj``. What is returned and raised:
    :func:`espnet_ext.work.once.make_folder`.
    """
    wanted = find_size(size, LIBRISPEECH_SIZES)
    parameters: dict[str, Any] = {
        "corpus": "librispeech",
        "format": FORMAT,
        "size": {
            "parts": asdict(wanted)["parts"],
            "lm_sentences": wanted.lm_sentences,
            "voices": wanted.voices,
        },
        "conditions": {"clean": asdict(wanted.clean), "other": asdict(wanted.other)},
        "seed": seed,
    }
    # Named only where they are used, so that other corpora keep their fingerprints.
    if wanted.other_text:
        parameters["text"] = "other grammar"
    if wanted.variants:
        parameters["variants"] = list(wanted.variants)
    if wanted.phrases:
        parameters["sentences"] = "phrases"
    return make_folder(
        output,
        fingerprint(parameters),
        lambda folder: write_corpus(folder, wanted, seed, nj),
        WHAT,
    )


def make_lm_text(output: str | Path, size: str = "mini", seed: int = 0) -> None:
    """Write the language-model text of a corpus, without its speech.

    It is that of :func:`make_librispeech` for the same size and seed.
    """
    wanted = find_size(size, LIBRISPEECH_SIZES)
    _, held_out = draw_sentences(wanted.parts, _choose_grammar(wanted), seed)
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    _write_lm_text(Path(output), wanted, held_out, seed)


def _choose_grammar(size: Size) -> Grammar:
    return build_phrase_grammar() if size.phrases else build_english_grammar()


def write_corpus(folder: Path, size: Size, seed: int, nj: int) -> None:
    """Write a corpus into an existing folder.

    It has its parts, SPEAKERS.TXT, the language-model text and a README.
    """
    counts = {part: part_size.speakers for part, part_size in size.parts.items()}
    speakers = draw_speakers(counts, seed, size.voices, size.variants)
    sentences, held_out = draw_sentences(size.parts, _choose_grammar(size), seed)
    shards: list[Chapter] = []
    for part, own in size.parts.items():
        shards += _draw_chapters(
            folder / part,
            speakers[part],
            sentences[part],
            own,
            choose_condition(part, size),
            seed,
        )
    lengths = map_shards(write_chapter, shards, nj=nj, describe=WHAT)
    minutes: dict[str, float] = defaultdict(float)
    for chapter, seconds in zip(shards, lengths, strict=True):
        minutes[chapter.speaker.id] += seconds / 60
    write_speakers(folder / "SPEAKERS.TXT", speakers, minutes)
    _write_lm_text(folder / LM_TEXT, size, held_out, seed)
    (folder / "README.TXT").write_text(
        read_resource("librispeech_readme.txt"), encoding="utf-8"
    )


def draw_sentences(
    parts: dict[str, PartSize],
    grammar: Grammar,
    seed: int,
) -> tuple[dict[str, list[str]], frozenset[str]]:
    """Draw the sentences of each part, all different.

    Also returned are those held out for evaluation, which are not in training.
    """
    sentences: dict[str, list[str]] = {}
    held_out: set[str] = set()
    # Evaluation first, so that training can avoid its sentences.
    for part in sorted(parts, key=lambda part: part.startswith("train")):
        size = parts[part]
        count = size.speakers * size.chapters * size.utterances
        rng = random.Random(derive_seed(seed, "sentences", part))
        sentences[part] = []
        drawn: set[str] = set()
        while len(sentences[part]) < count:
            sentence = grammar.draw_sentence(rng)
            if sentence not in held_out and sentence not in drawn:
                sentences[part].append(sentence)
                drawn.add(sentence)
        if not part.startswith("train"):
            held_out |= drawn
    return sentences, frozenset(held_out)


def choose_condition(part: str, size: Size) -> Condition:
    """Return how a part such as ``dev-clean`` or ``train-other-500`` sounds."""
    return size.other if "other" in part.split("-") else size.clean


def _draw_chapters(
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
        start = len(chapters) * size.utterances
        id = f"{speaker.id}{index}"
        rng = make_generator(seed, "babble", id)
        talkers = []
        if rng.uniform() < condition.babble:
            talkers = rng.choice(len(speakers), _TALKERS).tolist()
        chapters.append(
            Chapter(
                folder=str(folder / speaker.id / id),
                speaker=speaker,
                id=id,
                sentences=tuple(sentences[start : start + size.utterances]),
                condition=condition,
                babble=tuple(speakers[talker] for talker in talkers),
                seed=seed,
            )
        )
    return chapters


def write_chapter(chapter: Chapter) -> float:
    """Write a chapter's FLAC files and its transcript. Returns the seconds of audio."""
    folder = Path(chapter.folder)
    # A shard may run again after its worker died.
    folder.mkdir(parents=True, exist_ok=True)
    scene_rng = make_generator(chapter.seed, "scene", chapter.name)
    scene = draw_scene(chapter.condition, _say_babble(chapter), scene_rng)
    samples_written = 0
    lines = []
    for index, sentence in enumerate(chapter.sentences):
        utterance = f"{chapter.name}-{index:04d}"
        rng = make_generator(chapter.seed, "utterance", utterance)
        speech = chapter.speaker.say(sentence, LANGUAGE, rng)
        samples = record(speech, scene, chapter.condition, rng)
        save_audio(folder / f"{utterance}.flac", samples, SAMPLE_RATE, subtype="PCM_16")
        samples_written += len(samples)
        lines.append(f"{utterance} {sentence}\n")
    (folder / f"{chapter.name}.trans.txt").write_text("".join(lines), encoding="utf-8")
    return samples_written / SAMPLE_RATE


def _say_babble(chapter: Chapter) -> list[np.ndarray]:
    """Return what the babble says: an array (samples,) at 22050 Hz for each talker."""
    grammar = build_english_grammar()
    talkers = []
    for index, speaker in enumerate(chapter.babble):
        rng = make_generator(chapter.seed, "talker", chapter.name, index)
        drawn = random.Random(derive_seed(chapter.seed, "talk", chapter.name, index))
        said = []
        for _ in range(_TALKER_SENTENCES):
            sentence = grammar.draw_sentence(drawn)
            said.append(speaker.say(sentence, LANGUAGE, rng))
        talkers.append(np.concatenate(said))
    return talkers


def write_speakers(
    path: Path,
    speakers: dict[str, list[Speaker]],
    minutes: dict[str, float],
) -> None:
    """Write SPEAKERS.TXT, which lists each part's speakers and their minutes."""
    lines = [read_resource("speakers_header.txt")]
    for part, members in speakers.items():
        for speaker in members:
            lines.append(
                f"{speaker.id:<6} | {speaker.sex} | {part:<16} | "
                f"{minutes[speaker.id]:.2f} | {speaker.variant}\n"
            )
    path.write_text("".join(lines), encoding="utf-8")


def _write_lm_text(path: Path, size: Size, held_out: frozenset[str], seed: int) -> None:
    """Write sentences of a grammar, without the held-out ones.

    Some occur more than once, as in any text.
    """
    grammar = build_text_grammar() if size.other_text else _choose_grammar(size)
    rng = random.Random(derive_seed(seed, "lm"))
    lines: list[str] = []
    while len(lines) < size.lm_sentences:
        sentence = grammar.draw_sentence(rng)
        if sentence not in held_out:
            lines.append(sentence + "\n")
    packed = io.BytesIO()
    # No name and no time, so that the bytes are always the same.
    with gzip.GzipFile("", "wb", fileobj=packed, mtime=0) as file:
        file.write("".join(lines).encode())
    path.write_bytes(packed.getvalue())
