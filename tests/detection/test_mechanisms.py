"""The registry of mechanisms: names without loading, one record a name, flags instead of names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import FrozenInstanceError

import pytest

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import Mechanism, Mechanisms


def test_names_are_known_without_loading_a_mechanism() -> None:
    names = list(MECHANISMS)
    code = (
        "import sys; from cep_pipeline.detection import MECHANISMS; "
        "assert 'fused' in MECHANISMS and 'other' not in MECHANISMS; "
        "print(*MECHANISMS); "
        "print(*[name for name in sys.modules if name.startswith('cep_pipeline.detection.')])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [" ".join(names), "cep_pipeline.detection.mechanisms"]


def test_every_name_has_a_record_of_that_name() -> None:
    assert isinstance(MECHANISMS, Mapping)
    for name, mechanism in MECHANISMS.items():
        assert mechanism.name == name and mechanism is mechanism
        with pytest.raises(FrozenInstanceError):
            mechanism.runs_trees = True  # type: ignore[misc]
    assert [name for name, mechanism in MECHANISMS.items() if mechanism.is_columnar] == ["fused"]
    assert [name for name, mechanism in MECHANISMS.items() if mechanism.options] == ["lazy_tree_nfa", "nfab"]


def test_a_record_may_stand_for_its_place() -> None:
    own = Mechanism("own", MECHANISMS["fused"].find)
    registry = Mechanisms({"own": own, "fused": MECHANISMS.places["fused"]})
    assert registry["own"] is own and registry["fused"] is MECHANISMS["fused"] and len(registry) == 2
    with pytest.raises(KeyError):
        registry["other"]
    with pytest.raises(AssertionError, match="wrong is not the mechanism of its place"):
        Mechanisms({"wrong": "cep_pipeline.detection.fused.mechanism:MECHANISM"})["wrong"]
