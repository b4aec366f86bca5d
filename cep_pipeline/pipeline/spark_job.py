"""The command line of the scripts in `spark_jobs/`: one step of one day in a Spark application of its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from cep_pipeline.errors import CepError, InputError


def run_spark_job(step: str, description: str, arguments: Sequence[str] | None = None) -> int:
    """Run a step of `pipeline.tasks` in a Spark session, and return the exit code.

    Parameters
    ----------
    step
        A key of `SPARK_TASKS`.
    description
        What the script does, for its help.
    arguments
        Those of the command line, if not the process's own.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--config", type=Path, required=True, help="pipeline.yaml")
    parser.add_argument("--stream", required=True, help="a stream of the configuration")
    parser.add_argument("--day", required=True, help="day to work on, YYYY-MM-DD")
    parser.add_argument("--run-id", required=True, help="the run that all steps of the day share")
    parser.add_argument("--pattern-set", help="only this pattern set")
    parser.add_argument("--end-of-stream", action="store_true", help="the stream ends with the day")
    parser.add_argument("--master", help="Spark master, where spark-submit does not give one")
    parsed = parser.parse_args(arguments)
    try:
        return _run(step, parsed)
    except CepError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - a script's own output
        return error.exit_code


def _run(step: str, parsed: argparse.Namespace) -> int:
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.pipeline.tasks import SPARK_TASKS, DayTask
    from cep_pipeline.spark.session import spark_session

    try:
        day = date.fromisoformat(parsed.day)
    except ValueError:
        raise InputError(f"--day {parsed.day!r} is no day; write it as 2013-10-07") from None
    task = DayTask(parsed.config, parsed.stream, day, parsed.run_id, parsed.pattern_set, parsed.end_of_stream)
    settings = Configuration.load(parsed.config).settings.spark
    spark = spark_session(parsed.master, app_name=f"cep {step} {parsed.stream} {day}", properties=settings.properties)
    try:
        SPARK_TASKS[step](task, spark)
    finally:
        spark.stop()
    return 0
