"""The lazy tree NFA (DEBS'15 section 6): the order in which events are bound is found at each step.

A state of the tree has an edge for each variable that is missing; an instance takes the one that is cheapest by the
counters of the input buffer: the rarest, where conditions are alike. At the root nothing is done before every type has
an event in the buffer. States are made when they are first reached. The answer is that of every chain.

Differs from the paper in two points. A counter is not all that is looked at: how many of the events passed their
conditions of late, and which conditions are tested next, make a type dearer that no condition joins to what is bound.
And an instance keeps its edge, so that each match is found once. The root keeps its variable until another one is so
much cheaper that a change pays: then all instances are given up, and the new root takes the events of its variable that
are in the buffer; only matches that end later are looked for.

- `run.py`: the mechanism, and the run of one clause over a slice: the states with their scoping parameters, the events
  that are read, and the kernel's memory.
- `kernel.py`: the automaton in Numba, with the numbers of `codes.py`.
"""
