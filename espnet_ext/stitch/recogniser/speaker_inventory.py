"""Find who speaks a token by attention over speaker profiles (P4, eq. 7 to 10)."""

import torch

from espnet_ext.errors import InputError

QueryState = tuple[torch.Tensor, torch.Tensor]


class SpeakerQuery(torch.nn.Module):
    """Run SpeakerQueryRNN (P4, eq. 8).

    SpeakerQueryRNN is an LSTM over speaker contexts and previous tokens, with a
    projection to profiles.

    With ``residual``, which is not in the paper, the speaker context is added to the
    query. It is for contexts of the same kind as profiles, such as d-vectors.
    ``dropout`` is on the embeddings and on the LSTM's output.
    """

    def __init__(
        self,
        vocab_size: int,
        context_size: int,
        profile_size: int,
        hidden_size: int = 512,
        num_layers: int = 1,
        dropout: float = 0.0,
        residual: bool = False,
    ):
        super().__init__()
        if residual and context_size != profile_size:
            raise InputError(
                "speaker query: residual needs speaker encodings of the "
                f"profiles' {profile_size} dimensions, not "
                f"{context_size}: leave residual out, or set speaker_encoder to "
                "d_vectors"
            )
        self.residual = residual
        self.embed = torch.nn.Embedding(vocab_size, hidden_size)
        self.dropout = torch.nn.Dropout(dropout)
        self.lstm = torch.nn.LSTM(
            context_size + hidden_size, hidden_size, num_layers, batch_first=True
        )
        self.output = torch.nn.Linear(hidden_size, profile_size)

    def forward(
        self,
        contexts: torch.Tensor,
        previous: torch.Tensor,
        state: QueryState | None = None,
    ) -> tuple[torch.Tensor, QueryState]:
        """Return queries of consecutive tokens, (B, L, profile_size), and the state.

        ``contexts``: p of the tokens, (B, L, context_size); ``previous``: the token
        before each, (B, L); ``state``: (layers, B, cells) each, or None before the
        first token.
        """
        inputs = torch.cat((contexts, self.dropout(self.embed(previous))), dim=-1)
        outputs, state = self.lstm(inputs, state)
        queries = self.output(self.dropout(outputs))
        return (queries + contexts if self.residual else queries), state


def attend_to_inventory(
    queries: torch.Tensor,
    profiles: torch.Tensor,
    present: torch.Tensor | None = None,
    scale: torch.Tensor | float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Apply InventoryAttention (P4, eq. 9 and 10).

    Profiles are averaged by a softmax over their cosines with a query. ``queries`` are
    (B, L, E), ``profiles`` (B, K, E), padded along K; ``present``, (B, K), is true
    where one is no padding. ``scale`` is of the cosines: with 1 no speaker of eight
    gets a posterior above 0.52. Returned are logarithms of the posteriors (P4, eq. 11),
    (B, L, K), minus infinity for padding, and weighted profiles, (B, L, E).
    """
    directions = torch.nn.functional.normalize(queries, dim=-1)
    cosines = directions @ torch.nn.functional.normalize(profiles, dim=-1).mT
    scores = scale * cosines  # P4 has no scale: it is 1
    if present is not None:
        scores = scores.masked_fill(~present.unsqueeze(1), -torch.inf)
    log_posteriors = scores.log_softmax(dim=-1)
    # The profiles themselves, not their directions: eq. 10 averages what is stored.
    return log_posteriors, log_posteriors.exp() @ profiles


def number_segments(tokens: torch.Tensor, change: int) -> torch.Tensor:
    """Return the segment of each token, (B, L), from 0.

    The speaker-change symbol, ``change``, ends its segment.
    """
    # A symbol counts for the tokens after it, not for itself.
    changes = (tokens == change).long()
    return changes.cumsum(dim=1) - changes


def average_posteriors(
    posteriors: torch.Tensor, tokens: torch.Tensor, change: int
) -> torch.Tensor:
    """Return the mean posteriors of each segment, (segments, K).

    Its closing symbol is a part of it. ``posteriors``: of tokens, (L, K).
    """
    numbers = number_segments(tokens.unsqueeze(0), change)[0]
    count = int(numbers[-1]) + 1
    zeros = posteriors.new_zeros(count, posteriors.size(1))
    sums = zeros.index_add(0, numbers, posteriors)
    sizes = numbers.bincount(minlength=count)
    return sums / sizes.unsqueeze(1)
