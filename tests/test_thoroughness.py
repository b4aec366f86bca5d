"""What `make test` leaves out is tried by `make test-all`, and no failure of a case is hidden by another one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.thoroughness import PART, check_each

PROGRAM = """
from tests.thoroughness import PART, examples, part_of
print(examples(1000), examples(1), [list(part_of(range(20), part)) for part in range(PART)])
"""


def tried(environment: dict[str, str]) -> tuple[int, int, list[list[int]]]:
    """Examples of a test that draws 1000 and of one that draws 1, and all parts of twenty cases."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**{name: value for name, value in os.environ.items() if name != "CEP_TEST_ALL"}, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    many, one, parts = done.stdout.split(maxsplit=2)
    return int(many), int(one), [[int(case) for case in part.split(", ")] for part in parts.strip("[]\n").split("], [")]


def test_parts_are_together_all_cases() -> None:
    many, one, parts = tried({})
    assert (many, one) == (1000 // PART, 1)
    assert sorted(case for part in parts for case in part) == list(range(20))
    assert all(parts)


def test_everything_is_tried_where_it_is_asked_for() -> None:
    assert tried({"CEP_TEST_ALL": "1"}) == (1000, 1, [list(range(20))] * PART)


def test_failures_are_told_together_with_their_cases() -> None:
    checked: list[int] = []

    def check(case: int) -> None:
        checked.append(case)
        assert case % 2 == 0

    with pytest.raises(ExceptionGroup, match="2 cases fail") as raised:
        check_each(check, range(5))
    assert checked == list(range(5))
    assert [failure.__notes__ for failure in raised.value.exceptions] == [["The case is 1."], ["The case is 3."]]
    check_each(check, [0, 2])
