"""egs/asru2019_cs/run.sh at scale smoke, on replicas of the challenge's corpus and of
public ones.
"""

import re
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow
import pytest
import torch
import yaml
from pyarrow.parquet import write_table
from runs import (
    assert_nothing_is_repeated,
    cells_of,
    fail_in_each_stage,
    smoke_run,
    table_of,
)

from espnet_ext.corpora.asru2019 import prepare_asru2019
from espnet_ext.synthetic.asru2019 import LIBRISPEECH, make_asru2019

run = partial(smoke_run, "asru2019_cs")
SPOKEN = ("train-cs", "dev", "test")


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("synthetic") / "corpus"
    make_asru2019(str(folder), "smoke", 0, 1)
    return folder


@pytest.fixture(scope="module")
def parts(synthetic) -> dict[str, list[tuple[str, str, str, Path, float]]]:
    """The synthetic corpus: part -> utterances with their speaker, text, audio and
    seconds.
    """
    prepared = prepare_asru2019(synthetic, synthetic.parent / "data")
    return {
        part: [
            (
                key,
                data.utt2spk[key],
                data.text[key],
                Path(data.wav_scp[key]),
                float(data.utt2dur[key]),
            )
            for key in data.utterances
        ]
        for part, data in prepared.items()
        if part in (*SPOKEN, "train-zh")
    }


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def challenge(root: Path, parts) -> None:
    """As its participants got it: a folder for each speaker and session in training,
    dev and test flat.
    """
    places = {
        "train-cs": "ZH+EN-200h/data/category1",
        "train-zh": "ZH-500h/data/category2",
        "dev": "ASRU-DEV/data",
        "test": "ASRU-TEST",
    }
    for part, place in places.items():
        for key, speaker, text, audio, _ in parts[part]:
            folder = (
                root
                / place
                / (f"{speaker[-5:]}/session1" if part.startswith("train") else "")
            )
            copy(audio, folder / f"{key}.wav")
            write(folder / f"{key}.txt", [text])


def seame(
    root: Path, parts, names: Sequence[str] = ("train", "dev_man", "dev_sge")
) -> None:
    for part, name in zip((*SPOKEN, "dev"), names, strict=False):
        rows = parts[part]
        for key, _, _, audio, _ in rows:
            copy(audio, root / "audio" / f"{key}.wav")
        folder = root / name
        write(
            folder / "wav.scp",
            [f"rec-{key} {root}/audio/{key}.wav" for key, *_ in rows],
        )
        write(
            folder / "segments",
            [f"{key} rec-{key} 0.0 {seconds:.2f}" for key, *_, seconds in rows],
        )
        write(folder / "utt2spk", [f"{key} {speaker}" for key, speaker, *_ in rows])
        write(folder / "text", [f"{key} <noise> {text}" for key, _, text, *_ in rows])


def seame_of_espnet(root: Path, parts) -> None:
    seame(root, parts, ("train", "devman", "devsge", "valid"))


def ascend_of_the_hub(root: Path, parts) -> None:
    """In two Parquet files for training, and one for each of the others."""
    for part, name, number in zip(
        SPOKEN, ("train", "validation", "test"), (2, 1, 1), strict=True
    ):
        rows = [
            {
                "id": f"{index:05}",
                "path": f"waves/{key}.wav",
                "audio": {"bytes": audio.read_bytes(), "path": f"{key}.wav"},
                "transcription": text,
                "original_speaker_id": index % 2,
            }
            for index, (key, _, text, audio, _) in enumerate(parts[part])
        ]
        (root / "main").mkdir(parents=True, exist_ok=True)
        for index in range(number):
            table = pyarrow.Table.from_pylist(rows[index::number])
            write_table(
                table, root / "main" / f"{name}-{index:05}-of-{number:05}.parquet"
            )


def mandarin(root: Path, parts, audio_in: str, transcript: str) -> str:
    """AISHELL-1 or aidatatang_200zh: folders of speakers, one file of transcripts."""
    for key, speaker, _, audio, _ in parts["train-zh"]:
        copy(audio, root / audio_in / speaker / f"{key}.wav")
    write(
        root / "transcript" / transcript,
        [f"{key} {' '.join(text)}" for key, _, text, _, _ in parts["train-zh"]],
    )
    return str(root)


def aishell(folder: Path, parts) -> str:
    return mandarin(
        folder / "data_aishell", parts, "wav/train", "aishell_transcript_v0.8.txt"
    )


def aidatatang(folder: Path, parts) -> str:
    return mandarin(
        folder / "aidatatang_200zh",
        parts,
        "corpus/train",
        "aidatatang_200_zh_transcript.txt",
    )


# A layout: the value of --corpus, and the Mandarin part if the corpus has none of its
# own. Those in PREPARED only run the first stage, the only one that knows them. Other
# layouts are tested in tests/corpora.
CORPORA = {
    challenge: ("asru2019", None),
    seame: ("seame", aishell),
    seame_of_espnet: ("seame", aidatatang),
    ascend_of_the_hub: ("ascend", aishell),
}
PREPARED = (seame, ascend_of_the_hub)
SYSTEMS = ("--table", "all", "--rows", "baseline,separate,CS+CH")
SAID = {"seame": " (dev is dev_man, test is dev_sge)"}


def in_layout(make, parts, synthetic: Path, folder: Path) -> list[str]:
    """Write a corpus in a layout, and return the options for it."""
    corpus, make_mandarin = CORPORA[make]
    make(folder / "corpus", parts)
    mandarin = ["--mandarin", make_mandarin(folder, parts)] if make_mandarin else []
    own = ["--corpus", corpus, "--asru2019", str(folder / "corpus"), *mandarin]
    return [*own, "--librispeech", str(synthetic / LIBRISPEECH)]


@pytest.fixture(scope="module")
def smoke(parts, synthetic, tmp_path_factory) -> tuple[Path, list[str]]:
    """Systems of all tables on the challenge's corpus, and the options for it."""
    folder = tmp_path_factory.mktemp("smoke_cs")
    corpus = in_layout(challenge, parts, synthetic, folder)
    run(*corpus, *SYSTEMS, folder=folder)
    return folder, corpus


@pytest.mark.parametrize("make", list(CORPORA))
def test_a_corpus_goes_from_its_files_to_a_table(
    make, parts, synthetic, tmp_path, request
):
    corpus = CORPORA[make][0]
    if make == challenge:
        tmp_path, options = request.getfixturevalue("smoke")
        assert_nothing_is_repeated(run(*options, *SYSTEMS, folder=tmp_path))
        for number in range(1, 6):
            rows = cells_of("asru2019_cs", tmp_path, str(number))
            filled = {
                name
                for name, cells in rows.items()
                if all(cell.here for cell in cells.values())
            }
            assert {"baseline", "CS+CH"} & rows.keys() <= filled
    else:
        stages = ["--stop_stage", "1"] if make in PREPARED else []
        options = in_layout(make, parts, synthetic, tmp_path)
        run(*options, *stages, "--table", "1", "--rows", "baseline", folder=tmp_path)
    heard = (tmp_path / "data" / "train-zh" / "text").read_text().splitlines()
    assert heard == sorted(f"{key} {text}" for key, _, text, _, _ in parts["train-zh"])
    if make in PREPARED:
        for part in ("dev", "test"):
            written = (tmp_path / "data" / part / "text").read_text().splitlines()
            assert written == sorted(
                f"{key} {text}" for key, _, text, _, _ in parts[part]
            )
    if make == seame:
        trained, watched = (
            (tmp_path / "data" / name / "text").read_text().splitlines()
            for name in ("train-cs", "valid")
        )
        assert len(watched) == 8 and sorted(trained + watched) == sorted(
            f"{key} {text}" for key, _, text, _, _ in parts["train-cs"]
        )
    if make in PREPARED:
        return

    table = table_of("asru2019_cs", tmp_path)
    assert table.meta.corpus == f"corpus{SAID.get(corpus, '')}"
    assert {
        cell.paper is None for row in table.rows for cell in row.cells.values()
    } == {corpus != "asru2019"}
    cells = {column.name: cell.here for column, cell in table.rows[0].cells.items()}
    for part in ("dev", "test"):
        text = " ".join(text for _, _, text, _, _ in parts[part])
        assert cells[f"{part} CH"].words == len(re.findall(r"[\u4e00-\u9fff]", text))
        assert cells[f"{part} EN"].words == len(re.findall(r"[A-Za-z']+", text))
    if make == seame_of_espnet:
        assert (tmp_path / "data" / "valid" / "text").read_text() == (
            tmp_path / "data" / "dev" / "text"
        ).read_text()


def test_tables_have_all_three_measures(smoke):
    here = cells_of("asru2019_cs", smoke[0])
    assert here["shared"]["dev All"].here is None
    for name in ("baseline", "separate"):
        for test_set in ("dev", "test"):
            cells = {
                measure: here[name][f"{test_set} {measure}"].here
                for measure in ("All", "CH", "EN")
            }
            for what in ("errors", "words"):
                whole, *parts = (
                    getattr(cells[measure], what) for measure in ("All", "CH", "EN")
                )
                assert whole == sum(parts) > 0


def test_units_and_their_languages(smoke):
    tokens = smoke[0] / "data" / "tokens_mixed60"
    languages = dict(
        line.rsplit(" ", 1)
        for line in (tokens / "languages.txt").read_text().splitlines()
    )
    assert list(languages) == (tokens / "tokens.txt").read_text().splitlines()
    assert languages["<unk>"] == "-" and {"zh", "en"} < set(languages.values())


def test_the_checkpoint_knows_the_languages(smoke):
    system = smoke[0] / "exp" / "separate_cs" / "seed1"
    state = torch.load(system / "best1.ave.pth", weights_only=True)
    codes = state["decoder.token_languages"]
    assert codes.dtype == torch.uint8 and set(codes.tolist()) == {0, 1, 2}
    assert any(".self_attn.1." in name for name in state)


def test_systems_share_an_encoder_and_its_ctc(smoke):
    """Only the decoder was trained; what CTC says is the encoder's own."""
    encoder = torch.load(
        smoke[0] / "exp" / "encoder" / "best1.ave.pth", weights_only=True
    )
    for system in ("baseline_cs", "separate_cs", "shared_cs_ch"):
        state = torch.load(
            smoke[0] / "exp" / system / "seed1" / "best1.ave.pth", weights_only=True
        )
        assert {name.partition(".")[0] for name in state} == {"decoder", "ctc"}
        assert torch.equal(state["ctc.ctc_lo.weight"], encoder["ctc.ctc_lo.weight"])


def test_whole_systems_go_on_with_a_trained_encoder(smoke, tmp_path):
    """With ``--encoder pretrained`` encoder and CTC begin as the trained ones, see the
    same features, and change.
    """
    options = (
        "--table",
        "1",
        "--rows",
        "separate",
        "--encoder",
        "pretrained",
        "--stop_stage",
        "5",
    )
    run(*smoke[1], *options, folder=tmp_path, datadir=smoke[0] / "data")
    folder = tmp_path / "exp" / "separate_cs" / "seed1"
    config = yaml.safe_load((folder / "config.yaml").read_text())
    encoder = tmp_path / "exp" / "encoder" / "best1.ave.pth"
    assert config["init_param"] == [f"{encoder}:encoder:encoder", f"{encoder}:ctc:ctc"]
    assert config["model_conf"]["ctc_weight"] == 0.2 and config["best_model_criterion"][
        0
    ] == ["valid", "acc", "max"]
    assert config["train_data_path_and_name_and_type"][0][0].endswith(
        "/train-cs/wav.scp"
    )
    begun, trained = (
        torch.load(path, weights_only=True)
        for path in (encoder, folder / "best1.ave.pth")
    )
    assert trained.keys() > begun.keys()
    for name in ("normalize.mean", "normalize.std"):
        assert torch.equal(trained[name], begun[name])
    for name in ("encoder.after_norm.weight", "ctc.ctc_lo.weight"):
        assert not torch.equal(trained[name], begun[name]) and torch.allclose(
            trained[name], begun[name], atol=0.1
        )


def test_a_system_is_trained_on_the_parts_it_names(smoke):
    config = yaml.safe_load(
        (smoke[0] / "exp" / "shared_cs_ch" / "seed1" / "config.yaml").read_text()
    )
    assert (
        "/encodings/train-cs+train-zh/feats.scp"
        in config["train_data_path_and_name_and_type"][0][0]
    )
    lines = (smoke[0] / "data" / "train-cs+train-zh" / "text").read_text().splitlines()
    parts = [
        (smoke[0] / "data" / part / "text").read_text().splitlines()
        for part in ("train-cs", "train-zh")
    ]
    assert len(lines) == sum(map(len, parts))


def test_trainings_are_watched_on_the_first_utterances_of_each_speaker_of_dev(smoke):
    dev, valid = (
        (smoke[0] / "data" / name / "text").read_text().splitlines()
        for name in ("dev", "valid")
    )
    assert len(dev) == 12 and valid == dev[:4] + dev[6:10]
    config = yaml.safe_load(
        (smoke[0] / "exp" / "shared_cs_ch" / "seed1" / "config.yaml").read_text()
    )
    assert (
        "/encodings/valid/feats.scp"
        in config["valid_data_path_and_name_and_type"][0][0]
    )


def test_hypotheses_are_readable_mixed_text(smoke):
    texts = [
        path.read_text() for path in smoke[0].glob("exp/*/seed1/decode_default/*/text")
    ]
    assert len(texts) == 12
    assert not any(
        re.search(r"[\u4e00-\u9fff] [\u4e00-\u9fff]", text.partition(" ")[2])
        for text in texts
    )


def test_a_failing_step_of_each_stage_ends_the_run(smoke):
    fail_in_each_stage(
        "asru2019_cs", smoke[0], *smoke[1], "--table", "3", "--rows", "CS+CH"
    )
