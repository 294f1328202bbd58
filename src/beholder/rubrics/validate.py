"""Check a rubric or a style beyond the types of its values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction

from msgspec import UNSET

from beholder.cases.case import CANDIDATES
from beholder.errors import Problem
from beholder.rubrics.rubric import (
    CANDIDATE_LABELS,
    PREFERENCE_SCALE,
    PROBED_REGION,
    PROBED_ROLES,
    Assertion,
    CheckRule,
    Criterion,
    InstrumentCheck,
    NotApplicable,
    Number,
    Rubric,
    Scoring,
    ScoringKind,
    Style,
    to_fraction,
)

_KEY = re.compile(r"[a-z][a-z0-9_]*\Z")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*\Z")
# Arguments of `beholder.judge`, which takes images and fields by their names beside them.
RESERVED_NAMES = ("judge", "samples", "options", "case", "rubric")
MAX_PROBE_QUESTIONS = 8
_MAX_NUMBER = 10**9  # what a weight or a score may come to


def find_rubric_problems(rubric: Rubric) -> list[Problem]:
    """Return everything that is wrong with a rubric, each problem with its key."""
    if rubric.is_preference:
        return [*_check_names(rubric), *_check_criteria(rubric), *_check_settings(rubric), *_check_preference(rubric)]
    return [
        *_check_probe(rubric),
        *_check_places(rubric),
        *_check_names(rubric),
        *_check_criteria(rubric),
        *_check_assertions(rubric),
        *_check_settings(rubric),
        *_check_scoring(rubric),
    ]


def find_style_problems(style: Style) -> list[Problem]:
    """Return everything that is wrong with a style, each problem with its key."""
    problems = [
        Problem("must not be empty", key) for key in ("style", "description") if not getattr(style, key).strip()
    ]
    if not any(style.assertions.values()):
        problems.append(Problem("has no assertion at all", "assertions"))
    for key, assertions in style.assertions.items():
        for index, assertion in enumerate(assertions):
            place = f"assertions.{key}[{index}]"
            if not assertion.text.strip():
                problems.append(Problem("has no text", place))
            if assertion.id:
                problems.append(Problem("an id is given by position; remove it", f"{place}.id"))
            problems += _check_measured(assertion, place)
    return problems


def _check_measured(assertion: Assertion, place: str) -> Iterator[Problem]:
    if assertion.measured and CheckRule.parse(assertion.measured) is None:
        yield Problem(
            f"{assertion.measured!r} names no check; write one of {', '.join(InstrumentCheck)}, several with `and` "
            "between them, and `yes if` or `no unless` before them where they tell only one of the two",
            f"{place}.measured",
        )


def is_rubric_name(name: str) -> bool:
    """Return whether a name may be that of a rubric: lower-case letters, digits and hyphens."""
    return bool(_NAME.match(name))


def _check_names(rubric: Rubric) -> Iterator[Problem]:
    if not is_rubric_name(rubric.rubric):
        yield Problem(f"{rubric.rubric!r} should be lower-case letters, digits and hyphens", "rubric")
    named = [
        ("criteria", "key", [criterion.key for criterion in rubric.criteria]),
        ("images", "role", [image.role for image in rubric.images]),
        ("fields", "name", [field.name for field in rubric.fields]),
        ("findings", "key", [finding.key for finding in rubric.findings]),
    ]
    for list_, attribute, keys in named:
        for index, key in enumerate(keys):
            place = f"{list_}[{index}].{attribute}"
            if not _KEY.match(key):
                yield Problem(f"{key!r} should be lower-case letters, digits and underscores", place)
            if list_ in ("images", "fields") and key in RESERVED_NAMES:
                reserved = ", ".join(RESERVED_NAMES)
                yield Problem(f"{key!r} is an argument of `judge` in Python (as are {reserved}); choose another", place)
            if key in keys[:index]:
                yield Problem(f"{key!r} stands here twice", place)
    yield from _check_reserved_keys(rubric)
    yield from _check_numbered_names(rubric)
    if not rubric.images:
        yield Problem("a rubric needs at least one image", "images")
    if rubric.reason.words and not 0 < rubric.reason.words[0] <= rubric.reason.words[1]:
        yield Problem("should be the least and the most words, such as [15, 30]", "reason.words")


def _check_numbered_names(rubric: Rubric) -> Iterator[Problem]:
    """Return the names that a case file uses for one image of several: `reference_1`, `reference_2` …"""
    many = [image.role for image in rubric.images if image.many]
    named = [("images", "role", [image.role for image in rubric.images])]
    named.append(("fields", "name", [field.name for field in rubric.fields]))
    for list_, attribute, names in named:
        for index, name in enumerate(names):
            role, _, number = name.rpartition("_")
            if role in many and number.isdecimal():
                yield Problem(
                    f"{name!r} is how a case file names one of several images {role!r}; choose another",
                    f"{list_}[{index}].{attribute}",
                )


def _check_reserved_keys(rubric: Rubric) -> Iterator[Problem]:
    """Return the keys that would collide with other keys of an answer."""
    if rubric.places and "places" in {finding.key for finding in rubric.findings}:
        yield Problem(
            "'places' is the key of the places of an answer; choose another, or leave out `places`", "findings"
        )
    if "criteria" in {criterion.key for criterion in rubric.criteria}:
        yield Problem("'criteria' is the key that holds the criteria of an answer; choose another", "criteria")
    for index, finding in enumerate(rubric.findings):
        if finding.key in {"criteria", "assessment", "findings", rubric.echo}:
            yield Problem(f"{finding.key!r} is another part of an answer; choose another", f"findings[{index}].key")
    if rubric.echo and (not _KEY.match(rubric.echo) or rubric.echo in {"criteria", "assessment", "findings"}):
        yield Problem(f"{rubric.echo!r} should be a key of its own, such as image_id", "echo")
    if not _KEY.match(rubric.reason.key) or rubric.reason.key in {"score", "assertions"}:
        yield Problem(f"{rubric.reason.key!r} should be a key of its own, such as reason", "reason.key")


def _check_criteria(rubric: Rubric) -> Iterator[Problem]:
    if not rubric.criteria:
        yield Problem("a rubric needs at least one criterion", "criteria")
    for index, criterion in enumerate(rubric.criteria):
        place = f"criteria[{index}]"
        low, high = criterion.scale
        if not _are_finite((low, high)) or low >= high:
            yield Problem(
                f"[{low}, {high}] should be the lowest and the highest score, in this order", f"{place}.scale"
            )
        elif criterion.whole and (low != int(low) or high != int(high)):
            yield Problem(
                f"[{low}, {high}] has no whole ends; say `whole: false` for scores with decimals", f"{place}.scale"
            )
        if criterion.weight > _MAX_NUMBER:
            yield Problem(f"is too large; a weight is at most {_MAX_NUMBER:,}", f"{place}.weight")
        elif not criterion.weight >= 0:
            yield Problem(f"{criterion.weight} should be 0 or more", f"{place}.weight")
        for score in criterion.anchors:
            if not _is_on_scale(score, criterion):
                yield Problem(f"{score!r} is not on the scale {low}–{high}", f"{place}.anchors")
    if rubric.criteria and not any(criterion.weight > 0 for criterion in rubric.criteria):
        yield Problem("at least one weight must be above 0", "criteria")


def _check_assertions(rubric: Rubric) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, criterion in enumerate(rubric.criteria):
        for position, assertion in enumerate(criterion.with_assertion_ids().assertions):
            place = f"criteria[{index}].assertions[{position}]"
            if not assertion.text.strip():
                yield Problem("has no text", place)
            if assertion.id in seen:
                yield Problem(f"the id {assertion.id!r} stands here twice", f"{place}.id")
            seen.add(assertion.id)
            yield from _check_measured(assertion, place)
    if rubric.styles:
        letters = [criterion.letter for criterion in rubric.criteria]
        if not all(letters) or len(set(letters)) < len(letters):
            yield Problem("with `styles: true` each criterion needs a `letter` of its own", "criteria")
        if "style" not in {field.name for field in rubric.fields}:
            yield Problem("with `styles: true` the rubric needs the field `style`", "fields")


def _check_preference(rubric: Rubric) -> Iterator[Problem]:
    """Return what does not fit a rubric that asks which of two candidates is better."""
    roles, names = ({image.role for image in rubric.images}, {field.name for field in rubric.fields})
    in_images, in_fields = set(CANDIDATES) <= roles, set(CANDIDATES) <= names
    if in_images == in_fields or len(set(CANDIDATES) & (roles | names)) < 2 or set(CANDIDATES) & roles & names:
        yield Problem("a preference compares the images `first` and `second`, or the fields of these names", "images")
    for index, image in enumerate(rubric.images):
        label = CANDIDATE_LABELS.get(image.role, image.label)
        if image.label != label:
            yield Problem(f"{image.label!r} should be {label!r}: the answer names it so", f"images[{index}].label")
        if image.role in CANDIDATES and image.many:
            yield Problem("a candidate is one image", f"images[{index}].many")
    for index, field in enumerate(rubric.fields):
        if field.name in CANDIDATES and not field.required:
            yield Problem("a pair needs both candidates", f"fields[{index}].required")
    for name, setting in rubric.settings.items():
        if in_images and not set(CANDIDATES) <= set(setting.images):
            yield Problem("lacks the image of a candidate", f"settings.{name}.images")
    for index, criterion in enumerate(rubric.criteria):
        if criterion.key == "overall":
            yield Problem("'overall' is the choice over all criteria; choose another", f"criteria[{index}].key")
        if criterion.scale not in (PREFERENCE_SCALE, Criterion("").scale):
            yield Problem("a preference has no scale: the answer is A, B, tie or both_bad", f"criteria[{index}].scale")
        for key in ("assertions", "anchors"):
            if getattr(criterion, key):
                yield Problem("scores have these, and a preference has none", f"criteria[{index}].{key}")
    for key, empty in (("findings", ()), ("assessment", ""), ("sisters", ()), ("format", ""), ("styles", False)):
        if getattr(rubric, key) != empty:
            yield Problem("is for scores, and a preference has none", key)
    for key in ("probe", "places"):
        if getattr(rubric, key) is not UNSET:
            yield Problem("is for scores, and a preference has none", key)
    if rubric.scoring != Scoring():
        yield Problem("is for scores: a preference is computed from the choices", "scoring")


def has_probed_images(rubric: Rubric) -> bool:
    """Return whether a rubric has the images, one in each role, that a probe shows crops of."""
    return {image.role for image in rubric.images if not image.many} >= set(PROBED_ROLES)


def _check_probe(rubric: Rubric) -> Iterator[Problem]:
    if rubric.probe is UNSET:
        return
    keys = [question.key for question in rubric.probe]
    if not 0 < len(keys) <= MAX_PROBE_QUESTIONS:
        yield Problem(f"should be 1 to {MAX_PROBE_QUESTIONS} questions, and there are {len(keys)}", "probe")
    if not has_probed_images(rubric):
        yield Problem("needs the images `input` and `edited`, one each: crops of both are shown", "probe")
    for index, question in enumerate(rubric.probe):
        place = f"probe[{index}]"
        if not _KEY.match(question.key):
            yield Problem(f"{question.key!r} should be lower-case letters, digits and underscores", f"{place}.key")
        if question.key in keys[:index]:
            yield Problem(f"{question.key!r} stands here twice", f"{place}.key")
        if question.key == PROBED_REGION:
            yield Problem(f"{question.key!r} is the measurement of what was cropped; choose another", f"{place}.key")
        if not question.question.strip():
            yield Problem("must not be empty", f"{place}.question")
        low, high = question.scale
        if not _are_finite((low, high)) or low >= high:
            yield Problem(f"[{low}, {high}] should be the lowest and the highest answer", f"{place}.scale")


def _check_places(rubric: Rubric) -> Iterator[Problem]:
    alone = {image.role for image in rubric.images if not image.many}
    shown = [setting.images for setting in rubric.settings.values()] or [tuple(alone)]
    if rubric.places and not all(alone.intersection(roles) for roles in shown):
        yield Problem("a place is in an image of a role without `many`, and there is none", "places")


def _check_settings(rubric: Rubric) -> Iterator[Problem]:
    roles = {image.role for image in rubric.images}
    for name, setting in rubric.settings.items():
        for role in setting.images:
            if role not in roles:
                yield Problem(f"{role!r} is not among the images ({_join_names(roles)})", f"settings.{name}.images")


def _check_scoring(rubric: Rubric) -> Iterator[Problem]:
    scoring = rubric.scoring
    asserted = rubric.styles or any(criterion.assertions for criterion in rubric.criteria)
    for key in ("ceiling", "guidance"):
        steps = getattr(scoring, key)
        if steps and not asserted:
            yield Problem("needs assertions: without them nothing can fail", f"scoring.{key}")
        if not _are_finite(steps):
            yield Problem("should be a list of scores", f"scoring.{key}")
        elif list(steps) != sorted(steps, reverse=True):
            yield Problem("should not rise with the number of failures", f"scoring.{key}")
    yield from _check_ceilings(rubric)
    yield from _check_confidence(rubric)
    if scoring.kind is ScoringKind.WEIGHTED_TOTAL:
        for index, criterion in enumerate(rubric.criteria):
            if criterion.scale[0] < 0:
                yield Problem(
                    "a `weighted_total` adds scores up, so they start at 0 or above; `weighted_mean` takes any scale",
                    f"criteria[{index}].scale",
                )
    if scoring.not_applicable is NotApplicable.OFFER and not asserted:
        yield Problem("`offer` needs assertions", "scoring.not_applicable")
    if scoring.threshold is not None and not 0 <= scoring.threshold <= 1:
        yield Problem(f"{scoring.threshold} should be between 0 and 1", "scoring.threshold")
    yield from _check_gates(rubric)
    yield from _check_grades(rubric)


def _check_ceilings(rubric: Rubric) -> Iterator[Problem]:
    """Return the ceilings that are not on the scale of a criterion: they would push its score off the scale."""
    for criterion in rubric.criteria:
        if not (rubric.styles or criterion.assertions):
            continue
        low, high = criterion.scale
        for step in rubric.scoring.ceiling:
            if not low <= step <= high:
                yield Problem(f"{step} is not on the scale {low}–{high} of {criterion.key!r}", "scoring.ceiling")


def _check_confidence(rubric: Rubric) -> Iterator[Problem]:
    if rubric.scoring.criterion_score != "confidence":
        return
    for index, criterion in enumerate(rubric.criteria):
        if not (rubric.styles or criterion.assertions):
            yield Problem("`criterion_score: confidence` needs assertions in every criterion", f"criteria[{index}]")
        if criterion.scale[0] != 0:
            yield Problem(
                "with `criterion_score: confidence` a scale starts at 0: where nothing passes the score is 0",
                f"criteria[{index}].scale",
            )


def _check_gates(rubric: Rubric) -> Iterator[Problem]:
    findings = {finding.key for finding in rubric.findings}
    criteria = {criterion.key for criterion in rubric.criteria}
    for index, gate in enumerate(rubric.scoring.gates):
        place = f"scoring.gates[{index}]"
        if bool(gate.finding) == bool(gate.criterion):
            yield Problem("names either a `finding` or a `criterion`", place)
        elif gate.finding and gate.finding not in findings:
            yield Problem(
                f"{gate.finding!r} is not a finding of this rubric ({_join_names(findings)})", f"{place}.finding"
            )
        elif gate.criterion and gate.criterion not in criteria:
            yield Problem(f"{gate.criterion!r} is not a criterion ({_join_names(criteria)})", f"{place}.criterion")
        elif gate.criterion and (gate.least is None or not _are_finite((gate.least,))):
            yield Problem("needs `least`, the lowest score that passes", place)


def find_idle_limits(rubric: Rubric) -> list[Problem]:
    """Return the gates and the threshold of a valid rubric that fail every case, and the gates that fail none."""
    highest = {criterion.key: _highest_score(rubric, criterion) for criterion in rubric.criteria}
    lowest = {criterion.key: criterion.scale[0] for criterion in rubric.criteria}
    problems: list[Problem] = []
    for index, gate in enumerate(rubric.scoring.gates):
        if gate.least is None or gate.criterion not in highest:
            continue
        place = f"scoring.gates[{index}].least"
        if gate.least > highest[gate.criterion]:
            top = f"{gate.criterion!r} is {highest[gate.criterion]} at most"
            problems.append(Problem(f"no score can meet {gate.least}: {top}, so that every case fails", place))
        elif gate.least <= lowest[gate.criterion]:
            bottom = f"{gate.criterion!r} is {lowest[gate.criterion]} at least"
            problems.append(Problem(f"every score meets {gate.least}: {bottom}, so that no case fails", place))
    threshold, best = rubric.scoring.threshold, _highest_share(rubric)
    if threshold is not None and to_fraction(threshold) > best:
        why = f"the highest is {float(best):.3g}, so that every case fails"
        problems.append(Problem(f"no score can meet {threshold}: {why}", "scoring.threshold"))
    return problems


def _highest_score(rubric: Rubric, criterion: Criterion) -> Number:
    """Return the highest score that a criterion can have: by its scale, its ceiling, or the highest confidence, 1."""
    counted = rubric.styles or criterion.assertions
    if counted and rubric.scoring.criterion_score == "confidence":
        return min(criterion.scale[1], 1)
    return (
        min(criterion.scale[1], rubric.scoring.ceiling[0]) if counted and rubric.scoring.ceiling else criterion.scale[1]
    )


def _highest_share(rubric: Rubric) -> Fraction:
    """Return the highest score of a verdict, 0–1."""
    parts = [(to_fraction(one.weight), one.scale, to_fraction(_highest_score(rubric, one))) for one in rubric.criteria]
    if rubric.scoring.kind is ScoringKind.WEIGHTED_TOTAL:
        possible = sum(weight * to_fraction(scale[1]) for weight, scale, _ in parts)
        return sum((weight * top for weight, _, top in parts), Fraction(0)) / possible
    shares = [
        weight * (top - to_fraction(scale[0])) / (to_fraction(scale[1]) - to_fraction(scale[0]))
        for weight, scale, top in parts
    ]
    return sum(shares, Fraction(0)) / sum(weight for weight, _, _ in parts)


def _lowest_share(rubric: Rubric) -> Fraction:
    """Return the lowest score of a verdict, 0–1: a weighted total is not shifted to begin at 0."""
    if rubric.scoring.kind is not ScoringKind.WEIGHTED_TOTAL:
        return Fraction(0)
    parts = [(to_fraction(one.weight), *map(to_fraction, one.scale)) for one in rubric.criteria]
    return sum((weight * low for weight, low, _ in parts), Fraction(0)) / sum(
        weight * high for weight, _, high in parts
    )


def find_idle_threshold(rubric: Rubric) -> list[Problem]:
    """Return the threshold of a valid rubric if every score meets it."""
    threshold, lowest = rubric.scoring.threshold, _lowest_share(rubric)
    if threshold is None or to_fraction(threshold) > lowest:
        return []
    why = f"the lowest is {float(lowest):.3g}, so that no case fails; leave it out, or give a higher one"
    return [Problem(f"every score meets {threshold}: {why}", "scoring.threshold")]


def find_idle_assertions(rubric: Rubric) -> list[Problem]:
    """Return the criteria of a valid rubric whose score is the judge's own, whatever it answers to their assertions."""
    ceiling = rubric.scoring.ceiling
    if rubric.scoring.criterion_score == "confidence":
        return []
    why = "the ceiling never lowers a score" if ceiling else "there is no `ceiling`"
    return [
        Problem(
            f"no assertion counts in {criterion.key!r}: {why}, so that the judge's own score stands whatever it "
            "answers; give `scoring.ceiling` a lower step for failed assertions, such as [5, 4, 3, 2]",
            f"criteria[{index}].assertions",
        )
        for index, criterion in enumerate(rubric.criteria)
        if (rubric.styles or criterion.assertions) and not any(step < criterion.scale[1] for step in ceiling)
    ]


def _check_grades(rubric: Rubric) -> Iterator[Problem]:
    least = [grade.least for grade in rubric.scoring.grades]
    top = 100 if rubric.scoring.kind is ScoringKind.WEIGHTED_TOTAL else 1
    if not least:
        return
    if not _are_finite(least):
        yield Problem("each `least` should be a number", "scoring.grades")
        return
    if least != sorted(least, reverse=True) or len(set(least)) < len(least):
        yield Problem("should go from the best grade down, each with a lower `least`", "scoring.grades")
    if least[-1] != 0:
        yield Problem("the last grade needs `least: 0`, so that every score has a grade", "scoring.grades")
    if least[0] > top:
        yield Problem(f"{least[0]} is above the highest value, {top}", "scoring.grades[0].least")


def _is_on_scale(score: str, criterion: Criterion) -> bool:
    try:
        return criterion.scale[0] <= float(score) <= criterion.scale[1]
    except ValueError:
        return False


def _are_finite(numbers: Iterable[float]) -> bool:
    """Return whether all are finite and not absurdly large; NaN compares as false."""
    return all(-_MAX_NUMBER <= number <= _MAX_NUMBER for number in numbers)


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "there are none"
