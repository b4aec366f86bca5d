"""The signals of a day: the band of match counts, metrics and alerts, by what a run has recorded."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_pipeline.detection.limits import LimitedPattern
from cep_pipeline.errors import InputError
from cep_pipeline.pipeline import signals
from cep_pipeline.pipeline.signals import DayReport, unusual_matches, usual_band
from cep_pipeline.warehouse.records import MatchesFingerprint, PublishedMatches
from tests.pipeline.project import DAYS, Project

DAY = date(2024, 3, 30)
COUNTS = st.lists(st.integers(0, 10**9), min_size=7, max_size=28)


@given(COUNTS)
def test_the_band_holds_the_median_and_does_not_depend_on_the_order(counts: list[int]) -> None:
    band = usual_band(counts)
    assert band is not None
    least, most = band
    assert band == usual_band(sorted(counts))
    assert 0 <= least <= sorted(counts)[len(counts) // 2] + 1
    assert most >= sorted(counts)[(len(counts) - 1) // 2]


@given(COUNTS, st.integers(10**6, 10**12))
def test_one_unusual_day_does_not_move_the_band_far(counts: list[int], outlier: int) -> None:
    """The band of steady counts stays between bands of the counts, however large one day among them was."""
    steady = [1_000 + count % 11 for count in counts]
    band = usual_band([*steady, outlier])
    assert band is not None and 700 < band[0] < 1_000 < band[1] < 1_300


def test_there_is_no_band_where_few_days_are_known() -> None:
    assert usual_band([5] * 6) is None
    assert usual_band([5] * 7) is not None


def published(day: date, version: str = "v1", **counts: int) -> PublishedMatches:
    fingerprint = MatchesFingerprint(version, day)
    return PublishedMatches("market", day, sum(counts.values()), fingerprint, "", counts, "run", datetime.now(UTC), 1)


def work(units: list[PublishedMatches], told: list[str], **matches: int) -> Any:
    detected = SimpleNamespace(matches=matches, fingerprint=MatchesFingerprint("v1", DAY), limited={})
    return SimpleNamespace(
        day=DAY,
        detected={"market": detected},
        tables=SimpleNamespace(matches_days=lambda: units),
        observer=SimpleNamespace(note=told.append),
    )


def test_an_unusual_number_of_matches_is_found_and_told() -> None:
    told: list[str] = []
    before = [published(DAY - timedelta(days=n), rise=1_000 + n, fall=0) for n in range(1, 20)]
    # Days after, and days by other patterns, are not what the day is compared with.
    others = [published(DAY + timedelta(days=n), rise=9_000, fall=9_000) for n in range(1, 30)]
    others += [published(DAY - timedelta(days=n), "v0", rise=9_000, fall=9_000) for n in range(20, 60)]
    assert unusual_matches(work([*others, *before], told, rise=1_020, fall=3, new=10**6)) == {}
    assert told == []
    found = unusual_matches(work([*others, *before], told, rise=9_000, fall=7, new=10**6))
    assert found == {
        "market.rise": {"matches": 9_000, "least": 820, "most": 1_200},
        "market.fall": {"matches": 7, "least": 0, "most": 6},
    }
    assert told[1] == "2024-03-30: market.fall has 7 matches; 0 to 6 are usual"
    assert unusual_matches(work(before[:6], told, rise=9_000)) == {}


def test_days_on_which_a_pattern_was_limited_say_nothing_of_it() -> None:
    stopped = {"rise": LimitedPattern("max_matches 500", "count", 501)}
    before = [published(DAY - timedelta(days=n), rise=1_000, fall=50) for n in range(1, 9)]
    limited = [replace(published(DAY - timedelta(days=n), rise=0, fall=50), limited=stopped) for n in range(9, 29)]
    assert unusual_matches(work(before + limited, [], rise=1_000, fall=50)) == {}
    assert "market.rise" in unusual_matches(work(before + limited, [], rise=0, fall=50))
    today = work(before, [], rise=0, fall=5_000)
    today.detected["market"].limited = stopped
    assert set(unusual_matches(today)) == {"market.fall"}


def test_only_the_latest_days_make_the_band() -> None:
    old = [published(DAY - timedelta(days=n), rise=50) for n in range(29, 80)]
    new = [published(DAY - timedelta(days=n), rise=5_000) for n in range(1, 29)]
    assert unusual_matches(work(old + new, [], rise=5_000)) == {}
    assert "market.rise" in unusual_matches(work(old + new, [], rise=50))


@pytest.mark.long
def test_a_run_records_what_is_unusual_and_reports_all_of_a_day(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project.folder / "pipeline.yaml"
    days = [*DAYS, *(DAYS[-1] + timedelta(days=n) for n in (1, 2))]
    monkeypatch.setattr(signals, "LEAST_BAND_DAYS", 3)
    monkeypatch.setattr(signals, "BAND_WIDTH", 1.0)
    for day, rows in zip(days, (6, 6, 6, 6, 60), strict=True):
        project.write_day(day, [f"{n // 60:02}:{n % 60:02}:00,{'AB'[n % 2]},{n}" for n in range(rows)])
    run = project.run()
    run.run_days(days)
    *usual, last = (DayReport.read(file, "ticks", day, run.run_id) for day in days)
    assert [report.run.details.get("unusual") for report in usual] == [None] * 4
    assert {"all.rising", "all.pairs"} <= set(last.run.details["unusual"])
    assert [sentence.split(" matches;")[0] for sentence in last.alerts()] == [
        f"ticks {days[-1]}: {name} has {last.run.matches[name]:,}" for name in last.run.details["unusual"]
    ]
    assert usual[-1].alerts() == []
    tasks = usual[0].alerts(late_hours=1e-9)
    assert len(tasks) == 1 and "the run took 0.0 hours, more than 1e-09" in tasks[0]

    values = {(metric.name, *metric.labels.values()): metric.value for metric in last.metrics()}
    assert values["events", "ticks"] == 60 and values["rejected", "ticks"] == 0
    assert values["unusual", "ticks"] == len(last.run.details["unusual"]) and values["limited", "ticks"] == 0
    for name, number in last.run.matches.items():
        assert values["matches", "ticks", *name.split(".")] == number
    assert {labels[1] for kind, *labels in values if kind == "step"} == {step.name for step in last.run.steps}
    assert last.run.finished_at is not None
    midnight = datetime(2024, 3, 9, 5, tzinfo=UTC)  # of New York
    assert last.over == midnight
    assert values["lateness", "ticks"] == (last.run.finished_at - midnight).total_seconds() > 0
    limited = replace(last, run=replace(last.run, details={"limited": {"all.rising": "limited to 5 matches"}}))
    assert limited.alerts() == [f"ticks {days[-1]}: pattern all.rising was limited to 5 matches"]
    with pytest.raises(InputError, match="has recorded nothing"):
        DayReport.read(file, "ticks", days[0], "another run")
