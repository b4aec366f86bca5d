"""Pages of matches: all pages together, each choice and each count are what reading everything gives."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.storage import conform
from cep_pipeline.warehouse import match_pages
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, without_composed
from cep_pipeline.warehouse.match_pages import (
    MatchesQuery,
    find_match,
    matches_in_batches,
    matches_over_time,
    matches_page,
)

DAY = date(2024, 3, 4)
MIDNIGHT_US = 1_709_510_400_000_000
ROWS = 230


def rows() -> list[dict[str, Any]]:
    random = np.random.default_rng(5)
    found = []
    for number in range(ROWS):
        end = MIDNIGHT_US + int(random.integers(0, 86_400)) * 1_000_000
        found.append(
            {
                "pattern_set": "all",
                "final_day": DAY,
                "pattern": ("falling", "pairs", "rising")[number * 3 // ROWS],
                "pattern_version": "v1",
                "match_id": UUID(int=number),
                "start_ts": end - 5_000_000,
                "end_ts": end,
                "bindings": [{"variable": "a", "seq": number}, {"variable": "b", "seq": number + 1}],
                "returns": None if number % 5 == 0 else f'{{"step": {number % 7}}}',
            }
        )
    return found


@pytest.fixture(params=[1, 10, 1_000])
def tables(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """The matches in two files, in row groups of several sizes."""
    whole = conform(pa.Table.from_pylist(rows(), schema=without_composed(MATCHES_SCHEMA)), MATCHES_SCHEMA)
    paths = [str(tmp_path / name) for name in ("0.parquet", "1.parquet")]
    for path, part in zip(paths, (whole.slice(0, 90), whole.slice(90)), strict=True):
        pq.write_table(part, path, row_group_size=request.param, write_page_checksum=True)
    return SimpleNamespace(matches_files=lambda pattern_set, day: paths, matches_schema=MATCHES_SCHEMA)


NOON_US = MIDNIGHT_US + 43_200_000_000
QUERIES = [
    (MatchesQuery("all", DAY), lambda row: True),
    (MatchesQuery("all", DAY, "pairs"), lambda row: row["pattern"] == "pairs"),
    (MatchesQuery("all", DAY, "none"), lambda row: False),
    (MatchesQuery("all", DAY, None, NOON_US), lambda row: row["end_ts"] >= NOON_US),
    (
        MatchesQuery("all", DAY, "rising", None, NOON_US),
        lambda row: row["pattern"] == "rising" and row["end_ts"] < NOON_US,
    ),
    (MatchesQuery("all", DAY, value='"step": 3'), lambda row: row["returns"] is not None and ": 3" in row["returns"]),
    (MatchesQuery("all", DAY, value=str(UUID(int=7))), lambda row: row["match_id"] == UUID(int=7)),
]


@pytest.mark.long
@pytest.mark.parametrize(("query", "holds"), QUERIES)
@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_pages_batches_and_counts_are_what_reading_everything_gives(
    tables: Any, query: MatchesQuery, holds: Any, limit: int
) -> None:
    wanted = [row["match_id"] for row in rows() if holds(row)]
    found: list[UUID] = []
    after: str | None = ""
    while after is not None:
        page = matches_page(tables, query, limit, after)
        assert page.rows.num_rows <= limit
        found += page.rows["match_id"].to_pylist()
        after = page.following
    assert found == wanted
    assert [one for batch in matches_in_batches(tables, query) for one in batch["match_id"].to_pylist()] == wanted
    edges = [MIDNIGHT_US + hour * 3_600_000_000 for hour in range(25)]
    counts, complete = matches_over_time(tables, query, edges)
    ends = [row["end_ts"] for row in rows() if holds(row)]
    assert complete and counts == np.histogram(ends, edges)[0].tolist()


def test_a_rare_value_does_not_keep_a_reader_waiting(tables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_pages, "MOST_LOOKED_AT", 5)
    query = MatchesQuery("all", DAY, value=str(UUID(int=229)))
    pages, after = 0, ""
    while True:
        page = matches_page(tables, query, 10, after)
        pages += 1
        if page.following is None:
            break
        after = page.following
    assert page.rows["match_id"].to_pylist() == [UUID(int=229)] and pages > 1


def test_a_match_is_found_by_its_id(tables: Any) -> None:
    found = find_match(tables, "all", DAY, f"{200:032x}")
    assert found is not None and found["bindings"][0] == {"variable": "a", "seq": 200}
    assert find_match(tables, "all", DAY, "none") is None
    with pytest.raises(InputError, match=r"the ids of .* matches begin with 0000.*: 0{8}-.*; write more of the id"):
        find_match(tables, "all", DAY, f"{200:032x}"[:31])


@pytest.mark.parametrize("after", ["1", "a.b.c", "-1.0.0", "1.2.3.4", "²" + ".0.0"])
def test_a_place_that_no_page_has_given_is_refused(tables: Any, after: str) -> None:
    with pytest.raises(InputError, match="is no place in a list of matches"):
        matches_page(tables, MatchesQuery("all", DAY), 5, after)
