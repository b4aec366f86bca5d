"""Hypothesis strategies for statements of the pattern language, over the schema of `tests.streams`.

`Features` says what the texts may use, so that a slice of the language can be drawn alone. Every text is valid: the
structure has a positive variable in each branch, a condition mentions one negated variable at most, and what section 4
of the language page refuses is not made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tests.streams import TYPES, mostly


@dataclass(frozen=True)
class Features:
    """What a text may use.

    Attributes
    ----------
    nested
        Composite operands, and OR.
    negation, kleene, count_windows, partition_by, output, consume, returns, parameters
        The operator or clause of that name.
    ties
        Values of TIES.
    strategies
        Selection strategies.
    chains
        Under skip_till_any_match only SEQ of single operands, or an OR of such.
    max_operands
        Most operands of an operator.
    max_condition_variables
        Most variables of one top-level condition.
    lists
        Conditions with corr over list attributes.
    clock
        Conditions over `timestamp` and `seq`.
    """

    nested: bool = False
    chains: bool = False
    negation: bool = False
    kleene: bool = False
    count_windows: bool = False
    partition_by: bool = True
    output: bool = False
    consume: bool = False
    returns: bool = True
    parameters: bool = True
    ties: tuple[str, ...] = ("ARRIVAL", "STRICT", "ANY")
    strategies: tuple[str, ...] = ("skip_till_any_match",)
    max_operands: int = 4
    max_condition_variables: int = 2
    lists: bool = True
    clock: bool = True


FIRST_SLICE = Features()
"""SEQ and AND of single events under skip_till_any_match with conditions over one or two variables, in time windows."""

POSITIVE_LANGUAGE = Features(nested=True, kleene=True, count_windows=True, max_operands=3)
"""Everything under skip_till_any_match without negation, OUTPUT and CONSUME."""

ANY_MATCH_LANGUAGE = Features(
    nested=True,
    negation=True,
    kleene=True,
    count_windows=True,
    output=True,
    consume=True,
    max_operands=3,
    max_condition_variables=3,
)
"""Everything under skip_till_any_match."""

WHOLE_LANGUAGE = Features(
    nested=True,
    negation=True,
    kleene=True,
    count_windows=True,
    output=True,
    consume=True,
    max_operands=3,
    max_condition_variables=3,
    strategies=("skip_till_any_match", "skip_till_next_match", "partition_contiguity", "strict_contiguity"),
)
"""Every operator, clause and strategy."""


@dataclass(frozen=True)
class Operand:
    """An event operand of a drawn structure."""

    name: str
    type: str
    kleene: bool
    negated: bool


@dataclass(frozen=True)
class _Composite:
    operator: str
    operands: tuple[Operand | _Composite, ...]


@dataclass(frozen=True)
class Statement:
    """A drawn statement in parts, so that a test can make another statement of it.

    Attributes
    ----------
    operands
        The event operands of the structure, in pattern order.
    structure, strategy, conditions, window, clauses
        Text of the structure, the strategy (None: not written), the conditions (all must hold), the window, and the
        clauses after it.
    """

    operands: tuple[Operand, ...]
    structure: str
    strategy: str | None
    conditions: tuple[str, ...]
    window: str
    clauses: tuple[str, ...]

    @property
    def text(self) -> str:
        condition = " AND ".join(self.conditions)
        parts = [f"PATTERN {self.structure}"]
        if self.strategy:
            parts.append(f"WHERE {self.strategy} {{ {condition or '1 = 1'} }}")
        elif condition:
            parts.append(f"WHERE {condition}")
        return " ".join([*parts, f"WITHIN {self.window}", *self.clauses])

    @property
    def params(self) -> dict[str, list[Any]]:
        """The values of those parameters that the text uses."""
        text = self.text
        return {name: list(values) for name, values in PARAMETERS.items() if f"${name}" in text}

    def having(self, condition: str) -> Statement:
        """The statement with one more condition."""
        return replace(self, conditions=(*self.conditions, f"({condition})"))

    def partitioned_by(self, attribute: str) -> Statement:
        """The statement with PARTITION BY one attribute."""
        others = (clause for clause in self.clauses if not clause.startswith("PARTITION BY"))
        return replace(self, clauses=(f"PARTITION BY {attribute}", *others))

    def within(self, window: str) -> Statement:
        """The statement with another window."""
        return replace(self, window=window)


PARAMETERS: Mapping[str, Sequence[Any]] = {
    "numbers": [1, 2.0, 3, 9007199254740993, 4.5],
    "labels": ["p", "é", "zz"],
}


TIME_WINDOWS = ("1 us", "1500 ms", "2 seconds", "3 seconds", "5 seconds", "0.2 minutes", "1 day")
"""From the shortest to the longest."""


@st.composite
def statements(draw: st.DrawFn, features: Features) -> Statement:
    """One statement that uses no more than the features."""
    strategy = draw(st.sampled_from(features.strategies))
    names = iter("abcdefghijklmnopqrstuvwxyz")
    any_match = strategy == "skip_till_any_match"
    in_order = not any_match or features.chains
    structure = _run_structure(draw, features, names) if in_order else _any_structure(draw, features, names)
    operands = _operands(structure)
    written = not any_match or draw(st.integers(0, 5)) == 5
    ties = features.ties if any_match else tuple(mode for mode in features.ties if mode != "ANY")
    clauses = []
    if features.partition_by and draw(st.integers(0, 4)) == 4:
        clauses.append(f"PARTITION BY {draw(st.sampled_from(['id', 's', 'id, s', 'y']))}")
    clauses.append(f"TIES {draw(st.sampled_from(ties))}")
    if features.output and draw(st.integers(0, 4)) == 4:
        clauses.append("OUTPUT NON_OVERLAP")
    if features.consume and draw(st.integers(0, 4)) == 4:
        clauses.append("CONSUME MATCHED")
    if features.returns and draw(st.integers(0, 3)) == 3:
        item = _return_items([operand for operand in operands if not operand.negated])
        items = draw(st.lists(item, min_size=1, max_size=3))
        clauses.append("RETURN " + ", ".join(f"{item} AS r{index}" for index, item in enumerate(items)))
    return Statement(
        operands=tuple(operands),
        structure=_structure_text(structure),
        strategy=strategy if written else None,
        conditions=tuple(_conditions(draw, features, operands)),
        window=draw(_windows(features)),
        clauses=tuple(clauses),
    )


@st.composite
def conditions(draw: st.DrawFn, features: Features, operands: Sequence[Operand]) -> str:
    """A condition over event operands of a structure."""
    return draw(_condition(features, _chosen(draw, features, operands), 1))


def _windows(features: Features) -> st.SearchStrategy[str]:
    time = st.sampled_from(TIME_WINDOWS[::-1])
    if not features.count_windows:
        return time
    return mostly(time, st.integers(1, 7).map(lambda size: f"{size} EVENTS"))


# --- structures --------------------------------------------------------------------------------------------------


def _operand(
    draw: st.DrawFn, names: Any, *, kleene: bool, negated: bool, types: Sequence[str] = (*TYPES, "Ev")
) -> Operand:
    event_type = draw(st.sampled_from(types))
    return Operand(next(names), event_type, kleene, negated)


def _any_structure(draw: st.DrawFn, features: Features, names: Any) -> Operand | _Composite:
    """A structure under skip_till_any_match.

    At most two variables are Kleene variables, and the second one is of a rare type, lest the answers explode.
    """
    budget = {"kleene": 2, "events": 5}

    def single(positive: bool) -> Operand:
        negated = features.negation and not positive and draw(st.booleans())
        kleene = features.kleene and not negated and budget["kleene"] > 0 and draw(st.integers(0, 3)) == 3
        rare = kleene and budget["kleene"] == 1
        budget["kleene"] -= kleene
        budget["events"] -= 1
        return _operand(draw, names, kleene=kleene, negated=negated, types=("C", "X.1") if rare else (*TYPES, "Ev"))

    def part(positive: bool, depth: int) -> Operand | _Composite:
        if not features.nested or depth == 0 or budget["events"] <= 1 or draw(st.integers(0, 2)) < 2:
            return single(positive)
        return composite(positive, depth - 1)

    def composite(positive: bool, depth: int) -> _Composite:
        operator = draw(st.sampled_from(["SEQ", "SEQ", "AND", "OR"] if features.nested else ["SEQ", "AND"]))
        size = draw(st.sampled_from([2, 3, 1, *range(2, features.max_operands + 1)]))
        obliged = draw(st.integers(0, size - 1))
        operands = []
        for place in range(size):
            if place > obliged and budget["events"] <= 0:
                break
            operands.append(part(positive and (operator == "OR" or place == obliged), depth))
        return _Composite(operator, tuple(operands))

    if draw(st.integers(0, 9)) == 9:
        return single(True)
    return composite(True, 2)


def _run_structure(draw: st.DrawFn, features: Features, names: Any) -> Operand | _Composite:
    """A chain, an AND of single events, or an OR of such: what the strategies of section 4 run."""

    def branch() -> Operand | _Composite:
        operator = "SEQ" if features.chains else draw(st.sampled_from(["SEQ", "SEQ", "AND"]))
        size = draw(st.sampled_from([2, 3, 1, *range(2, features.max_operands + 1)]))
        obliged = draw(st.integers(0, size - 1))
        operands = []
        for place in range(size):
            negated = features.negation and place != obliged and draw(st.integers(0, 3)) == 3
            kleene = features.kleene and operator == "SEQ" and not negated and draw(st.integers(0, 2)) == 0
            rare = features.chains and kleene and any(operand.kleene for operand in operands)
            types = ("C", "X.1") if rare else (*TYPES, "Ev")
            operands.append(_operand(draw, names, kleene=kleene, negated=negated, types=types))
        return _Composite(operator, tuple(operands))

    if features.nested and draw(st.integers(0, 3)) == 3:
        return _Composite("OR", tuple(branch() for _ in range(draw(st.integers(1, 2)))))
    return branch()


def _operands(structure: Operand | _Composite) -> list[Operand]:
    if isinstance(structure, Operand):
        return [structure]
    return [operand for part in structure.operands for operand in _operands(part)]


def _structure_text(structure: Operand | _Composite) -> str:
    if isinstance(structure, _Composite):
        return f"{structure.operator}({', '.join(_structure_text(operand) for operand in structure.operands)})"
    event_type = structure.type if structure.type.isidentifier() else f'"{structure.type}"'
    if structure.negated:
        return f"~{event_type} {structure.name}"
    return f"{event_type}+ {structure.name}[]" if structure.kleene else f"{event_type} {structure.name}"


# --- conditions --------------------------------------------------------------------------------------------------


def _conditions(draw: st.DrawFn, features: Features, operands: Sequence[Operand]) -> list[str]:
    conditions = []
    for _ in range(draw(st.sampled_from([1, 0, 1, 2, 1, 0, 3]))):
        if draw(st.integers(0, 7)) == 7:
            conditions.append(draw(st.sampled_from(["[id]", "[s]", "[id, s]", "[f]"])))
        else:
            variables = _chosen(draw, features, operands)
            conditions.append(draw(_condition(features, variables, 2)))
    return conditions


def _chosen(draw: st.DrawFn, features: Features, operands: Sequence[Operand]) -> list[Operand]:
    """The variables of one top-level condition, one negated variable at most."""
    size = draw(st.integers(1, features.max_condition_variables))
    chosen: list[Operand] = []
    for operand in draw(st.permutations(operands)):
        if len(chosen) < size and not (operand.negated and any(other.negated for other in chosen)):
            chosen.append(operand)
    return chosen


def _condition(features: Features, variables: Sequence[Operand], depth: int) -> st.SearchStrategy[str]:
    atom = _atom(features, variables)
    if depth == 0:
        return atom
    inner = _condition(features, variables, depth - 1)
    return mostly(
        atom,
        st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "OR", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})"),
            inner.map(lambda text: f"NOT ({text})"),
        ),
    )


def _atom(features: Features, variables: Sequence[Operand]) -> st.SearchStrategy[str]:
    number = _number(features, variables, 1)
    label = _attribute(variables, "s")
    flag = _attribute(variables, "f")
    order = st.sampled_from(["<", "<=", ">", ">=", "=", "!=", "<", ">"])
    equality = st.sampled_from(["=", "==", "!=", "<>"])
    texts = st.sampled_from(["'p'", "'q'", "'é'", "'it''s'"])
    maybe_not = st.sampled_from(["", "NOT "])
    kinds = [
        *[_joined(number, order, number)] * 4,
        _joined(number, order, st.sampled_from(NUMBERS)),
        _joined(label, order, st.one_of(label, texts)),
        _joined(flag, equality, st.one_of(flag, st.sampled_from(["TRUE", "FALSE"]))),
        st.tuples(number, maybe_not, number, number).map(lambda p: f"{p[0]} {p[1]}BETWEEN {p[2]} AND {p[3]}"),
        st.tuples(number, maybe_not, st.lists(st.sampled_from(MEMBERS), min_size=1, max_size=3)).map(
            lambda p: f"{p[0]} {p[1]}IN ({', '.join(p[2])})"
        ),
        st.tuples(label, maybe_not).map(lambda p: f"{p[0]} {p[1]}IN ('p', 'é')"),
    ]
    if features.parameters:
        kinds.append(st.tuples(number, maybe_not).map(lambda p: f"{p[0]} {p[1]}IN $numbers"))
        kinds.append(st.tuples(label, maybe_not).map(lambda p: f"{p[0]} {p[1]}IN $labels"))
    if features.lists:
        lists = _attribute(variables, "h")
        limits = st.sampled_from(["-0.413", "0.123", "0.377", "0.913"])
        kinds.append(
            st.tuples(lists, lists, st.sampled_from(["<", ">"]), limits).map(
                lambda p: f"corr({p[0]}, {p[1]}) {p[2]} {p[3]}"
            )
        )
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


NUMBERS = ("0", "1", "2.5", "3", "50%", "1e3", "9007199254740992", "9007199254740993", "9223372036854775807")
MEMBERS = ("0", "1", "2", "3.0", "4.5", "9007199254740993")


def _joined(left: Any, operator: Any, right: Any) -> st.SearchStrategy[str]:
    return st.tuples(left, operator, right).map(" ".join)


def _number(features: Features, variables: Sequence[Operand], depth: int) -> st.SearchStrategy[str]:
    """A number: mostly attributes of the given variables, seldom of none."""
    names = ("x", "x", "x", "y", "y", "y", "id", *(("timestamp", "seq") if features.clock else ()))
    leaves = [_attribute(variables, name) for name in names]
    kleene = [variable for variable in variables if variable.kleene]
    if kleene:
        leaves.extend([_whole_list(kleene, ("x", "y")), _prefix(kleene)])
    leaf = st.sampled_from(leaves).flatmap(lambda kind: kind)
    if depth == 0:
        return leaf
    inner = _number(features, variables, depth - 1)
    operators = st.sampled_from(["+", "-", "*", "/", "%"])
    return mostly(
        leaf,
        st.one_of(
            st.tuples(inner, operators, st.one_of(inner, st.sampled_from(NUMBERS))).map(
                lambda parts: f"({' '.join(parts)})"
            ),
            inner.map(lambda text: f"-{text}"),
            st.tuples(st.sampled_from(["abs", "sqrt", "ln"]), inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
        ),
    )


def _attribute(variables: Sequence[Operand], attribute: str) -> st.SearchStrategy[str]:
    """A reference to an attribute of one of the variables."""
    return st.sampled_from(
        [
            f"{variable.name}{element}.{attribute}"
            for variable in variables
            for element in (("", "[]", "[1]", "[i]", "[i-1]", f"[{variable.name}.LEN]") if variable.kleene else ("",))
        ]
    )


def _whole_list(variables: Sequence[Operand], attributes: Sequence[str]) -> st.SearchStrategy[str]:
    """A number over all of a Kleene variable's list."""
    functions = ("avg", "sum", "min", "max", "count", "first", "last")
    return st.sampled_from(
        [f"{variable.name}.LEN" for variable in variables]
        + [f"{f}({variable.name}[].{name})" for variable in variables for f in functions for name in attributes]
    )


def _prefix(variables: Sequence[Operand]) -> st.SearchStrategy[str]:
    functions = ("avg", "sum", "min", "max", "count")
    return st.sampled_from([f"{f}({v.name}[..i-1].{name})" for v in variables for f in functions for name in "xy"])


def _return_items(positive: Sequence[Operand]) -> st.SearchStrategy[str]:
    """Items of RETURN: a Kleene variable only by its ends, its length and aggregates; no inexact function."""
    texts = []
    for variable in positive:
        name = variable.name
        if variable.kleene:
            texts += [f"{name}[1].x", f"{name}[{name}.LEN].s", f"{name}.LEN", f"sum({name}[].x)", f"max({name}[].y)"]
            texts += [f"count({name}[].y)", f"avg({name}[].y)"]
        else:
            texts += [f"{name}.{attribute}" for attribute in ("x", "y", "s", "f", "kind", "timestamp", "seq")]
            texts += [f"{name}.x + {name}.y", f"{name}.x * 3 - 1", f"{name}.x / 2", f"-{name}.x % 4", f"sqrt({name}.y)"]
    return st.sampled_from(texts)
