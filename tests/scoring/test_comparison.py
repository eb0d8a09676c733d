"""Comparisons against counts of jiwer and MeetEval, and a sign-flip test by brute
force.
"""

import itertools
import json
import random
from pathlib import Path

import jiwer
import meeteval
import numpy as np
import pytest
from meeteval.wer import cpwer, tcpwer
from scipy import stats

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.scoring.alignments import RATES, Measure
from espnet_ext.scoring.comparison import System, compare_systems, parse_system
from espnet_ext.scoring.score_files import evaluate
from espnet_ext.scoring.significance import correct_by_holm, run_crossed_test
from espnet_ext.text.transcripts import OF_UTTERANCES, detect_format


def errors_by_unit(made_up, path: Path) -> dict[str, int]:
    """Word errors by speaker, as jiwer counts them."""
    heard, found = read_table(path), dict.fromkeys(made_up.speaker_of.values(), 0)
    for key, text in made_up.reference.items():
        counts = jiwer.process_words(text, heard[key])
        found[made_up.speaker_of[key]] += (
            counts.substitutions + counts.deletions + counts.insertions
        )
    return found


def test_rates_and_exact_test(made_up):
    data = made_up(speakers=8)
    files = [data.hypothesis("base", 0.3, 0), data.hypothesis("new", 0.15, 0)]
    found = compare_systems(
        data.folder / "ref.txt",
        [System("base", (files[0],)), System("new", (files[1],))],
        Measure(),
        utt2spk=data.folder / "utt2spk",
    ).result
    texts = list(data.reference.values())
    for system, path in zip(found["systems"], files, strict=True):
        rate = jiwer.wer(texts, [read_table(path)[key] for key in data.reference])
        assert system["value"] == pytest.approx(100 * rate, abs=1e-4)
        assert system["errors"] == [list(errors_by_unit(data, path).values())]
        counts = jiwer.process_words(
            texts, [read_table(path)[key] for key in data.reference]
        )
        assert sum(
            system["counts"][0][kind]
            for kind in ("correct", "substitutions", "deletions")
        ) == sum((counts.hits, counts.substitutions, counts.deletions))
    gains = [
        a - b
        for a, b in zip(
            *(errors_by_unit(data, path).values() for path in files), strict=True
        )
    ]
    flipped = [
        abs(sum(sign * gain for sign, gain in zip(signs, gains, strict=True)))
        for signs in itertools.product((1, -1), repeat=8)
    ]
    exact = sum(value >= abs(sum(gains)) for value in flipped) / len(flipped)
    [pair] = found["pairs"]
    words = np.array(found["words"])
    rest = np.array(gains) - sum(gains) / words.sum() * words
    error = np.sqrt(8 / 7 * (rest**2).sum()) / words.sum()
    freedom = (words**2).sum() ** 2 / (words**4).sum() - 1
    t_test = 2 * stats.t.sf(abs(sum(gains)) / words.sum() / error, freedom)
    assert pair["p_value"] == pytest.approx(max(exact, t_test, 2**-7), abs=1e-6)
    assert pair["p_corrected"] == pair["p_value"] and pair["least_p"] == 2**-7
    assert pair["trainings"] == [] and pair["exact"] and pair["unit"] == "speaker"
    assert pair["difference"] == pytest.approx(100 * sum(gains) / words.sum(), abs=1e-4)
    assert json.loads(json.dumps(found)) == found


def test_three_seeds_cover_trainings(made_up):
    data = made_up(speakers=14)
    shares = {"base": 0.3, "new": 0.1, "one": 0.1}
    files = {
        name: [data.hypothesis(name, share, seed) for seed in range(3)]
        for name, share in shares.items()
    }
    files["one"] = files["one"][:1]
    systems = [System(name, tuple(paths)) for name, paths in files.items()]
    found = compare_systems(
        data.folder / "ref.txt", systems, Measure(), utt2spk=data.folder / "utt2spk"
    ).result
    errors = {
        name: [list(errors_by_unit(data, path).values()) for path in paths]
        for name, paths in files.items()
    }
    errors["one"] *= 3
    tests = [
        run_crossed_test(errors[b], errors[a], found["words"])
        for a, b in itertools.combinations(errors, 2)
    ]
    assert [pair["p_value"] for pair in found["pairs"]] == [
        round(test.p_value, 6) for test in tests
    ]
    corrected = correct_by_holm([pair["p_value"] for pair in found["pairs"]])
    assert [pair["p_corrected"] for pair in found["pairs"]] == [
        round(p, 6) for p in corrected
    ]
    assert [pair["trainings"] for pair in found["pairs"]] == [
        ["base", "new"],
        ["base"],
        ["new"],
    ]
    assert [pair["better"] for pair in found["pairs"]][0] == "new"
    assert found["systems"][0]["spread"] > 0 and found["systems"][2]["spread"] is None
    equal = [
        System("base", (files["base"][0],) * 3),
        System("new", (files["new"][0],) * 3),
    ]
    [pair] = compare_systems(
        data.folder / "ref.txt", equal, Measure(), utt2spk=data.folder / "utt2spk"
    ).result["pairs"]
    assert pair["trainings"] == [] and pair["different_seeds"] == 1, (
        "the same file three times is one training"
    )


STM = """\
m1 1 ann 0.0 2.0 one two three
m1 1 bob 2.5 4.0 four five
m1 1 ann 4.5 6.0 six seven
m2 1 cat 0.0 3.0 eight nine ten
"""
HEARD = """\
m1 1 x 0.0 2.0 one too three
m1 1 y 2.4 4.0 four five six
m1 1 x 4.5 6.0 seven
m1 1 z 9.0 9.5 noise
m2 1 x 0.0 3.0 eight nine nine ten
"""


@pytest.mark.parametrize(
    ("rate", "theirs"),
    [("cpwer", cpwer), ("tcpwer", lambda *files: tcpwer(*files, collar=5))],
)
def test_speakers(tmp_path, rate, theirs):
    (tmp_path / "ref.stm").write_text(STM)
    (tmp_path / "hyp.stm").write_text(HEARD)
    (tmp_path / "same.stm").write_text(STM)
    systems = [
        System("x", (tmp_path / "hyp.stm",)),
        System("same", (tmp_path / "same.stm",)),
    ]
    compared = compare_systems(tmp_path / "ref.stm", systems, Measure(rate))
    expected = theirs(
        *(
            meeteval.io.load(tmp_path / name, parse_float=float)
            for name in ("ref.stm", "hyp.stm")
        )
    )
    errors = [expected[name].errors for name in ("m1", "m2")]
    assert (
        compared.result["systems"][0]["errors"] == [errors]
        and compared.result["systems"][1]["value"] == 0
    )
    assert (
        compared.result["words"] == [7, 3]
        and compared.result["unit"]["kind"] == "recording"
    )
    [found] = compared.aligned["x"]
    assert found["m1", "nobody"] == ((None, "noise"),)
    assert found["m1", 1] == (
        ("one", "one"),
        ("two", "too"),
        ("three", "three"),
    )
    assert found["m1", 2] == (
        ("four", "four"),
        ("five", "five"),
        (None, "six"),
    )
    assert found["m1", 3] == (("six", None), ("seven", "seven"))


def test_names_of_speakers(tmp_path):
    (tmp_path / "ref.stm").write_text(STM)
    (tmp_path / "hyp.stm").write_text(STM.replace(" bob ", " ann2 "))
    systems = [
        System("x", (tmp_path / "hyp.stm",)),
        System("same", (tmp_path / "ref.stm",)),
    ]
    compared = compare_systems(tmp_path / "ref.stm", systems, Measure("sawer"))
    assert compared.result["systems"][0]["errors"] == [[4, 0]], (
        "the right words under the wrong name"
    )
    [found] = compared.aligned["x"]
    assert found["m1", "nobody"] == ((None, "four"), (None, "five"))
    assert found["m1", 2] == (("four", None), ("five", None))


def test_plain_words_of_recordings_in_any_format(tmp_path):
    (tmp_path / "ref.stm").write_text(STM)
    (tmp_path / "hyp.ctm").write_text(
        "m1 1 0.5 0.2 one\nm1 1 0.2 0.2 oh\nm1 1 2.6 0.2 four\n"
    )
    (tmp_path / "hyp.txt").write_text("m1 oh one four\nm2\n")
    segments = [
        {"session_id": "m1", "speaker": "z", "words": "oh one four"},
        {"session_id": "m2", "speaker": "", "words": ""},
    ]
    (tmp_path / "hyp.json").write_text(json.dumps(segments))
    systems = [
        System(name, (tmp_path / f"hyp.{name}",)) for name in ("ctm", "txt", "json")
    ]
    compared = compare_systems(tmp_path / "ref.stm", systems, Measure())
    expected = [
        jiwer.process_words(said, heard)
        for said, heard in (
            ("one two three four five six seven", "oh one four"),
            ("eight nine ten", " "),
        )
    ]
    for system in compared.result["systems"]:
        assert system["errors"] == [
            [
                counts.substitutions + counts.deletions + counts.insertions
                for counts in expected
            ]
        ]
    assert compared.result["warnings"] == [
        f"{tmp_path}/hyp.ctm: has no word of 1 recordings (m2): counted as silence"
    ]
    [found] = compared.aligned["ctm"]
    assert found["m1", 1] == (
        (None, "oh"),
        ("one", "one"),
        ("two", None),
        ("three", None),
    )


def test_channels_are_told_apart_where_the_reference_has_several(tmp_path):
    (tmp_path / "ref.stm").write_text("c A ann 0 2 one two\nc B bob 1 3 three four\n")
    (tmp_path / "hyp.ctm").write_text(
        "c A 0.1 0.2 one\nc B 0.2 0.2 three\nc A 1.1 0.2 two\nc B 2.1 0.2 for\n"
    )
    systems = [
        System("x", (tmp_path / "hyp.ctm",)),
        System("same", (tmp_path / "ref.stm",)),
    ]
    found = compare_systems(tmp_path / "ref.stm", systems, Measure()).result
    assert found["systems"][0]["errors"] == [[0, 1]] and found["unit"]["names"] == [
        "c/A",
        "c/B",
    ]


def test_one_speaker_of_several_recordings_is_a_unit(tmp_path):
    (tmp_path / "ref.stm").write_text(
        "t1 1 ann 0 1 one\nt2 1 ann 0 1 two\nt3 1 bob 0 1 three\n"
    )
    systems = [System(name, (tmp_path / "ref.stm",)) for name in "ab"]
    found = compare_systems(tmp_path / "ref.stm", systems, Measure()).result
    assert found["unit"] == {"kind": "speaker", "names": ["ann", "bob"]} and found[
        "words"
    ] == [2, 1]


def test_what_people_are_warned_of(tmp_path):
    (tmp_path / "ref").write_text("u1 One Two\nu2\nu3 Three\n")
    (tmp_path / "a").write_text("u1 ONE TWO\nu2 noise\nu3 THREE\n")
    (tmp_path / "b").write_text("u1 One Two\nu2\nu3 Three\n")
    systems = [System(name, (tmp_path / name,)) for name in "ab"]
    found = compare_systems(tmp_path / "ref", systems, Measure()).result
    assert found["systems"][0]["errors"] == [[2, 1, 1]] and found["words"] == [2, 0, 1]
    assert [warning.split(": ")[1] for warning in found["warnings"]] == [
        "nothing is said in 1 utterances (u2)",
        "3 of the 4 errors are only case or punctuation",
    ]
    found = compare_systems(
        tmp_path / "ref", systems, Measure(normaliser="lower")
    ).result
    assert found["systems"][0]["errors"] == [[0, 1, 0]] and len(found["warnings"]) == 1
    (tmp_path / "ref.stm").write_text("r 1 a 0 4 one two\nr 1 b 1 4 three\n")
    systems = [System(name, (tmp_path / "ref.stm",)) for name in "ab"]
    [warning] = compare_systems(tmp_path / "ref.stm", systems, Measure()).result[
        "warnings"
    ]
    assert "75 % of its speech is overlapped" in warning


@pytest.mark.parametrize(
    ("files", "rate", "message"),
    [
        ({"hyp": "u1 a\nu2 b\nu3 c\n"}, "cpwer", "kaldi does not say who spoke when"),
        (
            {"hyp": "u1 a\nu2 b\nu3 c\n", "utt2spk": "u1 s\n"},
            "wer",
            "utterance u2 of .*ref has no speaker",
        ),
    ],
)
def test_refused(tmp_path, files, rate, message):
    files = {"ref": "u1 a\nu2 b\nu3 c\n", **files}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    systems = [System("same", (tmp_path / "ref",)), System("x", (tmp_path / "hyp",))]
    utt2spk = tmp_path / "utt2spk" if "utt2spk" in files else None
    with pytest.raises(InputError, match=message):
        compare_systems(tmp_path / "ref", systems, Measure(rate), utt2spk=utt2spk)


def test_times_are_needed_for_tcpwer(tmp_path):
    (tmp_path / "ref.stm").write_text(STM)
    (tmp_path / "hyp.json").write_text(
        '[{"session_id": "m1", "speaker": "x", "words": "one"}, '
        '{"session_id": "m2", "speaker": "x", "words": ""}]'
    )
    systems = [
        System("same", (tmp_path / "ref.stm",)),
        System("x", (tmp_path / "hyp.json",)),
    ]
    with pytest.raises(
        InputError, match=r"hyp.json: words of m1 have no times, which tcpWER needs"
    ):
        compare_systems(tmp_path / "ref.stm", systems, Measure("tcpwer"))


def test_systems_are_checked(tmp_path):
    a, b = System("a", (tmp_path / "x",) * 3), System("b", (tmp_path / "y",) * 2)
    for systems, message in (
        ([a], "two systems or more"),
        ([a, a], "two systems are called a"),
        ([a, b], "a has 3, b has 2 files"),
    ):
        with pytest.raises(InputError, match=message):
            compare_systems(tmp_path / "ref", systems, Measure())
    (tmp_path / "one").write_text("u1 我 go\n", encoding="utf-8")
    same = [System(name, (tmp_path / "one",)) for name in "ab"]
    [pair] = compare_systems(tmp_path / "one", same, Measure("cer")).result["pairs"]
    assert (pair["p_value"], pair["ci95"], pair["better"]) == (None, None, None), (
        "a single unit"
    )
    with pytest.raises(InputError, match="whisper_english is for English text only"):
        compare_systems(tmp_path / "one", same, Measure("mer", "whisper_english"))
    assert parse_system("a=x=1.txt,y.txt") == System(
        "a", (Path("x=1.txt"), Path("y.txt"))
    )
    for text in ("a.txt", "a=", "=a.txt"):
        with pytest.raises(InputError, match="write NAME=FILE"):
            parse_system(text)


def test_the_examples_of_the_documentation(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(
        encoding="utf-8"
    )
    blocks = text[: text.index("## Data dirs")].split("```\n")[1::2]
    for form, block in zip(
        ("kaldi", "trn", "stm", "ctm", "seglst"), blocks, strict=True
    ):
        (tmp_path / "file").write_text(block)
        assert detect_format(tmp_path / "file") == form
        systems = [System(name, (tmp_path / "file",)) for name in "ab"]
        measure = Measure("wer" if form in OF_UTTERANCES else "cpwer")
        assert (
            compare_systems(tmp_path / "file", systems, measure).result["systems"][0][
                "value"
            ]
            == 0
        )


@pytest.mark.parametrize("rate", RATES)
def test_turns_with_equal_times_keep_their_errors(tmp_path, rate):
    """Turns of equal times, speakers and recordings are rows of their own."""
    (tmp_path / "ref.stm").write_text(
        "m 1 ann 0.001 1 one two\nm 1 ann 0.002 1 three four\n"
        "m 1 ann 0.002 1 five six\n"
    )
    (tmp_path / "x.stm").write_text("m 1 ann 0 1 one two three\n")
    (tmp_path / "y.stm").write_text("m 1 ann 0 1 four five six\n")
    systems = [System(name, (tmp_path / f"{name}.stm",)) for name in "xy"]
    compared = compare_systems(tmp_path / "ref.stm", systems, Measure(rate))
    values = [system["value"] for system in compared.result["systems"]]
    assert values[0] == values[1] if rate != "cer" else min(values) > 50
    assert rate == "cer" or values[0] == 50
    assert len({row.key for row in compared.rows}) == len(compared.rows)
    for found in compared.aligned.values():
        heard = [right for pairs in found[0].values() for _, right in pairs if right]
        assert rate == "cer" or len(heard) == 3


def test_totals_of_equal_times_and_silent_recordings_are_theirs(tmp_path):
    """Against jiwer and MeetEval: equal times, several channels, recordings and
    channels without a word.
    """
    rng = random.Random(54)
    for trial in range(12):
        spoken, heard = [], []
        for recording in ("r1", "r2", "r3"):
            for channel in "AB":
                for turns in (spoken, heard):
                    if rng.random() < 0.15:
                        continue
                    for _ in range(rng.randint(1, 5)):
                        start = rng.choice((0.0, 0.001, 0.004, 1.0))
                        words = " ".join(rng.choices("abc", k=rng.randint(1, 3)))
                        turns.append((recording, channel, start, start + 1.0, words))
        spoken = [*spoken, ("r1", "A", 5.0, 6.0, "a"), ("r1", "B", 5.0, 6.0, "a")]
        heard = [
            *heard,
            *((r, "A", 5.0, 6.0, "b") for r in sorted({t[0] for t in spoken})),
        ]
        heard = [turn for turn in heard if turn[0] in {t[0] for t in spoken}]
        for name, turns in (("ref", spoken), ("hyp", heard)):
            lines = (f"{r} {c} s{c} {a} {b} {words}\n" for r, c, a, b, words in turns)
            (tmp_path / f"{name}.stm").write_text("".join(lines))
        systems = [System(name, (tmp_path / "hyp.stm",)) for name in "xy"]

        def joined(turns, key):
            own = sorted((t for t in turns if t[:2] == key), key=lambda turn: turn[2])
            return " ".join(turn[4] for turn in own)

        keys = sorted({turn[:2] for turn in spoken})
        lost = {turn[:2] for turn in heard} - set(keys)
        if not lost:
            found = compare_systems(tmp_path / "ref.stm", systems, Measure()).result
            theirs = jiwer.process_words(
                [joined(spoken, key) for key in keys],
                [joined(heard, key) for key in keys],
            )
            assert found["systems"][0]["value"] == pytest.approx(
                100 * theirs.wer, abs=1e-4
            ), trial
            _, summary = evaluate(tmp_path / "ref.stm", tmp_path / "hyp.stm")
            assert summary["value"] == found["systems"][0]["value"], "one loader"
        for rate, peer in (
            ("cpwer", cpwer),
            ("tcpwer", lambda *files: tcpwer(*files, collar=5)),
        ):
            expected = peer(
                *(
                    meeteval.io.load(tmp_path / name, parse_float=float)
                    for name in ("ref.stm", "hyp.stm")
                )
            )
            found = compare_systems(tmp_path / "ref.stm", systems, Measure(rate)).result
            errors = sum(each.errors for each in expected.values())
            assert sum(found["systems"][0]["errors"][0]) == errors, (trial, rate)


@pytest.mark.parametrize(
    ("rate", "unit"), [("wer", "word"), ("cer", "char"), ("mer", "mixed")]
)
def test_turns_are_counted_as_whole_recordings_are(tmp_path, rate, unit):
    ref, heard, same = (
        tmp_path / name for name in ("ref.stm", "heard.ctm", "same.ctm")
    )
    ref.write_text("r 1 a 0 1\nr 1 a 1 2 so we\nr 1 b 2 3\nr 1 b 3 4 go on\n")
    same.write_text(
        "".join(
            f"r 1 {at} 0.4 {word}\n"
            for at, word in ((1, "so"), (1.5, "we"), (3, "go"), (3.5, "on"))
        )
    )
    heard.write_text("r 1 1 0.4 so\nr 1 3 0.4 goon\n")
    systems = [System("same", (same,)), System("heard", (heard,))]
    found = compare_systems(ref, systems, Measure(rate)).result
    exact, wrong = found["systems"]
    assert exact["value"] == 0
    expected, _ = evaluate(ref, heard, None, unit=unit)
    assert sum(sum(errors) for errors in wrong["errors"]) == expected.total.errors
    assert found["reference"]["tokens"] == expected.total.reference_length
