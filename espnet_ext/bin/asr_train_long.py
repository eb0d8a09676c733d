"""Run ESPnet's ``asr_train`` on recordings of any length (P5, section 3.3).

They are cut into chunks on the fly.
"""

from espnet_ext.longform.training import RecordingsASRTask
from espnet_ext.upstream.with_plugins import with_plugins

main = RecordingsASRTask.main
with_plugins(main, __name__)
