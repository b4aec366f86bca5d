"""The vectorized meaning of conditions: columns of events, arithmetic, comparison, lists and aggregates.

Statistics, detection and the slices below them evaluate conditions here and nowhere else, but for the compiled kernels,
which are held to the same answers by tests.

- `columns`: attributes of events as NumPy arrays with nulls and string dictionaries;
- `arithmetic`, with the correlation of two lists, and `comparison`: one operation each, with three-valued logic;
- `local_time`: the clock of the stream's time zone;
- `evaluate`: expressions and conjuncts over bindings of single events;
- `lists`: the same over bindings of lists of events, with aggregates.
"""
