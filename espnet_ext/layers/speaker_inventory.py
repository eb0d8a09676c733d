"""Who speaks a token: speaker queries and the attention over an inventory of speaker profiles (P4, eq. 7 to 10)."""

import torch

from espnet_ext.errors import InputError

QueryState = tuple[torch.Tensor, torch.Tensor]


class SpeakerQuery(torch.nn.Module):
    """SpeakerQueryRNN, P4, eq. 8: an LSTM over speaker contexts and previous tokens, projected to a profile's size.

    Args:
        vocab_size: number of tokens.
        context_size: dimension of the speaker encodings.
        profile_size: dimension of the profiles.
        hidden_size: number of cells, and dimension of the token embeddings.
        num_layers: number of LSTM layers.
        dropout: dropout on the embeddings and on the LSTM's output.
        residual: add the speaker context to the query, which then begins as what the recording says of the speaker; not
            in the paper. For contexts that are of the same kind as profiles, such as d-vectors.
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
                f"speaker query: residual needs speaker encodings of the profiles' {profile_size} dimensions, not "
                f"{context_size}: leave residual out, or set speaker_encoder to d_vectors"
            )
        self.residual = residual
        self.embed = torch.nn.Embedding(vocab_size, hidden_size)
        self.dropout = torch.nn.Dropout(dropout)
        self.lstm = torch.nn.LSTM(context_size + hidden_size, hidden_size, num_layers, batch_first=True)
        self.output = torch.nn.Linear(hidden_size, profile_size)

    def forward(
        self, contexts: torch.Tensor, previous: torch.Tensor, state: QueryState | None = None
    ) -> tuple[torch.Tensor, QueryState]:
        """Return queries of consecutive tokens.

        Args:
            contexts: speaker contexts p of the tokens, (B, L, context_size).
            previous: the token before each, (B, L).
            state: of the LSTM, (layers, B, cells) each; None before the first token.

        Returns:
            Queries, (B, L, profile_size), and the state after the last one.
        """
        inputs = torch.cat((contexts, self.dropout(self.embed(previous))), dim=-1)
        outputs, state = self.lstm(inputs, state)
        queries = self.output(self.dropout(outputs))
        return (queries + contexts if self.residual else queries), state


def inventory_attention(
    queries: torch.Tensor,
    profiles: torch.Tensor,
    present: torch.Tensor | None = None,
    scale: torch.Tensor | float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Apply InventoryAttention: a softmax over the cosines of a query and the profiles (P4, eq. 9), and the profiles'
    mean by these weights (P4, eq. 10).

    Args:
        queries: (B, L, E).
        profiles: (B, K, E), padded along K.
        present: where a profile is no padding, (B, K), at least one in each row; None: everywhere.
        scale: factor of the cosines. They lie between -1 and 1, so that with a factor of 1 no speaker of eight can get
            a posterior above 0.52.

    Returns:
        Logarithms of the posteriors (P4, eq. 11), (B, L, K), minus infinity for padding; weighted profiles, (B, L, E).
    """
    cosines = torch.nn.functional.normalize(queries, dim=-1) @ torch.nn.functional.normalize(profiles, dim=-1).mT
    scores = scale * cosines
    if present is not None:
        scores = scores.masked_fill(~present.unsqueeze(1), -torch.inf)
    log_posteriors = scores.log_softmax(dim=-1)
    return log_posteriors, log_posteriors.exp() @ profiles


def segment_indices(tokens: torch.Tensor, change: int) -> torch.Tensor:
    """Return the segment of each token, counted from 0; the symbol of a speaker change ends its segment.

    Args:
        tokens: (B, L).
        change: id of the symbol.

    Returns:
        (B, L).
    """
    changes = (tokens == change).long()
    return changes.cumsum(dim=1) - changes


def segment_posteriors(posteriors: torch.Tensor, tokens: torch.Tensor, change: int) -> torch.Tensor:
    """Return the mean speaker posteriors of each segment of one hypothesis, with its closing symbol (``<sc>`` or end).

    Args:
        posteriors: of each token, (L, K).
        tokens: (L,).
        change: id of the speaker-change symbol.

    Returns:
        (segments, K).
    """
    numbers = segment_indices(tokens.unsqueeze(0), change)[0]
    count = int(numbers[-1]) + 1
    sums = posteriors.new_zeros(count, posteriors.size(1)).index_add(0, numbers, posteriors)
    return sums / numbers.bincount(minlength=count).unsqueeze(1)
