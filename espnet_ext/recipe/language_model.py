"""The stage of a recipe that trains an ESPnet language model, if a decoding uses it."""

from collections.abc import Iterator
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.recipe.run import Run
from espnet_ext.recipe.steps import Step, show
from espnet_ext.recipe.training import (
    list_data_options,
    list_token_options,
    make_free_arguments,
    train_step,
)
from espnet_ext.text.lm_text import write_lengths, write_split_lengths, write_splits
from espnet_ext.work.once import NOTE


def require_lm_text(text: Path) -> None:
    """Refuse a run whose text of the language model is missing.

    The text is needed only after hours of work, so it is looked for before.
    """
    if not text.is_file():
        raise InputError(
            f"{text}: no such file: download it (https://www.openslr.org/11), or "
            "name it with --lm_text"
        )


def uses_language_model(run: Run) -> bool:
    """Tell whether a decoding of the run's rows uses a language model."""
    return any(
        run.decoding(name).get("lm_weight")
        for names in run.decodings.values()
        for name in names
    )


def train_language_model(
    run: Run, text: Path, valid: str, tokens: Path, token_type: str
) -> Iterator[Step]:
    """Train a language model if a decoding uses one, and measure its perplexity.

    ``text`` has a sentence a line, plain or .gz; one of its ``lm_splits`` files is in
    memory at a time. The config is the section ``lm``, with ``lm_large`` over it if the
    setting ``lm_size`` is large. Early stopping and the perplexity use the transcripts
    of ``valid``.
    """
    if not uses_language_model(run):
        show("no decoding of these rows uses a language model")
        return
    folder = run.lm
    dev = run.datadir / valid / "text"
    large = [run.sections["lm_large"]] if run.setting("lm_size") == "large" else []
    config = run.write_section_config("lm", *large, name=folder.name)
    splits = folder / "text"
    lengths = folder / "text_shape"
    dev_lengths = folder / "valid_shape"
    yield Step(
        name="language model: text",
        log=folder / "log" / "text.log",
        function=write_splits,
        arguments={
            "text": text,
            "output": str(splits),
            "splits": run.sections["settings"]["lm_splits"],
        },
        outputs=[splits / "num_splits"],
    )
    options = list_token_options(tokens, token_type)
    # --token_list F --token_type T [--bpemodel M]: T, and M if there is one
    tokeniser = [options[3], *options[5:]]
    models = [Path(path) for path in tokeniser[1:]]
    preload = ["espnet2.text.build_tokenizer"]
    yield Step(
        name="language model: lengths",
        log=folder / "log" / "lengths.log",
        function=write_split_lengths,
        arguments={"text": splits, "tokeniser": tokeniser, "output": str(lengths)},
        free=make_free_arguments(run),
        inputs=[splits / NOTE, *models],
        outputs=[lengths / "num_splits"],
        preload=preload,
    )
    yield Step(
        name=f"language model: lengths of {valid}",
        log=folder / "log" / "valid_lengths.log",
        function=write_lengths,
        arguments={"text": dev, "tokeniser": tokeniser, "output": str(dev_lengths)},
        inputs=models,
        outputs=[dev_lengths],
        preload=preload,
    )
    data = [
        *list_data_options("train", [(splits, "text", "text")]),
        *list_data_options("valid", [(dev, "text", "text")]),
        *("--train_shape_file", str(lengths)),
        *("--valid_shape_file", str(dev_lengths)),
    ]
    yield train_step(
        run,
        folder,
        "lm_train",
        # ESPnet's multiple_iterator reads a folder of splits, one after the other
        ["--seed", "1", "--multiple_iterator", "true", *options, *data],
        name="language model: training",
        inputs=[lengths / NOTE, dev_lengths],
        files={"--config": config},
    )
    yield Step(
        name="language model: perplexity",
        log=folder / "log" / "perplexity.log",
        function=measure_perplexity,
        arguments={"folder": str(folder), "text": dev},
        inputs=[folder / "config.yaml"],
        preload=["espnet2.bin.lm_calc_perplexity"],
    )
    perplexity = (folder / "perplexity" / "ppl").read_text(encoding="utf-8").strip()
    show(f"language model: perplexity per token of {valid}/text: {perplexity}")


def measure_perplexity(folder: str, text: Path) -> None:
    """Measure the perplexity of a language model with ESPnet's own command."""
    from espnet2.bin.lm_calc_perplexity import main

    from espnet_ext.upstream.checkpoint import strict_loading

    lm = Path(folder)
    words = [
        *("--ngpu", "0"),
        *("--data_path_and_name_and_type", f"{text},text,text"),
        *("--train_config", str(lm / "config.yaml")),
        *("--model_file", str(lm / "valid.loss.ave.pth")),
        *("--output_dir", str(lm / "perplexity")),
    ]
    # ESPnet would measure a model whose parameters do not fit, with random ones
    with strict_loading():
        main(words)
