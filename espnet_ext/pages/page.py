"""Web pages from templates: each in one file that needs no network, with its style and
scripts inside.
"""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from espnet_ext import __version__
from espnet_ext.work.files import atomic_write


def write_page(path: Path, template: str, **values: Any) -> None:
    """Write a page from a template of the folder ``templates``, and the values that it
    names.
    """
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = (
        _environment()
        .get_template(template)
        .render(version=__version__, date=date, **values)
    )
    with atomic_write(path) as file:
        file.write(text)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("espnet_ext.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
