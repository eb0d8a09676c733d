"""The command that makes mixtures, from manifests to a counted set."""

import numpy as np
import pytest
import soundfile

from espnet_ext.bin.mixtures import main
from espnet_ext.data.data_dir import DataDir, read_data_dir
from espnet_ext.data.manifests import from_data_dir, write_manifests
from espnet_ext.errors import InputError


def test_a_set_is_made_and_counted(tmp_path, capsys):
    random = np.random.default_rng(0)
    names = [f"{speaker}-{number}" for speaker in "abc" for number in range(4)]
    for name in names:
        soundfile.write(tmp_path / f"{name}.flac", random.uniform(-0.3, 0.3, 16000), 16000)
    data = DataDir(
        wav_scp={name: str(tmp_path / f"{name}.flac") for name in names},
        utt2spk={name: name[0] for name in names},
        text=dict.fromkeys(names, "TWO WORDS"),
    )
    write_manifests(*from_data_dir(data), tmp_path / "manifests")
    arguments = [
        *("--recordings", str(tmp_path / "manifests" / "recordings.jsonl.gz")),
        *("--supervisions", str(tmp_path / "manifests" / "supervisions.jsonl.gz")),
        *("--output", str(tmp_path / "set"), "--name", "dev short", "--nj", "1"),
        *("--speakers", "3", "--overlap", "0.2"),
    ]
    main([*arguments, "--utterances", "2-4"])
    made = read_data_dir(tmp_path / "set")
    assert sum(text.count("TWO WORDS") for text in made.text.values()) == len(names)
    assert all(key.startswith("dev-short-") for key in made.utterances)
    assert f"dev short: {len(made.utterances)} mixtures of " in capsys.readouterr().out
    main([*arguments, "--utterances", "2-4", "--no-audio", "--output", str(tmp_path / "text")])
    assert sorted(path.name for path in (tmp_path / "text").iterdir()) == [
        ".made", "mixed_utterances", "references.json", "text", "text_speakers",
    ]  # fmt: skip
    for name in ("references.json", "text"):
        assert (tmp_path / "text" / name).read_bytes() == (tmp_path / "set" / name).read_bytes()
    with pytest.raises(InputError, match="--utterances few: give the fewest and the most"):
        main([*arguments, "--utterances", "few"])
