"""Stitch with a trained model (P4, 3): hypotheses of windows in, a transcript of each speaker and recording out."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.stitcher.hypotheses import Grouped, WindowHypothesis
from espnet_ext.stitcher.pairs import piece_maker, read_note
from espnet_ext.stitcher.serialise import ALIGNMENT, SYMBOLS, serialise_windows, source_text
from espnet_ext.stitcher.stretches import cut_at_silence, cut_by_half, merge_parts, renumbered

MODEL_FILE = "valid.acc.ave.pth"
BEAM_SIZE = 4
LENGTH_BONUS = 0.2  # settled on development sets of the scale mini; 0 loses the ends of long transcripts
BATCH_SIZE = 32

Merge = Callable[[Sequence[WindowHypothesis]], tuple[str, ...]]


class Stitcher:
    """A trained stitcher.

    Args:
        folder: of the model: ``config.yaml``, the checkpoint and ``stitcher.json``.
        model_file: the checkpoint; None: ``valid.acc.ave.pth`` of the folder.
        beam_size: of the search.
        length_bonus: what each token adds to the score of a transcript.
        batch_size: parts that are stitched at once; their transcripts do not depend on it.
        device: ``cpu`` or ``cuda``.

    Raises:
        InputError: a missing file, or a checkpoint that does not fit.
    """

    def __init__(
        self,
        folder: str | Path,
        model_file: str | Path | None = None,
        beam_size: int = BEAM_SIZE,
        length_bonus: float = LENGTH_BONUS,
        batch_size: int = BATCH_SIZE,
        device: str = "cpu",
    ):
        import espnet_ext

        espnet_ext.register()
        import torch
        from espnet2.tasks.mt import MTTask
        from espnet2.text.build_tokenizer import build_tokenizer

        from espnet_ext.stitcher.search import rewriting_search

        if beam_size < 1 or batch_size < 1:
            raise InputError(f"a beam of {beam_size} and batches of {batch_size}: take 1 or more")
        self.note = read_note(folder)
        config, model_file = Path(folder) / "config.yaml", Path(model_file or Path(folder) / MODEL_FILE)
        for path in (config, model_file):
            if not path.is_file():
                raise InputError(f"{path}: no such file: train the stitcher first, or check the path")
        self.model, args = MTTask.build_model_from_file(config, model_file, device)
        self.model.eval()
        self.batch_size = batch_size
        self._search = rewriting_search(self.model, beam_size, length_bonus)
        # Attention is masked behind a text's end. ESPnet's convolutions, a choice of encoder_conf, are not.
        self._sees_padding = any(isinstance(module, torch.nn.Conv1d) for module in self.model.encoder.modules())
        self._preprocess = MTTask.build_preprocess_fn(args, False)
        self._tokenizer = build_tokenizer(args.token_type, bpemodel=args.bpemodel)
        self._pieces = piece_maker(args.src_bpemodel if self.note.style == ALIGNMENT else None)

    def stitch(self, grouped: Grouped) -> Merge:
        """Stitch all speakers of all recordings; return what looks up the transcript of a speaker's windows."""
        every = [windows for speakers in grouped.values() for windows in speakers.values()]
        # Of each speaker and recording its stretches, and of each stretch its parts
        cut = [
            [cut_by_half(stretch, self.note.longest) for stretch in cut_at_silence(windows, self.note.longest)]
            for windows in every
        ]
        rewritten = self._rewrite([part for stretches in cut for stretch in stretches for part in stretch])
        stitched = {
            (windows[0].recording, windows[0].speaker): tuple(
                word for stretch in stretches for word in merge_parts([next(rewritten) for _ in stretch])
            )
            for windows, stretches in zip(every, cut, strict=True)
        }
        return lambda windows: stitched[windows[0].recording, windows[0].speaker]

    def _rewrite(self, parts: Sequence[Sequence[WindowHypothesis]]) -> Iterator[tuple[str, ...]]:
        """The transcript of each part, in batches of about equal length."""
        import torch

        from espnet_ext.stitcher.search import rewrite

        sources = [torch.from_numpy(self._source(tuple(part))) for part in parts]
        transcripts: dict[int, tuple[str, ...]] = {}
        for batch in self._batches([len(source) for source in sources]):
            for index, tokens in zip(
                batch, rewrite(self.model, self._search, [sources[index] for index in batch]), strict=True
            ):
                transcripts[index] = self._words(tokens)
        return iter([transcripts[index] for index in range(len(parts))])

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Indices of parts that are stitched at once: of about equal length, or of equal where padding is seen."""
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
