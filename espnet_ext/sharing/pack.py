"""Pack a trained model with all that decodes it into one archive, by ESPnet's own packing."""

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.sharing.card import Card, write_card
from espnet_ext.sharing.files import (
    CARD,
    CONFIG,
    EMPTY,
    MODEL,
    OURS,
    PRIOR,
    SETTLED,
    find_checkpoint,
    named_files,
    replace_paths,
    task_of,
    without_training,
)
from espnet_ext.tables.kept.result_files import read_results
from espnet_ext.tables.pages.render import has_run
from espnet_ext.tables.plans.schema import Paper
from espnet_ext.work.files import write_json
from espnet_ext.work.provenance import versions
from espnet_ext.work.yaml_files import read_yaml, write_yaml

SLOTS = (
    "frontend",
    "specaug",
    "normalize",
    "preencoder",
    "encoder",
    "speaker_encoder",
    "postencoder",
    "decoder",
    "model",
)


@dataclass(frozen=True)
class Packing:
    """What goes into the archive.

    Attributes:
        folder: the folder of a training, with its ``config.yaml``.
        model: its checkpoint; None to find it in ``folder``.
        search: options of the search, as ``espnet2.bin.asr_inference`` names them.
        lm: config and checkpoint of a language model.
        prior: the token prior.
        results: tables that hold only the rows of this model.
        corpus, paper, how: what the card says about where the model comes from.
        licence, language: what the card says.
    """

    folder: Path
    model: Path | None = None
    search: Mapping[str, Any] = field(default=EMPTY)
    lm: tuple[Path, Path] | None = None
    prior: Path | None = None
    results: Sequence[Mapping[str, Any]] = ()
    corpus: str = ""
    paper: Paper | None = None
    how: str = ""
    licence: str = ""
    language: Sequence[str] = ()


def pack(packing: Packing, output: Path) -> Path:
    """Write the archive (.zip, .tar, .tgz or .tar.gz), completely or not at all. All paths in it are relative.

    Raises:
        InputError: a file that the model needs is not there, or the archive's kind is unknown.
    """
    from espnet_ext.sharing.find import ARCHIVES

    if not output.name.endswith(ARCHIVES):
        raise InputError(f"{output}: name an archive ({', '.join(ARCHIVES)})")
    settings = packing.folder / CONFIG
    config = read_yaml(settings) if settings.is_file() else {}
    task = task_of(config)
    model = packing.model or find_checkpoint(packing.folder, task)
    for path in (settings, model, *(packing.lm or ()), *([packing.prior] if packing.prior else [])):
        if not path.is_file():
            raise InputError(f"{path}: no such file: train the model first, or correct the path")
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as name:
        folder = Path(name)
        _copy_model(settings, model, folder / "model")
        prefix = {"mt": "mt", "s2t_ctc": "s2t"}.get(task, "asr")
        yaml_files = {f"{prefix}_train_config": f"model/{CONFIG}"}
        files = {f"{prefix}_model_file": f"model/{MODEL}"}
        if packing.lm:
            _copy_model(*packing.lm, folder / "lm")
            yaml_files["lm_train_config"], files["lm_file"] = f"lm/{CONFIG}", f"lm/{MODEL}"
        if packing.prior:
            (folder / PRIOR).parent.mkdir()
            shutil.copyfile(packing.prior, folder / PRIOR)
        for result in packing.results:
            stem = result["table"] if "figure" in result else f"table{result['table']}"
            write_json(folder / "results" / f"{stem}.json", result)
        write_yaml(folder / OURS, {"task": task, "search": dict(packing.search)}, "how its authors decode this model")
        card = Card(
            name=output.name.partition(".")[0],
            task=task,
            results=packing.results,
            corpus=packing.corpus,
            paper=packing.paper,
            how=packing.how,
            modules={slot: config[slot] for slot in SLOTS if config.get(slot)},
            search=packing.search,
            versions=versions(),
            licence=packing.licence,
            language=packing.language,
        )
        (folder / CARD).write_text(write_card(card), encoding="utf-8")
        _write_archive(folder, yaml_files, files, output)
    return output


def _copy_model(config: Path, model: Path, target: Path) -> None:
    """Copy a checkpoint, its config and the files that this names; their names become relative to the folder above."""
    from espnet_ext.registry import qualified_names

    target.mkdir()
    values = without_training(read_yaml(config))
    bases = [Path.cwd(), *config.resolve().parents]
    places: dict[Path, str] = {}
    paths = {}
    for name, path in named_files(values, bases, config).items():
        if path not in places:
            same = sum(Path(place).name.endswith(path.name) for place in places.values())
            places[path] = f"{target.name}/{f'{same}_' if same else ''}{path.name}"
            shutil.copyfile(path, target.parent / places[path])
        paths[name] = places[path]
    values = qualified_names(replace_paths(values, paths))
    write_yaml(target / CONFIG, values, "packed by espnet-ext: paths are relative to the folder above")
    shutil.copyfile(model, target / MODEL)
    settled = config.with_name(SETTLED)
    if settled.is_file():
        shutil.copyfile(settled, target / SETTLED)


def _write_archive(folder: Path, yaml_files: Mapping[str, str], files: Mapping[str, str], output: Path) -> None:
    """Have ESPnet write the archive. It names files relative to the working directory, so that is ``folder``."""
    from espnet2.main_funcs import pack_funcs

    from espnet_ext.sharing.find import kind_of

    named = {*yaml_files.values(), *files.values()}
    others = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    others = [path for path in others if str(path) not in named]
    target = folder.parent / f"{folder.name}{kind_of(output)}"
    before = Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # a line for each file
            pack_funcs.pack(files=dict(files), yaml_files=dict(yaml_files), option=others, outpath=target)
        os.replace(target, output if output.is_absolute() else before / output)
    finally:
        os.chdir(before)
        target.unlink(missing_ok=True)


def of_recipe(folder: Path, decoding: str = "default") -> Packing:
    """What a recipe knows of one of its systems: search, language model, prior, results, paper.

    Args:
        folder: the folder of a training in a recipe, such as ``egs/librispeech_sem/exp/mini/baseline/seed1``.
        decoding: one of the decodings in the recipe's ``conf/tables.yaml``.

    Raises:
        InputError: the recipe has no such system or decoding, or its language model is not trained.
    """
    from espnet_ext.tables.plans.plan import decode_config, load_scale
    from espnet_ext.tables.plans.reading import load_tables

    folder = folder.resolve()
    recipe = recipe_of(folder)
    if recipe is None or not folder.name.startswith("seed"):
        return Packing(folder)
    system, expdir = folder.parent.name, folder.parent.parent
    named = expdir.name.partition("-")[0]  # SCALE, or SCALE-CORPUS
    scale = named if (recipe / "conf" / f"{named}.yaml").is_file() else "full"
    tables = load_tables(recipe / "conf" / "tables.yaml", scale)
    search = decode_config(load_scale(recipe, scale), tables, decoding)
    fused = any(search.get(name) for name in ("lm_weight", "prior_weight"))
    lm = (expdir / "lm" / CONFIG, expdir / "lm" / "valid.loss.ave.pth") if search.get("lm_weight") else None
    prior = next(iter(sorted((recipe / "data" / expdir.name).glob("**/prior.txt"))), None) if fused else None
    results = rows_of(expdir / "results", system, decoding)
    corpus = results[0]["meta"]["corpus"] if results else ""
    return Packing(
        folder=folder,
        search=search,
        lm=lm,
        prior=prior,
        results=results,
        corpus=f"{corpus}, scale {scale}" if corpus else f"the corpus of {expdir.name}",
        paper=tables.paper,
        how=f"System `{system}`, seed {folder.name[4:]}, of the recipe `{recipe.name}`; decoding `{decoding}`.",
    )


def recipe_of(folder: Path) -> Path | None:
    """The recipe's folder that a training's folder is in."""
    return next((path for path in folder.resolve().parents if (path / "recipe.py").is_file()), None)


def rows_of(results: Path, system: str, decoding: str) -> list[dict[str, Any]]:
    """The tables and figures of a run in which a system has rows with results, with these rows alone."""
    found = []
    for path in sorted(results.glob("*.json")):
        result = read_results(path)
        rows = [row for row in result["rows"] if (row["system"], row["decoding"]) == (system, decoding)]
        columns = [name for name in result["columns"] if all(name in row["cells"] for row in rows)]
        part = {
            **{key: value for key, value in result.items() if key != "figure"},
            **{"rows": rows, "columns": columns, "groups": [columns], "claims": [], "scores": None},
            "reductions": [name for name in result["reductions"] if name in columns],
        }
        if rows and columns and has_run(part):
            found.append(part)
    return found
