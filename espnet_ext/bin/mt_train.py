"""Run ESPnet's ``mt_train`` with the plugins of espnet_ext and of third parties."""

from espnet2.bin.mt_train import main

from espnet_ext.upstream.with_plugins import with_plugins

with_plugins(main, __name__)
