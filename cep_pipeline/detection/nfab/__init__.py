"""NFA^b: runs over the stream under the selection strategies of the language page's section 4 (SIGMOD'08 section 3).

A run starts at each event that can begin the pattern. Without Kleene variables it is deterministic: an event that the
run can take is taken, so a run is its start event and the events bound so far, and gives one match at most. Runs do not
see each other. So each is followed on its own from its start event to its end, over columns, and never forks; what the
automaton would test on an event at one state (type and conditions on the event alone) is known of all beforehand.

Modules: `support` (what is run), `stream` (the events that runs read, and the states that each of them fits), `program`
(conditions over several events, for the kernel), `kernel` and `codes` (the loop, in Numba), `runs` (its driver),
`negation` (rule 5 on finished matches).
"""
