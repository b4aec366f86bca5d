"""What a decision about a plan comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from cep_pipeline.adaptation.checked import Checked, Verification
from cep_pipeline.adaptation.invariants import Invariant
from cep_pipeline.adaptation.thresholds import Deviation


class Violated(Sequence[Invariant]):
    """The violated invariants among the checks of a verdict, made when they are asked for: few rules ask."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def __len__(self) -> int:
        return len(self._verdict.violated)

    @overload
    def __getitem__(self, place: int) -> Invariant: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Invariant]: ...
    def __getitem__(self, place: int | slice) -> Invariant | Sequence[Invariant]:
        return self._verdict.violated[place]

    def __iter__(self) -> Iterator[Invariant]:
        return iter(self._verdict.violated)


class Verdict:
    """Whether to plan again, and why.

    Parameters
    ----------
    reason
        A sentence, or what writes it when somebody asks: decisions are many, and few are read.

    Attributes
    ----------
    replan
        Whether.
    said
        The reason, as it was given.
    checks
        What was looked at, up to the first violation; of a plan of many patterns together all of it.
    patterns
        Of a plan of many patterns together, those that are concerned; () all of them.
    """

    __slots__ = ("checks", "patterns", "replan", "said")

    def __init__(
        self,
        replan: bool,
        reason: str | Callable[[], str],
        checks: Sequence[Verification | Deviation] = (),
        patterns: tuple[str, ...] = (),
    ) -> None:
        self.replan, self.said, self.checks, self.patterns = replan, reason, checks, patterns

    @property
    def reason(self) -> str:
        """A sentence."""
        if not isinstance(self.said, str):
            self.said = self.said()
        return self.said

    @property
    def violated(self) -> tuple[Invariant, ...]:
        """The violated invariants among the checks."""
        if isinstance(self.checks, Checked):
            return self.checks.violated
        return tuple(one.invariant for one in self.checks if isinstance(one, Verification) and one.violated)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Verdict):
            return NotImplemented
        sides = [(one.replan, one.reason, tuple(one.checks), one.patterns) for one in (self, other)]
        return sides[0] == sides[1]

    def __hash__(self) -> int:
        return hash((self.replan, self.reason, self.patterns))

    def __repr__(self) -> str:
        return f"Verdict({self.replan}, {self.reason!r}, {self.checks!r}, {self.patterns!r})"
