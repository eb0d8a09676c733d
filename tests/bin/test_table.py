import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from espnet_ext.bin.table import main
from espnet_ext.errors import InputError

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "egs" / "librispeech_sem" / "conf" / "tables.yaml"


def output(capsys: pytest.CaptureFixture, *words: str | Path) -> list[str]:
    main([str(word) for word in words])
    return capsys.readouterr().out.splitlines()


def score(expdir: Path, system: str, test_set: str, errors: int) -> None:
    folder = expdir / system / "seed1" / "decode_default" / test_set
    folder.mkdir(parents=True)
    value = {"unit": "word", "value": errors / 2, "ci95": [0.0, 50.0], "errors": errors, "words": 200}
    (folder / "score.json").write_text(json.dumps(value | {"normaliser": "none"}))


def test_plan_and_decodings(capsys: pytest.CaptureFixture):
    words = ("--tables", TABLES, "--table", "1", "--rows", "baseline,0dB")
    assert output(capsys, "plan", *words) == [
        "sem_m80_0\tconf/train.yaml\ttrain",
        "baseline\tconf/train.yaml\ttrain",
    ]
    assert output(capsys, "plan", *words, "--format", "text")[1] == (
        "baseline: conf/train.yaml, trained on train; decodings: default"
    )
    assert output(capsys, "decodings", "--tables", TABLES, "--table", "1", "--rows", "-60dB,-20dB") == [
        "sem_m80_m60\tdefault",
        "sem_m80_m20\tdefault",
    ]
    assert output(capsys, "decodings", "--tables", TABLES, "--table", "5")[0] == "sem_m80_0\tlm_0.36"
    assert len(output(capsys, "plan", "--tables", TABLES)) == 15
    assert len(output(capsys, "plan", "--tables", TABLES, "--table", "1,3")) == 9


def test_plan_says_what_each_system_is_trained_on(capsys: pytest.CaptureFixture):
    tables = ROOT / "egs" / "asru2019_cs" / "conf" / "tables.yaml"
    assert output(capsys, "plan", "--tables", tables, "--table", "2", "--rows", "CS,CS+EN") == [
        "baseline_cs\tconf/train.yaml\ttrain-cs",
        "baseline_cs_en\tconf/train.yaml\ttrain-cs train-clean-100 train-clean-360",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--table", "9"], "no table '9'; known are 1, 2"), (["--rows", "0db"], "no row '0db' .*known are -60dB, -40dB")],
)
def test_unknown_names_are_refused(words: list[str], message: str):
    with pytest.raises(InputError, match=message):
        main(["plan", "--tables", str(TABLES), *words])


def test_configs(tmp_path: Path, capsys: pytest.CaptureFixture):
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "tables.yaml").write_text(TABLES.read_text())
    (conf / "train.yaml").write_text("normalize: global_mvn\nmax_epoch: 40\n")
    (conf / "mini.yaml").write_text("max_epoch: 2\n")
    (conf / "decode.yaml").write_text("beam_size: 12\n")
    out = tmp_path / "exp" / "train.yaml"
    words = ["--tables", conf / "tables.yaml", "--overlay", conf / "mini.yaml", "--output", out]
    assert output(capsys, "train-config", "--system", "sem_m80_0", *words) == [f"{out}: written"]
    assert yaml.safe_load(out.read_text()) == {
        "normalize": "sem_global_mvn",
        "max_epoch": 2,
        "normalize_conf": {"eta_min": -80.0, "eta_max": 0.0},
    }
    assert output(capsys, "train-config", "--system", "sem_m80_0", *words) == [f"{out}: unchanged"]
    out = tmp_path / "decode.yaml"
    words = ["--tables", conf / "tables.yaml", "--config", conf / "decode.yaml", "--output", out]
    output(capsys, "decode-config", "--decoding", "lm_0.36", *words)
    assert yaml.safe_load(out.read_text()) == {"beam_size": 12, "lm_weight": 0.36, "prior_weight": 0.003}
    with pytest.raises(InputError, match="no decoding 'lm_1'; known are default, lm_0.36"):
        main(["decode-config", "--decoding", "lm_1", *map(str, words)])
    with pytest.raises(InputError, match="no system 'sem'; known are baseline"):
        main(["train-config", "--system", "sem", *map(str, words[:2]), "--output", str(out)])


def test_write_and_results(tmp_path: Path, capsys: pytest.CaptureFixture):
    expdir, recipe = tmp_path / "exp" / "mini", tmp_path / "recipe"
    for test_set, errors in (("test-clean", 20), ("test-other", 60)):
        score(expdir, "baseline", test_set, 2 * errors)
        score(expdir, "sem_m80_0", test_set, errors)
    words = ["--tables", TABLES, "--table", "1", "--expdir", expdir, "--scale", "mini", "--corpus", "toy"]
    lines = output(capsys, "write", *words, "--rows", "baseline,0dB", "--command", "./run.sh --table 1")
    assert any(line.split()[-3:] == ["12.9%", "50.0%", "1"] for line in lines if line.startswith("0dB"))
    assert not any(line.startswith("-60dB") for line in lines)
    assert f"written: {expdir}/results/table1.json and table1.md" in lines
    written = json.loads((expdir / "results" / "table1.json").read_text())
    assert [row["name"] for row in written["rows"]] == ["-60dB", "-40dB", "-20dB", "0dB", "baseline"]
    assert written["rows"][3]["cells"]["test-clean"]["here"]["value"] == 10.0
    assert written["meta"]["command"] == "./run.sh --table 1" and written["meta"]["scale"] == "mini"

    (recipe / "conf").mkdir(parents=True)
    results = ["results", "--recipe-dir", recipe, "--results", expdir / "results"]
    assert output(capsys, *results) == [f"{recipe}/RESULTS.md: 1 tables"]
    assert "What differs" not in (recipe / "RESULTS.md").read_text()
    (recipe / "conf" / "results_notes.md").write_text("Smaller.")
    # what was kept needs no run any more; a new run of the table takes its place
    assert json.loads((recipe / "results" / "mini-toy" / "table1.json").read_text()) == written
    output(capsys, *results[:3], "--output", tmp_path / "R.md")
    text = (tmp_path / "R.md").read_text()
    assert "## What differs from the paper\n\nSmaller.\n" in text and "## toy, scale mini" in text
    output(capsys, "write", *words, "--command", "./run.sh again")
    output(capsys, *results)
    assert (recipe / "RESULTS.md").read_text().count("./run.sh again") == 1
    with pytest.raises(InputError, match="nothing is kept there yet"):
        main(["results", "--recipe-dir", str(tmp_path)])


def test_the_perplexity_stands_under_tables_with_a_language_model(tmp_path: Path, capsys: pytest.CaptureFixture):
    expdir = tmp_path / "exp"
    score(expdir, "sem_m80_0", "test-clean", 20)
    (tmp_path / "ppl").write_text("12.3456")
    words = ["--tables", TABLES, "--table", "1,5", "--expdir", expdir, "--scale", "mini", "--corpus", "toy"]
    output(capsys, "write", *words, "--lm-perplexity", tmp_path / "ppl")
    texts = [(expdir / "results" / f"table{table}.md").read_text() for table in (1, 5)]
    assert ["perplexity of the language model: 12.35 a token" in text for text in texts] == [False, True]
    output(capsys, "write", *words, "--lm-perplexity", tmp_path / "none")
    assert "perplexity" not in (expdir / "results" / "table5.md").read_text()


def test_folders_that_are_not_there(tmp_path: Path):
    words = ["--tables", str(TABLES), "--scale", "mini", "--corpus", "toy", "--expdir", str(tmp_path / "no")]
    with pytest.raises(InputError, match="no such folder"):
        main(["write", *words])
    with pytest.raises(InputError, match="no such folder"):
        main(["results", "--recipe-dir", str(tmp_path / "no"), "--results", str(tmp_path)])


def test_command_line_reports_mistakes_in_one_line_and_loads_no_torch(tmp_path: Path):
    tables = tmp_path / "tables.yaml"
    tables.write_text(TABLES.read_text().replace("system: sem_m80_m60", "system: sem"))
    code = "import sys, runpy; sys.argv[0] = 'x'\ntry: runpy.run_module('espnet_ext.bin.table', run_name='__main__')\n"
    code += "finally: print(sorted({'torch', 'espnet2', 'espnet', 'lhotse'} & set(sys.modules)))"
    command = [sys.executable, "-c", code, "plan", "--tables"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    good = subprocess.run([*command, TABLES], capture_output=True, text=True, env=environment)
    assert good.returncode == 0, good.stderr
    assert good.stdout.splitlines()[0] == "sem_m80_m60\tconf/train.yaml\ttrain" and good.stdout.splitlines()[-1] == "[]"
    bad = subprocess.run([*command, tables], capture_output=True, text=True, env=environment)
    assert bad.returncode == 1
    assert bad.stderr.count("\n") == 1 and "tables.1.rows[0] (-60dB).system: unknown system 'sem'" in bad.stderr
