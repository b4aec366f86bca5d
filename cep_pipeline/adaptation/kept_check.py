"""The check of a shared plan's invariants in a form that is kept, so that a fresh process reads it in milliseconds.

To make the check of a thousand patterns, a process brings their conditions into normal form, reads their plan, and
finds out which numbers are in which costs. All of that follows from patterns and plan. So it is written down once, as
arrays that compiled code reads. `verification.InvariantCheck` defines the answers.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.adaptation.invariants import Invariant, LazySequence
from cep_pipeline.adaptation.side_programs import SidePrograms
from cep_pipeline.adaptation.verification import InvariantCheck
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.numbers.clause_questions import ClauseQuestions, NumberAsked, answers, last_so_far
from cep_pipeline.planning.orderings import comparison_from_json, comparison_to_json
from cep_pipeline.planning.search import set_sums_codes as codes
from cep_pipeline.planning.search.sums import ADDRESSES, joined_factors, measuring
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

Array = np.ndarray[Any, Any]

FORM = 2
"""Version of the form; whoever keeps a check makes it part of the key."""
_FACTORS = [codes.FACTORS, codes.FACTOR_MASKS, codes.FACTOR_KINDS, codes.FACTOR_VALUES]
_SIZES = 2
_CODEC = "lz4_raw"


def packed(
    check: InvariantCheck, leaves: Collection[str], sharing: Sharing, components: Sequence[Sequence[str]]
) -> bytes | None:
    """A check as bytes that `KeptCheck` reads; None where its costs are no sums.

    Parameters
    ----------
    leaves
        The keys of all leaves that statistics have to know.
    sharing
        What the patterns of the plan share.
    components
        The names of patterns that are planned again together (`components_of_patterns`).
    """
    programs = check.programs
    if programs is None:
        return None
    pieces: list[Array] = []
    filled = 0

    def put(array: Array) -> int:
        """Add an array of 64-bit numbers; its place in bytes."""
        nonlocal filled
        pieces.append(np.ascontiguousarray(array).reshape(-1).view(np.int64))
        filled += pieces[-1].nbytes
        return filled - pieces[-1].nbytes

    put(np.full(len(programs.registers), -np.inf))
    clauses, numbers, terms = check.clauses, dict[NumberAsked, int](), dict[str, list[int]]()
    words, slots, places = [], list[int](), list[int]()
    asked, unsure = list[int](), list[Any]()
    for row, (questions, sums) in enumerate(programs.programs):
        words.append(sums.packed(put))
        for key in questions.term_keys:
            terms.setdefault(key, []).append(row)
        if not questions.is_plain:
            asked.append(row)
            continue
        words[-1][codes.LAST] = questions.last
        if questions.names_without_last:
            unsure.append([row, clauses[row][0], questions.names_without_last])
        begin, mine = int(words[-1][codes.NUMBERS]) // 8, questions.numbers_asked
        slots += range(begin, begin + len(mine))
        places += [numbers.setdefault(one, len(numbers)) for one in mine]
    header = {
        "leaves": sorted(leaves),
        "sharing": sharing,
        "components": components,
        "numbers": [*numbers],
        "asked": asked,
        "unsure": unsure,
        "terms": terms,
        "sums": programs.sums,
        "clauses": clauses,
        "arrays": [len(words), len(slots), len(programs.sides), len(programs.registers)],
    }
    row_of = {clause: row for row, clause in enumerate(clauses)}
    lines = (
        json.dumps([row_of[one.pattern, one.clause, one.cost_model, one.alpha], comparison_to_json(one.comparison)])
        for one in check.invariants
    )
    texts = [json.dumps(header).encode(), "\n".join(lines).encode()]
    arrays = [[*map(len, texts)], words, slots, places, programs.sides, programs.wins_ties, *pieces]
    content = b"".join([*(np.array(array, np.int64).tobytes() for array in arrays), *texts])
    return len(content).to_bytes(8) + bytes(pa.compress(content, _CODEC, asbytes=True))


class KeptCheck(InvariantCheck):
    """The check that `packed` has written.

    Parameters
    ----------
    content
        The bytes. They have to come from whom code may come: compiled code reads the addresses in them.
    patterns
        Those of the plan; few of them are looked at.
    """

    def __init__(self, content: bytes, patterns: Sequence[Pattern]) -> None:
        content = pa.decompress(content[8:], int.from_bytes(content[:8]), _CODEC, asbytes=True)
        header_size, lines_size = np.frombuffer(content, np.int64, _SIZES).tolist()
        lines = len(content) - lines_size
        header = json.loads(content[lines - header_size : lines])
        data = np.frombuffer(content[8 * _SIZES : lines - header_size], np.int64).copy()
        self.programs = _KeptPrograms(header, data, patterns)
        self.invariants = KeptInvariants(content[lines:].split(b"\n") if lines_size else [], header["clauses"])
        self.leaves: Sequence[str] = header["leaves"]
        self.sharing: Sharing = header["sharing"]
        self.components: Sequence[Sequence[str]] = header["components"]


class KeptInvariants(LazySequence[Invariant]):
    """The invariants of a kept check, each made when it is asked for."""

    def __init__(self, lines: Sequence[bytes], clauses: Sequence[tuple[str, int, str, float]]) -> None:
        self._lines, self._clauses = lines, clauses

    def __len__(self) -> int:
        return len(self._lines)

    def item(self, place: int) -> Invariant:
        row, content = json.loads(self._lines[place])
        (pattern, clause, cost_model, alpha), comparison = self._clauses[row], comparison_from_json(content)
        return Invariant(pattern, clause, comparison.step, comparison, cost_model, alpha)


class _KeptPrograms(SidePrograms):
    """Programs whose arrays lie one after the other, in the memory that they were written from."""

    def __init__(self, header: dict[str, Any], data: Array, patterns: Sequence[Pattern]) -> None:
        rows, slots, sides, registers = header["arrays"]
        ends = np.cumsum([rows * codes.WORDS, slots, slots, 2 * sides, sides])
        words, self._slots, self._places, kept_sides, wins_ties, memory = np.split(data, ends)
        self._words, self._room = words.reshape(rows, codes.WORDS), memory.view(np.float64)
        self._begins = self._words[:, codes.NUMBERS] // 8
        self._words[:, ADDRESSES] += memory.ctypes.data
        self._factors = self._words[:, _FACTORS]
        self._addresses = range(words.ctypes.data, words.ctypes.data + words.nbytes, 8 * codes.WORDS)
        self.registers, self.sums = self._room[:registers], header["sums"]
        self.sides, self.wins_ties = kept_sides.reshape(sides, 2), wins_ties.astype(bool)
        self._header, self._patterns, self._memory = header, {one.name: one for one in patterns}, memory
        self._numbers: list[NumberAsked] = header["numbers"]
        self._questions: dict[int, ClauseQuestions] = {}
        self._joined: dict[int, tuple[Array, ...]] = {}
        self._alone = Lock()

    def _run(self, snapshot: StatisticsSnapshot) -> None:
        try:
            numbers = answers(self._numbers, snapshot)
        except KeyError as error:
            raise PlanError(
                f"the statistics hold no arrival rate of {error.args[0]!r}; estimate them again with these patterns"
            ) from error
        self._room[self._slots] = np.array(numbers)[self._places]
        for row, pattern, names in self._header["unsure"]:
            last = last_so_far(pattern, names, snapshot)
            self._words[row, codes.LAST] = len(names) - 1 if last is None else last
        for row in self._joined:
            self._words[row, _FACTORS] = self._factors[row]
        self._joined.clear()
        for row in {*self._header["asked"], *self._with_joints(snapshot)}:
            self._ask(row, snapshot)
        run = measuring()
        for address in self._addresses:
            run(address)

    def _with_joints(self, snapshot: StatisticsSnapshot) -> set[int]:
        """The clauses that joint selectivities may be of."""
        terms: dict[str, list[int]] = self._header["terms"]
        found = (set.intersection(*(set(terms.get(key, ())) for key in one.conditions)) for one in snapshot.joints)
        return set().union(*found)

    def _ask(self, row: int, snapshot: StatisticsSnapshot) -> None:
        """Take the numbers of a clause that are more than logarithms, and what corrects them."""
        if row not in self._questions:
            name, clause, *_ = self._header["clauses"][row]
            self._questions[row] = ClauseQuestions(self._patterns[name], self._patterns[name].clauses[clause])
        numbers, begin = self._questions[row].asked(snapshot).numbers, self._begins[row]
        self._room[begin : begin + len(numbers.flat)] = numbers.flat
        self._words[row, codes.LAST] = numbers.last
        if numbers.joints:
            count, *places = (self._factors[row] - [0, *[self._memory.ctypes.data] * 3]).tolist()
            masks, kinds, values = (self._memory[place // 8 : place // 8 + count] for place in places)
            joined = joined_factors(numbers.joints, masks, kinds, values.view(np.float64))
            self._joined[row] = joined
            self._words[row, _FACTORS] = [len(joined[0]), *(array.ctypes.data for array in joined)]
