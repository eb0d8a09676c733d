"""Statistics over shards against ESPnet's own collect_stats; independence of the number
of jobs; what is refused.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import yaml

from espnet_ext.errors import InputError
from espnet_ext.upstream import stats as module
from espnet_ext.upstream.stats import Statistics, collect_stats

TRAIN = {
    "a-1": 0.5,
    "a-2": 0.31,
    "b-1": 0.77,
    "b-2": 0.4,
    "c-1": 0.63,
    "c-2": 0.29,
    "d-1": 0.35,
}
VALID = {"x-1": 0.3, "x-2": 0.55, "y-1": 0.41}
CONFIG = {
    "frontend": "power_mel",
    "normalize": "utterance_mvn",
    "encoder": "rnn",
    "encoder_conf": {"num_layers": 1, "hidden_size": 4, "output_size": 4},
    "decoder": "rnn",
    "decoder_conf": {"num_layers": 1, "hidden_size": 4},
    "token_type": "char",
}
SHAPES = ("speech_shape", "text_shape", "text_shape.char")


@pytest.fixture
def job(tmp_path, make_data_dir, token_list) -> Statistics:
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(CONFIG))
    return Statistics(
        train=make_data_dir(tmp_path / "train", TRAIN),
        valid=make_data_dir(tmp_path / "valid", VALID),
        config=tmp_path / "train.yaml",
        token_list=token_list,
        output=tmp_path / "stats",
    )


def espnet(job: Statistics, output: Path) -> Path:
    """Collect by ESPnet's own task, all at once."""
    import espnet_ext

    espnet_ext.register()
    from espnet2.tasks.asr import ASRTask

    options = [
        "--collect_stats",
        "true",
        "--config",
        job.config,
        "--token_list",
        job.token_list,
        "--batch_size",
        "1",
    ]
    for part, folder in (("train", job.train), ("valid", job.valid)):
        options += [
            f"--{part}_data_path_and_name_and_type",
            f"{folder}/wav.scp,speech,sound",
        ]
        options += [f"--{part}_data_path_and_name_and_type", f"{folder}/text,text,text"]
    options += ["--output_dir", output, "--num_workers", "0", *job.options]
    ASRTask.main(cmd=[str(option) for option in options])
    return output


def same(
    left: Path, right: Path, *, names: tuple[str, ...] = SHAPES, rounding: float = 0.0
) -> None:
    for part in ("train", "valid"):
        for name in names:
            assert (left / part / name).read_text() == (right / part / name).read_text()
        ours, theirs = (
            np.load(left / part / "feats_stats.npz"),
            np.load(right / part / "feats_stats.npz"),
        )
        assert set(ours.files) == set(theirs.files) == {"count", "sum", "sum_square"}
        assert ours["count"] == theirs["count"]
        for name in ("sum", "sum_square"):
            np.testing.assert_allclose(ours[name], theirs[name], rtol=rounding)


def test_one_job_three_jobs_and_espnet_agree(job, tmp_path):
    collect_stats(job)
    same(job.output, espnet(job, tmp_path / "espnet"), names=SHAPES[:2], rounding=1e-5)
    three = replace(job, output=tmp_path / "three")
    # Three jobs, but one worker: each has to import ESPnet first, which takes a core 10
    # s.
    (tmp_path / "parallel.yaml").write_text("env: local\nn_workers: 1\n")
    collect_stats(three, nj=3, parallel=tmp_path / "parallel.yaml")
    assert (
        len(list((three.output / "log").glob("stats.*"))) == 3
    )  # as many as the smaller set has utterances
    same(job.output, three.output)  # bit by bit
    texts = dict(
        line.split(" ", 1) for line in (job.train / "text").read_text().splitlines()
    )
    shapes = "".join(
        f"{utterance} {len(text)},9\n" for utterance, text in texts.items()
    )
    assert (job.output / "train" / "text_shape.char").read_text() == shapes
    with np.load(job.output / "train" / "feats_stats.npz") as stats:
        frames = [
            1 + (round(16000 * seconds) - 400) // 160 for seconds in TRAIN.values()
        ]
        assert stats["count"] == sum(frames) and stats["sum"].shape == (40,)


def test_a_second_run_does_only_what_has_changed(job, monkeypatch):
    collect_stats(job)
    done = []
    run = module.collect_shard
    monkeypatch.setattr(
        module,
        "collect_shard",
        lambda shard, **task: done.append(shard.name) or run(shard, **task),
    )
    collect_stats(job)
    assert done == []
    text = (job.train / "text").read_text()
    (job.train / "text").write_text(text.replace("d-1 ", "d-1 AB "))
    collect_stats(job)
    assert done == ["3"]
    assert len((job.output / "train" / "text_shape").read_text().splitlines()) == len(
        TRAIN
    )
    job.config.write_text(yaml.safe_dump(CONFIG | {"frontend_conf": {"n_mels": 12}}))
    collect_stats(job)
    assert done == ["3", "1", "2", "3"]
    with np.load(job.output / "valid" / "feats_stats.npz") as stats:
        assert stats["sum"].shape == (12,)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("part", "name", "old", "new", "place"),
    [
        ("train", "text", "a-1 ", "z-9 AB\na-1 ", "train: z-9"),
        ("train", "text", "a-1 ", "a-9 ", "train: a-"),
        ("train", "text", "a-1 ", "a-1\na-1 ", "text: .*a-1"),
        (
            "valid",
            "wav.scp",
            "x-2.flac",
            "x-3.flac",
            "wav.scp: x-2: no such file .*x-3.flac",
        ),
        ("valid", "wav.scp", "x-2.flac", "x-2.flac |", "wav.scp: x-2 is a command"),
        ("valid", "segments", "", "x-1 x-1 0 1\n", "valid/segments"),
    ],
)
def test_bad_data_is_refused_by_utterance(job, part, name, old, new, place):
    path = getattr(job, part) / name
    path.touch()
    edit(path, old, new)
    with pytest.raises(InputError, match=place):
        collect_stats(job)
    assert not job.output.exists()


def test_features_that_are_not_finite_are_refused_by_utterance(job):
    samples, _ = soundfile.read(job.train / "b-1.flac")
    samples[100] = np.nan
    soundfile.write(job.train / "b-1.wav", samples, 16000, subtype="FLOAT")
    edit(job.train / "wav.scp", "b-1.flac", "b-1.wav")
    with pytest.raises(InputError, match="NaN or infinite .* b-1"):
        collect_stats(job)
    assert not (job.output / "train").exists()


@pytest.mark.parametrize(
    "options", ["--output_dir=x", "--train_shape_file=x", "--no_such_thing=1"]
)
def test_bad_options_are_refused(job, options):
    with pytest.raises(InputError, match=options.partition("=")[0]):
        collect_stats(replace(job, options=(options,)))
    with pytest.raises(InputError, match="-[123]: .* 8000 Hz"):
        collect_stats(replace(job, options=("--frontend_conf", "fs=8k")))


def test_large_networks_are_not_built(job, monkeypatch):
    """Statistics need the frontend only. ESPnet has its classes again afterwards."""
    from espnet2.tasks.asr import decoder_choices, encoder_choices

    def fail(*args, **options):
        raise AssertionError("built")

    before = dict(encoder_choices.classes), dict(decoder_choices.classes)
    monkeypatch.setattr(encoder_choices.classes["rnn"], "__init__", fail)
    monkeypatch.setattr(decoder_choices.classes["rnn"], "__init__", fail)
    collect_stats(job)
    assert (dict(encoder_choices.classes), dict(decoder_choices.classes)) == before
