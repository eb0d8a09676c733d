"""What a training says of itself while it runs: utils/asr.sh, asr_train_progress."""

import subprocess
from pathlib import Path

import pytest

ASR = Path(__file__).parents[2] / "utils" / "asr.sh"
SETTINGS = "python=p datadir=d expdir=e stats_dir=s lm_dir=l nj=1 ngpu=0 corpus=c check_audio=auto"
TIMES = "iter_time=0.205, forward_time=0.153"


def progress(log: Path) -> str:
    script = f"set -euo pipefail\n{SETTINGS}\n. {ASR}\nasr_train_progress {log}"
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=True).stdout


@pytest.mark.parametrize(
    ("losses", "shown"),
    [
        ("loss_ctc=294.826, loss=294.826, backward_time=0.122", "loss=294.826"),
        ("loss_ctc=9.1, loss_att=8e-05, acc=0.315, loss=1.2e-04, optim0_lr0=1e-05", "acc=0.315, loss=1.2e-04"),
    ],
)
def test_the_last_batch_is_shown(losses, shown, tmp_path):
    log = tmp_path / "train.log"
    lines = [
        f"[host] 2026-01-01 00:00:00,1 (trainer:816) INFO: {n}epoch:train:1-{5 * n}batch: {TIMES}, {losses}\n"
        for n in (2, 13)
    ]
    log.write_text("# a command\n" + "".join(lines) + "saved\n")
    assert progress(log) == f"epoch 13, batch 65, {shown}"
