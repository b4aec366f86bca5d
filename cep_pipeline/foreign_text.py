"""Text from data or configuration, made harmless for what shows it: terminals, pages, charts, spreadsheets, messages.

Whatever shows such text calls one of these functions: commands for all that they print (`cli/terminal.py`), the pages
of Airflow for each value in them. A message about it is no longer than a person reads: errors shorten their own text
(`errors.py`), and `listed` names the first of many names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from html import escape
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed, those of 8 bits too
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"  # marks without a width of their own
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # zero width, line ends, order of writing
    "\ud800-\udfff"  # bytes of file names that are no UTF-8
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters of Unicode that are seen by what they do: control, format, surrogates, separators of lines."""


def visible(text: str) -> str:
    r"""Write each character that a reader would not see as Python writes it: nothing of a text controls what shows it.

    Line feeds and tabs stay: texts of several lines are shown as such.

    Examples
    --------
    >>> visible("\x1b]0;title\x07 abc\u202egpj.exe")
    '\\x1b]0;title\\x07 abc\\u202egpj.exe'
    >>> visible("[/b] café: nothing to hide")
    '[/b] café: nothing to hide'
    """
    return text if text.isprintable() else _INVISIBLE.sub(lambda found: repr(found[0])[1:-1], text)


def shortened(text: str, most: int = 200) -> str:
    """Return a text without its middle where it has more than so many characters (60 or more).

    Examples
    --------
    >>> shortened("x" * 50 + "y" * 5_000_000, 80)
    'xxxxxxxxxxxxxxxx … (5,000,018 characters left out) … yyyyyyyyyyyyyyyy'
    >>> shortened(shortened("x" * 300)) == shortened("x" * 300)
    True
    """
    side = (most - _SAID_BETWEEN) // 2
    left_out = len(text) - 2 * side
    return text if len(text) <= most else f"{text[:side]} … ({left_out:,} characters left out) … {text[-side:]}"


_SAID_BETWEEN = 48
"""Characters between the two sides of a shortened text, at most."""


def shortened_message(text: str) -> str:
    """Return a message as a person reads it: a long value within it without its middle, and no more than some pages.

    Examples
    --------
    >>> len(shortened_message(f"column {'x' * 20_000_000!r} is missing; there are: {'a, ' * 1_000_000}name it"))
    9989
    """
    if len(text) <= _LONGEST_WORD:
        return text
    return shortened(_LONG_WORD.sub(lambda found: shortened(found[0]), text), _LONGEST_MESSAGE)


_LONGEST_WORD, _LONGEST_MESSAGE = 1_000, 10_000
_LONG_WORD = re.compile(rf"\S{{{_LONGEST_WORD},}}")


def listed(names: Collection[object]) -> str:
    """Return names for a message, of many the first ones and how many more there are.

    Examples
    --------
    >>> listed(["a", "b"]), listed(range(1_000_000)).endswith(", 18, 19 … and 999,980 more")
    ('a, b', True)
    """
    shown = ", ".join(shortened(str(name)) for name in islice(names, _MOST_LISTED))
    return shown if len(names) <= _MOST_LISTED else f"{shown} … and {len(names) - _MOST_LISTED:,} more"


_MOST_LISTED = 20


def grouped(number: int) -> str:
    """The digits of an integer of any size in groups of three; Python itself spells no more than 4,300 digits.

    Examples
    --------
    >>> grouped(2**60), len(grouped(2**100_000))
    ('1,152,921,504,606,846,976', 40137)
    """
    from decimal import Decimal

    return f"{Decimal(number):,}"


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return `; did you mean 'price'?`, or nothing where no choice is near the word or they are too many to compare."""
    names = list(choices)
    if len(word) > _LONGEST_COMPARED or len(names) > _MOST_COMPARED:
        return ""
    by_upper = {name.upper(): name for name in reversed(names)}
    near = get_close_matches(word, names, n=1) or get_close_matches(word.upper(), by_upper, n=1)
    return f"; did you mean {shortened(by_upper.get(near[0], near[0]))!r}?" if near else ""


_LONGEST_COMPARED, _MOST_COMPARED = 200, 10_000


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> str:
    """Write a table in HTML, for a notebook, in which no value is taken for HTML.

    Examples
    --------
    >>> html_table(["pattern"], [["<b>"], [None]])
    '<table><thead><tr><th>pattern</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr><tr><td></td></tr></tbody></table>'
    """

    def cells(tag: str, values: Iterable[object]) -> str:
        texts = ("" if value is None else escape(visible(shortened(str(value), MOST_IN_CELL))) for value in values)
        return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"

    caption = f"<caption>{escape(visible(title))}</caption>" if title else ""
    body = "".join(cells("td", row) for row in rows)
    return f"<table>{caption}<thead>{cells('th', columns)}</thead><tbody>{body}</tbody></table>"


_FORMULA = r"^'*[=+\-@＝＋－＠\t\r\n](?s:.)"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


MOST_IN_CELL = 2_000
"""Characters that a cell of a table shows."""


def without_formulas(column: pa.Array) -> pa.Array:
    """Keep spreadsheets from reading text as a formula: such text gets an apostrophe before it, as one would type it.

    Text that begins with `=`, `+`, `-`, `@`, a tab or a line end is a formula to a spreadsheet, or becomes one; numbers
    and single characters are not. Text that begins so behind apostrophes gets one more: whoever removes the first
    apostrophe of each text that begins so has what there was. Only a column of text is changed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> without_formulas(pa.array(["=1+1", "-5", "-", "a=b", "'=1", "'s", None])).to_pylist()
    ["'=1+1", '-5', '-', 'a=b', "''=1", "'s", None]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        values = without_formulas(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, values, ordered=column.type.ordered)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    formulas = pc.match_substring_regex(column, _FORMULA)
    if not pc.any(formulas).as_py():
        return column
    formulas = pc.and_not(formulas, pc.match_substring_regex(column, _NUMBER))
    marked = pc.binary_join_element_wise(pa.scalar("'", column.type), column, pa.scalar("", column.type))
    return pc.if_else(formulas, marked, column)
