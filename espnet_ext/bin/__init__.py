"""Run ESPnet's commands with our plugins: ``python -m espnet_ext.bin.asr_train``."""

from espnet_ext.environment import require_environment
from espnet_ext.upstream.own_process import prepare_imports

require_environment()
# Before the modules of this package import ESPnet. They register the plugins when they
# are imported, too, as the processes do that ESPnet spawns for several GPUs.
prepare_imports()
