"""Text to values: the signs in numbers that are text, and checked casts of a column to its type.

A checked cast says which values do not fit, so that only their rows are rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.errors import InputError


def cast_checked_to(column: pa.Array, target: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """Cast a column, leaving null what does not fit; blanks around text are ignored.

    Returned are the values, null where they were null or do not fit, and a bool for each that does not fit. It is one
    vectorized cast where all values fit. Else the distinct values are halved until those that do not fit are alone, so
    the cost grows with their number and not with the column.

    Examples
    --------
    >>> values, failed = cast_checked_to(pa.array(["1", "x", None, " 3 "]), pa.int64())
    >>> values.to_pylist(), failed.tolist()
    ([1, None, None, 3], [False, True, False, False])
    """
    fits = _cast(column, target)
    if fits is not None:
        return fits, np.zeros(len(column), dtype=bool)
    if pa.types.is_nested(column.type):
        return pa.nulls(len(column), target), as_mask(pc.is_valid(column))
    encoded = pc.dictionary_encode(column)
    distinct = encoded.dictionary
    if pa.types.is_string(distinct.type) or pa.types.is_large_string(distinct.type):
        distinct = pc.utf8_trim_whitespace(distinct)
    values = pa.concat_arrays(_halve(distinct, target))
    taken = pc.take(values, encoded.indices)
    return taken, as_mask(pc.is_valid(column)) & ~as_mask(pc.is_valid(taken))


def _halve(values: pa.Array, target: pa.DataType) -> list[pa.Array]:
    """Casts of consecutive parts of the values; null where a value does not fit."""
    fits = _cast(values, target)
    if fits is not None:
        return [fits]
    if len(values) <= 1:
        return [pa.nulls(len(values), target)]
    middle = len(values) // 2
    return [*_halve(values.slice(0, middle), target), *_halve(values.slice(middle), target)]


def _cast(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    try:
        return pc.cast(column, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def as_mask(truths: pa.Array) -> np.ndarray:
    """The bools of an Arrow array without nulls."""
    return np.asarray(truths.to_numpy(zero_copy_only=False), dtype=bool)


# -- numbers that are text --------------------------------------------------------------------------------------------

_ALIKE = {one: signs for signs in (" \u00a0\u2009\u202f", "'\u2019") for one in signs}
"""Signs of thousands that a reader cannot tell apart: each stands for all of its kind."""


@dataclass(frozen=True)
class NumberSigns:
    """The signs in the numbers of a file.

    `thousands` stands between groups of three digits of a number, the first of which may be shorter and does not begin
    with 0. A number may also be without it; None: all are. A blank means every kind of blank, a no-break space too, and
    an apostrophe also the curly one. Signs that no number can have are an InputError.

    Examples
    --------
    >>> texts = pa.array(["1.250,5", "-7,25", "1e3", "12.34,5", "7.25", None])
    >>> NumberSigns(",", ".").with_point(texts).to_pylist()
    ['1250.5', '-7.25', '1e3', '', '', None]
    """

    decimal: str = "."
    thousands: str | None = None

    def __post_init__(self) -> None:
        for name, sign in (("decimal", self.decimal), ("thousands", self.thousands)):
            if sign is None:
                continue
            if len(sign) != 1 or sign.isalnum() or sign in "+-\r\n\t" or (name == "decimal" and sign.isspace()):
                raise InputError(
                    f"{sign!r} cannot be this sign of a number; it is one character, and no letter, digit, + or -"
                )
        if self.thousands is not None and self.decimal in self._alike:
            other = "." if self.decimal == "," else ","
            raise InputError(
                f"{self.thousands!r} is the decimal sign too, and the two differ; write for example "
                f"`decimal: {json.dumps(other)}` beside it"
            )

    @property
    def _alike(self) -> str:
        return "" if self.thousands is None else _ALIKE.get(self.thousands, self.thousands)

    @property
    def given(self) -> dict[str, str]:
        """The settings of `source` in a schema; none for a point alone."""
        settings = {"decimal": self.decimal, "thousands": self.thousands}
        return {name: sign for name, sign in settings.items() if sign is not None and (name, sign) != ("decimal", ".")}

    @property
    def settings(self) -> str:
        """The settings for a person, as a schema has them; empty for a point alone."""
        return ", ".join(f"{name}: {json.dumps(sign, ensure_ascii=False)}" for name, sign in self.given.items())

    @cached_property
    def form(self) -> str:
        """A regular expression for numbers that are written with these signs, and for NaN and infinity."""
        whole, point = "[0-9]+", re.escape(self.decimal)
        if self.thousands is not None:
            whole += f"|[1-9][0-9]{{0,2}}(?:[{re.escape(self._alike)}][0-9]{{3}})+"
        digits = f"(?:{whole})(?:{point}[0-9]*)?|{point}[0-9]+"
        return f"[+-]?(?:(?:{digits})(?:[eE][+-]?[0-9]+)?|(?i:nan|inf|infinity))"

    def with_point(self, column: pa.Array) -> pa.Array:
        """The numbers of a column of text with a decimal point and no other sign.

        A number with its signs at other places is empty text, which no number is. Other columns stay as they are.
        """
        if not self.given or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return column
        texts = pc.utf8_trim_whitespace(column)
        without_signs = f"[^.{re.escape(self.decimal + self._alike)}]*"
        fits = pc.match_substring_regex(texts, f"^(?:{self.form}|{without_signs})$")
        for sign in self._alike:
            texts = pc.replace_substring(texts, sign, "")
        return pc.if_else(fits, pc.replace_substring(texts, self.decimal, "."), pa.scalar("", column.type))

    def read(self, text: str) -> bool:
        """Return True if a text is a number by these signs."""
        return re.fullmatch(self.form, text.strip()) is not None

    def are_needed_by(self, text: str) -> bool:
        """Return True if a text is a number by these signs, and has all of them that make it one."""
        return (
            (self.thousands is None or any(sign in text for sign in self._alike))
            and (self.decimal in text or self.decimal == "." or self.thousands == ".")
            and self.read(text)
        )


WAYS = tuple(
    NumberSigns(decimal, thousands)
    for thousands in (None, ".", ",", " ", "'")
    for decimal in (".", ",")
    if decimal != thousands
)
"""The usual ways to write numbers, a point alone first, and the simpler ones before the others."""


def settings_for(text: str) -> str:
    """The settings of `source` that make a text a number, as a hint for a person; empty where none do.

    Examples
    --------
    >>> settings_for("230,95"), settings_for("1,234"), settings_for("n/a")
    ('`decimal: ","`', '`decimal: ","` or `thousands: ","`', '')
    """
    return " or ".join(f"`{signs.settings}`" for signs in WAYS[1:] if signs.are_needed_by(text))


@dataclass(frozen=True)
class SignsFound:
    """The signs that were found in columns of text.

    `chosen` are those of most columns, and `of` has the signs of each column whose values are numbers: those chosen, or
    its own. `example` is a number with the signs chosen, and another number by `other`, where that fits as well.
    """

    chosen: NumberSigns
    of: Mapping[str, NumberSigns] = field(default_factory=dict)
    example: str = ""
    other: NumberSigns | None = None

    @property
    def said(self) -> str:
        """A sentence on the signs for a person."""
        if self.other is None:
            return f"numbers are written such as {self.example}"
        read, also = (one.with_point(pa.array([self.example]))[0].as_py() for one in (self.chosen, self.other))
        return f"{self.example} is read as {read}; no value tells if it is {also}: that would be {self.other.settings}"


def find_signs(columns: Mapping[str, pa.Array], *, point_first: bool = False) -> SignsFound:
    """Find the signs by which the most columns are numbers, and the fewest values of these are none.

    Of several that fit as well, the simplest are taken; with `point_first` those with a decimal point before others.
    """
    texts = {name: pc.value_counts(pc.drop_null(one)) for name, one in columns.items() if pa.types.is_string(one.type)}
    strays: dict[NumberSigns, dict[str, int]] = {}
    for signs in sorted(WAYS, key=lambda one: one.decimal != ".") if point_first else WAYS:
        strays[signs] = {}
        for name, counts in texts.items():
            fits = pc.match_substring_regex(pc.utf8_trim_whitespace(counts.field("values")), f"^{signs.form}$")
            stray = pc.sum(counts.field("counts").filter(pc.invert(fits))).as_py() or 0
            if len(fits) and stray <= most_stray(pc.sum(counts.field("counts")).as_py()):
                strays[signs][name] = stray

    def fit(signs: NumberSigns) -> tuple[int, int]:
        return len(strays[signs]), -sum(strays[signs].values())

    chosen = max(strays, key=fit)
    of = {name: next((one for one in (chosen, *strays) if name in strays[one]), None) for name in texts}
    values = [text for name in strays[chosen] for text in texts[name].field("values").to_pylist() if chosen.read(text)]
    example, other = next((text for text in values if not WAYS[0].read(text)), ""), None
    for signs in strays:
        if other is None and signs != chosen and fit(signs) == fit(chosen):
            both = next((text for text in values if signs.are_needed_by(text)), None)
            example, other = (both, signs) if both is not None else (example, other)
    return SignsFound(chosen, {name: signs for name, signs in of.items() if signs is not None}, example, other)


def most_stray(values: int) -> int:
    """Return how many values of a column may be of another type: a broken row does not hide the type of the others."""
    return max(values // 100, 1) if values >= 4 else 0
