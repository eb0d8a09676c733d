"""The full-scale configs of librispeech_rescore: each is read, and the full-size models
take a step of MWER.
"""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from bench_latency import ScorerKind, make_scorers
from full_size import size

from espnet_ext.errors import InputError
from espnet_ext.nbest.selection import Selection
from espnet_ext.recipe.scripts import load_script
from espnet_ext.rescore.training.lm_training import LmSettings
from espnet_ext.rescore.training.mwer import MwerLoss, backward, make_examples
from espnet_ext.rescore.training.mwer_training import MwerSettings
from espnet_ext.rescore.training.small_models import SmallModel
from espnet_ext.tables.plan import load_scale, merge_system_config
from espnet_ext.tables.reading import load_tables
from espnet_ext.text.nbest import Hypothesis, NBest
from espnet_ext.whisper.lists import FirstPass
from espnet_ext.work.settings import check_settings

RECIPE = Path(__file__).parents[2] / "egs" / "librispeech_rescore"
TABLES = load_tables(RECIPE / "conf" / "tables.yaml")
SECTIONS = load_scale(RECIPE, "full")
TRAINED = [name for name, system in TABLES.systems.items() if system.kind == "train"]


@pytest.mark.parametrize("system", TRAINED)
def test_every_system_has_settings_that_training_reads(system):
    config = merge_system_config(SECTIONS, TABLES.systems[system])
    on_text = system in ("gpt2_ce", "bert_ce")
    settings = check_settings(LmSettings if on_text else MwerSettings, config, system)
    assert settings.lr == 1e-5  # P3, section 4.2.2
    assert settings.batch_size == (16 if on_text else 4)
    assert config["lm"] in ("gpt2", "bert-base-cased")
    if on_text:
        # LibriSpeech is in capitals; MWER takes the casing of the adapted model
        assert config["casing"] == "lower"


@pytest.mark.parametrize("scale", ["full", "mini", "smoke"])
def test_every_scale_has_a_first_pass_and_small_models_where_it_makes_them(scale):
    sections = load_scale(RECIPE, scale)
    first_pass = check_settings(FirstPass, sections["first_pass"], "first_pass")
    assert first_pass.beam > first_pass.nbest
    if scale == "full":
        # P3, section 4.2.1
        assert first_pass.model == "openai/whisper-tiny.en"
        assert first_pass.nbest == 10
    assert sections["settings"]["make_lms"] == (scale != "full")
    if sections["settings"]["make_lms"]:
        assert [
            check_settings(SmallModel, sections[kind], kind).kind
            for kind in ("gpt2", "bert")
        ] == ["gpt2", "bert"]


@pytest.mark.parametrize("scale", ["full", "smoke"])
def test_own_lists_are_cut_to_the_first_pass_and_decoded_ones_to_their_search(scale):
    """The oracle of lists of 30 would stand beside the paper's of ten."""
    recipe = load_script(RECIPE / "recipe.py")
    sections = load_scale(RECIPE, scale)

    def choose(**options: str) -> Selection:
        options = {"first_pass": "whisper", "nbest_lists": "", **options}
        run = SimpleNamespace(
            sections=sections,
            options=options,
            path=options.get,
            setting=lambda name: options.get(name) or sections["settings"].get(name),
        )
        return recipe.choose_selection(run)

    own = sections["first_pass"]["nbest"]
    assert choose(nbest_lists="lists") == Selection(depth=own)
    decoded = sections["asr_decode"]["nbest"]
    assert choose(first_pass="espnet") == Selection(depth=decoded)
    parts = choose(nbest_lists="lists", first_pass_parts="decoder=.6,ctc=.4")
    assert parts == Selection({"decoder": 0.6, "ctc": 0.4}, own)
    with pytest.raises(InputError, match="--first_pass_parts.*decoder=.6,ctc"):
        choose(nbest_lists="lists", first_pass_parts="decoder=.6,ctc")


def test_runs_with_other_parts_of_scores_have_other_folders():
    recipe = load_script(RECIPE / "recipe.py")
    options = {"first_pass": "whisper", "nbest_lists": "/data/mine", "normaliser": ""}
    names = {
        recipe.variant({**options, "first_pass_parts": parts})
        for parts in ("", "decoder=.6,ctc=.4", "decoder=1")
    }
    assert len(names) == 3
    assert all(re.fullmatch(r"lists_mine[-\w.]*", name) for name in names)


def test_the_papers_models_take_a_step():
    """Two hypotheses of an utterance; every parameter that the score depends on has a
    gradient.
    """
    batch = make_examples(
        [
            NBest(
                "u1", (Hypothesis("w1 w2 w3", -1.0), Hypothesis("w1 w4", -2.0)), "w1 w4"
            )
        ]
    )
    sizes = {}
    for kind, scorer in make_scorers():
        if kind.pooling == "attention":
            continue  # the same model under another small layer
        torch.manual_seed(0)
        sizes[kind] = size(scorer) / 1e6
        optimizer = torch.optim.AdamW(scorer.parameters(), lr=1e-5)
        values = backward(
            scorer.train(),
            batch,
            MwerLoss(ce_weight=0.0 if kind.scorer == "pooled" else 0.01),
        )
        # P3, eq. 5: a mean of the hypotheses' errors, weighted by posteriors, all of
        # which eq. 6 has above 0
        assert 0 == min(batch[0].errors) < values["mwer"] < max(batch[0].errors) == 2
        without = [
            name
            for name, parameter in scorer.named_parameters()
            if parameter.grad is None
        ]
        assert without == [], kind
        optimizer.step()
    # P3, section 4.2: 117M (as GPT-2 was announced) and 110M
    assert sizes[ScorerKind("gpt2", "causal")] == pytest.approx(124.4, abs=0.1)
    assert sizes[ScorerKind("bert-base-cased", "pll")] == pytest.approx(108.3, abs=0.1)
