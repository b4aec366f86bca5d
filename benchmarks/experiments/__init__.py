"""The papers' experiments on our own data, a module each: what is measured, what it should show, and the page.

`cep experiment NAME` runs one. An experiment is a list of cells, one measurement each, kept on disk as it is finished
(`experiment.py`); findings, functions that give a verdict by the figures of the cells; and a page with tables and
charts. The words of findings and page are in `words`.
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
    experiment: Experiment = import_module(f"{__name__}.{name}").EXPERIMENT
    return experiment
