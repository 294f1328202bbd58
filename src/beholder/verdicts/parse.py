"""Parse an answer's text: the JSON object in it, the values in that, and refusals in plain words."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from decimal import Decimal, InvalidOperation

from beholder.errors import AnswerError
from beholder.rubrics.prompt import clean_text
from beholder.rubrics.rubric import Number
from beholder.verdicts.verdict import Flag, quote_value

_NUMBER = re.compile(r"[+-]?\d{1,12}(\.\d{1,12})?")
_MAX_EXACT_NUMBER = 10**60  # exact arithmetic with more digits is no longer cheap


def parse_number(value: object) -> int | Decimal | None:
    """Return a finite number that is given as a number or as a text; else `None`. Booleans are not numbers."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < _MAX_EXACT_NUMBER else None
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        return value if _is_cheap_number(value) else None
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        try:
            return Decimal(value.strip())
        except InvalidOperation:
            return None
    return None


def _is_cheap_number(number: Decimal) -> bool:
    """Return whether exact arithmetic with a number is cheap: `1e-999999999` is finite, but its fraction would fill the
    memory."""
    return number.is_finite() and len(number.as_tuple().digits) <= 60 and -60 <= int(number.as_tuple().exponent) <= 60


def parse_score(
    value: object, scale: tuple[Number, Number], whole: bool
) -> tuple[int | Decimal | None, str | None, str | None]:
    """Parse a score.

    Args:
        value: What the answer has as the score.
        scale: The lowest and the highest score.
        whole: Whether only integers are allowed.

    Returns:
        The score or `None`; what is wrong with it or `None`; a flag where it was given in an odd form (`6.0`, `"6"`).
    """
    low, high = scale
    allowed = f"{'a whole number' if whole else 'a number'} from {low:g} to {high:g}"
    if value is None:
        return None, f"is missing; it should be {allowed}", None
    number = parse_number(value)
    if number is None:
        return None, f"should be {allowed} and is {quote_value(value)}", None
    if not Decimal(repr(low)) <= number <= Decimal(repr(high)) or (whole and number != int(number)):
        return None, f"should be {allowed} and is {quote_value(value)}", None
    odd = isinstance(value, str) or (whole and not isinstance(value, int))
    return (int(number) if whole else number), None, ("score_in_odd_form" if odd else None)


def parse_text(value: object) -> str | None:
    """Return a text; null counts as an empty one; `None` for anything else."""
    if value is None:
        return ""
    return value if isinstance(value, str) else None


def parse_count(value: object) -> tuple[int, int] | None:
    """Return `"4/5"` as (4, 5); `None` for anything else."""
    match = re.fullmatch(r"\s*(\d{1,4})\s*/\s*(\d{1,4})\s*", value) if isinstance(value, str) else None
    return (int(match.group(1)), int(match.group(2))) if match else None


MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 32
MAX_STARTS = 200  # opening braces in prose; a text with more is not an answer
MAX_BROKEN = 4  # think blocks with broken JSON; each may be as long as the text

_FENCE = "```"
_FENCE_OPENING = re.compile(r"```[A-Za-z0-9_-]*")
_UNSTORABLE = re.compile(r"\\u(0000|[dD][89a-fA-F])|[\ud800-\udfff]")  # NUL and, maybe, half a surrogate pair

# What matters in a text with JSON somewhere in it. The parts of a pattern end at the next quote, brace or bracket, so
# that no text makes a search look at the same characters again and again.
_THINK_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_JSON_START = r'(?P<json>(?P<key>"\s*:\s*)?(?:\[\s*)?\{\s*["}])'
_THINK_END_BEFORE_JSON = re.compile(rf"{_THINK_END.pattern}\s*(?=\{{)", re.IGNORECASE)
_MARK = re.compile(rf"{_JSON_START}|\{{|{_THINK_END.pattern}", re.IGNORECASE)
_MARK_IN_BRACES = re.compile(rf"""{_JSON_START}|[{{}}"':]|/[/*]|{_THINK_END.pattern}""", re.IGNORECASE)

JsonObject = dict[str, object]


def parse_answer(text: str) -> tuple[JsonObject, tuple[Flag, ...]]:
    """Return the JSON object of an answer, with exact numbers (`int` or `Decimal`), and flags.

    Code fences are accepted; prose around the object is flagged. Up to the last `</think>` everything is thinking, and
    is not read. The time is linear in the length of the text: nothing else runs on the event loop meanwhile.

    Raises:
        AnswerError: When there is no object, or two that differ; also for duplicate keys, NaN and infinities.
    """
    check_answer_length(text)
    bare = _strip_fence(text.strip().removeprefix("\ufeff").strip())
    if bare.startswith("{"):
        with suppress(json.JSONDecodeError, AnswerError):  # the search below finds the same, or an answer after it
            document, end = _decode_json(bare, 0)
            if end == len(bare) and isinstance(document, dict):
                return document, ()
    objects = _find_objects(bare)
    documents = [document for document in objects if document]
    if not documents:
        raise AnswerError(["the answer's JSON object is empty" if objects else "the answer holds no JSON object"])
    if any(document != documents[0] for document in documents[1:]):
        raise AnswerError([f"the answer holds {len(documents)} JSON objects that differ; give one"])
    return documents[0], (Flag("prose_around_json", why="there was text besides the JSON object"),)


def strip_thinking(text: str) -> str:
    """Return what follows the last `</think>`; the whole text where there is none, or it is quoted in JSON."""
    said = _THINK_END.split(text)[-1]
    return said if "{" in said or "}" not in said else text


def check_answer_length(text: str) -> None:
    """Raise `AnswerError` for an answer that is too long to be parsed."""
    if len(text) > MAX_CHARACTERS:
        raise AnswerError([f"the answer has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read"])


def parse_json_object(text: str) -> JsonObject:
    """Return a JSON object without anything around it, parsed as strictly as an answer."""
    value, end = _decode_json(text, 0)
    if not isinstance(value, dict) or text[end:].strip():
        raise json.JSONDecodeError("no object", text, 0)
    return value


def parse_bare_answer(text: str) -> JsonObject:
    """Return the JSON object of an answer that has nothing around it but thinking before it.

    Raises:
        AnswerError: It has a key twice, or NaN.
        json.JSONDecodeError: It has another form.
    """
    text = text.strip()
    starts = [0] if text.startswith("{") else [mark.end() for mark in _THINK_END_BEFORE_JSON.finditer(text)]
    for start in starts[:MAX_BROKEN]:  # thinking may have braces after such a tag, and an answer may quote one
        with suppress(json.JSONDecodeError):
            return parse_json_object(text[start:])
    raise json.JSONDecodeError("no object", text, 0)


def _strip_fence(text: str) -> str:
    """Return the content of a code fence around the whole text, or the text itself."""
    opening = _FENCE_OPENING.match(text)
    return text[opening.end() : -len(_FENCE)].strip() if opening and text.endswith(_FENCE) else text


def _find_objects(text: str) -> list[JsonObject]:
    """Return the JSON objects in a text with prose around them, of those after the last `</think>`."""
    search = _ObjectSearch(text)
    problem: AnswerError | None = None  # what is wrong, unless it was only thinking
    broken = 0
    while mark := (_THINK_END if problem else search.marks).search(text, search.position):
        search.position = mark.end()
        if mark.group().startswith("</"):
            search, problem = _ObjectSearch(text, mark.end()), None
            continue
        try:
            search.take(mark)
        except AnswerError as error:
            problem = error
            broken += 1
            if broken > MAX_BROKEN:
                break
    if problem:
        raise problem
    return search.objects


class _ObjectSearch:
    """Goes through a text from one mark to the next and collects JSON objects.

    Broken JSON is never searched for a usable part. So an object is not taken after a key, or inside braces or a list
    that are no JSON; and braces of prose, such as `{x}`, hold no quotes, colons or comments.
    """

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self.position = position
        self.objects: list[JsonObject] = []
        self._starts = 0
        self._unclosed = 0

    @property
    def marks(self) -> re.Pattern[str]:
        """What to search next."""
        return _MARK_IN_BRACES if self._unclosed else _MARK

    def take(self, mark: re.Match[str]) -> None:
        """Take note of a mark; go on behind it, or behind the JSON that starts there."""
        if mark.group() == "}":
            self._unclosed -= 1
            return
        if mark["key"] or "{" not in mark.group():
            raise AnswerError(["the answer is no valid JSON (a part of an object stands outside of one)"])
        self._starts += 1
        if self._starts > MAX_STARTS:
            raise AnswerError([f"the answer is a text with more than {MAX_STARTS} opening braces, not a JSON object"])
        if not mark["json"]:
            self._unclosed += 1
            return
        try:
            value, self.position = _decode_json(self.text, mark.start())
        except json.JSONDecodeError as error:
            raise AnswerError([_describe_json_error(error)]) from None
        found = _list_objects(value)
        if self._unclosed and any(found):
            raise AnswerError(["the answer is no valid JSON (an object stands inside braces that are none)"])
        self.objects += found


def _list_objects(value: object) -> list[JsonObject]:
    """Return a value if it is an object, or the objects in it if it is a list."""
    if isinstance(value, list):
        return [found for item in value for found in _list_objects(item)]
    return [value] if isinstance(value, dict) else []


def _decode_json(text: str, start: int) -> tuple[object, int]:
    """Return the JSON value that starts at `start`, and where it ends."""
    try:
        value, end = _JSON_DECODER.raw_decode(text, start)
    except RecursionError:
        raise AnswerError([f"the answer's JSON is nested more than {MAX_DEPTH} levels deep"]) from None
    except json.JSONDecodeError:
        raise
    except ValueError:
        raise AnswerError(["the answer holds a number that cannot be read: it has thousands of digits"]) from None
    if _measure_depth(value) > MAX_DEPTH:
        raise AnswerError([f"the answer's JSON is nested more than {MAX_DEPTH} levels deep"])
    return (_clean_values(value) if _UNSTORABLE.search(text, start, end) else value), end


def _clean_values(value: object) -> object:
    """Return the value with every text in it cleaned, so that it can be stored and printed."""
    if isinstance(value, dict):
        return {clean_text(key): _clean_values(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_clean_values(inner) for inner in value]
    return clean_text(value) if isinstance(value, str) else value


def _describe_json_error(error: json.JSONDecodeError) -> str:
    return f"the answer is no valid JSON ({error.msg} at line {error.lineno}, column {error.colno})"


def _measure_depth(value: object) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            inner
            for container in level
            if isinstance(container, dict | list)
            for inner in (container.values() if isinstance(container, dict) else container)
        ]
    return depth


def _reject_duplicate_keys(pairs: list[tuple[str, object]]) -> JsonObject:
    values = dict(pairs)
    if len(values) < len(pairs):
        times = Counter(key for key, _ in pairs)
        twice = sorted(key for key in times if times[key] > 1)
        raise AnswerError([f"the key {key[:60]!r} stands twice in one object" for key in twice[:20]])
    return values


def _reject_constant(name: str) -> object:
    raise AnswerError([f"{name} is not a number that can be used"])


def _parse_decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits
        raise AnswerError([f"{text[:40]} is not a number that can be used"]) from None


_JSON_DECODER = json.JSONDecoder(
    object_pairs_hook=_reject_duplicate_keys, parse_float=_parse_decimal, parse_constant=_reject_constant
)


# A refusal says that the judge cannot or will not do what was asked. "I cannot see any difference" and "Sorry for the
# delay" are answers, though of the wrong form: such an answer is sent back once, while a refusal is final.
_REFUSAL_OPENING = (
    r"(?:(?:i'm|i am|we're|we are) )?(?:\w+ )?sorry|unfortunately|regrettably|no,|(?:my |i |we )?apolog\w+"
    r"|as an?\b|thanks?\b|i (?:understand|appreciate)\b"
)
_CANNOT = (
    r"(?:i|we) (?:\w+ly |just )?(?:can't|cannot|can not|couldn't|won't|will not|(?:must )?(?:decline|refuse) to)"
    r"|(?:(?:i|we)(?:'m| am|'re| are) )?(?:\w+ly )?(?:unable|not (?:able|allowed|permitted|willing|going)) to"
)
_PICTURE = r"(?:[\w'-]+ ){0,4}?(?:images?|photos?|photographs?|pictures?|attachments?)\b(?!'s)"
_MATTER = rf"(?:{_PICTURE}|(?:[\w'-]+ ){{0,4}}?(?:content|material|requests?|tasks?|people|persons?|individuals?)\b)"
_JUDGE = r"(?:evaluate|assess|judge|rate|score|grade|compare|review|analy[sz]e|examine|identify)"
_WORK = "|".join(
    (
        r"(?:help|assist|comply|engage|proceed|continue|participate)\b(?! (?:but|notic|think|wonder|feel))",
        r"do (?:that|this|so|it)\b",
        rf"(?:{_JUDGE}|fulfil+|complete|process|answer|support) {_MATTER}",
        rf"{_JUDGE}(?: (?:it|this|that|these|them))?(?=[.,!]|\Z)",
        r"identify (?:who|anyone|someone)\b",
        rf"(?:see|view|access|open) {_PICTURE}(?=[.,;:!]|\Z| (?:you|that|attached|provided|because|so|and|or)\b)",
        r"(?:provide|give|offer|perform|make|carry out|produce) (?:[\w'-]+ ){0,4}?"
        r"(?:assessment|evaluation|analysis|judge?ment|rating|scores?|opinion|feedback|information|help|that|this)\b",
        r"(?=[.!]|\Z)",  # "Sorry, I cannot."
    )
)
# "I cannot rate this image higher than 4", "I cannot identify any image artifacts": a judgment, not a refusal.
_JUDGED = (
    r"higher|above|more than|better|lower|below|less than|perfect|full marks"
    r"|any (?:\w+ ){0,2}(?:differences?|changes?|flaws?|faults?|art[ei]facts?|problems?|issues?|seams?|errors?)"
)
_REFUSAL = re.compile(
    rf"\W*(?:(?:{_REFUSAL_OPENING}).{{0,120}}?)?\b(?:{_CANNOT})(?![^.;]*\b(?:{_JUDGED})\b)"
    rf" ?(?:be able to )?(?:\w+ly )?(?:{_WORK})"
)


def is_refusal(text: str) -> bool:
    """Return whether a text, without the thinking before it, is a refusal in plain words; one with JSON never is."""
    said = _THINK_END.split(text)[-1] if "</" in text else text
    normalized = " ".join(said[:2000].lower().replace("’", "'").split())
    return "{" not in said and "}" not in said and bool(_REFUSAL.match(normalized))
