"""The eager NFA (DEBS'15 section 3): every event is tried on every instance when it arrives.

- `mechanism`: the record, the automaton of a clause, and the driver that runs it over a slice;
- `words`: the places of the numbers that driver and kernel hand each other;
- `kernel`: the loop over events, imported only to compile it.

Conditions, lists and finished matches are those of `instances`.
"""
