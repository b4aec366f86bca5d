"""Generate the LLVM IR that counts the lists of a Kleene variable behind each partial match, without making them.

Without conditions between elements the number of candidates that pass says all. With conditions on adjacent elements
the lists that end with an element are one, that of the element alone, and those that end with an element before it that
it may follow: a sum over the candidates before it, 16 at a time.
"""

from __future__ import annotations

from cep_pipeline.detection.fused.comparing import DOUBLES, ComparingText
from cep_pipeline.detection.fused.ir_text import WIDTH
from cep_pipeline.detection.fused.shape import Search, Shape
from cep_pipeline.detection.fused.words import CAPACITY, OUTER, SCRATCH

TOO_MANY = -1
"""What is written where the lists are more than the argument words allow."""
_LONGS = f"<{WIDTH} x i64>"
_BITS = f"<{WIDTH} x i1>"


def generate_counting(shape: Shape) -> str:
    """The IR of a shape that counts: how many candidates pass, or how many lists they make."""
    function = _Sizes(shape) if shape.search is Search.SIZES else _Lists(shape)
    return function.text()


class _Counting(ComparingText):
    """`run`: writes to the first output array, one int64 for each row of the prefix, and returns 0."""

    def text(self) -> str:
        self._build()
        return "\n".join(
            (
                "declare i64 @llvm.smax.i64(i64, i64)",
                "declare i64 @llvm.smin.i64(i64, i64)",
                "declare i32 @llvm.ctpop.i32(i32)",
                f"declare i64 @llvm.vector.reduce.add.v{WIDTH}i64({_LONGS})",
                "declare double @llvm.fabs.f64(double)",
                "declare double @llvm.sqrt.f64(double)",
                f"declare {DOUBLES} @llvm.fabs.v{WIDTH}f64({DOUBLES})",
                f"declare {DOUBLES} @llvm.sqrt.v{WIDTH}f64({DOUBLES})",
                "define i64 @run(ptr noalias %words) {",
                "entry:",
                *self.allocas,
                "  br label %start",
                "start:",
                *self.lines,
                "}",
                "",
            )
        )

    def _build(self) -> None:
        """A loop over the rows of the prefix; what is counted of each is `self.count`."""
        outer = self.word(OUTER)
        out = self.pointer(self.places["out"])
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
        self.set(self.counted, "0")
        self.count(start, end, "write")
        self.begin("write")
        self.emit(f"store i64 {self.get(self.counted)}, ptr {self.at(out, row, 'i64')}, align 8")
        self.set(number, self.value(f"add i64 {row}, 1"))
        self.jump("row")
        self.begin("over")
        self.emit("ret i64 0")

    def count(self, start: str, end: str, leave: str) -> None:
        """Set `self.counted` for the candidates in [start, end), and go on at `leave`."""
        raise NotImplementedError

    def loop(self, hint: str, first: str, end: str, step: str) -> tuple[str, str, str, str]:
        """Begin the body of a loop: its place, and the labels of its head and of what follows; and its variable."""
        place = self.variable(first)
        head, body, over = self.label(f"{hint}_head"), self.label(hint), self.label(f"{hint}_over")
        self.jump(head)
        self.begin(head)
        here = self.get(place)
        self.branch(self.value(f"icmp slt i64 {here}, {end}"), body, over)
        self.begin(body)
        self.set(place, self.value(f"add i64 {here}, {step}"))
        return here, head, over, place

    def as_bits(self, mask: str) -> str:
        """An i32 mask as a vector of bits."""
        return self.value(f"bitcast i{WIDTH} {self.value(f'trunc i32 {mask} to i{WIDTH}')} to {_BITS}")


class _Sizes(_Counting):
    """How many candidates pass."""

    def count(self, start: str, end: str, leave: str) -> None:
        if not self.shape.levels[self.last].tests:
            width = self.value(f"sub i64 {end}, {start}")
            self.set(self.counted, self.value(f"call i64 @llvm.smax.i64(i64 {width}, i64 0)"))
            self.jump(leave)
            return
        splats = self.splats(self.last)
        here, head, over, _ = self.loop("chunk", start, end, str(WIDTH))
        mask = self.mask(self.last, here, end, splats)
        self.add_to(self.counted, self.value(f"zext i32 {self.value(f'call i32 @llvm.ctpop.i32(i32 {mask})')} to i64"))
        self.jump(head)
        self.begin(over)
        self.jump(leave)


class _Lists(_Counting):
    """How many lists the candidates make whose adjacent elements pass the tests of the shape's last level.

    Level `prefix` is an element, the last level the element before it. Behind a first element that is chosen already
    every list begins with that one: it is the first candidate.
    """

    def count(self, start: str, end: str, leave: str) -> None:
        later = self.shape.prefix
        splats = self.splats(later)
        from_first = self.shape.search is Search.LISTS_FROM_FIRST
        # Of each candidate 1 where it may stand alone; then the number of lists that end with it.
        here, head, over, _ = self.loop("chunk", start, end, str(WIDTH))
        bits = self.as_bits(self.mask(later, here, end, splats))
        ones = self.value(f"zext {_BITS} {bits} to {_LONGS}")
        offset = self.value(f"sub i64 {here}, {start}")
        self.emit(f"store {_LONGS} {ones}, ptr {self.at(self.scratch, offset, 'i64')}, align 8")
        self.jump(head)
        self.begin(over)
        here, head, over, _ = self.loop("element", start, end, "1")
        own = self.at(self.scratch, self.value(f"sub i64 {here}, {start}"), "i64")
        alone = self.value(f"load i64, ptr {own}, align 8")
        fits, ended = self.label("fits"), self.label("ended")
        self.branch(self.value(f"icmp ne i64 {alone}, 0"), fits, head)
        self.begin(fits)
        if from_first:
            alone = self.value(f"zext i1 {self.value(f'icmp eq i64 {here}, {start}')} to i64")
        self.index.append(here)
        splats = self.splats(later + 1)
        sums = self.vector_variable()
        before, chunk, summed, _ = self.loop("before", start, here, str(WIDTH))
        bits = self.as_bits(self.mask(later + 1, before, here, splats))
        at = self.at(self.scratch, self.value(f"sub i64 {before}, {start}"), "i64")
        ending = self.value(f"load {_LONGS}, ptr {at}, align 8")
        chosen = self.value(f"select {_BITS} {bits}, {_LONGS} {ending}, {_LONGS} zeroinitializer")
        total = self.value(f"add {_LONGS} {self.value(f'load {_LONGS}, ptr {sums}, align 64')}, {chosen}")
        self.emit(f"store {_LONGS} {total}, ptr {sums}, align 64")
        self.jump(chunk)
        self.begin(summed)
        total = self.value(f"load {_LONGS}, ptr {sums}, align 64")
        total = self.value(f"call i64 @llvm.vector.reduce.add.v{WIDTH}i64({_LONGS} {total})")
        lists = self.value(f"add i64 {total}, {alone}")
        self.emit(f"store i64 {lists}, ptr {own}, align 8")
        self.add_to(self.counted, lists)
        # All lists so far bound each sum to come.
        self.branch(self.value(f"icmp sgt i64 {self.get(self.counted)}, {self.most}"), ended, head)
        self.begin(ended)
        self.set(self.counted, str(TOO_MANY))
        self.jump(leave)
        self.index.pop()
        self.begin(over)
        self.jump(leave)

    def vector_variable(self) -> str:
        """A vector of sums in the entry block, set to zero here."""
        name = f"%s{self.label('')}"
        self.allocas.append(f"  {name} = alloca {_LONGS}, align 64")
        self.emit(f"store {_LONGS} zeroinitializer, ptr {name}, align 64")
        return name
