"""``decoder: weight_feedback_rnn``: the LSTM decoder of P2's reference [17].

That is Zeyer et al. 2018. P2 (section 4) takes its decoder from there: the energies of
the attention depend on the encoding h[m], on the decoder's state s[l] and on the weight
feedback beta[l][m], which sums up the attention that the frame has had before. With
y[l] the token before step l (zero at the first one) and E its embedding:

    s[l]       = LSTM(s[l-1], E y[l], c[l-1])
    e[l][m]    = v . tanh(W_h h[m] + b + W_s s[l] + w_beta beta[l-1][m])
    a[l]       = softmax of e[l] over the frames m
    beta[l][m] = beta[l-1][m] + 0.5 sigmoid(u . h[m]) a[l][m]
    c[l]       = sum over m of a[l][m] h[m]
    p[l]       = softmax(W_o maxout(W_r [s[l], E y[l], c[l]] + b_r) + b_o)

The sigmoid is the inverse fertility of the frame. Biases, sizes, the factor 0.5 and the
zero before the first token are those of the published configuration of [17].
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from espnet2.asr.decoder.abs_decoder import AbsDecoder

from espnet_ext.errors import InputError
from espnet_ext.fast_search.blocked_linear import blocked_linear
from espnet_ext.fast_search.rnn_attention import (
    Memory,
    State,
    WholeUtteranceScorer,
    compute_additive_energies,
)
from espnet_ext.upstream.padding import mark_valid_frames

# In the state of a hypothesis, which is a dict, since the search copies tensors in
# dicts when a hypothesis ends: z, c: state and cells of the LSTM, (cells,); context:
# context vector, (D,); feedback: beta, (T,); memory: the utterance's FertilityMemory
FERTILITY_SCALE = 0.5
PIECES = 2  # of the maxout


@dataclass(frozen=True, eq=False)
class FertilityMemory(Memory):
    """Hold an utterance as input of the attention.

    ``inverse_fertility`` is that of its frames, (T,).
    """

    inverse_fertility: torch.Tensor


class WeightFeedbackRNNDecoder(WholeUtteranceScorer, AbsDecoder):
    """Compute the equations above, in a search for all hypotheses of a beam at once.

    The last token of the vocabulary is sos and eos, whose embedding is zero.
    ``readout_size`` is that before the maxout, which halves it; ``dropout`` is on the
    input of the softmax.
    """

    name = "weight_feedback_rnn"

    def __init__(
        self,
        vocab_size: int,
        encoder_output_size: int,
        hidden_size: int = 1024,
        embed_size: int = 621,
        attention_size: int = 1024,
        readout_size: int = 1000,
        dropout: float = 0.3,
    ):
        super().__init__()
        if readout_size % PIECES:
            raise InputError(
                f"weight_feedback_rnn: readout_size is {readout_size}, it must be "
                "even for the maxout"
            )
        self.embed = torch.nn.Embedding(
            vocab_size, embed_size, padding_idx=vocab_size - 1
        )
        self.cell = torch.nn.LSTMCell(embed_size + encoder_output_size, hidden_size)
        self.key = torch.nn.Linear(encoder_output_size, attention_size)
        self.query = torch.nn.Linear(hidden_size, attention_size, bias=False)
        self.feedback = torch.nn.Linear(1, attention_size, bias=False)
        self.energy = torch.nn.Linear(attention_size, 1, bias=False)
        self.inverse_fertility = torch.nn.Linear(encoder_output_size, 1, bias=False)
        self.readout = torch.nn.Linear(
            hidden_size + embed_size + encoder_output_size, readout_size
        )
        self.dropout = torch.nn.Dropout(dropout)
        self.output = torch.nn.Linear(readout_size // PIECES, vocab_size)
        self._initialise()

    def _initialise(self) -> None:
        """Draw Glorot-uniform weights; biases are 0, of the forget gate 1.

        So does RETURNN, which trained [17].
        """
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if "bias" in name:
                    parameter.zero_()
                else:
                    torch.nn.init.xavier_uniform_(parameter)
            self.embed.weight[self.embed.padding_idx] = 0.0
            size = self.cell.hidden_size
            # PyTorch adds two biases; the forget gate is the second
            self.cell.bias_ih[size : 2 * size] = 1.0

    def forward(
        self,
        hs_pad: torch.Tensor,
        hlens: torch.Tensor,
        ys_in_pad: torch.Tensor,
        ys_in_lens: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Score with teacher forcing, before the softmax, (B, L, vocab_size).

        Returns ``ys_in_lens`` too. ``hs_pad``: encodings, (B, T, D), with lengths,
        (B,); ``ys_in_pad``: tokens with sos in front, (B, L).
        """
        batch, frames, width = hs_pad.shape
        valid = mark_valid_frames(hlens, frames)
        keys = self.key(hs_pad)
        inverse_fertility = self._compute_inverse_fertility(hs_pad)
        w_beta = self.feedback.weight.T
        v = self.energy.weight[0]
        embeddings = self.embed(ys_in_pad)
        z = hs_pad.new_zeros(batch, self.cell.hidden_size)
        c = z
        context = hs_pad.new_zeros(batch, width)
        beta = torch.zeros_like(inverse_fertility)
        states = []
        contexts = []
        for embedding in embeddings.unbind(dim=1):
            z, c = self.cell(torch.cat((embedding, context), dim=1), (z, c))
            argument = keys + self.query(z).unsqueeze(1) + beta.unsqueeze(2) * w_beta
            energies = torch.tanh(argument) @ v
            weights = energies.masked_fill(~valid, -torch.inf).softmax(dim=1)
            beta = beta + FERTILITY_SCALE * inverse_fertility * weights
            context = (weights.unsqueeze(1) @ hs_pad).squeeze(1)
            states.append(z)
            contexts.append(context)
        # The readout sees all tokens at once: nothing of it goes into the next step.
        read = (torch.stack(states, dim=1), embeddings, torch.stack(contexts, dim=1))
        halved = compute_maxout(self.readout(torch.cat(read, dim=2)))
        return self.output(self.dropout(halved)), ys_in_lens

    def _compute_inverse_fertility(self, x: torch.Tensor) -> torch.Tensor:
        return self.inverse_fertility(x).squeeze(-1).sigmoid()

    def make_first_states(
        self,
        x: torch.Tensor,
        lengths: torch.Tensor | None,
    ) -> list[State]:
        width = x.size(1)
        frames = [width] * len(x) if lengths is None else lengths.tolist()
        states = []
        for padded, length in zip(x, frames, strict=True):
            own = padded[:length]
            zeros = own.new_zeros(self.cell.hidden_size)
            # Twice, as compute_additive_energies wants them: it has tanh(a) from the
            # sigmoid of 2 a.
            # Twice, as all summands: compute_additive_energies takes tanh by sigmoid.
            keys = 2 * self.key(own)
            fertility = self._compute_inverse_fertility(own)
            states.append(
                {
                    "z": zeros,
                    "c": zeros,
                    "context": own.new_zeros(own.size(1)),
                    "feedback": own.new_zeros(length),
                    "memory": FertilityMemory(own, keys, width, fertility),
                }
            )
        return states

    def batch_logits(
        self,
        ys: torch.Tensor,
        states: Sequence[State],
    ) -> tuple[torch.Tensor, list[State]]:
        embedding = self.embed(ys[:, -1])
        z = torch.stack([state["z"] for state in states])
        c = torch.stack([state["c"] for state in states])
        context = torch.stack([state["context"] for state in states])
        z, c = self._run_cell(torch.cat((embedding, context), dim=1), z, c)
        w_beta = self.feedback.weight[:, 0]
        # The query is the same at all frames, the feedback's row is times each one's.
        rows = torch.stack((2 * self.query(z), (2 * w_beta).expand(len(z), -1)), dim=1)
        contexts, feedback = self._attend(states, rows)
        read = torch.cat((z, embedding, contexts), dim=1)
        read = blocked_linear(read, self.readout.weight, self.readout.bias)
        halved = self.dropout(compute_maxout(read))
        logits = blocked_linear(halved, self.output.weight, self.output.bias)
        new_states = []
        for row, state in enumerate(states):
            new_states.append(
                {
                    **state,
                    "z": z[row],
                    "c": c[row],
                    "context": contexts[row],
                    "feedback": feedback[row],
                }
            )
        return logits, new_states

    def _run_cell(
        self,
        x: torch.Tensor,
        z: torch.Tensor,
        c: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the LSTM for few rows: new state and cells."""
        cell = self.cell
        gates = blocked_linear(x, cell.weight_ih, cell.bias_ih) + blocked_linear(
            z, cell.weight_hh, cell.bias_hh
        )
        i, f, g, o = gates.chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def _attend(
        self,
        states: Sequence[State],
        rows: torch.Tensor,
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return context vectors of n hypotheses, (n, D), and the weight feedback.

        The feedback is that after the hypotheses, n tensors (T of each,). ``rows``:
        twice the query of each, and twice w_beta, (n, 2, attention_size).
        """
        # Hypotheses of an utterance share the same object as memory.
        utterances: dict[int, list[int]] = {}
        for number, state in enumerate(states):
            utterances.setdefault(id(state["memory"]), []).append(number)
        # Rows stand for what is not computed yet: the order is that of the hypotheses.
        contexts: list[torch.Tensor] = [rows] * len(states)
        feedback: list[torch.Tensor] = [rows] * len(states)
        for numbers in utterances.values():
            memory = states[numbers[0]]["memory"]
            beta = torch.stack([states[number]["feedback"] for number in numbers])
            columns = torch.stack((torch.ones_like(beta), beta), dim=2)
            # stacked, as an index by a list is a copy that waits for the GPU
            own = torch.stack([rows[number] for number in numbers])
            energies = compute_additive_energies(
                memory.keys, columns, own, self.energy.weight[0]
            )
            weights = energies.softmax(dim=1)
            after = beta + FERTILITY_SCALE * memory.inverse_fertility * weights
            for number, context, row in zip(
                numbers, weights @ memory.encodings, after, strict=True
            ):
                contexts[number] = context
                feedback[number] = row
        return torch.stack(contexts), feedback


def compute_maxout(x: torch.Tensor) -> torch.Tensor:
    """Return the larger one of each two neighbours: (..., 2 N) -> (..., N)."""
    return x.unflatten(-1, (-1, PIECES)).amax(dim=-1)
