"""The pattern files of the project: examples of the language, each with a comment that says what it asks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cep_pipeline as cep
from cep_pipeline.patterns.pattern import Pattern
from tests.cli.command_line import CHECKOUT
from tests.docs.pattern_pages import Answers

FILES = sorted((CHECKOUT / "patterns").glob("*.sase"))
CONSTRUCTS = {
    "a list": r"\+ \w+\[\]",
    "a negated event": r"~\w",
    "alternatives": r"\bOR\(",
    "an aggregate": r"\b(sum|avg)\(\w+\[",
    "an aggregate over a beginning": r"\[\.\.i-1\]",
    "a correlation": r"\bcorr\(",
    "a partition": r"^PARTITION BY",
    "a window of events": r"^WITHIN \d+ EVENTS",
    "matches that do not overlap": r"^OUTPUT NON_OVERLAP",
    "the next event that fits": r"skip_till_next_match",
    "neighbours in a partition": r"partition_contiguity",
    "ties": r"^TIES",
    "a number of events": r"\{\d,\d\} \w+\[\]",
    "an event that may be absent": r"\? \w",
    "several types": r"\(\w+ \| \w+\) \w",
    "a negated sequence": r"~SEQ\(",
    "a bound on a gap": r"BETWEEN \d+ ms",
    "a time of the day": r"\bTIME '",
    "aggregates over matches": r"^SUMMARIZE",
}


def parsed(file: Path) -> list[Pattern]:
    stream = file.stem.removesuffix("_episodes")
    schema = cep.StreamSchema.load(CHECKOUT / "streams" / f"{stream}.yaml")
    return cep.parse_patterns(file.read_text(encoding="utf-8"), schema, source=file.name)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_pattern_has_a_name_and_a_comment(file: Path) -> None:
    patterns = parsed(file)
    assert all(pattern.named for pattern in patterns)
    commented = re.findall(r"/\*[^*]+\*/\nNAME (\w+)\n", file.read_text(encoding="utf-8"))
    assert commented == [pattern.name for pattern in patterns]


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_the_files_show_what_the_language_can(construct: str) -> None:
    assert any(re.search(CONSTRUCTS[construct], file.read_text(encoding="utf-8"), re.MULTILINE) for file in FILES)


def test_each_pattern_finds_something_among_the_generated_trades(tmp_path: Path) -> None:
    day = Answers(tmp_path).day
    for name in ("generated_trades", "generated_trades_episodes"):
        patterns = parsed(CHECKOUT / "patterns" / f"{name}.sase")
        tables = cep.detect(patterns, day)
        assert all(0 < tables[pattern.name].num_rows < 100_000 for pattern in patterns)


def test_patterns_are_built_on_patterns() -> None:
    patterns = {pattern.name: pattern for pattern in parsed(CHECKOUT / "patterns" / "generated_trades_episodes.sase")}
    assert [one.name for one in patterns["lost_twice"].composes] == ["run_lost"]
    assert [one.name for one in patterns["run_lost"].composes] == ["run_up"]
