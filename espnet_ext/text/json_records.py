"""The objects in files of JSON; other keys are ignored.

They are apart, since text formats are read without pydantic.
"""

from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from espnet_ext.errors import InputError
from espnet_ext.text.words import Span
from espnet_ext.work.settings import Whole, find_fault

_Name = Annotated[str, Field(min_length=1)]
# Sessions and speakers may be numbers, as MeetEval reads them.
_NUMBERS = {"coerce_numbers_to_str": True}
_NameOrNumber = Annotated[str, Field(min_length=1, **_NUMBERS)]
_TextOrNumber = Annotated[str, Field(**_NUMBERS)]
_OneWord = Annotated[str, Field(pattern=r"^[^\s\x1c-\x1f]+$")]


class Turn(BaseModel):
    """A turn of SegLST."""

    session_id: _NameOrNumber
    speaker: _TextOrNumber
    words: str
    start_time: float | None = None
    end_time: float | None = None


class ManifestEntry(BaseModel):
    """A line of NeMo's manifest."""

    audio_filepath: _Name
    text: str | None = None
    pred_text: str | None = None


class WindowRecord(BaseModel):
    """What one speaker says in a window, as we write it."""

    recording: _Name
    window: Whole
    start: float
    end: float
    speaker: str  # "" where nobody speaks
    words: tuple[_OneWord, ...]
    times: tuple[Span, ...] | None = None
    confidences: tuple[float, ...] | None = None


def check_record[Schema: BaseModel](
    schema: type[Schema], record: Any, where: str, advice: str
) -> Schema:
    """Return an object of a JSON file as its schema has it.

    The first thing that is wrong is refused.
    """
    try:
        return schema.model_validate(record)
    except ValidationError as error:
        reason = (
            find_fault(record, error) if isinstance(record, dict) else "not an object"
        )
        raise InputError(f"{where}: {reason}: {advice}") from None
