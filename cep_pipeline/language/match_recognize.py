"""MATCH_RECOGNIZE of SQL (ISO/IEC 19075-5; Flink, Trino, Oracle, Snowflake) as the pattern that finds the same rows.

A row of SQL has no type, so each row variable becomes a variable of the stream's base type with its DEFINE as
conditions. Rows of a SQL match are neighbours in their partition: that is `partition_contiguity`. SQL takes one match
for each row at which it begins, the one that it prefers: that is OUTPUT PREFERRED, with NON_OVERLAP where the query
skips past the last row. What the language cannot say is refused at its place.

A condition applies to the matches that have all of its variables. So where one depends on which variables a match has,
as PREV after `B?` does, the pattern is written anew as an OR of the ways in which a match may begin (`_ways`): each
way has rows of its own, of which is known whether they are there.

The SQL is parsed by sqlglot, but for the clauses that it does not read: the pattern, AFTER MATCH SKIP, WITHIN and
SUBSET. Those are read here from its tokens.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, islice
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.trino import Trino
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from cep_pipeline.errors import InputError, PatternError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.foreign_text import visible
from cep_pipeline.language.formatter import format_type, format_value
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.language.tokens import MAX_TEXT, RESERVED, SourceText, did_you_mean_of, together
from cep_pipeline.patterns.expressions import Span, ValueType
from cep_pipeline.patterns.pattern import TIME_UNITS_US


class _Dialect(Trino):
    """SQL of Trino, which also takes the backticks of Flink as quotes of names."""

    class Tokenizer(Trino.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]


@dataclass(frozen=True)
class Translation:
    """A statement of the language, and sentences that say what it takes for granted."""

    statement: str
    assumptions: tuple[str, ...]
    source: str
    line: int

    @property
    def text(self) -> str:
        """The statement under a comment with what it takes for granted."""
        head = [
            f"From MATCH_RECOGNIZE in {self.source}, line {self.line}, with the same matches.",
            *(f"- {one}" for one in self.assumptions),
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
        The window of a query that has no WITHIN, such as `1 hour`, which is longer than any match. None: such a query
        needs a greatest number of rows.

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
    words = [_bare_word(token) for token in tokens]
    depth, at = 0, index + 1
    while at < len(tokens):
        depth += {"(": 1, ")": -1}.get(words[at], 0)
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
        elif words[at] in ("FINAL", "RUNNING") and words[at + 2 : at + 3] == ["("]:
            if words[at] == "FINAL" and found.pattern:
                raise text.error(
                    "FINAL is of rows that are not read yet, and stands in MEASURES only", _span(tokens[at : at + 1])
                )
            blanks.append((tokens[at].start, tokens[at].end + 1))  # a match that is finished has all its rows
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
        depth += {"(": 1, ")": -1}.get(_bare_word(tokens[place]), 0)
        if depth == 0:
            return place
    return len(tokens) - 1


def _bare_word(token: Token) -> str:
    """The word or sign that a token is; nothing where it is quoted."""
    return "" if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else token.text.upper()


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
    branches
        The ORs that it stands in, and the place in each of the alternative that has it.
    """

    name: str
    span: Span
    minimum: int = 1
    maximum: int | None = 1
    reluctant: bool = False
    variable: str = ""
    before: frozenset[_Row | None] = frozenset()
    earlier: frozenset[_Row] = frozenset()
    branches: frozenset[tuple[_Group, int]] = frozenset()

    @property
    def is_list(self) -> bool:
        return self.maximum != 1

    @property
    def is_optional(self) -> bool:
        return self.minimum == 0

    @property
    def is_single(self) -> bool:
        return (self.minimum, self.maximum) == (1, 1)


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


def _group(operator: str, parts: list[_Node]) -> _Node:
    """Parts under an operator; one alone needs none."""
    return parts[0] if len(parts) == 1 else _Group(operator, parts, Span(parts[0].span.start, parts[-1].span.end))


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
        return _group("OR", parts)

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._word() not in ("", ")", "|"):
            parts.append(self._quantified())
        if not parts:
            raise self._error("an empty row pattern matches no row; here each match has an event")
        return _group("SEQ", parts)

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


def _ways(parts: Sequence[_Node]) -> Iterator[list[_Node]]:
    """The ways in which a match of parts may begin, those first that SQL prefers.

    A list of no fixed length ends what is told apart: its length is decided before the choices behind it.
    """
    if not parts:
        yield []
        return
    first, *rest = parts
    if isinstance(first, _Group):
        for begun in [first.parts] if first.operator == "SEQ" else [[part] for part in first.parts]:
            yield from _ways([*begun, *rest])
    elif first.is_optional:
        begins = [[replace(first, minimum=1), *rest], rest]
        for way in reversed(begins) if first.reluctant else begins:
            yield from _ways(way)
    elif first.minimum == first.maximum:
        for way in _ways(rest):
            yield [first, *way]
    else:
        yield list(parts)


def _note_order(
    node: _Node,
    before: frozenset[_Row | None] = frozenset((None,)),
    earlier: frozenset[_Row] = frozenset(),
    branches: frozenset[tuple[_Group, int]] = frozenset(),
) -> frozenset[_Row | None]:
    """Note for each row which ones stand before it; return those that may be the last before what follows."""
    if isinstance(node, _Row):
        node.before, node.earlier, node.branches = before, earlier, branches
        return frozenset((node,)) | (before if node.is_optional else frozenset())
    if node.operator == "SEQ":
        for part in node.parts:
            before = _note_order(part, before, earlier, branches)
            earlier |= frozenset(_rows_of(part))
        return before
    return frozenset(
        last
        for place, part in enumerate(node.parts)
        for last in _note_order(part, before, earlier, branches | {(node, place)})
    )


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

_NO_VALUES = {
    "CLASSIFIER": "the variable of a row is no value here: leave it out, and read it in the bindings of the match",
    "MATCH_NUMBER": "matches have no number here: leave it out, and number the rows of the matches by start_ts",
    "NEXT": "NEXT looks at a row that is not read yet: put the condition on the variable that follows, with PREV",
}

_Part = str | bool | None
"""A condition as text, or its value where that is known: None is unknown, which never holds."""
_MOST_WAYS = 16
"""Ways in which a match may begin that are written out."""
_ONE_LINE = 110
"""Characters of values of RETURN that stand in one line."""


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
        self.assumptions: dict[str, None] = {}
        self.problems: list[PatternError] = []
        self.told: dict[str, exp.Expr] = {}  # what a condition or a measure says, and where
        self.uses_steps = self.reads_others = False
        if not clauses.pattern:
            raise text.error("this MATCH_RECOGNIZE has no PATTERN", clauses.span)
        self._use(_PatternReader(text, clauses.pattern, clauses.pattern_span).read())
        for copies in self.rows.values():
            for one, other in combinations(copies, 2):
                if not self._exclude(one, other):
                    raise text.error(
                        f"variable {one.name} stands twice in the pattern; give the second a name of its own with the "
                        "same DEFINE",
                        other.span,
                    )
        if None in self.ends:
            raise text.error(
                "this row pattern may match no row, and SQL then has a match without rows; here each match has an "
                "event: write + for a *, or leave out a ?",
                clauses.pattern_span,
            )
        self.variables = set(self.rows)
        self._check_around()
        self.order = self._order()
        self.defined = self._definitions()
        self.gaps = self._gaps()
        self.partition = [self._attribute(one) for one in self.match.args.get("partition_by") or ()]
        self.valued = {"timestamp", "seq", self.schema.type_attribute, *self.schema.key}  # all events have these
        if self.schema.quality is not None:
            checks = self.schema.quality.expectations
            self.valued |= {one.column for one in checks if one.not_null and one.severity == "critical"}
        for name, node in zip(self.partition, self.match.args.get("partition_by") or (), strict=True):
            if self._type(name) is ValueType.FLOAT64:
                message = f"rows whose {name} is NaN are one partition in SQL, and none here"
            elif name not in self.valued:
                message = (
                    f"in SQL the rows without a value of {name} are one partition, and here each is alone; where all "
                    "rows have a value, let the schema say so under quality: expectations: "
                    f"[{{column: {name}, not_null: true}}]"
                )
            else:
                continue
            self.problems.append(self._refused(message, node))

    def _use(self, pattern: _Node) -> None:
        """Take a pattern for that of the query."""
        self.pattern = pattern
        self.rows: dict[str, list[_Row]] = {}
        names = {row.name.lower() for row in _rows_of(pattern)}
        for row in _rows_of(pattern):
            others = names - {row.name.lower()}
            row.variable = self._free_name(row.name.lower(), [*others, *(one.variable for one in self._all_rows())])
            self.rows.setdefault(row.name.upper(), []).append(row)
        self.ends = _note_order(pattern)
        self.firsts = [row for row in _rows_of(pattern) if None in row.before]
        self.lasts = [row for row in _rows_of(pattern) if row in self.ends][::-1]

    def _all_rows(self) -> list[_Row]:
        return [row for copies in self.rows.values() for row in copies]

    def translation(self) -> Translation:
        """The statement, checked by the parser of the language."""
        skip, window = self._tried(self._skip), self._tried(self._window)
        general = self.problems
        lines = self._body([self.pattern])
        if self.problems and (ways := self._written_out()):
            lines = self._body(ways)
        if problems := [*general, *self.problems]:
            raise together(list({(one.line, one.column, one.message): one for one in problems}.values()))
        pattern, condition, returns = lines
        partition = [f"PARTITION BY {', '.join(self.partition)}"] if self.partition else []
        statement = "\n".join(
            [f"NAME {self._name()}", pattern, condition, f"WITHIN {window}", *partition, f"OUTPUT {skip}", *returns]
        )
        try:
            parse_patterns(statement, self.schema, source=self.text.name)
        except PatternError as error:
            message, line = f"this cannot be said: {error.message}", statement.splitlines()[error.line - 1]
            if self.clauses.within and line.startswith("WITHIN"):
                raise self.text.error(message, _span(self.clauses.within)) from error
            if self.default_within and line.startswith(("WITHIN", "PARTITION", "OUTPUT")):
                raise InputError(f"--within {self.default_within}: {error.message}") from error
            at = sum(map(len, statement.splitlines(keepends=True)[: error.line - 1])) + error.column - 1
            for text, node in self.told.items():
                if any(one.start() <= at < one.end() for one in re.finditer(re.escape(text), statement)):
                    raise self._refused(message, node) from error
            raise self.text.error(message, self.clauses.pattern_span) from error
        return Translation(
            statement, tuple(self.assumptions), self.text.name, self.text.place(self.clauses.span.start)[0]
        )

    def _written_out(self) -> list[_Node]:
        """The ways in which a match may begin, each with rows of its own; none where that tells nothing."""
        ways = list(islice(_ways([self.pattern]), _MOST_WAYS + 1))
        if self.gaps or not 1 < len(ways) <= _MOST_WAYS:
            return []
        for row in self._all_rows():  # a copy has an order of its own
            row.before, row.earlier, row.branches = frozenset(), frozenset(), frozenset()
        return [_group("SEQ", deepcopy(way)) for way in ways]

    def _body(self, ways: list[_Node]) -> tuple[str, str, list[str]]:
        """PATTERN, WHERE and RETURN, of an OR of ways in which a match may begin."""
        self._use(_group("OR", ways))
        self.ways, self.problems = ways, []
        never: dict[_Row, exp.Expr] = {}
        conditions = [one for row in _rows_of(self.pattern) for one in self._conditions_of(row, never)]
        parts = [way.parts if isinstance(way, _Group) else [way] for way in ways]
        dead = [any(isinstance(row, _Row) and row in never and not row.is_optional for row in own) for own in parts]
        if any(dead) and not all(dead):
            return self._body([way for way, is_dead in zip(ways, dead, strict=True) if not is_dead])
        for row, member in never.items():
            name = self.text.text[row.span.start : row.span.end]
            never_true = f"no row fits {name} here: this is never true, as it is false or looks at a null"
            self.problems.append(self._refused(never_true, member))
        returns = self._returns()
        between = ", " if sum(map(len, returns)) < _ONE_LINE else ",\n  "
        condition = "\n  AND ".join(conditions) or "TRUE"
        return (
            f"PATTERN {self._structure(self.pattern)}",
            f"WHERE {self._strategy()} {{ {condition} }}",
            [f"RETURN {between.join(returns)}"] if returns else [],
        )

    def _tried(self, make: Callable[..., str], *arguments: object) -> str | None:
        """The result, or None where it is refused: all that stands in the way is told together."""
        try:
            return make(*arguments)
        except PatternError as error:
            self.problems.append(error)
            return None

    def _assume(self, sentence: str) -> None:
        self.assumptions[sentence] = None

    def _refused(self, message: str, node: exp.Expr) -> PatternError:
        """The error that refuses the query for what stands at a part of it."""
        starts = [one.meta for one in node.walk() if "start" in one.meta]
        if not starts:  # a constant has no place, but what it stands in
            return self._refused(message, node.parent) if node.parent else self.text.error(message, self.clauses.span)
        start, end = min(one["start"] for one in starts), max(one["end"] for one in starts) + 1
        if not isinstance(node, exp.Column | exp.Identifier):  # the name of a function stands before what is in it
            line_start = self.text.text.rfind("\n", 0, start) + 1
            called = re.search(r"\b(?!(?:AS|AND|OR|NOT)\b)\w+\s*\(\s*$", self.text.text[line_start:start])
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
        name = _word(alias.name if alias is not None else "", "rows_matched")
        name = self._free_name(name, self.names)
        self.names.add(name)
        return name

    def _order(self) -> str | None:
        """The column of ORDER BY, which is taken for the timestamp of the events."""
        order = self.match.args.get("order")
        if order is None:
            self._assume("Without ORDER BY rows are in the order of the stream.")
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
            self._assume(f"ORDER BY {name} is taken for the timestamp of the stream {self.schema.name}.")
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

    def _definitions(self) -> dict[str, exp.Expr]:
        defined = {}
        for one in self.match.args.get("define") or ():
            if one.alias.upper() not in self.rows:
                raise self._refused(f"DEFINE names {one.alias}, which PATTERN does not", one.args["alias"])
            if one.alias.upper() in defined:
                raise self._refused(f"DEFINE names {one.alias} twice", one.args["alias"])
            defined[one.alias.upper()] = one.this
        return defined

    def _gaps(self) -> frozenset[_Row]:
        """Variables that only let any rows lie between the others, as few as can be, between all of them."""
        if isinstance(self.pattern, _Row) or self.pattern.operator != "SEQ":
            return frozenset()
        mentioned = {column.table.upper() for column in self.match.find_all(exp.Column) if column.table}
        mentioned |= set(self.defined)
        others, gaps = self.pattern.parts[::2], self.pattern.parts[1::2]
        single = all(isinstance(part, _Row) and part.is_single for part in others)
        free = all(
            isinstance(part, _Row)
            and (part.minimum, part.maximum, part.reluctant) == (0, None, True)
            and part.name.upper() not in mentioned
            for part in gaps
        )
        of_all = any(  # PREV, COUNT(*) and the like see the rows between
            not (isinstance(one, exp.First | exp.Last) and not one.args.get("expression"))
            and (isinstance(one, exp.Anonymous) or not (one.this and _bare(one.this).args.get("table")))
            for one in self.match.find_all(exp.Anonymous, exp.AggFunc)
        )
        if of_all or not (gaps and free and single and len(others) > len(gaps)):
            return frozenset()
        return frozenset(part for part in gaps if isinstance(part, _Row))

    def _strategy(self) -> str:
        if not self.gaps:
            return "partition_contiguity" if self.partition else "strict_contiguity"
        first = next(_rows_of(self.pattern)).name.upper()
        named = [(name, one.table.upper()) for name, test in self.defined.items() for one in test.find_all(exp.Column)]
        # The first row that fits may be no part of a match where a later variable looks at it.
        looks_back = any(other not in ("", first, name) for name, other in named)
        return "skip_till_any_match" if looks_back else "skip_till_next_match"

    def _skip(self) -> str:
        """The matches that OUTPUT keeps, as AFTER MATCH SKIP says."""
        after = self.clauses.after
        if after == ("TO", "NEXT", "ROW"):
            return "PREFERRED"
        if not after:
            self._assume("Without AFTER MATCH SKIP this skips past the last row, as the standard says.")
        elif after != ("PAST", "LAST", "ROW"):
            assert self.clauses.after_span is not None
            raise self.text.error(
                f"SKIP {' '.join(after)} cannot be said: write SKIP TO NEXT ROW for the matches from each row, or SKIP "
                "PAST LAST ROW",
                self.clauses.after_span,
            )
        return "PREFERRED NON_OVERLAP"

    def _window(self) -> str:
        tokens = self.clauses.within
        if tokens:
            words = [token.text for token in tokens]
            unit = _UNITS.get(words[-1].upper().rstrip("S"))
            known = len(words) == 4 and words[1].upper() == "INTERVAL" and unit is not None
            if unit is None or not known or not re.fullmatch(r"\d+(\.\d+)?", words[2]):
                raise self.text.error("write the window as WITHIN INTERVAL '10' MINUTE", _span(tokens))
            # A match of exactly that length is left out.
            return f"{math.ceil(Fraction(words[2]) * TIME_UNITS_US[unit]) - 1} us"
        if self.default_within is not None:
            self._assume(f"No match is longer than {self.default_within}, as --within says.")
            return self.default_within
        most = _most_rows(self.pattern)
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
        question = "?" if node.reluctant and node.minimum != node.maximum else ""
        if node.is_list:
            most = "" if node.maximum is None else node.maximum
            limits = most if node.minimum == node.maximum else f"{node.minimum},{most}"
            sign = {(0, True): "*", (1, True): "+"}.get((node.minimum, node.maximum is None or node.is_optional), "")
            return f"{base}{sign or f'{{{limits}}}'}{question} {node.variable}[]"
        return f"{base}{'?' if node.is_optional else ''}{question} {node.variable}"

    def _check_around(self) -> None:
        """Refuse rows that are chosen or joined before they are matched, and what is asked of the matches."""
        source = self.query.args.get("from_")
        inner = source.this if source is not None else None
        root = self.query.root()
        taken = [inner] if inner is not None else []
        plain = (exp.Table, exp.TableAlias, exp.Identifier, exp.Subquery, exp.Select, exp.From, exp.Star, exp.Column)
        for one in taken:
            if any(not isinstance(node, plain) or node.args.get("columns") for node in one.walk()):
                raise self._refused(
                    "rows that are chosen or made before the matching cannot be said, since neighbours are neighbours "
                    "in the stream; put the condition into PARTITION BY or into a stream of its own",
                    one,
                )
            tables = {table.name.lower() for table in one.find_all(exp.Table)}
            queries = [cte for cte in root.find_all(exp.CTE) if cte.alias.lower() in tables]
            taken += [part for cte in queries for part in (cte.this, cte.args["alias"]) if part not in taken]
        wanted = ("where", "group", "having", "joins", "qualify", "windows", "limit", "offset", "distinct", "sample")
        asked = [self.query.args[one] for one in wanted if self.query.args.get(one)]
        asked += alias.columns if (alias := self.match.args.get("alias")) else []
        asked += [one for one in self.query.args.get("expressions") or () if not isinstance(one, exp.Star | exp.Column)]
        if not isinstance(self.query.parent, exp.Create | exp.Insert | None):
            asked.append(root.args.get("expressions") or root)
        if asked:
            part = asked[0][0] if isinstance(asked[0], list) else asked[0]
            raise self._refused(
                "the query around MATCH_RECOGNIZE is not translated: write SELECT * FROM … MATCH_RECOGNIZE (…), and "
                "ask the rest of the table of matches",
                part,
            )

    # conditions

    def _conditions_of(self, row: _Row, never: dict[_Row, exp.Expr]) -> Iterator[str]:
        """The conditions of a row variable: of a list of its first row and of later ones, where they differ.

        That of a variable which no row fits is noted in `never`.
        """
        if row.is_optional and row.maximum not in (1, None):
            yield f"{row.variable}.LEN <= {row.maximum}"
        # Where these exclude each other, a condition on one of them is of no match that has another one before the row.
        apart = all(one and other and self._exclude(one, other) for one, other in combinations(row.before, 2))
        befores = sorted(row.before, key=lambda one: one.variable if one else "") if apart else [None]
        defined = self.defined.get(row.name.upper())
        for member in defined.flatten() if isinstance(defined, exp.And) else [defined] if defined else []:
            self.uses_steps = False
            first = [self._whole(member, _Here(row, "first" if row.is_list else "each", one)) for one in befores]
            later = self._whole(member, _Here(row, "later")) if row.is_list else True
            if row.is_list and not self.uses_steps:
                first, later = [self._whole(member, _Here(row))], True
            if not all(first):
                never[row] = member
            self.told.update((one, member) for one in (*first, later) if isinstance(one, str))
            yield from dict.fromkeys(
                one for one in (*first, later or f"{row.variable}.LEN = 1") if isinstance(one, str)
            )

    def _whole(self, member: exp.Expr, here: _Here) -> _Part:
        """A part of a DEFINE, which is asked only where a match has the row."""
        self.reads_others = False
        try:
            text, row = self._condition(member, here), here.row
        except PatternError as error:
            self.problems.append(error)
            return True
        if not isinstance(text, str):
            return text
        if row is not None and self.reads_others and self._may_lack(row, None):
            index = "" if not row.is_list else "[i]" if here.step == "later" else "[1]"
            return f"({text} OR {row.variable}{index}.seq IS NULL)"
        return f"({text})" if isinstance(_bare(member), exp.Or) and " OR " in text else text

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
            f"({text})" if isinstance(_bare(one), other) and (is_and or len(texts) > 1) else text
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
        if isinstance(text, str) and row is not None:
            self.reads_others |= not re.search(rf"\b{row.variable}[.\[]", re.sub("'[^']*'", "", text))
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
                if node.find_ancestor(exp.Not):
                    raise self._refused("an end of this BETWEEN is null here: write it as two comparisons", node)
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
        """An expression as text, or None where it is null; `outer` is the precedence of what stands around it.

        What is refused in it is noted, so that all that stands in the way is told.
        """
        try:
            return self._said(node, here, outer)
        except PatternError as error:
            self.problems.append(error)
            return "0"

    def _said(self, node: exp.Expr, here: _Here, outer: int) -> str | None:
        match node:
            case exp.Paren():
                return self._value(node.this, here, outer)
            case exp.Null():
                return None
            case exp.Boolean():
                return format_value(bool(node.this))
            case exp.Literal():
                return format_value(node.this) if node.is_string else str(node.this).rstrip(".")
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
            text = self._aggregate(node, here)
            return f"({text})" if outer and text and re.search(r" [*+/] ", text) else text
        raise self._refused(f"{self._shown(node)} cannot be said in an expression", node)

    def _arithmetic(self, node: exp.Expr, here: _Here, outer: int) -> str | None:
        sign, tightness = _ARITHMETIC[type(node)]
        left, right = self._value(node.this, here, tightness), self._value(node.expression, here, tightness + 1)
        if not any(map(self._is_double, (node.this, node.expression))):
            if isinstance(node, exp.Div):
                raise self._refused(
                    "a division of whole numbers or decimals has few digits or none behind the point in most engines, "
                    "and has all here: write 1E0 * before it",
                    node,
                )
            for one in node.find_all(exp.Literal):
                if not one.is_string and "." in one.this and Fraction(one.this) != float(one.this):
                    raise self._refused(f"{one.this} is an exact decimal in SQL: write {one.this}E0, a float64", node)
        if left is None or right is None:
            return None
        right = f"({right})" if right.startswith("-") else right
        text = f"{left} {sign} {right}"
        return f"({text})" if tightness < outer else text

    def _is_double(self, node: exp.Expr) -> bool:
        """True where a value is neither a whole number nor a decimal by its type."""
        match node:
            case exp.Column():
                return self.schema.attributes.get(self._attribute(node)) is ValueType.FLOAT64
            case exp.Literal():
                return "e" in node.this.lower()
            case exp.Count():
                return False
            case exp.Avg() | exp.Sqrt() | exp.Ln() | exp.Stddev() | exp.StddevSamp() | exp.Median():
                return True
        return any(map(self._is_double, node.iter_expressions()))

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

    def _type(self, attribute: str) -> ValueType:
        return self.schema.attributes.get(attribute, ValueType.INT64)  # else it is timestamp or seq

    def _row_of(self, column: exp.Column, here: _Here) -> _Row | None:
        """The row variable that a column in a DEFINE belongs to; None: it has no row yet, and the column is null."""
        assert here.row is not None
        named = self._copies(column) if column.table else [here.row]
        rows = [row for row in named if row is here.row or row in here.row.earlier]
        if rows and rows[0] is not here.row and self._may_lack(rows[0], here.row):
            raise self._refused(
                f"a match may have no {rows[0].name}: this is null in SQL then, and is not asked here; write a query "
                f"with {rows[0].name}, and one without it",
                column,
            )
        return rows[0] if rows else None

    def _copies(self, column: exp.Column) -> list[_Row]:
        """The rows of the variable that a column names: one for each way in which a match with it may begin."""
        if column.table.upper() not in self.variables:
            raise self._refused(f"PATTERN has no variable {column.table}", column)
        return self.rows.get(column.table.upper(), [])

    def _exclude(self, one: _Row, other: _Row) -> bool:
        """Return whether no match has both rows."""
        places = dict(other.branches)
        return any(places.get(group, place) != place for group, place in one.branches)

    def _may_lack(self, row: _Row, here: _Row | None) -> bool:
        """True where a match may have `here` without `row`; None: where there may be a match without it."""
        return row.is_optional or not row.branches <= (here.branches if here else frozenset())

    def _reference(self, column: exp.Column, here: _Here) -> str | None:
        attribute = self._attribute(column)
        if here.row is None:
            rows = self._copies(column) if column.table else self.lasts
            return self._one_of(rows, attribute, column, ahead=False)
        row = self._row_of(column, here)
        if row is here.row:
            index = {"first": "[1]", "later": "[i]"}.get(here.step, "") if row.is_list else ""
            return f"{row.variable}{index}.{attribute}"
        return f"{_end_of(row, ahead=False)}.{attribute}" if row else None

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
        row = self._row_of(column, here) if here.row and column.table else None
        if here.row and not is_first and steps == 1 and (row is here.row or not column.table):
            return self._row_before(column, here, node)
        if steps != 0:
            raise self._refused(
                "the first and the last row can be named; and in the DEFINE of a variable its row before, "
                "LAST(B.price, 1)",
                node,
            )
        if here.row is None:
            rows = self._copies(column) if column.table else self.firsts if is_first else self.lasts
            return self._one_of(rows, self._attribute(column), node, ahead=is_first)
        if not is_first:
            return self._reference(column, here)
        if not column.table:
            first, *others = [one for one in self.firsts if one is here.row or one in here.row.earlier]
            if others:
                raise self._refused("this row may be of several variables: name the one that is meant", node)
            row = first
        self.uses_steps |= row is here.row and row.is_list
        return f"{_end_of(row, ahead=True)}.{self._attribute(column)}" if row else None

    def _one_of(self, rows: Sequence[_Row], attribute: str, node: exp.Expr, *, ahead: bool) -> str | None:
        """An attribute of the first of some variables that a match has; None: no match has one of them."""
        texts = []
        for place, row in enumerate(rows):
            text = f"{_end_of(row, ahead=ahead)}.{attribute}"
            if attribute not in self.valued:  # it may be null where a row is
                beside = [one for one in rows[:place] if not self._exclude(one, row)]
                if beside and self._type(attribute) not in (ValueType.INT64, ValueType.FLOAT64):
                    raise self._refused("this row may be of several variables: name the one that is meant", node)
                # null where a match has one of these, and else + 0
                text += "".join(f" + 0 % coalesce(0 * {_end_of(one, ahead=ahead)}.seq, 1)" for one in beside)
            texts.append(text)
        return f"coalesce({', '.join(texts)})" if len(texts) > 1 else texts[0] if texts else None

    def _called(self, node: exp.Expr, here: _Here) -> str | None:
        """PREV and NEXT, and other functions that have no class of their own."""
        name = str(node.name).upper()
        names = {row.name if self.text.text[row.span.start] == '"' else row.name.upper() for row in self.lasts}
        if name == "CLASSIFIER" and here.row is None and not node.expressions and len(names) == 1:
            return format_value(names.pop())
        if name in _NO_VALUES:
            raise self._refused(_NO_VALUES[name], node)
        if name != "PREV" or here.row is None:
            raise self._refused(f"{self._shown(node)} cannot be said here", node)
        column, *more = node.expressions
        if isinstance(column, exp.Last) and column.args.get("expression") is None:
            column = column.this
        steps = self._steps(more[0] if more else None, 1)
        if not isinstance(column, exp.Column) or self._row_of(column, here) is not here.row or steps != 1:
            raise self._refused("PREV takes a column of the row that is defined, and is of the row before", node)
        return self._row_before(column, here, node)

    def _row_before(self, column: exp.Column, here: _Here, node: exp.Expr) -> str | None:
        """A column of the row before the present one, which for LAST is one of the match, or of the variable."""
        assert here.row is not None
        self.uses_steps = True
        if here.row.is_list and here.step == "later":
            return f"{here.row.variable}[i-1].{self._attribute(column)}"
        if isinstance(node, exp.Last) and (column.table or here.row.before == {None}):
            return None
        if here.before:
            return f"{_end_of(here.before, ahead=False)}.{self._attribute(column)}"
        raise self._refused(
            "the row before may lie outside of the match, or be of several variables: let the schema derive the "
            "difference to the row before (derived: diff), or begin the pattern one row earlier",
            node,
        )

    def _aggregate(self, node: exp.Expr, here: _Here) -> str | None:
        """An aggregate over rows of a match; in the DEFINE of a list over its rows so far, the present one too."""
        name, column = _AGGREGATES[type(node)], node.this
        counts_rows = isinstance(column, exp.Star) or (column is not None and isinstance(column.this, exp.Star))
        if node.expressions or not (counts_rows or isinstance(column, exp.Column)):
            raise self._refused("an aggregate takes a column, such as AVG(B.price)", node)
        if counts_rows and name != "count":
            raise self._refused("only COUNT takes all columns", node)
        attribute = "seq" if counts_rows else self._attribute(column)
        if name not in ("count", "min", "max") and not self._type(attribute).is_number:
            raise self._refused(f"{name} takes numbers", node)
        named = isinstance(column, exp.Column) and column.table
        if here.row is None:
            return self._over(name, self._copies(column) if named else self._all_rows(), attribute, node)
        if not named and here.row.earlier:
            raise self._refused("in a DEFINE an aggregate takes a column of one variable, such as AVG(B.price)", node)
        row = self._row_of(column, here) if named else here.row
        if row is here.row and row.is_list:
            return self._running(name, row, attribute, here, node)
        return self._over(name, [row] if row else [], attribute, node)

    def _over(self, name: str, rows: Sequence[_Row], attribute: str, node: exp.Expr) -> str | None:
        """An aggregate over all rows of some variables."""
        if name == "count":
            known = attribute in self.valued or self._type(attribute) is ValueType.INT64
            if not all(known or row.is_list for row in rows):
                raise self._refused("nulls are left out, which cannot be said here: COUNT(A.*) counts rows", node)
            return self._count(rows, attribute)
        own = [[row for row in _rows_of(way) if row in rows] for way in self.ways]
        texts = [self._over_one_way(name, some, attribute, node) for some in own if some]
        return f"coalesce({', '.join(texts)})" if len(texts) > 1 else texts[0] if texts else None

    def _over_one_way(self, name: str, rows: Sequence[_Row], attribute: str, node: exp.Expr) -> str:
        if name in ("stddev", "median") and not all(row.is_list for row in rows):
            raise self._refused(f"{name} over one row cannot be said", node)
        texts = [
            f"{name}({row.variable}[].{attribute})" if row.is_list else f"{row.variable}.{attribute}" for row in rows
        ]
        if len(rows) == 1:
            is_whole = name == "avg" and not rows[0].is_list and self._type(attribute) is ValueType.INT64
            return f"1.0 * {texts[0]}" if is_whole else texts[0]
        if name in ("min", "max"):
            return f"{'least' if name == 'min' else 'greatest'}({', '.join(texts)})"
        if name == "avg":
            counted = self._count(rows, attribute)
            if self._type(attribute) is not ValueType.INT64:
                return f"{self._over_one_way('sum', rows, attribute, node)} / ({counted})"
            texts = [f"sum{text[3:]}" if text[-1] == ")" else text for text in texts]
            return f"({' + '.join(f'coalesce({_as_real(text)}, 0.0)' for text in texts)}) / ({counted})"
        if name != "sum":
            raise self._refused(f"{name} over the rows of several variables cannot be said", node)
        sure = [attribute in self.valued and not self._may_lack(row, None) for row in rows]
        if self._type(attribute) is ValueType.INT64 or all(sure):
            none = [] if any(sure) else [f"0 * coalesce({', '.join(texts)})"]
            terms = [text if is_sure else _null_as_0(text) for text, is_sure in zip(texts, sure, strict=True)]
            return " + ".join([*terms, *none])
        while len(texts) > 1:  # in pairs, which grows less than one after the other
            pairs = [texts[at : at + 2] for at in range(0, len(texts), 2)]
            texts = [f"coalesce({one[0]} + {one[1]}, {', '.join(one)})" if len(one) > 1 else one[0] for one in pairs]
        return texts[0]

    def _count(self, rows: Sequence[_Row], attribute: str) -> str:
        """The number of rows of some variables whose attribute is not null."""
        counts_rows = attribute in self.valued
        texts: list[str] = []
        sure: dict[frozenset[tuple[_Group, int]], list[_Row]] = {}  # by the alternatives in which a match has them
        for row in rows:
            if counts_rows and row.minimum == row.maximum:
                sure.setdefault(row.branches, []).append(row)
            elif row.is_list:
                text = f"{row.variable}.LEN" if counts_rows else f"count({row.variable}[].{attribute})"
                texts.append(f"coalesce({text}, 0)" if self._may_lack(row, None) else text)
            elif self._type(attribute) is ValueType.INT64:
                texts.append(f"coalesce(0 * {row.variable}.{attribute} + 1, 0)")
            else:  # infinity, too, gives 1
                texts.append(f"coalesce(0 % (abs({row.variable}.{attribute}) + 1) + 1, 0)")
        for branches, some in sure.items():
            number = str(sum(row.minimum for row in some))
            texts.append(f"coalesce(0 * {_end_of(some[0], ahead=True)}.seq + {number}, 0)" if branches else number)
        return " + ".join(texts) or "0"

    def _running(self, name: str, row: _Row, attribute: str, here: _Here, node: exp.Expr) -> str:
        self.uses_steps = True
        own = f"{row.variable}[{'1' if here.step == 'first' else 'i'}].{attribute}"
        before = f"({row.variable}[..i-1].{attribute})"
        if name in ("stddev", "median") or (name == "count" and self._type(attribute) is not ValueType.INT64):
            raise self._refused(f"{name} over the rows so far cannot be said", node)
        one = "1" if attribute in self.valued else f"coalesce(0 * {own} + 1, 0)"
        if here.step == "first":
            return one if name == "count" else f"1.0 * {own}" if name == "avg" else own
        match name:
            case "count":
                return f"(count{before} + {one})"
            case "min" | "max":
                return f"{'least' if name == 'min' else 'greatest'}({name}{before}, {own})"
            case "sum" if self._type(attribute) is ValueType.INT64:
                texts = [f"sum{before}", own]
                return f"({' + '.join(map(_null_as_0, texts))} + 0 * coalesce({', '.join(texts)}))"
            case "sum":  # a null is left out
                return f"coalesce(sum{before} + {own}, sum{before}, {own})"
        if self._type(attribute) is ValueType.INT64:
            return f"coalesce((coalesce({_as_real(f'sum{before}')}, 0) + {own}) / (count{before} + 1), avg{before})"
        return f"coalesce((sum{before} + {own}) / (count{before} + 1), avg{before}, {own})"

    # RETURN

    def _returns(self) -> list[str]:
        items = {name: self._one_of(self.firsts, name, self.match, ahead=True) for name in self.partition}
        for measure in self.match.args.get("measures") or ():
            alias = measure.this
            value = alias.this if isinstance(alias, exp.Alias) else alias
            text = self._tried(self._measure, value)
            name = _word(alias.alias if isinstance(alias, exp.Alias) else value.name, "value")
            if name.lower() in _FIXED:
                self._assume(f"Every match has a column {name.lower()}: the measure {name} is called {name}_.")
                name = f"{name}_"
            items[self._free_name(name, items)] = text or ""
            self.told[text or ""] = value
        if times := [name for name, text in items.items() if text and ".timestamp" in text]:
            self._assume(f"Times are microseconds, since 1970 in UTC, and lengths of time too: {', '.join(times)}.")
        return [f"{text} AS {name}" for name, text in items.items()]

    def _measure(self, value: exp.Expr) -> str:
        text = self._value(value, _Here(None))
        if text is None:
            raise self._refused("this measure is always null", value)
        return text


def _most_rows(node: _Node) -> int | None:
    """The greatest number of rows of a match; None: there is none."""
    if isinstance(node, _Row):
        return node.maximum
    numbers = [_most_rows(part) for part in node.parts]
    known = [one for one in numbers if one is not None]
    return (sum if node.operator == "SEQ" else max)(known) if len(known) == len(numbers) else None


def _end_of(row: _Row, *, ahead: bool) -> str:
    """The first row of a variable, or its last one."""
    return f"{row.variable}{'[1]' if ahead else f'[{row.variable}.LEN]'}" if row.is_list else row.variable


def _null_as_0(text: str) -> str:
    """A whole number with 0 where nothing was there to be summed; a sum that has left int64 stays null."""
    return f"coalesce({text}, {f'0 % coalesce(0 * min{text[3:]}, 1)' if text[-1] == ')' else 0})"


def _as_real(text: str) -> str:
    """A value, or a sum of whole numbers that is there as a float64 where it leaves int64."""
    return f"{text}, avg{text[3:]} * count{text[3:]}" if text[-1] == ")" else text


def _word(name: str, otherwise: str) -> str:
    """A name as a word of the language."""
    word = re.sub(r"\W", "_", name) or otherwise
    return word if re.match(r"[^\W\d]", word) else f"{otherwise}_{word}"


def _bare(node: exp.Expr) -> exp.Expr:
    """An expression without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node
