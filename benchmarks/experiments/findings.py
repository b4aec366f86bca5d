"""Findings: what a paper's experiment showed, and whether our figures show it, said by the figures alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, wraps
from pathlib import Path
from statistics import correlation, median
from typing import Any

import yaml
from scipy import stats

from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import times_as_fast


class Verdict(StrEnum):
    """The verdict on a finding of a paper, by a figure of ours."""

    HOLDS = "holds"
    SURPASSED = "surpassed"
    DIFFERS = "differs"
    UNDECIDED = "not decidable here"


@dataclass(frozen=True)
class Finding:
    """One finding of a paper beside what was measured.

    Attributes
    ----------
    claim
        The finding, as a short clause without a full stop.
    paper
        The paper's figure, in a few words: "1.7 to 2.7 times".
    ours
        Our figure of the same measure, in a few words.
    verdict
        How the two stand to each other. A difference that is smaller than the noise of the runs is `UNDECIDED`, and
        so is a claim about something that was not measured.
    reason
        Why it is so, in a few short sentences; required where the verdict is not `HOLDS`.
    """

    claim: str
    paper: str
    ours: str
    verdict: Verdict
    reason: str = ""

    def __post_init__(self) -> None:
        if self.verdict is not Verdict.HOLDS and not self.reason:
            raise ValueError(f"a finding that does not simply hold needs a reason: {self.claim}")


Measured = tuple[Verdict, Mapping[str, object]]
"""The verdict on a finding and the figures that its words ask for."""
Find = Callable[..., Finding]
_FINDINGS: dict[str, list[Find]] = {}
"""Module -> its findings, in the order in which they stand there."""


def finding(where: Callable[[Any], bool] | None = None) -> Callable[[Callable[..., Measured]], Find]:
    """Make a finding of a function of measured rows, those of them that are asked for.

    Its words stand in `words/MODULE.yaml`, under the name of the function: `claim`, `paper`, `ours` and `reason` are
    texts with the function's figures in braces.
    """

    def decorate(measure: Callable[..., Measured]) -> Find:
        words = _words(Path(__file__).parent / "words" / f"{measure.__module__.rpartition('.')[2]}.yaml")

        @wraps(measure)
        def found(rows: Sequence[Any], *others: object) -> Finding:
            verdict, figures = measure([row for row in rows if where is None or where(row)], *others)
            texts = (words[measure.__name__][part].format(**figures) for part in ("claim", "paper", "ours", "reason"))
            claim, paper, ours, reason = texts
            return Finding(claim, paper, ours, verdict, reason)

        _FINDINGS.setdefault(measure.__module__, []).append(found)
        return found

    return decorate


def findings_of(module: str, rows: Sequence[Any], *others: object) -> list[Finding]:
    """All findings of a module by the rows that were measured."""
    return [found(rows, *others) for found in _FINDINGS[module]]


@cache
def _words(path: Path) -> dict[str, dict[str, str]]:
    words: dict[str, dict[str, str]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return words


def verdict_at_least(ours: float, bound: float, *, noise: float = 1.0, surpassed: float = math.inf) -> Verdict:
    """The verdict on a finding that some ratio is at least `bound`.

    Parameters
    ----------
    ours
        Our ratio.
    bound
        The least ratio at which the finding holds.
    noise
        The factor by which the ratio may be off: 1 for counted figures; for times see `noise_of_runs`. A ratio within
        it of the bound decides nothing.
    surpassed
        The ratio from which on we are better than the paper.

    Examples
    --------
    >>> verdict_at_least(12.0, 10.0).value, verdict_at_least(8.0, 10.0).value
    ('holds', 'differs')
    >>> verdict_at_least(9.0, 10.0, noise=1.2).value, verdict_at_least(50.0, 10.0, noise=1.2, surpassed=20.0).value
    ('not decidable here', 'surpassed')
    """
    if ours >= surpassed * noise:
        return Verdict.SURPASSED
    if 1 / noise < ours / bound < noise:
        return Verdict.UNDECIDED
    return Verdict.HOLDS if ours >= bound else Verdict.DIFFERS


def verdict_at_most(ours: float, bound: float, *, noise: float = 1.0, surpassed: float = 0.0) -> Verdict:
    """The verdict on a finding that some ratio is at most `bound`; parameters as those of `verdict_at_least`.

    Examples
    --------
    >>> verdict_at_most(2.0, 3.0).value, verdict_at_most(3.1, 3.0, noise=1.1).value
    ('holds', 'not decidable here')
    """
    return verdict_at_least(1 / ours, 1 / bound, noise=noise, surpassed=1 / surpassed if surpassed else math.inf)


def noise_of_runs(times: Iterable[Sequence[float]]) -> float:
    """The factor by which the time of a run differs from that of the same run measured again, in the middle.

    Parameters
    ----------
    times
        For each run the times of its repetitions, in seconds; those measured once are passed over.

    Returns
    -------
    float
        The median over the runs of second least time / least time; 1.0 where nothing was repeated.

    Examples
    --------
    >>> noise_of_runs([[1.0, 1.2], [2.0, 2.2, 9.0], [3.0, 3.9], [5.0]])
    1.2
    """
    factors = [ordered[1] / ordered[0] for ordered in map(sorted, times) if len(ordered) > 1]
    return median(factors) if factors else 1.0


def said_of_noise(findings: Iterable[Finding]) -> list[Finding]:
    """The findings; where one was measured and yet is not decided, its reason says that noise is why.

    Examples
    --------
    >>> near = Finding("cost falls", "by half", "0.98 times", Verdict.UNDECIDED, "Both do the same.")
    >>> said_of_noise([near])[0].reason
    'The figure is within the noise around its bound. Both do the same.'
    """
    noise = "The figure is within the noise around its bound."
    return [
        replace(one, reason=f"{noise} {one.reason}") if one.verdict is Verdict.UNDECIDED and one.ours else one
        for one in findings
    ]


def findings_table(findings: Sequence[Finding]) -> str:
    """A sentence that counts the verdicts, and a table of the findings.

    Examples
    --------
    >>> held = Finding("cost grows", "linearly", "linearly", Verdict.HOLDS)
    >>> print(findings_table([held, Finding("cost falls", "", "it grows", Verdict.DIFFERS, "It grows.")]))
    Of 2 findings of the paper 1 holds and 1 differs.
    <BLANKLINE>
    |   | finding    | in the paper | here     | verdict     |
    | - | ---------- | ------------ | -------- | ----------- |
    | 1 | cost grows | linearly     | linearly | **holds**   |
    | 2 | cost falls |              | it grows | **differs** |
    """
    counted = [
        f"{number} {_IN_A_SENTENCE[verdict][number > 1]}"
        for verdict in Verdict
        if (number := sum(finding.verdict is verdict for finding in findings))
    ]
    rows = [
        [str(place), finding.claim, finding.paper, finding.ours, f"**{finding.verdict.value}**"]
        for place, finding in enumerate(findings, 1)
    ]
    return "\n\n".join(
        [
            f"Of {len(findings)} findings of the paper {_in_a_row(counted)}.",
            markdown_table(["", "finding", "in the paper", "here", "verdict"], rows),
        ]
    )


def _in_a_row(parts: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def reasons(findings: Sequence[Finding]) -> list[str]:
    """A paragraph for each finding that has a reason, under the number that it has in the table."""
    return [
        f"**{place}. {finding.claim[:1].upper()}{finding.claim[1:]}: {finding.verdict.value}.** {finding.reason}"
        for place, finding in enumerate(findings, 1)
        if finding.reason
    ]


_IN_A_SENTENCE = {
    Verdict.HOLDS: ("holds", "hold"),
    Verdict.SURPASSED: ("is surpassed", "are surpassed"),
    Verdict.DIFFERS: ("differs", "differ"),
    Verdict.UNDECIDED: ("is not decidable here", "are not decidable here"),
}
"""Verdict -> verb for one finding, for several."""


def ratio_range(ratios: Iterable[float], shown: Callable[[float], str] = times_as_fast) -> str:
    """The least and the greatest of some ratios, or of other figures, as they are to be shown.

    Examples
    --------
    >>> ratio_range([12.3, 480.2, 90.0]), ratio_range([2.0]), ratio_range([0.25, 0.031, 0.6], "{:.1%}".format)
    ('12.3 to 480', '2.00', '3.1% to 60.0%')
    """
    values = sorted(ratios)
    low, high = shown(values[0]), shown(values[-1])
    return low if low == high else f"{low} to {high}"


def log_slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Slope of the line of least squares through the logarithms: 1 for a cost that grows linearly, 2 quadratically.

    Examples
    --------
    >>> round(log_slope([1, 10, 100], [3, 30, 300]), 6), round(log_slope([1, 2, 4], [1, 4, 16]), 6)
    (1.0, 2.0)
    """
    return float(stats.linregress([math.log(x) for x in xs], [math.log(y) for y in ys]).slope)


def rank_correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Spearman's correlation of ranks: 1 where y always grows with x, -1 where it always falls; equal values share one.

    Examples
    --------
    >>> round(rank_correlation([1, 2, 30], [1, 8, 9]), 6), round(rank_correlation([1, 2, 3], [9, 4, 1]), 6)
    (1.0, -1.0)
    """
    return float(stats.spearmanr(xs, ys).statistic) if len(set(xs)) > 1 and len(set(ys)) > 1 else 0.0


def explained_by_a_line(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Share of the variance of ys that a straight line of xs explains (r squared).

    Examples
    --------
    >>> explained_by_a_line([1, 2, 5], [10, 12, 18]), round(explained_by_a_line([-1, 0, 1], [1, 0, 1]), 3)
    (1.0, 0.0)
    """
    return correlation(xs, ys) ** 2 if len(set(ys)) > 1 else 1.0
