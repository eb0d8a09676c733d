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

import sys
from typing import Any

from espnet_ext.loading import LoadQuickly, import_attention, say_loading

__version__ = "0.2.0"

if "espnet2" not in sys.modules:
    sys.meta_path.insert(0, LoadQuickly())


def register() -> None:
    """Add all plugins, also those of third parties, to ESPnet's registries; calling it
    again changes nothing.

    From then on ESPnet also refuses checkpoints that do not fit their config, and
    commands in a ``feats.scp``.
    """
    say_loading()
    import_attention()
    from espnet_ext.kaldi.arks import never_run_commands
    from espnet_ext.registry import add_plugins
    from espnet_ext.upstream.checkpoint import load_strictly

    add_plugins()
    load_strictly()
    never_run_commands()


def load(model: str, *, device: str = "cpu", **options: Any) -> Any:
    """Return a ready ``Speech2Text`` for a packed model, the folder of a model, or
    ``user/model`` on the hub.

    ``options`` replace those of the search that the model was packed with
    (:func:`espnet_ext.sharing.load.load`).
    """
    from espnet_ext.sharing.load import load as load_model

    return load_model(model, device=device, **options)
