"""Models on the Hugging Face hub; ``hf upload user/model FOLDER`` puts one there."""

from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError


def download(name: str, **options: Any) -> Path:
    """Download ``user/model`` or ``user/model@revision``, if it is missing or changed.

    Returned is the folder of the local copy. ``options`` are those of
    ``huggingface_hub.snapshot_download``. Raises InputError: there is no such model, or
    the hub cannot be reached.
    """
    from huggingface_hub import snapshot_download

    repository, _, revision = name.partition("@")
    try:
        return Path(snapshot_download(repository, revision=revision or None, **options))
    # Of the network, of the hub, of a disk: each library below has its own.
    except Exception as error:
        response = getattr(error, "response", None)
        # The hub tells nobody whether a private model exists: 401 may stand for 404.
        if getattr(response, "status_code", None) in (401, 403, 404):
            raise InputError(
                f"{name}: the hub has no such model or revision, or not for you: "
                "check the name, ask for access on the model's page, or run hf auth "
                "login"
            ) from error
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{name}: the hub cannot be reached ({reason[:120]}): check the "
            "network, or give a file or folder"
        ) from error
