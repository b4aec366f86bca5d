"""Generate the LLVM IR of a search: for each partial match, one event of a range that passes tests.

It decides negation: the event that rejects a match need not be enumerated with others, the first one found is enough.
"""

from __future__ import annotations

from cep_pipeline.compiled.ir_text import WIDTH
from cep_pipeline.detection.fused.comparing import ComparingText
from cep_pipeline.detection.fused.shape import Search, Shape
from cep_pipeline.detection.fused.words import OUTER

NOT_FOUND = -1


def generate_search(shape: Shape) -> str:
    """The IR of a shape that searches."""
    return _Function(shape).text()


class _Function(ComparingText):
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
        if self.shape.search is Search.FIRST:
            bit = self.value(f"call i32 @llvm.cttz.i32(i32 {mask}, i1 true)")
        else:
            bit = self.value(f"sub i32 31, {self.value(f'call i32 @llvm.ctlz.i32(i32 {mask}, i1 true)')}")
        self.set(found, self.value(f"add i64 {here}, {self.value(f'zext i32 {bit} to i64')}"))
        self.jump("write" if self.shape.search is Search.FIRST else "chunk")
        self.begin("write")
        narrow = self.value(f"trunc i64 {self.get(found)} to i32")
        self.emit(f"store i32 {narrow}, ptr {self.at(out, row, 'i32')}, align 4")
        self.set(number, self.value(f"add i64 {row}, 1"))
        self.jump("row")
        self.begin("over")
        self.emit("ret i64 0")
