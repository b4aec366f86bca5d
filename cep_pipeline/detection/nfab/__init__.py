"""NFA^b: runs over the stream under the selection strategies of docs/language.md (SIGMOD'08 sections 3 to 5).

A run starts at each event that can begin the pattern, and selects events until it is finished, cannot go on, or its
window ends. Runs are followed in one of two ways:

- A clause of single events under a strategy of section 4 is deterministic: an event that a run can take is taken. Each
  run is followed on its own over columns, from its start to its end, and never forks (`runs`, `kernel`, `codes`,
  `program`, `negation`). Where a run may skip nothing, what it binds is known from where it starts, and one pass tests
  a condition for all of them (`contiguous`, `contiguous_kernel`).
- Chains with Kleene variables, chains under skip_till_any_match, and chains with the options `merge` or `backtrack` run
  as an automaton with a shared match buffer: `automaton` (states and edges, by the six steps of section 3.2), `buffer`
  and `versions` (the shared versioned match buffer and the dewey numbers of runs, 5.1), `computation_state` and
  `vector_words` (value vector and bit masks, 5.2), `simultaneous` (the basic algorithm, 5.2.1), `merging` (5.2.2),
  `backtrack` (5.2.3), `memory` (pools and pruning, 5.3), `advance`, `machine` and `words` (the kernel and what it works
  on), `automaton_runs` (its driver).

Chains under skip_till_any_match with TIES ANY take their events from an input buffer, like the lazy chain
automaton (`finding`). All others read the events by partition (`stream`); `finding` brings the clauses of a pattern
together, `support` says what is run, `lives` counts the runs alive.
"""
