"""Models on the Hugging Face hub; ``hf upload user/model FOLDER`` puts one there."""

from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError


def download(name: str, **options: Any) -> Path:
    """Return the local copy of ``user/model`` or ``user/model@revision``, which is
    downloaded if missing or changed.

    ``options`` are those of ``huggingface_hub.snapshot_download``.
    """
    from huggingface_hub import snapshot_download

    repository, _, revision = name.partition("@")
    try:
        return Path(snapshot_download(repository, revision=revision or None, **options))
    except Exception as error:  # of the network, of the hub, of a disk
        if getattr(getattr(error, "response", None), "status_code", None) in (
            401,
            403,
            404,
        ):
            raise InputError(
                f"{name}: the hub has no such model or revision, or not for you: "
                "check the name, ask for access on the "
                "model's page, or run hf auth login"
            ) from error
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{name}: the hub cannot be reached ({reason[:120]}): check the "
            "network, or give a file or folder"
        ) from error
