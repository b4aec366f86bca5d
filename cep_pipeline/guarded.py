"""YAML and JSON text that people write or hand over, read with errors that name file and line."""

from __future__ import annotations

import gc
import json
import os
import re
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from cep_pipeline.errors import InputError
from cep_pipeline.foreign_text import shortened


def read_text(path: Path, what: str) -> str:
    """Read a file of UTF-8 text, or raise an InputError; `what` says what it should be."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such {what}; give the path of an existing file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the {what} cannot be read: {error}") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: the {what} cannot be read: it is no UTF-8 text: {error}") from error


def read_yaml(path: Path, what: str) -> yaml.Node | None:
    """Read a YAML file as nodes, which know their lines; None where nothing stands in it.

    Text that is no YAML, nests too deeply, or sets a key twice is an InputError.
    """
    text = read_text(path, what)
    try:
        with without_collecting():
            root: yaml.Node | None = _Loader(text).get_single_node()
    except yaml.YAMLError as error:
        raise _no_yaml(path, what, text, error) from error
    except RecursionError:
        raise InputError(f"{path}: the {what} nests too many levels; write it flatter") from None
    return root


def values_of(path: Path, what: str, root: yaml.Node | None, *, variables: bool = False) -> Any:
    """The values that nodes stand for; an InputError names the line of one that is none, such as a month 13.

    With `variables` the text of a value may have variables of the environment, as in a shell: `${NAME:-DEFAULT}`.
    """
    loader = _Loader("")
    loader.filled_in = str(path) if variables else ""
    try:
        return None if root is None else loader.construct_document(root)
    except yaml.YAMLError as error:
        raise _no_yaml(path, what, "", error) from error


def _no_yaml(path: Path, what: str, text: str, error: yaml.YAMLError) -> InputError:
    mark = getattr(error, "problem_mark", None)
    if mark is not None and isinstance(error, _WrongKey):
        return InputError(f"{path}:{mark.line + 1}: {error.problem}")
    position = getattr(error, "position", None)  # of a character that YAML does not know
    place = ""
    if mark is not None:
        place = f":{mark.line + 1}:{mark.column + 1}"
    elif isinstance(position, int):
        place = f":{text.count(chr(10), 0, position) + 1}"
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return InputError(f"{path}{place}: the {what} is no valid YAML: {problem}")


class _WrongKey(yaml.composer.ComposerError):
    """A mapping sets a key twice, or one that is no text."""


class _Loader(yaml.SafeLoader):
    """A loader that refuses a key that is set twice, and names the place of a value that is none."""

    filled_in = ""
    """The file whose values may have variables of the environment; empty: none."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Read a mapping."""
        node = super().compose_mapping_node(anchor)
        _refuse_wrong_keys(node)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Make a value; one that is none of its type is an error of YAML, with its place."""
        if self.filled_in and isinstance(node, yaml.ScalarNode) and _VARIABLE.search(node.value):
            node.value = _VARIABLE.sub(partial(_value_of, f"{self.filled_in}:{node.start_mark.line + 1}"), node.value)
            if node.style is None:  # without quotes it is read as if its new text stood in the file
                node.tag = self.resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:
            raise yaml.constructor.ConstructorError(
                None, None, f"a value cannot be read: {error}; write text in quotes", node.start_mark
            ) from error


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def _value_of(place: str, found: re.Match[str]) -> str:
    """The text of a variable of the environment, or its default."""
    name, default = found.groups()
    value = os.environ.get(name) or default
    said = f"{place}: the environment variable {name}"
    if value is None:
        raise InputError(f"{said} is not set; set it, or write a value for where it is not: ${{{name}:-VALUE}}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(f"{said} is not valid UTF-8: {value}; set it to UTF-8 text")
    return value


def _refuse_wrong_keys(node: yaml.MappingNode) -> None:
    """YAML's reader would silently drop the first of two settings of one name, and take the name `no` for false."""
    lines: dict[Hashable, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if key.value in lines:
            problem = f"{key.value!r} is set twice, first in line {lines[key.value]}; leave one out"
            raise _WrongKey(None, None, problem, key.start_mark)
        if key.tag == "tag:yaml.org,2002:bool":
            problem = f'YAML reads the name {key.value} as true or false; write it in quotes: "{key.value}"'
            raise _WrongKey(None, None, problem, key.start_mark)
        lines[key.value] = key.start_mark.line + 1


def brief(error: Exception) -> str:
    """Return the text of an error as one line, without most of a long value that it names."""
    return shortened(" ".join(str(error).split()), 600)


def read_json(path: Path, what: str) -> Any:
    """Read a JSON file; errors are those of `read_text` and `parse_json`."""
    return parse_json(read_text(path, what), str(path), what)


@contextmanager
def without_collecting() -> Iterator[None]:
    """Let nobody look for garbage in the block.

    A block that makes a million objects and throws none of them away would be looked through again and again, which
    takes longer than to make them.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def parse_json(text: str | bytes, source: str, what: str) -> Any:
    """The values of a JSON text; `source` names it in messages: a file, a column of a file.

    Text that is no JSON, nests too deeply, or has a number that is none is an InputError.
    """
    try:
        with without_collecting():
            return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise InputError(f"{source}:{error.lineno}:{error.colno}: the {what} is no JSON: {error.msg}") from error
    except RecursionError:
        raise InputError(f"{source}: the {what} nests objects and lists too deeply; make it again") from None
    except ValueError as error:  # no UTF-8, thousands of digits
        raise InputError(f"{source}: the {what} is no JSON: {error}") from error


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")
