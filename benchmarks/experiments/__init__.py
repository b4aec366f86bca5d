"""The papers' experiments on our own data, a folder each: what is measured, the page, and what it should show.

`cep experiment NAME` runs one. An experiment is a list of cells, one measurement each, kept on disk as it is finished
(`experiment.py`); findings, functions that give a verdict by the figures of the cells, with their words in
`findings.yaml`; and a page, whose words are in `page.jinja`, with tables and charts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from benchmarks.experiments.experiment import Experiment

EXPERIMENTS = ("lazy_nfa", "nfab", "join_plans", "adaptation", "multi_pattern")


def experiment_named(name: str) -> Experiment:
    """The experiment of this name; InputError lists the known ones otherwise."""
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}")
    experiment: Experiment = import_module(f"{__name__}.{name}.experiment").EXPERIMENT
    return experiment
