"""ESPnet's own commands with our plugins: ``python -m espnet_ext.bin.asr_train`` and
the like.
"""

from espnet_ext.environment import require_environment
from espnet_ext.loading import import_attention, say_loading

require_environment()
say_loading()
import_attention()
