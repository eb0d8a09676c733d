"""The notebooks have short outputs, and the model of examples/speech is small and says how good it is."""

import json
import re
import zipfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
SPEECH = "examples/speech"
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def test_there_is_a_notebook_for_each_use_and_its_outputs_are_short():
    assert len(NOTEBOOKS) == 6
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        text = json.dumps(outputs)
        assert outputs and "error" not in {output["output_type"] for output in outputs}
        assert not re.search(r"/(home|root|work|tmp|usr)/", text), path
        lines = sum(len(cell["source"]) for cell in cells) + text.count("\\n")
        assert lines <= 110, f"{path.stem}: {lines} lines"


def test_the_model_is_small_and_its_card_has_its_error_rates():
    sizes = {path: path.stat().st_size for path in (ROOT / SPEECH).rglob("*") if "build" not in path.parts}
    assert sizes[ROOT / SPEECH / "model.zip"] < 2_000_000 and sum(sizes.values()) < 5_000_000
    with zipfile.ZipFile(ROOT / SPEECH / "model.zip") as archive:
        header = yaml.safe_load(archive.read("README.md").decode().split("---\n")[1])
    results = header["model-index"][0]["results"]
    assert {each["dataset"]["type"] for each in results} == {"test-clean", "test-other"}
    assert header["license"] == "cc-by-sa-4.0"
