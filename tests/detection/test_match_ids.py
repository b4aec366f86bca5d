"""Ids: the kernel equals the definition, which is pinned; no two matches share one, and every bit depends on all."""

from __future__ import annotations

import uuid
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.match_ids import MatchIdentity, ids_array
from cep_pipeline.detection.ordering import OrderedLists, OrderedMatches, order_matches
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from tests.detection.matching import block_of
from tests.streams import stream_schema
from tests.thoroughness import examples

SEQS = st.one_of(
    st.integers(0, 1000),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([2**k - d for k in range(63) for d in (0, 1)] + [-(2**63), 2**63 - 1]),
)


def pattern_of(text: str, params: dict[str, list[str]] | None = None, name: str = "p") -> Pattern:
    return parse_patterns(f"NAME {name} {text}", stream_schema(), params or {})[0]


def identity_of(text: str, params: dict[str, list[str]] | None = None, name: str = "p") -> MatchIdentity:
    return MatchIdentity.of(pattern_of(text, params, name))


def ids_of(identity: MatchIdentity, matches: OrderedMatches | OrderedLists, seqs: np.ndarray) -> list[uuid.UUID]:
    ids: list[uuid.UUID] = ids_array(identity.rows_of(matches, np.zeros(len(seqs), np.int64), seqs).ids).to_pylist()
    return ids


@settings(max_examples=examples(200), deadline=None)
@given(
    st.binary(min_size=32, max_size=32),
    st.lists(st.lists(st.tuples(st.integers(0, 3), SEQS), min_size=1, max_size=7), min_size=1, max_size=40),
)
def test_lists_equal_the_definition(digest: bytes, matches: list[list[tuple[int, int]]]) -> None:
    names = ("n", "a", "b", "c", "d")
    flat = [pair for match in matches for pair in match]
    offsets = np.cumsum([0, *map(len, matches)])
    variables = np.array([variable for variable, _ in flat], np.int32)
    # The names of a table of matches may be fewer than the pattern's, which has negated variables, too.
    found = OrderedLists(names[1:], offsets, np.arange(len(flat), dtype=np.int32), variables)
    identity = MatchIdentity(digest, names)
    expected = [identity.id_of([(names[1 + variable], seq) for variable, seq in match]) for match in matches]
    assert ids_of(identity, found, np.array([seq for _, seq in flat], np.int64)) == expected


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 5), st.lists(SEQS, min_size=1, max_size=30), st.integers(0, 2**32 - 1), st.integers(0, 9))
def test_single_events_equal_the_definition(width: int, seqs: list[int], seed: int, skipped: int) -> None:
    """Parts of the matches too, whose rows are not contiguous; times are those of the first and the last event."""
    rng = np.random.default_rng(seed)
    kinds = [f"A v{place}" for place in range(width)]
    pattern = pattern_of(f"PATTERN SEQ({', '.join(kinds)}) WITHIN 1 hour")
    rows = rng.integers(0, len(seqs), (width, 20 + skipped)).astype(np.int32)
    matches = OrderedMatches(tuple(one.name for one in pattern.clauses[0].positive), rows).between(
        skipped, 20 + skipped
    )
    identity = MatchIdentity.of(pattern)
    stamps = np.sort(rng.integers(0, 1000, len(seqs)))
    described = identity.rows_of(matches, stamps, np.array(seqs, np.int64))
    bound = [[(f"v{place}", seqs[row]) for place, row in enumerate(match)] for match in rows[:, skipped:].T]
    assert ids_array(described.ids).to_pylist() == list(map(identity.id_of, bound))
    assert described.seqs.tolist() == [seq for match in bound for _, seq in match]
    assert described.starts.tolist() == stamps[rows[:, skipped:].min(axis=0)].tolist()
    assert described.ends.tolist() == stamps[rows[:, skipped:].max(axis=0)].tolist()


@settings(max_examples=examples(100), deadline=None)
@given(
    st.integers(1, 5),
    st.integers(1, 40),
    st.sampled_from([-(2**63), -7, 0, 2**31, 2**63 - 41]),
    st.sampled_from([1, 255, 256, 257, 600]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_seqs_that_grow_equal_the_definition(
    width: int, events: int, first: int, count: int, gap: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    pattern = pattern_of(f"PATTERN SEQ({', '.join(f'A v{place}' for place in range(width))}) WITHIN 1 hour")
    seqs = [first + place for place in range(events)]
    if gap and first < 2**62:
        seqs[-1] += 1
    rows = rng.integers(0, events, (width, count)).astype(np.int32)
    matches = OrderedMatches(tuple(one.name for one in pattern.clauses[0].positive), rows)
    identity = MatchIdentity.of(pattern)
    stamps = np.sort(rng.integers(0, 1000, events))
    described = identity.rows_of(matches, stamps, np.array(seqs, np.int64))
    bound = [[(f"v{place}", seqs[row]) for place, row in enumerate(match)] for match in rows.T.tolist()]
    assert ids_array(described.ids).to_pylist() == list(map(identity.id_of, bound))
    assert described.seqs.tolist() == [seq for match in bound for _, seq in match]
    assert described.starts.tolist() == stamps[rows.min(axis=0)].tolist()
    assert described.ends.tolist() == stamps[rows.max(axis=0)].tolist()
    assert described.offsets.tolist() == list(range(0, width * count + 1, width))


def test_branches_without_some_variables_equal_the_definition() -> None:
    pattern = pattern_of("PATTERN OR(SEQ(A a, B b), C c) WITHIN 1 hour")
    pair, single = pattern.clauses
    blocks = [block_of(pair, [[0, 1], [1, 3]]), block_of(single, [[2]])]
    seqs = np.array([10, 20, 30, 40])
    identity = MatchIdentity.of(pattern)
    expected = [[("a", 10), ("b", 20)], [("c", 30)], [("a", 20), ("b", 40)]]
    found = order_matches(blocks, seqs)
    assert ids_of(identity, found, seqs) == list(map(identity.id_of, expected))


def test_an_id_is_a_uuid_of_version_8() -> None:
    ids = [identity_of("PATTERN A a WITHIN 1 second").id_of([("a", seq)]) for seq in range(100)]
    assert {(one.version, one.variant) for one in ids} == {(8, uuid.RFC_4122)}


def dense_ids(width: int, per_side: int, first_seq: int) -> np.ndarray:
    """The ids of all matches of `width` of the same few events, and of their permutations."""
    pattern = pattern_of(f"PATTERN SEQ({', '.join(f'A v{place}' for place in range(width))}) WITHIN 1 hour")
    rows = np.stack([axis.reshape(-1) for axis in np.meshgrid(*[np.arange(per_side, dtype=np.int32)] * width)])
    matches = OrderedMatches(tuple(one.name for one in pattern.clauses[0].positive), np.ascontiguousarray(rows))
    seqs = first_seq + np.arange(per_side)
    return MatchIdentity.of(pattern).rows_of(matches, seqs, seqs).ids


@pytest.mark.parametrize(("width", "per_side"), [(1, 200_000), (2, 500), (3, 60), (4, 22)])
def test_ids_of_neighbouring_events_differ_in_any_half(width: int, per_side: int) -> None:
    """Of a quarter of a million words of 60 bits none is there twice; of 32 bits about as many as of random numbers."""
    ids = dense_ids(width, per_side, 811_000_000_000_000_000)
    for words in (ids[:, 0], ids[:, 1]):
        assert len(np.unique(words)) == len(ids)
    halves = ids.view(np.uint32).reshape(len(ids), 4)
    for place, bits in enumerate((32, 28, 30, 32)):  # the bits of version and variant are always the same
        expected = len(ids) ** 2 / 2 ** (bits + 1)
        repeated = len(ids) - len(np.unique(halves[:, place]))
        assert abs(repeated - expected) < 6 * max(expected, 1) ** 0.5 + 0.01 * expected


@pytest.mark.parametrize("element", [0, 1, 2])
def test_each_bit_of_a_seq_changes_half_of_all_bits(element: int) -> None:
    pattern = pattern_of("PATTERN SEQ(A a, A b, A c) WITHIN 1 hour")
    rng = np.random.default_rng(element)
    count = 500
    seqs = rng.integers(0, 2**50, (count, 3))
    flipped = np.repeat(seqs[np.newaxis], 64, axis=0)
    flipped[:, :, element] ^= (np.uint64(1) << np.arange(64, dtype=np.uint64)).view(np.int64)[:, np.newaxis]
    every = np.concatenate([seqs[np.newaxis], flipped]).reshape(-1, 3)
    rows = np.arange(every.size, dtype=np.int32).reshape(-1, 3).T
    matches = OrderedMatches(tuple(one.name for one in pattern.clauses[0].positive), np.ascontiguousarray(rows))
    flat = np.ascontiguousarray(every).reshape(-1)
    ids = MatchIdentity.of(pattern).rows_of(matches, flat, flat).ids.reshape(65, count, 2)
    bits = np.unpackbits((ids[1:] ^ ids[0]).view(np.uint8).reshape(64, count, 16), axis=2, bitorder="little")
    share = bits.mean(axis=1)  # input bit, output bit -> how often the one changes the other
    fixed = np.zeros(128, dtype=bool)
    fixed[[52, 53, 54, 55, 64 + 6, 64 + 7]] = True
    assert (share[:, fixed] == 0).all()
    assert np.abs(share[:, ~fixed] - 0.5).max() < 0.5 * 6 / count**0.5
    assert abs(share[:, ~fixed].mean() - 0.5) < 0.002


def test_what_is_bound_to_what_and_how_long_a_list_is_change_an_id() -> None:
    identity = identity_of("PATTERN SEQ(A a, B+ b[], C c) WITHIN 1 hour")
    bound = [
        [("a", 1), ("b", 2), ("c", 3)],
        [("a", 1), ("b", 3), ("c", 2)],
        [("a", 2), ("b", 1), ("c", 3)],
        [("a", 1), ("b", 2), ("b", 3)],
        [("a", 1), ("b", 2)],
        [("a", 1), ("b", 2), ("b", 0)],
        [("a", 1), ("b", 2), ("b", 0), ("b", 0)],
    ]
    assert len(set(map(identity.id_of, bound))) == len(bound)


def test_each_bit_of_the_key_changes_the_id() -> None:
    bound = [("a", 1), ("b", 2)]
    identity = MatchIdentity(bytes(32), ("a", "b"))
    keys = [(1 << bit).to_bytes(32, "little") for bit in range(256)]
    assert len({identity.id_of(bound), *(replace(identity, digest=key).id_of(bound) for key in keys)}) == 257


PINNED = {
    "one": (
        "PATTERN A a WITHIN 1 second",
        {},
        {
            (("a", 0),): "a5a36bf3-5674-8699-9f0d-93300869d0bc",
            (("a", 9_223_372_036_854_775_807),): "02b2f097-b82f-8fc1-ae4a-1c50f4df1141",
        },
    ),
    "rise": (
        "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND [id] WITHIN 5 minutes",
        {},
        {
            (("a", 1), ("b", 2)): "6817b273-5ddb-8908-8cb0-ef20137351ca",
            (("a", 2), ("b", 1)): "97eb69f0-3ee0-8d85-8b0a-6162bc4e845c",
            (("a", 811_000_000_000_000_000), ("b", -1)): "0336ed68-da6c-8453-9d32-3448971a29ee",
        },
    ),
    "set": (
        "PATTERN AND(A a, B b) WHERE a.s IN $names WITHIN 1 hour RETURN a.x",
        {"names": ["é", "b"]},
        {
            (("a", 1), ("b", 2)): "711f59d0-6cd6-86dd-9f0a-927e099bdd5a",
            (("a", 10), ("b", 20)): "dfe5a3f2-11a2-8efc-923f-369ba3afef80",
        },
    ),
    "list": (
        "PATTERN SEQ(A a, ~(C c), B+ b[]) WITHIN 9 EVENTS",
        {},
        {
            (("a", 1), ("b", 2)): "bfd09a1a-6186-8fbc-b707-33b931216387",
            (("a", 1), ("b", 2), ("b", 3)): "6b9bca0d-a413-877e-a94b-6b4fe38e2c4e",
            (("a", 1), ("b", 2), ("b", 3), ("b", 4), ("b", 5)): "4ecf828a-d6f6-8ef6-afde-59fc89b067ff",
        },
    ),
}
"""Statement, parameters, and the ids of matches: with a change of one of these, `IDS_VERSION` has to change."""


@pytest.mark.parametrize("name", PINNED)
def test_ids_are_pinned(name: str) -> None:
    text, params, ids = PINNED[name]
    identity = identity_of(text, params, name)
    assert {bindings: str(identity.id_of(bindings)) for bindings in ids} == ids


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
