#!/usr/bin/env python3
"""CTC prefix scores of a search's steps: ScanCTCPrefixScore against ESPnet's CTCPrefixScoreTH, one thread, same inputs.

ESPnet's walks from frame to frame in Python: its time is that of as many small operations. Ours is bound by the
logarithms and exponentials of some ten passes over frames x hypotheses x labels numbers in double precision.
"""

import time
from functools import partial

import torch
from espnet2.legacy.nets.ctc_prefix_score import CTCPrefixScoreTH

from espnet_ext.upstream.ctc_prefix import ScanCTCPrefixScore

# frames, hypotheses, labels that are scored, vocabulary
SIZES = {
    "mini, beam 4": (160, 4, 6, 300),
    "P2, 20 s, beam 36": (250, 36, 54, 10000),
    "60 s, beam 16": (750, 16, 24, 5000),
}
STEPS = 20


def search(kind: type, log_probabilities: torch.Tensor, hypotheses: int, scored: int) -> float:
    """Seconds of processor time a step."""
    _, frames, vocabulary = log_probabilities.shape
    scorer = kind(log_probabilities.clone(), torch.tensor([frames]), 0, vocabulary - 1)
    generator = torch.Generator().manual_seed(0)
    draw = partial(torch.randint, 1, vocabulary - 1, generator=generator)
    prefixes, state = torch.full((hypotheses, 1), vocabulary - 1), None
    began = time.process_time()
    for _ in range(STEPS):
        ids = torch.stack([torch.randperm(vocabulary - 2, generator=generator)[:scored] + 1 for _ in range(hypotheses)])
        _, new = scorer(prefixes, state, ids)
        best = torch.arange(hypotheses) * vocabulary + ids[:, 0]
        state = scorer.index_select_state(new, best.view(1, -1))
        prefixes = torch.cat((prefixes, draw((hypotheses, 1))), 1)
    return (time.process_time() - began) / STEPS


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'':20s} {'ESPnet, ms':>12s} {'ours, ms':>12s} {'ratio':>8s}")
    for name, (frames, hypotheses, scored, vocabulary) in SIZES.items():
        scores = torch.randn(1, frames, vocabulary, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
        times = []
        for kind in (CTCPrefixScoreTH, ScanCTCPrefixScore):
            search(kind, scores[:, :20], hypotheses, scored)  # warm
            times.append(1000 * min(search(kind, scores, hypotheses, scored) for _ in range(3)))
        print(f"{name:20s} {times[0]:12.1f} {times[1]:12.1f} {times[0] / times[1]:8.1f}")


if __name__ == "__main__":
    main()
