"""A pattern that reaches a limit on a slice is given up, whatever runs it; the others have all of their matches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, pairwise

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS, clause_runs, limits
from cep_pipeline.detection import detect as detecting
from cep_pipeline.detection.detect import SliceResult, count_slice, detect_slice
from cep_pipeline.detection.limits import Kind, Limits, SliceLimits, Spent
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.errors import NoRoom, TooManyMatches
from cep_pipeline.language.doubts import doubts_about
from cep_pipeline.statistics import estimate_statistics
from tests.streams import events_table, stream_schema

EVENTS = events_table(
    [{"timestamp": second * 1_000_000, "seq": second, "kind": "AABC"[second % 4]} for second in range(240)]
)
GOOD = "NAME good PATTERN SEQ(A a, B b) WITHIN 4 seconds"
MANY = "NAME many PATTERN SEQ(A a, B b, C c) WITHIN 1 hour"
LISTS = "NAME lists PATTERN SEQ(A a, B+ b[], C c) WITHIN 1 hour"
OTHER = "NAME other PATTERN SEQ(A a, B b, C c) WITHIN 9 seconds"
SHARING = ["multi_pattern_nfa", "multitree"]


def detected(
    text: str, mechanism: str, given: dict[str, Limits], *, alone: bool = False
) -> tuple[SliceResult, dict[str, list[str]]]:
    """The result of a slice of all events, and the ids of the matches that were handed on, by pattern."""
    patterns = cep.parse_patterns(text, stream_schema())
    chosen = dict.fromkeys((pattern.name for pattern in patterns), mechanism)
    sharing = {"steps": 50} if mechanism in SHARING and not alone else {}
    planner = "simulated_annealing" if sharing else "trivial"
    plan = plan_for(patterns, estimate_statistics(patterns, EVENTS), chosen, planner, compare=False, **sharing)
    found: dict[str, list[str]] = {pattern.name: [] for pattern in patterns}

    def sink(pattern: cep.Pattern, batch: pa.RecordBatch) -> None:
        found[pattern.name] += batch["match_id"].to_pylist()

    result = detect_slice(
        patterns, plan, EVENTS, (None, None), sink, mechanism, limits=SliceLimits(given) if given else None
    )
    return result, found


@pytest.mark.parametrize("mechanism", list(MECHANISMS))
def test_every_mechanism_gives_up_a_pattern_with_too_many_matches(mechanism: str) -> None:
    text = f"{GOOD}; {MANY}; {OTHER}"
    free, expected = detected(text, mechanism, {})
    assert free.matches["many"] > 10_000 > free.matches["good"] > 100
    result, found = detected(text, mechanism, dict.fromkeys(expected, Limits(max_matches=free.matches["many"] - 1)))
    assert result.limited == {"many": "max_matches"}
    assert (found["good"], found["other"]) == (expected["good"], expected["other"])
    at_the_limit, found = detected(text, mechanism, dict.fromkeys(expected, Limits(max_matches=free.matches["many"])))
    assert at_the_limit.limited == {}
    assert found == expected


@pytest.mark.parametrize("mechanism", list(MECHANISMS))
@pytest.mark.parametrize("condition", ["TRUE", "c.timestamp > 2 * b.timestamp - a.timestamp"])
def test_the_limit_of_preferred_matches_is_of_those_that_are_kept(mechanism: str, condition: str) -> None:
    text = f"NAME many PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match {{ {condition} }} WITHIN 1 hour"
    free, _ = detected(f"{text} OUTPUT PREFERRED", mechanism, {})
    assert 110 < free.matches["many"] <= 120 < detected(text, mechanism, {})[0].matches["many"] / 100
    for limit, reached in ((free.matches["many"], {}), (free.matches["many"] - 1, {"many": "max_matches"})):
        given = {"many": Limits(max_matches=limit)}
        assert detected(f"{text} OUTPUT PREFERRED", mechanism, given)[0].limited == reached


@pytest.mark.parametrize("mechanism", list(MECHANISMS))
def test_lists_without_end_are_given_up_soon(mechanism: str) -> None:
    _, expected = detected(GOOD, mechanism, {})
    given = {"good": Limits(max_matches=1000), "lists": Limits(max_matches=1000)}
    result, found = detected(f"{LISTS}; {GOOD}", mechanism, given)  # of 2^60 matches
    assert result.limited == {"lists": "max_matches"}
    assert found["good"] == expected["good"]
    assert len(found["lists"]) <= 1000


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A clock that goes on by a second whenever somebody looks at it."""
    seconds = count()
    monkeypatch.setattr(limits.time, "monotonic", lambda: float(next(seconds)))
    yield


@pytest.mark.parametrize("mechanism", list(MECHANISMS))
def test_time_is_looked_at_before_each_call_of_a_kernel(mechanism: str, hasty: None) -> None:
    result, found = detected(f"{LISTS}; {GOOD}", mechanism, {"lists": Limits(time_s=1.0)})
    assert result.limited == {"lists": "time_limit"}
    assert result.matches["good"] == len(found["good"]) > 100


@pytest.mark.parametrize("mechanism", SHARING)
def test_patterns_that_share_a_plan_are_not_limited_by_one_another(mechanism: str, hasty: None) -> None:
    _, expected = detected(f"{OTHER}; {GOOD}", mechanism, {})
    given = dict.fromkeys(("lists", "other", "good"), Limits(time_s=30.0))
    result, found = detected(f"{LISTS}; {OTHER}; {GOOD}", mechanism, given)
    assert result.limited == {"lists": "time_limit"}
    assert (found["other"], found["good"]) == (expected["other"], expected["good"])


@pytest.mark.parametrize("mechanism", ["lazy_chain_nfa", "eager_nfa", "evaluation_tree", "nfab", *SHARING])
def test_a_pattern_that_memory_is_lacking_for_takes_no_other_with_it(mechanism: str) -> None:
    text = f"{GOOD}; NAME stored PATTERN SEQ(A a, A b, C c) WITHIN 1 hour"
    _, expected = detected(GOOD, mechanism, {})
    given = dict.fromkeys(("good", "stored"), Limits(max_matches=10**9))
    with limits.at_most(1 << 13):
        result, found = detected(text, mechanism, given, alone=True)
    assert result.limited == {"stored": "memory"}
    assert found["good"] == expected["good"]


def test_bytes_of_rows_are_limited_too() -> None:
    result, _ = detected(f"{GOOD}; {MANY}", "fused", dict.fromkeys(("good", "many"), Limits(max_bytes=100_000)))
    assert result.limited == {"many": "disk"}


@pytest.mark.parametrize(
    ("limits_", "spent", "kind"),
    [
        (Limits(), Spent(10**12, 10**12, 10**12), None),
        (Limits(max_matches=3), Spent(3), None),
        (Limits(max_matches=3), Spent(4), "max_matches"),
        (Limits(time_s=0.5), Spent(time_us=500_001), "time_limit"),
        (Limits(max_bytes=7), Spent(size=8), "disk"),
    ],
)
def test_a_limit_is_reached_by_one_more(limits_: Limits, spent: Spent, kind: Kind | None) -> None:
    assert spent.reached(limits_) == kind


@pytest.mark.parametrize("text", [MANY, LISTS, GOOD])
@pytest.mark.parametrize("points", [(0, 100, 240), (0, 240), (0, 1, 2, 239, 240)])
def test_slices_count_what_is_theirs(text: str, points: tuple[int, ...]) -> None:
    patterns = cep.parse_patterns(text, stream_schema())
    [pattern] = patterns
    expected = int(cep.detect(patterns, EVENTS, output="count")[pattern.name]["count"][0].as_py())
    chosen = {pattern.name: "fused"}
    plan = plan_for(patterns, estimate_statistics(patterns, EVENTS), chosen, "trivial", compare=False)
    total = 0
    for start, end in pairwise(points):
        owned = (start * 1_000_000, start), (end * 1_000_000, end)
        number, exact = count_slice(pattern, plan, EVENTS.slice(0, end), owned, seconds=1e9)
        assert exact
        total += number
    assert total == expected


def test_counting_that_takes_too_long_is_a_lower_bound(hasty: None) -> None:
    text = MANY.replace("WITHIN", "WHERE a.seq != b.seq AND b.seq != c.seq WITHIN")  # they have to be found
    patterns = cep.parse_patterns(text, stream_schema())
    plan = plan_for(patterns, estimate_statistics(patterns, EVENTS), {"many": "fused"}, "trivial", compare=False)
    assert count_slice(patterns[0], plan, EVENTS, (None, None), seconds=1.0) == (0, False)


def test_rows_that_there_is_no_memory_for_are_counted_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = cep.parse_patterns(f"{GOOD}; {LISTS}", stream_schema())
    number = int(cep.detect(patterns, EVENTS, output="count")["lists"]["count"][0].as_py())
    monkeypatch.setattr(clause_runs, "SMALL", 1 << 16)
    with (
        limits.at_most(1 << 20),
        pytest.raises(TooManyMatches, match=r"'lists' has [0-9,]+ matches, more than there is memory for") as raised,
    ):
        cep.detect(patterns, EVENTS)
    assert raised.value.count == number > 2**50
    assert all(advice in str(raised.value) for advice in ("--output count", "'compressed'", "WITHIN", "--limit"))
    assert cep.detect(patterns[:1], EVENTS)["good"].num_rows > 100


def test_lists_of_matches_that_there_is_no_memory_for_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the n-th of 60 matches there are 2**(60 - n) - 1 lists of further ones."""
    pairs = "NAME pairs PATTERN SEQ(A a, B b) WITHIN 1 second"
    patterns = cep.parse_patterns(f"{pairs}; NAME lists PATTERN SEQ(pairs p, pairs+ l[]) WITHIN 1 day", stream_schema())
    assert cep.detect(patterns[:1], EVENTS)["pairs"].num_rows == 60
    monkeypatch.setattr(clause_runs, "SMALL", 1 << 16)
    with limits.at_most(1 << 20), pytest.raises(TooManyMatches, match="'lists' has") as raised:
        cep.detect(patterns, EVENTS)
    assert raised.value.count == 2**60 - 61


def test_matches_of_one_event_that_there_is_no_memory_for_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"timestamp": second, "seq": second, "kind": "A" if second == 0 else "B"} for second in range(60)]
    events = events_table([*rows, {"timestamp": 60, "seq": 60, "kind": "C"}])
    patterns = cep.parse_patterns(LISTS, stream_schema())
    monkeypatch.setattr(clause_runs, "MATCHES_AT_ONCE", 1 << 12)
    monkeypatch.setattr(clause_runs, "SMALL", 1 << 16)
    with limits.at_most(1 << 18), pytest.raises(TooManyMatches) as raised:
        cep.detect(patterns, events)
    assert raised.value.count == 2**59 - 1
    plan = plan_for(patterns, estimate_statistics(patterns, events), {"lists": "fused"}, "trivial", compare=False)
    with limits.at_most(1 << 18):
        given = SliceLimits({"lists": Limits(max_matches=10**12)})
        result = detect_slice(patterns, plan, events, (None, None), lambda *_: None, limits=given)
    assert result.limited == {"lists": "memory"}


def test_what_python_has_no_memory_for_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise MemoryError("of 7 bytes")

    monkeypatch.setitem(detecting._TABLES, "verbose", fails)
    for limit in (None, 1000):
        with pytest.raises(NoRoom, match=r"not enough memory: of 7 bytes; .*--limit"):
            cep.detect(cep.parse_patterns(GOOD, stream_schema()), EVENTS, limit=limit)


def test_doubts_about_patterns_are_said_once() -> None:
    text = "NAME a PATTERN SEQ(A a, X x) WITHIN 1 day; NAME b PATTERN SEQ(A a, NOT Y y, B b) WITHIN 1 second"
    patterns = cep.parse_patterns(text, stream_schema())
    assert doubts_about(patterns, {"A", "B"}) == ["no event has the type X, asked for by a; there are: A, B"]
    misspelled = cep.parse_patterns("NAME c PATTERN SEQ(Apple a, Pare p, X x) WITHIN 1 second", stream_schema())
    assert doubts_about(misspelled, {"Apples", "Pear"}) == [
        "no event has the type Apple, Pare, X, asked for by c; there are: Apples, Pear; did you mean 'Apples'? for "
        "Apple; did you mean 'Pear'? for Pare"
    ]
    assert doubts_about(patterns, None) == doubts_about(patterns, {"A", "B", "X"}) == []
