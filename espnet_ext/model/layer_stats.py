"""``model: espnet_layer_stats``: ESPnet's ASR model with statistics of its layers in the training log."""

import torch
from espnet2.asr.espnet_model import ESPnetASRModel
from espnet2.torch_utils.device_funcs import force_gatherable


class LayerStatsASRModel(ESPnetASRModel):
    """ESPnet's hybrid CTC/attention model that also reports statistics of its layers.

    A layer reports by a method ``layer_stats()``, which returns numbers by name, means over the utterances of the last
    batch, and nothing in evaluation. ESPnet's reporter shows them for every interval and epoch, such as
    ``masked=0.512``, the share of masked bins from ``sem_global_mvn``. Parameters and their names are those of
    ESPnet's model, so that a checkpoint loads in either.
    """

    def forward(
        self,
        speech: torch.Tensor,
        speech_lengths: torch.Tensor,
        text: torch.Tensor,
        text_lengths: torch.Tensor,
        **kwargs: torch.Tensor,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor], torch.Tensor]:
        """Return loss, statistics and weight of a batch, as ``ESPnetASRModel.forward`` returns them."""
        loss, stats, weight = super().forward(speech, speech_lengths, text, text_lengths, **kwargs)
        layers: dict[str, torch.Tensor] = {}
        for module in self.modules():
            if hasattr(module, "layer_stats"):
                layers |= module.layer_stats()
        return loss, stats | force_gatherable(layers, loss.device), weight
