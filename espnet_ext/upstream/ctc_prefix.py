"""CTC prefix scores (Watanabe et al. 2017, algorithm 2) of all frames at once; ESPnet computes frame by frame.

The forward probabilities of a prefix are linear recurrences: a sum over the frames where its last label may begin. Each
term is the probability of the shorter prefix at that frame, times that of all labels since. With cumulated
log-probabilities, the sums up to each frame are one ``logcumsumexp``.
"""

from typing import Any

import torch
from espnet2.legacy.nets.ctc_prefix_score import CTCPrefixScoreTH
from espnet2.legacy.nets.scorers.ctc import CTCPrefixScorer

State = tuple[torch.Tensor, torch.Tensor, int, int, torch.Tensor | None]


class ScanCTCPrefixScorer(CTCPrefixScorer):
    """ESPnet's scorer of batched searches, with the same scores, by :class:`ScanCTCPrefixScore`.

    Args:
        ctc: ESPnet's CTC layer.
        eos: id of the end of a sentence.
    """

    impl: CTCPrefixScoreTH

    def __init__(self, ctc: torch.nn.Module, eos: int):
        super().__init__(ctc=ctc, eos=eos)

    def batch_init_state(self, x: torch.Tensor, xs_lengths: torch.Tensor | None = None) -> None:
        """Set the utterances: encodings, (T, D) or (B, T, D), and for a padded batch the numbers of frames, (B,)."""
        super().batch_init_state(x, xs_lengths)
        log_probabilities = self.impl.x[0].transpose(0, 1)
        self.impl = ScanCTCPrefixScore(log_probabilities, self.impl.end_frames + 1, 0, self.eos)


class ScanCTCPrefixScore(CTCPrefixScoreTH):
    """Prefix scores of labels that follow hypotheses, with the interface and states of ESPnet's class.

    It computes in double precision: for long recordings, cumulated log-probabilities are much larger than their
    differences.

    Args:
        x: log-probabilities of the labels in each frame, (B, T, labels).
        xlens: numbers of frames, (B,).
        blank: id of the blank.
        eos: id of the end of a sentence.
    """

    def __init__(self, x: torch.Tensor, xlens: torch.Tensor, blank: int, eos: int):
        super().__init__(x.double(), xlens, blank, eos)
        self.scored_in = x.dtype
        self.log_probabilities = self.x[0]  # (T, B, labels)
        self.cumulated = self.log_probabilities.cumsum(0)

    def __call__(
        self, y: Any, state: tuple | None, scoring_ids: torch.Tensor | None = None, att_w: None = None
    ) -> tuple[torch.Tensor, State]:
        """Score labels after prefixes.

        Args:
            y: n prefixes that begin with sos, (n, L), the same number for each of the B utterances.
            state: from :meth:`index_select_state`; None before the first label.
            scoring_ids: the labels to be scored, (n, S); None for all.
            att_w: not used.

        Returns:
            Log-probabilities of each label given the prefix, (n, labels), and the state.
        """
        last = y[:, -1] if torch.is_tensor(y) else torch.tensor([prefix[-1] for prefix in y], device=self.device)
        count = len(last)
        rows = torch.arange(count, device=self.device)
        utterances = rows // (count // self.batch)
        if scoring_ids is None:
            ids, places = torch.arange(self.odim, device=self.device).expand(count, -1), None
            self.scoring_num = 0
        else:
            ids, self.scoring_num = scoring_ids, scoring_ids.size(1)
            places = torch.full((count, self.odim), -1, dtype=torch.long, device=self.device)
            places.scatter_(1, ids, torch.arange(ids.size(1), device=self.device).expand_as(ids))
        before, score = self._start(count, utterances) if state is None else state[:2]
        labels = self.log_probabilities[:, utterances.unsqueeze(1), ids]  # (T, n, S)
        sums = self.cumulated[:, utterances.unsqueeze(1), ids]
        either = before.logsumexp(1)  # the prefix, ending with its last label or a blank
        ending = either.unsqueeze(2).expand_as(labels)
        # a repeated label needs a blank in between
        ending = torch.where(ids == last.unsqueeze(1), before[:, 1].unsqueeze(2), ending)
        first = labels[0] if len(y[0]) == 1 else torch.full_like(labels[0], self.logzero)
        with_label = self._scan(torch.cat((first.unsqueeze(0), ending[:-1])), sums)
        blanks = self.cumulated[:, utterances, self.blank].unsqueeze(2).expand_as(sums)
        nothing = torch.full_like(first, self.logzero).unsqueeze(0)
        with_blank = self._scan(torch.cat((nothing, with_label[:-1])), blanks)

        starts = torch.cat((first.unsqueeze(0), ending[:-1] + labels[1:]))
        prefix = torch.full((count, self.odim), self.logzero, dtype=self.dtype, device=self.device)
        prefix.scatter_(1, ids, starts.logsumexp(0))
        prefix[:, self.eos] = either[self.end_frames[utterances], rows]
        if self.eos != self.blank:
            prefix[:, self.blank] = self.logzero
        new = torch.stack((with_label, with_blank), 1).clamp(min=self.logzero)
        return (prefix - score).to(self.scored_in), (new, prefix, 0, 0, places)

    def _start(self, count: int, utterances: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Return forward probabilities of no label yet, (T, 2, n), and its score."""
        blanks = self.cumulated[:, utterances, self.blank]
        return torch.stack((torch.full_like(blanks, self.logzero), blanks), 1), 0.0

    @staticmethod
    def _scan(entering: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
        """Return the log-probability of being in a label at each frame, having entered it at some earlier frame.

        Args:
            entering: in frame 0, log-probability of being in it; later, of its predecessor in the previous frame.
            sums: cumulated log-probabilities of the label.
        """
        passed = torch.cat((sums[:1], sums[:-1]))
        return (entering - passed).logcumsumexp(0) + sums
