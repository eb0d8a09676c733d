"""Which engine hears a file, its windows, times of words, and unusable models."""

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile
import torch

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.sharing.model_files import read_folder
from espnet_ext.transcription import engines
from espnet_ext.transcription.engines import align_words, choose_engine
from espnet_ext.transcription.request import Request
from espnet_ext.work.yaml_files import read_yaml, write_yaml


def test_models_of_long_recordings_have_the_windows_of_their_paper(
    audio, model, monkeypatch
):
    heard = []
    monkeypatch.setattr(
        "espnet_ext.longform.decoding.transcribe.load_transcriber",
        lambda config, model, settings, **options: heard.append(settings.stride),
    )
    monkeypatch.setattr(
        "espnet_ext.longform.decoding.transcribe.transcribe",
        lambda loaded, path: iter([]),
    )
    files = read_folder(model)
    for task, overlap in (("asr", None), ("long", None), ("long", 0.25)):
        list(
            engines.make_window_engine(
                Request(window=1.0, window_overlap=overlap), replace(files, task=task)
            )(audio)
        )
    assert heard == [0.5, 0.125, 0.75]
    monkeypatch.setattr(
        "espnet_ext.sharing.model_files.find_model",
        lambda name: replace(files, task="long"),
    )
    with pytest.raises(InputError, match="--config is for beam search by a decoder"):
        choose_engine(model, Request(config=Path("search.yaml")))


def test_short_files_by_search_and_long_ones_by_windows(audio, model, monkeypatch):
    monkeypatch.setattr(
        engines,
        "make_search_engine",
        lambda request, model: lambda path: iter(["search"]),
    )
    monkeypatch.setattr(
        engines,
        "make_window_engine",
        lambda request, model: lambda path: iter(["windows"]),
    )
    assert list(choose_engine(model, Request())(audio)) == ["search"]  # of 3 s
    assert list(choose_engine(model, Request(window=2.0))(audio)) == ["windows"]
    with pytest.raises(InputError, match="--enrolment"):
        choose_engine(model, Request(enrolment=audio.parent))


def test_models_and_options_that_give_a_text_for_each_speaker(audio, model, tmp_path):
    (tmp_path / "search.yaml").write_text("multi_asr: true\n")
    with pytest.raises(InputError, match="search.yaml: multi_asr"):
        list(choose_engine(model, Request(config=tmp_path / "search.yaml"))(audio))
    shutil.copytree(model, tmp_path / "several")
    config = read_yaml(model / "config.yaml")
    write_yaml(
        tmp_path / "several" / "config.yaml",
        config | {"model": "pit_espnet"},
        "several",
    )
    with pytest.raises(InputError, match="several: .* pit_espnet"):
        choose_engine(tmp_path / "several", Request())


@pytest.mark.parametrize("window", ["1", "30"])
def test_a_model_that_computes_nan_hears_no_silence(
    window, audio, model, tmp_path, capsys
):
    """In windows and by search, a layer that overflows fails each file.

    NaN among the parameters ends the run.
    """
    folder = tmp_path / "model"
    state = torch.load(model / "model.pth", weights_only=True)
    shutil.copytree(model, folder)
    shutil.copy(audio, tmp_path / "again.flac")
    words = [
        "transcribe",
        str(audio),
        str(tmp_path / "again.flac"),
        "--model",
        str(folder),
        "--formats",
        "txt",
    ]
    words += ["--window", window, "--output", str(tmp_path / "out")]
    (first,) = (name for name in state if name.endswith("embed.conv.0.weight"))
    torch.save(
        state | {first: torch.full_like(state[first], 3e38)}, folder / "model.pth"
    )
    with pytest.raises(InputError, match="2 of 2 files could not be transcribed"):
        call(words)
    told = capsys.readouterr().err
    assert (
        "again" in told and "my" in told and "NaN" in told and "no speech" not in told
    )
    torch.save(
        state | {first: state[first] * torch.nan},
        folder.rename(tmp_path / "nan") / "model.pth",
    )
    with pytest.raises(
        InputError,
        match="model.pth: values of .*embed.conv.0.weight are NaN or infinite",
    ):
        call([str(tmp_path / "nan") if word == str(folder) else word for word in words])
    assert "error:" not in capsys.readouterr().err and not list(
        (tmp_path / "out").glob("[!.]*")
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"token_type": None},
        {"token_list": None},
        {"encoder": "nosuch"},
        {"frontend_conf": {"fs": "many"}},
        {"chunk_conf": [1]},
        {"chunk_conf": {"max_seconds": [1]}},
        {"token_type": "bpe"},  # without a bpemodel
    ],
)
def test_a_model_that_cannot_be_built_is_named_once_and_no_file_is_blamed(
    changes, audio, model, tmp_path
):
    shutil.copytree(model, tmp_path / "bad")
    config = {
        name: value
        for name, value in (read_yaml(model / "config.yaml") | changes).items()
        if value is not None
    }
    write_yaml(tmp_path / "bad" / "config.yaml", config, "bad")
    shutil.copy(audio, tmp_path / "again.flac")
    words = [str(audio), str(tmp_path / "again.flac"), "--model", str(tmp_path / "bad")]
    for window in ([], ["--window", "1"]):
        with pytest.raises(InputError, match="bad") as refused:
            call(["transcribe", *words, *window, "--output", str(tmp_path / "out")])
        assert "talk" not in str(refused.value) and "\n" not in str(refused.value)


def test_audio_that_breaks_off_is_told_where(audio, model, tmp_path):
    whole = audio.read_bytes()
    audio.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"breaks off after 1\.[1-4] s"):
        list(choose_engine(model, Request(window=1.0))(audio))


@pytest.fixture
def recogniser(model):
    from espnet_ext.sharing.load import build

    return build(read_folder(model), beam_size=2, maxlenratio=0.3)


def test_times_are_those_of_the_best_path(recogniser, audio):
    """Against all alignments of two tokens, tried one by one."""
    samples, _ = soundfile.read(audio, dtype="float32")
    samples = samples[:3200]
    with torch.no_grad():
        encoded, _ = recogniser.asr_model.encode(
            torch.from_numpy(samples).unsqueeze(0), torch.tensor([len(samples)])
        )
        logp = recogniser.asr_model.ctc.log_softmax(encoded)[0].numpy()
    frames = len(logp)
    tokens = [3, 4]
    best = None
    for a in range(frames):
        for b in range(a + 1, frames + 1):
            for c in range(b, frames):
                for d in range(c + 1, frames + 1):
                    path = (
                        [0] * a
                        + [3] * (b - a)
                        + [0] * (c - b)
                        + [4] * (d - c)
                        + [0] * (frames - d)
                    )
                    score = sum(logp[t, token] for t, token in enumerate(path))
                    if best is None or score > best[0]:
                        best = (score, a, d)
    (word,) = align_words(recogniser, samples, tokens, 0.2)
    assert word.text == "AB"
    unit = 0.2 / frames
    assert (word.start, word.end) == pytest.approx((best[1] * unit, best[2] * unit))
    assert 0 < word.confidence <= 1
    # More tokens than frames: the words share the time.
    crowded = align_words(recogniser, samples, [3, 2, 4] * frames, 0.2)
    edges = list(itertools.chain.from_iterable((w.start, w.end) for w in crowded))
    assert edges == sorted(edges) and edges[0] == 0.0
    assert edges[-1] == pytest.approx(0.2)


@pytest.fixture
def narrow(tmp_path):
    (tmp_path / "narrow.yaml").write_text("beam_size: 2\n")
    return tmp_path / "narrow.yaml"


def test_words_of_a_search_are_its_text(recogniser, model, audio, narrow):
    samples, _ = soundfile.read(audio, dtype="float32")
    text, _, ids, _ = recogniser(samples)[0]
    files = read_folder(model)
    again = [word.text for word in align_words(recogniser, samples, ids, 3.0)]
    assert " ".join(again).split() == text.split()
    beam = engines.make_search_engine(Request(config=narrow), files)(audio)
    assert all(
        0 <= word.start < word.end <= 3.0 for line in beam for word in line.timed_words
    )


def test_a_model_with_intermediate_ctc_is_searched(model, audio, tmp_path, narrow):
    """ESPnet's results then are a pair, whose second part is of inner CTCs."""
    shutil.copytree(model, tmp_path / "model")
    config = read_yaml(model / "config.yaml")
    config["encoder_conf"] |= {"num_blocks": 2, "interctc_layer_idx": [1]}
    write_yaml(tmp_path / "model" / "config.yaml", config, "model")
    state = torch.load(model / "model.pth", weights_only=True)
    again = {
        name.replace("encoders.0.", "encoders.1."): value
        for name, value in state.items()
    }
    torch.save(again | state, tmp_path / "model" / "model.pth")
    beam = engines.make_search_engine(
        Request(config=narrow), read_folder(tmp_path / "model")
    )(audio)
    assert all(line.words for line in beam)


def test_long_files_go_through_windows_of_a_folder_of_a_model(audio, model, tmp_path):
    """The same words as the function for long recordings gives.

    The model is named by its folder.
    """
    from espnet_ext.longform.decoding.settings import WindowSettings
    from espnet_ext.longform.decoding.transcribe import load_transcriber, transcribe

    words = [
        "--model",
        str(model),
        "--window",
        "1",
        "--formats",
        "json",
        "--output",
        str(tmp_path),
    ]
    call(["transcribe", str(audio), *words])
    found = json.loads((tmp_path / "my talk.json").read_text())
    transcriber = load_transcriber(
        model / "config.yaml",
        model / "model.pth",
        WindowSettings(window=1.0, stride=0.5),
    )
    assert found["text"] == " ".join(
        line.text for line in transcribe(transcriber, audio)
    )
