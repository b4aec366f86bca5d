"""Brute-force evaluator of the pattern language: the answer that every mechanism, plan and slicing must give.

It is written from docs/language.md alone, in the page's own terms and order, and shares nothing with the product but
the parsed statement (`Pattern` and the nodes below it). It is slow on purpose: every rule stands where a reader of the
page looks for it, and nothing is rewritten for speed beyond giving up early on a binding that already breaks a rule.

Modules follow the page: `events` (section 1), `values` (expressions and three-valued logic), `clock` (local time),
`bindings` (all ways to bind variables), `clauses` (normal form, conjuncts, pairwise rules and negation of section 3),
`any_match` (section 3), `runs` (section 4), `answer` (section 5, composition), `summaries` (SUMMARIZE).
"""

from tests.oracle.answer import OracleMatch, evaluate
from tests.oracle.summaries import OracleSummary, summarize

__all__ = ["OracleMatch", "OracleSummary", "evaluate", "summarize"]
