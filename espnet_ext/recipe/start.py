"""Start a run of a recipe: its options, its tables, the systems of the user's own."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from espnet_ext.corpora.data_dirs import find_test_sets
from espnet_ext.errors import InputError
from espnet_ext.recipe.gpus import check_gpus_here
from espnet_ext.recipe.options import check_options, split_names
from espnet_ext.recipe.own_system import (
    StoredSystem,
    add_own_system,
    check_name,
    list_rows,
    read_stored_systems,
)
from espnet_ext.recipe.run import DATA, MADE_BY, PLACES, Recipe, Run
from espnet_ext.recipe.scripts import load_script
from espnet_ext.tables.plan import load_scale, select
from espnet_ext.tables.reading import load_tables
from espnet_ext.tables.test_sets import replace_test_sets
from espnet_ext.work.kaldi_jobs import Wrapper
from espnet_ext.work.launch import check_launcher, split_words
from espnet_ext.work.once import read_key
from espnet_ext.work.settings import check_settings
from espnet_ext.work.yaml_files import read_yaml


def load_recipe(folder: Path) -> Recipe:
    """Return the ``RECIPE`` of a recipe's ``recipe.py``."""
    path = folder / "recipe.py"
    if not path.is_file():
        raise InputError(
            f"{path}: no such file: --recipe names the folder of a recipe, such "
            "as egs/librispeech_sem"
        )
    return load_script(path, f"espnet_ext_recipe_{folder.name}").RECIPE


def prepare_run(
    folder: Path, given: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> Run:
    """Check a recipe's command line, and change to the folder of the recipe.

    Paths in options are relative to the current folder. cmd.sh's ``train_cmd``,
    ``train_cmd_options`` and ``decode_cmd`` are in the ``environment``.
    """
    recipe = load_recipe(folder.resolve())
    # Kaldi's place for a cluster, cmd.sh, counts only where no option names one.
    if not given.get("parallel") and environment.get("decode_cmd"):
        given = {**given, "parallel": environment["decode_cmd"]}
    options = check_options(recipe, given, Path.cwd(), folder.resolve())
    os.chdir(folder)
    if options["scale"] == "full":
        needed = list(recipe.needed)
        if not recipe.replaces_corpus(options):
            needed.insert(0, recipe.corpus_given(options))
        for name in needed:
            if not options[name]:
                raise InputError(
                    f"--scale full needs --{name} DIR; README.md says what it "
                    "holds and how to get it"
                )
    sections = load_scale(".", options["scale"])
    tables = load_tables("conf/tables.yaml", options["scale"])
    names = recipe.find_test_sets(options)
    if options[DATA] and recipe.shows_test_sets:
        names = find_test_sets(options[DATA], recipe.data_parts)
    if names:
        tables = replace_test_sets(tables, names)
    wanted = recipe.choose_tables(options)
    tables_wanted = None if wanted == "all" else split_names(wanted)
    rows = split_names(options["rows"]) if options["rows"] else None
    tag = _name_run(recipe, options)
    run = Run(
        recipe=recipe,
        options=options,
        sections=sections,
        tables=tables,
        selected=(),  # select_rows() below sets it
        expdir=Path(options["expdir"] or f"exp/{tag}"),
        datadir=Path(options["datadir"] or f"data/{tag}"),
        command=_shorten_paths(
            environment.get("ESPNET_EXT_COMMAND", ""), recipe, given
        ),
        launch=split_words(environment.get("train_cmd", ""), "train_cmd"),
        train_options=split_words(
            environment.get("train_cmd_options", ""), "train_cmd_options"
        ),
        tag=tag,
    )
    # Before add_own_systems() reads --expdir, which may be the folder of another run.
    _check_paths(run)
    run = select_rows(add_own_systems(run, tables_wanted), tables_wanted, rows)
    check_launcher(run.launch, "train_cmd", run.expdir)
    if isinstance(run.parallel, Wrapper):
        check_launcher(run.parallel.words, PLACES, run.parallel.folder)
    check_gpus_here(run)
    recipe.check(run)
    return run


def _name_run(recipe: Recipe, options: Mapping[str, str]) -> str:
    """Return what names the folders of a run: its scale, variant and corpus."""
    # With --clean_only the data of a run are others, and so are its folders.
    clean = "clean" if options.get("clean_only") == "true" else ""
    parts = [options["scale"], recipe.variant(options), clean]
    parts.append(Path(options[recipe.corpus_given(options)]).name)
    return "-".join(part for part in parts if part)


def add_own_systems(run: Run, table_ids: Sequence[str] | None) -> Run:
    """Add the systems of the user's own to the tables of a run.

    They are the one that an option gives, and those that earlier runs have trained in
    the folder of this run.
    """
    options = run.options
    trained = run.recipe.trained
    found = {}
    for path, stored in read_stored_systems(run.expdir, run.system_tag):
        found[stored.name] = (path, stored)
    # check_options() has refused more than one of these options.
    option = next((name for name in trained if options[name]), None)
    if option:
        name = options["name"]
        check_name(run.tables, run.sections, name)
        ids = [table.id for table in select(run.tables, table_ids)]
        # A system that is given again keeps its rows in other tables.
        if name in found:
            _, earlier = found.pop(name)
            ids += earlier.tables
        values = {
            "option": option,
            "name": name,
            "tables": list(dict.fromkeys(ids)),
            "content": read_yaml(options[option]),
        }
        source = Path(options[option])
        found[name] = (source, check_settings(StoredSystem, values, str(source)))
    tables = run.tables
    sections = run.sections
    own_systems = {}
    for path, stored in found.values():
        tables, sections, own = add_own_system(
            tables, sections, trained[stored.option], stored, path
        )
        own_systems[own.name] = own
    return replace(
        run,
        tables=tables,
        sections=sections,
        own=own_systems[options["name"]] if option else None,
        own_systems=own_systems,
    )


def select_rows(
    run: Run, table_ids: Sequence[str] | None, names: Sequence[str] | None
) -> Run:
    """Select the rows of a run: of ``--rows``, and of a given system of the user's own.

    If there is neither, they are all of the recipe. The rows of the user's own systems
    of earlier runs are printed beside them.
    """
    chosen_ids = [table.id for table in select(run.tables, table_ids)]
    own_rows = {}
    for own in run.own_systems.values():
        rows = list_rows(run.tables, chosen_ids, own.name)
        own_rows[own.name] = [row.name for row in rows]
    for own in run.own_systems.values():
        # A model below the systems stands in the place of the recipe's only while its
        # option is given.
        asked = set(names or ()) & set(own_rows[own.name])
        if asked and own.below and own is not run.own:
            raise InputError(
                f"--rows {asked.pop()}: is made by a model of your own: give its "
                f"--{own.option} and --name {own.name} again"
            )
    wanted = names
    if run.own:
        wanted = [*(names or ()), *own_rows[run.own.name]]
    elif names is None and own_rows:
        # What earlier runs have trained is not trained again by every run.
        rows = [row for each in chosen_ids for row in run.tables.tables[each].rows]
        wanted = [row.name for row in rows if row.system not in run.own_systems]
    options = run.options
    # The option says what is printed; without it, all rows are.
    if names is not None:
        printed = list(wanted or ())
        for row_names in own_rows.values():
            printed += row_names
        options = {**options, "rows": ",".join(dict.fromkeys(printed))}
    selected = select(run.tables, table_ids, wanted)
    return replace(run, options=options, selected=tuple(selected))


def _check_paths(run: Run) -> None:
    """Refuse folders of another run, and paths that are not there or cannot be used."""
    earlier_tag = read_key(run.expdir / MADE_BY)
    if earlier_tag not in (None, run.tag):
        raise InputError(
            f"--expdir: {run.expdir} is of another scale, corpus or variant "
            f"({earlier_tag}, not {run.tag}): choose another folder"
        )
    for name, path in (("expdir", run.expdir), ("datadir", run.datadir)):
        if "," in str(path):
            raise InputError(
                f"--{name}: {path} has a comma, at which ESPnet would cut the "
                "path: choose another folder"
            )
    given = run.options[DATA]
    if given and os.path.realpath(given) == os.path.realpath(run.datadir):
        raise InputError(
            f"--datadir: {run.datadir} is the folder of --data, whose data dirs would "
            "be replaced: choose another folder"
        )
    for name in run.recipe.all_paths:
        if run.options[name] and not os.path.exists(run.options[name]):
            raise InputError(f"--{name} {run.options[name]}: no such file or folder")


def _shorten_paths(command: str, recipe: Recipe, given: Mapping[str, str]) -> str:
    """Return a command line whose paths are cut to their last names.

    The line is kept with results, which are published, without anybody's folders. Paths
    inside the recipe stay, since they are everybody's.
    """
    for name in (*recipe.all_paths, *recipe.models, "parallel", "expdir", "datadir"):
        path = given.get(name, "")
        is_inside = not Path(path).is_absolute() and ".." not in Path(path).parts
        if "/" in path and not is_inside:
            command = command.replace(path, Path(path).name)
    return command
