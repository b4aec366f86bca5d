"""YAML documents that a user writes: read safely, checked against a model, with errors that name file and line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from cep_pipeline.errors import InputError


class Document(BaseModel):
    """Base of all models of user-written documents: immutable, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


Model = TypeVar("Model", bound=BaseModel)


def load_document(path: Path, model: type[Model], what: str) -> Model:
    """Read a YAML file into a model.

    Parameters
    ----------
    path
        The file.
    model
        The pydantic model that says what may stand in it.
    what
        What the file is, for messages: "stream schema", "pipeline configuration".

    Raises
    ------
    InputError
        The file is missing or unreadable, is no YAML, or does not fit the model; every fault is listed with its
        line and what to do.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such {what}; give the path of an existing YAML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the {what} cannot be read: {error}") from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(f"{path}{line}: the {what} is no valid YAML: {problem}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}:1: a {what} is a mapping of settings, not {type(content).__name__}")
    try:
        return model.model_validate(content, context={"path": path})
    except ValidationError as error:
        faults = [_describe(path, root, fault, model) for fault in error.errors()]
        raise InputError("\n".join(faults)) from error


def _describe(path: Path, root: yaml.Node | None, fault: Any, model: type[BaseModel]) -> str:
    location: tuple[int | str, ...] = fault["loc"]
    line = line_of(root, location)
    name = ".".join(str(part) for part in location) or "document"
    message = str(fault["msg"]).removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        message = f"unknown setting{_suggestion(str(location[-1]), _known_settings(model, location[:-1]))}"
    elif fault["type"] == "missing":
        message = "this setting is required"
    elif "input" in fault and isinstance(fault["input"], str | int | float | bool):
        message = f"{message} (found {fault['input']!r})"
    return f"{path}:{line}: {name}: {message}"


def _known_settings(model: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    fields: type[BaseModel] | None = model
    for part in location:
        annotation = fields.model_fields[part].annotation if fields and part in fields.model_fields else None
        fields = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
        if fields is None:
            return []
    assert fields is not None
    return list(fields.model_fields)


def _suggestion(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(known)}" if known else ""


def line_of(root: yaml.Node | None, location: Sequence[int | str]) -> int:
    """Line, from 1, of the deepest part of the location that stands in the document."""
    node, line = root, 1
    for part in location:
        following: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    line, following = key.start_mark.line + 1, value
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            following = node.value[part]
            line = following.start_mark.line + 1
        if following is None:
            break
        node = following
    return line
