"""Speaker profiles from enrolment utterances: d-vectors of Resemblyzer, or of a speaker model of ESPnet."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from espnet_ext.data.data_dir import read_data_dir
from espnet_ext.data.utterance_audio import read_samples, read_spans
from espnet_ext.errors import InputError

RATE = 16000
UTTERANCES = 2
Embed = Callable[[np.ndarray], np.ndarray]  # samples at 16 kHz, (N,) -> embedding, (E,)


def choose_enrolment(utt2spk: Mapping[str, str], count: int = UTTERANCES, seed: int = 0) -> dict[str, list[str]]:
    """Choose enrolment utterances of each speaker: speaker -> ``count`` of its utterances, or all if there are fewer.

    A speaker's do not depend on which other speakers there are.
    """
    utterances: dict[str, list[str]] = {}
    for utterance in sorted(utt2spk):
        utterances.setdefault(utt2spk[utterance], []).append(utterance)
    chosen = {}
    for speaker, own in sorted(utterances.items()):
        random = np.random.default_rng([seed, zlib.crc32(speaker.encode())])
        chosen[speaker] = sorted(random.choice(own, min(count, len(own)), replace=False).tolist())
    return chosen


def make_profiles(
    data: str | Path | Sequence[str | Path],
    embed: Embed,
    count: int = UTTERANCES,
    seed: int = 0,
    enrolment: Mapping[str, Sequence[str]] | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, Sequence[str]]]:
    """Embed enrolment utterances of all speakers of a Kaldi data dir, or of several.

    Args:
        data: the data dirs; their utterances should not be those that the model is tested on.
        embed: what makes an embedding of samples.
        count: utterances a speaker.
        seed: of the choice.
        enrolment: the utterances of each profile, where they are not to be drawn; a speaker may have several profiles.

    Returns:
        Speaker -> embeddings of norm 1, (utterances, E), and speaker -> the utterances.

    Raises:
        InputError: a missing or bad data dir or audio file, or an utterance whose embedding is zero or not finite.
    """
    if count < 1:
        raise InputError(f"profiles of {count} enrolment utterances were asked for: give at least 1")
    folders = [data] if isinstance(data, str | Path) else data
    spans = {utterance: span for folder in folders for utterance, span in read_spans(folder).items()}
    if enrolment is None:
        speakers = {key: speaker for folder in folders for key, speaker in read_data_dir(folder).utt2spk.items()}
        chosen = choose_enrolment(speakers, count, seed)
    else:
        chosen = dict(enrolment)
    profiles = {}
    for speaker, utterances in tqdm(chosen.items(), desc="profiles", mininterval=5):
        rows = []
        for utterance in utterances:
            if utterance not in spans:
                names = " ".join(map(str, folders))
                raise InputError(f"{names}: {utterance} of {speaker} has no audio: run utils/fix_data_dir.sh on it")
            row = np.asarray(embed(read_samples(utterance, spans[utterance], RATE)), dtype=np.float32)
            norm = np.linalg.norm(row)
            if not np.isfinite(norm) or not norm:
                raise InputError(
                    f"{spans[utterance].path}: utterance {utterance}: no voice is found in it: enrol {speaker} with "
                    "another one"
                )
            rows.append(row / norm)
        profiles[speaker] = np.stack(rows)
    return profiles, chosen


def resemblyzer() -> Embed:
    """d-vectors of 256 dimensions by the model in Resemblyzer's wheel; long silences are left out before.

    Raises:
        InputError: Resemblyzer is not installed.
    """
    from espnet_ext.layers.voice_encoder import voice_encoder

    encoder = voice_encoder()
    from resemblyzer import preprocess_wav

    def embed(samples: np.ndarray) -> np.ndarray:
        voiced = preprocess_wav(samples, source_sr=RATE)
        # where its detector finds no voice at all, the whole utterance is embedded
        return encoder.embed_utterance(voiced if len(voiced) else samples)

    return embed


def espnet_speaker_model(config: str | Path, model_file: str | Path) -> Embed:
    """Embeddings of a speaker model that ESPnet has trained: its ``config.yaml`` and checkpoint.

    Raises:
        InputError: a missing file, or a checkpoint that does not fit.
    """
    for path in (config, model_file):
        if not Path(path).is_file():
            raise InputError(f"{path}: no such file: check the path of the speaker model")
    from espnet2.bin.spk_inference import Speech2Embedding

    from espnet_ext.upstream.checkpoint import load_strictly

    load_strictly()
    model = Speech2Embedding(train_config=str(config), model_file=str(model_file))
    return lambda samples: model(samples).detach().cpu().numpy().squeeze(0)
