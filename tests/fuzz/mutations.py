"""Documents, texts and files as somebody might have damaged or forged them, drawn from a seed; and a watchdog."""

from __future__ import annotations

import copy
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType
from typing import Any

from cep_pipeline.errors import CepError

SECONDS = 60
"""A case that takes longer hangs: most take milliseconds, but kernels may be compiled meanwhile."""


class Hang(BaseException):
    """A case that has not ended; it is no `Exception`, so that nothing takes it for a fault of the document."""


@contextmanager
def watchdog(seconds: int = SECONDS) -> Iterator[None]:
    """End a case that hangs."""

    def bark(number: int, frame: FrameType | None) -> None:
        raise Hang(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def refused(read: Callable[[], object]) -> str | None:
    """The message with which a case is refused, None where it is not; any other exception is a failure."""
    with watchdog():
        try:
            read()
        except CepError as error:
            message = str(error)
            assert message
            assert len(message) < 4000, message
            return message
    return None


DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63 - 1, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, 1e-320),
    *(float("nan"), float("inf"), float("-inf"), "", "a", "\x00", "\ud800", "9" * 5000, "NaN", "[/b]", "2024-13-45"),
    *([], {}, [None], [[]], {"": 0}, {"version": 1}, [1, "a"], DEEP),
)
"""Values that may stand where others should."""


def places(content: Any) -> list[tuple[Any, Any]]:
    """All (container, key) of a document."""
    found: list[tuple[Any, Any]] = []
    waiting = [content]
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        found += [(node, key) for key in keys]
        waiting += [node[key] for key in keys]
    return found


def mutated_document(content: Any, random: Random) -> Any:
    """A copy with one to three values replaced, removed, doubled, exchanged or named otherwise."""
    content = copy.deepcopy(content)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        found = places(content)
        if not found:
            return content
        node, key = random.choice(found)
        match random.randrange(8):
            case 0:
                del node[key]
            case 1 if isinstance(node, list):
                node.insert(key, copy.deepcopy(node[key]))
            case 1:
                node[f"{key}_"] = node[key]
            case 2:
                other, of = random.choice(found)
                node[key] = copy.deepcopy(other[of])
            case 3 if isinstance(node[key], int | float) and abs(node[key]) < 10**300:
                node[key] = node[key] * random.choice((-1, 0, 2, 1000, 0.5)) + random.choice((0, 1, -1))
            case 4 if isinstance(node[key], str):
                node[key] = mutated_bytes(node[key].encode("utf-8", "replace"), random).decode("utf-8", "replace")
            case 5 if isinstance(node[key], list):
                random.shuffle(node[key])
            case _:
                node[key] = copy.deepcopy(random.choice(ODD))
    return content


PIECES = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\n",
    b'"',
    b",",
    b"[",
    b"{",
    b"&a ",
    b"*a",
    b"<<: ",
    b"9" * 50,
    b"\x1b[2J",
    b": ",
    b"- ",
)
"""Bytes that mean something to a reader of one of the formats."""


def mutated_bytes(data: bytes, random: Random) -> bytes:
    """A copy with a few bytes flipped, cut out, doubled or put in."""
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        start = random.randrange(len(data) + 1)
        stop = min(len(data), start + random.choice((0, 1, 1, 2, 5, 40)))
        match random.randrange(5):
            case 0 if start < len(data):
                data = data[:start] + bytes([data[start] ^ 1 << random.randrange(8)]) + data[start + 1 :]
            case 1:
                data = data[:start] + data[stop:]
            case 2:
                data = data[:stop] + data[start:stop] * random.choice((1, 2, 20)) + data[stop:]
            case 3 if random.random() < 0.2:
                data = data[:start]
            case _:
                data = data[:start] + random.choice(PIECES) + data[stop:]
    return data
