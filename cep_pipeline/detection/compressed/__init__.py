"""Matches without listing them: runs that are merged, counted, and kept as a shared versioned buffer.

It serves the outputs `count` and `compressed` of patterns with Kleene variables, whatever the mechanism: neither time
nor memory grows with the number of matches. The modules in the order in which data flows:

- `fields`: clauses that bind the same variables as one group, and their conditions taken apart by what they ask of
  lists, where a pattern whose conditions need the lists themselves is refused; the states of runs, and what a run
  remembers for later conditions;
- `runs`: the events that merged runs read, in lanes, and one step an event: runs bind it or ignore it, conditions are
  decided, equal runs become one;
- `buffers`: the graph that the runs leave, and its bytes in a table; `graph_kernels`: compiled passes over it;
- `tables`: the compressed table of a pattern, the number of its matches, and these again, in order.

This buffer outlives a run and holds every match; that of `nfab` holds the events of runs that are alive.

References
----------
J. Agrawal et al., "Efficient pattern matching over event streams", SIGMOD 2008, section 5.
"""
