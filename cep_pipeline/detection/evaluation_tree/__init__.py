"""The instance-based evaluation tree (JQPG section 2.3, after ZStream): leaves in any order, in a tree of any shape.

Every event becomes an instance at each leaf that it fits. What is new at a node is joined at once with the instances
that its sibling holds; what passes is new at their parent, and a match at the root. A node holds its instances sorted
by their newest events (by the events' key, too, where events must agree), so that a join looks only at those in window
and order, and nothing is held that no later event can be joined with.

- A condition is tested at the lowest node that has all its variables.
- The leaf of a Kleene variable makes the lists, the power set of its events (section 5.2): every list is continued by
  every later event, as far as the conditions on elements and neighbours hold. Lists share their prefixes.
- A negated variable is asked at the lowest node that has all that its events are compared with (section 5.3). Where the
  window of the whole match decides, that is the root, and where nothing comes after it, matches wait there.

`assembly.py` says which node does what, `stream.py` what is read; `run.py` runs the kernel, which is in `kernel.py`
with `machine.py`, `stores.py` and `finished.py`; `find.py` unites the clauses. Conditions, lists, rules over events and
finished matches are those of `detection/instances`.
"""
