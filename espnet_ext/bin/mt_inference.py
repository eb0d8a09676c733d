"""Run ESPnet's ``mt_inference`` with the plugins of espnet_ext and of third parties.

An MT model has no CTC: give ``--ctc_weight 0``.
"""

from espnet2.bin.mt_inference import main

from espnet_ext.upstream.with_plugins import with_plugins

with_plugins(main, __name__)
