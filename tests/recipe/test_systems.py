"""Steps that several recipes share: which decodings need a prior, and which a language model."""

from pathlib import Path
from types import SimpleNamespace

from espnet_ext.recipe.systems import decode_system

DECODINGS = {"default": {}, "prior": {"prior_weight": 0.003}, "lm": {"lm_weight": 0.4, "prior_weight": 0.003}}


def test_a_prior_needs_no_language_model(tmp_path: Path) -> None:
    def steps(*names: str) -> dict[str, tuple[bool, bool]]:
        run = SimpleNamespace(
            expdir=tmp_path,
            datadir=tmp_path,
            lm=tmp_path / "lm",
            decodings={"base": dict.fromkeys(names, ["test"])},
            decoding=DECODINGS.get,
            decode_config=lambda name: tmp_path / f"{name}.yaml",
            setting=lambda name: "best:3",
            nj=1,
            gpu=0,
            parallel=None,
        )
        made = decode_system(run, SimpleNamespace(name="base"), 1, 1, ["test"], tmp_path / "tokens")
        return {
            step.name.partition("(")[2].rstrip(")"): (
                "--prior_file" in step.arguments["jobs"][0].options,
                step.arguments["jobs"][0].lm_file is not None,
            )
            for step in made
        }

    assert steps("default") == {"default": (False, False)}
    assert steps("prior") == {"prior": (True, False)}
    assert steps("default", "prior", "lm") == {"default prior": (True, False), "lm": (True, True)}
