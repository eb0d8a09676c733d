"""ESPnet's own commands with our plugins: ``python -m espnet_ext.bin.asr_train`` and
the like.
"""

from espnet_ext.environment import require_environment
from espnet_ext.upstream.own_process import prepare_imports

require_environment()
prepare_imports()  # before the modules of this package import ESPnet
