"""Plugins and recipes for ESPnet: five published speech-recognition systems, made runnable.

Importing this package is cheap: neither torch nor ESPnet is imported. Call :func:`register` to make the plugins
known to ESPnet, after which ``encoder: blstm_maxpool`` and the like work in any ESPnet YAML and in ``Speech2Text``.
"""

__version__ = "0.1.0"


def register() -> None:
    """Add all plugins, ours and those of third parties, to ESPnet's registries. Calling it again changes nothing."""
    from espnet_ext.registry import register as register_plugins

    register_plugins()
