"""ESPnet's ``espnet2.bin.asr_train`` on recordings of any length, cut into chunks on the fly (P5, section 3.3)."""

from espnet_ext.bin.with_plugins import with_plugins
from espnet_ext.task.recordings import RecordingsASRTask

with_plugins(RecordingsASRTask.main, __name__)
