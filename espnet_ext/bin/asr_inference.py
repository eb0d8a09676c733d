"""ESPnet's ``espnet2.bin.asr_inference`` with all plugins and with modified shallow fusion (P2, Table 5)."""

from espnet_ext.bin.with_plugins import with_plugins
from espnet_ext.search.inference import main

with_plugins(main, __name__)
