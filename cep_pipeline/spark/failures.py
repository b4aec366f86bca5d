"""Failures of Spark jobs, told by what was being done and the line of the stack trace that says why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from cep_pipeline.errors import CepError

_RAISED = re.compile(r"cep_pipeline\.errors\.\w+: (.*)")
_EXCEPTION = re.compile(r":? ?(\w[\w.]*(Error|Exception)\b.*)")


@contextmanager
def explain_failures(what: str) -> Iterator[None]:
    """Turn the failure of a Spark job into a CepError that says what was being done and why it failed.

    Parameters
    ----------
    what
        What the job does, for the message.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise CepError(f"{what}: {reason_of(str(error))}") from error


def reason_of(text: str) -> str:
    """The line of a Java or Python stack trace that says why.

    Examples
    --------
    >>> reason_of("org.apache.spark.SparkException: Job aborted: Traceback:\\nOSError: [Errno 5] Input/output error")
    'OSError: [Errno 5] Input/output error'
    """
    text = text.partition("JVM stacktrace:")[0]
    raised = _RAISED.search(text)
    if raised:
        return raised[1]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [match[1] for line in lines if (match := _EXCEPTION.match(line))]
    return named[-1] if named else lines[0] if lines else "the Spark job failed"
