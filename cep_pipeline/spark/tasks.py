"""Running a function over the partitions of a DataFrame, or over task descriptions, on Spark, classic or Connect.

`mapInArrow` calls the function where Spark runs the task. Results and refusals come back as rows. A description is a
row of `spark.range`. Only what Spark Connect has too is used: no RDD, no Spark context.
"""

from __future__ import annotations

import os
import pickle
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from cep_pipeline.errors import CepError, NoRoom
from cep_pipeline.spark.session import explain_failures, is_connect, is_local
from cep_pipeline.spark.workers import Installation, check_worker, installation
from cep_pipeline.storage import keep_free, kept_free, object_store_properties, reach_object_stores

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
        One that a task raised, which is not retried, and after which no further task begins on this machine; or that
        the job failed, and why.
    """
    if not tasks:
        return []
    tell = progress or (lambda done, of: None)
    tell(0, len(tasks))
    packed = [pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL) for task in tasks]
    frame = spark.range(0, len(tasks), 1, len(tasks))
    with task_folder(spark) as folder, _watched(spark, folder, len(tasks), progress):
        results = _results(spark, frame, partial(_call, function, packed, folder), what, folder)
    tell(len(tasks), len(tasks))
    return [results[number] for number in range(len(tasks))]


def _call(
    function: Callable[[Task, int], Result],
    packed: Sequence[bytes],
    folder: TaskFolder | None,
    rows: Batches,
    number: int,
    attempt: int,
) -> Result:
    """Call a function with the task of this number, of which the partition has one row."""
    result = function(pickle.loads(packed[number]), attempt)
    if folder is not None:
        folder.tell(number)
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
        One that the function raised, which is not retried, and after which it is called for no further partition on
        this machine; or that the job failed, and why.
    """
    with task_folder(spark) as folder:
        return list(_results(spark, frame, function, what, folder).values())


def _results(
    spark: SparkSession, frame: DataFrame, function: OfPartition[Result], what: str, folder: TaskFolder | None
) -> dict[int, Result]:
    """The number of each partition that has rows -> what the function gives for it, in the order of the numbers."""
    driver = None if is_local(spark) else installation()
    call = _worker_call(function, what, folder, driver, object_store_properties(), kept_free())
    called = frame.mapInArrow(call, "part long, result binary, refusal binary")
    outcomes: list[tuple[int, bytes | None, bytes | None]] = []
    try:
        outcomes += zip(*collect(spark, called, what, folder).to_pydict().values(), strict=True)
    except CepError:
        if folder is None or not folder.refusals():
            raise
    refused = {number: refusal for number, _, refusal in outcomes if refusal is not None}
    refused |= folder.refusals() if folder is not None else {}
    if refused:
        raise pickle.loads(refused[min(refused)])
    return {number: pickle.loads(result) for number, result, _ in sorted(outcomes) if result is not None}


def _worker_call(
    function: OfPartition[Result],
    what: str,
    folder: TaskFolder | None,
    driver: Installation | None,
    properties: Mapping[str, str],
    free: Any,
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """The function of `mapInArrow`: calls the given one with the rows, and makes a row of what it gives.

    An error that the function explains is the same at every attempt: it is a refusal, not for Spark to retry.

    Parameters
    ----------
    what
        What is being done, for errors and as the name of the operator on Spark's own page.
    folder
        Where tasks look whether they are still wanted; None: they do not.
    driver
        What the driver runs; None: the worker is of the same installation.
    properties, free
        How object stores are reached, and what the disk must keep free.
    """

    def call(batches: Batches) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        check_worker(driver)
        reach_object_stores(properties)
        keep_free(free)
        running = TaskContext.get()
        number, attempt = (running.partitionId(), running.attemptNumber()) if running is not None else (0, 0)
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is not None and not (folder is not None and folder.over()):
            result = refusal = None
            try:
                with folder.while_wanted() if folder is not None else nullcontext():
                    result = pickle.dumps(function(chain([first], rows), number, attempt), pickle.HIGHEST_PROTOCOL)
            except CepError as error:
                refusal = pickle.dumps(error)
            except MemoryError:
                refusal = pickle.dumps(NoRoom(f"{what}: a task has not enough memory; give it fewer or smaller slices"))
            if folder is not None and refusal is not None:
                folder.refuse(number, refusal)
            schema = pa.schema([("part", pa.int64()), ("result", pa.binary()), ("refusal", pa.binary())])
            yield pa.record_batch([[number], [result], [refusal]], schema=schema)
        for _ in rows:  # what is left of a refused partition
            pass

    call.__name__ = re.sub(r"\W+", "_", what)
    return call


def collect(spark: SparkSession, frame: DataFrame, what: str, folder: TaskFolder | None = None) -> pa.Table:
    """Return the rows of a DataFrame. Ctrl-C and SIGTERM end the job.

    PySpark lets an interruption of its own call pass only when the job has ended, so it is waited for in a thread.
    Tasks in Python end themselves where they have a folder. On a cluster of a classic session only its end does.

    Parameters
    ----------
    what
        What is being done, for errors: a failure of the job is a CepError.
    folder
        Where tasks in Python look whether they are still wanted; None: they do not.
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
        except BaseException as error:
            if folder is not None:
                folder.stop()
            elif isinstance(error, KeyboardInterrupt) and not (is_connect(spark) or is_local(spark)):
                spark.stop()
            with suppress(Exception):  # the job may have failed because Spark has
                spark.interruptTag(tag)
            raise


@dataclass(frozen=True)
class TaskFolder:
    """A folder on the machine of driver and workers, in which the tasks of a job write that they are done or failed."""

    path: str

    def tell(self, task: int) -> None:
        """Write that a task is done. Nothing is written if the folder is gone: nobody reads it any more."""
        with suppress(OSError):
            Path(self.path, f"{task}{_DONE}").touch()

    def finished(self) -> int:
        """The number of tasks that are done."""
        return len(list(Path(self.path).glob(f"*{_DONE}")))

    def refuse(self, task: int, refusal: bytes) -> None:
        """Write the pickled error of a task that has failed for good, after which no other is wanted."""
        with suppress(OSError):
            part = Path(self.path, f"{task}.part")
            part.write_bytes(refusal)
            part.rename(part.with_suffix(_REFUSED))

    def stop(self) -> None:
        """Write that no task is wanted any more."""
        Path(self.path, _STOPPED).touch()

    def over(self) -> bool:
        """True if no task is wanted any more: one has failed for good, or the job is interrupted."""
        return any(path.name == _STOPPED or path.suffix == _REFUSED for path in Path(self.path).glob("*"))

    def refusals(self) -> dict[int, bytes]:
        """The pickled errors of the tasks that have failed for good, by their numbers."""
        return {int(path.stem): path.read_bytes() for path in Path(self.path).glob(f"*{_REFUSED}")}

    @contextmanager
    def while_wanted(self) -> Iterator[None]:
        """End this worker in the block as soon as the job is over: a kernel does not end before its time."""
        with _repeated(lambda: os._exit(1) if self.over() else None):
            yield


_DONE = ".done"
_REFUSED = ".refused"
_STOPPED = "stopped"


@contextmanager
def _repeated(look: Callable[[], None]) -> Iterator[None]:
    """Call a function in a thread again and again, until the block is done."""
    done = threading.Event()

    def looking() -> None:
        while not done.wait(_POLL_S):
            look()

    thread = threading.Thread(target=looking, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def task_folder(spark: SparkSession) -> Iterator[TaskFolder | None]:
    """Give the folder in which tasks tell of themselves, for the block; None where they run on other machines."""
    if not is_local(spark):
        yield None
        return
    with TemporaryDirectory(prefix="cep-tasks-", ignore_cleanup_errors=True) as path:
        yield TaskFolder(path)


@contextmanager
def _watched(spark: SparkSession, folder: TaskFolder | None, total: int, progress: Progress | None) -> Iterator[None]:
    """Tell of the progress in the block: by the folder, or by what Spark Connect tells of its tasks.

    A classic session on other machines tells nothing before the job is over.
    """
    if progress is None or (folder is None and not is_connect(spark)):
        yield
    elif folder is not None:
        with _repeated(lambda: progress(folder.finished(), total)):
            yield
    else:

        def tell(stages: Iterable[Any] | None, *_: object, **__: object) -> None:
            progress(min(sum(stage.num_completed_tasks for stage in stages or ()), total), total)

        spark.registerProgressHandler(tell)
        try:
            yield
        finally:
            spark.removeProgressHandler(tell)
