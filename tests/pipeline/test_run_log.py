"""Records of the log as JSON, with what they belong to."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from cep_pipeline.pipeline.run_log import JsonFormatter, working_on

LOGGER = logging.getLogger("cep_pipeline.pipeline.day_work")


def test_records_say_run_stream_day_and_step(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER.name)
    caplog.handler.setFormatter(JsonFormatter())
    with working_on(run="one", stream="trades"):
        LOGGER.info("begins")
        with working_on(day="2013-10-07", step="ingest"):
            LOGGER.warning("%s\nin two lines", "<b>")
        LOGGER.info("ends")
    LOGGER.info("belongs to nobody")
    kept: list[dict[str, Any]] = [json.loads(line) for line in caplog.text.splitlines()]
    assert [(one["level"], one["message"]) for one in kept] == [
        ("INFO", "begins"),
        ("WARNING", "<b>\nin two lines"),
        ("INFO", "ends"),
        ("INFO", "belongs to nobody"),
    ]
    assert [[one.get(name) for name in ("run", "stream", "day", "step")] for one in kept] == [
        ["one", "trades", None, None],
        ["one", "trades", "2013-10-07", "ingest"],
        ["one", "trades", None, None],
        [None, None, None, None],
    ]
