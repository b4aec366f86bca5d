"""Try faults at the writes of a publish and flips of what it wrote, and write the page that counts what came of them.

    .venv/bin/python scripts/faults.py --out docs/faults.md                    at every write, on both databases
    .venv/bin/python scripts/faults.py --out docs/faults.md --every 4          at one of four writes

A warehouse is made in a folder of its own, which is removed at the end. A run on SQLite takes some minutes. PostgreSQL
is started where its programs are installed. The harness is that of the tests, `tests/warehouse/faults.py`, and the
flips are those of `tests/warehouse/test_damage.py`.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
sys.path.insert(0, str(CHECKOUT))

import pytest  # noqa: E402

from benchmarks.report import markdown_table  # noqa: E402
from cep_pipeline.warehouse.warehouse import Warehouse  # noqa: E402
from tests.postgresql import postgresql  # noqa: E402
from tests.warehouse.faults import KINDS, PLACES, Place, Trial, Tried  # noqa: E402
from tests.warehouse.published_days import Trades, publish_everything  # noqa: E402
from tests.warehouse.test_damage import KINDS as FILES  # noqa: E402
from tests.warehouse.test_damage import Flip, sweep  # noqa: E402

DATABASES = ("SQLite", "PostgreSQL")
FLIPS = 400
"""Flips for each kind of file, where faults are tried at every write."""


def say(text: str) -> None:
    """Tell a person something at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@dataclass(frozen=True)
class Tries:
    """The faults and flips that were tried on one database."""

    database: str
    writes: Sequence[str]
    tried: Sequence[Tried]
    flips: Sequence[Flip]

    @property
    def failures(self) -> list[Tried]:
        """The faults that were not survived."""
        return [one for one in self.tried if one.fault]

    @property
    def silent(self) -> list[Flip]:
        """The flips that change what is read, and that nothing tells of."""
        return [flip for flip in self.flips if flip.silent]


@contextmanager
def catalog_on(database: str) -> Iterator[str | None]:
    """Give the address of a catalog; None for SQLite, which is a file in the warehouse."""
    if database == "SQLite":
        yield None
    else:
        with postgresql() as server:
            yield f"{server}/postgres"


def try_all(database: str, every: int) -> Tries:
    """Try each kind of fault at one of so many writes."""
    with tempfile.TemporaryDirectory(prefix="cep-faults-") as folder, catalog_on(database) as catalog:
        trial = Trial(Place(f"{folder}/warehouse", catalog))
        tried = []
        for place, kind in enumerate(KINDS):
            # Each kind begins with another write, so that together they come to all of them.
            for number in range(place % every, len(trial.writes), every):
                if (one := trial.fault(kind, number)) is not None:
                    tried.append(one)
                    if one.fault:
                        say(f"{database}, {kind} at write {number} ({one.place}): {one.fault}")
            say(f"{database}, {kind}: {sum(one.kind == kind for one in tried)} tried")
        trial.tables.warehouse.close()
    return Tries(database, trial.writes, tried, try_flips(database, -(-FLIPS // every)))


def try_flips(database: str, number: int) -> list[Flip]:
    """Flip so many bits in files of each kind, one at a time."""
    with tempfile.TemporaryDirectory(prefix="cep-faults-") as folder, catalog_on(database) as catalog:
        place = Path(folder, "warehouse")
        with closing(Warehouse.open(place, catalog)) as warehouse:
            publish_everything(warehouse.stream(Trades()))
        flips = [flip for kind in FILES for flip in sweep(place, kind, number, 1, catalog)]
    for flip in flips:
        if flip.silent:
            say(f"{database}, {flip.path}: bit {flip.bit} of byte {flip.at} is silent ({flip.read})")
    say(f"{database}, flips: {len(flips)} tried")
    return flips


def page(results: Sequence[Tries], every: int, missing: Sequence[str]) -> str:
    """The page, as Markdown."""
    number = sum(len(one.tried) for one in results)
    failed = sum(len(one.failures) for one in results)
    flips = sum(len(one.flips) for one in results)
    silent = sum(len(one.silent) for one in results)
    part = "at each write" if every == 1 else f"at one of {every} writes, at others for each kind of fault"
    lines = [
        "# Faults",
        "",
        f"Made by `scripts/faults.py`: {number:,} faults were tried, and {number - failed:,} of them were survived; "
        f"{flips:,} bits of published files were flipped, and {silent:,} of them silently changed what is read.",
        "",
        "A day with events, rejected rows, matches and statistics is done again from other raw data. On the way "
        f"something goes wrong, {part}: the process is killed (`kill`), it is interrupted (`stop`), the disk is full "
        "from then on (`full disk`), one write fails (`I/O error`), or the clock jumps by an hour until the day has "
        "ended (`clock forward`, `clock back`). When the clock has jumped, another run asks for the lease of the "
        "day: it may get it only where the lease has run out, as it does with SQLite, which goes by the clock of the "
        "machine. A fault is survived if",
        "",
        "- all tables and records of the day are as they were, or all are new, as a reader sees them who joins the "
        "matches to their events;",
        "- the error is one that is explained, and a day that ends without an error is published;",
        "- a run that has lost its lease publishes nothing, and a jump of the clock that leaves the lease is no error;",
        "- the times in the metadata of each table do not run back, since other engines refuse a table where they do;",
        "- doing the day again gives the new day with the same ids;",
        "- the other day of the warehouse is as it was.",
        "",
        "A flip is one bit of a published file, changed on the disk afterwards. It is silent if other rows or records "
        "are read, or an error, and `cep verify --deep` does not name the file.",
        "",
        "The tests do the same: `make test` at one write of each kind (on PostgreSQL of each kind of its own) and with "
        "some flips, `make test-all` at every write and with thousands.",
    ]
    for result in results:
        lines += ["", f"## {result.database}", "", f"A publish of the day has {len(result.writes)} writes.", ""]
        rows = [[place, str(result.writes.count(place)), *_cells(result.tried, place)] for place in PLACES]
        rows.append(["all", str(len(result.writes)), *_cells(result.tried, None)])
        lines += [*markdown_table(["survived of tried", "writes", *KINDS], rows).splitlines(), ""]
        seen = [[kind, *(_left(result.tried, kind, which) for which in ("old", "new"))] for kind in KINDS]
        lines += markdown_table(["readers saw afterwards", "the old day", "the new day"], seen).splitlines()
        titles = ["flipped", "bits", "named by `cep verify --deep`", "read as before", "error on reading", "silent"]
        lines += ["", *markdown_table(titles, [_flip_cells(result.flips, kind) for kind in FILES]).splitlines()]
        lines += [f"- Not survived: {one.kind} at write {one.number}, {one.place}." for one in result.failures]
    lines += [f"\n{database} is not installed where this page was made." for database in missing]
    return "\n".join([*lines, ""])


def _cells(tried: Sequence[Tried], place: str | None) -> list[str]:
    cells = []
    for kind in KINDS:
        own = [one for one in tried if one.kind == kind and place in (None, one.place)]
        cells.append(f"{sum(not one.fault for one in own)} of {len(own)}" if own else "")
    return cells


def _flip_cells(flips: Sequence[Flip], kind: str) -> list[str]:
    own = [flip for flip in flips if flip.kind == kind]
    counts = [
        len(own),
        sum(flip.told for flip in own),
        sum(flip.read == "the same" for flip in own),
        sum(flip.read == "an error" for flip in own),
        sum(flip.silent for flip in own),
    ]
    return [kind, *map(str, counts)]


def _left(tried: Sequence[Tried], kind: str, which: str) -> str:
    return str(sum(one.kind == kind and one.left == which for one in tried))


def main() -> int:
    """Try the faults; returns 1 where one was not survived or a flip was silent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=CHECKOUT / "var" / "faults.md", help="for the page")
    parser.add_argument("--every", type=int, default=1, help="try one of so many writes (default: %(default)s)")
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=DATABASES, help="default: both")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # each fault is logged with its trace
    results, missing = [], []
    for database in options.databases:
        try:
            results.append(try_all(database, options.every))
        except pytest.skip.Exception as reason:
            say(f"{database}: {reason}")
            missing.append(database)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page(results, options.every, missing))
    say(f"written to {options.out}")
    return int(any(one.failures or one.silent for one in results))


if __name__ == "__main__":
    sys.exit(main())
