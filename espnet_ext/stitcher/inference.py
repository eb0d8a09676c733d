"""From hypotheses of windows to transcripts by speaker, with a trained stitcher (P4, 3) or without one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.multitalker.heard.hypotheses import Grouped, WindowHypothesis
from espnet_ext.multitalker.heard.importers import read_grouped
from espnet_ext.stitcher.guard import guarded
from espnet_ext.stitcher.long_recordings import cut_at_silence, cut_by_half, merge_parts, renumbered
from espnet_ext.stitcher.note import ALIGNMENT, STYLES, read_note, require_windows, windowing_of
from espnet_ext.stitcher.pairs import SYMBOLS, piece_maker, serialise_windows, source_text
from espnet_ext.stitcher.transcripts import (
    BY_TIME,
    MERGES,
    Merge,
    transcripts,
    whole_turns,
)
from espnet_ext.text.transcript import SPEAKER, Word, show_line, spoken_lines, write_transcript
from espnet_ext.text.turns import write_turns

MODEL_FILE = "valid.acc.ave.pth"
BEAM_SIZE = 4
LENGTH_BONUS = 0.2  # chosen on the dev sets of scale mini; with 0 long transcripts end too early
BATCH_SIZE = 32
METHODS = (*MERGES, *STYLES)
OUTPUTS = {".json": "seglst", ".ctm": "ctm", ".txt": "txt", ".srt": "srt", ".vtt": "vtt"}


@dataclass(frozen=True)
class StitcherOptions:
    """A trained stitcher, how it searches, and how far it is trusted.

    Attributes:
        folder: of the model: ``config.yaml``, the checkpoint and ``stitcher.json``.
        model_file: the checkpoint; None: ``valid.acc.ave.pth`` in the folder.
        beam_size: of the search.
        length_bonus: added to the score of a transcript for each token.
        batch_size: number of parts that are stitched at once; their transcripts do not depend on it.
        device: ``cpu`` or ``cuda``.
        guard: the most edits a word by which a transcript may differ from the time-aware merge, see
            :mod:`espnet_ext.stitcher.guard`; None: all transcripts are the stitcher's, as in P4.
    """

    folder: Path
    model_file: Path | None = None
    beam_size: int = BEAM_SIZE
    length_bonus: float = LENGTH_BONUS
    batch_size: int = BATCH_SIZE
    device: str = "cpu"
    guard: float | None = None


def merge_windows(
    hypotheses: Sequence[Path],
    outputs: Sequence[Path],
    method: str,
    stitcher: StitcherOptions | None = None,
    *,
    segments: Path | None = None,
    speaker: str = SPEAKER,
) -> None:
    """Write the transcripts of recordings (SegLST, one turn per speaker) from hypotheses of their windows.

    Args:
        hypotheses: of a recogniser, in a format of :mod:`espnet_ext.multitalker.heard.importers`; a file for each set.
        outputs: a file for each of them.
        method: ``no``, ``block``, ``overlapping`` or ``time_aware``; or the style of a trained stitcher.
        stitcher: for the latter.
        segments, speaker: see :func:`espnet_ext.multitalker.heard.importers.read_grouped`.

    Raises:
        InputError: bad hypotheses; windows that the method cannot merge, or of another kind than the stitcher's; a
            stitcher of another style, or none.
    """
    if len(hypotheses) != len(outputs):
        raise InputError(f"{len(hypotheses)} --hypotheses and {len(outputs)} --output: give each its own")
    trained = _load(method, stitcher)
    for path, output in zip(hypotheses, outputs, strict=True):
        grouped = read_grouped(path, segments, speaker=speaker)
        turns = whole_turns(transcripts(grouped, trained.stitch(grouped) if trained else MERGES[method]))
        write_turns(output, turns)
        recordings, words = len({turn.recording for turn in turns}), sum(len(turn.words) for turn in turns)
        print(f"{recordings} recordings, {words} words, written to {output}")


def join_windows(
    files: Sequence[Path],
    output: Path | None = None,
    stitcher: StitcherOptions | None = None,
    *,
    segments: Path | None = None,
    speaker: str = SPEAKER,
) -> None:
    """Print the transcript of recordings that a recogniser has heard in windows, and write it.

    Args:
        files: hypotheses, in a format of :mod:`espnet_ext.multitalker.heard.importers`.
        output: a file whose name ends in one of ``OUTPUTS``.
        stitcher: merges the windows; None: they are merged by time.
        segments, speaker: see :func:`espnet_ext.multitalker.heard.importers.read_grouped`.

    Raises:
        InputError: bad hypotheses, or an output of another kind.
    """
    if output and output.suffix not in OUTPUTS:
        raise InputError(f"--output {output}: end it in {', '.join(OUTPUTS)}")
    if stitcher:
        read_note(stitcher.folder)  # before torch is imported, which takes seconds
    grouped = read_grouped(files, segments, speaker=speaker)
    merge = Stitcher(stitcher).stitch(grouped) if stitcher else MERGES[BY_TIME]
    recordings = {name: spoken_lines(speakers) for name, speakers in transcripts(grouped, merge).items()}
    for name, lines in recordings.items():
        for line in lines:
            print(f"{name} {show_line(line)}" if len(recordings) > 1 else show_line(line))
    if output:
        write_transcript(output, recordings, OUTPUTS[output.suffix])


def _load(method: str, options: StitcherOptions | None) -> "Stitcher | None":
    if method not in METHODS:
        raise InputError(f"--method {method} is unknown: {', '.join(METHODS)}")
    if (method in STYLES) != (options is not None):
        what = "needs the folder of a trained stitcher: give" if options is None else "has no trained model: leave out"
        raise InputError(f"--method {method} {what} --stitcher")
    if options is None:
        return None
    style = read_note(options.folder).style
    if style != method:
        raise InputError(f"{options.folder}: it is a stitcher of the style {style}: give --method {style}")
    return Stitcher(options)


class Stitcher:
    """A trained stitcher.

    Raises:
        InputError: a missing file, or a checkpoint that does not fit.
    """

    def __init__(self, options: StitcherOptions):
        import espnet_ext

        espnet_ext.register()
        import torch
        from espnet2.tasks.mt import MTTask
        from espnet2.text.build_tokenizer import build_tokenizer

        from espnet_ext.stitcher.rewriting_search import rewriting_search

        if options.beam_size < 1 or options.batch_size < 1:
            raise InputError(f"a beam of {options.beam_size} and batches of {options.batch_size}: take 1 or more")
        folder = options.folder
        self.note = read_note(folder)
        config, model_file = folder / "config.yaml", options.model_file or folder / MODEL_FILE
        for path in (config, model_file):
            if not path.is_file():
                raise InputError(f"{path}: no such file: train the stitcher first, or check the path")
        self.model, args = MTTask.build_model_from_file(config, model_file, options.device)
        self.model.eval()
        self.batch_size = options.batch_size
        self._search = rewriting_search(self.model, options.beam_size, options.length_bonus)
        # Attention is masked after a text's end. ESPnet's convolutions, which encoder_conf may ask for, are not.
        self._sees_padding = any(isinstance(module, torch.nn.Conv1d) for module in self.model.encoder.modules())
        self._preprocess = MTTask.build_preprocess_fn(args, False)
        self._tokenizer = build_tokenizer(args.token_type, bpemodel=args.bpemodel)
        if self.note.style == ALIGNMENT and self.note.pieces and not args.src_bpemodel:
            raise InputError(f"{config}: no src_bpemodel, but its training pairs are word pieces: train it with one")
        self._folder, self._guard = folder, options.guard
        self._pieces = piece_maker(args.src_bpemodel if self.note.pieces else None)

    def stitch(self, grouped: Grouped) -> Merge:
        """Stitch all speakers of all recordings; return a function from a speaker's windows to the transcript.

        Raises:
            InputError: the windows are of another kind than those that the stitcher has learnt from.
        """
        require_windows(self.note, windowing_of(grouped), self._folder)
        every = [windows for speakers in grouped.values() for windows in speakers.values()]
        # for each speaker and recording its stretches, for each stretch its parts
        cut = [
            [cut_by_half(stretch, self.note.longest) for stretch in cut_at_silence(windows, self.note.longest)]
            for windows in every
        ]
        rewritten = self._rewrite([part for stretches in cut for stretch in stretches for part in stretch])
        stitched = {
            (windows[0].recording, windows[0].speaker): tuple(
                word for stretch in stretches for word in merge_parts([(part, next(rewritten)) for part in stretch])
            )
            for windows, stretches in zip(every, cut, strict=True)
        }

        def transcript(windows: Sequence[WindowHypothesis]) -> tuple[Word, ...]:
            return stitched[windows[0].recording, windows[0].speaker]

        return transcript if self._guard is None else guarded(transcript, self._guard)

    def _rewrite(self, parts: Sequence[Sequence[WindowHypothesis]]) -> Iterator[tuple[str, ...]]:
        """The transcript of each part; parts of about equal length are rewritten together."""
        import torch

        from espnet_ext.stitcher.rewriting_search import rewrite

        sources = [torch.from_numpy(self._source(tuple(part))) for part in parts]
        rewritten: dict[int, tuple[str, ...]] = {}
        for batch in self._batches([len(source) for source in sources]):
            for index, tokens in zip(
                batch, rewrite(self.model, self._search, [sources[index] for index in batch]), strict=True
            ):
                rewritten[index] = self._words(tokens)
        return iter([rewritten[index] for index in range(len(parts))])

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Indices of parts that are stitched at once: of about equal length, or of equal length if padding is seen."""
        order = sorted(range(len(lengths)), key=lambda index: lengths[index])
        groups = groupby(order, key=lambda index: lengths[index] if self._sees_padding else 0)
        for group in (list(indices) for _, indices in groups):
            for first in range(0, len(group), self.batch_size):
                yield group[first : first + self.batch_size]

    def _source(self, part: tuple[WindowHypothesis, ...]) -> Any:
        text = source_text(serialise_windows(renumbered(part), self.note.style), self._pieces)
        return self._preprocess("", {"src_text": text})["src_text"]

    def _words(self, tokens: Sequence[int]) -> tuple[str, ...]:
        words = self._tokenizer.tokens2text([self.model.token_list[token] for token in tokens]).split()
        return tuple(word for word in words if word not in SYMBOLS)
