"""ESPnet's beam search, of many utterances at once and with little else than what the
scorers need.

Each utterance is searched as ESPnet searches it alone: the same candidates, beams, ends
and scores. ESPnet's own search of several utterances carries those that are done until
the last one is, and CTC's scores of the whole vocabulary.
"""

from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import torch
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.beam_search import BeamSearch, Hypothesis
from espnet2.legacy.nets.pytorch_backend.nets_utils import make_pad_mask
from espnet2.legacy.nets.scorer_interface import BatchScorerInterface
from espnet2.legacy.nets.scorers.ctc import CTCPrefixScorer

from espnet_ext.upstream.ctc_prefix import LazyCTCPrefixScorer, Prefixes

FEWER = 0.8  # utterances that are done are dropped when at most this share is left


@dataclass(frozen=True, eq=False)
class Beams:
    """K hypotheses of each of B utterances, one utterance after the other: n = B K.

    ``utterances``: their numbers, B; ``xs``: encodings, (n, T, D); ``mask``: False on
    padding, (n, 1, T), or None; ``tokens``: (n, L); ``active``: False where none is,
    before the first token or after its end, n; ``score``: (n,); ``scores`` and
    ``states``: of each scorer, (n,) and n; ``prefixes``: the states of CTC.
    """

    utterances: list[int]
    xs: torch.Tensor
    mask: torch.Tensor | None
    tokens: torch.Tensor
    active: list[bool]
    score: torch.Tensor
    scores: dict[str, torch.Tensor]
    states: dict[str, Any]
    prefixes: Prefixes | None


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
            beams = self._step(beams)
            running = self._end(
                beams, step, maxlens, minlens, maxlenratio == 0.0, ended
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
            active=([True] + [False] * (beam - 1)) * len(x),
            score=x.new_zeros(count),
            scores=dict.fromkeys(self.scorers, x.new_zeros(count)),
            states={name: states[name] for name in self.full_scorers},
            prefixes=self.part_scorers["ctc"].roots(count)
            if self.part_scorers
            else None,
        )

    def _step(self, beams: Beams) -> Beams:
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
        active = torch.tensor(beams.active, device=total.device)
        total = (total + beams.score.unsqueeze(1)).masked_fill(
            ~active.unsqueeze(1), -torch.inf
        )

        score, best = total.view(len(beams.utterances), -1).topk(self.beam_size)
        first = torch.arange(0, len(ids), self.beam_size, device=best.device).unsqueeze(
            1
        )
        rows, columns = (
            (best // ids.size(1) + first).flatten(),
            (best % ids.size(1)).flatten(),
        )
        tokens = ids[rows, columns]
        scores = {
            name: beams.scores[name][rows] + each[rows, tokens]
            for name, each in new.items()
        }
        if beams.prefixes is not None:
            scores["ctc"] = beams.scores["ctc"][rows] + by_ctc[rows, columns]
        return replace(
            beams,
            tokens=torch.cat((beams.tokens[rows], tokens.unsqueeze(1)), 1),
            active=(score.flatten() > -torch.inf).tolist(),
            score=score.flatten(),
            scores=scores,
            states=self._select(states, rows),
            prefixes=self.part_scorers["ctc"].advance(extensions, rows, columns)
            if self.part_scorers
            else None,
        )

    def _select(self, states: dict[str, Any], rows: torch.Tensor) -> dict[str, Any]:
        chosen = rows.tolist()
        return {
            name: [self.scorers[name].select_state(each, row) for row in chosen]
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
        step: int,
        maxlens: list[int],
        minlens: list[int],
        detect: bool,
        ended: list[list],
    ) -> list[int]:
        """Move hypotheses that end to ``ended``; return the places of the utterances
        that are not done.
        """
        ends, active, beam = (
            (beams.tokens[:, -1] == self.eos).tolist(),
            beams.active,
            self.beam_size,
        )
        running = []
        for place, utterance in enumerate(beams.utterances):
            last = step == maxlens[utterance] - 1
            for row in range(place * beam, (place + 1) * beam):
                if active[row] and (last or ends[row]):
                    active[row] = False
                    if step >= minlens[utterance]:
                        ended[utterance].append(self._ended(beams, row, last))
            rows = slice(place * beam, (place + 1) * beam)
            if any(active[rows]) and not (
                detect and self.end_detected(ended[utterance], step)
            ):
                running.append(place)
            else:
                active[rows] = [False] * beam
        return running

    def _ended(self, beams: Beams, row: int, last: bool) -> Hypothesis:
        """Return a hypothesis that has ended. At the greatest length ESPnet adds an
        end, also after an end.
        """
        return Hypothesis(
            yseq=self.append_token(beams.tokens[row], self.eos)
            if last
            else beams.tokens[row].clone(),
            score=beams.score[row],
            scores={name: each[row] for name, each in beams.scores.items()},
            states={name: each[row] for name, each in beams.states.items()}
            if self.return_states
            else {},
        )

    def _keep(self, beams: Beams, running: list[int]) -> Beams:
        """Drop all utterances but those at these places."""
        numbers = torch.tensor(running, device=beams.xs.device)
        rows = (
            numbers.unsqueeze(1) * self.beam_size
            + torch.arange(self.beam_size, device=numbers.device)
        ).flatten()
        xs, states = beams.xs[rows], self._select(beams.states, rows)
        for name, each in states.items():
            if hasattr(self.scorers[name], "of_utterances"):
                states[name] = self.scorers[name].of_utterances(each, numbers, xs)
        return Beams(
            utterances=[beams.utterances[place] for place in running],
            xs=xs,
            mask=None if beams.mask is None else beams.mask[rows],
            tokens=beams.tokens[rows],
            active=[beams.active[row] for row in rows.tolist()],
            score=beams.score[rows],
            scores={name: each[rows] for name, each in beams.scores.items()},
            states=states,
            prefixes=beams.prefixes
            and self.part_scorers["ctc"].of_utterances(beams.prefixes, numbers, rows),
        )


def make_fast(search: BeamSearch, return_states: bool = False) -> bool:
    """Make a search of ESPnet a :class:`FastSearch`; return whether it is one that has
    only batched scorers.
    """
    batched = all(
        isinstance(scorer, BatchScorerInterface)
        for scorer in search.full_scorers.values()
    )
    batched = batched and all(
        type(scorer) is CTCPrefixScorer for scorer in search.part_scorers.values()
    )
    if type(search) not in (BeamSearch, BatchBeamSearch) or not batched:
        return False
    search.end_always, search.return_states = (
        type(search) is BatchBeamSearch,
        return_states,
    )
    search.__class__ = FastSearch
    for name, scorer in search.part_scorers.items():
        search.scorers[name] = search.part_scorers[name] = LazyCTCPrefixScorer(
            scorer.ctc, scorer.eos
        )
    return True
