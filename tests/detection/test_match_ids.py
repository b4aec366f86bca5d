"""Ids: sixteen hashes at a time equal hashlib, and what they are is pinned."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.match_ids import MatchIdentity
from cep_pipeline.language.parser import parse_patterns
from tests.streams import stream_schema
from tests.thoroughness import examples

SEQS = st.one_of(
    st.integers(0, 1000),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([10**k - d for k in range(19) for d in (0, 1)] + [-(2**63), 2**63 - 1]),
)
NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=40)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.text(st.characters(codec="utf-8"), max_size=300),
    st.lists(NAMES, min_size=1, max_size=4, unique=True),
    st.lists(st.lists(st.tuples(st.integers(0, 3), SEQS), min_size=1, max_size=7), max_size=40),
)
def test_equal_to_hashlib(prefix: str, names: list[str], matches: list[list[tuple[int, int]]]) -> None:
    """Prefixes of every length, so that every alignment of the bindings with the blocks of the hash occurs."""
    bound = [[(variable % len(names), seq) for variable, seq in match] for match in matches]
    offsets = np.cumsum([0, *map(len, bound)])
    flat = [pair for match in bound for pair in match]
    ids = MatchIdentity(prefix).ids_of(
        offsets, np.array([seq for _, seq in flat], np.int64), np.array([v for v, _ in flat], np.int32), names
    )
    assert ids.type == pa.string()
    expected = []
    for match in bound:
        bindings = json.dumps([[names[v], seq] for v, seq in match], separators=(",", ":"), ensure_ascii=False)
        expected.append(hashlib.sha256(f"{prefix}{bindings}]".encode()).hexdigest()[:32])
    assert ids.to_pylist() == expected


@pytest.mark.parametrize("length", range(130))
def test_every_length_of_prefix(length: int) -> None:
    identity = MatchIdentity("x" * length)
    ids = identity.ids_of(np.array([0, 1, 3]), np.array([7, 8, 10**18]), np.array([0, 0, 1]), ["a", "b"])
    assert ids.to_pylist() == [identity.id_of([("a", 7)]), identity.id_of([("a", 8), ("b", 10**18)])]


PINNED = {
    "one": (
        "NAME one PATTERN A a WITHIN 1 second",
        {},
        {
            (("a", 0),): "44e964911704c2562383035bd8880706",
            (("a", 9_223_372_036_854_775_807),): "d80acbef9d4e3b39fc8696d0e3e6ccd6",
        },
    ),
    "rise": (
        "NAME rise PATTERN SEQ(A a, B b) WHERE a.x < b.x AND [id] WITHIN 5 minutes",
        {},
        {
            (("a", 1), ("b", 2)): "b1fc41ffcc855034dd9201099921d04a",
            (("a", 2), ("b", 1)): "0e61eb699ad9ec2ce5873dc62d765962",
            (("a", 811_000_000_000_000_000), ("b", -1)): "943d41be039fe1cda1ea0f5b01483f44",
        },
    ),
    "set": (
        "NAME set PATTERN AND(A a, B b) WHERE a.s IN $names WITHIN 1 hour RETURN a.x",
        {"names": ["é", "b"]},
        {
            (("a", 1), ("b", 2)): "565ebc8354170b141cb8426bed097747",
            (("a", 10), ("b", 20)): "0d8d60dcdfd849c223501372842928e6",
        },
    ),
    "list": (
        "NAME list PATTERN SEQ(A a, B+ b[]) WITHIN 9 EVENTS",
        {},
        {
            (("a", 1), ("b", 2)): "d486278347562c5045f12b59ecbd95cd",
            (("a", 1), ("b", 2), ("b", 3)): "a4c9bc230760abb91d3e2f60f43a8a42",
            (("a", 1), ("b", 2), ("b", 3), ("b", 4), ("b", 5)): "e549dc01d5d59c9f952f913121a403d8",
        },
    ),
}
"""Statement, parameters, and the ids of matches: a change of one of these changes every published table."""


@pytest.mark.parametrize("name", PINNED)
def test_ten_ids_are_pinned(name: str) -> None:
    text, params, ids = PINNED[name]
    (pattern,) = parse_patterns(text, stream_schema(), params)
    identity = MatchIdentity.of(pattern)
    assert {bindings: identity.id_of(bindings) for bindings in ids} == ids


def identity_of(text: str, params: dict[str, list[str]] | None = None, name: str = "p") -> MatchIdentity:
    return MatchIdentity.of(parse_patterns(f"NAME {name} {text}", stream_schema(), params or {})[0])


def test_output_consume_and_return_are_no_part_of_a_match() -> None:
    plain = identity_of("PATTERN SEQ(A a, B b) WITHIN 1 hour")
    assert plain == identity_of("pattern seq(A a,B b) within 60 minutes OUTPUT NON_OVERLAP CONSUME MATCHED RETURN a.x")


@pytest.mark.parametrize(
    "other",
    [
        identity_of("PATTERN SEQ(A a, B b) WITHIN 1 hour", name="q"),
        identity_of("PATTERN SEQ(A a, B b) WITHIN 2 hours"),
        identity_of("PATTERN SEQ(A a, B b) WITHIN 1 hour TIES STRICT"),
    ],
    ids=["name", "window", "ties"],
)
def test_what_changes_an_id(other: MatchIdentity) -> None:
    assert other != identity_of("PATTERN SEQ(A a, B b) WITHIN 1 hour")


def test_a_parameter_is_a_set() -> None:
    text = "PATTERN A a WHERE a.s IN $names WITHIN 1 hour"
    assert identity_of(text, {"names": ["x", "y", "x"]}) == identity_of(text, {"names": ["y", "x"]})
    assert identity_of(text, {"names": ["x"]}) != identity_of(text, {"names": ["y"]})
