"""The signals that ask a process to end: SIGINT (Ctrl-C), and SIGTERM, which service managers and schedulers send."""

from __future__ import annotations

import signal
import threading
from collections.abc import Collection
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM in the main thread: all that gives back and cancels on Ctrl-C does so on SIGTERM too."""

    exit_code = 128 + signal.SIGTERM


def end_in_order(ignored_later: Collection[signal.Signals] = ()) -> None:
    """Let the first signal interrupt the main thread, and a second one end the process at once.

    Signals that are `ignored_later` do nothing after the first one. A signal that is ignored already, as in a job in
    the background of a shell, stays ignored. Threads other than the main one hear no signals: there this does nothing.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        for one in handled:
            signal.signal(one, signal.SIG_IGN if one in ignored_later else signal.SIG_DFL)
        raise interruption(number)

    if threading.current_thread() is not threading.main_thread():
        return
    handled = [one for one in ENDING if signal.getsignal(one) is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, interrupt)


def interruption(number: int) -> KeyboardInterrupt:
    """Return what a signal raises."""
    return Terminated("terminated by SIGTERM") if number == signal.SIGTERM else KeyboardInterrupt()


def interruption_before(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interruption whose clearing up has failed with this error; None where there was none."""
    before = error.__context__
    while before is not None and not isinstance(before, KeyboardInterrupt):
        before = before.__context__
    return before
