"""``model: sa_asr``: speaker-attributed ASR by serialized output training (P4, 2.1)."""

from typing import Any

import torch
from espnet2.asr.encoder.abs_encoder import AbsEncoder
from espnet2.asr.espnet_model import ESPnetASRModel
from espnet2.legacy.nets.pytorch_backend.nets_utils import th_accuracy
from espnet2.legacy.nets.pytorch_backend.transformer.add_sos_eos import add_sos_eos
from espnet2.torch_utils.device_funcs import force_gatherable

from espnet_ext.errors import InputError
from espnet_ext.stitch.recogniser.decoder_readouts import make_readout
from espnet_ext.stitch.recogniser.speaker_attributed_decoder import (
    SpeakerAttributedDecoder,
)
from espnet_ext.stitch.recogniser.speaker_inventory import number_segments
from espnet_ext.upstream.padding import mark_valid_frames


class SAASRModel(ESPnetASRModel):
    """Recognise which speaker of an inventory said what.

    Any number of speakers may talk at once.

    The transcripts of all speakers' utterances form one sequence in the order of their
    starts, with a symbol where the speaker changes. Each token has a speaker; the
    symbol, and the end of the sequence, have that of the utterance that they end. The
    loss is that of the tokens plus ``gamma`` times that of their speakers, each the sum
    over tokens of negative log-posteriors (P4, eq. 12). CTC over the serialised tokens
    (``ctc_weight``) is not in the paper.

    Args:
        speaker_encoder: SpeakerEncoder (eq. 6); gives as many frames as the ASR
            encoder, or reads samples and stretches its output to them, as
            :class:`espnet_ext.stitch.recogniser.d_vectors.DVectorEncoder` does.
        change_symbol: the token of a speaker change, with or without the word boundary
            of a word-piece model.
        speaker_conf: options of :class:`SpeakerAttributedDecoder`; and
            ``attention_block``, of a transformer the block whose attention weights are
            used, see
            :class:`espnet_ext.stitch.recogniser.decoder_readouts.TransformerReadout`.
    """

    # ESPnet's model sets its own, which becomes part of a SpeakerAttributedDecoder
    decoder: Any

    def __init__(
        self,
        vocab_size: int,
        token_list: list[str] | tuple[str, ...],
        speaker_encoder: AbsEncoder | None = None,
        profile_size: int = 256,
        gamma: float = 0.1,
        change_symbol: str = "<sc>",
        speaker_conf: dict[str, Any] | None = None,
        ctc_weight: float = 0.0,
        **espnet: Any,
    ):
        if speaker_encoder is None:
            raise InputError(
                "sa_asr: no speaker encoder: train with python -m "
                "espnet_ext.bin.sa_asr_train"
            )
        super().__init__(
            vocab_size=vocab_size,
            token_list=token_list,
            ctc_weight=ctc_weight,
            **espnet,
        )
        # encode_both() is ours, for two encoders, and runs none of these.
        if (
            self.preencoder is not None
            or self.postencoder is not None
            or self.interctc_weight
        ):
            raise InputError(
                "sa_asr: preencoder, postencoder and interctc_weight are not "
                "supported: leave them out"
            )
        if self.decoder is None:
            raise InputError(
                "sa_asr: needs an attention decoder: set decoder, and ctc_weight "
                "below 1"
            )
        self.change = find_change_id(self.token_list, change_symbol)
        self.gamma = gamma
        self.profile_size = profile_size
        self.speaker_encoder = speaker_encoder
        options = dict(speaker_conf or {})
        asr = make_readout(self.decoder, options.pop("attention_block", -1))
        self.decoder = SpeakerAttributedDecoder(
            asr, vocab_size, speaker_encoder.output_size(), profile_size, **options
        )

    def forward(
        self,
        speech: torch.Tensor,
        speech_lengths: torch.Tensor,
        text: torch.Tensor,
        text_lengths: torch.Tensor,
        profiles: torch.Tensor | None = None,
        profiles_lengths: torch.Tensor | None = None,
        speakers: torch.Tensor | None = None,
        d_vectors: torch.Tensor | None = None,
        d_vectors_lengths: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor], torch.Tensor]:
        """Return the loss of a batch, what is logged, and the batch's size.

        Args:
            speech: samples, (B, N), or features.
            text: serialized tokens, (B, L), padded with -1.
            profiles: speaker profiles, (B, K, profile_size).
            speakers: which profile is of the speaker of each utterance in the text, (B,
                utterances), padded with -1.
            d_vectors: output of a speaker encoder that reads samples, (B, W, D'), if it
                was computed before.
        """
        if profiles is None or profiles_lengths is None or speakers is None:
            raise InputError(
                "sa_asr: training needs speakers: give the data `speakers` (type "
                "text) and --profiles"
            )
        # As ESPnet's models do: a replica's part of a batch may be shorter than its
        # padding.
        text = text[:, : text_lengths.max()]
        known = None
        if d_vectors is not None and d_vectors_lengths is not None:
            known = (d_vectors, d_vectors_lengths)
        encodings, speaker_encodings, lengths = self.encode_both(
            speech, speech_lengths, known
        )
        ys_in, ys_out = add_sos_eos(text, self.sos, self.eos, self.ignore_id)
        present = mark_valid_frames(profiles_lengths, profiles.size(1))
        self.check_profiles(profiles)
        scores, log_posteriors = self.decoder(
            encodings,
            lengths,
            speaker_encodings,
            ys_in,
            text_lengths + 1,
            profiles,
            present,
        )
        # Each token has the label of its utterance; padding any, which is masked.
        numbers = number_segments(ys_out, self.change)
        labels = speakers.gather(1, numbers.clamp(max=speakers.size(1) - 1))
        labels = labels.masked_fill(ys_out == self.ignore_id, -1)
        loss_att = self.criterion_att(scores, ys_out)
        loss_speaker = torch.nn.functional.nll_loss(
            log_posteriors.flatten(0, 1),
            labels.flatten(),
            ignore_index=-1,
            reduction="sum",
        )
        # the same divisor as that of ESPnet's label smoothing, so that gamma means what
        # it says
        if self.criterion_att.normalize_length:
            loss_speaker = loss_speaker / (labels >= 0).sum()
        else:
            loss_speaker = loss_speaker / len(speech)
        # P4, eq. 12, with the other sign
        loss = loss_att + self.gamma * loss_speaker
        stats = {
            "loss_att": loss_att.detach(),
            "loss_speaker": loss_speaker.detach(),
            "acc": th_accuracy(
                scores.flatten(0, 1), ys_out, ignore_label=self.ignore_id
            ),
            "acc_speaker": th_accuracy(
                log_posteriors.flatten(0, 1), labels, ignore_label=-1
            ),
        }
        if self.ctc_weight:
            loss_ctc, _ = self._calc_ctc_loss(encodings, lengths, text, text_lengths)
            # ESPnet's hybrid loss. It scales both others, so that gamma stays the
            # weight of speakers against tokens.
            loss = self.ctc_weight * loss_ctc + (1 - self.ctc_weight) * loss
            stats["loss_ctc"] = loss_ctc.detach()
        stats["loss"] = loss.detach()
        return force_gatherable((loss, stats, len(speech)), loss.device)

    def encode_both(
        self,
        speech: torch.Tensor,
        speech_lengths: torch.Tensor,
        d_vectors: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return encodings (P4, eq. 1), speaker encodings (P4, eq. 6), and frames.

        They are (B, T, D), (B, T, D') and (B,). ``speech``: (B, N); ``d_vectors``: what
        a speaker encoder that reads samples gives for it, if it is known.
        """
        # as in ESPnet's encode(): float16 has no room for powers, nor for the floor
        # below their logarithms
        with torch.autocast(speech.device.type, enabled=False):
            feats, lengths = self._extract_feats(speech, speech_lengths)
            if self.specaug is not None and self.training:
                feats, lengths = self.specaug(feats, lengths)
            if self.normalize is not None:
                feats, lengths = self.normalize(feats, lengths)
        encodings, frames, _ = self.encoder(feats, lengths)
        if getattr(self.speaker_encoder, "reads_samples", False):
            if d_vectors is None:
                d_vectors = self.speaker_encoder(speech, speech_lengths)[:2]
            vectors, windows = d_vectors
            speaker_encodings = self.speaker_encoder.interpolate_at_frames(
                vectors, windows, speech_lengths, frames
            )
            return encodings, speaker_encodings, frames
        speaker_encodings = self.speaker_encoder(feats, lengths)[0]
        if encodings.size(1) != speaker_encodings.size(1):
            raise InputError(
                f"sa_asr: of {feats.size(1)} frames the encoder makes "
                f"{encodings.size(1)} and the speaker encoder "
                f"{speaker_encodings.size(1)}: give both the same subsampling"
            )
        return encodings, speaker_encodings, frames

    def check_profiles(self, profiles: torch.Tensor) -> None:
        """Refuse profiles, (..., E), of another dimension than the model's."""
        if profiles.size(-1) != self.profile_size:
            raise InputError(
                f"sa_asr: the profiles have {profiles.size(-1)} dimensions, but "
                f"the model takes {self.profile_size}: "
                "make them with the extractor of its training, or set "
                "profile_size in model_conf"
            )


def find_change_id(tokens: list[str] | tuple[str, ...], symbol: str) -> int:
    """Return the id of the speaker-change symbol.

    A word-piece model may have it with its word boundary before it.

    >>> find_change_id(["<blank>", "<unk>", "▁<sc>", "▁a", "<sos/eos>"], "<sc>")
    2
    """
    for token in (symbol, f"▁{symbol}"):
        if token in tokens:
            return list(tokens).index(token)
    raise InputError(
        f"sa_asr: the token list has no {symbol}: make it from transcripts with "
        f"{symbol} as one token"
    )
