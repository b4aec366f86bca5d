"""`match_id`: a hash of what a match is, the same on every plan, mechanism, slicing and rerun.

The id is the first 32 hexadecimal digits of the SHA-256 of the UTF-8 text of a JSON array without spaces:

    [stream, pattern name, match text, {parameter: [values]}, [[variable, seq], ...]]

The match text is the formatted statement without its OUTPUT, CONSUME and RETURN clauses. Parameters are the sets that
the statement uses: names and values in ascending order, so that the order in which a caller lists them is no matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.sha256 import BLOCK_BYTES, LANES, hash_rows, hash_whole_blocks
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
    """What the ids of a pattern's matches have in common.

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
