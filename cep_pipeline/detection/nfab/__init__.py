"""NFA^b: runs over the stream under all selection strategies (SIGMOD'08 sections 3 to 5).

A run starts at each event that can begin the pattern, and selects events until it is finished, cannot go on, or its
window ends. `mechanism` is the record: it brings the clauses of a pattern together and chooses one of three ways for
each.

- Deterministic runs, for a clause of single events under a strategy other than skip_till_any_match: an event that a run
  can take is taken, so that each run is followed on its own and never forks. Data flows from `stream` (the events that
  runs read, by partition) through `runs` (the driver, negation, runs alive) to the loops of `kernel`, one for each way
  in which runs bind events, whose words `run_words` names. Conditions are those of all kernels (`conditions`).
- The automaton, for chains with Kleene variables, chains under skip_till_any_match, and chains with the options `merge`
  or `backtrack`. `automaton` compiles states and edges by the six steps of section 3.2, and finds the values
  by which runs can be merged (5.2); `automaton_runs` drives the kernel; `memory` has the arrays and prunes them (5.3);
  `words` names the kernel's words. Compiled only: `machine` (the arrays as pointers), `buffer` (the shared versioned
  match buffer, 5.1) and `automaton_kernel` (the algorithms of 5.2: all runs at once, merging, backtracking).
- Chains under skip_till_any_match with TIES ANY take their events from an input buffer, as the lazy chain automaton
  does.
"""
