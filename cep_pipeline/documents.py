"""YAML documents that a user writes: read safely, checked against a model, with errors that name file and line."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from cep_pipeline.errors import InputError


class Document(BaseModel):
    """Base of all models of user-written documents: immutable, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


Model = TypeVar("Model", bound=BaseModel)
Setting = TypeVar("Setting")


def one_of(*registries: str, also: Sequence[str] = (), least: int | None = None) -> Callable[[dict[str, Any]], None]:
    """Make what adds to a setting's JSON Schema which texts the setting takes.

    Parameters
    ----------
    registries
        Collections of names, as `module:collection`. They are imported when the JSON Schema is made, so that reading a
        document imports nothing for it.
    also
        Further texts.
    least
        The smallest number, for a setting that is a number or one of the texts.
    """

    def add(schema: dict[str, Any]) -> None:
        for option in schema.get("anyOf", [schema]):
            if option.get("type") == "string":
                option["enum"] = [*chain.from_iterable(map(resolve_name, registries)), *also]
            elif least is not None:
                option["minimum"] = least

    return add


def checked(check: Callable[[Any], object], value: Setting) -> Setting:
    """Return the value of a setting that a check does not refuse; its InputError becomes a fault of the document.

    None, a setting that is not given, is not checked.
    """
    try:
        if value is not None:
            check(value)
    except InputError as error:
        raise ValueError(str(error)) from error
    return value


def load_document(path: Path, model: type[Model], what: str, *, variables: bool = False) -> Model:
    """Read a YAML file into a model.

    Parameters
    ----------
    path
        The file.
    model
        The pydantic model that says what may stand in it.
    what
        What the file is, for messages: "stream schema", "pipeline configuration".
    variables
        Whether `${NAME:-DEFAULT}` and `${NAME}` in a value stand for a variable of the environment.

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
        if variables and root is not None:
            _fill_in(path, root)
        content = yaml.SafeLoader("").construct_document(root) if root is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(f"{path}{line}: the {what} is no valid YAML: {problem}") from error
    if not isinstance(content, dict):
        found = "empty" if content is None else f"a {type(content).__name__}"
        raise InputError(f"{path}:1: a {what} is a mapping of settings (name: value); this file is {found}")
    _refuse_repeated_keys(path, root)
    try:
        return model.model_validate(content, context={"path": path})
    except ValidationError as error:
        faults = [_describe(path, root, fault, model) for fault in error.errors()]
        raise InputError("\n".join(faults)) from error


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def _fill_in(path: Path, node: yaml.Node) -> None:
    """Put variables of the environment into the values of a document, as a shell would.

    A value without quotes is then read as if its new text stood in the file, so that an empty one is no value.
    """
    if isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            _fill_in(path, value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _fill_in(path, item)
    elif isinstance(node, yaml.ScalarNode) and _VARIABLE.search(node.value):

        def value_of(found: re.Match[str]) -> str:
            name, default = found.groups()
            value = os.environ.get(name) or default
            if value is None:
                line = node.start_mark.line + 1
                raise InputError(
                    f"{path}:{line}: the environment variable {name} is not set; set it, or write a value for "
                    f"where it is not: ${{{name}:-VALUE}}"
                )
            return value

        node.value = _VARIABLE.sub(value_of, node.value)
        if node.style is None:
            node.tag = yaml.SafeLoader("").resolve(  # type: ignore[no-untyped-call]
                yaml.ScalarNode, node.value, (True, False)
            )


def _refuse_repeated_keys(path: Path, node: yaml.Node | None) -> None:
    """YAML's reader would keep the last of two settings of one name, and silently drop the first."""
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode):
                if key.value in lines:
                    raise InputError(
                        f"{path}:{line}: {key.value!r} is set twice, first in line {lines[key.value]}; leave one out"
                    )
                lines[key.value] = line
            _refuse_repeated_keys(path, value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_repeated_keys(path, item)


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
    """The settings that may stand at a location; [] where a model does not say so."""
    annotation: Any = model
    for part in location:
        annotation = _inner(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            field = annotation.model_fields.get(str(part))
            annotation = field.annotation if field is not None else None
        else:  # an entry of a mapping or a list: the last argument of dict[str, X] and list[X]
            annotation = (get_args(annotation) or (None,))[-1]
    annotation = _inner(annotation)
    return list(annotation.model_fields) if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []


def _inner(annotation: Any) -> Any:
    """The model (or mapping, or list) within `Annotated[…]` and `… | None`."""
    if get_origin(annotation) is Annotated:
        return _inner(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return _inner(next(option for option in get_args(annotation) if option is not type(None)))
    return annotation


def _suggestion(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(known)}" if known else ""


def line_at(path: Path, location: Sequence[int | str]) -> int:
    """Line, from 1, of a setting of a file that has been read; for faults that its model does not know."""
    return line_of(yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader), location)


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
