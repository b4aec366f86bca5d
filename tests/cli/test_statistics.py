"""`cep statistics`: of a published stream and of files, as tables, as JSON, as a chart."""

from __future__ import annotations

import json

import pytest

from cep_pipeline.cli.statistics import StatisticsView, sparkline
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.statistics import Labelled, StatisticsHistory, StatisticsOverview
from cep_pipeline.statistics import StatisticsSnapshot, WindowedStatistics
from cep_pipeline.statistics.drift import numbers_of
from cep_pipeline.statistics.snapshot import LeafRate, Source
from tests.cli.command_line import cep
from tests.pipeline.project import DAYS, Project

NEW_YORK = "America/New_York"
FILES = ("--patterns", "all.sase", "--schema", "ticks.yaml", "--events", "raw/2024-03-04.csv")


@pytest.mark.long
def test_the_business_day_is_shown_with_its_bounds_and_its_drift(project: Project) -> None:
    done = cep("statistics", "--day", "2024-03-05", folder=project.folder)
    assert done.code == 0, done.errors
    assert done.output.startswith("stream ticks, business day 2024-03-05: ")
    assert "America/New_York" in done.output.splitlines()[0]
    for shown in ("events/s", "95% interval", "worst window", "over time", "since 2024-03-04", "since plan 1"):
        assert shown in done.output, shown
    assert "Tick where x.diff > 1" in done.output
    latest = cep("statistics", folder=project.folder)
    assert "business day 2024-03-06: " in latest.output and "since 2024-03-05" in latest.output
    first = cep("statistics", "--day", "2024-03-04", folder=project.folder)
    assert "since plan 1" in first.output and "since 2024" not in first.output


def test_json_has_the_snapshot_its_windows_and_its_drift(project: Project) -> None:
    done = cep("statistics", "--day", "2024-03-05", "--json", folder=project.folder)
    content = json.loads(done.output)
    assert content["snapshot"] == project.tables().read_statistics("all", DAYS[1])
    assert content["label"] == "business day 2024-03-05"
    (record,) = project.tables().statistics("all", DAYS[1], DAYS[1])
    assert record.state is not None, "windows are shown from the state"
    state = WindowedStatistics.from_json(json.loads(record.state))
    assert content["windows"] == [window.to_json() for window in state.windows(*day_bounds(DAYS[1], NEW_YORK), 48)]
    assert len(content["windows"]) > 1
    monday = {r["leaf"]: r["per_s"] for r in project.tables().read_statistics("all", DAYS[0])["rates"]}  # type: ignore[index]
    tuesday = {r["leaf"]: r["per_s"] for r in content["snapshot"]["rates"]}
    since = {entry["key"]: entry for entry in content["drift"] if entry["since"] == "2024-03-04"}
    for leaf, rate in tuesday.items():
        assert (since[leaf]["before"], since[leaf]["now"]) == (monday[leaf], rate)
        if monday[leaf]:
            assert since[leaf]["factor"] == pytest.approx(rate / monday[leaf])


def test_a_page_reads_as_many_days_and_windows_as_its_bound_allows(project: Project) -> None:
    stream = Configuration.load(project.folder / "pipeline.yaml").stream("ticks")
    history = StatisticsHistory(project.tables(), stream, stream.pattern_set("all"))
    whole = history.of_latest_days(42, 1_000_000)
    assert len(whole.days) == 3 and len(whole.windows) > 3
    numbers = len(numbers_of(whole.shown.snapshot))
    for most, of, days in ((42, 3 * numbers, 3), (2, 3 * numbers, 2), (42, 2 * numbers + 1, 2), (42, 1, 1)):
        bounded = history.of_latest_days(most, of)
        assert (bounded.days, bounded.windows) == (whole.days[-days:], ())
        assert (bounded.shown, bounded.compared) == (whole.shown, whole.compared)


def test_the_numbers_that_move_most_are_those_that_surely_move_by_the_largest_factor() -> None:
    def snapshot(day: int, rates: dict[str, float], unsure: float) -> Labelled:
        known = [LeafRate(leaf, rate, None, Source.COUNT, rate, rate) for leaf, rate in rates.items()]
        unclear = LeafRate("unclear", unsure, None, Source.COUNT, 0.0, 100.0)
        return Labelled(str(day), StatisticsSnapshot(rates=(*known, unclear), as_of_us=day, start_us=0, end_us=day))

    days = (snapshot(1, {"A": 1.0, "B": 1.0, "C": 5.0}, 1.0), snapshot(2, {"A": 1.1, "B": 4.0, "C": 2.0}, 90.0))
    view = StatisticsView(StatisticsOverview(days[1], "UTC", days=days))
    titles = [panel.title for panel in view.moving_panels(2)[0]]
    assert titles == ["B, events/s", "C, events/s"]
    assert view.moving_panels(9)[1] == 4


def test_statistics_of_files(project: Project) -> None:
    whole = cep("statistics", *FILES, "--json", folder=project.folder)
    assert whole.code == 0, whole.errors
    assert json.loads(whole.output)["snapshot"]["kind"] == "business day"
    short = cep("statistics", *FILES, "--window", "20 minutes", "--json", folder=project.folder)
    assert json.loads(short.output)["snapshot"]["window_us"] == 1_200_000_000
    half = cep("statistics", "--patterns", "all.sase", folder=project.folder)
    assert half.code == 2 and "--patterns, --schema and --events belong together" in half.error


def test_only_what_matches_is_shown(project: Project) -> None:
    done = cep("statistics", "--match", "Tick where", folder=project.folder)
    assert "Tick where x.diff > 1" in done.output and "within 1 h" not in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--day", "2024-03-09"), "no statistics of 2024-03-09"),
        ((*FILES, "--window", "an hour"), "is no length of time"),
        (("--window", "1 hour"), "that of `statistics:` in pipeline.yaml"),
        (("--match", "Nothing"), "no leaf and no condition has this text in it"),
        ((*FILES, "--day", "2024-03-04"), "leave it out with --events"),
    ],
)
def test_what_cannot_be_shown_is_refused(project: Project, arguments: tuple[str, ...], words: str) -> None:
    done = cep("statistics", *arguments, folder=project.folder)
    assert done.code == 2
    assert words in done.error


def test_statistics_that_are_of_other_events_are_told(project: Project) -> None:
    configuration = (project.folder / "pipeline.yaml").read_text()
    (project.folder / "pipeline.yaml").write_text(f"{configuration}statistics: {{window: 20 minutes}}\n")
    done = cep("statistics", "--day", "2024-03-05", folder=project.folder)
    assert done.code == 0
    assert "they were made with window 1 hour, and 20 minutes is configured now" in done.errors
    assert "cep run --stream ticks --steps statistics --redo --day 2024-03-05" in done.errors


def test_the_drift_since_the_plan_is_shown_after_its_statistics_were_made_again(project: Project) -> None:
    configuration = (project.folder / "pipeline.yaml").read_text()
    (project.folder / "pipeline.yaml").write_text(f"{configuration}statistics: {{window: 20 minutes}}\n")
    project.run(steps=frozenset({"statistics"}), redo=True).run_days(DAYS)
    done = cep("statistics", "--day", "2024-03-05", folder=project.folder)
    assert done.code == 0, done.errors
    assert "since plan 1" in done.output
    assert "no longer there" not in done.errors


def test_a_sparkline_is_as_long_as_there_is_room() -> None:
    assert sparkline([]) == ""
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([None, 5.0, None]) == " █ "
    assert len(sparkline([float(n) for n in range(1000)])) <= 24
