"""Complex event processing for historical and daily event data: patterns as queries, plans that follow the data."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cep_pipeline.errors import BusyError, CepError, DataError, InputError, PatternError, PlanError, UnsupportedPattern

if TYPE_CHECKING:
    from cep_pipeline.adaptation.loop import detect_adaptively as detect_adaptively
    from cep_pipeline.detection.compressed.expansion import expand as expand
    from cep_pipeline.detection.detect import detect as detect
    from cep_pipeline.detection.detect import detect_batches as detect_batches
    from cep_pipeline.events.schema import StreamSchema as StreamSchema
    from cep_pipeline.language.formatter import format_pattern as format_pattern
    from cep_pipeline.language.parser import parse_patterns as parse_patterns
    from cep_pipeline.planning import plan as plan
    from cep_pipeline.statistics import estimate_statistics as estimate_statistics

__version__ = "0.1.0"

# Loaded on first use: a command that only parses patterns must not wait for the detection kernels.
_LAZY = {
    "StreamSchema": "cep_pipeline.events.schema",
    "parse_patterns": "cep_pipeline.language.parser",
    "format_pattern": "cep_pipeline.language.formatter",
    "estimate_statistics": "cep_pipeline.statistics",
    "plan": "cep_pipeline.planning",
    "detect": "cep_pipeline.detection.detect",
    "detect_batches": "cep_pipeline.detection.detect",
    "detect_adaptively": "cep_pipeline.adaptation.loop",
    "expand": "cep_pipeline.detection.compressed.expansion",
}

__all__ = [
    "BusyError",
    "CepError",
    "DataError",
    "InputError",
    "PatternError",
    "PlanError",
    "UnsupportedPattern",
    "__version__",
    *_LAZY,
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)
