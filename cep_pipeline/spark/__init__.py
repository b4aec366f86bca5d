"""The distributed work of a day. Only this package imports PySpark.

In the order of a day: `reading` (raw files to staged rows), `detection` (slices of the day to matches), `keeping`
(OUTPUT and CONSUME over the matches of all slices) and `composing` (patterns that bind these matches). `slicing` cuts a
day into slices, and `partitions` reads back in partitions for windows that count their events. `session` makes the
Spark session, `tasks` runs functions over descriptions of tasks, `daemon` forks the workers, and `workers` checks that
they have the project.

For programs of Spark, `match` (in `matching`) takes any DataFrame of events and gives one of matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cep_pipeline.lazy_names import lazy_names

if TYPE_CHECKING:  # imported when they are first used (`lazy_names`): the other modules do without
    from cep_pipeline.spark.matching import match as match

__getattr__, __dir__ = lazy_names(__name__)
