from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_files import UNBOUNDED, RawFile, SourceFile, fingerprint_file
from cep_pipeline.storage import digest_of
from cep_pipeline.warehouse.records import NO_CARRY, EventsFingerprint, MatchesFingerprint, StaleDay
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.published_days import (
    MONDAY,
    SCHEMA_DIGEST,
    TUESDAY,
    WEDNESDAY,
    Trades,
    fingerprint_of,
    publish_day,
    publish_events,
    publish_match_files,
    publish_matches,
    publish_quarantine,
    write_events,
)

DAYS = (MONDAY, TUESDAY, WEDNESDAY)


def stale(tables: StreamTables, **now: object) -> list[tuple[date, str]]:
    return [(entry.day, entry.step) for entry in tables.stale_days(**now)]  # type: ignore[arg-type]


def test_days_published_in_order_are_not_stale(tables: StreamTables) -> None:
    for price, day in enumerate(DAYS):
        publish_day(tables, day, [float(price)])
    assert stale(tables, schema=SCHEMA_DIGEST) == []


def test_an_identical_rerun_makes_nothing_stale(tables: StreamTables) -> None:
    for price, day in enumerate(DAYS):
        publish_day(tables, day, [float(price)])
        publish_matches(tables, day, ["a"], look_back=1)
    before = [entry.fingerprint for entry in tables.days()]
    for price, day in enumerate(DAYS):
        publish_day(tables, day, [float(price)], run_id="again")
        assert stale(tables, pattern_sets={"demo": "v1"}) == []
    assert [entry.fingerprint for entry in tables.days()] == before


def test_changed_raw_files_make_their_day_stale(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    publish_day(tables, TUESDAY, [2.0])
    recorded = {entry.day: entry.fingerprint.raw_files for entry in tables.days()}
    assert stale(tables, raw_files=recorded) == []
    changed = RawFile(f"{MONDAY}.csv", 2, "other")
    (entry,) = tables.stale_days(raw_files={**recorded, MONDAY: (changed,)})
    assert entry == StaleDay(MONDAY, None, (f"raw file {MONDAY}.csv has changed",))
    (entry,) = tables.stale_days(raw_files={MONDAY: ()})
    assert entry.reasons == (f"raw file {MONDAY}.csv is gone",)
    (entry,) = tables.stale_days(raw_files={TUESDAY: (*recorded[TUESDAY], RawFile("late.csv", 1, "x"))})
    assert (entry.day, entry.reasons) == (TUESDAY, ("raw file late.csv is new",))


def test_the_order_of_raw_files_does_not_matter() -> None:
    files = (RawFile("a.csv", 1, "x"), RawFile("b.csv", 1, "y"))
    assert EventsFingerprint(files, "s").digest == EventsFingerprint(files[::-1], "s").digest


def test_a_changed_schema_makes_all_days_stale(tables: StreamTables) -> None:
    for day in DAYS:
        publish_day(tables, day, [1.0])
    entries = tables.stale_days(schema=digest_of("new"))
    assert [entry.day for entry in entries] == list(DAYS)
    assert {entry.reasons for entry in entries} == {("the stream schema has changed",)}


def test_a_changed_carry_out_makes_the_next_day_stale_and_an_unchanged_one_stops_the_cascade(
    tables: StreamTables,
) -> None:
    for day in DAYS:
        publish_day(tables, day, [1.0, 5.0])
    publish_day(tables, MONDAY, [9.0, 6.0])  # other raw file, and another last price
    assert stale(tables) == [(TUESDAY, "ingest")]
    publish_day(tables, TUESDAY, [1.0, 5.0])  # redone with the new carry-in; its last price is as before
    assert stale(tables) == []
    publish_day(tables, MONDAY, [0.0, 0.0, 6.0])  # another raw file, but the same last price
    assert stale(tables) == []


def test_a_late_day_in_between_makes_only_its_successor_stale(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    publish_day(tables, WEDNESDAY, [3.0])
    assert stale(tables) == []
    publish_day(tables, TUESDAY, [2.0])
    assert stale(tables) == [(WEDNESDAY, "ingest")]


def test_an_earlier_day_without_carry_out_makes_nothing_stale(tables: StreamTables) -> None:
    publish_day(tables, TUESDAY, [2.0])
    publish_day(tables, MONDAY, [1.0], carry_out={})
    assert stale(tables) == []


def test_an_empty_day_passes_its_carry_in_on(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    publish_day(tables, WEDNESDAY, [3.0])
    publish_day(tables, TUESDAY, [])
    assert tables.carry_in(WEDNESDAY) == {"last": 1.0}
    assert stale(tables) == []


@pytest.mark.long
@pytest.mark.parametrize("order", list(itertools.permutations(DAYS)), ids=str)
def test_out_of_order_days_end_equal_after_redoing_the_stale_ones(tmp_path: Path, order: Sequence[date]) -> None:
    """Each day's one price is the carry-in plus its own; redone until nothing is stale, the order leaves no trace."""
    tables = Warehouse.open(tmp_path).stream(Trades())

    def run(day: date) -> None:
        price = tables.carry_in(day).get("last", 0.0) + day.day
        with tables.day_lease(day, run_id="run") as lease:
            fingerprint = fingerprint_of(tables, day, day.day)
            files = write_events(tables, day, [price], run_id="run")
            publish_events(tables, day, files, lease=lease, fingerprint=fingerprint, carry_out={"last": price})

    for day in order:
        run(day)
    redone = 0
    while entries := tables.stale_days():
        run(entries[0].day)
        redone += 1
        assert redone <= 3
    assert tables.read_events().column("price").to_pylist() == [7.0, 15.0, 24.0]


def test_new_events_make_the_matches_of_the_day_stale(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    publish_matches(tables, MONDAY, ["a"])
    publish_day(tables, MONDAY, [2.0])
    (entry,) = tables.stale_days(pattern_sets={"demo": "v1"})
    assert entry == StaleDay(MONDAY, "demo", ("the events of 2013-10-07 have changed",))
    assert entry.step == "detect"
    publish_matches(tables, MONDAY, ["a"])
    assert stale(tables, pattern_sets={"demo": "v1"}) == []


def test_matches_depend_on_the_days_that_detection_looked_back_to(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0], carry_out={})
    publish_day(tables, WEDNESDAY, [3.0], carry_out={})
    for pattern_set, look_back in (("short", 0), ("long", 2)):
        for day in (MONDAY, WEDNESDAY):
            publish_matches(tables, day, ["a"], pattern_set=pattern_set, look_back=look_back)
    both = {"short": "v1", "long": "v1"}
    assert stale(tables, pattern_sets=both) == []
    publish_day(tables, MONDAY, [2.0], carry_out={})
    assert {(e.day, e.pattern_set) for e in tables.stale_days(pattern_sets=both)} == {
        (MONDAY, "short"),
        (MONDAY, "long"),
        (WEDNESDAY, "long"),
    }
    for pattern_set, look_back in (("short", 0), ("long", 2)):
        for day in (MONDAY, WEDNESDAY):
            publish_matches(tables, day, ["a"], pattern_set=pattern_set, look_back=look_back)
    # A day that comes late, inside what the look-back covers, changes what detection would have seen.
    publish_day(tables, TUESDAY, [2.0], carry_out={})
    assert {(e.day, e.pattern_set) for e in tables.stale_days(pattern_sets=both)} == {
        (TUESDAY, "short"),
        (TUESDAY, "long"),
        (WEDNESDAY, "long"),
    }


def test_a_look_back_to_the_beginning_depends_on_every_earlier_day(tables: StreamTables) -> None:
    publish_day(tables, WEDNESDAY, [3.0], carry_out={})
    with tables.day_lease(WEDNESDAY, run_id="run") as lease:
        fingerprint = tables.pin_events().matches_fingerprint("v1", None, WEDNESDAY, carry_in=NO_CARRY)
        publish_match_files(tables, "demo", WEDNESDAY, [], lease=lease, fingerprint=fingerprint)
    assert stale(tables, pattern_sets={"demo": "v1"}) == []
    long_before = MONDAY - timedelta(days=400)
    publish_day(tables, long_before, [1.0], carry_out={})
    assert stale(tables, pattern_sets={"demo": "v1"}) == [(long_before, "detect"), (WEDNESDAY, "detect")]


def test_a_changed_pattern_set_makes_its_matches_stale(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    publish_matches(tables, MONDAY, ["a"])
    (entry,) = tables.stale_days(pattern_sets={"demo": "v2"})
    assert entry.reasons == ("the pattern set has changed",)
    (entry,) = tables.stale_days(pattern_sets={"demo": "v1", "new": "v1"})
    assert (entry.pattern_set, entry.reasons) == ("new", ("its matches have not been detected yet",))


def test_carry_state_of_matches_cascades_within_its_pattern_set(tables: StreamTables) -> None:
    for day in DAYS:
        publish_day(tables, day, [1.0])
        publish_matches(tables, day, ["a"], carry_out={"last_match": 1})
    assert tables.matches_carry_in("demo", WEDNESDAY) == {"last_match": 1}
    assert tables.matches_carry_in("demo", MONDAY) == tables.matches_carry_in("other", WEDNESDAY) == {}
    publish_matches(tables, MONDAY, ["b"], carry_out={"last_match": 2})
    (entry,) = tables.stale_days(pattern_sets={"demo": "v1"})
    assert (entry.day, entry.reasons) == (TUESDAY, ("the carry state from the day before has changed",))
    publish_matches(tables, TUESDAY, ["a"], carry_out={"last_match": 1})
    assert stale(tables, pattern_sets={"demo": "v1"}) == []


def test_rejected_rows_of_a_run_that_died_before_its_events_show_as_stale(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    with tables.day_lease(MONDAY, run_id="dies") as lease:
        publish_quarantine(tables, MONDAY, [], lease=lease, fingerprint=fingerprint_of(tables, MONDAY, "new file"))
    (entry,) = tables.stale_days()
    assert entry.reasons == ("its rejected rows are of a run that did not publish its events",)


def test_fingerprints_survive_json_and_pickle() -> None:
    events = EventsFingerprint((RawFile("b", 1, "x"), RawFile("a", 2, "y")), "schema")
    assert EventsFingerprint.from_json(events.to_json()) == events
    matches = MatchesFingerprint("v1", MONDAY, {TUESDAY: "t", MONDAY: "m"})
    assert MatchesFingerprint.from_json(matches.to_json()) == matches
    assert pickle.loads(pickle.dumps(matches)) == matches
    assert MatchesFingerprint("v1", None, {}).digest != MatchesFingerprint("v1", MONDAY, {}).digest


def described_file(path: Path) -> RawFile:
    return fingerprint_file(SourceFile(path.name, str(path), 0, UNBOUNDED))


def test_a_raw_file_is_described_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * 3_000_000)
    described = described_file(path)
    assert (described.name, described.size) == ("a.csv", 3_000_000)
    path.write_bytes(b"x" * 2_999_999 + b"y")
    assert described_file(path) != described
    with pytest.raises(InputError, match=r"nothing\.csv: the raw file cannot be read"):
        described_file(tmp_path / "nothing.csv")


def test_fingerprints_of_published_days_keep_their_values() -> None:
    events = EventsFingerprint((RawFile("a.csv", 3, "00" * 32),), "schema")
    assert (NO_CARRY, events.digest) == ("44136fa355b3678a1146ad16f7e8649e", "2f5384dab7306535eae331166360110c")
    matches = MatchesFingerprint("v1", MONDAY, {MONDAY: events.digest})
    assert matches.digest == "e438554d145175c993d75d2832ae7553"
    assert MatchesFingerprint("v1", None, {}, end_of_stream=True).digest == "17baeb28e6dc9cff52fd89346b58d858"


@pytest.mark.long
def test_the_same_events_from_other_inputs_make_nothing_after_them_stale(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0, 2.0])
    publish_day(tables, TUESDAY, [3.0], carry_out={})
    publish_matches(tables, MONDAY, ["a"])
    publish_matches(tables, TUESDAY, ["b"], look_back=1)
    digest = tables.pin_events().digests(MONDAY, MONDAY)

    def again(prices: list[float], content: str) -> None:
        with tables.day_lease(MONDAY, run_id="again") as lease:
            fingerprint = fingerprint_of(tables, MONDAY, content)
            files = write_events(tables, MONDAY, prices, run_id="again")
            publish_quarantine(tables, MONDAY, [], lease=lease, fingerprint=fingerprint)
            publish_events(tables, MONDAY, files, lease=lease, fingerprint=fingerprint, carry_out={"last": 2.0})

    for content in ("compressed anew", "and once more", "and once more"):
        again([1.0, 2.0], content)
        assert tables.days()[0].fingerprint == fingerprint_of(tables, MONDAY, content)
        assert tables.pin_events().digests(MONDAY, MONDAY) == digest
        assert tables.stale_days(pattern_sets={"demo": "v1"}) == []
    again([1.0, 2.5], "one event has changed")
    assert {entry.day for entry in tables.stale_days(pattern_sets={"demo": "v1"})} == {MONDAY, TUESDAY}
    again([1.0, 2.0], "and is as before")
    assert (
        len(tables.stale_days(pattern_sets={"demo": "v1"})) == 2
    )  # made from other events in between, for all we know
