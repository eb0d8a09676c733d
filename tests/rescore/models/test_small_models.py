"""Small models: the same text gives the same tokenizer and weights, pieces are known,
wrong recipes are refused.
"""

import pytest
from transformers import AutoTokenizer

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.scorers import load_lm
from espnet_ext.rescore.training.small_models import (
    SmallModel,
    make_small_model,
    train_byte_pairs,
    train_word_pieces,
)
from espnet_ext.work.settings import check_settings

TEXTS = ["THE CAT SAT ON THE MAT", "A DOG RAN HOME", "THE CATS RAN"] * 5 + [
    "DON'T MIND HIM"
]
SIZES = {
    "num_hidden_layers": 1,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}


def small(kind: str = "gpt2", casing: str = "as-is", **config) -> SmallModel:
    return SmallModel(kind=kind, vocabulary=300, config=SIZES | config, casing=casing)


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_saved_and_loaded_with_its_tokenizer(tmp_path, kind):
    scorer = make_small_model(small(kind, "lower"), TEXTS)
    scorer.save(tmp_path)
    loaded = load_lm(tmp_path)
    assert (loaded.name, loaded.casing) == (scorer.name, "lower")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    for text in ("the cat sat", "don't quiz a vexed jackpot"):
        ids = tokenizer(text, add_special_tokens=False).input_ids
        assert ids == scorer.tokenizer(text, add_special_tokens=False).input_ids
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids).replace(" ' ", "'") == text
    assert len(tokenizer("the cat", add_special_tokens=False).input_ids) == 2
    assert scorer.model.config.vocab_size == len(tokenizer) <= 300
    assert tokenizer.model_max_length == 64


@pytest.mark.parametrize("train", [train_byte_pairs, train_word_pieces])
def test_the_same_tokenizer_each_time(train):
    """What the trainers keep in hash tables is in another order each time."""
    first = train(TEXTS, 300).get_vocab()
    assert all(train(TEXTS, 300).get_vocab() == first for _ in range(8))


def test_the_seed_makes_the_weights():
    weights = [
        make_small_model(small(), TEXTS, seed).model.transformer.wte.weight
        for seed in (0, 0, 1)
    ]
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "t5"}, "small: kind: must be one of gpt2, bert, is 't5'"),
        (
            {"casing": "title"},
            "small: casing: must be one of as-is, lower, upper, sentence, is 'title'",
        ),
        ({"config": {"layers": 2}}, "small: GPT2Config has no layers"),
        ({"config": 2}, "small: config: must be a mapping .key: value., is 2"),
        (
            {"layers": 2},
            "small: unknown key 'layers'; known are kind, vocabulary, config, casing",
        ),
        (
            {"vocabulary": "many"},
            "small: vocabulary: must be a whole number, is 'many'",
        ),
    ],
)
def test_wrong_recipes_are_refused(change, message):
    values = {"kind": "gpt2", "vocabulary": 300, "config": SIZES} | change
    with pytest.raises(InputError, match=message):
        check_settings(SmallModel, values, "small")


def test_what_cannot_be_made_is_refused():
    with pytest.raises(InputError, match="no text"):
        make_small_model(small(), [])
    for wrong in (
        {"num_attention_heads": 3},
        {"num_hidden_layers": "two"},
        {"num_attention_heads": 0},
    ):
        with pytest.raises(InputError, match="^gpt2: [^\n]*$"):
            make_small_model(small(**wrong), TEXTS)
