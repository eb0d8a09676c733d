"""Run ESPnet's ``asr_train`` with an encoder that grows (P2, section 4)."""

from espnet_ext.sem.training import GrowingASRTask
from espnet_ext.upstream.with_plugins import with_plugins

main = GrowingASRTask.main
with_plugins(main, __name__)
