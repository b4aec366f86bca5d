"""A slice of the stream: its events, their order, windows and partitions, and which matches it owns.

Statistics and detection both stand on this package, and it knows neither.

- `prepared`: the events of a slice, with everything that is derived from them kept once for all patterns;
- `order`: the one place that says what before, after, TIES and windows mean for rows of a slice;
- `partitions`, `keys`, `numbers`: the parts of a stream that agree on attributes, and comparable numbers;
- `views`: sorted columns of the candidates of a variable; `routines`, `merging`, `workspace`: compiled loops over them;
- `event_truths`, `clause_cache`: conditions on single events, and facts about a clause, found once;
- `ownership`: when a match is final, and which slice owns it; `extent`: how far back a slice has to read;
- `blocks`: matches as rows of a slice; `events_input`: which columns of a table a pattern needs.
"""
