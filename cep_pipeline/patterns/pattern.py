"""`Pattern`: one statement of the language, parsed, checked and immutable."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar

from cep_pipeline.errors import InputError
from cep_pipeline.foreign_text import html_table
from cep_pipeline.patterns.conditions import Condition, Value
from cep_pipeline.patterns.expressions import Expression, ValueType
from cep_pipeline.patterns.normal_form import Clause, normalize, with_agreement
from cep_pipeline.patterns.rewriting import asked_of_elements
from cep_pipeline.patterns.structure import EventOperand, Structure, event_operands, structure_text
from cep_pipeline.patterns.summary_functions import SUMMARY_FUNCTIONS, SummaryFunction


class Strategy(Enum):
    """Event selection strategy (SIGMOD'08 section 2; docs/language.md, sections 3 and 4), with all that it says.

    Attributes
    ----------
    forks
        Whether a run that takes an event also goes on without it: then every choice of events is a match. Else a run
        decides about an event when it comes.
    skips
        Whether a run passes over an event that it does not take; else such an event ends it.
    crosses_partitions
        Whether a run is shown events that do not agree with its own, too.
    """

    SKIP_TILL_ANY_MATCH = "skip_till_any_match", True, True, False
    SKIP_TILL_NEXT_MATCH = "skip_till_next_match", False, True, False
    PARTITION_CONTIGUITY = "partition_contiguity", False, False, False
    STRICT_CONTIGUITY = "strict_contiguity", False, False, True

    forks: bool
    skips: bool
    crosses_partitions: bool

    def __new__(cls, text: str, forks: bool, skips: bool, crosses_partitions: bool) -> Strategy:
        """A strategy whose value is its name in the language.

        Runs that skip keep no place of the events of other partitions, and a run that forks may always skip.
        """
        if (skips and crosses_partitions) or (forks and not skips):
            raise ValueError(f"no run supports the flags of {text}")
        one = object.__new__(cls)
        one._value_, one.forks, one.skips, one.crosses_partitions = text, forks, skips, crosses_partitions
        return one


class Ties(Enum):
    """The meaning of `a before b` for equal timestamps (docs/language.md, section 3.2)."""

    ARRIVAL = "ARRIVAL"
    STRICT = "STRICT"
    ANY = "ANY"


class Output(Enum):
    """OUTPUT: which matches are given (docs/language.md, section 5).

    Attributes
    ----------
    is_preferred
        Whether one match is given of those with the same first event.
    is_apart
        Whether a match is given only if it overlaps none before it.
    """

    ALL = "ALL", False, False
    NON_OVERLAP = "NON_OVERLAP", False, True
    PREFERRED = "PREFERRED", True, False
    PREFERRED_NON_OVERLAP = "PREFERRED NON_OVERLAP", True, True

    is_preferred: bool
    is_apart: bool

    def __new__(cls, text: str, is_preferred: bool, is_apart: bool) -> Output:
        """An output whose value is its words in the language."""
        one = object.__new__(cls)
        one._value_, one.is_preferred, one.is_apart = text, is_preferred, is_apart
        return one


class Consume(Enum):
    """CONSUME: whether an event may be in several matches (docs/language.md, section 5)."""

    NONE = "NONE"
    MATCHED = "MATCHED"


TIME_UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}
"""Units of a time window, in microseconds."""
UNIT_WORDS_US = {
    **TIME_UNITS_US,
    **{f"{unit}s": size for unit, size in TIME_UNITS_US.items() if unit not in ("us", "ms")},
    "s": TIME_UNITS_US["second"],
    "sec": TIME_UNITS_US["second"],
    "m": TIME_UNITS_US["minute"],
    "min": TIME_UNITS_US["minute"],
    "h": TIME_UNITS_US["hour"],
    "d": TIME_UNITS_US["day"],
}
"""All words for a unit of time, in microseconds; they are written in upper and lower case."""
_LONGEST_US = 2**62
"""Half of what timestamps may span, so that a time minus a length of time stays an int64."""


def parse_duration_us(text: str) -> int:
    """Microseconds of a length of time as the pattern language writes it.

    Raises
    ------
    InputError
        The text is no positive length of time.

    Examples
    --------
    >>> parse_duration_us("20 minutes"), parse_duration_us("1.5 ms")
    (1200000000, 1500)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text)
    length = round(float(match[1]) * UNIT_WORDS_US.get(match[2], 0)) if match else 0
    if length <= 0:
        raise InputError(f"{text!r} is no length of time; write a number and us, ms, seconds, minutes, hours or days")
    if length > _LONGEST_US:
        raise InputError(f"{text!r} is longer than the {_LONGEST_US // 86_400_000_000:,} days of all timestamps")
    return length


@dataclass(frozen=True, slots=True)
class Window:
    """`WITHIN`: a time window in microseconds or a count window in events; exactly one is set.

    Time: last minus first timestamp of a match is at most `time_us`. Count: the positions of the last and the
    first event differ by at most `events - 1`.
    """

    time_us: int | None = None
    events: int | None = None

    def __post_init__(self) -> None:
        if (self.time_us is None) == (self.events is None):
            raise ValueError("a window is either a time window or a count window")
        size = self.time_us if self.time_us is not None else self.events
        assert size is not None
        if size <= 0:
            raise ValueError(f"the window must be positive, not {size}")

    def __str__(self) -> str:
        """The window in its largest whole unit, for people.

        Examples
        --------
        >>> str(Window(time_us=1_500_000)), str(Window(time_us=1_200_000_000)), str(Window(events=50))
        ('1500 ms', '20 min', '50 events')
        """
        if self.time_us is None:
            return f"{self.events} events"
        for unit, size in (("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1000)):
            if self.time_us % size == 0:
                return f"{self.time_us // size} {unit}"
        return f"{self.time_us} us"


@dataclass(frozen=True, slots=True)
class ReturnItem:
    """One column of RETURN: its expression and the (unique) column name."""

    expression: Expression
    name: str
    named: bool = False
    """True if the name was written with AS."""
    is_time: bool = False
    """True for an attribute that is a time: its column is one of times."""


@dataclass(frozen=True, slots=True)
class SummaryAggregate:
    """One aggregate of SUMMARIZE: `count` without an expression, or one of `SUMMARY_FUNCTIONS` of an expression."""

    function: str
    expression: Expression | None
    name: str
    named: bool = False
    """True if the name was written with AS."""
    is_time: bool = False
    """True for the least or greatest of an attribute that is a time: its column is one of times."""

    @property
    def of(self) -> SummaryFunction:
        """The function that its name means."""
        return SUMMARY_FUNCTIONS[self.function]


@dataclass(frozen=True, slots=True)
class SummaryGroup:
    """One column of GROUP BY: an expression, or `bucket(L)` of the local time at which a match ends."""

    expression: Expression | None
    bucket_us: int | None
    name: str
    named: bool = False
    """True if the name was written with AS."""
    is_time: bool = False
    """True for an attribute that is a time: its column is one of times, as that of a bucket."""

    def __post_init__(self) -> None:
        if (self.expression is None) == (self.bucket_us is None):
            raise ValueError("a group is either an expression or a bucket of time")


@dataclass(frozen=True, slots=True)
class Summary:
    """SUMMARIZE: the statement gives one row a group instead of its matches."""

    aggregates: tuple[SummaryAggregate, ...]
    groups: tuple[SummaryGroup, ...] = ()


def shared_attributes(sources: Sequence[Mapping[str, ValueType]]) -> Mapping[str, ValueType]:
    """The attributes that events of several kinds have with one type; int64 beside float64 is float64.

    Examples
    --------
    >>> kinds = {"x": ValueType.INT64, "s": ValueType.STRING}, {"x": ValueType.FLOAT64, "s": ValueType.BOOL}
    >>> {name: kind.value for name, kind in shared_attributes(kinds).items()}
    {'x': 'float64'}
    """
    first, *others = sources
    if not others:
        return first
    found = {}
    for name in first:
        kinds = {one.get(name) for one in sources}
        if len(kinds) == 1:
            found[name] = first[name]
        elif kinds == {ValueType.INT64, ValueType.FLOAT64}:
            found[name] = ValueType.FLOAT64
    return found


_OF_EVERY_MATCH = dict.fromkeys(("timestamp", "seq", "start_ts", "end_ts"), ValueType.INT64) | {
    "match_id": ValueType.STRING
}


@dataclass(frozen=True)
class Pattern:
    """A checked statement.

    Attributes
    ----------
    name
        Unique in its file; `pattern_<n>` where the statement gives none.
    structure, strategy, condition, window, partition_by, ties, output, consume, returns
        The clauses of the statement; `condition` is the WHERE condition as written, or None.
    summary
        The SUMMARIZE clause, or None where the statement gives its matches.
    composes
        The earlier statements whose matches the statement binds as events, in the order of the file.
    parameters
        What each `$name` of the statement is bound to: the values of a set, in the order the caller gave them, or one
        value.
    stream, type_attribute, base_type, attributes
        The stream's name, the attribute whose text is an event's type, the type that every event also has (or
        None), and the type of every attribute: all that detection needs to know of the stream's schema.
    timezone, times
        The zone of the stream's local time, and the attributes of the stream that are times.
    source, written
        The name of the text that the statement stands in, and the statement as it stands there, for people.
    """

    name: str
    structure: Structure
    window: Window
    strategy: Strategy = Strategy.SKIP_TILL_ANY_MATCH
    condition: Condition | None = None
    partition_by: tuple[str, ...] = ()
    ties: Ties = Ties.ARRIVAL
    output: Output = Output.ALL
    consume: Consume = Consume.NONE
    returns: tuple[ReturnItem, ...] = ()
    summary: Summary | None = None
    composes: tuple[Pattern, ...] = ()
    named: bool = field(default=False, compare=False)
    parameters: tuple[tuple[str, tuple[Value, ...] | Value], ...] = ()
    stream: str = "stream"
    type_attribute: str = "type"
    base_type: str | None = None
    attributes: tuple[tuple[str, ValueType], ...] = ()
    timezone: str = "UTC"
    times: tuple[str, ...] = ()
    source: str = field(default="<pattern>", compare=False)
    written: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        variables = [operand.variable for operand in self.operands]
        if len(set(variables)) < len(variables):
            raise ValueError(f"pattern {self.name!r}: a variable stands twice in {', '.join(variables)}")
        if all(operand.negated for operand in self.operands):
            raise ValueError(f"pattern {self.name!r} has no positive variable")
        if self.returns and self.summary is not None:
            raise ValueError(f"pattern {self.name!r} has both RETURN and SUMMARIZE")
        columns = [item.name for item in self.returns]
        if self.summary is not None:
            columns += [group.name for group in self.summary.groups] + [one.name for one in self.summary.aggregates]
        if len(set(columns)) < len(columns):
            raise ValueError(f"pattern {self.name!r}: two columns have one name in {', '.join(columns)}")

    def __repr__(self) -> str:
        return f"<Pattern {self.name}: {structure_text(self.structure)} within {self.window}>"

    def _repr_html_(self) -> str:
        lines = (self.written or repr(self)).splitlines()
        return html_table((f"pattern {self.name}",), ([line.strip()] for line in lines))

    @cached_property
    def operands(self) -> tuple[EventOperand, ...]:
        """All event operands, negated ones too, in the order they are written (their position)."""
        return tuple(event_operands(self.structure))

    @property
    def parameters_as_json(self) -> list[tuple[str, list[Value] | Value]]:
        """The parameters as documents have them: the values of a set as a list, or one value."""
        return [(name, list(bound) if isinstance(bound, tuple) else bound) for name, bound in self.parameters]

    @cached_property
    def match_attributes(self) -> Mapping[str, ValueType]:
        """The attributes that a match has as an event of a later statement: the RETURN columns with AS, and its own.

        Examples
        --------
        >>> from cep_pipeline.patterns.expressions import Literal
        >>> item = ReturnItem(Literal(1, ValueType.INT64), "one", named=True)
        >>> ", ".join(Pattern("p", EventOperand("A", "a"), Window(events=1), returns=(item,)).match_attributes)
        'one, timestamp, seq, start_ts, end_ts, match_id'
        """
        return {item.name: item.expression.type for item in self.returns if item.named} | _OF_EVERY_MATCH

    @cached_property
    def items(self) -> tuple[ReturnItem, ...]:
        """The values that are asked for of each match: those of RETURN, or those that SUMMARIZE puts together."""
        if self.summary is None:
            return self.returns
        read: tuple[SummaryGroup | SummaryAggregate, ...] = (*self.summary.groups, *self.summary.aggregates)
        return tuple(ReturnItem(one.expression, one.name) for one in read if one.expression is not None)

    @cached_property
    def written_clauses(self) -> tuple[Clause, ...]:
        """The disjunction of conjunctive clauses that the pattern means (JQPG section 5.4), as it is written."""
        return normalize(self.structure, self.condition, self.partition_by)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """The clauses that are planned and run.

        Equalities that say what `[k]` says stand there as `[k]`, and bounds on the time of the last event of a list as
        bounds on each.
        """
        by_runs, in_partitions = not self.strategy.forks, not (self.strategy.skips or self.strategy.crosses_partitions)
        clauses = with_agreement(self.written_clauses, by_runs=by_runs, in_partitions=in_partitions)
        return clauses if by_runs else tuple(map(asked_of_elements, clauses))


def with_composed(patterns: Iterable[Pattern]) -> list[Pattern]:
    """The patterns and all that they compose, each once, what is composed before what composes it.

    Raises
    ------
    InputError
        Two of them that differ have one name.
    """
    found: dict[str, Pattern] = {}

    def add(pattern: Pattern) -> None:
        for one in pattern.composes:
            add(one)
        known = found.setdefault(pattern.name, pattern)
        if known is not pattern and known != pattern:
            raise InputError(f"two patterns are called {pattern.name!r}, and they differ: names are unique")

    for pattern in patterns:
        add(pattern)
    return list(found.values())


T = TypeVar("T")
P = ParamSpec("P")


def remembered(most: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function be called once for the very same objects, of the last so many that it was asked about.

    Arguments, none by name, are objects that never change, such as patterns and clauses, texts, and lists of objects.
    What is made must depend on them alone. What was asked for first is forgotten first.
    """

    def remembering(make: Callable[P, T]) -> Callable[P, T]:
        known: dict[Any, tuple[Any, T]] = {}
        adding = threading.Lock()

        @wraps(make)
        def made_of(*asked: P.args, **named: P.kwargs) -> T:
            key = tuple(map(_identity, asked))
            found = known.get(key)  # it holds the objects, so that no others can have their ids
            if found is not None:
                return found[1]
            held = [list(one) if isinstance(one, list | tuple) else one for one in asked]
            made = make(*asked, **named)
            with adding:
                known[key] = held, made
                while len(known) > most:
                    del known[next(iter(known))]
            return made

        return made_of

    return remembering


def _identity(one: Any) -> Any:
    if isinstance(one, str):
        return one
    return tuple(map(id, one)) if isinstance(one, list | tuple) else id(one)


once_a_pattern = remembered(1 << 12)
"""Lets a function be called once for each pattern object: every call and slice asks."""
once_a_set = remembered(64)
"""Lets a function be called once for the same patterns: many slices, and many tables, are asked about them."""
