"""From an answer's text to the one JSON object in it."""

from __future__ import annotations

import json
import re
from decimal import Decimal

from beholder.errors import AnswerError
from beholder.verdicts.model import Flag

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 32
MAX_STARTS = 200  # places where a JSON object may begin; prose with more braces than this is no answer

_FENCED = re.compile(r"\A```[A-Za-z0-9_-]*[ \t]*\n(.*?)\n?[ \t]*```\Z", re.DOTALL)
_BEGUN = re.compile(r'\{\s*"')

Document = dict[str, object]


def parse(text: str) -> tuple[Document, tuple[Flag, ...]]:
    """The JSON object of an answer, numbers exact (`int` or `Decimal`).

    Fences are fine; prose around the object is flagged; no object, or two that differ, is an `AnswerError`, as are
    duplicate keys, NaN and infinities.
    """
    if len(text) > MAX_CHARACTERS:
        raise AnswerError([f"the answer has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read"])
    bare = text.strip().removeprefix("\ufeff").strip()
    if fenced := _FENCED.match(bare):
        bare = fenced.group(1).strip()
    if bare.startswith("{"):
        try:
            document, end = _decode(bare, 0)
            if end == len(bare):
                return document, ()
        except json.JSONDecodeError:
            pass
    documents = _search(bare)
    if not documents:
        raise AnswerError(
            ["the answer holds no JSON object" if "{" not in bare else "the answer's JSON object is empty"]
        )
    if any(document != documents[0] for document in documents[1:]):
        raise AnswerError([f"the answer holds {len(documents)} JSON objects that differ; give one"])
    return documents[0], (Flag("prose_around_json", why="there was text besides the JSON object"),)


def parse_exactly(text: str) -> Document:
    """JSON that is known to be an object, with exact numbers and the same strictness as an answer."""
    return _decode(text, 0)[0]


def _search(text: str) -> list[Document]:
    found: list[Document] = []
    position = text.find("{")
    for _ in range(MAX_STARTS):
        if position < 0:
            break
        try:
            document, end = _decode(text, position)
        except json.JSONDecodeError as error:
            if _BEGUN.match(text, position):  # an object that breaks off: its parts are no answers of their own
                raise AnswerError([_no_json(error)]) from None
            end = position + 1
        else:
            if document:
                found.append(document)
        position = text.find("{", end)
    return found


def _decode(text: str, start: int) -> tuple[Document, int]:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise AnswerError([f"the answer's JSON is nested more than {MAX_DEPTH} levels deep"]) from None
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # an integer with thousands of digits
        raise AnswerError([f"the answer holds a number that cannot be read ({error})"]) from None
    if _depth(value) > MAX_DEPTH:
        raise AnswerError([f"the answer's JSON is nested more than {MAX_DEPTH} levels deep"])
    if not isinstance(value, dict):
        raise json.JSONDecodeError("no object", text, start)
    return value, end


def _no_json(error: json.JSONDecodeError) -> str:
    return f"the answer is no valid JSON ({error.msg} at line {error.lineno}, column {error.colno})"


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return depth


def _unique(pairs: list[tuple[str, object]]) -> Document:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise AnswerError([f"the key {key!r} stands twice in one object" for key in twice])
    return values


def _no_constant(name: str) -> object:
    raise AnswerError([f"{name} is not a number that can be used"])


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=Decimal, parse_constant=_no_constant)
