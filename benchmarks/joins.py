"""Workloads as SQL: bucketed joins, which are what a database can do about a time window.

A match is looked for in the bucket of its first event's time and in the next one, so that every pair within the window
meets in an equality join; the time conditions then decide. Strings are compared by equality only, times are integers.
Every query reads the table `s` (ts, ticker, diff, or ts, report_id, avg_speed) and counts matches.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.workloads import MANY_WINDOW_MS, draw_types


def sequence_join(sources: Sequence[str], condition: str, window: int, value: str, key: str | None = None) -> str:
    """A query that counts the matches of a sequence of events.

    The sources are the conditions by which the events are found, in their order. The condition holds between the value
    of an event (`v`) and that of the event before (`w`). The window is in the units of `ts`. All events agree on `key`.

    Examples
    --------
    >>> print(sequence_join(["ticker = 'S00'", "ticker = 'S07'"], "w < v", 2000, "diff"))
    WITH
    x1 AS (SELECT ts AS first, ts AS t, diff AS w FROM s WHERE ticker = 'S00'),
    y1 AS (SELECT *, unnest([first // 2000, first // 2000 + 1]) AS kk FROM x1),
    x2 AS (SELECT first, ts AS t, v AS w FROM y1
      JOIN (SELECT ts, diff AS v, ts // 2000 AS k FROM s WHERE ticker = 'S07') ON k = kk
      WHERE ts > t AND ts <= first + 2000 AND w < v)
    SELECT count(*) FROM x2
    """
    mine, theirs, agree = ("", "", "") if key is None else (f", {key} AS g", f", {key} AS h", " AND g = h")
    kept = "" if key is None else ", g"
    steps = [f"x1 AS (SELECT ts AS first, ts AS t, {value} AS w{mine} FROM s WHERE {sources[0]})"]
    for place, source in enumerate(sources[1:], start=1):
        steps.append(f"y{place} AS (SELECT *, unnest([first // {window}, first // {window} + 1]) AS kk FROM x{place})")
        steps.append(
            f"x{place + 1} AS (SELECT first, ts AS t, v AS w{kept} FROM y{place}\n"
            f"  JOIN (SELECT ts, {value} AS v{theirs}, ts // {window} AS k FROM s WHERE {source}) ON k = kk{agree}\n"
            f"  WHERE ts > t AND ts <= first + {window} AND {condition})"
        )
    return "WITH\n" + ",\n".join(steps) + f"\nSELECT count(*) FROM x{len(sources)}"


def _ticker(code: int) -> str:
    return f"ticker = 'S{code:02d}'"


# Two pairs are joined each, then pairs of pairs: the order of the four events is free.
_W2 = """
WITH a AS (SELECT ts, diff, ts // 500 AS k FROM s WHERE ticker = 'S05'),
     b AS (SELECT ts, diff, ts // 500 AS k FROM s WHERE ticker = 'S08'),
     c AS (SELECT ts, diff, ts // 500 AS k FROM s WHERE ticker = 'S11'),
     d AS (SELECT ts, diff, ts // 500 AS k FROM s WHERE ticker = 'S14'),
     a2 AS (SELECT *, unnest([k - 1, k, k + 1]) AS kk FROM a),
     c2 AS (SELECT *, unnest([k - 1, k, k + 1]) AS kk FROM c),
     ab AS (SELECT least(a2.ts, b.ts) AS lo, greatest(a2.ts, b.ts) AS hi FROM a2 JOIN b ON b.k = a2.kk
            WHERE abs(b.ts - a2.ts) <= 500 AND a2.diff < b.diff),
     cd AS (SELECT least(c2.ts, d.ts) AS lo, greatest(c2.ts, d.ts) AS hi FROM c2 JOIN d ON d.k = c2.kk
            WHERE abs(d.ts - c2.ts) <= 500 AND c2.diff < d.diff),
     ab2 AS (SELECT *, unnest([lo // 500 - 1, lo // 500, lo // 500 + 1]) AS kk FROM ab),
     cd2 AS (SELECT *, lo // 500 AS k FROM cd)
SELECT count(*) FROM ab2 JOIN cd2 ON cd2.k = ab2.kk
WHERE greatest(ab2.hi, cd2.hi) - least(ab2.lo, cd2.lo) <= 500
"""
# What the negated event rejects is known from a and c: an event between them lies in the bucket of a or in the next.
_W3 = """
WITH a AS (SELECT ts, diff, unnest([ts // 1500, ts // 1500 + 1]) AS kk FROM s WHERE ticker = 'S02'),
     b AS (SELECT ts, diff, ts // 1500 AS k FROM s WHERE ticker = 'S12'),
     c AS (SELECT ts, diff, ts // 1500 AS k FROM s WHERE ticker = 'S06'),
     d AS (SELECT ts, diff, ts // 1500 AS k FROM s WHERE ticker = 'S13'),
     ac AS (SELECT a.ts AS ats, a.diff AS ad, c.ts AS cts, c.diff AS cd, a.ts // 1500 AS k0, a.ts // 1500 + 1 AS k1
            FROM a JOIN c ON c.k = a.kk WHERE c.ts > a.ts AND c.ts <= a.ts + 1500 AND a.diff < c.diff),
     kept AS (SELECT ac.* FROM ac ANTI JOIN b ON b.k = ac.k0 AND b.ts > ac.ats AND b.ts < ac.cts AND b.diff < ac.ad),
     left_over AS (SELECT kept.* FROM kept
                   ANTI JOIN b ON b.k = kept.k1 AND b.ts > kept.ats AND b.ts < kept.cts AND b.diff < kept.ad),
     two AS (SELECT *, unnest([k0, k1]) AS kk FROM left_over)
SELECT count(*) FROM two JOIN d ON d.k = two.kk WHERE d.ts > cts AND d.ts <= ats + 1500 AND two.cd < d.diff
"""
# Lists are counted, not made: n events between give 2^n - 1 of them.
_W4 = """
WITH a AS (SELECT ts, diff, unnest([ts // 700, ts // 700 + 1]) AS kk FROM s WHERE ticker = 'S08'),
     b AS (SELECT ts, ts // 700 AS k FROM s WHERE ticker = 'S10'),
     c AS (SELECT ts, diff, ts // 700 AS k FROM s WHERE ticker = 'S12'),
     ac AS (SELECT a.ts AS ats, c.ts AS cts FROM a JOIN c ON c.k = a.kk
            WHERE c.ts > a.ts AND c.ts <= a.ts + 700 AND a.diff < c.diff),
     two AS (SELECT *, unnest([ats // 700, ats // 700 + 1]) AS kk FROM ac),
     lists AS (SELECT count(*) AS n FROM two JOIN b ON b.k = two.kk WHERE b.ts > ats AND b.ts < cts GROUP BY ats, cts)
SELECT coalesce(sum((1::BIGINT << n) - 1), 0) FROM lists
"""
DUCKDB_QUERIES: dict[str, list[str]] = {
    "W1": [sequence_join([_ticker(0), _ticker(7), _ticker(15)], "w < v", 2000, "diff")],
    "W2": [_W2],
    "W3": [_W3],
    "W4": [_W4],
    "W6": [sequence_join([_ticker(code) for code in types], "w < v", MANY_WINDOW_MS, "diff") for types in draw_types()],
    "W7": [sequence_join(["TRUE"] * 3, "w > v", 900_000, "avg_speed", key="report_id")],
}
"""Workload -> its queries, whose counts add up; DuckDB runs no other workloads."""
LONGEST_MANY = 100_000
"""Events of the longest stream over which W6's hundred queries are run: they take seconds."""
