"""An S3 server for tests: moto's, as a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

BUCKET = "cep-tests"


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Run a server with one empty bucket; gives the properties by which it is reached, credentials included."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _make_bucket(endpoint, server)
        yield {"s3.endpoint": endpoint, "s3.access-key-id": "tests", "s3.secret-access-key": "tests"}
    finally:
        server.terminate()
        server.wait()


def _make_bucket(endpoint: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT"), timeout=10)
        except OSError:
            if time.monotonic() > until or server.poll() is not None:
                raise
            time.sleep(0.1)
        else:
            return
