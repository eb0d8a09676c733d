"""The commands decode and collect_stats: help, and bad arguments in one line, before torch or ESPnet is imported."""

import subprocess
import sys

import pytest

from espnet_ext.bin import collect_stats, decode
from espnet_ext.errors import InputError


def run(command: str, *arguments: str) -> subprocess.CompletedProcess:
    program = [sys.executable, "-X", "importtime", "-m", f"espnet_ext.bin.{command}"]
    return subprocess.run([*program, *arguments], capture_output=True, text=True)


@pytest.mark.parametrize(
    "command, arguments",
    [
        ("decode", ["--model-config", "none.yaml", "--model", "none.pth", "--data", "none", "--output", "none"]),
        (
            "collect_stats",
            ["--config", "none.yaml", "--token-list", "t", "--train", "none", "--valid", "none", "--output", "none"],
        ),
    ],
)
def test_bad_input_is_one_line(command, arguments):
    done = run(command, *arguments)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert done.returncode == 1 and len(lines) == 1
    assert lines[0].startswith("error: none.yaml: no such file")
    imported = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert not imported & {"torch", "espnet2", "espnet3", "distributed", "lhotse"}


@pytest.mark.parametrize("command", ["decode", "collect_stats"])
def test_help(command):
    done = run(command, "--help")
    assert done.returncode == 0 and "--parallel" in done.stdout and "after `--`" in done.stdout


def test_options_after_the_dashes_reach_espnet(monkeypatch, tmp_path, capsys):
    jobs = []
    monkeypatch.setattr(decode, "decode_all", lambda work, **options: jobs.append((work, options)) or [7, 8])
    files = ["--model-config", "c", "--model", "m", "--data", "d", "e", "--output", "o", "p"]
    decode.main([*files, "--nj", "3", "--", "--beam_size", "4", "--nbest=2"])
    work, options = jobs.pop()
    assert [(str(job.data), str(job.output)) for job in work] == [("d", "o"), ("e", "p")]
    assert work[1].options == ("--beam_size", "4", "--nbest=2") and options == {"nj": 3, "parallel": None}
    assert capsys.readouterr().out == "7 utterances -> o/text\n8 utterances -> p/text\n"
    grid = ["--data", "d", "e", "--config", "x", "y", "--output", "xd", "xe", "yd", "ye"]
    monkeypatch.setattr(decode, "decode_all", lambda work, **options: jobs.append(work) or [1] * len(work))
    decode.main(["--model-config", "c", "--model", "m", *grid])
    assert [f"{job.config}{job.data}" for job in jobs[0]] == [str(job.output) for job in jobs.pop()]
    with pytest.raises(InputError, match="1 configs for 1 data dirs make 1 results, but --output names 2"):
        decode.main(["--model-config", "c", "--model", "m", "--data", "d", "--output", "o", "p"])
    monkeypatch.setattr(collect_stats, "collect_stats", lambda job, **options: jobs.append((job, options)))
    files = ["--train", "t", "--valid", "v", "--config", "c", "--token-list", "l", "--output", "o"]
    collect_stats.main([*files, "--parallel", "p", "--", "--token_type", "char"])
    job, options = jobs.pop()
    assert job.options == ("--token_type", "char") and options["nj"] == 1 and str(options["parallel"]) == "p"
