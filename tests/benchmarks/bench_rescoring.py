"""Scoring of N-best lists at the size of GPT-2 and BERT: prefix trees against padded
batches, PLL against naive PLL.
"""

import argparse
import itertools
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from espnet_ext.rescore.models.causal import CausalScorer
from espnet_ext.rescore.models.pll import PllScorer
from espnet_ext.rescore.models.scorers import score_lists

sys.path.insert(
    0, str(Path(__file__).parents[2] / "egs" / "librispeech_rescore" / "local")
)
from bench_latency import BERT_CASED, make_word_tokenizer  # noqa: E402 -- of the recipe

# Places where a list's hypotheses differ, and how much earlier than evenly spread they
# lie: with these, as many tokens a node of the prefix tree as ESPnet's lists of
# LibriSpeech hold, 1.8 for 10-best and 2.1 for 30-best.
SITES = {10: (6, 1.9), 30: (7, 1.8)}
WORDS = 5000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="times that each is run; the fastest counts",
    )
    parser.add_argument("--lists", type=int, default=24, help="N-best lists for GPT-2")
    parser.add_argument(
        "--masked_lists",
        type=int,
        default=3,
        help="those among them for BERT, which is slow",
    )
    parser.add_argument(
        "--nbest", type=int, default=10, choices=list(SITES), help="hypotheses a list"
    )
    parser.add_argument("--layers", type=int, default=12, help="layers of both models")
    parser.add_argument(
        "--only", choices=("gpt2", "bert"), help="one of the two models"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    source = random.Random(0)
    lists = [
        make_list(source, args.nbest, source.randint(12, 45)) for _ in range(args.lists)
    ]
    # one thread's own time, whatever else the machine does
    clock = time.process_time if args.threads == 1 else time.perf_counter
    print(
        f"cpu, {args.threads} threads, {args.layers} layers of 768; the fastest "
        f"of {args.rounds} rounds by "
        f"time.{clock.__name__}"
    )
    measure = partial(compare, clock=clock, rounds=args.rounds)
    with torch.no_grad():
        if args.only != "bert":
            causal(lists, args.layers, measure)
        if args.only != "gpt2":
            masked(lists[: args.masked_lists], args.layers, measure)


def make_list(source: random.Random, nbest: int, length: int) -> list[str]:
    """Hypotheses of this many words, a token each: the likeliest choices at places
    where there are two.
    """
    words = [source.randrange(WORDS) for _ in range(length)]
    count, early = SITES[nbest]
    places: set[int] = set()
    while len(places) < count:
        places.add(int(length * source.random() ** early))
    sites = {
        place: (source.randrange(WORDS), source.random()) for place in sorted(places)
    }
    choices = sorted(
        itertools.product((False, True), repeat=len(sites)),
        key=lambda chosen: sum(
            cost for take, (_, cost) in zip(chosen, sites.values(), strict=True) if take
        ),
    )
    hypotheses = []
    for chosen in choices[:nbest]:
        changed = {
            place: word
            for take, (place, (word, _)) in zip(chosen, sites.items(), strict=True)
            if take
        }
        hypotheses.append(
            " ".join(f"w{changed.get(place, word)}" for place, word in enumerate(words))
        )
    return hypotheses


def causal(lists: list[list[str]], layers: int, measure: Callable[..., None]) -> None:
    """Print the hypotheses a second of prefix trees, of padded batches, and of batches
    with everything computed.
    """
    config = GPT2Config(n_layer=layers)
    scorer = CausalScorer(
        GPT2LMHeadModel(config).eval(),
        make_word_tokenizer(config.vocab_size, bert=False),
    )
    padded = CausalScorer(scorer.model, scorer.tokenizer)
    padded.as_trees = False
    tokens = nodes = 0
    for texts in scorer.encode(lists):
        tokens += sum(len(ids) for _, ids in texts)
        nodes += len(
            {tuple(ids[: end + 1]) for _, ids in texts for end in range(len(ids))}
        )
    works = {
        "prefix trees": partial(score_lists, scorer, lists),
        "padded batches of similar lengths, logits of tokens only": partial(
            score_lists, padded, lists
        ),
        "one padded batch per list, logits of padding too": partial(
            plain_causal, scorer, lists
        ),
    }
    print(
        f"\nGPT-2: {tokens / nodes:.2f} tokens a node ({len(lists)} lists, "
        f"{tokens} tokens, {nodes} nodes)"
    )
    measure(works, lists)


def plain_causal(scorer: CausalScorer, lists: list[list[str]]) -> list[list[float]]:
    """Each list as one padded batch, log-probabilities of the whole vocabulary
    everywhere.
    """
    scores = []
    for hypotheses in scorer.encode(lists):
        ids = [torch.tensor([*ids, scorer.end]) for _, ids in hypotheses]
        lengths = torch.tensor([len(row) for row in ids])
        batch = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
        real = torch.arange(batch.size(1)) < lengths.unsqueeze(1)
        logits = scorer.model(
            input_ids=batch, attention_mask=real.long(), use_cache=False
        ).logits
        found = (
            logits[:, :-1].log_softmax(dim=-1).gather(2, batch[:, 1:, None]).squeeze(2)
        )
        scores.append((found * real[:, 1:]).sum(dim=1).tolist())
    return scores


def masked(lists: list[list[str]], layers: int, measure: Callable[..., None]) -> None:
    """Print the hypotheses a second of PLL, ours and naive."""
    config = BertConfig(**BERT_CASED, num_hidden_layers=layers)
    tokenizer = make_word_tokenizer(config.vocab_size, bert=True)
    scorer = PllScorer(BertForMaskedLM(config).eval(), tokenizer)
    copies = sum(len(chunk.ids) for chunk in scorer.chunks(lists))
    terms = sum(len(chunk.hyps) for chunk in scorer.chunks(lists))
    works = {
        "shared copies once, logits of masked tokens only": partial(
            score_lists, scorer, lists
        ),
        "naive: one batch per hypothesis, logits everywhere": partial(
            plain_pll, scorer, lists
        ),
    }
    print(
        f"\nBERT, PLL: {terms / copies:.2f} tokens a masked copy ({len(lists)} "
        f"lists, {copies} copies)"
    )
    measure(works, lists)


def plain_pll(scorer: PllScorer, lists: list[list[str]]) -> list[list[float]]:
    """Each hypothesis as one batch of its masked copies, log-probabilities of the whole
    vocabulary everywhere.
    """
    scores = []
    for hypotheses in scorer.encode(lists):
        scores.append([])
        for _, ids in hypotheses:
            places = torch.arange(1, len(ids) - 1)
            targets = torch.tensor(ids)[places]
            batch = torch.tensor(ids).repeat(len(places), 1)
            batch[torch.arange(len(places)), places] = scorer.tokenizer.mask_token_id
            found = scorer.model(input_ids=batch).logits.log_softmax(dim=-1)
            scores[-1].append(
                found[torch.arange(len(places)), places, targets].sum().item()
            )
    return scores


def compare(
    works: dict[str, Callable[[], list[list[float]]]],
    lists: list[list[str]],
    clock: Callable[[], float],
    rounds: int,
) -> None:
    """Print what each work does in a second, how many times as fast the first is, and
    how far the scores are apart.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):  # in turns, so that the machine's other work falls on all
        results = {}
        for name, work in works.items():
            start = clock()
            results[name] = work()
            times[name].append(clock() - start)
    ours = next(iter(works))
    hypotheses = sum(map(len, lists))
    head = f"{'':58}{'hypotheses/s':>13}{'ours is faster':>16}"
    print(head + f"{'in each round':>20}{'differs by':>12}")
    for name, seconds in times.items():
        ratio = min(seconds) / min(times[ours])
        ratios = [other / own for other, own in zip(seconds, times[ours], strict=True)]
        between = f"{min(ratios):.2f} to {max(ratios):.2f}"
        apart = (
            (torch.tensor(results[name]) - torch.tensor(results[ours]))
            .abs()
            .max()
            .item()
        )
        speed = hypotheses / min(seconds)
        print(f"{name:58}{speed:13.2f}{ratio:16.2f}{between:>20}{apart:12.0e}")


if __name__ == "__main__":
    main()
