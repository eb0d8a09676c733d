"""``--fast_decoder`` with ``--batch_size``: many utterances in one search, sorted by
length and batched by memory.

The encoder takes each utterance alone, as ESPnet does one by one: padding would enter
its convolutions, and the length of its output. In the search, padding is masked, in the
decoder's attention and in CTC. So all that differs from ESPnet one by one is the order
in which numbers are added up.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import torch
from espnet2.bin import asr_inference
from espnet2.legacy.nets.pytorch_backend.transformer.subsampling import TooShortUttError

from espnet_ext.work.gpus import count_sharing

AUTO = "auto"
# What is read and sorted at a time: utterances, and samples (70 minutes at 16 kHz) or
# features of them.
WINDOW, WINDOW_SIZE = 512, 2**26
# More utterances at once make no processor faster. They take this share of the memory
# that is free, by an estimate.
MOST, MOST_ON_GPU, SHARE = 20, 64, 0.25
COMPARED = 20  # utterances that a search with 8 bits also decodes in float32


def windows(
    loader: Iterable[tuple[list[str], dict[str, torch.Tensor]]],
) -> Iterator[tuple[list[str], dict[str, list]]]:
    """Yield many utterances at once from ESPnet's iterator over single ones."""
    keys: list[str] = []
    speech: list[torch.Tensor] = []
    for (key,), batch in loader:
        keys.append(key)
        speech.append(batch["speech"][0])
        if len(keys) == WINDOW or sum(each.numel() for each in speech) > WINDOW_SIZE:
            yield keys, {"speech": speech}
            keys, speech = [], []
    if keys:
        yield keys, {"speech": speech}


class WholeSets(asr_inference.Speech2Text):
    """ESPnet's ``Speech2Text`` with a fast search of at most ``batch_size`` utterances,
    or as many as have memory.
    """

    batch_size: int | str
    exact: Self | None = None  # the same in float32, if this one has 8 bits

    @torch.no_grad()
    def batch_decode(
        self, speech: Sequence[Any], speech_lengths: Sequence[int] | None = None
    ) -> list[Any]:
        """Recognise utterances: samples, (N,), or features, (N, D), of each, or a
        padded batch and its lengths.

        Returns for each, in the order given, what ESPnet gives for it alone.
        """
        if speech_lengths is not None:
            speech = [
                each[:length]
                for each, length in zip(speech, speech_lengths, strict=True)
            ]
        results: list[Any] = [None] * len(speech)
        batch: list[tuple[int, torch.Tensor, Any]] = []
        for number in sorted(
            range(len(speech)), key=lambda number: -len(speech[number])
        ):
            try:
                encodings, intermediate = self.encode(speech[number])
            except TooShortUttError as error:
                logging.warning(f"utterance {number + 1} of {len(speech)}: {error}")
                results[number] = asr_inference._too_short_result(
                    self.nbest, self.enh_s2t_task, self
                )
                continue
            if batch and len(batch) >= self._most(batch[0][1]):
                self._search(batch, results)
                batch = []
            batch.append((number, encodings, intermediate))
        if batch:
            self._search(batch, results)
        if self.exact is not None:
            exact, self.exact = self.exact, None
            pairs = list(
                zip(results, exact.batch_decode(speech[:COMPARED]), strict=False)
            )
            same = sum(_tokens(ours) == _tokens(theirs) for ours, theirs in pairs)
            logging.warning(
                f"8 bits give the hypothesis of float32 for {same} of the first "
                f"{len(pairs)} utterances"
            )
        return results

    @torch.no_grad()
    def encode(self, speech: Any) -> tuple[torch.Tensor, Any]:
        """Return encodings, (T, D), and what intermediate layers of the encoder give,
        if they do.
        """
        samples = (
            torch.as_tensor(speech)
            .unsqueeze(0)
            .to(self.device, getattr(torch, self.dtype))
        )
        logging.info(
            f"speech length: {samples.size(1)}"
        )  # ESPnet's measure of the real time factor reads it
        encodings, _ = self.asr_model.encode(
            samples, torch.tensor([samples.size(1)], device=self.device)
        )
        encodings, intermediate = (
            encodings if isinstance(encodings, tuple) else (encodings, None)
        )
        return encodings[0], intermediate

    def _most(self, longest: torch.Tensor) -> int:
        """Return the number of utterances in a search, the longest of which has these
        encodings, (T, D).
        """
        if self.batch_size != AUTO:
            return int(self.batch_size)
        search, (frames, width) = self.beam_search, longest.shape
        most = MOST_ON_GPU if longest.is_cuda else MOST
        free = count_free_bytes(longest.device)
        # encodings of each hypothesis, keys and values of them and of the tokens; CTC's
        # labels and copies of them
        bytes_each = (
            longest.element_size()
            * frames
            * (4 * search.beam_size * width + 3 * search.n_vocab)
        )
        return max(1, min(most, int(SHARE * free / bytes_each)))

    def _search(
        self, batch: Sequence[tuple[int, torch.Tensor, Any]], results: list[Any]
    ) -> None:
        """Search a batch; one that memory has no room for in halves."""
        lengths = torch.tensor(
            [len(encodings) for _, encodings, _ in batch], device=self.device
        )
        padded = torch.nn.utils.rnn.pad_sequence(
            [encodings for _, encodings, _ in batch], batch_first=True
        )
        try:
            found = self.beam_search(
                padded, self.maxlenratio, self.minlenratio, x_lengths=lengths
            )
        except Exception as error:
            half = len(batch) // 2
            if not half or not asr_inference.is_out_of_memory_error(error):
                raise
            asr_inference.release_accelerator_memory()
            self._search(batch[:half], results)
            self._search(batch[half:], results)
            return
        for (number, _, intermediate), nbest in zip(batch, found, strict=True):
            result = self._hyps_to_results(nbest)
            results[number] = (
                result
                if intermediate is None
                else (result, self._decode_interctc(intermediate))
            )


def count_free_bytes(device: torch.device) -> int:
    """Return the bytes that a search may count on: of a GPU the part of this process,
    if several share it.
    """
    if device.type != "cuda":
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # PyTorch keeps what earlier searches have released, which the driver calls taken
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    free, whole = torch.cuda.mem_get_info(device)
    # the others may not have taken their parts yet
    return min(free + kept, whole // count_sharing())


def _tokens(result: Any) -> list[int]:
    """Return the tokens of the best hypothesis of a result."""
    return (result[0] if isinstance(result, tuple) else result)[0][2]
