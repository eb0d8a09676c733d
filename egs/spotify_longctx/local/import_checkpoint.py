#!/usr/bin/env python3
"""Import a model that P5's authors have published, as one that `espnet-ext decode long`
and `transcribe` take.

Writes config.yaml, model.pth and bpe.model. A checkpoint is a pickle, which can run
code. Tensors and plain values are read safely, and settings of OmegaConf; other objects
only with --trust_pickle: give it for sources that you trust.

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
    """Write ``config.yaml``, ``model.pth`` and ``bpe.model``; the folder appears when
    it is complete.

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
        if len(tokens) != len(converted["ctc.ctc_lo.bias"]):
            raise InputError(
                f"{len(converted['ctc.ctc_lo.bias']) - 2} pieces, but {bpemodel} "
                f"has {len(tokens) - 2}"
            )
        with replace_folder(
            output, fingerprint(seconds, files=[checkpoint, bpemodel])
        ) as made:
            shutil.copyfile(bpemodel, made / BPE_MODEL)
            config, model = build(settings, window, tokens, made)
            if faults := list_misfits(shapes(converted), shapes(model.state_dict())):
                raise InputError(f"does not fit its own settings: {faults}")
            model.load_state_dict(converted)
            torch.save(model.state_dict(), made / MODEL)
            with (made / CONFIG).open("w", encoding="utf-8") as file:
                yaml_no_alias_safe_dump(
                    {**drop_training(config), "bpemodel": BPE_MODEL},
                    file,
                    sort_keys=False,
                )
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
            f"{checkpoint}: does not fit its own settings: {first_line(error)}"
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
            f"{bpemodel}: no sentencepiece model ({first_line(error)})"
        ) from None
    return [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]


def read_checkpoint(
    path: Path, trust_pickle: bool
) -> tuple[dict[str, torch.Tensor], dict[str, Any], float]:
    """Read the state by their names without ``module.``, the model's settings, and the
    seconds of its sequences.

    Seconds are 0 where the checkpoint does not say them.
    """
    loaded = load(path, trust_pickle)
    if not all(isinstance(loaded[name], Mapping) for name in ("model", "config")):
        raise InputError(
            "its 'model' and 'config' must have parameters and settings by name"
        )
    given = settings_of(loaded["config"], "model")
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
    frames = settings_of(loaded["config"], "sequence_scheduler").get(
        "max_sequence_length"
    )
    if frames is None:
        frames = settings_of(loaded["config"], "audio_chunking").get("size", 0)
    if (
        isinstance(frames, bool)
        or not isinstance(frames, int | float)
        or not 0 <= frames < math.inf
    ):
        raise InputError(f"its sequences have {frames!r} frames: give --context")
    return state, settings, frames / FRAMES


def load(path: Path, trust_pickle: bool) -> Mapping[str, Any]:
    """Load a checkpoint; without trust, tensors, plain values, OmegaConf's settings and
    NumPy's numbers alone.
    """
    from numpy._core.multiarray import (
        scalar,
    )  # their schedule's learning rates; NumPy 1 called it by another name
    from omegaconf import AnyNode, DictConfig, ListConfig
    from omegaconf.base import ContainerMetadata, Metadata

    safe: list[Any] = [
        AnyNode,
        DictConfig,
        ListConfig,
        ContainerMetadata,
        Metadata,
        defaultdict,
        Any,
    ]
    safe += [
        dict,
        list,
        int,
        str,
        *((scalar, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    ]
    safe += [
        np.dtype,
        *(type(np.dtype(kind)) for kind in (np.float64, np.float32, np.int64)),
    ]
    what = "no checkpoint with 'model' and 'config'"
    try:
        with torch.serialization.safe_globals(safe):
            loaded = torch.load(path, map_location="cpu", weights_only=not trust_pickle)
    except UnpicklingError as error:
        advice = (
            first_line(error)
            if trust_pickle
            else "or one that could run code: --trust_pickle if you trust it"
        )
        raise InputError(f"{what}, {advice}") from None
    except (
        Exception
    ) as error:  # torch raises many kinds: RuntimeError, EOFError, ValueError ...
        raise InputError(f"{what} ({first_line(error)})") from None
    if not isinstance(loaded, Mapping) or not {"model", "config"} <= set(loaded):
        raise InputError(what)
    return loaded


def settings_of(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a part of the config, empty if it has none; the model's must be there."""
    try:
        part = config.get(name)
    except (
        Exception
    ) as error:  # OmegaConf's, of a value that names another which is not there
        raise InputError(
            f"its config's {name} cannot be read ({first_line(error)})"
        ) from None
    if part is None and name != "model":
        return {}
    if not isinstance(part, Mapping):
        raise InputError(f"its config's {name} must have settings by name")
    return dict(part)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings of another kind than their default, or other than those of the
    paper's models.
    """
    for name, default in DEFAULTS.items():
        value = settings[name]
        kinds = (int, float) if isinstance(default, float) else type(default)
        is_bool = isinstance(value, bool) is isinstance(default, bool)
        if (
            not is_bool
            or not isinstance(value, kinds)
            or (not isinstance(default, bool | str) and not value < math.inf)
        ):
            raise InputError(
                f"{name} is {first_line(value)}, and must be like {default!r}"
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


def check_tensor(key: str, value: Any) -> None:
    """Refuse what is no tensor of finite real numbers, or a deviation that cannot be
    divided by.
    """
    if (
        not isinstance(value, torch.Tensor)
        or value.layout != torch.strided
        or value.is_meta
        or value.is_complex()
    ):
        raise InputError(
            f"{key} is not a dense tensor of real numbers: download it again"
        )
    if not value.float().isfinite().all():
        raise InputError(
            f"{key} has values that are NaN or infinite: download it again"
        )
    if (
        key.endswith("running_std")
        and not ((value > 0) & value.float().reciprocal().isfinite()).all()
    ):
        raise InputError(
            f"{key} is a deviation, and has values that are not above 0: download "
            "it again"
        )


def build(
    settings: Mapping[str, Any], seconds: float, tokens: Sequence[str], folder: Path
) -> tuple[dict[str, Any], torch.nn.Module]:
    """Return the config of ESPnet's task for their settings, and its model. Files that
    it reads go to ``folder``.
    """
    from espnet_ext.longform.training import RecordingsASRTask

    with tempfile.TemporaryDirectory(dir=folder) as place:
        files = {"config": Path(place, CONFIG), "token_list": Path(place, "tokens.txt")}
        files["token_list"].write_text(
            "".join(f"{token}\n" for token in tokens), encoding="utf-8"
        )
        write_yaml(files["config"], task_config(settings, seconds), "imported")
        options = [
            word for name, path in files.items() for word in (f"--{name}", str(path))
        ]
        options += ["--token_type", "bpe", "--bpemodel", str(folder / BPE_MODEL)]
        args = RecordingsASRTask.get_parser().parse_args(options)
        return vars(args), RecordingsASRTask.build_model(args)


def task_config(settings: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the config of ESPnet's task for their settings of a model; ``seconds`` of
    a window, 0: unknown.
    """
    kind = (
        "rotary"
        if settings["use_rotary"]
        else "fourier"
        if settings["fourier_pos_enc"]
        else "none"
    )
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


def convert(
    state: Mapping[str, torch.Tensor], settings: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Return the state of ESPnet's model with this package's encoder, from that of
    theirs.

    Raises InputError: a parameter that their models of the paper do not have.
    """
    ours: dict[str, torch.Tensor] = {}
    for key, value in state.items():
        place, _, rest = key.partition(".")
        if place == "layers":
            number, _, inner = rest.partition(".")
            module, _, kind = inner.rpartition(".")
            own = f"{named(LAYER, module, key)}.{BUFFERS.get(kind, kind)}"
            name = f"encoder.layers.{number}.{own}"
            if name in ours:
                raise InputError(f"it has {key} twice, by two names")
            if "pointwise_conv" in module and kind == "weight":
                value = value.squeeze(-1)
            elif module == "attend.fn.qkv_proj":
                value = (
                    value.unflatten(0, (settings["n_heads"], -1, 3))
                    .permute(2, 0, 1, 3)
                    .flatten(0, 2)
                )
            ours[name] = value
        elif place == "subsampling":
            module, _, kind = rest.rpartition(".")
            ours[f"encoder.subsampling.{named(SUBSAMPLING, module, key)}.{kind}"] = (
                value
            )
        elif place == "decoder":
            ours |= head(rest, value)
        elif place == "fourier_pos_enc":
            ours[f"encoder.fourier.{rest}"] = value
        elif place != "rotary_pos_emb":  # computed anew from the settings
            raise InputError(f"it has {key}, which the models of the paper do not have")
    if not settings["self_conditioning"]:
        ours = {
            key: value for key, value in ours.items() if "conditioning_layer" not in key
        }
    return ours


def named(names: Mapping[str, str], module: str, key: str) -> str:
    if module not in names:
        raise InputError(f"it has {key}, which the models of the paper do not have")
    return names[module]


def head(name: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the output layer, the projection back or the last normalisation: the blank
    comes first, a mark last.
    """
    module, _, kind = name.partition(".")
    if module == "norm":
        return {f"encoder.after_norm.{kind}": value}
    if module == "reprojection" and kind == "bias":
        return {"encoder.conditioning_layer.bias": value}
    if module == "reprojection":
        return {
            "encoder.conditioning_layer.weight": torch.cat(
                [value[:, -1:], value[:, :-1], 0 * value[:, :1]], dim=1
            )
        }
    last = value[:1] * 0 + (NEVER if kind == "bias" else 0.0)
    return {f"ctc.ctc_lo.{kind}": torch.cat([value[-1:], value[:-1], last])}


def shapes(state: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in state.items()}


def first_line(what: object) -> str:
    """Return what an exception or a value says, on one line."""
    return (str(what).strip() or type(what).__name__).splitlines()[0]


if __name__ == "__main__":
    run_main(main)
