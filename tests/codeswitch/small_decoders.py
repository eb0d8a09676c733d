"""Small language-related decoders, in double precision, and what they and recurrent
decoders are given.
"""

import torch
from espnet2.asr.ctc import CTC
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from espnet2.legacy.nets.beam_search import BeamSearch
from espnet2.legacy.nets.scorers.ctc import CTCPrefixScorer

from espnet_ext.codeswitch.language_transformer import MODES, LanguageTransformerDecoder

VOCAB, SIZE, FRAMES = 24, 16, 16
EOS = VOCAB - 1
OTHERS = [mode for mode in MODES if mode != "none"]


def make(
    mode: str = "none", cls=LanguageTransformerDecoder, seed: int = 0, **options
) -> TransformerDecoder:
    """A small decoder in double precision whose tokens are of two languages or neither,
    ``<sos/eos>`` of neither.
    """
    torch.manual_seed(seed)
    if cls is LanguageTransformerDecoder:
        options["mode"] = mode
    options = {
        "attention_heads": 2,
        "linear_units": 20,
        "num_blocks": 3,
        "dropout_rate": 0.0,
    } | options
    decoder = cls(VOCAB, SIZE, positional_dropout_rate=0.0, **options).double().eval()
    for parameter in (
        decoder.parameters()
    ):  # larger than ESPnet's, so that attention tells positions apart
        torch.nn.init.normal_(parameter, std=0.5)
    if mode != "none":
        decoder.token_languages.random_(0, 3)
        decoder.token_languages[EOS] = 0
    return decoder


def encodings(count: int = 1) -> torch.Tensor:
    return torch.randn(
        count,
        FRAMES,
        SIZE,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(count),
    )


def frames(size: int, length: int = 9, seed: int = 0) -> torch.Tensor:
    """Encodings of an utterance, (length, size)."""
    return torch.randn(
        length, size, generator=torch.Generator().manual_seed(seed)
    ).double()


def padded(
    size: int, lengths: list[int], filler: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Encodings of several utterances, (n, T, size), and their lengths."""
    batch = torch.full((len(lengths), max(lengths), size), filler).double()
    for row, length in enumerate(lengths):
        batch[row, :length] = frames(size, length, seed=row)
    return batch, torch.tensor(lengths)


def tokens(count: int, length: int, seed: int = 0) -> torch.Tensor:
    """Random sequences that begin with sos, (count, length)."""
    ys = torch.randint(
        0, EOS, (count, length), generator=torch.Generator().manual_seed(seed)
    )
    ys[:, 0] = EOS
    return ys


def search(
    vocabulary: int, size: int, kind: type, decoder, ctc_weight=0.0, beam=4, **options
) -> BeamSearch:
    """ESPnet's search of a kind with a decoder and a random CTC layer; the last token
    is sos and eos.
    """
    torch.manual_seed(5)
    scorers = {
        "decoder": decoder,
        "ctc": CTCPrefixScorer(CTC(vocabulary, size).double().eval(), vocabulary - 1),
    }
    weights, ends = (
        {"decoder": 1.0 - ctc_weight, "ctc": ctc_weight},
        (vocabulary - 1, vocabulary - 1),
    )
    return kind(
        scorers, weights, beam, vocabulary, *ends, pre_beam_score_key="full", **options
    )


def teach(
    decoder: TransformerDecoder, x: torch.Tensor, ys: torch.Tensor
) -> torch.Tensor:
    """Log-probabilities after each token by the forward pass, (n, L, vocabulary);
    ``x``: (T, D).
    """
    count, length = ys.shape
    xs = x.expand(count, -1, -1)
    scores, _ = decoder(
        xs, torch.full((count,), len(x)), ys, torch.full((count,), length)
    )
    return scores.log_softmax(-1) if decoder.output_layer else scores
