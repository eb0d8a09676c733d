"""The patches for ESPnet apply to the installed sources, and change no score."""

import json
import subprocess
from importlib.metadata import version

import pytest
import torch
from patched import CTC, METRICS, PATCHES, RNN, TRANSFORMER, apply, copy_sources

pytestmark = pytest.mark.skipif(
    version("espnet").partition(".")[0] != "202611",
    reason="the patches are for ESPnet 202611",
)


@pytest.fixture(scope="module")
def patched(tmp_path_factory):
    """The patched modules by path, made by `git apply` as a maintainer would."""
    return apply(tmp_path_factory.mktemp("espnet"))


def test_each_patch_applies_alone_and_by_patch(tmp_path):
    assert PATCHES
    for patch in PATCHES:
        root = copy_sources(tmp_path / patch.stem)
        subprocess.run(
            ["patch", "-p1", "--dry-run", "-i", str(patch)],
            cwd=root,
            check=True,
            capture_output=True,
        )


@pytest.mark.parametrize(
    "margin, batch, beam, pre_beam",
    [(0, 1, 1, None), (3, 1, 3, 5), (0, 2, 2, 5), (3, 2, 2, None)],
)
def test_prefix_scores_are_those_of_the_loop(patched, margin, batch, beam, pre_beam):
    from espnet2.legacy.nets.ctc_prefix_score import CTCPrefixScoreTH

    frames, labels, eos = 30, 9, 8
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, frames, labels, generator=generator).mul(3).log_softmax(-1)
    lengths = torch.tensor([frames, frames - 7][:batch])
    classes = (CTCPrefixScoreTH, patched(CTC).CTCPrefixScoreTH)
    scorers = [kind(x.clone(), lengths, 0, eos, margin=margin) for kind in classes]
    states, ys = [None, None], torch.full((batch * beam, 1), eos)
    for _ in range(5):
        ids = None
        if pre_beam:
            ids = torch.stack(
                [torch.randperm(labels - 1, generator=generator)[:pre_beam] for _ in ys]
            )
        found = [
            scorer(ys, state, ids)
            for scorer, state in zip(scorers, states, strict=True)
        ]
        possible = found[0][0] > -1e9
        assert torch.equal(possible, found[1][0] > -1e9)
        torch.testing.assert_close(
            found[0][0][possible], found[1][0][possible], atol=2e-4, rtol=1e-5
        )
        choices = ids if pre_beam else torch.arange(1, labels - 1).expand(len(ys), -1)
        best = choices[:, 0].view(batch, beam) + labels * torch.arange(beam)
        states = [
            scorer.index_select_state(state, best)
            for scorer, (_, state) in zip(scorers, found, strict=True)
        ]
        ys = torch.cat((ys, choices[:, :1]), 1)


@pytest.mark.parametrize(
    ("kind", "attention"),
    [
        ("lstm", "location"),
        ("gru", "dot"),
        ("lstm", "coverage"),
        ("gru", "multi_head_add"),
    ],
)
def test_a_batch_of_hypotheses_is_scored_as_one_by_one(patched, kind, attention):
    torch.manual_seed(1)
    options = {
        "rnn_type": kind,
        "num_layers": 2,
        "hidden_size": 6,
        "context_residual": kind == "gru",
    }
    decoder = (
        patched(RNN)
        .RNNDecoder(
            7, 5, att_conf={"atype": attention, "adim": 4, "aheads": 2}, **options
        )
        .eval()
    )
    encodings, first = torch.randn(11, 5), 6
    prefixes = torch.tensor([[first, 1, 2, 3], [first, 4, 4, 1], [first, 2, 5, 0]])
    expected = []
    with torch.no_grad():
        for prefix in prefixes:
            state = decoder.init_state(encodings)
            for length in range(1, 5):
                score, state = decoder.score(prefix[:length], state, encodings)
            expected.append(score)
        states = [decoder.batch_init_state(encodings)] * 3
        for length in range(1, 5):
            scores, states = decoder.batch_score(
                prefixes[:, :length], states, encodings.expand(3, -1, -1)
            )
    torch.testing.assert_close(scores, torch.stack(expected), atol=1e-5, rtol=1e-5)


TOKENS = torch.tensor(
    [[6, 1, 2, 3, 1], [6, 4, 4, 1, 5], [6, 2, 5, 0, 3], [6, 2, 5, 0, 1]]
)


def transformers(patched, **options):
    """ESPnet's decoder and the patched one, with the same parameters."""
    from espnet2.asr.decoder.transformer_decoder import TransformerDecoder

    torch.manual_seed(3)
    own = TransformerDecoder(
        7, 8, attention_heads=2, linear_units=12, num_blocks=3, **options
    ).eval()
    changed = patched(TRANSFORMER).TransformerDecoder(
        7, 8, attention_heads=2, linear_units=12, num_blocks=3, **options
    )
    changed.load_state_dict(own.state_dict())
    return own, changed.eval()


@torch.no_grad()
def step_by_step(decoder, encodings, first=1, mask=None, **options):
    """Scores of each step, in which hypotheses are exchanged as a search does;
    ``encodings``: of each step, or one.
    """
    states, found = [None] * len(TOKENS), []
    order = torch.tensor(
        [1, 0, 3, 3]
    )  # within each half, so that two utterances of two hypotheses keep theirs
    ys = TOKENS
    for length in range(first, TOKENS.size(1) + 1):
        xs = encodings(length) if callable(encodings) else encodings
        scores, states = decoder.batch_score(
            ys[:, :length], states, xs, xs_mask=mask, **options
        )
        found.append(scores)
        ys = torch.cat((ys[order, :length], ys[:, length:]), 1)
        states = [decoder.select_state(states, index) for index in order.tolist()]
    return found


OTHERS = {"normalize_before": False, "concat_after": True, "use_output_layer": False}


@pytest.mark.parametrize("options", [{}, {"qk_norm": True}, {"use_sdpa": True}, OTHERS])
@pytest.mark.parametrize("first", [1, 3])  # 3: a search that begins with a prompt
def test_keys_and_values_at_hand_change_no_score(patched, options, first):
    encodings = torch.randn(9, 8, generator=torch.Generator().manual_seed(4)).expand(
        4, -1, -1
    )
    own, changed = (
        step_by_step(each, encodings, first)
        for each in transformers(patched, **options)
    )
    torch.testing.assert_close(changed, own, atol=1e-5, rtol=1e-5)


def seglst(*turns) -> list[dict]:
    keys = ("session_id", "speaker", "words", "start_time", "end_time")
    return [dict(zip(keys, ("m", *turn), strict=True)) for turn in turns]


def test_error_rates_of_meetings_are_those_of_meeteval(patched, tmp_path):
    from meeteval.io.seglst import SegLST
    from meeteval.wer.wer import cp, orc, time_constrained

    ref = seglst(("ada", "a b c", 0, 3), ("bo", "d e", 2, 4), ("ada", "f", 20, 21))
    hyp = seglst(("1", "a b x", 0, 3), ("bo", "d e", 12, 14), ("1", "f g", 20, 22))
    metrics = patched(METRICS)
    for name, lists in (("ref", ref), ("hyp", hyp)):
        (tmp_path / f"{name}.scp").write_text(
            "".join(f"{key} {json.dumps(lists)}\n" for key in ("m1", "m2"))
        )
    found = metrics.MultiSpeakerWER()(
        {name: tmp_path / f"{name}.scp" for name in ("ref", "hyp")}, "test"
    )
    sides = SegLST(ref), SegLST(hyp)
    tcp = time_constrained.time_constrained_minimum_permutation_word_error_rate(
        *sides, collar=5
    )
    expected = {
        "cpWER": cp.cp_word_error_rate(*sides),
        "tcpWER": tcp,
        "ORC_WER": orc.orc_word_error_rate(*sides),
    }
    for name, rate in expected.items():
        assert [found[f"{name}{end}"] for end in ("", "_low", "_high")] == [
            round(100 * rate.error_rate, 2)
        ] * 3
    assert found["cpWER"] < found["tcpWER"] and found["SA_WER"] == round(
        100 * (4 + 5) / 6, 2
    )
    with pytest.raises(ValueError, match="WER"):
        metrics.MultiSpeakerWER(["WER"])


@pytest.mark.parametrize(
    ("options", "der", "jer"),
    [
        # seconds of ada and bob: 16; missed: 1 and 1, while both speak; false: 2, after
        # bob
        ({}, 4 / 16, (1 / 10 + 3 / 8) / 2),
        # a quarter second around 0, 8, 10 and 14 does not count
        ({"collar": 0.25}, (0.75 + 0.75 + 1.75) / 14, (0.75 / 9 + 2.5 / 6.75) / 2),
        ({"skip_overlap": True}, 2 / 12, (0 / 8 + 2 / 6) / 2),
    ],
)
def test_diarization_errors_are_those_of_a_count_by_hand(patched, options, der, jer):
    pytest.importorskip("pyannote.metrics")
    metric = patched(METRICS).DiarizationErrors(**options)
    ref = [
        ("ada", 0, 6),
        ("ada", 5, 10),
        ("bob", 8, 14),
    ]  # of one speaker, and overlapping: one turn
    hyp = [("1", 0, 9), ("2", 9, 16)]
    metric.update(ref=[turns(ref)], hyp=[turns(hyp)])
    found = metric.compute()
    assert [
        found[f"{name}{end}"]
        for name in ("DER", "JER")
        for end in ("", "_low", "_high")
    ] == pytest.approx([100 * der] * 3 + [100 * jer] * 3, abs=0.006)
    metric.reset()
    metric.update(ref=[turns([])], hyp=[turns(hyp)])
    with pytest.raises(ValueError, match="nothing to score"):
        metric.compute()


def turns(spans) -> str:
    return json.dumps(
        [
            {"speaker": name, "start_time": start, "end_time": end}
            for name, start, end in spans
        ]
    )


def test_mixed_error_rate_has_an_interval_and_counts_both_languages(patched):
    metric = patched(METRICS).MER()
    metric.update(ref=["\u6211 \u60f3 go home", "go"], hyp=["\u6211\u60f3 go", "go"])
    found = metric.compute()
    assert (
        found["MER"] == 20.0 and found["MER_low"] == 0.0 and found["MER_high"] == 25.0
    )
    metric.reset()
    with pytest.raises(ValueError, match="nothing to score"):
        metric.compute()
