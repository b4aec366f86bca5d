"""Generate the LLVM IR that counts the lists of a Kleene variable behind each partial match, without making them.

Without conditions between elements the number of candidates that pass says all. With conditions on adjacent elements
the lists that end with an element are one, that of the element alone, and those that end with an element before it that
it may follow: each element adds to 16 later ones at a time.
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
        here, head, over = self.loop("chunk", start, end, str(WIDTH))
        mask = self.mask(self.last, here, end, splats)
        self.add_to(self.counted, self.value(f"zext i32 {self.value(f'call i32 @llvm.ctpop.i32(i32 {mask})')} to i64"))
        self.jump(head)
        self.begin(over)
        self.jump(leave)


class _Lists(_Counting):
    """How many lists the candidates make whose adjacent elements pass the tests of the shape's last level.

    Level `prefix` is an element, the last level the element after it. Each element in turn hands the number of lists
    that end with it on to those that may follow it: chunks lie on one grid, since a vector that is stored is soon
    loaded again.
    """

    def count(self, start: str, end: str, leave: str) -> None:
        earlier = self.shape.prefix
        from_first = self.shape.search is Search.LISTS_FROM_FIRST
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
        following = self.value(f"add i64 {here}, 1")
        on_grid = self.value(f"and i64 {self.value(f'sub i64 {following}, {start}')}, {-WIDTH}")
        first = self.value(f"add i64 {start}, {on_grid}")
        chunk, next_chunk, done = self.loop("after", first, end, str(WIDTH))
        mask = self.mask(earlier + 1, chunk, end, splats)
        skipped = self.value(f"sub i64 {following}, {chunk}")
        skipped = self.value(f"call i64 @llvm.smax.i64(i64 {skipped}, i64 0)")
        behind = self.value(f"shl i32 -1, {self.value(f'trunc i64 {skipped} to i32')}")
        bits = self.as_bits(self.value(f"and i32 {mask}, {behind}"))
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
