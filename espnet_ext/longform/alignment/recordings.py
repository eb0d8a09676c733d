"""Align the words of many recordings; a run that was killed resumes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.text.words import Word
from espnet_ext.work import shards as sharding
from espnet_ext.work.files import write_json
from espnet_ext.work.gpus import choose_device
from espnet_ext.work.shards import Shard

RESULT = "words.json"


@dataclass(frozen=True)
class AlignmentShard(Shard):
    """A recording, its transcript's words, and the model that finds their times."""

    audio: Path = field(kw_only=True)
    words: tuple[str, ...] = field(kw_only=True)
    config: Path = field(kw_only=True)
    model: Path = field(kw_only=True)
    ngpu: int = field(kw_only=True)


def align_recordings(
    texts: Mapping[str, Sequence[str]],
    files: Mapping[str, Path],
    output: Path,
    *,
    config: Path,
    model: Path,
    nj: int = 1,
    ngpu: int = 0,
) -> Iterator[tuple[str, list[Word] | str]]:
    """Yield the words of each recording with times in seconds.

    In place of them comes what is wrong, if a recording cannot be aligned.

    ``output`` is the folder of what is done: a recording whose audio, transcript and
    model are the same is not aligned again. The model is an ESPnet model with CTC, all
    paths in its config absolute. ``nj`` processes share the work, or one for each of
    ``ngpu`` GPUs.
    """
    aligner = sharding.fingerprint(sharding.hash_files([config, model]))
    planned: list[AlignmentShard] = []
    log = output / "log"
    gpus = min(ngpu, 1)  # of one process
    for name, words in texts.items():
        stamp = sharding.stamp_files({name: str(files[name])})
        planned.append(
            AlignmentShard(
                name=name,
                folder=str(log / f"recording.{name}"),
                log=str(log / f"align.{name}.log"),
                options=(),
                tables={},
                key=sharding.fingerprint(aligner, list(words), stamp),
                audio=files[name],
                words=tuple(words),
                config=config,
                model=model,
                ngpu=gpus,
            )
        )
    # A process per GPU, where there are any.
    sharding.run_shards(
        [(output, planned)],
        align_recording,
        nj=ngpu or nj,
        ngpu=gpus,
        describe="alignment",
    )
    for shard in planned:
        found = json.loads((Path(shard.folder) / RESULT).read_text(encoding="utf-8"))
        yield shard.name, found["fault"] or [Word(**word) for word in found["words"]]


def align_recording(shard: AlignmentShard) -> None:
    """Align one recording (in a worker process).

    It is a result too that a recording does not agree with its transcript.
    """
    if shard.is_done():  # the worker died after finishing it
        return
    from espnet_ext.longform.alignment.forced import load_aligner  # takes seconds

    model = load_aligner(shard.config, shard.model, choose_device(shard.ngpu))
    with sharding.attempt_shard(shard) as folder:
        words = []
        fault = ""
        try:
            words = model.align_words(shard.audio, shard.words)
        except InputError as error:
            fault = str(error)
        write_json(
            folder / RESULT, {"fault": fault, "words": [asdict(word) for word in words]}
        )
