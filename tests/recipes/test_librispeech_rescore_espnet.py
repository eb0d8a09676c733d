"""egs/librispeech_rescore/run.sh at scale smoke with lists by an ESPnet model: a run of
its own, so its own file.
"""

from runs import smoke_run

from espnet_ext.text.nbest import read_nbest


def test_lists_by_an_espnet_model(tmp_path):
    options = ("--first_pass", "espnet", "--rows", "first pass,10-best oracle")
    smoke_run("librispeech_rescore", *options, folder=tmp_path)
    for part in (
        "train-other-500",
        "dev-clean",
        "dev-other",
        "test-clean",
        "test-other",
    ):
        lists = read_nbest(tmp_path / "exp" / "lists" / f"{part}.jsonl")
        reference = dict(
            line.split(" ", 1)
            for line in (tmp_path / "data" / part / "text").read_text().splitlines()
        )
        assert {nbest.utt_id: nbest.ref for nbest in lists} == reference
        assert max(len(nbest.hyps) for nbest in lists) == 3
    assert not (
        tmp_path / "exp" / "lists" / "train-clean-100.jsonl"
    ).exists()  # what the recogniser has learnt
