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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.settings import SHORTEST
from espnet_ext.longform.published_checkpoint import first_line, read_checkpoint
from espnet_ext.sharing.files import CONFIG, MODEL, without_training
from espnet_ext.upstream.checkpoint import misfits

BPE_MODEL = "bpe.model"
NEVER = -1e4  # logit of the mark of start and end
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
            a context below a second, or parameters that do not fit the settings or are no finite real numbers.
    """
    import shutil

    from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump

    import espnet_ext
    from espnet_ext.work.once import fingerprint, whole_folder

    espnet_ext.register()
    folder = Path(output)
    if folder.exists():
        raise InputError(f"{folder} exists already: name a new folder")
    if seconds is not None and not SHORTEST <= seconds < math.inf:
        raise InputError(f"--context must be a number of seconds, at least {SHORTEST:g}, not {seconds:g}")
    state, settings, window = read_checkpoint(Path(checkpoint), trust_pickle, seconds)
    names = _pieces(bpemodel)
    tokens = ["<blank>", *names, "<sos/eos>"]
    converted = _converted(checkpoint, state, settings)
    if "ctc.ctc_lo.bias" not in converted:
        raise InputError(f"{checkpoint} has no output layer")
    if len(tokens) != len(converted["ctc.ctc_lo.bias"]):
        raise InputError(f"{checkpoint} has {len(converted['ctc.ctc_lo.bias']) - 2} pieces, {bpemodel} {len(names)}")
    with whole_folder(folder, fingerprint(seconds, files=[checkpoint, bpemodel])) as made:
        shutil.copyfile(bpemodel, made / BPE_MODEL)
        config, model = _build(checkpoint, settings, window, tokens, made)
        if faults := misfits(_shapes(converted), _shapes(model.state_dict())):
            raise InputError(f"{checkpoint} does not fit its own settings ({_sizes(settings)}): {faults}")
        model.load_state_dict(converted)
        torch.save(model.state_dict(), made / MODEL)
        with (made / CONFIG).open("w", encoding="utf-8") as file:
            yaml_no_alias_safe_dump({**without_training(config), "bpemodel": BPE_MODEL}, file, sort_keys=False)


def _pieces(bpemodel: str | Path) -> list[str]:
    from sentencepiece import SentencePieceProcessor

    if not Path(bpemodel).is_file():  # a folder would end the process
        what = "is a folder" if Path(bpemodel).is_dir() else "no such file"
        raise InputError(f"{bpemodel}: {what}: give the authors' sentencepiece model, lcasr/artifacts/tokenizer.model")
    try:
        pieces = SentencePieceProcessor(model_file=str(bpemodel))
    except (OSError, RuntimeError) as error:
        raise InputError(f"{bpemodel}: no sentencepiece model ({first_line(error)})") from None
    return [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]


def _converted(
    checkpoint: str | Path, state: Mapping[str, torch.Tensor], settings: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """The parameters as ours.

    Raises:
        InputError: parameters that their models do not have, or shapes that cannot be converted.
    """
    try:
        return convert(state, settings)
    except InputError as error:
        raise InputError(f"{checkpoint}: {error}") from None
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        raise InputError(
            f"{checkpoint} does not fit its own settings ({_sizes(settings)}): {first_line(error)}"
        ) from None


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
        except (InputError, RuntimeError, ValueError, TypeError, AssertionError, ArithmeticError) as error:
            raise InputError(f"{checkpoint}: no model can be built of its settings: {first_line(error)}") from None
    return vars(args), model


def _shapes(state: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in state.items()}


def _sizes(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {settings[name]}" for name in ("n_layers", "d_model", "n_heads"))


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
    """The state of ESPnet's model with this package's encoder, from that of theirs, by names without ``module.``.

    Raises:
        InputError: a parameter that their models of the paper do not have.
    """
    ours: dict[str, torch.Tensor] = {}
    for key, value in state.items():
        place, _, rest = key.partition(".")
        if place == "layers":
            number, _, inner = rest.partition(".")
            module, _, kind = inner.rpartition(".")
            name = f"encoder.layers.{number}.{_named(_LAYER, module, key)}.{_BUFFERS.get(kind, kind)}"
            if name in ours:
                raise InputError(f"the checkpoint has {key} twice, by two names")
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
