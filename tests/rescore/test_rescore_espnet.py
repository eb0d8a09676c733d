"""From ESPnet's own inference to re-ranked lists: one command, with a language model of transformers, from folders."""

from pathlib import Path

import pytest
import torch

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.nbest.espnet_output import read_espnet_output
from espnet_ext.nbest.lists import read_nbest

DEV = {"d1-0": 0.5, "d1-1": 0.6, "d2-0": 0.4}
TEST = {"s1-0": 0.7, "s1-1": 0.5, "s2-0": 0.01, "s2-1": 0.9}
CHARACTERS = ["<end>", " ", *"abcde<>unkso/"]


@pytest.fixture(scope="module")
def decoded(tmp_path_factory, make_data_dir, model) -> Path:
    """``dev`` and ``test``, each with the output folder of ESPnet's inference in ``decode_*``."""
    from espnet2.bin import asr_inference

    folder = tmp_path_factory.mktemp("decoded")
    files = ["--asr_train_config", model / "config.yaml", "--asr_model_file", model / "model.pth"]
    search = ["--beam_size", "4", "--nbest", "4", "--maxlenratio", "-3", "--ctc_weight", "0.4"]
    for name, durations in (("dev", DEV), ("test", TEST)):
        data = make_data_dir(folder / name, durations)
        inputs = ["--data_path_and_name_and_type", f"{data / 'wav.scp'},speech,sound"]
        output = ["--output_dir", folder / f"decode_{name}" / "logdir" / "output.1"]
        asr_inference.main([str(option) for option in [*files, *search, *inputs, *output]])
    return folder


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> Path:
    """A small random GPT-2 of lower-case characters."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("gpt2")
    characters = dict.fromkeys(CHARACTERS)
    tokenizer = Tokenizer(models.WordLevel({text: index for index, text in enumerate(characters)}))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<end>", eos_token="<end>").save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"vocab_size": len(characters), "n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2}
    network = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, initializer_range=0.5))
    network.save_pretrained(folder)
    return folder


def log_likelihood(folder: Path, text: str) -> float:
    """P3, eq. 2 of one text, token by token, from the begin token to the end token."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    ids = [0, *AutoTokenizer.from_pretrained(folder)(text.lower(), add_special_tokens=False)["input_ids"], 0]
    with torch.no_grad():
        logits = AutoModelForCausalLM.from_pretrained(folder).eval()(torch.tensor([ids])).logits[0]
    probabilities = logits.double().softmax(-1)
    return sum(float(probabilities[place, following].log()) for place, following in enumerate(ids[1:]))


def command(decoded: Path, gpt2: Path, output: Path, **changes: object) -> None:
    options = {
        "nbest": decoded / "decode_test",
        "tune-on": decoded / "decode_dev",
        "tune-ref": decoded / "dev" / "text",
        "lm": gpt2,
        "scorer": "causal",
        "casing": "lower",
        "output": output,
    }
    words = [text for name, value in {**options, **changes}.items() for text in (f"--{name}", str(value))]
    call(["rescore", *words])


def test_one_command_from_espnets_folders(decoded, gpt2, tmp_path, capsys):
    command(decoded, gpt2, tmp_path / "out")
    lists = {nbest.utt_id: nbest for nbest in read_espnet_output(decoded / "decode_test")}
    ranked = read_nbest(tmp_path / "out" / "nbest.jsonl")
    assert [nbest.utt_id for nbest in ranked] == list(TEST)
    weight = float(capsys.readouterr().out.split("first pass ")[1].split()[0])
    for nbest in ranked:
        before = {(hyp.text, hyp.score) for hyp in lists[nbest.utt_id].hyps}
        assert {(hyp.text, hyp.score) for hyp in nbest.hyps} == before
        assert len(nbest.hyps) == len(lists[nbest.utt_id].hyps)
        expected = [log_likelihood(gpt2, hyp.text) for hyp in nbest.hyps]
        assert [hyp.scores["second_lm"] for hyp in nbest.hyps] == pytest.approx(expected, abs=1e-4)
        # hypotheses without words come last
        pairs = zip(expected, nbest.hyps, strict=True)
        s = [added + weight * hyp.score for added, hyp in pairs if hyp.text or not any(h.text for h in nbest.hyps)]
        assert s == pytest.approx(sorted(s, reverse=True), abs=2e-4)
    text = (tmp_path / "out" / "text").read_text()
    assert text == "".join(f"{nbest.utt_id} {nbest.hyps[0].text}".rstrip() + "\n" for nbest in ranked)


def test_a_hypothesis_that_is_too_long_is_named(decoded, gpt2, tmp_path):
    (tmp_path / "long.jsonl").write_text(
        '{"utt_id": "u1", "hyps": [{"text": "A", "score": 0}]}\n'
        f'{{"utt_id": "u2", "hyps": [{{"text": "A", "score": 0}}, {{"text": "{"AB " * 30}", "score": 0}}]}}\n'
    )
    with pytest.raises(InputError, match='^u2: hypothesis "AB AB.* tokens, but the model takes 64'):
        command(decoded, gpt2, tmp_path / "out", nbest=tmp_path / "long.jsonl")
    assert not (tmp_path / "out").exists()
