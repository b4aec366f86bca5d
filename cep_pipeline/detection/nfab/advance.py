"""The kernel of the automaton, with both algorithms in one, so that it is compiled once."""

from __future__ import annotations

from typing import Any

from cep_pipeline.detection.nfab import words as at
from cep_pipeline.detection.nfab.backtrack import backtrack
from cep_pipeline.detection.nfab.simultaneous import advance_all


def advance(words: Any) -> int:
    """Read events until the end, or until room is wanted; the code of `words.py` says which."""
    if words[at.OPTIONS] & at.BACKTRACKING:
        return int(backtrack(words))
    return int(advance_all(words))
