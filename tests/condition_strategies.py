"""Hypothesis strategies for conditions and RETURN items of the pattern language, over the schema of `tests.streams`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.streams import mostly

if TYPE_CHECKING:
    from tests.pattern_strategies import Features, Operand


def conditions_of(draw: st.DrawFn, features: Features, operands: Sequence[Operand]) -> list[str]:
    """The top-level conditions of a statement, up to three."""
    conditions = []
    for _ in range(draw(st.sampled_from([1, 0, 1, 2, 1, 0, 3]))):
        if draw(st.integers(0, 7)) == 7:
            conditions.append(draw(st.sampled_from(["[id]", "[s]", "[id, s]", "[f]"])))
        else:
            variables = chosen_variables(draw, features, operands)
            conditions.append(draw(condition(features, variables, 2)))
    return conditions


def chosen_variables(draw: st.DrawFn, features: Features, operands: Sequence[Operand]) -> list[Operand]:
    """The variables of one top-level condition, one negated variable at most."""
    size = draw(st.integers(1, features.max_condition_variables))
    chosen: list[Operand] = []
    for operand in draw(st.permutations(operands)):
        if len(chosen) < size and not (operand.negated and any(other.negated for other in chosen)):
            chosen.append(operand)
    return chosen


def condition(features: Features, variables: Sequence[Operand], depth: int) -> st.SearchStrategy[str]:
    """A condition over these variables, with AND, OR and NOT nested so deep."""
    atom = _atom(features, variables)
    if depth == 0:
        return atom
    inner = condition(features, variables, depth - 1)
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


def return_items(positive: Sequence[Operand]) -> st.SearchStrategy[str]:
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
