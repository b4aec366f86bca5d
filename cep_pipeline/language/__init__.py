"""The pattern language: text to checked patterns, and patterns back to canonical text."""

from __future__ import annotations

from cep_pipeline.language.formatter import (
    format_condition,
    format_expression,
    format_pattern,
    format_structure,
    format_window,
    match_text,
)
from cep_pipeline.language.parser import FIXED_COLUMNS, parse_patterns
from cep_pipeline.language.source import PatternWarning

__all__ = [
    "FIXED_COLUMNS",
    "PatternWarning",
    "format_condition",
    "format_expression",
    "format_pattern",
    "format_structure",
    "format_window",
    "match_text",
    "parse_patterns",
]
