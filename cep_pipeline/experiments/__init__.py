"""The papers' experiments on our own data, one module each: what is measured, the page, and what it should show.

`cep experiment NAME` runs one. An experiment is a list of cells (one measurement each, kept on disk as it is finished)
and a function that makes a page with tables, charts and findings of the cells' figures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from cep_pipeline.experiments.experiment import Experiment

EXPERIMENTS = {
    "lazy_nfa": "cep_pipeline.experiments.lazy_nfa",
    "nfab": "cep_pipeline.experiments.nfab",
    "join_plans": "cep_pipeline.experiments.join_plans",
    "adaptation": "cep_pipeline.experiments.adaptation",
    "multi_pattern": "cep_pipeline.experiments.multi_pattern",
}
"""Name -> module; its `EXPERIMENT` is the experiment."""


def experiment_named(name: str) -> Experiment:
    """The experiment of this name; InputError lists the known ones otherwise."""
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}")
    experiment: Experiment = import_module(EXPERIMENTS[name]).EXPERIMENT
    return experiment
