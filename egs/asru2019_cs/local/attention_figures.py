"""Pictures of a decoder's self-attention, its tokens coloured by language.

They show what P1, section 1, calls context confusion.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import distribution
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch

from espnet_ext.codeswitch.token_languages import NEITHER
from espnet_ext.work.plot_style import BLUE, STYLE, VERMILLION

NAMES = {"en": "English", "zh": "Mandarin", NEITHER: "neither"}
COLOURS = {"en": BLUE, "zh": VERMILLION, NEITHER: "0.35"}
INCHES_PER_TOKEN = 0.24
WORD_START = "\u2581"


def draw_values(values: Mapping[str, Any]) -> Figure:
    """Draw the values of ``attention.json``, which ``plot_attention.py`` writes."""
    panels = {
        f"{name}\nbetween languages: {each['between_languages']:.2f}": np.array(
            each["weights"]
        )
        for name, each in values["systems"].items()
    }
    block = "last block" if values["block"] is None else f"block {values['block']}"
    title = f"Decoder self-attention, {block}: {values['utterance']}"
    return draw_attention(panels, values["tokens"], values["languages"], title)


def draw_attention(
    panels: Mapping[str, np.ndarray],
    tokens: Sequence[str],
    languages: Sequence[str],
    title: str,
) -> Figure:
    """Draw the attention of several systems side by side, over the same L tokens.

    ``languages`` are those of the tokens (``-``: neither). ``panels`` has the shares by
    title, (L, L): row i is what token i takes from each.
    """
    side = max(2.4, INCHES_PER_TOKEN * len(tokens))
    with matplotlib.rc_context(STYLE):
        figure = Figure(
            figsize=(len(panels) * side + 1.8, side + 1.6), layout="constrained"
        )
        all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (name, weights) in zip(all_axes, panels.items(), strict=True):
            image = axes.imshow(
                _hide_later_tokens(weights),
                cmap="viridis",
                vmin=0.0,
                vmax=1.0,
                aspect="equal",
            )
            axes.set_title(name)
            axes.set_xlabel("Token attended to")
            _label_tokens(axes, tokens, languages)
        all_axes[0].set_ylabel("Attending token")
        figure.colorbar(
            image,
            ax=all_axes,
            label="Share of what a token takes, by norm",
            aspect=30,
            pad=0.01,
        )
        present = [language for language in COLOURS if language in languages]
        handles = [
            Patch(facecolor=COLOURS[language], label=NAMES[language])
            for language in present
        ]
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=len(handles),
            frameon=False,
        )
        figure.suptitle(title, parse_math=False)
        return figure


def _hide_later_tokens(weights: np.ndarray) -> np.ma.MaskedArray:
    """Return the weights without those of later tokens, which are 0."""
    return np.ma.masked_array(
        weights, mask=np.triu(np.ones_like(weights, dtype=bool), 1)
    )


def _label_tokens(axes: Axes, tokens: Sequence[str], languages: Sequence[str]) -> None:
    # every Han character starts a word
    texts = [
        token.replace(WORD_START, "" if language == "zh" else "_")
        for token, language in zip(tokens, languages, strict=True)
    ]
    axes.set_xticks(range(len(texts)), texts, rotation=90, parse_math=False)
    axes.set_yticks(range(len(texts)), texts, parse_math=False)
    font = _load_han_font()
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        for label, language in zip(labels, languages, strict=True):
            label.set_color(COLOURS[language])
            if language == "zh":
                label.set_fontproperties(font)
                label.set_size(STYLE["axes.labelsize"])


def _load_han_font() -> FontProperties:
    """Return Noto Sans SC from the package zhplot.

    Matplotlib's own fonts have no Han characters.
    """
    files = (
        file for file in distribution("zhplot").files or () if file.suffix == ".ttf"
    )
    return FontProperties(fname=str(next(files).locate()))
