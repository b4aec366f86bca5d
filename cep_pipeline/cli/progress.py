"""Progress of long commands in a terminal, and lines in a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from cep_pipeline.cli.options import complete
from cep_pipeline.cli.terminal import Terminal, styled

if TYPE_CHECKING:
    from cep_pipeline.pipeline.day_work import Progress as Told


class Description(TextColumn):
    """A column of a progress bar with the description of its task."""

    def __init__(self) -> None:
        super().__init__("{task.description}")

    def render(self, task: Task) -> Text:
        """Make what is shown of a description."""
        return styled(task.description)


class ConsoleObserver:
    """Shows the steps of a command as progress bars, and keeps its notes above them."""

    def __init__(self, console: Terminal) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            Description(),
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
        task = self._progress.add_task(what, total=None)

        def told(done: int, total: int) -> None:
            self._progress.update(task, completed=done, total=total)

        try:
            yield told
        finally:
            self._progress.remove_task(task)

    def note(self, text: str) -> None:
        self._console.note(complete(text))
