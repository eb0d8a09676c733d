"""The memory and time of a training step on a long recording (P5, Table 1).

On an accelerator both are measured. On a CPU memory is counted with torch's fake
tensors, which have a shape but no contents: every operation of the step runs, but
nothing is computed or allocated. The bytes that are alive at a time are the same as
with real tensors, so a context of an hour can be counted on a laptop.
"""

import contextlib
import math
import statistics
import time
import weakref
from collections.abc import Callable

import torch
from espnet2.asr.ctc import CTC
from espnet2.asr.encoder.abs_encoder import AbsEncoder
from espnet2.asr.espnet_model import ESPnetASRModel
from madgrad import MADGRAD
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

BANDS = 80  # Mel bands (P5, section 3.1)
FRAMES_PER_SECOND = 100  # a hop of 160 samples at 16 kHz
TOKENS = 4096  # 4095 and the blank (P5, section 3.2)
# of speech, roughly: 150 words a minute and some words of two tokens
TOKENS_PER_SECOND = 3
MADGRAD_STATES = 3  # tensors of the size of the parameters that MADGRAD keeps


def choose_attention(flash: bool) -> contextlib.AbstractContextManager:
    """Compute attention by ``flash``, or literally as in the equation.

    The latter stores a score for each pair of frames.
    """
    return sdpa_kernel(SDPBackend.FLASH_ATTENTION if flash else SDPBackend.MATH)


def make_ctc_model(encoder: AbsEncoder) -> ESPnetASRModel:
    """Make ESPnet's model of an encoder and CTC alone, on ``BANDS`` Mel bands."""
    tokens = [
        "<blank>",
        "<unk>",
        *(f"piece{number}" for number in range(TOKENS - 3)),
        "<sos/eos>",
    ]
    parts = (
        "frontend",
        "specaug",
        "normalize",
        "preencoder",
        "postencoder",
        "decoder",
        "joint_network",
    )
    return ESPnetASRModel(
        vocab_size=TOKENS,
        token_list=tokens,
        encoder=encoder,
        ctc=CTC(TOKENS, encoder.output_size()),
        ctc_weight=1.0,
        report_cer=False,
        report_wer=False,
        **dict.fromkeys(parts),
    )


def take_step(model: ESPnetASRModel, seconds: float, half: bool) -> None:
    """Pass forward and backward through a model, with one recording of noise.

    ``half``: with autocasting to bfloat16.
    """
    device = next(model.parameters()).device
    frames = round(seconds * FRAMES_PER_SECOND)
    tokens = math.ceil(seconds * TOKENS_PER_SECOND)
    features = torch.randn(1, frames, BANDS, device=device)
    text = torch.randint(2, TOKENS - 1, (1, tokens), device=device)
    frame_counts = torch.tensor([frames], device=device)
    token_counts = torch.tensor([tokens], device=device)
    with torch.autocast(device.type, torch.bfloat16, enabled=half):
        loss, _, _ = model(features, frame_counts, text, token_counts)
    loss.backward()


def count_peak(
    make: Callable[[], ESPnetASRModel], seconds: float, half: bool, flash: bool
) -> int:
    """Count the bytes that are alive at the peak of a training step.

    Parameters, gradients and MADGRAD's states are among them. Memory that an operation
    allocates and frees within itself is not counted; for attention and CTC it is
    little.
    """
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = make()
        model.ctc.ctc_loss = CTCLossMemory()
        # lengths computed without values are unknown, but the one recording is as long
        # as the batch
        model.encoder.register_forward_hook(
            lambda _, args, out: (out[0], torch.tensor([out[0].size(1)]), None)
        )
        with LiveBytes() as live, choose_attention(flash):
            for parameter in model.parameters():
                live.add(parameter)
            states = MADGRAD_STATES * live.now
            take_step(model, seconds, half)
    return states + live.peak


def find_longest_context(
    fits: Callable[[int], bool], first: int = 960, precision: float = 0.02
) -> int:
    """Return the longest context that fits, in whole seconds.

    It is found by doubling from ``first``, and then by bisection to a relative
    ``precision``; 0 if not even one second fits.
    """
    # ``low`` fits, or is 0; ``high`` does not fit
    low = 0
    high = first
    while fits(high):
        low = high
        high = 2 * high
    while high - low > max(1, precision * low):
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def make_device_test(
    model: ESPnetASRModel, half: bool, flash: bool
) -> Callable[[int], bool]:
    """Return a test for :func:`find_longest_context`, by steps on the model's device.

    A length fits if a step of the model and its optimizer ends well.
    """
    optimizer = MADGRAD(model.parameters())

    def fits(seconds: int) -> bool:
        try:
            with choose_attention(flash):
                take_step(model, seconds, half)
            optimizer.step()
            return True
        except torch.OutOfMemoryError:
            return False
        finally:
            # nothing of a length may take memory from the next
            optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()

    return fits


def measure_frames_per_second(
    model: ESPnetASRModel, seconds: float, half: bool, flash: bool, rounds: int = 3
) -> float:
    """Measure the input frames per second of training, including the optimizer.

    It is the median of some rounds after a first one, which loads kernels. On a CPU
    it is the processor time of this process, so that other work on the machine counts
    less.
    """
    optimizer = MADGRAD(model.parameters())
    times = []
    on_device = next(model.parameters()).is_cuda
    clock = time.perf_counter if on_device else time.process_time
    for _ in range(rounds + 1):
        start = clock()
        with choose_attention(flash):
            take_step(model, seconds, half)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if on_device:
            torch.cuda.synchronize()
        times.append(clock() - start)
    return seconds * FRAMES_PER_SECOND / statistics.median(times[1:])


class CTCLossMemory(torch.nn.Module):
    """Allocates what torch's CTC loss does, which has no kernel for fake tensors.

    These are T x (2 S + 1) scores each way.
    """

    def forward(self, log_probs, targets, frames, tokens):
        """Return a loss for each recording, (B,).

        Arguments are those of ``torch.nn.CTCLoss``, log-probabilities (T, B, V).
        """
        # targets of all recordings, one after the other; a blank around each of them
        states = 2 * len(targets) // log_probs.size(1) + 1
        return _CTCLossMemory.apply(log_probs, states)


class _CTCLossMemory(torch.autograd.Function):
    @staticmethod
    def forward(ctx, log_probs, states):
        frames, batch, _ = log_probs.shape
        ctx.save_for_backward(log_probs, log_probs.new_empty(batch, frames, states))
        return log_probs.new_empty(batch)

    @staticmethod
    def backward(ctx, gradient):
        log_probs, forwards = ctx.saved_tensors
        backwards = torch.empty_like(forwards)
        result = torch.empty_like(log_probs)
        del backwards  # alive until here, as in torch's kernel
        return result, None


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all tensors that are alive: now, and at most."""

    def __init__(self):
        super().__init__()
        self.now = 0
        self.peak = 0
        self._known: set[int] = set()

    def add(self, tensor: torch.Tensor) -> None:
        """Count a tensor's storage, unless it has been counted."""
        # views share the storage of a tensor, and keep it alive
        storage = tensor.untyped_storage()
        key = id(storage)
        size = storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.add(leaf)
        return result
