"""Windows of 16 s of one speaker, made of the texts in them."""

from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import Segment


def windows(*texts: str, overlap: float = 0.5, speaker: str = "a") -> list[Segment]:
    windowing = Windowing(16.0, overlap)
    return [
        Segment(
            "r",
            speaker,
            tuple(text.split()),
            *windowing.place_window(index),
            window=index,
        )
        for index, text in enumerate(texts)
    ]
