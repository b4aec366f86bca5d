"""How much of what can be tried is tried.

`make test` tries a part of the drawn examples and of the generated cases; `make test-all` sets `CEP_TEST_ALL` and tries
all of them. Every assertion is made by both, and every case that was written by hand is run by both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

Case = TypeVar("Case")

ALL = bool(os.environ.get("CEP_TEST_ALL"))
"""Whether everything is tried."""
PART = 20
"""`make test` tries one of so many."""
FEWEST_EXAMPLES = 5


def examples(number: int) -> int:
    """How many examples Hypothesis draws for a test that draws `number` of them when all are tried."""
    return number if ALL else max(number // PART, min(number, FEWEST_EXAMPLES))


def part_of(cases: Sequence[Case], number: int) -> Sequence[Case]:
    """One part of the cases, the one with this number; `PART` parts are all of them, and so is one if all are tried."""
    return cases if ALL else cases[number % PART :: PART]


def long_but(always: Collection[Case], cases: Iterable[Case]) -> list[ParameterSet]:
    """Cases for `pytest.mark.parametrize`: those that are always tried, and the others as long tests."""
    return [pytest.param(case, marks=() if case in always else pytest.mark.long) for case in cases]


def check_each(check: Callable[[Case], None], cases: Iterable[Case]) -> None:
    """Check every case, whatever the others give; the failures are told together, each with its case."""
    failures = []
    for case in cases:
        try:
            check(case)
        except Exception as failure:  # noqa: BLE001
            failure.add_note(f"The case is {case}.")
            failures.append(failure)
    if failures:
        raise ExceptionGroup(f"{len(failures)} cases fail", failures)
