#!/usr/bin/env python3
"""Import a model that P5's authors have published.

`espnet-ext decode long` and `transcribe` take what it becomes. Writes config.yaml,
model.pth and bpe.model. A checkpoint is a pickle, which can run code. Tensors and plain
values are read safely, and settings of OmegaConf; other objects only with
--trust_pickle: give it for sources that you trust.

The checkpoints (https://github.com/robflynnyh/long-context-asr, table "Acoustic Model"
of its README) are torch files with the state of the model (`model`) and the settings it
was made with (`config`). What differs from the encoder `long_fastconformer`:

- The rows of the projection to queries, keys and values are ordered by head, dimension
  and kind, here by kind first.
- The blank is the last output, here the first. ESPnet's mark of start and end is one
  more output, which never occurs.
- The last layer normalisation is applied twice before the output (`double_norm`).
- Pointwise convolutions are convolutions of one frame, here linear layers.
"""

import argparse
import math
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.settings import SHORTEST
from espnet_ext.sharing.model_files import CONFIG, MODEL, drop_training
from espnet_ext.upstream.checkpoint import list_misfits
from espnet_ext.work.files import expand_home
from espnet_ext.work.once import fingerprint, replace_folder
from espnet_ext.work.yaml_files import write_yaml

BPE_MODEL = "bpe.model"
NEVER = -1e4  # logit of the mark of start and end
FRAMES = 100  # a second
# Settings that the models of the paper have, and no other value of which can be
# imported.
FIXED: Mapping[str, Any] = {
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
    "attention_window_size": -1,
}
DEFAULTS: Mapping[str, Any] = {  # of their code, for settings that a config leaves out
    **FIXED,
    "feat_in": 80,
    "subsampling_conv_channels": 256,
    "n_layers": 6,
    "d_model": 768,
    "n_heads": 6,
    "head_dim": 128,
    "conv_kernel_size": 9,
    "use_rotary": False,
    "rotary_base_freq": 10000.0,  # YAML reads 1.5e6 as such a number, too
    "fourier_pos_enc": False,
    "self_conditioning": True,
    "legasee_double_norm": True,
}
LAYER = {  # their names -> ours, below layers.<n>
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
BUFFERS = {"running_std": "running_deviation", "num_batches_tracked": "updates"}
# places in their sequence of convolutions and activations -> stage and place
SUBSAMPLING = {
    "conv.0": "stages.0.0",
    "conv.2": "stages.1.0",
    "conv.3": "stages.1.1",
    "conv.5": "stages.2.0",
    "conv.6": "stages.2.1",
    "out": "projection",
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--checkpoint",
        required=True,
        type=expand_home,
        help="step_<n>.pt of the authors",
    )
    parser.add_argument(
        "--bpemodel",
        required=True,
        type=expand_home,
        help="lcasr/artifacts/tokenizer.model of their code",
    )
    parser.add_argument(
        "--output", required=True, type=expand_home, help="a new folder"
    )
    parser.add_argument(
        "--context", type=float, help="seconds of a window (default: the checkpoint's)"
    )
    parser.add_argument(
        "--trust_pickle",
        action="store_true",
        help="run the code of the checkpoint's objects",
    )
    args = parser.parse_args(argv)
    import_checkpoint(
        args.checkpoint, args.bpemodel, args.output, args.context, args.trust_pickle
    )
    print(f"{args.output}/config.yaml and {args.output}/model.pth")


def import_checkpoint(
    checkpoint: Path,
    bpemodel: Path,
    output: Path,
    seconds: float | None = None,
    trust_pickle: bool = False,
) -> None:
    """Write ``config.yaml``, ``model.pth`` and ``bpe.model`` of a model.

    The folder appears when it is complete.

    Args:
        checkpoint: one of the authors' files.
        bpemodel: their sentencepiece model.
        output: a new folder, which may be moved later.
        seconds: the context, which becomes the length of a window; None: the
            checkpoint's.
        trust_pickle: read also a checkpoint that holds other objects than tensors and
            plain values. Its code is run.

    Raises:
        InputError: the folder exists, no such checkpoint or sentencepiece model,
            settings other than the paper's, a context below a second, or parameters
            that do not fit the settings or are not finite.
    """
    from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump

    import espnet_ext

    espnet_ext.register()
    if output.exists():
        raise InputError(f"{output} exists already: name a new folder")
    if seconds is not None and not SHORTEST <= seconds < math.inf:
        raise InputError(
            f"--context must be a number of seconds, at least {SHORTEST:g}, not "
            f"{seconds:g}"
        )
    tokens = ["<blank>", *read_pieces(bpemodel), "<sos/eos>"]
    try:
        state, settings, window = read_checkpoint(checkpoint, trust_pickle)
        window = window if seconds is None else seconds
        if 0 < window < SHORTEST:
            raise InputError(
                f"its sequences have {window:g} s, in which nothing can be heard: "
                "give --context"
            )
        converted = convert(state, settings)
        outputs = len(converted["ctc.ctc_lo.bias"])
        if len(tokens) != outputs:
            # the blank and ESPnet's mark are no pieces
            raise InputError(
                f"{outputs - 2} pieces, but {bpemodel} has {len(tokens) - 2}"
            )
        key = fingerprint(seconds, files=[checkpoint, bpemodel])
        with replace_folder(output, key) as made:
            shutil.copyfile(bpemodel, made / BPE_MODEL)
            config, model = build_model(settings, window, tokens, made)
            wanted = list_shapes(model.state_dict())
            faults = list_misfits(list_shapes(converted), wanted)
            if faults:
                raise InputError(f"does not fit its own settings: {faults}")
            # saved as ESPnet would: in the order and the types of its own model
            model.load_state_dict(converted)
            torch.save(model.state_dict(), made / MODEL)
            content = {**drop_training(config), "bpemodel": BPE_MODEL}
            with (made / CONFIG).open("w", encoding="utf-8") as file:
                yaml_no_alias_safe_dump(content, file, sort_keys=False)
    # settings that nobody has checked end in any of these
    except (
        RuntimeError,
        IndexError,
        KeyError,
        ValueError,
        TypeError,
        AssertionError,
        ArithmeticError,
    ) as error:
        raise InputError(
            f"{checkpoint}: does not fit its own settings: {find_first_line(error)}"
        ) from None
    except InputError as error:
        raise InputError(f"{checkpoint}: {error}") from None


def read_pieces(bpemodel: Path) -> list[str]:
    """Read the pieces of a sentencepiece model, in the order of their ids."""
    from sentencepiece import SentencePieceProcessor

    if not bpemodel.is_file():  # a folder would end the process
        raise InputError(
            f"{bpemodel}: no such file: give the authors' "
            "lcasr/artifacts/tokenizer.model"
        )
    try:
        pieces = SentencePieceProcessor(model_file=str(bpemodel))
    except (OSError, RuntimeError) as error:
        raise InputError(
            f"{bpemodel}: no sentencepiece model ({find_first_line(error)})"
        ) from None
    return [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]


def read_checkpoint(
    path: Path, trust_pickle: bool
) -> tuple[dict[str, torch.Tensor], dict[str, Any], float]:
    """Read the state by their names, the model's settings, and its sequences' seconds.

    Names lose the ``module.`` of a training on several GPUs. Seconds are 0 where the
    checkpoint does not say them.
    """
    loaded = load_checkpoint(path, trust_pickle)
    if not all(isinstance(loaded[name], Mapping) for name in ("model", "config")):
        raise InputError(
            "its 'model' and 'config' must have parameters and settings by name"
        )
    given = read_part(loaded["config"], "model")
    settings = DEFAULTS | {
        name: value for name, value in given.items() if value is not None
    }
    check_settings(settings)
    state: dict[str, torch.Tensor] = {}
    for key, value in loaded["model"].items():
        name = str(key).removeprefix("module.")
        if name in state:
            raise InputError(
                f"it has both {name} and module.{name}: save it again with one of them"
            )
        check_tensor(name, value)
        state[name] = value
    # audio_chunking.size is where the warm-up of the length begins, if there is one
    scheduler = read_part(loaded["config"], "sequence_scheduler")
    frames = scheduler.get("max_sequence_length")
    if frames is None:
        frames = read_part(loaded["config"], "audio_chunking").get("size", 0)
    is_number = isinstance(frames, int | float) and not isinstance(frames, bool)
    # NaN is not below infinity
    if not is_number or not 0 <= frames < math.inf:
        raise InputError(f"its sequences have {frames!r} frames: give --context")
    return state, settings, frames / FRAMES


def load_checkpoint(path: Path, trust_pickle: bool) -> Mapping[str, Any]:
    """Load a checkpoint.

    Without trust, it may hold tensors, plain values, OmegaConf's settings and NumPy's
    numbers alone.
    """
    what = "no checkpoint with 'model' and 'config'"
    try:
        with torch.serialization.safe_globals(list_safe_types()):
            loaded = torch.load(path, map_location="cpu", weights_only=not trust_pickle)
    except UnpicklingError as error:
        advice = "or one that could run code: --trust_pickle if you trust it"
        if trust_pickle:
            advice = find_first_line(error)
        raise InputError(f"{what}, {advice}") from None
    # torch raises many kinds: RuntimeError, EOFError, ValueError ...
    except Exception as error:
        raise InputError(f"{what} ({find_first_line(error)})") from None
    if not isinstance(loaded, Mapping) or not {"model", "config"} <= set(loaded):
        raise InputError(what)
    return loaded


def list_safe_types() -> list[Any]:
    """Return types that run no code of a file, besides those that torch knows."""
    from numpy._core.multiarray import scalar
    from omegaconf import AnyNode, DictConfig, ListConfig
    from omegaconf.base import ContainerMetadata, Metadata

    settings = [AnyNode, DictConfig, ListConfig, ContainerMetadata, Metadata]
    plain = [defaultdict, Any, dict, list, int, str]
    numbers: list[Any] = [np.dtype]
    # their schedule's learning rates; NumPy 1 called it by another name
    for core in ("core", "_core"):
        numbers.append((scalar, f"numpy.{core}.multiarray.scalar"))
    for kind in (np.float64, np.float32, np.int64):
        numbers.append(type(np.dtype(kind)))
    return [*settings, *plain, *numbers]


def read_part(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a part of the config, empty if it has none; the model's must be there."""
    try:
        part = config.get(name)
    # OmegaConf's, of a value that names another which is not there
    except Exception as error:
        raise InputError(
            f"its config's {name} cannot be read ({find_first_line(error)})"
        ) from None
    if part is None and name != "model":
        return {}
    if not isinstance(part, Mapping):
        raise InputError(f"its config's {name} must have settings by name")
    return dict(part)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings of another kind than their default, or not of a paper's model."""
    for name, default in DEFAULTS.items():
        value = settings[name]
        if not is_like(value, default):
            raise InputError(
                f"{name} is {find_first_line(value)}, and must be like {default!r}"
            )
        if name in FIXED and value != default:
            raise InputError(
                f"{name} is {value!r}; models of the paper have {default!r}"
            )
    heads, size, width = settings["n_heads"], settings["head_dim"], settings["d_model"]
    if heads * size != width:
        raise InputError(
            f"{heads} heads of head_dim {size} are not d_model {width}, as in "
            "models of the paper"
        )


def is_like(value: Any, default: Any) -> bool:
    """Return whether a value is of the kind of a default, and no infinite number."""
    # to Python, true is a number
    if isinstance(value, bool) is not isinstance(default, bool):
        return False
    kinds = (int, float) if isinstance(default, float) else type(default)
    if not isinstance(value, kinds):
        return False
    return isinstance(default, bool | str) or value < math.inf


def check_tensor(key: str, value: Any) -> None:
    """Refuse what is no tensor of finite real numbers, or a deviation not above 0."""
    is_tensor = isinstance(value, torch.Tensor)
    # sparse ones, and those without contents
    is_dense = is_tensor and value.layout == torch.strided and not value.is_meta
    if not is_dense or value.is_complex():
        raise InputError(
            f"{key} is not a dense tensor of real numbers: download it again"
        )
    if not value.float().isfinite().all():
        raise InputError(
            f"{key} has values that are NaN or infinite: download it again"
        )
    if not key.endswith("running_std"):
        return
    # it is divided by, in float32
    is_divisor = (value > 0) & value.float().reciprocal().isfinite()
    if not is_divisor.all():
        raise InputError(
            f"{key} is a deviation, and has values that are not above 0: download "
            "it again"
        )


def build_model(
    settings: Mapping[str, Any], seconds: float, tokens: Sequence[str], folder: Path
) -> tuple[dict[str, Any], torch.nn.Module]:
    """Return the config of ESPnet's task for their settings, and its model.

    Files that it reads go to ``folder``.
    """
    from espnet_ext.longform.training import RecordingsASRTask

    with tempfile.TemporaryDirectory(dir=folder) as place:
        config = Path(place, CONFIG)
        token_list = Path(place, "tokens.txt")
        lines = "".join(f"{token}\n" for token in tokens)
        token_list.write_text(lines, encoding="utf-8")
        write_yaml(config, make_task_config(settings, seconds), "imported")
        options = [
            *("--config", str(config)),
            *("--token_list", str(token_list)),
            *("--token_type", "bpe"),
            *("--bpemodel", str(folder / BPE_MODEL)),
        ]
        args = RecordingsASRTask.get_parser().parse_args(options)
        return vars(args), RecordingsASRTask.build_model(args)


def make_task_config(settings: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the config of ESPnet's task for their settings of a model.

    ``seconds`` are those of a window, 0 if they are unknown.
    """
    positions = "none"
    if settings["use_rotary"]:
        positions = "rotary"
    elif settings["fourier_pos_enc"]:
        positions = "fourier"
    config = {
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
            "positions": positions,
            "rotary_base": float(settings["rotary_base_freq"]),
            "self_conditioning": settings["self_conditioning"],
            "double_norm": settings["legasee_double_norm"],
        },
        "decoder": None,
        "model": "ctc_per_second",
        "model_conf": {"ctc_weight": 1.0},
    }
    if seconds:
        config["chunk_conf"] = {"max_seconds": seconds}
    return config


def convert(
    state: Mapping[str, torch.Tensor], settings: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Return the state of ESPnet's model with this package's encoder, from theirs.

    Raises InputError: a parameter that their models of the paper do not have.
    """
    ours: dict[str, torch.Tensor] = {}
    for key, value in state.items():
        place, _, rest = key.partition(".")
        if place == "layers":
            number, _, inner = rest.partition(".")
            module, _, kind = inner.rpartition(".")
            own = f"{find_name(LAYER, module, key)}.{BUFFERS.get(kind, kind)}"
            name = f"encoder.layers.{number}.{own}"
            if name in ours:
                raise InputError(f"it has {key} twice, by two names")
            if "pointwise_conv" in module and kind == "weight":
                value = value.squeeze(-1)  # a convolution of one frame: a linear layer
            elif module == "attend.fn.qkv_proj":
                value = order_by_kind(value, settings["n_heads"])
            ours[name] = value
        elif place == "subsampling":
            module, _, kind = rest.rpartition(".")
            own = find_name(SUBSAMPLING, module, key)
            ours[f"encoder.subsampling.{own}.{kind}"] = value
        elif place == "decoder":
            ours |= convert_head(rest, value)
        elif place == "fourier_pos_enc":
            ours[f"encoder.fourier.{rest}"] = value
        elif place != "rotary_pos_emb":  # computed anew from the settings
            raise InputError(f"it has {key}, which the models of the paper do not have")
    # without self-conditioning theirs has the projection back, too, and does not use it
    if not settings["self_conditioning"]:
        for key in [key for key in ours if "conditioning_layer" in key]:
            del ours[key]
    return ours


def order_by_kind(projection: torch.Tensor, heads: int) -> torch.Tensor:
    """Order the rows of a projection by kind, head and dimension.

    Theirs are ordered by head, dimension and kind, which is query, key or value.
    ``projection`` is (3 * width, width).
    """
    by_head = projection.unflatten(0, (heads, -1, 3))  # (head, dimension, kind, width)
    return by_head.permute(2, 0, 1, 3).flatten(0, 2)


def find_name(names: Mapping[str, str], module: str, key: str) -> str:
    if module not in names:
        raise InputError(f"it has {key}, which the models of the paper do not have")
    return names[module]


def convert_head(name: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the output layer, the projection back, or the last normalisation.

    The blank comes first, in theirs last; ESPnet's mark of start and end is added as
    the last token, which never occurs.
    """
    module, _, kind = name.partition(".")
    if module == "norm":
        return {f"encoder.after_norm.{kind}": value}
    if module == "reprojection" and kind == "bias":
        return {"encoder.conditioning_layer.bias": value}
    if module == "reprojection":
        # of posteriors to the width of the encoder: tokens are its columns
        mark = 0 * value[:, :1]
        reordered = torch.cat([value[:, -1:], value[:, :-1], mark], dim=1)
        return {"encoder.conditioning_layer.weight": reordered}
    mark = value[:1] * 0 + (NEVER if kind == "bias" else 0.0)
    return {f"ctc.ctc_lo.{kind}": torch.cat([value[-1:], value[:-1], mark])}


def list_shapes(state: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in state.items()}


def find_first_line(what: object) -> str:
    """Return what an exception or a value says, on one line."""
    return (str(what).strip() or type(what).__name__).splitlines()[0]


if __name__ == "__main__":
    run_main(main)
