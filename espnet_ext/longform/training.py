"""Train on chunks of recordings of any length, in ESPnet's own trainer (P5, 3.3).

:class:`RecordingsASRTask` is ESPnet's ASR task with its own iterator. It reads tables,
given as ``--train_data_path_and_name_and_type <file>,<name>,<type>`` (the type is not
used), and for ``valid`` likewise:

==============  ======================================================================
``speech``      ``wav.scp``: recording and audio file, of any rate and channels
``duration``    ``utt2dur``: recording and seconds
``words``       ``words.scp`` of :mod:`espnet_ext.text.word_times`
``statistics``  scp of (2, n_mels) matrices, see
                :mod:`espnet_ext.longform.recording_features`
``features``    normalised features that were kept; with them speech and statistics
                are not read
==============  ======================================================================

``chunk_conf`` holds the fields of :class:`espnet_ext.longform.chunking.Schedule` and
``passes``; ``features_conf`` those of
:class:`espnet_ext.longform.recording_features.RecordingFeatures`. ``max_epoch``,
``total_steps`` of ``warmup_cosine`` and ``input_seconds`` of ``ctc_per_second`` are set
from the data, and shares of the training become counts.
"""

import argparse
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from espnet2.iterators.abs_iter_factory import AbsIterFactory
from espnet2.tasks.asr import ASRTask
from espnet2.train.preprocessor import AbsPreprocessor
from espnet2.utils.nested_dict_action import NestedDictAction
from torch.utils.data import DataLoader, Dataset

from espnet_ext.audio.recordings import RecordingAudio
from espnet_ext.errors import InputError
from espnet_ext.kaldi.arks import read_array
from espnet_ext.kaldi.data_dir import refuse_commands
from espnet_ext.kaldi.tables import read_table
from espnet_ext.longform.chunking import (
    Chunk,
    Schedule,
    check_plan,
    count_shares,
    cut_batches,
    read_schedule,
)
from espnet_ext.longform.recording_features import (
    NO_SPEECH,
    ChannelStatistics,
    RecordingFeatures,
)
from espnet_ext.registry import strip_package
from espnet_ext.text.word_times import read_word_times
from espnet_ext.upstream.option_faults import make_checked

TABLES = ("speech", "duration", "words", "statistics")
FEATURES = "features"
Item = tuple[str, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Recordings:
    """The tables that the module's docstring names, by recording.

    ``duration`` is in seconds. Without ``features``, these are computed from
    ``speech``.
    """

    speech: Mapping[str, str]
    duration: Mapping[str, float]
    words: Mapping[str, str]
    statistics: Mapping[str, str]
    features: Mapping[str, str] = field(default_factory=dict)


def read_recordings(entries: Sequence[Sequence[str]]) -> Recordings:
    """Read the tables that ``*_data_path_and_name_and_type`` lists.

    Refused are a table that is missing or unreadable, a duration that is not a number,
    audio or a matrix that is a command (commands are not run), and a recording that is
    missing in one of them.
    """
    paths = {name: path for path, name, *_ in entries}
    missing = [name for name in TABLES if name not in paths]
    if missing:
        raise InputError(
            f"training on recordings needs the tables {', '.join(TABLES)}: give "
            f"{', '.join(missing)} too"
        )
    # Recordings that have no statistics, on purpose, are no fault of the tables.
    listed = Path(paths["statistics"]).with_name(NO_SPEECH)
    silent: set[str] = set()
    if listed.is_file():
        silent.update(listed.read_text(encoding="utf-8").split())
    heard = read_table(paths["speech"]).items()
    speech = {name: path for name, path in heard if name not in silent}
    named = [name for name in (*TABLES[1:], FEATURES) if name in paths]
    others = {name: read_table(paths[name]) for name in named}
    refuse_commands(Path(paths["speech"]), speech)
    refuse_commands(Path(paths["statistics"]), others["statistics"])
    for name, table in others.items():
        for recording in speech:
            if recording not in table:
                raise InputError(
                    f"{paths[name]}: recording {recording} of {paths['speech']} is "
                    "missing: prepare it again"
                )
    durations = others["duration"]
    try:
        duration = {recording: float(durations[recording]) for recording in speech}
    except ValueError as error:
        raise InputError(f"{paths['duration']}: {error}: fix it") from None
    return Recordings(
        speech,
        duration,
        others["words"],
        others["statistics"],
        others.get(FEATURES, {}),
    )


@dataclass
class ChunkDataset(Dataset):
    """Make the features of a chunk, and its tokens by ESPnet's ``preprocess``.

    Only the chunk's part of a recording is read.
    """

    recordings: Recordings
    features: RecordingFeatures
    preprocess: AbsPreprocessor

    def __getitem__(self, chunk: Chunk) -> Item:
        """Return the chunk's id, ``speech``, (frames, n_mels), and ``text``.

        ``text``, (tokens,), may be empty.
        """
        name = chunk.recording
        start = self._find_frame(chunk.start)
        end = self._find_frame(chunk.end)
        if self.recordings.features:
            speech = self._read_kept(name, start, end)
        else:
            speech = self._compute(name, start, end)
        words = read_word_times(name, self.recordings.words[name])
        # Nobody knows which words are said in these regions, and the text has none: the
        # model must not hear any, or it would learn to leave words out.
        for first, last in words.find_dropped(chunk.start, chunk.end):
            begin = self._find_frame(first) - start
            after = self._find_frame(last) - start
            speech[begin:after] = 0.0
        text = words.join_between(chunk.start, chunk.end)
        key = f"{name}-{chunk.start:.2f}-{chunk.end:.2f}"
        tokens = self.preprocess(key, {"text": text})["text"]
        return key, {"speech": speech, "text": np.asarray(tokens, dtype=np.int64)}

    def _find_frame(self, seconds: float) -> int:
        """Return the feature frame that begins nearest to a time."""
        return round(seconds * self.features.rate / self.features.hop)

    def _compute(self, name: str, start: int, end: int) -> np.ndarray:
        """Compute frames ``start`` to ``end``, and at least one."""
        path = self.recordings.speech[name]
        mean, deviation = read_array(self.recordings.statistics[name])
        statistics = ChannelStatistics(mean, deviation)
        with RecordingAudio(name, path, self.features.rate) as audio:
            # Frames at the end of a chunk reach a little into the next one, except at
            # the end of the recording.
            end = min(end, self.features.count_frames(audio.length))
            count = max(1, end - start)
            return self.features.normalise(audio, statistics, start, count)

    def _read_kept(self, name: str, start: int, end: int) -> np.ndarray:
        """Read frames ``start`` to ``end`` of kept features, and at least one."""
        path = self.recordings.features[name]
        try:
            features = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path}: no features of {name} ({error}): run the statistics "
                "stage again"
            ) from None
        channels = features.shape[1]
        if channels != self.features.n_mels:
            raise InputError(
                f"{path}: {channels} channels, but n_mels is {self.features.n_mels}: "
                "run the statistics stage again"
            )
        # Only these frames are read of the memory map.
        return features[start : max(start + 1, end)].astype(np.float32)


def share_batches(plan: Iterable[list[Chunk]], processes: int) -> Iterator[list[Chunk]]:
    """Return the batches with a chunk for each process.

    All processes leave out smaller ones, such as the last: without a chunk, a process
    has no gradient.
    """
    return (batch for batch in plan if len(batch) >= processes)


@dataclass
class ChunkIterFactory(AbsIterFactory):
    """Divide one plan of batches into ESPnet's epochs.

    An epoch has ``per_epoch`` batches; None: all.

    ``plan`` returns all batches of the training in order, always the same; ``dataset``
    makes an item from a chunk, and ``collate``, ESPnet's, a batch from items. ``share``
    is the rank of this process, and the number of processes that share each batch;
    ``num_workers`` processes read audio.
    """

    plan: Callable[[], Iterator[list[Chunk]]]
    dataset: ChunkDataset
    collate: Callable[[Sequence[Item]], Any]
    per_epoch: int | None = None
    share: tuple[int, int] = (0, 1)
    num_workers: int = 0
    pin_memory: bool = False

    def list_chunks(self, epoch: int) -> list[list[Chunk]]:
        """Return this process's chunks of each batch of an epoch, counted from 1."""
        first = 0
        last = None
        if self.per_epoch is not None:
            first = (epoch - 1) * self.per_epoch
            last = first + self.per_epoch
        rank, processes = self.share
        # From the first batch of the training on: the plan has no state to resume from.
        batches = itertools.islice(share_batches(self.plan(), processes), first, last)
        return [batch[rank::processes] for batch in batches]

    def build_iter(self, epoch: int, shuffle: bool | None = None) -> DataLoader:
        """Return the batches of an epoch.

        ``shuffle`` has no effect, since the plan sets the order.
        """
        # torch hands on what is in a batch as it is: chunks are the dataset's indices.
        return DataLoader(
            self.dataset,
            batch_sampler=self.list_chunks(epoch),
            num_workers=self.num_workers,
            collate_fn=self.collate,
            pin_memory=self.pin_memory,
        )


class RecordingsASRTask(ASRTask):
    """ESPnet's ASR task, trained on chunks of recordings.

    See the module's docstring.
    """

    @classmethod
    def add_task_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add ESPnet's options and those of this task."""
        super().add_task_arguments(parser)
        group = parser.add_argument_group("Recordings (espnet_ext)")
        group.add_argument(
            "--chunk_conf",
            action=NestedDictAction,
            default={},
            help="batch_seconds, max_seconds ...",
        )
        group.add_argument(
            "--features_conf",
            action=NestedDictAction,
            default={},
            help="n_mels, window, hop, log ...",
        )
        # With it ESPnet asks build_task_iter_factory for the batches.
        parser.set_defaults(iterator_type="task", valid_iterator_type="task")

    @classmethod
    def main_worker(cls, args: argparse.Namespace) -> None:
        """Set the options that follow from the data, then train as ESPnet does.

        Bad tables or settings are refused.
        """
        features = make_checked(RecordingFeatures, args.features_conf, "features_conf")
        if args.input_size != features.n_mels:
            raise InputError(
                f"input_size is {args.input_size}, but n_mels of features_conf is "
                f"{features.n_mels}"
            )
        if not args.collect_stats:
            durations = read_recordings(args.train_data_path_and_name_and_type).duration
            check_plan(vars(args), durations)
            vars(args).update(count_shares(vars(args), durations))
            schedule, passes = read_schedule(args.chunk_conf)
            plan = cut_batches(durations, schedule, passes=passes, seed=args.seed)
            processes = args.dist_world_size if args.distributed else 1
            # By walking through the plan: how many batches are too small to be shared
            # cannot be told from the seconds.
            total = sum(1 for _ in share_batches(plan, processes))
            args.max_epoch = math.ceil(total / (args.num_iters_per_epoch or total))
            if strip_package(args.scheduler) == "warmup_cosine":
                # An update has the gradients of accum_grad batches.
                updates = max(1, total // args.accum_grad)
                args.scheduler_conf = {**args.scheduler_conf, "total_steps": updates}
        if strip_package(args.model) == "ctc_per_second":
            seconds = features.hop / features.rate
            args.model_conf = {**args.model_conf, "input_seconds": seconds}
        super().main_worker(args)

    @classmethod
    def build_task_iter_factory(
        cls, args: argparse.Namespace, iter_options: Any, mode: str
    ) -> AbsIterFactory:
        """Build the iterator factory of ``train``, ``valid`` or ``plot_att``.

        Chunks of ``valid`` have the maximum length.
        """
        recordings = read_recordings(iter_options.data_path_and_name_and_type)
        schedule, passes = read_schedule(args.chunk_conf)
        share = (0, 1)
        if iter_options.distributed:
            rank = torch.distributed.get_rank()
            processes = torch.distributed.get_world_size()
            share = (rank, processes)
            # Batches of the longest sequences have the fewest, and all would be left
            # out.
            if schedule.count_sequences(schedule.max_seconds) < processes:
                raise InputError(
                    "chunk_conf: a batch has fewer sequences than there are "
                    f"processes ({processes})"
                )
        features = make_checked(RecordingFeatures, args.features_conf, "features_conf")
        order = {"passes": passes, "seed": args.seed}
        # Validation compares epochs: always the same chunks, as long as they ever get.
        if mode != "train":
            schedule = Schedule(
                schedule.batch_seconds, schedule.max_seconds, double_every=0
            )
            order = {}
        return ChunkIterFactory(
            plan=lambda: cut_batches(recordings.duration, schedule, **order),
            dataset=ChunkDataset(recordings, features, iter_options.preprocess_fn),
            collate=iter_options.collate_fn,
            per_epoch=iter_options.num_iters_per_epoch,
            share=share,
            num_workers=args.num_workers,
            pin_memory=args.ngpu > 0,
        )
