"""Running a function over the partitions of a DataFrame, or over task descriptions, on Spark, classic or Connect.

`mapInArrow` calls the function where Spark runs the task. Results come back as rows, and an error that a task explains
as it is. A description is a row of `spark.range`. Only what Spark Connect has too is used: no RDD, no Spark context.
"""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from cep_pipeline.spark.session import explain_failures, is_connect, is_local, refusals
from cep_pipeline.spark.workers import Installation, check_worker, installation
from cep_pipeline.storage import object_store_properties, reach_object_stores

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from cep_pipeline.spark.session import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Called with the number of tasks done and of all tasks."""
Batches = Iterable["pa.RecordBatch"]
OfPartition = Callable[[Batches, int, int], Result]
"""A function of the rows of a partition, the number of the partition, and that of the attempt."""

_POLL_S = 0.2


def described(spark: SparkSession) -> str:
    """The place where the tasks of a run ran, for its record: the master, and the Spark application by its id."""
    return f"Spark, {spark.conf.get('spark.master')}, application {spark.conf.get('spark.app.id')}"


def cores_of(spark: SparkSession) -> int:
    """The number of tasks that run at a time, as far as Spark knows it: it cuts a range into as many."""
    if spark not in _CORES:
        named = re.fullmatch(r"local(?:\[(\d+)(?:,\d+)?\])?", spark.conf.get("spark.master") or "")
        _CORES[spark] = int(named[1] or 1) if named else _parts_of_a_range(spark)
    return _CORES[spark]


_CORES: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()
_MOST_PARTS = 4096


def _parts_of_a_range(spark: SparkSession) -> int:
    from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's users name it

    with explain_failures("asking Spark for its cores"):
        parts = spark.range(_MOST_PARTS).select(F.spark_partition_id().alias("part")).toArrow()
    return len(set(parts["part"].to_pylist()))


def run_tasks(
    spark: SparkSession,
    function: Callable[[Task, int], Result],
    tasks: Sequence[Task],
    *,
    what: str,
    progress: Progress | None = None,
) -> list[Result]:
    """Run a function over tasks, one Spark task each, and return the results in the order of the tasks.

    Parameters
    ----------
    spark
        The session, classic or Connect.
    function
        Called on a worker with the task and the number of the attempt: only what a successful attempt returns counts,
        so that a file which an earlier attempt left behind is never part of a result.
    tasks
        Small, picklable descriptions; the data that they name are read and written by the function itself.
    what
        What is being done, for Spark's own page and for errors.
    progress
        Called as tasks finish.

    Raises
    ------
    CepError
        One that a task raised, also when Spark tried it again; or that the job failed, and why.
    """
    if not tasks:
        return []
    tell = progress or (lambda done, of: None)
    tell(0, len(tasks))
    packed = [pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL) for task in tasks]
    frame = spark.range(0, len(tasks), 1, len(tasks))
    with _watched(spark, len(tasks), progress) as folder:
        results = of_partitions(spark, frame, partial(_call, function, packed, folder), what)
    tell(len(tasks), len(tasks))
    return results


def _call(
    function: Callable[[Task, int], Result],
    packed: Sequence[bytes],
    folder: str | None,
    rows: Batches,
    number: int,
    attempt: int,
) -> Result:
    """Call a function with the task of this number, of which the partition has one row."""
    result = function(pickle.loads(packed[number]), attempt)
    if folder is not None:
        with suppress(OSError):  # the folder is gone: nobody reads it any more
            Path(folder, str(number)).touch()
    return result


def of_partitions(spark: SparkSession, frame: DataFrame, function: OfPartition[Result], what: str) -> list[Result]:
    """Call a function with the rows of each partition of a DataFrame, and return what it gives, by partition.

    Parameters
    ----------
    function
        Only what a successful attempt returns counts. It is not called for a partition without rows.
    what
        What is being done, for Spark's own page and for errors.

    Raises
    ------
    CepError
        One that the function raised, also when Spark tried it again; or that the job failed, and why.
    """
    driver = None if is_local(spark) else installation()
    call = _worker_call(function, what, driver, object_store_properties())
    found = collect(spark, frame.mapInArrow(call, "part long, result binary"), what).to_pydict()
    return [pickle.loads(result) for _, result in sorted(zip(*found.values(), strict=True))]


def _worker_call(
    function: OfPartition[Result], what: str, driver: Installation | None, properties: Mapping[str, str]
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """The function of `mapInArrow`: calls the given one with the rows, and makes a row of what it gives.

    Parameters
    ----------
    what
        What is being done, for errors and as the name of the operator on Spark's own page.
    driver
        What the driver runs; None: the worker is of the same installation.
    properties
        How object stores are reached.
    """

    def call(batches: Batches) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        running = TaskContext.get()
        number, attempt = (running.partitionId(), running.attemptNumber()) if running is not None else (0, 0)
        rows = (batch for batch in batches if batch.num_rows)
        with refusals(f"{what}: a task has not enough memory; give it fewer or smaller slices"):
            check_worker(driver)
            reach_object_stores(properties)
            if (first := next(rows, None)) is not None:
                result = pickle.dumps(function(chain([first], rows), number, attempt), pickle.HIGHEST_PROTOCOL)
                yield pa.record_batch([[number], [result]], names=["part", "result"])
        for _ in rows:  # what the function has not read
            pass

    call.__name__ = re.sub(r"\W+", "_", what)
    return call


def collect(spark: SparkSession, frame: DataFrame, what: str) -> pa.Table:
    """Return the rows of a DataFrame. Ctrl-C and SIGTERM end the job.

    PySpark lets an interruption of its own call pass only when the job has ended, so it is waited for in a thread. A
    classic session is this process's own: all of its jobs end.

    Parameters
    ----------
    what
        What is being done, for errors: a failure of the job is a CepError.
    """
    tag = f"cep-{uuid4().hex}"
    tags = {tag, *spark.getTags()}

    def collected() -> pa.Table:
        for one in tags:  # tags are those of a thread
            spark.addTag(one)
        return frame.toArrow()

    with explain_failures(what), ThreadPoolExecutor(1, thread_name_prefix="spark-job") as waiting:
        collecting = waiting.submit(collected)
        try:
            return collecting.result()
        except KeyboardInterrupt:
            with suppress(Exception):  # Spark may have ended already
                if is_connect(spark):
                    spark.interruptTag(tag)
                else:
                    spark.interruptAll()
            raise


@contextmanager
def _watched(spark: SparkSession, total: int, progress: Progress | None) -> Iterator[str | None]:
    """Tell of the progress in the block, by what Spark Connect tells of its tasks, or by files.

    The block gets the folder in which a task makes a file when it is done; None where that is not asked for. A classic
    session on other machines tells nothing before the job is over.
    """
    if progress is not None and is_connect(spark):

        def tell(stages: Iterable[Any] | None, *_: object, **__: object) -> None:
            progress(min(sum(stage.num_completed_tasks for stage in stages or ()), total), total)

        spark.registerProgressHandler(tell)
        try:
            yield None
        finally:
            spark.removeProgressHandler(tell)
    elif progress is not None and is_local(spark):
        over = threading.Event()
        with TemporaryDirectory(prefix="cep-tasks-", ignore_cleanup_errors=True) as folder:

            def look() -> None:
                while not over.wait(_POLL_S):
                    progress(len(list(Path(folder).iterdir())), total)

            looking = threading.Thread(target=look, daemon=True)
            looking.start()
            try:
                yield folder
            finally:
                over.set()
                looking.join()
    else:
        yield None
