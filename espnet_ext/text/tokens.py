"""Learn tokens from transcripts, and read and write files with a value for each.

They are sentencepiece models, ESPnet's ``tokens.txt`` and ``prior.txt``.
"""

import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.tables import read_table_lines
from espnet_ext.work.files import atomic_write

BLANK, UNKNOWN, SOS_EOS = "<blank>", "<unk>", "<sos/eos>"
SPACE = "<space>"  # among characters
BOUNDARY = "▁"  # sentencepiece's mark of a word's beginning


@dataclass(frozen=True)
class PieceModel:
    """A trained sentencepiece model: its bytes, and its pieces in the model's order.

    Control symbols are not among them.
    """

    data: bytes
    pieces: tuple[str, ...]


def train_pieces(
    texts: Iterable[str],
    vocab_size: int,
    model_type: str = "bpe",
    user_symbols: Sequence[str] = (),
    **options: str,
) -> PieceModel:
    """Train a sentencepiece model, ``bpe`` or ``unigram``.

    ``user_symbols`` are never split. A text with too few distinct strings for
    ``vocab_size`` (with the unknown symbol) gets the largest vocabulary that it can
    give. For ``bpe``, whose pieces depend on how often each word comes and on nothing
    else, texts are read once and not kept. Raises InputError: no text, or a vocabulary
    smaller than the number of characters.
    """
    # Sentencepiece's tsv has a text and its frequency in each line.
    if model_type == "bpe":
        counts = Counter(word for text in texts for word in text.split())
        lines = [f"{word}\t{count}" for word, count in counts.items()]
        options = options | {"input_format": "tsv"}
    else:
        lines = [text for text in texts if text.strip()]
    if not lines:
        raise InputError("there is no text to learn word pieces from")
    if model_type == "unigram" and not _has_characters(
        lines, user_symbols, options.get("normalization_rule_name")
    ):
        raise InputError(
            "there is no text to learn word pieces from: nothing but marks that "
            "sentencepiece removes"
        )
    trainer_options: dict[str, Any] = options | {
        "model_type": model_type,
        "vocab_size": vocab_size,
        # Below 1, rare characters, such as many of Mandarin, would become unknown.
        "character_coverage": 1.0,
        # ESPnet has its own symbols for start and end (make_token_list).
        "bos_id": -1,
        "eos_id": -1,
        "unk_id": 0,
        "unk_piece": UNKNOWN,
        "user_defined_symbols": list(user_symbols),
        "minloglevel": 2,
        "num_threads": 1,
        # By default sentencepiece silently leaves out texts above 4,192 bytes.
        "max_sentence_length": max(4192, *(len(line.encode()) + 1 for line in lines)),
    }
    try:
        data = _train(lines, trainer_options)
    except RuntimeError as error:
        # It names the size when the one asked for is too large.
        largest = re.search(r"value <= (\d+)", str(error))
        if largest is None:
            reason = " ".join(str(error).split())
            raise InputError(
                f"no vocabulary of {vocab_size} word pieces can be learnt: {reason}"
            ) from error
        data = _train(lines, trainer_options | {"vocab_size": int(largest[1])})
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    pieces = (
        processor.id_to_piece(index) for index in range(processor.get_piece_size())
    )
    return PieceModel(data, tuple(piece for piece in pieces if piece != UNKNOWN))


def _has_characters(
    texts: Iterable[str], symbols: Sequence[str], rule: str | None
) -> bool:
    """Return whether anything remains without symbols.

    If nothing does, sentencepiece's unigram trainer kills the process.
    """
    normaliser = sentencepiece.SentencePieceNormalizer(rule_name=rule or "nmt_nfkc")
    words = [symbol.removeprefix(BOUNDARY) for symbol in symbols]
    for text in texts:
        left = normaliser.normalize(text)
        for word in words:
            left = left.replace(word, " ")
        if left.strip(f" {BOUNDARY}"):
            return True
    return False


def _train(texts: Sequence[str], options: Mapping[str, Any]) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, **options
    )
    return model.getvalue()


def make_token_list(tokens: Iterable[str]) -> list[str]:
    """Make ESPnet's token list: blank, unknown, the tokens, and one for start and end.

    Raises InputError: a token equals one of those symbols, and ESPnet could not
    distinguish the two.
    """
    tokens = list(tokens)
    for symbol in (BLANK, UNKNOWN, SOS_EOS):
        if symbol in tokens:
            raise InputError(
                f"the text holds '{symbol}', which is ESPnet's own symbol: remove "
                "it from the text"
            )
    # ESPnet's order: its models take the first for CTC's blank, the last for start and
    # end.
    return [BLANK, UNKNOWN, *tokens, SOS_EOS]


def make_tokens(
    text: str | Path,
    output: str | Path,
    token_type: str,
    vocab_size: int = 0,
    *,
    symbols: Sequence[str] = (),
    normalisation: str | None = None,
) -> list[str]:
    """Learn the tokens of a Kaldi ``text`` file, write them, and print their number.

    :func:`write_tokens` says what is written. Texts of hundreds of millions of words
    need not fit into memory, but for ``unigram``.
    """
    tokens = write_tokens(
        TableTexts(Path(text)),
        Path(output),
        token_type,
        vocab_size,
        symbols,
        normalisation,
    )
    say(f"{len(tokens)} tokens -> {Path(output) / 'tokens.txt'}")
    # Without blank, start and end; sentencepiece counts the unknown one.
    say_if_fewer_pieces(len(tokens) - 2, vocab_size)
    return tokens


@dataclass(frozen=True)
class TableTexts:
    """The texts of a Kaldi ``text`` file, read anew by each loop over them."""

    path: Path

    def __iter__(self) -> Iterator[str]:
        return (value for _, value in read_table_lines(self.path))


def say_if_fewer_pieces(pieces: int, vocab_size: int) -> None:
    """Print it when a text gives fewer word pieces than were asked for."""
    if vocab_size > pieces:
        say(f"The text gives only {pieces} word pieces; {vocab_size} were asked for.")


def write_tokens(
    texts: Iterable[str],
    output: Path,
    token_type: str,
    vocab_size: int = 0,
    symbols: Sequence[str] = (),
    normalisation: str | None = None,
) -> list[str]:
    """Learn tokens and write them; return the token list.

    Written are ``tokens.txt``, the tokens' prior ``prior.txt`` and, for word pieces,
    ``bpe.model``.

    ``token_type`` is ``bpe``, ``unigram``, ``char`` or ``word``; ``texts`` are gone
    through several times. ``symbols`` are one token each, such as ``<sc>``; as a word
    piece with the word boundary before it, and for ``char`` ESPnet's training needs
    them as ``--non_linguistic_symbols``. ``normalisation`` is sentencepiece's rule
    (``nmt_nfkc_cf`` folds case, P5, section 3.1). Raises InputError: as
    :func:`train_pieces`, or a text holds one of ESPnet's symbols.
    """
    if not any(text.strip() for text in texts):
        raise InputError("there is no text to learn tokens from")
    model = None
    if token_type in ("bpe", "unigram"):
        options = {"normalization_rule_name": normalisation} if normalisation else {}
        model = train_pieces(
            texts,
            vocab_size,
            token_type,
            [f"{BOUNDARY}{symbol}" for symbol in symbols],
            **options,
        )
        tokens = make_token_list(model.pieces)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.data)
        sequences: Iterable[list[str]] = (
            processor.encode(text, out_type=str) for text in texts
        )
    elif token_type == "char":
        sequences = (_split_into_characters(text, symbols) for text in texts)
        characters: set[str] = set()
        for text in texts:
            characters.update(_split_into_characters(text, symbols))
        characters -= {SPACE, *symbols}
        tokens = make_token_list([SPACE, *symbols, *sorted(characters)])
    else:
        words: set[str] = set()
        for text in texts:
            words.update(text.split())
        words -= set(symbols)
        tokens = make_token_list([*symbols, *sorted(words)])
        sequences = (text.split() for text in texts)
    write_token_files(output, tokens, sequences, model)
    return tokens


def _split_into_characters(text: str, symbols: Sequence[str]) -> list[str]:
    """Split a text as ESPnet's tokenizer does, each of ``symbols`` undivided.

    There is a symbol for each space.
    """
    sequence: list[str] = []
    for piece in re.split(r"(\s)", text):
        if piece.isspace():
            sequence.append(SPACE)
        elif piece in symbols:
            sequence.append(piece)
        else:
            sequence += piece
    return sequence


def write_token_files(
    output: Path,
    tokens: Sequence[str],
    sequences: Iterable[Sequence[str]],
    model: PieceModel | None = None,
) -> None:
    """Write ``tokens.txt``, ``bpe.model`` if there is a model, and ``prior.txt``.

    The prior is that of the tokens in ``sequences``, the transcripts.
    """
    if model is not None:
        with atomic_write(output / "bpe.model", "wb") as file:
            file.write(model.data)
    with atomic_write(output / "tokens.txt") as file:
        file.writelines(f"{token}\n" for token in tokens)
    prior = estimate_token_prior(sequences, tokens)
    with atomic_write(output / "prior.txt") as file:
        file.writelines(f"{token} {value:.6f}\n" for token, value in prior.items())


def estimate_token_prior(
    sequences: Iterable[Sequence[str]], tokens: Sequence[str]
) -> dict[str, float]:
    """Estimate the natural log-probability of each token in transcripts (P2, Table 5).

    Each transcript has one end symbol after it. Tokens that are not in the list count
    as unknown.
    """
    # One is added to each count (Laplace), so that no token is impossible.
    counts = dict.fromkeys(tokens, 1)
    for sequence in sequences:
        for token in (*sequence, SOS_EOS):
            counts[token if token in counts else UNKNOWN] += 1
    total = math.log(sum(counts.values()))
    return {token: math.log(count) - total for token, count in counts.items()}


def read_prior(path: str | Path) -> dict[str, float]:
    """Read a ``prior.txt``: token -> natural log-probability, as the list has them."""
    return read_token_values(path, _parse_finite, "log-probability")


def _parse_finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def read_token_values[T](
    path: str | Path, parse: Callable[[str], T | None], what: str
) -> dict[str, T]:
    """Read token -> value from a file with both in each line, a space between them.

    ``parse`` makes a value from text, or returns None if the text is none; ``what``
    names the value in messages. Raises InputError: a line is not a token and a value,
    or a token comes twice.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file: run the token stage first, or check the path"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text ({error.reason}): run the token stage again"
        ) from None
    values: dict[str, T] = {}
    # Not splitlines(), which also splits at characters that may be tokens.
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        token, _, rest = line.rpartition(" ")
        value = parse(rest)
        if not token or value is None:
            raise InputError(
                f"{path}: line {number}: '{line}' is not a token and its {what}"
            )
        if token in values:
            raise InputError(
                f"{path}: line {number}: the token '{token}' comes twice: write "
                "the file again"
            )
        values[token] = value
    return values
