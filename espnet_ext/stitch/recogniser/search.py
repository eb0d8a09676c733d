"""Search with a beam for what was said, and who said it (P4, 2.1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.scorer_interface import BatchScorerInterface
from espnet2.legacy.nets.scorers.ctc import CTCPrefixScorer
from espnet2.legacy.nets.scorers.length_bonus import LengthBonus

from espnet_ext.errors import InputError
from espnet_ext.fast_search.beam_search import make_fast
from espnet_ext.stitch.recogniser.sa_asr import SAASRModel
from espnet_ext.stitch.recogniser.search_settings import SearchOptions
from espnet_ext.stitch.recogniser.speaker_attributed_decoder import (
    SpeakerAttributedDecoder,
    State,
)
from espnet_ext.stitch.recogniser.speaker_inventory import (
    average_posteriors,
    number_segments,
)
from espnet_ext.upstream.padding import mark_valid_frames

DEFAULT = SearchOptions()


@dataclass(frozen=True)
class SpeakerSegment:
    """Hold an utterance of one speaker in a hypothesis, by the place in the inventory.

    ``posterior``: the mean of that speaker over the tokens; ``times``: approximate
    start and end of each word as shares of the recording's length: the frames that its
    first and its last token attend to most.
    """

    words: tuple[str, ...]
    speaker: int
    posterior: float
    times: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class SpeakerHypothesis:
    """Hold a hypothesis of a recording or window.

    A hypothesis has utterances with words, in the order of their starts.
    """

    segments: tuple[SpeakerSegment, ...]
    score: float
    tokens: tuple[int, ...] = ()


class SpeakerScorer(BatchScorerInterface):
    """Score with the decoder for B utterances of the same length.

    ``speaker_encodings``: (B, T, D'); ``profiles``: (B, K, E); ``present``: where a
    profile is no padding, (B, K).
    """

    def __init__(
        self,
        decoder: SpeakerAttributedDecoder,
        speaker_encodings: torch.Tensor,
        profiles: torch.Tensor,
        present: torch.Tensor,
    ):
        self.decoder = decoder
        self.inventory = (speaker_encodings, profiles, present)

    def init_state(self, x: torch.Tensor) -> State:
        """Return the state before the first token.

        ``x``: encodings, (T, D) or (B, T, D).
        """
        return self.decoder.init_state(x)

    def batch_score(
        self, ys: torch.Tensor, states: Sequence[State], xs: torch.Tensor
    ) -> tuple[torch.Tensor, list[State]]:
        """Score the next token of n hypotheses, n / B of each utterance.

        Return also their states after it.
        """
        return self.decoder.step(ys, states, xs, *self.inventory)

    def score(
        self, y: torch.Tensor, state: State, x: torch.Tensor
    ) -> tuple[torch.Tensor, State]:
        """Score the next token of one hypothesis: ``y`` (L,), ``x`` (T, D)."""
        scores, states = self.batch_score(y.unsqueeze(0), [state], x.unsqueeze(0))
        return scores[0], states[0]


@torch.no_grad()
def recognise_together(
    model: SAASRModel,
    speeches: Sequence[np.ndarray | torch.Tensor],
    inventories: Sequence[np.ndarray | torch.Tensor],
    to_words: Callable[[list[str]], Sequence[str]],
    options: SearchOptions = DEFAULT,
    nbest: int = 1,
) -> list[list[SpeakerHypothesis]]:
    """Recognise windows of the same length in one batch and search.

    Returns the ``nbest`` best hypotheses of each window, or fewer.

    ``speeches`` are samples, (N,), or features, (N, D), all as long: nothing is padded,
    and each result is that of the window alone. ``inventories`` are profiles of the
    speakers to choose from, (K, E); ``to_words`` makes words of the tokens of one
    utterance. Raises InputError: no profile, one of another dimension, or CTC of a
    model that has none.
    """
    device = next(model.parameters()).device

    def move(array: np.ndarray | torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(array, dtype=torch.float32, device=device)

    batch = torch.stack([move(speech) for speech in speeches])
    known = [move(profiles) for profiles in inventories]
    for profiles in known:
        if profiles.dim() != 2 or not len(profiles):
            raise InputError(
                "sa_asr: there is no profile to choose a speaker from: give at "
                "least one"
            )
        model.check_profiles(profiles)
    # All are as long: an encoder sees no padding, and no mask.
    lengths = torch.full((len(batch),), batch.size(1), device=device)
    encodings, speaker_encodings, _ = model.encode_both(batch, lengths)
    counts = torch.tensor([len(profiles) for profiles in known], device=device)
    padded = torch.nn.utils.rnn.pad_sequence(known, batch_first=True)
    scorer = SpeakerScorer(
        model.decoder,
        speaker_encodings,
        padded,
        mark_valid_frames(counts, padded.size(1)),
    )
    search = _make_search(model, scorer, options)
    found = search(
        x=encodings, maxlenratio=options.maxlenratio, minlenratio=options.minlenratio
    )
    frames = encodings.size(1)
    lists = []
    for own in found:
        best = [_make_hypothesis(model, each, to_words, frames) for each in own[:nbest]]
        lists.append(best)
    return lists


def _make_search(
    model: SAASRModel, scorer: SpeakerScorer, options: SearchOptions
) -> BatchBeamSearch:
    if options.ctc_weight and model.ctc is None:
        raise InputError(
            "ctc_weight is set, but the model was trained without CTC: set it to 0"
        )
    ctc = None
    if options.ctc_weight:
        ctc = CTCPrefixScorer(ctc=model.ctc, eos=model.eos)
    search = BatchBeamSearch(
        scorers={
            "decoder": scorer,
            "ctc": ctc,
            "length_bonus": LengthBonus(model.vocab_size),
        },
        weights={
            "decoder": 1.0 - options.ctc_weight,
            "ctc": options.ctc_weight,
            "length_bonus": options.penalty,
        },
        # The first step has no more tokens to choose from than the vocabulary.
        beam_size=min(options.beam_size, model.vocab_size),
        vocab_size=model.vocab_size,
        sos=model.sos,
        eos=model.eos,
        # As in ESPnet: CTC scores only the tokens that are best by all other scorers.
        pre_beam_score_key="full" if options.ctc_weight else None,
        normalize_length=options.normalize_length,
    )
    # The states of a hypothesis hold the speakers of its tokens.
    make_fast(search, return_states=True)
    return search.to(next(model.parameters()).device).eval()


def _make_hypothesis(
    model: SAASRModel,
    found: Any,
    to_words: Callable[[list[str]], Sequence[str]],
    length: int,
) -> SpeakerHypothesis:
    log_posteriors, frames = found.states["decoder"]["tokens"].collect_tokens()
    posteriors = log_posteriors.exp()
    # a search that has reached its maximum length appends an end that was not scored
    tokens = found.yseq[1 : 1 + len(posteriors)].to(posteriors.device)
    means = average_posteriors(posteriors, tokens, model.change)
    numbers = number_segments(tokens.unsqueeze(0), model.change)[0]
    segments = []
    for number, mean in enumerate(means):
        # Symbols count in an utterance's mean posterior, but are no part of its words.
        kept = (numbers == number) & (tokens != model.change) & (tokens != model.eos)
        pieces = [model.token_list[token] for token in tokens[kept].tolist()]
        words = tuple(to_words(pieces))
        if words:
            times = find_word_times(pieces, frames[kept].tolist(), to_words, length)
            segments.append(
                SpeakerSegment(words, int(mean.argmax()), float(mean.max()), times)
            )
    return SpeakerHypothesis(
        tuple(segments), float(found.score), tuple(tokens.tolist())
    )


def find_word_times(
    pieces: Sequence[str],
    frames: Sequence[int],
    to_words: Callable[[list[str]], Sequence[str]],
    length: int,
) -> tuple[tuple[float, float], ...]:
    """Return start and end of each word, as shares of ``length`` frames.

    They come from the frames that a word's pieces attend to. A piece belongs to the
    word that is the last one once the piece is added.

    >>> def to_words(pieces):
    ...     return "".join([*pieces, " "]).replace("-", "").split()
    >>> find_word_times(["A", "B-", "C"], [4, 8, 9], to_words, 10)
    ((0.4, 1.0),)
    """
    spans: list[list[int]] = []
    for place, frame in enumerate(frames):
        # Tokenizers differ in where words begin, so this one is asked each time.
        count = len(to_words(list(pieces[: place + 1])))
        if count > len(spans):
            spans += [[frame, frame] for _ in range(count - len(spans))]
        elif spans:
            spans[-1] = [min(spans[-1][0], frame), max(spans[-1][1], frame)]
    return tuple((start / length, (end + 1) / length) for start, end in spans)
