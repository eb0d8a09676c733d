from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.stitch.recogniser.mixture_plan import (
    Mixture,
    MixtureSettings,
    count_turns,
    plan_mixtures,
)
from espnet_ext.synthetic.overlap import SourceUtterance
from espnet_ext.text.words import measure_overlap_ratio
from espnet_ext.work.settings import check_settings


def sources(speakers: int = 8, each: int = 12, seed: int = 0) -> list[SourceUtterance]:
    rng = np.random.default_rng(seed)
    utterances = []
    for s in range(speakers):
        for n in range(each):
            seconds = round(float(rng.uniform(2, 12)), 3)
            words = ("WORD",) * 5
            utterances.append(
                SourceUtterance(f"s{s}-{n:02d}", f"s{s}", "x.flac", seconds, words)
            )
    return utterances


def count_uses(mixtures: list[Mixture]) -> Counter[str]:
    used = Counter()
    for mixture in mixtures:
        used.update(part.source.id for part in mixture.parts)
    return used


def list_speakers(mixture: Mixture) -> set[str]:
    return {part.source.speaker for part in mixture.parts}


SETTINGS = MixtureSettings(utterances=(4, 8), speakers=4, overlap=0.2, seed=1)


def test_a_pass_uses_every_utterance_once():
    mixtures = plan_mixtures(sources(), SETTINGS, prefix="mix")
    assert count_uses(mixtures) == {source.id: 1 for source in sources()}
    assert [mixture.name for mixture in mixtures[:2]] == ["mix-00000", "mix-00001"]
    assert all(len(list_speakers(mixture)) <= 4 for mixture in mixtures)
    assert all(len(mixture.parts) <= 8 for mixture in mixtures)
    assert sum(len(mixture.parts) >= 4 for mixture in mixtures) > 0.6 * len(mixtures)


def test_no_mixture_has_more_speech_than_the_longest(capsys):
    limited = SETTINGS.model_copy(update={"overlap": 0, "longest": 30})
    mixtures = plan_mixtures(sources(), limited, prefix="mix")
    # Those that did not fit have waited for a later mixture.
    assert count_uses(mixtures) == {source.id: 1 for source in sources()}
    assert 20 < max(mixture.seconds for mixture in mixtures) <= 30.001
    short = {source.id for source in sources() if source.seconds <= 5}
    narrower = limited.model_copy(update={"longest": 5})
    assert set(count_uses(plan_mixtures(sources(), narrower, prefix="mix"))) == short
    told = f"{96 - len(short)} of 96 utterances last over 5 s: left out\n"
    assert capsys.readouterr().out == told
    with pytest.raises(
        InputError,
        match="each utterance is longer than the longest mixture, 1 s: raise longest",
    ):
        plan_mixtures(
            sources(), limited.model_copy(update={"longest": 1}), prefix="mix"
        )


def test_same_seed_same_mixtures():
    mixtures = plan_mixtures(sources(), SETTINGS, prefix="m")
    assert plan_mixtures(sources()[::-1], SETTINGS, prefix="m") == mixtures
    other = SETTINGS.model_copy(update={"seed": 2})
    assert plan_mixtures(sources(), other, prefix="m") != mixtures


@pytest.mark.parametrize("overlap", [0.0, 0.1, 0.3])
def test_wanted_overlap(overlap):
    chosen = MixtureSettings(
        utterances=(4, 8), speakers=6, overlap=overlap, count=100, seed=1
    )
    mixtures = plan_mixtures(sources(), chosen, prefix="m")
    assert len({mixture.name for mixture in mixtures}) == len(mixtures) == 100
    conversations = [each for each in mixtures if len(list_speakers(each)) >= 3]
    assert len(conversations) > 30
    counts = count_turns(turn for each in conversations for turn in each.turns)
    assert counts.overlap == pytest.approx(100 * overlap, abs=2)


@given(st.integers(0, 2**32 - 1), st.floats(0, 0.9))
@settings(max_examples=40)
def test_starts(seed, overlap):
    chosen = MixtureSettings(utterances=(1, 6), speakers=3, overlap=overlap, seed=seed)
    for mixture in plan_mixtures(sources(3, 4), chosen, prefix="m"):
        starts = [part.start for part in mixture.parts]
        assert starts[0] == 0
        assert all(
            after - before >= 0.5 - 1e-9
            for before, after in zip(starts, starts[1:], strict=False)
        )
        for speaker in {part.source.speaker for part in mixture.parts}:
            own = [part for part in mixture.parts if part.source.speaker == speaker]
            assert all(
                after.start >= before.end - 2e-3
                for before, after in zip(own, own[1:], strict=False)
            )
        assert mixture.seconds <= sum(
            part.source.seconds for part in mixture.parts
        ) + 0.5 * len(starts)


def test_overlap_ratio_by_counting_samples():
    rng = np.random.default_rng(0)
    for _ in range(20):
        spans = [
            (start, start + length) for start, length in rng.integers(1, 40, (5, 2))
        ]
        active = np.zeros(100)
        for start, end in spans:
            active[start:end] += 1
        assert measure_overlap_ratio(spans) == pytest.approx(
            (active > 1).sum() / (active > 0).sum()
        )


@pytest.mark.parametrize(
    "change",
    [
        {"utterances": [0, 3]}, {"utterances": [4, 3]}, {"utterances": 3},
        {"utterances": "2-3"}, {"speakers": 0}, {"speaker": 2}, {"overlap": 1.0},
        {"overlap": float("nan")}, {"gap": -1.0}, {"count": 0}, {"audio": "later"},
    ],
)  # fmt: skip
def test_settings_refused(change):
    with pytest.raises(InputError, match=f"^mixtures dev: .*{next(iter(change))}"):
        check_settings(
            MixtureSettings,
            {"utterances": [1, 3], "speakers": 2, "overlap": 0.2} | change,
            "mixtures dev",
        )


def test_sources_refused():
    one = SourceUtterance("u", "s", "u.flac", 1.0, ("A",))
    for given_sources in (
        [],
        [one, one],
        [replace(one, words=())],
        [replace(one, seconds=0.0)],
    ):
        with pytest.raises(InputError, match="utterance"):
            plan_mixtures(given_sources, SETTINGS, prefix="m")
