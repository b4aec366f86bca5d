"""The plain form of a composing pattern, which any mechanism runs over the longer stream.

The longer stream of a pattern has its events and the matches that it composes, as `detection.composition` makes it.
Attributes of one name may differ in their types between the events and the matches, and so they may have several
columns there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cep_pipeline.patterns.conditions import AllOf, AnyOf, Condition, Equivalence, Not
from cep_pipeline.patterns.expressions import Aggregate, Expression, Reference, ValueType
from cep_pipeline.patterns.pattern import Pattern, Summary, once_a_pattern, shared_attributes
from cep_pipeline.patterns.rewriting import rewritten

EVENT_TYPE = "event type"
"""Column of a longer stream: the type of an event, or the name of the statement whose match stands here."""
COMPOSED_MATCH = "composed match"
"""Column of a longer stream: the id of the match that stands here as an event; null for an event of the stream."""
WRITTEN_SEQ = "written seq"
"""Column of a longer stream: the seq of an event, and that of a match's last event."""

_CLOCK = {"timestamp": ValueType.INT64, "seq": ValueType.INT64}


def plain_pattern(pattern: Pattern) -> Pattern:
    """A pattern over the longer stream that means the same: it composes nothing, and any mechanism runs it.

    It has the names, the variables and the clauses of the pattern, so that a plan of the pattern is one of its own. It
    is the pattern itself where that composes nothing.
    """
    return longer_columns(pattern).plain if pattern.composes else pattern


class LongerColumns:
    """The columns of the longer stream of one pattern, and which of them its variables read.

    A column has the values of all kinds of events that have an attribute with its type, or with int64 where its type is
    float64. It is called like the attribute, unless the attribute has columns of several types: then only the one with
    the type of the stream's attribute is.

    Attributes
    ----------
    plain
        The pattern over the longer stream.
    stream, composed
        The types of the attributes of events of the stream, and for each composed statement those of its matches.
    names
        The name of the column of each attribute with each type; None is the exact text of its numbers.
    """

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self.stream: Mapping[str, ValueType] = {**dict(pattern.attributes), **_CLOCK}
        self.composed = {one.name: one.match_attributes for one in pattern.composes}
        self.names: dict[tuple[str, ValueType | None], str] = {}
        self.plain = self._plain()

    def _plain(self) -> Pattern:
        pattern = self._pattern
        condition = None if pattern.condition is None else self._condition(pattern.condition)
        returns = tuple(replace(item, expression=self._expression(item.expression)) for item in pattern.returns)
        partition_by = tuple(map(self._agreed, pattern.partition_by))
        summary = None if pattern.summary is None else self._summary(pattern.summary)
        return replace(
            pattern,
            condition=condition,
            partition_by=partition_by,
            returns=returns,
            summary=summary,
            composes=(),
            type_attribute=EVENT_TYPE,
            attributes=(
                (WRITTEN_SEQ, ValueType.INT64),
                *((name, kind or ValueType.STRING) for (_, kind), name in self.names.items()),
            ),
        )

    def _summary(self, summary: Summary) -> Summary:
        aggregates = (replace(one, expression=self._optional(one.expression)) for one in summary.aggregates)
        groups = (replace(one, expression=self._optional(one.expression)) for one in summary.groups)
        return Summary(tuple(aggregates), tuple(groups))

    def _optional(self, expression: Expression | None) -> Expression | None:
        return None if expression is None else self._expression(expression)

    def _condition(self, condition: Condition) -> Condition:
        match condition:
            case Not(operand):
                return replace(condition, operand=self._condition(operand))
            case AllOf(operands) | AnyOf(operands):
                return replace(condition, operands=tuple(map(self._condition, operands)))
            case Equivalence(attributes):
                return replace(condition, attributes=tuple(map(self._agreed, attributes)))
            case _:
                return rewritten(condition, self._leaf)

    def _expression(self, expression: Expression) -> Expression:
        return rewritten(expression, self._leaf)

    def _leaf(self, node: Expression) -> Expression:
        if not isinstance(node, Reference | Aggregate):
            return node
        return replace(node, attribute=self._column(node.attribute, self._kind(node)))

    def _kind(self, node: Reference | Aggregate) -> ValueType:
        """The type of the attribute that a reference or an aggregate reads."""
        [operand] = (one for one in self._pattern.operands if one.variable == node.variable)
        sources = [self.composed.get(name, self.stream) for name in operand.types]
        return shared_attributes(sources)[node.attribute]

    def _agreed(self, attribute: str) -> str:
        """The column of an attribute on which events agree: that of one type, or exact text of numbers of two."""
        kinds = {attributes[attribute] for attributes in self.composed.values()}
        own = self.stream.get(attribute)
        if own is not None and (own in kinds or (own.is_number and all(kind.is_number for kind in kinds))):
            kinds.add(own)
        return self._column(attribute, kinds.pop() if len(kinds) == 1 else None)

    def _column(self, attribute: str, kind: ValueType | None) -> str:
        """The name of the column of an attribute with a type; None is the exact text of its numbers."""
        if attribute in _CLOCK:
            return WRITTEN_SEQ if attribute == "seq" else attribute
        known = self.names.get((attribute, kind))
        if known is None:
            own = self.stream.get(attribute)
            taken = any(name == attribute for name, _ in self.names)
            plain = kind is own if own is not None else not taken
            known = attribute if plain else f"{attribute} ({'text' if kind is None else kind.value})"
            self.names[attribute, kind] = known
        return known


@once_a_pattern
def longer_columns(pattern: Pattern) -> LongerColumns:
    """The columns for a composing pattern."""
    return LongerColumns(pattern)
