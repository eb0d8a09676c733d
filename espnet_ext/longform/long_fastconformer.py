"""``encoder: long_fastconformer``: P5's encoder for inputs of up to an hour.

It has Conformer layers over 8-fold subsampling.
"""

import math
from collections.abc import Sequence

import torch
from espnet2.asr.ctc import CTC
from espnet2.asr.encoder.abs_encoder import AbsEncoder
from espnet2.legacy.nets.pytorch_backend.transformer.embedding import (
    LearnableFourierPosEnc,
)
from espnet2.legacy.nets.pytorch_backend.transformer.subsampling import TooShortUttError

from espnet_ext.errors import InputError
from espnet_ext.longform.batch_renorm import Ramp
from espnet_ext.longform.conformer import NORMS, ConformerLayer
from espnet_ext.longform.conv_subsampling import ConvSubsampling
from espnet_ext.longform.positions import compute_rotation, compute_sinusoids
from espnet_ext.upstream.padding import Padding

# Convolutions of stride 2, whether they are depthwise separable, and their channels
# (None: output_size).
SUBSAMPLING = {"fastconformer": (3, True, 256), "conformer": (2, False, None)}
POSITIONS = ("rotary", "sinusoidal", "fourier", "none")


class LongFastConformerEncoder(AbsEncoder):
    """Run FastConformer with dense attention and self-conditioned CTC.

    See P5, sections 2.1, 2.4 and 3.2.

    Attention has no mask, so that torch can use its flash kernel: it runs once for each
    length of a batch's utterances.

    Self-conditioning (Nozaki & Komatsu 2021): after every layer but the last, the
    softmax of the model's CTC head is projected back and added to the input of the next
    layer. ESPnet's ``ESPnetASRModel`` passes the head, and sets ``conditioning_layer``
    if ``interctc_use_conditioning`` is true. There is no intermediate loss.

    Args:
        linear_units: hidden units of the feed-forward modules; None: 4 times
            ``output_size``.
        cnn_module_kernel: frames of the layers' depthwise convolution, an odd number.
        subsampling: ``fastconformer``: 8-fold by depthwise separable convolutions;
            ``conformer``: 4-fold by full ones.
        subsampling_channels: channels of these; None: 256 for ``fastconformer``,
            ``output_size`` for ``conformer``.
        norm: in the convolution module: ``batch_renorm``, ``batch`` or ``layer``.
            Padding does not count in statistics.
        renorm_steps: for ``batch_renorm``, three numbers of updates: until the first it
            is plain batch normalisation; after the second and third its shift and its
            factor have reached their limits.
        positions: ``rotary``, ``sinusoidal``, ``fourier`` or ``none``. ``sinusoidal``:
            sines and cosines are added to the input times the root of D, as in ESPnet.
            ``fourier``: ESPnet's learnable Fourier features, with a frequency per pair
            of dimensions and divided by the root of D, are added to the input as it is;
            the published models that P5 calls sinusoidal are of this kind.
        rotary_base: base period of rotary encodings, theta in P5, section 2.4.
        double_norm: whether the last layer normalisation is applied twice, as in P5's
            published models.
    """

    def __init__(
        self,
        input_size: int,
        output_size: int = 768,
        attention_heads: int = 6,
        linear_units: int | None = None,
        num_blocks: int = 6,
        cnn_module_kernel: int = 9,
        subsampling: str = "fastconformer",
        subsampling_channels: int | None = None,
        norm: str = "batch_renorm",
        renorm_steps: Sequence[int] = (5000, 25000, 40000),
        positions: str = "rotary",
        rotary_base: float = 1.5e6,
        self_conditioning: bool = True,
        double_norm: bool = False,
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
    ):
        super().__init__()
        for option, value, known in (
            ("subsampling", subsampling, SUBSAMPLING),
            ("norm", norm, NORMS),
            ("positions", positions, POSITIONS),
        ):
            if value not in known:
                raise InputError(
                    f"long_fastconformer: {option} is {value!r}, it must be one "
                    f"of {', '.join(known)}"
                )
        _check_sizes(
            output_size, attention_heads, num_blocks, cnn_module_kernel, rotary_base
        )
        self._output_size = output_size
        self.head_size = output_size // attention_heads
        if positions == "rotary" and self.head_size % 2:
            raise InputError(
                "long_fastconformer: rotary positions need heads of an even "
                f"size, not {self.head_size}"
            )
        if positions in ("sinusoidal", "fourier") and output_size % 2:
            raise InputError(
                f"long_fastconformer: {positions} positions need an even "
                f"output_size, not {output_size}"
            )
        self.positions = positions
        self.rotary_base = rotary_base
        self.double_norm = double_norm
        self.fourier: LearnableFourierPosEnc | None = None
        if positions == "fourier":
            self.fourier = LearnableFourierPosEnc(output_size)
        stages, separable, channels = SUBSAMPLING[subsampling]
        channels = subsampling_channels or channels or output_size
        self.subsampling = ConvSubsampling(
            input_size, output_size, channels, stages, separable
        )
        self.layers = torch.nn.ModuleList(
            ConformerLayer(
                output_size,
                attention_heads,
                linear_units or 4 * output_size,
                cnn_module_kernel,
                norm,
                _make_ramp(renorm_steps),
                dropout_rate,
                attention_dropout_rate,
            )
            for _ in range(num_blocks)
        )
        self.after_norm = torch.nn.LayerNorm(output_size)
        # ESPnetASRModel reads this; a single layer is the last one and is not
        # conditioned
        self.interctc_use_conditioning = self_conditioning and num_blocks > 1
        self.conditioning_layer: torch.nn.Linear | None = None

    def output_size(self) -> int:
        return self._output_size

    def forward(
        self,
        xs_pad: torch.Tensor,
        ilens: torch.Tensor,
        prev_states: torch.Tensor | None = None,
        ctc: CTC | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Encode features, (B, T, input_size), with lengths, (B,), in any order.

        ``ctc`` conditions the layers. Returns encodings, (B, ceil(T / 8), D) (4 for
        ``conformer``), 0 on padded frames; their lengths, (B,); None. Raises
        TooShortUttError for an utterance without a frame, and InputError for
        self-conditioning without a CTC head.
        """
        shortest = int(ilens.min())
        # ESPnet's inference knows this error, and gives an empty result.
        if shortest < 1:
            raise TooShortUttError("has no frame, return empty results", shortest, 0)
        # Without what pads all utterances, as in a part of a larger batch.
        x, lengths = self.subsampling(xs_pad[:, : int(ilens.max())], ilens)
        frames = x.size(1)
        padding = Padding.from_lengths(lengths, frames)
        turned = None
        if self.positions == "rotary":
            turned = compute_rotation(
                frames, self.head_size, self.rotary_base, x.device
            )
        elif self.positions == "sinusoidal":
            scaled = x * math.sqrt(self._output_size)
            x = scaled + compute_sinusoids(frames, self._output_size, device=x.device)
        elif self.fourier is not None:
            x = self.fourier(x)
        for number, layer in enumerate(self.layers, start=1):
            x = layer(x, padding, turned)
            if self.interctc_use_conditioning and number < len(self.layers):
                x = x + self._condition(x, ctc)
        if self.double_norm:
            x = self.after_norm(x)
        x = self.after_norm(x)
        # Padding went through the norms, which make something of zeros.
        if padding is not None:
            x = x.masked_fill(~padding.valid.unsqueeze(-1), 0.0)
        return x, lengths, None

    def _condition(self, x: torch.Tensor, ctc: CTC | None) -> torch.Tensor:
        """Return what the CTC head's posteriors add to the next layer's input."""
        if ctc is None or self.conditioning_layer is None:
            raise InputError(
                "long_fastconformer: self_conditioning needs the model's CTC head: "
                "give model_conf a ctc_weight above 0, or encoder_conf "
                "self_conditioning: false"
            )
        # The head reads what it reads after the last layer: normalised by the same.
        posteriors = ctc.softmax(self.after_norm(x))
        return self.conditioning_layer(posteriors)


def _check_sizes(size: int, heads: int, blocks: int, kernel: int, base: float) -> None:
    """Raise an InputError for sizes that make no encoder."""
    if heads < 1 or size % heads:
        raise InputError(
            f"long_fastconformer: {heads} attention_heads do not divide an "
            f"output_size of {size}"
        )
    if blocks < 1:
        raise InputError(
            f"long_fastconformer: num_blocks is {blocks}, it must be 1 or more"
        )
    if kernel < 1 or kernel % 2 == 0:
        raise InputError(
            f"long_fastconformer: cnn_module_kernel is {kernel}, it must be an "
            "odd number"
        )
    if base <= 1.0:
        raise InputError(
            f"long_fastconformer: rotary_base is {base}, it must be above 1"
        )


def _make_ramp(steps: Sequence[int]) -> Ramp:
    """Return the ramp of three numbers of updates, as ``renorm_steps`` has them."""
    if len(steps) != 3 or not 0 <= steps[0] < min(steps[1:]):
        raise InputError(
            f"long_fastconformer: renorm_steps is {list(steps)}, it must be three "
            "numbers of updates: the first 0 or "
            "more, the others above it"
        )
    return Ramp(*steps)
