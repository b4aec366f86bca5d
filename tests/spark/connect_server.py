"""A Spark Connect server of the installed packages, on this machine, whose workers have this checkout."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cep_pipeline.spark.session import DAEMON, java_environment
from tests.spark.cluster import HOST, free_port, stop

CHECKOUT = Path(__file__).resolve().parents[2]
STARTED_AFTER_S = 120.0


@contextmanager
def connect_server(folder: Path, *, master: str = "local[2,2]") -> Iterator[str]:
    """Start a server for the block; gives its address, sc://localhost:PORT. Its log is in the folder."""
    port = free_port()
    properties = {
        **DAEMON,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": HOST,
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", master]
    for name, value in properties.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = {
        **os.environ,
        **java_environment(),
        "PYTHONPATH": str(CHECKOUT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
    }
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE"):
        environment.pop(name, None)
    with (folder / "connect.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + STARTED_AFTER_S
        while True:
            with suppress(OSError):
                socket.create_connection((HOST, port), timeout=1).close()
                break
            assert server.poll() is None and time.monotonic() < deadline, (folder / "connect.log").read_text()[-3000:]
            time.sleep(0.2)
        yield f"sc://localhost:{port}"
    finally:
        stop([server])
