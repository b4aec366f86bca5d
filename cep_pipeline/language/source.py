"""`SourceText`: the text being parsed, and errors that show their place in it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property

from cep_pipeline.errors import PatternError
from cep_pipeline.foreign_text import did_you_mean
from cep_pipeline.patterns.expressions import Span

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
        return f"  {before}{_printable(whole[left:right])}{after}\n  {' ' * len(before)}{blank}{carets}"

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


def _printable(line: str) -> str:
    return "".join(character if character.isprintable() or character == "\t" else "?" for character in line)
