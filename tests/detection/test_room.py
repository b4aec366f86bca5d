"""What detection holds at a time is bounded by the memory there is, and more is an error that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import cep_pipeline as cep
from cep_pipeline.detection import limits
from cep_pipeline.detection.limits import ask_for, at_most, available_bytes
from cep_pipeline.errors import DataError, NoRoom
from tests.streams import events_table, stream_schema

ROWS = [{"timestamp": second * 1_000_000, "seq": second, "kind": "AB"[second >= 150]} for second in range(300)]
PAIRS = "NAME pairs PATTERN SEQ(A a, B b) WITHIN 1 hour"
TRIPLES = "NAME triples PATTERN SEQ(A a, A b, B c) WITHIN 1 hour"


@pytest.mark.parametrize("mechanism", ["lazy_chain_nfa", "eager_nfa", "evaluation_tree", "nfab"])
def test_more_than_there_is_room_for_is_refused_with_what_to_do(mechanism: str) -> None:
    patterns, events = cep.parse_patterns(TRIPLES, stream_schema()), events_table(ROWS)
    expected = cep.detect(patterns, events, mechanism="fused", output="count")
    assert cep.detect(patterns, events, mechanism=mechanism, output="count")["triples"].equals(expected["triples"])
    with (
        at_most(1 << 14),
        pytest.raises(NoRoom, match=r"pattern 'triples': .* no memory for as many again .*: shorten the window"),
    ):
        cep.detect(patterns, events, mechanism=mechanism, output="count")
    with at_most(1 << 14):
        found = cep.detect(patterns, events, mechanism="fused", output="count")
    assert found["triples"].equals(expected["triples"])


@pytest.mark.parametrize("mechanism", ["multi_pattern_nfa", "multitree"])
def test_shared_plans_are_refused_alike(mechanism: str) -> None:
    patterns, events = cep.parse_patterns(f"{PAIRS}; {TRIPLES}", stream_schema()), events_table(ROWS)
    with at_most(1 << 14), pytest.raises(NoRoom, match="a node of the shared plan holds"):
        cep.detect(patterns, events, mechanism=mechanism, output="count")


def test_what_is_given_depends_on_what_is_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(limits, "GROUP", tmp_path)
    assert available_bytes() is None
    ask_for(1 << 50, "nobody says how much there is")
    (tmp_path / "meminfo").write_text("MemTotal: 8000000 kB\nMemAvailable: 1000000 kB\n")
    assert available_bytes() == 1_024_000_000
    ask_for(900_000_000, "it holds 3 things")
    with pytest.raises(DataError, match=r"it holds 3 things, and there is no memory for as many again \(1.0 GB\)"):
        ask_for(1_000_000_000, "it holds 3 things")
    (tmp_path / "memory.max").write_text("max\n")
    assert available_bytes() == 1_024_000_000
    (tmp_path / "memory.max").write_text("300000000\n")
    (tmp_path / "memory.current").write_text("280000000\n")
    (tmp_path / "memory.stat").write_text("anon 200000000\ninactive_file 50000000\nactive_file 30000000\n")
    assert available_bytes() == 100_000_000  # files that are only kept make room
    ask_for(limits.SMALL, "little is not asked about")
    with pytest.raises(NoRoom):
        ask_for(95_000_000, "of a container")
    with at_most(10), pytest.raises(NoRoom):
        ask_for(11, "a limit holds for all")
    ask_for(11, "and only inside")


def test_memory_of_the_groups_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEMINFO", tmp_path / "nothing")
    monkeypatch.setattr(limits, "GROUP", tmp_path)
    monkeypatch.setattr(limits, "OWN_GROUP", tmp_path / "cgroup")
    (tmp_path / "cgroup").write_text("0::/system.slice/cep.service\n")
    service = tmp_path / "system.slice" / "cep.service"
    service.mkdir(parents=True)
    for folder, most in ((service, "max"), (service.parent, "200000000")):
        (folder / "memory.max").write_text(f"{most}\n")
        (folder / "memory.current").write_text("50000000\n")
        (folder / "memory.stat").write_text("anon 1\n")
    assert available_bytes() == 150_000_000
