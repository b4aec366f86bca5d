"""The alerts of a day that the DAGs send, by the notifier that `alerts:` of pipeline.yaml names.

What there is to tell comes from `cep_pipeline.pipeline.tasks`. Nothing here fails a task.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DeadlineAlert, DeadlineReference, SyncCallback
from airflow.sdk.module_loading import import_string

from cep_pipeline.errors import CepError

logger = logging.getLogger(__name__)

_SENTENCE = re.compile(r"\{\{\s*cep_alert\s*\}\}")


def tell_of_day(config: Path, stream: str, day: date, context: Mapping[str, Any]) -> None:
    """Send an alert for each thing that somebody should know of a day that is done."""
    from cep_pipeline.pipeline.tasks import DayTask, alerts_of_day

    try:
        for sentence in alerts_of_day(DayTask(config, stream, context["run_id"], day=day)):
            tell(config, sentence, context)
    except (CepError, OSError) as error:
        logger.warning("nobody was told of %s %s: %s", stream, day, error)


def tell(config: Path, sentence: str, context: Mapping[str, Any]) -> None:
    """Log an alert, and give it to the notifier of pipeline.yaml as `cep_alert`."""
    from cep_pipeline.pipeline.configuration import Configuration

    logger.warning("alert: %s", sentence)
    try:
        alerts = Configuration.load(config).settings.alerts
        if alerts.notifier:
            import_string(alerts.notifier)(**alerts.arguments)({**context, "cep_alert": sentence})
    except Exception as error:  # noqa: BLE001 - a mail server that is down is no reason to fail a day that is published
        logger.warning("the notifier of pipeline.yaml failed: %s", error)


def deadline(config: Path, stream: str) -> DeadlineAlert | None:
    """The deadline of the runs of a stream's days, by `alerts:` of pipeline.yaml; None where it sets none."""
    from cep_pipeline.pipeline.configuration import Configuration

    alerts = Configuration.load(config).settings.alerts
    if alerts.late_hours is None or alerts.notifier is None:
        return None
    sentence = f"{stream}: the run of a day has not ended {alerts.late_hours:g} hours after it was queued"
    # The notifier is called outside any task, where nobody could add to what its templates know.
    arguments = {
        name: _SENTENCE.sub(lambda _: sentence, value) if isinstance(value, str) else value
        for name, value in alerts.arguments.items()
    }
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=alerts.late_hours),
        callback=SyncCallback(alerts.notifier, arguments),
        name=f"{stream} is late",
    )
