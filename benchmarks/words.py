"""The words of pages: templates beside the code, which are filled with figures and tables."""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from cep_pipeline.cli.terminal import format_seconds, times_as_fast

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_TEMPLATES.filters |= {"times": times_as_fast, "seconds": format_seconds, "commas": "{:,}".format}


def filled(template: str, **figures: object) -> str:
    """The text of a template, a path below this folder, with one blank line between paragraphs and one line end."""
    text = _TEMPLATES.get_template(template).render(**figures)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
