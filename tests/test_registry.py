"""Plugins in ESPnet's registries: trained and decoded through ESPnet's own entry
points, ours and a third party's.
"""

import subprocess
import sys
import textwrap
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from runpy import run_module

import numpy as np
import pytest
import soundfile
import torch
import yaml
from espnet2.bin.asr_inference import Speech2Text

import espnet_ext
from espnet_ext.errors import InputError
from espnet_ext.registry import PLUGINS, SLOTS, list_choices

RATE = 16000
WORDS = {"HIGH": 2500.0, "LOW": 300.0, "MID": 900.0}
TEXTS = ["HIGH LOW", "LOW MID LOW", "MID", "HIGH HIGH"]
TOY_MODULE = """
import torch
from espnet2.asr.encoder.abs_encoder import AbsEncoder

class ToyEncoder(AbsEncoder):
    def __init__(self, input_size: int, size: int = 4):
        super().__init__()
        self.size, self.linear = size, torch.nn.Linear(input_size, size)

    def output_size(self):
        return self.size

    def forward(self, xs_pad, ilens, prev_states=None):
        return self.linear(xs_pad), ilens, None

class NoEncoder(torch.nn.Module):
    pass
"""


SYSTEM = {
    "frontend": "power_mel",
    "frontend_conf": {"n_mels": 40},
    "normalize": "sem_global_mvn",
    "normalize_conf": {"eta_min": -60.0},
    "encoder": "blstm_maxpool",
    "encoder_conf": {"num_layers": 3, "hidden_size": 8},
    "decoder": "rnn",
    "decoder_conf": {
        "hidden_size": 8,
        "att_conf": {"atype": "location", "adim": 8, "aconv_filts": 5},
    },
    "model_conf": {"ctc_weight": 0.5},
    "token_type": "word",
}


def tables_of(slot: str) -> list[dict[str, type]]:
    """ESPnet's dicts of a slot."""
    return [classes for classes, _ in list_choices(slot)]


@pytest.fixture(autouse=True)
def registries():
    """Leave ESPnet's registries as they were."""
    tables = [table for slot in SLOTS for table in tables_of(slot)]
    before = [dict(table) for table in tables]
    yield
    for table, contents in zip(tables, before, strict=True):
        table.clear()
        table.update(contents)


def make_package(
    folder: Path, name: str, entries: str, module: str = TOY_MODULE
) -> Path:
    """What pip leaves in site-packages: the module and a dist-info folder with its
    entry points.
    """
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(module)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text(
        f"[espnet_ext.plugins]\n{textwrap.dedent(entries)}"
    )
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory, make_training_data) -> Path:
    """Four utterances of tones for words, and statistics."""
    time = np.arange(4000) / RATE
    random = np.random.default_rng(0)
    waves = [
        np.concatenate(
            [0.3 * np.sin(2 * np.pi * WORDS[word] * time) for word in text.split()]
        )
        for text in TEXTS
    ]
    speech = [wave + 1e-3 * random.standard_normal(len(wave)) for wave in waves]
    tokens = ["<blank>", "<unk>", *sorted(WORDS), "<sos/eos>"]
    folder = make_training_data(tmp_path_factory.mktemp("data"), speech, TEXTS, tokens)
    np.savez(
        folder / "feats_stats.npz",
        count=100,
        sum=np.full(40, 60.0),
        sum_square=np.full(40, 100 * (0.36 + 0.02)),
    )
    return folder


@pytest.fixture(scope="module")
def train(data, train_small):
    """Return a function that trains our plugins, changed by its arguments, for a few
    steps.
    """
    stats = ("--normalize_conf", f"stats_file={data / 'feats_stats.npz'}")
    return lambda output, **changes: train_small(data, output, SYSTEM | changes, *stats)


@pytest.fixture(scope="module")
def trained(train, tmp_path_factory) -> Path:
    """The folder of a small system of our plugins, trained for four steps."""
    output = tmp_path_factory.mktemp("exp") / "ours"
    train(output)
    return output


def test_all_plugins_are_in_all_tasks_that_take_them():
    espnet_ext.register()
    assert {
        "frontend.power_mel",
        "normalize.sem_global_mvn",
        "normalize.dropout_global_mvn",
    } <= set(PLUGINS)
    for key, target in PLUGINS.items():
        slot, name = key.split(".")
        module, cls = target.split(":")
        for table in tables_of(slot):
            assert table[name] is getattr(import_module(module), cls)


def test_registering_is_idempotent():
    espnet_ext.register()
    before = [dict(table) for slot in SLOTS for table in tables_of(slot)]
    espnet_ext.register()
    assert [dict(table) for slot in SLOTS for table in tables_of(slot)] == before


def test_training_saves_our_names_and_updates_our_weights(trained):
    config = yaml.safe_load((trained / "config.yaml").read_text())
    assert [
        config[slot] for slot in ("frontend", "normalize", "encoder", "decoder")
    ] == [
        "power_mel",
        "sem_global_mvn",
        "blstm_maxpool",
        "rnn",
    ]
    # what the user left open is written down, what they set is kept
    assert config["normalize_conf"]["eta_min"] == -60.0
    first, second = (
        torch.load(trained / f"{epoch}epoch.pth", weights_only=True) for epoch in (1, 2)
    )
    for key in (
        "encoder.layers.0.forwards.weight_ih_l0",
        "encoder.layers.2.backwards.weight_hh_l0",
    ):
        assert not torch.equal(first[key], second[key])
    assert torch.equal(first["normalize.mean"], second["normalize.mean"])
    assert not any("frontend" in key for key in second)


def test_decodes_through_espnets_speech2text(trained, data):
    espnet_ext.register()
    recogniser = Speech2Text(
        asr_train_config=str(trained / "config.yaml"),
        asr_model_file=str(trained / "valid.acc.ave.pth"),
        beam_size=2,
        ctc_weight=0.3,
        maxlenratio=0.5,
        device="cpu",
    )
    model = recogniser.asr_model
    assert (
        type(model.normalize).__name__ == "SEMGlobalMVN"
        and not model.normalize.training
    )
    saved = torch.load(trained / "valid.acc.ave.pth", weights_only=True)
    assert saved.keys() == model.state_dict().keys()
    for key, value in model.state_dict().items():
        assert torch.equal(value, saved[key])
    speech, _ = soundfile.read(data / "u1.flac", dtype="float32")
    text, tokens, _, hypothesis = recogniser(speech)[0]
    assert set(tokens) <= set(WORDS) | {"<unk>"} and text == " ".join(tokens)
    assert np.isfinite(float(hypothesis.score))
    # masking is off: a second time is the same
    assert recogniser(speech)[0][3].score == hypothesis.score


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("espnet2.bin.slu_train", {}),
        # its loss is in a package that pip does not bring: the model is built, and no
        # more
        (
            "espnet2.bin.asr_transducer_train",
            {
                "encoder": None,
                "encoder_conf": {
                    "body_conf": [
                        {
                            "block_type": "conformer",
                            "hidden_size": 8,
                            "linear_size": 8,
                            "conv_mod_kernel_size": 3,
                        }
                    ]
                },
                "decoder_conf": {"hidden_size": 8},
                "model_conf": {},
                "dry_run": True,
            },
        ),
    ],
)
def test_other_tasks_of_espnet(data, train_small, tmp_path, command, changes):
    """``python -m espnet_ext.bin.run``, with Small Energy Masking."""
    espnet_ext.register()
    config = SYSTEM | changes
    config = {key: value for key, value in config.items() if value is not None}
    saved = train_small(
        data,
        tmp_path,
        config,
        f"--normalize_conf=stats_file={data / 'feats_stats.npz'}",
        command=command,
    )
    assert saved["normalize"] == "sem_global_mvn" and (
        saved["dry_run"] or (tmp_path / "valid.loss.ave.pth").exists()
    )


def test_file_of_espnet3_and_what_it_spawns(tmp_path):
    """``python -m espnet_ext.bin.run run.py``: spawned processes have the plugins, and
    what the file defines.
    """
    (tmp_path / "helper.py").write_text("NAME = 'sem_global_mvn'\n")
    task = (
        "espnet3.systems.esp2_asr.task"
        if find_spec("espnet3.systems.esp2_asr")
        else "espnet3.systems.asr.task"
    )
    (tmp_path / "run.py").write_text(
        "import sys\nfrom concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\nfrom helper import NAME\n"
        f"def has(name):\n    from {task} import normalize_choices\n"
        "    return name in normalize_choices.classes\n"
        "if __name__ == '__main__':\n    with ProcessPoolExecutor(1, "
        "get_context('spawn')) as pool:\n"
        "        print(sys.argv[1:], has(NAME), list(pool.map(has, [NAME, 'other'])))\n"
    )
    command = [
        sys.executable,
        "-m",
        "espnet_ext.bin.run",
        str(tmp_path / "run.py"),
        "--stages",
        "all",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "['--stages', 'all'] True [True, False]\n", done.stderr


@pytest.mark.parametrize(
    "wrong", [[], ["absent.py"], ["espnet2.bin.absent"], ["absent.absent"]]
)
def test_run_refuses_what_is_not_there(wrong):
    from espnet_ext.bin import run

    with pytest.raises(InputError, match=wrong[0] if wrong else "name") as refused:
        run.main(wrong)
    assert refused.value.status == (1 if wrong == ["absent.py"] else 2)


def test_run_takes_our_command_in_place_of_espnets(capsys):
    """What ESPnet's ``asr.sh`` calls then has our options, such as --fast_decoder."""
    from espnet_ext.bin import run

    with pytest.raises(SystemExit):
        run.main(["espnet2.bin.asr_inference", "--fast_decoder", "perhaps"])
    assert "argument --fast_decoder" in capsys.readouterr().err


def test_third_party_package_trains_and_decodes(train, tmp_path, monkeypatch):
    package = make_package(
        tmp_path / "site",
        "toy_encoders",
        "encoder.Toy_Encoder = toy_encoders:ToyEncoder\n",
    )
    monkeypatch.syspath_prepend(package)
    espnet_ext.register()
    espnet_ext.register()
    config = train(
        tmp_path / "exp", encoder="toy_encoder", encoder_conf={"size": 6}, max_epoch=1
    )
    assert config["encoder"] == "toy_encoder"
    recogniser = Speech2Text(
        asr_train_config=str(tmp_path / "exp" / "config.yaml"),
        asr_model_file=str(tmp_path / "exp" / "valid.acc.ave.pth"),
        beam_size=1,
        maxlenratio=0.1,
        device="cpu",
    )
    assert type(recogniser.asr_model.encoder).__name__ == "ToyEncoder"
    assert recogniser(np.zeros(RATE, dtype=np.float32))


@pytest.mark.parametrize(
    "entry",
    [
        "encoder.toy = {}:NoEncoder",  # not a subclass
        "encoder.toy = {}:make",  # no class
        "encoder.toy = {}:Missing",
        "encoder.toy = {}_missing:Toy",
    ],
)
def test_a_broken_plugin_stops_only_who_names_it(tmp_path, monkeypatch, entry):
    name = "toy_bad"
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = TOY_MODULE + "\ndef make():\n    return None\n"
    monkeypatch.syspath_prepend(
        make_package(tmp_path / "site", name, entry.format(name) + "\n", module)
    )
    espnet_ext.register()
    for classes in tables_of("encoder"):
        assert "blstm_maxpool" in classes
        with pytest.raises(InputError, match=f"'encoder.toy' of the package {name}"):
            classes["toy"](input_size=3)


@pytest.mark.parametrize(
    "entry",
    [
        "coder.toy = {}:ToyEncoder",
        "encoder = {}:ToyEncoder",
        "encoder.none = {}:ToyEncoder",
    ],
)
def test_a_name_that_no_config_can_hold_is_warned_of(
    tmp_path, monkeypatch, caplog, entry
):
    make_package(tmp_path / "site", "toy_bad", entry.format("toy_bad") + "\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    espnet_ext.register()
    assert "the package toy_bad" in caplog.text
    assert all("blstm_maxpool" in classes for classes in tables_of("encoder"))


@pytest.mark.parametrize("name", ["rnn", "blstm_maxpool"])
def test_a_name_that_is_taken_keeps_its_class(tmp_path, monkeypatch, caplog, name):
    make_package(
        tmp_path / "site", "toy_clash", f"encoder.{name} = toy_clash:ToyEncoder\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    espnet_ext.register()
    before = [classes[name] for classes in tables_of("encoder")]
    assert all(kind.__name__ != "ToyEncoder" for kind in before)
    for classes in tables_of("encoder"):  # which its package's name still tells apart
        assert classes[f"toy_clash:{name}"].__name__ == "ToyEncoder"
    assert f"toy_clash:{name}" in caplog.text


def test_of_two_packages_with_one_name_both_can_be_named(tmp_path, monkeypatch, caplog):
    for name in ("toy_left", "toy_right"):
        make_package(tmp_path / "site", name, f"encoder.same = {name}:ToyEncoder\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    espnet_ext.register()
    assert "the name 'same' already stands" in caplog.text
    caplog.clear()
    for classes in tables_of("encoder"):
        modules = {
            classes[f"{name}:same"].__module__ for name in ("toy_left", "toy_right")
        }
        assert modules == {"toy_left", "toy_right"}


def test_spawned_workers_register_as_they_import_the_command(monkeypatch):
    """Python's spawn imports the command's module under this name, and never calls its
    main.
    """
    espnet_ext.register()
    for slot, name in (key.split(".") for key in PLUGINS):
        for table in tables_of(slot):
            del table[name]
    monkeypatch.delitem(sys.modules, "espnet_ext.bin.asr_train", raising=False)
    run_module("espnet_ext.bin.asr_train", run_name="__mp_main__")
    for slot, name in (key.split(".") for key in PLUGINS):
        assert all(name in table for table in tables_of(slot))
