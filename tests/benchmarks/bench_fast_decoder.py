"""Recognition by ESPnet's ``Speech2Text`` and with ``fast_decoder``, from samples to
text, one thread.

    python tests/benchmarks/bench_fast_decoder.py [--output fast_decoder.json]

Two models of the size of ESPnet's own LibriSpeech recipes, with random parameters: a
conformer of 12 layers of 512 with a ``transformer`` decoder of 6 layers, and the same
encoder with an ``rnn`` decoder of one layer of 1,024; with ``--language-model`` also a
``transformer`` language model of 16 layers of 512. Each recognises the same utterances
of noise, with all options but beam and CTC's weight as they are by default; each
hypothesis has five tokens per second, so that all do the same work: ESPnet and
``fast_decoder`` one by one, then ``batch_size: auto`` and the encoder alone, both also
with 8 bits (``quantize_asr_model``); before that, steps of the CTC prefix scorers. In
turns in one process, after one that is not counted. Seconds are the processor's.
"""

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from espnet2.legacy.nets.ctc_prefix_score import CTCPrefixScoreTH
from espnet2.tasks.abs_task import AbsTask
from espnet2.tasks.asr import ASRTask
from espnet2.tasks.lm import LMTask

from espnet_ext.fast_search.ctc_prefix import LazyCTCPrefixScorer
from espnet_ext.upstream.inference import build_speech2text
from espnet_ext.work.provenance import write_record
from espnet_ext.work.yaml_files import write_yaml

RATE, VOCABULARY, ROUNDS = 16000, 5000, 3
SECONDS = (4.0, 6.0, 8.0, 10.0, 12.0)  # as in LibriSpeech's test sets
TOKENS_PER_FRAME = 0.16
CONFORMER = {
    "output_size": 512,
    "attention_heads": 8,
    "linear_units": 2048,
    "num_blocks": 12,
    "macaron_style": True,
}
CONFORMER |= {"use_cnn_module": True, "cnn_module_kernel": 31}
DECODERS: dict[str, dict[str, Any]] = {
    "transformer": {"attention_heads": 8, "linear_units": 2048, "num_blocks": 6},
    "rnn": {
        "num_layers": 1,
        "hidden_size": 1024,
        "att_conf": {"atype": "location", "adim": 512},
    },
}
LM = {"embed_unit": 128, "att_unit": 512, "head": 8, "unit": 2048, "layer": 16}
ABOUT = (
    "How many times as fast recognition is with fast_decoder, from samples to "
    "text, one thread: by decoder, beam and "
    "weight of CTC the median processor seconds of each way, and the ratios of "
    "ESPnet's to those of fast_decoder: "
    "median, least and greatest of a round"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--beams", type=int, nargs="+", default=[10], help="(default: 10)"
    )
    parser.add_argument(
        "--ctc-weights", type=float, nargs="+", default=[0.3], help="(default: 0.3)"
    )
    parser.add_argument(
        "--decoders",
        nargs="+",
        choices=list(DECODERS),
        default=list(DECODERS),
        help="(default: all)",
    )
    parser.add_argument(
        "--language-model",
        action="store_true",
        help="with a language model, of weight 0.6",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        nargs="+",
        default=SECONDS,
        help="(default: %(default)s)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="file of facts")
    args = parser.parse_args()
    logging.disable(logging.WARNING)  # the search's, about its length
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    speech = [
        random.normal(scale=0.1, size=int(RATE * seconds)) for seconds in args.seconds
    ]
    sizes = ((160, 4, 6), (250, 10, 15), (750, 16, 24), (250, 36, 54))
    prefixes = [compare_ctc(*size) for size in sizes]
    print(*prefixes, sep="\n", flush=True)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for decoder in args.decoders:
            paths = write_model(Path(folder) / decoder, decoder, DECODERS[decoder])
            for beam in args.beams:
                for weight in args.ctc_weights:
                    case = {
                        "decoder": decoder,
                        "beam": beam,
                        "ctc_weight": weight,
                        "lm": args.language_model,
                    }
                    search = {
                        "beam_size": beam,
                        "ctc_weight": weight,
                        "maxlenratio": TOKENS_PER_FRAME,
                        "minlenratio": TOKENS_PER_FRAME - 0.01,
                    }
                    search |= (
                        write_lm(Path(folder) / "lm") if args.language_model else {}
                    )
                    found.append(case | compare(paths | search, speech, args.rounds))
                    print(found[-1], flush=True)
    if args.output:
        command = (
            "python tests/benchmarks/bench_fast_decoder.py --output fast_decoder.json"
        )
        values = {
            "seconds": args.seconds,
            "vocabulary": VOCABULARY,
            "rounds": args.rounds,
            "cases": found,
            "ctc": prefixes,
        }
        write_record(args.output, ABOUT, command, values)


class Given(torch.nn.Module):
    """In place of ESPnet's CTC layer: log-probabilities are given."""

    log_softmax = staticmethod(torch.clone)


def compare_ctc(
    frames: int, hypotheses: int, labels: int, steps: int = 4
) -> dict[str, Any]:
    """Milliseconds of a step of ESPnet's exact CTC prefix scorer and of ours, and their
    ratio.
    """
    x = torch.randn(1, frames, VOCABULARY).log_softmax(-1)
    ids = torch.stack(
        [1 + torch.randperm(VOCABULARY - 2)[:labels] for _ in range(hypotheses)]
    )
    rows, columns = torch.arange(hypotheses), torch.zeros(hypotheses, dtype=torch.long)

    def espnet() -> None:
        state, prefixes = None, torch.full((hypotheses, 1), VOCABULARY - 1)
        for _ in range(steps):
            _, state = theirs(prefixes, state, ids)
            state = theirs.index_select_state(
                state, (rows * VOCABULARY + ids[:, 0]).unsqueeze(0)
            )
            prefixes = torch.cat((prefixes, ids[:, :1]), 1)

    def fast() -> None:
        prefixes = ours.make_empty_prefixes(hypotheses)
        for _ in range(steps):
            prefixes = ours.advance(ours.extend(prefixes, ids)[1], rows, columns)

    eos = VOCABULARY - 1
    theirs, ours = (
        CTCPrefixScoreTH(x.clone(), torch.tensor([frames]), 0, eos),
        LazyCTCPrefixScorer(Given(), eos),
    )
    ours.batch_init_state(x)
    times: dict[str, list[float]] = {"espnet": [], "ours": []}
    for _ in range(2 * ROUNDS + 1):
        for name, way in (("espnet", espnet), ("ours", fast)):
            start = time.process_time()
            way()
            times[name].append(1000 * (time.process_time() - start) / steps)
    before, after = (statistics.median(each[1:]) for each in times.values())
    size = {"frames": frames, "hypotheses": hypotheses, "labels": labels}
    return size | {"espnet_ms": before, "ours_ms": after, "ratio": before / after}


def write_model(folder: Path, decoder: str, options: dict[str, Any]) -> dict[str, Any]:
    """Write a random model as a training leaves it; return the paths."""
    config = {
        "normalize": None,
        "specaug": None,
        "encoder": "conformer",
        "encoder_conf": CONFORMER,
    }
    config |= {
        "decoder": decoder,
        "decoder_conf": options,
        "model_conf": {"ctc_weight": 0.3},
    }
    return dict(
        zip(
            ("asr_train_config", "asr_model_file"),
            write(ASRTask, folder, config),
            strict=True,
        )
    )


def write_lm(folder: Path) -> dict[str, Any]:
    """Write a language model likewise; return the options of a search with it."""
    files = write(LMTask, folder, {"lm": "transformer", "lm_conf": LM})
    return dict(zip(("lm_train_config", "lm_file"), files, strict=True)) | {
        "lm_weight": 0.6
    }


def write(
    task: type[AbsTask], folder: Path, options: dict[str, Any]
) -> tuple[Path, Path]:
    torch.manual_seed(0)
    tokens = [
        "<blank>",
        "<unk>",
        *(f"w{index}" for index in range(3, VOCABULARY)),
        "<sos/eos>",
    ]
    config = (
        task.get_default_config()
        | {"init": None, "token_list": tokens, "token_type": "word"}
        | options
    )
    model = task.build_model(argparse.Namespace(**config))
    folder.mkdir(exist_ok=True)
    write_yaml(folder / "config.yaml", config, "a model with random parameters")
    torch.save(model.state_dict(), folder / "model.pth")
    return folder / "config.yaml", folder / "model.pth"


def compare(
    options: dict[str, Any], speech: list[np.ndarray], rounds: int
) -> dict[str, Any]:
    """Seconds of each way, and the ratios of ESPnet's to the others."""
    espnet = build_speech2text(**options)
    ours = build_speech2text(fast_decoder=True, batch_size="auto", **options)
    quantised = build_speech2text(
        fast_decoder=True, batch_size="auto", quantize_asr_model=True, **options
    )
    ways: dict[str, Callable[[list[np.ndarray]], object]] = {
        "espnet": lambda speech: [espnet(each) for each in speech],
        "one_by_one": lambda speech: [ours(each) for each in speech],
        "auto": lambda speech: ours(list(speech)),
        "auto_8_bits": lambda speech: quantised(list(speech)),
        "encoder": lambda speech: [ours.encode(each) for each in speech],
        "encoder_8_bits": lambda speech: [quantised.encode(each) for each in speech],
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way(speech[:1])
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.process_time()
            way(speech)
            times[name].append(time.process_time() - start)
    found: dict[str, Any] = {
        f"{name}_s": statistics.median(each) for name, each in times.items()
    }
    for name in ("one_by_one", "auto", "auto_8_bits"):
        ratios = [a / b for a, b in zip(times["espnet"], times[name], strict=True)]
        found[f"{name}_ratio"] = [statistics.median(ratios), min(ratios), max(ratios)]
    return found


if __name__ == "__main__":
    main()
