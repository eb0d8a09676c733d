"""Training pairs of a stitcher (P4, 4.1.1) as Kaldi text files, and the note that goes with them and with the model."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from espnet_ext.data.kaldi import write_table
from espnet_ext.errors import InputError
from espnet_ext.stitcher.serialise import ALIGNMENT, GAP, STYLES, StitchExample, source_text
from espnet_ext.stitcher.stretches import Longest, longest_of
from espnet_ext.work.files import write_json

NOTE = "stitcher.json"


def write_pairs(
    folder: str | Path, examples: Sequence[StitchExample], style: str, bpemodel: str | Path | None = None
) -> None:
    """Write ``src_text``, ``recording_speaker``, ``stitcher.json`` and, where targets are known, ``text``.

    An id is ``<recording>--<speaker>``, and ``recording_speaker`` says which recording and speaker it stands for. An
    empty target is written as ``<gap>``.

    Args:
        examples: of :func:`espnet_ext.stitcher.serialise.stitch_examples`.
        style: theirs.
        bpemodel: the sentencepiece model for aligned pairs; None: their tokens are words.

    Raises:
        InputError: there is no example, or no such model.
    """
    if not examples:
        raise InputError(f"{folder}: nobody was heard in any window, so that there is nothing to stitch: decode again")
    folder = Path(folder)
    pieces = piece_maker(bpemodel if style == ALIGNMENT else None)
    write_table(folder / "src_text", {item.id: source_text(item.sources, pieces) for item in examples})
    write_table(folder / "recording_speaker", {item.id: f"{item.recording} {item.speaker}" for item in examples})
    if all(item.target is not None for item in examples):
        # of a speaker who was heard but said nothing, a symbol: ESPnet reads no empty texts
        write_table(folder / "text", {item.id: " ".join(item.target) or GAP for item in examples})
    longest = longest_of([item.windows for item in examples])
    write_json(folder / NOTE, {"style": style, "longest": asdict(longest)})


@dataclass(frozen=True)
class StitcherNote:
    """What a folder of training pairs, and of a model trained on them, says of itself.

    Attributes:
        style: of the source texts, one of ``STYLES``.
        longest: what nearly all training pairs do not exceed.
    """

    style: str
    longest: Longest


def read_note(folder: str | Path) -> StitcherNote:
    """Read the note of a folder.

    Raises:
        InputError: there is none, or it is not of that form.
    """
    path = Path(folder) / NOTE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        note = StitcherNote(record["style"], Longest(**record["longest"]))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file: copy it from the folder of the training pairs") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the note of a stitcher ({error}): write the training pairs again") from None
    if note.style not in STYLES:
        raise InputError(f"{path}: unknown style {note.style!r}: {', '.join(STYLES)}")
    return note


def piece_maker(model: str | Path | None) -> Callable[[str], Sequence[str]]:
    """What makes word pieces of a word, by a sentencepiece model; None: a word is its own piece.

    Raises:
        InputError: no such file.
    """
    if model is None:
        return lambda word: [word]
    import sentencepiece

    if not Path(model).is_file():
        raise InputError(f"{model}: no such file: run the token stage first, or check the path")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return lambda word: processor.encode(word, out_type=str)
