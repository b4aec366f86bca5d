"""The log of a run: each record with run, stream, day and step, as JSON in a file that the record of the run names.

A process works on one step at a time, so that what it works on is known to all of its threads.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path

PACKAGE = "cep_pipeline"


_here: dict[str, str] = {}
"""The work that a record of the log belongs to; a part is empty where it is several days at once."""


@contextmanager
def working_on(**parts: str) -> Iterator[None]:
    """Say of the records of the block what they belong to: `run`, `stream`, `day`, `step`."""
    global _here
    before = _here
    _here = {**before, **parts}
    try:
        yield
    finally:
        _here = before


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time (UTC), level, logger, message, and the work that it belongs to.

    Examples
    --------
    >>> record = logging.LogRecord("cep_pipeline.spark", logging.INFO, "", 0, "%d files", (3,), None)
    >>> with working_on(run="r1", stream="trades", day="2013-10-07", step="ingest"):
    ...     text = JsonFormatter().format(record)
    >>> json.loads(text)["message"], json.loads(text)["step"]
    ('3 files', 'ingest')
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said = {"time": at, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        content = {**said, **{name: value for name, value in _here.items() if value}}
        if record.exc_info:
            content["error"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False)


def log_file(folder: Path, stream: str, run_id: str) -> Path:
    """The file in which the log of a run is kept."""
    from cep_pipeline.storage import folder_name  # DAG files, which are read often, import this module

    return folder / stream / f"{folder_name(run_id)}.jsonl"


def data_docs_folder(folder: Path | None, stream: str, run_id: str, day: date) -> Path | None:
    """The folder with Great Expectations' pages about a day of a run, beside its log; None where no log is kept."""
    if folder is None:
        return None
    log = log_file(folder, stream, run_id)
    return log.with_name(f"{log.stem}-checks") / day.isoformat()


class _RunFile(logging.FileHandler):
    """Appends records to the file of a run: the tasks of Airflow, which are processes of their own, share it."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Go on without the record: a full disk is told by what cannot be published."""


@contextmanager
def kept_log(folder: Path | None, stream: str, run_id: str) -> Iterator[None]:
    """Keep what the package logs in the block, from INFO on, in the file of a run; None: nowhere.

    Where a program has no handlers, warnings reach stderr as without the file. A file that cannot be written is a
    warning, and no reason to do no work.
    """
    package = logging.getLogger(PACKAGE)
    before = package.level
    handlers: list[logging.Handler] = []
    try:
        if folder is not None:
            path = log_file(folder, stream, run_id)
            path.parent.mkdir(parents=True, exist_ok=True)
            handlers = [_RunFile(path, encoding="utf-8")]
            handlers[0].setFormatter(JsonFormatter())
    except OSError as error:
        package.warning("the log of run %s is not kept: %s", run_id, error)
    if handlers:
        package.setLevel(min(package.getEffectiveLevel(), logging.INFO))
        if not package.hasHandlers() and logging.lastResort is not None:
            handlers.append(logging.lastResort)
    for handler in handlers:
        package.addHandler(handler)
    try:
        with working_on(run=run_id, stream=stream):
            yield
    finally:
        package.setLevel(before)
        for handler in handlers:
            package.removeHandler(handler)
        for file in handlers[:1]:
            with suppress(OSError):
                file.close()
