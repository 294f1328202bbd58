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
from beholder.rubrics.shapes import NO_CHOICES, STAND_IN, Choices, shape

T = TypeVar("T")

MAX_BYTES = 1024 * 1024
MAX_NODES = 50_000  # aliases of aliases grow without end; no honest rubric has this many
MAX_DEPTH = 40  # and brackets in brackets would overflow libyaml's stack

FORBIDDEN = "this key cannot be set in a file; remove it"

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Check = Callable[[T], list[Problem]]
Leaning = Mapping[str, Sequence[str]]

_NOTHING_LEANS: Leaning = MappingProxyType({})


def read_yaml(
    path: Path,
    type_: type[T],
    check: Check[T],
    forbidden: tuple[str, ...] = (),
    choices: Choices = NO_CHOICES,
    leaning: Leaning = _NOTHING_LEANS,
) -> T:
    """The file as `type_`, checked by `check`. Raises `RubricError` with everything that is wrong, each at its line.

    `forbidden` keys may not stand at the top; `choices` are the words that a key takes, for the complaint; `leaning`
    names, by key, those that `check` can say nothing true about while that key has no value of the right type.
    """
    source = str(path)
    try:
        text = _text(path)
        data, lines, problems = _parse(text)
    except yaml.YAMLError as error:
        raise RubricError(source, [_syntax_problem(error)]) from None
    except _Wrong as wrong:
        raise RubricError(source, [wrong.problem]) from None
    if isinstance(data, dict):
        problems += [Problem(FORBIDDEN, key) for key in forbidden if key in data]
        data = {key: value for key, value in data.items() if key not in forbidden}
    data = _spelled_out(data)
    try:
        value = msgspec.convert(data, type_)
    except msgspec.ValidationError:
        problems += _all_problems(data, type_, check, choices, leaning)
    else:
        problems += check(value)
        if not problems:
            return value
    raise RubricError(source, sorted((_with_line(one, lines) for one in problems), key=lambda one: one.line or 0))


def _all_problems(data: object, type_: type[T], check: Check[T], choices: Choices, leaning: Leaning) -> list[Problem]:
    """What is wrong with the shape, and what `check` has against the rest."""
    shaped = shape(data, type_, choices)
    try:
        value = msgspec.convert(shaped.mended, type_)
    except msgspec.ValidationError:
        return list(shaped.problems)
    return [
        *shaped.problems,
        *(
            problem
            for problem in check(value)
            if STAND_IN not in problem.message
            and not any(_leans(_parts(problem.key), _parts(wrong), leaning) for wrong in shaped.wrong)
        ),
    ]


def _leans(key: list[str], wrong: list[str], leaning: Leaning) -> bool:
    """Whether a key stands inside or around a wrong one, or leans on it."""
    together = min(len(key), len(wrong))
    if together and key[:together] == wrong[:together]:
        return True
    if together > 1 and key[0] == wrong[0] and key[1].isdecimal() and key[1] != wrong[1]:
        return False  # the entries of a list stand by themselves
    name = next((part for part in reversed(wrong) if not part.isdecimal()), "")
    return any(part in leaning.get(name, ()) for part in key)


def _parts(key: str) -> list[str]:
    return re.findall(r"[^.\[\]]+", key)


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


def _parse(text: str) -> tuple[object, dict[str, int], list[Problem]]:
    """The document as plain values, the line of every key path (`criteria[0].weight`), and what stands twice."""
    _check_depth(text)
    loader = _Loader(text)
    lines: dict[str, int] = {}
    twice: list[Problem] = []
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
                twice.append(Problem("stands here twice", inner, line))
                continue
            values[key] = walk(value_node, inner)
            lines[inner] = line
        return values

    try:
        node = loader.get_single_node()
        if node is None:
            raise _Wrong(Problem("is empty"))
        try:
            return walk(node, ""), lines, twice
        except (ValueError, RecursionError) as error:
            why = "a number with thousands of digits" if "int_max_str_digits" in str(error) else error
            raise _Wrong(Problem(f"holds a value that cannot be read ({why})")) from None
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


def _with_line(problem: Problem, lines: dict[str, int]) -> Problem:
    key = problem.key
    while key and key not in lines:
        key = re.sub(r"(\.[^.\[\]]+|\[\d+\]|^[^.\[\]]+)$", "", key)
    return Problem(problem.message, problem.key, problem.line or lines.get(key))
