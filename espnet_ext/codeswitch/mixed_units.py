"""Units of Mandarin and English in one sentencepiece model (P1, section 4.2).

They are Han characters and English word pieces. ESPnet's ``token_type: bpe`` reads the
model as it is. Han characters and first pieces of words carry the word-boundary mark,
and the model's own normaliser sets the spaces:

>>> model = train_mixed_pieces(["THE RED WINE", "RED RED WINE"], vocab_size=45)
>>> processor = sentencepiece.SentencePieceProcessor(model_proto=model.data)
>>> processor.encode("喜欢RED 酒", out_type=str)
['▁喜', '▁欢', '▁RED', '▁酒']
>>> processor.encode("喜 欢 RED酒", out_type=str)
['▁喜', '▁欢', '▁RED', '▁酒']
>>> processor.decode(['▁喜', '▁欢', '▁RED', '▁WINE', '▁酒'])
'喜欢RED WINE酒'

So no mark stands alone between the scripts, whatever the spacing. Since each Han
character has a space before it, ESPnet's word error rate during training is the mixed
error rate. All Han characters of Unicode are pieces of the model, so that a character
that is not a unit becomes exactly one unknown token.
"""

import functools
import string
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from espnet_ext.codeswitch.token_languages import write_languages
from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.text.mixed_text import (
    UNKNOWN_MARK,
    has_han,
    list_han_characters,
    split_mixed_text,
)
from espnet_ext.text.tokens import (
    PieceModel,
    make_token_list,
    say_if_fewer_pieces,
    train_pieces,
    write_token_files,
)

BOUNDARY = "▁"
# P1, section 4.2: characters with more than 10 occurrences are units.
MOST_OF_RARE = 10
# Always pieces, since code-switched speech may have them even if the English text does
# not.
_REQUIRED = string.ascii_uppercase + string.digits + "'"


def train_mixed_pieces(english_texts: Iterable[str], vocab_size: int) -> PieceModel:
    """Learn word pieces from English text, and add all Han characters as pieces.

    Han characters are never split. ``vocab_size`` counts English pieces, with all
    capital letters, digits and the apostrophe; there are fewer if the text allows no
    more. Raises InputError for Han characters in the text, or fewer pieces than
    letters, digits and signs.
    """
    texts = list(english_texts)
    letters: set[str] = set()
    for text in texts:
        if has_han(text):
            raise InputError(
                f"the English text holds Han characters ('{text[:40]}'): give "
                "English transcripts alone"
            )
        letters.update("".join(text.split()))
    absent = sorted(set(_REQUIRED) - letters)
    fewest = len({*letters, *absent, BOUNDARY})
    if vocab_size < fewest:
        raise InputError(
            f"{vocab_size} English word pieces are too few for the text's "
            f"letters: give {fewest} or more"
        )
    # Sentencepiece counts the unknown piece, too.
    with_unknown = vocab_size + 1
    # No normalisation of sentencepiece's own: the rules for spaces take its place.
    english = train_pieces(
        texts, with_unknown, "bpe", absent, normalization_rule_name="identity"
    )
    return _add_han_characters(english)


def _add_han_characters(english: PieceModel) -> PieceModel:
    """Add all Han characters to a model, with rules that set the spaces around them."""
    proto = ModelProto.FromString(english.data)
    han = tuple(BOUNDARY + char for char in list_han_characters())
    # USER_DEFINED pieces are found in a text before any other, and never split.
    for piece in han:
        proto.pieces.add(
            piece=piece, score=0.0, type=ModelProto.SentencePiece.USER_DEFINED
        )
    before_encoding, after_decoding = _compile_rules()
    proto.normalizer_spec.precompiled_charsmap = before_encoding
    proto.denormalizer_spec.precompiled_charsmap = after_decoding
    # Decoded text is for people: spaces stay spaces, and there is none at the start.
    proto.denormalizer_spec.add_dummy_prefix = False
    proto.denormalizer_spec.escape_whitespaces = False
    proto.denormalizer_spec.remove_extra_whitespaces = False
    return PieceModel(proto.SerializeToString(deterministic=True), english.pieces + han)


@functools.cache
def _compile_rules() -> tuple[bytes, bytes]:
    """Return the rules before encoding and after decoding, in binary form.

    Only sentencepiece's trainer writes that form, so a model is trained for it.
    """
    rules = {
        "normalization_rule_tsv": _list_split_rules(),
        "denormalization_rule_tsv": _list_join_rules(),
    }
    with tempfile.TemporaryDirectory() as folder:
        for option, lines in rules.items():
            Path(folder, option).write_text("".join(lines), encoding="ascii")
        # The smallest model there is: the unknown piece, the mark and the letter.
        model = train_pieces(
            ["A"], 3, **{option: str(Path(folder, option)) for option in rules}
        )
    proto = ModelProto.FromString(model.data)
    return (
        proto.normalizer_spec.precompiled_charsmap,
        proto.denormalizer_spec.precompiled_charsmap,
    )


def _list_split_rules() -> Iterable[str]:
    """Return rules that put a space on either side of each Han character.

    The rules are for encoding; sentencepiece joins several spaces.
    """
    return (_format_rule(char, f" {char} ") for char in list_han_characters())


def _list_join_rules() -> Iterable[str]:
    """Return rules that leave no space beside a Han character or the unknown mark.

    The rules are for decoding. Sentencepiece puts a space on either side of that mark,
    so that two may follow it.
    """
    # Sentencepiece takes the longest rule that matches: both spaces go at once.
    for char in (*list_han_characters(), UNKNOWN_MARK):
        for spaced in (f" {char} ", f" {char}", f"{char} "):
            yield _format_rule(spaced, char)
    for spaced in (f" {UNKNOWN_MARK}  ", f"{UNKNOWN_MARK}  "):
        yield _format_rule(spaced, UNKNOWN_MARK)


def _format_rule(source: str, target: str) -> str:
    """Return a line of sentencepiece's rule files: code points in hexadecimal."""
    sides = []
    for side in (source, target):
        sides.append(" ".join(f"{ord(char):X}" for char in side))
    return "\t".join(sides) + "\n"


def write_english(text: Path, output: Path) -> None:
    """Write the words of transcripts that are not Mandarin, as a table.

    An utterance without such words has no line. Raises InputError: none has any.
    """
    found = {}
    for name, transcript in read_table(text).items():
        words = [word for word in split_mixed_text(transcript) if not has_han(word)]
        if words:
            found[name] = " ".join(words)
    if not found:
        raise InputError(f"{text}: there are no English words in it to learn pieces of")
    write_table(output, found)


def list_han_units(texts: Iterable[str], more_than: int = MOST_OF_RARE) -> list[str]:
    """Return the Han characters with more than ``more_than`` occurrences.

    Characters are sorted by code points.

    >>> list_han_units(["喜欢欢", "欢WINE"], more_than=2)
    ['欢']
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(filter(has_han, text))
    return sorted(char for char, count in counts.items() if count > more_than)


def write_mixed_tokens(
    texts: Sequence[str],
    english_texts: Sequence[str],
    output: Path,
    vocab_size: int,
) -> list[str]:
    """Write the files of mixed tokens for ESPnet's ``token_type: bpe``.

    The files are ``tokens.txt``, ``prior.txt``, ``bpe.model`` and ``languages.txt``.
    ``texts``: transcripts of all training data, for the character counts and the prior;
    ``english_texts``: those from which the word pieces are learnt. Returns ESPnet's
    symbols, English pieces, and Han characters with the boundary mark.
    """
    if not any(text.strip() for text in texts):
        raise InputError("there is no text to learn tokens from")
    model = train_mixed_pieces(english_texts, vocab_size)
    english = (piece for piece in model.pieces if not has_han(piece))
    tokens = make_token_list(
        [*english, *(BOUNDARY + char for char in list_han_units(texts))]
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.data)
    sequences = [processor.encode(text, out_type=str) for text in texts]
    write_token_files(output, tokens, sequences, model)
    write_languages(output / "languages.txt", tokens)
    return tokens


def make_mixed_tokens(
    text: str | Path,
    english_texts: Iterable[str | Path],
    output: str | Path,
    vocab_size: int,
) -> list[str]:
    """Learn mixed tokens from Kaldi ``text`` files, and print how many there are.

    See :func:`write_mixed_tokens`.
    """
    texts = list(read_table(text).values())
    english = [line for path in english_texts for line in read_table(path).values()]
    tokens = write_mixed_tokens(texts, english, Path(output), vocab_size)
    han_count = sum(map(has_han, tokens))
    # Three are neither: blank, unknown, and the one for start and end.
    piece_count = len(tokens) - han_count - 3
    say(f"{len(tokens)} tokens -> {Path(output) / 'tokens.txt'}")
    say(f"{han_count} Han characters, {piece_count} English word pieces")
    say_if_fewer_pieces(piece_count, vocab_size)
    return tokens
