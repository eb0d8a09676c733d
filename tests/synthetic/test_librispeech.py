"""The synthetic corpus in LibriSpeech's layout."""

import filecmp
import gzip
import random
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.corpora.librispeech import prepare_librispeech
from espnet_ext.errors import InputError
from espnet_ext.synthetic.acoustics import CLEAN, OTHER
from espnet_ext.synthetic.english import (
    build_english_grammar,
    build_phrase_grammar,
    build_text_grammar,
)
from espnet_ext.synthetic.librispeech import (
    LM_TEXT,
    choose_condition,
    draw_sentences,
    make_librispeech,
    make_lm_text,
)
from espnet_ext.synthetic.parameters import LIBRISPEECH_SIZES

PARTS = ["dev-clean", "dev-other", "test-clean", "test-other", "train-clean-100"]


def files(folder: Path) -> list[Path]:
    return sorted(
        path.relative_to(folder) for path in folder.rglob("*") if path.is_file()
    )


def transcripts(corpus: Path, part: str) -> dict[str, str]:
    lines = [
        line
        for path in (corpus / part).rglob("*.trans.txt")
        for line in path.read_text().splitlines()
    ]
    return dict(line.split(" ", 1) for line in lines)


def lm_text(corpus: Path) -> list[str]:
    return gzip.decompress((corpus / LM_TEXT).read_bytes()).decode().splitlines()


def test_layout(mini_corpus: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in mini_corpus.iterdir() if path.is_dir()) == PARTS
    data = prepare_librispeech(mini_corpus, tmp_path)
    for part in PARTS:
        texts = transcripts(mini_corpus, part)
        assert data[part].text == texts
        assert len(texts) == (4 if part == "train-clean-100" else 2)
        for path in (mini_corpus / part).rglob("*.flac"):
            speaker, chapter, number = path.stem.split("-")
            assert path.parent == mini_corpus / part / speaker / chapter
            assert re.fullmatch(r"\d+-\d+-\d{4}", path.stem)
            assert re.fullmatch(r"[A-Z']+( [A-Z']+){3,9}", texts.pop(path.stem))
        assert not texts


def test_audio_format(mini_corpus: Path) -> None:
    for path in mini_corpus.rglob("*.flac"):
        info = soundfile.info(path)
        assert (info.format, info.subtype, info.samplerate, info.channels) == (
            "FLAC",
            "PCM_16",
            16000,
            1,
        )
        assert 1 < info.duration < 8
        samples, _ = soundfile.read(path, dtype="int16")
        assert 1000 < np.abs(samples.astype(int)).max() < 0.9 * 32768
        # No digital silence: a recording has a noise floor everywhere.
        frames = samples[: len(samples) // 400 * 400].reshape(-1, 400).astype(float)
        assert frames.std(axis=1).min() > 0


def test_speakers_are_of_one_part_each(mini_corpus: Path) -> None:
    lines = (mini_corpus / "SPEAKERS.TXT").read_text().splitlines()
    rows = [
        [field.strip() for field in line.split("|")]
        for line in lines
        if not line.startswith(";")
    ]
    assert sorted(row[2] for row in rows) == sorted([*PARTS, "train-clean-100"])
    for speaker, sex, part, minutes, _ in rows:
        assert sex in "MF"
        audio = list((mini_corpus / part / speaker).rglob("*.flac"))
        assert float(minutes) == pytest.approx(
            sum(soundfile.info(path).duration for path in audio) / 60, abs=0.006
        )
        assert [path.name for path in mini_corpus.glob(f"*/{speaker}")] == [speaker]
    assert len({row[0] for row in rows}) == len({row[4] for row in rows}) == len(rows)


def test_same_seed_same_bytes(mini_corpus: Path, tmp_path: Path, tiny: str) -> None:
    make_librispeech(tmp_path / "again", tiny, seed=0)
    assert files(tmp_path / "again") == files(mini_corpus)
    _, differing, errors = filecmp.cmpfiles(
        mini_corpus, tmp_path / "again", files(mini_corpus), shallow=False
    )
    assert (differing, errors) == ([], [])


@pytest.mark.parametrize("size", ["smoke", "mini", "mini-whisper"])
def test_evaluation_sentences_are_unseen(size: str) -> None:
    parts = LIBRISPEECH_SIZES[size].parts
    sentences, held_out = draw_sentences(
        parts,
        build_phrase_grammar()
        if LIBRISPEECH_SIZES[size].phrases
        else build_english_grammar(),
        seed=3,
    )
    for part in parts:
        count = parts[part].speakers * parts[part].chapters * parts[part].utterances
        assert len(sentences[part]) == len(set(sentences[part])) == count
    evaluation = [
        sentence
        for part in parts
        if not part.startswith("train")
        for sentence in sentences[part]
    ]
    assert len(set(evaluation)) == len(evaluation)
    assert held_out == set(evaluation)
    assert not held_out & set(sentences["train-clean-100"])


def test_lm_text_has_no_evaluation_sentence(mini_corpus: Path) -> None:
    lines = lm_text(mini_corpus)
    assert len(lines) == 50
    assert not set(lines) & {
        text for part in PARTS[:4] for text in transcripts(mini_corpus, part).values()
    }
    header = (mini_corpus / LM_TEXT).read_bytes()[:10]
    assert header[4:8] == bytes(4)  # no time of making


def test_lm_text_alone_is_that_of_the_corpus(
    mini_corpus: Path, tmp_path: Path, tiny: str
) -> None:
    make_lm_text(tmp_path / LM_TEXT, tiny, seed=0)
    assert filecmp.cmp(tmp_path / LM_TEXT, mini_corpus / LM_TEXT, shallow=False)


def test_another_corpus_and_sizes_that_are_not_there_are_refused(
    mini_corpus: Path, tiny: str
) -> None:
    with pytest.raises(
        InputError,
        match="corpus holds a synthetic corpus of another size, seed or version",
    ):
        make_librispeech(mini_corpus, tiny, seed=1)
    with pytest.raises(InputError, match="no size 'huge'; known: smoke, mini"):
        make_librispeech(mini_corpus, "huge")


def test_noisy_parts_are_as_noisy_as_the_size_says() -> None:
    size = LIBRISPEECH_SIZES["mini-whisper"]
    assert {part: choose_condition(part, size) for part in size.parts} == {
        **dict.fromkeys(("train-clean-100", "dev-clean", "test-clean"), CLEAN),
        **dict.fromkeys(("train-other-500", "dev-other", "test-other"), size.other),
    }
    assert (
        choose_condition("test-other", LIBRISPEECH_SIZES["mini"]) == OTHER != size.other
    )


def test_the_text_for_language_models_may_be_of_another_grammar() -> None:
    """Same words, but no sentence in common, and longer ones: for N-best rescoring."""
    rng = random.Random(0)
    speech, text = (
        [grammar().draw_sentence(rng) for _ in range(4000)]
        for grammar in (build_english_grammar, build_text_grammar)
    )
    words = [
        {word for sentence in sentences for word in sentence.split()}
        for sentences in (speech, text)
    ]
    assert words[0] <= words[1]
    assert not set(speech) & set(text)
    assert max(map(len, map(str.split, speech))) < max(map(len, map(str.split, text)))
