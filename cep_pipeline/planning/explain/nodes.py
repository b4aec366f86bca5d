"""The tables of explain: the steps of an order, or the nodes of a tree as it stands, and what is tested at each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cep_pipeline.planning.clause_plans import ClausePlan, PlanNode, PlanStep
from cep_pipeline.planning.numbers.logarithms import format_ln, format_number, from_ln
from cep_pipeline.planning.trees import Join, Tree, leaves_of, nodes_of
from cep_pipeline.statistics.measured import Selectivity, Source

FAR_OFF = 10.0
"""An estimate is marked where more than so many times as much, or as little, has happened."""
FEW = 100.0
"""Of fewer than so many tests no selectivity is judged."""
LONGEST_LIST = 6
"""Of more variables only the first two and the last two are named."""
_TEXT = frozenset({"step", "binds", "node", "leaf", "condition", "rests on", "where", "pattern", "order or tree", ""})
"""Headings of the columns of text."""


class ObservedCounts(Protocol):
    """The counts of a node, as a mechanism's metrics have them (`NodeCounts`)."""

    @property
    def candidates(self) -> int: ...
    @property
    def passes(self) -> int: ...
    @property
    def created(self) -> int: ...
    @property
    def peak(self) -> int: ...
    @property
    def shared_with(self) -> Sequence[object]: ...


@dataclass(frozen=True)
class ObservedClause:
    """The observed counts of a clause.

    Attributes
    ----------
    windows
        How many times the time of a window has passed; None where it is not known.
    counts
        The variables bound at a node -> what happened there.
    """

    windows: float | None
    counts: Mapping[frozenset[str], ObservedCounts]


def node_lines(clause: ClausePlan, observed: ObservedClause | None = None) -> Iterator[str]:
    """The steps or the tree, what is tested where, and what has happened where that is known."""
    yield from in_columns(_steps(clause.steps) if clause.tree is None else _tree(clause, clause.tree), "    ")
    conditions = _conditions(clause)
    if len(conditions) > 1:
        yield ""
        yield from in_columns(conditions, "    ")
    if clause.negations:
        yield ""
        yield from (f"    {line}" for line in _negations(clause))
    if observed is not None:
        yield ""
        yield from in_columns(_happened(clause, observed), "    ")


def _steps(steps: Sequence[PlanStep]) -> list[tuple[str, ...]]:
    heading = ("step", "binds", "leaf", "events", "events/s", "in a window", "passing", "partial matches")
    rows: list[tuple[str, ...]] = [heading]
    earlier = 0.0
    for number, step in enumerate(steps, 1):
        passing = step.ln_partial_matches - earlier - step.ln_instances
        rows.append((str(number), step.variable, *_leaf(step), format_ln(min(passing, 0.0)), _alive(step)))
        earlier = step.ln_partial_matches
    return rows


def _leaf(step: PlanStep) -> tuple[str, ...]:
    events = "given" if step.count is None else f"{step.count:,}" if step.count else "0, as if 0.5"
    return step.leaf, events, format_number(step.rate_per_s), format_ln(step.ln_instances)


def _alive(expected: PlanStep | PlanNode) -> str:
    return format_ln(expected.ln_partial_matches)


def _tree(clause: ClausePlan, tree: Join) -> list[tuple[str, ...]]:
    """The nodes of the tree, each above those that it joins, with lines from the one to the others."""
    heading = ("node", "leaf", "events", "events/s", "in a window", "passing", "partial matches")
    rows: list[tuple[str, ...]] = [heading]
    expected = clause.expected
    numbers = node_names(clause)

    def add(node: Tree, own: str, below: str) -> None:
        found = expected.get(leaves_of(node))
        label = own + numbers[leaves_of(node)]
        if isinstance(found, PlanStep):
            passing = found.ln_partial_matches - found.ln_instances
            rows.append((label, *_leaf(found), format_ln(min(passing, 0.0)), _alive(found)))
        elif isinstance(node, Join) and found is not None:
            sides = (expected[leaves_of(node.left)], expected[leaves_of(node.right)])
            passing = found.ln_partial_matches - sum(side.ln_partial_matches for side in sides)
            rows.append((label, "", "", "", "", format_ln(min(passing, 0.0)), _alive(found)))
        else:
            rows.append((label, "", "", "", "", "", ""))
        if isinstance(node, str):
            return
        add(node.left, f"{below}|- ", f"{below}|  ")
        add(node.right, f"{below}`- ", f"{below}   ")

    add(tree, "", "")
    return rows


def node_names(clause: ClausePlan) -> dict[tuple[str, ...], str]:
    """The name of each step, leaf or join in the tables, by its variables in plan order."""
    if clause.tree is None:
        return {clause.order[: place + 1]: str(place + 1) for place in range(len(clause.order))}
    joins = [node.leaves for node in nodes_of(clause.tree) if isinstance(node, Join)]
    names = {(variable,): variable for variable in clause.order}
    return names | {leaves: f"join {number}: {listed(leaves)}" for number, leaves in enumerate(joins, 1)}


def listed(names: Sequence[str]) -> str:
    """The names, of many the first and the last ones.

    Examples
    --------
    >>> listed("abc"), listed("abcdefghij")
    ('a, b, c', 'a, b, ..., i, j')
    """
    if len(names) <= LONGEST_LIST:
        return ", ".join(names)
    return ", ".join((*names[:2], "...", *names[-2:]))


def _conditions(clause: ClausePlan) -> list[tuple[str, ...]]:
    what = "step" if clause.tree is None else "node"
    rows: list[tuple[str, ...]] = [(what, "condition", "selectivity", "rests on")]
    names = node_names(clause)
    for variables, expected in clause.expected.items():
        name = names[variables].partition(":")[0]
        if expected.order_share < 1 - 1e-12:
            rows.append((name, "temporal order", format_number(expected.order_share), "the pattern's order"))
        for condition in expected.conditions:
            selectivity = condition.selectivity
            evidence = _evidence(selectivity)
            if condition.correction is not None:
                evidence = f"together {format_number(condition.correction)} times what each alone says; {evidence}"
            rows.append((name, condition.text, format_number(selectivity.value), evidence))
    return rows


def _evidence(selectivity: Selectivity) -> str:
    match selectivity.source:
        case Source.ALL_PAIRS:
            return f"all {selectivity.pairs:,} pairs"
        case Source.SAMPLED_PAIRS:
            return f"{selectivity.tested:,} of {selectivity.pairs:,} pairs"
        case Source.OBSERVED:
            return f"{selectivity.tested:,} tested by detection"
        case Source.COMBINED:
            return f"{selectivity.tested:,} tested, in a sample and by detection"
        case Source.PRIOR:
            return "nothing measured: a prior by the condition's form"
        case Source.COUNT | Source.GIVEN | Source.WINDOW:
            return str(selectivity.source.value)


def _negations(clause: ClausePlan) -> Iterator[str]:
    names = node_names(clause)
    for negation in clause.negations:
        place = names.get(negation.asked_with, "").partition(":")[0]
        where = f"step {place}" if clause.tree is None else place
        reasons = [f"its place is said by the events of {listed(negation.between)}"]
        if negation.compared:
            reasons.append(f"it is compared with {listed(negation.compared)}")
        leaf = f"{negation.leaf}, {format_number(negation.rate_per_s)} events/s"
        yield f"~{negation.variable} ({leaf}) is asked at {where}, the earliest with all of these bound:"
        yield f"  {', and '.join(reasons)}"


def _happened(clause: ClausePlan, observed: ObservedClause) -> list[tuple[str, ...]]:
    """A table of the observed and the expected numbers of each node, and its sharers; `<<` marks estimates far off."""
    heading = ("step" if clause.tree is None else "node", "expected", "candidates", "passes", "of expected")
    rows: list[tuple[str, ...]] = [(*heading, "passing expected", "passing", "stored", "at most at a time", "")]
    names = node_names(clause)
    for variables, expected in clause.expected.items():
        name = names[variables].partition(":")[0]
        counts = observed.counts.get(frozenset(variables))
        if counts is None:
            rows.append((name, "", "", "", "", "", "", "", "", "the mechanism has no such node"))
            continue
        made = None if observed.windows is None else expected.ln_made + math.log(observed.windows)
        tests = [
            c.selectivity.value if c.correction is None else c.correction
            for c in expected.conditions
            if not c.agreement
        ]
        share, passing = math.prod(tests), counts.passes / counts.candidates if counts.candidates else 0.0
        judged = bool(tests) and counts.candidates >= FEW
        uses = len(counts.shared_with) + 1
        notes = [f"found once for {uses} uses"] if uses > 1 else []
        marks = []
        if made is not None and far_off(from_ln(made), counts.passes):
            marks.append("partial matches")
        if judged and far_off(share * counts.candidates, counts.passes):
            marks.append("selectivity")
        if marks:
            notes.append(f"<< {' and '.join(marks)} off by more than {FAR_OFF:g}x")
        rows.append(
            (
                name,
                "" if made is None else format_ln(made),
                f"{counts.candidates:,}",
                f"{counts.passes:,}",
                "" if made is None else format_number(counts.passes / max(from_ln(made), 1e-300)),
                format_number(share) if tests else "",
                format_number(passing) if tests and counts.candidates else "",
                f"{counts.created:,}" if counts.created else "",
                f"{counts.peak:,}" if counts.peak else "",
                "  ".join(notes),
            )
        )
    return rows


def far_off(expected: float, happened: float) -> bool:
    """True if an estimate was off by more than `FAR_OFF` times; numbers below one count as one.

    Examples
    --------
    >>> far_off(3.0, 31), far_off(0.001, 9), far_off(250.0, 24)
    (True, False, True)
    """
    one, other = max(expected, 1.0), max(happened, 1.0)
    return one > FAR_OFF * other or other > FAR_OFF * one


def in_columns(rows: Sequence[tuple[str, ...]], indent: str) -> Iterator[str]:
    """Columns side by side: numbers to the right, text to the left."""
    columns = list(zip(*rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [column[0] not in _TEXT for column in columns]
    for row in rows:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        yield (indent + "  ".join(cells)).rstrip()
