"""Cross-entropy of a decoder's tokens by language, near a switch of language and elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass

from espnet_ext.codeswitch.trained_decoder import Example, TrainedDecoder
from espnet_ext.text.token_languages import NEITHER

NEAR, ELSEWHERE = "near", "elsewhere"
AFTER = 2  # tokens after a switch that count as near it


@dataclass(frozen=True)
class TokenLoss:
    """A token of a reference: its language, where it is, and -log P(token | speech, tokens before it) in nats."""

    language: str
    place: str
    nats: float


def token_losses(decoder: TrainedDecoder, example: Example) -> list[TokenLoss]:
    """The losses of the tokens of one utterance that are of a language; the end of the sentence is of none.

    Near a switch are the first two tokens of a language after one of the other: the decoder predicts the first of them
    at a token of the other language, and the second at one of its own.
    """
    targets = example.fed[0, 1:]
    logs = decoder.scores(example)[:-1].log_softmax(-1)
    losses = -logs.gather(1, targets.unsqueeze(1)).squeeze(1)
    languages = example.languages[1:]
    return [
        TokenLoss(language, place, nats)
        for language, place, nats in zip(languages, places(languages), losses.tolist(), strict=True)
        if language != NEITHER
    ]


def places(languages: Sequence[str]) -> list[str]:
    """Near a switch or elsewhere, for each token.

    >>> places(["zh", "zh", "en", "en", "en", "-", "zh"])
    ['elsewhere', 'elsewhere', 'near', 'near', 'elsewhere', 'elsewhere', 'near']
    """
    found = []
    last, since = "", AFTER
    for language in languages:
        if language == NEITHER:
            found.append(ELSEWHERE)
            continue
        since = 0 if last and language != last else since + 1
        last = language
        found.append(NEAR if since < AFTER else ELSEWHERE)
    return found
