"""``encoder: stored_encodings``: the outputs of an encoder that was run before."""

import torch
from espnet2.asr.encoder.abs_encoder import AbsEncoder


class StoredEncodings(AbsEncoder):
    """Pass on the saved outputs of an encoder, on which decoders are trained.

    See :mod:`espnet_ext.codeswitch.encodings`. Give ``frontend: null``, ``normalize:
    null`` and ``input_size``, the size of the encodings, and read ``feats.scp`` as data
    ``speech`` of type ``kaldi_ark``.
    """

    def __init__(self, input_size: int):
        super().__init__()
        self._size = input_size

    def output_size(self) -> int:
        return self._size

    def forward(
        self,
        xs_pad: torch.Tensor,
        ilens: torch.Tensor,
        prev_states: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Return the encodings, (B, T, D), and their lengths, (B,), as they are."""
        return xs_pad, ilens, None
