"""Dewey version numbers lead each run back through the events that it selected, and through no others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.nfab import memory
from cep_pipeline.detection.nfab.buffer import (
    BEFORE,
    DIGIT,
    PATH_WORDS,
    PENDING_WORDS,
    POINTER_WORDS,
    PREFIX,
    PREFIX_WORDS,
    ROW,
    STACK_WORDS,
    STATE,
    Buffer,
    Versions,
    compatible_place,
    extended,
    forget_all,
    is_compatible,
    join,
    label,
    prune,
    prune_versions,
    retrieve,
    room,
    select,
    shorter,
    wait,
)
from cep_pipeline.detection.nfab.memory import MatchBuffer, VersionNumbers
from cep_pipeline.errors import DataError
from tests.thoroughness import examples

STATES = 3


@dataclass
class Run:
    """A run beside the buffer, with all that it selected: pairs of row and state."""

    prefix: int
    state: int
    start: int
    histories: tuple[tuple[tuple[int, int], ...], ...]
    digit: int = 0
    event: int = -1
    versions: set[tuple[int, int]] = field(default_factory=set)
    """All versions that it, and the runs that it comes from, had."""


class Stream:
    """A buffer, and runs that select events of it as the automaton's do."""

    def __init__(self, size: int = 64) -> None:
        self.memory, self.numbers = MatchBuffer(STATES, size), VersionNumbers(size)
        self.started = self.row = 0
        self.runs: list[Run] = []

    @property
    def buffer(self) -> Buffer:
        own = self.memory
        return Buffer(own.stacks.reshape(-1), own.pointers.reshape(-1), own.starts.reshape(-1), own.size - 1, STATES)

    @property
    def versions(self) -> Versions:
        return Versions(self.numbers.ends, self.numbers.prefixes.reshape(-1), self.numbers.size - 1)

    def start(self) -> None:
        self.started += 1
        run = Run(extended(self.versions, -1, self.started, self.row), 0, self.row, ((),))
        self.select(run, 0, -1)
        self.runs.append(run)

    def split(self, run: Run, state: int) -> Run:
        """The run that goes on with the event to a state, while the other stays."""
        goes = replace(run, prefix=extended(self.versions, run.prefix, run.digit, self.row), digit=0, state=state)
        goes.versions = set(run.versions)
        run.digit += 1
        run.versions.add((run.prefix, run.digit))
        self.select(goes, state, run.state)
        return goes

    def select(self, run: Run, state: int, before: int) -> None:
        run.versions.add((run.prefix, run.digit))
        run.event = select(self.buffer, state, self.row, run.prefix, run.digit, run.event, before)
        run.histories = tuple((*history, (self.row, state)) for history in run.histories)

    def merge(self, one: Run, other: Run) -> None:
        """The first run goes on for both."""
        junction = join(self.buffer, one.state, self.row)
        for place, run in enumerate(sorted((one, other), key=lambda run: -run.start)):
            label(self.buffer, one.state, junction + place, run.prefix, run.digit, run.event, run.start)
        one.event = junction
        one.histories += other.histories
        self.runs = [run for run in self.runs if run is not other]

    def read(self, draw: st.DrawFn, any_match: bool) -> None:
        """Show the next event to all runs, those of the last state first, and start one with it."""
        moves = st.sampled_from(["ignore", "take", "begin", "begin and take", "end"])
        for state in range(STATES - 1, -1, -1):
            for run in [run for run in self.runs if run.state == state]:
                move = draw(moves)
                if move.startswith("begin") and state + 1 < STATES:
                    self.runs.append(self.split(run, state + 1))
                if move.endswith("take") and any_match:  # and it is ignored, too
                    self.runs.append(self.split(run, state))
                elif move.endswith("take"):
                    self.select(run, state, state)
                if move == "end":
                    self.runs.remove(run)
        if draw(st.booleans()):
            self.start()
        for state in range(STATES):
            own = [run for run in self.runs if run.state == state]
            if len(own) > 1 and draw(st.integers(0, 3)) == 0:
                self.merge(own[0], own[-1])
        self.row += 1

    def way_back(self, run: Run, earliest: int = 0) -> list[tuple[tuple[int, int], ...]]:
        """The matches of a run, by its newest event and its version alone."""
        pending, path = np.zeros(4096 * PENDING_WORDS, np.int32), np.zeros(4096, np.int32)
        rows, states = np.zeros(4096, np.int32), np.zeros(4096, np.int32)
        offsets = np.zeros(513, np.int64)
        wait(pending, 0, run.event, run.state, run.prefix, run.digit, 0)
        top, _, matches = retrieve(
            self.buffer,
            self.versions,
            earliest,
            pending,
            1,
            path,
            rows,
            states,
            4096,
            0,
            offsets,
            0,
            512,
        )
        assert top == 0
        ends = offsets[: matches + 1].tolist()
        pairs = list(zip(rows.tolist(), states.tolist(), strict=True))
        return [tuple(pairs[begin:end]) for begin, end in pairwise(ends)]

    def dewey(self, prefix: int, digit: int) -> str:
        digits = [digit]
        while prefix >= 0:
            prefix, digit = shorter(self.versions, prefix)
            digits.append(digit)
        return ".".join(map(str, reversed(digits)))


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    stream, any_match = Stream(256), draw(st.booleans())
    for _ in range(draw(st.integers(1, 10))):
        if room(stream.buffer) < 4 * len(stream.runs) + 4:
            stream.memory.grow()
        if stream.numbers.size - stream.numbers.ends[1] < 2 * len(stream.runs) + 4:
            stream.numbers.grow()
        stream.read(draw, any_match)
        if len(stream.runs) > 12:
            stream.runs = stream.runs[:12]
    return stream


@settings(max_examples=examples(150), deadline=None)
@given(streams())
def test_the_way_back_by_versions_is_what_the_run_selected(stream: Stream) -> None:
    for run in stream.runs:
        assert sorted(stream.way_back(run)) == sorted(run.histories)


@settings(max_examples=examples(150), deadline=None)
@given(streams())
def test_versions_are_compatible_if_and_only_if_one_is_on_the_way_to_the_other(stream: Stream) -> None:
    of_runs = {(run.prefix, run.digit): run.versions for run in stream.runs}
    assert len(of_runs) == len(stream.runs)
    every = set().union(*of_runs.values()) if of_runs else set()
    for version, before in of_runs.items():
        for other in every:
            assert is_compatible(stream.versions, *version, *other) == (other in before)
            numbers = stream.dewey(*version), stream.dewey(*other)
            assert is_compatible(stream.versions, *version, *other) == compatible(*numbers)


def compatible(later: str, earlier: str) -> bool:
    """The paper's forms, one after another: a prefix, or the same but for a greater last digit."""
    one, other = ([int(digit) for digit in number.split(".")] for number in (later, earlier))
    return len(other) <= len(one) and other[:-1] == one[: len(other) - 1] and other[-1] <= one[len(other) - 1]


@settings(max_examples=examples(100), deadline=None)
@given(streams(), st.integers(0, 12))
def test_one_pointer_of_an_event_is_compatible_wherever_it_is_looked_for_first(stream: Stream, guess: int) -> None:
    buffer, versions = stream.buffer, stream.versions
    for run in stream.runs:
        if len(run.histories) > 1:  # it goes on for others, too
            continue
        event, state, version = run.event, run.state, (run.prefix, run.digit)
        while event >= 0:
            words = buffer.pointers.reshape(STATES, -1, POINTER_WORDS)[state]
            made = int(buffer.stacks[STACK_WORDS * state + 1])
            own = [place for place in range(event, made) if words[place, ROW] == words[event, ROW]]
            fitting = [p for p in own if is_compatible(versions, *version, words[p, PREFIX], words[p, DIGIT])]
            assert fitting == [event + compatible_place(buffer, versions, state, event, *version, guess)]
            (pointer,) = fitting
            version = int(words[pointer, PREFIX]), int(words[pointer, DIGIT])
            event, state = int(words[pointer, BEFORE]), int(words[pointer, STATE])


def test_the_versions_of_figure_4() -> None:
    """R1 and R2 end with e6, which R1's run also takes, and as R3 it ends with e8."""
    stream = Stream()
    stream.start()  # e1
    stream.row = 2
    r1 = stream.runs[0]
    stream.select(r1, 0, 0)
    stream.row = 3
    stream.select(r1, 0, 0)
    stream.start()  # e3
    r2 = stream.runs[1]
    stream.row = 4
    for run in (r1, r2):
        stream.select(run, 0, 0)
    stream.row = 6
    ends = []
    for run in (r1, r2):
        ends.append(stream.split(run, 1))
        stream.select(run, 0, 0)
    stream.row = 7
    stream.select(r1, 0, 0)
    stream.row = 8
    ends.append(stream.split(r1, 1))
    assert [stream.dewey(run.prefix, run.digit) for run in ends] == ["1.0.0", "2.0.0", "1.1.0"]
    assert [[row for row, _ in stream.way_back(run)[0]] for run in ends] == [
        [0, 2, 3, 4, 6],
        [3, 4, 6],
        [0, 2, 3, 4, 6, 7, 8],
    ]
    # The event e6 stands once in the stack of b, with a pointer of each run, and so does e4 in that of a.
    assert ends[0].event == ends[1].event
    # With the version of the other run nobody comes from e3 to e2: the mistake that section 5.1 warns of.
    e3 = 2
    assert compatible_place(stream.buffer, stream.versions, 0, e3, ends[1].prefix, ends[1].digit, 0) == 1
    assert compatible_place(stream.buffer, stream.versions, 0, 1, ends[1].prefix, ends[1].digit, 0) == -1


def test_expired_runs_are_left_out_of_a_merged_one() -> None:
    stream = Stream()
    for _ in range(2):
        stream.start()
        stream.row += 1
    stream.merge(*stream.runs)
    stream.select(stream.runs[0], 0, 0)
    assert stream.way_back(stream.runs[0]) == [((1, 0), (2, 0)), ((0, 0), (2, 0))]
    assert stream.way_back(stream.runs[0], earliest=1) == [((1, 0), (2, 0))]


def test_places_of_pruned_events_are_used_again() -> None:
    stream = Stream(16)
    instants = np.arange(1_000)
    for row in range(1_000):
        stream.row = row
        if row % 8 == 0:  # of a window of 8 events
            stream.runs.clear()
            stream.start()
            continue
        if room(stream.buffer) < 2:
            prune(stream.buffer, instants, row - 8)
            prune_versions(stream.versions, instants, row - 8)
        stream.select(stream.runs[0], 0, 0)
        if row % 8 == 7:
            assert stream.way_back(stream.runs[0]) == [tuple((taken, 0) for taken in range(row - 7, row + 1))]
    assert stream.memory.size == 16
    forget_all(stream.buffer)
    assert len(stream.memory) == 0


def test_rings_grow_with_what_they_hold() -> None:
    stream = Stream(4)
    stream.start()
    for row in range(1, 40):
        stream.row = row
        if not room(stream.buffer):
            stream.memory.grow()
        if row % 2 and stream.numbers.ends[1] - stream.numbers.ends[0] == stream.numbers.size:
            stream.numbers.grow()
        stream.runs[0] = stream.split(stream.runs[0], 0) if row % 2 else stream.runs[0]
        if not row % 2:
            stream.select(stream.runs[0], 0, 0)
    assert stream.way_back(stream.runs[0]) == [tuple((row, 0) for row in range(40))]
    assert len(stream.memory) == 40


@pytest.mark.parametrize("ring", [MatchBuffer(1), VersionNumbers()])
def test_rings_have_a_limit(ring: MatchBuffer | VersionNumbers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST", ring.size)
    with pytest.raises(DataError, match="shorten the window"):
        ring.grow()


def test_words_are_as_many_as_their_rings_have() -> None:
    own = (memory.POINTER_WORDS, memory.STACK_WORDS, memory.PENDING_WORDS, memory.PATH_WORDS, memory.PREFIX_WORDS)
    assert own == (POINTER_WORDS, STACK_WORDS, PENDING_WORDS, PATH_WORDS, PREFIX_WORDS)
