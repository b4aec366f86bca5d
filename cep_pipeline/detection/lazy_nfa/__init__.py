"""Lazy evaluation (DEBS'15 sections 4 to 6): what the chain and the tree automaton share.

Modules: `states` (states, edges' conditions and scoping parameters), `run` (a clause over a slice), `automaton` and
`kernel` (the loop, in Numba), `codes` (numbers that both sides know).
"""
