"""`import cep_pipeline as cep`: the names that it offers, when they are loaded, and how they show themselves."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

import cep_pipeline as cep

EXPECTED = [
    "AdaptationReport",
    "AdaptiveDetection",
    "BusyError",
    "COSTS",
    "CepError",
    "ClausePlan",
    "DECISION_FUNCTIONS",
    "DataError",
    "DataWarning",
    "Explanation",
    "InputError",
    "MECHANISMS",
    "Matches",
    "Metrics",
    "NodeCounts",
    "PLANNERS",
    "Pattern",
    "PatternError",
    "PatternPlan",
    "PatternWarning",
    "Plan",
    "PlanError",
    "PublishedDiff",
    "PublishedStream",
    "PublishedWarehouse",
    "RuleCheck",
    "ScannedDistance",
    "StatisticsSnapshot",
    "StreamSchema",
    "TooManyMatches",
    "UnsupportedPattern",
    "WhyNot",
    "__version__",
    "decision_function",
    "detect",
    "detect_adaptively",
    "detect_batches",
    "estimate_statistics",
    "expand",
    "format_pattern",
    "open",
    "parse_patterns",
    "plan",
    "read",
    "scan_distance",
    "why",
    "why_not",
]
"""The public names: removing one breaks the programs of users."""


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_dir_lists_the_public_names_and_nothing_else() -> None:
    assert dir(cep) == sorted(EXPECTED)


def test_a_star_import_gives_the_same_names() -> None:
    names: dict[str, Any] = {}
    exec("from cep_pipeline import *", names)
    assert set(names) - {"__builtins__"} == set(EXPECTED)


@pytest.mark.parametrize("name", [name for name in EXPECTED if name != "__version__"])
def test_each_name_is_documented(name: str) -> None:
    found = getattr(cep, name)
    if callable(found):
        assert inspect.getdoc(found), name
        assert found.__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'detekt'"):
        cep.detekt  # noqa: B018
    assert not hasattr(cep, "__wrapped__")


def test_importing_the_package_loads_none_of_its_parts() -> None:
    code = "import sys, cep_pipeline; print(*sorted(name for name in sys.modules))"
    loaded = run_python(code).split()
    assert [name for name in loaded if name.startswith("cep_pipeline.")] == [
        "cep_pipeline.errors",
        "cep_pipeline.foreign_text",
        "cep_pipeline.lazy_names",
    ]
    heavy = {"numpy", "pyarrow", "numba", "llvmlite", "pandas", "pyspark", "pyiceberg", "pydantic", "click", "ast"}
    assert heavy & set(loaded) == set()


def test_parsing_patterns_loads_no_detection_and_no_planning() -> None:
    code = "import sys, cep_pipeline as cep; cep.parse_patterns; cep.Pattern; dir(cep); print(*sys.modules)"
    loaded = run_python(code).split()
    assert "cep_pipeline.language.parser" in loaded
    parts = ("cep_pipeline.detection", "cep_pipeline.planning", "cep_pipeline.statistics", "cep_pipeline.adaptation")
    assert [name for name in loaded if name.startswith((*parts, "numba", "llvmlite"))] == []


def made() -> dict[str, Any]:
    """One of each type that users get back."""
    attributes = {"kind": "string", "x": "int64"}
    schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": attributes}, name="letters")
    kinds = "AAAB" * 30
    events = schema.table([{"timestamp": at * 100_000, "kind": kind, "x": at} for at, kind in enumerate(kinds)])
    text = ";\n".join(
        f"NAME rise_{number} PATTERN SEQ(A a, NOT(B n), A+ c[]) WHERE a.x < c[].x WITHIN 300 ms" for number in range(6)
    )
    patterns = cep.parse_patterns(text, schema)
    snapshot = cep.estimate_statistics(patterns, events)
    plan = cep.plan(patterns, snapshot)
    _, metrics = cep.detect(patterns, events, plan, metrics=True)
    _, report = cep.detect_adaptively(patterns, events)
    loop = cep.AdaptiveDetection(planner="greedy", every_events=50)
    tree = cep.plan(patterns, snapshot, planner="dp_bushy").patterns[0]
    return {
        "StreamSchema": schema,
        "Pattern": patterns[0],
        "StatisticsSnapshot": snapshot,
        "Plan": plan,
        "PatternPlan": tree,
        "ClausePlan": tree.clauses[0],
        "Metrics": metrics,
        "AdaptationReport": report,
        "AdaptiveDetection": loop,
        "Explanation": cep.why(patterns[0], events, {"a": 1, "c": 0}),
        "WhyNot": cep.why_not(patterns[0], events, near=0),
        "ScannedDistance": cep.scan_distance(loop, patterns, lambda: events, candidates=(0.0, 0.5)),
    }


TYPES = [
    "AdaptationReport",
    "AdaptiveDetection",
    "ClausePlan",
    "Explanation",
    "Metrics",
    "Pattern",
    "PatternPlan",
    "Plan",
    "ScannedDistance",
    "StatisticsSnapshot",
    "StreamSchema",
    "WhyNot",
]


@pytest.fixture(scope="module")
def one_of_each() -> dict[str, Any]:
    return made()


@pytest.mark.parametrize("name", TYPES)
def test_each_type_shows_itself_in_one_line(one_of_each: dict[str, Any], name: str) -> None:
    text = repr(one_of_each[name])
    assert isinstance(one_of_each[name], getattr(cep, name))
    assert text.startswith(f"<{name} ") and text.endswith(">")
    assert "\n" not in text and len(text) <= 160


def test_what_they_say_of_themselves(one_of_each: dict[str, Any]) -> None:
    shown = {name: repr(value) for name, value in one_of_each.items()}
    assert shown["Pattern"] == "<Pattern rise_0: SEQ(A a, ~B n, A+ c[]) within 300 ms>"
    assert shown["StreamSchema"] == "<StreamSchema letters: kind: string, x: int64>"
    assert shown["PatternPlan"] == f"<PatternPlan rise_0 by dp_bushy: {one_of_each['ClausePlan'].tree}>"
    assert shown["Plan"].endswith(" by dp_left_deep, 6 patterns: rise_0, rise_1, rise_2, rise_3 and 2 more>")
    assert repr(one_of_each["Plan"].part(["rise_1"])).endswith(", 1 pattern: rise_1>")
    assert shown["StatisticsSnapshot"].startswith("<StatisticsSnapshot of letters, span: 120 events, ")
    assert shown["AdaptationReport"].startswith("<AdaptationReport of 120 events: ")
    assert shown["AdaptiveDetection"] == "<AdaptiveDetection by greedy, InvariantBased, a decision every 50 events>"
    assert shown["Explanation"] == "<Explanation rise_0: no match, 2 of 4 rules fail>"
    assert shown["WhyNot"] == "<WhyNot rise_0: 149 matches in 120 events>"
    by_time = replace(one_of_each["AdaptiveDetection"], every_events=None, every="10 minutes")
    assert repr(by_time).endswith("a decision every 10 minutes>")
    assert shown["ScannedDistance"] == "<ScannedDistance 0, the best of 2 that were tried>"
