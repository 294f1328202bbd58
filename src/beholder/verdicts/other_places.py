"""Find what an answer says of assertions outside the place where they are read, and numbers that are unknown criteria.

The answer to an assertion is read in the object of its criterion, under `answer`. It may be said again under another
name there (`result`, `passed`), and anywhere else: by the id of the assertion (`"A1": "No"`, `{"id": "A1", …}`), or by
a list of ids whose name says what they are (`failed_assertions`). Nothing of that is read, but it may not differ.

A number that belongs to no criterion is an unknown criterion where criteria and scores stand; at the top level only if
it would do as a score, and its name does not say that it is something else (`confidence`, `image_id`, `duration`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from beholder.rubrics.rubric import Rubric
from beholder.verdicts.answer_fields import (
    ANSWERS,
    CLAIMS,
    COMMON_KEYS,
    CONTAINERS,
    NO_CRITERIA,
    SCORE_WORDS,
    SCORES,
    WHOLE,
    Block,
    Given,
    find_near_key,
    has_other_meaning,
    is_score_name,
    is_score_of,
    normalize_key,
    plain_answer,
    split_key,
)
from beholder.verdicts.parse import parse_number

_YES_WORDS = frozenset(("fulfilled", "met", "pas", "passed", "passing", "satisfied", "succes"))
_NO_WORDS = frozenset(
    (
        *("fail", "failed", "failing", "failure", "missed", "rejected", "unfulfilled", "unmet", "unsatisfied"),
        *("violated", "violation"),
    )
)
_NEGATIONS = frozenset(("no", "non", "not"))
# Names under which the answer to an assertion may be said again. All words are in the singular of `split_key`.
_ANSWER_WORDS = frozenset(
    (
        *("answer", "decision", "evaluation", "judgement", "judgment", "ok", "outcome", "response", "result"),
        *("statu", "value", "verdict"),
    )
)
# Words beside them that leave the meaning as it is.
_FILLING_WORDS = frozenset(
    (
        *("all", "and", "assertion", "check", "criteria", "final", "id", "is", "item", "list", "of"),
        *("question", "the", "was", "were"),
    )
)
# Words in the name of an object or a list that say that what it holds by id are no answers to the assertions.
_NO_ANSWER_WORDS = frozenset(
    (
        *("borderline", "certainty", "changed", "confidence", "confident", "critical", "difficult", "doubtful"),
        *("evidence", "expected", "expert", "gold", "human", "important", "measurement", "previou"),
        *("question", "reason", "reference", "required", "reviewed", "sure", "uncertain", "unclear", "unsure"),
        *("visible", "weight"),
    )
)
_VERDICT_WORDS = {
    **dict.fromkeys(("pass", "passed", "true", "met", "satisfied", "fulfilled"), "yes"),
    **dict.fromkeys(("fail", "failed", "false", "not met", "unmet", "not satisfied", "not fulfilled"), "no"),
}
_ID_NAMES = ("id", "assertion", "assertion_id", "key", "name", "check")
_MAX_DEPTH = 32  # of nesting, as in the text of an answer
_CRITERION_WORDS = frozenset(("criteria", "criterion", "dimension", "factor"))
# Containers in which nothing but criteria stands; in the others a number has to look like a score.
_SCORE_CONTAINERS = frozenset(("criteria", "scores", "dimensions", "factor_results"))
# Words in the name of a number at the top level that say that it is no score of a criterion: what code computes of the
# whole, what other raters said, what is counted or measured, and what a file keeps beside an answer.
_NO_CRITERION_WORDS = frozenset(
    (
        *("acrue", "adjusted", "aggregate", "aggregated", "combined", "composite", "computed", "cumulative"),
        *("normalised", "normalized", "overall", "raw", "subtotal", "sum", "summary", "unweighted", "weighted"),
        *("annotator", "expected", "expert", "gold", "human", "label", "reference", "target", "truth", "user"),
        *("artifact", "assertion", "attempt", "candidate", "change", "character", "criteria", "criterion", "defect"),
        *("difference", "dimension", "error", "face", "factor", "finding", "flaw", "hand", "image", "issue", "item"),
        *("iteration", "line", "object", "page", "part", "people", "person", "picture", "problem", "question"),
        *("region", "retry", "retrie", "round", "sentence", "subject", "thing", "try", "turn", "warning", "word"),
        *("batch", "case", "cost", "created", "date", "day", "delta", "depth", "duration", "elapsed", "fps", "height"),
        *("job", "judge", "latency", "length", "level", "megapixel", "mode", "model", "ms", "option", "price"),
        *(
            "prompt",
            "ranking",
            "ratio",
            "run",
            "sample",
            "second",
            "seed",
            "session",
            "severity",
            "sigma",
            "size",
            "std",
        ),
        *("task", "temperature", "time", "timestamp", "uncertainty", "unit", "usd", "variance", "width", "year"),
        *("na", "yes"),
    )
)


@dataclass(frozen=True, slots=True)
class Said:
    """What an answer says of one assertion where it is not read: the place, the value there, and which answer that is.

    `has_only_two` is whether the value could not have said that the assertion does not apply.
    """

    place: str
    value: object
    answer: str
    has_only_two: bool = False

    def contradicts(self, answer: str) -> bool:
        """Return whether this is another answer than the one that is read."""
        return self.answer != answer and not (self.has_only_two and answer == "not_applicable")


def list_second_answers(entries: Iterable[Block]) -> list[Said]:
    """Return what the objects of one assertion say of it under other names than `answer`: `result`, `passed`, …."""
    return [
        said
        for prefix, entry in entries
        for name, value in entry.items()
        if name not in COMMON_KEYS and (said := _read_named(prefix + name, name, value))
    ]


def list_outside_answers(
    document: Mapping[str, object], rubric: Rubric, read: Iterable[object]
) -> tuple[dict[str, list[Said]], dict[str, list[Given]]]:
    """Return what an answer says of assertions outside the objects and lists where they are read.

    Args:
        document: The answer, with its keys in plain spelling.
        rubric: The rubric that was asked.
        read: The objects and lists of assertions that are read.

    Returns:
        The answers and the confidences, by the id of the assertion.
    """
    walk = _Walk(rubric, {id(one) for one in read})
    if walk.ids:
        walk.visit("", document, "", 0)
    return walk.answers, walk.confidences


class _Walk:
    """Goes through an answer and collects what it says of assertions."""

    def __init__(self, rubric: Rubric, skip: Collection[int]) -> None:
        self.ids = {normalize_key(one.id): one.id for criterion in rubric.criteria for one in criterion.assertions}
        self.by_criterion = {criterion.key: [one.id for one in criterion.assertions] for criterion in rubric.criteria}
        self.skip = skip
        self.answers: dict[str, list[Said]] = {}
        self.confidences: dict[str, list[Given]] = {}

    def visit(self, place: str, value: object, meaning: str, depth: int) -> None:
        """Look into one value; `meaning` is what the name of an object or list around it says of all ids in it."""
        if id(value) in self.skip or depth > _MAX_DEPTH:
            return
        if isinstance(value, Mapping):
            for key, one in value.items():
                self._visit_key(place, str(key), one, meaning, depth)
        elif isinstance(value, list):
            self._visit_list(place, value, meaning, depth)
        elif isinstance(value, str) and meaning and len(value) < 1000:
            ids = [self.ids.get(normalize_key(word)) for word in value.replace(",", " ").replace(";", " ").split()]
            self._add_listed(place, ids if all(ids) else (), meaning)

    def _visit_key(self, place: str, key: str, value: object, meaning: str, depth: int) -> None:
        name = normalize_key(key)
        inner = f"{place}.{name}".removeprefix(".")
        if id_ := self.ids.get(name):
            self._add(id_, f"{place}.{id_}".removeprefix("."), value, meaning)
            return
        first, _, rest = name.partition("_")
        before, _, last = name.rpartition("_")
        if before in self.by_criterion and (id_ := self.ids.get(last)):  # `accuracy_A1`
            self._add(id_, inner, value, meaning)
            return
        if rest and (id_ := self.ids.get(first)) and (said := _read_named(inner, rest, value)):
            self.answers.setdefault(id_, []).append(said)
            return
        words = split_key(name)
        if words.isdisjoint(_NO_ANSWER_WORDS):
            self.visit(inner, value, _find_meaning(words) or meaning, depth + 1)

    def _visit_list(self, place: str, value: Sequence[object], meaning: str, depth: int) -> None:
        *path, name = place.split(".")
        is_named = split_key(name) <= _ANSWER_WORDS | _FILLING_WORDS
        criterion = next((part for part in reversed(path) if part in self.by_criterion), "") if is_named else name
        ids = self.by_criterion.get(criterion, [])
        if ids and len(ids) == len(value) and all(_read_answer(one) for one in value):
            for id_, one in zip(ids, value, strict=True):  # answers alone, in the order of the assertions
                self._add(id_, f"{place}.{id_}", one, meaning)
            return
        for one in value:
            found = self._find_id(one)
            if found and isinstance(one, Mapping):
                if id(one) not in self.skip:
                    self._add(found, f"{place}.{found}".removeprefix("."), one, meaning)
            elif found:
                self._add_listed(place, [found], meaning)
            else:
                self.visit(place, one, meaning, depth + 1)

    def _find_id(self, entry: object) -> str | None:
        names = [entry.get(name) for name in _ID_NAMES] if isinstance(entry, Mapping) else [entry]
        found = (self.ids.get(normalize_key(name)) for name in names if isinstance(name, str))
        return next((id_ for id_ in found if id_), None)

    def _add_listed(self, place: str, ids: Iterable[str | None], meaning: str) -> None:
        for id_ in ids:
            if id_ and meaning:
                self.answers.setdefault(id_, []).append(Said(place, id_, meaning))

    def _add(self, id_: str, place: str, value: object, meaning: str) -> None:
        """Add what stands under one id: an answer, an object with one, or anything under `failed` and the like."""
        found: list[Said] = []
        if isinstance(value, Mapping):
            entry = {normalize_key(str(key)): one for key, one in value.items()}
            if answer := _read_answer(entry.get("answer")):
                found.append(Said(f"{place}.answer", entry["answer"], answer))
            found += list_second_answers([(f"{place}.", entry)])
            if entry.get("confidence") is not None:
                self.confidences.setdefault(id_, []).append((f"{place}.confidence", entry["confidence"]))
            if not found and meaning:
                found.append(Said(place, id_, meaning))
        elif answer := _read_answer(value):
            if parse_number(value) is not None and not split_key(place.replace(".", "_")).isdisjoint(SCORE_WORDS):
                return  # a score of the assertion, on a scale of its own
            is_plain = isinstance(value, str)
            found.append(Said(place, value, _negate(answer) if meaning == "no" else answer, not is_plain))
        elif meaning and isinstance(value, str) and value.strip():
            found.append(Said(place, value, meaning))
        self.answers.setdefault(id_, []).extend(found)


def _find_meaning(words: frozenset[str]) -> str:
    """Return which answer the name of a list gives to all ids in it: `failed_assertions`; empty where it gives none."""
    if {"not", "applicable"} <= words:
        return "not_applicable"
    if words in ({"yes"}, {"no"}):
        return next(iter(words))
    is_no, is_yes = not words.isdisjoint(_NO_WORDS), not words.isdisjoint(_YES_WORDS)
    if is_no == is_yes or not words <= _YES_WORDS | _NO_WORDS | _NEGATIONS | _FILLING_WORDS:
        return ""
    return "no" if is_no != (not words.isdisjoint(_NEGATIONS)) else "yes"


def _read_named(place: str, name: str, value: object) -> Said | None:
    """Return what a value says of its assertion under a name like `result` or `failed`; `None` for other names."""
    words = split_key(name)
    meaning = _find_meaning(words)
    if not meaning and not (words & _ANSWER_WORDS and words <= _ANSWER_WORDS | _FILLING_WORDS):
        return None
    answer = _read_answer(value)
    if not answer or meaning == "not_applicable":
        return None
    return Said(
        place, value, _negate(answer) if meaning == "no" else answer, not isinstance(value, str) or bool(meaning)
    )


def _read_answer(value: object) -> str:
    """Return `yes`, `no` or `not_applicable`, also for `Pass`, `Fail`, 1 and 0; empty for anything else."""
    answer = plain_answer(value)
    if answer in ANSWERS.values():
        return answer
    if isinstance(value, str):
        return _VERDICT_WORDS.get(value.strip().rstrip(".").lower(), "")
    return {0: "no", 1: "yes"}.get(value, "") if isinstance(value, int) else ""


def _negate(answer: str) -> str:
    return {"yes": "no", "no": "yes"}.get(answer, answer)


def list_scores_by_letter(document: Mapping[str, object], rubric: Rubric) -> dict[str, list[Given]]:
    """Return scores under a criterion's letter, or a name with its words, in objects of scores: `scores: {"A": 4}`."""
    found: dict[str, list[Given]] = {}
    criteria = {criterion.key: criterion for criterion in rubric.criteria}
    letters = {criterion.letter.lower(): criterion.key for criterion in rubric.criteria if criterion.letter}
    blocks: list[Block] = [("", {key: one for key, one in document.items() if key in letters})]
    blocks += [(f"{top}.", one) for top, one in document.items() if isinstance(one, Mapping) and holds_scores(top)]
    for prefix, block in blocks:
        for name, value in ((normalize_key(str(name)), value) for name, value in block.items()):
            key = letters.get(name) or find_near_key(name, criteria)
            if not key or name in criteria or not (name in letters or is_score_name(name, key)):
                continue
            if is_score_of(value, criteria[key]):
                found.setdefault(key, []).append((prefix + name, value))
    return found


def holds_scores(name: str) -> bool:
    """Return whether an object of this name holds scores of criteria: `scores`, `dimensions`, `ratings`."""
    return name in CONTAINERS or (
        is_score_name(name) and split_key(name) <= SCORE_WORDS | _CRITERION_WORDS and name not in NO_CRITERIA
    )


def is_unknown_score(name: str, value: object, rubric: Rubric, container: str = "") -> bool:
    """Return whether a value that belongs to no criterion of the rubric looks like the score of another one.

    Args:
        name: Its name, in plain spelling.
        value: A number, or an object with a number under a name for a score.
        rubric: The rubric that was asked.
        container: The object in which it stands; empty for the top level.
    """
    words = split_key(name)
    if isinstance(value, Mapping):
        inner = [one for key, one in value.items() if key in SCORES or _is_second_score(str(key))]
        return any(_fits_a_scale(one, rubric) for one in inner) and not _is_about_something_else(name, rubric)
    if container in _SCORE_CONTAINERS and not isinstance(value, bool) and parse_number(value) is not None:
        return not _is_about_the_whole(name, words) and not _belongs_to_criterion(name, rubric)
    if not isinstance(value, int | float | Decimal) or not _fits_a_scale(value, rubric):
        return False
    return not _is_about_something_else(name, rubric)


def _is_second_score(key: str) -> bool:
    return is_score_name(normalize_key(key)) and normalize_key(key) not in CLAIMS


def _fits_a_scale(value: object, rubric: Rubric) -> bool:
    return not isinstance(value, bool) and any(is_score_of(value, criterion) for criterion in rubric.criteria)


def _is_about_the_whole(name: str, words: frozenset[str]) -> bool:
    is_computed = name in CLAIMS or name.startswith(WHOLE) or has_other_meaning(name)
    return is_computed or words <= SCORE_WORDS | {"weighted", "normalized", "normalised"}


def _belongs_to_criterion(name: str, rubric: Rubric) -> bool:
    """Return whether a name is that of an assertion, or has the letter or the words of a criterion."""
    letters = {criterion.letter.lower() for criterion in rubric.criteria if criterion.letter}
    ids = {normalize_key(one.id) for criterion in rubric.criteria for one in criterion.assertions}
    if name in letters or name.partition("_")[0] in ids or name in ids:
        return True
    return find_near_key(name, [criterion.key for criterion in rubric.criteria]) is not None


def _is_about_something_else(name: str, rubric: Rubric) -> bool:
    words = split_key(name)
    if name in NO_CRITERIA or _is_about_the_whole(name, words) or _belongs_to_criterion(name, rubric):
        return True
    if not words.isdisjoint(_NO_CRITERION_WORDS) or name == normalize_key(rubric.echo) or name.endswith("_id"):
        return True
    of_the_rubric = split_key(normalize_key(rubric.name)) | SCORE_WORDS
    return words <= of_the_rubric or find_near_key(name, [finding.key for finding in rubric.findings]) is not None
