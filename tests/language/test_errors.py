"""What is refused: the place, what the message says, and the hint."""

from __future__ import annotations

import pickle

import pytest

from cep_pipeline.errors import InputError, PatternError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.language.scope import WrittenValues
from cep_pipeline.language.tokens import PatternWarning, SourceText
from cep_pipeline.patterns.expressions import Span
from tests.language import schemas
from tests.language.schemas import SCHEMA, parse_one

PAIR = "NAME pair PATTERN SEQ(A a, B b) WITHIN 1 day RETURN a.x AS x, b.y, b.x AS t, a.x AS s;"

# The text, with what must be underlined between « and », and a part of the message.
REFUSED = [
    # Lexical
    ("PATTERN A a WHERE a.s = «'open WITHIN 1 day»", "string has no end"),
    ('PATTERN «"A a WITHIN 1 day»', "quoted name has no end"),
    ("PATTERN A a «/* WITHIN 1 day»", "comment has no end"),
    ("PATTERN A a «\\» WITHIN 1 day", "unexpected character"),
    ("PATTERN SEQ(A a, «!»B b) WITHIN 1 day", "an event that must not occur is written ~Type v"),
    ("PATTERN A a WHERE a.x IN «$» WITHIN 1 day", "write $name"),
    # Statement
    ("«SEQ»(A a) WITHIN 1 day", "expected PATTERN but found 'SEQ'"),
    ("«PATERN» A a WITHIN 1 day", "did you mean 'PATTERN'?"),
    ("NAME «PATTERN» A a WITHIN 1 day", "expected a name for the pattern"),
    ("NAME kl «A» a WITHIN 1 day", "expected PATTERN"),
    ("NAME p PATTERN A a WITHIN 1 day; NAME «p» PATTERN A a WITHIN 1 day", "duplicate name 'p'"),
    ("NAME pattern_2 PATTERN A a WITHIN 1 day; «PATTERN» A a WITHIN 1 day", "name this one"),
    ("PATTERN A a WITHIN 1 day «PATTERN» B b WITHIN 1 day", "separated by ';'"),
    ("PATTERN A a WITHIN 1 day RETURN a.x «TIES» ANY", "the clauses stand in the order"),
    ("PATTERN A a «TIES» ANY WITHIN 1 day", "the clauses stand in the order"),
    ("PATTERN A a WITHIN 1 day TIES «ARIVAL»", "did you mean 'ARRIVAL'?"),
    ("PATTERN A a WITHIN 1 day OUTPUT «NON»", "expected ALL or NON_OVERLAP"),
    ("PATTERN A a WITHIN 1 day CONSUME «ALL»", "expected NONE or MATCHED"),
    # Structure
    ("PATTERN «within» a WITHIN 1 day", "this word is reserved"),
    ("PATTERN A «SEQ» WITHIN 1 day", "this word is reserved"),
    ("PATTERN SEQ(A «as» a, B b) WITHIN 1 day", "reserved; a type is followed by a variable, as in SEQ(A a, B b)"),
    ("PATTERN SEQ(A a, B b«{»2,}) WITHIN 1 day", "stands behind their type, as in A{2,} v[]"),
    ("PATTERN A a «FOLLOWED» BY B b WITHIN 1 day", "events in order are written SEQ(A a, B b)"),
    ("PATTERN A a WITHIN 1 day «GROUP» BY a.x", "GROUP BY stands behind SUMMARIZE"),
    ("PATTERN A a WHERE a.x «>» '3.5' WITHIN 1 day", "cannot compare int with string; a number has no quotes"),
    ("PATTERN A a WHERE '2025-01-06' «<» a.x WITHIN 1 day", "a moment is written TIMESTAMP '2025-01-06'"),
    (
        "PATTERN A a WHERE last(«a».x) > 1 WITHIN 1 day",
        "an aggregate over a list of events, and 'a' is a single",
    ),
    ("«every» a=A WITHIN 1 day", "`cep help coming_from`"),
    ("PATTERN SEQ(A a, «158» b) WITHIN 1 day", "written in double quotes"),
    ('PATTERN SEQ(A a, «""» b) WITHIN 1 day', "not empty"),
    ("PATTERN SEQ(A a«;» B b) WITHIN 1 day", "expected ')' but found ';'"),
    ("PATTERN A+ a «WITHIN» 1 day", "expected '['"),
    ("PATTERN SEQ(A a, KL «B» b) WITHIN 1 day", "KL(type variable)"),
    ("PATTERN SEQ(A a, KL(B b«[»])) WITHIN 1 day", "in KL( ) the variable has no []"),
    ("PATTERN SEQ(A a, KL(«~» B b)) WITHIN 1 day", "KL takes a single event type"),
    ("PATTERN SEQ(A a, ~«~» B b) WITHIN 1 day", "a negation stands inside of a negation"),
    ("PATTERN SEQ(A a, NOT(SEQ(B b, «~» C c))) WITHIN 1 day", "a negation stands inside of a negation"),
    ("PATTERN SEQ(A a, «~B? b») WITHIN 1 day", "what is negated may be without an event: B? b"),
    ("PATTERN SEQ(A a, «~OR(B b, AND(C? c, D* d[]))») WITHIN 1 day", "without an event: C? c, D* d[]"),
    ("PATTERN SEQ(A a, «~K* b[]») WITHIN 1 day", "what is negated may be without an event"),
    ("PATTERN SEQ(A a, ~SEQ(B b, C c), ~E e) WHERE c.x = «e.x» WITHIN 1 day", "two negated variables: c and e"),
    ("PATTERN SEQ(A a, ~SEQ(B b, K+ k[])) WITHIN 1 day RETURN «k.LEN»", "no event in a match"),
    # Alternatives and numbers of events
    ("PATTERN A{«0»,2} a[] WITHIN 1 day", "a list has at least 1 event, not 0; a variable that may be absent"),
    ("PATTERN A{3,«2»} a[] WITHIN 1 day", "the greatest number of events, 2, is less than the least, 3"),
    ("PATTERN A{«2.5»} a[] WITHIN 1 day", "whole number"),
    ("PATTERN A{«,»2} a[] WITHIN 1 day", "expected a number of events but found ','; it is written {2}"),
    ("PATTERN A{2«:»3} a[] WITHIN 1 day", "unexpected character ':'"),
    ("PATTERN A{2 «3»} a[] WITHIN 1 day", "a number of events is written {2}"),
    ("PATTERN A{«1234567890123456789»} a[] WITHIN 1 day", "too large"),
    ("PATTERN A{2} a «WITHIN» 1 day", "a Kleene variable is declared with [], as in A{2} v[]"),
    ("PATTERN SEQ(A* a«,» B b) WITHIN 1 day", "as in A* v[]"),
    ("PATTERN SEQ(A? a«[»], B b) WITHIN 1 day", "a list that may be absent is A* v[]"),
    ("PATTERN SEQ((A | B)+ a«,» B b) WITHIN 1 day", "as in (A | B)+ v[]"),
    ("PATTERN (A «a») WITHIN 1 day", "( ) stand around the alternatives of a type"),
    ("PATTERN (A | «|» B) v WITHIN 1 day", "expected an event type"),
    ("PATTERN A? «a» WITHIN 1 day", "a branch of the pattern has no positive variable: A? a"),
    ("PATTERN SEQ(A? «a, B* b[]») WITHIN 1 day", "no positive variable: A? a, B* b[]"),
    ("PATTERN (A | B) v WHERE v.«prise» > 1 WITHIN 1 day", "'prise' of type (A | B); did you mean 'price'?"),
    ("PATTERN OR(A «a, SEQ(~B b, ~C c»)) WITHIN 1 day", "no positive variable: ~B b, ~C c"),
    # Window
    ("PATTERN A a WITHIN «-1 day»", "must be positive"),
    ("PATTERN A a WITHIN «0.0 ms»", "must be positive"),
    ("PATTERN A a WITHIN «1.5 us»", "whole number of microseconds"),
    ("PATTERN A a WITHIN «2.0» EVENTS", "whole number"),
    ("PATTERN A a WITHIN «1e400 days»", "longer than int64"),
    ("PATTERN A a WITHIN «1e99999» days", "out of range"),
    ("PATTERN A a WITHIN 5 «secnds»", "did you mean 'seconds'?"),
    ("PATTERN A a WITHIN «soon»", "expected a number"),
    # Names in conditions
    ("PATTERN A a WHERE a.«prise» > 1 WITHIN 1 day", "unknown attribute 'prise' of type A; did you mean 'price'?"),
    ("PATTERN A a WHERE a.«Price» > 1 WITHIN 1 day", "did you mean 'price'?"),
    ("PATTERN A abc WHERE «abd».x > 1 WITHIN 1 day", "unknown variable 'abd'; did you mean 'abc'?"),
    ("PATTERN A abc WHERE «price» > 1 WITHIN 1 day", "as in abc.price"),
    ("PATTERN A a WHERE a «>» 1 WITHIN 1 day", "as in a.attr"),
    ("PATTERN A a WHERE [«nope»] WITHIN 1 day", "unknown attribute 'nope'"),
    ("PATTERN A a WHERE [«h»] WITHIN 1 day", "lists are never compared"),
    ("PATTERN A a WITHIN 1 day PARTITION BY id, «h»", "lists are never compared"),
    ("PATTERN A a WHERE a.«zzz» > 1 WITHIN 1 day", "unknown attribute 'zzz' of type A; there are: "),
    ("PATTERN A a WHERE «zzz»(a.x) > 1 WITHIN 1 day", "unknown function 'zzz'; there are: abs, sqrt, "),
    ("PATTERN A a WHERE a.x IN «$zzz» WITHIN 1 day", "unbound parameter '$zzz'; give its values: --param zzz=A,B"),
    ("PATTERN A a WHERE «squrt»(a.x) > 1 WITHIN 1 day", "did you mean 'sqrt'?"),
    ("PATTERN A a WHERE a.x IN «$setz» WITHIN 1 day", "did you mean 'sets'?"),
    ("PATTERN A a WHERE a.x > «$sets» WITHIN 1 day", "one number, string or bool here"),
    ("PATTERN A a WHERE a.x IN («$sets», 1) WITHIN 1 day", "one number, string or bool here"),
    ("PATTERN A a WHERE a.x IN «$one» WITHIN 1 day", "write IN ($one)"),
    ("PATTERN A a WHERE a.s «=» $one WITHIN 1 day", "cannot compare string with int"),
    ("PATTERN A a WHERE a.s IN ('p', «$one») WITHIN 1 day", "cannot compare string with int 1"),
    ("PATTERN A a WHERE $yes «WITHIN» 1 day", "a bool is tested with = TRUE"),
    ("PATTERN A a WHERE «$zzz» = 1 WITHIN 1 day", "unbound parameter '$zzz'"),
    ('PATTERN A a WHERE a.s = «"p"» WITHIN 1 day', "single quotes"),
    ("PATTERN A a WHERE a.s = «p» WITHIN 1 day", "unknown variable 'p'; text is written in single quotes, as in 'p'"),
    ("PATTERN A a «STRATEGY» skip_till_next_match WITHIN 1 day", "a strategy stands behind WHERE"),
    # Kleene variables
    ("PATTERN A+ a[] WHERE a[«2»].x > 1 WITHIN 1 day", "the elements are a[1], a[i], a[i-1], a[a.LEN] and a[]"),
    ("PATTERN A+ a[] WHERE a[i-«2»].x > 1 WITHIN 1 day", "only the element before"),
    ("PATTERN SEQ(A+ a[], B+ b[]) WHERE a[«b».LEN].x > 1 WITHIN 1 day", "a[a.LEN]"),
    ("PATTERN A+ a[] WHERE a[«..»i-1].x > 1 WITHIN 1 day", "only inside an aggregate"),
    ("PATTERN A+ a[] WHERE «first»(a[..i-1].x) > 1 WITHIN 1 day", "first is not defined over v[..i-1]"),
    ("PATTERN A+ a[] WHERE «sum»(a[].s) > 1 WITHIN 1 day", "cannot apply sum to string"),
    ("PATTERN A+ a[] WHERE «max»(a[].f) = TRUE WITHIN 1 day", "its values have no order"),
    ("PATTERN A+ a[] WHERE avg(«1») > 1 WITHIN 1 day", "expected a variable"),
    ("PATTERN A a WHERE skip_till_any_match(«a»[]) { 1 = 1 } WITHIN 1 day", "no Kleene variable"),
    # Types
    ("PATTERN A a WHERE a.f «<» TRUE WITHIN 1 day", "bools compare only by = and !="),
    ("PATTERN A a WHERE a.x «BETWEEN» 1 AND 'p' WITHIN 1 day", "cannot compare int with string"),
    ("PATTERN A a WHERE a.f «BETWEEN» FALSE AND TRUE WITHIN 1 day", "bools compare only"),
    ("PATTERN A a WHERE «-»a.s = 'p' WITHIN 1 day", "cannot apply '-' to string"),
    ("PATTERN A a WHERE «abs»(a.s) = 'p' WITHIN 1 day", "cannot apply abs to string"),
    ("PATTERN A a WHERE «corr»(a.h, a.x) > 0 WITHIN 1 day", "two list attributes"),
    ("PATTERN A a WHERE «abs»() > 0 WITHIN 1 day", "abs takes 1 argument, 0 given"),
    ("PATTERN A a WHERE a.x IN «$words» WITHIN 1 day", "cannot compare int with string 'u'"),
    ("PATTERN A a WHERE a.x > «9223372036854775808» WITHIN 1 day", "outside the range of int64"),
    ("PATTERN A a WHERE a.x > «-9223372036854775809» WITHIN 1 day", "outside the range of int64"),
    (f"PATTERN A a WHERE a.x > «{'9' * 5000}» WITHIN 1 day", "outside the range of int64"),
    ("PATTERN A a WHERE a.x > «1e400» WITHIN 1 day", "outside the range of float64"),
    ("PATTERN A a WHERE a.x > «1e9999999999» WITHIN 1 day", "out of range"),
    # Forms of conditions
    ("PATTERN A a WHERE a.f «WITHIN» 1 day", "a bool is tested with = TRUE"),
    ("PATTERN A a WHERE a.x «AND» a.y > 1 WITHIN 1 day", "expected a comparison"),
    ("PATTERN A a WHERE (1 < a.x) «<» 3 WITHIN 1 day", "needs a value here, not a condition"),
    ("PATTERN A a WHERE 1 < a.x «<» 'p' WITHIN 1 day", "cannot compare int with string"),
    ("PATTERN A a WHERE FALSE «WITHIN» 1 day", "what never holds is written NOT TRUE"),
    ("PATTERN A a WHERE a.x = «NULL» WITHIN 1 day", "IS NULL or IS NOT NULL"),
    ("PATTERN A a WHERE a.x IS «3» WITHIN 1 day", "expected NULL"),
    ("PATTERN A a WHERE a.x > 1 «IS» NULL WITHIN 1 day", "needs a value here, not a condition"),
    ("PATTERN A a WHERE a.x «LIKE» 'p' WITHIN 1 day", "LIKE compares strings, not int"),
    ("PATTERN A a WHERE a.s LIKE «a».s WITHIN 1 day", "LIKE takes a text in single quotes, such as 'a%', not 'a'"),
    ("PATTERN A a WHERE a.s NOT LIKE «$one» WITHIN 1 day", "LIKE takes a text"),
    ('PATTERN A a WHERE a.s LIKE «"p%"» WITHIN 1 day', "text is written in single quotes"),
    ('PATTERN A a WHERE a.s IN («"p"») WITHIN 1 day', "text is written in single quotes"),
    # Times
    ("PATTERN A a WHERE a.x > «1.5 us» WITHIN 1 day", "a whole number of microseconds"),
    ("PATTERN A a WHERE a.x > «-1e30 d» WITHIN 1 day", "longer than int64"),
    ("PATTERN A a WHERE a.x > 5 «mins» WITHIN 1 day", "unknown unit 'mins'; did you mean 'min'?"),
    ("PATTERN A a WHERE a.x > 5 «WTIHIN» 1 day", "unknown unit 'WTIHIN'; did you mean 'WITHIN'?"),
    ("PATTERN A a WHERE a.x > 5 «events» WITHIN 1 day", "unknown unit 'events'; a length of time is written with"),
    ("PATTERN A a WHERE a.x > TIMESTAMP «'2013-13-01'» WITHIN 1 day", "'2013-13-01' is no timestamp: month"),
    ("PATTERN A a WHERE a.x > TIMESTAMP «'2013-1-1'» WITHIN 1 day", "write YYYY-MM-DD"),
    ("PATTERN A a WHERE a.x > TIMESTAMP «'2013-10-07+01:00'» WITHIN 1 day", "write YYYY-MM-DD"),
    ("PATTERN A a WHERE a.x > TIMESTAMP «'2013-10-07 24:00'» WITHIN 1 day", "is no timestamp: hour must be in 0..23"),
    ("PATTERN A a WHERE a.x > TIMESTAMP «'2013-10-07 09:00+24:00'» WITHIN 1 day", "an offset such as +02:00"),
    ('PATTERN A a WHERE a.x > TIMESTAMP «"2013-10-07"» WITHIN 1 day', "text is written in single quotes"),
    ("PATTERN A a WHERE a.x > TIME «'24:00'» WITHIN 1 day", "'24:00' is no time; write hh:mm"),
    ("PATTERN A a WHERE a.x IN (TIME '09:00', TIME «'9:00'») WITHIN 1 day", "is no time"),
    ("PATTERN A a WHERE «time_of_day»(a.y) > 1 WITHIN 1 day", "takes an int, microseconds since the epoch, not float"),
    # Functions of any number of values
    ("PATTERN A a WHERE «least»(a.x, a.s) > 1 WITHIN 1 day", "cannot apply least to int and string"),
    ("PATTERN A a WHERE «greatest»(a.f, TRUE) = TRUE WITHIN 1 day", "cannot apply greatest to bool"),
    ("PATTERN A a WHERE «coalesce»() = 1 WITHIN 1 day", "coalesce takes at least 1 argument, 0 given"),
    ("PATTERN A a WHERE «coalesce»(a.h) = 1 WITHIN 1 day", "cannot apply coalesce to list"),
    ("PATTERN A+ a[] WHERE «median»(a[].s) > 1 WITHIN 1 day", "cannot apply median to string"),
    ("PATTERN A a WHERE (a.x > 1) «+» 3 = 4 WITHIN 1 day", "needs a value here, not a condition"),
    ("PATTERN A a WHERE «abs»(a.x > 1) = 4 WITHIN 1 day", "needs a value here, not a condition"),
    ("PATTERN A a WHERE a.x IN («a».y) WITHIN 1 day", "expected a number, a string, TRUE or FALSE"),
    ("PATTERN A a WHERE a.x IN («-a.y») WITHIN 1 day", "constants only"),
    ("PATTERN A a WHERE a.x IN «5» WITHIN 1 day", "IN takes a list of values"),
    ("PATTERN A a WHERE a.x NOT «=» 5 WITHIN 1 day", "expected IN or BETWEEN or LIKE"),
    ("PATTERN A a WHERE a.x BETWEEN 5 «OR» 6 WITHIN 1 day", "expected AND"),
    ("PATTERN A a WHERE «[id]» OR a.x = 1 WITHIN 1 day", "cannot stand under OR or NOT"),
    ("PATTERN A a WHERE a.x = 1 AND NOT «[id]» WITHIN 1 day", "cannot stand under OR or NOT"),
    ("PATTERN A a WHERE (a.x = 1 «WITHIN» 1 day", "expected ')'"),
    ("PATTERN A a WHERE «WITHIN» 1 day", "expected a condition or a value"),
    # Strategies
    ("PATTERN A a WHERE skip_till_next_match «a».x = 1 WITHIN 1 day", "followed by its condition in { }"),
    ("PATTERN A a WHERE «skip_til_next_match» { a.x = 1 } WITHIN 1 day", "did you mean 'skip_till_next_match'?"),
    ("PATTERN A a WHERE skip_till_next_match { a.x = 1 «WITHIN» 1 day", "expected '}'"),
    ("PATTERN A a WHERE skip_till_next_match { «}» WITHIN 1 day", "expected a condition"),
    ("PATTERN SEQ(A a, B b) WHERE «strict_contiguity» { 1 = 1 } WITHIN 1 day TIES ANY", "TIES ANY"),
    ("PATTERN AND(A+ a[], B b) WHERE «skip-till-next-match» { 1 = 1 } WITHIN 1 day", "Kleene variable 'a' in an AND"),
    ("PATTERN SEQ(AND(A a, B b), C c) WHERE «partition_contiguity» { 1 = 1 } WITHIN 1 day", "neither a chain nor"),
    # Conjuncts
    (
        "PATTERN SEQ(A a, ~B b, ~C c) WHERE (a.x = 1 AND b.x = 1) OR a.y = «c.y» WITHIN 1 day",
        "negated variables: b and c",
    ),
    # RETURN
    ("PATTERN SEQ(A a, ~B b) WITHIN 1 day RETURN «b.x»", "a negated variable has no event"),
    ("PATTERN A+ a[] WITHIN 1 day RETURN 1 + «a.x»", "only as a[1], a[a.LEN], a.LEN or an aggregate over a[]"),
    ("PATTERN A+ a[] WITHIN 1 day RETURN «a[i].x»", "only as a[1]"),
    ("PATTERN A+ a[] WITHIN 1 day RETURN «sum(a[..i-1].x)»", "only as a[1]"),
    ("PATTERN A a WITHIN 1 day RETURN a.x AS «match_id»", "a fixed column"),
    ("PATTERN A a WITHIN 1 day RETURN «a».x > 1", "needs a value here, not a condition"),
    ("PATTERN A a WITHIN 1 day RETURN a.x AS p,«»", "expected a condition or a value"),
    # Composition
    (f"{PAIR} PATTERN pair p WHERE p.«y» > 1 WITHIN 1 day", "unknown attribute 'y' of type pair; there are: x, t, s"),
    (f"{PAIR} PATTERN pair p WHERE p.«xx» > 1 WITHIN 1 day", "did you mean 'x'?"),
    (f"{PAIR} PATTERN (pair | A) p WHERE p.«y» > 1 WITHIN 1 day", "unknown attribute 'y' of type (pair | A)"),
    (f"{PAIR} PATTERN (pair | A) p WHERE p.«s» > 1 WITHIN 1 day", "unknown attribute 's'"),
    (f"{PAIR} PATTERN SEQ(pair p, C c) WHERE [x, «id»] WITHIN 1 day", "unknown attribute 'id' of type pair"),
    (f"{PAIR} PATTERN SEQ(C c, ~pair p) WITHIN 1 day PARTITION BY «id»", "unknown attribute 'id' of type pair"),
    (f"{PAIR} PATTERN SEQ(C c, pair p) WITHIN 1 day PARTITION BY «s»", "different types of 's'"),
    (f"{PAIR} PATTERN SEQ(C c, pair p) WHERE p.x «=» c.s WITHIN 1 day", "cannot compare"),
    (f"{PAIR} PATTERN pair p WITHIN 1 day RETURN p.x AS «composed»", "is a fixed column"),
    ("NAME n PATTERN A a WITHIN 1 day SUMMARIZE count(*); PATTERN «n» m WITHIN 1 day", "it cannot be composed"),
    ("NAME a PATTERN a v WHERE v.«y1» = 1 WITHIN 1 day", "unknown attribute 'y1' of type a"),
]


@pytest.mark.parametrize(("marked", "message"), REFUSED, ids=[marked[:70] for marked, _ in REFUSED])
def test_refused_with_the_place_underlined(marked: str, message: str) -> None:
    start, end = marked.index("«"), marked.index("»") - 1
    text = marked.replace("«", "").replace("»", "")
    with pytest.raises(PatternError) as raised:
        parse_patterns(text, SCHEMA, {"sets": [1], "words": ["u"], "one": 1, "yes": True}, source="rise.sase")
    error = raised.value
    assert message in error.message
    assert (error.source, error.line, error.column) == ("rise.sase", 1, start + 1)
    shown, underline = error.excerpt.split("\n")
    place = underline.index("^")
    carets = underline[place:]
    visible = text[start:end][:50]
    assert shown[place:].startswith(visible[: len(shown) - place])
    assert set(carets) == {"^"}
    assert len(carets) == max(1, min(end - start, len(shown) - place - shown[place:].endswith("…")))


def test_statements_are_types_of_later_ones_only() -> None:
    schema = StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string"}, "types": ["A", "B"]})
    with pytest.raises(PatternError) as raised:
        parse_patterns(
            "NAME one PATTERN two t WITHIN 1 day;\n"
            "NAME two PATTERN A a WITHIN 1 day;\n"
            "NAME three PATTERN three t WITHIN 1 day;\n"
            "NAME four PATTERN SEQ(two a, one b) WITHIN 1 day;\n"
            "PATTERN A a WITHIN 1 day;\n"
            "PATTERN pattern_5 a WITHIN 1 day",
            schema,
        )
    errors = [raised.value, *raised.value.others]
    assert [(error.line, error.column) for error in errors] == [(1, 18), (3, 20), (4, 30), (6, 9)]
    assert [error.message.partition(";")[0] for error in errors] == [
        "unknown type 'two'",
        "unknown type 'three'",
        "the statement 'one' has an error itself, which comes first",
        "unknown type 'pattern_5'",
    ]


def test_error_says_all_and_survives_pickling() -> None:
    text = "PATTERN SEQ(A a,\n\tB b)\r\nWHERE a.x >\tb.prise\r\nWITHIN 1 day"
    with pytest.raises(PatternError) as raised:
        parse_patterns(text, SCHEMA, source="dir/rise.sase")
    assert str(raised.value) == (
        "dir/rise.sase:3:15: unknown attribute 'prise' of type B; did you mean 'price'?\n"
        "  WHERE a.x >\tb.prise\n"
        "             \t  ^^^^^"
    )
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.line, again.column) == (str(raised.value), 3, 15)


def test_excerpt_of_a_long_line_shows_the_place() -> None:
    source = SourceText("a" * 10_000 + "BAD" + "c" * 10_000, "long")
    error = source.error("bad", Span(10_000, 10_003))
    shown, underline = error.excerpt.split("\n")
    assert len(shown) < 120
    assert shown[underline.index("^") : underline.rindex("^") + 1] == "BAD"


def test_unprintable_characters_do_not_reach_the_terminal() -> None:
    with pytest.raises(PatternError) as raised:
        parse_one("PATTERN A a \x1b[31m WITHIN 1 day")
    assert "\x1b" not in str(raised.value)


def test_unknown_type_where_the_schema_lists_its_types() -> None:
    schema = StreamSchema.from_dict(
        {"base_type": "Trade", "type_attribute": "kind", "attributes": {"kind": "string"}, "types": ["SPY", "QQQ"]}
    )
    assert len(parse_patterns("PATTERN SEQ(SPY a, Trade b) WITHIN 1 day", schema)) == 1
    with pytest.raises(PatternError, match=r"unknown type 'SPX'; did you mean 'SPY'\?") as raised:
        parse_patterns("PATTERN SEQ(QQQ q, ~(SPX n)) WITHIN 1 day", schema)
    assert raised.value.column == 22


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (b"abc", "must be one value or a list of values"),
        ({"a": 1}, "must be one value or a list of values"),
        (None, "no number, string or bool"),
        ([None], "no number, string or bool"),
        ([[1]], "no number, string or bool"),
        ([2**63], "outside the range of int64"),
    ],
)
def test_parameters_must_be_constants_or_lists_of_them(values: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_patterns("", SCHEMA, {"p": values})  # type: ignore[dict-item]


def test_nesting_is_bounded_where_the_page_says() -> None:
    def nested(depth: int) -> str:
        return f"PATTERN {'SEQ(' * depth}A a{')' * depth} WITHIN 1 day"

    assert len(parse_one(nested(32)).operands) == 1
    with pytest.raises(PatternError, match="deeper than 32"):
        parse_one(nested(33))


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 5000 + "a.x" + ")" * 5000 + " > 1",
        "(" * 5000,
        "NOT " * 5000 + "a.x > 1",
        "- " * 5000 + "a.x > 1",
        "abs(" * 5000 + "a.x" + ")" * 5000 + " > 1",
        " + ".join(["a.x"] * 5000) + " > 1",
        "1 < " + " * ".join(["a.x"] * 5000),
        " % ".join(["a.x"] * 5000) + " IN (1)",
    ],
    ids=lambda text: text[:12],
)
def test_deep_conditions_are_refused(condition: str) -> None:
    with pytest.raises(PatternError, match="nested deeper than 100"):
        parse_one(f"PATTERN A a WHERE {condition} WITHIN 1 day")


def test_deep_return_item_is_refused() -> None:
    with pytest.raises(PatternError, match="nested deeper than 100"):
        parse_one(f"PATTERN A a WITHIN 1 day RETURN {' + '.join(['a.x'] * 5000)}")


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("NAME " + "n" * 201 + " PATTERN A a WITHIN 1 day", "a name has at most 200 characters, this one has 201", 6),
        ('PATTERN "' + "t" * 199 + '" a WITHIN 1 day', "a quoted name has at most 200 characters, this one has 201", 9),
        ("PATTERN A a WHERE a.x = $" + "p" * 200 + " WITHIN 1 day", "a parameter has at most 200 characters", 25),
        (" " * 1_000_001, "a text has at most 1,000,000 characters, this one has 1,000,001", 1),
        (f"PATTERN SEQ({', '.join(f'A a{n:03}' for n in range(257))}) WITHIN 1 day", "at most 256 variables", 2063),
    ],
    ids=["name", "quoted", "parameter", "text", "variables"],
)
def test_what_is_too_long_is_refused_with_its_place(text: str, message: str, column: int) -> None:
    with pytest.raises(PatternError, match=message) as raised:
        parse_one(text)
    assert raised.value.column == column
    assert len(str(raised.value)) < 600


def test_patterns_at_the_limits_are_read() -> None:
    variables = ", ".join(f"A a{n}" for n in range(256))
    pattern = parse_one(f"NAME {'n' * 200} PATTERN SEQ({variables}) WHERE a0.y = {'0' * 5_000}7 WITHIN 1 day")
    assert len(pattern.clauses[0].positive) == 256
    assert len(pattern.name) == 200


def test_clauses_are_counted_before_they_are_built() -> None:
    ors = ", ".join(f"OR(A a{n}, B b{n})" for n in range(128))
    with pytest.raises(PatternError, match="more than 4,096 clauses") as raised:
        parse_one(f"\n  NAME big PATTERN AND({ors}) WITHIN 1 day")
    assert (raised.value.line, raised.value.column) == (2, 3)
    ors = ", ".join(f"OR(A a{n}, B b{n})" for n in range(12))
    assert len(parse_one(f"PATTERN AND({ors}) WITHIN 1 day").clauses) == 4096


def test_conjuncts_are_counted_before_they_are_built() -> None:
    parts = " OR ".join("(a.x = 1 AND a.y = 2)" for _ in range(10_000))
    with pytest.raises(PatternError, match="conjunctive normal form"):
        parse_one(f"PATTERN A a WHERE {parts} WITHIN 1 day")


@pytest.mark.parametrize(
    ("condition", "warned"),
    [
        ("a.x = 1 AND b.x > c.x", "b, c"),
        ("b.x = 1 OR c.x = 1", "b, c"),
        ("a.x = b.x AND a.x = c.x", None),
        ("[id] AND 1 = 1", None),
    ],
)
def test_a_conjunct_that_constrains_no_clause_is_worth_a_warning(
    condition: str, warned: str | None, recwarn: pytest.WarningsRecorder
) -> None:
    pattern = parse_one(f"PATTERN SEQ(A a, OR(B b, SEQ(C c, D d))) WHERE {condition} WITHIN 1 day")
    messages = [str(warning.message) for warning in recwarn.list if warning.category is PatternWarning]
    if warned is None:
        assert messages == []
    else:
        [message] = messages
        assert recwarn.list[0].filename == schemas.__file__  # the caller of parse_patterns
        assert f"no clause has all of {warned}" in message
        assert message.startswith("<pattern>:1:")
        assert "^" in message
    assert all(not conjunct.variables >= {"b", "c"} for clause in pattern.clauses for conjunct in clause.conjuncts)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("a.x > 5 AND b.x = 1 AND a.x < 3", "no events fulfil a.x > 5 and a.x < 3"),
        ("a.x < b.x < c.x < a.x", "no events fulfil a.x < b.x and b.x < c.x and c.x < a.x"),
        (
            "c.timestamp - a.timestamp > 2 days AND a.x > 1",
            "no events within 24 h, in the order of the pattern, fulfil",
        ),
        ("1 > 2", "no events fulfil 1 > 2"),
        ("a.x < b.x AND b.x < c.x", None),
        ("a.x < b.x AND b.x IN (1, 2)", None),
    ],
)
def test_a_pattern_that_no_events_match_is_worth_a_warning(
    condition: str, said: str | None, recwarn: pytest.WarningsRecorder
) -> None:
    parse_one(f"PATTERN SEQ(A a, B b, C c) WHERE {condition} WITHIN 1 day")
    messages = [str(warning.message) for warning in recwarn.list if warning.category is PatternWarning]
    assert len(messages) == (said is not None)
    assert said is None or f"pattern 'pattern_1' has no matches: {said}" in messages[0]


def test_a_clause_that_no_events_match_is_no_reason_for_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    parse_one("PATTERN SEQ(A? a, B b) WHERE a.x < b.x AND b.x < a.x WITHIN 1 day")
    parse_one("PATTERN OR(A a, B b) WHERE a.x < 3 AND a.x > 5 WITHIN 1 day")
    assert not recwarn.list
    parse_one("PATTERN OR(A a, B b) WHERE a.x < 3 AND a.x > 5 AND b.x != b.x WITHIN 1 day")
    assert "no events fulfil a.x < 3 and a.x > 5, and no events fulfil b.x != b.x" in str(recwarn.list[0].message)


def test_a_warning_of_a_contradiction_has_the_values_of_parameters(recwarn: pytest.WarningsRecorder) -> None:
    text = "NAME high PATTERN SEQ(A a, B b) WHERE a.x > $low AND a.x < 3 AND b.x IN $set WITHIN 1 day"
    parse_patterns(text, SCHEMA, {"low": WrittenValues((5,)), "set": [1]})
    [message] = [str(warning.message).splitlines()[0] for warning in recwarn.list]
    assert message == "<pattern>:1:39: pattern 'high' has no matches: no events fulfil a.x > 5 and a.x < 3"


MANY_FAULTS = """\
NAME good PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1 day;
NAME conditions PATTERN SEQ(A a, B b)
WHERE a.prise < b.x AND (a.x > 1 OR b.ex > 2) AND a.x BETWEEN 1 AND 2 AND a.x = 'one' WITHIN 1 fortnight RETURN a.no;
NAME good PATTERN A a WITHIN 1 day;
PATTERN SEQ(A a, B a) WHERE c.x > 1 WITHIN 1 day
NAME follows PATTERN A a WHERE a.sizes > 1 WITHIN 1 day
"""


def test_all_errors_of_a_text_are_told_at_once() -> None:
    with pytest.raises(PatternError) as caught:
        parse_patterns(MANY_FAULTS, SCHEMA, source="many.sase")
    error = caught.value
    found = [(one.line, one.message.partition(";")[0].partition(" of type")[0]) for one in (error, *error.others)]
    assert found == [
        (3, "unknown attribute 'prise'"),
        (3, "unknown attribute 'ex'"),
        (3, "cannot compare int with string"),
        (3, "expected a unit (us, ms, seconds, minutes, hours, days or EVENTS) but found 'fortnight'"),
        (4, "duplicate name 'good'"),
        (5, "duplicate variable 'a'"),
        (6, "unknown attribute 'sizes'"),
    ]
    assert str(error).count("many.sase:") == 7
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_of_very_many_errors_some_are_shown_and_the_rest_counted() -> None:
    with pytest.raises(PatternError) as caught:
        parse_patterns("PATTERN A a WITHIN soon;" * 50, SCHEMA)
    assert len(caught.value.others) == 49
    assert str(caught.value).count("expected a number") == 10
    assert str(caught.value).endswith("and 40 more errors in <pattern>")
