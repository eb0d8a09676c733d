"""Models in llama.cpp's format: read as any other, or refused by name."""

import struct
from pathlib import Path

import numpy as np
import pytest

from espnet_ext import rescore
from espnet_ext.errors import InputError
from espnet_ext.rescore import check_model_path
from espnet_ext.rescore.models.language_model import read_config
from espnet_ext.rescore.models.scorers import load_lm, score_lists

WIDTH, HEADS, TOKENS = 16, 2, ["<s>", "</s>", "a", "b", "c", "ab", "Ġ"]


def write_gguf(path: Path) -> Path:
    """Write a Llama of one layer with GPT-2's kind of tokenizer."""
    gguf = pytest.importorskip("gguf")
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(32)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 1, 1, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    shapes = {
        "token_embd": (len(TOKENS), WIDTH),
        "blk.0.attn_norm": (WIDTH,),
        "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (WIDTH, WIDTH),
        "blk.0.attn_v": (WIDTH, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_norm": (WIDTH,),
        "blk.0.ffn_gate": (32, WIDTH),
        "blk.0.ffn_up": (32, WIDTH),
        "blk.0.ffn_down": (WIDTH, 32),
        "output_norm": (WIDTH,),
        "output": (len(TOKENS), WIDTH),
    }
    for name, shape in shapes.items():
        values = random.normal(size=shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file_scores_and_a_saved_copy_scores_the_same(tmp_path):
    file = write_gguf(tmp_path / "toy.gguf")
    scorer = load_lm(file, casing="lower")
    [scores] = score_lists(scorer, [["A B C", "C B"]])
    assert len(set(scores)) == 2 and max(scores) < 0
    scorer.save(tmp_path / "saved")
    [again] = score_lists(load_lm(tmp_path / "saved"), [["A B C", "C B"]])
    assert again == pytest.approx(scores, abs=1e-4)


def test_a_gguf_file_is_refused_without_its_reader(tmp_path, monkeypatch):
    file = tmp_path / "toy.GGUF"
    file.write_bytes(b"GGUF")
    monkeypatch.setattr(rescore, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=f"{file}: .*gguf"):
        load_lm(file)


@pytest.mark.parametrize("content", [None, b"", b"GGUF\3\0\0\0", b"not a model"])
def test_what_is_no_gguf_file_is_refused_by_name(tmp_path, content):
    pytest.importorskip("gguf")
    file = tmp_path / "toy.gguf"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=f"{file}: "):
        load_lm(file)


def test_a_gguf_file_without_a_model_is_refused_before_it_is_loaded(tmp_path):
    file = write_gguf(tmp_path / "toy.gguf")
    check_model_path(file)
    whole = file.read_bytes()
    header = struct.Struct("<4sIQQ")
    magic, version, tensors, fields = header.unpack_from(whole)
    bare = header.pack(magic, version, 0, 0)
    contents = {
        "nothing": bare,
        "zeros": bare + bytes(4096),
        "promises": header.pack(magic, version, tensors, fields),
        "no metadata": header.pack(magic, version, tensors, 0) + whole[header.size :],
        "no weights": header.pack(magic, version, 0, fields) + whole[header.size :],
        "half": whole[: len(whole) // 2],
        "cut": whole[:-256],
    }
    for name, content in contents.items():
        file.write_bytes(content)
        with pytest.raises(InputError, match=f"{file}: ") as refused:
            check_model_path(file)
        assert "transformers" not in str(refused.value), name


def test_advice_on_a_gguf_file_that_does_not_load_fits_it(tmp_path):
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "odd.gguf", "no-such-architecture")
    writer.add_tensor("output.weight", np.zeros((4, 4), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    check_model_path(tmp_path / "odd.gguf")
    with pytest.raises(InputError, match="odd.gguf: .*convert") as refused:
        read_config(tmp_path / "odd.gguf")
    assert "written by transformers" not in str(refused.value)
