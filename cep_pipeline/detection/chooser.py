"""The executor for what is asked of a pattern with many matches: it follows from the pattern alone."""

from __future__ import annotations

from cep_pipeline.detection.compressed.components import reason_to_list
from cep_pipeline.detection.counting.owned import route_to_count
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.route import CHOSEN_AMONG, Executor, Route, Sink
from cep_pipeline.detection.summaries.unlisted import not_summarized_because
from cep_pipeline.patterns.pattern import Pattern


def route_of(pattern: Pattern, sink: Sink, *, columnar: bool = True) -> Route:
    """The executor for many matches of a pattern, by the pattern alone.

    Parameters
    ----------
    columnar
        Whether its mechanism is columnar (`Mechanism.is_columnar`): no other one counts by sweeps or by parts.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> [free] = cep.parse_patterns("PATTERN SEQ(A a, B b) WITHIN 1 day", schema)
    >>> [total] = cep.parse_patterns("PATTERN A+ a[] WHERE sum(a[].x) > 3 WITHIN 1 minute", schema)
    >>> print(route_of(free, Sink.COUNT), route_of(total, Sink.COMPRESS), sep="\\n")
    counted by a semiring sweep over the events
    compressed by finding each match: sum() over the list 'a'
    """
    if sink is Sink.LIST:
        return Route(sink, Executor.MECHANISM)
    if sink is Sink.SUMMARIZE:
        reason = not_summarized_because(pattern)
        return Route(sink, Executor.SWEEP) if reason is None else Route(sink, Executor.MECHANISM, reason)
    if sink is Sink.COUNT:
        return route_to_count(pattern, columnar=columnar)
    if has_output_policy(pattern):
        return Route(sink, Executor.MECHANISM, CHOSEN_AMONG)
    reason = reason_to_list(pattern)
    return Route(sink, Executor.GRAPH) if reason is None else Route(sink, Executor.MECHANISM, reason)
