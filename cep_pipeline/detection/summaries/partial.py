"""Rows of SUMMARIZE while they are made: what is known of each group after some of the matches.

A `PartialSummary` takes the values of matches batch after batch, and the partial summaries of other slices and days.
The rows do not depend on how the matches were divided, nor on their order: counts and sums are exact. A sum of float64
is kept as the exact sum of its binary fractions, and is rounded once, when the rows are made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.matches import UTC_MICROSECONDS, json_objects
from cep_pipeline.events.columns import ARROW_TYPES
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.patterns.pattern import Pattern, Summary, SummaryAggregate, SummaryGroup, once_a_pattern
from cep_pipeline.patterns.summary_functions import FRACTION_BITS, Extreme, State, Total, Value, is_nan
from cep_pipeline.storage import canonical_json, decimal_text, from_decimal_text

_MONDAY_US = 946_857_600_000_000
"""2000-01-03 00:00 on a clock, as microseconds of a clock since 1970: buckets begin there."""
_AT_ONCE = 1 << 20
"""Most halves of int64 numbers whose sum float64 surely holds exactly."""
_FEW = 4
"""Numbers up to a limit are sorted where the limit is so many times as large as their number."""
_FIRST_US, _LAST_US = -62_135_596_800_000_000 + 86_400_000_000, 253_402_300_799_999_999 - 86_400_000_000
"""The times from 0001-01-02 to 9999-12-30, which have a local date in each zone."""
_FIVES = 5**FRACTION_BITS
_NAN = float("nan")


@once_a_pattern
def summary_schema(pattern: Pattern) -> pa.Schema:
    """Columns of the rows of a statement with SUMMARIZE: `pattern`, the groups, the aggregates."""
    summary = _summary_of(pattern)
    groups = (pa.field(group.name, _group_type(group)) for group in summary.groups)
    aggregates = (pa.field(one.name, _aggregate_type(one)) for one in summary.aggregates)
    return pa.schema([pa.field("pattern", pa.string()), *groups, *aggregates])


def _summary_of(pattern: Pattern) -> Summary:
    assert pattern.summary is not None, f"pattern {pattern.name!r} has no SUMMARIZE"
    return pattern.summary


def _group_type(group: SummaryGroup) -> pa.DataType:
    return UTC_MICROSECONDS if group.is_time or group.expression is None else ARROW_TYPES[group.expression.type]


def _aggregate_type(aggregate: SummaryAggregate) -> pa.DataType:
    if aggregate.is_time:
        return UTC_MICROSECONDS
    kind = aggregate.of.result(ValueType.INT64 if aggregate.expression is None else aggregate.expression.type)
    return pa.string() if kind is None else ARROW_TYPES[kind]  # text is exact at any size


def state_of(aggregate: SummaryAggregate) -> State | None:
    """The state of an aggregate over no matches; None of a number of matches."""
    return aggregate.of.state and aggregate.of.state()


@dataclass
class SummaryRow:
    """One row in the making: its matches, and a state for each aggregate but count."""

    matches: int
    states: list[State]


class PartialSummary:
    """The state of the groups of one statement after some of its matches."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self.name = pattern.name
        self._summary = _summary_of(pattern)
        self._aggregates = [one for one in self._summary.aggregates if one.expression is not None]
        self.groups: dict[tuple[Value, ...], SummaryRow] = {}
        if not self._summary.groups:
            self.group(())

    def group(self, key: tuple[Value, ...]) -> SummaryRow:
        """The group with these values, which begins without a match."""
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = SummaryRow(0, [state for one in self._aggregates if (state := state_of(one))])
        return found

    def add_matches(self, ends_us: Array, items: Sequence[pa.Array]) -> None:
        """Take some matches.

        Parameters
        ----------
        ends_us
            int64: the timestamp of the last event of each match.
        items
            The values of `Pattern.items`: an array for each.
        """
        if not len(ends_us):
            return
        columns, values = self._read(ends_us, items)
        codes, keys = group_codes(columns, len(ends_us))
        found = [self.group(key) for key in keys]
        for group, number in zip(found, _numbers(codes, len(keys)), strict=True):
            group.matches += number
        for place, (aggregate, array) in enumerate(zip(self._aggregates, values, strict=True)):
            for group, state in zip(found, _states(aggregate, codes, array, len(found)), strict=True):
                group.states[place].add(state)

    def _read(self, ends_us: Array, items: Sequence[pa.Array]) -> tuple[list[pa.Array], list[pa.Array]]:
        """The values of the groups, and those that are put together, of some matches."""
        values = iter(items)
        columns = [
            bucket_starts(ends_us, group.bucket_us, self._pattern.timezone)
            if group.bucket_us is not None
            else next(values)
            for group in self._summary.groups
        ]
        return columns, [*values]

    def add(self, other: PartialSummary) -> None:
        """Take what is known of other matches."""
        for key, one in other.groups.items():
            own = self.group(key)
            own.matches += one.matches
            for mine, new in zip(own.states, one.states, strict=True):
                mine.add(new)

    def table(self) -> pa.Table:
        """The rows, in the order of their groups."""
        keys = self._ordered()
        arrays = self._columns(keys, [self.groups[key] for key in keys])
        return pa.Table.from_arrays([pa.repeat(self.name, len(keys)), *arrays], schema=summary_schema(self._pattern))

    def _columns(self, keys: Sequence[tuple[Value, ...]], rows: Sequence[SummaryRow]) -> list[pa.Array]:
        """The columns behind the name, of groups with these values."""
        values = [[*key, *self._aggregated(row)] for key, row in zip(keys, rows, strict=True)]
        fields = list(summary_schema(self._pattern))[1:]
        columns = zip(*values, strict=True) if values else [()] * len(fields)
        return [_array(column, field.type) for column, field in zip(columns, fields, strict=True)]

    def _ordered(self) -> list[tuple[Value, ...]]:
        return sorted(self.groups, key=lambda key: [rank(value) for value in key])

    def _aggregated(self, group: SummaryRow) -> list[Value]:
        states = iter(group.states)
        return [
            one.of.value(group.matches if one.of.state is None else next(states), _is_float(one))
            for one in self._summary.aggregates
        ]

    # The form in which slices and days hand it on.

    def to_json(self) -> list[dict[str, Any]]:
        """The groups in their order, in JSON form; equal summaries have equal forms.

        Each has `groups`, its values; `matches`, their number; and `states`, by the name of each aggregate but count:
        `values`, how many were put together, with `total`, their exact sum, or the least or greatest `value`. Numbers
        that may exceed int64 or float64 are decimal text.
        """
        return [
            {
                "groups": [_to_plain(value) for value in key],
                "matches": decimal_text(self.groups[key].matches),
                "states": {
                    one.name: _state_to_plain(one, state)
                    for one, state in zip(self._aggregates, self.groups[key].states, strict=True)
                },
            }
            for key in self._ordered()
        ]

    @classmethod
    def from_json(cls, pattern: Pattern, groups: Iterable[Mapping[str, Any]]) -> PartialSummary:
        """Read what `to_json` gave."""
        made = cls(pattern)
        types = [group.expression.type if group.expression is not None else None for group in made._summary.groups]
        floats = [kind is ValueType.FLOAT64 for kind in types]
        for each in groups:
            key = tuple(_from_plain(value, is_float) for value, is_float in zip(each["groups"], floats, strict=True))
            group = made.group(key)
            group.matches += from_decimal_text(each["matches"])
            if each["states"].keys() != {one.name for one in made._aggregates}:
                raise ValueError(f"pattern {pattern.name!r} has other aggregates than {', '.join(each['states'])}")
            for one, own in zip(made._aggregates, group.states, strict=True):
                own.add(_state_from_plain(one, each["states"][one.name]))
        return made

    def add_rows(self, rows: pa.RecordBatch) -> None:
        """Take matches that stand in rows, with the values of `Pattern.items` as a JSON object in `returns`."""
        read = [json.loads(text) if text else {} for text in rows.column("returns").to_pylist()]
        items = [
            pa.array(
                [_from_plain(row[item.name], item.expression.type is ValueType.FLOAT64) for row in read],
                ARROW_TYPES[item.expression.type],
            )
            for item in self._pattern.items
        ]
        self.add_matches(rows.column("end_ts").cast(pa.int64()).to_numpy(), items)

    def published(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """The rows as the table `summaries` has them: groups, aggregates and what days are put together by, as JSON."""
        table = self.table()
        names = [group.name for group in self._summary.groups], [one.name for one in self._summary.aggregates]
        groups, aggregates = (_objects(table, own) for own in names)
        return groups, aggregates, pa.array([canonical_json(one) for one in self.to_json()], pa.string())


def _objects(table: pa.Table, names: Sequence[str]) -> pa.Array:
    if not names:
        return pa.repeat("{}", table.num_rows)
    return json_objects(names, [table.column(name).combine_chunks() for name in names])


def bucket_starts(ends_us: Array, bucket_us: int, zone: str) -> pa.Array:
    """The bucket of each end of a match: int64, the instant at which the local clock of the zone shows its beginning.

    Where a clock shows it twice that is the first instant, and where it never does the end of the gap. Null outside the
    years 1 to 9999, for which there is no local clock.

    Examples
    --------
    >>> import numpy as np
    >>> half_past_one_twice = np.array([1383456600000000, 1383460200000000])
    >>> bucket_starts(half_past_one_twice, 3_600_000_000, "America/New_York").to_pylist()
    [1383454800000000, 1383454800000000]
    """
    known = (ends_us >= _FIRST_US) & (ends_us <= _LAST_US)
    distinct, where = np.unique(np.where(known, ends_us, 0), return_inverse=True)
    local = pc.local_timestamp(pa.array(distinct).view(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone)))
    clock = local.cast(pa.int64()).to_numpy()
    cut = pa.array(clock - (clock - _MONDAY_US) % bucket_us).view(pa.timestamp("us"))
    starts = pc.assume_timezone(cut, zone, ambiguous="earliest", nonexistent="latest").cast(pa.int64())
    return starts.take(pa.array(where.reshape(-1), mask=~known))


def group_codes(columns: Sequence[pa.Array], rows: int) -> tuple[Array, list[tuple[Value, ...]]]:
    """The number of each row's group, and the values of each group that occurs, once."""
    codes, groups = np.zeros(rows, np.int64), list[tuple[list[Value], Array]]()
    numbers = np.zeros(1, np.int64)
    for column in columns:
        own, known = _codes(column)
        pairs, codes = _distinct(codes * len(known) + own, len(numbers) * len(known))
        groups = [(values, places[pairs // len(known)]) for values, places in groups]
        groups.append((known, pairs % len(known)))
        numbers = pairs
    if not groups:
        return codes, [()]
    return codes, [*zip(*([known[place] for place in places.tolist()] for known, places in groups), strict=True)]


def _distinct(numbers: Array, limit: int) -> tuple[Array, Array]:
    """The distinct ones of some numbers from 0 to a limit, and the place of each among them."""
    if limit > _FEW * len(numbers):
        distinct, places = np.unique(numbers, return_inverse=True)
        return distinct, places.reshape(-1)
    present = np.zeros(limit, bool)
    present[numbers] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[numbers]


def _codes(column: pa.Array) -> tuple[Array, list[Value]]:
    """The number of each value of a column, and the distinct values; NaN is one of them, and so is null."""
    is_float = pa.types.is_floating(column.type)
    if is_float:
        column = pc.add(column, 0.0)  # -0.0 is 0.0
    coded = column.dictionary_encode()
    values: list[Value] = coded.dictionary.to_pylist()
    indices = coded.indices
    if indices.null_count:
        indices = indices.fill_null(len(values))
        values.append(None)
    codes = indices.to_numpy().astype(np.int64)
    if not is_float:
        return codes, values
    places: dict[Value, int] = {}
    same = np.array([places.setdefault(_NAN if is_nan(one) else one, len(places)) for one in values], np.int64)
    return same[codes], list(places)


def _numbers(codes: Array, groups: int) -> list[int]:
    """The number of matches of each group."""
    return list(np.bincount(codes, minlength=groups).tolist())


def totals(codes: Array, numbers: Array, groups: int) -> list[Total]:
    """The totals of the numbers of each group; exact, in whatever order they come."""
    counts = _numbers(codes, groups)
    if numbers.dtype != np.float64:
        sums = _sums(codes, numbers.astype(np.int64), groups)
        return [Total(count, total) for count, total in zip(counts, sums, strict=True)]
    finite = np.isfinite(numbers)
    exact = _fraction_sums(codes[finite], numbers[finite], groups)
    special = np.zeros(groups)
    if not finite.all():
        with np.errstate(invalid="ignore"):
            np.add.at(special, codes[~finite], numbers[~finite])
    return [Total(*one) for one in zip(counts, exact, special.tolist(), strict=True)]


def _sums(codes: Array, numbers: Array, groups: int) -> list[int]:
    """The exact sum of int64 numbers of each group: halves of 32 bits, whose sums float64 holds exactly."""
    sums = [0] * groups
    for start in range(0, len(codes), _AT_ONCE):
        part, own = codes[start : start + _AT_ONCE], numbers[start : start + _AT_ONCE]
        high = np.bincount(part, weights=own >> 32, minlength=groups).astype(np.int64).tolist()
        low = np.bincount(part, weights=own & 0xFFFFFFFF, minlength=groups).astype(np.int64).tolist()
        sums = [total + (upper << 32) + lower for total, upper, lower in zip(sums, high, low, strict=True)]
    return sums


def _fraction_sums(codes: Array, numbers: Array, groups: int) -> list[int]:
    """The exact sum of finite float64 numbers of each group, in units of 2 ** -1074."""
    sums = [0] * groups
    if not len(numbers):
        return sums
    fractions, exponents = np.frexp(numbers)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    shifts = exponents.astype(np.int64) - 53 + FRACTION_BITS
    mantissas >>= np.maximum(-shifts, 0)  # where the number is subnormal its lowest bits are zero
    shifts = np.maximum(shifts, 0)
    least, most = int(shifts.min()), int(shifts.max())
    pairs, where = _distinct((shifts - least) * groups + codes, (most - least + 1) * groups)
    for pair, total in zip(pairs.tolist(), _sums(where, mantissas, len(pairs)), strict=True):
        sums[pair % groups] += total << (least + pair // groups)
    return sums


def _states(aggregate: SummaryAggregate, codes: Array, array: pa.Array, groups: int) -> Sequence[State]:
    """The state of each group after values; nulls are left out."""
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        codes, array = codes[valid], array.drop_null()
    state = state_of(aggregate)
    if isinstance(state, Extreme):
        return _extremes(codes, array, groups, greatest=state.greatest)
    return totals(codes, array.to_numpy(zero_copy_only=False), groups)


def _extremes(codes: Array, known: pa.Array, groups: int, *, greatest: bool) -> list[Extreme]:
    numbers = known.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind in "if":
        is_float = numbers.dtype.kind == "f"
        limits = (-np.inf, np.inf) if is_float else (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
        ends = np.full(groups, limits[not greatest], numbers.dtype)
        with np.errstate(invalid="ignore"):
            (np.maximum if greatest else np.minimum).at(ends, codes, numbers + 0.0 if is_float else numbers)
        present = np.bincount(codes, minlength=groups) > 0
        both = zip(ends.tolist(), present.tolist(), strict=True)
        return [Extreme(greatest, value if some else None) for value, some in both]
    found = [Extreme(greatest) for _ in range(groups)]
    pairs, where = group_codes([known], len(codes))
    values = [value for (value,) in where]
    for pair in np.unique(codes * len(values) + pairs).tolist():
        found[pair // len(values)].add(Extreme(greatest, values[pair % len(values)]))
    return found


def whole_units(value: Value, *, is_float: bool) -> int:
    """A finite number in the units of `Total.exact`: those of int64, or the 2 ** -1074 of float64."""
    assert isinstance(value, int | float)
    return int(Fraction(value) * (1 << FRACTION_BITS if is_float else 1))


def rank(value: Value) -> tuple[int, Any]:
    """A key that sorts the values of one column: ascending, then NaN, then null."""
    if value is None:
        return 2, 0
    return (1, 0) if is_nan(value) else (0, value)


def _array(values: Sequence[Value], kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):
        values = [decimal_text(value) if isinstance(value, int) else value for value in values]
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def _to_plain(value: Value) -> Value:
    """A value for JSON, which has no number for NaN and the infinities."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _from_plain(value: Value, is_float: bool) -> Value:
    if not is_float or value is None:
        return value
    number = float(value)
    return _NAN if math.isnan(number) else number


def _state_to_plain(aggregate: SummaryAggregate, state: State) -> dict[str, Value]:
    if isinstance(state, Extreme):
        return {"value": _to_plain(state.value)}
    if state.special != 0.0:
        total = str(state.special)
    elif _is_float(aggregate):
        with localcontext(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX):
            total = str(Decimal(state.exact * _FIVES).scaleb(-FRACTION_BITS).normalize())
    else:
        total = decimal_text(state.exact)
    return {"values": decimal_text(state.values), "total": total}


def _state_from_plain(aggregate: SummaryAggregate, plain: Mapping[str, Any]) -> State:
    if "value" in plain:
        state = state_of(aggregate)
        assert isinstance(state, Extreme)
        state.value = _from_plain(plain["value"], _is_float(aggregate))
        return state
    values, total = from_decimal_text(plain["values"]), plain["total"]
    if not Decimal(total).is_finite():
        return Total(values, 0, float(total))
    exact = Fraction(total) * (1 << FRACTION_BITS) if _is_float(aggregate) else from_decimal_text(total)
    return Total(values, int(exact))


def _is_float(aggregate: SummaryAggregate) -> bool:
    return aggregate.expression is not None and aggregate.expression.type is ValueType.FLOAT64
