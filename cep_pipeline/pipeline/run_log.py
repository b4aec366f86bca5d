"""What the records of the log belong to, run, stream, day and step, as JSON; and where the pages of checks are.

A process works on one step at a time, so that what it works on is known to all of its threads.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

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


def data_docs_folder(folder: Path | None, stream: str, run_id: str, day: date) -> Path | None:
    """The folder with Great Expectations' pages about a day of a run; None where none are kept."""
    from cep_pipeline.storage import folder_name  # DAG files, which are read often, import this module

    return None if folder is None else folder / stream / folder_name(run_id) / day.isoformat()
