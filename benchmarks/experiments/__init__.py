"""The papers' experiments on our own data, a folder each: what is measured, the page, and what it should show.

`cep experiment NAME` runs one. An experiment is a list of cells (one measurement each, kept on disk as it is finished)
and a function that makes a page with tables, charts and findings of the cells' figures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from benchmarks.experiments.experiment import Experiment

EXPERIMENTS = {
    "lazy_nfa": "benchmarks.experiments.lazy_nfa.experiment",
    "nfab": "benchmarks.experiments.nfab.experiment",
    "join_plans": "benchmarks.experiments.join_plans.experiment",
    "adaptation": "benchmarks.experiments.adaptation.experiment",
    "multi_pattern": "benchmarks.experiments.multi_pattern.experiment",
}
"""Name -> module; its `EXPERIMENT` is the experiment."""


def experiment_named(name: str) -> Experiment:
    """The experiment of this name; InputError lists the known ones otherwise."""
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}")
    experiment: Experiment = import_module(EXPERIMENTS[name]).EXPERIMENT
    return experiment
