"""A tiny speaker-attributed model learns who says what.

It tells speakers by their profiles, not by their places.
"""

import numpy as np
import torch

from espnet_ext.stitch.recogniser.search import recognise_together
from espnet_ext.stitch.recogniser.search_settings import SearchOptions

CHANGE = 2  # of speakers
WORDS = {"A": 3, "B": 4, "C": 5}
FRAMES = 8  # of a word


def features(
    utterances: list[tuple[str, np.ndarray]], random: np.random.Generator
) -> np.ndarray:
    """Each word is a constant of its own in the first 6 dimensions.

    Its speaker's profile is in the last 6.

    The second utterance begins two words before the first ends: there they are added
    up.
    """
    pieces = []
    start = 0
    for words, profile in utterances:
        frames = [[*np.eye(6)[WORDS[word]], *profile] for word in words]
        piece = np.repeat(frames, FRAMES, axis=0)
        pieces.append((start, piece))
        start += max(FRAMES, len(piece) - FRAMES)
    length = max(at + len(piece) for at, piece in pieces)
    mixed = 0.05 * random.normal(size=(length, 12))
    for at, piece in pieces:
        mixed[at : at + len(piece)] += piece
    return mixed


def test_it_learns_words_and_speakers_that_overlap(build_sa_asr):
    random = np.random.default_rng(0)
    people = np.linalg.qr(random.normal(size=(6, 6)))[0][:4]
    mixtures = [
        (("ABC", 0), ("CA", 1)),
        (("BA", 2), ("CCB", 0)),
        (("CAB", 3),),
        (("AC", 1), ("BAB", 3)),
    ]
    model = build_sa_asr(
        encoder="blstm_maxpool",
        encoder_conf={"num_layers": 1, "hidden_size": 24, "pooling": [2]},
        speaker_encoder="blstm_maxpool",
        speaker_encoder_conf={"num_layers": 1, "hidden_size": 16, "pooling": [2]},
        decoder="batch_rnn",
        decoder_conf={"hidden_size": 32, "att_conf": {"adim": 24, "aconv_filts": 5}},
        model_conf={
            "profile_size": 6,
            "gamma": 0.5,
            "speaker_conf": {"cosine_scale": 8.0, "query_conf": {"hidden_size": 16}},
        },
    )
    speech = []
    tokens = []
    for mixture in mixtures:
        utterances = [(words, people[who]) for words, who in mixture]
        speech.append(torch.tensor(features(utterances, random)).float())
        ids = []
        for words, _ in mixture:
            ids += [CHANGE, *(WORDS[word] for word in words)]
        tokens.append(torch.tensor(ids[1:]))
    pad = torch.nn.utils.rnn.pad_sequence
    data = {
        "speech": pad(speech, batch_first=True),
        "speech_lengths": torch.tensor([len(each) for each in speech]),
        "text": pad(tokens, batch_first=True, padding_value=-1),
        "text_lengths": torch.tensor([len(each) for each in tokens]),
        "profiles_lengths": torch.full((4,), 4),
        "speakers_lengths": torch.tensor([len(mixture) for mixture in mixtures]),
    }
    model.train()
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=0.01)
    for _ in range(120):
        # In each inventory the people have other places, in each update again.
        profiles = []
        labels = []
        for mixture in mixtures:
            places = random.permutation(4)
            profiles.append(people[np.argsort(places)])
            labels.append(torch.tensor([places[who] for _, who in mixture]))
        data["profiles"] = torch.tensor(np.stack(profiles)).float()
        data["speakers"] = pad(labels, batch_first=True, padding_value=-1)
        optimizer.zero_grad()
        loss, stats, _ = model(**data)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    model.eval()
    assert stats["acc"] > 0.95 and stats["acc_speaker"] > 0.95
    order = np.array([3, 1, 0, 2])
    for each, mixture in zip(speech, mixtures, strict=True):
        ((best,),) = recognise_together(
            model, [each], [people[order]], list, SearchOptions(beam_size=3)
        )
        found = []
        for segment in best.segments:
            found.append(("".join(segment.words), int(order[segment.speaker])))
        assert found == list(mixture)
