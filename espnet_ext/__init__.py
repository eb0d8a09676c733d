"""Plugins and recipes for ESPnet that reproduce five papers on speech recognition.

Importing this package loads neither torch nor ESPnet. Call :func:`register` to add the
plugins to ESPnet. Then names such as ``encoder: blstm_maxpool`` work in any ESPnet YAML
and in ``Speech2Text``.

P1 to P5 in docstrings are these papers:

- P1: Zhang et al. 2022, language-related attention for code-switching
- P2: Kim et al. 2020, Small Energy Masking
- P3: Shivakumar et al. 2023, N-best rescoring with GPT-2 and BERT
- P4: Chang et al. 2021, the hypothesis stitcher
- P5: Flynn and Ragni 2024, long contexts
"""

from typing import Any

__version__ = "0.3.0"


def register() -> None:
    """Add all plugins, also those of third parties, to ESPnet's dicts of classes.

    Nothing else changes in this process, also not by importing this package. Calling it
    again changes nothing.
    """
    from espnet_ext.registry import add_plugins

    add_plugins()


def load(model: str, *, device: str = "cpu", **options: Any) -> Any:
    """Load a model as a ready ``Speech2Text``.

    ``model`` is a packed model, the folder of a model, or ``user/model`` on the hub.
    ``options`` replace those of the search that the model was packed with
    (:func:`espnet_ext.sharing.load.load`).
    """
    from espnet_ext.sharing.load import load as load_model

    return load_model(model, device=device, **options)
