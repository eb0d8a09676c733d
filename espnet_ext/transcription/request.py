"""What users ask of a transcription, which options each kind of engine reads, and folders of enrolled speakers."""

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
    """How files are transcribed. None: the model's own choice, which its engine describes.

    Attributes:
        speakers: tell who speaks.
        num_speakers: how many speak, at most.
        enrolment: folder with a folder of audio files for each speaker.
        channels: ``separate``: recognise each channel by itself, as a speaker of its own; None: all together.
        language: for multilingual models of Whisper (``en``).
        window, window_overlap: seconds of a window, and the share of it that two neighbours have in common.
        config: YAML with options of the search.
        method, stitcher: how windows of a speaker-attributed model are merged.
        speaker_model: checkpoint of an ESPnet speaker model, whose config.yaml lies beside it; None: Resemblyzer.
        device: ``cpu`` or ``cuda``.
        work: folder for what is not finished, which a later run goes on with; None: ``temporary``.
        temporary: folder that lasts as long as the run.
    """

    speakers: bool | None = None
    num_speakers: int | None = None
    enrolment: Path | None = None
    channels: str | None = None
    language: str | None = None
    window: float | None = None
    window_overlap: float | None = None
    config: Path | None = None
    method: str | None = None
    stitcher: Path | None = None
    speaker_model: Path | None = None
    device: str = "cpu"
    work: Path | None = None
    temporary: Path = Path("work")

    @property
    def folder(self) -> Path:
        """The folder for what is not finished."""
        return self.work or self.temporary

    def given(self) -> set[str]:
        """Return the options that the user has chosen."""
        named = {field.name for field in fields(self) if getattr(self, field.name) is not None}
        return named - {"device", "temporary"}


class UnusableModel(InputError):
    """A model that cannot be loaded: no file can be transcribed, and there is no use in trying the next one."""


@contextmanager
def loading() -> Iterator[None]:
    """Turn bad input into an :class:`UnusableModel`."""
    try:
        yield
    except InputError as error:
        raise UnusableModel(*error.args) from error


COMMON = frozenset({"window", "window_overlap", "channels"})
READ = {  # the options that each kind of engine reads
    "Whisper": COMMON | {"speakers", "num_speakers", "enrolment", "language", "work"},
    "a recogniser": COMMON | {"config"},
    "a speaker-attributed model": COMMON
    | {"speakers", "enrolment", "config", "method", "stitcher", "speaker_model", "work"},
}


def check_options(kind: str, request: Request) -> None:
    """Raise an InputError for a given option that this kind of engine, a key of ``READ``, does not read."""
    if request.channels and request.given() & {"speakers", "num_speakers", "enrolment"}:
        raise InputError(
            "--channels tells speakers by their channels: leave out --speakers, --num-speakers and --enrolment, or it"
        )
    wrong = min(request.given() - READ[kind], default=None)
    if wrong is not None:
        suits = " or ".join(other for other, options in READ.items() if wrong in options)
        raise InputError(f"--{wrong.replace('_', '-')} is for {suits}, and this is {kind}: leave it out")


def listed(folder: Path) -> list[Path]:
    """Return what is in a folder, sorted; an InputError says why it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: {(error.strerror or '').lower()}: give yourself the right to read it") from None


def find_enrolment(folder: Path) -> dict[str, list[Path]]:
    """Speaker -> audio files, from a folder with a folder for each speaker.

    Raises:
        InputError: no such folder, no speaker in it, a speaker without audio files, or a name with a blank or ``=``.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder: give one with a folder of audio files for each speaker")
    found = {
        path.name: sorted(filter(is_audio, listed(path)))
        for path in listed(folder)
        if path.is_dir() and not path.name.startswith(".")
    }
    if not found:
        raise InputError(
            f"{folder}: no folder in it: put each speaker's audio files into a folder of the speaker's name"
        )
    for speaker, files in found.items():
        if not files:
            raise InputError(
                f"{folder / speaker}: no audio file in it ({', '.join(ALL_SUFFIXES)}): enrol {speaker}, or remove it"
            )
        if len(speaker.split()) != 1 or "=" in speaker:
            raise InputError(f"{folder / speaker}: a speaker's name must have no blank and no equals sign: rename it")
    return found
