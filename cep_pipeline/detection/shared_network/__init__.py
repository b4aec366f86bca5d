"""Many patterns on one network of shared nodes: the multi-pattern NFA and the multitree (MCEP [0066]-[0072], [0119]).

A `SharedPlan` says which beginnings of orders (MPT), or which subtrees (MPM), patterns have in common. Each of its
nodes becomes one node here, whose partial matches are made and stored once, for the largest window of its users; every
node above is joined with them. Where a pattern leaves what it shares, its own window is tested: by the nodes that are
its own, and when a match is put out. There, too, the events of its negated variables are asked.

Differs from the patent in that the input buffer of the lazy automaton has each event once for all that read it, that
partial orders, all TIES, count windows and lists are run, that lists in trees are made for the partial matches of the
other side as in orders, and that an instance which no later event can meet is not kept. What cannot be shared (other
partitions, windows that count) stands side by side in one network.

- `network.py`: nodes and edges; `events.py`: what is read, by type and conditions on one event; `memory.py`: arrays.
- `run.py` runs the kernel; in Numba `kernel.py` (the loop; joins), `lists.py` (Kleene variables), `passing.py` (what
  passes at a node), `searching.py`, `stores.py` (the instances), `machine.py`, with the numbers of `codes.py`.
- `find.py` is what the mechanisms call, `support.py` what they refuse.

Order, distinctness and scans of joins are those of `detection/evaluation_tree`, the search of the input buffer that of
`detection/lazy_nfa`; conditions, lists, rules over events and finished matches those of `detection/instances`.
"""
