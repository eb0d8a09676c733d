"""Read SRT and VTT as what was said, once, by whom, and escape what is written.

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
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from espnet_ext.errors import InputError, warn
from espnet_ext.kaldi.tables import read_text
from espnet_ext.text.words import Segment, Span

TOUCHING = 0.05  # seconds between two cues of which one shows the other's words again
_HIGHLIGHT_GAP = 2.0  # seconds between two cues of which a highlight moves on
# VTT may leave out the hours, and has a dot where SRT has a comma. A minus is taken in,
# so that such a cue is found and reported.
_CLOCK = r"-?\d+:-?\d+(?::-?\d+)?(?:[.,]\d*)?"
_TIMING = re.compile(rf"\s*({_CLOCK})\s*-{{1,3}}>\s*({_CLOCK})(?:\s.*)?")
# What was meant for one: a clock and an arrow, or any arrow between numerals.
_TIMING_BEGINS = re.compile(rf"\s*{_CLOCK}\s*-{{1,3}}>")
_TIMING_LIKE = re.compile(r"[^\w→>]*\d[\d\s:;.,]*[-=–—]*(?:→|>)[^\w→>]*\d[\d\s:;.,]*")
# Only what players take for markup: others in angle brackets are words, such as <unk>.
_STYLE = re.compile(
    r"</?(?:(?:[biusc]|ruby|rt)(?:\.[^<>\s]*)?(?:\s[^<>]*=[^<>]*|\s*)"
    r"|(?:lang|font|span)(?:[.\s][^<>]*)?)/?>",
    re.IGNORECASE,
)
_MARKUP = re.compile(
    rf"{_STYLE.pattern}|</?v(?:[.\s][^<>]*)?>|<\d[\d:.,]*>|\{{\\[^{{}}]*\}}",
    re.IGNORECASE,
)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_READ_AS_MARKUP = re.compile(f"{_MARKUP.pattern}|{_BREAK.pattern}", re.IGNORECASE)
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]*)>|</v>", re.IGNORECASE)
_WORD_TIME = re.compile(r"<\d[\d:.,]*>")
_BLOCK = re.compile(r"(NOTE|STYLE|REGION)(\s|$)")  # of VTT, without words
# A name has up to four words before its colon: longer ones are sentences.
_BRACKETED = re.compile(r"\s*\[([^\[\]]+)\]:\s*|\s*\[(SPEAKER_\d+)\]\s+")
_NAMED = re.compile(r"\s*([^\s:]+(?: [^\s:]+){0,3}):\s+")


Turn = tuple[str, str]  # who speaks, "" if nobody is named, and the text


@dataclass(frozen=True)
class Cue:
    """What is shown at a time: lines with their markup, and the span in seconds.

    The span is None if the file's times are none, as of an end before its start.
    """

    lines: tuple[str, ...]
    span: Span | None

    @property
    def text(self) -> str:
        """The lines in one, with their markup."""
        return "\n".join(self.lines)

    @property
    def plain(self) -> tuple[tuple[str, ...], ...]:
        """The words of each line."""
        return tuple(tuple(strip_markup(line).split()) for line in self.lines)

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
    name = path.name.removesuffix(".gz")
    recording = Path(name).stem
    cues = list(_parse_cues(read_text(path), path))
    # Highlights first: their cues, which repeat all words, would pass for rolling ones.
    read = _join_highlights(cues)
    if len(read) < len(cues):
        warn(f"{path}: a highlight moves through its cues: each is read once")
    if _are_rolling(read):
        warn(f"{path}: rolling captions: lines that are shown again are read once")
        read = list(_drop_repeated_lines(read))
    for speaker, text, span in _split_by_speaker(read, path):
        words = tuple(text.split())
        start, end = span or (0.0, math.inf)
        yield Segment(recording, speaker, words, start, end)


def is_timing(line: str) -> bool:
    """Return whether a line has the times of a cue."""
    return _TIMING.fullmatch(line) is not None


def strip_markup(text: str) -> str:
    """Strip a text of its markup, and resolve its entities.

    >>> strip_markup("<i>the</i> <unk> cat &amp; {\\\\an8}dog")
    'the <unk> cat & dog'
    """
    return html.unescape(_strip_tags(text))


def _strip_tags(text: str) -> str:
    # A line break separates words; other tags may stand within one.
    return _MARKUP.sub("", _BREAK.sub(" ", text))


def _parse_cues(text: str, path: Path) -> Iterator[Cue]:
    """Yield the cues of a file, and warn of times that are none."""
    # Not splitlines(): vertical tabs and the like belong to the text.
    lines = re.split(r"\r*\n|\r", text)
    _require_timings(lines, path)
    starts = [place for place, line in enumerate(lines) if is_timing(line)]
    if not starts:
        raise InputError(
            f"{path}: it holds no cue `00:00:01,000 --> 00:00:02,000`: is it subtitles?"
        )
    if lines[0].strip().isdecimal() and all(not lines[at - 1].strip() for at in starts):
        # An empty line after each line, even after a cue's number: none of them parts.
        lines = [line for line in lines if line.strip()]
        starts = [place for place, line in enumerate(lines) if is_timing(line)]
    ends = _find_ends_of_cues(lines, starts)
    is_vtt = lines[0].startswith("WEBVTT")
    wrong: list[str] = []
    for place, end in zip(starts, ends, strict=True):
        body = lines[place + 1 : end]
        # VTT ends a cue at an empty line; the text of a cue of SRT may hold one.
        if is_vtt and "" in body:
            blank = body.index("")
            _warn_of_rest(body[blank:], place + 2 + blank, path)
            body = body[:blank]
        span = _parse_span(lines[place])
        if span is None:
            wrong.append(f"line {place + 1}: {lines[place].strip()}")
        text_lines = tuple(line for line in body if line.strip())
        yield Cue(text_lines, span)
    if wrong:
        warn(
            f"{path}: {wrong[0]}: no time span ({len(wrong)} such cues): their words "
            "have no times"
        )


def _require_timings(lines: Sequence[str], path: Path) -> None:
    """Raise InputError at a line that begins as a cue's times and is none.

    Taken as words, it would be scored, and so would all of its cue with the cue before.
    """
    for number, line in enumerate(lines, start=1):
        before = lines[number - 2].strip() if number > 1 else ""
        if _looks_like_timing(line, before) and not is_timing(line):
            raise InputError(
                f"{path}: line {number} is not `00:00:01,000 --> 00:00:02,000`: fix it"
            )


def _looks_like_timing(line: str, before: str) -> bool:
    """Return whether a line was meant for a cue's times, by it and the one above."""
    if _TIMING_BEGINS.match(line):
        return True
    between = _TIMING_LIKE.fullmatch(line) is not None
    return between and (":" in line or before.isdecimal())


class _Head(NamedTuple):
    """A line of times: its place, and what is above."""

    place: int
    above: str
    after_blank: bool  # whether the line above follows an empty one


def _make_head(lines: Sequence[str], place: int) -> _Head:
    above = lines[place - 1].strip() if place > 0 else ""
    after_blank = place > 1 and not lines[place - 2].strip()
    return _Head(place, above, after_blank)


def _find_ends_of_cues(lines: Sequence[str], starts: Sequence[int]) -> list[int]:
    """Find the place after each cue's last line, before the next one's identifier.

    A numeral before the times of a cue is its number if cues are numbered, and if there
    is an empty line before it, or it follows the number before, or no number has an
    empty line before it. Otherwise it is the last word of the cue before.
    """
    first, *others = (_make_head(lines, place) for place in starts)
    is_vtt = lines[0].startswith("WEBVTT")
    numbered = first.above.isdecimal()
    number = int(first.above) if numbered else 0
    # In a file without empty lines between cues none can tell numbers from words.
    tight = not any(head.after_blank for head in others)
    ends = []
    for head in others:
        numeral = head.above.isdecimal()
        follows = numeral and int(head.above) == number + 1
        is_number = numeral and numbered and (head.after_blank or follows or tight)
        # Only VTT has identifiers that are no numerals.
        is_identifier = is_vtt and head.after_blank and head.above != ""
        if not is_number and not is_identifier:
            ends.append(head.place)
            continue
        if numeral:
            number = int(head.above)
        ends.append(head.place - 1)
    ends.append(len(lines))
    return ends


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


def _parse_span(line: str) -> Span | None:
    """Read a line of times; None if one is negative, or the end before the start."""
    found = _TIMING.fullmatch(line)
    if found is None or "-" in found[1] or "-" in found[2]:
        return None
    start = _parse_clock(found[1])
    end = _parse_clock(found[2])
    return (start, end) if start <= end else None


def _parse_clock(clock: str) -> float:
    """Return the seconds of ``[hours:]minutes:seconds``."""
    seconds = 0.0
    for part in clock.replace(",", ".").split(":"):
        seconds = 60 * seconds + float(part)
    return seconds


def _join_highlights(cues: Sequence[Cue]) -> list[Cue]:
    """Join cues of the same words, of which each marks another: they are said once."""
    joined: list[Cue] = []
    reached: int | None = None  # how many words there are up to the mark
    for cue in cues:
        mark = _count_words_to_mark(cue)
        if joined and _highlight_moves(joined[-1], cue, reached, mark):
            span = _join_spans(joined[-1].span, cue.span)
            joined[-1] = replace(joined[-1], span=span)
            if mark is not None:
                reached = mark
        else:
            joined.append(cue)
            reached = mark
    return joined


def _highlight_moves(
    before: Cue, cue: Cue, reached: int | None, mark: int | None
) -> bool:
    """Return whether a cue has the words of the one before, with its mark further on.

    ``reached`` and ``mark`` are the numbers of words up to either's mark, None if it
    has none.
    """
    if not cue.words or before.words != cue.words:
        return False
    if reached is None and mark is None:
        return False
    if _are_apart(before, cue, _HIGHLIGHT_GAP):
        return False
    if reached is None:
        return True
    if mark is None:
        # After the last word nothing moves on: the same words are said again.
        return reached < len(cue.words)
    return mark > reached


def _count_words_to_mark(cue: Cue) -> int | None:
    """Count the words up to the end of what is marked; None if it is all or nothing."""
    text = cue.text
    tags = list(_STYLE.finditer(text))
    if not tags:
        return None
    # From the first tag to the last, whatever is nested in between.
    begin = tags[0].start()
    end = tags[-1].start()
    before = _count_words(text[:begin])
    up_to = _count_words(text[:end])
    if before == 0 and up_to == len(cue.words):
        return None
    return up_to


def _count_words(text: str) -> int:
    return len(strip_markup(text).split())


def _join_spans(first: Span | None, second: Span | None) -> Span | None:
    if first is None or second is None:
        return None
    return first[0], second[1]


def _are_apart(before: Cue, cue: Cue, seconds: float) -> bool:
    """Return whether there is more time than that between two cues; no if not known."""
    if before.span is None or cue.span is None:
        return False
    return cue.span[0] - before.span[1] > seconds


def _may_show_again(before: Cue, cue: Cue) -> bool:
    """Return whether a cue follows at once, and nobody else speaks in it."""
    spoken = _list_voices(before)
    speaking = _list_voices(cue)
    if spoken and speaking and spoken != speaking:
        return False
    return not _are_apart(before, cue, TOUCHING)


def _list_voices(cue: Cue) -> set[str]:
    return set(_VOICE.findall(cue.text)) - {""}  # "" is the end of one


def _count_repeated_lines(before: Cue, cue: Cue) -> int:
    """Count the lines at the end of a cue that are the first ones of the next."""
    if not _may_show_again(before, cue):
        return 0
    last = before.plain
    first = cue.plain
    # The most first: a line that comes twice would fit with fewer.
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
    """Return whether cues show again what was shown before: nobody repeats so much.

    Half of the cues must do so. One must add a line to those that it shows again; or
    two must grow by words, or one of a file with times of words.
    """
    shown = [cue for cue in cues if cue.words]
    repeating = 0
    adding = 0
    growing = 0
    for before, cue in pairwise(shown):
        again = _count_repeated_lines(before, cue)
        grows = _grows(before, cue)
        repeating += again > 0 or grows
        adding += 0 < again < len(cue.lines)
        growing += grows
    # Of n cues there are n - 1 pairs.
    if 2 * repeating < len(shown) - 1:
        return False
    timed = any(_WORD_TIME.search(cue.text) for cue in shown)
    # One pair that grows may be someone who starts again ("I" and "I think").
    needed = 1 if timed else 2
    return adding > 0 or growing >= needed


def _drop_repeated_lines(cues: Sequence[Cue]) -> Iterator[Cue]:
    """Yield cues without the words that the one before has shown."""
    before: Cue | None = None
    for cue in cues:
        if not cue.words:
            continue
        again = _count_repeated_lines(before, cue) if before else 0
        if before and not again and _grows(before, cue):
            added = cue.words[len(before.words) :]
            # The words are plain, and a cue's lines are markup.
            line = html.escape(" ".join(added), quote=False)
            yield replace(cue, lines=(line,))
        elif again < len(cue.lines):
            yield replace(cue, lines=cue.lines[again:])
        before = cue


def _split_by_speaker(
    cues: Sequence[Cue], path: Path
) -> Iterator[tuple[str, str, Span | None]]:
    """Yield who speaks ("" if nobody is named), the text, and its time."""
    # Names are looked for before entities are resolved, so that words can be written
    # which look like one.
    texts = [_strip_tags(cue.text) for cue in cues]
    voiced = any(_has_voice(cue) for cue in cues)
    bracketed = any(map(_BRACKETED.match, texts))
    names = set() if voiced or bracketed else _find_names(texts, path)
    for cue, text in zip(cues, texts, strict=True):
        if voiced:
            turns = list(_split_voices(cue))
        elif bracketed:
            turns = _split_lines(text, _BRACKETED, None)
        elif names:
            turns = _split_lines(text, _NAMED, names)
        else:
            turns = [("", html.unescape(text))]
        for speaker, said in turns:
            # A cue without a word stays, as a time in which nobody speaks.
            if said.split() or len(turns) == 1:
                yield speaker, said, cue.span


def _has_voice(cue: Cue) -> bool:
    return any(_VOICE.search(line) for line in cue.lines)


def _split_voices(cue: Cue) -> Iterator[Turn]:
    """Yield VTT's voices of a cue, "" for what is outside of them, and what each says.

    A cue without a word gives one empty text.
    """
    text = cue.text
    name = ""
    begin = 0
    for found in _VOICE.finditer(text):
        said = strip_markup(text[begin : found.start()])
        if said.strip():
            yield name, said
        name = " ".join(html.unescape(found[1] or "").split())
        begin = found.end()
    said = strip_markup(text[begin:])
    if said.strip() or begin == 0:
        yield name, said


def _find_names(texts: Sequence[str], path: Path) -> set[str]:
    """Find the names that cues begin with, if all do.

    A single cue that begins with a word and a colon may be a sentence: its name must
    have a numeral, or several words, all with capitals.
    """
    found = [_NAMED.match(text) for text in texts if text.strip()]
    names = Counter(match[1] for match in found if match)
    if len(found) != names.total():
        recurring = next((name for name, count in names.items() if count > 1), None)
        if recurring is not None:
            warn(
                f"{path}: {names[recurring]} cues begin with `{recurring}:`, "
                "but others name nobody: taken as words"
            )
        return set()
    if len(found) == 1:
        (name,) = names
        has_number = re.search(r"[\d_]", name) is not None
        several_words = " " in name
        if not has_number and not (several_words and _has_capitals(name)):
            return set()
    for name, count in names.items():
        if " " in name and count == 1 and not _has_capitals(name):
            return set()
    if names:  # or sentences that all begin so, of which words would be missed
        warn(
            f"{path}: all cues begin with a name, as `{min(names)}:`: taken as speakers"
        )
    return set(names)


def _has_capitals(name: str) -> bool:
    """Return whether all words begin with a capital, or with what has none."""
    initials = [word[0] for word in name.split()]
    return all(letter.isupper() or not letter.isalpha() for letter in initials)


def _split_lines(
    text: str, pattern: re.Pattern[str], names: set[str] | None
) -> list[Turn]:
    """Split a text at the lines that begin with a name, one of ``names`` if given."""
    turns: list[Turn] = []
    speaker = ""
    said: list[str] = []
    for line in text.split("\n"):
        found = pattern.match(line + " ")
        if found and (names is None or found[1] in names):
            if said:
                turns.append((speaker, "\n".join(said)))
            speaker = html.unescape(found[found.lastindex or 1]).strip()
            said = []
            line = line[found.end() :]
        said.append(html.unescape(line))
    turns.append((speaker, "\n".join(said)))
    return turns


def escape_srt(text: str) -> str:
    """Write a text so that nothing of it is taken for markup, a time or an entity.

    Most players show SRT as it is, so only what would be misread is escaped.

    >>> escape_srt("the <unk> of AT&T <i> --> {\\\\an8}")
    'the <unk> of AT&T &lt;i> --&gt; &#123;\\\\an8}'
    """
    if html.unescape(text) != text:
        text = text.replace("&", "&amp;")
    text = text.replace("->", "-&gt;")
    # Again, as an escaped tag may leave another around it: the first of `<b <i>>`.
    while _READ_AS_MARKUP.search(text):
        text = _READ_AS_MARKUP.sub(_escape_brackets, text)
    return text


def _escape_brackets(found: re.Match[str]) -> str:
    return found[0].replace("<", "&lt;").replace("{", "&#123;")


def escape_vtt(text: str) -> str:
    """Write a text as VTT has it, with entities for what is markup there or here."""
    return html.escape(text, quote=False).replace("{\\", "&#123;\\")


def escape_names(texts: Sequence[str]) -> list[str]:
    """Escape what would be read as names in texts in which nobody is named."""
    # A colon is read as one after a name only if all cues have one (_find_names). The
    # blank stands for the end of a line, which a name may be alone in.
    if all(_NAMED.match(text + " ") for text in texts):
        texts = [text.replace(":", "&#58;") for text in texts]
    return [escape_bracket(text) for text in texts]


def escape_bracket(text: str) -> str:
    """Escape a bracket that begins a line and would be read as that of a name.

    >>> escape_bracket("[ann]: hello"), escape_bracket("[noise] hello")
    ('&#91;ann]: hello', '[noise] hello')
    """
    return text.replace("[", "&#91;", 1) if _BRACKETED.match(text + " ") else text
