"""A notifier of Airflow that writes into a file. It has a module of its own, since Airflow imports it by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from airflow.sdk.bases.notifier import BaseNotifier


class FileNotifier(BaseNotifier):
    """It appends its text, a template as in Airflow's own notifiers, to a file."""

    template_fields: ClassVar[tuple[str, ...]] = ("text",)

    def __init__(self, path: str, text: str, **context: Any) -> None:
        super().__init__(**context)
        self.path, self.text = path, text

    def notify(self, context: Any) -> None:
        with Path(self.path).open("a") as file:
            file.write(f"{self.text}\n")
