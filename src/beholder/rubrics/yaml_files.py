"""Everything in which plain values differ from the shape of a type. msgspec stops at the first; a person wants all.

Reading YAML that people wrote: typed values, and every complaint with its line and key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
import yaml
from msgspec import Struct, structs

from beholder.errors import Problem, RubricError

_ShapeT = TypeVar("_ShapeT")
AllowedWords = Mapping[str, Sequence[str]]

NO_ALLOWED_WORDS: AllowedWords = MappingProxyType({})
UNKNOWN_KEY = "is not a key that is known here"
STAND_IN_PREFIX = "stand_in_"  # begins a word in the place of a text that is missing or wrong

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


@dataclass(frozen=True, slots=True)
class TypeReport:
    """What is wrong with the shape of values, the keys without a value of the right type, and the values `mended`:
    with stand-ins in place of those, or nothing where a default will do."""

    problems: tuple[Problem, ...]
    wrong: tuple[str, ...]
    mended: object


def check_types(data: object, type_: type, choices: AllowedWords = NO_ALLOWED_WORDS) -> TypeReport:
    """Holds plain values against a type. `choices` are the words that a key takes, for the complaint."""
    walk = _TypeWalker(choices)
    mended = walk.value(data, type_, "")
    return TypeReport(tuple(walk.problems), tuple(walk.wrong), mended)


def missing_key_message(key: str) -> str:
    """The complaint about a key that must be there."""
    return f"`{key}` is missing"


@dataclass(slots=True)
class _TypeWalker:
    """Goes along a type and converts each part alone."""

    choices: AllowedWords
    problems: list[Problem] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
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
        return [self.value(one, part, f"{place}[{n}]") for n, (one, part) in enumerate(zip(value, hints, strict=True))]

    def _struct(self, value: dict[str, object], type_: type[Struct], place: str) -> dict[str, object]:
        known = {one.encode_name: one for one in structs.fields(type_)}
        mended: dict[str, object] = {}
        for key in value:
            if key not in known:
                self.problems.append(Problem(UNKNOWN_KEY, _join_key(place, key)))
        for key, one in known.items():
            if key in value:
                before = len(self.problems)
                found = self.value(value[key], one.type, _join_key(place, key))
                if one.required or before == len(self.problems) or _container_type(value[key], one.type) is not None:
                    mended[key] = found
            elif one.required:
                self.problems.append(Problem(missing_key_message(key), place))
                self.wrong.append(_join_key(place, key))
                mended[key] = self._stand_in(one.type)
        return mended

    def _mapping(self, value: dict[str, object], kind: Any, place: str) -> dict[str, object]:
        _, of = get_args(kind)
        return {key: self.value(one, of, _join_key(place, key)) for key, one in value.items()}

    def _leaf(self, value: object, hint: Any, place: str) -> object:
        try:
            msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            said = _ERROR_LOCATION.sub("", str(error))
            inner = _ERROR_LOCATION.search(str(error))
            key = (place + inner.group(1) if inner else place).lstrip(".")
            self.problems.append(Problem(_describe_error(said, self.choices.get(key, ())), key))
            self.wrong.append(key)
            return self._stand_in(hint)
        return value

    def _stand_in(self, hint: Any) -> object:
        """Something of the type, for the checks that come after; a text is like no other."""
        for kind in _union_members(hint):
            if _is_struct(kind):
                return {one.encode_name: self._stand_in(one.type) for one in structs.fields(kind) if one.required}
            if kind is str:
                return f"{STAND_IN_PREFIX}{next(self._numbers)}"
            if kind in (int, float):
                return 0
            if get_origin(kind) is tuple:
                of = get_args(kind)
                return [] if of[-1] is Ellipsis else [self._stand_in(one) for one in of]
            if get_origin(kind) is dict:
                return {}
        return None


def _container_type(value: object, hint: Any) -> Any:
    """The part of a type that a mapping or a list is to be held against; `None` for a value without parts."""
    for kind in _union_members(hint):
        if isinstance(value, dict) and (_is_struct(kind) or get_origin(kind) is dict):
            return kind
        if isinstance(value, list) and get_origin(kind) is tuple:
            return kind
    return None


def _union_members(hint: Any) -> Sequence[Any]:
    """The types of a union, or the one type; without what is said about them."""
    if get_origin(hint) is Annotated:
        return _union_members(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [inner for one in get_args(hint) if one is not NoneType for inner in _union_members(one)]
    return [hint]


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _join_key(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _describe_error(said: str, choices: Sequence[str]) -> str:
    """msgspec's complaint in our words."""
    chosen = re.match(r"Invalid enum value (.+)$", said)
    if chosen and choices:
        return f"{chosen.group(1)} is not one of {', '.join(choices)}"
    differs = re.match(r"Expected `([^`]+)`( of length \d+)?(?:, got (?:`([^`]+)`|(.+)))?$", said)
    if not differs:
        return said[0].lower() + said[1:]
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
MAX_NODES = 50_000  # aliases of aliases grow without end; no honest rubric has this many
MAX_DEPTH = 40  # and brackets in brackets would overflow libyaml's stack

FORBIDDEN_KEY = "this key cannot be set in a file; remove it"

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Validator = Callable[[T], list[Problem]]
KeyDependencies = Mapping[str, Sequence[str]]

_NO_DEPENDENCIES: KeyDependencies = MappingProxyType({})


def read_yaml(
    path: Path,
    type_: type[T],
    check: Validator[T],
    forbidden: tuple[str, ...] = (),
    choices: AllowedWords = NO_ALLOWED_WORDS,
    leaning: KeyDependencies = _NO_DEPENDENCIES,
) -> T:
    """The file as `type_`, checked by `check`. Raises `RubricError` with everything that is wrong, each at its line.

    `forbidden` keys may not stand at the top; `choices` are the words that a key takes, for the complaint; `leaning`
    names, by key, those that `check` can say nothing true about while that key has no value of the right type.
    """
    source = str(path)
    try:
        text = _read_text(path)
        data, lines, problems = _parse_yaml(text)
    except yaml.YAMLError as error:
        raise RubricError(source, [_syntax_problem(error)]) from None
    except _YamlFileError as wrong:
        raise RubricError(source, [wrong.problem]) from None
    if isinstance(data, dict):
        problems += [Problem(FORBIDDEN_KEY, key) for key in forbidden if key in data]
        data = {key: value for key, value in data.items() if key not in forbidden}
    data = _expand_assertions(data)
    try:
        value = msgspec.convert(data, type_)
    except msgspec.ValidationError:
        problems += _collect_problems(data, type_, check, choices, leaning)
    else:
        problems += check(value)
        if not problems:
            return value
    raise RubricError(source, sorted((_add_line(one, lines) for one in problems), key=lambda one: one.line or 0))


def _collect_problems(
    data: object, type_: type[T], check: Validator[T], choices: AllowedWords, leaning: KeyDependencies
) -> list[Problem]:
    """What is wrong with the shape, and what `check` has against the rest."""
    shaped = check_types(data, type_, choices)
    try:
        value = msgspec.convert(shaped.mended, type_)
    except msgspec.ValidationError:
        return list(shaped.problems)
    return [
        *shaped.problems,
        *(
            problem
            for problem in check(value)
            if STAND_IN_PREFIX not in problem.message
            and not any(_depends_on(_split_key(problem.key), _split_key(wrong), leaning) for wrong in shaped.wrong)
        ),
    ]


def _depends_on(key: list[str], wrong: list[str], leaning: KeyDependencies) -> bool:
    """Whether a key stands inside or around a wrong one, or leans on it."""
    together = min(len(key), len(wrong))
    if together and key[:together] == wrong[:together]:
        return True
    if together > 1 and key[0] == wrong[0] and key[1].isdecimal() and key[1] != wrong[1]:
        return False  # the entries of a list stand by themselves
    name = next((part for part in reversed(wrong) if not part.isdecimal()), "")
    return any(part in leaning.get(name, ()) for part in key)


def _split_key(key: str) -> list[str]:
    return re.findall(r"[^.\[\]]+", key)


def _expand_assertions(data: object, assertions: bool = False) -> object:
    """An assertion may be written as a plain sentence; here it becomes `{text: …}`."""
    if isinstance(data, dict):
        return {key: _expand_assertions(value, assertions or key == "assertions") for key, value in data.items()}
    if isinstance(data, list):
        return [{"text": one} if assertions and isinstance(one, str) else _expand_assertions(one) for one in data]
    return data


class _YamlFileError(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def _read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise _YamlFileError(Problem(f"cannot be read: {error.strerror or error}")) from None
    if len(raw) > MAX_BYTES:
        raise _YamlFileError(Problem(f"is {len(raw):,} bytes long; at most {MAX_BYTES:,} are read"))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _YamlFileError(Problem("is not UTF-8 text")) from None


def _parse_yaml(text: str) -> tuple[object, dict[str, int], list[Problem]]:
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
            raise _YamlFileError(Problem(f"holds more than {MAX_NODES:,} values (aliases count each time)"))
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
                raise _YamlFileError(Problem("a key must be plain text", path, line))
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
            raise _YamlFileError(Problem("is empty"))
        try:
            return walk(node, ""), lines, twice
        except (ValueError, RecursionError) as error:
            why = "a number with thousands of digits" if "int_max_str_digits" in str(error) else error
            raise _YamlFileError(Problem(f"holds a value that cannot be read ({why})")) from None
    finally:
        loader.dispose()


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


def _add_line(problem: Problem, lines: dict[str, int]) -> Problem:
    key = problem.key
    while key and key not in lines:
        key = re.sub(r"(\.[^.\[\]]+|\[\d+\]|^[^.\[\]]+)$", "", key)
    return Problem(problem.message, problem.key, problem.line or lines.get(key))
