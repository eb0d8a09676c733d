"""CTC prefix scores (Watanabe et al. 2017, algorithm 2), of those prefixes alone that a
search asks for.

With p[t, c] the probability of label c in frame t, and f_n[t] and f_b[t] those of a
prefix that frames 0 to t spell, the last of them being its last label or a blank, a
prefix followed by c has the probability

    psi(c) = sum over t of phi[t-1] p[t, c]        phi = f_n + f_b, or f_b alone if c
    repeats the last label

which is one sum per label. Only the few that enter the beam need their own f_n and f_b.
These are linear recurrences,

    f_n'[t] = (f_n'[t-1] + phi[t-1]) p[t, c]       f_b'[t] = (f_n'[t-1] + f_b'[t-1])
    p[t, blank]

so that with cumulated log-probabilities all frames are one ``logcumsumexp``. ESPnet
computes the recurrences of all labels, frame by frame, in Python.
"""

from dataclasses import dataclass, replace

import torch
from espnet2.legacy.nets.scorers.ctc import CTCPrefixScorer

BLANK = 0
LOG_ZERO = -1e10  # ESPnet's, in place of -inf
# The least log-probability of a label in a frame. Sums over frames are subtracted from
# each other, and minus infinity less itself is NaN; LOG_ZERO would take the digits of
# all frames that come after it.
LEAST_LABEL = -1e5
AT_ONCE = 2**24  # probabilities that are added up together, so that memory is bounded
# as a difference of logarithms nothing in single precision; exp takes ten times as long
# for less
LEAST = -80.0


@dataclass(frozen=True, eq=False)
class Prefixes:
    """n prefixes: log f_n and log f_b, (n, 2, T), in double precision as all that is
    cumulated over frames; scores, log-probabilities of all that begins so, (n,); last
    labels, (n,), -1 if there is none yet; utterances, (n,).
    """

    forward: torch.Tensor
    score: torch.Tensor
    last: torch.Tensor
    utterance: torch.Tensor

    def select(self, rows: torch.Tensor) -> "Prefixes":
        """Return some of the prefixes."""
        return Prefixes(
            self.forward[rows], self.score[rows], self.last[rows], self.utterance[rows]
        )


@dataclass(frozen=True, eq=False)
class Extensions:
    """Prefixes with the labels that may follow, (n, S), and the scores of both
    together, (n, S).
    """

    prefixes: Prefixes
    ids: torch.Tensor
    scores: torch.Tensor


class LazyCTCPrefixScorer(CTCPrefixScorer):
    """ESPnet's scorer of a batched search, which is
    :class:`espnet_ext.fast_search.beam_search.FastSearch`.

    Scores are ESPnet's without a window (``ctc_window_margin: 0``).
    """

    def batch_init_state(
        self, x: torch.Tensor, xs_lengths: torch.Tensor | None = None
    ) -> None:
        """Set the utterances: encodings, (T, D) or (B, T, D), and for a padded batch
        the numbers of frames, (B,).
        """
        x = x if x.dim() == 3 else x.unsqueeze(0)
        self.scored_in = x.dtype
        # (B, labels, T): the frames of a label are together; float16 has no room for
        # LOG_ZERO
        labels = (
            self.ctc.log_softmax(x)
            .to(torch.promote_types(x.dtype, torch.float32))
            .clamp(min=LEAST_LABEL)
            .transpose(1, 2)
            .contiguous()
        )
        lengths = (
            x.new_full((len(x),), x.size(1), dtype=torch.long)
            if xs_lengths is None
            else xs_lengths.to(x.device)
        )
        padding = torch.arange(x.size(1), device=x.device) >= lengths.unsqueeze(1)
        labels.masked_fill_(padding.unsqueeze(1), LOG_ZERO)
        labels[:, BLANK].masked_fill_(padding, 0.0)
        self.labels, self.ends = labels, lengths - 1

    def of_utterances(
        self, prefixes: Prefixes, utterances: torch.Tensor, rows: torch.Tensor
    ) -> Prefixes:
        """Drop all utterances but these; return those prefixes, equally many of each."""
        self.labels, self.ends = self.labels[utterances], self.ends[utterances]
        numbers = torch.arange(len(rows), device=rows.device) // (
            len(rows) // len(utterances)
        )
        return replace(prefixes.select(rows), utterance=numbers)

    def roots(self, count: int) -> Prefixes:
        """Return ``count`` empty prefixes, equally many of each utterance."""
        utterance = torch.arange(count, device=self.labels.device) // (
            count // len(self.labels)
        )
        blanks = self.labels[utterance, BLANK].double().cumsum(1)
        forward = torch.stack((torch.full_like(blanks, LOG_ZERO), blanks), 1)
        return Prefixes(
            forward, blanks.new_zeros(count), torch.full_like(utterance, -1), utterance
        )

    def extend(
        self, prefixes: Prefixes, ids: torch.Tensor
    ) -> tuple[torch.Tensor, Extensions]:
        """Score labels after each of n prefixes: log-probabilities given the prefix,
        (n, S) as the ids.
        """
        both, blank = _either(prefixes), prefixes.forward[:, 1]
        repeated = prefixes.last.clamp(min=0).unsqueeze(1)
        scores = self._sums(prefixes, both, ids)
        scores = torch.where(
            ids == prefixes.last.unsqueeze(1),
            self._sums(prefixes, blank, repeated),
            scores,
        )
        ended = both.gather(1, self.ends[prefixes.utterance].unsqueeze(1))
        scores = torch.where(ids == self.eos, ended, scores)
        if self.eos != BLANK:
            scores = scores.masked_fill(ids == BLANK, LOG_ZERO)
        given = (scores - prefixes.score.unsqueeze(1)).to(self.scored_in)
        return given, Extensions(prefixes, ids, scores)

    def _sums(
        self, prefixes: Prefixes, before: torch.Tensor, ids: torch.Tensor
    ) -> torch.Tensor:
        """Return log psi of each label, (n, S); ``before`` is log phi, (n, T)."""
        before = torch.cat((_beginning(prefixes), before[:, :-1]), 1)
        # only the differences between frames need the digits that single precision has
        highest = before.amax(1, keepdim=True)
        before = (before - highest).to(self.labels.dtype).unsqueeze(1)
        rows = prefixes.utterance.unsqueeze(1) * self.labels.size(1) + ids
        labels = self.labels.flatten(0, 1)
        at_once = max(1, AT_ONCE // (ids.size(1) * labels.size(1)))
        parts = zip(rows.split(at_once), before.split(at_once), strict=True)
        return highest + torch.cat(
            [_log_sum(labels[part].add_(shares)) for part, shares in parts]
        )

    def advance(
        self, extensions: Extensions, rows: torch.Tensor, columns: torch.Tensor
    ) -> Prefixes:
        """Return the prefixes that the search goes on with: row and column of each in
        the extensions, (m,).
        """
        parents = extensions.prefixes.select(rows)
        label = extensions.ids[rows, columns]
        both, blank = _either(parents), parents.forward[:, 1]
        entering = torch.where((label == parents.last).unsqueeze(1), blank, both)
        entering = torch.cat((_beginning(parents), entering[:, :-1]), 1)
        with_label = _scan(entering, self.labels[parents.utterance, label])
        entering = torch.cat(
            (torch.full_like(entering[:, :1], LOG_ZERO), with_label[:, :-1]), 1
        )
        with_blank = _scan(entering, self.labels[parents.utterance, BLANK])
        forward = torch.stack((with_label, with_blank), 1).clamp(min=LOG_ZERO)
        return Prefixes(
            forward, extensions.scores[rows, columns], label, parents.utterance
        )


def _beginning(prefixes: Prefixes) -> torch.Tensor:
    """Return how likely a prefix is before the first frame, (n, 1): certain if it is
    empty.
    """
    return (
        torch.where(prefixes.last < 0, 0.0, LOG_ZERO).to(prefixes.forward).unsqueeze(1)
    )


def _either(prefixes: Prefixes) -> torch.Tensor:
    """Return log (f_n + f_b), (n, T)."""
    return torch.logaddexp(prefixes.forward[:, 0], prefixes.forward[:, 1])


def _log_sum(x: torch.Tensor) -> torch.Tensor:
    """Return ``x.logsumexp(2)`` of x, (n, S, T), which is overwritten."""
    highest = x.amax(2, keepdim=True)
    return x.sub_(highest).clamp_(min=LEAST).exp_().sum(2).log_() + highest.squeeze(2)


def _scan(entering: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of being in a label at each frame, having entered it
    at some frame until then.

    ``entering`` and ``labels`` are log-probabilities, (n, T), of what was before a
    frame, and of the label.
    """
    sums = labels.double().cumsum(1)
    before = torch.cat((torch.zeros_like(sums[:, :1]), sums[:, :-1]), 1)
    return (entering - before).logcumsumexp(1) + sums
