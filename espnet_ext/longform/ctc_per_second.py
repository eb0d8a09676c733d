"""``model: ctc_per_second``: ESPnet's ASR model with the loss of a second of audio."""

from typing import Any

import torch
from espnet2.asr.espnet_model import ESPnetASRModel


class CTCPerSecondModel(ESPnetASRModel):
    """Divide ESPnet's loss by the seconds of a batch, not by its utterances.

    The loss is that of the hybrid CTC/attention model.

    ESPnet's loss is a mean over utterances. So an hour of audio in one sequence has 360
    times the loss, and the gradient, of an hour in sequences of 10 s, and clipping at a
    fixed norm treats the two differently. Divided by seconds, equal audio has equal
    loss and equal gradients at all lengths, as in the trainings that P5's authors
    published. Batches count by their seconds in ESPnet's log and across GPUs.
    ``input_seconds`` are those of a frame of features, or of a sample if the model has
    a frontend.
    """

    def __init__(self, *args: Any, input_seconds: float = 0.01, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.input_seconds = input_seconds

    def forward(
        self,
        speech: torch.Tensor,
        speech_lengths: torch.Tensor,
        text: torch.Tensor,
        text_lengths: torch.Tensor,
        **kwargs: torch.Tensor,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor], torch.Tensor]:
        """Return loss of a second, statistics and the batch's seconds.

        Arguments are those of ``ESPnetASRModel.forward``.
        """
        loss, stats, _ = super().forward(
            speech, speech_lengths, text, text_lengths, **kwargs
        )
        seconds = speech_lengths.sum()[None] * self.input_seconds
        # ESPnet's mean over utterances becomes their sum, and that is divided.
        scale = len(speech) / seconds
        losses = {}
        for name, value in stats.items():
            # Error rates are no sums over time, and stay as they are.
            if name.startswith("loss") and value is not None:
                losses[name] = value * scale
        # In place of the batch's size, by which ESPnet weights means.
        return loss * scale, stats | losses, seconds
