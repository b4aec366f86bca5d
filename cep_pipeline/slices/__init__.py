"""A slice of the stream: its events, their order, windows and partitions, and which matches it owns.

Statistics and detection both stand on this package, and it knows neither.

- `prepared`: the events of a slice, with everything that is derived from them kept once for all patterns;
- `order`: the one place that says what before, after, TIES, windows and partitions mean for rows of a slice;
- `keys`: the parts of a stream that agree on attributes, and numbers that compare as their columns do;
- `views`: sorted columns of the candidates of a variable, with conditions on single events and facts about a clause
  that are found once; `routines`: compiled loops over columns;
- `ownership`: when a match is final, which slice owns it, and how far back a slice has to read;
- `blocks`: matches as rows of a slice; `events_input`: which columns of a table a pattern needs.
"""
