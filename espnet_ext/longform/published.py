"""The models that P5's authors have published, as models of this package.

Their checkpoints (https://github.com/robflynnyh/long-context-asr, table "Acoustic Model" of its README) are torch files
with the state of the model (``model``) and the settings it was made with (``config``). What differs from
:class:`espnet_ext.encoder.long_fastconformer.LongFastConformerEncoder`:

- The rows of the projection to queries, keys and values are ordered by head, dimension and kind, here by kind first.
- The blank is the last output, here the first. ESPnet's mark of start and end is one more output, which never occurs.
- The last layer normalisation is applied twice before the output (``double_norm``).
- Pointwise convolutions are convolutions of one frame, here linear layers.
"""

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from espnet_ext.errors import InputError
from espnet_ext.sharing.files import MODEL

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
    checkpoint: str | Path, bpemodel: str | Path, output: str | Path, seconds: float = 0.0, trust_pickle: bool = False
) -> None:
    """Write ``config.yaml``, ``model.pth`` and ``bpe.model``, which decoding and transcription read.

    Args:
        checkpoint: one of the authors' files.
        bpemodel: their sentencepiece model, ``lcasr/artifacts/tokenizer.model`` in their repository.
        output: a new folder.
        seconds: the context, which becomes the length of a window; 0: that of the checkpoint's ``audio_chunking``.
        trust_pickle: read also a checkpoint that holds other objects than tensors and plain values. Its code is run.

    Raises:
        InputError: the folder exists, no such checkpoint or sentencepiece model, or settings other than the paper's.
    """
    import shutil

    from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump
    from sentencepiece import SentencePieceProcessor

    import espnet_ext
    from espnet_ext.work.yaml_files import read_yaml, write_yaml

    espnet_ext.register()
    from espnet_ext.longform.training import RecordingsASRTask

    folder = Path(output)
    if folder.exists():
        raise InputError(f"{folder} exists already: name a new folder")
    state, settings, chunk = _read(Path(checkpoint), trust_pickle)
    try:
        pieces = SentencePieceProcessor(model_file=str(bpemodel))
    except (OSError, RuntimeError) as error:
        raise InputError(f"{bpemodel}: no sentencepiece model ({error})") from None
    names = [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]
    tokens = ["<blank>", *names, "<sos/eos>"]
    converted = convert(state, settings)
    if "ctc.ctc_lo.bias" not in converted:
        raise InputError(f"{checkpoint} has no output layer")
    if len(tokens) != len(converted["ctc.ctc_lo.bias"]):
        raise InputError(f"{checkpoint} has {len(converted['ctc.ctc_lo.bias']) - 2} pieces, {bpemodel} {len(names)}")
    folder.mkdir(parents=True)
    shutil.copyfile(bpemodel, folder / "bpe.model")
    (folder / "tokens.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    write_yaml(folder / "config.yaml", task_config(settings, seconds or chunk), "imported")
    options = ["--config", folder / "config.yaml", "--token_list", folder / "tokens.txt", "--token_type", "bpe"]
    options += ["--bpemodel", folder / "bpe.model", "--output_dir", folder]
    args = RecordingsASRTask.get_parser().parse_args([str(option) for option in options])
    model = RecordingsASRTask.build_model(args)
    with (folder / "config.yaml").open("w", encoding="utf-8") as file:
        yaml_no_alias_safe_dump(vars(args), file, sort_keys=False)
    assert read_yaml(folder / "config.yaml")["token_list"] == tokens
    model.load_state_dict(converted)
    torch.save(model.state_dict(), folder / MODEL)


def _read(path: Path, trust_pickle: bool) -> tuple[dict[str, torch.Tensor], dict[str, Any], float]:
    """The state, the settings of the model and the seconds of its sequences."""
    try:
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
    settings = {**_DEFAULTS, **given}
    for name, value in _FIXED.items():
        if settings[name] != value:
            raise InputError(f"{path}: {name} is {settings[name]!r}; models of the paper have {value!r}")
    frames = dict(config.get("audio_chunking") or {}).get("size", 0)
    return state, settings, frames / 100


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
