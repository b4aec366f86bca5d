"""MATCH_RECOGNIZE of SQL (ISO/IEC 19075-5; Flink, Trino, Oracle, Snowflake) as the pattern that finds the same rows.

A row of SQL has no type, so each row variable becomes a variable of the stream's base type with its DEFINE as
conditions. Rows of a SQL match are neighbours in their partition: that is `partition_contiguity`.

SQL takes one match for each row at which it begins: the one that it prefers. A pattern has all of them. So a query is
translated only where no two matches can begin at one row: wherever two variables may take the next row, their
conditions exclude each other. With AFTER MATCH SKIP PAST LAST ROW no match may lie within another, either. All else is
refused at its place.

The SQL is parsed by sqlglot, but for the clauses that it does not read: the pattern, AFTER MATCH SKIP, WITHIN and
SUBSET. Those are read here from its tokens.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from typing import ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.trino import Trino
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from cep_pipeline.errors import InputError, PatternError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.foreign_text import visible
from cep_pipeline.language.formatter import format_expression, format_type, format_value
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.language.tokens import MAX_TEXT, RESERVED, SourceText, did_you_mean_of, together
from cep_pipeline.patterns.conditions import Conjunct, expressions_of
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Element,
    Expression,
    Length,
    Reference,
    Span,
    ValueType,
    walk,
)
from cep_pipeline.patterns.implications import compared
from cep_pipeline.patterns.pattern import TIME_UNITS_US
from cep_pipeline.patterns.rewriting import rewritten


class _Dialect(Trino):
    """SQL of Trino, which also takes the backticks of Flink as quotes of names."""

    class Tokenizer(Trino.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]


@dataclass(frozen=True)
class Translation:
    """A statement of the language, and sentences that say what it takes for granted or leaves out of the SQL."""

    statement: str
    differences: tuple[str, ...]
    source: str
    line: int

    @property
    def text(self) -> str:
        """The statement under a comment with the differences."""
        head = [
            f"From MATCH_RECOGNIZE in {self.source}, line {self.line}, with the same matches.",
            *(f"- {one}" for one in self.differences),
        ]
        return "\n".join(f"-- {' '.join(visible(line).split())}" for line in head) + f"\n{self.statement};\n"


def translate_match_recognize(sql: str, schema: StreamSchema, source: str, within: str | None) -> list[Translation]:
    """Translate each MATCH_RECOGNIZE of a text of SQL.

    Parameters
    ----------
    schema
        The stream whose events are the rows. It needs a base type.
    source
        Name of the text, for messages.
    within
        The window of a query that has no WITHIN, such as `1 hour`. None: such a query needs a greatest number of rows.

    Raises
    ------
    PatternError
        The text is no SQL, or a pattern would not find the rows that it asks for; with its place.
    InputError
        The schema has no base type, or there is no MATCH_RECOGNIZE.
    """
    text = SourceText(sql, source)
    if schema.base_type is None:
        raise InputError(
            f"schema {schema.name}: rows of SQL have no types, so that a pattern needs a type that all events have; "
            "give the schema a base_type"
        )
    if len(sql) > MAX_TEXT:
        raise InputError(f"{source}: has more than {MAX_TEXT:,} characters; split it")
    try:
        clauses, parsed = _parsed(text)
        found = [(query, query.args["match"]) for tree in parsed for query in _queries(tree)]
        if not found:
            raise InputError(f"{source}: no MATCH_RECOGNIZE in a query of it, which is what is translated")
        if len(found) != len(clauses):
            raise text.error("of several MATCH_RECOGNIZE not all stand in a SELECT; give each alone", clauses[0].span)
        names: set[str] = set()
        return [
            _Query(text, schema, query, match, own, within, names).translation()
            for (query, match), own in zip(found, clauses, strict=True)
        ]
    except RecursionError:
        raise InputError(f"{source}: its expressions are nested too deep to be read; write them flatter") from None


def _queries(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The queries that have a MATCH_RECOGNIZE, in the order of the text."""
    having = [node for node in tree.walk() if node.args.get("match") is not None]
    return iter(sorted(having, key=lambda node: _start(node.args["match"])))


def _start(tree: exp.Expr) -> int:
    return min((node.meta["start"] for node in tree.walk() if "start" in node.meta), default=0)


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass
class _Clauses:
    """The clauses of a MATCH_RECOGNIZE that are read from its tokens."""

    span: Span
    pattern: list[Token] = field(default_factory=list)
    pattern_span: Span = field(default_factory=lambda: Span(0, 0))
    after: tuple[str, ...] = ()
    after_span: Span | None = None
    within: list[Token] = field(default_factory=list)


def _parsed(text: SourceText) -> tuple[list[_Clauses], list[exp.Expr]]:
    """The clauses of each MATCH_RECOGNIZE that sqlglot does not read, and the trees of all others."""
    try:
        tokens = _Dialect().tokenize(text.text)
        clauses: list[_Clauses] = []
        blanks: list[tuple[int, int]] = []
        for index, token in enumerate(tokens):
            if token.token_type is TokenType.MATCH_RECOGNIZE:
                clauses.append(_clauses(text, tokens, index, blanks))
        rest = list(text.text)
        for start, end in blanks:  # of the same length, so that places stay
            rest[start:end] = [one if one == "\n" else " " for one in rest[start:end]]
        logging.getLogger("sqlglot").setLevel(logging.ERROR)  # a warning of it is an error here
        trees = [tree for tree in _Dialect().parse("".join(rest)) if tree is not None]
        if command := next((tree for tree in trees if isinstance(tree, exp.Command)), None):
            raise InputError(f"{text.name}: only queries can be read, not {command.this}; leave it out")
        return clauses, trees
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        line, column, marked = first.get("line") or 1, first.get("col") or 1, first.get("highlight") or " "
        end = sum(map(len, text.text.split("\n")[: line - 1])) + line - 1 + column
        told = re.sub(r"<Token [^>]*>", f"{marked!r}", str(first.get("description") or error)).rstrip(".")
        told = re.sub(r"Required keyword.*", "something is missing here", told)
        raise text.error(f"this is no SQL that can be read: {told}", Span(max(0, end - len(marked)), end)) from error
    except TokenError as error:
        raise text.error("this is no SQL that can be read: a quote or a comment is not closed", Span(0, 1)) from error


def _clauses(text: SourceText, tokens: Sequence[Token], index: int, blanks: list[tuple[int, int]]) -> _Clauses:
    """Read what stands in the parentheses after a MATCH_RECOGNIZE; what sqlglot must not see is noted in `blanks`."""
    found = _Clauses(Span(tokens[index].start, tokens[index].end + 1))
    words = [token.text.upper() for token in tokens]
    depth, at = 0, index + 1
    while at < len(tokens):
        depth += {"(": 1, ")": -1}.get(tokens[at].text, 0)
        if depth == 0:
            break
        if depth == 1 and words[at : at + 2] == ["PATTERN", "("]:
            end = _closing(tokens, at + 1)
            found.pattern, found.pattern_span = list(tokens[at + 2 : end]), _span(tokens[at : end + 1])
            if not found.pattern:
                raise text.error(
                    "an empty row pattern matches no row; here each match has an event", found.pattern_span
                )
            at = end
        elif depth == 1 and words[at : at + 3] == ["AFTER", "MATCH", "SKIP"]:
            end = next((one for one in range(at, len(tokens)) if words[one] == "PATTERN"), at + 3)
            found.after, found.after_span = tuple(words[at + 3 : end]), _span(tokens[at:end])
            blanks.append((found.after_span.start, found.after_span.end))
            at = end - 1
        elif depth == 1 and words[at] == "WITHIN" and found.pattern:
            end = next((one for one in range(at, len(tokens)) if words[one] in ("DEFINE", "SUBSET", ")")), at + 1)
            found.within = list(tokens[at:end])
            blanks.append((tokens[at].start, tokens[end - 1].end + 1))
            at = end - 1
        elif depth == 1 and words[at : at + 4] == ["ALL", "ROWS", "PER", "MATCH"]:
            raise text.error(
                "ALL ROWS PER MATCH has a row for each row of a match; a match is one row here, with its events in the "
                "column bindings: write ONE ROW PER MATCH",
                _span(tokens[at : at + 4]),
            )
        elif depth == 1 and words[at] == "SUBSET" and found.pattern:
            raise text.error(
                "SUBSET joins the rows of several variables, which have no name together here; in MEASURES and DEFINE "
                "name the variables themselves",
                _span(tokens[at : at + 2]),
            )
        at += 1
    return found


def _closing(tokens: Sequence[Token], at: int) -> int:
    """The place of the parenthesis that closes the one at `at`, or of the last token."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[place].text, 0)
        if depth == 0:
            return place
    return len(tokens) - 1


def _span(tokens: Sequence[Token]) -> Span:
    return Span(tokens[0].start, tokens[-1].end + 1)


# -- the row pattern ---------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Row:
    """A row variable of PATTERN with its quantifier.

    Attributes
    ----------
    variable
        Its name in the statement.
    before
        The rows that may stand directly before its first row; None is a row outside of the match.
    earlier
        The rows that stand before it in some match.
    """

    name: str
    span: Span
    minimum: int = 1
    maximum: int | None = 1
    reluctant: bool = False
    variable: str = ""
    before: frozenset[_Row | None] = frozenset()
    earlier: frozenset[_Row] = frozenset()

    @property
    def is_list(self) -> bool:
        return self.maximum != 1

    @property
    def is_optional(self) -> bool:
        return self.minimum == 0

    @property
    def is_single(self) -> bool:
        return (self.minimum, self.maximum) == (1, 1)

    @property
    def is_open(self) -> bool:
        """True where its list may end, and may also go on."""
        return self.is_list and self.minimum != self.maximum


@dataclass(eq=False)
class _Group:
    """Parts one after the other (SEQ), or of which one holds (OR)."""

    operator: str
    parts: list[_Row | _Group]
    span: Span


_Node = _Row | _Group


def _rows_of(node: _Node) -> Iterator[_Row]:
    if isinstance(node, _Row):
        yield node
    else:
        for part in node.parts:
            yield from _rows_of(part)


class _PatternReader:
    """Reads the tokens of PATTERN."""

    def __init__(self, text: SourceText, tokens: list[Token], span: Span) -> None:
        self.text, self.tokens, self.span, self.at = text, tokens, span, 0

    def read(self) -> _Node:
        node = self._alternatives()
        if self.at < len(self.tokens):
            raise self._error("this cannot stand in a row pattern")
        return node

    def _error(self, message: str, token: Token | None = None) -> PatternError:
        here = token or (self.tokens[self.at] if self.at < len(self.tokens) else None)
        return self.text.error(message, self.span if here is None else _span([here]))

    def _word(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self.tokens[place].text.upper() if place < len(self.tokens) else ""

    def _take(self, word: str) -> bool:
        taken = self._word() == word
        self.at += taken
        return taken

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise self._error(f"expected {word!r} in the row pattern")

    def _alternatives(self) -> _Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return self._group("OR", parts)

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._word() not in ("", ")", "|"):
            parts.append(self._quantified())
        if not parts:
            raise self._error("an empty row pattern matches no row; here each match has an event")
        return self._group("SEQ", parts)

    def _group(self, operator: str, parts: list[_Node]) -> _Node:
        if len(parts) == 1:
            return parts[0]
        spans = [part.span for part in parts]
        return _Group(operator, parts, Span(spans[0].start, spans[-1].end))

    def _quantified(self) -> _Node:
        node = self._primary()
        start = self.at
        limits = self._quantifier()
        if limits is None:
            return node
        reluctant = self.tokens[self.at - 1].text == "??" or self._take("?")
        span = _span(self.tokens[start : self.at])
        if isinstance(node, _Group) or not node.is_single:
            raise self.text.error("a quantifier can be said of one variable, not of a group of them", span)
        node.minimum, node.maximum = limits
        node.reluctant = reluctant
        if node.maximum == 0:
            raise self.text.error("a variable without rows: leave it out", span)
        if node.minimum == 0 and node.maximum not in (1, None):
            raise self.text.error(
                f"none to {node.maximum} rows: write {node.name}{{1,{node.maximum}}}, and a second query without it",
                span,
            )
        return node

    def _quantifier(self) -> tuple[int, int | None] | None:
        for sign, limits in {"*": (0, None), "+": (1, None), "?": (0, 1), "??": (0, 1)}.items():
            if self._take(sign):
                return limits
        if self._word() != "{" or self._word(1) == "-":
            return None
        self.at += 1
        low = self._number()
        high = low
        if self._take(","):
            high = self._number()
            low = low or 0
        elif low is None:
            raise self._error("expected a number of rows")
        self._need("}")
        assert low is not None
        if high is not None and high < low:
            raise self._error("the greatest number of rows is below the least one", self.tokens[self.at - 1])
        return low, high

    def _number(self) -> int | None:
        if not self._word().isdecimal():
            return None
        if len(self._word()) > 9:
            raise self._error("this number of rows is too large")
        self.at += 1
        return int(self.tokens[self.at - 1].text)

    def _primary(self) -> _Node:
        if self._take("("):
            node = self._alternatives()
            self._need(")")
            return node
        if self._word() == "{" and self._word(1) == "-":
            raise self._error(
                "{- … -} leaves rows out of ALL ROWS PER MATCH; a match is one row here: leave these signs out"
            )
        if self._word() == "PERMUTE" and self._word(1) == "(":
            raise self._error(
                "PERMUTE prefers an order where a row fits several variables; write AND(…) by hand, which takes a row "
                "for the first variable that it fits"
            )
        if self._word() in ("^", "$"):
            raise self._error("the begin and the end of a partition cannot be said; a pattern may begin at each event")
        token = self.tokens[self.at]
        if not re.fullmatch(r"[^\W\d]\w*", token.text):
            raise self._error("expected a row variable")
        self.at += 1
        return _Row(token.text, _span([token]))


def _note_order(node: _Node, before: frozenset[_Row | None], earlier: frozenset[_Row]) -> frozenset[_Row | None]:
    """Note for each row which ones stand before it; return those that may be the last before what follows."""
    if isinstance(node, _Row):
        node.before, node.earlier = before, earlier
        return frozenset((node,)) | (before if node.is_optional else frozenset())
    if node.operator == "SEQ":
        for part in node.parts:
            before = _note_order(part, before, earlier)
            earlier |= frozenset(_rows_of(part))
        return before
    return frozenset(last for part in node.parts for last in _note_order(part, before, earlier))


# -- translating -------------------------------------------------------------------------------------------------------

_COMPARATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_ARITHMETIC: dict[type[exp.Expr], tuple[str, int]] = {
    exp.Add: ("+", 1), exp.Sub: ("-", 1), exp.Mul: ("*", 2), exp.Div: ("/", 2), exp.Mod: ("%", 2),
}  # fmt: skip
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Abs: "abs", exp.Sqrt: "sqrt", exp.Ln: "ln", exp.Coalesce: "coalesce",
}  # fmt: skip
_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max", exp.Count: "count",
    exp.Stddev: "stddev", exp.StddevSamp: "stddev", exp.Median: "median",
}  # fmt: skip
_UNITS = {"MILLISECOND": "ms", "SECOND": "second", "MINUTE": "minute", "HOUR": "hour", "DAY": "day"}
_FIXED = {"pattern", "match_id", "start_ts", "end_ts", "bindings", "composed"}

_Part = str | bool | None
"""A condition as text, or its value where that is known: None is unknown, which never holds."""
_T = TypeVar("_T")
_Place = tuple[_Row | None, _Row]
"""A row of a match: the variable of the row before it, None for the first row, and its own."""
_ROW = "row"
"""The variable of conditions that are asked of one row."""


@dataclass(frozen=True)
class _Here:
    """The row that an expression stands for.

    Attributes
    ----------
    row
        The row variable whose DEFINE it is; None in MEASURES, where a match is finished.
    step
        Which row of a list: its `first`, a `later` one, or `each` where that is the same to the condition.
    before
        The row that stands before the first one.
    """

    row: _Row | None
    step: str = "each"
    before: _Row | None = None


class _Query:
    """One MATCH_RECOGNIZE on its way to a statement."""

    def __init__(
        self,
        text: SourceText,
        schema: StreamSchema,
        query: exp.Expr,
        match: exp.Expr,
        clauses: _Clauses,
        within: str | None,
        names: set[str],
    ) -> None:
        self.text, self.schema, self.query, self.match, self.clauses = text, schema, query, match, clauses
        self.default_within, self.names = within, names
        self.differences: dict[str, None] = {}
        self.problems: list[PatternError] = []
        self.uses_steps = False
        if not clauses.pattern:
            raise text.error("this MATCH_RECOGNIZE has no PATTERN", clauses.span)
        self.pattern = _PatternReader(text, clauses.pattern, clauses.pattern_span).read()
        self.rows: dict[str, _Row] = {}
        for row in _rows_of(self.pattern):
            if row.name.upper() in self.rows:
                raise text.error(
                    f"variable {row.name} stands twice in the pattern; give the second a name of its own with the same "
                    "DEFINE",
                    row.span,
                )
            self.rows[row.name.upper()] = row
            row.variable = self._free_name(row.name.lower(), {one.variable for one in self.rows.values()})
        last = _note_order(self.pattern, frozenset((None,)), frozenset())
        if None in last:
            raise text.error(
                "this row pattern may match no row, and SQL then has a match without rows; here each match has an "
                "event: write + for a *, or leave out a ?",
                clauses.pattern_span,
            )
        rows = self.rows.values()
        self.lasts = [row for row in rows if row in last]
        self.following = {one: [row for row in rows if one in row.before] for one in (None, *rows)}
        self._check_rows()
        self.order = self._order()
        self.defined = self._definitions()
        self.gaps = self._gaps()

    def translation(self) -> Translation:
        """The statement, checked by the parser of the language."""
        skip = self._tried(self._skip)
        self._tried(self._check_gaps if self.gaps else self._check_end)
        conditions: list[str] = []
        for row in self.rows.values():
            defined = self.defined.get(row)
            for member in defined.flatten() if isinstance(defined, exp.And) else [defined] if defined else []:
                conditions += self._tried(list, self._conditions_of(row, member)) or ()
        partition = [self._attribute(one) for one in self.match.args.get("partition_by") or ()]
        returns = self._returns(partition)
        window = self._tried(self._window)
        if self.problems:
            raise together(self.problems)
        self._note_rest()
        lines = [f"NAME {self._name()}", f"PATTERN {self._structure(self.pattern)}"]
        condition = "\n  AND ".join(conditions) or "TRUE"
        lines.append(f"WHERE {self._strategy()} {{ {condition} }}\nWITHIN {window}")
        if partition:
            lines.append(f"PARTITION BY {', '.join(partition)}")
        if skip == "NON_OVERLAP":
            lines.append("OUTPUT NON_OVERLAP")
        if returns:
            lines.append(f"RETURN {', '.join(returns)}")
        statement = "\n".join(lines)
        try:
            (pattern,) = parse_patterns(statement, self.schema, source=self.text.name)
        except PatternError as error:
            raise self.text.error(f"this cannot be said: {error.message}", self.clauses.pattern_span) from error
        if not self.gaps:
            conjuncts = dict.fromkeys(one for clause in pattern.clauses for one in clause.conjuncts)
            self._check_choices(_Facts(tuple(conjuncts)), skip)
        return Translation(
            statement, tuple(self.differences), self.text.name, self.text.place(self.clauses.span.start)[0]
        )

    def _tried(self, make: Callable[..., _T], *arguments: object) -> _T | None:
        """The result, or None where it is refused: all that stands in the way is told together."""
        try:
            return make(*arguments)
        except PatternError as error:
            self.problems.append(error)
            return None

    def _differs(self, sentence: str) -> None:
        self.differences[sentence] = None

    def _refused(self, message: str, node: exp.Expr) -> PatternError:
        """The error that refuses the query for what stands at a part of it."""
        starts = [one.meta for one in node.walk() if "start" in one.meta]
        if not starts:
            return self.text.error(message, self.clauses.span)
        start, end = min(one["start"] for one in starts), max(one["end"] for one in starts) + 1
        if not isinstance(node, exp.Column | exp.Identifier):  # the name of a function stands before what is in it
            line_start = self.text.text.rfind("\n", 0, start) + 1
            called = re.search(r"\w+\s*\(\s*$", self.text.text[line_start:start])
            start = line_start + called.start() if called else start
        return self.text.error(message, Span(start, end))

    # names, rows and clauses

    def _free_name(self, name: str, taken: Iterable[str]) -> str:
        name = name if name.upper() not in RESERVED else f"{name}_"
        used, number, free = set(taken), 2, name
        while free in used:
            free, number = f"{name}_{number}", number + 1
        return free

    def _name(self) -> str:
        alias = self.match.args.get("alias")
        given = re.sub(r"\W", "_", alias.name) if alias is not None and alias.name else ""
        name = given if re.match(r"[^\W\d]", given) else "rows_matched"
        name = self._free_name(name, self.names)
        self.names.add(name)
        return name

    def _order(self) -> str | None:
        """The column of ORDER BY, which is taken for the timestamp of the events."""
        order = self.match.args.get("order")
        if order is None:
            self._differs("Without ORDER BY the order of rows is arbitrary in SQL; here it is that of the stream.")
            return None
        first, *more = order.expressions
        for one in order.expressions:
            if one.args.get("desc"):
                raise self._refused("events are read in the order of time; a descending order cannot be said", one)
        if not isinstance(first.this, exp.Column):
            raise self._refused("events are ordered by their timestamp, not by an expression", first)
        name = str(first.this.name)
        if name.lower() not in {"timestamp", *self._timestamp_columns}:
            if name.lower() in {"seq", *map(str.lower, self.schema.attributes)}:
                raise self._refused("events are in the order of their timestamp: write ORDER BY timestamp", first)
            self._differs(f"ORDER BY {name} is taken for the timestamp of the stream {self.schema.name}.")
        for one in more:
            if str(one.this.name).lower() != "seq":
                raise self._refused(
                    "events of one time are in the order of their arrival, which is their seq: leave this out where "
                    "that is the order meant",
                    one,
                )
        return name.lower()

    @cached_property
    def _timestamp_columns(self) -> set[str]:
        columns = getattr(getattr(self.schema.source, "timestamp", None), "column", [])
        return {columns[0].lower()} if len(columns) == 1 else set()

    def _definitions(self) -> dict[_Row, exp.Expr]:
        defined = {}
        for one in self.match.args.get("define") or ():
            row = self.rows.get(one.alias.upper())
            if row is None:
                raise self._refused(f"DEFINE names {one.alias}, which PATTERN does not", one.args["alias"])
            defined[row] = one.this
        return defined

    def _gaps(self) -> frozenset[_Row]:
        """Variables that only let any rows lie between the others, where they do so between all of them."""
        if not (isinstance(self.pattern, _Group) and self.pattern.operator == "SEQ"):
            return frozenset()
        # The row variables that DEFINE or MEASURES name.
        mentioned = {column.table.upper() for column in self.match.find_all(exp.Column) if column.table}

        def is_gap(part: _Node) -> bool:
            free = isinstance(part, _Row) and part not in self.defined and part.name.upper() not in mentioned
            return free and isinstance(part, _Row) and part.is_optional and part.maximum is None

        parts = self.pattern.parts
        kinds = [is_gap(part) for part in parts]
        others = [part for part, gap in zip(parts, kinds, strict=True) if not gap]
        between = len(parts) % 2 == 1 and all(gap == (place % 2 == 1) for place, gap in enumerate(kinds))
        single = all(isinstance(part, _Row) and part.is_single for part in others)
        looks_back = any(one.name.upper() == "PREV" for one in self.match.find_all(exp.Anonymous)) or any(
            one.args.get("expression") is not None and not _bare(one.this).args.get("table")
            for one in self.match.find_all(exp.First, exp.Last)
        )
        if not any(kinds) or not between or not single or looks_back:
            return frozenset()
        return frozenset(part for part in parts if isinstance(part, _Row) and part not in others)

    def _strategy(self) -> str:
        if self.gaps:
            return "skip_till_next_match"
        return "partition_contiguity" if self.match.args.get("partition_by") else "strict_contiguity"

    def _skip(self) -> str:
        """NON_OVERLAP or ALL, for AFTER MATCH SKIP."""
        after = self.clauses.after
        if after == ("TO", "NEXT", "ROW"):
            return "ALL"
        if not after:
            self._differs(
                "Without AFTER MATCH the standard skips past the last row; write AFTER MATCH SKIP TO NEXT ROW where "
                "your engine goes on there."
            )
        elif after != ("PAST", "LAST", "ROW"):
            assert self.clauses.after_span is not None
            raise self.text.error(
                f"SKIP {' '.join(after)} cannot be said: write SKIP TO NEXT ROW for the matches from each row, or SKIP "
                "PAST LAST ROW",
                self.clauses.after_span,
            )
        return "NON_OVERLAP"

    def _window(self) -> str:
        tokens = self.clauses.within
        if tokens:
            words = [token.text for token in tokens]
            unit = _UNITS.get(words[-1].upper().rstrip("S"))
            known = len(words) == 4 and words[1].upper() == "INTERVAL" and unit is not None
            if unit is None or not known or not re.fullmatch(r"\d+(\.\d+)?", words[2]):
                raise self.text.error("write the window as WITHIN INTERVAL '10' MINUTE", _span(tokens))
            self._differs(
                "WITHIN of SQL leaves out a match of exactly that length: that is a window without its last us."
            )
            return f"{math.ceil(Fraction(words[2]) * TIME_UNITS_US[unit]) - 1} us"
        if self.default_within is not None:
            self._differs(f"SQL sets no bound to the length of a match; --within sets it to {self.default_within}.")
            return self.default_within
        _, most = _number_of_rows(self.pattern)
        if most is None:
            raise self.text.error(
                "SQL sets no bound to the length of a match, and each pattern has one: give a time that is longer than "
                "any match, as in --within '1 hour'",
                self.clauses.pattern_span,
            )
        return f"{most} EVENTS"

    def _structure(self, node: _Node) -> str:
        if isinstance(node, _Group):
            parts = ", ".join(self._structure(part) for part in node.parts if part not in self.gaps)
            return f"{node.operator}({parts})"
        base = format_type(self.schema.base_type or "")
        if not node.is_list:
            return f"{base}{'?' if node.is_optional else ''} {node.variable}"
        most = "" if node.maximum is None else node.maximum
        limits = most if node.minimum == node.maximum else f"{node.minimum},{most}"
        quantifier = {0: "*", 1: "+"}.get(node.minimum, "") if node.maximum is None else ""
        quantifier = quantifier or f"{{{limits}}}"
        return f"{base}{quantifier} {node.variable}[]"

    def _note_rest(self) -> None:
        """Say what is taken for granted, and what is left out."""
        wanted = ("where", "group", "having", "joins", "qualify", "windows", "limit", "distinct")
        selected = all(isinstance(one, exp.Star | exp.Column) for one in self.query.args.get("expressions") or ())
        if not selected or any(self.query.args.get(one) for one in wanted) or self.query.parent is not None:
            self._differs("The query around MATCH_RECOGNIZE is not translated: ask it of the table of matches.")
        columns = {self._attribute(one) for one in self.match.args.get("partition_by") or ()}
        if columns - {self.schema.type_attribute}:  # an event has a type
            self._differs("Each row has to have a value in PARTITION BY: an event without one is alone here.")

    # one match for each row at which it begins

    def _check_end(self) -> None:
        """Refuse a pattern that may end at several rows, of which SQL chooses one."""
        for row in sorted(self.lasts, key=lambda row: not row.is_open):
            if row.is_open and row.reluctant:
                wanted = f"write {row.name}{{{row.minimum}}}" if row.minimum else f"leave {row.name} out"
                raise self.text.error(
                    f"SQL takes the least number of rows of {row.name} here, and a pattern would have a match for each "
                    f"number: {wanted}",
                    row.span,
                )
            if row.is_open:
                raise self.text.error(
                    f"SQL takes the longest {row.name} here, and a pattern would have a match for each length: end "
                    f"PATTERN with a variable for the row after {row.name}, whose DEFINE excludes that of {row.name} "
                    "(`cep help coming_from` has an example)",
                    row.span,
                )
            if self.following[row]:
                raise self.text.error(
                    f"SQL takes {self.following[row][0].name} where it fits, and a pattern would have the match "
                    "without it, too: write a query with it, and one without it",
                    self.following[row][0].span,
                )

    def _check_gaps(self) -> None:
        """Refuse gaps where the first rows that fit are not the match that SQL takes."""
        first, *others = [row for row in self.rows.values() if row not in self.gaps]
        for gap in self.gaps:
            if not gap.reluctant:
                raise self.text.error(
                    f"SQL takes the longest {gap.name}, and so the last row that fits behind it: write {gap.name}*? "
                    "for the first one, or a pattern by hand (`cep help coming_from` has an example)",
                    gap.span,
                )
        past_last = self.clauses.after != ("TO", "NEXT", "ROW")
        for row in (row for row in others if row in self.defined):
            for node in self.defined[row].find_all(exp.Column, exp.First):
                of_first = isinstance(node, exp.First) and not _bare(node.this).args.get("table")
                named = first if of_first else self.rows.get(str(node.args.get("table") or row.name).upper(), row)
                if named not in (row, first):
                    raise self._refused(
                        f"where no {row.name} fits, SQL tries a later {named.name}, and a pattern takes the first "
                        f"{named.name}: let {row.name} name no other variable than {first.name}",
                        node,
                    )
                if named is first and past_last:
                    raise self._nested(
                        f"no DEFINE names another variable than its own, as that of {row.name} does here"
                    )

    def _nested(self, unless: str) -> PatternError:
        return self.text.error(
            "of two matches, one within the other, SQL keeps with SKIP PAST LAST ROW the one that begins first, and a "
            f"pattern the one that ends first: write AFTER MATCH SKIP TO NEXT ROW for both, or see that {unless}",
            self.clauses.after_span or self.clauses.pattern_span,
        )

    def _check_choices(self, facts: _Facts, skip: str | None) -> None:
        """Refuse a pattern of which two matches may begin at a row, or one may lie in another that SQL prefers."""
        later: list[_Place] = [(row, row) for row in self.rows.values() if row.is_list]
        begins: list[_Place] = []
        for before, following in self.following.items():
            choice: list[_Place] = [(before, row) for row in following]
            (begins if before is None else later).extend(choice)
            if before is not None and before.is_open:
                choice.insert(0, (before, before))
            for one, other in combinations(choice, 2):
                if not facts.exclude(one, other, same_rows=True):
                    names = f"{one[1].name} and {other[1].name}"
                    raise self.text.error(
                        f"a row may fit both {names}, as far as their DEFINEs say; SQL then takes the match that it "
                        f"prefers, and a pattern has several: let these DEFINEs exclude each other, as in "
                        f"{one[1].name} AS price < 5, {other[1].name} AS price >= 5",
                        one[1].span,
                    )
        least, most = _number_of_rows(self.pattern)
        if skip != "NON_OVERLAP" or least == most:
            return
        ends = [place for place in (*begins, *later) if place[1] in self.lasts]
        inner = [place for place in later if place[1].is_list or place[1] not in self.lasts]
        for ones, others in ((begins, later), (ends, inner)):
            if all(facts.exclude(one, other, same_rows=False) for one, other in product(ones, others)):
                return
        raise self._nested(
            "no row fits the first variable and another one, or the last variable and one between, as far as their "
            "DEFINEs say"
        )

    def _check_rows(self) -> None:
        """Refuse rows that are chosen or joined before they are matched."""
        source = self.query.args.get("from_")
        inner = source.this if source is not None else None
        root = self.query.root()
        if isinstance(inner, exp.Table):
            inner = next((one.this for one in root.find_all(exp.CTE) if one.alias == inner.name), None)
        chosen = (exp.Where, exp.Join, exp.Group, exp.Having, exp.Limit, exp.Distinct, exp.SetOperation, exp.Alias)
        if inner is not None and inner.find(*chosen) is not None:
            raise self._refused(
                "rows that are chosen or made before the matching cannot be said, since neighbours are neighbours in "
                "the stream; put the condition into PARTITION BY or into a stream of its own",
                inner,
            )

    # conditions

    def _conditions_of(self, row: _Row, member: exp.Expr) -> Iterator[str]:
        """The conditions of a part of a DEFINE: for a list of its first row and of later ones, where they differ."""
        self.uses_steps = False
        before = next(iter(row.before)) if len(row.before) == 1 else None
        steps = (("first", before), ("later", None)) if row.is_list else (("each", before),)
        texts = [self._condition(member, _Here(row, *step)) for step in steps]
        if row.is_list and not self.uses_steps:
            texts = [self._condition(member, _Here(row))]
        for text in dict.fromkeys(texts):
            if text is None or text is False:
                raise self._refused(
                    f"this never holds for the first row of {row.name}: what it looks back at is null there", member
                )
            if isinstance(text, str):
                yield f"({text})" if isinstance(_bare(member), exp.Or) and " OR " in text else text

    def _condition(self, node: exp.Expr, here: _Here, *, negated: bool = False) -> _Part:
        """A condition as text; `negated` says that a NOT stands around it."""
        match node:
            case exp.Paren():
                return self._condition(node.this, here, negated=negated)
            case exp.And() | exp.Or():
                return self._joined(node, here, negated)
            case exp.Not():
                return self._negation(node.this, here, negated)
            case exp.Boolean():
                return bool(node.this)
            case exp.Null():
                return None
        return self._test(node, here, "")

    def _joined(self, node: exp.Expr, here: _Here, negated: bool) -> _Part:
        is_and = isinstance(node, exp.And)
        parts = [self._condition(one, here, negated=negated) for one in node.flatten()]
        if (not is_and) in parts:
            return not is_and
        # What is unknown decides an AND that has to hold, and an OR that must not; elsewhere it changes nothing.
        if None in parts and is_and != negated:
            return None
        unknown = None in parts
        texts = [one for one in parts if isinstance(one, str)]
        if not texts:
            return None if unknown else is_and
        other = exp.Or if is_and else exp.And
        members = zip(node.flatten(), parts, strict=True)
        return (" AND " if is_and else " OR ").join(
            f"({text})" if isinstance(_bare(one), other) and len(texts) > 1 else text
            for one, text in members
            if isinstance(text, str)
        )

    def _negation(self, inner: exp.Expr, here: _Here, negated: bool) -> _Part:
        inner = _bare(inner)
        if isinstance(inner, exp.In | exp.Between | exp.Like | exp.Is):
            return self._test(inner, here, "NOT ")
        value = self._condition(inner, here, negated=not negated)
        if isinstance(value, str):
            return f"NOT ({value})"
        return None if value is None else not value

    def _test(self, node: exp.Expr, here: _Here, no: str) -> _Part:
        """A comparison or another test; `no` is empty or NOT."""
        text, row = self._tested(node, here, no), here.row
        reads = isinstance(text, str) and row and re.search(rf"\b{row.variable}[.\[]", re.sub("'[^']*'", "", text))
        if isinstance(text, str) and row is not None and not reads and self._may_lack(row, None):
            raise self._refused(
                f"a match may have no {row.name}, and this would be asked all the same, as it does not read that row: "
                f"write a query with {row.name}, and one without it",
                node,
            )
        return text

    def _tested(self, node: exp.Expr, here: _Here, no: str) -> _Part:
        if isinstance(node, exp.Column):
            text = self._value(node, here)
            return None if text is None else f"{text} = TRUE"
        comparator = _COMPARATORS.get(type(node))
        if comparator is not None:
            left, right = self._value(node.this, here), self._value(node.expression, here)
            return None if left is None or right is None else f"{left} {comparator} {right}"
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            value = self._value(node.this, here)
            return (not no) if value is None else f"{value} IS {no}NULL"
        unknown = node.args.get("query") or node.args.get("symmetric")
        if not isinstance(node, exp.In | exp.Between | exp.Like) or unknown:
            raise self._refused(f"{self._shown(node)} cannot be said in a condition", node)
        value = self._value(node.this, here)
        if node.args.get("negate"):
            no = "" if no else "NOT "
        if isinstance(node, exp.In):
            members = [self._value(one, here) for one in node.expressions]
            if not all(isinstance(one, exp.Literal | exp.Neg | exp.Boolean) for one in node.expressions):
                raise self._refused("IN takes constants only", node)
            tested = f"{no}IN ({', '.join(one or '' for one in members)})"
        elif isinstance(node, exp.Between):
            low, high = self._value(node.args["low"], here), self._value(node.args["high"], here)
            if low is None or high is None:
                return None
            tested = f"{no}BETWEEN {low} AND {high}"
        else:
            if not (isinstance(node.expression, exp.Literal) and node.expression.is_string):
                raise self._refused("LIKE takes a constant text", node)
            tested = f"{no}LIKE {format_value(node.expression.this.replace(chr(92), chr(92) * 2))}"
        return None if value is None else f"{value} {tested}"

    def _shown(self, node: exp.Expr) -> str:
        text = visible(" ".join(node.sql(dialect=_Dialect).split()))
        return text if len(text) <= 60 else f"{text[:59]}…"

    # expressions

    def _value(self, node: exp.Expr, here: _Here, outer: int = 0) -> str | None:
        """An expression as text, or None where it is null; `outer` is the precedence of what stands around it."""
        match node:
            case exp.Paren():
                return self._value(node.this, here, outer)
            case exp.Null():
                return None
            case exp.Boolean():
                return format_value(bool(node.this))
            case exp.Literal():
                return format_value(node.this) if node.is_string else str(node.this)
            case exp.Interval():
                return self._interval(node)
            case exp.Cast() if isinstance(node.this, exp.Literal) and node.to.this in exp.DataType.TEMPORAL_TYPES:
                kind = "TIME" if node.to.this is exp.DataType.Type.TIME else "TIMESTAMP"
                return f"{kind} {format_value(node.this.this)}"
            case exp.Neg():
                value = self._value(node.this, here, 3)
                return None if value is None else f"-{value}" if not value.startswith("-") else f"-({value})"
            case exp.Column():
                return self._reference(node, here)
            case exp.First() | exp.Last():
                return self._end(node, here)
            case exp.Anonymous():
                return self._called(node, here)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node, here, outer)
        if type(node) in _FUNCTIONS:
            return self._function(node, here)
        if type(node) in _AGGREGATES:
            return self._aggregate(node, here)
        raise self._refused(f"{self._shown(node)} cannot be said in an expression", node)

    def _arithmetic(self, node: exp.Expr, here: _Here, outer: int) -> str | None:
        sign, tightness = _ARITHMETIC[type(node)]
        left, right = self._value(node.this, here, tightness), self._value(node.expression, here, tightness + 1)
        if isinstance(node, exp.Div) and not any(map(self._has_fraction, (node.this, node.expression))):
            raise self._refused(
                "a division of whole numbers has no fraction in most engines, and has one here: write 1.0 * before it",
                node,
            )
        if left is None or right is None:
            return None
        right = f"({right})" if right.startswith("-") else right
        text = f"{left} {sign} {right}"
        return f"({text})" if tightness < outer else text

    def _has_fraction(self, node: exp.Expr) -> bool:
        """True where a value is no whole number by its type."""
        match node:
            case exp.Column():
                return self.schema.attributes.get(self._attribute(node)) is ValueType.FLOAT64
            case exp.Literal():
                return not node.this.isdecimal()
            case exp.Count():
                return False
            case exp.Avg() | exp.Sqrt() | exp.Ln() | exp.Stddev() | exp.StddevSamp() | exp.Median():
                return True
        return any(map(self._has_fraction, node.iter_expressions()))

    def _function(self, node: exp.Expr, here: _Here) -> str | None:
        name = _FUNCTIONS[type(node)]
        values = [self._value(one, here) for one in (node.this, *node.expressions)]
        known = [one for one in values if one is not None]
        if not known or (len(known) < len(values) and not isinstance(node, exp.Coalesce)):
            return None
        return f"{name}({', '.join(known)})"

    def _interval(self, node: exp.Expr) -> str:
        unit = _UNITS.get(str(node.args.get("unit") or "").upper().rstrip("S"))
        number = node.this.this if isinstance(node.this, exp.Literal) else ""
        if unit is None or not re.fullmatch(r"\d+(\.\d+)?", number):
            raise self._refused("write the length as INTERVAL '10' MINUTE", node)
        return f"{number} {unit}{'' if unit == 'ms' or number == '1' else 's'}"

    def _attribute(self, column: exp.Expr) -> str:
        """The attribute that a column is."""
        if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
            raise self._refused("a name of a column is expected here", column)
        name, lower = str(column.name), str(column.name).lower()
        if name in self.schema.attributes:
            return name
        if lower == self.order or lower in {"timestamp", *self._timestamp_columns}:
            return "timestamp"
        near = [one for one in self.schema.attributes if one.lower() == lower]
        if len(near) != 1:
            hint = did_you_mean_of(name, self.schema.attributes)
            raise self._refused(f"the events of {self.schema.name} have no attribute {name!r}{hint}", column.this)
        return near[0]

    def _row_of(self, column: exp.Column, here: _Here) -> _Row:
        """The row variable whose rows a column belongs to."""
        if not column.table:
            assert here.row is not None  # a measure has it from all rows of the match
            return here.row
        row = self.rows.get(column.table.upper())
        if row is None:
            raise self._refused(f"PATTERN has no variable {column.table}", column)
        if here.row is not None and row is not here.row and row not in here.row.earlier:
            raise self._refused(
                f"{row.name} does not stand before {here.row.name} in each match, so that it is null here in SQL; put "
                "the condition on the one that comes later",
                column,
            )
        if here.row is not None and row is not here.row and self._may_lack(row, here.row):
            raise self._refused(
                f"a match may have no {row.name}: this does not hold in SQL then, and is not asked here; write a query "
                f"with {row.name}, and one without it",
                column,
            )
        return row

    def _may_lack(self, row: _Row, here: _Row | None) -> bool:
        """True where a match may have `here` without `row`; None: where there may be a match without it."""
        return row.is_optional or any(
            row in (within := list(_rows_of(group))) and here not in within
            for group in _groups_of(self.pattern)
            if group.operator == "OR"
        )

    def _reference(self, column: exp.Column, here: _Here) -> str | None:
        if not column.table and here.row is None:
            return self._of_match(column, column, here, ahead=False)
        row, attribute = self._row_of(column, here), self._attribute(column)
        if row is here.row:
            index = {"first": "[1]", "later": "[i]"}.get(here.step, "") if row.is_list else ""
        else:
            index = f"[{row.variable}.LEN]" if row.is_list else ""
        return f"{row.variable}{index}.{attribute}"

    def _steps(self, node: exp.Expr | None, otherwise: int) -> int | None:
        """The number of rows to go back, where it is 0 or 1."""
        if node is None:
            return otherwise
        return {"0": 0, "1": 1}.get(str(node.this)) if isinstance(node, exp.Literal) else None

    def _end(self, node: exp.Expr, here: _Here) -> str | None:
        """FIRST and LAST of a variable, or of all rows of the match; in a DEFINE these end with the present one."""
        column = node.this
        if not isinstance(column, exp.Column):
            raise self._refused("FIRST and LAST take one column here", node)
        is_first, steps = isinstance(node, exp.First), self._steps(node.args.get("expression"), 0)
        if column.table:
            row = self._row_of(column, here)
            if row is here.row and not is_first and steps == 1:
                self.uses_steps |= row.is_list
                before = row.is_list and here.step != "first"
                return f"{row.variable}[i-1].{self._attribute(column)}" if before else None
            if steps == 0:
                self.uses_steps |= row is here.row and row.is_list and is_first
                return self._of_end(row, column, ahead=True) if is_first else self._reference(column, here)
        elif steps == 0:
            return self._of_match(node, column, here, ahead=is_first)
        raise self._refused(
            "the first and the last row can be named; and in the DEFINE of a variable its row before, LAST(B.price, 1)",
            node,
        )

    def _of_match(self, node: exp.Expr, column: exp.Column, here: _Here, *, ahead: bool) -> str | None:
        """A column of the first row of the match, or of its last one: in a DEFINE this is the present one."""
        rows = self.following[None] if ahead else self.lasts
        if here.row is None and not (ahead and any(row.is_optional for row in rows)):
            return self._one_of(rows, self._attribute(column), ahead=ahead)
        if here.row is not None and not ahead:
            return self._reference(column, here)
        if len(rows) != 1:
            raise self._refused("this row may be of several variables: name the one that is meant", node)
        self.uses_steps |= rows[0] is here.row
        return self._of_end(rows[0], column, ahead=ahead)

    def _of_end(self, row: _Row, column: exp.Expr, *, ahead: bool) -> str:
        """A column of the first row of a variable, or of its last one."""
        return f"{_end_of(row, ahead=ahead)}.{self._attribute(column)}"

    def _one_of(self, rows: Sequence[_Row], attribute: str, *, ahead: bool) -> str:
        """An attribute of that one of some variables which a match has."""
        texts = [f"{_end_of(row, ahead=ahead)}.{attribute}" for row in rows]
        return texts[0] if len(texts) == 1 else f"coalesce({', '.join(texts)})"

    def _called(self, node: exp.Expr, here: _Here) -> str | None:
        """PREV and NEXT, and other functions that have no class of their own."""
        name = str(node.name).upper()
        if name == "NEXT":
            raise self._refused(
                "NEXT looks at a row that is not read yet: put the condition on the variable that follows, with PREV",
                node,
            )
        if name != "PREV" or here.row is None:
            raise self._refused(f"{self._shown(node)} cannot be said here", node)
        column, *more = node.expressions
        if isinstance(column, exp.Last) and column.args.get("expression") is None:
            column = column.this
        steps = self._steps(more[0] if more else None, 1)
        if not isinstance(column, exp.Column) or self._row_of(column, here) is not here.row or steps != 1:
            raise self._refused("PREV takes a column of the row that is defined, and is of the row before", node)
        self.uses_steps = True
        if here.row.is_list and here.step == "later":
            return f"{here.row.variable}[i-1].{self._attribute(column)}"
        if here.before is None:
            raise self._refused(
                "the row before may lie outside of the match, or be of several variables: let the schema derive the "
                "difference to the row before (derived: diff), or begin the pattern one row earlier",
                node,
            )
        return self._of_end(here.before, column, ahead=False)

    def _aggregate(self, node: exp.Expr, here: _Here) -> str | None:
        """An aggregate over the rows of a variable; in the DEFINE of a list over those so far, the present one too."""
        name, column = _AGGREGATES[type(node)], node.this
        if isinstance(column, exp.Star) and here.row is None:
            return self._count_of_match(node)
        if not isinstance(column, exp.Column) or not column.table:
            raise self._refused("an aggregate takes a column of one variable, such as AVG(B.price)", node)
        row = self._row_of(column, here)
        counts_rows = isinstance(column.this, exp.Star)
        if counts_rows and name != "count":
            raise self._refused("only COUNT takes all columns", node)
        attribute = "seq" if counts_rows else self._attribute(column)
        counts_rows |= attribute in ("seq", "timestamp")
        if isinstance(node, exp.Avg) and not self._has_fraction(column):
            self._differs("AVG of whole numbers has a fraction here, as in Trino; in Flink it has none.")
        if name == "count" and not counts_rows and (not row.is_list or row is here.row):
            raise self._refused(f"a null is not counted, which cannot be said here: write COUNT({row.name}.*)", node)
        if not row.is_list:
            if name in ("stddev", "median") or (name == "count" and self._may_lack(row, here.row)):
                raise self._refused(f"{row.name} is one row or none, whose {name} cannot be said", node)
            return "1" if name == "count" else f"{row.variable}.{attribute}"
        if row is here.row:
            return self._running(name, row, attribute, here, node)
        if name != "count":
            return f"{name}({row.variable}[].{attribute})"
        number = f"{row.variable}.LEN" if counts_rows else f"count({row.variable}[].{attribute})"
        return f"coalesce({number}, 0)" if self._may_lack(row, here.row) else number

    def _running(self, name: str, row: _Row, attribute: str, here: _Here, node: exp.Expr) -> str:
        self.uses_steps = True
        if here.step == "first":
            return "1" if name == "count" else f"{row.variable}[1].{attribute}"
        own, before = f"{row.variable}[i].{attribute}", f"({row.variable}[..i-1].{attribute})"
        match name:
            case "min" | "max":
                return f"{'least' if name == 'min' else 'greatest'}({name}{before}, {own})"
            case "count":
                return f"(count({row.variable}[..i-1].seq) + 1)"
            case "sum":  # a null is left out
                return f"coalesce(sum{before} + {own}, sum{before}, {own})"
            case "avg":
                return f"coalesce((sum{before} + {own}) / (count{before} + 1), avg{before}, {own})"
        raise self._refused(f"{name} over the rows so far cannot be said", node)

    def _count_of_match(self, node: exp.Expr) -> str:
        """The number of rows of a match."""
        least, most = _number_of_rows(self.pattern)
        if least == most:
            return str(least)
        rows = list(self.rows.values())
        single = sum(not row.is_list for row in rows)
        if self.gaps or any(self._may_lack(row, None) for row in rows if not row.is_list):
            raise self._refused(
                "the number of all rows of a match cannot be said here; count those of each variable", node
            )
        lists = [(f"{row.variable}.LEN", self._may_lack(row, None)) for row in rows if row.is_list]
        numbers = [f"coalesce({number}, 0)" if may_lack else number for number, may_lack in lists]
        return " + ".join([*numbers, *([str(single)] if single else [])])

    # RETURN

    def _returns(self, partition: Sequence[str]) -> list[str]:
        items = {name: self._one_of(self.following[None], name, ahead=True) for name in partition}
        for measure in self.match.args.get("measures") or ():
            alias = measure.this
            value = alias.this if isinstance(alias, exp.Alias) else alias
            called = str(value.name).upper() if isinstance(value, exp.Anonymous) else ""
            if called in ("MATCH_NUMBER", "CLASSIFIER"):
                instead = "match_id" if called == "MATCH_NUMBER" else "bindings, which names the variable of each event"
                self._differs(f"{called}() is left out: each match has the column {instead}.")
                continue
            text = self._tried(self._measure, value)
            given = re.sub(r"\W", "_", alias.alias if isinstance(alias, exp.Alias) else value.name) or "value"
            name = given if re.match(r"[^\W\d]", given) else f"value_{given}"
            items[self._free_name(f"{name}_" if name.lower() in _FIXED else name, items)] = text or ""
        return [f"{text} AS {name}" for name, text in items.items()]

    def _measure(self, value: exp.Expr) -> str:
        text = self._value(value, _Here(None))
        if text is None:
            raise self._refused("this measure is always null", value)
        return text


@dataclass(frozen=True)
class _Facts:
    """The conditions of the rows of a match, by which rows are told apart."""

    conjuncts: tuple[Conjunct, ...]

    def exclude(self, one: _Place, other: _Place, *, same_rows: bool) -> bool:
        """Return whether no row fits both places.

        Parameters
        ----------
        same_rows
            The rows before it are bound alike on both sides. Otherwise two matches are compared, which have nothing in
            common for sure but the row and the one before it.
        """
        facts = [*self._of(one, same_rows), *self._of(other, same_rows)]
        return bool(compared(facts, {_ROW}).contradiction)

    def _of(self, place: _Place, same_rows: bool) -> Iterator[Conjunct]:
        """The conditions of the row at a place, as those of one variable whose attributes are all that they read."""
        row = place[1]
        known = {row.variable, *(one.variable for one in row.earlier)}
        for conjunct in self.conjuncts:
            if row.variable in conjunct.variables and conjunct.variables <= known:
                asked = _of_one_row(conjunct, place, same_rows)
                if asked is not None:
                    yield asked


def _of_one_row(conjunct: Conjunct, place: _Place, same_rows: bool) -> Conjunct | None:
    """The condition of the row at a place; None where it says nothing of that row for sure."""
    sides = [side for atom in conjunct.atoms for side in expressions_of(atom)]
    columns: dict[Expression, Expression] = {}
    own = False
    for node in (node for side in sides for node in walk(side) if isinstance(node, Reference | Length | Aggregate)):
        name = _column_of(node, place, same_rows)
        if name is None:
            return None
        own |= name.startswith(".")
        columns[node] = Reference(_ROW, name, Element.ONLY, node.type)
    return rewritten(conjunct, lambda node: columns.get(node, node)) if own else None


def _column_of(node: Reference | Length | Aggregate, place: _Place, same_rows: bool) -> str | None:
    """A name for a value that is read at a place: .price is of the row itself, and -price of the one before it.

    None: it is another one on each side of a comparison of matches, or is no value of the row at that place.
    """
    before, row = place
    if isinstance(node, Reference) and node.variable == row.variable:
        own = (Element.ONLY, Element.EACH, Element.CURRENT if before is row else Element.FIRST)
        if node.element in own:
            return f".{node.attribute}"
        if before is row and node.element is Element.PREVIOUS:
            return f"-{node.attribute}"
    elif isinstance(node, Reference) and before is not None and node.variable == before.variable:
        return f"-{node.attribute}" if node.element in (Element.ONLY, Element.LAST) else None
    own_list = node.variable == row.variable and not (isinstance(node, Reference) and node.element is Element.FIRST)
    return format_expression(node) if same_rows and not own_list else None


def _number_of_rows(node: _Node) -> tuple[int, int | None]:
    """The least and the greatest number of rows of a match; None: there is no greatest one."""
    if isinstance(node, _Row):
        return node.minimum, node.maximum
    numbers = [_number_of_rows(part) for part in node.parts]
    most = [one for _, one in numbers if one is not None]
    chosen = sum if node.operator == "SEQ" else max
    least = (sum if node.operator == "SEQ" else min)(one for one, _ in numbers)
    return least, chosen(most) if len(most) == len(numbers) else None


def _end_of(row: _Row, *, ahead: bool) -> str:
    """The first row of a variable, or its last one."""
    return f"{row.variable}{'[1]' if ahead else f'[{row.variable}.LEN]'}" if row.is_list else row.variable


def _bare(node: exp.Expr) -> exp.Expr:
    """An expression without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _groups_of(node: _Node) -> Iterator[_Group]:
    if isinstance(node, _Group):
        yield node
        for part in node.parts:
            yield from _groups_of(part)
