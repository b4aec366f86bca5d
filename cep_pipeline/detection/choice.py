"""The choice of the mechanism that runs a pattern, and the reason for it in words for `explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.outputs import listed_because
from cep_pipeline.errors import InputError, UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern


def choose_mechanisms(patterns: Sequence[Pattern], mechanism: str | None = None) -> dict[str, str]:
    """The mechanism that runs each pattern, by the pattern's name: the one asked for, or the fastest that can.

    Raises
    ------
    InputError
        There is no such mechanism, or two patterns have one name.
    UnsupportedPattern
        The mechanism does not run a pattern; without one asked for: none does.
    """
    if mechanism is not None and mechanism not in MECHANISMS:
        raise InputError(f"there is no mechanism {mechanism!r}; there are: {', '.join(MECHANISMS)}")
    chosen: dict[str, str] = {}
    for pattern in patterns:
        if pattern.name in chosen:
            raise InputError(f"two patterns are named {pattern.name!r}; the tables are told apart by name: rename one")
        chosen[pattern.name] = mechanism if mechanism is not None else _fastest(pattern)
        MECHANISMS[chosen[pattern.name]].check(pattern)
    return chosen


def _fastest(pattern: Pattern) -> str:
    """The first of `MECHANISMS`, which go from fast to slow, that runs the pattern (the first of all if none does)."""
    for name in MECHANISMS:
        try:
            MECHANISMS[name].check(pattern)
        except UnsupportedPattern:
            continue
        return name
    return next(iter(MECHANISMS))


def check_options(chosen: Mapping[str, str], options: Sequence[str]) -> None:
    """Refuse options that the chosen mechanisms do not have: an InputError."""
    for option in options:
        for name in chosen.values():
            known = MECHANISMS[name].options
            if option not in known:
                others = f"; it knows {', '.join(known)}" if known else ""
                raise InputError(f"mechanism {name} has no option {option!r}{others}")


def in_pattern_order(chosen: Mapping[str, str]) -> set[str]:
    """The patterns whose mechanism, of those chosen, runs plans in the pattern's order only."""
    return {pattern for pattern, mechanism in chosen.items() if MECHANISMS[mechanism].in_pattern_order}


def explained_choice(patterns: Sequence[Pattern], mechanism: str | None = None) -> dict[str, str]:
    """Each pattern's mechanism and the reason for it, by the pattern's name; `Plan.explain` prints it.

    Of a pattern with Kleene variables it also says whether its matches are counted and compressed without being listed.

    Raises
    ------
    InputError, UnsupportedPattern
        As `choose_mechanisms`.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string"}})
    >>> text = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { a.kind < b.kind } WITHIN 1 second"
    >>> explained_choice(cep.parse_patterns(text, schema))["pattern_1"]
    'nfab, the fastest that runs it: no faster one runs the strategy skip_till_next_match'
    """
    chosen = choose_mechanisms(patterns, mechanism)
    if mechanism is not None:
        return {pattern.name: f"{mechanism}, as asked for{_on_lists(pattern)}" for pattern in patterns}
    return {
        pattern.name: f"{chosen[pattern.name]}, {_reason(pattern, chosen[pattern.name])}{_on_lists(pattern)}"
        for pattern in patterns
    }


def _on_lists(pattern: Pattern) -> str:
    if not any(operand.kleene for operand in pattern.operands):
        return ""
    reason = listed_because(pattern)
    if reason is None:
        return "; matches are counted and compressed without being listed"
    return f"; matches are listed to be counted or compressed (within --limit), because of {reason}"


def _reason(pattern: Pattern, chosen: str) -> str:
    refusals: dict[str, list[str]] = {}
    for faster in MECHANISMS:  # from fast to slow
        if faster == chosen:
            break
        try:
            MECHANISMS[faster].check(pattern)
        except UnsupportedPattern as refusal:
            refusals.setdefault(refusal.feature, []).append(faster)
    if not refusals:
        return "the fastest mechanism"
    if len(refusals) == 1 and len(next(iter(refusals.values()))) > 1:
        return f"the fastest that runs it: no faster one runs {next(iter(refusals))}"
    told = (
        f"{', '.join(names)} {'do' if len(names) > 1 else 'does'} not run {feature}"
        for feature, names in refusals.items()
    )
    return f"the fastest that runs it: {'; '.join(told)}"
