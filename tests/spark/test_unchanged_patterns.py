"""A pattern set that changes, by Spark Connect: the tables are those of a full redo, as on a classic session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.project import DAYS, PATTERNS, make_project, published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
@pytest.mark.parametrize("either", ["connect"], indirect=True)
def test_unchanged_patterns_are_kept(either: SparkSession, tmp_path: Path) -> None:
    project = make_project(tmp_path, either)
    project.run().run_days(DAYS[:2])
    state = "NAME once PATTERN SEQ(Tick a, Tick b) WITHIN 1 hour CONSUME MATCHED"
    (project.folder / "all.sase").write_text(f"{PATTERNS};{state}")
    assert project.run().run_stale().redone("all") == (2, ["once"])
    project.run(warehouse="anew").run_days(DAYS[:2])
    kept, anew = (published(project.tables(name))["matches"] for name in ("warehouse", "anew"))
    by_pattern = [{name: [row for row in rows if row["pattern"] == name] for name in NAMES} for rows in (kept, anew)]
    assert by_pattern[0] == by_pattern[1] and all(by_pattern[0].values())


NAMES = ("rising", "pairs", "jumps", "once")
