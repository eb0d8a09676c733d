"""Pack a trained model with all that decodes it, in the layout of ESPnet's packing."""

import json
import platform
import re
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError, warn
from espnet_ext.sharing import model_files
from espnet_ext.sharing.archives import ARCHIVES
from espnet_ext.sharing.card import Card, write_card
from espnet_ext.sharing.load import SEARCH, explain_faults
from espnet_ext.upstream.checkpoint import check_model, load_parameters
from espnet_ext.upstream.config_paths import find_named_files, replace_paths
from espnet_ext.work.files import atomic_write, open_scratch_folder
from espnet_ext.work.yaml_files import read_yaml, write_yaml

# Options of decoding long recordings.
WINDOWED = ("stride", "batch_seconds", "precision")
SPECIAL = ("<blank>", "<unk>", "<sos/eos>")  # of ESPnet's token lists
NUMPY = b"\x93NUMPY"  # how its files begin
DECODING = "decoding.json"  # of a speaker-attributed model, beside its config


@dataclass(frozen=True)
class Packing:
    """What goes into the archive."""

    folder: Path  # of a training, with its config.yaml
    model: Path | None = None  # its checkpoint; None to find it in the folder
    # options of espnet2.bin.asr_inference
    search: Mapping[str, Any] = field(default=model_files.EMPTY)
    lm: tuple[Path, Path] | None = None  # config and checkpoint
    prior: Path | None = None  # of tokens
    # files outside of the training's folders that the user has named
    include: Sequence[Path] = ()
    card: Card = Card()


def pack(packing: Packing, output: Path) -> list[Path]:
    """Write a zip archive or a new folder, and return the files that went in.

    The archive or folder is written completely or not at all. All paths in it are
    relative. Raises InputError: a file that the model needs is not there or lies
    outside of the training's folders, the checkpoint does not fit its config, or the
    folder to write is there.
    """
    if output.suffix != ".zip" and (output.exists() or output.name.endswith(ARCHIVES)):
        raise InputError(
            f"{output}: is there, or no zip: name a new folder, or an archive "
            "that ends with .zip"
        )
    settings = packing.folder / model_files.CONFIG
    config = read_yaml(settings) if settings.is_file() else {}
    task = model_files.find_task(config)
    model = packing.model or model_files.find_checkpoint(packing.folder, task)
    needed = [settings, model, *(packing.lm or ())]
    if packing.prior:
        needed.append(packing.prior)
    for path in needed:
        if not path.is_file():
            raise InputError(
                f"{path}: no such file: train the model first, or correct the path"
            )
    with open_scratch_folder(output) as folder:
        packed = _copy_model(settings, model, folder / "model", packing.include)
        # with the packed config: so it is seen that all files it names went in
        _check_fit(folder, task, model)
        prefix = "mt" if task == "mt" else "asr"
        yaml_files = {f"{prefix}_train_config": f"model/{model_files.CONFIG}"}
        files = {f"{prefix}_model_file": f"model/{model_files.MODEL}"}
        if packing.lm:
            packed += _copy_model(*packing.lm, folder / "lm", packing.include)
            yaml_files["lm_train_config"] = f"lm/{model_files.CONFIG}"
            files["lm_file"] = f"lm/{model_files.MODEL}"
        if packing.prior:
            (folder / model_files.PRIOR).parent.mkdir()
            shutil.copyfile(packing.prior, folder / model_files.PRIOR)
            packed.append(packing.prior)
        search = {}
        for key, value in packing.search.items():
            if key in (*SEARCH, *WINDOWED):
                search[key] = value
        left = sorted(packing.search.keys() - search.keys())
        if left:
            warn(
                f"{output}: a model brings no {', '.join(left)}: who decodes with "
                "it must give them again"
            )
        write_yaml(
            folder / model_files.OURS,
            {"task": task, "search": search},
            "how its authors decode this model",
        )
        made = {
            "espnet": version("espnet"),
            "torch": version("torch"),
            "python": platform.python_version(),
        }
        write_yaml(
            folder / model_files.META,
            {"files": files, "yaml_files": yaml_files, **made},
            "as ESPnet packs models",
        )
        text = write_card(
            packing.card, output.name.partition(".")[0], task, config, search
        )
        (folder / model_files.CARD).write_text(text, encoding="utf-8")
        if output.suffix != ".zip":
            shutil.copytree(folder, output)
            return packed
        with atomic_write(output, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                archive.write(path, path.relative_to(folder))
    return packed


def _check_fit(folder: Path, task: str, model: Path) -> None:
    """Refuse a checkpoint that is not of its config's model: nobody could load it."""
    if task == "sa_asr":  # of a room above this one
        return
    from espnet_ext.upstream.own_process import prepare_process

    prepare_process()
    if task == "mt":
        from espnet2.tasks.mt import MTTask as Task
    else:
        from espnet2.tasks.asr import ASRTask as Task
    checkpoint = model.resolve()
    # Paths in the config are relative to the folder.
    with (
        explain_faults(model_files.ModelFiles(str(model), folder, model)),
        chdir(folder),
    ):
        check_model(Task, f"model/{model_files.CONFIG}", checkpoint)


def _copy_model(
    config: Path,
    model: Path,
    target: Path,
    include: Sequence[Path],
) -> list[Path]:
    """Copy a checkpoint, its config and the files that this names.

    Their names become relative to the folder above. Returns the files that were copied.
    """
    from espnet_ext.registry import qualify_names

    target.mkdir()
    values = model_files.drop_training(read_yaml(config), config)
    wanted = {path.resolve() for path in include}
    names: dict[Path, str] = {}
    paths = {}
    bases = [Path.cwd(), *config.resolve().parents]
    for name, path in find_named_files(values, bases, config).items():
        if path not in wanted and not _is_of_model(path, config):
            raise InputError(
                f"{config}: names {path}, which may be private: it is outside of the "
                f"model's folders: give `--include {path}` if it may be shared"
            )
        if path not in names:
            # A number before the name of a second file that is called like another.
            same = sum(Path(other).name.endswith(path.name) for other in names.values())
            number = f"{same}_" if same else ""
            names[path] = f"{target.name}/{number}{path.name}"
            shutil.copyfile(path, target.parent / names[path])
        paths[name] = names[path]
    values = qualify_names(replace_paths(values, paths))
    write_yaml(
        target / model_files.CONFIG,
        values,
        "packed by espnet-ext: paths are relative to the folder above",
    )
    # Lightning's checkpoints have the optimizer's state, and paths of this machine.
    if model.suffix == ".ckpt":
        import torch

        torch.save(load_parameters(model), target / model_files.MODEL)
    else:
        shutil.copyfile(model, target / model_files.MODEL)
    decoding = config.with_name(DECODING)
    if decoding.is_file():
        shutil.copyfile(decoding, target / DECODING)
    return [config, model, *names, *([decoding] if decoding.is_file() else [])]


def _is_of_model(path: Path, config: Path) -> bool:
    """Tell whether a file that a config names is certainly the model's.

    A config may come from a stranger and name any file of this machine. Of the folders
    in which trainings run, statistics, sentencepiece models and lists of their pieces
    alone are taken.
    """
    recipe = find_recipe(config)
    folders = [config.resolve().parent]
    folders += [recipe / "data", recipe / "exp"] if recipe else []
    for folder in folders:
        if path.is_relative_to(folder):
            parts = path.relative_to(folder).parts
            # hidden files, such as those of keys, are nobody's model
            return not any(part.startswith(".") for part in parts)
    here = [Path.cwd().resolve(), *([recipe] if recipe else [])]
    return any(map(path.is_relative_to, here)) and _is_of_speech(path)


def _is_of_speech(path: Path) -> bool:
    """Tell whether a file holds numpy arrays, a sentencepiece model or its pieces."""
    with path.open("rb") as file:
        if file.read(6) == NUMPY:
            return True
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return all(name.endswith(".npy") for name in archive.namelist())
    return _read_pieces(path) is not None or _lists_pieces(path)


def _lists_pieces(path: Path) -> bool:
    """Tell whether each line of a file is a piece of a sentencepiece model beside it.

    ESPnet3 keeps its token list so.
    """
    for model in path.parent.glob("*.model"):
        pieces = _read_pieces(model)
        if pieces:
            lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
            return pieces.union(SPECIAL, [""]).issuperset(lines)
    return False


def _read_pieces(path: Path) -> set[str] | None:
    """Return the pieces of a sentencepiece model; None for any other file."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor()
    try:
        model.Load(str(path))
    except (RuntimeError, OSError):
        return None
    return {model.IdToPiece(number) for number in range(model.GetPieceSize())}


def describe_recipe(folder: Path, decoding: str = "default") -> Packing:
    """Return what a recipe knows of one of its systems.

    The recipe knows search, language model, prior, results and paper.

    ``folder`` is that of a training in a recipe, such as
    ``egs/librispeech_sem/exp/mini/baseline/seed1``, ``decoding`` one of those in its
    ``conf/tables.yaml``, or with the options of the run at its end, as its folder is
    named: ``default-average_best_3``. Raises InputError: the recipe has no such system
    or decoding.
    """
    from espnet_ext.tables.plan import load_scale, merge_decode_config
    from espnet_ext.tables.reading import load_tables

    folder = folder.resolve()
    recipe = find_recipe(folder)
    if recipe is None or not folder.name.startswith("seed"):
        return Packing(folder)
    system = folder.parent.name
    expdir = folder.parent.parent
    named = expdir.name.partition("-")[0]  # SCALE, or SCALE-CORPUS
    scale = named if (recipe / "conf" / f"{named}.yaml").is_file() else "full"
    tables = load_tables(recipe / "conf" / "tables.yaml", scale)
    results = read_results(folder / f"decode_{decoding}")
    name = decoding
    if results and decoding not in tables.decodings:
        # The longest name that the folder's begins with; what follows are options.
        begins = [name for name in tables.decodings if decoding.startswith(f"{name}-")]
        name = max(begins, default=decoding)
    options = ""
    if name != decoding:
        options = f", with the options `{decoding[len(name) + 1 :]}`"
    search = merge_decode_config(load_scale(recipe, scale), tables, name)
    lm = expdir / ("lm_large" if "lm_size_large" in options else "lm")
    average = re.search(r"average_(best|last)_(\d+)", options)
    fused = any(search.get(name) for name in ("lm_weight", "prior_weight"))
    model = None
    if average:
        kind, count = average.groups()
        model = folder / f"{kind}{count}.ave.pth"
    language_model = None
    if search.get("lm_weight"):
        language_model = (lm / model_files.CONFIG, lm / "valid.loss.ave.pth")
    priors = []
    if fused:
        priors = sorted((recipe / "data" / expdir.name).glob("**/prior.txt"))
    return Packing(
        folder=folder,
        model=model,
        search=search,
        lm=language_model,
        prior=priors[0] if priors else None,
        card=Card(
            corpus=f"the corpus of {expdir.name}",
            paper=tables.file.paper.citation,
            how=(
                f"System `{system}`, seed {folder.name[4:]}, of the recipe "
                f"`{recipe.name}`."
            ),
            decoding=f"Decoding `{name}`{options}:",
            results=results,
        ),
    )


def replace_parts(found: Packing, **given: Any) -> Packing:
    """Return the packing with what the user gives instead.

    The error rates of another search or model do not go in.
    """
    new = replace(found, **given)
    # what the recipe has scored: the only average that it leaves, unless it is named
    scored = [found.model] if found.model else sorted(found.folder.glob("*.ave.pth"))
    other = []
    if new.search != found.search:
        other.append("search")
    if [path.resolve() for path in new.lm or ()] != list(found.lm or ()):
        other.append("language model")
    model = new.model
    if model not in (None, found.model) and [model.resolve()] != scored:
        other.append("checkpoint")
    if not other or not found.card.results:
        return new
    warn(
        f"{found.folder}: the card gets no error rates, since the recipe's are of "
        f"another {', '.join(other)}"
    )
    return replace(new, card=replace(new.card, decoding="", results={}))


def find_recipe(folder: Path) -> Path | None:
    """Return the recipe's folder that a training's folder is in."""
    for path in folder.resolve().parents:
        if (path / "recipe.py").is_file():
            return path
    return None


def read_results(folder: Path) -> dict[str, Any]:
    """Return the ``score.json`` of each test set of a model's decoding."""
    return {
        path.parent.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*/score.json"))
    }
