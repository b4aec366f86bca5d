"""Neighbourhoods of shared plans: how many members get a subpattern in common at once (MCEP [0111]-[0113])."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cep_pipeline.errors import InputError

MAX_TOGETHER = 64
"""Most members that a neighbour of `vertex:k` changes."""


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A neighbourhood function.

    Attributes
    ----------
    name
        `edge`, or `vertex:k`.
    together
        How many members a neighbour changes: 2, or up to k.

    Notes
    -----
    N_edge draws an edge and one of its common subpatterns, each such pair as often as any other; N_vertex^k draws a
    member, a subpattern that it has in common with some other, and up to k - 1 others that have it.

    Examples
    --------
    >>> Neighbourhood.of("vertex:4")
    Neighbourhood(name='vertex:4', together=4)
    """

    name: str
    together: int

    @classmethod
    def of(cls, name: str) -> Neighbourhood:
        """The neighbourhood of this name.

        Raises
        ------
        InputError
            There is none.
        """
        if name == "edge":
            return cls(name, 2)
        kind, _, number = name.partition(":")
        if kind == "vertex" and number.isascii() and number.isdigit() and 2 <= int(number) <= MAX_TOGETHER:
            return cls(name, int(number))
        raise InputError(
            f"there is no neighbourhood {name!r}; there are: edge, and vertex:K with K from 2 to {MAX_TOGETHER}"
        )

    def weight(self, uses: int) -> float:
        """How often a subpattern with so many uses is drawn."""
        return float(math.comb(uses, 2) if self.name == "edge" else uses)
