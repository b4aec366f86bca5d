"""Functions of partitions: what they give and refuse comes back, and Ctrl-C ends them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.spark.frames import of_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_functions_of_partitions_give_refuse_fail_and_are_interrupted(either: SparkSession) -> None:
    frame = either.range(0, 10, 1, 3)

    def count(rows: Iterable[pa.RecordBatch], number: int, attempt: int) -> tuple[int, int]:
        return number, sum(batch.num_rows for batch in rows)

    def refuse(rows: Iterable[pa.RecordBatch], number: int, attempt: int) -> None:
        raise InputError("one line\nand another")

    def fail(rows: Iterable[pa.RecordBatch], number: int, attempt: int) -> None:
        raise OSError("the worker is lost")

    def sleep(rows: Iterable[pa.RecordBatch], number: int, attempt: int) -> None:
        time.sleep(300)

    assert sorted(of_partitions(either, frame, count, "counting")) == [(0, 3), (1, 3), (2, 4)]
    assert of_partitions(either, frame.where("id < 0"), count, "counting nothing") == []
    with pytest.raises(InputError, match=r"^one line\nand another$"):
        of_partitions(either, frame, refuse, "refusing")
    with pytest.raises(CepError, match=r"^failing: OSError: the worker is lost$"):
        of_partitions(either, frame, fail, "failing")
    begin = time.monotonic()
    threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        of_partitions(either, frame, sleep, "sleeping")
    assert time.monotonic() - begin < 200
    assert len(of_partitions(either, frame, count, "counting again")) == 3
