"""ESPnet's ``espnet2.bin.asr_inference`` with all plugins and with modified shallow fusion (P2, Table 5)."""

from espnet_ext.upstream.inference import main
from espnet_ext.upstream.with_plugins import with_plugins

with_plugins(main, __name__)
