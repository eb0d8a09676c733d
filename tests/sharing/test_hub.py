"""Download by name, with huggingface_hub's own client and a hub on this machine; what each error says."""

import json
import socket
from pathlib import Path

import huggingface_hub
import pytest
import soundfile
import yaml
from fake_hub import FakeHub, running
from huggingface_hub import errors

import espnet_ext
from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.sharing.hub import hub_problem
from espnet_ext.sharing.model_files import find_model
from espnet_ext.sharing.pack import Packing, pack

NAME = "someone/small-model"


@pytest.fixture
def packed(training) -> Path:
    """The folder of a packed model."""
    pack(Packing(training / "exp/seed1", search={"beam_size": 1, "maxlenratio": 0.2}), training / "shared")
    return training / "shared"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A running hub; the client's cache is empty."""
    with running() as server:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.address)
        files = server.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", files)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        yield server


@pytest.fixture
def shared(hub: FakeHub, packed) -> FakeHub:
    """The hub with a packed model."""
    files = [path for path in packed.rglob("*") if path.is_file()]
    hub.models[NAME] = {str(path.relative_to(packed)): path.read_bytes() for path in files}
    return hub


def problem(name: str) -> str:
    """The line that a downloader sees."""
    with pytest.raises(InputError) as found:
        find_model(name)
    assert "\n" not in str(found.value)
    return str(found.value)


def test_transcribe_takes_the_name_and_needs_the_hub_only_once(shared, packed, noise, tmp_path, monkeypatch):
    soundfile.write(tmp_path / "a.wav", noise, 16000)

    def transcribe(model: object) -> dict:
        options = ["--output", str(tmp_path / "out"), "--formats", "json"]
        assert call(["transcribe", str(tmp_path / "a.wav"), "--model", str(model), *options]) == 0
        return json.loads((tmp_path / "out/a.json").read_text())["segments"]

    assert espnet_ext.load(NAME)(noise)[0][2] == espnet_ext.load(packed)(noise)[0][2]
    expected = transcribe(packed)
    assert transcribe(NAME) == expected
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert transcribe(NAME) == expected


def test_a_name_or_revision_that_is_not_there(shared):
    assert "someone/other: no such model, or it is private" in problem("someone/other")
    assert problem(f"{NAME}@v9") == f"{NAME}@v9: the hub has the model, but not this revision"
    shared.gated.add(NAME)
    assert "its authors must grant access" in problem(NAME)


def test_no_network_and_no_copy_is_one_line(hub, monkeypatch):
    with socket.socket() as closed:  # bound, but it does not listen
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        said = problem(NAME)
    assert said.startswith(f"{NAME}: the hub cannot be reached") and said.endswith("or give a file or folder")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert problem(NAME).startswith(f"{NAME}: ")


def test_a_model_of_the_hub_that_lacks_a_file(shared):
    del shared.models[NAME]["model/model.pth"]
    assert (
        problem(NAME) == f"{NAME}: lacks model/model.pth, which its meta.yaml names: copy, unpack or download it again"
    )


def test_a_model_of_the_hub_from_another_espnet(shared):
    files = shared.models[NAME]
    files["meta.yaml"] = yaml.safe_dump(yaml.safe_load(files["meta.yaml"]) | {"espnet": "202409"}).encode()
    config = yaml.safe_load(files["model/config.yaml"]) | {"encoder": "of_the_past"}
    files["model/config.yaml"] = yaml.safe_dump(config).encode()
    with pytest.raises(InputError, match=rf"^{NAME}: .*packed with ESPnet 202409, this is .*: install that release$"):
        espnet_ext.load(NAME)


class Response:
    """As much of an answer of a server as huggingface_hub's errors read."""

    def __init__(self, status: int):
        self.status_code, self.headers, self.request = status, {}, None


@pytest.mark.parametrize(
    "error, words",
    [
        (errors.RepositoryNotFoundError("404", response=Response(404)), "no such model, or it is private"),
        (errors.GatedRepoError("403", response=Response(403)), "must grant access"),
        (errors.HfHubHTTPError("401", response=Response(401)), "status 401"),
        (errors.OfflineModeIsEnabled("offline"), "HF_HUB_OFFLINE is set"),
        (ConnectionError("Name or service not known"), "check the network"),
    ],
)
def test_each_problem_of_the_hub_says_what_to_do(error, words):
    assert words in hub_problem(error)
