"""CTC prefix scores (Watanabe et al. 2017, algorithm 2), of the prefixes searched.

With p[t, c] the probability of label c in frame t, and f_n[t] and f_b[t] those of a
prefix that frames 0 to t spell, the last of them being its last label or a blank, a
prefix followed by c has the probability

    psi(c) = sum over t of phi[t-1] p[t, c]

which is one sum per label. phi is f_n + f_b, or f_b alone if c repeats the last label.
Only the few that enter the beam need their own f_n and f_b. These are linear
recurrences,

    f_n'[t] = (f_n'[t-1] + phi[t-1]) p[t, c]
    f_b'[t] = (f_n'[t-1] + f_b'[t-1]) p[t, blank]

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
# exp(-80) beside 1 is nothing in single precision. Below exp(-87) single precision
# has only subnormal numbers, on which exp takes ten times as long.
LEAST_DIFFERENCE = -80.0


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Hold n prefixes.

    ``forward``: log f_n and log f_b, (n, 2, T), in double precision as all that is
    cumulated over frames; ``score``: log-probability of all that begins so, (n,);
    ``last``: last label, -1 if there is none yet, (n,); ``utterance``: its number,
    (n,).
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
    """Hold n prefixes with the labels that may follow, (n, S).

    ``scores``: log-probabilities of prefix and label together, (n, S).
    """

    prefixes: Prefixes
    ids: torch.Tensor
    scores: torch.Tensor


class LazyCTCPrefixScorer(CTCPrefixScorer):
    """Score as ESPnet's CTC scorer, for the search of ``FastSearch`` alone.

    Scores are ESPnet's without a window (``ctc_window_margin: 0``).
    """

    def batch_init_state(
        self,
        x: torch.Tensor,
        xs_lengths: torch.Tensor | None = None,
    ) -> None:
        """Set the utterances: encodings, (T, D) or (B, T, D), and numbers of frames.

        ``xs_lengths``: (B,) for a padded batch; None: all utterances are T long.
        """
        if x.dim() == 2:
            x = x.unsqueeze(0)
        self.scored_in = x.dtype
        # float16 has no room for LOG_ZERO
        wide = torch.promote_types(x.dtype, torch.float32)
        by_frame = self.ctc.log_softmax(x).to(wide).clamp(min=LEAST_LABEL)
        # (B, labels, T): the frames of a label are together, since sums go over them
        self.labels = by_frame.transpose(1, 2).contiguous()
        frames = x.size(1)
        if xs_lengths is None:
            lengths = x.new_full((len(x),), frames, dtype=torch.long)
        else:
            lengths = xs_lengths.to(x.device)
        # On padding a blank is certain: all sums stay what they are at the last frame.
        padding = torch.arange(frames, device=x.device) >= lengths.unsqueeze(1)
        self.labels.masked_fill_(padding.unsqueeze(1), LOG_ZERO)
        self.labels[:, BLANK].masked_fill_(padding, 0.0)
        self.ends = lengths - 1

    def select_utterances(
        self,
        prefixes: Prefixes,
        utterances: torch.Tensor,
        rows: torch.Tensor,
    ) -> Prefixes:
        """Drop all utterances but these; return their prefixes, the given rows.

        Each utterance has equally many of the rows.
        """
        self.labels = self.labels[utterances]
        self.ends = self.ends[utterances]
        return replace(
            prefixes.select(rows), utterance=self._number_utterances(len(rows))
        )

    def _number_utterances(self, count: int) -> torch.Tensor:
        """Return the utterance of each prefix, (count,), equally many of each."""
        each = count // len(self.labels)
        return torch.arange(count, device=self.labels.device) // each

    def make_empty_prefixes(self, count: int) -> Prefixes:
        """Return ``count`` empty prefixes, equally many of each utterance."""
        utterance = self._number_utterances(count)
        # Only blanks spell the empty prefix.
        blanks = self.labels[utterance, BLANK].double().cumsum(1)
        forward = torch.stack((torch.full_like(blanks, LOG_ZERO), blanks), 1)
        return Prefixes(
            forward=forward,
            score=blanks.new_zeros(count),
            last=torch.full_like(utterance, -1),
            utterance=utterance,
        )

    def extend(
        self,
        prefixes: Prefixes,
        ids: torch.Tensor,
    ) -> tuple[torch.Tensor, Extensions]:
        """Score labels, (n, S), after each of n prefixes.

        Returns log-probabilities given the prefix, (n, S), and what :meth:`advance`
        needs of those that the search keeps.
        """
        spelt = _add_endings(prefixes)
        scores = self._score_labels(prefixes, spelt, ids)
        # Between two equal labels there must be a blank.
        after_blank = prefixes.forward[:, 1]
        # The last label of the empty prefix, -1, is no index; no id equals it.
        last = prefixes.last.unsqueeze(1)
        repeated = self._score_labels(prefixes, after_blank, last.clamp(min=0))
        scores = torch.where(ids == last, repeated, scores)
        # The end comes after the utterance's last frame.
        last_frame = self.ends[prefixes.utterance].unsqueeze(1)
        scores = torch.where(ids == self.eos, spelt.gather(1, last_frame), scores)
        # A blank is part of no text.
        if self.eos != BLANK:
            scores = scores.masked_fill(ids == BLANK, LOG_ZERO)
        given = (scores - prefixes.score.unsqueeze(1)).to(self.scored_in)
        return given, Extensions(prefixes, ids, scores)

    def _score_labels(
        self,
        prefixes: Prefixes,
        spelt: torch.Tensor,
        ids: torch.Tensor,
    ) -> torch.Tensor:
        """Return log psi of each label, (n, S); ``spelt`` is log phi, (n, T)."""
        before = _shift_by_a_frame(spelt, _score_start(prefixes))
        # only the differences between frames need the digits that single precision has
        highest = before.amax(1, keepdim=True)
        before = (before - highest).to(self.labels.dtype).unsqueeze(1)
        # Rows of the flattened (utterance, label) fetch all labels in one gather.
        _, vocabulary, frames = self.labels.shape
        rows = prefixes.utterance.unsqueeze(1) * vocabulary + ids
        labels = self.labels.flatten(0, 1)
        at_once = max(1, AT_ONCE // (ids.size(1) * frames))
        sums = []
        for part, entering in zip(
            rows.split(at_once), before.split(at_once), strict=True
        ):
            sums.append(_log_sum(labels[part].add_(entering)))
        return highest + torch.cat(sums)

    def advance(
        self,
        extensions: Extensions,
        rows: torch.Tensor,
        columns: torch.Tensor,
    ) -> Prefixes:
        """Return the m prefixes that the search keeps, by row and column, (m,) each."""
        parents = extensions.prefixes.select(rows)
        label = extensions.ids[rows, columns]
        repeats = (label == parents.last).unsqueeze(1)
        spelt = torch.where(repeats, parents.forward[:, 1], _add_endings(parents))
        # The label first: f_b' is entered from f_n', and f_n' only from the parent.
        # What enters a frame was there in the frame before, hence both shifts.
        entering_label = _shift_by_a_frame(spelt, _score_start(parents))
        with_label = _scan_frames(entering_label, self.labels[parents.utterance, label])
        # No blank after the label in the first frame: the label takes one itself.
        impossible = torch.full_like(with_label[:, :1], LOG_ZERO)
        entering_blank = _shift_by_a_frame(with_label, impossible)
        with_blank = _scan_frames(entering_blank, self.labels[parents.utterance, BLANK])
        return Prefixes(
            forward=torch.stack((with_label, with_blank), 1).clamp(min=LOG_ZERO),
            score=extensions.scores[rows, columns],
            last=label,
            utterance=parents.utterance,
        )


def _score_start(prefixes: Prefixes) -> torch.Tensor:
    """Score prefixes before the first frame, (n, 1): the empty one is certain."""
    start = torch.where(prefixes.last < 0, 0.0, LOG_ZERO)
    return start.to(prefixes.forward).unsqueeze(1)


def _add_endings(prefixes: Prefixes) -> torch.Tensor:
    """Return log (f_n + f_b), (n, T)."""
    return torch.logaddexp(prefixes.forward[:, 0], prefixes.forward[:, 1])


def _shift_by_a_frame(x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Return x[t-1] at each frame t of x, (n, T), and ``start``, (n, 1), at frame 0."""
    return torch.cat((start, x[:, :-1]), 1)


def _log_sum(x: torch.Tensor) -> torch.Tensor:
    """Return ``x.logsumexp(2)`` of x, (n, S, T), which is overwritten."""
    highest = x.amax(2, keepdim=True)
    x = x.sub_(highest).clamp_(min=LEAST_DIFFERENCE).exp_()
    return x.sum(2).log_() + highest.squeeze(2)


def _scan_frames(entering: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of being in a label at each frame, (n, T).

    ``entering`` and ``labels`` are log-probabilities, (n, T), of what enters the label
    at a frame, e[t], and of the label there, p[t].
    """
    # f[t] = (f[t-1] + e[t]) p[t] for all t at once. With P[t] = p[0] ... p[t] and
    # g = f / P it reads g[t] = g[t-1] + e[t] / P[t-1], which is a plain sum: f[t] is
    # P[t] times the sum of e[s] / P[s-1] over s <= t. Below all are logarithms.
    # In double precision, since log P falls without end (to -1e5 a frame): g is a
    # difference of two such sums, and single precision keeps 7 digits of them.
    products = labels.double().cumsum(1)
    products_before = _shift_by_a_frame(products, torch.zeros_like(products[:, :1]))
    return (entering - products_before).logcumsumexp(1) + products
