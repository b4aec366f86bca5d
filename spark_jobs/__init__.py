"""The Spark jobs of the pipeline, a file each: PySpark programs that `cep run`, Airflow and spark-submit run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from cep_pipeline.errors import CepError
from cep_pipeline.spark.session import spark_session


def submitted(step: str, about: str, arguments: Sequence[str] | None = None) -> None:
    """Do a step of a day for spark-submit: take what the steps before have written, and write what comes of it.

    Parameters
    ----------
    step
        Its name in `day.STEPS`.
    about
        What the job does, for `--help`.
    arguments
        Those of the command line by default.
    """
    from cep_pipeline.pipeline.tasks import DayTask, run_step

    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("pipeline.yaml"), help="the pipeline, a YAML file")
    parser.add_argument("--stream", required=True, help="name of the stream")
    parser.add_argument("--day", required=True, type=date.fromisoformat, help="YYYY-MM-DD")
    parser.add_argument("--run-id", default="spark-submit", help="that of the run to which the steps of the day belong")
    parser.add_argument("--given", type=Path, action="append", default=[], help="what a step before has written")
    parser.add_argument("--result", type=Path, help="the file to write, JSON; without it, it is printed")
    chosen = parser.parse_args(arguments)
    try:
        task = DayTask(chosen.config, chosen.stream, chosen.day, chosen.run_id)
        configuration, _, _ = task.open()
        given = [json.loads(path.read_text(encoding="utf-8")) for path in chosen.given]
        spark = spark_session(
            app_name=f"cep {step} {chosen.stream}", properties=configuration.settings.spark.properties
        )
        text = json.dumps(run_step(step, task, given, spark=spark))
    except CepError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    if chosen.result is None:
        sys.stdout.write(f"{text}\n")
    else:
        chosen.result.write_text(text, encoding="utf-8")
