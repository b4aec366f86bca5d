"""Progress of long commands in a terminal, and lines in a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cep_pipeline.cli.options import complete
from cep_pipeline.cli.terminal import Terminal
from cep_pipeline.foreign_text import visible

if TYPE_CHECKING:
    from cep_pipeline.pipeline.day_work import Progress as Told


class ConsoleObserver(Progress):
    """Shows the steps of a command as progress bars, and keeps its notes above them."""

    def __init__(self, console: Terminal) -> None:
        self._terminal = console
        bars = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        super().__init__(SpinnerColumn(), *bars, console=console, transient=True, disable=not console.is_terminal)

    @contextmanager
    def step(self, what: str) -> Iterator[Told]:
        if not self._terminal.is_terminal:  # a log: one line a step, no bars
            self._terminal.print(what)
        task = self.add_task(visible(what), total=None)

        def told(done: int, total: int) -> None:
            self.update(task, completed=done, total=total)

        try:
            yield told
        finally:
            self.remove_task(task)

    def note(self, text: str) -> None:
        self._terminal.note(complete(text))
