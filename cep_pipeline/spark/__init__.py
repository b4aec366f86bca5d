"""The distributed work of a day. Only this package imports PySpark.

In the order of a day: `ingestion` (raw files to files of events), `statistics` (counts for the planner), `detection`
(slices of the day to matches), `keeping` (OUTPUT and CONSUME over the matches of all slices) and `composing` (patterns
that bind these matches). `slicing` cuts a day into slices, and `partitions` reads back in partitions for windows that
count their events. `session` makes the Spark session, `tasks` runs functions over descriptions of tasks, `daemon` forks
the workers, and `shipping` brings the project to them.
"""
