"""Generate the LLVM IR that counts the lists of a Kleene variable behind each partial match, without making them.

Without conditions between elements the number of candidates that pass says all. With conditions on adjacent elements
the lists that end with an element are one, that of the element alone, and those that end with an element before it that
it may follow: each element adds to 16 later ones at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from cep_pipeline.compiled.ir_text import WIDTH
from cep_pipeline.detection.fused.comparing import ComparingText
from cep_pipeline.detection.fused.shape import Search, Shape, Term
from cep_pipeline.detection.fused.words import CAPACITY, OUTER, SCRATCH

TOO_MANY = -1
"""What is written where the lists are more than the argument words allow."""
MOST_FOLLOWERS = 64
"""Candidates whose followers are a word each."""
_LONGS = f"<{WIDTH} x i64>"
_BITS = f"<{WIDTH} x i1>"


def generate_counting(shape: Shape) -> str:
    """The IR of a shape that counts: how many candidates pass, or how many lists they make, or who follows whom."""
    kinds: dict[Search, type[_Counting]] = {Search.SIZES: _Sizes, Search.FOLLOWERS: _Followers}
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
    """Which candidates may follow which: words of 64 bits from the offset of each row on that its second array gives.

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
        """Nothing more."""

    def _add(self, word: str, mask: str, chunk: str, start: str) -> None:
        bits = self.value(f"zext i32 {mask} to i64")
        shifted = self.value(f"shl i64 {bits}, {self.value(f'sub i64 {chunk}, {start}')}")
        self.set(word, self.value(f"or i64 {self.get(word)}, {shifted}"))
