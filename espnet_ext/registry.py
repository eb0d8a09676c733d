"""Add plugins to ESPnet's dicts of each slot of a model, by their names in YAML.

Installed packages add theirs by the entry-point group ``espnet_ext.plugins``, as
``<slot>.<name>`` (docs/plugins.md). Each has a second name, ``encoder:
espnet_ext:blstm_maxpool``, for packed models: who lacks the package reads its name.
"""

import logging
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any

from espnet_ext.environment import compare_release
from espnet_ext.errors import InputError
from espnet_ext.packages import advise_on_installing

ENTRY_POINT_GROUP = "espnet_ext.plugins"
PACKAGE = "espnet_ext"

# "<slot>.<name used in YAML>": "<module>:<class>". Names are lower case, because ESPnet
# converts what it reads.
PLUGINS = {
    "frontend.power_mel": "espnet_ext.sem.power_mel:PowerMelFrontend",
    "normalize.sem_global_mvn": "espnet_ext.sem.sem_global_mvn:SEMGlobalMVN",
    "normalize.dropout_global_mvn": (
        "espnet_ext.sem.dropout_global_mvn:DropoutGlobalMVN"
    ),
    "model.sa_asr": "espnet_ext.stitch.recogniser.sa_asr:SAASRModel",
    "model.espnet_layer_stats": "espnet_ext.sem.layer_stats:LayerStatsASRModel",
    "model.ctc_per_second": "espnet_ext.longform.ctc_per_second:CTCPerSecondModel",
    "mt_model.stitcher": "espnet_ext.stitch.stitcher.stitcher_model:StitcherModel",
    "encoder.blstm_maxpool": "espnet_ext.sem.blstm_maxpool:BLSTMMaxPoolEncoder",
    "encoder.aligned_pairs": (
        "espnet_ext.stitch.stitcher.aligned_pairs:AlignedPairsEncoder"
    ),
    "encoder.d_vectors": "espnet_ext.stitch.recogniser.d_vectors:DVectorEncoder",
    "encoder.stored_encodings": (
        "espnet_ext.codeswitch.stored_encodings:StoredEncodings"
    ),
    "encoder.long_fastconformer": (
        "espnet_ext.longform.long_fastconformer:LongFastConformerEncoder"
    ),
    "decoder.language_transformer": (
        "espnet_ext.codeswitch.language_transformer:LanguageTransformerDecoder"
    ),
    "decoder.weight_feedback_rnn": (
        "espnet_ext.sem.weight_feedback_rnn:WeightFeedbackRNNDecoder"
    ),
    "decoder.batch_rnn": "espnet_ext.fast_search.batch_rnn:BatchRNNDecoder",
    "optim.madgrad": "madgrad:MADGRAD",
    "scheduler.newbob_multi_epoch": (
        "espnet_ext.sem.newbob_multi_epoch:NewbobMultiEpoch"
    ),
    "scheduler.warmup_cosine": "espnet_ext.longform.warmup_cosine:WarmupCosine",
}

# ESPnet's tasks, each with its own dicts, and the slots that plugins fit into. ESPnet3
# has copies of some, in esp2_asr since release 202611, and in asr before.
ASR_SLOTS = (
    "frontend",
    "specaug",
    "normalize",
    "model",
    "preencoder",
    "encoder",
    "postencoder",
    "decoder",
)
_PARTS = tuple(slot for slot in ASR_SLOTS if slot != "model")
_FEATURES = ("frontend", "specaug", "normalize")
TASKS = {
    "espnet2.tasks.asr": ASR_SLOTS,
    "espnet3.systems.esp2_asr.task": ASR_SLOTS,
    "espnet3.systems.asr.task": ASR_SLOTS,
    "espnet2.tasks.s2t": _PARTS,
    "espnet2.tasks.st": _PARTS,
    "espnet2.tasks.slu": _PARTS,
    "espnet2.tasks.s2t_ctc": _FEATURES,  # its model gives an encoder the prompt too
    "espnet2.tasks.asr_transducer": _FEATURES,
    "espnet3.systems.esp2_asr.src.transducer_task": _FEATURES,
    "espnet3.systems.asr.transducer_task": _FEATURES,
    "espnet2.tasks.mt": ("encoder", "decoder"),
}
SLOTS = {
    **{
        slot: [
            f"{task}:{slot}_choices" for task, slots in TASKS.items() if slot in slots
        ]
        for slot in ASR_SLOTS
    },
    "mt_model": ["espnet2.tasks.mt:model_choices"],
    "lm": ["espnet2.tasks.lm:lm_choices"],
    "optim": ["espnet2.tasks.abs_task:optim_classes"],
    "scheduler": ["espnet2.tasks.abs_task:scheduler_classes"],
}

# The keys of a config that name a model's modules, and the slots that they share with
# another key.
SLOT_KEYS = (*ASR_SLOTS, "speaker_encoder", "lm")
OTHER_SLOTS = {"speaker_encoder": "encoder", "model": "mt_model"}

# ESPnet reads these names as "no module".
RESERVED = ("none", "null", "nil")


def add_plugins() -> None:
    """Add all plugins to ESPnet's dicts; calling it again changes nothing."""
    check_espnet()
    for key, target in PLUGINS.items():
        _add(key, _load_plugin(target), PACKAGE, PACKAGE)
    for entry in list_third_parties():
        _add_third_party(entry)


def _add_third_party(entry: EntryPoint) -> None:
    """Add the plugin of another package. One that is broken stops only who names it."""
    origin = f"the package {entry.dist.name}" if entry.dist else entry.value
    wrong = f"plugin '{entry.name}' of {origin}"
    fault = _find_name_fault(entry.name)
    if fault:
        # No config can name it, so that nobody is stopped.
        logging.warning("%s: %s", wrong, fault)
        return
    # An import runs the other package's code, which may raise anything.
    try:
        plugin = entry.load()
    except Exception as error:
        plugin = _make_refusing_class(f"{wrong} cannot be imported: {error}")
    slot, _, name = entry.name.lower().partition(".")
    for classes, base in list_choices(slot):
        fitting = plugin
        if not _is_subclass(plugin, base):
            assert base is not None  # every class is one of None
            fitting = _make_refusing_class(
                f"{wrong} is not a subclass of {base.__name__}", base
            )
        for each in (name, f"{_name_package(entry)}:{name}"):
            # Names that stand already, ours and ESPnet's own, are never replaced.
            if each not in classes:
                classes[each] = fitting
                _origins[slot, each] = origin
            elif _origins.get((slot, each)) != origin:
                logging.warning(
                    "%s: the name '%s' already stands for %s: write %s:%s",
                    wrong,
                    each,
                    classes[each].__qualname__,
                    _name_package(entry),
                    name,
                )


_origins: dict[tuple[str, str], str] = {}  # of third parties' plugins, by slot and name


@cache
def check_espnet() -> None:
    """Refuse an ESPnet older than the tested releases; warn, once, of a newer one."""
    found = version("espnet")
    side, tested = compare_release(found)
    if side == "older":
        raise InputError(
            f"ESPnet {found} is too old for espnet_ext: install {tested}: pip "
            "install --upgrade espnet"
        )
    if side == "newer":
        logging.warning(
            "espnet_ext is tested with ESPnet %s, and this is %s: run espnet-ext check",
            tested,
            found,
        )


def list_third_parties() -> list[EntryPoint]:
    """List the plugins that other packages bring, by their names."""
    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name)


def list_packages() -> dict[str, str]:
    """List the package of each plugin that is installed, by ``<slot>.<name>``."""
    packages = dict.fromkeys(PLUGINS, PACKAGE)
    for entry in list_third_parties():
        packages[entry.name.lower()] = _name_package(entry)
    return packages


def qualify_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """Put the package before the name of each plugin in a training config.

    Such as ``encoder: espnet_ext:blstm_maxpool``.
    """
    packages = list_packages()
    renamed = dict(config)
    for slot in SLOT_KEYS:
        name = str(config.get(slot)).lower()
        # A key's own slot first: only if it has no such plugin is it the shared one's.
        for key in (f"{slot}.{name}", f"{OTHER_SLOTS.get(slot)}.{name}"):
            if key in packages:
                renamed[slot] = f"{packages[key]}:{name}"
                break
    return renamed


def strip_package(name: object) -> str:
    """Strip the package from the name of a plugin in a config.

    >>> strip_package("espnet_ext:blstm_maxpool"), strip_package(None)
    ('blstm_maxpool', '')
    """
    return str(name or "").lower().rpartition(":")[2]


# As PyPA names packages (PEP 508), and as plugins are named.
_PACKAGE = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?")
_PLUGIN = re.compile(r"[\w.-]+")


def find_missing_package(config: Mapping[str, Any]) -> str | None:
    """Find a plugin of a config whose package is not installed, and say so.

    Its name is such as ``encoder: my_package:my_encoder``. None if all are installed.
    """
    known = list_packages()
    for slot in (*SLOT_KEYS, "optim", "scheduler"):
        value = config.get(slot)
        if not isinstance(value, str) or ":" not in value:
            continue
        package, _, name = value.lower().partition(":")
        if not (_PACKAGE.fullmatch(package) and _PLUGIN.fullmatch(name)):
            # Part of the line would else be run by who copies it into a shell.
            return f"{slot}: {value!r} names no package and module of it: do not use it"
        if package not in (
            known.get(f"{slot}.{name}"),
            known.get(f"{OTHER_SLOTS.get(slot)}.{name}"),
        ):
            if package in known.values():
                return (
                    f"{slot}: {package} has no {slot} {name}: install a release of it "
                    "that has"
                )
            return (
                f"{slot}: {package}:{name} is of a package that is not installed: "
                "install it if you trust it, as the name is that of the config's "
                f"author: pip install {package}"
            )
    return None


def _name_package(entry: EntryPoint) -> str:
    """Return the name of an entry's package; of one without metadata, its module's."""
    if entry.dist:
        return entry.dist.name.lower()
    return entry.value.partition(":")[0].partition(".")[0]


@cache
def list_choices(slot: str) -> list[tuple[dict[str, type], type | None]]:
    """List ESPnet's dicts of a slot, each with the base class of its values.

    That of the ASR task comes first.
    """
    found: list[tuple[dict[str, type], type | None]] = []
    for target in SLOTS[slot]:
        try:
            choices = _load(target)
        except ModuleNotFoundError as error:
            # A module of another release.
            if str(error.name).startswith("espnet3."):
                continue
            raise
        # Optimizers and schedulers are in plain dicts, models' modules in ClassChoices.
        if isinstance(choices, dict):
            found.append((choices, None))
        else:
            found.append((choices.classes, choices.base_type))
    return found


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


@cache
def _load_plugin(target: str) -> type:
    """Load a plugin.

    One of an extra that is not installed becomes a class that says so when a config
    uses it.
    """
    module = target.partition(":")[0]
    try:
        return _load(target)
    except ModuleNotFoundError as error:
        # Only the plugin's own package may be missing, not what that needs, nor ours.
        if error.name != module or module.startswith(PACKAGE):
            raise
    return _make_refusing_class(
        advise_on_installing(module)
        or f"{module} is not installed: pip install {module}"
    )


def _make_refusing_class(reason: str, base: type = object) -> type:
    """Make a class that stands for a plugin which cannot be used.

    A config that names it is refused with the reason.
    """

    def refuse(cls: type, *args: object, **options: object) -> None:
        raise InputError(reason)

    # __new__, since an abstract base refuses its subclasses before __init__.
    return type("UnusablePlugin", (base,), {"__new__": refuse})


def _add(key: str, plugin: type, origin: str, package: str) -> None:
    """Add a plugin of ours under its name, and under that with its package."""
    wrong = f"plugin '{key}' of {origin}"
    fault = _find_name_fault(key)
    if fault:
        raise InputError(f"{wrong}: {fault}")
    slot, _, name = key.lower().partition(".")
    for classes, base in list_choices(slot):
        if not _is_subclass(plugin, base):
            raise InputError(f"{wrong} is not a subclass of {base}")
        for each in (name, f"{package}:{name}"):
            present = classes.setdefault(each, plugin)
            if present is not plugin:
                raise InputError(
                    f"{wrong}: the name '{each}' already stands for "
                    f"{present.__qualname__}"
                )


def _find_name_fault(key: str) -> str:
    """Find what is wrong with a plugin's name, ``<slot>.<name>``; "" if nothing is."""
    slot, _, name = key.lower().partition(".")
    if slot not in SLOTS or not name:
        return f"its name must be <slot>.<name>, with a slot of {', '.join(SLOTS)}"
    if name in RESERVED:
        return f"in ESPnet the name '{name}' means no module: take another"
    return ""


def _is_subclass(plugin: object, base: type | None) -> bool:
    if base is None:
        return True
    return isinstance(plugin, type) and issubclass(plugin, base)
