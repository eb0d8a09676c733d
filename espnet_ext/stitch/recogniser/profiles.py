"""Speaker profiles: made from enrolment utterances, and stored in Kaldi's ark format.

A speaker's matrix has a row of norm 1 for each utterance; the profile is their mean,
scaled to norm 1.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.arks import read_array, write_arrays
from espnet_ext.kaldi.data_dir import read_data_dir
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples, read_spans

RATE = 16000  # Hz
UTTERANCES = 2  # enrolment utterances of a profile
Embed = Callable[[np.ndarray], np.ndarray]  # samples at 16 kHz, (N,) -> embedding, (E,)


def read_profiles(paths: Sequence[str | Path]) -> dict[str, np.ndarray]:
    """Read ``profiles.scp`` files: speaker -> (enrolment utterances, E) float32.

    Raises InputError for a file that cannot be read, a speaker that is in two files, a
    profile that is zero or not finite, or profiles of different dimensions.
    """
    profiles: dict[str, np.ndarray] = {}
    first = None
    for path in paths:
        for speaker, position in read_table(path).items():
            if speaker in profiles:
                raise InputError(
                    f"{path}: {speaker} has a profile in another file too: keep "
                    "one of them"
                )
            try:
                rows = np.atleast_2d(read_array(position).astype(np.float32))
            except InputError as error:
                raise InputError(f"{path}: {speaker}: {error}") from None
            except Exception:  # a broken ark fails in as many ways as it can be broken
                raise InputError(
                    f"{path}: {speaker}: no profile can be read from {position}: "
                    "make it again"
                ) from None
            is_matrix = rows.ndim == 2 and rows.size > 0
            if (
                not is_matrix
                or not np.isfinite(rows).all()
                or not rows.any(axis=1).all()
            ):
                raise InputError(
                    f"{path}: {speaker}: its profile is empty, zero, NaN or "
                    "infinite: make it again"
                )
            first = first or (speaker, rows.shape[1])
            if rows.shape[1] != first[1]:
                raise InputError(
                    f"{path}: {speaker}: a profile of {rows.shape[1]} dimensions, "
                    f"but that of {first[0]} has "
                    f"{first[1]}: make all with the same extractor"
                )
            profiles[speaker] = rows
    return profiles


def write_profiles(folder: str | Path, profiles: Mapping[str, np.ndarray]) -> Path:
    """Write ``profiles.ark`` and ``profiles.scp``, sorted by speaker.

    Return the path of the latter.
    """
    if not profiles:
        raise InputError(
            f"{folder}: there are no profiles to write: give enrolment utterances"
        )
    folder = Path(folder)
    ark = folder / "profiles.ark"
    scp = folder / "profiles.scp"
    rows = {name: profiles[name].astype(np.float32) for name in sorted(profiles)}
    write_table(scp, write_arrays(ark, rows))
    return scp


def average_profile(rows: np.ndarray) -> np.ndarray:
    """Return one profile of norm 1, (E,), from rows of (utterances, E).

    Each row is the embedding of an enrolment utterance.
    """
    # Only directions count: eq. 9 compares profiles by cosines.
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    mean = (rows / norms).mean(axis=0)
    return mean / np.linalg.norm(mean)


def enrol(
    data: Sequence[Path],
    output: Path,
    *,
    utterances: int = UTTERANCES,
    enrolment: Path | None = None,
    speaker_model: tuple[Path, Path] | None = None,
    seed: int = 0,
) -> None:
    """Make the profiles of all speakers of data dirs.

    Profiles are written as ``profiles.ark``, ``profiles.scp`` and ``enrolment``. The
    latter names the utterances of each profile, so that they can be left out of
    mixtures. ``enrolment`` is such a table that is given, otherwise they are drawn;
    ``speaker_model``: config and checkpoint of ESPnet's, or None for Resemblyzer.
    """
    given = None
    if enrolment:
        given = {name: row.split() for name, row in read_table(enrolment).items()}
    if speaker_model:
        embed = load_espnet_speaker_model(*speaker_model)
    else:
        embed = load_resemblyzer()
    profiles, chosen = make_profiles(data, embed, utterances, seed, given)
    scp = write_profiles(output, profiles)
    names = {speaker: " ".join(own) for speaker, own in chosen.items()}
    write_table(output / "enrolment", names)
    size = next(iter(profiles.values())).shape[1]
    say(f"{len(profiles)} speakers, {size} dimensions -> {scp}")


def choose_enrolment(
    utt2spk: Mapping[str, str], count: int = UTTERANCES, seed: int = 0
) -> dict[str, list[str]]:
    """Choose ``count`` enrolment utterances of each speaker, or all there are.

    A speaker's do not depend on who else there is.
    """
    utterances: dict[str, list[str]] = {}
    for utterance in sorted(utt2spk):
        utterances.setdefault(utt2spk[utterance], []).append(utterance)
    chosen = {}
    for speaker, own in sorted(utterances.items()):
        # A generator for each speaker. Its seed is a checksum of the name, as Python's
        # hash of a string differs from process to process.
        random = np.random.default_rng([seed, zlib.crc32(speaker.encode())])
        drawn = random.choice(own, min(count, len(own)), replace=False)
        chosen[speaker] = sorted(drawn.tolist())
    return chosen


def make_profiles(
    data: Sequence[str | Path],
    embed: Embed,
    count: int = UTTERANCES,
    seed: int = 0,
    enrolment: Mapping[str, Sequence[str]] | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, Sequence[str]]]:
    """Embed enrolment utterances of all speakers; return rows and utterances by name.

    Rows are embeddings of norm 1, (utterances, E).

    ``enrolment``: the utterances of each profile, if they are not to be drawn; a
    speaker may have several profiles. Raises InputError for a bad data dir or audio
    file, or an utterance whose embedding is zero or not finite.
    """
    if count < 1:
        raise InputError(
            f"profiles of {count} enrolment utterances were asked for: give at least 1"
        )
    spans: dict[str, AudioSpan] = {}
    for folder in data:
        spans |= read_spans(folder)
    chosen: dict[str, Sequence[str]] = dict(enrolment or {})
    if enrolment is None:
        speakers: dict[str, str] = {}
        for folder in data:
            speakers |= read_data_dir(folder).utt2spk
        chosen |= choose_enrolment(speakers, count, seed)
    profiles = {}
    rows: dict[str, np.ndarray] = {}  # sessions of LibriCSS share enrolment utterances
    for speaker, utterances in tqdm(chosen.items(), desc="profiles", mininterval=5):
        for utterance in utterances:
            if utterance in rows:
                continue
            if utterance not in spans:
                names = " ".join(map(str, data))
                raise InputError(
                    f"{names}: {utterance} of {speaker} has no audio: run "
                    "`espnet-ext data fix DIR`"
                )
            samples = read_samples(utterance, spans[utterance], RATE)
            row = np.asarray(embed(samples), dtype=np.float32)
            norm = np.linalg.norm(row)
            if not np.isfinite(norm) or not norm:
                raise InputError(
                    f"{spans[utterance].path}: utterance {utterance}: no voice is "
                    f"found in it: enrol {speaker} with "
                    "another one"
                )
            rows[utterance] = row / norm
        profiles[speaker] = np.stack([rows[utterance] for utterance in utterances])
    return profiles, chosen


def load_resemblyzer() -> Embed:
    """Return a function that makes d-vectors, (256,), by Resemblyzer's model.

    Long silences are cut out.
    """
    from espnet_ext.stitch.recogniser.d_vectors import load_voice_encoder

    # First, as it says how to install Resemblyzer where it is not.
    encoder = load_voice_encoder()
    from resemblyzer import preprocess_wav

    def embed(samples: np.ndarray) -> np.ndarray:
        voiced = preprocess_wav(samples, source_sr=RATE)
        # where its detector finds no voice at all, the whole utterance is embedded
        return encoder.embed_utterance(voiced if len(voiced) else samples)

    return embed


def load_espnet_speaker_model(config: str | Path, model_file: str | Path) -> Embed:
    """Return a function that makes embeddings by a speaker model of ESPnet.

    Raises InputError for a model that does not fit.
    """
    for path in (config, model_file):
        if not Path(path).is_file():
            raise InputError(
                f"{path}: no such file: check the path of the speaker model"
            )
    from espnet2.bin.spk_inference import Speech2Embedding

    from espnet_ext.upstream.checkpoint import strict_loading

    with strict_loading():
        model = Speech2Embedding(train_config=str(config), model_file=str(model_file))

    def embed(samples: np.ndarray) -> np.ndarray:
        # ESPnet makes a batch of one of what it is given.
        embedding = model(samples).squeeze(0)
        return embedding.detach().cpu().numpy()

    return embed
