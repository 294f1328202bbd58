"""The fields of an answer: under which names its facts stand, in the forms that answers come in, and how to find them.

A fact may also stand under a name that nobody publishes. A list or a number whose name has all words of a finding or a
criterion (`hallucinations_found`, `accuracy_rating`) is a place of it. In the object of a criterion every number that
would do as its score is one (`rating`), unless its name says what else it is (`max_score`, `weight`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

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
CLAIMS = ("pass_rate", "passed", "total", "avg_confidence", "weighted_score", "score", "grade", "percentage")
# Keys at the top level that begin so are about the whole answer, and no criteria.
WHOLE = ("overall", "total", "final", "summary", "assessment", "verdict", "mean", "average", "max", "confidence")
NO_CRITERIA = frozenset(("id", *CLAIMS, *CONTAINERS))
COMMON_KEYS = frozenset(("answer", "evidence", "confidence", "question", *SCORES, *REASONS, *ASSERTION_LISTS))
_NAMES = ("key", "id", "name", "criterion", "dimension", "factor")  # of a criterion in a list
# Keys of a criterion's object whose numbers are no second score.
_BESIDE_SCORE = frozenset((*SCORES, *REASONS, *ASSERTION_LISTS, *CLAIMS, "summary"))

Given = tuple[str, object]
"""A value of an answer, after the place where it stands: `("criteria.accuracy.score", 4)`."""
Block = tuple[str, Mapping[str, object]]
"""An object of an answer, after what begins the places of its values: `("criteria.accuracy.", {"score": 4})`."""


# Words in the name of a number or a list that say that it is no second score, or no second list of the same.
_OTHER_MEANINGS = frozenset(
    (
        *("average", "avg", "certainty", "confidence", "count", "failed", "id", "index", "max", "maximum", "mean"),
        *("min", "minimum", "n", "no", "non", "not", "num", "number", "order", "out", "passed", "percent"),
        *("percentage", "position", "probability", "rank", "rate", "scale", "step", "threshold", "token", "total"),
        *("version", "weight", "without"),
    )
)


def normalize_key(key: str) -> str:
    """Return a key in plain spelling: in lower case, with `_` between words."""
    return key.strip().lower().replace(" ", "_").replace("-", "_")


def split_key(key: str) -> frozenset[str]:
    """Return the words of a key in plain spelling, in the singular."""
    return frozenset(word.removesuffix("s") if len(word) > 3 else word for word in key.split("_") if word)


def has_other_meaning(key: str) -> bool:
    """Return whether a key in plain spelling says that its number is no score: `max_score`, `confidence`, `weight`."""
    return not _OTHER_MEANINGS.isdisjoint(split_key(key))


def find_near_key(name: str, keys: Iterable[str]) -> str | None:
    """Return the key whose words a name has, of several the one with most words.

    `hallucinations` is the key of `hallucination` and `hallucinations_found`. `None` where there is none, or where the
    name has another meaning.
    """
    words = split_key(name)
    near = [key for key in keys if split_key(key) <= words]
    return max(near, key=lambda key: len(split_key(key))) if near and not has_other_meaning(name) else None


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
    return parse_score(value, criterion.scale, criterion.whole)[0] is not None


def list_second_scores(criterion: Criterion, blocks: Iterable[Block]) -> list[Given]:
    """Return the numbers under other names that would do as the score."""
    return [
        (prefix + name, value)
        for prefix, block in blocks
        for name, value in block.items()
        if name not in _BESIDE_SCORE and not has_other_meaning(name) and is_score_of(value, criterion)
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
            elif split_key(name) == split_key(key):
                is_none = plain_answer(value) in ("no", "not_applicable") or value.strip().lower() in ("", "none")
                found.append((prefix + name, [] if is_none else [value]))
    return found


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
