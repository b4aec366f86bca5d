"""The numbers of a snapshot, one beside the other: rates, selectivities and joint selectivities, and their drift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from cep_pipeline.statistics.drift import Drift
from cep_pipeline.statistics.measured import JointSelectivity, LeafRate, Selectivity
from cep_pipeline.statistics.mergeable import Estimate
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

What = Literal["rate", "selectivity", "order", "joint selectivity"]


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a snapshot.

    Attributes
    ----------
    what, key
        What it is of: the key of a leaf, of a condition, or of several that are met together.
    estimate
        The number and its interval. Rates are per second.
    rests
        Where it comes from, for a person.
    worst
        The same of the worst window; None where the snapshot is not of several.
    """

    what: What
    key: str
    estimate: Estimate
    rests: str
    worst: float | None = None


def numbers_of(snapshot: StatisticsSnapshot) -> dict[tuple[What, str], Number]:
    """The numbers of a snapshot by what they are and their key, rates first."""
    return {(number.what, number.key): number for number in _numbers(snapshot)}


def drift_between(before: StatisticsSnapshot, now: StatisticsSnapshot) -> dict[tuple[What, str], Drift]:
    """The drift of each number that both snapshots have."""
    earlier, later = numbers_of(before), numbers_of(now)
    return {key: Drift(earlier[key].estimate, later[key].estimate) for key in later if key in earlier}


def _numbers(snapshot: StatisticsSnapshot) -> Iterator[Number]:
    for rate in snapshot.rates:
        yield Number("rate", rate.leaf, _estimate(rate.per_s, rate), _rests_rate(rate), rate.worst_per_s)
    for share in snapshot.selectivities:
        yield Number("selectivity", share.condition, _estimate(share.value, share), _rests_share(share))
    for order in snapshot.orders:
        yield Number("order", order.condition, _estimate(order.value, order), _rests_share(order))
    for joint in snapshot.joints:
        together = " and ".join(f"{key} ({', '.join(map(str, over))})" for key, over in joint.members)
        yield Number("joint selectivity", together, _estimate(joint.value, joint), _rests_joint(joint))


def _estimate(value: float, of: LeafRate | Selectivity | JointSelectivity) -> Estimate:
    """The number with its interval; one of which nothing is known has none, and so counts as it stands."""
    return Estimate(value, value if of.low is None else of.low, value if of.high is None else of.high)


def _rests_rate(rate: LeafRate) -> str:
    return f"{rate.source.value}: {rate.count:,} events" if rate.count is not None else rate.source.value


def _rests_share(share: Selectivity) -> str:
    if not share.pairs:
        return share.source.value
    tested = f"all {share.pairs:,}" if share.tested == share.pairs else f"{share.tested:,} of {share.pairs:,}"
    return f"{share.source.value}: {tested}"


def _rests_joint(joint: JointSelectivity) -> str:
    return f"{joint.source.value}: {joint.tested:,}; {joint.independent:.3g} if independent"
