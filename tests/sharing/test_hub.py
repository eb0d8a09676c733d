"""Upload and download by name, with huggingface_hub's own client and a hub on this machine; what each error says."""

import json
import shutil
import socket
from pathlib import Path

import huggingface_hub
import pytest
import soundfile
import yaml
from fake_hub import TOKEN, FakeHub, running
from huggingface_hub import errors

import espnet_ext
from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.sharing.find import find_model, hub_problem, upload
from espnet_ext.sharing.pack import Packing, pack

NAME = "someone/small-model"


@pytest.fixture
def archive(training):
    return pack(Packing(training / "exp/seed1", search={"beam_size": 1, "maxlenratio": 0.2}), training / "shared.zip")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A running hub; the client's cache is empty, and its token may write."""
    with running() as server:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.address)
        files = server.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", files)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


@pytest.fixture
def shared(hub: FakeHub, archive) -> FakeHub:
    """The hub with a packed model, as ``upload`` leaves it there."""
    upload(archive, NAME)
    return hub


def problem(name: str) -> str:
    """The line that a downloader sees."""
    with pytest.raises(InputError) as found:
        find_model(name)
    assert "\n" not in str(found.value)
    return str(found.value)


def test_what_is_uploaded_can_be_loaded_by_name(archive, hub, noise):
    expected = espnet_ext.load(archive)(noise)[0][2]
    assert upload(archive, NAME, private=True) == f"{hub.address}/{NAME}"
    assert hub.private == {NAME}
    files = hub.models[NAME]
    assert {"README.md", "meta.yaml", "model/config.yaml", "model/model.pth"} <= files.keys()
    assert not any(Path(each).name.startswith(".") for each in files)
    assert espnet_ext.load(NAME)(noise)[0][2] == expected


def test_transcribe_takes_the_name_and_needs_the_hub_only_once(shared, archive, noise, tmp_path, monkeypatch):
    soundfile.write(tmp_path / "a.wav", noise, 16000)

    def transcribe(model: object) -> dict:
        options = ["--output", str(tmp_path / "out"), "--formats", "json"]
        assert call(["transcribe", str(tmp_path / "a.wav"), "--model", str(model), *options]) == 0
        return json.loads((tmp_path / "out/a.json").read_text())["segments"]

    expected = transcribe(archive)
    assert transcribe(NAME) == expected
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert transcribe(NAME) == expected


def test_a_name_or_revision_that_is_not_there(shared):
    assert "someone/other: the hub has no such model, or it is private" in problem("someone/other")
    assert problem(f"{NAME}@v9") == f"{NAME}@v9: the hub has the model, but not this revision"
    shared.gated.add(NAME)
    assert "its authors must grant access first" in problem(NAME)


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


def test_uploading_needs_a_token_that_may_write(archive, hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "of-a-reader")
    with pytest.raises(InputError, match=rf"^{NAME}: the hub refuses this \(status 401\): run hf auth login"):
        upload(archive, NAME)
    assert hub.models == {}


def test_only_a_packed_model_with_its_card_is_uploaded(archive, hub, model, tmp_path):
    with pytest.raises(InputError, match="not a packed model: pack it"):
        upload(model, "someone/model")
    with pytest.raises(InputError, match="is named user/model"):
        upload(archive, "model")
    with pytest.raises(InputError, match=r"none.zip: no such file or folder: name a packed model, or pack one"):
        upload(tmp_path / "none.zip", "someone/model")
    shutil.unpack_archive(archive, tmp_path / "part")
    (tmp_path / "part/README.md").unlink()
    with pytest.raises(InputError, match="has no README.md, the model card"):
        upload(tmp_path / "part", "someone/model")
    assert hub.models == {}


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
        (errors.LocalTokenNotFoundError("token"), "hf auth login"),
        (ConnectionError("Name or service not known"), "check the network"),
    ],
)
def test_each_problem_of_the_hub_says_what_to_do(error, words):
    assert words in hub_problem(error)
