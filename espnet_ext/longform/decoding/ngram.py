"""N-gram language models over tokens with the smoothing of Witten and Bell (1991), written as ARPA files.

Each order is interpolated with the one below: p(w|h) = (c(hw) + n(h) p(w|h')) / (c(h) + n(h)), where n(h) is the number
of different tokens after h, and h' is h without its first token. The unigram is interpolated with the uniform
distribution. The weight of the lower order, n(h) / (c(h) + n(h)), is the back-off weight of an ARPA file.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.text.tokens import BLANK, SOS_EOS
from espnet_ext.work.files import atomic_write, unpacked

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
_SHOWN = 40  # characters of a line in a message
_NEVER = -99.0  # log10 probability of a token that is never predicted, by convention

Gram = tuple[str, ...]


def write_token_ngram(text: Path, tokens: Path, bpemodel: Path | None, order: int, output: Path) -> None:
    """Estimate an n-gram model over the tokens of an acoustic model and write it as an ARPA file.

    Args:
        text: Kaldi text file to learn from.
        tokens: ``tokens.txt`` of the acoustic model.
        bpemodel: its sentencepiece model; None: its tokens are words.
        order: Number of tokens in the longest n-grams, at least 1.
        output: the ARPA file.

    Raises:
        InputError: a file is missing, there is no text, or the order is below 1.
    """
    for path in (tokens, bpemodel):
        if path is not None and not path.is_file():
            raise InputError(f"{path}: no such file: run the token stage first")
    lines = tokens.read_text(encoding="utf-8").split("\n")
    vocabulary = [token for token in lines if token and token not in (BLANK, SOS_EOS, UNKNOWN)]
    known, split = set(vocabulary), _splitter(bpemodel)
    texts = ([token if token in known else UNKNOWN for token in split(line)] for line in read_table(text).values())
    write_arpa(output, estimate(texts, order, vocabulary))


def _splitter(bpemodel: Path | None) -> Callable[[str], list[str]]:
    if bpemodel is None:
        return str.split
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(bpemodel))
    return lambda line: pieces.encode(line, out_type=str)


def estimate(texts: Iterable[Sequence[str]], order: int, vocabulary: Sequence[str]) -> list[dict[Gram, tuple]]:
    """Estimate an n-gram model.

    Args:
        texts: Tokens of each text.
        order: Number of tokens in the longest n-grams, at least 1.
        vocabulary: All tokens that may be predicted, also those that occur in no text.

    Returns:
        For each order, n-gram -> (log10 probability, log10 back-off weight or None).

    Raises:
        InputError: no text, an order below 1, or a token outside the vocabulary.
    """
    if order < 1:
        raise InputError(f"the order of an n-gram model must be at least 1, not {order}")
    predicted = dict.fromkeys((*vocabulary, END, UNKNOWN))
    counts = _count(texts, order, predicted)
    followers: list[defaultdict[Gram, list[int]]] = []
    for level in counts:
        after: defaultdict[Gram, list[int]] = defaultdict(lambda: [0, 0])  # occurrences, different tokens
        for gram, count in level.items():
            after[gram[:-1]][0] += count
            after[gram[:-1]][1] += 1
        followers.append(after)
    probabilities: list[dict[Gram, float]] = []
    for number, level in enumerate(counts):
        below = probabilities[-1] if probabilities else None
        grams = level if number else {**dict.fromkeys(((token,) for token in predicted), 0), **level}
        found = {}
        for gram, count in grams.items():
            total, kinds = followers[number][gram[:-1]]
            lower = below[gram[1:]] if below is not None else 1 / len(predicted)
            found[gram] = (count + kinds * lower) / (total + kinds)
        probabilities.append(found)
    model = [
        {gram: (math.log10(value), _back_off(gram, followers, number + 1)) for gram, value in sorted(level.items())}
        for number, level in enumerate(probabilities)
    ]
    model[0][(START,)] = (_NEVER, _back_off((START,), followers, 1))
    return model


def _count(texts: Iterable[Sequence[str]], order: int, predicted: Mapping[str, None]) -> list[Counter]:
    counts: list[Counter] = [Counter() for _ in range(order)]
    for text in texts:
        for token in text:
            if token not in predicted:
                raise InputError(f"the language model's text has {token!r}, which is not a token of the model")
        padded = (START, *text, END)
        for size in range(1, order + 1):
            # The start is only a history; it is never predicted.
            first = 1 if size == 1 else 0
            counts[size - 1].update(padded[at : at + size] for at in range(first, len(padded) - size + 1))
    if not counts[0]:
        raise InputError("there is no text to estimate a language model from")
    return counts


def _back_off(gram: Gram, followers: Sequence[Mapping[Gram, list[int]]], number: int) -> float | None:
    if number == len(followers) or gram not in followers[number]:
        return None
    total, kinds = followers[number][gram]
    return math.log10(kinds / (total + kinds))


def write_arpa(path: str | Path, model: Sequence[Mapping[Gram, tuple]]) -> None:
    """Write a model from :func:`estimate` as an ARPA file."""
    with atomic_write(path) as file:
        file.write("\\data\\\n")
        for number, level in enumerate(model, 1):
            file.write(f"ngram {number}={len(level)}\n")
        for number, level in enumerate(model, 1):
            file.write(f"\n\\{number}-grams:\n")
            for gram, (probability, weight) in level.items():
                file.write(_line(probability, " ".join(gram), weight))
        file.write("\n\\end\\\n")


def _line(probability: float, text: str, weight: float | None) -> str:
    return f"{probability:.7f}\t{text}\n" if weight is None else f"{probability:.7f}\t{text}\t{weight:.7f}\n"


def arpa_fault(path: str | Path) -> str:
    """What is wrong with an ARPA file, and in which line; "" if nothing is found."""
    reader, number = _ArpaReader(), 0
    with unpacked(path) as file:
        for number, raw in enumerate(file, 1):
            try:
                fault = reader.take(raw.decode("utf-8").strip())
            except UnicodeDecodeError:
                fault = "is not UTF-8"
            if fault:
                return f"line {number} {fault}"
    return "" if reader.ended else f"it breaks off before \\end\\, after line {number}" if number else "it is empty"


class _ArpaReader:
    """Checks an ARPA file line by line."""

    def __init__(self) -> None:
        self.ended = False
        self._counts: list[int] | None = None  # of the n-grams that the header promises, by order
        self._order = 0
        self._left = 0

    def take(self, line: str) -> str:
        """The fault of the next line; "" if it has none."""
        if not line or self.ended:
            return ""
        if self._counts is None:
            if line.startswith("#"):  # KenLM skips such lines at the beginning
                return ""
            self._counts = []
            begins = line == "\\data\\"
            return "" if begins else f"must be \\data\\, with which an ARPA file begins, not {line[:_SHOWN]!r}"
        if line.startswith("\\"):
            return self._section(line)
        return self._gram(line) if self._order else self._header(line)

    def _header(self, line: str) -> str:
        assert self._counts is not None
        found = re.fullmatch(r"ngram\s+(\d+)\s*=\s*(\d+)", line)
        if not found or int(found[1]) != len(self._counts) + 1:
            return f"must be `ngram {len(self._counts) + 1}=` and a number, or \\1-grams:, not {line[:_SHOWN]!r}"
        self._counts.append(int(found[2]))
        return ""

    def _section(self, line: str) -> str:
        assert self._counts is not None
        if self._left:
            return f"begins {line} where {self._left} of the {self._order}-grams that the header promises are missing"
        wanted = f"\\{self._order + 1}-grams:" if self._order < len(self._counts) else "\\end\\"
        if line != wanted:
            return f"must be {wanted}, not {line[:_SHOWN]!r}"
        self.ended = self._order == len(self._counts)
        if not self.ended:
            self._left = self._counts[self._order]
            self._order += 1
        return ""

    def _gram(self, line: str) -> str:
        assert self._counts is not None
        fields = line.split()
        if not self._left:
            return f"is one more {self._order}-gram than the header promises"
        weights = fields[:1] + fields[self._order + 1 :]
        if len(fields) <= self._order or len(weights) > 2 or not all(map(_is_number, weights)):
            return (
                f"must be a log-probability, tokens (of {self._order}-grams, {self._order}) and perhaps a back-off "
                f"weight, not {line[:_SHOWN]!r}"
            )
        if float(fields[0]) > 0:
            return f"has a log-probability above 0: {line[:_SHOWN]!r}"
        if not line.startswith(f"{fields[0]}\t"):
            return f"must have a tab between the log-probability and the tokens: {line[:_SHOWN]!r}"
        self._left -= 1
        return ""


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False
