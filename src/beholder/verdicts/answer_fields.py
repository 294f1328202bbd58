"""The fields of an answer: under which names its facts stand, in the forms that answers come in, and how to find them.

A fact may also stand under a name that nobody publishes. A list whose name has all words of a finding is a place of it
(`hallucinations_found`). A number whose name has a word for a score is a second score: in the object of a criterion
(`rating`), or beside all words of the criterion (`accuracy_rating`); unless another word says what else it is
(`max_score`). What is said about the length of a finding's list (`has_hallucinations`, `hallucination_count`) must be
true of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache

from beholder.rubrics.rubric import Criterion
from beholder.verdicts.parse import parse_number, parse_score
from beholder.verdicts.verdict import format_count, quote_value

CONTAINERS = ("criteria", "assertions", "scores", "dimensions", "details", "factor_results", "results")
SCORES = ("score", "dimension_score")
REASONS = ("reason", "justification", "reasoning")
ASSERTION_LISTS = ("assertions", "results")
ASSESSMENTS = ("assessment", "overall_assessment", "reasoning")
ANSWERS = {
    "yes": "yes",
    "y": "yes",
    "no": "no",
    "n": "no",
    "n/a": "not_applicable",
    "na": "not_applicable",
    "not applicable": "not_applicable",
    "not_applicable": "not_applicable",
}
# At the top level, other names of what code computes: the score or total of the whole.
OVERALL_CLAIMS = ("overall_score", "final_score", "total_score")
CLAIMS = ("pass_rate", "passed", "total", "avg_confidence", "weighted_score", "score", "grade", "percentage")
# Keys at the top level that begin so are about the whole answer, and no criteria.
WHOLE = ("overall", "total", "final", "summary", "assessment", "verdict", "mean", "average", "max", "confidence")
NO_CRITERIA = frozenset(("id", *CLAIMS, *CONTAINERS))
COMMON_KEYS = frozenset(("answer", "evidence", "confidence", "question", *SCORES, *REASONS, *ASSERTION_LISTS))
_NAMES = ("key", "id", "name", "criterion", "dimension", "factor")  # of a criterion in a list
# Keys of a criterion's object whose numbers are no second score.
_BESIDE_SCORE = frozenset((*SCORES, *REASONS, *ASSERTION_LISTS, *CLAIMS, "summary")) - {"grade"}
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # in camel case
_OUT_OF = re.compile(r"\s*(\d{1,4}(?:\.\d{1,4})?)\s*(?:/|out of|of)\s*(\d{1,4}(?:\.\d{1,4})?)\s*", re.IGNORECASE)

Given = tuple[str, object]
"""A value of an answer, after the place where it stands: `("criteria.accuracy.score", 4)`."""
Block = tuple[str, Mapping[str, object]]
"""An object of an answer, after what begins the places of its values: `("criteria.accuracy.", {"score": 4})`."""


# Words in the name of a number that say that it is a score, in the singular.
SCORE_WORDS = frozenset(
    (
        *("assessment", "evaluation", "grade", "graded", "judgement", "judgment", "mark", "point", "rated", "rating"),
        *("score", "scored", "star", "verdict"),
    )
)
# Words in the name of a number or a list that say that it is no second score, or no second list of the same.
_OTHER_MEANINGS = frozenset(
    (
        *("average", "avg", "baseline", "cap", "ceiling", "certainty", "confidence", "count", "deducted", "deduction"),
        *("failed", "guidance", "highest", "id", "index", "least", "lost", "lowest", "max", "maximum", "mean", "min"),
        *("minimum", "n", "no", "non", "not", "num", "number", "order", "out", "passed", "penalty", "percent"),
        *("percentage", "position", "possible", "previous", "probability", "range", "rank", "rate", "scale", "step"),
        *("threshold", "token", "total", "version", "weight", "without"),
    )
)
# Words beside those of a finding in the name of a value that says whether its list is empty, or how long it is.
_PRESENCE_WORDS = frozenset(
    (
        *("any", "are", "been", "contain", "contained", "containing", "detected", "exist", "found", "had", "has"),
        *("have", "identified", "include", "included", "is", "noticed", "observed", "present", "seen", "some", "the"),
        *("there", "was", "were"),
    )
)
_ABSENCE_WORDS = frozenset(("absent", "free", "no", "none", "not", "of", "without", "zero"))
_CACHED_KEYS = 1024  # all answers to a rubric have the same keys

_COUNT_WORDS = frozenset(("amount", "count", "how", "many", "n", "no", "num", "number", "of", "total"))


@lru_cache(_CACHED_KEYS)
def normalize_key(key: str) -> str:
    """Return a key in plain spelling: in lower case, with `_` between words, those of camel case too."""
    if key.islower() and key.isidentifier():
        return key
    key = key.strip()
    return (key if key.islower() else _WORD_STARTS.sub("_", key).lower()).replace(" ", "_").replace("-", "_")


@lru_cache(_CACHED_KEYS)
def split_key(key: str) -> frozenset[str]:
    """Return the words of a key in plain spelling, in the singular."""
    return frozenset(word.removesuffix("s") if len(word) > 3 else word for word in key.split("_") if word)


def has_other_meaning(key: str) -> bool:
    """Return whether a key in plain spelling says that its number is no score: `max_score`, `confidence`, `weight`."""
    return not _OTHER_MEANINGS.isdisjoint(split_key(key))


def is_score_name(name: str, key: str = "") -> bool:
    """Return whether a name in plain spelling says that its number is a score: `rating`, `points`; not `max_score`.

    With the key of a criterion whose words the name has, the other words say so, or there are no others.
    """
    more = split_key(name) - split_key(key)
    return not has_other_meaning(name) and (not more or not SCORE_WORDS.isdisjoint(more))


def find_near_key(name: str, keys: Iterable[str]) -> str | None:
    """Return the key whose words a name has, of several the one with most words.

    `hallucinations` is the key of `hallucination` and `hallucinations_found`. `None` where there is none, or where the
    name has another meaning.
    """
    return None if has_other_meaning(name) else _find_key_inside(name, keys)


def _find_key_inside(name: str, keys: Iterable[str]) -> str | None:
    words = split_key(name)
    near = [key for key in keys if split_key(key) <= words]
    return max(near, key=lambda key: len(split_key(key))) if near else None


def holds_criteria(container: object, wanted: set[str]) -> bool:
    """Return whether a container has a criterion."""
    return isinstance(container, Mapping) and any(
        normalize_key(key) in wanted and may_be_criterion(value) for key, value in container.items()
    )


def may_be_criterion(value: object) -> bool:
    """Return whether a value may be a criterion: not a list, nor a text that is not a number."""
    return not isinstance(value, list) and (not isinstance(value, str) or parse_number(value) is not None)


def has_score(value: object) -> bool:
    return isinstance(value, Mapping) and any(name in value for name in SCORES)


def is_score_of(value: object, criterion: Criterion) -> bool:
    """Return whether a value would do as the score of a criterion; also `"6/7"`, where the scale ends at 7."""
    return parse_score(_strip_out_of(value, criterion), criterion.scale, criterion.whole)[0] is not None


def plain_score(value: object, criterion: Criterion) -> object:
    return plain_number(_strip_out_of(value, criterion))


def _strip_out_of(value: object, criterion: Criterion) -> object:
    """Return the 6 of `"6/7"` and `"6 out of 7"`, where the scale of the criterion ends at 7; else the value."""
    match = _OUT_OF.fullmatch(value) if isinstance(value, str) else None
    return match[1] if match and Decimal(match[2]) == Decimal(repr(criterion.scale[1])) else value


def list_second_scores(criterion: Criterion, blocks: Iterable[Block]) -> list[Given]:
    """Return the numbers under other names for a score that would do as one."""
    return [
        (prefix + name, value)
        for prefix, block in blocks
        for name, value in block.items()
        if name not in _BESIDE_SCORE and is_score_name(name) and is_score_of(value, criterion)
    ]


def list_near_answers(entries: Iterable[Block]) -> list[Given]:
    """Return the answers under names such as `final_answer`."""
    return [
        (prefix + name, value)
        for prefix, entry in entries
        for name, value in entry.items()
        if name not in COMMON_KEYS and plain_answer(value) in ANSWERS.values() and find_near_key(name, ["answer"])
    ]


def list_near_findings(blocks: Iterable[Block], key: str, keys: Collection[str]) -> list[Given]:
    """Return the lists under names that have the words of this key; under another form of it, a text also counts."""
    found: list[Given] = []
    for prefix, block in blocks:
        for name, value in block.items():
            if name in keys or not isinstance(value, list | str) or find_near_key(name, keys) != key:
                continue
            if isinstance(value, list):
                found.append((prefix + name, value))
            elif split_key(name) == split_key(key) and plain_answer(value) != "yes":
                is_none = plain_answer(value) in ("no", "not_applicable") or value.strip().lower() in ("", "none")
                found.append((prefix + name, [] if is_none else [value]))
    return found


def list_length_claims(
    document: Mapping[str, object], keys: Collection[str], skip: Collection[str]
) -> dict[str, list[Given]]:
    """Return, by finding, what the answer says of it under a name with its words, such as `has_hallucinations`.

    Only at the top level, in objects there, and in those of the criteria: what stands deeper, or in a list, may speak
    of one part of the image.

    Args:
        document: The answer, with its keys in plain spelling.
        keys: The findings.
        skip: Objects at the top level that are not looked into.
    """
    claims: dict[str, list[Given]] = {key: [] for key in keys}
    blocks = [(f"{top}.", block) for top, block in document.items() if isinstance(block, Mapping) and top not in skip]
    for container in CONTAINERS:
        block = document.get(container)
        inner = block.items() if isinstance(block, Mapping) else ()
        blocks += [(f"{container}.{name}.", one) for name, one in inner if isinstance(one, Mapping)]
    for prefix, block in [("", document), *blocks]:
        for name, value in ((normalize_key(name), value) for name, value in block.items()):
            is_plain = name not in claims and isinstance(value, str | int | float | Decimal)
            if is_plain and (key := _find_key_inside(name, keys)):
                claims[key].append((prefix + name, value))
    return claims


def contradicts_length(claim: Given, key: str, length: int) -> bool:
    """Return whether a value says something of a finding's list that is not true of a list of this length.

    `has_hallucinations: true` and `hallucination_count: 3` say something of `hallucinations`; `hallucinations_checked`
    does not.
    """
    place, value = claim
    more = split_key(place.rpartition(".")[2]) - split_key(key)
    number = parse_number(value)
    if number is None:
        said = plain_answer(value)
        if said not in ("yes", "no") or not more <= _PRESENCE_WORDS | _ABSENCE_WORDS:
            return False
        is_negated = not more.isdisjoint(_ABSENCE_WORDS - {"of"})
        return ((said == "yes") != is_negated) != (length > 0)
    is_count = not more.isdisjoint(_COUNT_WORDS - {"no", "of"}) or more >= {"no", "of"}
    if not more or not more <= _PRESENCE_WORDS | _COUNT_WORDS or ("no" in more and not is_count):
        return False
    if not is_count and number in (0, 1):  # for false and true
        return (number == 1) != (length > 0)
    return number == int(number) and number != length


def list_criteria(name: str, container: Sequence[object], criteria: Collection[str]) -> list[Block]:
    """Return the entries of a list of criteria as objects of one criterion each; none if the list is of other things.

    Args:
        name: The name of the list.
        container: The list.
        criteria: The keys of the criteria.
    """
    names = [find_criterion_name(entry, criteria) for entry in container]
    return [
        (f"{name}[{place}].", {key or "?": entry})
        for place, (key, entry) in enumerate(zip(names, container, strict=True))
        if any(names) and isinstance(entry, Mapping) and (key or has_score(entry))
    ]


def find_criterion_name(entry: object, criteria: Collection[str]) -> str | None:
    """Return which of the criteria an entry of a list is about, by the name in it."""
    if not isinstance(entry, Mapping):
        return None
    names = [normalize_key(value) for key in _NAMES if isinstance(value := entry.get(key), str)]
    return next((name for name in names if name in criteria), None)


def walk_values(place: str, value: object, criteria: Collection[str]) -> Iterator[tuple[str, str, object]]:
    """Return what stands in an object or a list, at any depth: the place, the key in plain spelling and the value.

    What is about one of the criteria by the name in it (`find_criterion_name`) stands under that name, too.
    """
    for key, one in value.items() if isinstance(value, Mapping) else ():
        name = normalize_key(key)
        yield place, name, one
        yield from walk_values(f"{place}.{name}", one, criteria)
    for one in value if isinstance(value, list) else ():
        if name_inside := find_criterion_name(one, criteria):
            yield place, name_inside, one
        yield from walk_values(place, one, criteria)


def list_given(blocks: Iterable[Block], *names: str) -> list[Given]:
    """Return what stands in these objects under these names."""
    return [(prefix + name, block[name]) for prefix, block in blocks for name in names if name in block]


def list_assertion_lists(given: Iterable[Given]) -> list[Given]:
    """Return the objects and lists of assertions in what is given of a criterion."""
    return [
        (f"{place}.{name}", listed)
        for place, block in given
        for name, listed in (block.items() if isinstance(block, Mapping) else ())
        if normalize_key(name) in ASSERTION_LISTS and isinstance(listed, Mapping | list)
    ]


def first_text(blocks: Iterable[Block], *names: str) -> object:
    """Return the first value under these names that is neither null nor an empty text; `None` where there is none."""
    for _, value in list_given(blocks, *names):
        if value is not None and (not isinstance(value, str) or value.strip()):
            return value
    return None


def plain_number(value: object) -> object:
    number = parse_number(value)
    return quote_value(value) if number is None else number


def plain_answer(value: object) -> str:
    """Return `yes`, `no` or `not_applicable`; anything else as messages quote it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    answer = ANSWERS.get(value.strip().rstrip(".").lower()) if isinstance(value, str) else None
    return answer or quote_value(value)


def plain_finding(value: object) -> object:
    if not isinstance(value, list):
        return quote_value(value)
    return {text.strip().casefold() if isinstance(text, str) else quote_value(text) for text in value} - {""}


def quote_fact(value: object) -> str:
    return format_count(len(value), "entry", "entries") if isinstance(value, list) else quote_value(value)
