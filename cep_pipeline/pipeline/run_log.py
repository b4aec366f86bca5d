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

    def __init__(self, path: Path, shown_from: int) -> None:
        super().__init__(path, encoding="utf-8")
        self.shown_from = shown_from
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; where nobody else listens, warnings reach stderr as without the file."""
        super().emit(record)
        others = logging.getLogger().handlers or [one for one in logging.getLogger(PACKAGE).handlers if one is not self]
        if not others and logging.lastResort is not None and record.levelno >= logging.lastResort.level:
            logging.lastResort.handle(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Go on without the record: a full disk is told by what cannot be published."""

    def passes(self, record: logging.LogRecord) -> bool:
        """True for what other handlers would be given without the file."""
        return not record.name.startswith(PACKAGE) or record.levelno >= self.shown_from


@contextmanager
def kept_log(folder: Path | None, stream: str, run_id: str) -> Iterator[None]:
    """Keep what the package logs in the block, from INFO on, in the file of a run; others are shown the same as before.

    A file that cannot be written is a warning, and no reason to do no work.
    """
    if folder is None:
        with working_on(run=run_id, stream=stream):
            yield
        return
    package = logging.getLogger(PACKAGE)
    before, level = package.level, package.getEffectiveLevel()
    try:
        path = log_file(folder, stream, run_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = _RunFile(path, level)
    except OSError as error:
        package.warning("the log of run %s is not kept: %s", run_id, error)
        with working_on(run=run_id, stream=stream):
            yield
        return
    others = [*logging.getLogger().handlers, *package.handlers]
    for other in others:
        other.addFilter(handler.passes)
    package.addHandler(handler)
    package.setLevel(min(level, logging.INFO))
    try:
        with working_on(run=run_id, stream=stream):
            yield
    finally:
        package.setLevel(before)
        package.removeHandler(handler)
        for other in others:
            other.removeFilter(handler.passes)
        with suppress(OSError):
            handler.close()
