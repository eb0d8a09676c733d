"""ESPnet's beam search over the hypotheses of many utterances at once, with what only they need.

Each utterance is searched as ESPnet searches it alone: the same candidates, beams, ends and scores. ESPnet's own search
of several utterances carries those that are done until the last one is, and scores of the whole vocabulary for CTC.
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
    """The hypotheses of B utterances, K of each, one utterance after the other: n = B K.

    Attributes:
        utterances: the numbers of the utterances, B.
        xs: their encodings, (n, T, D), and ``mask``: False on padding, (n, 1, T), or None.
        tokens: (n, L).
        active: which are hypotheses, (n,); the others have ended, or are copies of the first at the beginning.
        score: (n,).
        scores: scorer -> (n,).
        states: scorer -> states of all.
        prefixes: the state of CTC.
    """

    utterances: list[int]
    xs: torch.Tensor
    mask: torch.Tensor | None
    tokens: torch.Tensor
    active: list[bool]
    score: torch.Tensor
    scores: dict[str, torch.Tensor]
    states: dict[str, list]
    prefixes: Prefixes | None


class FastSearch(BatchBeamSearch):
    """ESPnet's ``BeamSearch`` or ``BatchBeamSearch`` of the same scorers, one by one; :func:`make_fast` makes it.

    Attributes:
        end_always: whether each hypothesis may end, as in ``BatchBeamSearch``. In ``BeamSearch``, with which ESPnet
            decodes ``rnn``, with CTC it may only if the end is among the likeliest tokens without CTC.
    """

    end_always: bool

    def _replicate_over_beam(self, x: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, None, None, None]:
        return x, None, None, None

    def _search_loop(self, x: torch.Tensor, x_lengths: torch.Tensor | None, *rest: Any) -> list[list[Hypothesis]]:
        """Search until each utterance is done; return the hypotheses that have ended of each."""
        *_, maxlens, minlens, maxlenratio, count, batched = rest
        ended: list[list[Hypothesis]] = [[] for _ in range(count)]
        beams = self._begin(x if batched else x.unsqueeze(0), x_lengths)
        for step in range(max(maxlens)):
            beams = self._step(beams)
            beams = self._end(beams, step, maxlens, minlens, maxlenratio == 0.0, ended)
            if not beams.utterances:
                break
        return ended

    def _begin(self, x: torch.Tensor, lengths: torch.Tensor | None) -> Beams:
        count, beam = len(x) * self.beam_size, self.beam_size
        lengths = torch.full((len(x),), x.size(1)) if lengths is None else lengths
        ctc = self.part_scorers.get("ctc")
        if ctc:
            ctc.batch_init_state(x, lengths)
        states: dict[str, list] = {}
        for name, scorer in self.full_scorers.items():
            wanted = "xs_lengths" in signature(scorer.batch_init_state).parameters
            states[name] = [scorer.batch_init_state(x, *([lengths] if wanted else []))] * count
        zeros = x.new_zeros(count)
        return Beams(
            utterances=list(range(len(x))),
            xs=x.repeat_interleave(beam, 0) if len(x) > 1 else x.expand(beam, -1, -1),
            mask=_mask(x, lengths, beam),
            tokens=torch.stack(self._primers(len(x), x.device)).repeat_interleave(beam, 0),
            active=([True] + [False] * (beam - 1)) * len(x),
            score=zeros,
            scores=dict.fromkeys(self.scorers, zeros),
            states=states,
            prefixes=ctc.roots(count) if ctc else None,
        )

    def _step(self, beams: Beams) -> Beams:
        """Add a token to each hypothesis, and keep the best ones of each utterance."""
        device, mask = beams.xs.device, beams.mask
        new, states = {}, {}
        for name, scorer in self.full_scorers.items():
            padded = {"xs_mask": mask} if mask is not None and "decoder" in name and self._xs_mask_capable(name) else {}
            new[name], states[name] = scorer.batch_score(beams.tokens, beams.states[name], beams.xs, **padded)
        total = sum(self.weights[name] * scores for name, scores in new.items())
        if not new:  # CTC alone
            total = beams.score.new_zeros(len(beams.tokens), self.n_vocab)
        ids, total = self._candidates(total)
        if beams.prefixes is not None:
            by_ctc, extensions = self.part_scorers["ctc"].extend(beams.prefixes, ids)
            total = total + self.weights["ctc"] * by_ctc
        total = total + beams.score.unsqueeze(1)
        total = total.masked_fill(~torch.tensor(beams.active, device=device).unsqueeze(1), -torch.inf)

        score, best = total.view(len(beams.utterances), -1).topk(self.beam_size)
        first = torch.arange(len(beams.utterances), device=device).unsqueeze(1) * self.beam_size
        rows, columns = (best // ids.size(1) + first).flatten(), (best % ids.size(1)).flatten()
        tokens, parents = ids[rows, columns], rows.tolist()
        scores = {name: beams.scores[name][rows] + each[rows, tokens] for name, each in new.items()}
        if beams.prefixes is not None:
            scores["ctc"] = beams.scores["ctc"][rows] + by_ctc[rows, columns]
        return replace(
            beams,
            tokens=torch.cat((beams.tokens[rows], tokens.unsqueeze(1)), 1),
            active=[True] * len(rows),
            score=score.flatten(),
            scores=scores,
            states={
                name: [self.full_scorers[name].select_state(each, parent) for parent in parents]
                for name, each in states.items()
            },
            prefixes=beams.prefixes and self.part_scorers["ctc"].advance(extensions, rows, columns),
        )

    def _candidates(self, total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tokens of each hypothesis that may enter the beam, (n, S), and their scores without CTC."""
        if not self.do_pre_beam and self.part_scorers:
            return torch.arange(self.n_vocab, device=total.device).expand(len(total), -1), total
        best, ids = total.topk(self.pre_beam_size if self.do_pre_beam else self.beam_size)
        if not (self.do_pre_beam and self.end_always):
            return ids, best
        end = total[:, self.eos :][:, :1].masked_fill((ids == self.eos).any(1, keepdim=True), -torch.inf)
        return torch.cat((ids, torch.full_like(ids[:, :1], self.eos)), 1), torch.cat((best, end), 1)

    def _end(
        self,
        beams: Beams,
        step: int,
        maxlens: list[int],
        minlens: list[int],
        detect: bool,
        ended: list[list[Hypothesis]],
    ) -> Beams:
        """Move hypotheses that end to ``ended``, and drop utterances that are done."""
        ends, beam = (beams.tokens[:, -1] == self.eos).tolist(), self.beam_size
        active, running = list(beams.active), []
        for place, utterance in enumerate(beams.utterances):
            last = step == maxlens[utterance] - 1
            for row in range(place * beam, (place + 1) * beam):
                if active[row] and (last or ends[row]):
                    active[row] = False
                    if step >= minlens[utterance]:
                        ended[utterance].append(self._ended(beams, row, last))
            rows = slice(place * beam, (place + 1) * beam)
            if any(active[rows]) and not (detect and self.end_detected(ended[utterance], step)):
                running.append(place)
            else:
                active[rows] = [False] * beam
        beams = replace(beams, active=active)
        return beams if len(running) > FEWER * len(beams.utterances) else self._keep(beams, running)

    def _ended(self, beams: Beams, row: int, last: bool) -> Hypothesis:
        """Return a hypothesis that has ended. At the greatest length ESPnet adds an end, also after an end."""
        tokens = beams.tokens[row].clone()
        return Hypothesis(
            yseq=self.append_token(tokens, self.eos) if last else tokens,
            score=beams.score[row],
            scores={name: each[row] for name, each in beams.scores.items()},
        )

    def _keep(self, beams: Beams, running: list[int]) -> Beams:
        """Drop all utterances but those at these places."""
        if not running:
            return replace(beams, utterances=[])
        numbers = torch.tensor(running, device=beams.xs.device)
        rows = (numbers.unsqueeze(1) * self.beam_size + torch.arange(self.beam_size, device=numbers.device)).flatten()
        xs, chosen = beams.xs[rows], rows.tolist()
        states = {name: [each[row] for row in chosen] for name, each in beams.states.items()}
        for name, scorer in self.full_scorers.items():
            if hasattr(scorer, "keep_utterances"):
                states[name] = scorer.keep_utterances(states[name], numbers, xs)
        prefixes = beams.prefixes
        if prefixes is not None:
            self.part_scorers["ctc"].keep(numbers)
            utterance = torch.arange(len(running), device=numbers.device).repeat_interleave(self.beam_size)
            prefixes = replace(prefixes.select(rows), utterance=utterance)
        return Beams(
            utterances=[beams.utterances[place] for place in running],
            xs=xs,
            mask=None if beams.mask is None else beams.mask[rows],
            tokens=beams.tokens[rows],
            active=[beams.active[row] for row in chosen],
            score=beams.score[rows],
            scores={name: each[rows] for name, each in beams.scores.items()},
            states=states,
            prefixes=prefixes,
        )


def make_fast(search: BeamSearch) -> bool:
    """Make a search of ESPnet a :class:`FastSearch`; return whether it is one that has only batched scorers."""
    batched = all(isinstance(scorer, BatchScorerInterface) for scorer in search.full_scorers.values())
    batched = batched and all(type(scorer) is CTCPrefixScorer for scorer in search.part_scorers.values())
    if type(search) not in (BeamSearch, BatchBeamSearch) or not batched:
        return False
    search.end_always = type(search) is BatchBeamSearch
    search.__class__ = FastSearch
    for name, scorer in search.part_scorers.items():
        search.scorers[name] = search.part_scorers[name] = LazyCTCPrefixScorer(scorer.ctc, scorer.eos)
    return True


def _mask(x: torch.Tensor, lengths: torch.Tensor, beam: int) -> torch.Tensor | None:
    if bool((lengths == x.size(1)).all()):
        return None
    return ~make_pad_mask(lengths, maxlen=x.size(1)).to(x.device).repeat_interleave(beam, 0).unsqueeze(1)
