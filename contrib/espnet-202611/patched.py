"""Modules of the installed ESPnet with the patches of this folder, applied to copies:
ESPnet itself is not changed.
"""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import espnet2

HERE = Path(__file__).resolve().parent
PATCHES = sorted(HERE.glob("*.patch"))
CTC = "espnet2/legacy/nets/ctc_prefix_score.py"
RNN = "espnet2/asr/decoder/rnn_decoder.py"
TRANSFORMER = "espnet2/asr/decoder/transformer_decoder.py"
TASK = "espnet2/tasks/abs_task.py"
TRAINER = "espnet2/train/trainer.py"
CHOICES = "espnet2/train/class_choices.py"
INFERENCE = "espnet2/bin/asr_inference.py"
INIT_PARAM = "espnet2/torch_utils/load_pretrained_model.py"
SEEDS = "espnet2/torch_utils/set_all_random_seed.py"
SEQUENCES = "espnet2/iterators/sequence_iter_factory.py"
CATEGORIES = "espnet2/iterators/category_iter_factory.py"
CHANGED = (
    CTC,
    RNN,
    TRANSFORMER,
    TASK,
    TRAINER,
    CHOICES,
    INFERENCE,
    INIT_PARAM,
    SEEDS,
    SEQUENCES,
    CATEGORIES,
)
METRICS = "espnet3/components/metrics/multi_speaker.py"  # new


def copy_sources(folder: Path) -> Path:
    """Copy the files that the patches change into ``folder``, and return it."""
    for name in CHANGED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(espnet2.__file__).parents[1] / name, folder / name)
    return folder


def apply(folder: Path) -> Callable[[str], ModuleType]:
    """Copy the files into ``folder``, apply all patches there, and return a function
    that imports one by its path.
    """
    copy_sources(folder)
    for each in PATCHES:
        subprocess.run(["git", "apply", str(each)], cwd=folder, check=True)

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(
            f"patched_{Path(name).stem}", folder / name
        )
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # typeguard looks there for the source
        if name == SEEDS:
            spec.loader.exec_module(module)
            return module
        # The others import what the patches add to this one. Its name alone is put
        # back: what they import besides stays, since libraries load only once.
        installed = importlib.import_module(module_name(SEEDS))
        sys.modules[module_name(SEEDS)] = load(SEEDS)
        try:
            spec.loader.exec_module(module)
        finally:
            sys.modules[module_name(SEEDS)] = installed
        return module

    return load


def module_name(path: str) -> str:
    """Return the name of a module of ESPnet by its path."""
    return path.removesuffix(".py").replace("/", ".")
