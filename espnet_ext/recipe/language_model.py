"""The stage of a recipe that trains an ESPnet language model, for decodings that use one."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from espnet_ext.data.lm_text import write_lm_text
from espnet_ext.recipe.run import Run
from espnet_ext.recipe.steps import Step, say
from espnet_ext.recipe.training import data_options, run_command, token_options, train_step


def train_language_model(run: Run, text: Path, valid: str, tokens: Path, token_type: str) -> Iterator[Step]:
    """Train a language model on a text (one sentence per line, plain or .gz) and measure its perplexity.

    Early stopping and the perplexity use the transcripts of ``valid``. Nothing is trained if no decoding of the run
    uses a language model.
    """
    if not any(run.decoding(name).get("lm_weight") for names in run.decodings.values() for name in names):
        say("no decoding of these rows uses a language model")
        return
    config, folder = run.section_config("lm"), run.lm
    train, dev = folder / "train.txt", run.datadir / valid / "text"
    yield Step(
        name="language model: text",
        log=folder / "log" / "text.log",
        function=write_lm_text,
        arguments={"text": text, "output": str(train)},
        outputs=[train],
    )
    data = [*data_options("train", [(train, "text", "text")]), *data_options("valid", [(dev, "text", "text")])]
    options = [*token_options(tokens, token_type), *data]
    shapes = ["--train_shape_file", str(train), "--valid_shape_file", str(dev)]
    yield Step(
        name="language model: statistics",
        log=folder / "log" / "stats.log",
        function=collect_lm_statistics,
        arguments={
            "config": config,
            "options": ["--config", str(config), "--output_dir", str(folder / "stats"), *options, *shapes],
        },
        inputs=[train, dev],
        preload=["espnet_ext.bin.lm_train"],
    )
    shapes = [
        *("--train_shape_file", str(folder / "stats" / "train" / "text_shape")),
        *("--valid_shape_file", str(folder / "stats" / "valid" / "text_shape")),
    ]
    yield train_step(
        run,
        folder,
        "lm_train",
        ["--seed", "1", *options, *shapes],
        name="language model: training",
        inputs=[folder / "stats" / "train" / "text_shape"],
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
    say(f"language model: perplexity per token of {valid}/text: {perplexity}")


def collect_lm_statistics(config: Path, options: Sequence[str]) -> None:
    """Collect the lengths of the sentences for a language model."""
    run_command("lm_train", ["--collect_stats", "true", *options])


def measure_perplexity(folder: str, text: Path) -> None:
    """Measure the perplexity of a language model with ESPnet's own command."""
    from espnet2.bin.lm_calc_perplexity import main

    lm = Path(folder)
    data = ["--data_path_and_name_and_type", f"{text},text,text"]
    model = ["--train_config", str(lm / "config.yaml"), "--model_file", str(lm / "valid.loss.ave.pth")]
    main(["--ngpu", "0", *data, *model, "--output_dir", str(lm / "perplexity")])
