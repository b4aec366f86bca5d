"""Measure a backfill through Airflow's real scheduler beside one sequential `cep run` over the same days.

    .venv/bin/python scripts/airflow_backfill.py --days 20 --events-per-day 100000 --active-runs 1 4

Days of trades are generated, `cep run` takes them all, and then, in a warehouse each, a backfill with so many days on
their way at once. The match ids of each are compared with those of `cep run`. All is under one folder, which is kept;
the page at the end is also in the file `backfill.md` there, or where `--out` says.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import yaml
from airflow_local import CHECKOUT, LocalAirflow

from cep_pipeline.generate import generate_days
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.warehouse.warehouse import Warehouse

STREAM = "generated_trades"
DAG, STALE = f"daily_detection_{STREAM}", f"stale_days_{STREAM}"
FIRST = date(2025, 1, 6)


def say(text: str) -> None:
    """Tell a person something at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@dataclass(frozen=True)
class Measured:
    """A way to run the days, and what came of it."""

    name: str
    seconds: float
    days: int
    matches: int
    digest: str
    stale: int


def trading_days(number: int) -> list[date]:
    """Return the first `number` days from Monday to Friday."""
    days = (FIRST + timedelta(days=k) for k in range(2 * number + 7))
    return [day for day in days if day.weekday() < 5][:number]


def write_project(folder: Path, warehouse: str, master: str, window: str = "5 minutes") -> Path:
    """A configuration of the generated stream with a warehouse of its own."""
    for name in ("streams", "patterns"):
        shutil.copytree(CHECKOUT / name, folder / name, dirs_exist_ok=True)
    stream = {
        "schema": f"streams/{STREAM}.yaml",
        "data": "raw",
        "statistics": {"window": window},
        "pattern_sets": {"market": {"file": f"patterns/{STREAM}.sase"}},
    }
    configuration = folder / f"{warehouse}.yaml"
    settings = {
        "streams": {STREAM: stream},
        "warehouse": {"location": warehouse},
        "spark": {"master": master},
    }
    configuration.write_text(yaml.safe_dump(settings))
    return configuration


def match_ids(configuration: Path) -> tuple[int, str]:
    """The number of published matches, and a digest of their ids by day."""
    loaded = Configuration.load(configuration)
    tables = Warehouse.open(loaded.warehouse_location).stream(loaded.stream(STREAM).schema)
    matches = tables.read_matches("market")
    rows = sorted(zip(map(str, matches["final_day"].to_pylist()), matches["match_id"].to_pylist(), strict=True))
    return len(rows), hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


def stale_days(configuration: Path) -> int:
    """The number of days that are stale."""
    loaded = Configuration.load(configuration)
    tables = Warehouse.open(loaded.warehouse_location).stream(loaded.stream(STREAM).schema)
    return len({one.day for one in tables.stale_days()})


def run_command(configuration: Path, days: list[date]) -> float:
    """Run the days by `cep run`; returns the seconds."""
    begin = time.perf_counter()
    bounds = ["--from", str(days[0]), "--to", str(days[-1])]
    command = [sys.executable, "-m", "cep_pipeline.cli", "run", "--config", str(configuration), *bounds]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def run_backfill(airflow: LocalAirflow, days: list[date], active_runs: int) -> float:
    """Run the days by a backfill; returns the seconds from its beginning to the end of its last day."""
    airflow.run("dags", "unpause", DAG)
    begin = time.perf_counter()
    bounds = ["--from-date", str(days[0]), "--to-date", str(days[-1])]
    airflow.run("backfill", "create", "--dag-id", DAG, *bounds, "--max-active-runs", str(active_runs))
    number, told = (days[-1] - days[0]).days + 1, -1
    while True:
        airflow.check_alive()
        states = backfill_states(airflow)
        done = sum(state in ("success", "failed") for state in states.values())
        if done != told:
            say(f"  {time.perf_counter() - begin:7.1f} s: {done} of {number} days")
            told = done
        if "failed" in states.values():
            raise SystemExit(f"runs failed: {states}; logs in {airflow.home / 'logs'}")
        if done == number:
            return time.perf_counter() - begin
        time.sleep(0.5)


def backfill_states(airflow: LocalAirflow) -> dict[str, str]:
    """The state of each run of a backfill."""
    states: dict[str, str] = {}
    while True:
        page: dict[str, Any] = airflow.get(f"/dags/{DAG}/dagRuns?limit=100&offset={len(states)}&run_type=backfill")
        states |= {run["dag_run_id"]: run["state"] for run in page["dag_runs"]}
        if len(states) >= page["total_entries"] or not page["dag_runs"]:
            return states


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def report(out: Path, measured: list[Measured], events: int) -> str:
    """The page with the table of all ways, as Markdown; it is also written to a file."""
    first = measured[0]
    lines = [
        "# A backfill through Airflow",
        "",
        f"Made by `scripts/airflow_backfill.py`: {first.days} days of about {events:,} events on {os.cpu_count()} "
        "cores, from gzipped CSV to published matches. `cep run` takes them in one process. A backfill takes them "
        "through Airflow's scheduler, seven tasks a day, with so many days on their way at once; the start of the "
        "Spark application is part of its time, that of Airflow is not. The ids of all matches are compared, day by "
        "day.",
        "",
        "| way | seconds | a day | beside cep run | 500 days | matches | ids | stale days |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in measured:
        a_day = one.seconds / one.days
        ids = "the same" if one.digest == first.digest else f"DIFFERENT ({one.digest})"
        lines.append(
            f"| {one.name} | {one.seconds:.0f} | {a_day:.1f} s | {one.seconds / first.seconds:.2f} | "
            f"{500 * a_day / 3600:.1f} h | {one.matches:,} | {ids} | {one.stale} |"
        )
    text = "\n".join([*lines, ""])
    out.write_text(text)
    return text


def main() -> int:
    """Measure; returns 1 where a backfill gave other matches than `cep run`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=CHECKOUT / "var" / "backfill", help="for all that is written")
    parser.add_argument("--days", type=int, default=20, help="trading days (default: %(default)s)")
    parser.add_argument("--events-per-day", type=int, default=100_000, help="events (default: %(default)s)")
    parser.add_argument("--active-runs", type=int, nargs="+", default=[1, 4], help="days on their way at once")
    parser.add_argument("--master", default="local[*]", help="Spark master (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="for the page (default: backfill.md in the folder)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that Airflow is stopped too
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    days = trading_days(options.days)
    say(f"{len(days)} days, {days[0]} to {days[-1]}, in {folder}")
    generate_days(folder / "raw", days, stocks=8, events_per_day=options.events_per_day, seed=1)
    measured: list[Measured] = []
    for active_runs in [0, *options.active_runs]:
        name = f"backfill_{active_runs}" if active_runs else "command"
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.rmtree(folder / f"airflow_{active_runs}", ignore_errors=True)
        configuration = write_project(folder, name, options.master)
        title = f"backfill, {active_runs} at once" if active_runs else "cep run"
        say(title)
        if active_runs:
            with LocalAirflow(folder / f"airflow_{active_runs}", free_port(), configuration, options.master) as airflow:
                seconds = run_backfill(airflow, days, active_runs)
        else:
            seconds = run_command(configuration, days)
        measured.append(Measured(title, seconds, len(days), *match_ids(configuration), stale_days(configuration)))
        say(report(options.out or folder / "backfill.md", measured, options.events_per_day))
    return int(any(one.digest != measured[0].digest for one in measured))


if __name__ == "__main__":
    sys.exit(main())
