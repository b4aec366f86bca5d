"""`match_id`: a hash of what a match is, the same on every plan, mechanism, slicing and rerun.

The id is the first 32 hexadecimal digits of the SHA-256 of the UTF-8 text of a JSON array without spaces:

    [stream, pattern name, match text, {parameter: [values]}, [[variable, seq], ...]]

The match text is the formatted statement without its OUTPUT, CONSUME and RETURN clauses. Parameters are the sets that
the statement uses: names and values in ascending order, so that the order in which a caller lists them is no matter.

Ids of many matches are hashed together: SHA-256 (FIPS 180-4) of many short texts, one in each of sixteen vector
lanes. The compression function is straight-line LLVM IR over `<16 x i32>` values, which LLVM fits to whatever vectors
the processor has; it is compiled once and kept as object code (`compiled/object_code.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from cep_pipeline.compiled import object_code
from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern

ID_LENGTH = 32
"""Hexadecimal digits of an id."""
MATCHES_AT_ONCE = 4096
"""Matches whose text is hashed together: it stays in the processor's cache."""
_LONGEST_SEQ = 20
_PADDING = 9
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)

_write_bindings = NativeKernel(
    "cep_pipeline.detection.bindings_kernel",
    "write_bindings",
    (
        *("int64", "int64*", "int64*", "int32*", "uint8*", "int64*"),
        *("int64", "int64", "int64", "uint8*", "int64", "int32*"),
    ),
)


@dataclass(frozen=True)
class MatchIdentity:
    """The part that the ids of a pattern's matches have in common.

    Attributes
    ----------
    prefix
        The canonical JSON up to the bindings.
    """

    prefix: str

    @classmethod
    def of(cls, pattern: Pattern) -> MatchIdentity:
        """The identity of a parsed pattern."""
        from cep_pipeline.language.formatter import match_text

        parameters = {name: sorted(set(map(_canonical, values))) for name, values in sorted(pattern.parameters)}
        listed = ",".join(f"{_canonical(name)}:[{','.join(values)}]" for name, values in parameters.items())
        head = [pattern.stream, pattern.name, match_text(pattern)]
        return cls(f"{_canonical(head)[:-1]},{{{listed}}},")

    def id_of(self, bindings: Iterable[tuple[str, int]]) -> str:
        """The id of one match, from its bindings in pattern order (the definition, used by tests and for one row).

        Examples
        --------
        >>> MatchIdentity('["s","p","PATTERN A a WITHIN 1 s",{},').id_of([("a", 7)])
        'd8b0bbc861277e0dcf46ff19d930a305'
        """
        text = f"{self.prefix}{_canonical([[variable, int(seq)] for variable, seq in bindings])}]"
        return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]

    def ids_of(self, offsets: Array, seqs: Array, variables: Array, names: Sequence[str]) -> pa.Array:
        """The ids of n matches.

        Parameters
        ----------
        offsets
            int64, shape (n + 1,): match m binds the elements from `offsets[m]` to `offsets[m + 1]`, at least one.
        seqs, variables
            int64 and int32, shape (elements,): each element's seq, and its variable as an index into `names`.
        names
            The names of the variables.

        Returns
        -------
        pa.Array
            string, length n, of at most 2**26 matches at once.
        """
        matches = len(offsets) - 1
        if matches == 0:
            return pa.array([], pa.string())
        prefix = self.prefix.encode() + b"["
        whole = len(prefix) // BLOCK_BYTES * BLOCK_BYTES
        value, tail = hash_whole_blocks(prefix[:whole]), prefix[whole:]
        tokens = [f",[{_canonical(name)},".encode() for name in names]
        token_ends = np.cumsum([0, *map(len, tokens)], dtype=np.int64)
        longest = int(np.diff(offsets).max()) * (max(map(len, tokens)) + _LONGEST_SEQ + 1)
        capacity = -(-(len(tail) + longest + 2 + _PADDING) // BLOCK_BYTES) * BLOCK_BYTES
        rows = -(-min(matches, MATCHES_AT_ONCE) // LANES) * LANES
        text = np.zeros((rows, capacity), np.uint8)
        text[:, : len(tail)] = np.frombuffer(tail, np.uint8)
        blocks = np.zeros(rows, np.int32)
        spelled = np.frombuffer(b"".join(tokens), np.uint8)
        seqs = np.ascontiguousarray(seqs, np.int64)
        variables = np.ascontiguousarray(variables, np.int32)
        digits = np.empty((matches, ID_LENGTH // 2), np.uint16)
        for start in range(0, matches, rows):
            stop = min(start + rows, matches)
            ends = np.ascontiguousarray(offsets[start : stop + 1], np.int64)
            part = slice(int(ends[0]), int(ends[-1]))
            blocks[stop - start :] = 0
            _write_bindings(
                stop - start,
                ends - ends[0],
                seqs[part],
                variables[part],
                spelled,
                token_ends,
                len(tokens),
                len(tail),
                whole,
                text,
                capacity,
                blocks,
            )
            words = hash_rows(text, blocks, value)[: stop - start, : ID_LENGTH // 8]
            digits[start:stop] = _HEX[np.ascontiguousarray(words, ">u4").view(np.uint8)]
        return _strings(digits.view(np.uint8))


def _canonical(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _strings(digits: Array) -> pa.Array:
    """Rows of ASCII characters, uint8 of shape (n, width), as Arrow strings without copying."""
    count, width = digits.shape
    ends = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(digits))


LANES = 16
BLOCK_BYTES = 64
INITIAL = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
"""The hash value before the first block (section 5.3.3)."""
CONSTANTS = (
    *(0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1, 0x923F82A4, 0xAB1C5ED5),
    *(0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3, 0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174),
    *(0xE49B69C1, 0xEFBE4786, 0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA),
    *(0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7, 0xC6E00BF3, 0xD5A79147, 0x06CA6351, 0x14292967),
    *(0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13, 0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85),
    *(0xA2BFE8A1, 0xA81A664B, 0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070),
    *(0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A, 0x5B9CCA4F, 0x682E6FF3),
    *(0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208, 0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2),
)
"""K of section 4.2.2."""
_VECTOR = f"<{LANES} x i32>"
_POINTERS = f"<{LANES} x ptr>"


def hash_rows(text: Array, blocks: Array, value: Array) -> Array:
    """Hash values of padded texts.

    Parameters
    ----------
    text
        uint8, shape (n, 64 * most blocks), n a multiple of 16: each row a text with its padding.
    blocks
        int32, shape (n,): the blocks of each row.
    value
        uint32, shape (8,): the hash value that every row starts from.

    Returns
    -------
    Array
        uint32, shape (n, 8).
    """
    return _hash(text, text.shape[1], blocks, value)


def hash_whole_blocks(text: bytes) -> Array:
    """The hash value after a text of whole blocks, before any padding: uint32, shape (8,)."""
    row = np.frombuffer(text, np.uint8)
    blocks = np.full(LANES, len(text) // BLOCK_BYTES, np.int32)
    value: Array = _hash(row, 0, blocks, np.array(INITIAL, np.uint32))[0]  # every lane reads the same text
    return value


def _hash(text: Array, stride: int, blocks: Array, value: Array) -> Array:
    groups = len(blocks) // LANES
    words = np.empty((groups, 8, LANES), np.uint32)
    arguments = (text.ctypes.data, stride, blocks.ctypes.data, value.ctypes.data, words.ctypes.data)
    object_code.library(compression_ir()).function("hash_groups", 6)(groups, *arguments)
    return np.ascontiguousarray(words.transpose(0, 2, 1)).reshape(-1, 8)


@cache
def compression_ir() -> str:
    """The IR of `hash_groups(groups, text, stride, blocks, value, words)`."""
    return _Emitter().module()


class _Emitter:
    """Emits one instruction after another and names their values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def value(self, instruction: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {instruction}")
        return f"%v{self.count}"

    def operate(self, operator: str, left: str, right: str) -> str:
        return self.value(f"{operator} {_VECTOR} {left}, {right}")

    def add(self, *terms: str) -> str:
        total, *others = terms
        for term in others:
            total = self.operate("add", total, term)
        return total

    def xor(self, first: str, second: str, third: str) -> str:
        return self.operate("xor", self.operate("xor", first, second), third)

    def rotate(self, x: str, bits: int) -> str:
        return self.value(f"call {_VECTOR} @llvm.fshr.v16i32({_VECTOR} {x}, {_VECTOR} {x}, {_VECTOR} {_splat(bits)})")

    def module(self) -> str:
        offsets = ", ".join(f"i64 {lane}" for lane in range(LANES))
        state = [f"%h{i}" for i in range(8)]
        self.lines = []
        schedule = self._message()
        working = self._rounds(state, schedule)
        sums = [self.add(before, after) for before, after in zip(state, working, strict=True)]
        number = self.value("trunc i64 %block to i32")
        first = self.value(f"insertelement {_VECTOR} zeroinitializer, i32 {number}, i64 0")
        every = self.value(f"shufflevector {_VECTOR} {first}, {_VECTOR} zeroinitializer, {_VECTOR} zeroinitializer")
        live = self.value(f"icmp slt {_VECTOR} {every}, %blocks")
        after = [
            self.value(f"select <{LANES} x i1> {live}, {_VECTOR} {new}, {_VECTOR} {old}")
            for new, old in zip(sums, state, strict=True)
        ]
        body = "\n".join(self.lines)
        initial = "\n".join(
            f"""  %i{i}.p = getelementptr i32, ptr %value, i64 {i}
  %i{i}.w = load i32, ptr %i{i}.p
  %i{i}.v = insertelement {_VECTOR} zeroinitializer, i32 %i{i}.w, i64 0
  %i{i} = shufflevector {_VECTOR} %i{i}.v, {_VECTOR} zeroinitializer, {_VECTOR} zeroinitializer"""
            for i in range(8)
        )
        carried = "\n".join(f"  %h{i} = phi {_VECTOR} [ %i{i}, %group ], [ {after[i]}, %rounds ]" for i in range(8))
        stored = "\n".join(
            f"""  %o{i} = getelementptr {_VECTOR}, ptr %words, i64 %row8.{i}
  store {_VECTOR} %h{i}, ptr %o{i}, align 4"""
            for i in range(8)
        )
        numbered = "\n".join(f"  %row8.{i} = add i64 %row8, {i}" for i in range(8))
        return f"""
declare {_VECTOR} @llvm.fshr.v16i32({_VECTOR}, {_VECTOR}, {_VECTOR})
declare {_VECTOR} @llvm.bswap.v16i32({_VECTOR})
declare i32 @llvm.vector.reduce.smax.v16i32({_VECTOR})

define i64 @hash_groups(i64 %groups, ptr %text, i64 %stride, ptr %row.blocks, ptr %value, ptr noalias %words) {{
entry:
{initial}
  %strides.1 = insertelement <{LANES} x i64> zeroinitializer, i64 %stride, i64 0
  %strides = shufflevector <{LANES} x i64> %strides.1, <{LANES} x i64> zeroinitializer, {_VECTOR} zeroinitializer
  %offsets = mul <{LANES} x i64> %strides, <{offsets}>
  %group.stride = mul i64 %stride, {LANES}
  br label %groups.head
groups.head:
  %g = phi i64 [ 0, %entry ], [ %g.next, %done ]
  %more = icmp slt i64 %g, %groups
  br i1 %more, label %group, label %leave
group:
  %blocks.p = getelementptr {_VECTOR}, ptr %row.blocks, i64 %g
  %blocks = load {_VECTOR}, ptr %blocks.p, align 4
  %most.32 = call i32 @llvm.vector.reduce.smax.v16i32({_VECTOR} %blocks)
  %most = sext i32 %most.32 to i64
  %group.offset = mul i64 %g, %group.stride
  %group.text = getelementptr i8, ptr %text, i64 %group.offset
  %rows = getelementptr i8, ptr %group.text, <{LANES} x i64> %offsets
  br label %blocks.head
blocks.head:
  %block = phi i64 [ 0, %group ], [ %block.next, %rounds ]
{carried}
  %unfinished = icmp slt i64 %block, %most
  br i1 %unfinished, label %rounds, label %done
rounds:
  %at = mul i64 %block, {BLOCK_BYTES}
{body}
  %block.next = add i64 %block, 1
  br label %blocks.head
done:
  %row8 = mul i64 %g, 8
{numbered}
{stored}
  %g.next = add i64 %g, 1
  br label %groups.head
leave:
  ret i64 %groups
}}
"""

    def _message(self) -> list[str]:
        """The sixteen words of each lane's block: rows of the text, transposed, most significant byte first."""
        rows = []
        for lane in range(LANES):
            row = self.value(f"extractelement {_POINTERS} %rows, i64 {lane}")
            place = self.value(f"getelementptr i8, ptr {row}, i64 %at")
            rows.append(self.value(f"load {_VECTOR}, ptr {place}, align 1"))
        for size in (8, 4, 2, 1):  # exchange the blocks beside the diagonal, ever smaller ones
            low = [j if not j & size else LANES + j - size for j in range(LANES)]
            high = [j + size if not j & size else LANES + j for j in range(LANES)]
            for i in range(LANES):
                if not i & size:
                    one, other = rows[i], rows[i + size]
                    rows[i], rows[i + size] = self._shuffle(one, other, low), self._shuffle(one, other, high)
        return [self.value(f"call {_VECTOR} @llvm.bswap.v16i32({_VECTOR} {row})") for row in rows]

    def _shuffle(self, one: str, other: str, places: list[int]) -> str:
        chosen = ", ".join(f"i32 {place}" for place in places)
        return self.value(f"shufflevector {_VECTOR} {one}, {_VECTOR} {other}, {_VECTOR} <{chosen}>")

    def _rounds(self, state: list[str], schedule: list[str]) -> list[str]:
        """The 64 steps of section 6.2.2 on the working variables."""
        a, b, c, d, e, f, g, h = state
        for t in range(64):
            if t >= 16:
                schedule.append(self._scheduled(schedule, t))
            choice = self.operate("xor", g, self.operate("and", e, self.operate("xor", f, g)))
            majority = self.operate("or", self.operate("and", a, b), self.operate("and", c, self.operate("or", a, b)))
            sigma_1 = self.xor(self.rotate(e, 6), self.rotate(e, 11), self.rotate(e, 25))
            sigma_0 = self.xor(self.rotate(a, 2), self.rotate(a, 13), self.rotate(a, 22))
            t1 = self.add(h, self.add(schedule[t], _splat(CONSTANTS[t])), choice, sigma_1)
            h, g, f, e, d, c, b, a = g, f, e, self.add(d, t1), c, b, a, self.add(t1, self.add(sigma_0, majority))
        return [a, b, c, d, e, f, g, h]

    def _scheduled(self, schedule: list[str], t: int) -> str:
        x, y = schedule[t - 15], schedule[t - 2]
        sigma_0 = self.xor(self.rotate(x, 7), self.rotate(x, 18), self.operate("lshr", x, _splat(3)))
        sigma_1 = self.xor(self.rotate(y, 17), self.rotate(y, 19), self.operate("lshr", y, _splat(10)))
        return self.add(schedule[t - 16], schedule[t - 7], sigma_0, sigma_1)


def _splat(number: int) -> str:
    return f"<{', '.join([f'i32 {number}'] * LANES)}>"
