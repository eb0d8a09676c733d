"""Speakers of the mini corpus: voice variants of espeak-ng, each with its own pitch, rate and accent."""

from dataclasses import dataclass

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.synthetic.espeak import Speech, speak
from espnet_ext.synthetic.seeds import generator

# Variants that sound like a person and stay within the 16-bit range. Left out: whispers, croaks, robots, near copies of
# another variant, those that overload, and "Reed" and "caleb", which differ from run to run.
# fmt: off
FEMALE = (
    "f1", "f2", "f3", "f4", "f5", "Alicia", "Andrea", "anika", "Annie", "aunty", "belinda", "grandma", "steph",
    "shelby", "Nguyen",
)
MALE = (
    "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "Alex", "Andy", "Denis", "Diogo", "Henrique", "Michael", "adam",
    "benjamin", "boris", "david", "gustave", "max", "michel", "miguel", "norbert", "pablo", "robert", "sandro",
    "travis", "victor", "quincy", "marcelo", "edward", "Lee", "Mario",
)
# fmt: on

# Share of female voices in a part, and of speakers with the second accent, as far as the voices go.
_FEMALE_SHARE = 0.4
_SECOND_ACCENT_SHARE = 0.2
# Language -> espeak-ng's voices; "en" is British, and so are the English words that the Mandarin voice reads within a
# sentence, without a pause ("cs", code-switching).
ACCENTS = {"en": ("en-us", "en"), "zh": ("cmn",), "cs": ("cmn",)}
BRITISH = ACCENTS["en"].index("en")


@dataclass(frozen=True)
class Speaker:
    """A speaker: an id of digits, as LibriSpeech has, and how espeak-ng gives the voice."""

    id: str
    sex: str  # M or F
    variant: str
    accent: int  # index into ACCENTS[language]
    rate: int  # words a minute
    pitch: int  # 0..100
    pitch_range: int  # 0..100

    def say(self, text: str, language: str, rng: np.random.Generator) -> np.ndarray:
        """Speak ``text`` (upper-case words, Han characters). Rate and pitch vary a little, drawn from ``rng``.

        Returns:
            Samples at 22050 Hz.
        """
        return self.speak(text, language, rng).samples

    def speak(self, text: str, language: str, rng: np.random.Generator) -> Speech:
        """As :meth:`say`, with the places where words begin; characters count from the start of ``text``."""
        accents = ACCENTS[language]
        return speak(
            text.lower() + ".",
            f"{accents[self.accent % len(accents)]}+{self.variant}",
            rate=round(self.rate * rng.uniform(0.94, 1.06)),
            pitch=int(np.clip(self.pitch + rng.integers(-4, 5), 0, 99)),
            pitch_range=int(np.clip(self.pitch_range + rng.integers(-8, 9), 0, 99)),
            seed=int(rng.integers(1, 2**31)),
        )


def draw_speakers(counts: dict[str, int], seed: int) -> dict[str, list[Speaker]]:
    """Draw ``counts[part]`` speakers for each part; no two speakers share a voice variant.

    Raises:
        InputError: More speakers are asked for than there are voices.
    """
    total = sum(counts.values())
    if total > len(FEMALE) + len(MALE):
        raise InputError(f"{total} speakers were asked for, but there are {len(FEMALE) + len(MALE)} voices")
    rng = generator(seed, "speakers")
    pools = {"F": list(rng.permutation(FEMALE)), "M": list(rng.permutation(MALE))}
    speakers: dict[str, list[Speaker]] = {}
    number = 100
    for part, count in counts.items():
        females = round(count * _FEMALE_SHARE)
        speakers[part] = []
        for index in range(count):
            sex = "F" if index < females else "M"
            if not pools[sex]:
                sex = "M" if sex == "F" else "F"
            speakers[part].append(_draw_speaker(str(number), sex, str(pools[sex].pop()), rng))
            number += 1
    return speakers


def _draw_speaker(id: str, sex: str, variant: str, rng: np.random.Generator) -> Speaker:
    return Speaker(
        id=id,
        sex=sex,
        variant=variant,
        accent=int(rng.uniform() < _SECOND_ACCENT_SHARE),
        rate=int(rng.integers(150, 196)),
        pitch=int(rng.integers(38, 63)),
        pitch_range=int(rng.integers(40, 71)),
    )
