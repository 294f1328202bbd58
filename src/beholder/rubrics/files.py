"""Reading YAML that people wrote: typed values, and every complaint with its line and key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import msgspec
import yaml

from beholder.errors import Problem, RubricError

T = TypeVar("T")

MAX_BYTES = 1024 * 1024
MAX_NODES = 50_000  # aliases of aliases grow without end; no honest rubric has this many
MAX_DEPTH = 40  # and brackets in brackets would overflow libyaml's stack

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLACE = re.compile(r" - at `(?:key in )?\$(.*)`$")


Choices = Mapping[str, Sequence[str]]

_NO_CHOICES: Choices = MappingProxyType({})


def read_yaml(
    path: Path,
    type_: type[T],
    check: Callable[[T], list[Problem]],
    forbidden: tuple[str, ...] = (),
    choices: Choices = _NO_CHOICES,
) -> T:
    """The file as `type_`, checked by `check`. Raises `RubricError`; problems of `check` get their lines here.

    `forbidden` keys may not stand at the top; `choices` are the words that a key takes, for the complaint.
    """
    source = str(path)
    try:
        text = _text(path)
        data, lines = _parse(text)
    except yaml.YAMLError as error:
        raise RubricError(source, [_syntax_problem(error)]) from None
    except _Wrong as wrong:
        raise RubricError(source, [wrong.problem]) from None
    unexpected = [key for key in forbidden if isinstance(data, dict) and key in data]
    if unexpected:
        raise RubricError(
            source, [Problem("this key cannot be set in a file; remove it", key, lines.get(key)) for key in unexpected]
        )
    try:
        value = msgspec.convert(_spelled_out(data), type_)
    except msgspec.ValidationError as error:
        raise RubricError(source, [_shape_problem(str(error), lines, choices)]) from None
    problems = [_with_line(problem, lines) for problem in check(value)]
    if problems:
        raise RubricError(source, problems)
    return value


def _spelled_out(data: object, assertions: bool = False) -> object:
    """An assertion may be written as a plain sentence; here it becomes `{text: …}`."""
    if isinstance(data, dict):
        return {key: _spelled_out(value, assertions or key == "assertions") for key, value in data.items()}
    if isinstance(data, list):
        return [{"text": one} if assertions and isinstance(one, str) else _spelled_out(one) for one in data]
    return data


class _Wrong(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise _Wrong(Problem(f"cannot be read: {error.strerror or error}")) from None
    if len(raw) > MAX_BYTES:
        raise _Wrong(Problem(f"is {len(raw):,} bytes long; at most {MAX_BYTES:,} are read"))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _Wrong(Problem("is not UTF-8 text")) from None


def _parse(text: str) -> tuple[object, dict[str, int]]:
    """The document as plain values, and the line of every key path (`criteria[0].weight`)."""
    _check_depth(text)
    loader = _Loader(text)
    lines: dict[str, int] = {}
    seen = 0

    def walk(node: yaml.Node, path: str) -> object:
        nonlocal seen
        seen += 1
        if seen > MAX_NODES:
            raise _Wrong(Problem(f"holds more than {MAX_NODES:,} values (aliases count each time)"))
        lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            return [walk(child, f"{path}[{index}]") for index, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return mapping(node, path)
        return loader.construct_object(node)

    def mapping(node: yaml.MappingNode, path: str) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise _Wrong(Problem("a key must be plain text", path, line))
            key = str(key_node.value)
            inner = f"{path}.{key}" if path else key
            if key in values:
                raise _Wrong(Problem("stands here twice", inner, line))
            values[key] = walk(value_node, inner)
            lines[inner] = line
        return values

    try:
        node = loader.get_single_node()
        if node is None:
            raise _Wrong(Problem("is empty"))
        try:
            return walk(node, ""), lines
        except (ValueError, RecursionError) as error:
            raise _Wrong(Problem(f"holds a value that cannot be read ({error})")) from None
    finally:
        loader.dispose()


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            line = event.start_mark.line + 1
            raise _Wrong(Problem(f"is nested more than {MAX_DEPTH} levels deep", line=line))


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    message = getattr(error, "problem", None) or "is not YAML"
    return Problem(f"is not valid YAML: {message}", line=mark.line + 1 if mark else None)


def _shape_problem(message: str, lines: dict[str, int], choices: Choices) -> Problem:
    """msgspec's complaint in our words, at its line."""
    place = _PLACE.search(message)
    key = place.group(1).lstrip(".") if place else ""
    said = _PLACE.sub("", message)
    missing = re.match(r"Object missing required field `(.+)`", said)
    unknown = re.match(r"Object contains unknown field `(.+)`", said)
    if missing:
        return Problem(f"`{missing.group(1)}` is missing", key, lines.get(key))
    if unknown:
        inner = f"{key}.{unknown.group(1)}" if key else unknown.group(1)
        return Problem("is not a key that is known here", inner, lines.get(inner))
    said = re.sub(r"^Expected (.+), got (.+)$", r"should be \1 and is \2", said)
    chosen = re.match(r"Invalid enum value (.+)$", said)
    if chosen and key in choices:
        said = f"{chosen.group(1)} is not one of {', '.join(choices[key])}"
    return Problem(said[0].lower() + said[1:], key, lines.get(key))


def _with_line(problem: Problem, lines: dict[str, int]) -> Problem:
    key = problem.key
    while key and key not in lines:
        key = re.sub(r"(\.[^.\[\]]+|\[\d+\]|^[^.\[\]]+)$", "", key)
    return Problem(problem.message, problem.key, problem.line or lines.get(key))
