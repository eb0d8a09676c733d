"""Training configs as ESPnet's own parser reads them."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml


@pytest.fixture(scope="session")
def stats_file(tmp_path_factory) -> str:
    """Statistics of 40 channels."""
    path = tmp_path_factory.mktemp("stats") / "feats_stats.npz"
    np.savez(path, count=100, sum=np.full(40, 50.0), sum_square=np.full(40, 30.0))
    return str(path)


@pytest.fixture
def parse(stats_file, tmp_path) -> Callable[[dict], Namespace]:
    """Return a function that reads a config as ESPnet does, so that an unknown key is
    found.
    """

    def parse(config: dict) -> Namespace:
        from espnet2.tasks.asr import ASRTask

        path = Path(tmp_path) / "train.yaml"
        path.write_text(yaml.safe_dump(config))
        options = [
            "--config",
            str(path),
            "--normalize_conf",
            f"stats_file={stats_file}",
            "--output_dir",
            str(tmp_path),
        ]
        return ASRTask.get_parser().parse_args([*options, "--token_type", "bpe"])

    return parse
