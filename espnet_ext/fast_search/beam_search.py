"""ESPnet's beam search, of many utterances at once and with little else than what the
scorers need.

Each utterance is searched as ESPnet searches it alone: the same candidates, beams, ends
and scores. ESPnet's own search of several utterances carries those that are done until
the last one is, and CTC's scores of the whole vocabulary.
"""

from dataclasses import dataclass, replace
from inspect import signature
from math import isnan
from typing import Any

import torch
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.beam_search import BeamSearch, Hypothesis
from espnet2.legacy.nets.e2e_asr_common import end_detect
from espnet2.legacy.nets.pytorch_backend.nets_utils import make_pad_mask
from espnet2.legacy.nets.scorer_interface import BatchScorerInterface
from espnet2.legacy.nets.scorers.ctc import CTCPrefixScorer
from torch.nn.functional import pad

from espnet_ext.fast_search.ctc_prefix import LazyCTCPrefixScorer, Prefixes

FEWER = 0.8  # utterances that are done are dropped when at most this share is left


@dataclass(frozen=True, eq=False)
class Beams:
    """K hypotheses of each of B utterances, one utterance after the other: n = B K.

    ``utterances``: their numbers, B; ``xs``: encodings, (n, T, D); ``mask``: False on
    padding, (n, 1, T), or None; ``tokens``: (n, L); ``active``: False where none is,
    before the first token or after its end, (n,); ``score``: (n,); ``scores`` and
    ``states``: of each scorer, (n,) and n; ``prefixes``: the states of CTC.
    """

    utterances: list[int]
    xs: torch.Tensor
    mask: torch.Tensor | None
    tokens: torch.Tensor
    active: torch.Tensor
    score: torch.Tensor
    scores: dict[str, torch.Tensor]
    states: dict[str, Any]
    prefixes: Prefixes | None


@dataclass(frozen=True)
class StepResult:
    """What the processor knows of the n hypotheses after a step.

    All of it comes in one transfer: a GPU works ahead of the processor, and each
    transfer waits until it has done all that it was given.

    ``parents``: the hypothesis that each continues; ``ends``: whether it has ended;
    ``scores``: minus infinity where there is none.
    """

    parents: list[int]
    ends: list[bool]
    scores: list[float]


class FastSearch(BatchBeamSearch):
    """ESPnet's ``BeamSearch`` or ``BatchBeamSearch`` of the same scorers;
    :func:`make_fast` makes it.

    ``end_always``: whether each hypothesis may end, as in ``BatchBeamSearch``. In
    ``BeamSearch``, with which ESPnet decodes ``rnn``, with CTC it may only if the end
    is among the likeliest tokens without CTC. ``return_states``: whether hypotheses
    have the states of their scorers.
    """

    end_always: bool
    return_states: bool

    def _replicate_over_beam(
        self, x: torch.Tensor, *rest: Any
    ) -> tuple[torch.Tensor, None, None, None]:
        return x, None, None, None

    def _search_loop(
        self, x: torch.Tensor, x_lengths: torch.Tensor | None, *rest: Any
    ) -> list[list[Hypothesis]]:
        """Search until each utterance is done; return the hypotheses that have ended of
        each.
        """
        *_, maxlens, minlens, maxlenratio, count, batched = rest
        ended: list[list[Hypothesis]] = [[] for _ in range(count)]
        beams = self._begin(x if batched else x.unsqueeze(0), x_lengths)
        for step in range(max(maxlens)):
            beams, result = self._step(beams)
            running = self._end(
                beams, result, step, maxlens, minlens, maxlenratio == 0.0, ended
            )
            if not running:
                break
            if len(running) <= FEWER * len(beams.utterances) and hasattr(
                self.scorers.get("decoder"), "of_utterances"
            ):
                beams = self._keep(beams, running)
        return ended

    def _begin(self, x: torch.Tensor, lengths: torch.Tensor | None) -> Beams:
        count, beam = len(x) * self.beam_size, self.beam_size
        lengths = torch.full((len(x),), x.size(1)) if lengths is None else lengths
        states: dict[str, Any] = {}
        for name, scorer in self.scorers.items():
            wanted = "xs_lengths" in signature(scorer.batch_init_state).parameters
            states[name] = [
                scorer.batch_init_state(x, *([lengths] if wanted else []))
            ] * count
        mask = None
        if bool((lengths < x.size(1)).any()):
            mask = ~make_pad_mask(lengths, maxlen=x.size(1)).to(
                x.device
            ).repeat_interleave(beam, 0).unsqueeze(1)
        return Beams(
            utterances=list(range(len(x))),
            xs=x.repeat_interleave(beam, 0) if len(x) > 1 else x.expand(beam, -1, -1),
            mask=mask,
            tokens=torch.stack(self._primers(len(x), x.device)).repeat_interleave(
                beam, 0
            ),
            active=torch.arange(count, device=x.device) % beam == 0,
            score=x.new_zeros(count),
            scores=dict.fromkeys(self.scorers, x.new_zeros(count)),
            states={name: states[name] for name in self.full_scorers},
            prefixes=self.part_scorers["ctc"].roots(count)
            if self.part_scorers
            else None,
        )

    def _step(self, beams: Beams) -> tuple[Beams, StepResult]:
        """Add a token to each hypothesis, and keep the best ones of each utterance."""
        new, states = {}, {}
        total = beams.xs.new_zeros(len(beams.tokens), self.n_vocab)
        for name, scorer in self.full_scorers.items():
            masked = (
                beams.mask is not None
                and "decoder" in name
                and self._xs_mask_capable(name)
            )
            padding = {"xs_mask": beams.mask} if masked else {}
            new[name], states[name] = scorer.batch_score(
                beams.tokens, beams.states[name], beams.xs, **padding
            )
            total += self.weights[name] * new[name]
        ids, total = self._candidates(total)
        if beams.prefixes is not None:
            by_ctc, extensions = self.part_scorers["ctc"].extend(beams.prefixes, ids)
            total = total + self.weights["ctc"] * by_ctc
        total = (total + beams.score.unsqueeze(1)).masked_fill(
            ~beams.active.unsqueeze(1), -torch.inf
        )

        by_utterance = total.view(len(beams.utterances), -1)
        score, best = by_utterance.topk(self.beam_size)
        first = torch.arange(0, len(ids), self.beam_size, device=best.device)
        rows = (best // ids.size(1) + first.unsqueeze(1)).flatten()
        columns = (best % ids.size(1)).flatten()
        score = score.flatten()
        tokens = ids[rows, columns]
        ends = tokens == self.eos
        scores = {
            name: beams.scores[name][rows] + each[rows, tokens]
            for name, each in new.items()
        }
        prefixes = None
        if beams.prefixes is not None:
            scores["ctc"] = beams.scores["ctc"][rows] + by_ctc[rows, columns]
            prefixes = self.part_scorers["ctc"].advance(extensions, rows, columns)
        result = _transfer(rows, ends, score)
        stepped = replace(
            beams,
            tokens=torch.cat((beams.tokens[rows], tokens.unsqueeze(1)), 1),
            active=(score > -torch.inf) & ~ends,
            score=score,
            scores=scores,
            states=self._select(states, result.parents),
            prefixes=prefixes,
        )
        return stepped, result

    def _select(self, states: dict[str, Any], rows: list[int]) -> dict[str, Any]:
        return {
            name: [self.scorers[name].select_state(each, row) for row in rows]
            for name, each in states.items()
        }

    def _candidates(self, total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tokens of each hypothesis that may enter the beam, (n, S), and
        their scores without CTC.
        """
        if not self.do_pre_beam and self.part_scorers:
            return torch.arange(self.n_vocab, device=total.device).expand(
                len(total), -1
            ), total
        best, ids = total.topk(
            self.pre_beam_size if self.do_pre_beam else self.beam_size
        )
        if not (self.do_pre_beam and self.end_always):
            return ids, best
        end = (
            total[:, self.eos]
            .masked_fill((ids == self.eos).any(1), -torch.inf)
            .unsqueeze(1)
        )
        return torch.cat((ids, torch.full_like(ids[:, :1], self.eos)), 1), torch.cat(
            (best, end), 1
        )

    def _end(
        self,
        beams: Beams,
        result: StepResult,
        step: int,
        maxlens: list[int],
        minlens: list[int],
        detect: bool,
        ended: list[list],
    ) -> list[int]:
        """Move hypotheses that end to ``ended``; return the places of the utterances
        that are not done.
        """
        running = []
        for place, utterance in enumerate(beams.utterances):
            last = step == maxlens[utterance] - 1
            first = place * self.beam_size
            left = 0
            for row in range(first, first + self.beam_size):
                if result.scores[row] == -torch.inf or isnan(result.scores[row]):
                    continue
                if not (last or result.ends[row]):
                    left += 1
                elif step >= minlens[utterance]:
                    score = result.scores[row]
                    ended[utterance].append(self._ended(beams, row, score, last))
            if left and not (detect and self.end_detected(ended[utterance], step)):
                running.append(place)
            else:
                beams.active[first : first + self.beam_size] = False
        return running

    def _ended(self, beams: Beams, row: int, score: float, last: bool) -> Hypothesis:
        """Return a hypothesis that has ended. At the greatest length ESPnet adds an
        end, also after an end.
        """
        tokens = beams.tokens[row]
        return Hypothesis(
            yseq=pad(tokens, (0, 1), value=self.eos) if last else tokens.clone(),
            # on the processor, as it is compared with others and printed there
            score=torch.tensor(score, dtype=beams.score.dtype),
            scores={name: each[row] for name, each in beams.scores.items()},
            states={name: each[row] for name, each in beams.states.items()}
            if self.return_states
            else {},
        )

    def end_detected(self, ended_hyps: list[Hypothesis], i: int) -> bool:
        """Return whether a search is over, as ESPnet's method does, which fetches the
        tokens of each hypothesis although it needs no more than their number.
        """
        lengths_and_scores = [
            {"yseq": range(len(each.yseq)), "score": float(each.score)}
            for each in ended_hyps
        ]
        return end_detect(lengths_and_scores, i + self._primer_length() - 1)

    def _keep(self, beams: Beams, running: list[int]) -> Beams:
        """Drop all utterances but those at these places."""
        beam = self.beam_size
        kept = [
            row for place in running for row in range(place * beam, (place + 1) * beam)
        ]
        device = beams.xs.device
        numbers = torch.tensor(running).to(device, non_blocking=True)
        rows = torch.tensor(kept).to(device, non_blocking=True)
        xs, states = beams.xs[rows], self._select(beams.states, kept)
        for name, each in states.items():
            if hasattr(self.scorers[name], "of_utterances"):
                states[name] = self.scorers[name].of_utterances(each, numbers, xs)
        return Beams(
            utterances=[beams.utterances[place] for place in running],
            xs=xs,
            mask=None if beams.mask is None else beams.mask[rows],
            tokens=beams.tokens[rows],
            active=beams.active[rows],
            score=beams.score[rows],
            scores={name: each[rows] for name, each in beams.scores.items()},
            states=states,
            prefixes=beams.prefixes
            and self.part_scorers["ctc"].of_utterances(beams.prefixes, numbers, rows),
        )


def _transfer(
    rows: torch.Tensor, ends: torch.Tensor, scores: torch.Tensor
) -> StepResult:
    # double precision holds all three exactly
    packed = torch.stack([each.double() for each in (rows, ends, scores)])
    rows_, ends_, scores_ = packed.tolist()
    return StepResult([int(row) for row in rows_], [end > 0 for end in ends_], scores_)


def make_fast(search: BeamSearch, return_states: bool = False) -> bool:
    """Make a search of ESPnet a :class:`FastSearch`; return whether that is possible.

    It is not, and the search stays as it is, with a scorer that takes no batches, with
    another partial scorer than one for CTC named ``ctc``, with a ``pre_beam_score_key``
    that is one scorer's, and with ``return_hs``.
    """
    batched = all(
        isinstance(scorer, BatchScorerInterface)
        for scorer in search.full_scorers.values()
    )
    only_ctc = all(
        name == "ctc" and type(scorer) is CTCPrefixScorer
        for name, scorer in search.part_scorers.items()
    )
    by_all_scores = not search.do_pre_beam or search.pre_beam_score_key == "full"
    known = type(search) in (BeamSearch, BatchBeamSearch)
    if not (known and batched and only_ctc and by_all_scores) or search.return_hs:
        return False
    search.end_always = type(search) is BatchBeamSearch
    search.return_states = return_states
    search.__class__ = FastSearch
    for name, scorer in search.part_scorers.items():
        search.scorers[name] = search.part_scorers[name] = LazyCTCPrefixScorer(
            scorer.ctc, scorer.eos
        )
    return True
