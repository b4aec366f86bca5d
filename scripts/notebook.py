"""Run the cells of `docs/notebook.ipynb` in an empty folder, and write what they show into the notebook.

    python scripts/notebook.py

Edit the cells in Jupyter or in an editor, then run this: outputs are never typed. `tests/docs/test_notebook.py` asserts
that it changes nothing. A cell that begins with `!` is one command of the shell, as in Jupyter; other cells are Python,
and the value of their last expression is shown. Nothing of Jupyter is needed for it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pandas

NOTEBOOK = Path(__file__).resolve().parents[1] / "docs" / "notebook.ipynb"

Cell = Mapping[str, Any]


def executed(notebook: Mapping[str, Any], folder: Path, shell: Callable[[str], str]) -> dict[str, Any]:
    """Return a notebook with the outputs that its cells have when they run in a folder, from the first to the last.

    Parameters
    ----------
    shell
        Runs a command of the shell and returns what it prints.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    cells: list[Cell] = []
    number = 0
    # As in Jupyter: up to 20 columns of a data frame are shown, whatever the width of the terminal is.
    with chdir(folder), pandas.option_context("display.max_columns", 20, "display.width", 80):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                outputs = _outputs("".join(cell["source"]), number, names, shell)
                cell = {**cell, "execution_count": number, "outputs": outputs}
            cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(source: str, number: int, names: dict[str, Any], shell: Callable[[str], str]) -> list[dict[str, Any]]:
    if source.startswith("!"):
        return _stream(shell(source[1:]))
    module = ast.parse(source)
    last = module.body.pop() if isinstance(module.body[-1], ast.Expr) else None
    printed, value = StringIO(), None
    with redirect_stdout(printed):
        exec(compile(module, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs = _stream(printed.getvalue())
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": _lines(value._repr_html_()), **data}
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _stream(text: str) -> list[dict[str, Any]]:
    return [{"name": "stdout", "output_type": "stream", "text": _lines(text)}] if text else []


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def text_of(notebook: Mapping[str, Any]) -> str:
    """Return a notebook as it stands in a file, in the form that Jupyter writes."""
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def run_in_shell(command: str) -> str:
    """Run a command with `cep` of this environment on the path, and return what it prints."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    done = subprocess.run(
        command, shell=True, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def page(notebook: Mapping[str, Any]) -> str:
    """Return a notebook as a page in Markdown, for the site."""
    return "\n\n".join(part for cell in notebook["cells"] for part in _page_parts(cell)) + "\n"


def _page_parts(cell: Cell) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    is_command = source.startswith("!")
    code = f"$ {source[1:]}" if is_command else source
    parts = [f"```{'console' if is_command else 'python'}\n{code}\n```"]
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "text/html" in data:
            table = re.sub(r"<style.*?</style>\n", "", "".join(data["text/html"]), flags=re.S)  # the site has its own
            parts.append(table.replace(' border="1" class="dataframe"', ""))
        else:
            text = "".join(output.get("text", data.get("text/plain", [])))
            parts.append(f"```text\n{text.rstrip()}\n```")
    return parts


def main() -> None:
    """Write the notebook with its outputs."""
    with tempfile.TemporaryDirectory() as folder:
        made = executed(json.loads(NOTEBOOK.read_text(encoding="utf-8")), Path(folder), run_in_shell)
    NOTEBOOK.write_text(text_of(made), encoding="utf-8")


if __name__ == "__main__":
    main()
