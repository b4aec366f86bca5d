"""The runbook has an entry for each class of errors, each exit code and each state that a run may have."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import get_args

import cep_pipeline
from cep_pipeline.errors import CepError
from cep_pipeline.warehouse.records import RunStatus

CHECKOUT = Path(__file__).resolve().parents[2]
RUNBOOK = (CHECKOUT / "docs" / "runbook.md").read_text(encoding="utf-8")


def error_classes() -> dict[str, type[CepError]]:
    """The public classes of errors that users may meet, of all modules that define one."""
    for module in pkgutil.walk_packages(cep_pipeline.__path__, "cep_pipeline."):
        source = Path(module.module_finder.path) / f"{module.name.rpartition('.')[2]}.py"  # type: ignore[union-attr]
        if source.is_file() and re.search(
            r"^class \w+\(\w*(Error|Room|Version|Validation)\b", source.read_text(), re.M
        ):
            importlib.import_module(module.name)
    found: dict[str, type[CepError]] = {}
    waiting: list[type[CepError]] = [CepError]
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        if one.__module__.startswith("cep_pipeline") and not one.__name__.startswith("_"):
            found[one.__name__] = one
    return found


def entry(heading: str) -> str:
    match = re.search(rf"^### {heading}\n\n(.+?)(?=^#|\Z)", RUNBOOK, re.M | re.S)
    assert match is not None, f"docs/runbook.md has no entry {heading}: say what it means and what to do"
    return match[1]


def states(heading: str) -> dict[str, list[str]]:
    match = re.search(rf"^## {heading}\n(.+?)(?=^## )", RUNBOOK, re.M | re.S)
    assert match is not None
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in match[1].splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in table[2:]}


def test_each_class_of_errors_has_its_entry_with_its_exit_code() -> None:
    classes = error_classes()
    assert {"PatternError", "FailedValidation", "OtherVersion", "BusyError"} <= set(classes)
    for name, kind in classes.items():
        text = entry(name)
        assert f"*Exit code {kind.exit_code}.*" in text, name
        assert len(text.split()) > 12, f"{name}: what it means, and what to do"


def test_each_exit_code_has_its_entry() -> None:
    described = states("Exit codes")
    assert set(described) == {"0"} | {str(kind.exit_code) for kind in error_classes().values()}
    assert all(len(row) == 2 and all(row) for row in described.values())


def test_each_state_has_its_entry() -> None:
    of_runs, of_days = states("States of a run"), states("States of a day")
    assert set(get_args(RunStatus)) <= set(of_runs)
    assert {"stale", "late", "limited", "pending", "skipped"} == set(of_days)
    assert all(len(row) == 2 and all(row) for row in (*of_runs.values(), *of_days.values()))
