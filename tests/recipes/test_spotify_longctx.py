"""egs/spotify_longctx/run.sh at scale smoke: from corpora to figures, and what a user
gets wrong.
"""

import json
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from runs import (
    EGS,
    assert_nothing_is_repeated,
    cells_of,
    fail_in_each_stage,
    smoke_run,
    table_of,
)

from espnet_ext.corpora.spotify import read_transcript
from espnet_ext.kaldi.tables import read_table
from espnet_ext.tables.plan import load_scale, merge_system_config
from espnet_ext.tables.reading import load_tables
from espnet_ext.tables.result import Cell
from espnet_ext.work.yaml_files import read_yaml

RECIPE = EGS / "spotify_longctx"
run = partial(smoke_run, RECIPE.name)
POINTS = ("--figure", "1,2", "--rows", "Rev16 at 10 s,TED-LIUM at 10 s,0 dB at 10 s")
SYSTEM = Path("exp", "base_10", "seed1")
PODCASTS = "podcasts (synthetic)"  # in place of Rev16
# A row of each figure that one training fills.
ROWS_OF_ALL = {
    "Earnings-22 at 10 s": "figure1",
    "TED-LIUM at 10 s": "figure1",
    "Rev16 at 10 s": "figure1",
    "0 dB at 10 s": "figure2",
    "rotary 1.5M at 10 s": "figure3",
    "base at 10 s": "figure4",
    "heads at 10 s": "figure5",
    "half a window apart at 10 s": "figurewindows",
}


result = partial(table_of, RECIPE.name)


def point(folder: Path, figure: str, curve: str, x: float) -> Cell:
    return next(
        item.cell for item in result(folder, figure).curves[curve] if item.x == x
    )


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    """One system: two points of figure 1 and one of figure 2."""
    folder = tmp_path_factory.mktemp("smoke")
    done = run(*POINTS, folder=folder)
    return folder, done


def test_run_fills_the_points_that_were_asked_for(smoke):
    folder, done = smoke
    for figure, curve in (
        ("figure1", PODCASTS),
        ("figure1", "talks (synthetic)"),
        ("figure2", "0 dB"),
    ):
        here = point(folder, figure, curve, 10).here
        assert here.words > 0 and here.value == pytest.approx(
            100 * here.errors / here.words, abs=0.01
        )
        assert point(folder, figure, curve, 2.5).here is None
        assert (
            (folder / "exp" / "results" / f"{figure}.png")
            .read_bytes()
            .startswith(b"\x89PNG")
        )
    # no number of the paper beside ours: the corpus is another
    assert point(folder, "figure1", PODCASTS, 10).paper is None
    assert result(folder, "figure1").meta.normaliser.startswith(
        "whisper_english (whisper-normalizer "
    )
    assert "figure1.png" in done.stdout and "14.97" not in done.stdout


def test_decoding_had_the_models_window_noise_and_silenced_regions(smoke):
    system = smoke[0] / SYSTEM
    settings = {
        name: json.loads((system / f"decode_{name}" / "decode.json").read_text())[
            "settings"
        ]
        for name in ("default/rev16", "music_0/rev16", "default/tedlium")
    }
    assert all(
        setting["window"] == 10.0 and setting["stride"] == 0.5
        for setting in settings.values()
    )
    assert settings["default/rev16"]["noise"] is None
    assert (settings["music_0/rev16"]["noise"], settings["music_0/rev16"]["snr"]) == (
        "music",
        0.0,
    )
    assert settings["default/tedlium"]["zeroed"].endswith("tedlium_ignored_test.txt")


def test_the_loss_falls(smoke):
    log = (smoke[0] / SYSTEM / "log" / "train.log").read_text()
    # On the dev set, whose sequences have one length; those of training grow.
    losses = [
        float(loss)
        for loss in re.findall(r"\d+epoch results: .*\[valid\] .*?loss=([0-9.]+)", log)
    ]
    assert len(losses) > 3 and losses[-1] < 0.97 * losses[0]


def test_a_second_run_repeats_nothing(smoke):
    folder, _ = smoke
    before = {name: result(folder, name).rows for name in ("figure1", "figure2")}
    again = run(*POINTS, folder=folder)
    assert_nothing_is_repeated(again)
    assert {name: result(folder, name).rows for name in before} == before


def test_a_failing_step_of_each_stage_ends_the_run(smoke):
    fail_in_each_stage(RECIPE.name, smoke[0], *POINTS)


def test_systems_differ_only_in_what_the_figures_say():
    sections = load_scale(RECIPE, "smoke")
    systems = load_tables(RECIPE / "conf" / "tables.yaml", "smoke").systems

    def config(system: str) -> dict:
        return merge_system_config(sections, systems[system])

    base = config("base_10")
    for system, changed in (
        ("base_2.5", {"chunk_conf": {"max_seconds": 2.5}}),
        ("sinusoidal_10", {"encoder_conf": {"positions": "sinusoidal"}}),
        # the learning rate that is published for the deep models
        (
            "deep_quadruple_heads_10",
            {
                "encoder_conf": {"num_blocks": 5, "attention_heads": 8},
                "optim_conf": {"lr": 0.002},
            },
        ),
        ("quadruple_heads_10", {"encoder_conf": {"attention_heads": 8}}),
    ):
        assert config(system) == base | {
            section: base[section] | options for section, options in changed.items()
        }


def other_corpora(folder: Path) -> list[str]:
    """The options that name the test sets of a run, so that no synthetic corpus is
    made.
    """
    corpus = folder / "data" / "corpus"
    places = {
        "tedlium": "TEDLIUM_release-3",
        "earnings22": "earnings22",
        "rev16": "rev16",
    }
    return [
        word
        for option, place in places.items()
        for word in (f"--{option}", str(corpus / place))
    ]


def test_podcasts_of_yours_have_some_held_out(smoke, tmp_path):
    """With recordings of two sampling rates."""
    corpus = tmp_path / "podcasts"
    shutil.copytree(smoke[0] / "data" / "corpus" / "spotify", corpus)
    episode = sorted(corpus.rglob("*.ogg"))[0]
    samples, _ = soundfile.read(episode)
    soundfile.write(
        episode,
        samples.repeat(2)[: 2 * len(samples)],
        32000,
        format="OGG",
        subtype="VORBIS",
    )
    options = ("--held_out", "2", "--stop_stage", "3")
    run("--spotify", str(corpus), *other_corpora(smoke[0]), *options, folder=tmp_path)
    train, dev = (
        set(read_table(tmp_path / "data" / name / "wav.scp"))
        for name in ("train", "dev")
    )
    assert len(dev) == 2 and len(train) == 4 and not train & dev
    assert len(read_table(tmp_path / "exp" / "stats" / "train" / "statistics.scp")) == 4


def in_archives(podcasts: Path, folder: Path) -> Path:
    """The podcasts as Spotify's three archives unpack."""
    shutil.copytree(podcasts / "podcasts-audio", folder / "podcasts-audio")
    shutil.copyfile(podcasts / "metadata.tsv", folder / "metadata.tsv")
    for number, transcript in enumerate(sorted(podcasts.rglob("*.json"))):
        archive = (
            folder
            / f"podcasts-transcripts-{('0to2', '3to5', '6to7')[number % 3]}"
            / "spotify-podcasts-2020"
        )
        copy = archive / transcript.relative_to(podcasts)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(transcript, copy)
    return folder


def test_real_layouts_reach_every_figure(smoke, tmp_path):
    """With no synthetic corpus, which alone has the measures of figure names."""
    corpus, musan = smoke[0] / "data" / "corpus", tmp_path / "musan"
    (musan / "music" / "fma").mkdir(parents=True)
    noise = np.random.default_rng(0).normal(scale=0.1, size=32000)
    soundfile.write(musan / "music" / "fma" / "music-fma-0000.wav", noise, 16000)
    podcasts = in_archives(corpus / "spotify", tmp_path / "spotify")
    options = [
        "--spotify",
        str(podcasts),
        *other_corpora(smoke[0]),
        "--musan",
        str(musan),
        "--figure",
    ]
    refused = run(*options, "names", folder=tmp_path, status=1)
    assert "names" in refused.stderr and "Traceback" not in refused.stderr
    options += ["1,2,3,4,5,windows", "--rows", ",".join(ROWS_OF_ALL)]
    run(*options, folder=tmp_path)
    assert not (tmp_path / "data" / "corpus").exists()
    for row, table in ROWS_OF_ALL.items():
        assert point(tmp_path, table, row.removesuffix(" at 10 s"), 10).here.words > 0
        assert (tmp_path / "exp" / "results" / f"{table}.png").is_file()
    assert point(tmp_path, "figure1", "Rev16", 10).paper == 14.97


def recordings_with_times(podcasts: Path, folder: Path) -> Path:
    """The podcasts as a folder of wav files, and the ctm of their words beside it."""
    (folder / "audio").mkdir()
    with (folder / "words.ctm").open("w") as ctm:
        for episode in sorted(podcasts.rglob("*.ogg")):
            samples, rate = soundfile.read(episode)
            soundfile.write(folder / "audio" / f"{episode.stem}.wav", samples, rate)
            (transcript,) = podcasts.rglob(f"{episode.stem}.json")
            for word in read_transcript(transcript):
                ctm.write(
                    f"{episode.stem} 1 {word.start:.3f} "
                    f"{word.end - word.start:.3f} {word.text}\n"
                )
    return folder / "audio"


def test_silent_and_short_recordings_end_a_run_early_or_are_left_out(smoke, tmp_path):
    """Short ones in stage 1, silent ones in stage 3; the training of the others goes
    through.
    """
    audio = recordings_with_times(smoke[0] / "data" / "corpus" / "spotify", tmp_path)
    options = [
        "--audio",
        str(audio),
        "--words",
        str(tmp_path / "words.ctm"),
        *other_corpora(smoke[0]),
    ]
    options += ["--rows", "Rev16 at 10 s", "--keep_features", "true"]
    for name, seconds in (("short", 0.375), ("silent", 5.0)):
        soundfile.write(audio / f"{name}.wav", [0.0] * int(16000 * seconds), 16000)
        with (tmp_path / "words.ctm").open("a") as ctm:
            ctm.write(f"{name} 1 0.0 0.3 word\n")
    refused = run(*options, folder=tmp_path, status=1)
    assert "== Stage 2" not in refused.stdout
    assert "short lasts 0.375 s" in refused.stderr and "--skip-faulty" in refused.stderr
    (audio / "short.wav").rename(tmp_path / "short.wav")
    words = (tmp_path / "words.ctm").read_text()
    (tmp_path / "words.ctm").write_text(words.replace("short 1 0.0 0.3 word\n", ""))
    refused = run(*options, folder=tmp_path, status=1)
    assert "== Stage 3" in refused.stdout and "== Stage 4" not in refused.stdout
    assert "1 of 6 recordings" in refused.stderr and ": silent (" in refused.stderr
    (tmp_path / "short.wav").rename(audio / "short.wav")
    (tmp_path / "words.ctm").write_text(words)
    done = run(*options, "--skip_faulty", "20", folder=tmp_path)
    assert ": silent (" in done.stdout
    statistics = read_table(tmp_path / "exp" / "stats" / "train" / "statistics.scp")
    assert len(statistics) == 5 and "silent" not in statistics
    assert (
        tmp_path / "exp" / "stats" / "train" / "no_speech.txt"
    ).read_text() == "silent\n"
    assert point(tmp_path, "figure1", "Rev16", 10).here.words > 0


def model_that_hears(system: Path, folder: Path) -> str:
    """A copy of a model that emits one piece in each frame; the word that it hears in
    any audio.
    """
    tokens = read_yaml(system / "config.yaml")["token_list"]
    piece = next(token for token in tokens if token.startswith("▁") and len(token) > 1)
    states = torch.load(system / "latest.pth", weights_only=True)
    states["ctc.ctc_lo.bias"][tokens.index(piece)] += 50
    folder.mkdir()
    torch.save(states, folder / "latest.pth")
    shutil.copyfile(system / "config.yaml", folder / "config.yaml")
    return piece[1:]


def test_recordings_without_word_times_are_aligned_by_a_model(smoke, tmp_path):
    """Or refused, where the model does not hear what was transcribed."""
    episodes = sorted((smoke[0] / "data" / "corpus" / "spotify").rglob("*.ogg"))[:2]
    (tmp_path / "audio").mkdir()
    for episode in episodes:
        shutil.copyfile(episode, tmp_path / "audio" / episode.name)
    word = model_that_hears(smoke[0] / SYSTEM, tmp_path / "aligner")
    texts = {episode.stem: word for episode in episodes}
    (tmp_path / "text").write_text(
        "".join(f"{key}{20 * f' {text}'}\n" for key, text in texts.items())
    )
    options = [
        "--audio",
        str(tmp_path / "audio"),
        "--text",
        str(tmp_path / "text"),
        *other_corpora(smoke[0]),
    ]
    options += [
        "--rows",
        "Rev16 at 10 s",
        "--nj",
        "1",
        "--stop_stage",
        "1",
        "--passes",
        "8",
        "--aligner",
    ]
    refused = run(*options, str(smoke[0] / SYSTEM), folder=tmp_path, status=1)
    assert "== Stage 2" not in refused.stdout
    assert all(key in refused.stderr for key in texts)
    (tmp_path / "text").write_text(
        "".join(f"{key} {text}\n" for key, text in texts.items())
    )
    run(*options, str(tmp_path / "aligner"), folder=tmp_path)
    assert read_table(tmp_path / "data" / "podcasts" / "text") == texts


def test_published_models_take_the_place_of_trainings(smoke, tmp_path):
    """With test corpora of one's own, no synthetic one is made."""
    folder, _ = smoke
    model = tmp_path / "models" / "base_10" / "seed1"
    options = (
        "--published",
        str(tmp_path / "models"),
        *other_corpora(folder),
        "--rows",
        "Rev16 at 10 s",
    )
    (tmp_path / "models").mkdir()
    refused = run(*options, folder=tmp_path, status=1)
    assert "/base_10/seed1/model.pth: " in refused.stderr
    model.mkdir(parents=True)
    shutil.copy(folder / SYSTEM / "config.yaml", model)
    shutil.copy(folder / SYSTEM / "latest.pth", model / "model.pth")
    done = run(*options, folder=tmp_path)
    assert done.stdout.count("the models of --published are trained") == 3
    assert (
        not (tmp_path / SYSTEM / "config.yaml").exists()
        and not (tmp_path / "data" / "corpus").exists()
    )
    assert (
        point(tmp_path, "figure1", "Rev16", 10).here
        == point(folder, "figure1", PODCASTS, 10).here
    )
    assert result(tmp_path, "figure1").meta.corpus == "published models"


def test_table_1_measures_and_trains_nothing(tmp_path):
    run("--table", "1", folder=tmp_path)
    rows = cells_of(RECIPE.name, tmp_path)
    assert not list((tmp_path / "exp").rglob("config.yaml")) and not list(
        (tmp_path / "data").glob("*/text")
    )
    minutes = {name: cells["minutes"].here.value for name, cells in rows.items()}
    assert (
        minutes["Conformer"]
        < minutes["Conformer with flash"]
        < minutes["FastConformer with flash"]
    )
    assert minutes["FastConformer"] <= minutes["FastConformer with flash"]
    assert all(cells["frames_per_second"].here.value > 0 for cells in rows.values())
