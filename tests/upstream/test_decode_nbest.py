"""N-best lists that true decodings have left on disk, against what ESPnet's search returned."""

from pathlib import Path

import pytest
import soundfile

from espnet_ext.nbest.espnet_output import read_espnet_output
from espnet_ext.upstream.decode import Decoding, decode

DURATIONS = {"s1-0": 0.8, "s1-1": 0.5, "s2-0": 0.01, "s2-1": 1.0, "s2-2": 0.07}
NBEST = 6


@pytest.fixture(scope="module")
def job(tmp_path_factory, make_data_dir, model) -> Decoding:
    folder = tmp_path_factory.mktemp("nbest")
    # A beam of 3 over at most two tokens ends with fewer than 6 hypotheses.
    (folder / "decode.yaml").write_text(f"beam_size: 3\nnbest: {NBEST}\nmaxlenratio: -2\nctc_weight: 0.4\n")
    return Decoding(
        model_config=model / "config.yaml",
        model_file=model / "model.pth",
        data=make_data_dir(folder / "data", DURATIONS),
        output=folder / "decode",
        config=folder / "decode.yaml",
    )


@pytest.fixture(scope="module")
def lists(job):
    """By our command: shards, and merged {n}best_recog."""
    decode(job)
    return read_espnet_output(job.output)


def espnet(job: Decoding, output: Path, *options: object) -> None:
    from espnet2.bin import asr_inference

    files = ["--config", job.config, "--asr_train_config", job.model_config, "--asr_model_file", job.model_file]
    asr_inference.main([str(option) for option in [*files, "--output_dir", output, *options]])


def test_the_search_itself(job, lists):
    from espnet2.bin.asr_inference import Speech2Text

    search = Speech2Text(job.model_config, job.model_file, beam_size=3, nbest=NBEST, maxlenratio=-2, ctc_weight=0.4)
    assert [nbest.utt_id for nbest in lists] == list(DURATIONS)
    for nbest in lists:
        samples, _ = soundfile.read(job.data / f"{nbest.utt_id}.flac", dtype="float32")
        if nbest.utt_id == "s2-0":  # too short for the encoder
            assert [(hyp.text, hyp.score) for hyp in nbest.hyps] == [("", 0.0)] * NBEST
            continue
        expected = search(samples)
        assert [hyp.text.split() for hyp in nbest.hyps] == [text.split() for text, *_ in expected]
        scores = [float(hypothesis.score) for *_, hypothesis in expected]
        assert [hyp.score for hyp in nbest.hyps] == pytest.approx(scores, abs=2e-4)
        assert scores == sorted(scores, reverse=True)


def test_jobs_below_logdir_as_asr_sh_leaves_them(job, lists, tmp_path):
    logdir = tmp_path / "logdir"
    lines = (job.data / "wav.scp").read_text().splitlines(keepends=True)
    for number, part in enumerate((lines[:2], lines[2:]), start=1):
        keys = logdir / f"keys.{number}.scp"
        keys.parent.mkdir(exist_ok=True)
        keys.write_text("".join(part))
        data = f"{job.data / 'wav.scp'},speech,sound"
        espnet(job, logdir / f"output.{number}", "--data_path_and_name_and_type", data, "--key_file", keys)
    assert read_espnet_output(tmp_path) == lists
    assert read_espnet_output(logdir) == lists
