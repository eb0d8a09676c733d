"""Steps and stages that several recipes share, from the corpus to the tables.

A function ``..._step`` makes the step of that name; nothing runs before ``run_steps``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from espnet_ext.corpora.data_dirs import DEV, SAMPLING_RATE, TRAIN
from espnet_ext.errors import say
from espnet_ext.kaldi.parts import combine_data_dirs, subset_data_dir
from espnet_ext.recipe.options import split_names
from espnet_ext.recipe.own_system import needs_statistics
from espnet_ext.recipe.run import STATS, Run
from espnet_ext.recipe.steps import Step
from espnet_ext.recipe.training import (
    average_step,
    list_data_options,
    list_token_options,
    make_free_arguments,
    name_average,
    train_step,
)
from espnet_ext.tables.reading import Table
from espnet_ext.tables.schema import System
from espnet_ext.upstream.decode import Decoding, decode_all
from espnet_ext.upstream.stats import Statistics, collect_stats
from espnet_ext.work.once import stamp_folders
from espnet_ext.work.parallel import Place
from espnet_ext.work.yaml_files import read_yaml


def synthetic_corpus_step(
    run: Run, corpus: str, folder: Path | None = None, size: str = ""
) -> Step:
    """Make a small corpus in the layout of a real one.

    The module ``corpus`` of :mod:`espnet_ext.synthetic` makes it in ``run.corpus``, or
    in another folder. ``size`` is one of its sizes, by default the setting
    ``corpus_size``.
    """
    output = folder or run.corpus
    size = size or run.sections["settings"]["corpus_size"]
    module = import_module(f"espnet_ext.synthetic.{corpus}")
    return Step(
        name="synthetic corpus",
        log=run.datadir / "log" / "corpus.log",
        function=getattr(module, f"make_{corpus}"),
        arguments={"output": str(output), "size": size},
        free={"nj": run.nj},
        outputs=[output],
    )


def data_step(
    run: Run,
    corpus: str,
    folders: Sequence[Path],
    names: Mapping[str, str],
    /,
    *,
    title: str = "",
    **options: Any,
) -> Step:
    """Check a corpus and write the data dirs of its parts.

    Data dirs are made again when a file below ``folders`` changes. The function
    ``prepare_<corpus>`` of a module of :mod:`espnet_ext.corpora` is called with
    ``options``, and with ``names``: the part -> its data dir. ``title`` is the name of
    the corpus, if the recipe has several.
    """
    module = import_module(f"espnet_ext.corpora.{corpus}")
    own_log = "data"
    if title:
        own_log += f"_{title.replace(', ', '_')}"
    return Step(
        name=f"data dirs of {title or run.corpus_name}",
        log=run.datadir / "log" / f"{own_log}.log",
        function=getattr(module, f"prepare_{corpus}"),
        arguments={
            "output_dir": str(run.datadir),
            "names": dict(names),
            "check_audio": run.options["check_audio"],
            "skip_faulty": run.skip_faulty,
            **options,
        },
        free={"num_jobs": run.nj},
        # sizes and times: reading terabytes to see that none has changed takes hours
        depends=stamp_folders(*folders),
        outputs=[run.datadir / name / "text" for name in names.values()],
    )


def data_dirs_step(
    run: Run, *, rate: int | None = SAMPLING_RATE, train: str = TRAIN
) -> Step:
    """Check the data dirs of ``--data``, and write them as those of a corpus.

    ``train`` is what the training set is called; all others keep their names.
    """
    more = [name for name in run.recipe.data_parts if (run.corpus / name).is_dir()]
    parts = [TRAIN, DEV, *more, *run.data_tests]
    names = {**{part: part for part in parts}, TRAIN: train}
    return data_step(
        run,
        "data_dirs",
        [run.corpus / part for part in parts],
        names,
        corpus_dir=str(run.corpus),
        parts=parts,
        rate=rate,
    )


def combine_step(run: Run, name: str, sources: Sequence[str]) -> Step:
    """Combine data dirs of ``run.datadir`` into one.

    The name of the source is appended to its ids, which two corpora may share.
    """
    folders = [str(run.datadir / source) for source in sources]
    return _derived_step(
        run, name, sources, combine_data_dirs, sources=folders, suffix_source=True
    )


def subset_step(run: Run, name: str, source: str, count: int, how: str) -> Step:
    """Make a data dir with some of the utterances of another.

    Both are below ``run.datadir``; ``count`` and ``how`` are those of
    :func:`subset_data_dir`.
    """
    return _derived_step(
        run,
        name,
        [source],
        subset_data_dir,
        source=str(run.datadir / source),
        count=count,
        how=how,
    )


def _derived_step(
    run: Run,
    name: str,
    parts: Sequence[str],
    make: Callable[..., object],
    **arguments: Any,
) -> Step:
    """Make a data dir of others."""
    return Step(
        name=f"data dir {name}",
        log=run.datadir / "log" / f"data_{name}.log",
        function=make,
        arguments={"destination": str(run.datadir / name), **arguments},
        inputs=[
            run.datadir / part / table
            for part in parts
            for table in ("wav.scp", "text")
        ],
        outputs=[run.datadir / name / "text"],
    )


def locate_tokens(run: Run) -> Path:
    """Return the folder of a run's tokens."""
    settings = run.sections["settings"]
    return run.datadir / f"tokens_{settings['token_type']}{settings['vocab_size']}"


def tokens_step(
    run: Run,
    train: str,
    folder: Path,
    token_type: str,
    vocab_size: int,
    *,
    english: Sequence[str] = (),
    **options: Any,
) -> Step:
    """Make word pieces, characters or words of a training set.

    With ``mixed`` they are its Han characters and its English word pieces, of the texts
    ``english``. ``options`` are ``symbols`` that are one token each, such as ``<sc>``,
    and ``normalisation`` of sentencepiece.
    """
    from espnet_ext.codeswitch.mixed_units import make_mixed_tokens
    from espnet_ext.text.tokens import make_tokens

    text = run.locate_whole_text(train)
    more = [run.locate_whole_text(name) for name in english]
    make: Callable[..., object] = make_tokens
    own: dict[str, Any] = {"token_type": token_type, **options}
    if token_type == "mixed":
        make = make_mixed_tokens
        own = {"english_texts": more}
    return Step(
        name="tokens",
        log=folder / "log" / "tokens.log",
        function=make,
        arguments={
            "text": text,
            "output": str(folder),
            "vocab_size": vocab_size,
            **own,
        },
        inputs=[text, *more],
        outputs=[folder / "prior.txt"],
    )


def statistics_step(
    run: Run,
    config: Mapping[str, Any],
    train: str,
    valid: str,
    tokens: Path,
    token_type: str,
    *,
    task: str = "asr",
) -> Step:
    """Collect lengths of utterances, and mean and variance of a config's features.

    They go into ``run.locate_stats(config) / train``.
    """
    folder = run.locate_stats(config) / train
    # --token_list FILE, and the others
    _, token_list, *options = list_token_options(tokens, token_type)
    parts = run.datadir / train, run.datadir / valid
    return Step(
        name=f"{folder.parent.name.replace(STATS, 'statistics')} of {train}",
        log=folder / "log" / "stats.log",
        function=collect_stats,
        arguments={
            "job": Statistics(
                *parts,
                run.write_features_config(config),
                Path(token_list),
                folder,
                tuple(options),
                task,
            )
        },
        free=make_free_arguments(run),
        inputs=[part / table for part in parts for table in ("wav.scp", "text")],
        outputs=[folder / "train" / "feats_stats.npz"],
        preload=["espnet2.tasks.asr", "espnet_ext.upstream.stats"],
    )


def asr_train_step(
    run: Run,
    folder: Path,
    config: Path,
    train: str,
    valid: str,
    tokens: Path,
    token_type: str,
    seed: int,
    *,
    task: str = "asr",
    options: Sequence[str] = (),
    files: Mapping[str, Path] | None = None,
    inputs: Sequence[Path] = (),
    shapes: Path | None = None,
    statistics: str = "",
    sound: str = "sound",
) -> Step:
    """Train one ASR model on a training and a development data dir.

    Features are normalised by the data dir ``statistics``, and ``shapes`` has the
    utterances to train on (default of both: the training set). ``sound`` is ESPnet's
    type of the audio, ``files`` are options whose values are files.
    """
    values = read_yaml(config)
    every_stats = run.locate_stats(values)
    # of all data dirs with these features, each of which has lengths of its own
    stats = every_stats / train
    features = every_stats / (statistics or train) / "train" / "feats_stats.npz"
    words = [
        *("--seed", str(seed)),
        *list_token_options(tokens, token_type),
        *options,
    ]
    if needs_statistics(values):
        words += ["--normalize_conf", f"stats_file={features}"]
    part_shapes = {
        "train": shapes or stats / "train" / "speech_shape",
        "valid": stats / "valid" / "speech_shape",
    }
    for part, name in (("train", train), ("valid", valid)):
        tables = [
            (run.datadir / name / "wav.scp", "speech", sound),
            (run.datadir / name / "text", "text", "text"),
        ]
        words += [
            *list_data_options(part, tables),
            f"--{part}_shape_file",
            str(part_shapes[part]),
        ]
    made = [
        run.datadir / train / "text",
        run.datadir / valid / "text",
        tokens / "tokens.txt",
    ]
    made += [features, part_shapes["train"]]
    return train_step(
        run,
        folder,
        f"{task}_train",
        words,
        inputs=[*made, *inputs],
        files={"--config": config, **(files or {})},
    )


def decode_steps(
    run: Run,
    folder: Path,
    model: Path,
    decodings: Sequence[str],
    sets: Sequence[str],
    nj: int,
    *,
    options: Sequence[str] = (),
    lm: Path | None = None,
    configs: Sequence[Path] = (),
    data: Path | None = None,
) -> Step:
    """Decode test sets with one system and one or several decodings.

    The models are loaded once. Results go to ``folder/decode_<decoding>/<test set>``.
    ``data`` is a folder of test sets that have ``feats.scp`` in place of ``wav.scp``,
    ``lm`` that of a language model; ``configs`` are by default those of tables.yaml.
    """
    source = data or run.datadir
    if not configs:
        configs = [run.write_decode_config(name) for name in decodings]
    jobs = []
    # all sets of a decoding follow each other: a worker keeps the last search it built
    for name, config in zip(decodings, configs, strict=True):
        for part in sets:
            job = Decoding(
                model_config=folder / "config.yaml",
                model_file=model,
                data=source / part,
                output=folder / f"decode_{name}{run.decoding_tag}" / part,
                config=config,
                lm_config=lm / "config.yaml" if lm else None,
                lm_file=lm / "valid.loss.ave.pth" if lm else None,
                options=tuple(options),
            )
            jobs.append(job)
    return Step(
        name=f"decode {folder.relative_to(run.expdir)} ({' '.join(decodings)})",
        log=folder / f"decode_{decodings[0]}{run.decoding_tag}" / "log" / "decode.log",
        function=decode_sets,
        arguments={"jobs": jobs},
        free=make_free_arguments(run, ngpu=run.gpu) | {"nj": nj},
        inputs=[source / part / ("feats.scp" if data else "wav.scp") for part in sets],
        outputs=[job.output / "text" for job in jobs],
        preload=["espnet_ext.upstream.decode", "espnet2.bin.asr_inference"],
    )


def decode_sets(
    jobs: Sequence[Decoding], nj: int, parallel: Place | None, ngpu: int
) -> None:
    """Decode each data dir with each config."""
    # not an argument of the step: the number of GPUs does not change its result
    jobs = [replace(job, ngpu=ngpu) for job in jobs]
    counts = decode_all(jobs, nj=nj, parallel=parallel)
    for job, count in zip(jobs, counts, strict=True):
        say(f"{count} utterances -> {job.output / 'text'}")


def score_step(
    run: Run, part: str, folder: Path, rate: str = "wer", **options: Any
) -> Step:
    """Compute the word error rate of a decoding, or with ``mer`` the mixed error rate.

    That one counts Mandarin characters and English words.
    """
    return Step(
        name=f"score {folder.relative_to(run.expdir)}",
        log=folder / "log" / "score.log",
        function=score,
        arguments={
            "reference": run.datadir / part / "text",
            "hypothesis": folder / "text",
            "utt2spk": run.datadir / part / "utt2spk",
            "output": str(folder),
            "rate": rate,
            "options": options,
        },
        inputs=[folder / "text"],
        outputs=[folder / "score.json"],
        preload=["espnet_ext.scoring.score_files"],
    )


def score(
    reference: Path,
    hypothesis: Path,
    utt2spk: Path,
    output: str,
    rate: str,
    options: Mapping[str, Any],
) -> None:
    """Write the error reports of a decoding, and print its error rate."""
    from espnet_ext.scoring.score_files import describe_interval, evaluate

    unit = "mixed" if rate == "mer" else "word"
    _, summary = evaluate(
        reference, hypothesis, Path(output), unit=unit, utt2spk=utt2spk, **options
    )
    say(f"{rate.upper()} {summary['value']:.2f} %  ({describe_interval(summary)})")


def train_and_average(
    run: Run,
    system: System,
    seed: int,
    train: str,
    valid: str,
    tokens: Path,
    *,
    options: Sequence[str] = (),
) -> Iterator[Step]:
    """Train a system, and average the epochs that are decoded."""
    folder = run.locate_training(system, seed)
    token_type = run.sections["settings"]["token_type"]
    config = run.write_system_config(system)
    yield asr_train_step(
        run, folder, config, train, valid, tokens, token_type, seed, options=options
    )
    yield average_step(run, folder, run.setting("average"))


def decode_system(
    run: Run,
    system: System,
    seed: int,
    nj: int,
    sets: Sequence[str],
    tokens: Path,
    data: Path | None = None,
) -> Iterator[Step]:
    """Decode with a system in one step, and in another with a language model too."""
    folder = run.locate_training(system, seed)
    model = folder / name_average(run.setting("average"))
    names = list(run.decodings.get(system.name, {}))
    fused = [name for name in names if run.decoding(name).get("lm_weight")]
    alone = [name for name in names if name not in fused]
    # two steps, since all decodings of a step share the models that are loaded
    for group, lm in ((alone, None), (fused, run.lm)):
        prior = any(run.decoding(name).get("prior_weight") for name in group)
        options = ["--prior_file", str(tokens / "prior.txt")] if prior else []
        if group:
            yield decode_steps(
                run, folder, model, group, sets, nj, options=options, lm=lm, data=data
            )


def score_systems(
    run: Run, sets: Sequence[str], rate: str = "wer", **options: Any
) -> Iterator[Step]:
    """Compute the error rates of all decodings of all systems and seeds."""
    for system in run.systems:
        for seed in run.list_seeds(system):
            folder = run.locate_training(system, seed)
            for decoding in run.decodings.get(system.name, {}):
                decoded = folder / f"decode_{decoding}{run.decoding_tag}"
                for part in sets:
                    yield score_step(run, part, decoded / part, rate, **options)


def tables(
    run: Run,
    selected: Sequence[Table] | None = None,
    *,
    corpus: str | None = None,
    paper: bool = True,
    synthetic_sets: Sequence[str] | None = None,
) -> None:
    """Write and print tables, including rows that earlier runs have filled.

    ``selected`` are by default those of the run. ``corpus`` is its name in the tables
    (default: that of its folder); the ``paper``'s numbers may be of another.
    """
    from espnet_ext.tables.publish import write_tables

    rows = split_names(run.options["rows"]) if run.options["rows"] else None
    write_tables(
        run.tables,
        run.selected if selected is None else selected,
        rows,
        run.expdir,
        tags=(run.system_tag, run.decoding_tag),
        scale=run.scale,
        corpus=corpus or run.corpus_name,
        paper=paper and not run.of_data_dirs,
        synthetic_sets=synthetic_sets,
        command=run.command,
        lm_perplexity=run.lm / "perplexity" / "ppl",
        own_systems=run.own_systems,
    )
