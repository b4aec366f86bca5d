"""Join networks: partial matches are made and stored at the nodes of plans, event by event.

Six mechanisms run on them. `evaluation_tree` (JQPG section 2.3, after ZStream) and `lazy_chain_nfa` (DEBS'15 sections
4 and 5) run each clause on the network of its own plan, a tree of any shape or an order. `multitree` and
`multi_pattern_nfa` (MCEP [0066]-[0072], [0119]) run many patterns on one network: a `SharedPlan` says which subtrees
(MPM), or which beginnings of orders (MPT), they have in common. Each of its nodes becomes one node here, whose partial
matches are made and stored once, for the largest window of its users; every node above is joined with them. Where a
pattern leaves what it shares, its own window is tested: by the nodes that are its own, and when a match is put out.
There, too, the events of its negated variables are asked. `eager_nfa` (DEBS'15 section 3) has no plan: its nodes are
the states of an automaton, and an event is joined with what they hold when it arrives, never later.
`lazy_tree_nfa` (section 6) has none either: an instance chooses the variable that it binds next, and the nodes of its
states are made when they are first reached.

An event that comes is joined at once with what the other side of each edge holds: with partial matches, or with the
events of the input buffer, between those that order and window allow. Instances are sorted by their newest events (by
the events' key, too, where events must agree), so that a join looks only at these. A condition is tested at the lowest
node that has all its variables.

Differs from the papers in that the input buffer of the lazy automaton has each event once for all that read it, that
partial orders, all TIES, count windows and lists are run, that lists in shared trees are made for the partial matches
of the other side as in orders, and that an instance or an event which no later event can meet is not kept. A match that
later events may still reject does not wait: the slice has these events. What cannot be shared (other partitions,
windows that count) stands side by side in one network.

- `run.py`: the mechanisms, what they refuse, one run over a slice, and its counts.
- `network.py`: the plan of nodes and edges, from the parts of single clauses.
- `memory.py`: the events that are read, and the kernel's arrays.
- `kernel.py`: the loop over events in Numba, with `stores.py` (the instances) and the numbers of `codes.py`.

Conditions, lists, rules over events and finished matches are those of `detection/conditions`.
"""
