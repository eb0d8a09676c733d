"""ESPnet's ``espnet2.bin.asr_train`` on recordings of any length, cut into chunks on
the fly (P5, section 3.3).
"""

from espnet_ext.longform.training import RecordingsASRTask
from espnet_ext.upstream.with_plugins import with_plugins

main = RecordingsASRTask.main
with_plugins(main, __name__)
