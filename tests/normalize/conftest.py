from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="module")
def stats_file(tmp_path_factory) -> Path:
    """Statistics as ESPnet's collect_stats writes them: 40 channels, mean 0.3 to 0.7, standard deviation 0.1 to 0.2."""
    mean, std = np.linspace(0.3, 0.7, 40), np.linspace(0.1, 0.2, 40)
    path = tmp_path_factory.mktemp("stats") / "feats_stats.npz"
    count = 1000
    np.savez(path, count=count, sum=count * mean, sum_square=count * (std**2 + mean**2))
    return path
