"""Pages of the pipeline in Airflow's UI: the runs, with their plan, rejected rows and matches; decisions about plans.

Every page is for logged-in users who may see plugin pages. Of a stream it shows nothing to those who may not read the
DAG `daily_detection_STREAM` and its runs: they are answered as if there were no such stream. Nothing of a request
reaches a path or a query: streams are looked up among the configured ones, runs among the recorded ones; pages are
rendered with everything escaped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.plugins_manager import AirflowPlugin
from airflow.utils.session import create_session
from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from sqlalchemy import select
from starlette.exceptions import HTTPException

from cep_pipeline.errors import CepError
from cep_pipeline.foreign_text import visible
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.plan_checks import pending_violation
from cep_pipeline.pipeline.plans import of_another_format
from cep_pipeline.planning import Plan
from cep_pipeline.statistics.drift import Number, numbers_of
from cep_pipeline.statistics.snapshot import VERSION as SNAPSHOT_VERSION
from cep_pipeline.statistics.snapshot import StatisticsSnapshot
from cep_pipeline.warehouse.records import RunRecord
from cep_pipeline.warehouse.stream_tables import StreamTables

HERE = Path(__file__).resolve().parent
PREFIX = "/cep"
SHOWN_RUNS = 200
SHOWN_REASONS = 20
SHOWN_ROWS, SHOWN_LINES = 60, 200  # of longer tables and texts it is said how long they are, until they are opened
REPLANNING_DAG = "replanning"
ADAPTATION_DAGS = (REPLANNING_DAG, "invariant_check_days", "invariant_check")
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
templates.filters["figure"] = lambda value: "" if value is None else f"{value:.4g}"
templates.filters["plan_query"] = lambda plan, stream: urlencode(
    {"stream": stream, "pattern_set": plan.pattern_set, "version": plan.version}
)
templates.filters["count"] = lambda value: "" if value is None else f"{value:,}"

# No documentation pages: those would be open to everyone.
app = FastAPI(
    title="CEP pipeline",
    dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
)


class Pipeline:
    """The configured pipeline as the pages show it to a user."""

    def __init__(self, user: GetUserDep) -> None:
        self.user = user
        self.configuration = Configuration.load(os.environ.get("CEP_CONFIG") or HERE.parent / "pipeline.yaml")
        self.warehouse = self.configuration.open_warehouse()

    def streams(self) -> list[str]:
        """The configured streams of which something is published, and that the user may see."""
        published = self.warehouse.streams()
        return [name for name in self.configuration.stream_names() if name in published and self.may_see(name)]

    def may_see(self, stream: str) -> bool:
        """True if the user may read the DAG that runs the stream's days, and its runs."""
        dag = DagDetails(id=dag_id(stream), team_name=DagModel.get_team_name(dag_id(stream)))
        asked = [{"method": "GET", "access_entity": entity, "details": dag} for entity in (None, DagAccessEntity.RUN)]
        return get_auth_manager().batch_is_authorized_dag(asked, user=self.user)

    def tables(self, stream: str) -> StreamTables:
        """The tables of a stream; 404 where there is none of this name, or the user may not see it."""
        if stream not in self.streams():
            raise HTTPException(404, "There is no such stream.")
        return self.warehouse.open_stream(stream)


Seen = Annotated[Pipeline, Depends()]
"""What a page may show: it has no other way to the warehouse."""


@app.exception_handler(CepError)
def explain(request: Request, error: CepError) -> HTMLResponse:
    """A page that says what is wrong, in place of one that cannot be shown."""
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
    """A rendered page; in it `home` is the address of the list of runs, `airflow` that of Airflow."""
    home, airflow = f"{request.scope['root_path']}/", f"{airflow_root(request)}/"
    return HTMLResponse(templates.get_template(template).render(home=home, airflow=airflow, **values), status, HEADERS)


def airflow_root(request: Request) -> str:
    """Return the address at which Airflow is mounted; the pages are below it."""
    return str(request.scope["root_path"]).removesuffix(PREFIX)


@app.get("/")
def runs(request: Request, pipeline: Seen, stream: Annotated[str | None, Query(max_length=200)] = None) -> HTMLResponse:
    """The latest runs of all streams, or of one."""
    streams = pipeline.streams()
    shown = [stream] if stream else streams
    records = [(name, run) for name in shown for run in pipeline.tables(name).runs(SHOWN_RUNS)]
    records = sorted(records, key=lambda entry: (entry[1].started_at, entry[1].day or date.min), reverse=True)[
        :SHOWN_RUNS
    ]
    links = dag_run_links(request, (run.run_id for _, run in records))
    rows = [
        {
            "stream": name,
            "run": run,
            "details": details_link(request, name, run),
            "dag_run": links.get((dag_id(name), run.run_id)),
            "matches": sum(run.matches.values()) if run.matches else None,
        }
        for name, run in records
    ]
    pending = [one for name in shown for one in pending_replannings(request, pipeline, name)]
    return page("runs.html", request, streams=streams, stream=stream, rows=rows, pending=pending, limit=SHOWN_RUNS)


@app.get("/run")
def run(
    request: Request,
    pipeline: Seen,
    stream: Annotated[str, Query(max_length=200)],
    run_id: Annotated[str, Query(max_length=300)],
    day: date | None = None,
) -> HTMLResponse:
    """One run of one day: its steps, matches, plans, rejected rows and validation."""
    tables = pipeline.tables(stream)
    record = next((run for run in tables.runs() if run.run_id == run_id and run.day == day), None)
    if record is None:
        raise HTTPException(404, "There is no such run.")
    plans = [plan for plan in tables.plans() if record.plans.get(plan.pattern_set) == plan.version]
    return page(
        "run.html",
        request,
        stream=stream,
        run=record,
        plans=plans,
        reasons=rejected_by_reason(tables, record),
        most_rows=SHOWN_ROWS,
        most_lines=SHOWN_LINES,
        statistics=statistics_of_day(tables, record),
        dag_run=dag_run_links(request, [run_id]).get((dag_id(stream), run_id)),
    )


@app.get("/plan")
def plan(
    request: Request,
    pipeline: Seen,
    stream: Annotated[str, Query(max_length=200)],
    pattern_set: Annotated[str, Query(max_length=200)],
    version: Annotated[int, Query(ge=1)],
    pattern: Annotated[str | None, Query(max_length=200)] = None,
) -> HTMLResponse:
    """A recorded plan as `cep explain` prints it, or one of its patterns in full."""
    tables = pipeline.tables(stream)
    record = next((one for one in tables.plans(pattern_set) if one.version == version), None)
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
    return page("plan.html", request, stream=stream, plan=record, pattern=pattern, names=names, text=text)


@app.get("/decisions")
def decisions(
    request: Request, pipeline: Seen, stream: Annotated[str | None, Query(max_length=200)] = None
) -> HTMLResponse:
    """The latest checks of current plans and replannings of all streams, or of one."""
    shown = [stream] if stream else pipeline.streams()
    found = [(name, decision) for name in shown for decision in pipeline.tables(name).decisions(limit=SHOWN_RUNS)]
    found = sorted(found, key=lambda entry: entry[1].decided_at, reverse=True)[:SHOWN_RUNS]
    links = dag_run_links(request, (decision.run_id for _, decision in found))
    rows = [
        {
            "stream": name,
            "decision": decision,
            "now": decision.details.get("current"),
            "dag_run": next(
                (
                    links[dag, decision.run_id]
                    for dag in (f"{of}_{name}" for of in ADAPTATION_DAGS)
                    if (dag, decision.run_id) in links
                ),
                None,
            ),
        }
        for name, decision in found
    ]
    pending = [one for name in shown for one in pending_replannings(request, pipeline, name)]
    return page("decisions.html", request, stream=stream, rows=rows, pending=pending, limit=SHOWN_RUNS)


def pending_replannings(request: Request, pipeline: Pipeline, stream: str) -> list[dict[str, Any]]:
    """The violations of current plans that no replanning has answered, each with the page of the run that is at it."""
    tables, found = pipeline.tables(stream), []
    decisions = tables.decisions()
    for name in pipeline.configuration.stream_settings(stream).pattern_sets:
        plan = tables.current_plan(name)
        own = [one for one in decisions if one.pattern_set == name]
        violation = None if plan is None else pending_violation(own, plan.version)
        if violation is not None:
            dag = f"{REPLANNING_DAG}_{stream}"
            run, failed = last_attempt(request, dag, violation.run_id)
            form = f"{airflow_root(request)}/dags/{quote(dag, safe='')}"
            found.append({"stream": stream, "violation": violation, "dag_run": run, "failed": failed, "dag": form})
    return found


def last_attempt(request: Request, dag: str, run_id: str) -> tuple[str | None, bool]:
    """The page of the last run that was started under an id (None: there is none), and whether it has failed."""
    attempts = DagRun.run_id.startswith(f"{run_id}__attempt_", autoescape=True)
    with create_session() as session:
        found = session.execute(
            select(DagRun.run_id, DagRun.state)
            .where(DagRun.dag_id == dag, (DagRun.run_id == run_id) | attempts)
            .order_by(DagRun.id.desc())
        ).first()
    return (None, False) if found is None else (dag_run_link(request, dag, found.run_id), found.state == "failed")


def rejected_by_reason(tables: StreamTables, run: RunRecord) -> list[tuple[str, int]]:
    """Return why rows of the run's day were rejected, as published now: (reason, rows), the most frequent first."""
    if run.day is None or not run.rejected:
        return []
    counted = tables.read_quarantine(run.day, run.day).group_by("reason").aggregate([([], "count_all")])
    counted = counted.sort_by([("count_all", "descending"), ("reason", "ascending")]).slice(0, SHOWN_REASONS)
    return list(zip(counted["reason"].to_pylist(), counted["count_all"].to_pylist(), strict=True))


def statistics_of_day(tables: StreamTables, run: RunRecord) -> list[tuple[str, StatisticsSnapshot, list[Number]]]:
    """The statistics of the run's day, as published now: (pattern set, snapshot, its numbers)."""
    found = []
    for pattern_set in sorted({name.partition(".")[0] for name in run.matches} if run.day is not None else ()):
        content = tables.read_statistics(pattern_set, run.day)
        if content is not None and content.get("version") == SNAPSHOT_VERSION:
            snapshot = StatisticsSnapshot.from_json(content, f"statistics of {run.day}")
            found.append((pattern_set, snapshot, list(numbers_of(snapshot).values())))
    return found


def dag_id(stream: str) -> str:
    """The DAG that runs a stream's days."""
    return f"daily_detection_{stream}"


def dag_run_links(request: Request, run_ids: Iterable[str]) -> dict[tuple[str, str], str]:
    """(DAG, run id) -> page of the DAG run, of those that Airflow has: runs of the command line have none."""
    with create_session() as session:
        found = session.execute(
            select(DagRun.dag_id, DagRun.run_id).where(DagRun.run_id.in_(sorted(set(run_ids))))
        ).all()
    return {(dag, run): dag_run_link(request, dag, run) for dag, run in found}


def dag_run_link(request: Request, dag: str, run_id: str) -> str:
    """The page of a DAG run."""
    return f"{airflow_root(request)}/dags/{quote(dag, safe='')}/runs/{quote(run_id, safe='')}"


def details_link(request: Request, stream: str, run: RunRecord) -> str:
    """The page of one run."""
    query = {"stream": stream, "run_id": run.run_id} | ({"day": run.day.isoformat()} if run.day else {})
    return f"{request.scope['root_path']}/run?{urlencode(query)}"


class CepPlugin(AirflowPlugin):
    """The pages, and their entry in the navigation; opened outside Airflow's frame, so that links lead to DAG runs."""

    name = "cep"
    fastapi_apps = [{"app": app, "url_prefix": PREFIX, "name": "CEP pipeline"}]  # noqa: RUF012
    external_views = [{"name": "CEP runs", "href": f"{PREFIX}/", "destination": "nav"}]  # noqa: RUF012
