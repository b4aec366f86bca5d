"""`cep why` and `cep why-not` over files; the tutorial's test runs both over a warehouse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import Done, cep

SCHEMA = (
    "{name: ticks, type_attribute: kind, timezone: Europe/Copenhagen, timestamp: {column: time, format: iso}, "
    "attributes: {kind: string, x: int64}, source: {format: csv, path: x.csv}}"
)
ROWS = ("10:00:00,A,5", "10:00:01,B,4", "10:00:01,B,6", "10:00:02,C,1")
PATTERNS = "NAME rise PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 1 minute; NAME lone PATTERN C c WITHIN 1 minute"
OVER = ("--patterns", "p.sase", "--schema", "s.yaml", "--events", "x.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.yaml").write_text(SCHEMA)
    (tmp_path / "p.sase").write_text(PATTERNS)
    (tmp_path / "x.csv").write_text("time,kind,x\n" + "".join(f"2024-03-04 {row}\n" for row in ROWS))
    return tmp_path


def why_not(folder: Path, *arguments: str) -> Done:
    return cep("why-not", *OVER, "--pattern", "rise", *arguments, folder=folder)


def test_a_match_is_explained_by_its_id(folder: Path) -> None:
    assert cep("detect", *OVER, "--out", "m.json", folder=folder).code == 0
    [match_id] = [
        row["match_id"]
        for row in map(json.loads, (folder / "m.json").read_text().splitlines())
        if row["pattern"] == "rise"
    ]
    done = cep("why", match_id, *OVER, folder=folder)
    assert done.code == 0, done.errors
    assert "rise: these events are a match" in done.output
    assert "│ b        │ 2024-03-04 10:00:01.000  │ x.csv:4       │ B    │ 6 │" in done.output
    assert "│ yes   │ b.x > a.x       │ 6 > 5 " in done.output
    found = json.loads(cep("why", match_id.replace("-", ""), *OVER, "--json", folder=folder).output)
    assert found["is_match"] and found["match_id"] == match_id
    assert found["events"][1]["x"] == "6"
    assert json.loads(cep("why", match_id[:8], *OVER, "--json", folder=folder).output) == found
    assert "has the id 123" in cep("why", "123", *OVER, folder=folder).error


def test_a_match_is_explained_by_its_number(folder: Path) -> None:
    done = cep("why", "rise", "1", *OVER, folder=folder)
    assert done.code == 0 and "│ yes   │ b.x > a.x       │ 6 > 5 " in done.output, done.errors
    assert "pattern 'rise' has 1 match over these files" in cep("why", "rise", "2", *OVER, folder=folder).error
    assert "there is no pattern 'fall'; there are: rise, lone" in cep("why", "fall", "1", *OVER, folder=folder).error
    assert "leave --pattern lone out" in cep("why", "rise", "1", "--pattern", "lone", *OVER, folder=folder).error


def test_matches_of_other_patterns_are_named_by_their_ids(folder: Path) -> None:
    text = "NAME rise PATTERN SEQ(A a, B b) WITHIN 1 minute; NAME two PATTERN SEQ(rise r, rise s, C c) WITHIN 1 minute"
    (folder / "p.sase").write_text(text)
    assert cep("detect", *OVER, "--out", "m.json", folder=folder).code == 0
    found = [json.loads(line) for line in (folder / "m.json").read_text().splitlines()]
    first, last, two = (row["match_id"] for row in found)
    done = cep("why", two, *OVER, folder=folder)
    assert done.code == 0, done.errors
    assert "two: these events are a match" in done.output
    inside = "a 2024-03-04 10:00:00.000 A (x.csv:2), b 10:00:01.000 B (x.csv:3)"
    document = json.loads(cep("why", two, *OVER, "--json", folder=folder).output)
    assert [one["match_id"] for one in document["composed"]] == [first, last]
    assert [one["match_id"] for one in document["inside"]] == [first, last]
    assert inside in done.output
    chosen = (
        "--pattern",
        "two",
        "--event",
        f"r={last[:8]}",
        "--event",
        f"s={first.replace('-', '')}",
        "--event",
        "c=3",
    )
    done = cep("why-not", *OVER, *chosen, folder=folder)
    assert "two: these events are no match, because of: r before s" in done.output


def test_expected_events_are_named_by_position_or_time(folder: Path) -> None:
    for event in ("b=1", "b=2024-03-04/1", "b=x.csv:3"):
        done = why_not(folder, "--event", "a=10:00", "--event", event)
        assert "rise: these events are no match, because of: b.x > a.x (4 > 5)" in done.output
        assert "│ NO    │ b.x > a.x       │ 4 > 5 " in done.output
    assert "no event was read from line 9 of x.csv" in why_not(folder, "--event", "a=x.csv:9").error
    assert "no event of A has this time" in why_not(folder, "--event", "a=2024-03-04 10:00:01.000").error
    done = why_not(folder, "--event", "a=0", "--event", "b=10:00:01")
    assert done.code == 2
    assert "2 events of B have this time: 2024-03-04/1, 2024-03-04/2; name one" in done.error
    assert "next to it are: 2024-03-04 10:00:00.000" in why_not(folder, "--event", "a=11:00").error
    assert "write it as VARIABLE=EVENT, such as a=57" in why_not(folder, "--event", "a").error
    assert "rise binds a, b" in why_not(folder, "--event", "n=1").error
    assert "--event and --at do not go together" in why_not(folder, "--event", "a=1", "--at", "10:00").error
    assert "there are several patterns: rise, lone" in cep("why-not", *OVER, folder=folder).error


def test_a_range_is_one_document(folder: Path) -> None:
    found = json.loads(why_not(folder, "--json", "--near", "1").output)
    assert found["matches"] == {"matches": 1, "exact": True}
    without = {"matches": 2, "exact": True}
    assert found["left_out"][0] == {"rule": "condition", "text": "b.x > a.x", "without": without}
    [near] = found["near"]
    assert [(one["variable"], one["x"]) for one in near["events"]] == [("a", "5"), ("b", "4")]
    assert [one["file and line"] for one in near["events"]] == ["x.csv:2", "x.csv:3"]
    shown = why_not(folder, "--near", "1").output
    assert "a 2024-03-04 10:00:00.000 A x 5 (x.csv:2), b 10:00:01.000 B x 4 (x.csv:3)" in shown
    assert "rise: 1 match in 4 events; without b.x > a.x there would be 2" in shown
    around = json.loads(why_not(folder, "--at", "12:00", "--json").output)
    assert around["matches"]["matches"] == 0
