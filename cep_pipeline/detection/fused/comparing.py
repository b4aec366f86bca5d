"""IR of a level's tests: 16 places compared at a time, to a mask of those that pass."""

from __future__ import annotations

from cep_pipeline.compiled.ir_text import WIDTH, FunctionText
from cep_pipeline.detection.fused.shape import Constant, Operation, Shape, Slot, Term, Test, slots_of
from cep_pipeline.detection.fused.words import argument_places
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
        """What the tests of a level read of earlier levels only, computed once and spread over a vector."""
        splats: dict[Term, str] = {}
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

    def _scalar(self, term: Term) -> str:
        match term:
            case Slot(level, slot):
                at = self.at(self.columns[slot], self.index[level], "double")
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
        if not passed:
            return inside
        bits = self.value(f"zext i{WIDTH} {self.value(f'bitcast {_BITS} {passed} to i{WIDTH}')} to i32")
        return self.value(f"and i32 {bits}, {inside}")
