"""A folder of recordings with word times or transcripts."""

from functools import partial

import numpy as np
import pytest
import soundfile

from espnet_ext.corpora.audio import prepare_audio
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import read_data_dir
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.longform.alignment.recordings import align_recordings
from espnet_ext.sharing.model_files import find_model
from espnet_ext.text.word_times import read_regions, read_word_times


@pytest.fixture
def folder(tmp_path):
    """Two recordings and their ctm."""
    audio = tmp_path / "audio" / "show"
    audio.mkdir(parents=True)
    noise = np.random.default_rng(0).integers(-3000, 3000, 48000, dtype=np.int16)
    soundfile.write(audio / "one.wav", noise, 16000)
    soundfile.write(audio / "two.flac", np.stack([noise, noise], 1), 24000)
    (tmp_path / "words.ctm").write_text(
        ";; made by hand\none 1 0.10 0.40 hello\none 1 0.60 0.30 there 0.98\ntwo "
        "A 0.5 0.5 again\n"
    )
    return tmp_path


def of_ctm(folder, *lines, **options):
    """Prepare the recordings, with other lines of the ctm if any are given."""
    if lines:
        (folder / "words.ctm").write_text("".join(f"{line}\n" for line in lines))
    return prepare_audio(
        folder / "audio", folder / "out", words=folder / "words.ctm", **options
    )["train"]


def of_text(folder, text, aligner, *, out="out", nj=1, **options):
    files = find_model(aligner)
    align = partial(align_recordings, config=files.config, model=files.model, nj=nj)
    return prepare_audio(
        folder / "audio", folder / out, text=text, align=align, **options
    )["train"]


def test_recordings_with_word_times(folder):
    found = of_ctm(folder)
    assert found.text == {"one": "hello there", "two": "again"} and found.utt2dur == {
        "one": "3",
        "two": "2",
    }
    assert read_data_dir(folder / "out" / "train") == found
    table = read_table(folder / "out" / "audio_words_train.scp")
    words = read_word_times("one", table["one"])
    assert [
        (word.text, round(word.start, 3), round(word.end, 3)) for word in words
    ] == [
        ("hello", 0.1, 0.5),
        ("there", 0.6, 0.9),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["one 1 0.1 0.4 hello"], "no words of two"),
        (["one 1 0.1 0.4 hello", "two 1 0 1 a", "three 1 0 1 b"], "no audio of three"),
        (
            ["one.wav 1 0.1 0.4 hello", "two 1 0 1 a"],
            "no audio of one.wav .*words.ctm.: leave out the ending there",
        ),
        (
            ["one 1 0.1 0.4 hello", "two 1 1 1 a", "two 1 9 1 b"],
            "two: word 2, 'b' at 9 s, lies beyond",
        ),
        (
            ["one 1 0.1 0.4 hello", "two 1 1 1 a", "two 1 1 0.5 b"],
            "two: word 2, 'b' at 1 s, overlaps the previous",
        ),
        (["one 1 0.1 hello"], "line 1 is not `recording channel start duration word"),
        (["one 1 0.1 0.4 hello", "two A 0 1.5 <eps>"], "two: no word in it"),
    ],
)
def test_bad_word_times_are_refused(folder, lines, message):
    with pytest.raises(InputError, match=message):
        of_ctm(folder, *lines)


def test_formats_that_must_be_converted_are_named(folder):
    (folder / "audio" / "two.m4a").write_bytes(
        b"beside two.flac, so that it does not matter"
    )
    (folder / "audio" / "three.M4A").write_bytes(b"AAC")
    with (folder / "words.ctm").open("a") as file:
        file.write("three 1 0 1 b\nfour 1 0 1 b\n")
    with pytest.raises(
        InputError,
        match=r"three\.M4A: \.M4A files must be converted first: "
        r"ffmpeg -i three\.M4A three\.flac",
    ) as raised:
        of_ctm(folder)
    assert "no audio of four" in str(raised.value) and "two" not in str(raised.value)


def test_overlapping_word_times_drop_their_region(folder):
    """Within 2 % of what is spoken; otherwise the error names the worst recordings, and
    nothing else is written.
    """
    rest = ("one 1 2.0 0.9 there", "two 1 0.5 0.5 again")
    half = ("one 1 0.10 0.40 hello", "one 1 0.30 0.30 you", *rest)
    with pytest.raises(
        InputError,
        match=r"in 0\.5 of 3\.9 s \(12\.8%\), most in one \(0\.5 s\) "
        r".*regions: .*_dropped.txt.: at most 2 %",
    ):
        of_ctm(folder, *half)
    dropped = folder / "out" / "audio_train_dropped.txt"
    assert [path.name for path in (folder / "out").iterdir()] == [dropped.name]
    assert read_regions(dropped) == {"one": [(0.1, 0.6)]}
    assert of_ctm(folder, *half, skip_faulty=0.2).text["one"] == "there"
    with pytest.raises(InputError, match=r"\(3\.8%\)"):
        of_ctm(
            folder,
            "one 1 0.10 0.15 hello",
            "one 1 0.12 0.05 you",
            "one 1 0.11 0.06 too",
            *rest,
        )
    assert (
        of_ctm(folder, "one 1 0.10 0.05 hello", "one 1 0.09 0.02 you", *rest).text[
            "one"
        ]
        == "there"
    )
    of_ctm(folder, "one 1 0.10 0.40 hello", *rest)
    assert not dropped.exists()


def test_marks_of_silence_and_noise_are_no_words_and_channels_are_merged(folder):
    lines = [
        "one 1 0 0.1 <eps>",
        "one 1 0.1 0.4 hello",
        "one 1 0.2 0.1 SIL",
        "one 1 0.2 2 [noise]",
    ]
    lines += [
        "one 1 0.6 0.3 there",
        "one 1 0.9 0.1 <sil>",
        "two A 0.5 0.5 again",
        "two A 1.0 0.5 [LAUGHTER]",
    ]
    assert of_ctm(folder, *lines).text == {"one": "hello there", "two": "again"}
    assert not (folder / "out" / "audio_train_dropped.txt").exists()
    lines = [
        "one 2 0.1 0.3 a",
        "one 2 1.4 0.3 c",
        "one 1 0.6 0.3 b",
        "two 1 0.2 0.3 d",
    ]  # as NIST sorts them
    assert of_ctm(folder, *lines).text == {"one": "a b c", "two": "d"}


@pytest.mark.parametrize("mark", ["<unk>", "[vocalized-noise]", "<dropped>"])
def test_unknown_words_are_left_out_of_training_and_are_no_overlap(
    folder, mark, capsys
):
    lines = [
        "one 1 0.1 0.4 hello",
        f"one 1 0.5 0.02 {mark}",
        "one 1 0.6 0.3 there",
        "two A 0.5 1.0 again",
    ]
    assert of_ctm(folder, *lines).text["one"] == "hello there"
    assert read_regions(folder / "out" / "audio_train_dropped.txt") == {
        "one": [(0.5, 0.52)]
    }
    warned = capsys.readouterr().out
    assert "in 0.0 of 2.4 s (0.8%)" in warned
    lines += [
        "two A 1.4 0.1 too",
        "two A 1.3 0.1 far",
        f"two A 1.6 0.3 {mark}",
        "two A 1.95 0.05 end",
    ]
    with pytest.raises(InputError, match=r"in 1.3 of 2.9 s"):
        of_ctm(folder, *lines)


def test_words_or_text_and_a_model(folder):
    for options in (
        {},
        {"words": "a.ctm", "text": "text", "align": iter},
        {"text": "text"},
    ):
        with pytest.raises(
            InputError, match="--words CTM, or --text FILE and --aligner DIR"
        ):
            prepare_audio(folder / "audio", folder / "out", **options)


@pytest.fixture
def chapters(tmp_path, digits):
    """LibriSpeech-digits joined by chapters: recordings, their ctm and transcripts."""
    (tmp_path / "audio").mkdir()
    lines, texts = [], []
    for transcripts in sorted((digits / "dev-clean").glob("*/*/*.trans.txt"))[:3]:
        chapter, pieces, spoken, at = (
            transcripts.name.removesuffix(".trans.txt"),
            [],
            [],
            0.0,
        )
        for key, text in read_table(transcripts).items():
            samples, rate = soundfile.read(
                transcripts.parent / f"{key}.flac", dtype="int16"
            )
            words, seconds = text.split(), len(samples) / rate
            share = seconds / len(
                words
            )  # no word times are known: words share their utterance
            lines += [
                f"{chapter} 1 {at + n * share:.3f} {share:.3f} {word}"
                for n, word in enumerate(words)
            ]
            pieces, spoken, at = [*pieces, samples], spoken + words, at + seconds
        soundfile.write(
            tmp_path / "audio" / f"{chapter}.flac", np.concatenate(pieces), rate
        )
        texts.append(f"{chapter} {' '.join(spoken)}")
    (tmp_path / "words.ctm").write_text("\n".join(lines) + "\n")
    (tmp_path / "text").write_text("\n".join(texts) + "\n")
    return tmp_path


@pytest.fixture
def hears_every_letter(chapters, monkeypatch):
    """A model that hears each letter for one frame, at equal distances; seconds of each
    word's first letter.
    """
    from espnet_ext.longform.decoding.posteriors import LongModel

    texts, starts = read_table(chapters / "text"), {}

    def posteriors(model, audio, _window, _stride):
        path, first = [], []
        for word in texts[audio.name].split():
            letters = [letter for letter in word if letter in model.tokens]
            first.append(len(path) + (len(first) > 0) if letters else None)
            path += ["<space>", *letters] if letters and len(first) > 1 else letters
        frames = int(audio.length / model.rate / model.frame_seconds)
        distance = frames // len(path)
        assert distance > 1  # a letter that comes twice needs a blank between
        heard = np.zeros((frames, len(model.tokens)), np.float32)
        heard[:, 0] = 1.0
        for place, token in enumerate(path):
            heard[place * distance, [0, model.tokens.index(token)]] = 0.1, 0.9
        starts[audio.name] = [
            None if n is None else n * distance * model.frame_seconds for n in first
        ]
        yield from np.array_split(heard, 3)

    monkeypatch.setattr(LongModel, "open_source", lambda _model, audio: audio)
    monkeypatch.setattr(LongModel, "compute_posteriors", posteriors)
    return starts


@pytest.mark.parametrize("kind", ["file", "txt", "stm"])
def test_chapters_are_aligned_by_a_model(chapters, model, kind, hears_every_letter):
    if kind == "file":
        text = chapters / "text"
    else:
        text = chapters / "texts"
        text.mkdir()
        for key, line in read_table(chapters / "text").items():
            body = (
                f"{key} 1 speaker 0.0 1.0 <o,f0,male> {line}\n"
                if kind == "stm"
                else f"{line}\n"
            )
            (text / f"{key}.{kind}").write_text(body)
    found = of_text(chapters, text, model)
    table, texts = (
        read_table(path)
        for path in (chapters / "out" / "audio_words_train.scp", chapters / "text")
    )
    assert len(found.text) == len(texts) == 3
    for key, seconds in found.utt2dur.items():
        words = list(read_word_times(key, table[key]))
        assert [word.text for word in words] == texts[key].split()
        known = [
            (word, start)
            for word, start in zip(words, hears_every_letter[key], strict=True)
            if start is not None
        ]
        assert len(known) > 5
        for word, start in known:
            assert word.start == pytest.approx(start, abs=0.005)
        assert all(
            one.end <= two.start + 0.002
            for one, two in zip(words, words[1:], strict=False)
        )
        assert words[-1].end <= float(seconds) + 0.05


def test_transcripts_that_a_model_does_not_hear_are_refused(chapters, model):
    """A model that has learned nothing: each of the three is named, and no table is
    left.
    """
    with pytest.raises(InputError, match="does not agree with it.*all 3 faults"):
        of_text(chapters, chapters / "text", model, nj=2)
    assert not list((chapters / "out").glob("audio_words_train*"))


def test_an_alignment_that_was_killed_resumes(
    chapters, model, hears_every_letter, monkeypatch
):
    """Recordings that are done are not heard again; those whose transcript has changed
    are.
    """
    from espnet_ext.longform.alignment.forced import RecordingAligner

    heard, align, texts = (
        [],
        RecordingAligner.align_words,
        read_table(chapters / "text"),
    )

    def words(aligner, path, texts):
        if len(heard) == 1 and not heard[0].startswith("again"):
            raise KeyboardInterrupt
        heard.append(path.stem)
        return align(aligner, path, texts)

    monkeypatch.setattr(RecordingAligner, "align_words", words)
    options = {"text": chapters / "text", "aligner": model}
    with pytest.raises(KeyboardInterrupt):
        of_text(chapters, **options)
    (first,) = heard
    heard[0] = f"again {first}"
    of_text(chapters, **options)
    assert sorted(heard[1:]) == sorted(texts.keys() - {first})
    table = (chapters / "out" / "audio_words_train.words").read_bytes()
    of_text(chapters, **options)
    assert (
        len(heard) == 3
        and (chapters / "out" / "audio_words_train.words").read_bytes() == table
    )
    texts[first] = texts[first].rpartition(" ")[0]
    write_table(chapters / "text", texts)
    of_text(chapters, **options)
    assert heard[3:] == [first]


def test_transcripts_in_files_that_are_faulty(chapters, model, hears_every_letter):
    """Of the recording that cannot be read, and of the one whose words end after its
    audio.
    """
    folder = chapters / "texts"
    folder.mkdir()
    first, second, third = sorted(read_table(chapters / "text"))
    (folder / f"{first}.txt").write_bytes("déjà".encode("latin-1"))
    (folder / f"{second}.stm").write_text(
        f"{second} 1 s 0 9999 <o,f0,male> other words\n"
    )
    (folder / f"{third}.txt").write_text(f"{read_table(chapters / 'text')[third]}\n")
    with pytest.raises(
        InputError,
        match=f"{first}.txt is not UTF-8 .*{second}: its transcript ends at 9999 s",
    ):
        of_text(chapters, folder, model)
    (folder / f"{third}.stm").write_text(f"{third} 1 s 0 1 <o,f0,male> other words\n")
    with pytest.raises(
        InputError,
        match=(
            f"{third} comes twice, and the files differ: .*{third}.stm and "
            f".*{third}.txt"
        ),
    ):
        of_text(chapters, folder, model)
