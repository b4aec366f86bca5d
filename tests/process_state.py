"""The state of this process that commands change when they are called in it: signals and loggers."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from cep_pipeline.errors import ENDING


@contextmanager
def process_state_kept() -> Iterator[None]:
    """Leave the signals and the loggers of the process as they were."""
    handlers = {number: signal.getsignal(number) for number in ENDING}
    loggers = [logging.getLogger(name) for name in (None, "cep_pipeline")]
    before = [(one.level, one.propagate, one.handlers[:], one.filters[:]) for one in loggers]
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for one, (level, propagate, known, filters) in zip(loggers, before, strict=True):
            one.setLevel(level)
            one.propagate = propagate
            one.filters[:] = filters
            for added in [found for found in one.handlers if found not in known]:
                one.removeHandler(added)
