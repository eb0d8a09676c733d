"""Models by their name on the hub: where its client puts them, and what each of its
errors says.
"""

import json
from pathlib import Path

import huggingface_hub
import pytest
import soundfile
from huggingface_hub import errors

import espnet_ext
from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.sharing.model_files import find_model
from espnet_ext.sharing.pack import Packing, pack

NAME = "someone/small-model"


@pytest.fixture
def shared(training, monkeypatch) -> Path:
    """The folder of a packed model, which the hub's client finds by its name."""
    folder = training / "shared"
    pack(
        Packing(training / "exp/seed1", search={"beam_size": 1, "maxlenratio": 0.2}),
        folder,
    )
    copies = {(NAME, None): folder}
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda name, revision, **_: str(copies[name, revision]),
    )
    return folder


def test_transcribe_takes_the_name(shared, noise, tmp_path):
    soundfile.write(tmp_path / "a.wav", noise, 16000)
    found = []
    for model in (shared, NAME):
        options = ["--output", str(tmp_path / "out"), "--formats", "json"]
        assert (
            call(
                ["transcribe", str(tmp_path / "a.wav"), "--model", str(model), *options]
            )
            == 0
        )
        found.append(json.loads((tmp_path / "out/a.json").read_text())["segments"])
    assert found[0] == found[1]
    assert espnet_ext.load(NAME)(noise)[0][2] == espnet_ext.load(shared)(noise)[0][2]


class Response:
    """As much of an answer of a server as huggingface_hub's errors read."""

    def __init__(self, status: int):
        self.status_code, self.headers, self.request = status, {}, None


@pytest.mark.parametrize(
    "error, words",
    [
        (
            errors.RepositoryNotFoundError("404", response=Response(404)),
            "hf auth login",
        ),
        (errors.GatedRepoError("403", response=Response(403)), "ask for access"),
        (errors.HfHubHTTPError("401", response=Response(401)), "hf auth login"),
        (errors.OfflineModeIsEnabled("offline"), "(offline): check the network"),
        (
            ConnectionError("Name or service not known\nmore"),
            "(Name or service not known): check the network",
        ),
    ],
)
def test_each_problem_of_the_hub_says_what_to_do(error, words, monkeypatch):
    def fail(name, **options):
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(InputError) as found:
        find_model(f"{NAME}@v9")
    assert (
        str(found.value).startswith(f"{NAME}@v9: ")
        and words in str(found.value)
        and "\n" not in str(found.value)
    )
