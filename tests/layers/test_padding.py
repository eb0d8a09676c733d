"""The mask of a padded batch."""

import torch

from espnet_ext.layers.padding import valid_frames


def test_valid_frames():
    valid = valid_frames(torch.tensor([3, 1]), 4)
    assert valid.tolist() == [[True, True, True, False], [True, False, False, False]]
