"""Merge hypotheses of windows by speaker, by a trained stitcher (P4, 3) or without."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError, say
from espnet_ext.stitch.stitcher import pairs
from espnet_ext.stitch.stitcher.guard import guard_merge
from espnet_ext.stitch.stitcher.long_recordings import (
    Windows,
    cut_at_silence,
    cut_by_half,
    merge_parts,
    number_windows,
)
from espnet_ext.stitch.stitcher.transcripts import (
    BY_TIME,
    MERGES,
    Merge,
    make_whole_turns,
    merge_all,
)
from espnet_ext.text.transcripts import AUTO
from espnet_ext.text.window_hypotheses import Grouped, read_grouped
from espnet_ext.text.words import SPEAKER, Segment, Word, make_spoken_lines
from espnet_ext.text.writing import show_line, write_segments, write_transcript

# ESPnet's mean of the checkpoints that are best on the development sets
MODEL_FILE = "valid.acc.ave.pth"
BEAM_SIZE = 4
# for each token; chosen on the dev sets of scale mini; with 0 long transcripts end too
# early
LENGTH_BONUS = 0.2
# parts that are stitched at once; their transcripts do not depend on it
BATCH_SIZE = 32
OUTPUTS = {
    ".json": "seglst",
    ".ctm": "ctm",
    ".txt": "txt",
    ".srt": "srt",
    ".vtt": "vtt",
}


@dataclass(frozen=True)
class StitcherOptions:
    """Name the folder of a trained stitcher, and how far it is trusted.

    ``guard``: the most edits a word by which a transcript may differ from the
    time-aware merge, see :mod:`espnet_ext.stitch.stitcher.guard`; None: all transcripts
    are the stitcher's, as in P4.
    """

    folder: Path
    device: str = "cpu"
    guard: float | None = None


def merge_windows(
    hypotheses: Sequence[Path],
    outputs: Sequence[Path],
    method: str,
    stitcher: StitcherOptions | None = None,
) -> None:
    """Write transcripts of recordings from hypotheses of their windows.

    Each set has a file, SegLST with a turn per speaker.

    ``method`` is one of ``MERGES``, if there is no stitcher. Raises InputError for
    windows that the method cannot merge, or of another kind than the stitcher's.
    """
    trained = Stitcher(stitcher) if stitcher else None
    for path, output in zip(hypotheses, outputs, strict=True):
        grouped = read_grouped(path)
        merge = trained.stitch(grouped) if trained else MERGES[method]
        turns = make_whole_turns(merge_all(grouped, merge))
        write_segments(output, turns)
        recordings = len({turn.recording for turn in turns})
        words = sum(len(turn.words) for turn in turns)
        say(f"{recordings} recordings, {words} words, written to {output}")


def join_windows(
    files: Sequence[Path],
    output: Path | None = None,
    method: str = BY_TIME,
    stitcher: StitcherOptions | None = None,
    *,
    segments: Path | None = None,
    form: str = AUTO,
) -> None:
    """Print and write the transcript of recordings that were heard in windows.

    ``files``, ``segments`` and ``form`` are those of
    :func:`espnet_ext.text.window_hypotheses.read_grouped`; ``output`` ends in one of
    ``OUTPUTS``; ``method`` is one of ``MERGES``, if there is no stitcher.
    """
    if output and output.suffix not in OUTPUTS:
        raise InputError(f"--output {output}: end it in {', '.join(OUTPUTS)}")
    if stitcher:
        # A wrong folder is refused before torch is imported, which takes seconds.
        pairs.read_trained_on(stitcher.folder)
    grouped = read_grouped(files, segments, form)
    merge = Stitcher(stitcher).stitch(grouped) if stitcher else MERGES[method]
    recordings = {
        name: _make_lines(speakers)
        for name, speakers in merge_all(grouped, merge).items()
    }
    for name, lines in recordings.items():
        # One recording needs no name before each of its lines.
        prefix = f"{name} " if len(recordings) > 1 else ""
        for line in lines:
            say(f"{prefix}{show_line(line)}")
    if output:
        write_transcript(output, recordings, OUTPUTS[output.suffix])


def _make_lines(speakers: Mapping[str, Sequence[Word]]) -> list[Segment]:
    """Make the lines of a recording; where nobody is named, neither are they."""
    lines = make_spoken_lines(speakers)
    if speakers.keys() == {SPEAKER}:
        return [replace(line, speaker="") for line in lines]
    return lines


class Stitcher:
    """Stitch with a trained model.

    Raises InputError for a missing file, or a checkpoint that does not fit.
    """

    def __init__(self, options: StitcherOptions):
        from espnet_ext.upstream.checkpoint import strict_loading
        from espnet_ext.upstream.own_process import prepare_process

        prepare_process()
        import torch
        from espnet2.tasks.mt import MTTask
        from espnet2.text.build_tokenizer import build_tokenizer

        from espnet_ext.stitch.stitcher.rewriting_search import make_rewriting_search

        self.folder = options.folder
        self.guard = options.guard
        self.trained_on = pairs.read_trained_on(self.folder)
        config = self.folder / "config.yaml"
        model_file = self.folder / MODEL_FILE
        for path in (config, model_file):
            if not path.is_file():
                raise InputError(
                    f"{path}: no such file: train the stitcher first, or check the path"
                )
        with strict_loading():
            self.model, args = MTTask.build_model_from_file(
                config, model_file, options.device
            )
        self.model.eval()
        self.search = make_rewriting_search(self.model, BEAM_SIZE, LENGTH_BONUS)
        # Attention is masked after a text's end. ESPnet's convolutions, which
        # encoder_conf may ask for, are not: what a text is rewritten to would depend on
        # the longest one of its batch.
        self._sees_padding = any(
            isinstance(module, torch.nn.Conv1d)
            for module in self.model.encoder.modules()
        )
        self._preprocess = MTTask.build_preprocess_fn(args, False)
        self._tokenizer = build_tokenizer(args.token_type, bpemodel=args.bpemodel)
        self._pieces: pairs.Pieces = str.split
        # Only aligned words have to be split before ESPnet's tokenizer splits them: the
        # pieces of a pair go in turn.
        if self.trained_on.style == pairs.ALIGNMENT:
            self._pieces = pairs.make_piece_splitter(args.src_bpemodel)

    def stitch(self, grouped: Grouped) -> Merge:
        """Stitch all speakers of all recordings.

        Return a function from a speaker's windows to the transcript.
        """
        pairs.require_windows(
            self.trained_on.windows, pairs.find_windowing(grouped), self.folder
        )
        longest = self.trained_on.longest
        # Parts of all recordings and speakers are rewritten in one go, so that batches
        # are full. Each stretch of a speaker has several parts.
        stretches: dict[tuple[str, str], list[list[Windows]]] = {}
        for recording, speakers in grouped.items():
            for speaker, windows in speakers.items():
                cut = cut_at_silence(windows, longest)
                stretches[recording, speaker] = [
                    cut_by_half(stretch, longest) for stretch in cut
                ]
        parts: list[Windows] = []
        for own in stretches.values():
            parts += chain.from_iterable(own)
        # The rewritten parts come in the order of `parts`.
        rewritten = self._rewrite(parts)
        stitched: dict[tuple[str, str], tuple[Word, ...]] = {}
        for key, own in stretches.items():
            words: list[Word] = []
            for stretch in own:
                words += merge_parts([(part, next(rewritten)) for part in stretch])
            stitched[key] = tuple(words)

        def take_stitched(windows: Sequence[Segment]) -> tuple[Word, ...]:
            return stitched[windows[0].recording, windows[0].speaker]

        if self.guard is None:
            return take_stitched
        return guard_merge(take_stitched, self.guard)

    def _rewrite(self, parts: Sequence[Windows]) -> Iterator[tuple[str, ...]]:
        """Write the transcript of each part.

        Parts of about equal length are rewritten together.
        """
        import torch

        from espnet_ext.stitch.stitcher.rewriting_search import rewrite

        sources = [torch.from_numpy(self._make_source(part)) for part in parts]
        rewritten: dict[int, tuple[str, ...]] = {}
        for batch in self._group_by_length([len(source) for source in sources]):
            together = [sources[index] for index in batch]
            texts = rewrite(self.model, self.search, together)
            for index, tokens in zip(batch, texts, strict=True):
                rewritten[index] = self._join_tokens(tokens)
        return iter([rewritten[index] for index in range(len(parts))])

    def _group_by_length(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield indices of parts of about equal length to stitch at once.

        Their length is equal if padding is seen.
        """
        order = sorted(range(len(lengths)), key=lambda index: lengths[index])
        groups = [order]
        if self._sees_padding:
            equal = groupby(order, key=lambda index: lengths[index])
            groups = [list(indices) for _, indices in equal]
        for group in groups:
            for first in range(0, len(group), BATCH_SIZE):
                yield group[first : first + BATCH_SIZE]

    def _make_source(self, part: Windows) -> Any:
        """Return the token ids of a part, (L,), as in the training's source texts."""
        known = self.trained_on
        numbered = number_windows(part)
        sources = pairs.serialise_windows(numbered, known.style, known.within)
        text = pairs.write_source(sources, self._pieces)
        return self._preprocess("", {"src_text": text})["src_text"]

    def _join_tokens(self, tokens: Sequence[int]) -> tuple[str, ...]:
        """Return the words of token ids, without a stitcher's symbols."""
        pieces = [self.model.token_list[token] for token in tokens]
        words = self._tokenizer.tokens2text(pieces).split()
        # The target of a silent speaker is one symbol, which is no word.
        return tuple(word for word in words if word not in pairs.SYMBOLS)
