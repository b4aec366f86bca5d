"""The errors a user meets, each with the exit code of the command line.

An error says what was seen, where it was seen, which rule it breaks and what to do about it. Its text is shortened
where a name or a value in it, or a list of them, is longer than a person reads.

What ends a process in order stands at the end: SIGINT (Ctrl-C), and SIGTERM, which service managers send.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar

from cep_pipeline.foreign_text import grouped, shortened_message


class CepError(Exception):
    """A failure that the pipeline explains; `exit_code` is what the command line returns."""

    exit_code: ClassVar[int] = 1

    def __init__(self, *said: object) -> None:
        super().__init__(*(shortened_message(one) if isinstance(one, str) else one for one in said))

    def __reduce__(self) -> tuple[object, ...]:
        return _made_again, (type(self), self.args, vars(self))


def _made_again(kind: type[CepError], said: tuple[object, ...], known: dict[str, object]) -> CepError:
    """An error that comes from another process: with all that it had there, whatever it is made of."""
    error = kind.__new__(kind, *said)
    vars(error).update(known)
    return error


class PatternError(CepError, ValueError):
    """A pattern statement that cannot be run, refused before any event is read.

    Parameters
    ----------
    message
        What is wrong, in one line, with a hint where there is one.
    source, line, column
        Name of the pattern file and the place of the offending text, both counted from 1.
    excerpt
        The offending line with the place underlined, or empty.
    others
        The errors that follow in the same text. The text of this error shows them too.
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        source: str,
        line: int,
        column: int,
        excerpt: str = "",
        others: Sequence[PatternError] = (),
    ) -> None:
        self.message = shortened_message(message)
        self.source = source
        self.line = line
        self.column = column
        self.excerpt = excerpt
        self.others = tuple(others)
        own = f"{source}:{line}:{column}: {message}" + (f"\n{excerpt}" if excerpt else "")
        shown = [own, *map(str, self.others[:_ERRORS_SHOWN])]
        if len(self.others) > _ERRORS_SHOWN:
            shown.append(f"and {len(self.others) - _ERRORS_SHOWN} more errors in {source}")
        super().__init__("\n".join(shown))


_ERRORS_SHOWN = 9
"""Errors of a text that are shown beside its first one."""


class UnsupportedPattern(CepError, ValueError):
    """A (valid) pattern uses a feature that a mechanism does not run; a mechanism "": that none runs."""

    exit_code = 2

    def __init__(self, mechanism: str, feature: str, *, pattern: str = "", hint: str = "") -> None:
        self.mechanism = mechanism
        self.feature = feature
        self.pattern = pattern
        self.hint = hint
        where = f"pattern {pattern!r}: " if pattern else ""
        text = where + (f"mechanism '{mechanism}' does not run {feature}" if mechanism else f"nothing runs {feature}")
        super().__init__(f"{text}; {hint}" if hint else text)


class PlanError(CepError, ValueError):
    """A plan that does not fit its pattern, or a mechanism that cannot run it."""

    exit_code = 2


class InputError(CepError, ValueError):
    """A file, a setting or an argument that is wrong: a missing schema, an unreadable file, no Java."""

    exit_code = 2


class OtherVersion(InputError):
    """A document that another version of this package wrote."""


class TooManyMatches(InputError):
    """Rows for matches that would exceed the limit that a user set; none of them is written.

    Parameters
    ----------
    pattern
        The pattern's name.
    limit
        Most rows.
    count
        The number of matches, if it is known without listing them.
    memory
        Bytes of memory that these rows take, where it is not a user who has set the limit, but the memory there is.
    composed
        True where patterns compose others: then there is no other form of output.
    """

    def __init__(
        self, pattern: str, limit: int, count: int | None = None, memory: int | None = None, composed: bool = False
    ) -> None:
        self.pattern = pattern
        self.limit = limit
        self.count = count
        self.memory = memory
        self.composed = composed
        found = f"more than {limit:,} matches" if count is None else f"{grouped(count)} matches"
        bound = "the limit of" if memory is None else "there is memory for, which is about"
        counted = "use output 'count' (cep detect --output count; in Python also 'compressed'), or "
        advice = counted if count is not None or memory is not None else ""
        rest = "give a smaller window (WITHIN), more conditions or a larger limit"
        if composed:  # these matches are listed, whatever the form of output
            advice, rest = "", f"give OUTPUT NON_OVERLAP, {rest.removeprefix('give ')}"
        if memory is not None:
            rest = rest.replace("a larger limit", "a limit (--limit)")
        super().__init__(
            f"pattern {pattern!r} has {found}, more than {bound} {limit:,}: none is written; {advice}{rest}"
        )


class LimitExceeded(CepError):
    """A pattern that reached a limit (in words) of pipeline.yaml, where its day is to fail then."""

    def __init__(self, pattern: str, limit: str, day: str) -> None:
        self.pattern, self.limit, self.day = pattern, limit, day
        super().__init__(
            f"{day}: pattern {pattern!r} reached its limit, {limit}, and pipeline.yaml says `then: fail`: nothing of "
            "the day's matches is published, and what was published is as it was; shorten its WITHIN, add conditions, "
            "or raise the limit (`limits:`)"
        )


class DataError(CepError):
    """Data that failed validation: too many rejected rows, a failed critical expectation."""

    exit_code = 3


FROM_A_BACKUP = "`cep verify` names all that is damaged and the remedy; `cep help operations` says how files come back"


class DamagedError(DataError):
    """A file of the warehouse that is not there, or does not hold what it should: the fault, and what to do."""

    def __init__(self, path: str, fault: str, remedy: str = FROM_A_BACKUP) -> None:
        self.path = path
        self.fault = fault
        self.remedy = remedy
        super().__init__(f"{path}: {fault}. {remedy}")


class NoRoom(DataError):
    """Error: there is not enough memory for all that detection has to hold at a time."""


class BusyError(CepError):
    """Another writer holds what this run would write."""

    exit_code = 4


NOT_RETRIED = frozenset({InputError.exit_code, DataError.exit_code})
"""Exit codes of wrong input and of data that failed validation: a second try would end the same."""

ENDING = (signal.SIGINT, signal.SIGTERM)
_MOMENT_S = 0.1
"""Seconds after which an object has been finalized."""


class Terminated(KeyboardInterrupt):
    """SIGTERM in the main thread: all that gives back and cancels on Ctrl-C does so on SIGTERM too."""

    exit_code = 128 + signal.SIGTERM


def end_in_order(ignored_later: Collection[signal.Signals] = ()) -> None:
    """Let the first signal interrupt the main thread, and a second one end the process at once.

    Signals that are `ignored_later` do nothing after the first one. A signal that is ignored already, as in a job in
    the background of a shell, stays ignored. Threads other than the main one hear no signals: there this does nothing.

    Python drops what is raised while it finalizes an object, such as one that stands for an object of Spark. A signal
    that comes at such a moment is sent again.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        for one in handled:
            signal.signal(one, signal.SIG_IGN if one in ignored_later else signal.SIG_DFL)
        raise interruption(number)

    def send_again(dropped: sys.UnraisableHookArgs) -> None:
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            report_dropped(dropped)
            return
        number = signal.SIGTERM if isinstance(dropped.exc_value, Terminated) else signal.SIGINT
        signal.signal(number, interrupt)
        main = threading.main_thread().ident
        threading.Timer(_MOMENT_S, signal.pthread_kill, (main, number)).start()

    if threading.current_thread() is not threading.main_thread():
        return
    handled = [one for one in ENDING if signal.getsignal(one) is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, interrupt)
    report_dropped, sys.unraisablehook = sys.unraisablehook, send_again


class _Holding:
    """The interruptions of the main thread that are kept for a while: how often, by what handlers, and which came."""

    times = 0
    before: ClassVar[dict[signal.Signals, Any]] = {}
    came: int | None = None


def hold_interruptions() -> bool:
    """Keep Ctrl-C and SIGTERM until `let_interruptions`; false in other threads than the main one, which hear none.

    A second signal ends the process at once all the same. One may come while handlers are exchanged: then it is raised
    here, and nothing is kept.
    """

    def keep(number: int, _: FrameType | None) -> None:
        _Holding.came = number
        for one in _Holding.before:
            signal.signal(one, signal.SIG_DFL)

    if threading.current_thread() is not threading.main_thread():
        return False
    if not _Holding.times:
        before = {number: signal.getsignal(number) for number in ENDING}
        _Holding.before = {one: how for one, how in before.items() if how not in (None, signal.SIG_IGN)}
        try:
            for number in _Holding.before:
                signal.signal(number, keep)
        except KeyboardInterrupt:
            _set_handlers_again()
            raise
    _Holding.times += 1
    return True


def let_interruptions() -> None:
    """Let through what `hold_interruptions` has kept, when it has been taken back as often as it was asked for."""
    _Holding.times -= 1
    if not _Holding.times:
        _set_handlers_again()
        came, _Holding.came = _Holding.came, None
        if came is not None:
            os.kill(os.getpid(), came)


def _set_handlers_again() -> None:
    interruption = None
    while True:
        try:
            for number, handler in _Holding.before.items():
                signal.signal(number, handler)
            break
        except KeyboardInterrupt as error:
            interruption = error
    if interruption is not None:
        raise interruption


@contextmanager
def interruptions_held() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM until the block is done."""
    holds = hold_interruptions()
    try:
        yield
    finally:
        if holds:
            let_interruptions()


def interruption(number: int) -> KeyboardInterrupt:
    """Return what a signal raises."""
    return Terminated("terminated by SIGTERM") if number == signal.SIGTERM else KeyboardInterrupt()


def interruption_before(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interruption whose clearing up has failed with this error; None where there was none."""
    before = error.__context__
    while before is not None and not isinstance(before, KeyboardInterrupt):
        before = before.__context__
    return before
