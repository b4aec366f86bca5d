"""Lazy evaluation (DEBS'15 sections 4 to 6): what the chain and the tree automaton share.

Modules: `clauses` and `run` (the clauses of a pattern, one of them over a slice), `stream` (the events that are read),
`states` (states, conditions of edges and scoping parameters), `memory` (the kernel's arrays); in Numba `kernel` (the
loop over events), `steps` (what becomes of an instance), `choosing` (what a tree binds next), `automaton` (buffer,
states, stored instances), with the numbers of `codes`. `support` says what is run.
"""
