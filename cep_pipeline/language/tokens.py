"""The text being parsed, with errors that show their place in it; its tokens, and the cursor that reads them.

Lengths of time such as `5 min`, TIMESTAMP 'text' and TIME 'text' stand at the end. All become whole microseconds. Every
function of them raises `NoTime` with the reason for a text that is none; the parser knows its place.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone
from enum import Enum
from fractions import Fraction
from functools import cached_property
from zoneinfo import ZoneInfo

from cep_pipeline.errors import PatternError
from cep_pipeline.foreign_text import did_you_mean
from cep_pipeline.patterns.expressions import Span
from cep_pipeline.patterns.pattern import UNIT_WORDS_US

EXCERPT_WIDTH = 100
"""Longest part of a line that an excerpt shows; a longer line is cut around the place."""


class PatternWarning(UserWarning):
    """Something in a pattern that runs, but cannot be what was meant."""


class SourceText:
    """Text with a name, which turns offsets into lines, columns and underlined excerpts.

    Examples
    --------
    >>> text = SourceText("PATTERN SEQ(A a, B a)", "rise.sase")
    >>> print(text.error("duplicate variable 'a'", Span(19, 20)))
    rise.sase:1:20: duplicate variable 'a'
      PATTERN SEQ(A a, B a)
                         ^
    """

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(offset + 1 for offset, character in enumerate(self.text) if character == "\n")]

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def excerpt(self, span: Span) -> str:
        """The line on which `span` begins, with the part of the span on that line underlined."""
        line, column = self.place(span.start)
        line_start = self._line_starts[line - 1]
        line_end = self.text.find("\n", line_start)
        whole = self.text[line_start : len(self.text) if line_end < 0 else line_end].rstrip("\r")
        first = column - 1
        last = max(first + 1, min(span.end - line_start, len(whole)))
        left = max(0, first - EXCERPT_WIDTH // 2) if len(whole) > EXCERPT_WIDTH else 0
        right = min(len(whole), left + EXCERPT_WIDTH)
        before, after = ("…" if left else ""), ("…" if right < len(whole) else "")
        # A tab is as wide under the line as in it.
        blank = "".join("\t" if character == "\t" else " " for character in whole[left:first])
        carets = "^" * max(1, min(last, right) - first)
        shown = "".join(one if one.isprintable() or one == "\t" else "?" for one in whole[left:right])
        return f"  {before}{shown}{after}\n  {' ' * len(before)}{blank}{carets}"

    def error(self, message: str, span: Span) -> PatternError:
        """The error that refuses the statement for what stands at `span`."""
        line, column = self.place(span.start)
        return PatternError(message, source=self.name, line=line, column=column, excerpt=self.excerpt(span))

    def warning(self, message: str, span: Span) -> PatternWarning:
        """A warning about what stands at `span`, in the form of an error."""
        line, column = self.place(span.start)
        return PatternWarning(f"{self.name}:{line}:{column}: {message}\n{self.excerpt(span)}")


def together(errors: Sequence[PatternError]) -> PatternError:
    """The first of several errors, which shows the others too."""
    first, *others = errors
    return PatternError(
        first.message,
        source=first.source,
        line=first.line,
        column=first.column,
        excerpt=first.excerpt,
        others=others,
    )


def did_you_mean_of(word: str, choices: Iterable[str]) -> str:
    """`did_you_mean`, or `; there are: …` where no choice is near the word and they are few."""
    names = list(choices)
    return did_you_mean(word, names) or (f"; there are: {', '.join(names)}" if len(names) <= MOST_LISTED else "")


MOST_LISTED = 20
"""Choices that an error lists."""


# fmt: off
RESERVED = frozenset({
    "NAME", "PATTERN", "WHERE", "WITHIN", "PARTITION", "BY", "TIES", "OUTPUT", "CONSUME", "RETURN",
    "SEQ", "AND", "OR", "NOT", "KL", "IN", "BETWEEN", "AS", "TRUE", "FALSE",
})
# fmt: on
"""Words that are no type or variable names (unless a type is quoted)."""


class Kind(Enum):
    """Lexical class of a token; the value is its name in messages."""

    WORD = "name"
    NUMBER = "number"
    STRING = "string"
    QUOTED = "quoted name"
    PARAMETER = "parameter"
    SYMBOL = "symbol"
    END = "end of text"


@dataclass(frozen=True, slots=True)
class Token:
    """A token: `text` as written, `value` without quotes or `$`; `word` is upper case for an ASCII word, else empty."""

    kind: Kind
    text: str
    value: str
    word: str
    span: Span

    @property
    def is_reserved(self) -> bool:
        return self.word in RESERVED

    def __str__(self) -> str:
        return "the end of the text" if self.kind is Kind.END else repr(self.text)


_TOKEN = re.compile(
    r"""
      (?P<blank>   [\s\ufeff]+ | --[^\n]* | /\*.*?\*/ )
    | (?P<open>    /\* )
    | (?P<word>    [^\W\d]\w* )
    | (?P<number>  (?: [0-9]+ (?: \.[0-9]+ )? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
    | (?P<string>  '[^']*(?:''[^']*)*' )
    | (?P<quoted>  "[^"]*(?:""[^"]*)*" )
    | (?P<param>   \$[^\W\d]\w* )
    | (?P<symbol>  \.\. | == | != | <> | <= | >= | [(){}\[\],;.+\-*/%=<>~|?] )
    | (?P<sign>    [∧∨¬∈≠≤≥] )
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {
    "word": Kind.WORD,
    "number": Kind.NUMBER,
    "string": Kind.STRING,
    "quoted": Kind.QUOTED,
    "param": Kind.PARAMETER,
    "symbol": Kind.SYMBOL,
    "sign": Kind.SYMBOL,
}
SIGNS = {"∧": "AND", "∨": "OR", "¬": "NOT", "∈": "IN", "≠": "!=", "≤": "<=", "≥": ">="}
"""Signs of the papers, and the words and symbols that they stand for."""


MAX_TEXT = 1_000_000
"""Characters of a text, as long as 5,000 patterns."""
MAX_NAME = 200
"""Characters of a name: of a pattern, a type, a variable, an attribute, a parameter."""
_MAX_TOKEN = {Kind.WORD: MAX_NAME, Kind.QUOTED: MAX_NAME, Kind.PARAMETER: MAX_NAME}


def tokenize(source: SourceText) -> list[Token]:
    """All tokens of the text, the last one of kind END; comments and blanks are left out.

    Raises
    ------
    PatternError
        A character that begins no token, a string or comment without an end, or more text than is read.
    """
    text = source.text
    if len(text) > MAX_TEXT:
        raise source.error(
            f"a text has at most {MAX_TEXT:,} characters, this one has {len(text):,}; divide the patterns among files, "
            "and give long lists as parameters ($name)",
            Span(0, 1),
        )
    tokens: list[Token] = []
    offset = 0
    while offset < len(text):
        found = _TOKEN.match(text, offset)
        if found is None or found.lastgroup == "open":
            raise _no_token(source, offset)
        group = found.lastgroup
        assert group is not None
        end = found.end()
        if group != "blank":
            kind = _KINDS[group]
            if end - offset > _MAX_TOKEN.get(kind, MAX_TEXT):
                raise source.error(
                    f"a {kind.value} has at most {_MAX_TOKEN[kind]} characters, this one has {end - offset:,}",
                    Span(offset, end),
                )
            tokens.append(_token(kind, found.group(), Span(offset, end)))
        offset = end
    end = tokens[-1].span.end if tokens else len(text)  # where something is missing, not below it
    tokens.append(Token(Kind.END, "", "", "", Span(end, end)))
    return tokens


def _token(kind: Kind, text: str, span: Span) -> Token:
    value, word = text, ""
    if kind is Kind.WORD and text.isascii():
        word = text.upper()
    elif text in SIGNS and SIGNS[text].isalpha():
        kind, word = Kind.WORD, SIGNS[text]
    elif text in SIGNS:
        text = value = SIGNS[text]
    elif kind is Kind.STRING:
        value = text[1:-1].replace("''", "'")
    elif kind is Kind.QUOTED:
        value = text[1:-1].replace('""', '"')
    elif kind is Kind.PARAMETER:
        value = text[1:]
    return Token(kind, text, value, word, span)


def _no_token(source: SourceText, offset: int) -> PatternError:
    character = source.text[offset]
    end_of_line = source.text.find("\n", offset)
    rest = Span(offset, len(source.text) if end_of_line < 0 else end_of_line)
    if character == "'":
        return source.error("this string has no end; close it with ' (a quote inside is written '')", rest)
    if character == '"':
        return source.error('this quoted name has no end; close it with "', rest)
    if source.text.startswith("/*", offset):
        return source.error("this comment has no end; close it with */", rest)
    if character == "$":
        return source.error("'$' without the name of a parameter; write $name", Span(offset, offset + 1))
    hints = {"!": "; an event that must not occur is written ~Type v or NOT(Type v)", "&": "; write AND"}
    return source.error(f"unexpected character {character!r}{hints.get(character, '')}", Span(offset, offset + 1))


class Cursor:
    """Reads tokens one after the other; every `expect` says what was seen instead."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self._tokens = tokenize(source)
        self._index = 0

    @property
    def current(self) -> Token:
        return self._tokens[self._index]

    @property
    def previous(self) -> Token:
        """The token read last."""
        return self._tokens[max(0, self._index - 1)]

    def ahead(self, distance: int) -> Token:
        """The token `distance` places after the current one (the end of the text stays the last)."""
        return self._tokens[min(self._index + distance, len(self._tokens) - 1)]

    def advance(self) -> Token:
        """Read the current token."""
        token = self.current
        self._index = min(self._index + 1, len(self._tokens) - 1)
        return token

    @property
    def index(self) -> int:
        """The number of tokens before the current one."""
        return self._index

    def depth_since(self, index: int) -> int:
        """Brackets that were opened from a token on and are still open at the current one."""
        passed = [token.text for token in self._tokens[index : self._index] if token.kind is Kind.SYMBOL]
        return sum((text in "([{") - (text in ")]}") for text in passed)

    def skip_statement(self, start: int) -> None:
        """Go on to the end of the statement that begins at a token, or to the next one where no `;` stands between."""
        if self._index > start and self.previous.text == ";":
            return
        while self.current.kind is not Kind.END and not self.at_symbol(";"):
            begins = self.at_word("NAME") and self.ahead(2).word == "PATTERN"
            if begins and self._index > start:
                return
            self.advance()

    def skip_conjunct(self, start: int, ends: Sequence[str]) -> bool:
        """Go on behind the next AND of a condition that begins at a token; False where there is none before its end.

        The condition ends at `;`, at a bracket that it did not open, and at one of the words `ends`.
        """
        depth, between = self.depth_since(start), 0
        while self.current.kind is not Kind.END and not self.at_symbol(";"):
            depth += self.at_symbol("(", "[", "{") - self.at_symbol(")", "]", "}")
            named = self.previous.text == "."
            if depth < 0 or (self.at_word(*ends) and not named):
                return False
            between += self.at_word("BETWEEN") and not named
            if depth == 0 and self.at_word("AND") and not named:
                if not between:
                    self.advance()
                    return True
                between -= 1
            self.advance()
        return False

    def at_symbol(self, *symbols: str) -> bool:
        return self.current.kind is Kind.SYMBOL and self.current.text in symbols

    def at_word(self, *words: str) -> bool:
        """True where the current token is one of the key words (given in upper case)."""
        return self.current.kind is Kind.WORD and self.current.word in words

    def accept_symbol(self, *symbols: str) -> Token | None:
        return self.advance() if self.at_symbol(*symbols) else None

    def accept_word(self, *words: str) -> Token | None:
        return self.advance() if self.at_word(*words) else None

    def expect_symbol(self, symbol: str, hint: str = "") -> Token:
        if not self.at_symbol(symbol):
            raise self.unexpected(f"'{symbol}'", hint)
        return self.advance()

    def expect_word(self, *words: str, hint: str = "") -> Token:
        if not self.at_word(*words):
            seen = self.current.text if self.current.kind is Kind.WORD else ""
            raise self.unexpected(" or ".join(words), hint or did_you_mean(seen, words))
        return self.advance()

    def expect_name(self, what: str, hint: str = "") -> Token:
        """Read a name that is no reserved word."""
        if self.current.kind is not Kind.WORD:
            raise self.unexpected(what, hint)
        if self.current.is_reserved:
            raise self.unexpected(what, f"; this word is reserved{hint}")
        return self.advance()

    def expect_attribute(self) -> Token:
        """Read the name of an attribute, which can be any word."""
        if self.current.kind is not Kind.WORD:
            raise self.unexpected("an attribute")
        return self.advance()

    def error(self, message: str, span: Span) -> PatternError:
        return self.source.error(message, span)

    def unexpected(self, expected: str, hint: str = "") -> PatternError:
        """The error for a current token that is not what it must be."""
        return self.error(f"expected {expected} but found {self.current}{hint}", self.current.span)


# -- times ------------------------------------------------------------------------------------------------------------

_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_TIME = re.compile(_CLOCK)
_TIMESTAMP = re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([ T]{_CLOCK}(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?)?")
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


class NoTime(Exception):
    """Why a text is no time; the parser adds the place and makes it a PatternError."""


def length_us(number: str, unit: str) -> Fraction:
    """Microseconds of a number, as it is written, of a unit.

    Examples
    --------
    >>> length_us("0.5", "ms"), length_us("2", "MINUTES")
    (Fraction(500, 1), Fraction(120000000, 1))
    """
    return exact(number) * UNIT_WORDS_US[unit.lower()]


def exact(number: str) -> Fraction:
    """The value of a number token; NoTime where it is too long to be a length."""
    if len(number) > 40:
        raise NoTime("this number is too long for a length of time")
    mantissa, _, exponent = number.lower().partition("e")
    if len(exponent) > 4:
        raise NoTime("the exponent of this length is out of range")
    return Fraction(f"{mantissa}e{exponent or 0}")


def time_us(text: str) -> int:
    """Microseconds since 00:00 of `TIME 'text'`.

    Examples
    --------
    >>> time_us("09:30"), time_us("00:00:01.5")
    (34200000000, 1500000)
    """
    try:
        clock = time.fromisoformat(text if _TIME.fullmatch(text) else "")
    except ValueError:
        rule = "write hh:mm, hh:mm:ss or hh:mm:ss.ffffff, from 00:00 on and before 24:00"
        raise NoTime(f"'{text}' is no time; {rule}") from None
    return (datetime.combine(_EPOCH, clock) - _EPOCH) // _MICROSECOND


def timestamp_us(text: str, zone: str) -> int:
    """Microseconds since the epoch of `TIMESTAMP 'text'`, a local time of a zone unless the text has an offset.

    Examples
    --------
    >>> timestamp_us("2013-10-07 09:30", "America/New_York") == timestamp_us("2013-10-07T13:30:00Z", "UTC")
    True
    """
    if not _TIMESTAMP.fullmatch(text):
        raise NoTime(
            f"'{text}' is no timestamp; write YYYY-MM-DD, YYYY-MM-DD hh:mm or YYYY-MM-DD hh:mm:ss.ffffff, and behind "
            "it Z or an offset such as +02:00 where it is no local time"
        )
    try:
        read = datetime.fromisoformat(text)
    except ValueError as error:
        raise NoTime(f"'{text}' is no timestamp: {error}") from None
    if read.tzinfo is not None:
        return (read - _EPOCH.replace(tzinfo=UTC)) // _MICROSECOND
    return (read - _EPOCH) // _MICROSECOND - _local_offset_us(text, read, zone)


def _local_offset_us(text: str, local: datetime, zone: str) -> int:
    """The distance from UTC of a local time; NoTime where the clock never shows it, or shows it twice."""
    at = ZoneInfo(zone)
    first, second = (local.replace(tzinfo=at, fold=fold).utcoffset() for fold in (0, 1))
    assert first is not None and second is not None
    if first < second:
        later = local + (second - first)
        raise NoTime(
            f"'{text}' does not exist in {zone}: there the clock is put forward by {second - first}; write a time that "
            f"exists, such as '{later.isoformat(' ')}'"
        )
    if first > second:
        ways = " or ".join(f"'{_with_offset(local, offset)}'" for offset in (first, second))
        raise NoTime(f"'{text}' is ambiguous in {zone}, where the clock shows it twice; add the offset: {ways}")
    return first // _MICROSECOND


def _with_offset(local: datetime, offset: timedelta) -> str:
    """A local time with its offset, or in UTC where the offset has seconds, as some had long ago."""
    if offset % timedelta(minutes=1):
        return f"{(local - offset).isoformat(' ')}Z"
    return local.replace(tzinfo=timezone(offset)).isoformat(" ")
