"""Matches without listing them: runs that are merged, counted, and kept as a shared versioned buffer.

It serves the outputs `count` and `compressed` of patterns with Kleene variables, whatever the mechanism: neither time
nor memory grows with the number of matches. The modules in the order in which data flows:

- `components`: clauses that bind the same variables as one group, and their conditions taken apart by what they ask of
  lists; a pattern whose conditions need the lists themselves is refused here;
- `lanes`: the events that merged runs read, beginning by beginning;
- `fields`: the states of runs, the numbers that a run remembers for later conditions, and expressions over them;
- `runs`: one step an event: runs bind it or ignore it, conditions are decided, equal runs become one;
- `buffers`: the graph that the runs leave, and its bytes in a table; `graph_kernels`: compiled passes over it;
- `compressing`: the compressed table of a pattern, and the number of its matches;
- `expansion`: the matches of a compressed table again, in order.

This buffer outlives a run and holds every match; that of `nfab` holds the events of runs that are alive.

References
----------
J. Agrawal et al., "Efficient pattern matching over event streams", SIGMOD 2008, section 5.
"""
