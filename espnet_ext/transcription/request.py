"""What users ask of a transcription, and which options each kind of engine reads."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

from espnet_ext.audio.files import ALL_SUFFIXES, is_audio
from espnet_ext.errors import InputError
from espnet_ext.text.words import Segment

# From a file to its lines, each as soon as it is done.
Engine = Callable[[Path], Iterator[Segment]]
RATE = 16000  # Hz, of models that do not say theirs


@dataclass(frozen=True)
class Request:
    """How files are transcribed.

    None: the model's own choice, which its engine describes.
    """

    # folder with a folder of audio files for each speaker
    enrolment: Path | None = None
    # separate: recognise each by itself, as a speaker of its own; None: all together
    channels: str | None = None
    track: int | None = None  # number of the audio track, from 1; None: the default
    language: str | None = None  # for multilingual models of Whisper; None: heard
    window: float | None = None  # seconds
    # the share of a window that two neighbours have in common
    window_overlap: float | None = None
    config: Path | None = None  # YAML with options of the search
    # folder; it merges windows of a speaker-attributed model; None: by time
    stitcher: Path | None = None
    # checkpoint of ESPnet, beside its config.yaml; None: Resemblyzer
    speaker_model: Path | None = None
    device: str = "cpu"
    # folder for what is not finished, which a later run goes on with
    work: Path | None = None
    temporary: Path = Path("work")  # the same, as long as the run lasts
    # is told of an enrolment file that is left out; None: refused
    broken: Callable[[Path, str], None] | None = None

    @property
    def folder(self) -> Path:
        """The folder for what is not finished."""
        return self.work or self.temporary

    def list_given(self) -> set[str]:
        """Return the options that the user has chosen."""
        names = [field.name for field in fields(self)]
        chosen = {name for name in names if getattr(self, name) is not None}
        # These are set for every run.
        return chosen - {"device", "temporary", "broken"}


class UnusableModel(InputError):
    """A model that cannot be loaded: there is no use in trying the next file."""


@contextmanager
def raise_unusable() -> Iterator[None]:
    """Turn bad input into an :class:`UnusableModel`."""
    try:
        yield
    except InputError as error:
        raise UnusableModel(*error.args) from error


COMMON = frozenset({"track"})
WINDOWS = COMMON | frozenset({"window", "window_overlap", "config"})
READ = {  # the options that each kind of engine reads
    "Whisper": COMMON | {"channels", "language"},
    "a recogniser": WINDOWS | {"channels"},
    "a speaker-attributed model": WINDOWS
    | {"enrolment", "stitcher", "speaker_model", "work"},
}


def check_options(kind: str, request: Request) -> None:
    """Refuse an option that this kind of engine, a key of ``READ``, does not read."""
    wrong = min(request.list_given() - READ[kind], default=None)
    if wrong is not None:
        kinds = [other for other, options in READ.items() if wrong in options]
        suits = " or ".join(kinds)
        raise InputError(
            f"--{wrong.replace('_', '-')} is for {suits}, and this is {kind}: "
            "leave it out"
        )


def list_folder(folder: Path) -> list[Path]:
    """Return what is in a folder, sorted."""
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(
            f"{folder}: {(error.strerror or '').lower()}: give yourself the right "
            "to read it"
        ) from None


def find_enrolment(folder: Path) -> dict[str, list[Path]]:
    """Speaker -> audio files, from a folder with a folder for each speaker.

    Raises InputError: no speaker in it, a speaker without audio files, or a name with a
    blank or ``=``.
    """
    if not folder.is_dir():
        raise InputError(
            f"{folder}: no such folder: give one with a folder of audio files for "
            "each speaker"
        )
    found = {}
    for path in list_folder(folder):
        # Hidden folders are those of file systems and desktops.
        if path.is_dir() and not path.name.startswith("."):
            found[path.name] = sorted(filter(is_audio, list_folder(path)))
    if not found:
        raise InputError(
            f"{folder}: no folder in it: put each speaker's audio files into a "
            "folder of that name"
        )
    for speaker, files in found.items():
        if not files:
            raise InputError(
                f"{folder / speaker}: no audio file in it "
                f"({', '.join(ALL_SUFFIXES)}): enrol {speaker}, or remove it"
            )
        # A table of inventories has names with blanks between them, and `name=profile`.
        if len(speaker.split()) != 1 or "=" in speaker:
            raise InputError(
                f"{folder / speaker}: a speaker's name must have no blank and no "
                "equals sign: rename it"
            )
    return found
