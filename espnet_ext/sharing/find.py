"""Find a model by what the user calls it: a folder, an archive, or a name on the hub."""

import re
import tempfile
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.sharing.files import ModelFiles, cache_folder, read_folder
from espnet_ext.work.once import digest, make_folder

ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz")
CHECKPOINT = ".pth"
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?")


def find_model(name: str | Path) -> ModelFiles:
    """The files of a model.

    Args:
        name: a packed archive, which is unpacked into the cache; the folder of a packed model or of an ESPnet training,
            or one of its checkpoints; or ``user/model``, with ``@revision`` if wanted, which is downloaded from the
            hub.

    Raises:
        InputError: there is no such model, it lacks a file, or it cannot be downloaded.
    """
    path = Path(name)
    if path.is_dir():
        return read_folder(path)
    if path.suffix == CHECKPOINT and path.is_file():
        return read_folder(path.parent, checkpoint=path)
    if path.is_file():
        if not path.name.endswith(ARCHIVES):
            raise InputError(f"{path}: not a packed model ({', '.join(ARCHIVES)}): give an archive or a folder")
        return read_folder(unpack(path), name=str(path))
    if HUB_NAME.fullmatch(str(name)):
        return read_folder(download(str(name)), name=str(name))
    raise InputError(f"{name}: no such file or folder, and not a name on the hub (user/model)")


def kind_of(archive: Path) -> str:
    """The ending by which ESPnet knows an archive: it does not know ``.tar.gz`` after a name with another dot.

    >>> kind_of(Path("model.v2.tar.gz")), kind_of(Path("model.zip"))
    ('.tgz', '.zip')
    """
    return ".tgz" if archive.name.endswith(".tar.gz") else archive.suffix


def unpack(archive: Path) -> Path:
    """Unpack an archive into a folder of the cache, named by its content. One that is there already is used.

    Raises:
        InputError: a damaged archive, or one with files that would be written outside the folder.
    """
    key = digest(archive)
    folder = cache_folder() / "models" / str(key)[:20]

    def extract(target: Path) -> None:
        from espnet2.main_funcs.pack_funcs import Archiver

        try:
            with tempfile.TemporaryDirectory() as place:
                link = Path(place) / f"archive{kind_of(archive)}"
                link.symlink_to(archive.resolve())
                with Archiver(link) as opened:
                    for member in opened:
                        opened.extract(member, target)
        except Exception as error:  # tarfile, zipfile and their decompressors have no common class
            raise InputError(f"{archive}: cannot be unpacked ({error}): copy or download it again") from error

    make_folder(folder, str(key), extract, "packed model")
    return folder


def download(name: str) -> Path:
    """The local copy of a model on the hub, which is downloaded if it is missing or has changed.

    Raises:
        InputError: no network, no such model, or no right to read it.
    """
    from huggingface_hub import snapshot_download

    repository, _, revision = name.partition("@")
    try:
        return Path(snapshot_download(repository, revision=revision or None, library_name="espnet"))
    except Exception as error:
        raise InputError(f"{name}: {hub_problem(error)}") from error


def upload(model: Path, name: str, *, private: bool = False) -> str:
    """Upload a packed model; return its address. ``huggingface_hub`` finds the token of ``hf auth login``.

    Args:
        model: an archive that was packed here, or such an archive unpacked.
        name: ``user/model``. It is made if it is missing.

    Raises:
        InputError: no such file, not a packed model with its card, no network, no token, or no right to write.
    """
    from huggingface_hub import HfApi

    if not re.fullmatch(HUB_NAME, name) or "@" in name:
        raise InputError(f"{name!r}: a model on the hub is named user/model")
    if not model.exists():
        raise InputError(f"{model}: no such file or folder: name a packed model, or pack one with espnet-ext pack")
    if not find_model(model).espnet:
        raise InputError(f"{model}: not a packed model: pack it with espnet-ext pack first")
    folder = model if model.is_dir() else unpack(model)
    if not (folder / "README.md").is_file():
        raise InputError(f"{model}: has no README.md, the model card: pack it with espnet-ext pack")
    api = HfApi()
    try:
        address = api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=name, folder_path=folder, ignore_patterns=[".*"], commit_message="Packed by espnet-ext"
        )
    except Exception as error:
        raise InputError(f"{name}: {hub_problem(error)}") from error
    return str(address)


def hub_problem(error: Exception) -> str:
    """What an error of ``huggingface_hub`` means, and what to do, in one line."""
    from huggingface_hub import errors

    if isinstance(error, errors.OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, and there is no copy here: unset it, or give a file or folder"
    if isinstance(error, errors.GatedRepoError):
        return "its authors must grant access first: ask for it on its page on the hub, then run hf auth login"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "the hub has no such model, or it is private: check the name, or run hf auth login"
    if isinstance(error, errors.RevisionNotFoundError):
        return "the hub has the model, but not this revision"
    if isinstance(error, errors.LocalTokenNotFoundError):
        return "the hub needs a token to write: run hf auth login"
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return f"the hub refuses this (status {status}): run hf auth login with a token that may write there"
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"the hub cannot be reached ({reason[:120]}): check the network, or give a file or folder"
