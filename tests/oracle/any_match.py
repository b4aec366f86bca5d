"""Matches under skip_till_any_match: every binding that satisfies the rules (docs/language.md, section 3)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.oracle.bindings import bindings_of
from tests.oracle.clauses import Rules
from tests.oracle.values import Binding


def any_matches(rules: Rules) -> Iterator[Binding]:
    """All matches of a clause: bind the positive variables, then ask the negated ones."""
    if rules.conditions_hold({}):
        for binding in bindings_of(rules, rules.clause.positive):
            if not rules.is_rejected(binding):
                yield binding
