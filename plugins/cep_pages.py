"""Pages of the pipeline in Airflow's UI: streams, runs, matches, plans, statistics, invariants and decisions.

Every page is for logged-in users who may see plugin pages. Of a stream it shows nothing to those who may not read the
DAG `daily_detection_STREAM` and its runs: they are answered as if there were no such stream. Nothing of a request
reaches a path or a query: streams are looked up among the configured ones, runs among the recorded ones; pages are
rendered with everything escaped.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

import cep_pictures as pictures
import pyarrow as pa
import pyarrow.compute as pc
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.utils.session import create_session
from cep_plugin import ADAPTATION_DAGS, DAGS_OF_A_STREAM, PREFIX, REPLANNING_DAG
from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from sqlalchemy import select
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException

import cep_pipeline
from cep_pipeline.charts import MatchSeries, draw_match
from cep_pipeline.cli.adaptation import grows_by
from cep_pipeline.cli.files import write_tables
from cep_pipeline.cli.statistics import StatisticsView, figure
from cep_pipeline.errors import CepError, InputError
from cep_pipeline.events.columns import SEQ_PER_DAY
from cep_pipeline.events.event_words import local_time
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.foreign_text import MOST_IN_CELL, shortened, visible
from cep_pipeline.language.formatter import format_pattern
from cep_pipeline.pipeline.configuration import Configuration, Stream, data_docs_folder
from cep_pipeline.pipeline.plan_checks import show_invariants
from cep_pipeline.pipeline.plans import of_another_format
from cep_pipeline.pipeline.statistics import StatisticsHistory
from cep_pipeline.pipeline.violations import answer_to, pending_violation
from cep_pipeline.planning import Plan
from cep_pipeline.planning.clause_statistics import format_ln
from cep_pipeline.statistics.drift import Number
from cep_pipeline.statistics.terms import uses_of_terms
from cep_pipeline.storage import folder_name
from cep_pipeline.warehouse.match_pages import (
    MatchesQuery,
    ends_of_day,
    events_around,
    events_between,
    events_of,
    explain_match,
    find_match,
    matches_in_batches,
    matches_over_time,
    matches_page,
    opened_match,
)
from cep_pipeline.warehouse.records import PublishedMatches, RunRecord, short_run_id
from cep_pipeline.warehouse.stream_tables import StreamTables

HERE = Path(__file__).resolve().parent
SHOWN_RUNS = 200
SHOWN_REASONS = 20
SHOWN_ROWS = 60  # of longer tables it is said how long they are, until they are opened
SHOWN_DAYS = 42
SHOWN_PATTERNS = 20  # of a stream of more patterns, the most frequent ones
SHOWN_MATCHES = 200
SHOWN_EVENTS = 6  # of a match in a list
DOWNLOADED_MATCHES = 1_000_000
HISTOGRAM_BARS = 60
BAR_STEPS_US = [s * 1_000_000 for s in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200)]
# The pages hold no script and load nothing: so a browser need not allow any.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

templates = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=select_autoescape(default=True),
    undefined=StrictUndefined,
    finalize=lambda value: visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value,
)
templates.filters["json"] = lambda value: json.dumps(value, indent=2, default=str, ensure_ascii=False)
templates.filters["figure"] = lambda value: "" if value is None else figure(value)
templates.filters["of_ln"] = lambda value: "" if value is None else format_ln(value)
templates.filters["growth"] = lambda value: "" if value is None else grows_by(value)
templates.filters["plan_query"] = lambda plan, stream: urlencode(
    {"stream": stream, "pattern_set": plan.pattern_set, "version": plan.version}
)
templates.filters["address"] = lambda values: urlencode({name: one for name, one in values.items() if one})
templates.filters["short_run"] = short_run_id
templates.filters["count"] = lambda value: "" if value is None else f"{value:,}"

# No documentation pages: those would be open to everyone.
app = FastAPI(
    title="CEP pipeline",
    dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
)


Name = Annotated[str, Query(max_length=200)]
NameOrNone = Annotated[str | None, Query(max_length=200)]
Clock = Annotated[str | None, Query(pattern=r"^(\d\d:\d\d(:\d\d)?)?$")]


class Pages:
    """The configured pipeline as far as a user may see it: no page has another way to the warehouse.

    This class and those derived from it are the heads of the routes. Each takes from the address what its pages are
    about, and answers 404 where there is no such thing or the user may not see it.
    """

    def __init__(self, request: Request, user: GetUserDep) -> None:
        self.request, self.user = request, user
        self.home, self.airflow = request.scope["root_path"], airflow_root(request)
        self.configuration = Configuration.load(os.environ.get("CEP_CONFIG") or HERE.parent / "pipeline.yaml")
        self.warehouse = self.configuration.open_warehouse()
        self.about: dict[str, Any] = {}
        """The values that all its pages have."""

    @cached_property
    def streams(self) -> list[str]:
        """The configured streams of which something is published, and that the user may see."""
        published = self.warehouse.streams()
        return [
            name
            for name in self.configuration.stream_names()
            if name in published and self.may("GET", dag_id(name), None, DagAccessEntity.RUN)
        ]

    def may(self, method: str, dag: str, *entities: DagAccessEntity | None) -> bool:
        """True if the user may do this with all of these parts of a DAG; None stands for the DAG itself."""
        details = DagDetails(id=dag, team_name=DagModel.get_team_name(dag))
        asked = [{"method": method, "access_entity": entity, "details": details} for entity in entities]
        return get_auth_manager().batch_is_authorized_dag(asked, user=self.user)

    def tables_of(self, stream: str) -> StreamTables:
        """The tables of a stream; 404 where there is none of this name, or the user may not see it."""
        if stream not in self.streams:
            raise HTTPException(404, "There is no such stream.")
        return self.warehouse.open_stream(stream)

    def show(self, template: str, **values: Any) -> HTMLResponse:
        """A rendered page."""
        return page(template, self.request, **self.about, **values)

    def say(self, title: str, message: str) -> HTMLResponse:
        """A page with a sentence, in place of one that there is nothing for."""
        return self.show("message.html", title=title, message=message)

    def lead_to(self, address: str) -> Response:
        """The answer that sends the browser to another page."""
        return RedirectResponse(address, 303, HEADERS)

    def run_page(self, stream: str, run: RunRecord) -> str:
        """The address of the page of one run."""
        query = {"stream": stream, "run_id": run.run_id} | ({"day": run.day.isoformat()} if run.day else {})
        return f"{self.home}/run?{urlencode(query)}"

    def dag_page(self, dag: str, run_id: str = "") -> str:
        """The address of Airflow's page of a DAG, or of one of its runs."""
        return f"{self.airflow}/dags/{quote(dag, safe='')}" + (f"/runs/{quote(run_id, safe='')}" if run_id else "")

    def dag_runs(self, run_ids: Iterable[str]) -> dict[tuple[str, str], str]:
        """(DAG, run id) -> page of the DAG run, of those that Airflow has: runs of the command line have none."""
        chosen = select(DagRun.dag_id, DagRun.run_id).where(DagRun.run_id.in_(sorted(set(run_ids))))
        with create_session() as session:
            return {(dag, run): self.dag_page(dag, run) for dag, run in session.execute(chosen)}


class StreamsPages(Pages):
    """Pages about all streams, or about one of them."""

    def __init__(self, request: Request, user: GetUserDep, stream: NameOrNone = None) -> None:
        super().__init__(request, user)
        self.tables = {name: self.tables_of(name) for name in ([stream] if stream else self.streams)}
        self.about = {"stream": stream, "limit": SHOWN_RUNS}

    def latest(self, read: Callable[[StreamTables], Iterable[Any]], moment: Callable[[Any], Any]) -> list[Any]:
        """The latest records of these streams: pairs of a stream and a record, the latest first."""
        found = [(name, record) for name, tables in self.tables.items() for record in read(tables)]
        return sorted(found, key=lambda entry: moment(entry[1]), reverse=True)[:SHOWN_RUNS]

    def pending(self) -> list[dict[str, Any]]:
        """The violations of current plans that no replanning has answered, each with the run that is at it."""
        found = []
        for stream, tables in self.tables.items():
            decisions, dag = tables.decisions(), f"{REPLANNING_DAG}_{stream}"
            for name in self.configuration.stream_settings(stream).pattern_sets:
                plan = tables.current_plan(name)
                own = [one for one in decisions if one.pattern_set == name]
                violation = None if plan is None else pending_violation(own, plan.version)
                if violation is not None:
                    run, failed = last_attempt(self, dag, violation.run_id)
                    one = {"stream": stream, "violation": violation, "dag_run": run, "failed": failed}
                    found.append({**one, "dag": self.dag_page(dag)})
        return found


class StreamPages(Pages):
    """Pages about a stream."""

    def __init__(self, request: Request, user: GetUserDep, stream: Name) -> None:
        super().__init__(request, user)
        self.stream, self.tables = stream, self.tables_of(stream)
        self.about = {"stream": stream}

    @cached_property
    def loaded(self) -> Stream:
        """The stream with its schema and patterns."""
        return loaded_stream(self.configuration, self.stream)


def loaded_stream(configuration: Configuration, stream: str) -> Stream:
    """A stream with its schema and patterns, which are parsed anew where one of its files has changed."""
    contents = sha256()
    for file in configuration.files_of(stream):
        with suppress(OSError):  # the error that names the file comes when it is read
            contents.update(sha256(file.read_bytes()).digest())
    return stream_of_contents(configuration.path, stream, contents.hexdigest())


@lru_cache(maxsize=16)
def stream_of_contents(path: Path, stream: str, contents: str) -> Stream:
    """The stream that a configuration has as long as the contents of its files are these."""
    return Configuration.load(path).stream(stream)


class PatternSetPages(StreamPages):
    """Pages about a pattern set of a stream: the one that is asked for, or the first one."""

    def __init__(self, request: Request, user: GetUserDep, stream: Name, pattern_set: NameOrNone = None) -> None:
        super().__init__(request, user, stream)
        sets = list(self.configuration.stream_settings(stream).pattern_sets)
        if not sets or (pattern_set and pattern_set not in sets):
            raise HTTPException(404, "There is no such pattern set.")
        self.pattern_set = pattern_set or sets[0]
        self.about |= {"pattern_set": self.pattern_set, "sets": sets}


class ChosenMatches(PatternSetPages):
    """Pages about the matches of a day that the address chooses."""

    def __init__(
        self,
        request: Request,
        user: GetUserDep,
        stream: Name,
        pattern_set: NameOrNone = None,
        pattern: NameOrNone = None,
        day: Annotated[str | None, Query(pattern=r"^(\d{4}-\d\d-\d\d)?$")] = None,
        start: Clock = None,
        end: Clock = None,
        value: Annotated[str, Query(max_length=200)] = "",
    ) -> None:
        try:
            chosen = date.fromisoformat(day) if day else None
            times = [time.fromisoformat(one) if one else None for one in (start, end)]
        except ValueError as error:
            raise HTTPException(422, "A day is written as 2013-10-07, a time as 09:30.") from error
        super().__init__(request, user, stream, pattern_set)
        self.units = self.tables.matches_days(self.pattern_set)
        self.query: MatchesQuery | None = None  # while nothing is published
        if self.units:
            chosen = chosen or max(unit.final_day for unit in self.units)
            zone = ZoneInfo(self.loaded.schema.timezone)
            day_bounds(chosen, zone.key)  # refuses the ends of the calendar
            bounds = [
                None if one is None else int(datetime.combine(chosen, one, zone).timestamp() * 1e6) for one in times
            ]
            self.query = MatchesQuery(self.pattern_set, chosen, pattern or None, *bounds, value)
        start, end = (None if one is None else one.isoformat() for one in times)
        self.again = {"stream": stream, "pattern_set": pattern_set, "pattern": pattern or None, "day": chosen}
        self.again |= {"start": start, "end": end, "value": value}
        """The parts of the address that choose the same again."""
        self.matches = self.tables.pinned(("matches", "events"))


@app.exception_handler(CepError)
def explain(request: Request, error: CepError) -> HTMLResponse:
    """A page that says what is wrong, in place of one that cannot be shown."""
    if isinstance(error, InputError):
        return page("message.html", request, status=422, title="Not shown", message=str(error))
    return page("message.html", request, status=500, title="The pipeline cannot be read", message=str(error))


@app.exception_handler(Exception)
def fail(request: Request, error: Exception) -> HTMLResponse:
    """The page of a fault of the program: one line; the server's log has the traceback, which is raised on to it."""
    message = f"This page cannot be shown: {type(error).__name__}. The log of Airflow's API server has the traceback."
    return page("message.html", request, status=500, title="A fault of the program", message=message)


@app.exception_handler(HTTPException)
def refuse(request: Request, error: HTTPException) -> HTMLResponse:
    """The page of an error, those of authentication too."""
    title = "Log in to Airflow first" if error.status_code == 401 else "Not shown"
    answer = page("message.html", request, status=error.status_code, title=title, message=str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


def page(template: str, request: Request, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A rendered page; in it `home` is the address of the overview, `airflow` that of Airflow.

    Values whose names end with `_chart` are drawings, in which all text is escaped already.
    """
    shown = {
        "home": f"{request.scope['root_path']}/",
        "airflow": f"{airflow_root(request)}/",
        "stream": None,
        "pattern_set": None,
        **{
            name: Markup(f'<div class="scroll">{value}</div>') if name.endswith("_chart") and value else value
            for name, value in values.items()
        },
    }
    return HTMLResponse(templates.get_template(template).render(**shown), status, HEADERS)


def airflow_root(request: Request) -> str:
    """Return the address at which Airflow is mounted; the pages are below it."""
    return str(request.scope["root_path"]).removesuffix(PREFIX)


@app.get("/")
def runs(pages: Annotated[StreamsPages, Depends()]) -> HTMLResponse:
    """The overview of all streams, or of one: their days, numbers of matches, what is at work, and the latest runs."""
    records = pages.latest(
        lambda tables: tables.runs(SHOWN_RUNS), moment=lambda run: (run.started_at, run.day or date.min)
    )
    links = pages.dag_runs(run.run_id for _, run in records)
    rows = [
        {
            "stream": name,
            "run": run,
            "details": pages.run_page(name, run),
            "dag_run": links.get((dag_id(name), run.run_id)),
            "matches": sum(run.matches.values()) if run.matches else None,
        }
        for name, run in records
    ]
    return pages.show(
        "runs.html",
        streams=pages.streams,
        rows=rows,
        pending=pages.pending(),
        overviews=[stream_overview(pages, name, tables) for name, tables in pages.tables.items()],
        states=pictures.STATES,
    )


@app.get("/run")
def run(
    pages: Annotated[StreamPages, Depends()],
    run_id: Annotated[str, Query(max_length=300)],
    day: date | None = None,
    match: Annotated[str, Query(max_length=200)] = "",
) -> HTMLResponse:
    """One run of one day: its steps at their times, matches, rejected rows and validation.

    Of many patterns those with the text `match` are shown, of these the most frequent ones.
    """
    tables = pages.tables
    days = {run.day: run for run in tables.runs() if run.run_id == run_id}
    record = days.pop(day, None)
    if record is None:
        raise HTTPException(404, "There is no such run.")
    asked_s, states = states_in_airflow(dag_id(pages.stream), run_id)
    spans = pictures.spans_of_run(record, [step for other in days.values() for step in other.steps], asked_s, states)
    spent = {kind: sum(one.end_s - one.begin_s for one in spans if one.kind == kind) for kind in pictures.SPANS}
    spent["process"] = max(spent["process"] - (spent["work"] if states else 0), 0)  # tasks hold their work
    matches = [(name, number) for name, number in record.matches.items() if match in name]
    if len(matches) > SHOWN_RUNS:
        matches.sort(key=lambda one: -one[1])
    return pages.show(
        "run.html",
        run=record,
        match=match,
        matches=matches,
        sets=list(pages.configuration.stream_settings(pages.stream).pattern_sets),
        summarized=summarized_patterns(pages.configuration, pages.stream),
        reasons=rejected_by_reason(tables, record),
        most_rows=SHOWN_ROWS,
        limit=SHOWN_RUNS,
        rows=rejected_rows(tables, record),
        run_chart=pictures.run_chart(spans, min(one.begin_s for one in spans)) if spans else "",
        spent=[(pictures.SPANS[kind], seconds) for kind, seconds in spent.items() if seconds],
        advice=advice_about(record.error) if record.status == "failed" else [],
        dag_run=pages.dag_runs([run_id]).get((dag_id(pages.stream), run_id)),
        data_docs=next(
            (page for page in data_docs_of(pages, pages.stream, record) if f"{day}/validations/" in page), None
        ),
    )


def states_in_airflow(dag: str, run_id: str) -> tuple[float | None, list[tuple[str, str, float]]]:
    """The instant at which Airflow was asked for a run, and what its tasks came to since: (task, state, Unix time)."""
    with create_session() as session:
        asked = session.scalar(select(DagRun.queued_at).where(DagRun.dag_id == dag, DagRun.run_id == run_id))
        if asked is None:
            return None, []
        of_run = (Log.dag_id == dag, Log.run_id == run_id, Log.event.in_(pictures.TASK_STATES), Log.dttm >= asked)
        known = select(Log.task_id, Log.map_index, Log.event, Log.dttm).where(*of_run).order_by(Log.dttm, Log.id)
        came = session.execute(known).all()
    tasks = [(f"{task} {place}" if place and place > 0 else task, state, at) for task, place, state, at in came]
    return asked.timestamp(), [(task, state, at.timestamp()) for task, state, at in tasks]


def data_docs_of(pages: Pages, stream: str, run: RunRecord) -> dict[str, Path]:
    """Address -> file of Great Expectations' pages about a run of a day; none where a run has no result document."""
    if not run.validation or run.day is None:
        return {}
    folder = data_docs_folder(pages.configuration.checks_folder, stream, run.run_id, run.day)
    files = [] if folder is None else sorted(folder.rglob("*.html"))
    start = f"{pages.home}/checks/{quote(stream)}/{folder_name(run.run_id)}/{run.day}"
    return {f"{start}/{quote(file.relative_to(folder).as_posix())}": file for file in files}


@app.get("/checks/{stream}/{run}/{day}/{page:path}")
def data_docs(pages: Annotated[Pages, Depends()], stream: str, run: str, day: date, page: str) -> Response:
    """One of the pages of Great Expectations about a run of a day.

    They are looked up by their whole address, so that nothing of a request reaches a path. The scripts and styles that
    they would load from elsewhere are refused by the headers, as on all pages; so they get a style here.
    """
    asked = f"{pages.home}/checks/{quote(stream)}/{quote(run)}/{day}/{quote(page)}"
    records = (one for one in pages.tables_of(stream).runs() if one.day == day)
    file = next((found[asked] for one in records if asked in (found := data_docs_of(pages, stream, one))), None)
    if file is None:
        raise HTTPException(404, "There is no such page of data checks.")
    style = (HERE / "templates" / "data_docs.css").read_text(encoding="utf-8")
    text = file.read_text(encoding="utf-8").replace("</head>", f"<style>{style}</style></head>", 1)
    return HTMLResponse(text, headers=HEADERS)


@app.get("/plan")
def plan(
    pages: Annotated[StreamPages, Depends()],
    pattern_set: Name,
    version: Annotated[int, Query(ge=1)],
    pattern: NameOrNone = None,
) -> HTMLResponse:
    """A recorded plan: as `cep explain` prints it, or one of its patterns in full."""
    versions = pages.tables.plans(pattern_set)
    record = next((one for one in versions if one.version == version), None)
    if record is None:
        raise HTTPException(404, "There is no such plan.")
    names, text = [], record.explain
    if of_another_format(record) is None:
        read = Plan.from_json(record.plan, f"plan {version} of {pattern_set}")
        names = [one.pattern for one in read.patterns]
        if pattern is not None and pattern in names:
            text = read.explain(patterns=[pattern])
    if pattern is not None and pattern not in names:
        raise HTTPException(404, "There is no such pattern in the plan.")
    replanning = f"{REPLANNING_DAG}_{pages.stream}"
    return pages.show(
        "plan.html",
        pattern_set=pattern_set,
        sets=list(pages.configuration.stream_settings(pages.stream).pattern_sets),
        plan=record,
        pattern=pattern,
        names=names,
        most_rows=SHOWN_ROWS,
        text=text,
        versions=versions,
        replan=pages.dag_page(replanning) if pages.may("POST", replanning, DagAccessEntity.RUN) else None,
    )


@app.get("/decisions")
def decisions(pages: Annotated[StreamsPages, Depends()]) -> HTMLResponse:
    """The latest checks of current plans and replannings of all streams, or of one."""
    found = pages.latest(lambda tables: tables.decisions(limit=SHOWN_RUNS), moment=lambda one: one.decided_at)
    links = pages.dag_runs(decision.run_id for _, decision in found)
    rows = []
    for name, decision in found:
        of_dags = (links.get((f"{kind}_{name}", decision.run_id)) for kind in ADAPTATION_DAGS)
        now = decision.details.get("current")
        answer = answer_to(decision, [one for stream, one in found if stream == name])
        row = {"stream": name, "decision": decision, "now": now, "dag_run": next(filter(None, of_dags), None)}
        rows.append({**row, "answer": answer})
    return pages.show("decisions.html", rows=rows, pending=pages.pending())


@app.get("/plans")
def plans(pages: Annotated[PatternSetPages, Depends()]) -> Response:
    """The current plan of a pattern set."""
    current = pages.tables.current_plan(pages.pattern_set)
    if current is None:
        return pages.say("No plan", "The next run makes the first one.")
    query = {"stream": pages.stream, "pattern_set": pages.pattern_set, "version": current.version}
    return pages.lead_to(f"{pages.home}/plan?{urlencode(query)}")


@app.get("/dag")
def dag(
    pages: Annotated[Pages, Depends()],
    dag_id: Annotated[str, Query(max_length=300)],
    run_id: Annotated[str | None, Query(max_length=300)] = None,
) -> Response:
    """The page of a DAG or DAG run: that of the stream's run, its decisions, or its overview."""
    kinds = {f"{kind}_{stream}": (stream, kind) for stream in pages.streams for kind in DAGS_OF_A_STREAM}
    if dag_id not in kinds:
        return pages.say("No stream of the pipeline", "This DAG runs nothing of a stream that you may see.")
    stream, kind = kinds[dag_id]
    if run_id and kind not in ADAPTATION_DAGS:
        record = next((one for one in pages.tables_of(stream).runs() if one.run_id == run_id), None)
        if record is not None:
            return pages.lead_to(pages.run_page(stream, record))
    place = "decisions" if kind in ADAPTATION_DAGS else ""
    return pages.lead_to(f"{pages.home}/{place}?{urlencode({'stream': stream})}")


@app.get("/matches")
def matches(
    pages: Annotated[ChosenMatches, Depends()], after: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    """The matches of a day: chosen by pattern, time and values, a page at a time, and over the day."""
    query, timezone = pages.query, pages.loaded.schema.timezone
    if query is None:
        return pages.say("No matches", "None are published.")
    found = matches_page(pages.matches, query, SHOWN_MATCHES, after)
    edges = bars_of_day(query, timezone, ends_of_day(pages.matches, query))
    counts, complete = matches_over_time(pages.matches, query, edges)
    unit = next((one for one in pages.units if one.final_day == query.day), None)
    summaries: dict[str, list[dict[str, Any]]] = {}
    for row in pages.tables.read_summaries(query.pattern_set, query.day, query.day, pattern=query.pattern).to_pylist():
        summaries.setdefault(row["pattern"], []).append(json.loads(row["groups"]) | json.loads(row["aggregates"]))
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for _, own in groupby(found.rows.to_pylist(), key=lambda row: row["pattern"]):
        said = said_events(pages.matches, rows := list(own), pages.loaded, query.pattern_set)
        for row in rows:
            shown = match_row(row, timezone, said)
            groups.setdefault((shown["pattern"], shown["first"]), []).append(shown)
    return pages.show(
        "matches.html",
        query=query,
        values=pages.again,
        days=[one.final_day for one in pages.units],
        counts={} if unit is None else dict(islice(unit.counts.items(), 2_000)),
        limited={} if unit is None else unit.limited,
        summaries=summaries,
        timezone=timezone,
        groups=list(groups.values()),
        following=found.following,
        total=sum(counts),
        complete=complete,
        most=DOWNLOADED_MATCHES,
        day_chart=pictures.histogram([*zip(edges, edges[1:], counts, strict=False)], timezone, "matches")
        if any(counts)
        else "",
    )


@app.get("/download")
def download(pages: Annotated[ChosenMatches, Depends()], format: Literal["parquet", "csv"] = "parquet") -> Response:
    """The chosen matches as a file, up to a number of them."""
    if pages.query is None:
        raise HTTPException(404, "No matches are published.")
    schema, name = pages.matches.matches_schema, f"{pages.stream}_{pages.query.day}.{format}"
    rows = first_rows(matches_in_batches(pages.matches, pages.query), DOWNLOADED_MATCHES)
    folder = tempfile.TemporaryDirectory(prefix="cep-download-")
    path = Path(folder.name) / name
    try:
        write_tables(schema, (pa.Table.from_batches([batch]) for batch in rows), path)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(path, headers=HEADERS, filename=path.name, background=BackgroundTask(folder.cleanup))


@app.get("/match")
def match(
    pages: Annotated[StreamPages, Depends()],
    pattern_set: Name,
    day: date,
    match_id: Annotated[str, Query(max_length=64)],
    attribute: NameOrNone = None,
) -> HTMLResponse:
    """A match: drawn on the series of its events, with its events as rows."""
    tables = pages.tables.pinned(("matches", "events"))
    found = find_match(tables, pattern_set, day, match_id)
    if found is None:
        raise HTTPException(404, "There is no such match.")
    loaded = pages.loaded
    zone = loaded.schema.timezone
    kinds = {field.name: field.type for field in tables.events_schema if field.name not in ("timestamp", "seq", "day")}
    numbers = [name for name, kind in kinds.items() if pa.types.is_floating(kind) or pa.types.is_integer(kind)]
    if attribute is not None and attribute not in numbers:
        raise HTTPException(404, "The events have no such attribute of numbers.")
    pattern = loaded.pattern_named(pattern_set, found["pattern"])
    inside = opened_match(tables, found)
    own = events_of(tables, inside)
    by_seq = {row["seq"]: row for row in own.to_pylist()}
    drawn = shown = None
    if numbers:
        shown = MatchSeries.of(tables.events_schema, pattern, attribute, loaded.schema.type_attribute)
        drawn = draw_match(inside, events_around(tables, inside, own, shown), shown, pattern, zone)
    explained, unexplained = None, ""
    try:
        explained = None if pattern is None else explain_match(tables, found, pattern, zone)
    except InputError as error:  # the pattern has changed since the match was found, or an event is gone
        unexplained = str(error)
    return pages.show(
        "match.html",
        pattern_set=pattern_set,
        day=day,
        match=match_row(found, zone),
        composed=inside is not found,
        statement=None if pattern is None else format_pattern(pattern),
        rules=[] if explained is None else explained.check_rows(),
        unexplained=unexplained,
        columns=list(kinds),
        numbers=numbers,
        attribute=shown and shown.attribute,
        timezone=zone,
        events=[
            (one["variable"], one["seq"] % SEQ_PER_DAY, event_row(by_seq.get(one["seq"]), zone))
            for one in inside["bindings"]
        ],
        match_chart="" if drawn is None else drawn.svg,
    )


@app.get("/statistics")
def statistics(
    pages: Annotated[PatternSetPages, Depends()],
    match: Annotated[str, Query(max_length=200)] = "",
    day: date | None = None,
) -> HTMLResponse:
    """Rates and selectivities of a day, of the latest without one, with their bounds."""
    patterns = pages.loaded.pattern_set(pages.pattern_set)
    overview = StatisticsHistory(pages.tables, pages.loaded, patterns).of_day(day)
    view, uses = StatisticsView(overview, match), uses_of_terms(patterns.patterns)
    spans: list[tuple[int, int]] = []  # of the bars: each ends with its window, and begins where the one before ends
    for one in overview.windows:
        begin, end = one.start_us or 0, one.end_us or 0
        spans.append((max(begin, spans[-1][1]) if spans else begin, end))
    seconds = [((one.end_us or 0) - (one.start_us or 0)) / 1e6 for one in overview.windows]
    events = [(*span, one.events / s) for span, one, s in zip(spans, overview.windows, seconds, strict=True)]

    def over_day(number: Number) -> Markup | str:
        bars = [(*span, value) for span, value in zip(spans, view.over_windows(number), strict=True)]
        return Markup(pictures.small_histogram(bars)) if bars else ""

    return pages.show(
        "statistics.html",
        headline=view.headline(),
        rows=[
            {"number": one, "uses": uses.get(one.key, []), "interval": view.interval(one), "drawing": over_day(one)}
            for one in view.numbers()[:SHOWN_RUNS]
        ],
        total=len(view.numbers()),
        limit=SHOWN_RUNS,
        match=match,
        notes=overview.notes,
        day=day,
        windows=len(spans),
        rate_chart=pictures.histogram(events, overview.timezone, "events a second") if spans else "",
    )


@app.get("/invariants")
def invariants(pages: Annotated[PatternSetPages, Depends()]) -> HTMLResponse:
    """The invariants of the current plan: both sides, and the distance to violation."""
    patterns = pages.loaded.pattern_set(pages.pattern_set)
    report = show_invariants(pages.tables, pages.loaded, patterns)
    latest = pages.tables.decisions(pages.pattern_set, SHOWN_PATTERNS)
    return pages.show(
        "invariants.html",
        report=report.to_json(nearest=SHOWN_RUNS),
        number=len(report.verifications),
        decisions=[
            (one, compared_costs(one.details.get("comparison") or {}), answer_to(one, latest)) for one in latest
        ],
    )


def stream_overview(pages: Pages, stream: str, tables: StreamTables) -> dict[str, Any]:
    """The days of a stream, over years, its numbers of matches, and what is at work."""
    published = {one.day: one for one in tables.days()}
    units = tables.matches_days()
    latest: dict[date, RunRecord] = {}
    for record in reversed(tables.runs(SHOWN_RUNS)):
        if record.day is not None:
            latest[record.day] = record
    stale: dict[date, str] = {}
    notes = []
    try:
        loaded = loaded_stream(pages.configuration, stream)
        found = tables.stale_days(
            schema=loaded.schema.digest,
            pattern_sets={one.name: one.version for one in loaded.pattern_sets},
            patterns={one.name: one.patterns for one in loaded.pattern_sets},
        )
        stale = {one.day: "; ".join(one.reasons) for one in found}
    except CepError as error:
        notes.append(str(error))
    summarized = summarized_patterns(pages.configuration, stream)
    of_day: dict[date, list[PublishedMatches]] = {}
    for unit in units:
        of_day.setdefault(unit.final_day, []).append(unit)
    cells = []
    for day in sorted({*published, *latest}):
        of_run = latest.get(day)
        state = state_of_day(of_run, day in published, of_day.get(day, ()), day in stale)
        if state != "nothing":
            limited = [f"{unit.pattern_set}.{name}" for unit in of_day.get(day, ()) for name in unit.limited]
            why = {
                "stale": stale.get(day, ""),
                "limited": f"{', '.join(limited)} reached a limit, and its matches are not published",
                "failed": " ".join(of_run.error.split("\n")[:2] if of_run else "").removeprefix(
                    f"stream {stream!r}, day {day}: "
                ),
            }.get(state, "")
            says = f"{state}: {why}" if why else f"{state}, {pictures.STATES[state][1]}"
            cells.append(pictures.DayCell(day, state, says, pages.run_page(stream, of_run) if of_run else ""))
    wanting = [cell for cell in cells if cell.state in ("failed", "stale", "limited")]
    return {
        "name": stream,
        "years": calendar_of(cells),
        "wanting": [list(days) for _, days in groupby(reversed(wanting[-SHOWN_REASONS:]), key=lambda cell: cell.says)],
        "patterns": match_counts(units, summarized),
        "notes": notes,
        "busy": [holder for holder in pages.warehouse.leases() if holder.stream == stream and not holder.expired],
    }


def calendar_of(cells: Sequence[pictures.DayCell]) -> list[dict[str, Any]]:
    """The years that have days, the latest first: each in words, as a drawing, and the years without days behind it."""
    years: list[dict[str, Any]] = []
    for year, of_year in groupby(reversed(cells), key=lambda cell: cell.day.year):
        own = sorted(of_year, key=lambda cell: cell.day)
        states = Counter(cell.state for cell in own)
        said = ", ".join(f"{number:,} {state}" for state, number in states.items())
        gap = years[-1]["year"] - year - 1 if years else 0
        years.append({"year": year, "says": said, "gap": gap, "drawing": Markup(pictures.year_of_days(own))})
    return years


def state_of_day(record: RunRecord | None, published: bool, units: Sequence[PublishedMatches], stale: bool) -> str:
    """The state of a day in one word, the one first that asks for something."""
    if record is not None and record.status in ("failed", "running"):
        return record.status
    if stale:
        return "stale"
    if any(unit.limited for unit in units):
        return "limited"
    if any(sum(unit.pending.values()) for unit in units):
        return "waiting"
    return "published" if published else "nothing"


def summarized_patterns(configuration: Configuration, stream: str) -> set[str]:
    """The patterns with SUMMARIZE, which publish groups and no matches; none where the stream cannot be loaded."""
    with suppress(CepError):
        sets = loaded_stream(configuration, stream).pattern_sets
        return {f"{own.name}.{one.name}" for own in sets for one in own.statements if one.summary is not None}
    return set()


def match_counts(units: Sequence[PublishedMatches], summarized: set[str]) -> list[dict[str, Any]]:
    """The numbers of matches of the latest days of each pattern, the most frequent first."""
    by_set: dict[str, list[PublishedMatches]] = {}
    for unit in units:
        by_set.setdefault(unit.pattern_set, []).append(unit)
    rows = []
    for name, own in by_set.items():
        recent = sorted(own, key=lambda unit: unit.final_day)[-SHOWN_DAYS:]
        rows += [(-count, name, pattern, recent) for pattern, count in recent[-1].counts.items()]
    rows.sort(key=lambda row: row[:3])
    return [
        {
            "pattern_set": name,
            "pattern": pattern,
            "day": recent[-1].final_day,
            "matches": -count,
            "says": "summarized" if f"{name}.{pattern}" in summarized else "limited" * (pattern in recent[-1].limited),
            "drawing": ""
            if f"{name}.{pattern}" in summarized
            else Markup(pictures.count_line([unit.counts.get(pattern, 0) for unit in recent])),
        }
        for count, name, pattern, recent in rows[:SHOWN_PATTERNS]
    ]


def bars_of_day(query: MatchesQuery, timezone: str, ends: tuple[int, int] | None) -> list[int]:
    """The instants between which matches are counted, from the first end to the last of those of the day.

    They are as far apart as marks of a clock are, and count from midnight.
    """
    midnight, next_midnight = day_bounds(query.day, timezone)
    first, last = ends or (midnight, next_midnight - 1)
    begin = first if query.from_us is None else query.from_us
    end = max(begin, last) + 1 if query.to_us is None else query.to_us
    if end <= begin:
        raise HTTPException(422, "The time at which the matches begin is after the one at which they end.")
    fitting = (step for step in BAR_STEPS_US if (end - begin) // step < HISTOGRAM_BARS)
    step = next(fitting, (end - begin) // HISTOGRAM_BARS)
    begin -= (begin - midnight) % step
    return [*range(begin, end, step), begin + -(-(end - begin) // step) * step]


def first_rows(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """The first rows of batches."""
    for batch in batches:
        if most <= 0:
            return
        yield batch.slice(0, most)
        most -= batch.num_rows


def match_row(row: Mapping[str, Any], timezone: str, events: Mapping[int, str] | None = None) -> dict[str, Any]:
    """A match as a page shows it: local times, returned values, its first event and those that follow."""
    known = events or {}
    bound = [f"{one['variable']} {known.get(one['seq'], '')}".strip() for one in row["bindings"]]
    return {
        "pattern": row["pattern"],
        "match_id": str(row["match_id"]),
        "start": local_time(row["start_ts"], timezone),
        "end": local_time(row["end_ts"], timezone),
        "seconds": (row["end_ts"] - row["start_ts"]).total_seconds(),
        "first": min((one["seq"] for one in row["bindings"]), default=0),
        "events": [
            *bound[:SHOWN_EVENTS],
            *([f"{len(bound) - SHOWN_EVENTS} more"] if len(bound) > SHOWN_EVENTS else []),
        ],
        "returns": {name: short(value) for name, value in json.loads(row["returns"] or "{}").items()},
    }


def said_events(tables: StreamTables, rows: Sequence[Mapping[str, Any]], loaded: Stream, name: str) -> dict[int, str]:
    """The events of matches in short, by seq: the time, and the value that their pattern reads first."""
    if not rows:
        return {}
    pattern, types = loaded.pattern_named(name, rows[0]["pattern"]), loaded.schema.type_attribute
    with suppress(InputError):  # events without a number
        series = MatchSeries.of(tables.events_schema, pattern, None, types)
        columns = [one for one in tables.events_schema if one.name in ("timestamp", "seq", types, series.attribute)]
        seqs = pa.array({one["seq"] for row in rows for one in row["bindings"]}, pa.int64())
        ends = min(row["start_ts"] for row in rows), max(row["end_ts"] for row in rows)
        found = events_between(tables, pa.schema(columns), *ends, pc.field("seq").isin(seqs)).to_pylist()
        zone = loaded.schema.timezone
        return {
            one[
                "seq"
            ]: f"{local_time(one['timestamp'], zone)[11:]} {short(str(one.get(types, '')))} {one[series.attribute]:.8g}"
            for one in found
        }
    return {}


def event_row(row: Mapping[str, Any] | None, timezone: str) -> dict[str, Any] | None:
    """An event with its local time; None for one that is not published any more."""
    if row is None:
        return None
    values = {name: float(f"{value:.12g}") if isinstance(value, float) else short(value) for name, value in row.items()}
    return {**values, "timestamp": local_time(row["timestamp"], timezone)}


def short(value: Any) -> Any:
    """A value as a page shows it: a long text without its middle."""
    return shortened(value, MOST_IN_CELL) if isinstance(value, str) else value


def compared_costs(comparison: Mapping[str, Any]) -> str:
    """The cost of the current plan and of the new one; "" where it is not recorded."""
    if comparison.get("ln_current") is None or comparison.get("ln_new") is None:
        return ""
    return " → ".join(format_ln(comparison[side]) for side in ("ln_current", "ln_new"))


def rejected_rows(tables: StreamTables, run: RunRecord) -> list[dict[str, Any]]:
    """The first rejected rows of the run's day, as published now."""
    if run.day is None or not run.rejected:
        return []
    return tables.read_quarantine(run.day, run.day, limit=SHOWN_REASONS).to_pylist()


@cache
def runbook() -> list[tuple[str, str]]:
    """The messages that the runbook knows, and what to do about each."""
    text = (Path(cep_pipeline.__file__).parent / "docs" / "runbook.md").read_text(encoding="utf-8")
    rows, known = [], False
    for one in text.splitlines():
        cells = [cell.strip() for cell in one.strip("|").split("|")] if one.startswith("|") else []
        known = cells[0] == "the message says" or (known and len(cells) == 2) if cells else False
        if known and cells[0] != "the message says" and not cells[0].startswith("---"):
            rows.append((cells[0], cells[1]))
    return rows


def advice_about(error: str) -> list[str]:
    """The lines of the runbook that fit an error, and what helps with any."""
    said = error.lower()
    fitting = [
        what
        for message, what in runbook()
        if all(part.strip() in said for part in message.lower().split("…") if part.strip())
    ]
    return [*fitting, "Correct what the message names, and run the day again: what is published stays as it is."]


def last_attempt(pages: Pages, dag: str, run_id: str) -> tuple[str | None, bool]:
    """The page of the last run that was started under an id (None: there is none), and whether it has failed."""
    attempts = DagRun.run_id.startswith(f"{run_id}__attempt_", autoescape=True)
    with create_session() as session:
        found = session.execute(
            select(DagRun.run_id, DagRun.state)
            .where(DagRun.dag_id == dag, (DagRun.run_id == run_id) | attempts)
            .order_by(DagRun.id.desc())
        ).first()
    return (None, False) if found is None else (pages.dag_page(dag, found.run_id), found.state == "failed")


def rejected_by_reason(tables: StreamTables, run: RunRecord) -> list[tuple[str, int]]:
    """Return why rows of the run's day were rejected, as published now: (reason, rows), the most frequent first."""
    if run.day is None or not run.rejected:
        return []
    counted = tables.read_quarantine(run.day, run.day).group_by("reason").aggregate([([], "count_all")])
    counted = counted.sort_by([("count_all", "descending"), ("reason", "ascending")]).slice(0, SHOWN_REASONS)
    return list(zip(counted["reason"].to_pylist(), counted["count_all"].to_pylist(), strict=True))


def dag_id(stream: str) -> str:
    """The DAG that runs a stream's days."""
    return f"daily_detection_{stream}"
