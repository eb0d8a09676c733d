"""Search with ESPnet's beam for rewritten texts, several at once.

The end is exact, and lengths suit rewriting.
"""

from typing import Any

import torch
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch, BatchHypothesis
from espnet2.legacy.nets.scorers.length_bonus import LengthBonus
from espnet2.mt.espnet_model import ESPnetMTModel

from espnet_ext.fast_search.decoders import FAST


class RewritingSearch(BatchBeamSearch):
    """Search for texts that are about as long as their sources, several at once.

    ESPnet's own search allows no text longer than its source, and continues for some
    steps after an end, as speech needs it. Here a text may be ten tokens longer than
    its source, which may lack words; a text that repeats itself stops there. A score is
    the sum of log-probabilities, which only falls, and of a bonus for each token. So
    the search for a text ends when the best complete hypothesis is at least as good as
    all others would be with the bonus of all tokens for which there is room: none of
    them could become better.
    """

    @staticmethod
    def _length_bounds(
        inp_lengths: list[int], maxlenratio: float, minlenratio: float
    ) -> tuple[list[int], list[int]]:
        return [length + 10 for length in inp_lengths], [0] * len(inp_lengths)

    def post_process(
        self, i: int, maxlen: list[int], minlen: Any, maxlenratio: float, *rest: Any
    ) -> BatchHypothesis:
        """Move complete hypotheses to a list, as ESPnet does, and mark done texts."""
        running = super().post_process(i, maxlen, minlen, maxlenratio, *rest)
        ended = rest[-1]
        if not len(running):
            return running
        done = running.done.clone()
        active = running.active_mask().clone()
        scores = running.score.cpu().masked_fill(~active, -torch.inf)
        # Hypotheses are in one batch, text after text: (texts, beam).
        scores = scores.view(running.n_utt, -1)
        bonus = self.weights.get("length_bonus", 0.0)
        for text, best in enumerate(scores.max(dim=1).values):
            if not ended[text]:
                continue
            # Log-probabilities are at most 0, so that only the bonus can raise a score.
            highest = best + bonus * max(0, maxlen[text] - i)
            if max(float(hypothesis.score) for hypothesis in ended[text]) >= highest:
                done[text] = True
        active &= ~done.repeat_interleave(scores.size(1))
        return running.replace(done=done, active=active)


def make_rewriting_search(
    model: ESPnetMTModel, beam_size: int, length_bonus: float = 0.0
) -> RewritingSearch:
    """Return a search with the decoder of an MT model.

    If there is a fast decoder for its class, that is used.

    ``length_bonus`` is added to a text's score for each token. Label smoothing of 0.1
    costs 0.1 for each token, even if the model is certain, so that without a bonus
    texts that end early are preferred.
    """
    fast = FAST.get(type(model.decoder))
    decoder = fast(model.decoder) if fast else model.decoder
    search = RewritingSearch(
        scorers={
            "decoder": decoder,
            "length_bonus": LengthBonus(model.vocab_size),
        },
        weights={"decoder": 1.0, "length_bonus": length_bonus},
        beam_size=min(beam_size, model.vocab_size),
        vocab_size=model.vocab_size,
        sos=model.sos,
        eos=model.eos,
    )
    return search.to(next(model.parameters()).device).eval()


@torch.no_grad()
def rewrite(
    model: ESPnetMTModel, search: RewritingSearch, sources: list[torch.Tensor]
) -> list[list[int]]:
    """Rewrite texts, token ids (L,) each, with a model in evaluation mode.

    Return token ids without start and end.
    """
    device = next(model.parameters()).device
    padded = torch.nn.utils.rnn.pad_sequence(
        sources, batch_first=True, padding_value=-1
    )
    counts = torch.tensor([len(source) for source in sources], device=device)
    encodings, lengths = model.encode(padded.to(device), counts)
    found = search(x=encodings, x_lengths=lengths.cpu())
    texts = []
    for nbest in found:
        # The start has the same id as the end.
        texts.append([token for token in nbest[0].yseq.tolist() if token != model.eos])
    return texts
