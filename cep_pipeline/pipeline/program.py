"""The command line of the programs in `spark_jobs`: one step of a day, run by spark-submit.

What the steps before have handed on is read from `--given`, and what the step hands on is written to `--result`: JSON
documents, which a scheduler passes from program to program. An error that the pipeline explains is written there too.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import date
from pathlib import Path

from cep_pipeline.errors import BusyError, CepError, DataError, InputError, LimitExceeded
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.run import new_run_id
from cep_pipeline.pipeline.tasks import DayTask, StepResult, read_document, run_step, write_document
from cep_pipeline.signals import end_in_order


def main(step: str, about: str | None) -> None:
    """Run a step as a program, and end with the exit code of `cep`.

    Parameters
    ----------
    step
        The name of the step.
    about
        What `--help` says first: the docstring of the program.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("pipeline.yaml"), help="the pipeline configuration")
    parser.add_argument("--stream", required=True, help="the stream, by its name in the configuration")
    parser.add_argument("--day", type=date.fromisoformat, required=True, help="the day, as 2013-10-07")
    parser.add_argument("--run-id", default="", help="the id to record the run under, the same for all of its steps")
    parser.add_argument("--pattern-set", help="only this pattern set")
    parser.add_argument("--end-of-stream", action="store_true", help="the stream ends with the day")
    parser.add_argument("--detection-only", action="store_true", help="the events stay as they are published")
    parser.add_argument("--given", action="append", default=[], help="what a step before has written to --result")
    parser.add_argument("--result", help="where to write what the step hands on; without it, it is printed")
    asked = parser.parse_args()
    end_in_order()
    run_id = asked.run_id or new_run_id()
    of_day = {name: getattr(asked, name) for name in ("day", "end_of_stream", "detection_only")}
    task = DayTask(asked.config.resolve(), asked.stream, run_id, asked.pattern_set, **of_day)
    try:
        from cep_pipeline.spark.session import spark_session

        handed = [one for address in asked.given for one in _given(address)]
        properties = Configuration.load(task.config).settings.spark.properties
        spark = spark_session(app_name=f"cep {step} {asked.stream} {asked.day}", properties=properties)
        done = run_step(step, task, handed, spark)
    except CepError as error:
        sys.stderr.write(f"error: {error}\n")
        if asked.result:
            # A limit that was reached is, like failed data, the same at a further try.
            kind = DataError if isinstance(error, LimitExceeded) else error
            write_document(asked.result, {"error": str(error), "exit_code": kind.exit_code})
        sys.exit(error.exit_code)
    if asked.result:
        write_document(asked.result, done)
    else:
        sys.stdout.write(json.dumps(done, indent=2) + "\n")


def _given(address: str) -> list[StepResult]:
    """The results of steps before: of one step a document, or those of several as a list."""
    document = read_document(address)
    return document if isinstance(document, list) else [document]


def submitted_error(result: str) -> CepError | None:
    """The error that a submitted program has written in place of its result; None where it was killed before."""
    try:
        document = read_document(result)
    except InputError:
        return None
    if "error" not in document:
        return None
    kinds: dict[int, type[CepError]] = {kind.exit_code: kind for kind in (InputError, DataError, BusyError)}
    return kinds.get(document["exit_code"], CepError)(document["error"])
