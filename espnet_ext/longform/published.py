"""The models that P5's authors have published, as models of this package.

Their checkpoints (https://github.com/robflynnyh/long-context-asr, table "Acoustic Model" of its README) are torch files
with the state of the model (``model``) and the settings it was made with (``config``). What differs from
:class:`espnet_ext.encoder.long_fastconformer.LongFastConformerEncoder`:

- The rows of the projection to queries, keys and values are ordered by head, dimension and kind, here by kind first.
- The blank is the last output, here the first. ESPnet's mark of start and end is one more output, which never occurs.
- The last layer normalisation is applied twice before the output (``double_norm``).
- Pointwise convolutions are convolutions of one frame, here linear layers.
"""

import math
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from espnet_ext.errors import InputError
from espnet_ext.sharing.files import CONFIG, MODEL, without_training
from espnet_ext.upstream.checkpoint import misfits

BPE_MODEL = "bpe.model"
NEVER = -1e4  # logit of the mark of start and end
# Settings that the models of the paper have, and no other value of which can be imported.
_FIXED = {
    "subsampling": "dw_striding",
    "subsampling_factor": 8,
    "subsampling_act": "silu",
    "subsampling_norm_out": False,
    "conv_expansion_factor": 1,
    "decoder_norm": True,
    "default_norm": "layer_norm",
    "sandwich_norm": False,
    "bias_in_ff": False,
    "transformer": False,
    "rotary_interpolation_factor": 1.0,
    "learned_rotary": False,
    "expansion_factor": 4,
}
_DEFAULTS = {  # of their code, for settings that a config leaves out
    **_FIXED,
    "feat_in": 80,
    "subsampling_conv_channels": 256,
    "n_layers": 6,
    "d_model": 768,
    "n_heads": 6,
    "head_dim": 128,
    "conv_kernel_size": 9,
    "use_rotary": False,
    "rotary_base_freq": 10000,
    "fourier_pos_enc": False,
    "self_conditioning": True,
    "legasee_double_norm": True,
}
_LAYER = {  # their names -> ours, below layers.<n>
    "ff1.fn.norm": "first_feed_forward.0",
    "ff1.fn.fn.fc1": "first_feed_forward.1",
    "ff1.fn.fn.fc2": "first_feed_forward.4",
    "attend.norm": "attention_norm",
    "attend.fn.qkv_proj": "attention.queries_keys_values",
    "attend.fn.out_proj": "attention.output",
    "conv.norm": "convolution_norm",
    "conv.fn.pointwise_conv1": "convolution.gated",
    "conv.fn.depthwise_conv": "convolution.depthwise",
    "conv.fn.batch_norm": "convolution.norm",
    "conv.fn.pointwise_conv2": "convolution.output",
    "ff2.fn.norm": "second_feed_forward.0",
    "ff2.fn.fn.fc1": "second_feed_forward.1",
    "ff2.fn.fn.fc2": "second_feed_forward.4",
    "norm_out": "norm",
}
_BUFFERS = {"running_std": "running_deviation", "num_batches_tracked": "updates"}
_SUBSAMPLING = {  # places in their sequence of convolutions and activations -> stage and place
    "conv.0": "stages.0.0",
    "conv.2": "stages.1.0",
    "conv.3": "stages.1.1",
    "conv.5": "stages.2.0",
    "conv.6": "stages.2.1",
    "out": "projection",
}


def import_checkpoint(
    checkpoint: str | Path,
    bpemodel: str | Path,
    output: str | Path,
    seconds: float | None = None,
    trust_pickle: bool = False,
) -> None:
    """Write ``config.yaml``, ``model.pth`` and ``bpe.model``, which decoding and transcription read.

    The folder appears when it is complete, and may be moved.

    Args:
        checkpoint: one of the authors' files.
        bpemodel: their sentencepiece model, ``lcasr/artifacts/tokenizer.model`` in their repository.
        output: a new folder.
        seconds: the context, which becomes the length of a window; None: that of the checkpoint's ``audio_chunking``.
        trust_pickle: read also a checkpoint that holds other objects than tensors and plain values. Its code is run.

    Raises:
        InputError: the folder exists, no such checkpoint or sentencepiece model, settings other than the paper's,
            a context that is not a number above 0, or parameters that do not fit the settings or are not finite.
    """
    import shutil

    from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump
    from sentencepiece import SentencePieceProcessor

    import espnet_ext
    from espnet_ext.work.once import fingerprint, whole_folder

    espnet_ext.register()
    folder = Path(output)
    if folder.exists():
        raise InputError(f"{folder} exists already: name a new folder")
    if seconds is not None and not 0 < seconds < math.inf:
        raise InputError(f"--context must be a number of seconds above 0, not {seconds:g}")
    state, settings, chunk = _read(Path(checkpoint), trust_pickle)
    try:
        pieces = SentencePieceProcessor(model_file=str(bpemodel))
    except (OSError, RuntimeError) as error:
        raise InputError(f"{bpemodel}: no sentencepiece model ({error})") from None
    names = [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]
    tokens = ["<blank>", *names, "<sos/eos>"]
    converted = _converted(checkpoint, state, settings)
    if "ctc.ctc_lo.bias" not in converted:
        raise InputError(f"{checkpoint} has no output layer")
    if len(tokens) != len(converted["ctc.ctc_lo.bias"]):
        raise InputError(f"{checkpoint} has {len(converted['ctc.ctc_lo.bias']) - 2} pieces, {bpemodel} {len(names)}")
    with whole_folder(folder, fingerprint(seconds, files=[checkpoint, bpemodel])) as made:
        shutil.copyfile(bpemodel, made / BPE_MODEL)
        config, model = _build(checkpoint, settings, chunk if seconds is None else seconds, tokens, made)
        if faults := misfits(_shapes(converted), _shapes(model.state_dict())):
            raise InputError(f"{checkpoint} does not fit its own settings ({_sizes(settings)}): {faults}")
        model.load_state_dict(converted)
        torch.save(model.state_dict(), made / MODEL)
        with (made / CONFIG).open("w", encoding="utf-8") as file:
            yaml_no_alias_safe_dump({**without_training(config), "bpemodel": BPE_MODEL}, file, sort_keys=False)


def _converted(
    checkpoint: str | Path, state: Mapping[str, torch.Tensor], settings: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """The parameters as ours.

    Raises:
        InputError: values that are not finite, or shapes that cannot be converted.
    """
    for key, value in state.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise InputError(f"{checkpoint}: {key} has values that are NaN or infinite: download it again")
    try:
        return convert(state, settings)
    except InputError as error:
        raise InputError(f"{checkpoint}: {error}") from None
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{checkpoint} does not fit its own settings ({_sizes(settings)}): {reason}") from None


def _build(
    checkpoint: str | Path, settings: Mapping[str, Any], seconds: float, tokens: Sequence[str], folder: Path
) -> tuple[dict[str, Any], torch.nn.Module]:
    """The complete config of ESPnet's task for their settings, and its model. Files that it reads go to ``folder``."""
    from espnet_ext.longform.training import RecordingsASRTask
    from espnet_ext.work.yaml_files import write_yaml

    with tempfile.TemporaryDirectory(dir=folder) as place:
        files = {"config": Path(place, CONFIG), "token_list": Path(place, "tokens.txt")}
        files["token_list"].write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
        try:
            write_yaml(files["config"], task_config(settings, seconds), "imported")
            options = [word for name, path in files.items() for word in (f"--{name}", str(path))]
            options += ["--token_type", "bpe", "--bpemodel", str(folder / BPE_MODEL)]
            args = RecordingsASRTask.get_parser().parse_args(options)
            model = RecordingsASRTask.build_model(args)
        except (InputError, RuntimeError, ValueError, TypeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{checkpoint}: no model can be built of its settings: {reason}") from None
    return vars(args), model


def _shapes(state: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in state.items()}


def _sizes(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {settings[name]}" for name in ("n_layers", "d_model", "n_heads"))


def _settings_classes() -> list[Any]:
    """The classes of OmegaConf's settings, which hold values alone; without OmegaConf there are none to read."""
    try:
        from omegaconf import AnyNode, DictConfig, ListConfig
        from omegaconf.base import ContainerMetadata, Metadata
    except ImportError:
        return []
    return [AnyNode, DictConfig, ListConfig, ContainerMetadata, Metadata, defaultdict, Any, dict, list, int, str]


def _read(path: Path, trust_pickle: bool) -> tuple[dict[str, torch.Tensor], dict[str, Any], float]:
    """The state, the settings of the model and the seconds of its sequences."""
    try:
        with torch.serialization.safe_globals(_settings_classes()):
            loaded = torch.load(path, map_location="cpu", weights_only=not trust_pickle)
        state, config = loaded["model"], loaded["config"]
        given = dict(config["model"])
    except UnpicklingError as error:
        if trust_pickle:
            raise InputError(f"{path}: no checkpoint with 'model' and 'config' ({error})") from None
        other = "or it has objects that could run code: give --trust_pickle if you trust its source"
        raise InputError(f"{path}: no checkpoint with 'model' and 'config', {other}") from None
    except (OSError, RuntimeError, EOFError, LookupError, TypeError, ImportError) as error:
        raise InputError(f"{path}: no checkpoint with 'model' and 'config' ({error})") from None
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise InputError(f"{path}: its 'model' holds other things than parameters")
    settings = {**_DEFAULTS, **given}
    for name, value in _FIXED.items():
        if settings[name] != value:
            raise InputError(f"{path}: {name} is {settings[name]!r}; models of the paper have {value!r}")
    if (window := settings.get("attention_window_size")) not in (None, -1):
        raise InputError(f"{path}: attention_window_size is {window!r}; models of the paper attend to all of a window")
    for name in ("n_layers", "d_model", "n_heads", "head_dim"):
        if not isinstance(settings[name], int):
            raise InputError(f"{path}: {name} is {settings[name]!r}, and must be a whole number")
    if settings["n_heads"] * settings["head_dim"] != settings["d_model"]:
        raise InputError(
            f"{path}: {settings['n_heads']} heads of head_dim {settings['head_dim']} are not d_model "
            f"{settings['d_model']}, as in models of the paper"
        )
    # audio_chunking.size is where the warm-up of the length begins, if there is one
    scheduled = dict(config.get("sequence_scheduler") or {}).get("max_sequence_length")
    frames = dict(config.get("audio_chunking") or {}).get("size", 0) if scheduled is None else scheduled
    if not isinstance(frames, int | float) or not 0 <= frames < math.inf:
        raise InputError(f"{path}: its sequences have {frames!r} frames, which is no number of frames")
    return dict(state), settings, frames / 100


def task_config(settings: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The config of ESPnet's task for their settings of a model; ``seconds`` of a window, 0: unknown."""
    kind = "rotary" if settings["use_rotary"] else "fourier" if settings["fourier_pos_enc"] else "none"
    return {
        "input_size": settings["feat_in"],
        "features_conf": {"n_mels": settings["feat_in"]},
        "normalize": None,
        "encoder": "long_fastconformer",
        "encoder_conf": {
            "output_size": settings["d_model"],
            "attention_heads": settings["n_heads"],
            "num_blocks": settings["n_layers"],
            "cnn_module_kernel": settings["conv_kernel_size"],
            "subsampling_channels": settings["subsampling_conv_channels"],
            "positions": kind,
            "rotary_base": float(settings["rotary_base_freq"]),
            "self_conditioning": settings["self_conditioning"],
            "double_norm": settings["legasee_double_norm"],
        },
        "decoder": None,
        "model": "ctc_per_second",
        "model_conf": {"ctc_weight": 1.0},
        **({"chunk_conf": {"max_seconds": seconds}} if seconds else {}),
    }


def convert(state: Mapping[str, torch.Tensor], settings: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The state of ESPnet's model with this package's encoder, from that of theirs.

    Raises:
        InputError: a parameter that their models of the paper do not have.
    """
    ours: dict[str, torch.Tensor] = {}
    for key, value in state.items():
        key = key.removeprefix("module.")
        place, _, rest = key.partition(".")
        if place == "layers":
            number, _, inner = rest.partition(".")
            module, _, kind = inner.rpartition(".")
            name = f"encoder.layers.{number}.{_named(_LAYER, module, key)}.{_BUFFERS.get(kind, kind)}"
            if "pointwise_conv" in module and kind == "weight":
                value = value.squeeze(-1)
            elif module == "attend.fn.qkv_proj":
                value = value.unflatten(0, (settings["n_heads"], -1, 3)).permute(2, 0, 1, 3).flatten(0, 2)
            ours[name] = value
        elif place == "subsampling":
            module, _, kind = rest.rpartition(".")
            ours[f"encoder.subsampling.{_named(_SUBSAMPLING, module, key)}.{kind}"] = value
        elif place == "decoder":
            ours |= _head(rest, value)
        elif place == "fourier_pos_enc":
            ours[f"encoder.fourier.{rest}"] = value
        elif place != "rotary_pos_emb":
            raise InputError(f"the checkpoint has {key}, which the models of the paper do not have")
    if not settings["self_conditioning"]:
        ours = {key: value for key, value in ours.items() if "conditioning_layer" not in key}
    return ours


def _named(names: Mapping[str, str], module: str, key: str) -> str:
    if module not in names:
        raise InputError(f"the checkpoint has {key}, which the models of the paper do not have")
    return names[module]


def _head(name: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """The output layer, the projection back and the last normalisation: the blank comes first, a mark last."""
    module, _, kind = name.partition(".")
    if module == "norm":
        return {f"encoder.after_norm.{kind}": value}
    if module == "reprojection" and kind == "bias":
        return {"encoder.conditioning_layer.bias": value}
    if module == "reprojection":
        return {"encoder.conditioning_layer.weight": torch.cat([value[:, -1:], value[:, :-1], 0 * value[:, :1]], dim=1)}
    last = value[:1] * 0 + (NEVER if kind == "bias" else 0.0)
    return {f"ctc.ctc_lo.{kind}": torch.cat([value[-1:], value[:-1], last])}
