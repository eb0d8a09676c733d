"""``--fast_decoder`` with ``--batch_size``: many utterances in one search.

They are sorted by length and batched by memory.

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
WINDOW = 512
WINDOW_SIZE = 2**26
# More utterances at once make no processor faster.
MOST = 20
MOST_ON_GPU = 64
SHARE = 0.25  # of the memory that is free, which a search may take by an estimate
COMPARED = 20  # utterances that a search with 8 bits also decodes in float32


def read_windows(
    loader: Iterable[tuple[list[str], dict[str, torch.Tensor]]],
) -> Iterator[tuple[list[str], dict[str, list]]]:
    """Yield many utterances at once from ESPnet's iterator over single ones."""
    keys: list[str] = []
    speech: list[torch.Tensor] = []
    for (key,), batch in loader:
        keys.append(key)
        speech.append(batch["speech"][0])
        size = sum(each.numel() for each in speech)
        if len(keys) == WINDOW or size > WINDOW_SIZE:
            yield keys, {"speech": speech}
            keys = []
            speech = []
    if keys:
        yield keys, {"speech": speech}


class WholeSets(asr_inference.Speech2Text):
    """ESPnet's ``Speech2Text`` with a fast search of several utterances.

    A search takes ``batch_size`` utterances at most, or with ``auto`` as many as memory
    has room for.
    """

    batch_size: int | str
    exact: Self | None = None  # the same in float32, if this one has 8 bits

    @torch.no_grad()
    def batch_decode(
        self,
        speech: Sequence[Any],
        speech_lengths: Sequence[int] | None = None,
    ) -> list[Any]:
        """Recognise utterances: samples, (N,), or features, (N, D), of each.

        They may also be a padded batch and its lengths. Returns for each, in the order
        given, what ESPnet gives for it alone.
        """
        if speech_lengths is not None:
            padded = zip(speech, speech_lengths, strict=True)
            speech = [each[:length] for each, length in padded]
        results: list[Any] = [None] * len(speech)
        batch: list[tuple[int, torch.Tensor, Any]] = []
        # From the longest on: a batch is padded to its first one, by which memory is
        # estimated, and what does not fit shows at once.
        lengths = [len(each) for each in speech]
        order = sorted(range(len(speech)), key=lengths.__getitem__, reverse=True)
        for number in order:
            try:
                encodings, intermediate = self.encode(speech[number])
            except TooShortUttError as error:
                logging.warning(f"utterance {number + 1} of {len(speech)}: {error}")
                results[number] = asr_inference._too_short_result(
                    self.nbest, self.enh_s2t_task, self
                )
                continue
            if batch and len(batch) >= self._choose_batch_size(longest=batch[0][1]):
                self._search(batch, results)
                batch = []
            batch.append((number, encodings, intermediate))
        if batch:
            self._search(batch, results)
        if self.exact is not None:
            self._compare_with_exact(self.exact, speech[:COMPARED], results)
            self.exact = None
        return results

    def _compare_with_exact(
        self,
        exact: Self,
        speech: Sequence[Any],
        results: Sequence[Any],
    ) -> None:
        """Log how many of the first hypotheses are those of float32."""
        pairs = list(zip(results, exact.batch_decode(speech), strict=False))
        same = 0
        for ours, theirs in pairs:
            same += _get_best_tokens(ours) == _get_best_tokens(theirs)
        logging.warning(
            f"8 bits give the hypothesis of float32 for {same} of the first "
            f"{len(pairs)} utterances"
        )

    @torch.no_grad()
    def encode(self, speech: Any) -> tuple[torch.Tensor, Any]:
        """Return encodings, (T, D), and what intermediate layers give, or None."""
        dtype = getattr(torch, self.dtype)
        samples = torch.as_tensor(speech).unsqueeze(0).to(self.device, dtype)
        count = samples.size(1)
        # ESPnet's measure of the real time factor reads this line.
        logging.info(f"speech length: {count}")
        lengths = torch.tensor([count], device=self.device)
        encodings, _ = self.asr_model.encode(samples, lengths)
        intermediate = None
        if isinstance(encodings, tuple):
            encodings, intermediate = encodings
        return encodings[0], intermediate

    def _choose_batch_size(self, longest: torch.Tensor) -> int:
        """Return how many utterances to search at once.

        ``longest``: encodings of the longest one, (T, D).
        """
        if self.batch_size != AUTO:
            return int(self.batch_size)
        search = self.beam_search
        frames, width = longest.shape
        most = MOST_ON_GPU if longest.is_cuda else MOST
        free = count_free_bytes(longest.device)
        # For each hypothesis its encodings, and keys and values of them and of the
        # tokens; for each utterance CTC's labels, and two copies of them.
        values_per_frame = 4 * search.beam_size * width + 3 * search.n_vocab
        bytes_each = longest.element_size() * frames * values_per_frame
        return max(1, min(most, int(SHARE * free / bytes_each)))

    def _search(
        self,
        batch: Sequence[tuple[int, torch.Tensor, Any]],
        results: list[Any],
    ) -> None:
        """Search a batch; one that memory has no room for in halves."""
        numbers, encodings, intermediates = zip(*batch, strict=True)
        lengths = torch.tensor([len(each) for each in encodings], device=self.device)
        padded = torch.nn.utils.rnn.pad_sequence(list(encodings), batch_first=True)
        try:
            found = self.beam_search(
                padded, self.maxlenratio, self.minlenratio, x_lengths=lengths
            )
        except Exception as error:
            # One utterance has no halves: then the error is the caller's.
            half = len(batch) // 2
            if not half or not asr_inference.is_out_of_memory_error(error):
                raise
            asr_inference.release_accelerator_memory()
            self._search(batch[:half], results)
            self._search(batch[half:], results)
            return
        for number, intermediate, nbest in zip(
            numbers, intermediates, found, strict=True
        ):
            result = self._hyps_to_results(nbest)
            # ESPnet returns a pair where the encoder has CTC within.
            if intermediate is not None:
                result = (result, self._decode_interctc(intermediate))
            results[number] = result


def count_free_bytes(device: torch.device) -> int:
    """Return the bytes that a search may count on.

    Of a GPU that several processes share, it is the part of this one.
    """
    if device.type != "cuda":
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # PyTorch keeps what earlier searches have released, which the driver calls taken
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    free, whole = torch.cuda.mem_get_info(device)
    # the others may not have taken their parts yet
    return min(free + kept, whole // count_sharing())


def _get_best_tokens(result: Any) -> list[int]:
    """Return the token numbers of the best hypothesis of a result of ESPnet's."""
    # With intermediate layers, a result is a pair of the n-best list and theirs.
    nbest = result[0] if isinstance(result, tuple) else result
    _, _, token_numbers, *_ = nbest[0]
    return token_numbers
