"""What P3's first pass costs at scale full, measured: Whisper's N-best lists of some utterances, on one core."""

import random
import time

import numpy as np
import soxr
from full_scale_counts import full_section
from full_scale_text import UTTERANCES

from espnet_ext.synthetic.acoustics import VOICE_RATE
from espnet_ext.synthetic.english import english_grammar
from espnet_ext.synthetic.voices import draw_speakers
from espnet_ext.whisper.lists import FirstPass, Whisper
from espnet_ext.whisper.model import BUNDLED, RATE
from espnet_ext.work.settings import checked

MEASURED = 3
SECONDS, PAUSE = 960 * 3600 / UTTERANCES, 0.3  # of LibriSpeech's utterances on average; between our sentences


def cost_of_first_pass() -> dict:
    """Tiny.en with the beam, window and number format of scale full; one utterance a search, the fastest on a CPU.

    Voices speak as long as an utterance of LibriSpeech lasts on average. The first search is not counted.
    """
    given = full_section("librispeech_rescore", "first_pass") | {"model": BUNDLED, "batch": 1}
    settings = checked(FirstPass, given, "first pass")
    whisper = Whisper(settings)
    utterances = [utterance(seed) for seed in range(MEASURED)]
    whisper.decode(utterances[:1])
    seconds, words = [], []
    for samples in utterances:
        begin = time.process_time()
        (found,) = whisper.decode([samples])
        seconds.append(time.process_time() - begin)
        words.append(len(found[0][0].split()))
    mean = sum(seconds) / MEASURED
    return {
        "first_pass": settings.model_dump(exclude={"language", "nbest"}),
        "nbest": settings.nbest,
        "audio_seconds": sum(map(len, utterances)) / MEASURED / RATE,
        "words": sum(words) / MEASURED,
        "seconds": seconds,
        "cpu_seconds": mean,
        "utterances": UTTERANCES,
        "cpu_hours": mean * UTTERANCES / 3600,
    }


def utterance(seed: int) -> np.ndarray:
    """Synthetic speech at Whisper's sampling rate, (samples,)."""
    draw, grammar, rng = random.Random(seed), english_grammar(), np.random.default_rng(seed)
    (speaker,) = draw_speakers({"voice": 1}, seed)["voice"]
    pieces: list[np.ndarray] = []
    while sum(map(len, pieces)) < SECONDS * VOICE_RATE:
        pieces += [speaker.say(grammar.sentence(draw), "en", rng), np.zeros(round(PAUSE * VOICE_RATE))]
    return soxr.resample(np.concatenate(pieces), VOICE_RATE, RATE).astype(np.float32)
