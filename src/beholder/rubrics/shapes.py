"""Everything in which plain values differ from the shape of a type. msgspec stops at the first; a person wants all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from beholder.errors import Problem

T = TypeVar("T")
Choices = Mapping[str, Sequence[str]]

NO_CHOICES: Choices = MappingProxyType({})
UNKNOWN = "is not a key that is known here"
STAND_IN = "stand_in_"  # begins a word in the place of a text that is missing or wrong

_PLACE = re.compile(r" - at `(?:key in )?\$(.*)`$")
_PLAIN = {
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
class Shaped:
    """What is wrong with the shape of values, the keys without a value of the right type, and the values `mended`:
    with stand-ins in place of those, or nothing where a default will do."""

    problems: tuple[Problem, ...]
    wrong: tuple[str, ...]
    mended: object


def shape(data: object, type_: type, choices: Choices = NO_CHOICES) -> Shaped:
    """Holds plain values against a type. `choices` are the words that a key takes, for the complaint."""
    walk = _Walk(choices)
    mended = walk.value(data, type_, "")
    return Shaped(tuple(walk.problems), tuple(walk.wrong), mended)


def missing(key: str) -> str:
    """The complaint about a key that must be there."""
    return f"`{key}` is missing"


@dataclass(slots=True)
class _Walk:
    """Goes along a type and converts each part alone."""

    choices: Choices
    problems: list[Problem] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def value(self, value: object, hint: Any, place: str) -> object:
        kind = _container(value, hint)
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
                self.problems.append(Problem(UNKNOWN, _inside(place, key)))
        for key, one in known.items():
            if key in value:
                before = len(self.problems)
                found = self.value(value[key], one.type, _inside(place, key))
                if one.required or before == len(self.problems) or _container(value[key], one.type) is not None:
                    mended[key] = found
            elif one.required:
                self.problems.append(Problem(missing(key), place))
                self.wrong.append(_inside(place, key))
                mended[key] = self._stand_in(one.type)
        return mended

    def _mapping(self, value: dict[str, object], kind: Any, place: str) -> dict[str, object]:
        _, of = get_args(kind)
        return {key: self.value(one, of, _inside(place, key)) for key, one in value.items()}

    def _leaf(self, value: object, hint: Any, place: str) -> object:
        try:
            msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            said = _PLACE.sub("", str(error))
            inner = _PLACE.search(str(error))
            key = (place + inner.group(1) if inner else place).lstrip(".")
            self.problems.append(Problem(_sentence(said, self.choices.get(key, ())), key))
            self.wrong.append(key)
            return self._stand_in(hint)
        return value

    def _stand_in(self, hint: Any) -> object:
        """Something of the type, for the checks that come after; a text is like no other."""
        for kind in _members(hint):
            if _is_struct(kind):
                return {one.encode_name: self._stand_in(one.type) for one in structs.fields(kind) if one.required}
            if kind is str:
                return f"{STAND_IN}{next(self._numbers)}"
            if kind in (int, float):
                return 0
            if get_origin(kind) is tuple:
                of = get_args(kind)
                return [] if of[-1] is Ellipsis else [self._stand_in(one) for one in of]
            if get_origin(kind) is dict:
                return {}
        return None


def _container(value: object, hint: Any) -> Any:
    """The part of a type that a mapping or a list is to be held against; `None` for a value without parts."""
    for kind in _members(hint):
        if isinstance(value, dict) and (_is_struct(kind) or get_origin(kind) is dict):
            return kind
        if isinstance(value, list) and get_origin(kind) is tuple:
            return kind
    return None


def _members(hint: Any) -> Sequence[Any]:
    """The types of a union, or the one type; without what is said about them."""
    if get_origin(hint) is Annotated:
        return _members(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [inner for one in get_args(hint) if one is not NoneType for inner in _members(one)]
    return [hint]


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _inside(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _sentence(said: str, choices: Sequence[str]) -> str:
    """msgspec's complaint in our words."""
    chosen = re.match(r"Invalid enum value (.+)$", said)
    if chosen and choices:
        return f"{chosen.group(1)} is not one of {', '.join(choices)}"
    differs = re.match(r"Expected `([^`]+)`( of length \d+)?(?:, got (?:`([^`]+)`|(.+)))?$", said)
    if not differs:
        return said[0].lower() + said[1:]
    wanted, length, kind, number = differs.groups()
    got = f" and is {_words(kind)}" if kind else f", not {number}" if number else ""
    return f"should be {_words(wanted)}{length or ''}{got}"


def _words(types: str) -> str:
    names = types.split(" | ")
    if len(names) > 1:
        names = [name for name in names if name != "null" and not (name == "int" and "float" in names)]
    return " or ".join(_PLAIN.get(name, f"`{name}`") for name in names)
