"""Read YAML files that people wrote into typed values, and report every problem with its line and key.

msgspec stops at the first value of a wrong type. A person wants all problems at once, so where it fails, `check_types`
goes along the type, converts each part by itself, and puts placeholders in place of what is missing or wrong; the other
checks can then still run on the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
import yaml
from msgspec import Struct, structs

from beholder.errors import Problem, RubricError
from beholder.images.image import regular_file

AllowedWords = Mapping[str, Sequence[str]]

NO_ALLOWED_WORDS: AllowedWords = MappingProxyType({})
UNKNOWN_KEY = "is not a key that is known here"
PLACEHOLDER_PREFIX = "stand_in_"  # begins the word in place of a text that is missing or wrong

_ERROR_LOCATION = re.compile(r" - at `(?:key in )?\$(.*)`$")
_TYPE_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
    "date": "a date",
    "datetime": "a time",
}
_LIMIT_WORDS = {">=": "of at least", ">": "above", "<=": "of at most", "<": "below"}


@dataclass(frozen=True, slots=True)
class TypeReport:
    """The result of checking plain values against a type.

    Attributes:
        problems: Everything that is wrong.
        wrong_keys: The keys without a value of the right type.
        repaired: The values with placeholders in place of those, or without them where there is a default.
    """

    problems: tuple[Problem, ...]
    wrong_keys: tuple[str, ...]
    repaired: object


def check_types(data: object, type_: type, choices: AllowedWords = NO_ALLOWED_WORDS) -> TypeReport:
    """Check plain values against a type.

    Args:
        data: Values as YAML or JSON gives them.
        type_: A `msgspec.Struct` or another type that msgspec can convert to.
        choices: The words that a key takes, for the message.
    """
    checker = _TypeChecker(choices)
    repaired = checker.value(data, type_, "")
    return TypeReport(tuple(checker.problems), tuple(checker.wrong_keys), repaired)


def missing_key_message(key: str) -> str:
    """Return the message about a required key that is missing."""
    return f"`{key}` is missing"


@dataclass(slots=True)
class _TypeChecker:
    """Goes along a type and checks each part by itself. The methods return the value repaired."""

    choices: AllowedWords
    problems: list[Problem] = field(default_factory=list)
    wrong_keys: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def value(self, value: object, hint: Any, place: str) -> object:
        kind = _container_type(value, hint)
        if kind is None:
            return self._leaf(value, hint, place)
        if isinstance(value, dict):
            return self._struct(value, kind, place) if _is_struct(kind) else self._mapping(value, kind, place)
        assert isinstance(value, list)
        of = get_args(kind)
        hints = [of[0]] * len(value) if of[-1] is Ellipsis else of
        if len(hints) != len(value):
            return self._leaf(value, hint, place)
        entries = enumerate(zip(value, hints, strict=True))
        return [self.value(entry, entry_hint, f"{place}[{index}]") for index, (entry, entry_hint) in entries]

    def _struct(self, value: dict[str, object], type_: type[Struct], place: str) -> dict[str, object]:
        known = {field_.encode_name: field_ for field_ in structs.fields(type_)}
        repaired: dict[str, object] = {}
        for key in value:
            if key not in known:
                self.problems.append(Problem(UNKNOWN_KEY, _join_key(place, key)))
        for key, field_ in known.items():
            hint = field_.type
            if key in value:
                problem_count = len(self.problems)
                inner = self.value(value[key], hint, _join_key(place, key))
                valid = problem_count == len(self.problems)
                if field_.required or valid or _container_type(value[key], hint) is not None:
                    repaired[key] = inner
            elif field_.required:
                self.problems.append(Problem(missing_key_message(key), place))
                self.wrong_keys.append(_join_key(place, key))
                repaired[key] = self._placeholder(hint)
        return repaired

    def _mapping(self, value: dict[str, object], kind: Any, place: str) -> dict[str, object]:
        _, hint = get_args(kind)
        return {key: self.value(inner, hint, _join_key(place, key)) for key, inner in value.items()}

    def _leaf(self, value: object, hint: Any, place: str) -> object:
        try:
            msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            message = _ERROR_LOCATION.sub("", str(error))
            inner = _ERROR_LOCATION.search(str(error))
            key = (place + inner.group(1) if inner else place).lstrip(".")
            hint_text = _suggest_range(value) if get_origin(_union_members(hint)[0]) is tuple else ""
            self.problems.append(Problem(_describe_error(message, value, self.choices.get(key, ())) + hint_text, key))
            self.wrong_keys.append(key)
            return self._placeholder(hint)
        return value

    def _placeholder(self, hint: Any) -> object:
        """Return a value of the type, for the checks that follow; no two texts are the same."""
        for kind in _union_members(hint):
            if _is_struct(kind):
                required = (field_ for field_ in structs.fields(kind) if field_.required)
                return {field_.encode_name: self._placeholder(field_.type) for field_ in required}
            if kind is str:
                return f"{PLACEHOLDER_PREFIX}{next(self._numbers)}"
            if kind in (int, float):
                return 0
            if get_origin(kind) is tuple:
                hints = get_args(kind)
                return [] if hints[-1] is Ellipsis else [self._placeholder(inner) for inner in hints]
            if get_origin(kind) is dict:
                return {}
        return None


def _suggest_range(value: object) -> str:
    """Return how a range such as `0-10` or `1 to 7` is written; empty for any other value."""
    ends = re.fullmatch(r"\s*(-?[\d.]+)\s*(?:-|–|\.\.|to)\s*(-?[\d.]+)\s*", value) if isinstance(value, str) else None
    return f"; write [{ends[1]}, {ends[2]}]" if ends else ""


def _container_type(value: object, hint: Any) -> Any:
    """Return the member of a type that a mapping or a list is checked against; `None` for a value without parts."""
    for kind in _union_members(hint):
        if isinstance(value, dict) and (_is_struct(kind) or get_origin(kind) is dict):
            return kind
        if isinstance(value, list) and get_origin(kind) is tuple:
            return kind
    return None


def _union_members(hint: Any) -> Sequence[Any]:
    """Return the types of a union, or the one type; without annotations."""
    if get_origin(hint) is Annotated:
        return _union_members(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [inner for member in get_args(hint) if member is not NoneType for inner in _union_members(member)]
    return [hint]


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _join_key(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _describe_error(message: str, value: object, choices: Sequence[str]) -> str:
    """Return msgspec's message about a value in our words."""
    chosen = re.match(r"Invalid enum value (.+)$", message)
    if chosen and choices:
        return f"{chosen.group(1)} is not one of {', '.join(choices)}"
    differs = re.match(r"Expected `([^`]+)`( of length \d+)?(?:, got (?:`([^`]+)`|(.+)))?$", message)
    if beyond := re.match(r"Expected `([^`]+)`( of length)? ([<>]=?) (-?[\d.]+)$", message):
        wanted, length, sign, limit = beyond.groups()
        limit = limit.removesuffix(".0")
        got = f", not {value!r:.40}" if isinstance(value, int | float) else ""
        return f"should be {_describe_types(wanted)}{' of length' if length else ''} {_LIMIT_WORDS[sign]} {limit}{got}"
    if not differs:
        return message[0].lower() + message[1:]
    wanted, length, kind, number = differs.groups()
    got = f" and is {_describe_types(kind)}" if kind else f", not {number}" if number else ""
    return f"should be {_describe_types(wanted)}{length or ''}{got}"


def _describe_types(types: str) -> str:
    names = types.split(" | ")
    if len(names) > 1:
        names = [name for name in names if name != "null" and not (name == "int" and "float" in names)]
    return " or ".join(_TYPE_WORDS.get(name, f"`{name}`") for name in names)


T = TypeVar("T")

MAX_BYTES = 1024 * 1024
MAX_PROBLEMS = 100  # that are listed
MAX_NODES = 50_000  # against aliases of aliases, which grow exponentially
MAX_DEPTH = 40  # against nested brackets, which would overflow libyaml's stack

FORBIDDEN_KEY = "this key cannot be set in a file; remove it"

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Validator = Callable[[T], list[Problem]]
KeyLines = Mapping[str, int]
"""The lines of a file by key path, such as `criteria[0].weight`."""
KeyDependencies = Mapping[str, Sequence[str]]

_NO_DEPENDENCIES: KeyDependencies = MappingProxyType({})


def read_yaml(
    path: Path,
    type_: type[T],
    check: Validator[T],
    forbidden: tuple[str, ...] = (),
    choices: AllowedWords = NO_ALLOWED_WORDS,
    dependencies: KeyDependencies = _NO_DEPENDENCIES,
) -> T:
    """Return the content of a YAML file as a typed value.

    Args:
        path: The file.
        type_: A `msgspec.Struct`.
        check: Returns what else is wrong with a value of that type.
        forbidden: Keys that may not be at the top level.
        choices: The words that a key takes, for the message.
        dependencies: By key, other keys that `check` cannot judge while that key has no value of the right type.

    Raises:
        RubricError: With everything that is wrong, each problem with its line.
    """
    return read_yaml_lines(path, type_, check, forbidden, choices, dependencies)[0]


def read_yaml_lines(
    path: Path,
    type_: type[T],
    check: Validator[T],
    forbidden: tuple[str, ...] = (),
    choices: AllowedWords = NO_ALLOWED_WORDS,
    dependencies: KeyDependencies = _NO_DEPENDENCIES,
) -> tuple[T, KeyLines]:
    """Return the content of a YAML file as a typed value, and the line of every key; see `read_yaml`."""
    source = str(path)
    try:
        text = _read_text(path)
        data, lines, problems = _parse_yaml(text)
    except yaml.YAMLError as error:
        raise RubricError(source, [_syntax_problem(error)]) from None
    except _YamlFileError as error:
        raise RubricError(source, [error.problem]) from None
    if isinstance(data, dict):
        problems += [Problem(FORBIDDEN_KEY, key) for key in forbidden if key in data]
        data = {key: value for key, value in data.items() if key not in forbidden}
    data = _expand_assertions(data)
    try:
        value = msgspec.convert(data, type_)
    except msgspec.ValidationError:
        problems += _collect_problems(data, type_, check, choices, dependencies)
    else:
        problems += check(value)
        if not problems:
            return value, lines
    problems = add_lines(problems, lines)
    if len(problems) > MAX_PROBLEMS:
        problems[MAX_PROBLEMS:] = [Problem(f"and {len(problems) - MAX_PROBLEMS:,} more problems")]
    raise RubricError(source, problems)


def add_lines(problems: Iterable[Problem], lines: KeyLines) -> list[Problem]:
    """Return problems with the lines of their keys, in the order of the lines."""
    return sorted((_add_line(problem, lines) for problem in problems), key=lambda problem: problem.line or 0)


def _collect_problems(
    data: object, type_: type[T], check: Validator[T], choices: AllowedWords, dependencies: KeyDependencies
) -> list[Problem]:
    """Return what is wrong with the types, and what `check` finds in the rest."""
    report = check_types(data, type_, choices)
    if len(report.problems) > MAX_PROBLEMS:  # comparing them with those of `check` would take quadratic time
        return list(report.problems)
    try:
        value = msgspec.convert(report.repaired, type_)
    except msgspec.ValidationError:
        return list(report.problems)
    return [
        *report.problems,
        *(
            problem
            for problem in check(value)
            if PLACEHOLDER_PREFIX not in problem.message
            and not any(
                _depends_on(_split_key(problem.key), _split_key(wrong), dependencies) for wrong in report.wrong_keys
            )
        ),
    ]


def _depends_on(key: list[str], wrong: list[str], dependencies: KeyDependencies) -> bool:
    """Return whether a key is inside or around a wrong one, or depends on it."""
    together = min(len(key), len(wrong))
    if together and key[:together] == wrong[:together]:
        return True
    if together > 1 and key[0] == wrong[0] and key[1].isdecimal() and key[1] != wrong[1]:
        return False  # the entries of a list do not depend on each other
    name = next((part for part in reversed(wrong) if not part.isdecimal()), "")
    return any(part in dependencies.get(name, ()) for part in key)


def _split_key(key: str) -> list[str]:
    return re.findall(r"[^.\[\]]+", key)


def _expand_assertions(data: object, assertions: bool = False) -> object:
    """Return the data with assertions that are written as a plain sentence turned into `{text: …}`."""
    if isinstance(data, dict):
        return {key: _expand_assertions(value, assertions or key == "assertions") for key, value in data.items()}
    if isinstance(data, list):
        return [
            {"text": entry} if assertions and isinstance(entry, str) else _expand_assertions(entry) for entry in data
        ]
    return data


class _YamlFileError(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def _read_text(path: Path) -> str:
    try:
        with regular_file(path).open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _YamlFileError(Problem(f"cannot be read: {error.strerror or error}")) from None
    if len(raw) > MAX_BYTES:
        raise _YamlFileError(Problem(f"is {path.stat().st_size:,} bytes long; at most {MAX_BYTES:,} are read"))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _YamlFileError(Problem("is not UTF-8 text")) from None


def _parse_yaml(text: str) -> tuple[object, KeyLines, list[Problem]]:
    """Return the document as plain values, the line of every key path (`criteria[0].weight`), and duplicate keys."""
    _check_depth(text)
    document = _YamlDocument(text)
    return document.read(), document.lines, document.duplicates


class _YamlDocument:
    """Reads one document: its values, the lines of its keys, and keys that occur twice."""

    def __init__(self, text: str) -> None:
        self.lines: dict[str, int] = {}
        self.duplicates: list[Problem] = []
        self._loader = _Loader(text)
        self._node_count = 0
        self._line = 1  # of the value that is read

    def read(self) -> object:
        try:
            node = self._loader.get_single_node()
            if node is None:
                raise _YamlFileError(Problem("is empty"))
            try:
                return self._read_node(node, "")
            except (ValueError, RecursionError) as error:
                why = "a number with thousands of digits" if "int_max_str_digits" in str(error) else error
                raise _YamlFileError(Problem(f"holds a value that cannot be read ({why})", line=self._line)) from None
        finally:
            self._loader.dispose()

    def _read_node(self, node: yaml.Node, path: str) -> object:
        self._node_count += 1
        if self._node_count > MAX_NODES:
            raise _YamlFileError(Problem(f"holds more than {MAX_NODES:,} values (aliases count each time)"))
        self.lines[path] = self._line = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            return [self._read_node(child, f"{path}[{index}]") for index, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, path)
        return self._read_scalar(node, path)

    def _read_scalar(self, node: yaml.Node, path: str) -> object:
        try:
            return self._loader.construct_object(node)
        except (LookupError, AttributeError, TypeError, ArithmeticError):  # a tag, such as `!!bool foo`
            kind = str(node.tag).removeprefix("tag:yaml.org,2002:")
            message = f"{str(node.value)!r:.60} cannot be read as a value of the type {kind!r:.60}; leave out the tag"
            raise _YamlFileError(Problem(message, path, node.start_mark.line + 1)) from None

    def _read_mapping(self, node: yaml.MappingNode, path: str) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise _YamlFileError(Problem("a key must be plain text", path, line))
            key = str(key_node.value)
            inner = f"{path}.{key}" if path else key
            if key in values:
                self.duplicates.append(Problem("stands here twice", inner, line))
                continue
            values[key] = self._read_node(value_node, inner)
            self.lines[inner] = line
        return values


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            line = event.start_mark.line + 1
            raise _YamlFileError(Problem(f"is nested more than {MAX_DEPTH} levels deep", line=line))


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    message = getattr(error, "problem", None) or "is not YAML"
    return Problem(f"is not valid YAML: {message}", line=mark.line + 1 if mark else None)


def _add_line(problem: Problem, lines: KeyLines) -> Problem:
    key = problem.key
    while key and key not in lines:
        key = re.sub(r"(\.[^.\[\]]+|\[\d+\]|^[^.\[\]]+)$", "", key)
    return Problem(problem.message, problem.key, problem.line or lines.get(key))
