"""``espnet-ext decode``: arguments that reach the decoders."""

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError

MODEL = ["--model-config", "none.yaml", "--model", "none.pth"]


def test_options_after_the_dashes_reach_espnet(monkeypatch, capsys):
    jobs = []
    monkeypatch.setattr(
        "espnet_ext.upstream.decode.decode_all", lambda work, **options: jobs.append((work, options)) or [7, 8]
    )
    sets = ["--data", "d", "--data", "e", "--output", "o", "--output", "p"]
    assert call(["decode", "asr", *MODEL, *sets, "--nj", "3", "--", "--beam_size", "4", "--nbest=2"]) == 0
    work, options = jobs.pop()
    assert [(str(job.data), str(job.output)) for job in work] == [("d", "o"), ("e", "p")]
    assert work[1].options == ("--beam_size", "4", "--nbest=2") and options == {"nj": 3, "parallel": None}
    assert capsys.readouterr().out == "7 utterances -> o/text\n8 utterances -> p/text\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--data", "d", "--output", "o", "--output", "p"],
            "1 --data and 2 --output: give each --data its own --output",
        ),
        (["--data", "d", "e", "--output", "o"], "unexpected argument e: repeat an option for each of its values"),
        (["--data", "d", "--output", "o", "--ngpu", "2"], "'--ngpu': 2 is not in the range"),
        (["--data", "d", "--output", "o", "--nj", "0"], "'--nj': 0 is not in the range x>=1"),
    ],
)
def test_arguments_that_make_no_sense(words, message):
    with pytest.raises(InputError, match=message):
        call(["decode", "asr", *MODEL, *words])


def test_what_a_long_decoding_is_made_of(monkeypatch, tmp_path, capsys):
    """Options win over those of --config."""
    jobs = []
    monkeypatch.setattr(
        "espnet_ext.longform.decoding.decode.decode_long", lambda *work, **options: jobs.extend(work) or 3
    )
    config = tmp_path / "decode.yaml"
    config.write_text("window: 60\nstride: 0.25\nseed: 3\nnoise: music\nsnr: 10\n")
    sets = ["--data", "d", "--output", "o", "--config", str(config)]
    assert call(["decode", "long", *MODEL, *sets, "--window", "30"]) == 0
    (job,) = jobs
    own = job.settings
    assert (own.window, own.stride, own.seed, own.noise, own.snr) == (30.0, 0.25, 3, "music", 10)
    assert capsys.readouterr().out == "3 recordings -> o/text\n"
    with pytest.raises(InputError, match="the options: window: must be above 0"):
        call(["decode", "long", *MODEL, "--data", "d", "--output", "o", "--window", "0"])
