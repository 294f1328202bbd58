"""From an answer's text to the one JSON object in it."""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal, InvalidOperation

from beholder.errors import AnswerError
from beholder.rubrics.delimiting import clean
from beholder.verdicts.model import Flag

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 32
MAX_STARTS = 200  # places where a JSON object may begin; prose with more braces than this is no answer

_FENCE = "```"
_OPENING = re.compile(r"```[A-Za-z0-9_-]*")
_BRACE = re.compile(r"[{}]")
_BEGUN = re.compile(r'\{\s*"')
_UNCARRIABLE = re.compile(r"\\u(0000|[dD][89a-fA-F])|[\ud800-\udfff]")  # NUL and, maybe, half a surrogate pair

Document = dict[str, object]


def parse(text: str) -> tuple[Document, tuple[Flag, ...]]:
    """The JSON object of an answer, numbers exact (`int` or `Decimal`).

    Fences are fine; prose around the object is flagged; no object, or two that differ, is an `AnswerError`, as are
    duplicate keys, NaN and infinities.
    """
    check_length(text)
    bare = _unfenced(text.strip().removeprefix("\ufeff").strip())
    if bare.startswith("{"):
        try:
            document, end = _decode(bare, 0)
            if end == len(bare):
                return document, ()
        except json.JSONDecodeError:
            pass
    found = _search(bare)
    documents = [document for document in found if document]
    if not documents:
        raise AnswerError(["the answer's JSON object is empty" if found else "the answer holds no JSON object"])
    if any(document != documents[0] for document in documents[1:]):
        raise AnswerError([f"the answer holds {len(documents)} JSON objects that differ; give one"])
    return documents[0], (Flag("prose_around_json", why="there was text besides the JSON object"),)


def check_length(text: str) -> None:
    """Raises `AnswerError` for an answer that is too long to be read."""
    if len(text) > MAX_CHARACTERS:
        raise AnswerError([f"the answer has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read"])


def parse_exactly(text: str) -> Document:
    """JSON that is known to be an object, with exact numbers and the same strictness as an answer."""
    return _decode(text, 0)[0]


def _unfenced(text: str) -> str:
    """What stands inside a fence around the whole text, or the text itself."""
    opening = _OPENING.match(text)
    return text[opening.end() : -len(_FENCE)].strip() if opening and text.endswith(_FENCE) else text


def _search(text: str) -> list[Document]:
    """The JSON objects in a text with something around them. Parts of a broken object are no answers of their own."""
    found: list[Document] = []
    starts = unclosed = position = 0
    while brace := _BRACE.search(text, position):
        position = brace.end()
        if brace.group() == "}":
            unclosed = max(0, unclosed - 1)
            continue
        starts += 1
        if starts > MAX_STARTS:
            raise AnswerError([f"the answer is a text with more than {MAX_STARTS} opening braces, not a JSON object"])
        try:
            document, end = _decode(text, brace.start())
        except json.JSONDecodeError as error:
            if _BEGUN.match(text, brace.start()):
                raise AnswerError([_no_json(error)]) from None
            unclosed += 1
        else:
            if document and unclosed:
                raise AnswerError(["the answer is no valid JSON (an object stands inside braces that are none)"])
            found.append(document)
            position = end
    return found


def _decode(text: str, start: int) -> tuple[Document, int]:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise AnswerError([f"the answer's JSON is nested more than {MAX_DEPTH} levels deep"]) from None
    except json.JSONDecodeError:
        raise
    except ValueError:
        raise AnswerError(["the answer holds a number that cannot be read: it has thousands of digits"]) from None
    if _depth(value) > MAX_DEPTH:
        raise AnswerError([f"the answer's JSON is nested more than {MAX_DEPTH} levels deep"])
    if _UNCARRIABLE.search(text):
        value = _carriable(value)
    if not isinstance(value, dict):
        raise json.JSONDecodeError("no object", text, start)
    return value, end


def _carriable(value: object) -> object:
    """The value with every text in it such that a database and a terminal can take it."""
    if isinstance(value, dict):
        return {clean(key): _carriable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_carriable(inner) for inner in value]
    return clean(value) if isinstance(value, str) else value


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
        times = Counter(key for key, _ in pairs)
        twice = sorted(key for key in times if times[key] > 1)
        raise AnswerError([f"the key {key[:60]!r} stands twice in one object" for key in twice[:20]])
    return values


def _no_constant(name: str) -> object:
    raise AnswerError([f"{name} is not a number that can be used"])


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits
        raise AnswerError([f"{text[:40]} is not a number that can be used"]) from None


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_decimal, parse_constant=_no_constant)
