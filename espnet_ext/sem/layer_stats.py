"""``model: espnet_layer_stats``: statistics of layers in the training log."""

import torch
from espnet2.asr.espnet_model import ESPnetASRModel
from espnet2.torch_utils.device_funcs import force_gatherable


class LayerStatsASRModel(ESPnetASRModel):
    """Report statistics of the layers of ESPnet's hybrid model in the training log.

    A layer reports by a method ``layer_stats()``, which returns numbers by name, means
    over the utterances of the last batch, and nothing in evaluation, such as
    ``masked=0.512`` of ``sem_global_mvn``. Parameters are ESPnet's.
    """

    def forward(
        self,
        speech: torch.Tensor,
        speech_lengths: torch.Tensor,
        text: torch.Tensor,
        text_lengths: torch.Tensor,
        **kwargs: torch.Tensor,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor], torch.Tensor]:
        """Return loss, statistics and weight of a batch, as ESPnet's model does."""
        loss, stats, weight = super().forward(
            speech, speech_lengths, text, text_lengths, **kwargs
        )
        layers: dict[str, torch.Tensor] = {}
        for module in self.modules():
            if hasattr(module, "layer_stats"):
                layers |= module.layer_stats()
        # Numbers without a dimension cannot be gathered from several GPUs; ESPnet's
        # model has done this with its own.
        return loss, stats | force_gatherable(layers, loss.device), weight
