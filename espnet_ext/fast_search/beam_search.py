"""ESPnet's beam search, of many utterances at once, with little beside the scorers.

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

# Utterances that are done are dropped when at most this share is left: dropping copies
# encodings, keys and values of all others.
FEWER = 0.8


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
    """Search as ESPnet's ``BeamSearch`` or ``BatchBeamSearch`` of the same scorers.

    :func:`make_fast` makes it. ``end_always``: whether each hypothesis may end, as in
    ``BatchBeamSearch``. In ``BeamSearch``, with which ESPnet decodes ``rnn``, with CTC
    it may only if the end is among the likeliest tokens without CTC. ``return_states``:
    whether hypotheses have the states of their scorers.
    """

    end_always: bool
    return_states: bool

    def _replicate_over_beam(
        self,
        x: torch.Tensor,
        *rest: Any,
    ) -> tuple[torch.Tensor, None, None, None]:
        # ESPnet copies the encodings of all hypotheses here; Beams holds ours.
        return x, None, None, None

    def _search_loop(
        self,
        x: torch.Tensor,
        x_lengths: torch.Tensor | None,
        *rest: Any,
    ) -> list[list[Hypothesis]]:
        """Search until all utterances are done; return each one's ended hypotheses."""
        *_, maxlens, minlens, maxlenratio, count, batched = rest
        ended: list[list[Hypothesis]] = [[] for _ in range(count)]
        beams = self._begin_beams(x if batched else x.unsqueeze(0), x_lengths)
        # ESPnet looks for the end of a search itself only if no length is asked for.
        detect = maxlenratio == 0.0
        for step in range(max(maxlens)):
            beams, result = self._advance_beams(beams)
            running = self._collect_ended(
                beams, result, step, maxlens, minlens, detect, ended
            )
            if not running:
                break
            if self._should_drop_done(len(running), len(beams.utterances)):
                beams = self._keep_utterances(beams, running)
        return ended

    def _should_drop_done(self, running: int, searched: int) -> bool:
        """Say whether to drop the utterances that are done.

        Until then they stay in each product and are never active. A decoder that cannot
        select utterances keeps them all.
        """
        can_select = hasattr(self.scorers.get("decoder"), "select_utterances")
        return can_select and running <= FEWER * searched

    def _begin_beams(self, x: torch.Tensor, lengths: torch.Tensor | None) -> Beams:
        """Return beams before the first token of utterances, (B, T, D), with lengths.

        ``lengths``: (B,); None: all are T long.
        """
        beam = self.beam_size
        count = len(x) * beam
        if lengths is None:
            lengths = torch.full((len(x),), x.size(1))
        states = self._begin_states(x, lengths)
        mask = None
        if bool((lengths < x.size(1)).any()):
            padding = make_pad_mask(lengths, maxlen=x.size(1)).to(x.device)
            mask = ~padding.repeat_interleave(beam, 0).unsqueeze(1)
        prefixes = None
        if self.part_scorers:
            prefixes = self.part_scorers["ctc"].make_empty_prefixes(count)
        primers = torch.stack(self._primers(len(x), x.device))
        # With a stride of 0, a decoder sees without a look at the values that all rows
        # are one utterance.
        xs = x.expand(beam, -1, -1) if len(x) == 1 else x.repeat_interleave(beam, 0)
        return Beams(
            utterances=list(range(len(x))),
            xs=xs,
            mask=mask,
            tokens=primers.repeat_interleave(beam, 0),
            # One hypothesis per utterance, the empty one: K equal ones would fill the
            # beam with K copies of each token.
            active=torch.arange(count, device=x.device) % beam == 0,
            score=x.new_zeros(count),
            scores=dict.fromkeys(self.scorers, x.new_zeros(count)),
            states={name: [states[name]] * count for name in self.full_scorers},
            prefixes=prefixes,
        )

    def _begin_states(self, x: torch.Tensor, lengths: torch.Tensor) -> dict[str, Any]:
        """Set up all scorers; return what each gives for the utterances, (B, T, D)."""
        states = {}
        for name, scorer in self.scorers.items():
            options = {}
            if "xs_lengths" in signature(scorer.batch_init_state).parameters:
                options["xs_lengths"] = lengths
            states[name] = scorer.batch_init_state(x, **options)
        return states

    def _advance_beams(self, beams: Beams) -> tuple[Beams, StepResult]:
        """Add a token to each hypothesis, and keep the best ones of each utterance."""
        scored, states = self._score_tokens(beams)
        total = beams.xs.new_zeros(len(beams.tokens), self.n_vocab)
        for name, log_probabilities in scored.items():
            total += self.weights[name] * log_probabilities
        ids, total = self._choose_candidates(total)
        if beams.prefixes is not None:
            by_ctc, extensions = self.part_scorers["ctc"].extend(beams.prefixes, ids)
            total = total + self.weights["ctc"] * by_ctc
        total = total + beams.score.unsqueeze(1)
        # Hypotheses that have ended get no successor. They keep their rows, since each
        # utterance has K of them.
        total = total.masked_fill(~beams.active.unsqueeze(1), -torch.inf)

        # The K hypotheses of an utterance compete with all their candidates, K x S.
        by_utterance = total.view(len(beams.utterances), -1)
        score, best = by_utterance.topk(self.beam_size)
        score = score.flatten()
        # Candidate k S + s of an utterance is the s-th token after its k-th hypothesis.
        first_rows = torch.arange(0, len(ids), self.beam_size, device=best.device)
        rows = (best // ids.size(1) + first_rows.unsqueeze(1)).flatten()
        columns = (best % ids.size(1)).flatten()
        tokens = ids[rows, columns]
        ends = tokens == self.eos
        # Each scorer's own sum, without its weight, as ESPnet's hypotheses have it.
        scores = {
            name: beams.scores[name][rows] + each[rows, tokens]
            for name, each in scored.items()
        }
        prefixes = None
        if beams.prefixes is not None:
            scores["ctc"] = beams.scores["ctc"][rows] + by_ctc[rows, columns]
            prefixes = self.part_scorers["ctc"].advance(extensions, rows, columns)
        result = _transfer_result(rows, ends, score)
        advanced = replace(
            beams,
            tokens=torch.cat((beams.tokens[rows], tokens.unsqueeze(1)), 1),
            active=(score > -torch.inf) & ~ends,
            score=score,
            scores=scores,
            states=self._select_states(states, result.parents),
            prefixes=prefixes,
        )
        return advanced, result

    def _score_tokens(
        self,
        beams: Beams,
    ) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Return each full scorer's log-probabilities, (n, vocabulary), and states."""
        scored = {}
        states = {}
        for name, scorer in self.full_scorers.items():
            options = {}
            # ESPnet's rule: only a scorer with such a name may take a mask.
            capable = "decoder" in name and self._xs_mask_capable(name)
            if beams.mask is not None and capable:
                options["xs_mask"] = beams.mask
            scored[name], states[name] = scorer.batch_score(
                beams.tokens, beams.states[name], beams.xs, **options
            )
        return scored, states

    def _select_states(self, states: dict[str, Any], rows: list[int]) -> dict[str, Any]:
        """Return the states of the hypotheses that go on, which were in these rows."""
        selected = {}
        for name, each in states.items():
            scorer = self.scorers[name]
            selected[name] = [scorer.select_state(each, row) for row in rows]
        return selected

    def _choose_candidates(
        self,
        total: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tokens of each hypothesis that may enter the beam, (n, S).

        With them their scores without CTC, (n, S).
        """
        # Without a first selection, CTC scores the whole vocabulary.
        if not self.do_pre_beam and self.part_scorers:
            every = torch.arange(self.n_vocab, device=total.device)
            return every.expand(len(total), -1), total
        width = self.pre_beam_size if self.do_pre_beam else self.beam_size
        best, ids = total.topk(width)
        if not (self.do_pre_beam and self.end_always):
            return ids, best
        # The end is one more candidate. Where it is among the best already, this one is
        # impossible, or a hypothesis would end twice.
        there = (ids == self.eos).any(1)
        end = total[:, self.eos].masked_fill(there, -torch.inf).unsqueeze(1)
        end_ids = torch.full_like(ids[:, :1], self.eos)
        return torch.cat((ids, end_ids), 1), torch.cat((best, end), 1)

    def _collect_ended(
        self,
        beams: Beams,
        result: StepResult,
        step: int,
        maxlens: list[int],
        minlens: list[int],
        detect: bool,
        ended: list[list[Hypothesis]],
    ) -> list[int]:
        """Copy hypotheses that end to ``ended``; return the utterances still running.

        Utterances are returned by their place in the beams, from 0. ``maxlens``,
        ``minlens`` and ``ended`` go by utterance, all that were ever searched.
        """
        running = []
        for place, utterance in enumerate(beams.utterances):
            last = step == maxlens[utterance] - 1
            first = place * self.beam_size
            left = 0
            for row in range(first, first + self.beam_size):
                score = result.scores[row]
                # No hypothesis is here: the utterance is done, or its beam is not full.
                # NaN counts as none: it would win each step until the greatest length.
                if score == -torch.inf or isnan(score):
                    continue
                if not (last or result.ends[row]):
                    left += 1
                # A hypothesis that ends too early is dropped, as ESPnet does: it is
                # neither kept nor continued.
                elif step >= minlens[utterance]:
                    hypothesis = self._make_hypothesis(beams, row, score, last)
                    ended[utterance].append(hypothesis)
            if left and not (detect and self.end_detected(ended[utterance], step)):
                running.append(place)
            else:
                # The rows stay in the beams until these utterances are dropped. Not
                # active, they score minus infinity from the next step on.
                beams.active[first : first + self.beam_size] = False
        return running

    def _make_hypothesis(
        self,
        beams: Beams,
        row: int,
        score: float,
        last: bool,
    ) -> Hypothesis:
        """Return a hypothesis that has ended, on its own memory.

        At the greatest length ESPnet adds an end, also after an end.
        """
        # Copies: a view would keep the tokens of all beams in memory.
        if last:
            tokens = pad(beams.tokens[row], (0, 1), value=self.eos)
        else:
            tokens = beams.tokens[row].clone()
        states = {}
        if self.return_states:
            states = {name: each[row] for name, each in beams.states.items()}
        return Hypothesis(
            yseq=tokens,
            # on the processor, as it is compared with others and printed there
            score=torch.tensor(score, dtype=beams.score.dtype),
            scores={name: each[row] for name, each in beams.scores.items()},
            states=states,
        )

    def end_detected(self, ended_hyps: list[Hypothesis], i: int) -> bool:
        """Say whether a search is over, as ESPnet's method does.

        ESPnet's fetches the tokens of each hypothesis from the device, although it
        needs no more than their number.
        """
        lengths_and_scores = [
            {"yseq": range(len(each.yseq)), "score": float(each.score)}
            for each in ended_hyps
        ]
        return end_detect(lengths_and_scores, i + self._primer_length() - 1)

    def _keep_utterances(self, beams: Beams, running: list[int]) -> Beams:
        """Drop all utterances but those at these places."""
        kept: list[int] = []
        for place in running:
            first = place * self.beam_size
            kept.extend(range(first, first + self.beam_size))
        # What uses the indices is queued behind their copies, so that nothing waits.
        device = beams.xs.device
        places = torch.tensor(running).to(device, non_blocking=True)
        rows = torch.tensor(kept).to(device, non_blocking=True)
        xs = beams.xs[rows]
        states = self._select_states(beams.states, kept)
        for name, each in states.items():
            scorer = self.scorers[name]
            if hasattr(scorer, "select_utterances"):
                states[name] = scorer.select_utterances(each, places, xs)
        prefixes = None
        if beams.prefixes is not None:
            ctc = self.part_scorers["ctc"]
            prefixes = ctc.select_utterances(beams.prefixes, places, rows)
        return Beams(
            utterances=[beams.utterances[place] for place in running],
            xs=xs,
            mask=None if beams.mask is None else beams.mask[rows],
            tokens=beams.tokens[rows],
            active=beams.active[rows],
            score=beams.score[rows],
            scores={name: each[rows] for name, each in beams.scores.items()},
            states=states,
            prefixes=prefixes,
        )


def _transfer_result(
    rows: torch.Tensor,
    ends: torch.Tensor,
    scores: torch.Tensor,
) -> StepResult:
    """Bring the result of a step to the processor at once, (n,) each."""
    # double precision holds all three exactly
    packed = torch.stack([each.double() for each in (rows, ends, scores)])
    parents, ended, exact_scores = packed.tolist()
    return StepResult(
        parents=[int(row) for row in parents],
        ends=[end > 0 for end in ended],
        scores=exact_scores,
    )


def make_fast(search: BeamSearch, return_states: bool = False) -> bool:
    """Make a search of ESPnet a :class:`FastSearch`; return whether that is possible.

    It is impossible, and the search stays as it is, with a scorer that takes no
    batches, with another partial scorer than one for CTC named ``ctc``, with a
    ``pre_beam_score_key`` that is one scorer's, and with ``return_hs``.
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
    # A subclass of ESPnet's may search otherwise, so the exact class is looked up.
    known = type(search) in (BeamSearch, BatchBeamSearch)
    if not (known and batched and only_ctc and by_all_scores) or search.return_hs:
        return False
    search.end_always = type(search) is BatchBeamSearch
    search.return_states = return_states
    # The object stays: what ESPnet has set on it, and all that hold it, know it.
    search.__class__ = FastSearch
    for name, scorer in search.part_scorers.items():
        lazy = LazyCTCPrefixScorer(scorer.ctc, scorer.eos)
        search.part_scorers[name] = lazy
        search.scorers[name] = lazy
    return True
