import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from espnet2.train.dataset import sound_loader

from espnet_ext.errors import InputError
from espnet_ext.kaldi.checks import validate
from espnet_ext.kaldi.data_dir import read_data_dir
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples
from espnet_ext.stitch.recogniser.mixture_plan import (
    Mixture,
    MixtureSettings,
    plan_mixtures,
)
from espnet_ext.stitch.recogniser.mixtures import (
    add_up_mixture,
    make_mixtures,
    read_sources,
    write_counts,
    write_mixtures,
)
from espnet_ext.stitch.recogniser.task import MixedSound
from espnet_ext.synthetic.overlap import Part, SourceUtterance
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.words import Segment
from espnet_ext.text.writing import write_segments


@pytest.fixture
def corpus(tmp_path, make_data_dir) -> Path:
    """The data dir of two speakers with two recordings of noise each, 0.5 to 0.8 s."""
    seconds = {"a-1": 0.5, "a-2": 0.6, "b-1": 0.7, "b-2": 0.8}
    folder = make_data_dir(tmp_path / "corpus", seconds)
    write_table(folder / "utt2spk", {name: name[0] for name in seconds})
    write_table(folder / "text", {name: f"WORDS OF {name.upper()}" for name in seconds})
    write_table(
        folder / "utt2dur", {name: str(length) for name, length in seconds.items()}
    )
    return folder


def test_samples_are_added_at_their_starts(corpus):
    first, _, third, _ = read_sources(corpus)
    mixture = Mixture("m", (Part(first, 0.0), Part(third, 0.25)))
    a, b = (soundfile.read(source.path)[0] for source in (first, third))
    expected = np.zeros(round(0.95 * 16000))
    expected[: len(a)] += a
    expected[4000 : 4000 + len(b)] += b
    np.testing.assert_allclose(add_up_mixture(mixture), expected, atol=1e-6)


def test_overload_is_turned_down(corpus, tmp_path):
    soundfile.write(tmp_path / "loud.wav", np.full(1600, 0.8), 16000)
    loud = [
        SourceUtterance(name, name, str(tmp_path / "loud.wav"), 0.1, ("A",))
        for name in "ab"
    ]
    assert np.abs(
        add_up_mixture(Mixture("m", (Part(loud[0], 0.0), Part(loud[1], 0.0))))
    ).max() == pytest.approx(0.99, abs=1e-4)


@pytest.mark.parametrize("nj", [1, 2])
def test_a_set_on_disk(corpus, tmp_path, nj):
    settings = MixtureSettings(
        utterances=(2, 3), speakers=2, overlap=0.2, gap=0.1, count=5
    )
    mixtures = plan_mixtures(read_sources(corpus), settings, prefix="mix")
    write_mixtures(mixtures, tmp_path / "set", nj=nj)
    data = read_data_dir(tmp_path / "set")
    assert validate(data) == []
    stretches = read_table(tmp_path / "set" / "text_speakers")
    for mixture in mixtures:
        info = soundfile.info(data.wav_scp[mixture.name])
        assert (info.samplerate, info.channels) == (16000, 1)
        assert info.duration == pytest.approx(mixture.seconds, abs=1e-4)
        assert (
            len(stretches[mixture.name].split())
            == data.text[mixture.name].count("<sc>") + 1
        )
        samples, _ = soundfile.read(data.wav_scp[mixture.name], dtype="float32")
        np.testing.assert_allclose(samples, add_up_mixture(mixture), atol=1e-4)
    assert read_segments(tmp_path / "set/references.json") == [
        turn for mixture in mixtures for turn in mixture.turns
    ]


def test_a_set_that_is_mixed_on_the_fly_has_the_samples_of_the_written_one(
    corpus, tmp_path
):
    """Bit by bit, also where a sum is turned down, in all ways of reading audio."""
    loud = tmp_path / "loud.wav"
    first, _, third, _ = read_sources(corpus)
    soundfile.write(loud, np.random.default_rng(1).uniform(-0.9, 0.9, 8000), 16000)
    shout = SourceUtterance("c-1", "c", str(loud), 0.5, ("A",))
    mixtures = [
        Mixture("one", (Part(first, 0.0),)),
        Mixture("two", (Part(first, 0.0), Part(third, 0.25))),
        Mixture("three", (Part(shout, 0.0), Part(shout, 0.1), Part(third, 0.3))),
    ]
    write_mixtures(mixtures, tmp_path / "written")
    write_mixtures(mixtures, tmp_path / "mixed", on_the_fly=True)
    # A single utterance is not copied.
    for name, ending in (("mixed", "mix"), ("written", "flac")):
        files = sorted(path.name for path in (tmp_path / name / "audio").iterdir())
        assert files == [f"three.{ending}", f"two.{ending}"]
    recipes = (tmp_path / "mixed" / "audio").iterdir()
    assert sum(path.stat().st_size for path in recipes) < 2000
    written = read_data_dir(tmp_path / "written")
    mixed = read_data_dir(tmp_path / "mixed")
    expected = sound_loader(tmp_path / "written" / "wav.scp", "float32")
    found = MixedSound(tmp_path / "mixed" / "wav.scp")
    assert list(found) == list(expected) == ["one", "three", "two"]
    for name in found:
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], expected[name])
        for span in ((0.0, -1.0), (0.1, 0.4), (0.3, 9.0)):
            one = read_samples(name, AudioSpan(mixed.wav_scp[name], *span), 16000)
            other = read_samples(name, AudioSpan(written.wav_scp[name], *span), 16000)
            np.testing.assert_array_equal(one, other)
    tables = ("text", "text_speakers", "references.json", "utt2dur", "mixed_utterances")
    for name in tables:
        expected = (tmp_path / "written" / name).read_bytes()
        assert (tmp_path / "mixed" / name).read_bytes() == expected


def test_bad_recipes(corpus, tmp_path):
    first = read_sources(corpus)[0]
    write_mixtures(
        [Mixture("m", (Part(first, 0.0), Part(first, 0.3)))],
        tmp_path / "set",
        on_the_fly=True,
    )
    path = tmp_path / "set" / "audio" / "m.mix"
    with pytest.raises(InputError, match="mixture m .* utterance a-1"):
        add_up_mixture(Mixture("m", (Part(replace(first, seconds=0.9), 0.0),)))
    with pytest.raises(InputError, match="m.mix: .*8000 Hz"):
        read_samples("m", AudioSpan(str(path)), 8000)
    Path(first.path).unlink()
    for file, content, place in (
        (path, None, "a-1.flac: utterance a-1"),
        (path, "{}", "m.mix"),
        ("gone.mix", None, ""),
    ):
        if content:
            path.write_text(content)
        with pytest.raises(InputError, match=f"{place or file}: "):
            read_samples("m", AudioSpan(str(file)), 16000)


def test_a_set_is_made_and_counted(corpus, tmp_path, capsys):
    write_table(tmp_path / "enrolment", {"a": "a-2"})
    settings = MixtureSettings(utterances=(2, 4), speakers=2, overlap=0.2, gap=0.1)
    options = {"prefix": "dev short", "leave_out": tmp_path / "enrolment"}
    make_mixtures([corpus], tmp_path / "set", settings=settings, **options)
    made = read_data_dir(tmp_path / "set")
    spoken = " ".join(made.text.values())
    assert [spoken.count(name) for name in ("A-1", "A-2", "B-1", "B-2")] == [1, 0, 1, 1]
    assert all(key.startswith("dev-short-") for key in made.utterances)
    assert f"dev short: {len(made.utterances)} mixtures of " in capsys.readouterr().out
    make_mixtures(
        [corpus],
        tmp_path / "text",
        settings=settings.model_copy(update={"audio": False}),
        **options,
    )
    files = sorted(path.name for path in (tmp_path / "text").iterdir())
    assert files == ["mixed_utterances", "references.json", "text", "text_speakers"]
    for name in ("references.json", "text"):
        assert (tmp_path / "text" / name).read_bytes() == (
            tmp_path / "set" / name
        ).read_bytes()


def test_table_1_counts_references(tmp_path):
    turns = [
        Segment("m1", "a", ("A", "B"), 0.0, 2.0),
        Segment("m1", "b", ("C",), 1.0, 3.0),
        Segment("m2", "a", ("A",), 0.0, 5.0),
    ]
    write_segments(tmp_path / "set" / "references.json", turns)
    write_counts(tmp_path / "set", tmp_path / "exp")
    # 2 samples, 2 words and 4 s each, 8 s in all, a third of one overlapped and nothing
    # of the other
    expected = {
        "samples": (2, "mixtures"),
        "mean_words": (2, "words"),
        "mean_seconds": (4, "s"),
    }
    expected |= {"hours": (0.0022, "h"), "overlap": (16.6667, "%")}
    found = {
        path.stem: json.loads(path.read_text()) for path in (tmp_path / "exp").iterdir()
    }
    assert {
        name: (item["value"], item["unit"]) for name, item in found.items()
    } == expected
