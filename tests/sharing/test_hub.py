"""Upload and download by name, with a hub that is a folder here, and what each of its errors says."""

import shutil

import huggingface_hub
import pytest
from huggingface_hub import errors

import espnet_ext
from espnet_ext.errors import InputError
from espnet_ext.sharing.find import hub_problem, upload
from espnet_ext.sharing.pack import Packing, pack


@pytest.fixture
def archive(training):
    return pack(Packing(training / "exp/seed1", search={"beam_size": 1, "maxlenratio": 0.2}), training / "shared.zip")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """What was uploaded is what is downloaded."""
    calls = []

    class Api:
        def create_repo(self, name, *, private, exist_ok):
            calls.append(("create", name, private, exist_ok))
            return f"https://hub.test/{name}"

        def upload_folder(self, *, repo_id, folder_path, ignore_patterns, commit_message):
            calls.append(("upload", repo_id))
            shutil.copytree(folder_path, tmp_path / "hub" / repo_id, ignore=shutil.ignore_patterns(*ignore_patterns))

    def snapshot_download(name, *, revision, library_name):
        folder = tmp_path / "hub" / name
        if not folder.is_dir():
            raise errors.LocalEntryNotFoundError("Cannot find the requested files in the disk cache")
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return calls


def test_what_is_uploaded_can_be_loaded_by_name(archive, hub, tmp_path, noise):
    expected = espnet_ext.load(archive)(noise)[0][2]
    assert upload(archive, "someone/small-model", private=True) == "https://hub.test/someone/small-model"
    assert hub == [("create", "someone/small-model", True, True), ("upload", "someone/small-model")]
    files = {path.name for path in (tmp_path / "hub/someone/small-model").rglob("*") if path.is_file()}
    assert {"README.md", "meta.yaml", "config.yaml", "model.pth"} <= files and not any(n.startswith(".") for n in files)
    assert espnet_ext.load("someone/small-model")(noise)[0][2] == expected


def test_no_network_is_one_line(hub):
    with pytest.raises(InputError, match=r"^someone/other: the hub cannot be reached .*: check the network, or give"):
        espnet_ext.load("someone/other")


def test_only_a_packed_model_with_its_card_is_uploaded(archive, hub, model, tmp_path):
    with pytest.raises(InputError, match="not a packed model: pack it"):
        upload(model, "someone/model")
    with pytest.raises(InputError, match="is named user/model"):
        upload(archive, "model")
    with pytest.raises(InputError, match="not a packed model"):
        upload(tmp_path / "none.zip", "someone/model")
    assert hub == []


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
