"""`parse_patterns`: text of the pattern language to checked patterns (docs/language.md, section 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TypeVar
from warnings import warn

import numpy as np

from cep_pipeline.errors import InputError, PatternError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.foreign_text import did_you_mean
from cep_pipeline.language.checks import (
    check_condition,
    check_return_item,
    check_strategy,
    check_structure,
    contradiction_in,
)
from cep_pipeline.language.conditions import INT64_MAX, ConditionParser, type_name
from cep_pipeline.language.formatter import format_aggregate, format_expression, format_group
from cep_pipeline.language.scope import Bound, Scope, WrittenValues
from cep_pipeline.language.structure import StructureParser
from cep_pipeline.language.tokens import Cursor, Kind, NoTime, SourceText, Token, exact, length_us, together
from cep_pipeline.patterns.conditions import Condition, Value
from cep_pipeline.patterns.expressions import NOWHERE, Expression, Span, ValueType
from cep_pipeline.patterns.pattern import (
    UNIT_WORDS_US,
    Consume,
    Output,
    Pattern,
    ReturnItem,
    Strategy,
    Summary,
    SummaryAggregate,
    SummaryGroup,
    Ties,
    Window,
)
from cep_pipeline.patterns.structure import Structure
from cep_pipeline.patterns.summary_functions import SUMMARY_FUNCTIONS

FIXED_COLUMNS = ("pattern", "match_id", "start_ts", "end_ts", "bindings")
"""Columns of the matches table that a RETURN item cannot be named like."""

_STRATEGIES = {strategy.value.upper(): strategy for strategy in Strategy}
_OUTPUTS = {output.value: output for output in Output}
_CLAUSE_ORDER = ("WHERE", "WITHIN", "PARTITION", "TIES", "OUTPUT", "CONSUME", "RETURN", "SUMMARIZE")
_EITHER = "a statement has RETURN or SUMMARIZE, not both"
_Choice = TypeVar("_Choice", bound=Enum)


def parse_patterns(
    text: str,
    schema: StreamSchema,
    params: Mapping[str, Iterable[Value] | Value] | None = None,
    source: str = "<pattern>",
) -> list[Pattern]:
    """Parse and check the statements of a pattern file.

    Parameters
    ----------
    text
        Statements of the pattern language, each ended by `;` (the last one need not be).
    schema
        The stream that the patterns are about.
    params
        What each `$name` stands for: one number, string or bool, or the values of a set after IN. A Python set is taken
        in sorted order. `WrittenValues` may be either.
    source
        Name of the text in errors, such as the file's path.

    Returns
    -------
    list of Pattern
        In the order of the text; an unnamed statement is `pattern_<n>`, with n counted from 1.

    Raises
    ------
    PatternError
        The text is wrong: the first error with its place, and in `others` those that follow. A statement is read on
        behind a wrong part of its WHERE; another error ends it, and the next statement is read.
    InputError
        Parameters that are no numbers, strings and bools, or collections of them.

    Warns
    -----
    PatternWarning
        A conjunct that constrains no clause, or conditions of a pattern that no events fulfil together.

    Examples
    --------
    >>> schema = StreamSchema.from_dict(
    ...     {"base_type": "Trade", "type_attribute": "symbol", "attributes": {"symbol": "string", "price": "float64"}}
    ... )
    >>> [pattern] = parse_patterns("PATTERN SEQ(SPY a, QQQ b) WHERE a.price < b.price WITHIN 1.5 minutes", schema)
    >>> pattern.name, pattern.window.time_us
    ('pattern_1', 90000000)
    >>> parse_patterns("PATTERN SEQ(SPY a, QQQ b) WHERE a.prise < b.price WITHIN 1 day", schema, source="rise.sase")
    Traceback (most recent call last):
    cep_pipeline.errors.PatternError: rise.sase:1:35: unknown attribute 'prise' of type SPY; did you mean 'price'?
      PATTERN SEQ(SPY a, QQQ b) WHERE a.prise < b.price WITHIN 1 day
                                        ^^^^^
    """
    parameters = {name: _parameter_values(name, values) for name, values in (params or {}).items()}
    cursor = Cursor(SourceText(text, source))
    patterns: list[Pattern] = []
    names: dict[str, Pattern | None] = {}
    types: dict[str, Pattern | None] = {}
    of_stream = {*(schema.types or ()), schema.base_type}
    errors: list[PatternError] = []
    number = 0
    while True:
        while cursor.accept_symbol(";"):
            pass
        if cursor.current.kind is Kind.END:
            break
        number += 1
        start = cursor.index
        statement = _Statement(cursor, schema, parameters, number, names, types)
        pattern: Pattern | None = None
        try:
            pattern = statement.parse()
        except PatternError as error:
            errors += [*statement.errors, error]
            cursor.skip_statement(start)
            if statement.name in names:
                continue
        names[statement.name] = pattern  # None if it was refused
        if statement.name not in of_stream and (pattern is None or pattern.named):  # its written name is a type
            types[statement.name] = pattern
        if pattern is not None:
            patterns.append(pattern)
            for warning in [*statement.scope.warnings, contradiction_in(pattern, cursor.source)]:
                if warning is not None:
                    warn(warning, stacklevel=2)
    if errors:
        raise together(errors)
    return patterns


@dataclass(frozen=True, slots=True)
class _Where:
    condition: Condition | None = None
    strategy: Strategy = Strategy.SKIP_TILL_ANY_MATCH
    strategy_span: Span = NOWHERE


class _Statement:
    """Reads one statement, clause by clause in the order of the grammar."""

    def __init__(
        self,
        cursor: Cursor,
        schema: StreamSchema,
        parameters: Mapping[str, Bound],
        number: int,
        names: Mapping[str, Pattern | None],
        types: Mapping[str, Pattern | None],
    ) -> None:
        self.cursor = cursor
        self.schema = schema
        self.scope = Scope(cursor.source, schema.referable, parameters, schema.clock_timezone, types, schema.times)
        self.conditions = ConditionParser(cursor, self.scope)
        self.number = number
        self.names = names
        self.name = f"pattern_{number}"
        self.errors: list[PatternError] = []

    def parse(self) -> Pattern:
        """Read the statement; the last of its errors is raised, those before it are in `errors`."""
        start = self.cursor.current
        name, named = self._name()
        self.name = name
        sql = "; `cep translate` reads MATCH_RECOGNIZE of SQL" if self.cursor.at_word("SELECT", "WITH") else ""
        other = "; `cep help coming_from` has statements of Esper beside those of this language"
        self.cursor.expect_word("PATTERN", hint=other if self.cursor.at_word("EVERY", "INSERT", "CREATE") else sql)
        structure = StructureParser(self.cursor, self.scope, self.schema).structure()
        check_structure(structure, self.scope, start.span)
        where = self._where(structure)
        window = self._window()
        partition_by = self._partition_by()
        ties = self._choice("TIES", Ties, Ties.ARRIVAL)
        output = self._output()
        consume = self._choice("CONSUME", Consume, Consume.NONE)
        returns = self._returns()
        summary = self._summary(returns)
        written = self.cursor.source.text[start.span.start : self.cursor.previous.span.end]
        self._end()
        if self.errors:
            raise self.errors.pop()
        pattern = Pattern(
            name=name,
            structure=structure,
            window=window,
            strategy=where.strategy,
            condition=where.condition,
            partition_by=partition_by,
            ties=ties,
            output=output,
            consume=consume,
            returns=returns,
            composes=self.scope.composed,
            summary=summary,
            named=named,
            parameters=tuple(self.scope.used_parameters.items()),
            stream=self.schema.name,
            type_attribute=self.schema.type_attribute,
            base_type=self.schema.base_type,
            attributes=tuple(self.schema.attributes.items()),
            timezone=self.schema.clock_timezone,
            times=self.schema.times,
            source=self.cursor.source.name,
            written=written,
        )
        check_strategy(pattern, self.cursor.source, where.strategy_span)
        return pattern

    def _name(self) -> tuple[str, bool]:
        keyword = self.cursor.accept_word("NAME")
        if keyword is None:
            name = f"pattern_{self.number}"
            if name in self.names:
                message = f"an earlier statement has the name {name!r}, which this one gets by its place; name this one"
                raise self.cursor.error(message, self.cursor.current.span)
            return name, False
        token = self._pattern_name()
        if token.value in self.names:
            raise self.cursor.error(f"duplicate name {token.value!r}; names are unique in a file", token.span)
        return token.value, True

    def _pattern_name(self) -> Token:
        """Read the word after NAME: any one, since words are reserved only as names of types and variables."""
        token = self.cursor.current
        left_out = token.word == "PATTERN" and self.cursor.ahead(1).word != "PATTERN"
        if token.kind is not Kind.WORD or left_out:
            raise self.cursor.unexpected("a name for the pattern")
        return self.cursor.advance()

    # WHERE

    def _where(self, structure: Structure) -> _Where:
        if not self.cursor.accept_word("WHERE"):
            return _Where()
        strategy, span = self._strategy()
        if span is not None:
            if self.cursor.accept_symbol("("):
                self._strategy_variables()
            self.cursor.expect_symbol("{", "; a strategy is followed by its condition in { }")
        condition = self._condition()
        if span is not None:
            self.cursor.expect_symbol("}")
        if condition is None:
            return _Where()
        check_condition(condition, structure, self.scope)
        return _Where(condition, strategy, span or NOWHERE)

    def _condition(self) -> Condition | None:
        """Read the condition; None where a part of it is wrong. Then it is read on behind the next AND."""
        start = self.cursor.index
        while True:
            try:
                condition = ConditionParser(self.cursor, self.scope).condition()
            except PatternError as error:
                self.errors.append(error)
                if not self.cursor.skip_conjunct(start, _CLAUSE_ORDER):
                    return None
            else:
                return None if self.errors else condition

    def _strategy(self) -> tuple[Strategy, Span | None]:
        """Read the strategy's name, written with `_` or `-`, if one stands here."""
        words = [self.cursor.current]
        while self.cursor.ahead(2 * len(words) - 1).text == "-":
            words.append(self.cursor.ahead(2 * len(words)))
        follower = self.cursor.ahead(2 * len(words) - 1)
        name = "_".join(token.word for token in words)
        span = Span(words[0].span.start, words[-1].span.end)
        known, is_variable = name in _STRATEGIES, words[0].value in self.scope.variables
        if not known and follower.text == "{" and words[0].kind is Kind.WORD:
            raise self.cursor.error(f"unknown strategy{did_you_mean(name.lower(), [s.value for s in Strategy])}", span)
        if not known or (is_variable and follower.text not in ("(", "{")):
            return Strategy.SKIP_TILL_ANY_MATCH, None
        for _ in range(2 * len(words) - 1):
            self.cursor.advance()
        return _STRATEGIES[name], span

    def _strategy_variables(self) -> None:
        """Read the variables after a strategy; they are checked and have no other effect."""
        while True:
            name = self.cursor.expect_name("a variable")
            operand = self.scope.variable(name)
            if self.cursor.at_symbol("["):
                if not operand.kleene:
                    raise self.cursor.error(f"{name.value!r} is no Kleene variable; write it without []", name.span)
                self.cursor.advance()
                self.cursor.expect_symbol("]")
            if not self.cursor.accept_symbol(","):
                self.cursor.expect_symbol(")")
                return

    # The clauses after WHERE.

    def _window(self) -> Window:
        self.cursor.expect_word("WITHIN", hint=self._misplaced())
        start = self.cursor.current
        negative = self.cursor.accept_symbol("-") is not None
        number, unit, size = self._length("a window is written as in WITHIN 20 minutes or WITHIN 100 EVENTS", "EVENTS")
        counted, span = unit.word == "EVENTS", Span(start.span.start, unit.span.end)
        if negative or size <= 0:
            raise self.cursor.error("the window must be positive", span)
        if counted and not number.text.isdigit():
            raise self.cursor.error("a window in EVENTS is a whole number", number.span)
        if size.denominator != 1:
            raise self.cursor.error("the window must be a whole number of microseconds", span)
        if size > INT64_MAX:
            raise self.cursor.error("the window is longer than int64 can hold", span)
        return Window(events=int(size)) if counted else Window(time_us=int(size))

    def _partition_by(self) -> tuple[str, ...]:
        if not self.cursor.accept_word("PARTITION"):
            return ()
        self.cursor.expect_word("BY")
        names: dict[str, None] = {}
        while True:
            token = self.cursor.expect_attribute()
            self.scope.agreed_attribute(token)
            names[token.value] = None
            if not self.cursor.accept_symbol(","):
                return tuple(names)

    def _choice(self, keyword: str, choices: type[_Choice], default: _Choice) -> _Choice:
        if not self.cursor.accept_word(keyword):
            return default
        return choices(self.cursor.expect_word(*(choice.value for choice in choices)).word)

    def _output(self) -> Output:
        """Read OUTPUT; without PREFERRED no quantifier is reluctant."""
        text = Output.ALL.value
        if self.cursor.accept_word("OUTPUT"):
            one_word = (output.value for output in Output if " " not in output.value)
            text = self.cursor.expect_word(*one_word).word
            if text == Output.PREFERRED.value and self.cursor.accept_word(Output.NON_OVERLAP.value):
                text = Output.PREFERRED_NON_OVERLAP.value
        output = _OUTPUTS[text]
        if self.scope.reluctant and not output.is_preferred:
            message = (
                "a reluctant quantifier has a meaning with OUTPUT PREFERRED only: write that, or leave out the last '?'"
            )
            raise self.cursor.error(message, self.scope.reluctant[0])
        return output

    # RETURN

    def _returns(self) -> tuple[ReturnItem, ...]:
        if not self.cursor.accept_word("RETURN"):
            return ()
        items: list[ReturnItem] = []
        taken: dict[str, int] = {}
        while True:
            items.append(self._return_item(taken))
            if not self.cursor.accept_symbol(","):
                return tuple(items)

    def _return_item(self, taken: dict[str, int]) -> ReturnItem:
        """Read an item; `taken` has each column name in use, with how many items have asked for it."""
        expression = self._value_of_a_match()
        column = self._column(format_expression(expression), taken)
        return ReturnItem(expression, *column, is_time=self.scope.is_time(expression))

    def _value_of_a_match(self) -> Expression:
        expression = self.conditions.expression()
        check_return_item(expression, self.scope)
        return expression

    def _column(self, text: str, taken: dict[str, int]) -> tuple[str, bool]:
        """The name of a column, which no other has, and whether AS says it; without AS it is made of the text."""
        named = self.cursor.accept_word("AS") is not None
        name = text
        if named:
            token = self.cursor.expect_attribute()
            name = token.value
            if name in (*FIXED_COLUMNS, *(("composed",) if self.scope.composed else ())):
                message = f"{name!r} is a fixed column of the matches; choose another name"
                raise self.cursor.error(message, token.span)
        unique = name
        while unique in taken:
            taken[name] += 1
            unique = f"{name}_{taken[name]}"
        taken[unique] = 1
        return unique, named

    # SUMMARIZE

    def _summary(self, returns: tuple[ReturnItem, ...]) -> Summary | None:
        keyword = self.cursor.accept_word("SUMMARIZE")
        if keyword is None:
            return None
        if returns:
            raise self.cursor.error(_EITHER, keyword.span)
        taken: dict[str, int] = {}
        aggregates = [self._summary_aggregate(taken)]
        while self.cursor.accept_symbol(","):
            aggregates.append(self._summary_aggregate(taken))
        groups: list[SummaryGroup] = []
        if self.cursor.accept_word("GROUP"):
            self.cursor.expect_word("BY")
            groups.append(self._summary_group(taken))
            while self.cursor.accept_symbol(","):
                groups.append(self._summary_group(taken))
        if self.cursor.at_word("RETURN"):
            raise self.cursor.error(_EITHER, self.cursor.current.span)
        return Summary(tuple(aggregates), tuple(groups))

    def _summary_aggregate(self, taken: dict[str, int]) -> SummaryAggregate:
        start = self.cursor.current
        if not self.cursor.at_word(*(name.upper() for name in SUMMARY_FUNCTIONS)):
            *others, last = (f"{name}({one.argument})" for name, one in SUMMARY_FUNCTIONS.items())
            hint = did_you_mean(start.text, list(SUMMARY_FUNCTIONS))
            raise self.cursor.unexpected(f"{', '.join(others)} or {last}", hint)
        function = self.cursor.advance().word.lower()
        of = SUMMARY_FUNCTIONS[function]
        self.cursor.expect_symbol("(")
        expression: Expression | None = None
        if of.state is None:
            self.cursor.expect_symbol("*")
        else:
            expression = self._value_of_a_match()
            if not of.takes(expression.type):
                told = f"cannot apply {function} to {type_name(expression.type)}: {of.needs}"
                raise self.cursor.error(told, start.span)
        self.cursor.expect_symbol(")")
        column = self._column(format_aggregate(function, expression), taken)
        is_time = function in ("min", "max") and self.scope.is_time(expression)
        return SummaryAggregate(function, expression, *column, is_time=is_time)

    def _summary_group(self, taken: dict[str, int]) -> SummaryGroup:
        start = self.cursor.current
        expression: Expression | None = None
        bucket_us: int | None = None
        if start.word == "BUCKET" and self.cursor.ahead(1).text == "(":
            bucket_us = self._bucket()
        else:
            expression = self._value_of_a_match()
            if expression.type is ValueType.FLOAT64_LIST:
                raise self.cursor.error("a list is no group; group by numbers, strings or bools", expression.span)
        column = self._column(format_group(expression, bucket_us), taken)
        is_time = self.scope.is_time(expression)
        return SummaryGroup(expression, bucket_us, *column, is_time=is_time)

    def _bucket(self) -> int:
        """Read `bucket(L)`; returns L in microseconds."""
        self.cursor.advance()
        self.cursor.expect_symbol("(")
        number = self.cursor.current
        _, unit, size = self._length("a bucket is written as in bucket(15 minutes)")
        if not 0 < size <= INT64_MAX or size.denominator != 1:
            message = "a length of time is a positive whole number of microseconds"
            raise self.cursor.error(message, Span(number.span.start, unit.span.end))
        length, day = int(size), UNIT_WORDS_US["day"]
        if day % length and length % day:
            message = "a bucket divides a day, as 15 minutes and 6 hours do, or is a whole number of days"
            raise self.cursor.error(message, Span(number.span.start, self.cursor.previous.span.end))
        self.cursor.expect_symbol(")")
        return length

    def _length(self, example: str, *counted: str) -> tuple[Token, Token, Fraction]:
        """Read a number and a unit, of time or a `counted` one; returns both, and how many microseconds, or things."""
        number = self.cursor.current
        if number.kind is not Kind.NUMBER:
            raise self.cursor.unexpected("a number", f"; {example}")
        self.cursor.advance()
        unit = self.cursor.current
        if unit.word not in counted and unit.text.lower() not in UNIT_WORDS_US:
            hint = did_you_mean(unit.text, [*UNIT_WORDS_US, *counted]) if unit.kind is Kind.WORD else ""
            *units, last = ("us", "ms", "seconds", "minutes", "hours", "days", *counted)
            raise self.cursor.unexpected(f"a unit ({', '.join(units)} or {last})", hint)
        self.cursor.advance()
        try:
            return number, unit, exact(number.text) if unit.word in counted else length_us(number.text, unit.text)
        except NoTime as error:
            raise self.cursor.error(str(error), number.span) from None

    # End

    def _end(self) -> None:
        if self.cursor.current.kind is Kind.END or self.cursor.accept_symbol(";"):
            return
        token = self.cursor.current
        raise self.cursor.error(f"unexpected {token} after the end of the statement{self._misplaced()}", token.span)

    def _misplaced(self) -> str:
        """A hint where the current token begins a clause or a statement that belongs elsewhere."""
        token: Token = self.cursor.current
        if token.kind is Kind.END:
            return "; every pattern has a window, as in WITHIN 10 seconds"
        if (token.text == "-" and self.cursor.ahead(1).text == ">") or token.word in ("FOLLOWED", "THEN", "NEXT"):
            return "; events in order are written SEQ(A a, B b)"
        if token.word in _CLAUSE_ORDER:
            return f"; the clauses stand in the order {', '.join(_CLAUSE_ORDER)}, each at most once"
        if token.word == "GROUP":
            return "; GROUP BY stands behind SUMMARIZE"
        if token.word in ("NAME", "PATTERN"):
            return "; statements are separated by ';'"
        outputs = [output.value for output in Output if " " not in output.value]
        if token.word in outputs or did_you_mean(token.text, outputs):
            return f"; OUTPUT stands behind WITHIN: {', '.join(f'OUTPUT {one.value}' for one in Output)}"
        if token.word == "STRATEGY":
            return "; a strategy stands behind WHERE, as in WHERE skip_till_next_match { a.x < b.x }"
        return did_you_mean(token.text, _CLAUSE_ORDER) if token.kind is Kind.WORD else ""


def _parameter_values(name: str, values: Iterable[Value] | Value) -> Bound:
    """Return the values that a caller binds to `$name`, as plain Python values: those of a set, or one value."""
    if isinstance(values, bytes | Mapping):
        raise InputError(f"parameter '{name}' must be one value or a list of values, not {values!r}")
    if isinstance(values, str) or not isinstance(values, Iterable):
        return _parameter_value(name, values)
    plain = tuple(_parameter_value(name, value) for value in values)
    if isinstance(values, WrittenValues):
        return WrittenValues(dict.fromkeys(plain))
    if isinstance(values, set | frozenset):
        return tuple(sorted(plain, key=lambda value: (type(value).__name__, value)))
    return plain


def _parameter_value(name: str, value: object) -> Value:
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, bool | int | float | str):
        raise InputError(f"parameter '{name}': {value!r} is no number, string or bool")
    if isinstance(value, int) and not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise InputError(f"parameter '{name}': {value} is outside the range of int64")
    return value
