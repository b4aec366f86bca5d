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
    """The variables of one top-level condition, those of one negated operand at most."""
    size = draw(st.integers(1, features.max_condition_variables))
    chosen: list[Operand] = []
    for operand in draw(st.permutations(operands)):
        others = [other for other in chosen if other.negated and (other.group is None or other.group != operand.group)]
        if len(chosen) < size and not (operand.negated and others):
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
    if features.second_edition:
        kinds.extend(_second_edition(features, variables) * 2)
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


NUMBERS = ("0", "1", "2.5", "3", "50%", "1e3", "9007199254740992", "9007199254740993", "9223372036854775807")
MEMBERS = ("0", "1", "2", "3.0", "4.5", "9007199254740993")


TEXTS = ("p%", "_", "%", "\\%%", "p_%", "😀", "é%", "\\_\\\\")
INSTANTS = ("1970-01-01", "1969-12-31 19:00:02", "2023-11-14 17:13:22.123456", "2023-11-14T22:13:25Z")


def _second_edition(features: Features, variables: Sequence[Operand]) -> list[st.SearchStrategy[str]]:
    """The tests that the second edition has more."""
    number = _number(features, variables, 1)
    label, flag = _attribute(variables, "s"), _attribute(variables, "f")
    times = _attribute(variables, "timestamp")
    order = st.sampled_from(["<", "<=", ">", ">=", "=", "!="])
    maybe_not = st.sampled_from(["", "NOT "])
    anything = st.one_of(number, *(_attribute(variables, name) for name in ("x", "y", "s", "f", "id", "h")))
    lengths = st.sampled_from(["0 s", "1 second", "2000 ms", "3 sec", "0.05 m"])
    kinds = [
        st.tuples(anything, maybe_not).map(lambda p: f"{p[0]} IS {p[1]}NULL"),
        st.tuples(label, maybe_not, st.sampled_from(TEXTS)).map(lambda p: f"{p[0]} {p[1]}LIKE '{p[2]}'"),
        st.tuples(number, order, number, order, st.one_of(number, st.sampled_from(NUMBERS))).map(" ".join),
        st.just("TRUE"),
        st.tuples(times, times, order, lengths).map(lambda p: f"{p[0]} - {p[1]} {p[2]} {p[3]}"),
        st.tuples(times, order, st.sampled_from(INSTANTS)).map(lambda p: f"{p[0]} {p[1]} TIMESTAMP '{p[2]}'"),
        st.tuples(times, order, st.sampled_from(["19:00", "19:00:02", "17:13:23.5", "17:13:23.123456"])).map(
            lambda p: f"time_of_day({p[0]}) {p[1]} TIME '{p[2]}'"
        ),
        st.tuples(times, order, st.integers(1, 7)).map(lambda p: f"day_of_week({p[0]}) {p[1]} {p[2]}"),
        st.tuples(label, label, order).map(lambda p: f"coalesce({p[0]}, {p[1]}, 'q') {p[2]} greatest({p[1]}, 'p')"),
        st.tuples(flag, flag).map(lambda p: f"coalesce({p[0]}, {p[1]}, FALSE) = TRUE"),
        _joined(number, order, st.sampled_from(["$limit", "-$ratio", "10%$limit", "$ratio * $limit"])),
        st.tuples(label, maybe_not).map(lambda p: f"{p[0]} {p[1]}IN ($word, 'q')"),
        _joined(flag, st.sampled_from(["=", "!="]), st.just("$flag")),
    ]
    lists = [variable.name for variable in variables if variable.kleene]
    if lists:
        spread = [f"stddev({name}[{part}].{of})" for name in lists for part in ("", "..i-1") for of in "xy"]
        limits = st.sampled_from(["0.413", "1.123", "3.377"])
        kinds.append(_joined(st.sampled_from(spread), st.sampled_from(["<", ">"]), limits))
    return kinds


def _joined(left: Any, operator: Any, right: Any) -> st.SearchStrategy[str]:
    return st.tuples(left, operator, right).map(" ".join)


def _number(features: Features, variables: Sequence[Operand], depth: int) -> st.SearchStrategy[str]:
    """A number: mostly attributes of the given variables, seldom of none."""
    names = ("x", "x", "x", "y", "y", "y", "id", *(("timestamp", "seq") if features.clock else ()))
    leaves = [_attribute(variables, name) for name in names]
    kleene = [variable for variable in variables if variable.kleene]
    if kleene:
        more = ("median",) if features.second_edition else ()
        leaves.extend([_whole_list(kleene, ("x", "y"), more), _prefix(kleene, more)])
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
            *([_of_several(inner)] if features.second_edition else ()),
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


def _of_several(number: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    functions = st.sampled_from(["least", "greatest", "coalesce"])
    return st.tuples(functions, st.lists(st.one_of(number, st.just("1")), min_size=1, max_size=3)).map(
        lambda parts: f"{parts[0]}({', '.join(parts[1])})"
    )


def _whole_list(
    variables: Sequence[Operand], attributes: Sequence[str], more: Sequence[str] = ()
) -> st.SearchStrategy[str]:
    """A number over all of a Kleene variable's list."""
    functions = ("avg", "sum", "min", "max", "count", "first", "last", *more)
    return st.sampled_from(
        [f"{variable.name}.LEN" for variable in variables]
        + [f"{f}({variable.name}[].{name})" for variable in variables for f in functions for name in attributes]
    )


def _prefix(variables: Sequence[Operand], more: Sequence[str] = ()) -> st.SearchStrategy[str]:
    functions = ("avg", "sum", "min", "max", "count", *more)
    return st.sampled_from([f"{f}({v.name}[..i-1].{name})" for v in variables for f in functions for name in "xy"])


def return_items(features: Features, positive: Sequence[Operand]) -> st.SearchStrategy[str]:
    """Items of RETURN: a Kleene variable only by its ends, its length and aggregates; no inexact function."""
    texts = []
    for variable in positive:
        name = variable.name
        if variable.kleene:
            texts += [f"{name}[1].x", f"{name}[{name}.LEN].s", f"{name}.LEN", f"sum({name}[].x)", f"max({name}[].y)"]
            texts += [f"count({name}[].y)", f"avg({name}[].y)"]
            if features.second_edition:
                texts += [f"median({name}[].x)", f"coalesce(min({name}[].y), 0)"]
        else:
            kind = () if features.composes else ("kind",)
            texts += [f"{name}.{attribute}" for attribute in ("x", "y", "s", "f", *kind, "timestamp", "seq")]
            texts += [f"{name}.x + {name}.y", f"{name}.x * 3 - 1", f"{name}.x / 2", f"-{name}.x % 4", f"sqrt({name}.y)"]
            if features.second_edition:
                texts += [f"coalesce({name}.s, $word)", f"least({name}.x, $limit, {name}.y)", f"{name}.x + $limit"]
                texts += [f"time_of_day({name}.timestamp)", f"day_of_week({name}.timestamp)"]
    return st.sampled_from(texts)


def summaries_of(features: Features, positive: Sequence[Operand]) -> st.SearchStrategy[str]:
    """A SUMMARIZE clause; sums and means of float64 only where the features say so.

    Matches that are events may have a float64 `x`.
    """
    numbers, floats, labels, groups = [], [], [], ["bucket(2 s)", "bucket(1 h)", "bucket(1 day)", "bucket(7 days)"]
    for variable in positive:
        name = variable.name
        first = f"{name}[1]" if variable.kleene else name
        of_x = floats if {variable.type, *variable.others} & {*features.composes} else numbers
        numbers += [f"{first}.id", f"{first}.seq"]
        of_x += [f"{first}.x", f"{first}.x - 1"]
        floats += [f"{first}.y", f"{first}.x / 2"]
        labels += [f"{first}.s"]
        groups += [f"{first}.{attribute}" for attribute in ("id", "x", "y", "s", "f")]
        if variable.kleene:
            numbers += [f"{name}.LEN", f"count({name}[].y)"]
            of_x += [f"{function}({name}[].x)" for function in ("sum", "max", "last")]
            floats += [f"sum({name}[].y)", f"min({name}[].y)"]
            groups += [f"{name}.LEN", f"{name}[{name}.LEN].id"]
    summed = [*numbers, *(floats if features.float_sums else ())]
    aggregate = st.one_of(
        st.just("count(*)"),
        st.tuples(st.sampled_from(["sum", "avg"]), st.sampled_from(summed)).map(lambda p: f"{p[0]}({p[1]})"),
        st.tuples(st.sampled_from(["min", "max"]), st.sampled_from([*numbers, *floats, *labels])).map(
            lambda p: f"{p[0]}({p[1]})"
        ),
    )
    return st.tuples(
        st.lists(aggregate, min_size=1, max_size=3), st.lists(st.sampled_from(groups), max_size=2, unique=True)
    ).map(
        lambda parts: (
            f"SUMMARIZE {', '.join(f'{one} AS r{number}' for number, one in enumerate(parts[0]))}"
            + (f" GROUP BY {', '.join(parts[1])}" if parts[1] else "")
        )
    )
