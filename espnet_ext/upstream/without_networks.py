"""An ESPnet model without its large parts, for work that needs only its frontend."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def without_networks() -> Iterator[None]:
    """Within this block, ASR models are built with an encoder and a decoder that have no parameters.

    A model of 200 million parameters takes ten seconds to build, which is longer than the features of a shard. The
    statistics of ESPnet's ``collect_stats`` come from the frontend, which is built as it is.
    """
    from espnet2.asr.decoder.abs_decoder import AbsDecoder
    from espnet2.asr.encoder.abs_encoder import AbsEncoder
    from espnet2.tasks import asr

    class NoEncoder(AbsEncoder):
        def __init__(self, *args: Any, **options: Any):
            super().__init__()

        def output_size(self) -> int:
            return 1

        def forward(self, *args: Any, **options: Any) -> Any:
            raise NotImplementedError

    class NoDecoder(AbsDecoder):
        def __init__(self, *args: Any, **options: Any):
            super().__init__()

        def forward(self, *args: Any, **options: Any) -> Any:
            raise NotImplementedError

    with ExitStack() as stack:
        for choices, nothing in ((asr.encoder_choices, NoEncoder), (asr.decoder_choices, NoDecoder)):
            stack.enter_context(patch.dict(choices.classes, dict.fromkeys(choices.classes, nothing)))
        yield
