"""egs/asru2019_cs/run.sh at scale smoke: from the synthetic corpus to two tables, and what a user gets wrong."""

import re
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml
from runs import cells_of, fail_in_each_stage, smoke_run

run = partial(smoke_run, "asru2019_cs")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> Path:
    """A system of each kind of decoder, and one that is trained on two parts."""
    folder = tmp_path_factory.mktemp("smoke_cs")
    run("--table", "1,3", "--rows", "reweight,separate,CS+CH", folder=folder)
    return folder


def test_tables_have_all_three_measures(smoke):
    here = cells_of("asru2019_cs", smoke)
    assert here["baseline"]["dev All"].here is None
    for name in ("reweight", "separate"):
        for test_set in ("dev", "test"):
            cells = {measure: here[name][f"{test_set} {measure}"].here for measure in ("All", "CH", "EN")}
            for what in ("errors", "words"):
                whole, *parts = (getattr(cells[measure], what) for measure in ("All", "CH", "EN"))
                assert whole == sum(parts) > 0


def test_units_and_their_languages(smoke):
    tokens = smoke / "data" / "tokens_mixed60"
    languages = dict(line.rsplit(" ", 1) for line in (tokens / "languages.txt").read_text().splitlines())
    assert list(languages) == (tokens / "tokens.txt").read_text().splitlines()
    assert languages["<unk>"] == "-" and {"zh", "en"} < set(languages.values())


def test_the_checkpoint_knows_the_languages(smoke):
    system = smoke / "exp" / "separate_cs" / "seed1"
    state = torch.load(system / "best1.ave.pth", weights_only=True)
    codes = state["decoder.token_languages"]
    assert codes.dtype == torch.uint8 and set(codes.tolist()) == {0, 1, 2}
    assert any(".self_attn.1." in name for name in state)


def test_systems_share_an_encoder_and_its_ctc(smoke):
    """Only the decoder was trained; what CTC says is the encoder's own."""
    encoder = torch.load(smoke / "exp" / "encoder" / "best1.ave.pth", weights_only=True)
    for system in ("reweight_cs", "separate_cs", "shared_cs_ch"):
        state = torch.load(smoke / "exp" / system / "seed1" / "best1.ave.pth", weights_only=True)
        assert {name.partition(".")[0] for name in state} == {"decoder", "ctc"}
        assert torch.equal(state["ctc.ctc_lo.weight"], encoder["ctc.ctc_lo.weight"])


def test_whole_systems_go_on_with_a_trained_encoder(smoke, tmp_path):
    """With ``--encoder pretrained`` encoder and CTC begin as the trained ones, see the same features, and change."""
    options = ("--table", "1", "--rows", "separate", "--encoder", "pretrained", "--stop_stage", "5")
    run(*options, folder=tmp_path, datadir=smoke / "data")
    folder = tmp_path / "exp" / "separate_cs" / "seed1"
    config = yaml.safe_load((folder / "config.yaml").read_text())
    encoder = tmp_path / "exp" / "encoder" / "best1.ave.pth"
    assert config["init_param"] == [f"{encoder}:encoder:encoder", f"{encoder}:ctc:ctc"]
    assert config["model_conf"]["ctc_weight"] == 0.2 and config["best_model_criterion"][0] == ["valid", "acc", "max"]
    assert config["train_data_path_and_name_and_type"][0][0].endswith("/train-cs/wav.scp")
    begun, trained = (torch.load(path, weights_only=True) for path in (encoder, folder / "best1.ave.pth"))
    assert trained.keys() > begun.keys()
    for name in ("normalize.mean", "normalize.std"):
        assert torch.equal(trained[name], begun[name])
    for name in ("encoder.after_norm.weight", "ctc.ctc_lo.weight"):
        assert not torch.equal(trained[name], begun[name]) and torch.allclose(trained[name], begun[name], atol=0.1)


def test_a_system_is_trained_on_the_parts_it_names(smoke):
    config = yaml.safe_load((smoke / "exp" / "shared_cs_ch" / "seed1" / "config.yaml").read_text())
    assert "/encodings/train-cs+train-zh/feats.scp" in config["train_data_path_and_name_and_type"][0][0]
    lines = (smoke / "data" / "train-cs+train-zh" / "text").read_text().splitlines()
    parts = [(smoke / "data" / part / "text").read_text().splitlines() for part in ("train-cs", "train-zh")]
    assert len(lines) == sum(map(len, parts))


def test_trainings_are_watched_on_the_first_utterances_of_each_speaker_of_dev(smoke):
    dev, valid = ((smoke / "data" / name / "text").read_text().splitlines() for name in ("dev", "valid"))
    assert len(dev) == 12 and valid == dev[:4] + dev[6:10]
    config = yaml.safe_load((smoke / "exp" / "shared_cs_ch" / "seed1" / "config.yaml").read_text())
    assert "/encodings/valid/feats.scp" in config["valid_data_path_and_name_and_type"][0][0]


def test_hypotheses_are_readable_mixed_text(smoke):
    texts = [path.read_text() for path in smoke.glob("exp/*/seed1/decode_default/*/text")]
    assert len(texts) == 6
    assert not any(re.search(r"[\u4e00-\u9fff] [\u4e00-\u9fff]", text.partition(" ")[2]) for text in texts)


def test_a_failing_step_of_each_stage_ends_the_run(smoke):
    fail_in_each_stage("asru2019_cs", smoke, "--table", "3", "--rows", "CS+CH")
