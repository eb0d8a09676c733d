import json
import shutil

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
)

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.causal import CausalScorer
from espnet_ext.rescore.models.scorers import load_lm, score_lists
from espnet_ext.rescore.training.small_models import SmallModel, make_small_model

LISTS = [["THE CAT SAT", "the cat sat on  the mat", ""], [], ["cat"]]


@pytest.fixture
def gpt2(saved):
    return saved("gpt2")


@pytest.fixture
def bert(saved):
    return saved("bert")


def flat(lists):
    return [score for scores in lists for score in scores]


@pytest.mark.parametrize(
    ("name", "options", "loader"),
    [
        ("gpt2", {"scorer": "causal", "casing": "lower"}, AutoModelForCausalLM),
        ("bert", {"scorer": "pll"}, AutoModelForMaskedLM),
        ("gpt2", {"scorer": "pooled"}, AutoModel),
        (
            "gpt2",
            {"scorer": "pooled", "pooling": "attention", "casing": "sentence"},
            AutoModel,
        ),
        ("bert", {"scorer": "pooled"}, AutoModel),
        ("bert", {"scorer": "pooled", "pooling": "attention"}, AutoModel),
    ],
)
def test_a_saved_scorer_is_loaded_as_it_was(name, options, loader, saved, tmp_path):
    scorer = load_lm(saved(name), **options, new_layer=True)
    with torch.no_grad():
        scorer.get_parameter(next(key for key, _ in scorer.named_parameters())).add_(
            0.1
        )
    scorer.save(tmp_path / "saved")
    again = load_lm(tmp_path / "saved")
    assert (again.name, again.casing, again.settings()) == (
        scorer.name,
        scorer.casing,
        scorer.settings(),
    )
    assert not again.training
    assert score_lists(again, LISTS) == score_lists(scorer, LISTS)
    model, report = loader.from_pretrained(tmp_path / "saved", output_loading_info=True)
    assert not report["unexpected_keys"]
    assert {key.partition(".")[0] for key in report["missing_keys"]} <= {
        "pooler"
    }  # BERT's, which nothing here uses
    AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert not any(
        path.suffix in (".bin", ".pt", ".pth")
        for path in (tmp_path / "saved").iterdir()
    )


def test_a_folder_of_transformers_is_scored_by_its_kind(gpt2, bert):
    assert load_lm(gpt2).name == "causal"
    assert load_lm(bert).name == "pll"
    pooled = [
        load_lm(folder, "pooled", new_layer=True).pooling for folder in (gpt2, bert)
    ]
    assert pooled == ["last", "cls"]


def test_a_model_without_a_trained_pooling_layer_does_not_score(gpt2):
    with pytest.raises(
        InputError,
        match="gpt2: has no trained pooling layer.* train it .*, or score by another",
    ):
        load_lm(gpt2, "pooled")


def test_an_adapted_model_may_become_pooled_but_not_back(gpt2, tmp_path):
    load_lm(gpt2).save(tmp_path / "adapted")
    pooled = load_lm(tmp_path / "adapted", "pooled", new_layer=True)
    wanted = load_lm(gpt2).model.transformer.state_dict()
    assert all(
        torch.equal(value, wanted[key])
        for key, value in pooled.model.state_dict().items()
    )
    pooled.save(tmp_path / "pooled")
    with pytest.raises(InputError, match="was trained as scorer pooled, pooling last"):
        load_lm(tmp_path / "pooled", "causal")
    with pytest.raises(InputError, match="was trained as scorer pooled, pooling last"):
        load_lm(tmp_path / "pooled", "pooled", "attention")


def test_casing(gpt2):
    scores = {
        casing: flat(score_lists(load_lm(gpt2, casing=casing), LISTS))
        for casing in ("as-is", "lower", "upper")
    }
    upper = flat(
        score_lists(
            load_lm(gpt2), [[text.upper() for text in texts] for texts in LISTS]
        )
    )
    assert scores["upper"] == upper != scores["as-is"] != scores["lower"]


def test_capitals_that_the_vocabulary_lacks_are_warned_of():
    """A tokenizer of lower-case text spells capitals letter by letter."""
    sentences = ["the cat sat on the mat", "a dog ran home"] * 20
    scorer = make_small_model(
        SmallModel(
            kind="gpt2",
            vocabulary=330,
            config={"n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 64},
        ),
        sentences,
    )
    warning = scorer.check_casing([sentence.upper() for sentence in sentences])
    assert warning and "casing as-is" in warning and "(0 unknown)" in warning
    assert (
        scorer.check_casing(sentences) is None and scorer.check_casing(["", ""]) is None
    )
    scorer.casing = "lower"
    assert scorer.check_casing([sentence.upper() for sentence in sentences]) is None


def test_words_that_a_vocabulary_does_not_know_are_warned_of(make_lm):
    """A vocabulary in lower case has one token for each word in capitals: that for what
    it does not know.
    """
    scorer = CausalScorer(*make_lm("gpt2"))
    sentences = ["the cat sat on the mat"] * 3
    assert scorer.check_casing(sentences) is None
    assert (
        "18 tokens (18 unknown), in lower case 18 (0 unknown)"
        in scorer.check_casing(["THE CAT SAT ON THE MAT"] * 3)
    )
    assert "(2 unknown), in lower case 2 (2 unknown)" in scorer.check_casing(
        ["xyzzy qwrtz"]
    )


def test_lists_keep_their_order_however_many(gpt2, monkeypatch):
    scorer = load_lm(gpt2)
    lists = [["cat sat"] * (n % 4) + ["the cat " * (n % 7)] for n in range(20)]
    wanted = [flat(score_lists(scorer, [[text] for text in texts])) for texts in lists]
    monkeypatch.setattr("espnet_ext.rescore.models.scorers.LISTS_AT_ONCE", 3)
    for found, expected in zip(score_lists(scorer, lists), wanted, strict=True):
        assert found == pytest.approx(expected, abs=1e-4)
    assert score_lists(scorer, []) == []


def test_scores_that_are_no_numbers_are_refused(gpt2):
    scorer = load_lm(gpt2)
    scorer.model.transformer.ln_f.weight.data[0] = float("nan")
    with pytest.raises(
        InputError, match="utt2: the language model's score is not a finite number"
    ):
        score_lists(scorer, [[], ["cat"]], ["utt1", "utt2"])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gpt2", {"scorer": "pll"}, "scorer pll does not fit this model: it is causal"),
        (
            "bert",
            {"scorer": "causal"},
            "scorer causal does not fit this model: it is bidirectional",
        ),
        ("bert", {"scorer": "ppl"}, "scorer ppl: choose one of causal, pll, pooled"),
        (
            "gpt2",
            {"casing": "small"},
            "casing small: choose one of as-is, lower, upper, sentence",
        ),
        (
            "gpt2",
            {"dtype": "int4"},
            "dtype int4: choose one of float32, bfloat16, float16",
        ),
    ],
)
def test_wrong_options_are_refused(name, options, message, saved):
    with pytest.raises(InputError, match=message):
        load_lm(saved(name), **options, new_layer=True)


def one_layer_more(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"n_layer": 3}))


@pytest.mark.parametrize(
    "spoil",
    [
        shutil.rmtree,
        one_layer_more,
        lambda folder: (folder / "config.json").unlink(),
        lambda folder: (folder / "model.safetensors").unlink(),
        lambda folder: (folder / "model.safetensors").write_bytes(b"xx"),
        lambda folder: (folder / "scorer.json").write_text("{"),
        lambda folder: [path.unlink() for path in folder.glob("tokenizer*")],
    ],
)
def test_broken_folders_are_refused_in_one_line(gpt2, spoil):
    spoil(gpt2)
    with pytest.raises(InputError, match=f"^{gpt2}[^\n]*$"):
        load_lm(gpt2)


def test_tokens_that_the_model_lacks_are_refused_when_they_are_written(make_lm, saved):
    """Some models' tokenizers have one for padding that their vocabulary lacks."""
    model, tokenizer = make_lm("llama")
    before = score_lists(
        load_lm(saved("exact", model, tokenizer)), [["THE CAT SAT"]], ["u"]
    )
    tokenizer.add_tokens(["MORE", "AND MORE"])
    scorer = load_lm(saved("few", model, tokenizer))
    assert score_lists(scorer, [["THE CAT SAT"]], ["u"]) == before
    with pytest.raises(
        InputError,
        match=r"its tokenizer writes the token 20 .'MORE'., and its model has 20",
    ):
        score_lists(scorer, [["THE MORE"]], ["u"])


@pytest.mark.parametrize("name", ["./none", "/no/model", "a/b/c"])
def test_a_path_without_a_model_is_no_name_of_the_hub(name):
    with pytest.raises(
        InputError, match=f"{name}: no such folder of a language model: check the path"
    ):
        load_lm(name)


def test_a_pooling_layer_that_is_lost_is_refused(bert, tmp_path):
    load_lm(bert, "pooled", new_layer=True).save(tmp_path / "saved")
    (tmp_path / "saved" / "pooling.safetensors").unlink()
    with pytest.raises(InputError, match="no pooling layer of this model"):
        load_lm(tmp_path / "saved")
