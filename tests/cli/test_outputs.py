"""`cep detect` with counts, limits and files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cep_pipeline import DataWarning, StreamSchema, read
from tests.cli.command_line import Done, cep

SCHEMA = (
    "{name: ticks, type_attribute: kind, timestamp: {column: time, format: epoch_us}, "
    "attributes: {kind: string, x: int64}, source: {format: csv, path: x.csv}}"
)
LISTS = "NAME lists PATTERN SEQ(A a, B+ b[], C c) WITHIN 1 minute RETURN b.LEN AS n"
OTHERS = (
    "NAME firsts PATTERN SEQ(A a, B+ b[]) WHERE b.x <= 3 WITHIN 1 minute; NAME no PATTERN SEQ(C c, A a) WITHIN 1 minute"
)


def detect(folder: Path, patterns: str, bs: int, *arguments: str) -> Done:
    (folder / "s.yaml").write_text(SCHEMA)
    kinds = ["A", *["B"] * bs, "C"]
    (folder / "x.csv").write_text("time,kind,x\n" + "".join(f"{t},{kind},{t}\n" for t, kind in enumerate(kinds)))
    (folder / "p.sase").write_text(patterns)
    over = ("--patterns", "p.sase", "--schema", "s.yaml", "--events", "x.csv")
    return cep("detect", *over, *arguments, folder=folder)


def test_a_limit_stops_before_anything_is_listed(tmp_path: Path) -> None:
    done = detect(tmp_path, LISTS, 60, "--limit", "1000000", "--out", "found.parquet")
    assert done.code == 2
    assert "'lists' has 1,152,921,504,606,846,975 matches, more than the limit of 1,000,000" in done.error
    assert "--output count" in done.error
    assert not (tmp_path / "found.parquet").exists()
    sums = LISTS.replace("WITHIN", "WHERE sum(b[].x) > 0 WITHIN")
    for output in ("verbose", "count"):
        done = detect(tmp_path, sums, 60, "--limit", "1000", "--output", output, "--out", "found.parquet")
        assert done.code == 2
        assert "more than 1,000 matches" in done.error
    assert not (tmp_path / "found.parquet").exists()
    assert detect(tmp_path, LISTS, 5, "--limit", "31", "--out", "found.parquet").code == 0
    assert pq.read_table(tmp_path / "found.parquet").num_rows == 31


@pytest.mark.parametrize("arguments", [(), ("--output", "count"), ("--adapt", "--every", "10 events")])
def test_without_a_file_the_matches_are_counted_and_nothing_is_written(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = detect(tmp_path, f"{LISTS}; {OTHERS}", 5, *arguments)
    assert done.code == 0, done.errors
    found = [line.split("│")[1:3] for line in done.errors.splitlines() if line.count("│") == 3]
    assert {name.strip(): number.strip() for name, number in found}["lists"] == "31"
    assert ("lists: 3 of 31 matches" in done.errors) == ("count" not in arguments)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["p.sase", "s.yaml", "x.csv"]
    assert (refused := detect(tmp_path, LISTS, 5, "--lines")).code == 2
    assert "--out" in refused.error


def test_counts_of_any_size(tmp_path: Path) -> None:
    done = detect(tmp_path, LISTS, 60, "--output", "count", "--out", "counts.json")
    assert done.code == 0, done.errors
    assert "1,152,921,504,606,846,975" in done.errors
    assert json.loads((tmp_path / "counts.json").read_text()) == {"pattern": "lists", "count": str(2**60 - 1)}


def test_a_file_has_dictionaries_of_the_columns_whose_values_repeat(tmp_path: Path) -> None:
    assert detect(tmp_path, LISTS, 3, "--out", "found.parquet").code == 0
    group = pq.ParquetFile(tmp_path / "found.parquet").metadata.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    assert {column.path_in_schema for column in columns if not column.has_dictionary_page} == {
        "match_id", "bindings.list.element.variable", "bindings.list.element.seq"
    }  # fmt: skip
    assert {column.path_in_schema for column in columns if column.has_dictionary_page} == {
        "pattern", "start_ts", "end_ts", "n"
    }  # fmt: skip


def test_files_of_which_all_rows_are_rejected_are_refused(tmp_path: Path) -> None:
    detect(tmp_path, OTHERS, 1, "--out", "found.csv")
    (tmp_path / "x.csv").write_text("time,kind,x\nyesterday,A,1\n")
    over = ("--patterns", "p.sase", "--schema", "s.yaml", "--events", "x.csv", "--out", "found.csv")
    for adaptive in ((), ("--adapt", "--every", "10 events")):
        done = cep("detect", *over, *adaptive, folder=tmp_path)
        assert (done.code, "no event is left: 1 row rejected" in done.error) == (3, True)
    (tmp_path / "x.csv").write_text("time,kind,x\n")
    assert cep("detect", *over, folder=tmp_path).code == 0  # of a file without rows none is rejected


def test_patterns_that_cannot_match_are_warned_about(tmp_path: Path) -> None:
    done = detect(tmp_path, "NAME none PATTERN SEQ(A a, Nobody n) WITHIN 1 day", 3, "--out", "found.csv")
    assert done.code == 0
    assert "warning: no event has the type Nobody, asked for by none" in done.errors


def test_the_first_matches_are_shown_with_their_events(tmp_path: Path) -> None:
    taken = "skip_till_next_match(a, b[], c) { c.x > 10 }"
    many = f"NAME many PATTERN SEQ(A a, A+ b[], B c) WHERE {taken} WITHIN 1 day"
    rows = [f"{at},{kind},{at}" for at, kind in enumerate(f"AABB{'A' * 40}B")]
    (tmp_path / "s.yaml").write_text(SCHEMA)
    (tmp_path / "p.sase").write_text(f"{OTHERS.rstrip().rstrip(';')};\n{many}")
    (tmp_path / "x.csv").write_text("\n".join(["time,kind,x", *rows, ""]))
    over = ("--patterns", "p.sase", "--schema", "s.yaml", "--events", "x.csv", "--out", "found.json")
    plain, one, placed = (
        cep("detect", *over, *more, folder=tmp_path).errors for more in ((), ("--show", "1"), ("--lines",))
    )
    found = [json.loads(line) for line in (tmp_path / "found.json").read_text().splitlines()]
    names = dict.fromkeys(match["pattern"] for match in found)
    for name in names:
        own = [match for match in found if match["pattern"] == name]
        assert f"{name}: {min(3, len(own))} of {len(own):,} match" in plain and f"{name}: 1 of {len(own):,} m" in one
    first = found[0]["bindings"]
    cells = [[cell.strip() for cell in line.split("│")] for line in placed.splitlines() if "x.csv:" in line]
    shown = [(row[2], row[-2]) for row in cells if row[-2].startswith("x.csv:")][: len(first)]
    assert shown == [(event["variable"], f"x.csv:{event['line']}") for event in first]
    longest = max(len(match["bindings"]) for match in found)
    assert longest > 30 and f"… {longest - 20} more" in plain, "of a long list the first events are shown"
    for quiet in (("--show", "0"), ("--json",), ("--output", "count")):
        done = cep("detect", *over, *quiet, folder=tmp_path)
        assert done.code == 0 and "variable" not in done.errors


def test_each_event_of_a_match_can_say_on_which_line_of_which_file_it_stands(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCHEMA)
    (tmp_path / "p.sase").write_text(OTHERS)
    texts = {"1.csv": ["5,B,2", "oops,B,1", "0,A,1"], "2.csv": ["7,B,9", "3,B,3", "1,A,0"]}
    for name, lines in texts.items():
        lines.insert(0, "time,kind,x")
        (tmp_path / name).write_text("\n".join([*lines, ""]))
    over = ("--patterns", "p.sase", "--schema", "s.yaml")

    def listed(*arguments: str) -> list[list[tuple[str, str]]]:
        """The events of each match: the variable, and the row that stands where the file says."""
        done = cep("detect", *over, *arguments, "--lines", "--out", "found.json", folder=tmp_path)
        assert done.code == 0, done.errors
        found = [json.loads(line)["bindings"] for line in (tmp_path / "found.json").read_text().splitlines()]
        return [[(one["variable"], texts[one["file"]][one["line"] - 1]) for one in match] for match in found]

    raw = ("--events", "*.csv")
    right = listed(*raw)
    assert [("a", "1,A,0"), ("b", "3,B,3"), ("b", "5,B,2")] in right and len(right) > 3
    assert all((name, text.split(",")[1]) in (("a", "A"), ("b", "B")) for match in right for name, text in match)
    assert listed(*raw, "--adapt", "--every", "2 events") == right
    for lines in ((), ("--lines",)):
        assert cep("detect", *over, *raw, *lines, "--out", f"{len(lines)}.parquet", folder=tmp_path).code == 0
    plain, placed = (pq.read_table(tmp_path / f"{number}.parquet") for number in (0, 1))
    assert placed.drop_columns(["bindings"]) == plain.drop_columns(["bindings"])
    same = ("variable", "seq")
    assert [[{name: one[name] for name in same} for one in row] for row in placed["bindings"].to_pylist()] == plain[
        "bindings"
    ].to_pylist()
    done = cep("detect", *over, *raw, "--lines", "--out", "-", folder=tmp_path)
    assert '[""a"", ' in done.output and ', ""1.csv"", 4]' in done.output
    refused = cep("detect", *over, *raw, "--lines", "--output", "count", "--out", "n.csv", folder=tmp_path)
    assert (refused.code, "--output count lists none" in refused.error) == (2, True)

    with pytest.warns(DataWarning):
        events = read(StreamSchema.load(tmp_path / "s.yaml"), [tmp_path / name for name in ("1.csv", "2.csv")])
    for parts in ([events.take([3, 0, 4, 1, 2])], [events.slice(2), events.slice(0, 2)]):  # to be sorted; in order
        names = [f"events {number}.parquet" for number in range(len(parts))]
        for name, part in zip(names, parts, strict=True):
            pq.write_table(part, tmp_path / name)
            columns = (part["timestamp"].cast("int64").to_pylist(), part["kind"].to_pylist(), part["x"].to_pylist())
            texts[name] = [",".join(map(str, one)) for one in zip(*columns, strict=True)]
        given = [argument for name in names for argument in ("--events", name)]
        assert listed(*given) == listed(*given, "--adapt", "--every", "2 events") == right


def test_matches_that_bind_matches_are_written_and_shown_with_their_events(tmp_path: Path) -> None:
    ends = "NAME ends PATTERN SEQ(A a, B b) WHERE b.x > 2 WITHIN 1 minute RETURN b.x AS x"
    last = "NAME last PATTERN SEQ(ends e, C c) WHERE e.x < c.x WITHIN 1 minute"
    for ending in ("parquet", "csv", "json"):
        done = detect(tmp_path, f"{ends}; {last}", 4, "--out", f"found.{ending}", "--lines", "--show", "1")
        assert done.code == 0, done.errors
        assert "│ last    │       2 │" in done.errors
        assert [line.split("│")[2].strip() for line in done.errors.splitlines() if "x.csv:" in line] == [
            *("a", "b"),
            *("e.a", "e.b", "c"),
        ]
    rows = pq.read_table(tmp_path / "found.parquet").to_pylist()
    assert [row["composed"] for row in rows[:2]] == [None, None]
    assert [row["composed"] for row in rows[2:]] == [
        [{"variable": "e", "match_id": row["match_id"]}] for row in rows[:2]
    ]
    written = [json.loads(line) for line in (tmp_path / "found.json").read_text().splitlines()]
    assert written[3]["composed"] == [{"variable": "e", "match_id": written[1]["match_id"]}]
    csv = (tmp_path / "found.csv").read_text().splitlines()
    assert f'"[[""e"", ""{rows[1]["match_id"]}""]]"' in csv[4]
    over = ("--patterns", "p.sase", "--schema", "s.yaml", "--events", "x.csv")
    done = cep("plan", *over, "--out", "plan.json", folder=tmp_path)
    assert done.code == 0, done.errors
    assert "ends" in done.output
    done = cep("detect", *over, "--plan", "plan.json", "--show", "0", "--lines", "--out", "again.csv", folder=tmp_path)
    assert done.code == 0, done.errors
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "found.csv").read_text()
    done = cep("explain", "--analyze", *over, folder=tmp_path)
    assert done.code == 0, done.errors
    assert done.output.count("ends") == 2
    done = cep("plan", "--compare", *over, folder=tmp_path)
    assert "pattern last on fused, costs by" in done.output
