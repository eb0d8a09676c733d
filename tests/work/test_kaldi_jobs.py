"""Shards in the jobs of stand-ins of Kaldi's wrappers."""

import os
import sys
from pathlib import Path

import pytest
from kaldi_stand_in import read_calls, write_wrapper

from espnet_ext.errors import InputError
from espnet_ext.work.kaldi_jobs import Wrapper
from espnet_ext.work.parallel import map_shards

MODULE = """
import os
from espnet_ext.errors import InputError

def square(number):
    if number == 7:
        raise InputError("seven.wav: cannot be read")
    if number == 8:
        raise ValueError("eight")
    if number == 9:
        os.kill(os.getpid(), 9)
    return number**2, os.getpid(), os.getcwd()
"""


@pytest.fixture
def square(tmp_path, monkeypatch):
    """Return a function of a module that jobs find beside the run's folder."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "squares_of_jobs.py").write_text(MODULE)
    (place / "path.sh").write_text(f"export PYTHONPATH={place}\n")
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    import squares_of_jobs

    yield squares_of_jobs.square
    sys.modules.pop("squares_of_jobs")


def wrapper_in(folder: Path, *options: str, name: str = "queue.pl") -> Wrapper:
    return Wrapper((str(write_wrapper(folder, name)), *options), Path("exp", "jobs"))


def test_shards_run_in_as_many_jobs_as_asked_for(square, tmp_path):
    wrapper = wrapper_in(tmp_path, "--mem", "4G")
    found = map_shards(square, [1, 2, 3, 4, 5], nj=2, config=wrapper)
    assert [value for value, *_ in found] == [1, 4, 9, 16, 25]
    assert len({process for _, process, _ in found}) == 2
    assert {folder for *_, folder in found} == {os.getcwd()}
    (call,) = read_calls(Path(wrapper.words[0]))
    jobs, log, *command = call.split()
    assert (
        jobs == "JOB=1:2"
        and log.endswith("/JOB.log")
        and command[-3:] == ["JOB", "2", "0"]
    )
    assert not list(wrapper.folder.iterdir()), "what was done leaves nothing"
    assert map_shards(square, [2], nj=9, config=wrapper)[0][0] == 4


def test_a_folder_with_the_name_of_the_jobs_is_not_changed(square, tmp_path):
    folder = Path("exp_JOB", "jobs")
    wrapper = Wrapper(wrapper_in(tmp_path).words, folder)
    assert len(map_shards(square, [1, 2], nj=2, config=wrapper)) == 2
    assert read_calls(Path(wrapper.words[0]))[0].startswith("JOBX=1:2 exp_JOB/jobs/")


@pytest.mark.parametrize("name", ["queue.pl", "run.pl"])
@pytest.mark.parametrize(
    ("number", "text"), [(7, "seven.wav"), (8, "ValueError: eight"), (9, "2.log")]
)
def test_what_a_job_fails_of_is_said(name, number, text, square, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.getcwd())  # run.pl hands it down
    wrapper = wrapper_in(tmp_path, name=name)
    with pytest.raises(InputError, match=text):
        map_shards(square, [1, number], nj=2, config=wrapper)
    assert "# Started" in next(wrapper.folder.glob("*/2.log")).read_text()


def test_a_wrapper_that_starts_no_job_ends_the_work(square, tmp_path):
    program = tmp_path / "slurm.pl"
    program.write_text("#!/bin/sh\necho 'no such queue' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(InputError, match="slurm.pl"):
        map_shards(square, [1], nj=1, config=Wrapper((str(program),), Path("jobs")))


def test_jobs_on_one_machine_share_its_gpus(square, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    Path("gpus_of_jobs.py").write_text(
        "import os\n\ndef see(job):\n    return os.environ['CUDA_VISIBLE_DEVICES']\n"
    )
    import gpus_of_jobs

    wrapper = wrapper_in(tmp_path, name="run.pl")
    for ngpu, names in ((1, ["4", "7"]), (0, ["", ""])):
        seen = map_shards(gpus_of_jobs.see, [1, 2], nj=2, ngpu=ngpu, config=wrapper)
        assert seen == names
