"""``espnet-ext nbest`` and ``espnet-ext rescore``, as a user calls them."""

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.rescore.second_pass import LanguageModel
from espnet_ext.text.nbest import Hypothesis, NBest, read_nbest, write_nbest


@pytest.fixture
def folder(tmp_path):
    """An ESPnet folder of three utterances, and their references in ``text``."""
    best = {"a": ("ONE TO", -1.0), "b": ("TREE", -2.0), "c": (" ", 0.0)}
    second = {"a": ("ONE TWO", -1.5), "c": (" ", 0.0)}
    for rank, chosen in enumerate((best, second), start=1):
        recog = tmp_path / "decode" / "logdir" / "output.1" / f"{rank}best_recog"
        recog.mkdir(parents=True)
        (recog / "text").write_text(
            "".join(f"{key} {text}\n" for key, (text, _) in chosen.items())
        )
        (recog / "score").write_text(
            "".join(
                f"{key} tensor({score:.4f})\n" for key, (_, score) in chosen.items()
            )
        )
    (tmp_path / "text").write_text("a ONE TWO\nb THREE\nc FOUR\n")
    return tmp_path


def test_convert(folder, capsys):
    arguments = [
        "nbest",
        "convert",
        "--nbest",
        str(folder / "decode"),
        "--output",
        str(folder / "nbest.jsonl"),
    ]
    call(arguments)
    printed = capsys.readouterr()
    assert "3 lists, 4 hypotheses -> " in printed.out
    assert "decode: 1 repeated texts" in printed.err
    call([*arguments, "--ref", str(folder / "text")])
    lists = read_nbest(folder / "nbest.jsonl")
    assert [(nbest.ref, len(nbest.hyps)) for nbest in lists] == [
        ("ONE TWO", 2),
        ("THREE", 1),
        ("FOUR", 1),
    ]


def test_oracle(folder, capsys):
    arguments = [
        "nbest",
        "oracle",
        "--nbest",
        str(folder / "decode"),
        "--ref",
        str(folder / "text"),
    ]
    call(arguments)
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "3 lists, 4 words",
        "          1-best: WER 75.00 %  (3 errors)",
        "   2-best oracle: WER 50.00 %  (2 errors)",
    ]
    with pytest.raises(InputError, match="decode: a: .* --ref") as refused:
        call(["nbest", "oracle", "--nbest", str(folder / "decode")])
    assert "convert" not in str(refused.value)  # whose --ref is another


def test_an_oracle_without_words_names_the_file(tmp_path):
    hyps = (Hypothesis("A", -1.0),)
    write_nbest(tmp_path / "x.jsonl", [NBest("a", hyps, ref="")])
    with pytest.raises(InputError, match="x.jsonl: "):
        call(["nbest", "oracle", "--nbest", str(tmp_path / "x.jsonl")])


def test_rescore_reports_what_it_did(folder, capsys, monkeypatch):
    asked = []

    def load(self, ngpu, log):
        asked.append((self.path, self.scorer, self.casing))
        return lambda lists: [
            [-1.0 if "TWO" in hyp.text else -3.0 for hyp in nbest.hyps]
            for nbest in lists
        ]

    monkeypatch.setattr(LanguageModel, "load", load)
    decode, text, output = str(folder / "decode"), str(folder / "text"), folder / "out"
    lm = folder / "lm"
    lm.mkdir()
    arguments = [
        "--nbest",
        decode,
        "--ref",
        text,
        "--lm",
        str(lm),
        "--scorer",
        "causal",
        "--casing",
        "lower",
    ]
    call(
        [
            "rescore",
            *arguments,
            "--tune-on",
            decode,
            "--tune-ref",
            text,
            "--output",
            str(output),
        ]
    )
    assert asked == [(str(lm), "causal", "lower")]
    assert capsys.readouterr().out.splitlines() == [
        f"{decode}: 1 repeated texts dropped, the best of each kept",
        "warning: the weights are tuned on the lists that are rescored: their "
        "error rate is too low",
        "weights: second_lm 1, first pass 0.666667",
        "on 3 development lists: WER 50.00 %",
        "errors by the weight of first pass: 0: 2, 0.1: 2, 0.3: 2, 1: 2, 3: 2, 10: 3, "
        "alone: 3; fewest: 2 from 0 to 4",
        "warning: without first pass there are as few errors",
        "3 lists; the best hypothesis has changed in 1 of them",
        "WER: first pass 75.00 %, rescored 50.00 %, 2-best oracle 50.00 % of 4 words",
        "gain: 25.00 points, 95% interval [-213.24, 263.24] over 3 utterances",
        f"written to {output}",
    ]
    assert (output / "text").read_text() == "a ONE TWO\nb TREE\nc\n"
    assert read_nbest(output / "nbest.jsonl")[0].hyps[0].scores == {"second_lm": -1.0}
    again = ["--nbest", decode, "--lm", str(lm), "--weight", "first_pass=0.666667"]
    call(["rescore", *again, "--output", str(folder / "again")])
    assert (folder / "again" / "text").read_text() == (output / "text").read_text()
