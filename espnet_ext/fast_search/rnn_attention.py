"""ESPnet's attention for RNN decoders, for many hypotheses at once and without state.

An utterance is projected once, into a :class:`Memory`, and not repeated for each row of
the batch as in ESPnet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from espnet2.legacy.nets.pytorch_backend.rnn.attentions import (
    AttAdd,
    AttDot,
    AttLoc,
    NoAtt,
)
from espnet2.legacy.nets.scorer_interface import BatchScorerInterface

from espnet_ext.errors import InputError

# The values of `att_conf: {atype: ...}`, and the modules that ESPnet builds.
ATTENTIONS = {"noatt": NoAtt, "dot": AttDot, "add": AttAdd, "location": AttLoc}

State = dict[str, Any]  # of a hypothesis; what is in it depends on the decoder

SCALING = 2.0  # ESPnet's modules multiply their energies by it before the softmax

# Elements of the energies' hidden layer that are computed at a time: per thread of a
# CPU, so that they stay in its cache, and on other devices.
CHUNK_PER_THREAD = 2**18
CHUNK_ELSEWHERE = 2**27


@dataclass(frozen=True, eq=False)
class Memory:
    """Hold an utterance as input of the attention.

    ``encodings``: output of the encoder, (T, D), without padding; ``keys``: its
    projection for the energies, (T, A), None for ``noatt``; ``width``: frames of the
    padded batch that it came from.
    """

    encodings: torch.Tensor
    keys: torch.Tensor | None
    width: int

    def make_uniform_weights(self) -> torch.Tensor:
        """Return the weights before the first token, (T,)."""
        frames = len(self.encodings)
        return self.encodings.new_full((frames,), 1.0 / frames)


def memorise(
    attention: Any,
    x: torch.Tensor,
    lengths: torch.Tensor | None = None,
) -> list[Memory]:
    """Project each utterance of a padded batch, (B, T, D), once.

    ``attention``: one of ESPnet's modules in ``ATTENTIONS``; ``lengths``: (B,), at
    least 1 each; None: all are T long.
    """
    width = x.size(1)
    frames = [width] * len(x) if lengths is None else lengths.tolist()
    keys = _project_keys(attention, x)
    memories = []
    for row, length in enumerate(frames):
        own_keys = None if keys is None else keys[row, :length]
        memories.append(Memory(x[row, :length], own_keys, width))
    return memories


def attend(
    attention: Any,
    memory: Memory,
    z: torch.Tensor,
    previous: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return context vectors, (n, D), and weights, (n, T), for n hypotheses.

    The hypotheses are of one utterance. ``z``: states of the decoder's first layer, (n,
    H); ``previous``: attention weights of the previous step, (n, T).
    """
    if memory.keys is None:  # noatt
        weights = previous
    else:
        if isinstance(attention, AttDot):
            energies = torch.tanh(attention.mlp_dec(z)) @ memory.keys.T
        else:
            energies = _compute_energies(attention, memory.keys, z, previous)
        weights = torch.softmax(SCALING * energies, dim=-1)
    return weights @ memory.encodings, weights


def _project_keys(attention: Any, x: torch.Tensor) -> torch.Tensor | None:
    if isinstance(attention, NoAtt):
        return None
    keys = attention.mlp_enc(x)
    if isinstance(attention, AttDot):
        return torch.tanh(keys)
    # twice, as compute_additive_energies wants them
    return 2 * keys


def _compute_energies(
    attention: Any,
    keys: torch.Tensor,
    z: torch.Tensor,
    previous: torch.Tensor,
) -> torch.Tensor:
    """Return energies g' tanh(keys + W z + U f), (n, T), up to a constant.

    f: convolved weights, for AttLoc alone.
    """
    columns = [torch.ones_like(previous).unsqueeze(1)]
    rows = [2 * attention.mlp_dec(z).unsqueeze(1)]
    if isinstance(attention, AttLoc):
        convolved = attention.loc_conv(previous[:, None, None])
        columns.append(convolved.squeeze(2))
        rows.append((2 * attention.mlp_att.weight.T).expand(len(z), -1, -1))
    left = torch.cat(columns, dim=1).transpose(1, 2)
    right = torch.cat(rows, dim=1)
    return compute_additive_energies(keys, left, right, attention.gvec.weight[0])


def compute_additive_energies(
    keys: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    v: torch.Tensor,
) -> torch.Tensor:
    """Compute energies v . tanh(keys + sum of left x right), (n, T), up to a constant.

    The n hypotheses are of one utterance. ``keys``: twice the projected encodings,
    (T, A); ``left``: what depends on frames, with a column of ones for what does not,
    (n, T, C); ``right``: twice the vectors that they are multiplied by, (n, C, A).
    """
    # tanh(a) = 2 sigmoid(2 a) - 1, so the energies are 2 v . sigmoid(2 a) minus a
    # constant, which does not change the softmax. On a CPU, torch's sigmoid takes a
    # third of the time of its tanh. One product and one addition give 2 a.
    if keys.device.type == "cpu":
        chunk = CHUNK_PER_THREAD * torch.get_num_threads()
    else:
        chunk = CHUNK_ELSEWHERE
    count = min(len(left), max(1, chunk // keys.numel()))
    # one buffer for all blocks: newly allocated memory costs more than the product that
    # is written to it
    buffer = None if torch.is_grad_enabled() else keys.new_empty(count, *keys.shape)
    energies = []
    blocks = zip(left.split(count), right.split(count), strict=True)
    for left_block, right_block in blocks:
        size = len(left_block)
        out = None if buffer is None else buffer[:size]
        argument = torch.baddbmm(
            keys.expand(size, -1, -1), left_block, right_block, out=out
        )
        energies.append(argument.sigmoid_() @ v)
    return 2 * torch.cat(energies)


def repeat_first_states(
    states: Sequence[State] | Sequence[list[State]],
) -> Sequence[State]:
    """Return the state of each hypothesis.

    Before the first token, the search passes to each the list of all B utterances'
    states. Hypotheses of an utterance are neighbours, and all utterances have the same
    number of them.
    """
    first = states[0]
    if isinstance(first, dict):
        return cast(Sequence[State], states)
    each = len(states) // len(first)
    repeated: list[State] = []
    for state in first:
        repeated.extend([state] * each)
    return repeated


class WholeUtteranceScorer(BatchScorerInterface):
    """Search with a decoder whose states hold their utterance as a :class:`Memory`.

    Each hypothesis has a :data:`State`. A subclass has ``name``, the decoder's name in
    ESPnet's configs, ``make_first_states`` and ``batch_logits``.
    """

    name: str

    def make_first_states(
        self,
        x: torch.Tensor,
        lengths: torch.Tensor | None,
    ) -> list[State]:
        """Return the states of utterances before their first token.

        ``x``: a padded batch, (B, T, D), with lengths, (B,); None: all are T long.
        """
        raise NotImplementedError

    def batch_logits(
        self,
        ys: torch.Tensor,
        states: Sequence[State],
    ) -> tuple[torch.Tensor, list[State]]:
        """Return logits of the next token of n hypotheses, (n, vocab_size).

        With them the states after ``ys``, (n, L).
        """
        raise NotImplementedError

    def init_state(self, x: torch.Tensor) -> State:
        """Return the state of an utterance, (T, D), before its first token."""
        return self.make_first_states(x.unsqueeze(0), None)[0]

    def batch_init_state(
        self,
        x: torch.Tensor,
        xs_lengths: torch.Tensor | None = None,
    ) -> State | list[State]:
        """Return the state of one utterance, (T, D), or those of a padded batch.

        A batch is (B, T, D), with lengths, (B,).
        """
        if x.dim() == 2:
            x = x.unsqueeze(0)
        states = self.make_first_states(x, xs_lengths)
        return states[0] if len(states) == 1 else states

    def score(
        self,
        yseq: torch.Tensor,
        state: State,
        x: torch.Tensor,
    ) -> tuple[torch.Tensor, State]:
        """Score the token after the prefix ``yseq``, (L,); return the state after it.

        Scores are log-probabilities, (vocab_size,).
        """
        logp, states = self.batch_score(yseq.unsqueeze(0), [state], x.unsqueeze(0))
        return logp[0], states[0]

    def batch_score(
        self,
        ys: torch.Tensor,
        states: Sequence[State] | Sequence[list[State]],
        xs: torch.Tensor,
        xs_mask: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, list[State]]:
        """Score the next token of n hypotheses; return the states after ``ys``, (n, L).

        Scores are log-probabilities, (n, vocab_size). ``states``: of each hypothesis;
        before the first token of several utterances, the list of their states, n times.
        They hold encodings and lengths, so that of ``xs``, (n, T, D), only T is used,
        and ``xs_mask`` not.
        """
        logits, new = self.batch_logits(ys, self.list_states(states, xs))
        return logits.log_softmax(dim=-1), new

    def select_utterances(
        self,
        states: list[State],
        utterances: torch.Tensor,
        xs: torch.Tensor,
    ) -> list[State]:
        """Return the states of some utterances' hypotheses: each has its own memory."""
        return states

    def list_states(
        self,
        states: Sequence[State] | Sequence[list[State]],
        xs: torch.Tensor,
    ) -> Sequence[State]:
        """Return the state of each hypothesis, from what ``batch_score`` is given.

        ``xs``: encodings, (n, T, D). Raises InputError: they are others than the
        states', as a streaming search passes them.
        """
        states = repeat_first_states(states)
        if states[0]["memory"].width != xs.size(1):
            raise InputError(
                f"{self.name} attends to whole utterances: decode without --streaming"
            )
        return states
