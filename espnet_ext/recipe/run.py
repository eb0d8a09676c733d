"""A recipe and a run of it: options, settings, the systems of its tables, folders."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any

from espnet_ext.corpora.checks import read_skip_share
from espnet_ext.corpora.data_dirs import find_test_sets
from espnet_ext.recipe.own_system import OwnSystem, Trained
from espnet_ext.recipe.step_keys import (
    follow_moved_folders,
    list_spellings,
    named_folders,
)
from espnet_ext.recipe.steps import show
from espnet_ext.tables.plan import (
    list_needed_sets,
    list_needed_systems,
    merge_decode_config,
    merge_system_config,
)
from espnet_ext.tables.reading import Table, Tables
from espnet_ext.tables.schema import TRAIN, System
from espnet_ext.work.kaldi_jobs import Wrapper
from espnet_ext.work.launch import split_words
from espnet_ext.work.once import fingerprint, read_note, write_note
from espnet_ext.work.parallel import Place
from espnet_ext.work.yaml_files import deep_merge, write_yaml

DATA = "data"  # the option in place of any corpus: a folder of Kaldi data dirs
PLACES = "decode_cmd or --parallel"  # both say where shards run
# the folder of the real configs of a rehearsal, beside those of its trainings
WHOLE_CONFIGS = "whole"
WHOLE_TEXT = "whole_text"  # of a rehearsal: all transcripts to train on
# in the folder of experiments: the tag of the run whose stage ended there first
MADE_BY = ".made_by.json"
EMPTY: Mapping[str, Any] = MappingProxyType({})
STATS = "stats"  # begins the names of folders of statistics
# keys of a training config on which statistics of features depend
FEATURES = (
    "frontend",
    "frontend_conf",
    "feats_extract",
    "features_conf",
    "input_size",
    "preprocessor",
    "preprocessor_conf",
    "use_preprocessor",
    "speech_volume_normalize",
)
COLLECTED = "extract_feats_in_collect_stats"  # of model_conf: are there any features?


@dataclass(frozen=True)
class Recipe:
    """The object ``RECIPE`` in ``egs/<recipe>/recipe.py``.

    ``unused`` are the sections of ``full.yaml`` whose trainings a run with these
    options has not; ``choose_tables`` returns the tables that it makes, in the form of
    ``--table``.
    """

    # a function for each stage that run.sh names
    stages: "Mapping[str, Callable[[Run], None]]"
    corpus: str  # the option for the corpus; if it is empty, a synthetic one is made
    # options for corpora in other layouts, one of which may be given in its place
    instead: Sequence[str] = ()
    options: Mapping[str, str] = EMPTY  # the recipe's own options and their defaults
    paths: Sequence[str] = ()  # those of them that are files or folders
    models: Sequence[str] = ()  # those that name a model: a folder, or one on the hub
    choices: Mapping[str, Sequence[str]] = EMPTY  # those that take one of a few values
    # do these options give all data, so that ``--scale full`` needs no corpus?
    replaces_corpus: "Callable[[Mapping[str, str]], bool]" = lambda options: False
    # the paths that ``--scale full`` needs, besides ``corpus``
    needed: Sequence[str] = ()
    # ends the names of a run's folders
    variant: "Callable[[Mapping[str, str]], str]" = lambda options: ""
    # options that change no result, or that ``variant`` names; others name folders of
    # systems
    untagged: Sequence[str] = ()
    # options that change decodings alone, whose folders they name
    decoding: Sequence[str] = ()
    # options with a training config of the user's own, and what it trains
    trained: Mapping[str, Trained] = EMPTY
    # data dirs of --data that are trained on beside ``train``, where they are there
    data_parts: Sequence[str] = ()
    # the test sets that other options than ``--data`` give in place of the columns
    find_test_sets: "Callable[[Mapping[str, str]], Sequence[str]]" = lambda options: ()
    # are the columns of tables test sets of a corpus, or made of them?
    shows_test_sets: bool = True
    # the section of full.yaml whose features most systems have
    features: str = "train"
    choose_tables: "Callable[[Mapping[str, str]], str]" = lambda options: options[
        "table"
    ]
    # raises InputError if options contradict each other
    check: "Callable[[Run], None]" = lambda run: None
    unused: "Callable[[Mapping[str, str]], Sequence[str]]" = lambda options: ()
    # whether a run trains any system
    trains: "Callable[[Run], bool]" = lambda run: any(
        system.kind == TRAIN for system in run.systems
    )
    # names the work besides trainings and shards that takes a GPU: on this machine, if
    # ``decode_cmd`` is no wrapper of Kaldi's
    uses_gpu_here: "Callable[[Run], str]" = lambda run: ""

    def corpus_given(self, options: Mapping[str, str]) -> str:
        """Return the option of the corpus that is given; ``corpus`` if none is."""
        others = (*self.instead, DATA)
        return next((name for name in others if options.get(name)), self.corpus)

    @property
    def all_paths(self) -> tuple[str, ...]:
        """All options that are files or folders of the user's."""
        return (self.corpus, *self.instead, DATA, *self.paths, *self.trained)


@dataclass(frozen=True)
class Run:
    """One command line of a recipe.

    Paths are relative to the recipe's folder, in which its stages run.
    """

    recipe: Recipe
    options: Mapping[str, str]
    sections: Mapping[str, Any]  # ``conf/full.yaml``, merged with the file of the scale
    tables: Tables
    selected: tuple[Table, ...]  # the tables of this run, with its rows
    expdir: Path
    datadir: Path
    command: str = ""  # the command line, which is stored with the results
    # before a training's command, such as ``srun`` (``train_cmd`` in cmd.sh)
    launch: tuple[str, ...] = ()
    # ESPnet's, for several GPUs and nodes (``train_cmd_options`` in cmd.sh)
    train_options: tuple[str, ...] = ()
    # the system of ``--asr_config`` or the like, which is in ``tables`` too
    own: OwnSystem | None = None
    # all systems of the user's own, by name: those of earlier runs have rows, too
    own_systems: Mapping[str, OwnSystem] = EMPTY
    tag: str = ""  # what names the run's folders if they are not given
    # in a rehearsal, the folder of the whole data dirs; ``datadir`` has a part of them
    rehearsed: Path | None = None

    @property
    def scale(self) -> str:
        return self.options["scale"]

    @property
    def nj(self) -> int:
        return int(self.options["nj"])

    @property
    def ngpu(self) -> int:
        return int(self.options["ngpu"])

    @property
    def gpu(self) -> int:
        """1 if work other than training uses a GPU, otherwise 0."""
        return min(self.ngpu, 1)

    @property
    def parallel(self) -> Place | None:
        """Where shards run, if not on this machine."""
        text = self.options["parallel"]
        if not text or is_cluster_file(text):
            return Path(text) if text else None
        return Wrapper(split_words(text, PLACES), self.expdir / "jobs")

    @property
    def decode_launch(self) -> tuple[str, ...]:
        """The wrapper of Kaldi's that starts single steps which decode, if any."""
        place = self.parallel
        return place.words if isinstance(place, Wrapper) else ()

    @property
    def skip_faulty(self) -> float:
        """The share of each part of a corpus that may be faulty and left out."""
        return read_skip_share(self.options["skip_faulty"])

    @property
    def seeds(self) -> list[int]:
        """The seeds of ``--seed``; 1 if there is none."""
        return [int(seed) for seed in (self.options["seed"] or "1").split(",")]

    def list_seeds(self, system: System) -> list[int]:
        """Return the seeds of a system: of ``--seed``, or those of the design."""
        # a system of the user's own is in no design
        if self.options["seed"] or system.name in self.own_systems:
            return self.seeds
        return self.tables.list_seeds(system.name, self.scale)

    @property
    def synthetic(self) -> bool:
        """Is the corpus the synthetic one?"""
        return not self.options[self.corpus_option]

    @property
    def corpus_option(self) -> str:
        """The option of the corpus that is given."""
        return self.recipe.corpus_given(self.options)

    @property
    def corpus(self) -> Path:
        """The folder of the corpus: the user's or the synthetic one."""
        return Path(self.options[self.corpus_option] or self.datadir / "corpus")

    @property
    def of_data_dirs(self) -> bool:
        """Is the corpus a folder of Kaldi data dirs?"""
        return self.corpus_option == DATA

    @cached_property
    def data_tests(self) -> list[str]:
        """The test sets of a folder of Kaldi data dirs."""
        return find_test_sets(self.corpus, self.recipe.data_parts)

    @property
    def corpus_name(self) -> str:
        """The name of the corpus in results."""
        return "synthetic" if self.synthetic else self.corpus.name

    def locate_stats(self, config: Mapping[str, Any]) -> Path:
        """Return the folder of the statistics of a training config's features.

        The recipe's own features have one name, others are named by their key.
        """
        features = select_feature_settings(config)
        if features == select_feature_settings(
            self.sections.get(self.recipe.features, {})
        ):
            return self.expdir / STATS
        return self.expdir / f"{STATS}_{fingerprint(features)[:8]}"

    @property
    def lm(self) -> Path:
        """The folder of the language model; each ``lm_size`` has its own."""
        large = "lm_size" in self.options and self.setting("lm_size") == "large"
        return self.expdir / ("lm_large" if large else "lm")

    def run_stage(self, name: str) -> None:
        """Run a stage, and note whose folder of experiments this is.

        No other corpus or variant may run in it.
        """
        note = self.expdir / MADE_BY
        names = list_folder_names(self, read_note(note).get("folders", {}))
        with named_folders({**names, "RECIPE": [Path.cwd()]}):
            if changed := follow_moved_folders(self.expdir):
                show(f"moved here: the paths in {len(changed)} configs are corrected")
            self.recipe.stages[name](self)
        # after the stage: a run that was refused claims no folder
        write_note(note, self.tag, folders=names)
        if self.own:
            self.own.store(self.expdir / f"{self.own.name}{self.system_tag}")

    def path(self, option: str) -> Path | None:
        """Return the path in an option, or None if it is empty."""
        return Path(self.options[option]) if self.options[option] else None

    def setting(self, name: str) -> Any:
        """Return the value of an option, or if it is not given that of ``settings``."""
        return self.options.get(name) or self.sections["settings"][name]

    def name_training(self, system: System, seed: int) -> str:
        """Return the name of a system's folder for a seed, below ``expdir``."""
        return f"{system.name}{self.system_tag}/seed{seed}"

    def locate_training(self, system: System, seed: int) -> Path:
        """Return the folder of a system with a seed."""
        return self.expdir / self.name_training(system, seed)

    @cached_property
    def system_tag(self) -> str:
        """The end of the names of systems' folders: option values that change systems.

        Values of the scale itself are not named.
        """
        recipe = self.recipe
        named = (*recipe.paths, *recipe.untagged, *recipe.decoding, "clean_only")
        return "".join(self._tag(name) for name in recipe.options if name not in named)

    @cached_property
    def decoding_tag(self) -> str:
        """The end of decodings' folders: option values that change them alone."""
        return "".join(map(self._tag, self.recipe.decoding))

    def _tag(self, name: str) -> str:
        value = self.options[name]
        usual = self.sections["settings"].get(name)
        is_usual = value.lower() in ("", str(usual).lower())
        if is_usual or value == self.recipe.options[name]:
            return ""
        shown = Path(value).name if name in self.recipe.models else value
        short = re.sub("[^A-Za-z0-9.]+", "_", shown)
        # names of files have a limit, and cut texts might be equal
        return f"-{name}_{short if len(short) < 40 else fingerprint(value)[:8]}"

    @cached_property
    def systems(self) -> list[System]:
        """The systems that the rows of this run need, each once."""
        return list_needed_systems(self.tables, self.selected)

    @cached_property
    def decodings(self) -> dict[str, dict[str, list[str]]]:
        """system -> decoding -> test sets that the rows of this run need."""
        needed: dict[str, dict[str, list[str]]] = {}
        for (system, decoding), sets in list_needed_sets(
            self.tables, self.selected
        ).items():
            needed.setdefault(system, {})[decoding] = sets
        return needed

    def write_config(self, name: str, config: Mapping[str, Any], source: str) -> Path:
        """Write a config into the run's folder of configs, if it has changed."""
        path = self.expdir / "configs" / f"{name}.yaml"
        if self.rehearsed:
            # what the training of the whole will have, for the report of the rehearsal
            write_yaml(
                path.parent / WHOLE_CONFIGS / path.name,
                config,
                f"Written by run.sh: {source}",
            )
            config = shorten_config(config)
        write_yaml(path, config, f"Written by run.sh: {source}")
        return path

    def locate_whole_text(self, name: str) -> Path:
        """Return the transcripts of a training set, all of them even in a rehearsal."""
        # its tokens are the real ones: the size of the model depends on their number
        if self.rehearsed:
            for path in (self.rehearsed / name / "text", self.datadir / WHOLE_TEXT):
                if path.is_file():
                    return path
        return self.datadir / name / "text"

    def write_system_config(self, system: System) -> Path:
        """Write a system's config: its section, then its overrides."""
        return self.write_config(
            system.name,
            merge_system_config(self.sections, system),
            f"system {system.name}",
        )

    def write_section_config(
        self, section: str, *overlays: Mapping[str, Any], name: str = ""
    ) -> Path:
        """Write a section as a config, with overlays merged over it in order."""
        config = self.sections[section]
        for overlay in overlays:
            config = deep_merge(config, overlay)
        return self.write_config(
            name or section, config, f"section {section} of scale {self.scale}"
        )

    def write_features_config(self, config: Mapping[str, Any]) -> Path:
        """Write a config with a training config's features and the recipe's own model.

        The file is the same for all systems that have these features.
        """
        common = self.sections[self.recipe.features]
        model = {name: value for name, value in common.items() if name not in FEATURES}
        return self.write_config(
            self.locate_stats(config).name,
            deep_merge(model, select_feature_settings(config)),
            "the features that systems have, and a model",
        )

    def write_decode_config(self, decoding: str) -> Path:
        """Write a decoding's config: the section ``decode``, then its overrides."""
        return self.write_config(
            f"decode_{decoding}", self.decoding(decoding), f"decoding {decoding}"
        )

    def decoding(self, decoding: str) -> dict[str, Any]:
        """Return the merged config of a decoding."""
        return merge_decode_config(self.sections, self.tables, decoding)


def is_cluster_file(place: str) -> bool:
    """Tell whether a place where shards run is named like the YAML of a cluster."""
    return place.endswith((".yaml", ".yml"))


def select_feature_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a training config the statistics of its features depend on.

    What ESPnet takes where a config says nothing is left out.
    """
    found = {name: config[name] for name in FEATURES if name in config}
    if found.get("frontend") == "default":
        del found["frontend"]
    for name in FEATURES:
        if name.endswith("_conf") and not found.get(name):
            found.pop(name, None)
    if not (config.get("model_conf") or {}).get(COLLECTED, True):
        found["model_conf"] = {COLLECTED: False}
    return found


def list_folder_names(run: Run, before: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names that a run's folders have now, then those they had ``before``.

    Configs of trainings keep the earlier ones.
    """
    now = {"EXPDIR": list_spellings(run.expdir), "DATADIR": list_spellings(run.datadir)}
    return {
        folder: list(dict.fromkeys((*names, *before.get(folder, ()))))
        for folder, names in now.items()
    }


def shorten_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a training config with one epoch, a pass over its data, in each stage."""
    if not config.keys() & {"max_epoch", "chunk_conf"}:
        return dict(config)  # of a decoding
    stages = [
        {**stage, "epochs": 1, "num_iters_per_epoch": None}
        for stage in config.get("stages", ())
    ]
    epochs = 1 + len(stages)
    changes: dict[str, Any] = {
        "max_epoch": epochs,
        "num_iters_per_epoch": None,
        # all stay: any may be the best, which is decoded
        "keep_nbest_models": epochs,
        "patience": None,
        "log_interval": 1,
    }
    if stages:
        changes["stages"] = stages
    if "chunk_conf" in config:
        # sequences are long from the start: those need the most memory
        changes["chunk_conf"] = {**config["chunk_conf"], "double_every": 0, "passes": 1}
        scheduler = config.get("scheduler_conf", {})
        changes["scheduler_conf"] = {**scheduler, "warmup_steps": 1}
    return {**config, **changes}


def idle_if(
    idle: Callable[[Run], bool], why: str
) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Return a decorator for stages that have nothing to do in some runs."""

    def decorate(stage: Callable[[Run], None]) -> Callable[[Run], None]:
        @wraps(stage)
        def run_if_needed(run: Run) -> None:
            if idle(run):
                show(f"nothing to do: {why}")
            else:
                stage(run)

        return run_if_needed

    return decorate
