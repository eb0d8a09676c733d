"""A packed model decodes elsewhere as it did at home; what is missing is said in one
line.
"""

import re
import shutil
import zipfile
from pathlib import Path

import pytest
import soundfile
import yaml

import espnet_ext
from espnet_ext.errors import InputError
from espnet_ext.registry import PACKAGE, PLUGINS, list_choices
from espnet_ext.sharing import pack as packing_module
from espnet_ext.sharing.card import Card, write_card
from espnet_ext.sharing.model_files import (
    find_checkpoint,
    find_model,
    find_task,
    read_folder,
)
from espnet_ext.sharing.pack import Packing, pack
from espnet_ext.upstream.config_paths import find_named_files

from .conftest import MODEL, SEARCH, TOKENS


def packing(home: Path, **options) -> Packing:
    lm = (Path("lm/config.yaml"), Path("lm/model.pth"))
    given = {
        "folder": Path("exp/seed1"),
        "search": SEARCH,
        "lm": lm,
        "prior": Path("tokens/prior.txt"),
    }
    return Packing(**(given | options))


def output_of(recogniser, speech) -> list[tuple]:
    """All hypotheses, with their token ids and their total and single scores."""
    hypotheses = recogniser(speech)
    return [
        (text, ids, float(hyp.score), {k: float(v) for k, v in hyp.scores.items()})
        for text, _, ids, hyp in hypotheses
    ]


def at_home(speech) -> list[tuple]:
    """What the files of the training give, without being packed."""
    from espnet_ext.upstream.inference import build_speech2text

    files = {
        "asr_train_config": "exp/seed1/config.yaml",
        "asr_model_file": "exp/seed1/best1.ave.pth",
    }
    files |= {
        "lm_train_config": "lm/config.yaml",
        "lm_file": "lm/model.pth",
        "prior_file": "tokens/prior.txt",
    }
    espnet_ext.register()
    return output_of(build_speech2text(**files, **SEARCH), speech)


@pytest.mark.parametrize("name", ["shared.zip", "shared.v2.zip"])
def test_packed_moved_and_loaded_it_decodes_alike_to_the_last_digit(
    training, noise, tmp_path, monkeypatch, name
):
    expected = at_home(noise)
    assert len(expected) == 2
    pack(packing(training), training / "made" / name)
    pack(packing(training), training / "made" / "folder")
    assert output_of(espnet_ext.load(training / "made" / "folder"), noise) == expected
    elsewhere = tmp_path / "another user"
    elsewhere.mkdir()
    shutil.move(training / "made" / name, elsewhere / name)
    monkeypatch.chdir(elsewhere)
    training.rename(tmp_path / "gone")
    assert output_of(espnet_ext.load(name), noise) == expected
    unpacked = elsewhere / "unpacked"
    shutil.unpack_archive(name, unpacked)
    assert output_of(espnet_ext.load(unpacked), noise) == expected
    unpacked.rename(elsewhere / "moved again")
    assert output_of(espnet_ext.load("moved again"), noise) == expected
    one = espnet_ext.load(name, beam_size=1, nbest=1, lm_weight=0.0, prior_weight=0.0)
    assert len(one(noise)) == 1 and one.beam_search.beam_size == 1
    with pytest.raises(InputError, match="unknown option 'beamsize'"):
        espnet_ext.load(name, beamsize=1)


def test_the_command_searches_as_the_model_brings_unless_options_are_given(
    training, noise
):
    from espnet_ext.bin import asr_inference

    pack(packing(training), training / "shared.zip")
    soundfile.write("a.wav", noise, 16000, subtype="FLOAT")
    Path("wav.scp").write_text("a a.wav\n")
    expected = [
        hypothesis[2] for hypothesis in output_of(espnet_ext.load("shared.zip"), noise)
    ]
    tagged = [
        "--model_tag",
        "shared.zip",
        "--data_path_and_name_and_type",
        "wav.scp,speech,sound",
    ]
    asr_inference.main([*tagged, "--output_dir", "own"])
    scores = [
        Path(f"own/{rank}best_recog/score").read_text().split()[-1] for rank in (1, 2)
    ]
    assert [
        float(re.search(r"-\d+[.]\d+", score)[0]) for score in scores
    ] == pytest.approx(expected, abs=1e-3)
    asr_inference.main([*tagged, "--nbest", "1", "--output_dir", "given"])
    assert not Path("given/2best_recog").exists()


def test_the_archive_holds_relative_paths_and_nothing_of_the_training(training):
    pack(packing(training), training / "shared.zip")
    with zipfile.ZipFile("shared.zip") as archive:
        names = set(archive.namelist())
        texts = {
            name: archive.read(name).decode()
            for name in names
            if name.endswith((".yaml", ".md"))
        }
    assert names == {
        *(
            "meta.yaml",
            "espnet_ext.yaml",
            "README.md",
            "search/prior.txt",
            "lm/config.yaml",
            "lm/model.pth",
        ),
        *("model/config.yaml", "model/model.pth", "model/feats_stats.npz"),
    }
    config = yaml.safe_load(texts["model/config.yaml"])
    assert config["normalize_conf"]["stats_file"] == "model/feats_stats.npz"
    assert (
        config["encoder"] == "espnet_ext:blstm_maxpool"
        and config["decoder"] == "espnet_ext:batch_rnn"
    )
    for name, text in texts.items():
        assert str(training) not in text and "secret" not in text, name
    meta = yaml.safe_load(texts["meta.yaml"])
    assert meta["yaml_files"] == {
        "asr_train_config": "model/config.yaml",
        "lm_train_config": "lm/config.yaml",
    }
    assert meta["files"] == {
        "asr_model_file": "model/model.pth",
        "lm_file": "lm/model.pth",
    }
    header = yaml.safe_load(texts["README.md"].split("---")[1])
    assert (
        header["library_name"] == "espnet"
        and "automatic-speech-recognition" in header["tags"]
    )
    assert (
        'espnet_ext.load("shared")' in texts["README.md"]
        and "- beam_size: `3`" in texts["README.md"]
    )


def test_a_hub_reads_the_error_rates_from_the_card():
    from huggingface_hub import ModelCard

    of = {"unit": "speaker", "number": 33}
    score = {"unit": "word", "value": 3.21, "ci95": [2.0, 4.5], "interval": of}
    known = Card("LibriSpeech", results={"test-other": score}, dataset="openslr/x")
    card = ModelCard(write_card(known, "model", "asr", {}, {}))
    (result,) = card.data.eval_results
    found = (result.metric_type, result.metric_value, result.dataset_type)
    assert found == ("wer", 3.21, "openslr/x")
    assert card.data.datasets == ["openslr/x"]
    assert card.data.pipeline_tag == "automatic-speech-recognition"
    # a corpus that no hub has gets no id: the rates are in the text alone
    unknown = Card("digits", results={"test-other": score})
    card = ModelCard(write_card(unknown, "model", "asr", {}, {}))
    assert card.data.eval_results is None and card.data.datasets is None
    assert (
        "| test-other | 3.21 | 95% interval 2.00 to 4.50 over 33 speakers |"
        in card.text
    )


def test_espnet_without_this_package_names_it(training):
    """With the files that ESPnet's own unpacking gives, where its dicts have none of
    this package's names.
    """
    from espnet2.bin.asr_inference import Speech2Text
    from espnet2.main_funcs.pack_funcs import unpack

    pack(packing(training, lm=None, prior=None), training / "shared.zip")
    for slot, name in (key.split(".") for key in PLUGINS):
        for classes, _ in list_choices(slot):
            for known in (name, f"{PACKAGE}:{name}"):
                classes.pop(known, None)
    with pytest.raises(ValueError, match="^--.*espnet_ext:"):
        Speech2Text(**unpack("shared.zip", "unpacked"))


def test_an_espnet_model_needs_only_espnet(model, tmp_path, noise, monkeypatch, capsys):
    from espnet2.bin.asr_inference import Speech2Text
    from espnet2.main_funcs.pack_funcs import unpack

    monkeypatch.chdir(tmp_path)
    options = {"beam_size": 2, "maxlenratio": 0.2}
    expected = output_of(
        Speech2Text(model / "config.yaml", model / "model.pth", **options), noise
    )
    pack(
        Packing(model, search=options | {"transducer_conf": {}}), tmp_path / "plain.zip"
    )
    assert "transducer_conf" in capsys.readouterr().err
    assert output_of(espnet_ext.load(tmp_path / "plain.zip"), noise) == expected
    assert (
        output_of(espnet_ext.load(model, **options), noise) == expected
    )  # the folder of the training
    unpack("plain.zip", "by_espnet")
    assert (
        output_of(Speech2Text(**unpack("plain.zip", "by_espnet"), **options), noise)
        == expected
    )


def test_what_is_missing_is_said_before_anything_is_written(training):
    Path("stats/feats_stats.npz").rename("stats/away.npz")
    with pytest.raises(
        InputError, match=r"config.yaml: stats_file: stats/feats_stats.npz is not there"
    ):
        pack(packing(training), training / "shared.zip")
    Path("stats/away.npz").rename("stats/feats_stats.npz")
    with pytest.raises(
        InputError, match="exp/sed1: no such folder: name that of a training"
    ):
        find_checkpoint(Path("exp/sed1"))
    with pytest.raises(InputError, match="no.pth: no such file"):
        pack(packing(training, model=Path("no.pth")), training / "shared.zip")
    with pytest.raises(InputError, match="exp: is there, or no zip: name a new folder"):
        pack(packing(training), training / "exp")
    shutil.copy("exp/seed1/best1.ave.pth", "exp/seed1/last2.ave.pth")
    with pytest.raises(
        InputError, match=r"several averages \(best1.ave.pth, last2.ave.pth\)"
    ):
        pack(packing(training), training / "shared.zip")
    assert not [
        path
        for path in training.iterdir()
        if path.name.startswith((".shared", "shared"))
    ]


def test_a_checkpoint_of_another_model_is_not_packed(training):
    shutil.copy("lm/model.pth", "exp/seed1/other.pth")
    with pytest.raises(InputError, match=r"other.pth: does not fit its config"):
        pack(
            packing(training, model=Path("exp/seed1/other.pth")),
            training / "shared.zip",
        )
    assert not Path("shared.zip").exists()


def test_a_damaged_copy_is_refused(training, tmp_path):
    archive = training / "shared.zip"
    pack(packing(training, lm=None, prior=None), archive)
    broken = tmp_path / "broken.zip"
    broken.write_bytes(archive.read_bytes()[:4000])
    with pytest.raises(InputError, match=r"broken.zip: cannot be unpacked"):
        find_model(broken)
    shutil.unpack_archive(archive, tmp_path / "part")
    (tmp_path / "part/model/feats_stats.npz").unlink()
    with pytest.raises(
        InputError, match="stats_file: model/feats_stats.npz is not there"
    ):
        find_model(tmp_path / "part")
    (tmp_path / "part/model/model.pth").unlink()
    with pytest.raises(
        InputError, match=r"part: lacks model/model.pth, which its meta.yaml names"
    ):
        find_model(tmp_path / "part")


def test_files_outside_of_a_model_are_not_packed(training, tmp_path, monkeypatch):
    """A stranger's config may name a private key."""
    key = tmp_path / "id_rsa"
    key.write_text("secret")
    settings = Path("exp/seed1/config.yaml")
    config = yaml.safe_load(settings.read_text())
    settings.write_text(yaml.safe_dump(config | {"noise_scp": str(key)}))
    assert key.resolve() not in pack(packing(training), training / "plain.zip")
    settings.write_text(
        yaml.safe_dump(config | {"specaug_conf": {"mask_file": str(key)}})
    )
    with pytest.raises(InputError, match=r"config.yaml: names .*id_rsa, "):
        pack(packing(training), training / "shared.zip")
    assert key.resolve() in pack(
        packing(training, include=[key]), training / "shared.zip"
    )
    settings.write_text(yaml.safe_dump(config))


@pytest.mark.parametrize(
    "place", ["id_rsa", ".ssh/id_rsa", "exp/id_rsa", "exp/seed1/.ssh/id_rsa"]
)
@pytest.mark.parametrize("key", ["specaug_conf", "bpemodel", "normalize_conf"])
def test_a_key_below_the_working_directory_is_not_packed(training, place, key):
    """Whatever the config says it is, and from wherever it is packed."""
    secret = Path(place)
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    settings = Path("exp/seed1/config.yaml")
    config = yaml.safe_load(settings.read_text())
    value = place if key == "bpemodel" else {"stats_file": place}
    settings.write_text(yaml.safe_dump(config | {key: value}))
    with pytest.raises(InputError, match="config.yaml: names .*id_rsa"):
        pack(packing(training), training / "shared.zip")
    assert not Path("shared.zip").exists()


def test_what_a_training_has_of_its_owner_is_not_packed(training):
    for name in ("noise.scp", "rir.scp"):
        Path("data").mkdir(exist_ok=True)
        Path("data", name).write_text("a /home/ann/secret/a.wav\n")
    Path("data/secret_shape").write_text("ann-secret-1 16000\n")
    settings = Path("exp/seed1/config.yaml")
    config = yaml.safe_load(settings.read_text())
    private = {
        "preprocessor_conf": {"noise_scp": "data/noise.scp", "rir_scp": "/secret/rir"},
        **{f"wandb_{key}": "secret" for key in ("project", "entity", "name", "id")},
        "dist_init_method": "file:///home/ann/secret",
        "stages": [{"epochs": 1, "shape_file": "data/secret_shape"}],
    }
    settings.write_text(yaml.safe_dump(config | private))
    went = pack(packing(training), training / "shared")
    assert not [path for path in went if path.suffix == ".scp"]
    text = Path("shared/model/config.yaml").read_text()
    assert "secret" not in text and "noise.scp" not in text
    assert espnet_ext.load("shared")


def test_another_espnet_is_named(training, tmp_path, monkeypatch, noise, caplog):
    archive = training / "shared.zip"
    pack(packing(training, lm=None, prior=None, search={"beam_size": 1}), archive)
    folder = tmp_path / "older"
    shutil.unpack_archive(archive, folder)
    meta = yaml.safe_load((folder / "meta.yaml").read_text())
    (folder / "meta.yaml").write_text(yaml.safe_dump(meta | {"espnet": "202409"}))
    with caplog.at_level("WARNING"):
        espnet_ext.load(folder)
    assert any(
        "packed with ESPnet 202409, this is" in message for message in caplog.messages
    )
    config = yaml.safe_load((folder / "model/config.yaml").read_text())
    (folder / "model/config.yaml").write_text(
        yaml.safe_dump(config | {"encoder": "of_the_past"})
    )
    with pytest.raises(
        InputError,
        match="--encoder of_the_past: it was packed with ESPnet 202409, this is",
    ):
        espnet_ext.load(folder)


def test_names_that_are_no_model(tmp_path, model):
    with pytest.raises(InputError, match="no such file or folder"):
        find_model(tmp_path / "nothing.zip")
    with pytest.raises(InputError, match="holds no model"):
        find_model(tmp_path)
    with pytest.raises(InputError, match="not a packed model"):
        find_model(model / "config.yaml")
    assert find_model(model / "model.pth").model == model / "model.pth"
    assert find_checkpoint(model).name == "model.pth"
    for name in (
        "train.acc.ave.pth",
        "valid.loss.ave.pth",
        "valid.acc.best.pth",
        "valid.acc.ave.pth",
    ):  # as ESPnet's
        (tmp_path / name).touch()
    assert find_checkpoint(tmp_path).name == "valid.acc.ave.pth"
    (tmp_path / "valid.loss.best.pth").touch()
    (tmp_path / "latest.pth").touch()
    assert find_checkpoint(tmp_path).name == "valid.acc.ave.pth"
    assert (
        find_checkpoint(tmp_path, "long").name == "latest.pth"
    )  # what P5 and its recipe decode
    (tmp_path / "best5.ave.pth").touch()  # a recipe's
    assert find_checkpoint(tmp_path).name == "best5.ave.pth"
    assert read_folder(model).task == "asr"


@pytest.mark.parametrize(
    ("config", "task"),
    [
        ({"encoder": "long_fastconformer", "decoder": "transformer"}, "asr"),
        ({"encoder": "long_fastconformer", "decoder": None}, "asr"),
        ({"encoder": "conformer", "features_conf": {"n_mels": 80}}, "long"),
        ({"model": "their_sa_asr"}, "asr"),
        ({"model": "espnet_ext:sa_asr", "speaker_encoder": "rnn"}, "sa_asr"),
        ({"src_token_list": ["a"]}, "mt"),
    ],
)
def test_a_task_is_told_by_its_own_keys_and_not_by_names(config, task):
    assert find_task(config) == task


def test_a_recogniser_with_an_encoder_of_long_recordings_is_loaded(
    tmp_path, save_model, noise
):
    from espnet2.tasks.asr import ASRTask

    folder = tmp_path / "seed1"
    folder.mkdir()
    settings = MODEL | {
        "frontend": "default",
        "frontend_conf": {"fs": 16000, "hop_length": 160, "n_mels": 20},
        "normalize": "utterance_mvn",
        "normalize_conf": {},
        "encoder": "long_fastconformer",
        "encoder_conf": {"output_size": 8, "attention_heads": 2, "num_blocks": 1},
        "token_list": TOKENS,
        "token_type": "char",
    }
    save_model(ASRTask, folder, **settings)
    (folder / "model.pth").rename(folder / "valid.acc.best.pth")
    (folder / "latest.pth").write_bytes(b"the last epoch is not what is decoded")
    pack(Packing(folder), tmp_path / "shared.zip")
    recogniser = espnet_ext.load(tmp_path / "shared.zip", beam_size=2)
    assert isinstance(recogniser(noise)[0][0], str)


def test_a_folder_where_a_file_must_be(tmp_path):
    (tmp_path / "bpe").mkdir()
    for name in ("bpe", str(tmp_path / "bpe")):
        with pytest.raises(
            InputError,
            match=(
                "config.yaml: bpemodel names the folder .*bpe: only files can be packed"
            ),
        ):
            find_named_files({"bpemodel": name}, [tmp_path], Path("config.yaml"))
    assert not find_named_files({"stage": "bpe"}, [tmp_path], Path("config.yaml")), (
        "a bare word is no path elsewhere"
    )


@pytest.mark.parametrize("line, known", [("<sos/eos>", True), ("secret", False)])
def test_a_token_list_is_known_by_the_pieces_beside_it(
    tmp_path, monkeypatch, line, known
):
    def read_pieces(path):
        return {"▁A", "B"} if path.name == "bpe.model" else None

    monkeypatch.setattr(packing_module, "_read_pieces", read_pieces)
    (tmp_path / "bpe.model").touch()
    tokens = tmp_path / "tokens.txt"
    tokens.write_text(f"<blank>\n▁A\nB\n{line}\n", encoding="utf-8")
    assert packing_module._is_of_speech(tokens) == known
