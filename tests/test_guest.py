"""``import espnet_ext`` and ``register()`` in somebody else's program: nothing changes
but ESPnet's dicts of classes.
"""

import subprocess
import sys

import pytest

# What earlier versions replaced, or programs rely on.
STATE = """
import atexit, gc, sys, typeguard, torch
from espnet2.tasks import abs_task
from espnet2.tasks.abs_task import AbsTask
from espnet2.torch_utils import set_all_random_seed
from espnet2.iterators import sequence_iter_factory
from espnet2.train import trainer
import omniio.kaldi

def state():
    return {
        "finders": list(sys.meta_path),
        "hooks": list(sys.path_hooks),
        "typeguard": vars(typeguard).copy(),
        "torch.save": torch.save,
        "torch.load": torch.load,
        "threads": torch.get_num_threads(),
        "random": torch.get_rng_state().tolist(),
        "load": vars(AbsTask)["build_model_from_file"],
        "task": vars(AbsTask).copy(),
        "init_param": abs_task.load_pretrained_model,
        "resume": trainer.Trainer.resume,
        "trainer": vars(trainer).copy(),
        "seed": set_all_random_seed.set_all_random_seed,
        "workers": sequence_iter_factory.worker_init_fn,
        "arks": sys.modules[omniio.kaldi.load_mat.__module__].open_like_kaldi,
        "exit": atexit._ncallbacks(),
        "garbage": (gc.isenabled(), gc.get_freeze_count(), gc.get_threshold()),
        "log": list(__import__("logging").getLogger().filters),
    }
"""
CHANGES_NOTHING = (
    STATE
    + """
before = state()
import espnet_ext
imported = state()
assert imported == before, [key for key in before if before[key] != imported[key]]
espnet_ext.register()
registered = state()
assert registered == before, [key for key in before if before[key] != registered[key]]
from espnet2.tasks.asr import encoder_choices
assert "blstm_maxpool" in encoder_choices.classes
"""
)
# A file in a cycle of references is written when the cycle is collected: at exit.
BUFFERED_FILE = """
import sys, espnet_ext
import espnet2.tasks.asr
espnet_ext.register()
class Owner: pass
owner = Owner()
owner.file, owner.own = open(sys.argv[1], "w"), owner
owner.file.write("x" * 29)
"""
DECORATED = """
import espnet_ext, espnet2.tasks.asr, inspect
espnet_ext.register()
from typeguard import typechecked
@typechecked
def generate(n: int):
    yield n
@typechecked
async def wait(n: int) -> int:
    return n
assert inspect.isgeneratorfunction(generate) and inspect.iscoroutinefunction(wait)
"""
THREADS = """
import espnet_ext
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
names = ["espnet2.tasks.asr", "espnet2.tasks.lm", "espnet2.tasks.mt"]
with ThreadPoolExecutor(3) as pool:
    list(pool.map(import_module, names))
"""
OWN_FINDER = """
import sys
asked = []
class Finder:
    def find_spec(self, name, *rest):
        asked.append(name)
sys.meta_path.insert(0, Finder())
import espnet_ext
import espnet2.tasks.asr
espnet_ext.register()
assert "espnet2.tasks.asr" in asked
"""
WANDB = """
import sys, espnet_ext, espnet2.tasks.asr
espnet_ext.register()
try:
    import wandb
except ImportError:
    sys.exit()
import wandb.sdk
assert wandb.__file__ and wandb.init
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a program in a new process; it must succeed."""

    def run(code: str, *arguments: str) -> None:
        program = tmp_path / "program.py"  # typeguard reads the source
        program.write_text(code)
        command = [sys.executable, str(program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]

    return run


def test_nothing_changes(run):
    run(CHANGES_NOTHING)


def test_a_buffered_file_is_whole_at_exit(run, tmp_path):
    path = tmp_path / "log"
    run(BUFFERED_FILE, str(path))
    assert path.read_text() == "x" * 29


# One process for the proofs that do not disturb each other, since each loads ESPnet.
def test_programs_of_others_go_on(run):
    run(OWN_FINDER + DECORATED + WANDB)


def test_threads_may_import_espnet_at_once(run):
    run(THREADS)


def test_the_import_alone_loads_neither_torch_nor_espnet(run):
    run(
        "import sys, espnet_ext\n"
        "sys.exit(bool({'torch', 'espnet2'} & set(sys.modules)))"
    )
