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


class ConsoleObserver:
    """Shows the steps of a command as progress bars, and keeps its notes above them."""

    def __init__(self, console: Terminal) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> ConsoleObserver:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextmanager
    def step(self, what: str) -> Iterator[Told]:
        if not self._console.is_terminal:  # a log: one line a step, no bars
            self._console.print(what)
        task = self._progress.add_task(visible(what), total=None)

        def told(done: int, total: int) -> None:
            self._progress.update(task, completed=done, total=total)

        try:
            yield told
        finally:
            self._progress.remove_task(task)

    def note(self, text: str) -> None:
        self._console.note(complete(text))
