"""Generate the LLVM IR of a plan's shape: nested loops, SIMD tests, compression of the survivors.

Each level compares a contiguous range of its columns, 16 doubles at a time, and compresses the places that pass into a
selection; the last level compresses straight into the output block. No partial match is stored beyond one selection a
level. When the block is full the function saves its loop positions and returns; called again, it walks down to where it
was without repeating a test.

`_Function` is this loop. `_Searching` finds one event of a range for each partial match: it decides negation, for which
the first event that rejects is enough. `_Counting` counts the lists of a Kleene variable behind each partial match
without making them: without conditions between elements the number of candidates says all; with conditions on adjacent
elements the lists that end with an element are one, that of the element alone, and those that end with an element
before it that it may follow, so that each element adds to 16 later ones at a time. `ComparingText` has what they share:
the ranges and tests of a level.

Notes
-----
Compression looks 8 bits of the mask up in a table of 2 KB, which is within 1.3 times the speed of the native
instruction where a CPU has it, and 3 to 5 times faster than LLVM's own substitute elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache

from cep_pipeline.compiled.ir_text import WIDTH, FunctionText, offsets_table
from cep_pipeline.detection.fused.programs import (
    BETWEEN,
    BUDGET,
    CAPACITY,
    COUNTERS,
    FINISHED,
    FIRST_OWNED,
    HASH_FACTOR,
    INSIDE,
    OUTER,
    SCRATCH,
    SCRATCH_STRIDE,
    STATE,
    argument_places,
)
from cep_pipeline.detection.fused.shape import (
    REJECTING,
    Constant,
    Operation,
    RangeResult,
    Rejecting,
    Shape,
    Slot,
    Term,
    Test,
    slots_of,
)
from cep_pipeline.patterns.conditions import Comparator

_COMPARE = {
    Comparator.EQ: "oeq",
    Comparator.NE: "one",
    Comparator.LT: "olt",
    Comparator.LE: "ole",
    Comparator.GT: "ogt",
    Comparator.GE: "oge",
}
_BINARY = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
DOUBLES = f"<{WIDTH} x double>"
_BITS = f"<{WIDTH} x i1>"


class ComparingText(FunctionText):
    """The ranges and tests of the levels of a shape.

    Attributes
    ----------
    places
        First word of each group of arguments.
    low, high
        (level, earlier level) -> the address of its bounds.
    index, row
        Place in its view, and row of the events, of each level bound so far: names of an i64 and an i32.
    scalars
        Values that the events bound so far decide, where events of this level may be rejected.
    rejecting_place
        Place of the block of events that may reject.
    columns, constants
        Names of the columns' addresses and of the constants.
    first_owned
        Name of the first owned row, i64.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.places = argument_places(shape)
        self.last = len(shape.levels) - 1
        self.index: list[str] = []
        self.scalars: dict[Term, str] = {}
        self.rejecting_place = ""
        self.row: list[str] = []
        self.columns: list[str] = []
        self.constants: list[str] = []
        self.first_owned = ""
        self.least_row = ""
        self.low: dict[tuple[int, int], str] = {}
        self.high: dict[tuple[int, int], str] = {}

    def module_text(self, name: str, *declarations: str) -> str:
        """The module of the one function `name`, whose argument is the address of its words."""
        return "\n".join(
            (
                *declarations,
                "declare i64 @llvm.smax.i64(i64, i64)",
                "declare i64 @llvm.smin.i64(i64, i64)",
                "declare double @llvm.fabs.f64(double)",
                "declare double @llvm.sqrt.f64(double)",
                f"declare {DOUBLES} @llvm.fabs.v{WIDTH}f64({DOUBLES})",
                f"declare {DOUBLES} @llvm.sqrt.v{WIDTH}f64({DOUBLES})",
                f"define i64 @{name}(ptr noalias %words) {{",
                "entry:",
                *self.allocas,
                "  br label %start",
                "start:",
                *self.lines,
                "}",
                "",
            )
        )

    def word(self, place: int) -> str:
        return self.value(f"load i64, ptr {self.at('%words', str(place), 'i64')}")

    def pointer(self, place: int) -> str:
        return self.value(f"load ptr, ptr {self.at('%words', str(place), 'i64')}")

    def load_data(self) -> None:
        """The addresses of bounds and columns, and the constants."""
        self.low, self.high = self._bounds("low"), self._bounds("high")
        self.columns = [self.pointer(self.places["column"] + slot) for slot in range(self.shape.slots)]
        self.constants = [
            self.value(f"load double, ptr {self.at('%words', str(self.places['constant'] + index), 'i64')}")
            for index in range(self.shape.constants)
        ]

    def _bounds(self, group: str) -> dict[tuple[int, int], str]:
        """(level, earlier level) -> array of bounds."""
        place = self.places[group]
        arrays = {}
        for number, level in enumerate(self.shape.levels):
            for earlier in level.lows if group == "low" else level.highs:
                arrays[number, earlier] = self.pointer(place)
                place += 1
        return arrays

    def range_of(self, level: int) -> tuple[str, str]:
        """The range of a level's candidates, from the places of the levels bound before it."""
        spec = self.shape.levels[level]
        ends = []
        for arrays, earlier_levels, choose in ((self.low, spec.lows, "smax"), (self.high, spec.highs, "smin")):
            bound = ""
            for earlier in earlier_levels:
                narrow = self.int32_at(arrays[level, earlier], self.index[earlier])
                wide = self.value(f"sext i32 {narrow} to i64")
                bound = self.value(f"call i64 @llvm.{choose}.i64(i64 {bound}, i64 {wide})") if bound else wide
            ends.append(bound)
        return ends[0], ends[1]

    def splats(self, level: int) -> dict[Term, str]:
        """Values of earlier levels that the tests of a level read, computed once and spread over a vector."""
        splats: dict[Term, str] = {}
        self.scalars = {}
        for negation in self.shape.levels[level].rejecting:
            sides = (side for test in negation.tests for side in (test.left, test.right))
            for term in (*negation.lows, *negation.highs, *negation.since, *negation.until, *sides):
                self._scalar_terms(term, level)
        for conjunct in self.shape.levels[level].tests:
            for alternative in conjunct:
                for test in alternative:
                    for side in (test.left, test.right):
                        self._splat_terms(side, level, splats)
        if level == self.last and self.shape.owned_slot is not None:
            latest = self.row[0]
            for row in self.row[1:]:
                latest = self.value(f"call i32 @llvm.smax.i32(i32 {latest}, i32 {row})")
            wide = self.value(f"sext i32 {latest} to i64")
            owned = self.value(f"icmp sge i64 {wide}, {self.first_owned}")
            least = self.value(f"sitofp i64 {self.first_owned} to double")
            self.least_row = self.splat(self.value(f"select i1 {owned}, double -1.0, double {least}"), "double", WIDTH)
        return splats

    def _splat_terms(self, term: Term, level: int, splats: dict[Term, str]) -> None:
        if term in splats:
            return
        if all(slot.level < level for slot in slots_of(term)):
            splats[term] = self.splat(self._scalar(term), "double", WIDTH)
        elif isinstance(term, Operation):
            for operand in term.operands:
                self._splat_terms(operand, level, splats)

    def _scalar_terms(self, term: Term, level: int) -> None:
        if all(REJECTING < slot.level < level for slot in slots_of(term)):
            self.scalars[term] = self._scalar(term)
        elif isinstance(term, Operation):
            for operand in term.operands:
                self._scalar_terms(operand, level)

    def _scalar(self, term: Term) -> str:
        if term in self.scalars:
            return self.scalars[term]
        match term:
            case Slot(level, slot):
                place = self.rejecting_place if level == REJECTING else self.index[level]
                at = self.at(self.columns[slot], place, "double")
                return self.value(f"load double, ptr {at}, align 8")
            case Constant(index):
                return self.constants[index]
            case Operation(operator, operands):
                return self._operate(operator, [self._scalar(operand) for operand in operands], "double", "f64")

    def _vector(self, term: Term, here: str, splats: dict[Term, str]) -> str:
        if term in splats:
            return splats[term]
        match term:
            case Slot(_, slot):
                at = self.at(self.columns[slot], here, "double")
                return self.value(f"load {DOUBLES}, ptr {at}, align 8")
            case Operation(operator, operands):
                values = [self._vector(operand, here, splats) for operand in operands]
                return self._operate(operator, values, DOUBLES, f"v{WIDTH}f64")
            case Constant():
                raise AssertionError("constants are spread before the loop")

    def _operate(self, operator: str, values: list[str], kind: str, suffix: str) -> str:
        if operator == "negative":
            return self.value(f"fneg {kind} {values[0]}")
        if operator in ("abs", "sqrt"):
            name = "fabs" if operator == "abs" else "sqrt"
            return self.value(f"call {kind} @llvm.{name}.{suffix}({kind} {values[0]})")
        result = self.value(f"{_BINARY[operator]} {kind} {values[0]}, {values[1]}")
        if operator != "/":
            return result
        nan, zero = "0x7FF8000000000000", "0.0"
        if kind == "double":
            undefined = self.value(f"fcmp oeq double {values[1]}, {zero}")
            return self.value(f"select i1 {undefined}, double {nan}, double {result}")
        undefined = self.value(f"fcmp oeq {kind} {values[1]}, zeroinitializer")
        nans = "<" + ", ".join([f"double {nan}"] * WIDTH) + ">"
        return self.value(f"select {_BITS} {undefined}, {kind} {nans}, {kind} {result}")

    def mask(self, level: int, here: str, end: str, splats: dict[Term, str]) -> str:
        """Bits of the 16 places from `here` that pass all tests and lie before `end`, i32."""
        passed = ""
        loaded: dict[Test, str] = {}
        for conjunct in self.shape.levels[level].tests:
            holds = ""
            for alternative in conjunct:
                together = ""
                for test in alternative:
                    if test not in loaded:
                        left, right = (self._vector(side, here, splats) for side in (test.left, test.right))
                        loaded[test] = self.value(f"fcmp {_COMPARE[test.comparator]} {DOUBLES} {left}, {right}")
                    together = self.value(f"and {_BITS} {together}, {loaded[test]}") if together else loaded[test]
                holds = self.value(f"or {_BITS} {holds}, {together}") if holds else together
            passed = self.value(f"and {_BITS} {passed}, {holds}") if passed else holds
        if level == self.last and self.shape.owned_slot is not None:
            at = self.at(self.columns[self.shape.owned_slot], here, "double")
            rows = self.value(f"load {DOUBLES}, ptr {at}, align 8")
            owned = self.value(f"fcmp oge {DOUBLES} {rows}, {self.least_row}")
            passed = self.value(f"and {_BITS} {passed}, {owned}") if passed else owned
        left = self.value(f"sub i64 {end}, {here}")
        left = self.value(f"call i64 @llvm.smin.i64(i64 {left}, i64 {WIDTH})")
        ones = self.value(f"shl i32 1, {self.value(f'trunc i64 {left} to i32')}")
        inside = self.value(f"sub i32 {ones}, 1")
        if passed:
            bits = self.value(f"zext i{WIDTH} {self.value(f'bitcast {_BITS} {passed} to i{WIDTH}')} to i32")
            inside = self.value(f"and i32 {bits}, {inside}")
        for negation in self.shape.levels[level].rejecting:
            inside = self._unrejected(negation, inside, here)
        return inside

    def _unrejected(self, negation: Rejecting, mask: str, here: str) -> str:
        """The bits of a mask, i32, of the places from `here` that no event rejects."""
        left, kept = self.variable(self.value(f"zext i32 {mask} to i64")), self.variable("0")
        passes = self.variable("0")
        head, body, search = self.label("unrejected"), self.label("asked"), self.label("searched")
        keep, over = self.label("keep"), self.label("asked_all")
        self.jump(head)
        self.begin(head)
        bits = self.get(left)
        self.branch(self.value(f"icmp ne i64 {bits}, 0"), body, over)
        self.begin(body)
        place = self.value(f"call i64 @llvm.cttz.i64(i64 {bits}, i1 true)")
        self.set(left, self.value(f"and i64 {bits}, {self.value(f'sub i64 {bits}, 1')}"))
        self.index.append(self.value(f"add i64 {here}, {place}"))
        low, high = (
            self.value(f"fptosi double {self._furthest(ends, comparison)} to i64")
            for ends, comparison in ((negation.lows, "ogt"), (negation.highs, "olt"))
        )
        if negation.rows is not None:
            if negation.since:
                low = self._first_row(negation.rows, self._furthest(negation.since, "ogt"), low, high)
            if negation.until:
                high = self._first_row(negation.rows, self._furthest(negation.until, "olt"), low, high)
        self.set(passes, "1")
        width = self.value(f"sub i64 {high}, {low}")
        self.branch(self.value(f"icmp sgt i64 {width}, 0"), search, keep)
        self.begin(search)
        stride = self.value(f"fptosi double {self.constants[negation.stride.index]} to i64")
        if negation.places is None:
            rejected = self._in_blocks(negation, low, high, width, stride)
        else:
            rejected = self._among_sorted(negation, low, high, stride)
        self.index.pop()
        self.set(passes, self.value(f"zext i1 {self.value(f'xor i1 {rejected}, true')} to i64"))
        self.jump(keep)
        self.begin(keep)
        bit = self.value(f"shl i64 {self.get(passes)}, {place}")
        self.set(kept, self.value(f"or i64 {self.get(kept)}, {bit}"))
        self.jump(head)
        self.begin(over)
        return self.value(f"trunc i64 {self.get(kept)} to i32")

    def _among_sorted(self, negation: Rejecting, low: str, high: str, shift: str) -> str:
        """Find a value at a place of [low, high), an i1: its bucket is searched for the first place that counts."""
        (test,) = negation.tests
        assert isinstance(test.left, Slot) and negation.places is not None and negation.buckets is not None
        value, values, places = self._scalar(test.right), test.left, negation.places
        least = self.value(f"sitofp i64 {low} to double")
        bits = self.value(f"bitcast double {self.value(f'fadd double {value}, 0.0')} to i64")
        bucket = self.value(f"lshr i64 {self.value(f'mul i64 {bits}, {HASH_FACTOR - (1 << 64)}')}, {shift}")
        first, end = (
            self.value(f"fptosi double {self._element(negation.buckets, place)} to i64")
            for place in (bucket, self.value(f"add i64 {bucket}, 1"))
        )

        def is_before(place: str) -> str:
            found = self._element(values, place)
            equal = self.value(f"fcmp oeq double {found}, {value}")
            earlier = self.value(
                f"and i1 {equal}, {self.value(f'fcmp olt double {self._element(places, place)}, {least}')}"
            )
            return self.value(f"or i1 {earlier}, {self.value(f'fcmp olt double {found}, {value}')}")

        begin = self._first_place(first, end, is_before)
        found, place = self._element(values, begin), self._element(places, begin)
        most = self.value(f"sitofp i64 {high} to double")
        inside = self.value(f"fcmp olt double {place}, {most}")
        inside = self.value(f"and i1 {inside}, {self.value(f'icmp slt i64 {begin}, {end}')}")
        return self.value(f"and i1 {inside}, {self.value(f'fcmp oeq double {found}, {value}')}")

    def _element(self, column: Slot, place: str) -> str:
        return self.value(f"load double, ptr {self.at(self.columns[column.slot], place, 'double')}, align 8")

    def _first_row(self, rows: Slot, edge: str, low: str, high: str) -> str:
        """The first place of [low, high) whose row is not before an edge."""
        return self._first_place(
            low, high, lambda place: self.value(f"fcmp olt double {self._element(rows, place)}, {edge}")
        )

    def _first_place(self, low: str, high: str, is_before: Callable[[str], str]) -> str:
        """The first place of [low, high) that is not before what is looked for; `high` if all are, `low` if none is."""
        first, end = self.variable(low), self.variable(high)
        head, body, over = self.label("look"), self.label("halve"), self.label("looked")
        self.jump(head)
        self.begin(head)
        begin, behind = self.get(first), self.get(end)
        self.branch(self.value(f"icmp slt i64 {begin}, {behind}"), body, over)
        self.begin(body)
        middle = self.value(f"lshr i64 {self.value(f'add i64 {begin}, {behind}')}, 1")
        before = is_before(middle)
        behind_it = self.value(f"add i64 {middle}, 1")
        self.set(first, self.value(f"select i1 {before}, i64 {behind_it}, i64 {begin}"))
        self.set(end, self.value(f"select i1 {before}, i64 {behind}, i64 {middle}"))
        self.jump(head)
        self.begin(over)
        return begin

    def _in_blocks(self, negation: Rejecting, low: str, high: str, width: str, stride: str) -> str:
        """Test both blocks of a range that is not empty; an i1."""
        power = self.value(f"sub i64 63, {self.value(f'call i64 @llvm.ctlz.i64(i64 {width}, i1 true)')}")
        blocks = self.value(f"mul i64 {power}, {stride}")
        last = self.value(f"sub i64 {high}, {self.value(f'shl i64 1, {power}')}")
        rejected = ""
        for start in (low, last):
            self.rejecting_place = self.value(f"add i64 {blocks}, {start}")
            for test in negation.tests:
                sides = f"{self._scalar(test.left)}, {self._scalar(test.right)}"
                held = self.value(f"fcmp {_COMPARE[test.comparator]} double {sides}")
                rejected = self.value(f"or i1 {rejected}, {held}") if rejected else held
        return rejected

    def _furthest(self, ends: tuple[Slot, ...], comparison: str) -> str:
        """The largest or the smallest of some places or rows, a double."""
        found = self._scalar(ends[0])
        for end in ends[1:]:
            other = self._scalar(end)
            further = self.value(f"fcmp {comparison} double {other}, {found}")
            found = self.value(f"select i1 {further}, double {other}, double {found}")
        return found


OUTPUT_PADDING = 3 * WIDTH
"""Elements that the function may write behind the block's capacity."""
ENTRY = "run"
"""Name of the generated function: one argument, the address of its words; it returns the number of matches."""


@lru_cache(maxsize=1024)
def generate(shape: Shape) -> str:
    """The IR of a shape, as text: equal shapes give equal texts."""
    if shape.search is None:
        return _Function(shape).text()
    return generate_counting(shape) if shape.search.counts else generate_search(shape)


class _Function(ComparingText):
    """The function of one shape."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.positions: list[tuple[str, str | None]] = []  # loop variables of each level behind the prefix

    def text(self) -> str:
        self._build()
        return self.module_text(
            ENTRY,
            offsets_table(),
            "declare i32 @llvm.ctpop.i32(i32)",
            "declare i32 @llvm.smax.i32(i32, i32)",
            "declare i64 @llvm.cttz.i64(i64, i1)",
            "declare i64 @llvm.ctlz.i64(i64, i1)",
        )

    # -- the loops --------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        shape, levels = self.shape, len(self.shape.levels)
        self.state, self.counters = self.pointer(STATE), self.pointer(COUNTERS)
        self.capacity, self.budget, outer = self.word(CAPACITY), self.word(BUDGET), self.word(OUTER)
        self.scratch, self.stride = self.pointer(SCRATCH), self.word(SCRATCH_STRIDE)
        self.first_owned = self.word(FIRST_OWNED)
        self.rows = [self.pointer(self.places["rows"] + level) for level in range(levels)]
        self.out = [self.pointer(self.places["out"] + level) for level in range(levels)]
        self.prefix = [self.pointer(self.places["prefix"] + level) for level in range(shape.prefix)]
        self.load_data()
        self.matches = self.variable("0")
        self.work = self.variable("0")
        self.candidates = [self.variable("0") for _ in range(levels)]
        self.passes = [self.variable("0") for _ in range(levels)]
        resumed = self.value(f"icmp eq i64 {self._state(0)}, {INSIDE}")
        self.resuming = self.variable(self.value(f"zext i1 {resumed} to i64"))
        self.finish = "finish"

        self.outer = self.variable(self._state(1))
        head, body, done, pause = "outer_head", "outer_body", "outer_done", "outer_pause"
        self.jump(head)
        self.begin(head)
        more = self.value(f"icmp slt i64 {self.get(self.outer)}, {outer}")
        within = self.label("within")
        self.branch(more, within, done)
        self.begin(within)
        self.branch(self.value(f"icmp sgt i64 {self.get(self.work)}, {self.budget}"), pause, body)
        self.begin(pause)
        self._save(0, BETWEEN)
        self._save(1, self.get(self.outer))
        self.jump(self.finish)
        self.begin(body)
        row = self.get(self.outer)
        for level in range(shape.prefix):
            place = row
            if shape.prefix > 1:
                place = self.value(f"sext i32 {self.int32_at(self.prefix[level], row)} to i64")
            self._bind(level, place)
        step = "outer_step"
        self._level(shape.prefix, step)
        self.begin(step)
        self.add_to(self.outer, "1")
        self.jump(head)
        self.begin(done)
        self._save(0, FINISHED)
        self.jump(self.finish)
        self._finish()

    def _bind(self, level: int, place: str) -> None:
        self.index.append(place)
        needs_rows = self.shape.as_rows or self.shape.owned_slot is not None
        self.row.append(self.int32_at(self.rows[level], place) if needs_rows else "")

    def _level(self, level: int, leave: str) -> None:
        """Code of one level and all below it, from the current block; it goes on at `leave`."""
        start, end = self.range_of(level)
        some = self.label("some")
        self.branch(self.value(f"icmp sgt i64 {end}, {start}"), some, leave)
        self.begin(some)
        if level == self.last:
            self._last_level(start, end, leave)
            return
        spec = self.shape.levels[level]
        position, limit = self.variable("0"), self.variable("0")
        again, afresh, loop = self.label("again"), self.label("afresh"), self.label("loop")
        self.branch(self.value(f"icmp ne i64 {self.get(self.resuming)}, 0"), again, afresh)
        self.begin(again)
        self.set(position, self._state(1 + 2 * level))
        self.set(limit, self._state(2 + 2 * level))
        self.jump(loop)
        self.begin(afresh)
        width = self.value(f"sub i64 {end}, {start}")
        self.add_to(self.candidates[level], width)
        self.add_to(self.work, width)
        base = self.value(f"mul i64 {self.stride}, {level}")
        if spec.is_tested:
            splats = self.splats(level)
            selected = self.variable(base)
            self._chunks(level, start, end, splats, self.scratch, selected, bounded=False)
            found = self.get(selected)
            self.add_to(self.passes[level], self.value(f"sub i64 {found}, {base}"))
            self.set(position, base)
            self.set(limit, found)
        else:
            self.add_to(self.passes[level], width)
            self.set(position, start)
            self.set(limit, end)
        self.jump(loop)
        self.begin(loop)
        body, step = self.label("body"), self.label("step")
        here = self.get(position)
        self.branch(self.value(f"icmp slt i64 {here}, {self.get(limit)}"), body, leave)
        self.begin(body)
        place = here
        if spec.is_tested:
            place = self.value(f"sext i32 {self.int32_at(self.scratch, here)} to i64")
        self._bind(level, place)
        self.positions.append((position, limit))
        self._level(level + 1, step)
        self.begin(step)
        self.add_to(position, "1")
        self.jump(loop)

    def _last_level(self, start: str, end: str, leave: str) -> None:
        level = self.last
        from_state = self._state(1 + 2 * level)
        resumed = self.value(f"icmp ne i64 {self.get(self.resuming)}, 0")
        first = self.value(f"select i1 {resumed}, i64 {from_state}, i64 {start}")
        self.set(self.resuming, "0")
        before = self.get(self.matches)
        splats = self.splats(level)
        stopped = self._chunks(level, first, end, splats, self.out[level], self.matches, bounded=True)
        seen = self.value(f"call i64 @llvm.smin.i64(i64 {self.get(stopped)}, i64 {end})")
        width = self.value(f"sub i64 {seen}, {first}")
        self.add_to(self.candidates[level], width)
        self.add_to(self.work, width)
        after = self.get(self.matches)
        self.add_to(self.passes[level], self.value(f"sub i64 {after}, {before}"))
        self._fill(before, after)
        more = self.value(f"icmp slt i64 {seen}, {end}")
        spent = self.value(f"icmp sgt i64 {self.get(self.work)}, {self.budget}")
        save = self.label("save")
        self.branch(self.value(f"or i1 {more}, {spent}"), save, leave)
        self.begin(save)
        self._save(0, INSIDE)
        self._save(1, self.get(self.outer))
        for number, (position, limit) in enumerate(self.positions, start=self.shape.prefix):
            self._save(1 + 2 * number, self.get(position))
            assert limit is not None
            self._save(2 + 2 * number, self.get(limit))
        self._save(1 + 2 * level, seen)
        self.jump(self.finish)

    def _chunks(
        self, level: int, start: str, end: str, splats: dict[Term, str], target: str, filled: str, *, bounded: bool
    ) -> str:
        """Test [start, end) and append the places that pass to `target`; returns the variable of the next place."""
        place = self.variable(start)
        head, body, over = self.label("chunk"), self.label("test"), self.label("tested")
        self.jump(head)
        self.begin(head)
        here = self.get(place)
        more = self.value(f"icmp slt i64 {here}, {end}")
        if bounded:
            free = self.value(f"icmp slt i64 {self.get(filled)}, {self.capacity}")
            more = self.value(f"and i1 {more}, {free}")
        self.branch(more, body, over)
        self.begin(body)
        mask = self.mask(level, here, end, splats)
        self._compress(mask, here, target, filled)
        self.set(place, self.value(f"add i64 {here}, {WIDTH}"))
        self.jump(head)
        self.begin(over)
        return place

    def _compress(self, mask: str, base: str, target: str, filled: str) -> None:
        """Append `base + j` for each bit j of the mask."""
        narrow = self.value(f"trunc i64 {base} to i32")
        place = self.get(filled)
        for half in range(WIDTH // 8):
            shifted = self.value(f"lshr i32 {mask}, {8 * half}") if half else mask
            bits = self.value(f"and i32 {shifted}, 255")
            wide = self.value(f"zext i32 {bits} to i64")
            entry = self.value(f"getelementptr [256 x <8 x i8>], ptr @offsets, i64 0, i64 {wide}")
            offsets = self.value(f"load <8 x i8>, ptr {entry}, align 8")
            offsets = self.value(f"zext <8 x i8> {offsets} to <8 x i32>")
            first = self.value(f"add i32 {narrow}, {8 * half}") if half else narrow
            places = self.value(f"add <8 x i32> {offsets}, {self.splat(first, 'i32', 8)}")
            self.emit(f"store <8 x i32> {places}, ptr {self.at(target, place, 'i32')}, align 4")
            found = self.value(f"zext i32 {self.value(f'call i32 @llvm.ctpop.i32(i32 {bits})')} to i64")
            place = self.value(f"add i64 {place}, {found}")
        self.set(filled, place)

    def _fill(self, first: str, end: str) -> None:
        """Repeat the bound levels' rows for the matches [first, end)."""
        splats = []
        for level in range(self.last):
            value = self.row[level] if self.shape.as_rows else self.value(f"trunc i64 {self.index[level]} to i32")
            splats.append(self.splat(value, "i32", WIDTH))
        place = self.variable(first)
        head, body, over = self.label("fill"), self.label("repeat"), self.label("filled")
        self.jump(head)
        self.begin(head)
        here = self.get(place)
        self.branch(self.value(f"icmp slt i64 {here}, {end}"), body, over)
        self.begin(body)
        for level, splat in enumerate(splats):
            self.emit(f"store <{WIDTH} x i32> {splat}, ptr {self.at(self.out[level], here, 'i32')}, align 4")
        self.set(place, self.value(f"add i64 {here}, {WIDTH}"))
        self.jump(head)
        self.begin(over)

    def _finish(self) -> None:
        """Turn the last level's places into rows, add the counters up, return the number of matches."""
        self.begin(self.finish)
        total = self.get(self.matches)
        if self.shape.as_rows:
            place = self.variable("0")
            head, body, over = self.label("map"), self.label("mapped"), self.label("end")
            self.jump(head)
            self.begin(head)
            here = self.get(place)
            self.branch(self.value(f"icmp slt i64 {here}, {total}"), body, over)
            self.begin(body)
            at = self.at(self.out[self.last], here, "i32")
            wide = self.value(f"sext i32 {self.value(f'load i32, ptr {at}, align 4')} to i64")
            self.emit(f"store i32 {self.int32_at(self.rows[self.last], wide)}, ptr {at}, align 4")
            self.set(place, self.value(f"add i64 {here}, 1"))
            self.jump(head)
            self.begin(over)
        for level in range(self.shape.prefix, self.last + 1):
            for offset, variable in ((0, self.candidates[level]), (1, self.passes[level])):
                at = self.at(self.counters, str(2 * level + offset), "i64")
                old = self.value(f"load i64, ptr {at}")
                self.emit(f"store i64 {self.value(f'add i64 {old}, {self.get(variable)}')}, ptr {at}")
        self.emit(f"ret i64 {total}")

    def _state(self, place: int) -> str:
        return self.value(f"load i64, ptr {self.at(self.state, str(place), 'i64')}")

    def _save(self, place: int, value: str | int) -> None:
        self.emit(f"store i64 {value}, ptr {self.at(self.state, str(place), 'i64')}")


NOT_FOUND = -1


def generate_search(shape: Shape) -> str:
    """The IR of a shape that searches."""
    return _Searching(shape).text()


class _Searching(ComparingText):
    """`run`: writes to the first output array, one int32 for each row of the prefix, and returns 0."""

    def text(self) -> str:
        self._build()
        return self.module_text(
            "run",
            "declare i32 @llvm.cttz.i32(i32, i1)",
            "declare i32 @llvm.ctlz.i32(i32, i1)",
        )

    def _build(self) -> None:
        outer = self.word(OUTER)
        out = self.pointer(self.places["out"])
        prefix = [self.pointer(self.places["prefix"] + level) for level in range(self.shape.prefix)]
        self.load_data()
        number, place = self.variable("0"), self.variable("0")
        found = self.variable(str(NOT_FOUND))
        self.jump("row")
        self.begin("row")
        row = self.get(number)
        self.branch(self.value(f"icmp slt i64 {row}, {outer}"), "bind", "over")
        self.begin("bind")
        self.index = [self.value(f"sext i32 {self.int32_at(array, row)} to i64") for array in prefix]
        start, end = self.range_of(self.last)
        splats = self.splats(self.last)
        self.set(place, start)
        self.set(found, str(NOT_FOUND))
        self.jump("chunk")
        self.begin("chunk")
        here = self.get(place)
        self.branch(self.value(f"icmp slt i64 {here}, {end}"), "test", "write")
        self.begin("test")
        mask = self.mask(self.last, here, end, splats)
        self.set(place, self.value(f"add i64 {here}, {WIDTH}"))
        self.branch(self.value(f"icmp ne i32 {mask}, 0"), "hit", "chunk")
        self.begin("hit")
        if self.shape.search is RangeResult.FIRST:
            bit = self.value(f"call i32 @llvm.cttz.i32(i32 {mask}, i1 true)")
        else:
            bit = self.value(f"sub i32 31, {self.value(f'call i32 @llvm.ctlz.i32(i32 {mask}, i1 true)')}")
        self.set(found, self.value(f"add i64 {here}, {self.value(f'zext i32 {bit} to i64')}"))
        self.jump("write" if self.shape.search is RangeResult.FIRST else "chunk")
        self.begin("write")
        narrow = self.value(f"trunc i64 {self.get(found)} to i32")
        self.emit(f"store i32 {narrow}, ptr {self.at(out, row, 'i32')}, align 4")
        self.set(number, self.value(f"add i64 {row}, 1"))
        self.jump("row")
        self.begin("over")
        self.emit("ret i64 0")


TOO_MANY = -1
"""The number that is written where there are more lists than the argument words allow."""
MOST_FOLLOWERS = 64
"""Candidates whose followers are a word each."""
_LONGS = f"<{WIDTH} x i64>"


def generate_counting(shape: Shape) -> str:
    """The IR of a shape that counts: how many candidates pass, or how many lists they make, or who follows whom."""
    kinds: dict[RangeResult, type[_Counting]] = {RangeResult.SIZES: _Sizes, RangeResult.FOLLOWERS: _Followers}
    assert shape.search is not None
    return kinds.get(shape.search, _Lists)(shape).text()


class _Counting(ComparingText, ABC):
    """`run`: writes to the first output array, one int64 for each row of the prefix, and returns 0."""

    def text(self) -> str:
        self._build()
        return self.module_text(
            "run",
            "declare i32 @llvm.ctpop.i32(i32)",
        )

    def _build(self) -> None:
        """A loop over the rows of the prefix; what is counted of each is `self.count`."""
        outer = self.word(OUTER)
        prefix = [self.pointer(self.places["prefix"] + level) for level in range(self.shape.prefix)]
        self.scratch, self.most = self.pointer(SCRATCH), self.word(CAPACITY)
        self.load_data()
        number = self.variable("0")
        self.counted = self.variable("0")
        self.jump("row")
        self.begin("row")
        row = self.get(number)
        self.branch(self.value(f"icmp slt i64 {row}, {outer}"), "bind", "over")
        self.begin("bind")
        self.index = [self.value(f"sext i32 {self.int32_at(array, row)} to i64") for array in prefix]
        start, end = self.range_of(self.shape.prefix)
        self.row_of_prefix = row
        self.set(self.counted, "0")
        self.count(start, end, "write")
        self.begin("write")
        self.write(self.at(self.pointer(self.places["out"]), row, "i64"))
        self.set(number, self.value(f"add i64 {row}, 1"))
        self.jump("row")
        self.begin("over")
        self.emit("ret i64 0")

    @abstractmethod
    def count(self, start: str, end: str, leave: str) -> None:
        """Set `self.counted` for the candidates in [start, end), and go on at `leave`."""

    def write(self, at: str) -> None:
        """Write what was counted."""
        self.emit(f"store i64 {self.get(self.counted)}, ptr {at}, align 8")

    def loop(self, hint: str, first: str, end: str, step: str) -> tuple[str, str, str]:
        """Begin the body of a loop: its place, and the labels of its head and of what follows."""
        place = self.variable(first)
        head, body, over = self.label(f"{hint}_head"), self.label(hint), self.label(f"{hint}_over")
        self.jump(head)
        self.begin(head)
        here = self.get(place)
        self.branch(self.value(f"icmp slt i64 {here}, {end}"), body, over)
        self.begin(body)
        self.set(place, self.value(f"add i64 {here}, {step}"))
        return here, head, over

    def after(self, here: str, start: str, end: str, splats: dict[Term, str]) -> tuple[str, str, str, str]:
        """Begin a loop over chunks of the last level behind a place: the mask of those that pass, the chunk, labels."""
        following = self.value(f"add i64 {here}, 1")
        on_grid = self.value(f"and i64 {self.value(f'sub i64 {following}, {start}')}, {-WIDTH}")
        chunk, head, over = self.loop("after", self.value(f"add i64 {start}, {on_grid}"), end, str(WIDTH))
        mask = self.mask(self.last, chunk, end, splats)
        skipped = self.value(f"sub i64 {following}, {chunk}")
        skipped = self.value(f"call i64 @llvm.smax.i64(i64 {skipped}, i64 0)")
        behind = self.value(f"shl i32 -1, {self.value(f'trunc i64 {skipped} to i32')}")
        return self.value(f"and i32 {mask}, {behind}"), chunk, head, over

    def as_bits(self, mask: str) -> str:
        """An i32 mask as a vector of bits."""
        return self.value(f"bitcast i{WIDTH} {self.value(f'trunc i32 {mask} to i{WIDTH}')} to {_BITS}")


class _Sizes(_Counting):
    """Counts the candidates that pass."""

    def count(self, start: str, end: str, leave: str) -> None:
        if not self.shape.levels[self.last].tests:
            width = self.value(f"sub i64 {end}, {start}")
            self.set(self.counted, self.value(f"call i64 @llvm.smax.i64(i64 {width}, i64 0)"))
            self.jump(leave)
            return
        splats = self.splats(self.last)
        here, head, over = self.loop("chunk", start, end, str(WIDTH))
        mask = self.mask(self.last, here, end, splats)
        self.add_to(self.counted, self.value(f"zext i32 {self.value(f'call i32 @llvm.ctpop.i32(i32 {mask})')} to i64"))
        self.jump(head)
        self.begin(over)
        self.jump(leave)


class _Lists(_Counting):
    """Counts the lists of candidates whose adjacent elements pass the tests of the shape's last level.

    Level `prefix` is an element, the last level the element after it. Each element in turn hands the number of lists
    that end with it on to those that may follow it: chunks lie on one grid, since a vector that is stored is soon
    loaded again.
    """

    def count(self, start: str, end: str, leave: str) -> None:
        earlier = self.shape.prefix
        from_first = self.shape.search is RangeResult.LISTS_FROM_FIRST
        unfit = self.splat("-1", "i64", WIDTH)
        alone = self.splat("0" if from_first else "1", "i64", WIDTH)
        splats = self.splats(earlier)
        # The lists that end with each candidate so far; -1 of one that cannot be an element.
        here, head, over = self.loop("chunk", start, end, str(WIDTH))
        bits = self.as_bits(self.mask(earlier, here, end, splats))
        ending = self.value(f"select {_BITS} {bits}, {_LONGS} {alone}, {_LONGS} {unfit}")
        self.emit(f"store {_LONGS} {ending}, ptr {self._ending(here, start)}, align 8")
        self.jump(head)
        self.begin(over)
        if from_first:
            self.emit(f"store i64 1, ptr {self.scratch}, align 8")
        here, head, over = self.loop("element", start, end, "1")
        lists = self.value(f"load i64, ptr {self._ending(here, start)}, align 8")
        some, within, beyond = self.label("some"), self.label("within"), self.label("beyond")
        self.branch(self.value(f"icmp sgt i64 {lists}, 0"), some, head)
        self.begin(some)
        self.add_to(self.counted, lists)
        # All lists so far bound each number to come.
        self.branch(self.value(f"icmp sgt i64 {self.get(self.counted)}, {self.most}"), beyond, within)
        self.begin(beyond)
        self.set(self.counted, str(TOO_MANY))
        self.jump(leave)
        self.begin(within)
        self.index.append(here)
        splats = self.splats(earlier + 1)
        handed_on = self.splat(lists, "i64", WIDTH)
        mask, chunk, next_chunk, done = self.after(here, start, end, splats)
        bits = self.as_bits(mask)
        at = self._ending(chunk, start)
        ending = self.value(f"load {_LONGS}, ptr {at}, align 8")
        fits = self.value(f"icmp sge {_LONGS} {ending}, zeroinitializer")
        bits = self.value(f"and {_BITS} {bits}, {fits}")
        more = self.value(f"add {_LONGS} {ending}, {handed_on}")
        ending = self.value(f"select {_BITS} {bits}, {_LONGS} {more}, {_LONGS} {ending}")
        self.emit(f"store {_LONGS} {ending}, ptr {at}, align 8")
        self.jump(next_chunk)
        self.index.pop()
        self.begin(done)
        self.jump(head)
        self.begin(over)
        self.jump(leave)

    def _ending(self, place: str, start: str) -> str:
        """The address of the number of lists that end with a candidate."""
        return self.at(self.scratch, self.value(f"sub i64 {place}, {start}"), "i64")


class _Followers(_Counting):
    """Writes which candidates may follow which: words of 64 bits, from the offset that its second array gives of a row.

    The first word are the candidates that can be elements, the others those that may follow each candidate. Nothing is
    written for a range of more than 64.
    """

    def count(self, start: str, end: str, leave: str) -> None:
        earlier = self.shape.prefix
        width = self.value(f"sub i64 {end}, {start}")
        some = self.value(f"icmp sgt i64 {width}, 0")
        few = self.value(f"icmp sle i64 {width}, {MOST_FOLLOWERS}")
        listed = self.label("listed")
        self.branch(self.value(f"and i1 {some}, {few}"), listed, leave)
        self.begin(listed)
        offset = self.at(self.pointer(self.places["out"] + 1), self.row_of_prefix, "i64")
        offset = self.value(f"load i64, ptr {offset}, align 8")
        words = self.at(self.pointer(self.places["out"]), offset, "i64")
        splats = self.splats(earlier)
        here, head, over = self.loop("chunk", start, end, str(WIDTH))
        self._add(self.counted, self.mask(earlier, here, end, splats), here, start)
        self.jump(head)
        self.begin(over)
        fitting = self.get(self.counted)
        self.emit(f"store i64 {fitting}, ptr {words}, align 8")
        word = self.variable("0")
        here, head, over = self.loop("element", start, end, "1")
        place = self.value(f"sub i64 {here}, {start}")
        self.set(word, "0")
        self.index.append(here)
        splats = self.splats(earlier + 1)
        mask, chunk, next_chunk, done = self.after(here, start, end, splats)
        self._add(word, mask, chunk, start)
        self.jump(next_chunk)
        self.index.pop()
        self.begin(done)
        followers = self.value(f"and i64 {self.get(word)}, {fitting}")
        at = self.at(words, self.value(f"add i64 {place}, 1"), "i64")
        self.emit(f"store i64 {followers}, ptr {at}, align 8")
        self.jump(head)
        self.begin(over)
        self.jump(leave)

    def write(self, at: str) -> None:
        """Write nothing more."""

    def _add(self, word: str, mask: str, chunk: str, start: str) -> None:
        bits = self.value(f"zext i32 {mask} to i64")
        shifted = self.value(f"shl i64 {bits}, {self.value(f'sub i64 {chunk}, {start}')}")
        self.set(word, self.value(f"or i64 {self.get(word)}, {shifted}"))
