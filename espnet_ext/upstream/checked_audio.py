"""ESPnet's reader of audio files refuses other sampling rates and empty files while it reads, by file and utterance.

ESPnet drops the rate of a file. To look at all headers first would open each file twice.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from espnet_ext.errors import InputError


@contextmanager
def checked_audio(table: Mapping[str, str], rate: int | None) -> Iterator[None]:
    """Within this block, ESPnet's data type ``sound`` checks each file that it reads.

    Args:
        table: utterance -> audio file, for the messages.
        rate: in Hz; None: any.

    Raises:
        InputError: from the reader, for a file without samples or with another rate.
    """
    import soundfile
    from espnet2.train.iterable_dataset import DATA_TYPES

    utterances = {path: utterance for utterance, path in table.items()}

    def read(path: str) -> np.ndarray:
        samples, found = soundfile.read(path)
        name = f"{utterances.get(path, 'audio')}: {path}"
        if not len(samples):
            raise InputError(f"{name} has no samples: replace it, or drop the utterance")
        if rate and found != rate:
            raise InputError(f"{name} has {found} Hz, but the model's frontend takes {rate} Hz: resample it")
        return samples

    with patch.dict(DATA_TYPES, sound=read):
        yield
