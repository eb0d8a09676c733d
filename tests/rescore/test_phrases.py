"""examples/phrases: the language model lowers the errors of lists that are not tuned
on, and has not seen their sentences.
"""

import re
from pathlib import Path

from espnet_ext.rescore.second_pass import LanguageModel, SecondPass, rescore
from espnet_ext.text.nbest import read_nbest

PHRASES = Path(__file__).resolve().parents[2] / "examples" / "phrases"


def test_a_first_try_gains(tmp_path):
    lists, dev = PHRASES / "test.jsonl", PHRASES / "dev.jsonl"
    speakers = [
        {each.utt_id.split("-")[0] for each in read_nbest(path)}
        for path in (lists, dev)
    ]
    assert not speakers[0] & speakers[1]
    job = SecondPass(lists, tmp_path / "rescored", tune_on=(dev,))
    said = []
    rescore(job, [LanguageModel(str(PHRASES / "lm"), "lm")], log=said.append)
    (line,) = (line for line in said if line.startswith("gain: "))
    gain, low, high = (float(number) for number in re.findall(r"\d+\.\d+", line))
    assert 5 < low < gain < high
