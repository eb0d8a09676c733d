"""The search that carries speaker posteriors, against enumeration and the equations."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.stitch.recogniser.search import SpeakerHypothesis, recognise_together
from espnet_ext.stitch.recogniser.search_settings import SearchOptions

EOS = 6
CHANGE = 2
RNN = {
    "decoder": "rnn",
    "decoder_conf": {"hidden_size": 8, "att_conf": {"adim": 8, "aconv_filts": 3}},
}


@pytest.fixture(params=[{}, RNN], ids=["transformer", "rnn"])
def model(request, build_sa_asr):
    model = build_sa_asr(
        **request.param, model_conf={"ctc_weight": 0.3, "profile_size": 4}
    )
    # as if trained: the output depends on the profile, the query on the tokens, and
    # speakers change
    torch.nn.init.normal_(model.decoder.profile.weight, std=2.0)
    torch.nn.init.normal_(model.decoder.query.output.weight)
    torch.nn.init.normal_(model.decoder.query.embed.weight, std=9.0)
    with torch.no_grad():
        model.decoder.output.bias[CHANGE] += 0.8
        model.decoder.cosine_scale.fill_(3.0)
    return model


def speech(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(40, 12))


def profiles(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 4))


def recognise(
    model, speech, profiles, to_words, *options, **named
) -> list[SpeakerHypothesis]:
    """Recognise one window."""
    return recognise_together(model, [speech], [profiles], to_words, *options, **named)[
        0
    ]


@torch.no_grad()
def forced(
    model, tokens: Sequence[int], inventory: np.ndarray
) -> tuple[float, np.ndarray]:
    """Log-probability of tokens by teacher forcing, and their speaker posteriors."""
    x = torch.tensor(speech(), dtype=torch.float32).unsqueeze(0)
    encodings, speaker_encodings, lengths = model.encode_both(x, torch.tensor([40]))
    ys = torch.tensor([[EOS, *tokens[:-1]]])
    inventory = torch.tensor(inventory, dtype=torch.float32).unsqueeze(0)
    present = torch.ones(inventory.shape[:2], dtype=torch.bool)
    scores, posteriors = model.decoder(
        encodings,
        lengths,
        speaker_encodings,
        ys,
        torch.tensor([len(tokens)]),
        inventory,
        present,
    )
    logp = scores.log_softmax(-1)[0, range(len(tokens)), tokens].sum().item()
    return logp, posteriors.exp()[0].numpy()


def test_the_search_finds_what_enumeration_finds(model):
    """Two steps: the first keeps all 7 tokens, the second the best 7 of 42.

    To these an end is added unscored.
    """
    inventory = profiles(3)
    two = sorted(
        (
            forced(model, list(pair), inventory) + (pair,)
            for pair in product(range(EOS), range(7))
        ),
        key=first,
    )
    expected = [(*forced(model, [EOS], inventory), (EOS,)), *two[-7:]]
    found = recognise(
        model,
        speech(),
        inventory,
        list,
        SearchOptions(beam_size=60, maxlenratio=-2),
        nbest=60,
    )
    assert len(found) == 8
    for hypothesis, (logp, posteriors, tokens) in zip(
        found, sorted(expected, key=first, reverse=True), strict=True
    ):
        assert hypothesis.score == pytest.approx(logp, abs=1e-4)
        assert shown(hypothesis) == heard(model, tokens, posteriors)


@pytest.mark.parametrize("ctc_weight", [0.0, 0.4])
@pytest.mark.parametrize(
    "seeds", [(0, 1, 2), (0, 0, 1), (3,)], ids=["three", "two the same", "one"]
)
def test_windows_that_are_searched_together_are_heard_as_alone(
    model, seeds, ctc_weight
):
    options = SearchOptions(beam_size=3, ctc_weight=ctc_weight)
    inventories = [profiles(2 + place, place) for place in range(len(seeds))]
    together = recognise_together(
        model, [speech(seed) for seed in seeds], inventories, list, options, nbest=3
    )
    for seed, inventory, found in zip(seeds, inventories, together, strict=True):
        alone = recognise(model, speech(seed), inventory, list, options, nbest=3)
        assert [each.tokens for each in found] == [each.tokens for each in alone]
        for one, other in zip(found, alone, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert shown(one) == shown(other)
            assert [each.times for each in one.segments] == [
                each.times for each in other.segments
            ]


def first(item: tuple) -> float:
    return item[0]


def test_scores_and_speakers_of_long_hypotheses_are_those_of_teacher_forcing(model):
    several = 0
    for seed in range(3):
        inventory = profiles(3, seed)
        found = recognise(
            model,
            speech(),
            inventory,
            list,
            SearchOptions(beam_size=7, maxlenratio=-9),
            nbest=30,
        )
        for hypothesis in found:
            logp, posteriors = forced(model, hypothesis.tokens, inventory)
            assert hypothesis.score == pytest.approx(logp, abs=1e-3)
            assert shown(hypothesis) == heard(model, hypothesis.tokens, posteriors)
            several += len(hypothesis.segments) > 1
    assert several


def heard(model, tokens: Sequence[int], posteriors: np.ndarray) -> list[tuple]:
    """The utterances of a token sequence, their speakers by the mean posterior.

    Its closing symbol is included.
    """
    utterances = []
    start = 0
    for place, token in enumerate(tokens):
        if token in (CHANGE, EOS) or place == len(tokens) - 1:
            mean = posteriors[start : place + 1].mean(0)
            body = tuple(
                model.token_list[t]
                for t in tokens[start : place + 1]
                if t not in (CHANGE, EOS)
            )
            if body:
                utterances.append(
                    (body, int(mean.argmax()), round(float(mean.max()), 3))
                )
            start = place + 1
    return utterances


def shown(hypothesis: SpeakerHypothesis) -> list[tuple]:
    return [
        (segment.words, segment.speaker, round(segment.posterior, 3))
        for segment in hypothesis.segments
    ]


def test_bad_input_is_refused(model, build_sa_asr):
    with pytest.raises(InputError, match="no profile to choose a speaker from"):
        recognise(model, speech(), profiles(0), list)
    with pytest.raises(
        InputError, match="the profiles have 3 dimensions, but the model takes 4"
    ):
        recognise(model, speech(), profiles(2)[:, :3], list)
    with pytest.raises(InputError, match="the model was trained without CTC"):
        recognise(
            build_sa_asr(), speech(), profiles(2), list, SearchOptions(ctc_weight=0.3)
        )
