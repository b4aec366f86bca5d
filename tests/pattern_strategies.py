"""Hypothesis strategies for statements of the pattern language, over the schema of `tests.streams`.

`Features` says what the texts may use, so that a slice of the language can be drawn alone. Every text is valid: the
structure has a positive variable in each branch, a condition mentions one negated variable at most, and what
docs/language.md, section 4, refuses is not made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from tests.condition_strategies import chosen_variables, condition, conditions_of, return_items, summaries_of
from tests.streams import TYPES, mostly, stream_schema


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
    second_edition
        Alternatives of types, numbers of events of lists, optional variables, negated composites and lists, and the
        tests, functions, times and scalars of the second edition.
    summaries
        SUMMARIZE in place of some RETURN.
    float_sums
        SUMMARIZE with sums and means of float64, which are the same in any order only of numbers that are no edges.
    preferred
        OUTPUT PREFERRED, and reluctant quantifiers with it.
    composes
        Names of earlier statements, which are types too.
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
    second_edition: bool = False
    summaries: bool = False
    float_sums: bool = False
    preferred: bool = False
    composes: tuple[str, ...] = ()


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
"""Every operator, clause and strategy of the first edition."""

THIRD_EDITION = replace(WHOLE_LANGUAGE, second_edition=True, preferred=True, max_condition_variables=2)
"""What one statement can say, SUMMARIZE aside; a third of its statements have OUTPUT PREFERRED."""


@dataclass(frozen=True)
class Operand:
    """An event operand of a drawn structure.

    Attributes
    ----------
    name, type
        The variable and its type.
    kleene, negated
        Whether it binds a list, and whether it or a composite around it is negated.
    others
        Other types that it may have.
    quantifier
        What follows the type of a list or of an optional variable.
    group
        The first variable of the negated composite around it.
    reluctant
        Whether its quantifier is.
    """

    name: str
    type: str
    kleene: bool
    negated: bool
    others: tuple[str, ...] = ()
    quantifier: str = "+"
    group: str | None = None
    reluctant: bool = False

    @property
    def optional(self) -> bool:
        return self.quantifier in ("?", "*")


@dataclass(frozen=True)
class _Composite:
    operator: str
    operands: tuple[Operand | _Composite, ...]
    negated: bool = False


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
    def params(self) -> dict[str, Any]:
        """The values of those parameters that the text uses."""
        return _used(self.text)

    @property
    def pattern(self) -> Pattern:
        """The statement as it is parsed."""
        [pattern] = parse_patterns(self.text, stream_schema(), self.params)
        return pattern

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
SCALARS: Mapping[str, Any] = {"limit": 2, "ratio": 1.5, "word": "p", "flag": True}


def _used(text: str) -> dict[str, Any]:
    sets = {name: list(values) for name, values in PARAMETERS.items()}
    return {name: value for name, value in {**sets, **SCALARS}.items() if f"${name}" in text}


@dataclass(frozen=True)
class File:
    """Drawn statements named q1, q2, ..., of which a later one may compose earlier ones."""

    statements: tuple[Statement, ...]

    @property
    def text(self) -> str:
        return ";\n".join(f"NAME q{number} {one.text}" for number, one in enumerate(self.statements, 1))

    @property
    def params(self) -> dict[str, Any]:
        return _used(self.text)


@st.composite
def files(draw: st.DrawFn, features: Features) -> File:
    """Two or three statements; the earlier ones are small and return all attributes, and have no SUMMARIZE.

    They have few conditions and wide windows, lest there is nothing to compose.
    """
    number = draw(st.sampled_from([2, 2, 3]))
    small = replace(
        features, max_operands=2, nested=False, kleene=False, summaries=False, returns=False, partition_by=False
    )
    wide = st.sampled_from(["5 seconds", "1 day", "2 seconds", "4 EVENTS"])
    drawn: list[Statement] = []
    for place in range(1, number + 1):
        composes = tuple(f"q{earlier}" for earlier in range(1, place))
        if place == number:
            last = draw(statements(replace(features, composes=composes)))
            drawn.append(replace(last, conditions=last.conditions[: draw(st.integers(0, 1))]).within(draw(wide)))
            continue
        statement = draw(statements(replace(small, composes=composes)))
        statement = replace(statement, conditions=statement.conditions[: draw(st.sampled_from([0, 0, 1]))])
        statement = statement.within(draw(wide))
        positive = [one for one in statement.operands if not one.negated]
        items = [
            f"{draw(_one_value(positive, attribute))} AS {attribute}" for attribute in ("id", "x", "y", "s", "f", "h")
        ]
        drawn.append(replace(statement, clauses=(*statement.clauses, f"RETURN {', '.join(items)}")))
    return File(tuple(drawn))


def _one_value(positive: Sequence[Operand], attribute: str) -> st.SearchStrategy[str]:
    """An attribute of one event of a match; seldom a float64 where the stream has an int64."""
    texts = [f"{one.name}[1].{attribute}" if one.kleene else f"{one.name}.{attribute}" for one in positive]
    return mostly(
        st.sampled_from(texts), st.sampled_from([f"{text} * 0.5" if attribute == "x" else text for text in texts])
    )


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
    output = None
    if features.preferred and draw(st.integers(0, 2)) == 2:
        output = draw(st.sampled_from(["PREFERRED", "PREFERRED NON_OVERLAP"]))
        structure = _reluctant_somewhere(draw, structure)
    elif features.output and draw(st.integers(0, 4)) == 4:
        output = "NON_OVERLAP"
    operands = _operands(structure)
    written = not any_match or draw(st.integers(0, 5)) == 5
    ties = features.ties if any_match else tuple(mode for mode in features.ties if mode != "ANY")
    clauses = []
    if features.partition_by and draw(st.integers(0, 4)) == 4:
        clauses.append(f"PARTITION BY {draw(st.sampled_from(['id', 's', 'id, s', 'y']))}")
    clauses.append(f"TIES {draw(st.sampled_from(ties))}")
    if output is not None:
        clauses.append(f"OUTPUT {output}")
    if features.consume and draw(st.integers(0, 4)) == 4:
        clauses.append("CONSUME MATCHED")
    positive = [operand for operand in operands if not operand.negated]
    if features.summaries and draw(st.booleans()):
        clauses.append(draw(summaries_of(features, positive)))
    elif features.returns and draw(st.integers(0, 3)) == 3:
        item = return_items(features, positive)
        items = draw(st.lists(item, min_size=1, max_size=3))
        clauses.append("RETURN " + ", ".join(f"{item} AS r{index}" for index, item in enumerate(items)))
    return Statement(
        operands=tuple(operands),
        structure=_structure_text(structure),
        strategy=strategy if written else None,
        conditions=tuple(conditions_of(draw, features, operands)),
        window=draw(_windows(features)),
        clauses=tuple(clauses),
    )


@st.composite
def conditions(draw: st.DrawFn, features: Features, operands: Sequence[Operand]) -> str:
    """A condition over event operands of a structure."""
    return draw(condition(features, chosen_variables(draw, features, operands), 1))


def _windows(features: Features) -> st.SearchStrategy[str]:
    time = st.sampled_from(TIME_WINDOWS[::-1])
    if not features.count_windows:
        return time
    return mostly(time, st.integers(1, 7).map(lambda size: f"{size} EVENTS"))


# --- structures --------------------------------------------------------------------------------------------------


def _operand(
    draw: st.DrawFn,
    features: Features,
    names: Any,
    *,
    kleene: bool,
    negated: bool,
    obliged: bool = True,
    types: Sequence[str] = (*TYPES, "Ev"),
) -> Operand:
    """An operand; one that is obliged binds an event in every match of its branch."""
    drawn_from = st.sampled_from((*types, *features.composes * 6))
    event_type = draw(drawn_from)
    others: list[str] = []
    quantifier = "+" if kleene else ""
    if features.second_edition:
        if draw(st.integers(0, 3)) == 3:
            others = draw(st.lists(drawn_from, min_size=1, max_size=2))
        if kleene:
            quantifier = draw(st.sampled_from(["+", "{2}", "{1,2}", "{2,}", "{1,3}", *(() if obliged else ("*", "*"))]))
        elif not obliged and not negated and draw(st.integers(0, 2)) == 2:
            quantifier = "?"
    return Operand(next(names), event_type, kleene, negated, tuple(others), quantifier)


def _negated_structure(draw: st.DrawFn, features: Features, names: Any, *, lists: bool) -> Operand | _Composite:
    """A negated operand; one of the second edition may be a list or a composite."""
    if not features.second_edition or draw(st.booleans()):
        kleene = features.second_edition and lists and draw(st.integers(0, 3)) == 3
        return _operand(draw, features, names, kleene=kleene, negated=True)

    def composite(depth: int) -> _Composite:
        operator = draw(st.sampled_from(["SEQ", "SEQ", "AND", "OR"]))
        size = draw(st.sampled_from([2, 2, 1, 3]))
        obliged = draw(st.integers(0, size - 1))
        operands: list[Operand | _Composite] = []
        for place in range(size):
            if depth and draw(st.integers(0, 5)) == 5:
                operands.append(composite(depth - 1))
                continue
            kleene = lists and draw(st.integers(0, 4)) == 4
            one = _operand(
                draw,
                features,
                names,
                kleene=kleene,
                negated=True,
                obliged=operator == "OR" or place == obliged,
                types=("C", "X.1") if kleene else (*TYPES, "Ev"),
            )
            operands.append(one)
        return _Composite(operator, tuple(operands))

    inside = composite(1)
    name = _operands(inside)[0].name
    return replace(_grouped(inside, name), negated=True)


def _grouped(structure: Operand | _Composite, name: str) -> Any:
    if isinstance(structure, Operand):
        return replace(structure, group=name)
    return replace(structure, operands=tuple(_grouped(operand, name) for operand in structure.operands))


def _any_structure(draw: st.DrawFn, features: Features, names: Any) -> Operand | _Composite:
    """A structure under skip_till_any_match.

    At most two variables are Kleene variables, and the second one is of a rare type, lest the answers explode.
    """
    budget = {"kleene": 2, "events": 5}

    def single(positive: bool) -> Operand | _Composite:
        negated = features.negation and not positive and draw(st.booleans())
        budget["events"] -= 1
        if negated:
            return _negated_structure(draw, features, names, lists=True)
        kleene = features.kleene and budget["kleene"] > 0 and draw(st.integers(0, 3)) == 3
        rare = kleene and budget["kleene"] == 1
        budget["kleene"] -= kleene
        types = ("C", "X.1") if rare else (*TYPES, "Ev")
        return _operand(draw, features, names, kleene=kleene, negated=False, obliged=positive, types=types)

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
        operands: list[Operand | _Composite] = []
        for place in range(size):
            if features.negation and place != obliged and draw(st.integers(0, 3)) == 3:
                operands.append(_negated_structure(draw, features, names, lists=operator == "SEQ"))
                continue
            kleene = features.kleene and operator == "SEQ" and draw(st.integers(0, 2)) == 0
            rare = features.chains and kleene and any(one.kleene for operand in operands for one in _operands(operand))
            types = ("C", "X.1") if rare else (*TYPES, "Ev")
            own = _operand(draw, features, names, kleene=kleene, negated=False, obliged=place == obliged, types=types)
            operands.append(own)
        return _Composite(operator, tuple(operands))

    if features.nested and draw(st.integers(0, 3)) == 3:
        return _Composite("OR", tuple(branch() for _ in range(draw(st.integers(1, 2)))))
    return branch()


def _reluctant_somewhere(draw: st.DrawFn, structure: Any) -> Any:
    if isinstance(structure, Operand):
        return replace(structure, reluctant=bool(structure.quantifier) and draw(st.booleans()))
    return replace(structure, operands=tuple(_reluctant_somewhere(draw, operand) for operand in structure.operands))


def _operands(structure: Operand | _Composite) -> list[Operand]:
    if isinstance(structure, Operand):
        return [structure]
    return [operand for part in structure.operands for operand in _operands(part)]


def _structure_text(structure: Operand | _Composite) -> str:
    if isinstance(structure, _Composite):
        inside = ", ".join(_structure_text(operand) for operand in structure.operands)
        return f"{'~' if structure.negated else ''}{structure.operator}({inside})"
    types = [name if name.isidentifier() else f'"{name}"' for name in (structure.type, *structure.others)]
    event_type = f"({' | '.join(types)})" if structure.others else types[0]
    sign = "~" if structure.negated and structure.group is None else ""
    return (
        f"{sign}{event_type}{structure.quantifier}{'?' * structure.reluctant} {structure.name}{'[]' * structure.kleene}"
    )
