"""`match`: the matches of patterns over a Spark DataFrame of events, as a Spark DataFrame.

It works in four steps.

1. Each pattern gets a way to be distributed: by the attributes that all events of a match share (`common_keys`), by
   slices of time, or in one task, which is warned of.
2. Events without a `seq` are numbered in the order of time and of `order_by`, as `cep.detect` numbers a sorted table.
3. A column says which part an event goes to: the hash of its key; or its slice of time, with a copy for each later
   slice whose look-back covers it. `groupBy(part).applyInArrow` detects in each part. A slice gives only the matches
   that become final in it (`slices.ownership`), and so each match comes from one slice.
4. All of it is one DataFrame, whose rows are computed at once and held by Spark, so that an error in the data is told
   where `match` is called, as it is, and not in the middle of the job that reads the matches.

Slices and keys do not depend on each other's matches, and so patterns that ask for more than their own events run in
one task: those that count the events of the whole stream, let OUTPUT or CONSUME go through all matches, or bind
matches that are not partitioned as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.detect import detect, detect_slice
from cep_pipeline.detection.matches import FIXED_FIELDS, matches_schema
from cep_pipeline.detection.mechanisms import Owned, choose_mechanisms
from cep_pipeline.detection.output_policy import decides_in_order, policy_text
from cep_pipeline.errors import InputError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.expressions.columns import Array
from cep_pipeline.foreign_text import listed
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.language.tokens import PatternWarning
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.patterns.normal_form import split_condition
from cep_pipeline.patterns.pattern import Pattern, with_composed
from cep_pipeline.slices.events_input import columns_needed, events_for
from cep_pipeline.slices.ownership import hands_on, look_back
from cep_pipeline.spark.session import explain_failures, is_local, refusals
from cep_pipeline.spark.workers import Installation, check_worker, installation
from cep_pipeline.storage import id_texts, with_id_texts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

KEY_PARTS = 64
"""The parts that the keys of partitioned patterns are hashed to, or so many as a shuffle has partitions, if more."""
ROWS_OF_A_SLICE = 250_000
"""About how many events a slice of time has of its own."""
_QUANTILES = 2_000
"""A stream is cut at some of so many points, between which lie about equally many events."""
_ACCURACY = 20_000
_BEFORE_ALL = -(2**63)
_LONGEST_US = 2**62
"""Look-backs are cut to this, so that a timestamp and a look-back together are an int64."""
_PART = "cep part"
"""A column of our own; no attribute and no RETURN column has a name with a space between two words."""


def match(
    events: DataFrame,
    patterns: str | Pattern | Sequence[Pattern],
    schema: StreamSchema | None = None,
    *,
    order_by: str | Sequence[str] = (),
    slice_rows: int = ROWS_OF_A_SLICE,
) -> DataFrame:
    """Find all matches of patterns in a Spark DataFrame of events, on a classic session or on Spark Connect.

    Parameters
    ----------
    events
        One row an event, in any order: `timestamp` (a timestamp, or a long of microseconds since 1970), the attributes
        that the patterns use, and `seq` (a long that no two events share), if the events have numbers already.
    patterns
        Patterns of one stream, with different names; or one pattern; or their text.
    schema
        The stream, by which the text of patterns is read. Patterns that are parsed already do without.
    order_by
        Columns that order events of one time, where there is no `seq`: the events are then numbered from 0 in the order
        of (timestamp, *order_by), nulls last. Two events that are equal in all of these are an error, since Spark has
        no order of its own, and the ids of matches would differ from run to run.
    slice_rows
        About how many events a slice of time has of its own. A task reads at most twice as many, or twice the window.

    Returns
    -------
    DataFrame
        A row for each match, with the columns of `cep.detect(…).to_arrow()`, ids as text; a RETURN column that a
        pattern lacks is null. The rows are computed when `match` returns, and are in no order.

    Raises
    ------
    InputError
        The events do not fit the patterns, two events have one place in the order, or a pattern has SUMMARIZE.
    CepError
        Another explained error of a task, or the Spark job failed, and why.

    Warns
    -----
    PatternWarning
        A pattern runs in one task, over all events: why, and what would distribute it.
    """
    if events.isStreaming:
        raise InputError("the events are a stream without an end; match takes batches of them, as foreachBatch gives")
    chosen = _patterns_of(patterns, schema)
    columns = columns_of_matches(chosen)
    if schema is not None and schema.type_of_all and schema.type_attribute not in events.columns:
        from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's users name it

        events = events.withColumn(schema.type_attribute, F.lit(schema.type_of_all))
    with explain_failures("matching the events"):
        frame, points_us, rows = _numbered(events, chosen, [order_by] if isinstance(order_by, str) else list(order_by))
        cuts = partial(cuts_of, points_us, rows, slice_rows)
        frames = [_detected(frame, cuts, way, columns) for way in distributions_of(chosen)]
        if not frames:
            return events.sparkSession.createDataFrame([], _spark_schema(columns))
        return reduce(lambda one, other: one.union(other), frames).localCheckpoint(eager=True)


def common_keys(pattern: Pattern) -> frozenset[str]:
    """The attributes that the events of a partition share, if each partition has its matches whatever others hold.

    They are those of PARTITION BY, and those of equivalence tests where nothing but events with the same values decides
    about a match: no count of events and no NON_OVERLAP. It is none under strict contiguity, and none where a pattern
    binds matches of others that do not hand on the attribute.
    """
    if pattern.strategy.crosses_partitions:
        return frozenset()
    keys = frozenset(pattern.partition_by)
    if pattern.window.events is None and not pattern.output.is_apart:
        keys |= frozenset(split_condition(pattern.condition)[1])
    for inner in pattern.composes:
        keys = frozenset(name for name in keys & common_keys(inner) if hands_on(inner, name))
    return keys


def only_in_one_task(pattern: Pattern) -> str | None:
    """Say why neither keys nor slices of time distribute a pattern; None where one of them does."""
    if common_keys(pattern):
        return None
    if pattern.composes:
        return "it binds matches of other patterns"
    if decides_in_order(pattern):
        return f"{policy_text(pattern)} goes through its matches one by one"
    if pattern.window.time_us is None:
        return "its window counts the events of the whole stream"
    return None


@dataclass(frozen=True)
class Distribution:
    """Patterns that are distributed alike: by `keys`, else by slices of time, or in one task."""

    patterns: tuple[Pattern, ...]
    keys: tuple[str, ...] = ()
    alone: bool = False


def distributions_of(patterns: Sequence[Pattern]) -> list[Distribution]:
    """The ways of patterns, in as few passes over the events as there can be."""
    keyed = {pattern: keys for pattern in patterns if (keys := common_keys(pattern))}
    shared = frozenset.intersection(*keyed.values()) if keyed else frozenset()
    by_keys: dict[frozenset[str], list[Pattern]] = {}
    for pattern, keys in keyed.items():
        by_keys.setdefault(shared or keys, []).append(pattern)
    found = [Distribution(tuple(own), tuple(sorted(keys))) for keys, own in by_keys.items()]
    rest = [pattern for pattern in patterns if pattern not in keyed]
    for alone in (False, True):
        own = tuple(pattern for pattern in rest if (only_in_one_task(pattern) is not None) is alone)
        found += [Distribution(own, alone=alone)] if own else []
    return found


def _patterns_of(given: str | Pattern | Sequence[Pattern], schema: StreamSchema | None) -> list[Pattern]:
    if isinstance(given, Pattern):
        given = [given]
    elif isinstance(given, str):
        if schema is None:
            raise InputError("the text of patterns is read by the schema of their stream: match(events, text, schema)")
        given = parse_patterns(given, schema)
    whole = with_composed(given)
    names = [pattern.name for pattern in given]
    if len(set(names)) < len(names):
        raise InputError(f"two patterns have one name in {', '.join(names)}")
    for pattern in given:
        if pattern.summary is not None:
            raise InputError(
                f"pattern {pattern.name!r} has SUMMARIZE, which Spark does itself: write RETURN in its place, and "
                "group the matches by groupBy(…).agg(…)"
            )
    for pattern in whole:
        choose_mechanisms([pattern], None)
    for pattern in given:
        if why := only_in_one_task(pattern):
            warnings.warn(
                f"pattern {pattern.name!r} runs in one task, over all events, since {why}; where its events share an "
                "attribute, PARTITION BY distributes it",
                PatternWarning,
                stacklevel=3,
            )
    return list(given)


def columns_of_matches(patterns: Sequence[Pattern]) -> pa.Schema:
    """The columns of the matches of all patterns, with ids as text."""
    try:
        schemas = [pa.schema(FIXED_FIELDS), *map(matches_schema, patterns)]
        together = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        names = ", ".join(pattern.name for pattern in patterns)
        raise InputError(f"the matches of {names} do not fit one frame: {error}; match them one by one") from error
    return pa.schema([field.with_type(with_id_texts(field.type)) for field in together])


def _spark_schema(columns: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(columns)


def _numbered(events: DataFrame, patterns: Sequence[Pattern], order_by: Sequence[str]) -> tuple[DataFrame, Array, int]:
    """Check the columns of the events, look at their times where that is needed, and number them.

    Returns
    -------
    frame : DataFrame
        `timestamp` in microseconds, `seq`, and the attributes that patterns need.
    points_us : Array
        Times between which lie about equally many events, ascending: int64.
    rows : int
        The number of events.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's users name it

    whole = with_composed(patterns)
    numbered = "seq" in events.columns
    unknown = [name for name in order_by if name not in events.columns]
    if unknown:
        raise InputError(f"order_by names {listed(unknown)}, and the events have {listed(events.columns)}")
    if numbered and order_by:
        raise InputError("the events have a column 'seq', which orders them: drop it, or leave out order_by")
    _check_columns(events.schema, whole)
    wanted = [name for name in columns_needed(whole) if name not in ("timestamp", "seq")]
    time = F.col("timestamp")
    if dict(events.dtypes)["timestamp"] == "timestamp":
        time = F.unix_micros(time)
    order = [F.col(_quoted(name)).alias(f"cep order {place}") for place, name in enumerate(order_by)]
    frame = events.select(
        time.alias("timestamp"),
        *([F.col("seq")] if numbered else order),
        *(F.col(_quoted(name)) for name in wanted),
    )
    if numbered and all(way.keys or way.alone for way in distributions_of(patterns)):
        return frame, np.zeros(0, np.int64), 0
    shares = [place / _QUANTILES for place in range(_QUANTILES)]
    rows, timed, points = frame.agg(
        F.count(F.lit(1)), F.count("timestamp"), F.percentile_approx("timestamp", shares, _ACCURACY)
    ).collect()[0]
    if rows > timed:
        raise InputError(f"column 'timestamp' of the events has {rows - timed} nulls; every event has a timestamp")
    if not numbered:
        place = ["timestamp", *(_quoted(f"cep order {number}") for number in range(len(order)))]
        twice = frame.groupBy(*place).count().where("count > 1").agg(F.min("timestamp")).collect()[0][0]
        if twice is not None:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=twice)
            raise InputError(
                f"two events at {moment.isoformat(sep=' ')} have one place in the order of the stream, and the ids "
                "of matches depend on it: name columns that order them in order_by, or give the events a column "
                "'seq'"
            )
        frame = frame.orderBy(*(F.asc_nulls_last(one) for one in place)).zipWithIndex("seq")
    return frame, np.array(points or [], np.int64), rows


def cuts_of(points_us: Array, rows: int, slice_rows: int, look_back_us: int) -> list[int]:
    """The times at which slices begin, but for the first: each has as many events of its own as it looks back at.

    So a slice reads about twice `slice_rows` events, or twice its look-back where that is more.

    Parameters
    ----------
    points_us
        Times between which lie about equally many events, ascending: int64.
    rows
        The number of all events.
    """
    each = rows / max(len(points_us), 1)
    cuts: list[int] = []
    begun = looked_at = 0
    for point in np.unique(points_us).tolist():
        place = int(np.searchsorted(points_us, point))
        if (place - begun) * each >= slice_rows and place - begun >= looked_at:
            cuts.append(point)
            begun, looked_at = place, place - int(np.searchsorted(points_us, point - look_back_us))
    return cuts


def _check_columns(columns: StructType, patterns: Sequence[Pattern]) -> None:
    """Refuse events that lack a column which patterns need, or have it with another type: an InputError."""
    from pyspark.sql.pandas.types import to_arrow_type

    needed = columns_needed(patterns)
    if missing := [name for name in needed if name not in columns.names and name != "seq"]:
        raise InputError(
            f"the events have no column {listed([*map(repr, missing)])}; they have {listed(columns.names)}: name the "
            "columns as the attributes of the stream are named, and compute derived attributes first"
        )
    kinds = {one.name: to_arrow_type(one.dataType, timezone="UTC") for one in columns if one.name in needed}
    if pa.types.is_timestamp(kinds["timestamp"]) and kinds["timestamp"].tz is None:
        raise InputError(
            "the timestamps have no time zone: cast them to timestamps of the session's zone, or convert them by "
            "F.to_utc_timestamp(column, zone)"
        )
    events_for(patterns, pa.schema({"seq": pa.int64(), **kinds}).empty_table())


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _place_among(cuts: Sequence[int], time: Column) -> Column:
    """The number of cuts at a time or before it."""
    from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's users name it

    if not cuts:
        return F.lit(0)
    return F.size(F.filter(F.array(*map(F.lit, cuts)), lambda cut: cut <= time))


def _detected(
    frame: DataFrame, cuts_for: Callable[[int], list[int]], way: Distribution, columns: pa.Schema
) -> DataFrame:
    """The matches of the patterns that are distributed alike."""
    from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's users name it

    time, owned, parts = F.col("timestamp"), None, 1
    needed = [name for name in columns_needed(with_composed(way.patterns)) if name not in ("timestamp", "seq")]
    frame = frame.select("timestamp", "seq", *(F.col(_quoted(name)) for name in needed))
    if way.keys:
        parts = max(KEY_PARTS, int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 0))
        part = F.expr(_part_of_key(way, parts))
    elif way.alone:
        part = F.lit(0)
    else:
        back_us = min(look_back(way.patterns).time_us, _LONGEST_US)
        cuts = cuts_for(back_us)
        points = [None, *((cut, _BEFORE_ALL) for cut in cuts), None]
        owned, parts = list(pairwise(points)), len(cuts) + 1
        # An event is read by its own slice, and by the later ones whose look-back covers it.
        slices = F.sequence(_place_among(cuts, time), _place_among(cuts, time + F.lit(back_us)))
        part = F.explode(slices) if cuts else F.lit(0)
    if (types := _types_read(way.patterns)) is not None:
        frame = frame.where(F.col(_quoted(way.patterns[0].type_attribute)).isin(types))
    frame = frame.withColumn(_PART, part)
    if owned is not None:  # a task for each; small parts of keys may share one
        frame = frame.repartitionById(parts, _quoted(_PART))
    detect_part = _part_detection(
        way.patterns, owned, columns, None if is_local(frame.sparkSession) else installation()
    )
    return frame.groupBy(_quoted(_PART)).applyInArrow(detect_part, _spark_schema(columns))


def _types_read(patterns: Sequence[Pattern]) -> list[str] | None:
    """The types of the events that patterns read; None where events of any type may decide about a match."""
    whole = with_composed(patterns)
    names = {name for pattern in whole for operand in pattern.operands for name in operand.types}
    if any(not one.strategy.skips or one.window.events is not None or one.base_type in names for one in whole):
        return None
    return sorted(names)


def _part_of_key(way: Distribution, parts: int) -> str:
    """SQL for the number of the part that holds all events with the key of an event."""
    floats = {name for pattern in way.patterns for name, kind in pattern.attributes if kind is ValueType.FLOAT64}
    # As a key -0.0 is 0.0, and a hash tells them apart.
    keys = (f"{_quoted(name)} + 0.0D" if name in floats else _quoted(name) for name in way.keys)
    return f"CAST(pmod(xxhash64({', '.join(keys)}), {parts}) AS INT)"


Task = Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]


def _part_detection(
    patterns: tuple[Pattern, ...], owned: Sequence[Owned] | None, columns: pa.Schema, driver: Installation | None
) -> Task:
    """The function of `applyInArrow`: detects in one part, and gives its matches."""

    def detect_part(key: tuple[pa.Scalar, ...], events: pa.Table) -> pa.Table:
        with refusals("a part of the events has more matches, or more events, than there is memory for"):
            check_worker(driver)
            own = None if owned is None else owned[key[0].as_py()]
            return matches_of_part(patterns, own, events.drop_columns([_PART]), columns)

    return detect_part


def matches_of_part(patterns: Sequence[Pattern], owned: Owned | None, events: pa.Table, columns: pa.Schema) -> pa.Table:
    """The matches in a part of the events, in any order; `owned` says which a slice of time has, None: all of them."""
    order = [("timestamp", "ascending"), ("seq", "ascending")]
    events = events.sort_by(order).combine_chunks()
    if owned is None:
        tables = list(detect(patterns, events).values())
    else:
        found: list[pa.Table] = []
        detect_slice(
            patterns, None, events, owned, lambda _, batch: found.append(pa.Table.from_batches([batch])), typed=True
        )
        tables = found
    return pa.concat_tables([columns.empty_table(), *(_in_columns(table, columns) for table in tables)])


def _in_columns(matches: pa.Table, columns: pa.Schema) -> pa.Table:
    """Matches of one pattern in the columns of all."""
    found = [
        id_texts(matches[field.name]).cast(field.type)
        if field.name in matches.column_names
        else pa.nulls(matches.num_rows, field.type)
        for field in columns
    ]
    return pa.Table.from_arrays(found, schema=columns)
