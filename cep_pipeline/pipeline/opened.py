"""`open`: what is published in a warehouse, as Arrow tables, for programs and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.errors import InputError
from cep_pipeline.foreign_text import html_table, listed

if TYPE_CHECKING:
    from cep_pipeline.charts import Drawing
    from cep_pipeline.detection.results import Matches
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.pipeline.day_work import Observer
    from cep_pipeline.pipeline.published_diff import PublishedDiff
    from cep_pipeline.spark.session import SparkSession
    from cep_pipeline.warehouse.stream_tables import StreamTables
    from cep_pipeline.warehouse.warehouse import Warehouse


def open(place: str | Path) -> PublishedWarehouse:  # the public name is `cep.open`
    """Open a warehouse to read what is published in it; nothing is written.

    Parameters
    ----------
    place
        The folder of the warehouse, or the `pipeline.yaml` that names it, which also says where a catalog outside of
        the folder is and how an object store is reached.

    Raises
    ------
    InputError
        There is no warehouse at this place.
    """
    from cep_pipeline.warehouse.warehouse import Warehouse

    if str(place).endswith((".yaml", ".yml")):
        from cep_pipeline.pipeline.configuration import Configuration

        configuration = Configuration.load(place)
        return PublishedWarehouse(configuration.open_warehouse(), configuration)
    if "://" in str(place) or not (Path(place) / "catalog.db").is_file():
        raise InputError(
            f"{place}: this is no folder of a warehouse with its catalog; name the folder, or the pipeline.yaml of the "
            "project"
        )
    return PublishedWarehouse(Warehouse.open(Path(place).resolve()))


class PublishedWarehouse:
    """A warehouse to read from, made by `open`: `warehouse["trades"]` is one of its streams."""

    def __init__(self, warehouse: Warehouse, configuration: Configuration | None = None) -> None:
        self._warehouse = warehouse
        self._configuration = configuration

    def __repr__(self) -> str:
        return f"<PublishedWarehouse {self._warehouse.location}: {', '.join(self.streams) or 'no stream'}>"

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams that have tables."""
        return tuple(self._warehouse.streams())

    def __getitem__(self, stream: str) -> PublishedStream:
        """Return a stream by its name; InputError lists those that there are."""
        return PublishedStream(self._warehouse.open_stream(stream), self._configuration)

    def _repr_html_(self) -> str:
        rows = ((name, len(self[name].days())) for name in self.streams)
        return html_table(("stream", "days"), rows, self._warehouse.location)


class PublishedStream:
    """The published data of one stream, as it is when it is asked for."""

    def __init__(self, tables: StreamTables, configuration: Configuration | None = None) -> None:
        self._tables = tables
        self._configuration = configuration

    def __repr__(self) -> str:
        return f"<PublishedStream {self._tables.name}: {len(self._tables.days())} days>"

    def days(self) -> pa.Table:
        """Return the published days: `day`, `events`."""
        days = self._tables.days()
        columns = {"day": [one.day for one in days], "events": [one.events for one in days]}
        return pa.table(columns, schema=pa.schema({"day": pa.date32(), "events": pa.int64()}))

    def pattern_sets(self) -> tuple[str, ...]:
        """Return the names of the pattern sets that have matches, or days without any."""
        return tuple(dict.fromkeys(unit.pattern_set for unit in self._tables.matches_days()))

    def events(self, first: date | None = None, last: date | None = None) -> pa.Table:
        """Return the events of the days from `first` to `last`, both included; None: from the first, to the last."""
        return self._tables.read_events(first, last)

    def matches(
        self,
        pattern_set: str | None = None,
        *,
        pattern: str | None = None,
        first: date | None = None,
        last: date | None = None,
        limit: int | None = None,
    ) -> Matches:
        """Return matches by the days on which they became final; `.events()` reads their events from the warehouse.

        A table has the columns of `detect`, those of RETURN too, and then those that say where it was published. Where
        no configuration was opened, or the pattern has changed since, RETURN is the column `returns`, as JSON text.

        Parameters
        ----------
        pattern_set
            May be left out where the stream has one.
        pattern, first, last
            Only this pattern; the days, both included.
        limit
            Most matches of each pattern; None: all.

        Raises
        ------
        InputError
            There is no such pattern set, or there are several and none is named.
        """
        from cep_pipeline.detection.results import Matches

        tables = self._tables.pinned(("matches", "events"))
        name = self._pattern_set(pattern_set)
        if limit is None:
            found = tables.read_matches(name, first, last, pattern=pattern)
        else:
            found = tables.first_matches(name, first, last, each=limit, pattern=pattern)
        patterns = pc.unique(found.column("pattern")).to_pylist()
        of_pattern = {
            one: self._typed(name, one, found.filter(pc.equal(found.column("pattern"), one))) for one in patterns
        }

        def draw(match: Mapping[str, Any], attribute: str | None, timezone: str | None) -> Drawing:
            return self._draw(tables, name, match, attribute, timezone)

        inside = {f"inside, level {level}": one for level, one in enumerate(tables.composed_matches(found))}
        return Matches(of_pattern, tables.read_match_events, draw, inside)

    def summaries(
        self, pattern_set: str | None = None, *, first: date | None = None, last: date | None = None
    ) -> dict[str, pa.Table]:
        """Return the rows of each pattern with SUMMARIZE over the matches that became final on some days.

        They are those of one run over all of these days. The patterns are those of the project's configuration.

        Parameters
        ----------
        pattern_set
            May be left out where the stream has one.
        first, last
            The days, both included.

        Raises
        ------
        InputError
            There is no such pattern set, no configuration was opened, or days were detected by other statements.
        """
        name = self._pattern_set(pattern_set)
        if self._configuration is None:
            raise InputError(
                "the rows of several days are put together by the patterns: open the pipeline.yaml of the project, in "
                "place of the folder of the warehouse"
            )
        patterns = self._configuration.stream(self._tables.name).pattern_set(name).statements
        summarized = [pattern for pattern in patterns if pattern.summary is not None]
        return {one.name: self._tables.summary_of(name, one, first, last).table() for one in summarized}

    def diff(
        self,
        pattern_set: str | None = None,
        *,
        patterns: Sequence[str] = (),
        first: date | None = None,
        last: date | None = None,
        examples: int = 3,
        observer: Observer | None = None,
    ) -> PublishedDiff:
        """Say what published days would gain and lose by the patterns as they are configured now; nothing is written.

        Patterns whose text has changed since the days were published are detected again, on Spark as the configuration
        says, and their matches are compared with the published ones by the events that they bind.

        Parameters
        ----------
        pattern_set
            Only this one; None: all.
        patterns
            Only these; none: all that have changed.
        first, last
            The days, both included.
        examples
            Most examples of each kind, of each pattern.
        observer
            Told of the steps; None: nobody is.

        Raises
        ------
        InputError
            There is no such pattern, no configuration was opened, or none of these days is published.
        """
        from cep_pipeline.pipeline.day_work import LogObserver
        from cep_pipeline.pipeline.published_diff import diff_published
        from cep_pipeline.spark.session import spark_session

        if self._configuration is None:
            raise InputError("the patterns are those of a project: open its pipeline.yaml, not the folder of tables")
        spark, stream = self._configuration.settings.spark, self._configuration.stream(self._tables.name)

        def session() -> SparkSession:
            return spark_session(spark.master, remote=spark.remote, app_name="cep diff", properties=spark.properties)

        sets, seen = stream.chosen_sets(pattern_set), observer or LogObserver()
        return diff_published(stream, self._tables, sets, session, seen, patterns, (first, last), examples)

    def statistics(self, pattern_set: str | None = None) -> pa.Table:
        """Return the statistics of a pattern set, a row for each day; numbers are JSON text, as in the table."""
        name = self._pattern_set(pattern_set)
        table = self._tables.read_table("statistics")
        return table.filter(pc.equal(table.column("pattern_set"), name))

    def plans(self) -> pa.Table:
        """Return all recorded plans, with the texts that explain them."""
        return self._tables.read_table("plans")

    def decisions(self) -> pa.Table:
        """Return all decisions about plans."""
        return self._tables.read_table("decisions")

    def runs(self) -> pa.Table:
        """Return the records of runs."""
        return self._tables.read_table("runs")

    def _draw(
        self, tables: StreamTables, pattern_set: str, match: Mapping[str, Any], attribute: str | None, zone: str | None
    ) -> Drawing:
        from cep_pipeline.warehouse.match_pages import draw_published

        configuration = self._configuration
        if configuration is None or tables.name not in configuration.stream_names():
            # Only the schema says which attribute tells the type; mostly it is the first text.
            of_type = next((one.name for one in tables.events_schema if one.type == pa.string()), None)
            return draw_published(tables, match, attribute, type_attribute=of_type, timezone=zone or "UTC")
        stream = configuration.stream(tables.name)
        return draw_published(
            tables,
            match,
            attribute,
            pattern=stream.pattern_named(pattern_set, match["pattern"]),
            type_attribute=stream.schema.type_attribute,
            timezone=zone or stream.schema.timezone,
        )

    def _typed(self, pattern_set: str, pattern: str, matches: pa.Table) -> pa.Table:
        """The matches of a pattern with its RETURN columns, as `matches` says."""
        from cep_pipeline.detection.composition import with_typed_returns
        from cep_pipeline.detection.matches import matches_schema

        if self._configuration is None or self._tables.name not in self._configuration.stream_names():
            return matches
        own = next(
            (s for s in self._configuration.stream(self._tables.name).pattern_sets if s.name == pattern_set), None
        )
        one = next((one for one in own.statements if one.name == pattern), None) if own is not None else None
        if own is None or one is None or not pc.all(pc.equal(matches["pattern_version"], own.version)).as_py():
            return matches
        typed = with_typed_returns(one, matches)
        first = [name for name in matches_schema(one).names if name in typed.column_names]
        return typed.select([*first, *(name for name in typed.column_names if name not in first)])

    def _pattern_set(self, name: str | None) -> str:
        known = self.pattern_sets()
        if name is None and len(known) == 1:
            return known[0]
        if name is None or name not in known:
            asked = "which pattern set?" if name is None else f"no matches of a pattern set {name!r} are published;"
            raise InputError(f"stream {self._tables.name}: {asked} there are: {listed(known) or 'none'}")
        return name

    def _repr_html_(self) -> str:
        rows = ((unit.final_day, unit.pattern_set, unit.matches) for unit in self._tables.matches_days())
        return html_table(("day", "pattern set", "matches"), rows, self._tables.name)
