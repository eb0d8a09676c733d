"""What browsers may do with a page: run its own scripts, and nothing else."""

import base64
import hashlib
import re

import numpy as np
import soundfile

from espnet_ext.audio.recordings import open_recording
from espnet_ext.pages.report import write_report
from espnet_ext.pages.transcript import write_transcript_page
from espnet_ext.text.words import Segment, Word

POLICY = re.compile(
    r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">\s*<meta name'
)


def rules_of(text: str) -> dict[str, list[str]]:
    """The page's policy, which stands before all that comes from elsewhere."""
    head, _, _ = text.partition("<title>")
    (policy,) = POLICY.findall(head)
    return {rule.split()[0]: rule.split()[1:] for rule in policy.split("; ")}


def hashes_of_scripts(text: str) -> list[str]:
    """As CSP 3, section 6.7.3, has them: of all bytes between the tags."""
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    return [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]


def test_only_the_scripts_of_the_templates_run(toy_recipe, tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(16000), 16000)
    line = Segment.from_words((Word("<script>alert(1)</script>", 0.1, 0.4),))
    with open_recording(tmp_path / "a.wav", 16000) as audio:
        write_transcript_page(tmp_path / "a.html", "a", [line], audio)
    write_report([toy_recipe()], tmp_path / "site")
    with_scripts = 0
    for path in (tmp_path / "a.html", *(tmp_path / "site").glob("*.html")):
        text = path.read_text(encoding="utf-8")
        rules = rules_of(text)
        assert rules["default-src"] == ["'none'"] == rules["base-uri"]
        assert not {"'unsafe-inline'", "'self'", "*"} & set(rules["script-src"])
        found = hashes_of_scripts(text)
        assert set(found) <= set(rules["script-src"]), path
        with_scripts += bool(found)
        attributes = re.findall(r"<[^>]*\son\w+=", text.partition("<script")[0])
        assert not attributes, "a policy of hashes runs none"
    assert with_scripts == 2
