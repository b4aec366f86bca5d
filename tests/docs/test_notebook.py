"""The notebook runs from the first cell to the last, and shows what its cells give."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command_line import CHECKOUT, cep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that writes the outputs of the notebook."""
    spec = importlib.util.spec_from_file_location("notebook", CHECKOUT / "scripts" / "notebook.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def notebook(script: ModuleType) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(script.NOTEBOOK.read_text(encoding="utf-8"))
    return read


@pytest.mark.long
def test_the_notebook_shows_what_its_cells_give(
    script: ModuleType, notebook: dict[str, Any], tmp_path: Path, spark: SparkSession
) -> None:
    def shell(command: str) -> str:
        words, redirected, _ = shlex.split(command), *command.partition(" > ")[1:]
        done = cep(*words[1 : words.index(">") if redirected else None], folder=tmp_path)
        assert words[0] == "cep" and done.code == 0, (command, done.errors)
        return "" if redirected else done.output

    made = script.executed(notebook, tmp_path, shell)
    assert script.text_of(made) == script.NOTEBOOK.read_text(encoding="utf-8"), (
        "python scripts/notebook.py writes the outputs anew"
    )


def test_the_notebook_shows_each_step_of_a_newcomer(script: ModuleType, notebook: dict[str, Any]) -> None:
    code = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    called = ("infer", "read", "parse_patterns", "detect", "events", "to_pandas", "estimate_statistics", "plan", "open")
    assert [name for name in called if not re.search(rf"\b{name}\(", code)] == []
    page = script.page(notebook)
    assert page.count("```") % 2 == 0 and "<style" not in page
    for shown in ("did you mean 'temperature'?", "pattern warming", "Plan ", "selectivity", "room-3", "$ cep init"):
        assert shown in page, shown


def test_cells_are_run_as_jupyter_runs_them(script: ModuleType, tmp_path: Path) -> None:
    def cell(source: str) -> dict[str, Any]:
        return {"cell_type": "code", "source": source.splitlines(keepends=True), "outputs": ["old"], "metadata": {}}

    text = {"cell_type": "markdown", "source": ["# Title"]}
    sources = ("x = 2", "print('a')\nx + 1", "!tell me", "None")
    made = script.executed({"cells": [text, *map(cell, sources)]}, tmp_path, lambda command: f"told: {command}\n")
    assert made["cells"][0] == text
    assert [one["execution_count"] for one in made["cells"][1:]] == [1, 2, 3, 4]
    assigned, printed, told, nothing = (one["outputs"] for one in made["cells"][1:])
    assert (assigned, nothing) == ([], [])
    assert [one.get("text") for one in printed] == [["a\n"], None] and printed[1]["data"] == {"text/plain": ["3"]}
    assert told == [{"name": "stdout", "output_type": "stream", "text": ["told: tell me\n"]}]
    with pytest.raises(ZeroDivisionError):
        script.executed({"cells": [cell("1 / 0")]}, tmp_path, str)
