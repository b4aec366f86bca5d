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

from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.native import NativeKernel
from cep_pipeline.patterns.pattern import Pattern

ID_LENGTH = 32
"""Hexadecimal digits of an id."""
_LANES = 16
_BLOCK = 64
_LONGEST_SEQ = 20

_hash_bindings = NativeKernel(
    "cep_pipeline.detection.sha256_kernel",
    "hash_bindings",
    (
        "int64",
        "int64*",
        "int64*",
        "int32*",
        "uint8*",
        "int64*",
        "int64",
        "int64",
        "uint32*",
        "int64",
        "uint32*",
        "uint8*",
        "uint32*",
        "int64",
        "uint32*",
        "uint32*",
        "uint8*",
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
        whole = len(prefix) // _BLOCK * _BLOCK
        tail = prefix[whole:]
        tokens = [f",[{_canonical(name)},".encode() for name in names]
        token_ends = np.concatenate(([0], np.cumsum([len(token) for token in tokens])))
        longest = int(np.diff(offsets).max()) * (max(map(len, tokens)) + _LONGEST_SEQ + 1)
        capacity = (len(tail) + longest + 2 + 9 + _BLOCK - 1) // _BLOCK * _BLOCK
        text = np.zeros((_LANES, capacity), np.uint8)
        text[:, : len(tail)] = np.frombuffer(tail, np.uint8)
        schedule, state = np.zeros((_BLOCK, _LANES), np.uint32), np.zeros((17, _LANES), np.uint32)
        midstate = np.zeros(8, np.uint32)
        digits = np.empty((matches, ID_LENGTH), np.uint8)
        _hash_bindings(
            matches,
            np.ascontiguousarray(offsets, np.int64),
            np.ascontiguousarray(seqs, np.int64),
            np.ascontiguousarray(variables, np.int32),
            np.frombuffer(b"".join(tokens), np.uint8),
            token_ends.astype(np.int64),
            len(tokens),
            len(tail),
            np.frombuffer(prefix[:whole], "<u4"),
            whole // _BLOCK,
            midstate,
            text,
            text.view("<u4"),
            capacity,
            schedule,
            state,
            digits,
        )
        return _strings(digits)


def _canonical(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _strings(digits: Array) -> pa.Array:
    """Rows of ASCII characters, uint8 of shape (n, width), as Arrow strings without copying."""
    count, width = digits.shape
    ends = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(digits))
