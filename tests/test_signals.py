"""Ctrl-C and SIGTERM: the first one unwinds, the second one ends the process at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

import pytest
import sqlalchemy as sql

from cep_pipeline.errors import interruptions_held
from cep_pipeline.warehouse.database import FILES, Database

UNWINDING = """
import signal, sys, time
from cep_pipeline.errors import end_in_order
end_in_order(ignored_later=[signal.Signals(int(number)) for number in sys.argv[1:]])
try:
    print("begun", flush=True)
    time.sleep(600)
except KeyboardInterrupt as error:
    print(type(error).__name__, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("first", "then", "seen"),
    [
        (signal.SIGINT, [signal.SIGINT], "KeyboardInterrupt"),
        (signal.SIGTERM, [signal.SIGTERM], "Terminated"),
        (signal.SIGTERM, [signal.SIGINT], "Terminated"),
    ],
)
def test_a_second_signal_ends_at_once(first: signal.Signals, then: list[signal.Signals], seen: str) -> None:
    check(first, then, seen)


def test_a_signal_that_is_to_be_ignored_later_does_nothing() -> None:
    check(signal.SIGTERM, [signal.SIGINT, signal.SIGINT, signal.SIGTERM], "Terminated", signal.SIGINT)


def check(first: signal.Signals, then: list[signal.Signals], seen: str, *ignored: signal.Signals) -> None:
    command = [sys.executable, "-c", UNWINDING, *(str(int(number)) for number in ignored)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        process.send_signal(first)
        assert process.stdout.readline() == f"{seen}\n"
        for number in then:
            process.send_signal(number)
        assert process.wait() == -then[-1]


FINALIZING = """
import sys, time
from cep_pipeline.errors import end_in_order

class Finalized:
    def __del__(self):
        print("begun", flush=True)
        time.sleep(600)

end_in_order()
try:
    Finalized()
    time.sleep(600)
except KeyboardInterrupt as error:
    print(type(error).__name__, flush=True)
"""


@pytest.mark.parametrize(("sent", "seen"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "Terminated")])
def test_a_signal_that_comes_while_an_object_is_finalized_is_not_lost(sent: signal.Signals, seen: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FINALIZING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        process.send_signal(sent)
        assert process.communicate(timeout=60) == (f"{seen}\n", "")


def test_a_signal_that_is_ignored_already_stays_so() -> None:
    ignoring = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{UNWINDING}"
    with subprocess.Popen([sys.executable, "-c", ignoring], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "Terminated\n"
        process.kill()


def test_an_interruption_waits_until_the_block_is_done() -> None:
    done, before = False, signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interruptions_held():
        os.kill(os.getpid(), signal.SIGINT)
        done = True
    assert done
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interruption_waits_for_the_end_of_a_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that came before a block is left would keep its transaction open, and the database locked, while it lives."""
    monkeypatch.setattr("cep_pipeline.warehouse.database.SQLITE_WAIT_S", 0.2)
    database, other = (Database(f"sqlite:///{tmp_path / 'catalog.db'}", str(tmp_path)) for _ in range(2))
    row = sql.insert(FILES).values(stream="s", table_name="t", size=0, sha256="")

    def interrupt(frame: FrameType, kind: str, _: object) -> None:
        if kind == "call" and frame.f_code.co_name == "__exit__":
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as interruption, database.begin() as connection:
        connection.execute(row.values(path="first"))
        sys.setprofile(interrupt)
    with other.begin() as connection:
        connection.execute(row.values(path="second"))
    assert other.rows(sql.select(FILES.c.path).order_by(FILES.c.path)) == [("first",), ("second",)]
    assert interruption.traceback  # it lives
