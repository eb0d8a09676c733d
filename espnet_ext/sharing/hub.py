"""Models on the Hugging Face hub. ``hf upload user/model FOLDER`` puts a packed folder there."""

import re
from pathlib import Path

from espnet_ext.errors import InputError

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?")


def download(name: str) -> Path:
    """Return the local copy of a model on the hub, which is downloaded if it is missing or has changed.

    Raises:
        InputError: no network, no such model, or no right to read it.
    """
    from huggingface_hub import snapshot_download

    repository, _, revision = name.partition("@")
    try:
        return Path(snapshot_download(repository, revision=revision or None, library_name="espnet"))
    except Exception as error:
        raise InputError(f"{name}: {hub_problem(error)}") from error


def hub_problem(error: Exception) -> str:
    """Return what an error of ``huggingface_hub`` means, and what to do, in one line."""
    from huggingface_hub import errors

    known = {  # subclasses first
        errors.OfflineModeIsEnabled: "HF_HUB_OFFLINE is set, and no copy is here: unset it, or give a file or folder",
        errors.GatedRepoError: "its authors must grant access: ask on its page on the hub, then run hf auth login",
        errors.RepositoryNotFoundError: "no such model, or it is private: check the name, or run hf auth login",
        errors.RevisionNotFoundError: "the hub has the model, but not this revision",
    }
    advice = next((text for kind, text in known.items() if isinstance(error, kind)), None)
    if advice:
        return advice
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return f"the hub refuses this (status {status}): run hf auth login with a token that may read it"
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"the hub cannot be reached ({reason[:120]}): check the network, or give a file or folder"
