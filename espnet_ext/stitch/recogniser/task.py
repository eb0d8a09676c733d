"""ESPnet's ASR task with a speaker encoder, profiles and speaker labels (P4, 2.1).

A mixture's data are ``speech``, ``text`` (utterances in the order of their starts, with
``<sc>`` between them), and of type ``text``, ``speakers`` (of each utterance) and
``inventory`` (the speakers to choose from), whose profiles ``--profiles`` holds.
Without an inventory, it is the mixture's speakers and others, up to
``--inventory_size``, in training drawn anew in each epoch. ``d_vectors`` (type
``kaldi_ark``) may be precomputed. ``speech`` of type ``mixed_sound`` may also be
recipes (``.mix``, :mod:`espnet_ext.kaldi.utterance_audio`).
"""

import argparse
import zlib
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any

import numpy as np
import soundfile
from espnet2.asr.encoder.abs_encoder import AbsEncoder
from espnet2.tasks.asr import ASRTask, encoder_choices, frontend_choices
from espnet2.train.class_choices import ClassChoices
from espnet2.train.dataset import DATA_TYPES

from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import is_mix, read_mix
from espnet_ext.stitch.recogniser.inventories import Inventories, label_segments
from espnet_ext.stitch.recogniser.profiles import read_profiles
from espnet_ext.stitch.recogniser.sa_asr import SAASRModel

speaker_encoder_choices = ClassChoices(
    "speaker_encoder", classes={}, type_check=AbsEncoder, default="rnn"
)
# The same dict, not a copy: every encoder plugin is a speaker encoder too.
speaker_encoder_choices.classes = encoder_choices.classes
MIXED_SOUND = "mixed_sound"


class MixedSound(Mapping[str, np.ndarray]):
    """Read the recordings of a ``wav.scp``, which may be recipes.

    A recording is float32, (samples,), and is read when it is asked for.
    """

    def __init__(self, path: str):
        self._paths = read_table(path)

    def __getitem__(self, key: str) -> np.ndarray:
        path = self._paths[key]
        if is_mix(path):
            return read_mix(path)[0]
        return soundfile.read(path, dtype="float32")[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


DATA_TYPES[MIXED_SOUND] = {
    "func": MixedSound,
    "kwargs": [],
    "help": "wav.scp with files or recipes (.mix)",
}


class SAASRTask(ASRTask):
    """The task of ``model: sa_asr``."""

    class_choices_list = [*ASRTask.class_choices_list, speaker_encoder_choices]

    @classmethod
    def add_task_arguments(cls, parser: argparse.ArgumentParser) -> None:
        super().add_task_arguments(parser)
        parser.set_defaults(model="sa_asr")
        group = parser.add_argument_group("Speakers")
        group.add_argument(
            "--profiles",
            nargs="+",
            default=[],
            help="profiles.scp of speakers, one or several",
        )
        group.add_argument(
            "--inventory_size",
            type=int,
            default=8,
            help="profiles of a mixture without an inventory",
        )
        group.add_argument(
            "--enrolment",
            type=int,
            default=2,
            help="enrolment utterances of a training profile",
        )

    @classmethod
    def build_preprocess_fn(
        cls, args: argparse.Namespace, train: bool
    ) -> "SpeakerPreprocessor | None":
        # None if use_preprocessor is false: then data are read as they are.
        preprocess = super().build_preprocess_fn(args, train)
        if preprocess is None:
            return None
        inventories = Inventories(
            read_profiles(args.profiles), args.inventory_size, args.enrolment
        )
        return SpeakerPreprocessor(preprocess, inventories, train)

    @classmethod
    def optional_data_names(
        cls, train: bool = True, inference: bool = False
    ) -> tuple[str, ...]:
        return (
            *super().optional_data_names(train, inference),
            "speakers",
            "inventory",
            "d_vectors",
        )

    @classmethod
    def build_model(cls, args: argparse.Namespace) -> SAASRModel:
        input_size = args.input_size
        if input_size is None:
            # ESPnet builds the frontend later. Another one tells its size before.
            frontend_class = frontend_choices.get_class(args.frontend)
            input_size = frontend_class(**args.frontend_conf).output_size()
        encoder_class = speaker_encoder_choices.get_class(args.speaker_encoder)
        speaker_encoder = encoder_class(
            input_size=input_size, **args.speaker_encoder_conf
        )
        # ESPnet's task builds the rest. What it writes into the arguments goes to
        # config.yaml, where a module must not go: it gets a copy, of which only what
        # it has written is taken back.
        options = copy(args)
        options.model_conf = {**args.model_conf, "speaker_encoder": speaker_encoder}
        model = super().build_model(options)
        args.token_list = options.token_list
        args.frontend = options.frontend
        args.frontend_conf = options.frontend_conf
        return model


class SpeakerPreprocessor:
    """Turn names into profiles, (K, E), and labels, (utterances,).

    ESPnet's preprocessor does the rest. With ``train`` a new inventory is drawn each
    time; otherwise each mixture keeps its own, drawn by its id.
    """

    def __init__(
        self,
        preprocess: Callable[..., dict[str, Any]],
        inventories: Inventories,
        train: bool,
    ):
        self.preprocess = preprocess
        self.inventories = inventories
        self.train = train

    def __call__(self, uid: str, data: dict[str, Any]) -> dict[str, np.ndarray]:
        data = dict(data)
        speakers = data.pop("speakers", "").split()
        inventory = data.pop("inventory", "").split()
        if inventory:
            profiles = self.inventories.select(inventory, uid)
        elif speakers:
            # ESPnet seeds numpy's global generator again for every worker and epoch.
            # Outside of training a mixture keeps its inventory, so that losses compare.
            seed = np.random.randint(2**31) if self.train else zlib.crc32(uid.encode())
            inventory, profiles = self.inventories.draw(
                speakers, uid, np.random.default_rng(seed)
            )
        if inventory:
            data["profiles"] = profiles.astype(np.float32)
        if speakers:
            data["speakers"] = label_segments(data["text"], speakers, inventory, uid)
        return self.preprocess(uid, data)
