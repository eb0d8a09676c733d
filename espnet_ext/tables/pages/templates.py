"""Pages whose numbers come from kept results: Jinja templates, and the sections of a page that are rendered from them.

A page holds a rendered section between two comments::

    <!-- rendered from conf/mini_showed.md -->
    ...
    <!-- end of rendered -->

The file is beside the page. :mod:`espnet_ext.tables.pages.numbers` has what templates may say.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox

from espnet_ext.errors import InputError
from espnet_ext.tables.pages.numbers import Numbers, fact

FACTS = Path("docs") / "results"  # of the repository's own pages
_SECTION = re.compile(r"(<!-- rendered from (\S+) -->\n)(.*?)(<!-- end of rendered -->)", re.DOTALL)
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def render_template(path: str | Path, names: Mapping[str, Any]) -> str:
    """Render a template; what it names must exist.

    Raises:
        InputError: a fault of the template, or a number that is not there; with file and line.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such template")
    try:
        template = _environment().from_string(path.read_text(encoding="utf-8"))
    except jinja2.TemplateSyntaxError as error:
        raise InputError(f"{path}: line {error.lineno}: {error.message}") from error
    try:
        return template.render(names).strip("\n") + "\n"
    except (jinja2.TemplateError, InputError, TypeError, ValueError, ArithmeticError) as error:
        raise InputError(f"{path}: line {_line_of(error)}: {error}") from error


def render_sections(page: str | Path, names: Mapping[str, Any]) -> str:
    """The text of a page, with its rendered sections made again; the same text if it has none.

    Raises:
        InputError: a section without an end, or what :func:`render_template` refuses.
    """
    page = Path(page)
    text = page.read_text(encoding="utf-8")
    made = _SECTION.sub(lambda found: found[1] + render_template(page.parent / found[2], names) + found[4], text)
    if text.count("<!-- rendered from ") != len(_SECTION.findall(text)):
        raise InputError(f"{page}: a rendered section has no end: put `<!-- end of rendered -->` behind it")
    return made


def names_of_recipe(recipe_dir: str | Path) -> dict[str, Any]:
    """What templates of a recipe may say."""
    recipe_dir = Path(recipe_dir).resolve()
    numbers = Numbers.of(recipe_dir)
    own = {name: getattr(numbers, name) for name in dir(numbers) if not name.startswith("_")}
    return own | {"recipe": _recipes(recipe_dir.parent)}


def names_of_repository(root: str | Path) -> dict[str, Any]:
    """What templates of the repository's own pages may say: ``recipe``, ``fact`` of ``docs/results``, ``repository``.

    The last is the repository's address in ``pyproject.toml``, if it has one.
    """
    root, project = Path(root), Path(root) / "pyproject.toml"
    settings = tomllib.loads(project.read_text(encoding="utf-8")) if project.is_file() else {}
    address = settings.get("project", {}).get("urls", {}).get("Repository")
    return ({"repository": address} if address else {}) | {
        "recipe": _recipes(root / "egs"),
        "fact": lambda name, *keys: fact(root / FACTS, name, *keys),
    }


def _recipes(egs: Path) -> Any:
    found: dict[str, Numbers] = {}

    def recipe(name: str) -> Numbers:
        if not (egs / name / "results").is_dir():
            raise InputError(f"no recipe {name!r} with results in {egs}")
        return found.setdefault(name, Numbers.of(egs / name))

    return recipe


def _environment() -> jinja2.Environment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.filters |= {each.__name__: each for each in (fixed, signed, percent, thousands, words)}
    environment.globals["check"] = check
    return environment


def fixed(number: float, digits: int = 1) -> str:
    """A number with so many digits after the point.

    >>> fixed(2 / 3, 2), fixed(-0.01)
    ('0.67', '0.0')
    """
    return f"{round(number, digits) + 0.0:.{digits}f}"  # never -0.0


def signed(number: float, digits: int = 1) -> str:
    """A number with its sign.

    >>> signed(2.38), signed(-6.21)
    ('+2.4', '-6.2')
    """
    return f"{round(number, digits) + 0.0:+.{digits}f}"


def percent(share: float, digits: int = 0) -> str:
    """A share in percent.

    >>> percent(0.743, 1)
    '74.3 %'
    """
    return f"{fixed(100 * share, digits)} %"


def thousands(number: float) -> str:
    """A whole number with commas.

    >>> thousands(281241)
    '281,241'
    """
    return f"{number:,.0f}"


def words(number: int) -> str:
    """A small number as a word.

    >>> words(3), words(74)
    ('three', '74')
    """
    return _WORDS[number] if 0 <= number < len(_WORDS) else thousands(number)


def check(condition: bool, says: str) -> str:
    """Nothing, if what a sentence says in words is so; otherwise the page is not rendered."""
    if not condition:
        raise InputError(f"the text says {says!r}, which its numbers do not")
    return ""


def _line_of(error: BaseException) -> int:
    """The line of the template at which an error was raised."""
    line, trace = 1, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
