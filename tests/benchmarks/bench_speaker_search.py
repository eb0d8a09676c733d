"""The search of speaker-attributed ASR on several windows at once, against the same search window by window.

    python tests/benchmarks/bench_speaker_search.py [--scale full] [--windows 16] [--beam 4] [--device cuda]

The decoder is that of `egs/libricss_stitch`, `--recogniser lstm`; weights and encodings of windows of 16 s are random,
with eight profiles each, and all searches take the same number of steps.
"""

import argparse
import logging
import statistics
import time
from pathlib import Path

import torch
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.scorers.length_bonus import LengthBonus

from espnet_ext.decoder.batch_rnn import BatchRNNDecoder
from espnet_ext.layers.speaker_attributed_decoder import SpeakerAttributedDecoder
from espnet_ext.multitalker.search import SpeakerScorer
from espnet_ext.work.yaml_files import deep_merge, read_yaml

CONF = Path(__file__).parents[2] / "egs" / "libricss_stitch" / "conf"
SECONDS, PROFILES, SIZE = 16, 8, 256  # of a window; of an inventory; of a profile and of the speaker encodings
ROUNDS = 3


def build(scale: str) -> tuple[SpeakerAttributedDecoder, int, int, int]:
    """The decoder of a scale, its vocabulary, the dimension of its encodings, and the frames of a window."""
    config = read_yaml(CONF / "full.yaml")
    if scale != "full":
        config = deep_merge(config, read_yaml(CONF / f"{scale}.yaml"))
    model, vocabulary = config["sa_asr_lstm"], config["settings"]["vocab_size"]
    frames = SECONDS * 100
    for factor in model["encoder_conf"]["pooling"]:
        frames //= factor
    encodings = 2 * model["encoder_conf"]["hidden_size"]
    decoder = BatchRNNDecoder(vocabulary, encodings, **model["decoder_conf"])
    speakers = model["model_conf"]["speaker_conf"]
    return SpeakerAttributedDecoder(decoder, vocabulary, SIZE, SIZE, **speakers).eval(), vocabulary, encodings, frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="mini", choices=("mini", "full"))
    parser.add_argument("--windows", type=int, default=16)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    decoder, vocabulary, size, frames = build(args.scale)
    decoder.to(args.device)
    x = torch.randn(args.windows, frames, size, device=args.device)
    speakers = torch.randn(args.windows, frames, SIZE, device=args.device)
    profiles = torch.randn(args.windows, PROFILES, SIZE, device=args.device)
    present = torch.ones(args.windows, PROFILES, dtype=torch.bool, device=args.device)

    def search(rows: slice) -> None:
        scorer = SpeakerScorer(decoder, speakers[rows], profiles[rows], present[rows])
        BatchBeamSearch(
            scorers={"decoder": scorer, "length_bonus": LengthBonus(vocabulary)},
            weights={"decoder": 1.0, "length_bonus": 0.0},
            beam_size=args.beam,
            vocab_size=vocabulary,
            sos=vocabulary - 1,
            eos=vocabulary - 1,
        )(x=x[rows], maxlenratio=-args.steps)

    alone, together = [], []
    with torch.no_grad():
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            for row in range(args.windows):
                search(slice(row, row + 1))
            middle = time.perf_counter()
            search(slice(0, args.windows))
            alone.append(middle - begin)
            together.append(time.perf_counter() - middle)
    one, several = statistics.median(alone), statistics.median(together)
    print(f"{args.windows} windows, beam {args.beam}, {args.steps} tokens, {args.device}, scale {args.scale}")
    print(f"window by window {one:.2f} s, at once {several:.2f} s: {one / several:.1f} times as fast")


if __name__ == "__main__":
    main()
