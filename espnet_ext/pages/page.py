"""Web pages from templates, each in one file with its style and scripts inside.

They need no network.
"""

import base64
import hashlib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from espnet_ext import __version__
from espnet_ext.work.files import atomic_write

SCRIPTS = ("aligned.js", "transcript.js")


def write_page(path: Path, template: str, **values: Any) -> None:
    """Write a page from a template of the folder ``templates`` and its values."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    page = _load_environment().get_template(template)
    text = page.render(
        version=__version__,
        date=date,
        policy=_write_policy(),
        **values,
    )
    with atomic_write(path) as file:
        file.write(text)


@cache
def _write_policy() -> str:
    """Return what a page may do, as a content security policy.

    It may run the scripts of the templates, and show pictures and play audio that lie
    beside it or within it. What stands in a page comes from anybody. Browsers run no
    script whose hash is not here, whatever becomes of the escapes, and nothing is sent
    anywhere.
    """
    hashes = []
    for name in SCRIPTS:
        # with the line break after <script>, which browsers hash too
        text = f"\n{_load_environment().get_template(name).render()}"
        digest = hashlib.sha256(text.encode()).digest()
        hashes.append(f"'sha256-{base64.b64encode(digest).decode()}'")
    files = "'self' file: data:"  # a page is often opened from a disk
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(hashes),
        # the style sheet stands in the page
        "style-src": "'unsafe-inline'",
        "img-src": files,
        "media-src": files,
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


@cache
def _load_environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("espnet_ext.pages"),
        # what stands in a page comes from anybody
        autoescape=True,
        # a name that is missing fails in a test, and does not leave a hole in a page
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
