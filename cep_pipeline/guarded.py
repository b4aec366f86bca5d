"""YAML and JSON text that anybody may have written, read within limits that no text can exceed.

A few hundred bytes of YAML can stand for billions of values, and a few thousand brackets exhaust the stack. So a text
is refused with its file, line and what to do before it costs more than its size says. `MOST_BYTES`, `MOST_NODES` and
`MOST_DEPTH` are far above any document of the project.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from cep_pipeline.errors import InputError

MOST_BYTES = 4 << 20
"""Size of a YAML file."""
MOST_NODES = 200_000
"""Values of a YAML file, each alias counted as all that it stands for."""
MOST_DEPTH = 50
"""Mappings and lists of a YAML file within each other, aliases followed."""
MOST_DIGITS = 400
"""Characters of a number in a YAML file."""
MOST_JSON_BYTES = 512 << 20
"""Size of a JSON file: a plan of thousands of patterns has tens of megabytes."""


def read_text(path: Path, what: str, most: int = MOST_BYTES) -> str:
    """Read a file of UTF-8 text of at most so many bytes, or raise an InputError; `what` says what it should be."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such {what}; give the path of an existing file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the {what} cannot be read: {error}") from error
    if len(data) > most:
        raise InputError(f"{path}: the {what} is larger than {most:,} bytes, which none is; give another file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: the {what} cannot be read: it is no UTF-8 text: {error}") from error


def read_yaml(path: Path, what: str) -> yaml.Node | None:
    """Read a YAML file as nodes, which know their lines; None where nothing stands in it.

    Text that is no YAML, is too deep or stands for too much, contains itself, or sets a key twice is an InputError.
    """
    text = read_text(path, what)
    try:
        with without_collecting():
            root: yaml.Node | None = _Loader(text).get_single_node()
    except yaml.YAMLError as error:
        raise _no_yaml(path, what, text, error) from error
    return root


def values_of(path: Path, what: str, root: yaml.Node | None) -> Any:
    """The values that nodes stand for; an InputError names the line of one that is none, such as a month 13."""
    try:
        return None if root is None else _Loader("").construct_document(root)
    except yaml.YAMLError as error:
        raise _no_yaml(path, what, "", error) from error


def _no_yaml(path: Path, what: str, text: str, error: yaml.YAMLError) -> InputError:
    mark = getattr(error, "problem_mark", None)
    if mark is not None and isinstance(error, _RepeatedKey):
        return InputError(f"{path}:{mark.line + 1}: {error.problem}")
    position = getattr(error, "position", None)  # of a character that YAML does not know
    place = ""
    if mark is not None:
        place = f":{mark.line + 1}:{mark.column + 1}"
    elif isinstance(position, int):
        place = f":{text.count(chr(10), 0, position) + 1}"
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return InputError(f"{path}{place}: the {what} is no valid YAML: {problem}")


class _RepeatedKey(yaml.composer.ComposerError):
    """A mapping sets a key twice."""


class _Loader(yaml.SafeLoader):
    """A loader that measures each node, with all that its aliases stand for, before it makes the next."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._open = 0
        self._measured: dict[int, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Read a node; a text that would be too large, too deep or without an end is refused."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._measured:
                raise _refused(f"*{event.anchor} stands within what it names, so it would contain itself", event)
            return node
        self._open += 1
        if self._open > MOST_DEPTH:
            raise _refused(f"it nests more than {MOST_DEPTH} mappings and lists; write it flatter", event)
        node = super().compose_node(parent, index)
        self._open -= 1
        below = [self._measured[id(child)] for child in _children(node)]
        size = 1 + sum(nodes for nodes, _ in below)
        depth = 1 + max((depth for _, depth in below), default=0)
        if size > MOST_NODES:
            raise _refused(f"it stands for more than {MOST_NODES:,} values; write fewer, or no aliases", event)
        if depth > MOST_DEPTH:
            raise _refused(f"its aliases nest more than {MOST_DEPTH} mappings and lists; write it flatter", event)
        self._measured[id(node)] = size, depth
        if isinstance(node, yaml.MappingNode):
            _refuse_repeated_keys(node)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Make a value; one that is none of its type is an error of YAML, with its place."""
        try:
            if node.tag.endswith((":int", ":float")) and len(node.value) > MOST_DIGITS:
                raise ValueError(f"a number has at most {MOST_DIGITS} characters, this one has {len(node.value):,}")
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:
            raise yaml.constructor.ConstructorError(
                None, None, f"a value cannot be read: {error}; write text in quotes", node.start_mark
            ) from error


def _refused(problem: str, event: Any) -> yaml.YAMLError:
    return yaml.composer.ComposerError(None, None, problem, event.start_mark)


def _children(node: yaml.Node | None) -> Sequence[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def _refuse_repeated_keys(node: yaml.MappingNode) -> None:
    """YAML's reader would keep the last of two settings of one name, and silently drop the first."""
    lines: dict[Hashable, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if key.value in lines:
            problem = f"{key.value!r} is set twice, first in line {lines[key.value]}; leave one out"
            raise _RepeatedKey(None, None, problem, key.start_mark)
        lines[key.value] = key.start_mark.line + 1


def brief(error: Exception) -> str:
    """Return the text of an error without most of a long value that it names."""
    text = str(error)
    return text if len(text) <= _MOST_SAID else f"{text[: _MOST_SAID // 2]} … {text[-_MOST_SAID // 2 :]}"


_MOST_SAID = 600


def read_json(path: Path, what: str) -> Any:
    """Read a JSON file; errors are those of `read_text` and `parse_json`."""
    return parse_json(read_text(path, what, MOST_JSON_BYTES), str(path), what)


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

    Text that is no JSON, nests too deeply, names a key of an object twice, or has a number that is none is an
    InputError.
    """
    try:
        with without_collecting():
            return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise InputError(f"{source}:{error.lineno}:{error.colno}: the {what} is no JSON: {error.msg}") from error
    except RecursionError:
        raise InputError(f"{source}: the {what} nests objects and lists too deeply; make it again") from None
    except ValueError as error:  # no UTF-8, a key twice, thousands of digits
        raise InputError(f"{source}: the {what} is no JSON: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"an object has the key {twice!r} twice; leave one out")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")
