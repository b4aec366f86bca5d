"""A PostgreSQL server of its own, for tests: started from the programs of this machine, on a free port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found and (initdb := shutil.which("initdb")):
        found = [Path(initdb)]
    return found[-1].parent if found else None


@contextmanager
def postgresql() -> Iterator[str]:
    """Give the address of a server, without a database; the test is skipped where PostgreSQL is not installed."""
    pytest.importorskip("psycopg2")
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL's initdb is not installed (Debian: apt-get install postgresql)")
    # PostgreSQL refuses to run as the super-user, and its folder must be its own.
    account = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="cep-postgresql-"))
    if account:
        shutil.chown(folder, **account)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = str(folder / "data")

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [programs / program, "-D", data, *arguments], check=True, cwd=folder, stdout=subprocess.DEVNULL, **account
        )

    run("initdb", "-U", "cep", "--auth=trust", "--no-sync")
    options = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off"
    run("pg_ctl", "-w", "-o", options, "-l", str(folder / "log"), "start")
    try:
        yield f"postgresql+psycopg2://cep@127.0.0.1:{port}"
    finally:
        run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder)
