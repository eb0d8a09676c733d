"""``model: espnet_layer_stats``: ESPnet's ASR model, whose training log also shows what its layers report."""

import torch
from espnet2.asr.espnet_model import ESPnetASRModel
from espnet2.torch_utils.device_funcs import force_gatherable


class LayerStatsASRModel(ESPnetASRModel):
    """ESPnet's hybrid CTC/attention model with the statistics of its layers among its own.

    A layer that has something to report has a method ``layer_stats()``, which returns numbers by name, means over the
    utterances of the batch just seen, or nothing in evaluation. ESPnet's reporter then shows them for every interval
    and epoch, as ``sem_global_mvn`` does with the share of masked bins: ``masked=0.512``. Parameters and their names
    are those of ESPnet's model, so that a checkpoint loads in either.
    """

    def forward(
        self,
        speech: torch.Tensor,
        speech_lengths: torch.Tensor,
        text: torch.Tensor,
        text_lengths: torch.Tensor,
        **kwargs: torch.Tensor,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor], torch.Tensor]:
        """Loss, statistics and weight of a batch, as ``ESPnetASRModel.forward`` gives them."""
        loss, stats, weight = super().forward(speech, speech_lengths, text, text_lengths, **kwargs)
        layers: dict[str, torch.Tensor] = {}
        for module in self.modules():
            if hasattr(module, "layer_stats"):
                layers |= module.layer_stats()
        return loss, stats | force_gatherable(layers, loss.device), weight
