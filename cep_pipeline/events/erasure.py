"""Erasures: conditions on events that `cep forget` took away, and that no ingestion brings back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.lazy_names import late_module
from cep_pipeline.storage import digest_of, former_names

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

pc = late_module("pyarrow.compute")

_LONG_NUMBER = 4
_WORDS = re.compile(r"""'(?:[^']|'')*'|[A-Za-z_][\w$]*""")
"""The texts and the words of a condition: a name of an attribute is a word."""


@dataclass(frozen=True)
class Erasure:
    """A recorded erasure of the events for which a condition on attributes is true, as in `symbol = 'X' and price > 3`.

    Its id is the digest of the condition. `days` had been published with such events. What follows from them is stale
    until the day is done again.
    """

    erasure_id: str
    condition: str
    days: frozenset[date] = frozenset()

    @classmethod
    def of(cls, condition: str, columns: pa.Schema) -> Erasure:
        """Make the erasure of a condition.

        An InputError says that it is no condition on these columns, or names no value to look for.
        """
        made = cls(digest_of(condition)[:12], condition)
        made.filter(columns)
        if not made.values:
            raise InputError(
                f"--where {condition!r}: it compares no attribute with a value by = or in; rejected rows and "
                "statistics are searched for such values, so that one is needed"
            )
        return made

    def filter(self, columns: pa.Schema) -> pa.compute.Expression:
        """Return the condition as a filter of tables with these columns."""
        return _filter(self.condition, columns)

    def holds(self, events: pa.Table) -> np.ndarray:
        """Return for each event whether the condition is true."""
        columns = pa.schema([(field.name, _plain(field.type)) for field in events.schema])
        found = pa.table({"row": pa.array(np.arange(events.num_rows))} | {c: events.column(c) for c in columns.names})
        mask = np.zeros(events.num_rows, dtype=bool)
        mask[found.filter(self.filter(columns)).column("row").to_numpy()] = True
        return mask

    def in_terms_of(self, columns: pa.Schema) -> Erasure:
        """Return the erasure with the present names of attributes that have been renamed since."""
        now = {former: field.name for field in columns for former in former_names(field)}
        condition = _WORDS.sub(lambda word: now.get(word[0], word[0]), self.condition)
        return self if condition == self.condition else replace(self, condition=condition)

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The values that the condition compares attributes with for equality, as texts."""
        return _values(self.condition)

    def named_in(self, texts: pa.ChunkedArray | pa.Array, *, records: bool = False) -> np.ndarray:
        """Return for each text whether it names one of the values, as a word of its own.

        Small numbers, of which records of runs and statistics are full, are not looked for in `records`.
        """
        values = [value for value in self.values if not (records and value.isdigit() and len(value) < _LONG_NUMBER)]
        if not values:
            return np.zeros(len(texts), dtype=bool)
        words = r"(^|\W)(" + "|".join(re.escape(value) for value in values) + r")($|\W)"
        named = pc.fill_null(pc.match_substring_regex(texts, words), False)
        return np.asarray(named.to_numpy(zero_copy_only=False), dtype=bool)


def erased_from(erasures: Iterable[Erasure], day: date) -> tuple[str, ...]:
    """Return the ids of the erasures that took published events of a day away."""
    return tuple(sorted(erasure.erasure_id for erasure in erasures if day in erasure.days))


def drop_erased(erasures: Sequence[Erasure], events: pa.Table) -> np.ndarray:
    """Return for each event whether one of the erasures takes it away."""
    mask = np.zeros(events.num_rows, dtype=bool)
    for erasure in erasures:
        mask |= erasure.holds(events)
    return mask


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@cache
def _filter(condition: str, columns: pa.Schema) -> pa.compute.Expression:
    # PyIceberg takes a second to import; only erasures need its conditions.
    from pyiceberg.expressions.visitors import bind
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, expression_to_pyarrow
    from pyiceberg.schema import assign_fresh_schema_ids

    schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(columns))
    expression = _parsed(condition)
    try:
        return expression_to_pyarrow(bind(schema, expression, case_sensitive=True), schema)
    except (ValueError, TypeError) as error:
        missing = re.match(r"Could not find field with name ([^,\s]+)", str(error))
        said = f"events have no attribute '{missing[1]}'" if missing else str(error)
        raise InputError(
            f"--where {condition!r}: {said}; there are the attributes {', '.join(columns.names)}"
        ) from error


def _parsed(condition: str) -> BooleanExpression:
    from pyiceberg.expressions.parser import parse
    from pyparsing import ParseException

    try:
        return parse(condition)
    except (ParseException, ValueError) as error:
        raise InputError(
            f"--where {condition!r}: not a condition ({error}); write for example: symbol = 'X' and price > 3"
        ) from error


def _values(condition: str) -> tuple[str, ...]:
    from pyiceberg.expressions import And, EqualTo, In, Or, StartsWith

    found: list[str] = []
    waiting = [_parsed(condition)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, And | Or):
            waiting += [one.left, one.right]
        elif isinstance(one, EqualTo | StartsWith):
            found.append(str(one.literal.value))
        elif isinstance(one, In):
            found += [str(literal.value) for literal in one.literals]
    return tuple(sorted(set(found)))
