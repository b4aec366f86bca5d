"""Sixteen hashes at a time equal hashlib's."""

from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.match_ids import BLOCK_BYTES, INITIAL, LANES, hash_rows, hash_whole_blocks
from tests.thoroughness import examples


def padded(message: bytes, before: int = 0) -> bytes:
    bits = 8 * (before + len(message))
    return message + b"\x80" + bytes((-len(message) - 9) % BLOCK_BYTES) + bits.to_bytes(8, "big")


def rows_of(messages: list[bytes], before: int = 0) -> tuple[np.ndarray, np.ndarray]:
    texts = [padded(message, before) for message in messages]
    rows = -(-len(texts) // LANES) * LANES
    text = np.zeros((rows, max(map(len, texts))), np.uint8)
    blocks = np.zeros(rows, np.int32)
    for row, part in enumerate(texts):
        text[row, : len(part)] = np.frombuffer(part, np.uint8)
        blocks[row] = len(part) // BLOCK_BYTES
    return text, blocks


def digests(words: np.ndarray, count: int) -> list[bytes]:
    return [row.astype(">u4").tobytes() for row in words[:count]]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=40))
def test_messages_of_any_length_side_by_side(messages: list[bytes]) -> None:
    text, blocks = rows_of(messages)
    found = digests(hash_rows(text, blocks, np.array(INITIAL, np.uint32)), len(messages))
    assert found == [hashlib.sha256(message).digest() for message in messages]


def test_every_length_up_to_three_blocks() -> None:
    messages = [bytes(range(length % 251)) * 2 for length in range(97)]
    text, blocks = rows_of(messages)
    found = digests(hash_rows(text, blocks, np.array(INITIAL, np.uint32)), len(messages))
    assert found == [hashlib.sha256(message).digest() for message in messages]


@given(st.integers(0, 4), st.binary(max_size=100))
def test_a_common_beginning_is_hashed_once(blocks_before: int, end: bytes) -> None:
    beginning = bytes(range(256))[: 64 * blocks_before]
    text, blocks = rows_of([end], before=len(beginning))
    found = digests(hash_rows(text, blocks, hash_whole_blocks(beginning)), 1)
    assert found == [hashlib.sha256(beginning + end).digest()]
