#!/usr/bin/env python3
"""A model that P5's authors have published, as one that `espnet-ext decode long` and `transcribe` take.

Writes config.yaml, model.pth and bpe.model. A checkpoint is a pickle, which can run code. Tensors and plain values are
read safely, and settings of OmegaConf; other objects only with --trust_pickle: give it for sources that you trust.
"""

import argparse
from pathlib import Path

from espnet_ext.command import run_main
from espnet_ext.longform.published import import_checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True, type=Path, help="step_<n>.pt of the authors")
    parser.add_argument("--bpemodel", required=True, type=Path, help="lcasr/artifacts/tokenizer.model of their code")
    parser.add_argument("--output", required=True, type=Path, help="a new folder")
    parser.add_argument("--context", type=float, help="seconds of a window (default: the checkpoint's)")
    parser.add_argument("--trust_pickle", action="store_true", help="run the code of the checkpoint's objects")
    args = parser.parse_args()
    import_checkpoint(args.checkpoint, args.bpemodel, args.output, args.context, args.trust_pickle)
    print(f"{args.output}/config.yaml and {args.output}/model.pth")


if __name__ == "__main__":
    run_main(main)
