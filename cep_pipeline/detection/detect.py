"""`detect`: the matches of patterns over a table of events, and of one slice of a stream for a task."""

from __future__ import annotations

import logging
import warnings
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, overload

import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.clause_runs import JointRun, count_blocks
from cep_pipeline.detection.composition import WrittenMatches, events_read, longer_stream, plain_pattern
from cep_pipeline.detection.counting.owned import count_owned
from cep_pipeline.detection.limits import Kind, LimitReached, SliceLimits, at_most_seconds, explained
from cep_pipeline.detection.matches import matches_schema, write_matches
from cep_pipeline.detection.mechanisms import (
    PRUNE,
    Counters,
    Executor,
    Metrics,
    Orders,
    Owned,
    Route,
    Sink,
    check_options,
    choose_mechanisms,
    orders_only,
    refuse_other_orders,
)
from cep_pipeline.detection.output_policy import decides_in_order, has_output_policy, policy_text
from cep_pipeline.detection.outputs import (
    Detection,
    SummaryOf,
    batches_together,
    compressed_together,
    count_together,
    first_matches,
    tables_together,
)
from cep_pipeline.detection.planned import own_order_plan, worth_planning
from cep_pipeline.detection.results import Matches, draw_among, match_events
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.detection.summaries.unlisted import summarize_unlisted
from cep_pipeline.errors import InputError, NoRoom, TooManyMatches, UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern, once_a_set, with_composed
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.planning.plans import Plan, validate
from cep_pipeline.slices.events_input import as_table, events_for
from cep_pipeline.slices.ownership import waits_for_later_events
from cep_pipeline.slices.prepared import PreparedEvents, Streams
from cep_pipeline.storage import decimal_text

logger = logging.getLogger(__name__)
OUTPUTS = ("verbose", "compressed", "count")
"""Forms of output (docs/language.md, section 5)."""
COUNT_SCHEMA = pa.schema([("pattern", pa.string()), ("count", pa.string())])
"""Columns of the count output; the count is decimal text, since it may exceed every integer type."""

Tables = dict[str, pa.Table]
Progress = Callable[[int, int], None]
"""Told how many patterns are done, and of how many."""


@overload
def detect(
    patterns: str | Pattern | Sequence[Pattern],
    events: Any,
    plan: Plan | None = None,
    mechanism: str | None = None,
    output: str = "verbose",
    metrics: Literal[False] = False,
    limit: int | None = None,
    options: Sequence[str] = (),
    progress: Progress | None = None,
) -> Matches: ...


@overload
def detect(
    patterns: str | Pattern | Sequence[Pattern],
    events: Any,
    plan: Plan | None = None,
    mechanism: str | None = None,
    output: str = "verbose",
    *,
    metrics: Literal[True],
    limit: int | None = None,
    options: Sequence[str] = (),
    progress: Progress | None = None,
) -> tuple[Matches, Metrics]: ...


def detect(
    patterns: str | Pattern | Sequence[Pattern],
    events: Any,
    plan: Plan | None = None,
    mechanism: str | None = None,
    output: str = "verbose",
    metrics: bool = False,
    limit: int | None = None,
    options: Sequence[str] = (),
    progress: Progress | None = None,
) -> Matches | tuple[Matches, Metrics]:
    """Find all matches of patterns in a table of events.

    Parameters
    ----------
    patterns
        Patterns of the events' stream, with different names; or one pattern; or their text, where `read` or
        `StreamSchema.table` made the events.
    events
        Events sorted by (timestamp, seq), an Arrow table or a data frame that becomes one (pandas, Polars,
        DuckDB): `timestamp` (timestamp[us] or int64 microseconds since the epoch), `seq`
        (int64, unique) and the attributes that the patterns use; strings may be dictionaries.
    plan
        How to run the patterns; None makes one from the statistics of the events.
    mechanism
        A name of `MECHANISMS`; None takes for each pattern the fastest that runs it, as is done for those that are
        detected only because the patterns compose them.
    output
        `"verbose"`: one row a match. `"compressed"`: one row for all matches of a pattern that end with the same event,
        which `expand` turns into the verbose rows. `"count"`: one row a pattern with the number of its matches, of any
        size. A pattern with SUMMARIZE gives its rows as `"verbose"`, its number of matches as `"count"`, and is refused
        as `"compressed"`.
    metrics
        Whether to return what was counted beside the tables.
    limit
        Most matches of a pattern that may be listed: in rows, or to be counted or compressed where that needs the
        lists themselves (`outputs.route_of` says why). None: so many as there is memory for; with more an error
        says how many there are, if that is known soon.
    options
        Options of the mechanism: nfab knows `"merge"` and `"backtrack"`. They change costs, never matches.
    progress
        Told how many patterns are done, and of how many; those that a mechanism runs together are done together.

    Returns
    -------
    Matches, or with it Metrics
        Pattern name -> table of matches in the page's order (docs/language.md, section 5), in the order of the
        patterns, empty tables too. What the patterns compose is detected with them, but has no table unless it is among
        them. It has `.events()`, `.chart()`, `.to_pandas()` and `.to_polars()`.

    Raises
    ------
    InputError
        An unknown mechanism, option or output, two patterns of one name, or events that do not fit the patterns.
    TooManyMatches
        A pattern has more matches than the limit; an InputError that says how many, where they can be counted.
    UnsupportedPattern
        The mechanism does not run a pattern, or none does.
    PlanError
        The plan was made for other patterns.

    Warns
    -----
    PatternWarning
        A pattern has no matches and names a type, or a text of an attribute, that no event has. Of events that `read`
        or `StreamSchema.table` made. Or a pattern orders the values of a text attribute that look like numbers, times
        or bools.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> rows = [{"timestamp": 0, "kind": "A", "x": 1}, {"timestamp": 5, "kind": "B", "x": 3}]
    >>> patterns = cep.parse_patterns("NAME rise PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1 second", schema)
    >>> cep.detect(patterns, schema.table(rows))["rise"].column("bindings").to_pylist()
    [[{'variable': 'a', 'seq': 0}, {'variable': 'b', 'seq': 1}]]
    """
    events = as_table(events)
    patterns = _patterns_of(patterns, events)
    check_output(output, patterns)
    check_limit(limit)
    if not patterns:
        none = _matches({}, patterns, events)
        return (none, Metrics({})) if metrics else none
    run = DetectionRun(plan, mechanism, output, limit, options, progress, metrics=metrics)
    tables = run.matches(patterns, events)
    return (tables, run.metrics()) if metrics else tables


MakePlan = Callable[[Sequence[Pattern], pa.Table, Mapping[str, str]], Plan]
"""Makes a plan for patterns over events, for the mechanism of each."""


class DetectionRun:
    """Patterns over a table of events, in the order in which they compose each other.

    Parameters
    ----------
    plan, mechanism, output, limit, options, progress, metrics
        As in `detect`.
    make_plan
        Plans the patterns that the plan does not have. A pattern that composes is given to it as it is run, over its
        longer stream (`composition.plain_pattern`).
    """

    def __init__(
        self,
        plan: Plan | None = None,
        mechanism: str | None = None,
        output: str = "verbose",
        limit: int | None = None,
        options: Sequence[str] = (),
        progress: Progress | None = None,
        *,
        metrics: bool = False,
        make_plan: MakePlan | None = None,
    ) -> None:
        self.plan, self.mechanism, self.output, self.limit, self.options = plan, mechanism, output, limit, options
        self.make_plan = make_plan
        self.progress = progress
        self._counters = Counters(wanted=metrics)
        self._chosen: dict[str, str] = {}
        self._inside: Tables = {}
        self._asked: frozenset[str] = frozenset()
        self._inner: frozenset[str] = frozenset()
        self._done = self._all = 0

    def metrics(self) -> Metrics:
        """Return the counts of all that has been run."""
        return self._counters.metrics(self._chosen)

    def tables(self, patterns: Sequence[Pattern], events: pa.Table) -> Tables:
        """The output of each pattern, in their order."""
        self._all = len(patterns)
        self._asked, self._inner = frozenset(pattern.name for pattern in patterns), frozenset()
        if not any(pattern.composes for pattern in patterns):
            found = self._together(patterns, events, self.plan, self.output)
        else:
            found = {}
            whole = self._in_order(patterns)
            self._all = len(whole)
            simple: dict[tuple[bool, str], list[Pattern]] = {}
            for pattern in whole:
                if not pattern.composes:
                    simple.setdefault((pattern.name in self._asked, self._form(pattern)), []).append(pattern)
            with _all_listed():
                for (_, form), own in simple.items():
                    found |= self._together(own, events, self._plan_of(own), form)
                for pattern in whole:
                    if pattern.composes:
                        found[pattern.name] = self._composing(pattern, events, found)
            self._inside = found
        _warn_of_doubts([one for one in patterns if not found[one.name].num_rows], patterns, events)
        return {one.name: found[one.name] for one in patterns}

    def matches(self, patterns: Sequence[Pattern], events: pa.Table) -> Matches:
        """The output of each pattern, which knows its events."""
        return _matches(self.tables(patterns, events), patterns, events, self._inside)

    def composed(self, patterns: Sequence[Pattern], events: pa.Table) -> Tables:
        """The matches of all that patterns compose."""
        inside = {one.name: one for pattern in patterns for one in with_composed(pattern.composes)}
        return self.tables(list(inside.values()), events) if inside else {}

    def batches(self, patterns: Sequence[Pattern], events: pa.Table) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of patterns, as `detect_batches` has them; where some compose others, when all are known."""
        if not any(pattern.composes for pattern in patterns):
            self._asked = frozenset(pattern.name for pattern in patterns)
            yield from self._batches(patterns, events, self.plan)
            return
        for name, table in self.tables(patterns, events).items():
            yield from ((name, batch) for batch in table.to_batches())

    def _in_order(self, patterns: Sequence[Pattern]) -> list[Pattern]:
        """The patterns and what they compose; refused here if any of them is, before anything is detected."""
        whole = with_composed(patterns)
        self._asked, self._inner = frozenset(pattern.name for pattern in patterns), _composed_names(whole)
        for pattern in whole:
            choose_mechanisms([pattern], self._mechanism_of([pattern]))
        return whole

    def _mechanism_of(self, patterns: Sequence[Pattern]) -> str | None:
        """The mechanism that was asked for; None for patterns that are detected only to be composed."""
        return self.mechanism if self._are_asked(patterns) else None

    def _are_asked(self, patterns: Sequence[Pattern]) -> bool:
        return self._asked.issuperset(pattern.name for pattern in patterns)

    def _form(self, pattern: Pattern) -> str:
        """The form of output; what is composed is needed as matches."""
        return "verbose" if pattern.name in self._inner else self.output

    def _plan_of(self, patterns: Sequence[Pattern]) -> Plan | None:
        """The given plan, as far as it has these patterns; None where it lacks one."""
        if self.plan is None:
            return None
        names = [pattern.name for pattern in patterns]
        return self.plan.part(names) if {one.pattern for one in self.plan.patterns} >= set(names) else None

    def _composing(self, pattern: Pattern, events: pa.Table, matches: Tables) -> pa.Table:
        """The output of a pattern that composes others, of which the matches are known."""
        stream = longer_stream(pattern, events_for([pattern], events_read(pattern, events)), matches)
        form = self._form(pattern)
        plain, plan = plain_pattern(pattern), self._plan_of([pattern])
        found = self._together([plain], stream, plan, form)[pattern.name]
        if form != "verbose" or pattern.summary is not None:
            return found
        written = WrittenMatches(pattern, stream)
        return pa.Table.from_batches(map(written.of, found.to_batches()), matches_schema(pattern))

    def _ready(
        self, patterns: Sequence[Pattern], events: pa.Table, given: Plan | None, output: str = "verbose"
    ) -> list[list[Detection]]:
        """Patterns that compose nothing, ready to be run over the events, in groups each of which is one run."""
        options, limit = (self.options, self.limit) if self._are_asked(patterns) else ((), None)
        chosen = choose_mechanisms(patterns, self._mechanism_of(patterns))
        check_options(chosen, options)
        events = events_for(patterns, events)
        with explained():
            prepared = _prepare(patterns, events)
            plan = _plan_for(patterns, events, prepared, given, chosen, self.make_plan, output=output)
            self._chosen |= chosen
            logger.info("detecting %s patterns in %s events by %r", len(patterns), events.num_rows, plan)
            detections = _detections(patterns, chosen, prepared, plan, self._counters, limit, options, prune=True)
        return run_together(detections, plan)

    def _together(self, patterns: Sequence[Pattern], events: pa.Table, given: Plan | None, output: str) -> Tables:
        """The output of patterns that compose nothing."""
        found: Tables = {}
        runs = self._ready(patterns, events, given, output)
        for together in runs:
            with explained():
                for detection, table in zip(together, _TABLES[output](together), strict=True):
                    found[detection.pattern.name] = table
            self._done += len(together)
            if self.progress is not None:
                self.progress(self._done, self._all)
        for name, table in found.items():
            logger.debug("%s by %s: %s rows (%s)", name, self._chosen[name], table.num_rows, output)
        for together in runs:
            together[0].events.let_go()
        return found

    def _batches(
        self, patterns: Sequence[Pattern], events: pa.Table, given: Plan | None
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of patterns that compose nothing."""
        for run in self._ready(patterns, events, given):
            summarized = [one for one in run if one.pattern.summary is not None]
            for one, table in zip(summarized, tables_together(summarized), strict=True):
                for batch in table.to_batches():
                    yield one.pattern.name, batch
            together = [one for one in run if one.pattern.summary is None]
            listed = [one for one in together if len(together) > 1 and not one.is_read_from_buffers]
            for number, batch in batches_together(listed) if listed else ():
                yield listed[number].pattern.name, batch
            for detection in together:
                if detection not in listed:
                    for batch in first_matches(detection):
                        yield detection.pattern.name, batch


@contextmanager
def _all_listed() -> Iterator[None]:
    """Let errors advise no other form of output: there is none where patterns compose others."""
    try:
        yield
    except TooManyMatches as error:
        raise TooManyMatches(error.pattern, error.limit, error.count, error.memory, composed=True) from error


def _composed_names(patterns: Sequence[Pattern]) -> frozenset[str]:
    """The names of the patterns that others compose."""
    return frozenset(one.name for pattern in patterns for one in pattern.composes)


def _matches(tables: Tables, patterns: Sequence[Pattern], events: pa.Table, inside: Tables | None = None) -> Matches:
    draw = partial(draw_among, patterns=patterns, events=events)
    return Matches(tables, partial(match_events, events=events), draw, inside)


def _patterns_of(given: str | Pattern | Sequence[Pattern], events: pa.Table) -> Sequence[Pattern]:
    """The patterns that are given as a list, alone, or as text about events that tell their stream."""
    if isinstance(given, Pattern):
        return [given]
    if not isinstance(given, str):
        return given
    from cep_pipeline.events.schema import schema_told_by
    from cep_pipeline.language.parser import parse_patterns

    schema = schema_told_by(events)
    if schema is None:
        raise InputError(
            "the events do not tell their stream, by which the text of patterns is read: make them by "
            "read(schema, …) or schema.table(…), or parse the text by parse_patterns(text, schema)"
        )
    return parse_patterns(given, schema)


def _warn_of_doubts(fruitless: Sequence[Pattern], patterns: Sequence[Pattern], events: pa.Table) -> None:
    """Say why patterns may have no matches, or false ones, of events that `read` or `StreamSchema.table` made."""
    from cep_pipeline.events.schema import schema_told_by
    from cep_pipeline.language.doubts import doubts_about, doubts_about_order
    from cep_pipeline.language.tokens import PatternWarning

    if not patterns or not events.num_rows or (schema := schema_told_by(events)) is None:
        return
    found = doubts_about_order(patterns, events)
    if fruitless:
        types = {str(name) for name in pc.unique(events.column(schema.type_attribute)).to_pylist()}
        found += [text for text in doubts_about(fruitless, types, events) if text not in found]
    for text in found:
        warnings.warn(text, PatternWarning, stacklevel=3)


def detect_batches(
    patterns: Sequence[Pattern],
    events: pa.Table,
    plan: Plan | None = None,
    mechanism: str | None = None,
    limit: int | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Find the matches of patterns a batch at a time, the first ones as soon as they are known.

    Parameters
    ----------
    patterns, events, plan, mechanism, limit
        As in `detect`.

    Yields
    ------
    (str, pa.RecordBatch)
        A pattern's name and some rows of its verbose output, which come in the page's order: pattern after pattern, but
        for those that a mechanism runs together, whose batches come in turns. The caller may stop at any time: the
        first of 2**60 matches cost no more than a few. Where patterns compose others, the rows come when all are known.

    Raises
    ------
    InputError, TooManyMatches, UnsupportedPattern, PlanError
        As `detect`.
    """
    check_limit(limit)
    if not patterns:
        return
    yield from DetectionRun(plan, mechanism, limit=limit).batches(patterns, events)


def _detections(
    patterns: Sequence[Pattern],
    chosen: Mapping[str, str],
    prepared: Streams,
    plan: Plan,
    counters: Counters,
    limit: int | None = None,
    options: Sequence[str] = (),
    *,
    prune: bool = False,
) -> list[Detection]:
    """Each pattern, ready to be run over the events, which are prepared once for all.

    Parameters
    ----------
    prepared
        The events of each stream of the patterns.
    prune
        Whether these are all events, and OUTPUT is decided by their matches alone, so that mechanisms may prune.
    """
    found: list[Detection] = []
    for pattern, orders in zip(patterns, _orders_of(patterns, plan, chosen), strict=True):
        of_stream = prepared[pattern.type_attribute, pattern.base_type]
        mechanism = MECHANISMS[chosen[pattern.name]]
        asked = (*options, PRUNE) if prune and mechanism.prunes and pattern.output.is_apart else options
        found.append(Detection(pattern, mechanism.with_options(asked), orders, of_stream, counters, limit))
    return found


def run_together(detections: Sequence[Detection], plan: Plan) -> list[list[Detection]]:
    """The detections in groups, each of which is one run: all of one mechanism where that, or the plan, shares.

    Those whose matches wait for later events are apart, since they cannot be cut into parts. Groups come in the order
    of their first patterns, those of a group in theirs.
    """
    groups: dict[Hashable, list[Detection]] = {}
    for number, detection in enumerate(detections):
        mechanism = detection.mechanism
        shares = mechanism.find_many is not None and (mechanism.always_shares or plan.sharing != "none")
        waits = waits_for_later_events(detection.pattern)
        key = (mechanism.find, id(detection.events), waits) if shares else number
        groups.setdefault(key, []).append(detection)
    return list(groups.values())


@dataclass(frozen=True)
class SliceResult:
    """The result of one slice: pattern name -> number of owned matches, and the counts.

    `limited` are the patterns that were given up, each with the limit that it reached: of these, `matches` are those
    that had been handed on, and nothing is counted. `summaries` has what SUMMARIZE puts together. Among the metrics
    `condition_evaluations` are the tests that were made: those of lists depend on whether these were made together with
    the lists of other patterns.
    """

    matches: dict[str, int]
    metrics: Metrics
    limited: dict[str, Kind] = field(default_factory=dict)
    summaries: dict[str, PartialSummary] = field(default_factory=dict)


def detect_slice(
    patterns: Sequence[Pattern],
    plan: Plan | None,
    events: pa.Table,
    owned: Owned,
    sink: Callable[[Pattern, pa.RecordBatch], object],
    mechanism: str | None = None,
    *,
    candidates: Collection[str] = (),
    counted: Collection[str] = (),
    limits: SliceLimits | None = None,
    typed: bool = False,
) -> SliceResult:
    """Find the matches that a slice owns; for tasks, which run it on their part of a stream.

    Parameters
    ----------
    patterns, plan, mechanism
        As in `detect`; the events are prepared once for all patterns, and a plan of None is made from them.
    events
        The events of the slice with the look-back before its start, sorted by (timestamp, seq).
    owned
        `[start, end)`: the points between which a match must become final. None is an open end.
    sink
        Takes the matches of each pattern in the page's order, batch after batch with the schema `MANY_PATTERNS`. Which
        matches of a pattern with OUTPUT NON_OVERLAP or CONSUME are kept is not for one slice to say: of such a pattern
        it takes all, or all that are preferred, with the schema `CANDIDATES`. Of another one with SUMMARIZE it takes
        none.
    candidates
        Names of further patterns whose matches are handed on with that schema.
    counted
        Names of patterns whose matches are only counted.
    limits
        The limits of patterns: one that reaches one of them is given up, and the others go on. Without any, what there
        is no memory for is an error.
    typed
        Whether batches have the RETURN columns of `matches_schema(pattern)`, not `MANY_PATTERNS`.

    Raises
    ------
    InputError, UnsupportedPattern, PlanError
        As `detect`.
    """
    chosen = choose_mechanisms(patterns, mechanism)
    table = events_for(patterns, events, "events of the slice")
    prepared = _prepare(patterns, table)
    plan = _plan_for(patterns, table, prepared, plan, chosen)
    counters = Counters()
    detections = _detections(patterns, chosen, prepared, plan, counters)
    run = _SliceRun(owned, sink, frozenset(candidates), frozenset(counted), limits or SliceLimits({}), typed)
    waiting = deque(run_together(detections, plan))
    limited: dict[str, Kind] = {}
    while waiting:
        together = waiting.popleft()
        own = counters.anew()  # of a run that is given up nothing is counted
        given_up = run.find(together, own)
        if given_up is None:
            counters.add(own)
        elif given_up.pattern or len(together) == 1:
            name = given_up.pattern or together[0].pattern.name
            limited[name] = given_up.kind
            if rest := [detection for detection in together if detection.pattern.name != name]:
                waiting.appendleft(rest)
        else:  # each by itself, so that the others have all of their matches
            waiting.extendleft([detection] for detection in reversed(together))
    summaries = {name: of.summary for name, of in run.summaries.items() if name not in limited}
    return SliceResult(run.written, counters.metrics(chosen), limited, summaries)


@dataclass
class _SliceRun:
    """Patterns over one slice, run by run; `detect_slice` says what its parameters are.

    A run that is given up is done again without the pattern that reached a limit. As the matches of a pattern come in
    one order, whoever it is run with, those that have been handed on already are left out then.
    """

    owned: Owned
    sink: Callable[[Pattern, pa.RecordBatch], object]
    candidates: frozenset[str]
    counted: frozenset[str]
    limits: SliceLimits
    typed: bool = False
    written: dict[str, int] = field(default_factory=dict)
    summaries: dict[str, SummaryOf] = field(default_factory=dict)
    _again: dict[str, int] = field(default_factory=dict)

    def find(self, together: Sequence[Detection], counters: Counters) -> LimitReached | None:
        """Find the matches of patterns that are run together; the limit because of which that was given up."""
        names = [detection.pattern.name for detection in together]
        self.written.update({name: self.written.get(name, 0) for name in names})
        if not self.limits.limits:
            self._find(together, counters)
            return None
        try:
            with self.limits.working_on(names):
                self._find(together, counters)
            return None
        except TooManyMatches as error:
            reached = LimitReached(error.pattern, "max_matches" if error.memory is None else "memory")
        except (NoRoom, MemoryError):
            reached = LimitReached("", "memory")
        except LimitReached as error:
            reached = error
        for name in names:
            self._again[name] = self.written[name]
            if name in self.counted or self.summaries.pop(name, None) is not None:
                self.written[name] = 0
        return reached

    def _find(self, together: Sequence[Detection], counters: Counters) -> None:
        together = [one for one in together if not self._summarized(one, counters)]
        if not together:
            return
        events, members = together[0].events, [detection.pattern for detection in together]
        orders = [detection.orders for detection in together]
        most = [self._most(pattern) for pattern in members]
        for pattern in members:
            if not self._puts_together(pattern):
                counters.went(pattern.name, Route(Sink.LIST, Executor.MECHANISM))
        found = JointRun(members, together[0].mechanism, orders, events, self.owned, counters, most).parts()
        for parts in found:
            for pattern, blocks in zip(members, parts, strict=True):
                if pattern.name in self.counted:
                    self.written[pattern.name] += count_blocks(blocks, events)
                    continue
                if self._puts_together(pattern):
                    number = self.summaries.setdefault(pattern.name, SummaryOf(pattern)).add(blocks, events)
                    self.limits.added(pattern.name, number, 0)
                    self.written[pattern.name] += number
                    continue
                undecided = decides_in_order(pattern) or pattern.name in self.candidates
                take = partial(self._take, pattern)
                write_matches(pattern, blocks, events, take, typed=self.typed and not undecided, candidates=undecided)

    def _puts_together(self, pattern: Pattern) -> bool:
        """True if the matches of a pattern are put together by SUMMARIZE, not handed on or counted."""
        if pattern.summary is None or pattern.name in self.candidates or pattern.name in self.counted:
            return False
        return not decides_in_order(pattern)

    def _summarized(self, detection: Detection, counters: Counters) -> bool:
        """Make what SUMMARIZE puts together without listing matches; False where that is not asked for, or not done."""
        pattern = detection.pattern
        if pattern.summary is None or pattern.name in self.candidates or pattern.name in self.counted:
            return False
        made = summarize_unlisted(pattern, detection.events, self.owned, counters)
        if made is not None:
            self.summaries[pattern.name] = SummaryOf(pattern)
            self.summaries[pattern.name].summary.add(made)
        return made is not None

    def _most(self, pattern: Pattern) -> int | None:
        """The most matches that may be listed; those of several clauses, and preferred ones, count when written."""
        if len(pattern.clauses) > 1 or pattern.output.is_preferred:
            return None
        return self.limits.most_matches(pattern.name)

    def _take(self, pattern: Pattern, batch: pa.RecordBatch) -> None:
        if known := self._again.get(pattern.name, 0):
            left_out = min(known, batch.num_rows)
            self._again[pattern.name] = known - left_out
            batch = batch.slice(left_out)
        if batch.num_rows:
            if pattern.name in self.limits.limits:  # to find the size of a batch takes longer than to write a small one
                self.limits.added(pattern.name, batch.num_rows, batch.nbytes)
            self.sink(pattern, batch)
            self.written[pattern.name] += batch.num_rows


def count_slice(
    pattern: Pattern,
    plan: Plan,
    events: pa.Table,
    owned: Owned,
    mechanism: str | None = None,
    *,
    seconds: float,
) -> tuple[int, bool]:
    """Count the matches of a pattern that a slice owns, however many there are.

    Parameters
    ----------
    pattern, plan, events, owned, mechanism
        As in `detect_slice`.
    seconds
        Counting ends after this time.

    Returns
    -------
    (int, bool)
        The number of matches, or preferred ones, before NON_OVERLAP and CONSUME, and whether it is exact: if not, there
        are at least so many.

    Notes
    -----
    Matches are counted without being listed where that can be done (`counting.sweep`).
    """
    table = events_for([pattern], events, "events of the slice")
    chosen = choose_mechanisms([pattern], mechanism)
    [detection] = _detections([pattern], chosen, _prepare([pattern], table), plan, Counters(wanted=False))
    found = 0
    try:
        with at_most_seconds(seconds):
            unlisted = count_owned(pattern, detection.events, owned)
            if unlisted is not None:
                return unlisted, True
            runner, orders, counters = detection.mechanism, [detection.orders], detection.counters
            for [blocks] in JointRun([pattern], runner, orders, detection.events, owned, counters, [None]).parts():
                found += count_blocks(blocks, detection.events)
            return found, True
    except (LimitReached, NoRoom, MemoryError):
        return found, False


def check_output(output: str, patterns: Sequence[Pattern]) -> None:
    """Refuse a form of output that there is not, or not of these patterns.

    Raises
    ------
    InputError
        It is none of `OUTPUTS`.
    UnsupportedPattern
        OUTPUT and CONSUME ask for the matches themselves, so does what composes them, and SUMMARIZE gives no matches.
    """
    if output not in OUTPUTS:
        raise InputError(f"there is no output {output!r}; there are: {', '.join(OUTPUTS)}")
    if output != "verbose":
        inside = _composed_names(patterns)
        for pattern in patterns:
            if has_output_policy(pattern) and not (output == "count" and pattern.output.is_preferred):
                feature = f"output {output!r} with {policy_text(pattern)}"
                raise UnsupportedPattern("", feature, pattern=pattern.name, hint="use 'verbose'")
            if pattern.name in inside or (pattern.composes and output == "compressed"):
                feature = f"output {output!r} with composition"
                raise UnsupportedPattern("", feature, pattern=pattern.name, hint="use 'verbose'")
            if output == "compressed" and pattern.summary is not None:
                feature = "output 'compressed' with SUMMARIZE"
                raise UnsupportedPattern("", feature, pattern=pattern.name, hint="use 'verbose', which gives its rows")


def check_limit(limit: int | None) -> None:
    """Refuse a limit that is no number of matches: an InputError."""
    if limit is not None and limit < 0:
        raise InputError(f"the limit is {limit}; it is a number of matches, 0 or more")


def _plan_for(
    patterns: Sequence[Pattern],
    table: pa.Table,
    prepared: Streams,
    plan: Plan | None,
    chosen: Mapping[str, str],
    make_plan: MakePlan | None = None,
    *,
    output: str = "verbose",
) -> Plan:
    """The given plan, if it fits; else one of the events' statistics, made where it pays."""
    if plan is None and make_plan is not None:
        plan = make_plan(patterns, table, chosen)
    if plan is not None:
        _check_plan(patterns, plan)
        return plan
    planned = worth_planning(patterns, prepared, chosen, output)
    if not planned:
        return own_order_plan(patterns)
    from cep_pipeline.detection.planned import plan_for
    from cep_pipeline.statistics.estimate import rough_statistics

    first = planned[0]
    snapshot = rough_statistics(planned, prepared[first.type_attribute, first.base_type])
    plan = plan_for(planned, snapshot, chosen, compare=False)
    names = {pattern.name for pattern in planned}
    unplanned = own_order_plan([pattern for pattern in patterns if pattern.name not in names])
    return replace(plan, patterns=(*plan.patterns, *unplanned.patterns))


def _prepare(patterns: Sequence[Pattern], events: pa.Table) -> Streams:
    """The events prepared once for all patterns (of one stream, so mostly there is one entry)."""
    prepared: Streams = {}
    for key, event_types in _types_by_stream(patterns).items():
        prepared[key] = PreparedEvents(events, type_attribute=key[0], base_type=key[1])
        prepared[key].split(event_types)
    return prepared


@once_a_set
def _types_by_stream(patterns: Sequence[Pattern]) -> dict[tuple[str, str | None], dict[EventType, None]]:
    """The event types that patterns name, by the type attribute and the base type of their stream."""
    found: dict[tuple[str, str | None], dict[EventType, None]] = {}
    for pattern in patterns:
        of_stream = found.setdefault((pattern.type_attribute, pattern.base_type), {})
        of_stream.update((operand.event_type, None) for operand in pattern.operands)
    return found


@once_a_set
def _check_plan(patterns: Sequence[Pattern], plan: Plan) -> None:
    """Refuse a plan that was made for other patterns: a PlanError."""
    validate(plan, patterns)


@once_a_set
def _orders_of(patterns: Sequence[Pattern], plan: Plan, chosen: Mapping[str, str]) -> list[Orders]:
    """The orders, or the trees, of a plan, by which the mechanism of each pattern runs it.

    Raises
    ------
    PlanError
        A mechanism refuses one of them.
    """
    found: list[Orders] = []
    for pattern in patterns:
        planned, name = plan.for_pattern(pattern.name).clauses, chosen[pattern.name]
        own = MECHANISMS[name].is_columnar
        orders: Orders = [clause.on_kernel if own else clause.order_or_tree for clause in planned]
        if MECHANISMS[name].in_pattern_order:  # refused even where matches are not listed
            for clause, order in zip(pattern.clauses, orders_only(name, pattern, orders), strict=True):
                refuse_other_orders(name, pattern, clause, order)
        found.append(orders)
    return found


def count_table(pattern: Pattern, count: int) -> pa.Table:
    """The count output of a pattern."""
    return pa.table([[pattern.name], [decimal_text(count)]], schema=COUNT_SCHEMA)


def _counts_together(detections: Sequence[Detection]) -> list[pa.Table]:
    counts = count_together(detections)
    return [count_table(detection.pattern, count) for detection, count in zip(detections, counts, strict=True)]


_TABLES = dict(zip(OUTPUTS, (tables_together, compressed_together, _counts_together), strict=True))
"""The function that makes each form of output, of patterns that are run together."""
