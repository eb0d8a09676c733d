"""``espnet-ext decode``: arguments that reach the decoders."""

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError

LONG = ["decode", "long", "--model-config", "none.yaml", "--model", "none.pth"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--output", "o", "--output", "p"],
            "1 --data and 2 --output: give each --data its own --output",
        ),
        (
            ["e", "--output", "o"],
            r"unexpected extra argument \(e\): repeat an option for each of its values",
        ),
        (["--output", "o", "--ngpu", "2"], "'--ngpu': 2 is not in the range"),
        (["--output", "o", "--nj", "0"], "'--nj': 0 is not in the range x>=1"),
        (["--output", "o", "--window", "0"], "the options: window: must be above 0"),
    ],
)
def test_arguments_that_make_no_sense(words, message):
    with pytest.raises(InputError, match=message):
        call([*LONG, "--data", "d", *words])


def test_options_after_the_dashes_reach_espnet(monkeypatch, capsys):
    found = []
    monkeypatch.setattr(
        "espnet_ext.upstream.decode.decode_all",
        lambda jobs, **kw: found.extend([*jobs, kw]) or [7, 8],
    )
    command = [
        "decode",
        "asr",
        *LONG[2:],
        "--data",
        "d",
        "--data",
        "e",
        "--output",
        "o",
        "--output",
        "p",
        "--nj",
        "3",
    ]
    assert call([*command, "--", "--beam_size", "4", "--nbest=2"]) == 0
    *jobs, options = found
    assert [(str(job.data), str(job.output)) for job in jobs] == [
        ("d", "o"),
        ("e", "p"),
    ]
    assert jobs[1].options == ("--beam_size", "4", "--nbest=2") and options == {
        "nj": 3,
        "parallel": None,
    }
    assert capsys.readouterr().out == "7 utterances -> o/text\n8 utterances -> p/text\n"
    with pytest.raises(
        InputError, match="unexpected argument e: repeat an option for each value"
    ):
        call([*command, "e"])


def test_what_a_long_decoding_is_made_of(monkeypatch, tmp_path, capsys):
    """Options win over those of --config; each --data has its --output."""
    found = []
    monkeypatch.setattr(
        "espnet_ext.longform.decoding.decode.decode_long",
        lambda *jobs, **options: found.extend([*jobs, options]) or 3,
    )
    config = tmp_path / "decode.yaml"
    config.write_text("window: 60\nstride: 0.25\nseed: 3\nnoise: music\nsnr: 10\n")
    sets = [
        "--data",
        "d",
        "--data",
        "e",
        "--output",
        "o",
        "--output",
        "p",
        "--config",
        str(config),
    ]
    assert call([*LONG, *sets, "--window", "30", "--nj", "3"]) == 0
    *jobs, options = found
    assert [(str(job.data), str(job.output)) for job in jobs] == [
        ("d", "o"),
        ("e", "p"),
    ]
    own = jobs[1].settings
    assert (own.window, own.stride, own.seed, own.noise, own.snr) == (
        30.0,
        0.25,
        3,
        "music",
        10,
    )
    assert options == {"nj": 3, "parallel": None}
    assert capsys.readouterr().out == "3 recordings -> o/text, p/text\n"
