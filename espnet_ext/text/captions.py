"""Captions, SRT and VTT: read as what was said, once, by whom; and written so that
every word is read again.

Libraries (pysrt, webvtt-py, srt) give the cues as they are shown. Words that are shown
again (rolling captions, a highlight that moves through a cue) are read here once, and
markup is told from words such as ``<unk>``.
"""

import html
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from espnet_ext.errors import InputError, warn
from espnet_ext.kaldi.tables import read_text
from espnet_ext.text.words import Segment, Span

TOUCHING = 0.05  # seconds between two cues of which one shows the other's words again
_HIGHLIGHT_GAP = 2.0  # seconds between two cues of which a highlight moves on
_CLOCK = r"-?\d+:-?\d+(?::-?\d+)?(?:[.,]\d*)?"
_TIMING = re.compile(rf"\s*({_CLOCK})\s*-{{1,3}}>\s*({_CLOCK})(?:\s.*)?")
_TIMING_BEGINS = re.compile(rf"\s*{_CLOCK}\s*-{{1,3}}>")
# Only what players take for markup: other words in angle brackets are words.
_STYLE = re.compile(
    r"</?(?:[biusc]|lang|ruby|rt|font|span)(?:[.\s][^<>]*)?/?>", re.IGNORECASE
)
_MARKUP = re.compile(
    rf"{_STYLE.pattern}|</?v(?:[.\s][^<>]*)?>|<\d[\d:.,]*>|\{{\\[^{{}}]*\}}",
    re.IGNORECASE,
)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]*)>|</v>", re.IGNORECASE)
_WORD_TIME = re.compile(r"<\d[\d:.,]*>")
_BLOCK = re.compile(r"(NOTE|STYLE|REGION)(\s|$)")  # of VTT, without words
_BRACKETED = re.compile(r"\s*\[([^\[\]]+)\]:(?:\s+|$)")
_NAMED = re.compile(r"\s*([^\s:]+(?: [^\s:]+){0,3}):\s+")


@dataclass(frozen=True)
class Cue:
    """What is shown at a time: lines with their markup, and seconds, None if they are
    no time span.
    """

    lines: tuple[str, ...]
    span: Span | None

    @property
    def plain(self) -> tuple[tuple[str, ...], ...]:
        """The words of each line."""
        return tuple(tuple(plain_text(line).split()) for line in self.lines)

    @property
    def words(self) -> tuple[str, ...]:
        """All words."""
        return tuple(word for line in self.plain for word in line)


def read_captions(path: Path) -> Iterator[Segment]:
    """Read SRT or VTT; the recording has the file's name.

    A speaker is VTT's voice, a name in brackets (``[ann]: hello``), or, where all cues
    begin with a name and a colon, that name. Words that are shown again are read once.
    Raises InputError: no cue, or a line that begins as a time and is none.
    """
    recording = Path(path.name.removesuffix(".gz")).stem
    cues = list(_parse(read_text(path), path))
    read = _join_highlights(cues)
    if len(read) < len(cues):
        warn(f"{path}: a highlight moves through its cues: each is read once")
    if _are_rolling(read):
        warn(f"{path}: rolling captions: lines that are shown again are read once")
        read = list(_without_shown(read))
    for speaker, text, span in _by_speaker(read, path):
        start, end = span or (0.0, math.inf)
        yield Segment(recording, speaker, tuple(text.split()), start, end)


def is_timing(line: str) -> bool:
    """Return whether a line has the times of a cue."""
    return _TIMING.fullmatch(line) is not None


def plain_text(text: str) -> str:
    """Return a text without markup.

    >>> plain_text("<i>the</i> <unk> cat &amp; {\\\\an8}dog")
    'the <unk> cat & dog'
    """
    return html.unescape(_without_markup(text))


def _without_markup(text: str) -> str:
    return _MARKUP.sub("", _BREAK.sub(" ", text))


def _parse(text: str, path: Path) -> Iterator[Cue]:
    """Yield the cues of a file, and warn of times that are none.

    Not splitlines(): vertical tabs and the like belong to the text.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    starts = [place for place, line in enumerate(lines) if is_timing(line)]
    for number, line in enumerate(lines, start=1):
        if _TIMING_BEGINS.match(line) and not is_timing(line):
            raise InputError(
                f"{path}: line {number} is not `00:00:01,000 --> 00:00:02,000`: fix it"
            )
    if not starts:
        raise InputError(
            f"{path}: it holds no cue `00:00:01,000 --> 00:00:02,000`: is it subtitles?"
        )
    ends = _ends_of_cues(lines, starts)
    is_vtt = lines[0].startswith("WEBVTT")
    wrong: list[str] = []
    for place, end in zip(starts, ends, strict=True):
        body = lines[place + 1 : end]
        if is_vtt and "" in body:
            rest = body[body.index("") :]
            body = body[: body.index("")]
            _warn_of_rest(rest, place + 2 + len(body), path)
        span = _span_of(lines[place])
        if span is None:
            wrong.append(f"line {place + 1}: {lines[place].strip()}")
        yield Cue(tuple(line for line in body if line.strip()), span)
    if wrong:
        warn(
            f"{path}: {wrong[0]}: no time span ({len(wrong)} such cues): their words "
            "have no times"
        )


def _ends_of_cues(lines: Sequence[str], starts: Sequence[int]) -> list[int]:
    """Return for each cue the place after its last line, without the number or
    identifier of the next.

    A numeral before the times of a cue is its number if cues are numbered, and if there
    is an empty line before it, or it follows the number before, or no number has an
    empty line before it. Otherwise it is the last word of the cue before.
    """
    numerals = [place > 0 and lines[place - 1].strip().isdecimal() for place in starts]
    after_blank = [place > 1 and not lines[place - 2].strip() for place in starts]
    tight = not any(after_blank[1:])
    is_vtt = lines[0].startswith("WEBVTT")
    ends = []
    number = int(lines[starts[0] - 1]) if numerals[0] else 0
    for place, numeral, blank in zip(
        starts[1:], numerals[1:], after_blank[1:], strict=True
    ):
        follows = numeral and int(lines[place - 1]) == number + 1
        named = is_vtt and blank and bool(lines[place - 1].strip())
        if named or (numeral and numerals[0] and (blank or follows or tight)):
            number = int(lines[place - 1]) if numeral else number
            ends.append(place - 1)
        else:
            ends.append(place)
    return [*ends, len(lines)]


def _warn_of_rest(rest: Sequence[str], first: int, path: Path) -> None:
    """Say that lines of a VTT belong to no cue; notes and styles need not."""
    inside = False  # of a note or a style, up to the next empty line
    for number, line in enumerate(rest, start=first):
        if not line.strip():
            inside = False
        elif inside or _BLOCK.match(line):
            inside = True
        else:
            warn(f"{path}: line {number} is after an empty line: of no cue, left out")
            return


def _span_of(line: str) -> Span | None:
    found = _TIMING.fullmatch(line)
    if found is None or "-" in found[1] or "-" in found[2]:
        return None
    start, end = _seconds(found[1]), _seconds(found[2])
    return (start, end) if start <= end else None


def _seconds(clock: str) -> float:
    seconds = 0.0
    for part in clock.replace(",", ".").split(":"):
        seconds = 60 * seconds + float(part)
    return seconds


def _join_highlights(cues: Sequence[Cue]) -> list[Cue]:
    """Join cues of the same words, of which each marks another one: they are said
    once.
    """
    joined: list[Cue] = []
    reached: int | None = None  # how many words there are up to the mark
    for cue in cues:
        mark = _marked_up_to(cue)
        if joined and _moves_on(joined[-1], cue, reached, mark):
            joined[-1] = replace(joined[-1], span=_both(joined[-1].span, cue.span))
            reached = reached if mark is None else mark
        else:
            joined.append(cue)
            reached = mark
    return joined


def _moves_on(before: Cue, cue: Cue, reached: int | None, mark: int | None) -> bool:
    if not cue.words or before.words != cue.words or (reached is None and mark is None):
        return False
    if before.span and cue.span and cue.span[0] - before.span[1] > _HIGHLIGHT_GAP:
        return False
    if reached is None:
        return True
    # Behind the last word nothing moves on: the same words are said again.
    return reached < len(cue.words) if mark is None else mark > reached


def _marked_up_to(cue: Cue) -> int | None:
    """Return how many words there are up to the end of what is marked; None if all is
    marked, or nothing.
    """
    text = "\n".join(cue.lines)
    tags = list(_STYLE.finditer(text))
    if not tags:
        return None
    before = len(plain_text(text[: tags[0].start()]).split())
    up_to = len(plain_text(text[: tags[-1].start()]).split())
    return None if before == 0 and up_to == len(cue.words) else up_to


def _both(first: Span | None, second: Span | None) -> Span | None:
    return (first[0], second[1]) if first and second else None


def _may_show_again(before: Cue, cue: Cue) -> bool:
    """Return whether a cue follows at once, and nobody else speaks in it."""
    voices = [
        set(_VOICE.findall("\n".join(each.lines))) - {""} for each in (before, cue)
    ]
    if all(voices) and voices[0] != voices[1]:
        return False
    return not (before.span and cue.span and cue.span[0] - before.span[1] > TOUCHING)


def _shown_again(before: Cue, cue: Cue) -> int:
    """Return how many lines at the end of a cue are the first ones of the next."""
    if not _may_show_again(before, cue):
        return 0
    last, first = before.plain, cue.plain
    for number in range(min(len(last), len(first)), 0, -1):
        if last[-number:] == first[:number]:
            return number
    return 0


def _grows(before: Cue, cue: Cue) -> bool:
    """Return whether a cue has the words of the one before, and more."""
    if not _may_show_again(before, cue):
        return False
    number = len(before.words)
    return len(cue.words) > number > 0 and cue.words[:number] == before.words


def _are_rolling(cues: Sequence[Cue]) -> bool:
    """Return whether cues show again what was shown before, and not people who repeat
    themselves.

    Half of the cues must do so. One must add a line to those that it shows again; or
    two must grow by words, or one of a file with times of words.
    """
    shown = [cue for cue in cues if cue.words]
    repeated = adding = growing = 0
    for before, cue in zip(shown, shown[1:], strict=False):
        again = _shown_again(before, cue)
        grows = _grows(before, cue)
        repeated += bool(again or grows)
        adding += 0 < again < len(cue.lines)
        growing += grows
    timed = any(_WORD_TIME.search(line) for cue in shown for line in cue.lines)
    return 2 * repeated >= len(shown) - 1 and (
        adding > 0 or growing > (0 if timed else 1)
    )


def _without_shown(cues: Sequence[Cue]) -> Iterator[Cue]:
    """Yield cues without the words that the one before has shown."""
    before: Cue | None = None
    for cue in cues:
        if not cue.words:
            continue
        again = _shown_again(before, cue) if before else 0
        if before and not again and _grows(before, cue):
            rest = " ".join(cue.words[len(before.words) :])
            yield replace(cue, lines=(html.escape(rest, quote=False),))
        elif again < len(cue.lines):
            yield replace(cue, lines=cue.lines[again:])
        before = cue


def _by_speaker(
    cues: Sequence[Cue], path: Path
) -> Iterator[tuple[str, str, Span | None]]:
    """Yield who speaks ("" if nobody is named), the text, and its time."""
    # Names are looked for before entities are resolved, so that words can be written
    # which look like one.
    texts = [_without_markup("\n".join(cue.lines)) for cue in cues]
    voiced = any(_VOICE.search(line) for cue in cues for line in cue.lines)
    bracketed = any(map(_BRACKETED.match, texts))
    names = set() if voiced or bracketed else _names_of(texts, path)
    for cue, text in zip(cues, texts, strict=True):
        if voiced:
            found = list(_voices(cue))
        elif bracketed:
            found = _split_lines(text, _BRACKETED, None)
        elif names:
            found = _split_lines(text, _NAMED, names)
        else:
            found = [("", html.unescape(text))]
        for name, said in found:
            if said.split() or len(found) == 1:
                yield name, said, cue.span


def _voices(cue: Cue) -> Iterator[tuple[str, str]]:
    """Yield VTT's voices of a cue, and what each says; "" before the first and after
    the end of one.
    """
    text, name, begin = "\n".join(cue.lines), "", 0
    for found in _VOICE.finditer(text):
        if plain_text(text[begin : found.start()]).strip():
            yield name, plain_text(text[begin : found.start()])
        name = html.unescape(found[1] or "").strip()
        begin = found.end()
    if plain_text(text[begin:]).strip() or begin == 0:
        yield name, plain_text(text[begin:])


def _names_of(texts: Sequence[str], path: Path) -> set[str]:
    """Return the names that cues begin with, if all do.

    A single cue that begins with a word and a colon may be a sentence: its name must
    have a numeral, or several words, all with capitals.
    """
    found = [_NAMED.match(text) for text in texts if text.strip()]
    names = Counter(match[1] for match in found if match)
    if len(found) != names.total():
        recurring = [name for name, count in names.items() if count > 1]
        if recurring:
            warn(
                f"{path}: {names[recurring[0]]} cues begin with `{recurring[0]}:`, "
                "but others name nobody: taken as words"
            )
        return set()
    if len(found) == 1:
        (name,) = names
        sure = bool(re.search(r"[\d_]", name)) or (" " in name and _has_capitals(name))
        return {name} if sure else set()
    likely = all(
        " " not in name or _has_capitals(name) or count > 1
        for name, count in names.items()
    )
    return set(names) if likely else set()


def _has_capitals(name: str) -> bool:
    return all(word[0].isupper() or not word[0].isalpha() for word in name.split())


def _split_lines(
    text: str, pattern: re.Pattern[str], names: set[str] | None
) -> list[tuple[str, str]]:
    """Split a text at the lines that begin with a name, one of ``names`` if given."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in text.split("\n"):
        found = pattern.match(line + " ")
        if found and (names is None or found[1] in names):
            parts.append((html.unescape(found[1]).strip(), []))
            line = line[found.end() :]
        parts[-1][1].append(html.unescape(line))
    return [(name, "\n".join(said)) for name, said in parts if said]


def escape_srt(text: str) -> str:
    """Write a text so that nothing of it is taken for markup, a time or an entity.

    Most players show SRT as it is, so only what would be misread is escaped.

    >>> escape_srt("the <unk> of AT&T <i> --> {\\\\an8}")
    'the <unk> of AT&T &lt;i> --&gt; &#123;\\\\an8}'
    """
    if html.unescape(text) != text:
        text = text.replace("&", "&amp;")
    text = text.replace("->", "-&gt;")
    pattern = re.compile(f"{_MARKUP.pattern}|{_BREAK.pattern}", re.IGNORECASE)
    while pattern.search(text):
        text = pattern.sub(
            lambda found: found[0].replace("<", "&lt;").replace("{", "&#123;"), text
        )
    return text


def escape_vtt(text: str) -> str:
    """Write a text as VTT has it, with entities for what is markup there or here."""
    return html.escape(text, quote=False).replace("{\\", "&#123;\\")


def escape_names(texts: Sequence[str]) -> list[str]:
    """Escape what would be read as names at the beginnings of texts in which nobody is
    named.
    """
    all_named = all(_NAMED.match(text + " ") for text in texts)
    return [
        escape_bracket(text.replace(":", "&#58;") if all_named else text)
        for text in texts
    ]


def escape_bracket(text: str) -> str:
    """Escape a bracket that begins a line and would be read as that of a name.

    >>> escape_bracket("[ann]: hello"), escape_bracket("[noise] hello")
    ('&#91;ann]: hello', '[noise] hello')
    """
    return text.replace("[", "&#91;", 1) if _BRACKETED.match(text + " ") else text
