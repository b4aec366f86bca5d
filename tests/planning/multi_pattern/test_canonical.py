"""Keys: the same for what is the same by some mapping of variables, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.patterns.structure import EventOperand
from cep_pipeline.planning.clause_statistics import mask_of
from cep_pipeline.planning.multi_pattern.canonical import MOST_VALUES
from cep_pipeline.planning.multi_pattern.members import Member, members_of
from cep_pipeline.planning.multi_pattern.shared_plan import share
from cep_pipeline.planning.trees import Join, leaves_of
from tests.oracle.any_match import any_matches
from tests.oracle.clauses import Conjunct as OracleConjunct
from tests.oracle.clauses import OracleClause, Rules
from tests.oracle.events import Event, read_events
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, WHOLE_LANGUAGE, Statement, statements
from tests.planning.multi_pattern.literal import (
    all_trees,
    any_tree,
    content,
    disguised,
    renamed_tree,
    same,
    same_tree,
)
from tests.streams import events_table, rows, stream_schema
from tests.thoroughness import examples


def parsed(statement: Statement | str, name: str = "one") -> Pattern:
    text = statement if isinstance(statement, str) else statement.text
    params = {} if isinstance(statement, str) else statement.params
    (pattern,) = parse_patterns(text, stream_schema(), params)
    return replace(pattern, name=name)


def only(text: str, name: str = "one") -> Member:
    (member,) = members_of([parsed(text, name)])
    return member


def test_keys_tell_alternatives_and_numbers_of_events_apart() -> None:
    keys = {
        text: only(f"PATTERN {text} WITHIN 1 day").forms.leaf_keys
        for text in ("(A | B) v", "(B | A) v", "A v", "A+ v[]", "A{2} v[]", "A{2,} v[]", "A{2,3} v[]", "A{1,} v[]")
    }
    assert keys["(A | B) v"] == keys["(B | A) v"]
    assert keys["A+ v[]"] == keys["A{1,} v[]"]
    assert len(set(keys.values())) == len(keys) - 2


@pytest.mark.parametrize(
    ("spelled_out", "order", "shared"),
    [
        ("SEQ(A p, B q) WHERE q.id = p.id", "pq", 2),
        ("SEQ(A p, B q, C r) WHERE q.id = p.id AND NOT (r.id != p.id)", "pqr", 3),
        ("SEQ(A p, B q, D r) WHERE r.id = q.id AND q.id = p.id AND r.x > q.x", "pqr", 2),
        # It joins some of the events only, and is a condition there: an event of r may have any id.
        ("SEQ(A p, B q, C r) WHERE q.id = p.id", "pqr", 1),
    ],
)
def test_an_equality_that_joins_all_events_shares_with_an_equivalence_test(
    spelled_out: str, order: str, shared: int
) -> None:
    members = [
        only("PATTERN SEQ(A a, B b, C c) WHERE [id] WITHIN 1 second"),
        only(f"PATTERN {spelled_out} WITHIN 1 second", "other"),
    ]
    one, other = (member.forms.order_keys(names) for member, names in zip(members, ("abc", order), strict=True))
    assert [mine == theirs for mine, theirs in zip(one, other, strict=False)].count(True) == shared
    merged = share(members, [tuple("abc"), tuple(order)], "prefix")
    assert sum(len(node.sharers) == 2 for node in merged) == shared


@settings(max_examples=examples(100))
@given(statements(ANY_MATCH_LANGUAGE), st.randoms(use_true_random=False))
def test_other_words_for_the_same_statement_have_the_same_keys(statement: Statement, random: Random) -> None:
    pattern = parsed(statement)
    other, renamed = disguised(pattern, random)
    others = {frozenset(member.names): member for member in members_of([other])}
    for member in members_of([pattern]):
        again = others[frozenset(renamed[name] for name in member.names)]
        order = random.sample(member.names, len(member.names))
        assert member.forms.order_keys(order) == again.forms.order_keys([renamed[name] for name in order])
        tree = any_tree(member.names, random)
        assert member.forms.tree_key(tree) == again.forms.tree_key(renamed_tree(tree, renamed, random))
        for size in range(1, len(member.names) + 1):
            for names in combinations(member.names, size):
                mask = mask_of(map(member.names.index, names))
                there = mask_of(again.names.index(renamed[name]) for name in names)
                assert member.subsets.key(mask) == again.subsets.key(there)
                assert content(member, member.subsets.names(mask)) == content(again, again.subsets.names(there))


@settings(max_examples=examples(80))
@given(st.lists(statements(WHOLE_LANGUAGE), min_size=1, max_size=2), st.randoms(use_true_random=False), st.data())
def test_keys_are_equal_exactly_where_a_mapping_makes_all_equal(
    drawn: list[Statement], random: Random, data: st.DataObject
) -> None:
    """Of statements, and of one that is nearly the first one."""
    patterns = [parsed(statement, f"p{number}") for number, statement in enumerate(drawn)]
    patterns.append(nearly(data, patterns[0], random))
    small = [member for member in members_of(patterns) if len(member.names) <= 4][:6]
    parts = [(m, names) for m in small for size in (1, 2, 3) for names in combinations(m.names, size)]
    for (one, names), (other, others) in combinations(parts, 2):
        if len(names) != len(others):
            continue
        keys = [m.subsets.key(mask_of(map(m.names.index, part))) for m, part in ((one, names), (other, others))]
        assert (keys[0] == keys[1]) == same(one, names, other, others)
        for slots in permutations(others):
            equal = content(one, names) == content(other, slots)
            assert (one.forms.order_keys(names)[-1] == other.forms.order_keys(slots)[-1]) == equal
    trees = [(m, tree) for m in small for tree in random.sample(list(all_trees(m.names)), 1)]
    for (one, tree), (other, other_tree) in combinations(trees, 2):
        equal = same_tree(one, tree, other, other_tree)
        assert (one.forms.tree_key(tree) == other.forms.tree_key(other_tree)) == equal


def nearly(data: st.DataObject, pattern: Pattern, random: Random) -> Pattern:
    """The same statement in other words, perhaps with one thing changed that decides about matches."""
    other, _ = disguised(pattern, random)
    other = replace(other, name="nearly")
    changed = data.draw(st.sampled_from(["nothing", "window", "partition", "condition", "type"]))
    match changed:
        case "window":
            return replace(other, window=Window(time_us=7) if pattern.window.events else Window(events=7))
        case "partition":
            return replace(other, partition_by=() if other.partition_by else ("id",))
        case "condition":
            return replace(other, condition=None)
        case "type":
            first = other.operands[0]
            return parsed_like(other, replace(first, event_type="B" if first.event_type != "B" else "C"))
    return other


def parsed_like(pattern: Pattern, operand: EventOperand) -> Pattern:
    """The pattern with another operand of the same variable."""

    def changed(structure: object) -> object:
        if isinstance(structure, EventOperand):
            return operand if structure.variable == operand.variable else structure
        return replace(structure, operands=tuple(map(changed, structure.operands)))  # type: ignore[type-var,attr-defined]

    return replace(pattern, structure=changed(pattern.structure))  # type: ignore[arg-type]


# -- what a node binds -------------------------------------------------------------------------------------------------


def bindings(pattern: Pattern, clause: Clause, events: list[Event], slots: tuple[str, ...]) -> set[tuple[object, ...]]:
    """The partial matches of some positive variables of a clause, by the oracle: for each slot its events."""
    operands = [
        EventOperand(
            variable.event_type,
            variable.name,
            variable.kleene,
            minimum=variable.minimum,
            maximum=variable.maximum,
        )
        for variable in clause.positive
        if variable.name in slots
    ]
    rules = OracleClause(
        tuple(operands),
        (),
        frozenset((a, b) for a, b in clause.precedence if a in slots and b in slots),
        tuple(OracleConjunct(c.atoms) for c in clause.conjuncts if c.variables and c.variables <= set(slots)),
        clause.agree_on,
    )
    found = any_matches(Rules(pattern, rules, events))
    return {tuple(tuple(event.place for event in binding[name]) for name in slots) for binding in found}


@settings(max_examples=examples(60))
@given(statements(ANY_MATCH_LANGUAGE), rows(max_size=8), st.randoms(use_true_random=False), st.booleans())
def test_a_node_has_the_partial_matches_of_each_of_its_sharers(
    statement: Statement, stream: list[dict[str, object]], random: Random, ordered: bool
) -> None:
    """Within the largest window: of a statement, the same one in other words and windows, and its own other clauses."""
    pattern = parsed(statement)
    other, renamed = disguised(pattern, random)
    window = Window(time_us=3_000_000) if pattern.window.time_us else Window(events=3)
    members = members_of([pattern, replace(other, window=window)])
    plans: list[tuple[str, ...] | Join | str] = []
    trees = {frozenset(m.names): any_tree(m.names, random) for m in members if m.pattern is pattern}
    for member in members:
        own = {name: name for name in member.names} if member.pattern is pattern else renamed
        back = {new: old for old, new in own.items()}
        tree = renamed_tree(trees[frozenset(back[name] for name in member.names)], own, random)
        plans.append(tuple(sorted(leaves_of(tree))) if ordered else tree)
    plan = share(members, plans, "prefix" if ordered else "subexpression")
    events = read_events(events_table(stream), pattern)
    for node in plan:
        width = Window(events=node.window) if node.counted else Window(time_us=node.window)
        model = replace(node.model[0].pattern, window=width, partition_by=node.clause.partition_by)
        expected = bindings(model, node.clause, events, tuple(v.name for v in node.clause.positive))
        for name, uses in node.sharers.items():
            sharer = plan.members[name]
            for slots in uses:
                widest = replace(sharer.pattern, window=width)
                assert bindings(widest, sharer.clause, events, slots) == expected


# -- what changes a key ------------------------------------------------------------------------------------------------

BASE = "PATTERN SEQ(A a, B+ b[], C c) WHERE a.x < c.x AND b[i].y > b[i-1].y AND [id] WITHIN 5 seconds TIES STRICT"


@pytest.mark.parametrize(
    ("old", "new", "size"),
    [
        ("C c", "B c", 2),
        ("B+ b[], C c", "C c, B+ b[]", 2),
        ("SEQ(A a, B+ b[], C c)", "AND(SEQ(A a, B+ b[]), C c)", 2),
        ("a.x < c.x", "a.x <= c.x", 2),
        ("a.x < c.x", "a.x > c.x", 2),
        ("a.x < c.x AND ", "", 2),
        ("b[i-1]", "b[1]", 2),
        ("b[i].y", "b[].y", 2),
        ("b[i].y > b[i-1].y", "b.LEN > 2", 2),
        ("B+ b[], C c) WHERE a.x < c.x AND b[i].y > b[i-1].y", "B b, C c) WHERE a.x < c.x", 2),
        (" TIES STRICT", "", 0),
        (" TIES STRICT", " TIES ANY", 0),
        (" AND [id]", "", 0),
        ("[id]", "[id, s]", 0),
        ("[id]", "[s]", 0),
        ("5 seconds", "5 EVENTS", -1),
    ],
)
def test_any_change_changes_the_key(old: str, new: str, size: int) -> None:
    """`size`: how many of the pairs of variables are still the same; 0: single events are, -1: nothing is."""
    changed = BASE.replace(old, new)
    assert changed != BASE
    one, other = only(BASE), only(changed, "other")
    assert one.subsets.key(0b111) != other.subsets.key(0b111)
    assert one.forms.order_keys("abc")[-1] != other.forms.order_keys("abc")[-1]
    assert one.forms.tree_key(Join("a", Join("b", "c"))) != other.forms.tree_key(Join("a", Join("b", "c")))
    pairs = {one.subsets.key(mask) for mask in (0b011, 0b101, 0b110)}
    others = {other.subsets.key(mask) for mask in (0b011, 0b101, 0b110)}
    assert bool(pairs & others) == (size == 2)
    assert (one.forms.leaf_keys[0] == other.forms.leaf_keys[0]) == (size >= 0)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("a.x > 1", "a.x > 1.0", True),
        ("a.x IN (1, 2)", "a.x IN (2.0, 1, 1)", True),
        ("a.x + 1 > 3", "a.x + 1.0 > 3", False),  # int64 may overflow, float64 may round
        ("a.x > 9007199254740993", "a.x > 9007199254740993.0", False),
        ("a.x > 1", "1 < a.x", True),
        ("a.x > 1", "NOT a.x <= 1", True),
        ("a.x > 1", "a.x >= 1", False),
        ("a.x BETWEEN 1 AND 2", "a.x NOT BETWEEN 1 AND 2", False),
        ("a.x IN (1)", "a.x NOT IN (1)", False),
        ("a.f = TRUE", "a.f = FALSE", False),
        ("a.s = '1'", "a.s = '2'", False),
        ("a.x + a.id > 1", "a.id + a.x > 1", True),
        ("a.x - a.id > 1", "a.id - a.x > 1", False),
        ("a.x > 1 OR a.y < 2", "a.y < 2 OR a.x > 1 OR 1 < a.x", True),
        ("a.x > 1 AND a.y < 2", "a.y < 2 AND a.x > 1 AND 1 < a.x", True),
        ("a.x > 1 OR a.y < 2", "a.x > 1 AND a.y < 2", False),
        ("a.x < a.x", "a.x > a.x", True),
        ("-a.x > 1", "abs(a.x) > 1", False),
        ("a.x > 1 AND 1 = 1", "a.x > 1", True),  # decided for the member alone
    ],
)
def test_constants_and_ways_to_write_a_condition(one: str, other: str, equal: bool) -> None:
    keys = [only(f"PATTERN A a WHERE {text} WITHIN 1 second").forms.leaf_keys[0] for text in (one, other)]
    assert (keys[0] == keys[1]) == equal


def test_the_values_of_a_parameter_count_and_not_its_name() -> None:
    def leaf(parameter: str, values: list[float]) -> str:
        (pattern,) = parse_patterns(
            f"PATTERN A a WHERE a.x IN ${parameter} WITHIN 1 second", stream_schema(), {parameter: values}
        )
        return members_of([pattern])[0].forms.leaf_keys[0]

    assert leaf("p", [1, 2]) == leaf("q", [2.0, 1]) != leaf("p", [1, 3])
    for size in (MOST_VALUES, MOST_VALUES + 1, 100):
        many = list(range(size))
        assert leaf("p", many) == leaf("q", [*many[::-1], 7.0]) != leaf("p", [*many[:-1], size])


def test_partition_by_is_agreement_but_for_what_counted_windows_count() -> None:
    text = "PATTERN SEQ(A a, B b) {} WITHIN {} {}"
    by, tested = (
        [only(text.format(where, window, clause)) for window in ("5 seconds", "5 EVENTS")]
        for where, clause in (("", "PARTITION BY id"), ("WHERE [id]", ""))
    )
    assert by[0].subsets.key(0b11) == tested[0].subsets.key(0b11)
    assert by[1].subsets.key(0b11) != tested[1].subsets.key(0b11)


def test_variables_of_one_type_are_two() -> None:
    two = only("PATTERN AND(A a, A b) WHERE a.x < b.x WITHIN 1 second")
    one = only("PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 1 second", "other")
    assert two.forms.leaf_keys == (two.forms.leaf_keys[0],) * 2
    assert two.subsets.key(0b11) != one.subsets.key(0b11) != two.subsets.key(0b01)
    assert two.forms.order_keys("ab")[1] != two.forms.order_keys("ba")[1]
    assert two.forms.tree_key(Join("a", "b")) == two.forms.tree_key(Join("b", "a"))


def test_negated_variables_are_no_part_of_a_key() -> None:
    plain = only("PATTERN SEQ(A a, B b) WITHIN 1 second")
    negated = only("PATTERN SEQ(A a, ~C c, B b) WHERE c.x > a.x AND c.y < 1 WITHIN 1 second", "other")
    assert plain.subsets.key(0b11) == negated.subsets.key(0b11)


def test_what_other_strategies_take_is_shared_with_nobody() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { a.x < b.x } WITHIN 1 second"
    one, other = only(text), only(text, "other")
    assert set(one.forms.leaf_keys).isdisjoint(other.forms.leaf_keys)


def test_a_tree_finds_the_same_slots_whichever_side_is_written_first() -> None:
    member = only("PATTERN AND(A a, A b, A c, A d) WHERE a.x < b.x AND c.x < d.x AND a.y < c.y WITHIN 1 second")
    key = member.forms.tree_key(Join(Join("a", "b"), Join("c", "d")))
    assert key == member.forms.tree_key(Join(Join("d", "c"), Join("b", "a")))
    assert key != member.forms.tree_key(Join(Join("a", "c"), Join("b", "d")))
    nodes = member.forms.nodes(Join(Join("d", "c"), Join("b", "a")))
    root = nodes[-1]
    assert root.left is not None and root.right is not None
    assert root.slots == nodes[root.left].slots + nodes[root.right].slots
    assert {frozenset(nodes[side].slots) for side in (root.left, root.right)} == {frozenset("ab"), frozenset("cd")}


def test_a_tree_finds_the_variable_that_a_join_tells_from_one_that_is_like_it() -> None:
    """Both A are alike until the last join compares one of them: that has to be in the same slot each time."""
    texts = [f"PATTERN AND(A a, A b, B c) WHERE {name}.x < c.x WITHIN 1 second" for name in "ab"]
    one, other = (only(text, name) for text, name in zip(texts, ("one", "other"), strict=True))
    tree = Join(Join("a", "b"), "c")
    assert one.forms.tree_key(tree) == other.forms.tree_key(tree)
    plan = share([one, other], [tree, tree], "subexpression")
    (root,) = (node for node in plan if node.size == 3)
    (compared,) = root.clause.conjuncts
    for name, variable in ((one.id, "a"), (other.id, "b")):
        (slots,) = root.sharers[name]
        assert {slots[int(slot[1:])] for slot in compared.variables} == {variable, "c"}


def test_lists_of_clauses_whose_events_agree_are_lists_of_their_own() -> None:
    one, other = only("PATTERN A+ a[] WHERE [id] WITHIN 1 second"), only("PATTERN A+ a[] WITHIN 1 second", "other")
    assert one.forms.leaf_keys != other.forms.leaf_keys


def test_a_single_event_agrees_with_none() -> None:
    members = [only("PATTERN SEQ(A a, B b) WHERE [id] WITHIN 1 second"), only("PATTERN A a WITHIN 1 second", "other")]
    plan = share(members, [("a", "b"), ("a",)], "prefix")
    assert plan[0].uses == 2 and plan[0].clause.agree_on == ()
    assert plan[1].clause.agree_on == ("id",)
