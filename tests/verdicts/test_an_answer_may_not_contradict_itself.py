"""One fact in two places: read where they agree; where they do not, invalid with both named, in any spelling."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.rubrics.rubric import GateRule
from beholder.verdicts.answer_fields import CLAIMS, CONTAINERS, SCORES, WHOLE, has_other_meaning
from beholder.verdicts.verdict import Outcome, Verdict

Json = dict[str, Any]
Answer = Callable[..., Json]
Judge = Callable[..., Verdict]
FINDINGS = ("hallucinations", "missing_elements", "strengths", "improvements")


def invalid(verdict: Verdict) -> str:
    assert verdict.outcome is Outcome.INVALID
    return verdict.detail


def test_a_finding_in_two_places(verdict: Judge, description: Answer) -> None:
    gate = (GateRule(finding="hallucinations"),)
    hidden = description(hallucinations=[], findings={"hallucinations": ["a dog"]})
    told = invalid(verdict("description", hidden, gates=gate))
    assert "hallucinations (0 entries) and findings.hallucinations (1 entry) disagree" in told
    alike = description(hallucinations=["A dog", "a cat "], findings={"hallucinations": ["a cat", "a dog"]})
    made = verdict("description", alike, gates=gate)
    assert verdict("description", description(hallucinations=[" "], findings={"hallucinations": []})).scored
    assert (made.passed, made.findings["hallucinations"]) == (False, ("A dog", "a cat"))


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (
            {"Findings": {"hallucinations": ["a dog"]}},
            "hallucinations (0 entries) and findings.hallucinations (1 entry)",
        ),
        (
            {"findings": {"Hallucinations": ["a dog"]}},
            "hallucinations (0 entries) and findings.hallucinations (1 entry)",
        ),
        (
            {"Scores": {"visual_accuracy": 0.1}},
            "criteria.visual_accuracy.score (0.9) and scores.visual_accuracy (0.1) disagree",
        ),
        ({"findings": ["a dog"]}, "findings should be an object with a list of texts for each of hallucinations, "),
        ({"result": {"hallucinations": ["a dog"]}}, "'hallucinations' should not stand in result"),
        (
            {"result": {"visual_accuracy": 0.1, "hallucinations": ["a dog"]}},
            "'visual_accuracy' should not stand in result",
        ),
        (
            {"evaluation": {"Findings": {"Hallucinations": "a dog"}}},
            "'hallucinations' should not stand in evaluation.f",
        ),
        (
            {"evaluation": [{"criteria": {"visual_accuracy": {"score": 0.1}}}]},
            "'visual_accuracy' should not stand in evaluation.crit",
        ),
        ({"details": {"hallucinations": ["a dog"]}}, "'hallucinations' should not stand in details"),
        ({"summary": {"hallucinations": ["a dog"]}}, "'hallucinations' should not stand in summary"),
    ],
)
def test_a_fact_where_it_is_not_expected(more: Json, complaint: str, verdict: Judge, description: Answer) -> None:
    """Such an answer passed a gate by the empty list that was read."""
    answer = description((0.9, 0.9, 0.9, 0.9), hallucinations=[])
    gates = (GateRule(finding="hallucinations"),)
    assert verdict("description", answer, gates=gates).scored
    assert complaint in invalid(verdict("description", answer | more, gates=gates))


def test_the_spelling_of_a_key_does_not_matter(verdict: Judge, description: Answer) -> None:
    answer = description((0.5, 1, 0, 0.75), hallucinations=["a dog"])
    respelled = {"Criteria" if key == "criteria" else key.title(): value for key, value in answer.items()}
    made, plain = verdict("description", respelled), verdict("description", answer)
    assert (made.score, made.findings, made.criteria) == (plain.score, plain.findings, plain.criteria)
    assert plain.scored


def test_what_a_judge_says_of_its_summary_is_a_claim(verdict: Judge, description: Answer) -> None:
    summary = {"visual_accuracy": 0.5, "hallucinations": "none"}
    assert verdict("description", description(summary=summary, notes={"visual_accuracy": "good"})).scored


def test_a_finding_that_is_null_in_one_place_is_read_in_the_other(verdict: Judge, description: Answer) -> None:
    made = verdict("description", description(hallucinations=None, findings={"hallucinations": ["a dog"]}))
    assert made.findings["hallucinations"] == ("a dog",)
    assert not made.flags


def test_a_score_under_two_names(verdict: Judge, restyle: Answer) -> None:
    answer = restyle(score=5)
    answer["criteria"]["accuracy"]["dimension_score"] = 1
    told = invalid(verdict("restyle", answer))
    assert "criteria.accuracy.score (5) and criteria.accuracy.dimension_score (1) disagree" in told
    answer["criteria"]["accuracy"]["dimension_score"] = "5"
    assert verdict("restyle", answer).criteria["accuracy"].score == 5
    answer["criteria"]["accuracy"]["score"] = None
    assert verdict("restyle", answer).criteria["accuracy"].score == 5


@pytest.mark.parametrize("as_list", [True, False])
def test_assertions_beside_results(as_list: bool, verdict: Judge, restyle: Answer) -> None:
    answer = restyle()
    block = answer["criteria"]["accuracy"]
    for said, outcome in (("no", Outcome.INVALID), ("yes.", Outcome.SCORED)):
        again = {id_: {"answer": said, "evidence": "x"} for id_ in block["assertions"]}
        block["results"] = [{"id": id_, **entry} for id_, entry in again.items()] if as_list else again
        made = verdict("restyle", answer)
        assert made.outcome is outcome
        if made.outcome is Outcome.INVALID:
            for number in range(1, 6):
                one, other = (f"criteria.accuracy.{name}.A{number}.answer" for name in ("assertions", "results"))
                assert f"{one} ('Yes') and {other} ('no') disagree" in made.detail


def test_a_confidence_in_two_places(verdict: Judge, restyle: Answer) -> None:
    answer = restyle(confidence={})
    block = answer["criteria"]["accuracy"]
    block["results"] = {id_: {**entry, "confidence": 1} for id_, entry in block["assertions"].items()}
    told = invalid(verdict("restyle-confidence", answer))
    assert "criteria.accuracy.assertions.A1.confidence (5)" in told
    assert "criteria.accuracy.results.A1.confidence (1)" in told


def test_an_assertion_with_another_id_inside(verdict: Judge, restyle: Answer) -> None:
    answer = restyle()
    answer["criteria"]["accuracy"]["assertions"]["A1"]["id"] = "A2"
    assert "the assertion 'A1' in accuracy has another id inside, 'A2'" in invalid(verdict("restyle", answer))


def test_criteria_in_two_containers(verdict: Judge, factors: Answer) -> None:
    answer = factors((4, 4, 4))
    made = verdict("edit-preservation online", answer | {"online_factor_results": answer["criteria"]})
    assert (made.score, made.flags) == (0.5, ())
    other = factors((4, 4, 7))["criteria"]
    told = invalid(verdict("edit-preservation online", answer | {"online_factor_results": other}))
    place = "identity_preservation.score"
    assert f"criteria.{place} (4) and online_factor_results.{place} (7) disagree" in told
    told = invalid(verdict("edit-preservation online", answer | {"unchanged_regions": 7}))
    assert "criteria.unchanged_regions.score (4) and unchanged_regions (7) disagree" in told
    assert verdict("edit-preservation online", answer | {"unchanged_regions": 4}).scored


def test_what_one_place_lacks_another_may_have(verdict: Judge, restyle: Answer) -> None:
    """A score under `scores` and its assertions under `assertions`, as some judges answer."""
    whole = restyle(scores={"accuracy": 5})
    blocks = whole.pop("criteria")
    parted = whole | {
        "scores": {key: block["score"] for key, block in blocks.items()},
        "assertions": {key: {"results": block["assertions"], "reason": "because"} for key, block in blocks.items()},
    }
    made = verdict("restyle", parted)
    assert (made.criteria["accuracy"].score, made.flags) == (5, ())


@pytest.mark.parametrize(
    ("path", "twin"),
    [
        ((), "Criteria"),
        (("criteria", "accuracy"), "Score"),
        (("criteria", "accuracy", "assertions", "A1"), " answer"),
    ],
)
def test_a_key_in_two_spellings(path: tuple[str, ...], twin: str, verdict: Judge, restyle: Answer) -> None:
    answer = restyle()
    block = answer
    for key in path:
        block = block[key]
    block[twin] = 1
    name = twin.strip().lower()
    assert f"{'.'.join(path) or 'the answer'} holds '{name}' twice, spelled differently" in invalid(
        verdict("restyle", answer)
    )


@pytest.mark.parametrize("compact", [True, False])
def test_an_unknown_criterion_at_the_top_level(compact: bool, verdict: Judge, factors: Answer) -> None:
    answer = factors()
    answer = answer if compact else {"image_id": "case-1", **answer["criteria"]}
    assert verdict("edit-preservation online", answer).scored
    told = invalid(verdict("edit-preservation online", answer | {"vibes": {"score": 7, "justification": "x"}}))
    assert "the criterion 'vibes' is unknown" in told
    made = verdict("edit-preservation online", answer | {"seamlessness": {"score": 7, "justification": "x"}})
    assert [(flag.flag, flag.said) for flag in made.flags] == [("sister_criteria", ["seamlessness"])]


def test_an_unknown_criterion_that_is_a_number_alone(verdict: Judge, description: Answer) -> None:
    answer = description()
    blocks = answer.pop("criteria")
    bare = answer | {key: block["score"] for key, block in blocks.items()}
    whole = {"score": 0.5, "overall": 0.5, "max_score": 1, "confidence": 0.9, "image_id": 12, "passed": False}
    made = verdict("description", bare | whole)
    assert made.scored, made.detail
    assert "the criterion 'vibes' is unknown" in invalid(verdict("description", bare | {"vibes": 0.9}))


def test_an_unknown_criterion_in_another_container(verdict: Judge, factors: Answer) -> None:
    answer = factors() | {"scores": {"vibes": {"score": 7}}}
    assert "the criterion 'vibes' is unknown" in invalid(verdict("edit-preservation online", answer))


def test_what_is_about_the_whole_is_no_criterion(verdict: Judge, factors: Answer) -> None:
    whole = {"overall": {"score": 4}, "summary": {"score": 4}, "final_verdict": {"score": 4}, "notes": {"a": 1}}
    assert verdict("edit-preservation online", factors() | whole).scored


def test_arithmetic_is_checked_in_each_place(verdict: Judge, description: Answer) -> None:
    """What code computes is no fact of the judge: where it is claimed twice, each claim is corrected."""
    made = verdict("description", description(grade="Excellent", summary={"grade": "Poor", "percentage": 50}))
    assert made.scored
    stands = made.grade
    assert stands not in ("Excellent", "Poor")
    assert [(one.at, one.said, one.stands) for one in made.corrections] == [
        ("grade", "Excellent", stands),
        ("summary.grade", "Poor", stands),
    ]


def test_the_first_text_that_is_not_empty_is_read(verdict: Judge, factors: Answer) -> None:
    answer = factors()
    for block in answer["criteria"].values():
        block |= {"reason": block["justification"], "justification": " ", "reasoning": None}
    assert verdict("edit-preservation online", answer).flags == ()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("hallucination", ["a dog"], "hallucination (1 entry)"),
        ("hallucination", "a dog", "hallucination (1 entry)"),
        ("Hallucinations Found", ["a dog"], "hallucinations_found (1 entry)"),
        ("detected_hallucinations", [{"what": "a dog"}], "detected_hallucinations (1 entry)"),
        ("findings", {"hallucination_list": ["a dog"]}, "findings.hallucination_list (1 entry)"),
        ("evaluation", {"hallucinations_found": ["a dog"]}, ""),
    ],
)
def test_a_finding_under_a_name_of_its_own(
    name: str, value: object, told: str, verdict: Judge, description: Answer
) -> None:
    """Such an answer passed a gate by the empty list that was read."""
    gates = (GateRule(finding="hallucinations"),)
    hidden = invalid(verdict("description", description(hallucinations=[]) | {name: value}, gates=gates))
    expected = f"hallucinations (0 entries) and {told} disagree" if told else "should not stand in evaluation"
    assert expected in hidden


@pytest.mark.parametrize(
    "more",
    [
        {"hallucination": []},
        {"hallucination": "None"},
        {"hallucinations_found": [" "]},
        {"no_hallucinations": ["the tree", "the house"]},
        {"hallucination_count": 0},
        {"hallucination_notes": "I looked twice, and found none."},
        {"elements": ["a tree"]},
        {"criteria_weights": [1, 2]},
    ],
)
def test_what_agrees_or_is_something_else_is_no_contradiction(more: Json, verdict: Judge, description: Answer) -> None:
    gates = (GateRule(finding="hallucinations"),)
    made = verdict("description", description((0.9, 0.9, 0.9, 0.9), hallucinations=[]) | more, gates=gates)
    assert made.scored, made.detail
    assert made.findings["hallucinations"] == ()


@pytest.mark.parametrize("name", ["rating", "Score given", "stars", "points", "grade", "overall score"])
def test_a_second_score_under_a_name_of_its_own(name: str, verdict: Judge, restyle: Answer) -> None:
    answer = restyle(score=5)
    block = answer["criteria"]["accuracy"]
    block[name] = 1
    place = f"criteria.accuracy.{name.lower().replace(' ', '_')}"
    assert f"criteria.accuracy.score (5) and {place} (1) disagree" in invalid(verdict("restyle", answer))
    block[name] = "5"
    assert verdict("restyle", answer).criteria["accuracy"].score == 5
    assert "score is missing" in invalid(verdict("restyle", {**answer, "criteria": without_score(answer)}))


def without_score(answer: Json) -> Json:
    return {key: {name: one for name, one in block.items() if name != "score"} for key, block in
            answer["criteria"].items()}  # fmt: skip


@pytest.mark.parametrize(
    "beside",
    [
        *({"max_score": 4}, {"weight": 1}, {"confidence": 3}, {"issues_count": 2}, {"share": 0.5}, {"seen": True}),
        *(
            {"severity": 2},
            {"assertionsFailed": 1},
            {"level": 3},
            {"points_lost": 1},
            {"grade": "C"},
            {"rating": "good"},
        ),
        *({"rating": "good"}, {"rating": "2/10"}, {"rating": 0.2}),  # on another scale
    ],
)
def test_a_number_that_says_what_it_is_is_no_second_score(beside: Json, verdict: Judge, restyle: Answer) -> None:
    answer = restyle(score=5)
    answer["criteria"]["accuracy"] |= beside
    assert verdict("restyle", answer).criteria["accuracy"].score == 5


def test_a_score_at_the_top_level_under_a_name_of_its_own(verdict: Judge, restyle: Answer, factors: Answer) -> None:
    told = invalid(verdict("restyle", restyle(score=5) | {"accuracy_rating": 1}))
    assert "criteria.accuracy.score (5) and accuracy_rating (1) disagree" in told
    assert verdict("restyle", restyle(score=5) | {"accuracy_rating": 5, "accuracy_confidence": 1}).scored
    bare = factors((4, 4, 4))
    bare = {"image_id": "case-1", **{key: block["score"] for key, block in bare["criteria"].items()}}
    told = invalid(verdict("edit-preservation online", bare | {"unchanged_regions_score": 7}))
    assert "unchanged_regions (4) and unchanged_regions_score (7) disagree" in told


@pytest.mark.parametrize(
    ("name", "value"),
    [("clarityScore", 0.1), ("Clarity-Rating", "0.1"), ("RATING_CLARITY", "0.1/1"), ("clarityPoints", "0.1 out of 1")],
)
def test_a_score_in_any_spelling(name: str, value: object, verdict: Judge, description: Answer) -> None:
    told = invalid(verdict("description", description((0.9, 0.9, 0.9, 0.9)) | {name: value}))
    assert "criteria.clarity.score (0.9) and " in told
    assert f"({value!r}) disagree" in told
    camel = {"criteria": {}, **{key: [] for key in FINDINGS}, "visualAccuracy": 0.5, "completeness": 0.5}
    assert verdict("description", camel | {"clarity": 0.5, "relevance": 0.5}).score == 0.5


def test_a_score_out_of_the_scale_beside_it(verdict: Judge, factors: Answer) -> None:
    answer = factors((6, 4, 4))
    block = answer["criteria"]["unchanged_regions"]
    block["rating"] = "1/7"
    place = "criteria.unchanged_regions"
    assert f"{place}.score (6) and {place}.rating ('1/7') disagree" in invalid(
        verdict("edit-preservation online", answer)
    )
    for agrees in ("6/7", "6 out of 7", "6 / 7", "6.0"):
        block["rating"] = agrees
        assert verdict("edit-preservation online", answer).criteria["unchanged_regions"].score == 6


SAID_OF_A_LIST = [
    # name, value, how many entries that says (None: some)
    ("has_hallucinations", True, None),
    ("has_hallucinations", False, 0),
    ("hasHallucinations", "Yes", None),
    ("hallucination", True, None),
    ("hallucination", "no", 0),
    ("hallucinations_found", "yes", None),
    ("hallucination_detected", 1, None),
    ("any_hallucinations", 0, 0),
    ("no_hallucinations", True, 0),
    ("hallucination_free", False, None),
    ("hallucination_count", 3, 3),
    ("hallucinationCount", "2", 2),
    ("num_hallucinations", 1, 1),
    ("number_of_hallucinations", 0, 0),
    ("no_of_hallucinations", 2, 2),
    ("hallucinations_found", 3, 3),
    ("total_hallucinations", 1, 1),
]


@pytest.mark.parametrize(
    "parts",
    [
        {"regions": [{"region": "sky", "has_hallucinations": False}, {"region": "arm", "has_hallucinations": True}]},
        {"sentences": [{"hallucination": "no"}, {"hallucination": "yes"}]},
        {"per_region": {"sky": {"hallucination_count": 0}, "arm": {"hallucination_count": 1}}},
    ],
)
def test_what_is_said_of_a_part_is_not_said_of_the_whole(
    parts: dict[str, Any], verdict: Judge, description: Answer
) -> None:
    answer = description((0.9, 0.9, 0.9, 0.9), hallucinations=["a third hand"]) | parts
    assert verdict("description", answer).scored


@pytest.mark.parametrize(("name", "value", "says"), SAID_OF_A_LIST)
@pytest.mark.parametrize("inside", ["", "findings", "summary", "criteria.visual_accuracy", "analysis"])
@pytest.mark.parametrize("gates", [(GateRule(finding="hallucinations"),), ()])
def test_what_is_said_of_a_list_is_true_of_it(
    name: str,
    value: object,
    says: int | None,
    inside: str,
    gates: tuple[GateRule, ...],
    verdict: Judge,
    description: Answer,
) -> None:
    """An answer with `has_hallucinations: true` passed a gate by the empty list beside it."""
    for length in range(4):
        answer = description((0.9, 0.9, 0.9, 0.9), hallucinations=[f"thing {number}" for number in range(length)])
        write(answer, f"{inside}.{name}".removeprefix("."), value)
        made = verdict("description", answer, gates=gates)
        if length == says or (says is None and length):
            assert made.scored, made.detail
            assert len(made.findings["hallucinations"]) == length
        else:
            entries = "1 entry" if length == 1 else f"{length} entries"
            assert f"hallucinations ({entries}) and " in invalid(made)
            assert f"({value!r}) disagree" in made.detail


def test_a_list_that_is_left_out_is_empty(verdict: Judge, description: Answer) -> None:
    answer = description()
    del answer["strengths"]
    assert verdict("description", answer | {"strengths_count": 0}).scored
    told = invalid(verdict("description", answer | {"strengths_count": 2}))
    assert "strengths (0 entries) and strengths_count (2) disagree" in told


@pytest.mark.parametrize(
    "more",
    [
        {"hallucinations_checked": True},
        {"hallucination_rate": 0},
        {"hallucination_score": 1},
        {"hallucination_severity": 3},
        {"possible_hallucinations": 2},
        {"hallucination_notes": "Yes"},
        {"hallucinations_fixed_count": 2},
        {"has_elements": True},
    ],
)
def test_what_is_said_of_something_else_is_no_contradiction(more: Json, verdict: Judge, description: Answer) -> None:
    made = verdict("description", description((0.9, 0.9, 0.9, 0.9), hallucinations=[]) | more)
    assert made.scored, made.detail


@pytest.mark.parametrize("name", ["overall_score", "overallScore", "final_score", "total_score"])
def test_an_overall_score_is_a_claim_about_what_code_computes(
    name: str, verdict: Judge, description: Answer, restyle: Answer, factors: Answer
) -> None:
    plain = name.replace("S", "_s")

    def corrected(rubric: str, answer: Json, claim: object, inside: str = "") -> list[tuple[str, object, object]]:
        made = verdict(rubric, answer | ({inside: {name: claim}} if inside else {name: claim}))
        assert made.scored, made.detail
        return [(one.at, one.said, one.stands) for one in made.corrections]

    assert corrected("description", description(), 0.9) == [(plain, 0.9, 0.5)]
    if plain == name:
        assert corrected("description", description(), 0.9, "summary") == [(plain, 0.9, 0.5)]
    assert corrected("description", description(), 0.5) == corrected("description", description(), 50) == []
    total = verdict("restyle", restyle()).total
    assert corrected("restyle", restyle(), 12) == [(plain, 12, total)]
    assert corrected("restyle", restyle(), total) == corrected("restyle", restyle(), 80) == []
    # Of factors there is no overall score that could be computed: it is the judge's own.
    assert corrected("edit-preservation online", factors(), 2) == []


@pytest.mark.parametrize("container", ["criteria", "scores", "evaluation"])
def test_criteria_as_a_list_beside_an_object(container: str, verdict: Judge, factors: Answer) -> None:
    answer = factors((4, 4, 4))
    blocks = answer["criteria"]
    own = {"dimensions": blocks}

    def beside(score: int) -> Json:
        listed = [{"name": key.replace("_", " ").title(), **block, "score": score} for key, block in blocks.items()]
        return {container: listed} | own

    told = invalid(verdict("edit-preservation online", beside(7)))
    if container == "evaluation":
        assert "'unchanged_regions' should not stand in evaluation" in told
        return
    assert f"{container}[0].unchanged_regions.score (7) and dimensions.unchanged_regions.score (4) disagree" in told
    made = verdict("edit-preservation online", beside(4))
    assert (made.score, made.flags) == (0.5, ())
    unknown = beside(4)
    unknown[container].append({"name": "vibes", "score": 7})
    assert "the criterion '?' is unknown" in invalid(verdict("edit-preservation online", unknown))


def all_ids(answer: Json) -> list[str]:
    return [id_ for block in answer["criteria"].values() for id_ in block["assertions"]]


def tell_again(said: object, ids: list[str], form: str) -> object:
    """Answers to assertions, once more, in one of the forms that they come in."""
    if form == "by id":
        return dict.fromkeys(ids, said)
    if form == "objects by id":
        return {id_: {"answer": said} for id_ in ids}
    return [{"id": id_, "answer": said, "evidence": "x"} for id_ in ids]


@pytest.mark.parametrize("name", ["results", "assertions", "assertion_results", "checks", "Evaluation", "answers"])
@pytest.mark.parametrize("form", ["by id", "objects by id", "list"])
@pytest.mark.parametrize("by_criterion", [True, False])
def test_assertions_are_answered_again_outside_their_criterion(
    name: str, form: str, by_criterion: bool, verdict: Judge, restyle: Answer
) -> None:
    """Such an answer was scored A+ with every assertion denied beside it."""
    answer = restyle(score=5)
    ids = {key: list(block["assertions"]) for key, block in answer["criteria"].items()}

    def beside(said: object) -> Json:
        if by_criterion:
            return answer | {name: {key: tell_again(said, some, form) for key, some in ids.items()}}
        return answer | {name: tell_again(said, all_ids(answer), form)}

    told = invalid(verdict("restyle", beside("No")))
    for id_ in all_ids(answer):
        assert f".assertions.{id_}.answer ('Yes') and {name.lower()}." in told
    made, plain = verdict("restyle", beside("yes")), verdict("restyle", answer)
    if by_criterion and form != "list" and name not in CONTAINERS:
        assert f"'accuracy' should not stand in {name.lower()}" in invalid(made)
        return
    assert made.scored, made.detail
    assert (made.score, made.grade, made.flags) == (plain.score, plain.grade, plain.flags)


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"A1": "No"}, "A1 ('No')"),
        ({"a1": False}, "A1 (False)"),
        ({"A1_answer": "No"}, "a1_answer ('No')"),
        ({"checks": {"A1": 0}}, "checks.A1 (0)"),
        ({"checks": {"A1": "Fail"}}, "checks.A1 ('Fail')"),
        ({"checks": [{"assertion": "A1", "status": "failed"}]}, "checks.A1.status ('failed')"),
        ({"checks": {"accuracy": ["No", "Yes", "Yes", "Yes", "Yes"]}}, "checks.accuracy.A1 ('No')"),
        ({"accuracy_A1": "No"}, "accuracy_a1 ('No')"),
        ({"no": ["A1"], "yes": ["A2"]}, "no ('A1')"),
        ({"failed_assertions": ["A1"]}, "failed_assertions ('A1')"),
        ({"failed": "A1, A2"}, "failed ('A1')"),
        ({"assertions_not_met": [{"id": "A1", "why": "dark"}]}, "assertions_not_met.A1 ('A1')"),
        ({"failed": {"accuracy": {"A1": "too dark"}}}, "failed.accuracy.A1 ('too dark')"),
        ({"failed": {"A1": True}}, "failed.A1 (True)"),
        ({"summary": {"failures": ["A1"]}}, "summary.failures ('A1')"),
        ({"not_applicable": ["A1"]}, "not_applicable ('A1')"),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
def test_one_assertion_is_denied_elsewhere(
    more: Json, place: str, inside: bool, verdict: Judge, restyle: Answer
) -> None:
    answer = restyle()
    (answer["criteria"]["accuracy"] if inside else answer).update(more)
    before = "criteria.accuracy." if inside else ""
    told = invalid(verdict("restyle", answer))
    assert f"criteria.accuracy.assertions.A1.answer ('Yes') and {before}{place} disagree" in told


@pytest.mark.parametrize("name", ["result", "Verdict", "value", "passed", "is_met", "response", "status", "decision"])
def test_an_assertion_with_two_answers_inside(name: str, verdict: Judge, restyle: Answer) -> None:
    for said, scored in ((False, False), ("No", False), ("fail", False), (True, True), ("Yes.", True), (None, True)):
        answer = restyle()
        answer["criteria"]["accuracy"]["assertions"]["A1"][name] = said
        made = verdict("restyle", answer)
        assert made.scored is scored, (said, made.detail)
        if not scored:
            place = "criteria.accuracy.assertions.A1"
            assert f"{place}.answer ('Yes') and {place}.{name.lower()} ({said!r}) disagree" in made.detail
    answer["criteria"]["accuracy"]["assertions"]["A1"] = {"answer": "No", "evidence": "x", "failed": True, name: False}
    assert verdict("restyle", answer).scored


@pytest.mark.parametrize(
    "more",
    [
        {"passed_assertions": ["A1", "A2"], "failed_assertions": []},
        {"total_assertions": 23, "passed_assertions": 23, "failed": 0, "yes": 23, "no": 0},
        {"confidence": {"A1": 1}, "uncertain": {"A1": False}, "borderline_assertions": ["A1"]},
        {"evidence": {"A1": "No", "A2": "no sign of it"}, "notes": {"A1": "No dog is seen.", "A2": "fine"}},
        {"key_observations": ["A1"], "grades": {"A1": 0}, "previous_answers": {"A1": "No"}},
        {"improvements": "A1 could be better, though it did not fail", "failure_modes": ["A1"]},
    ],
)
def test_what_else_is_said_of_assertions_is_no_contradiction(more: Json, verdict: Judge, restyle: Answer) -> None:
    made = verdict("restyle", restyle() | more)
    assert made.scored, made.detail
    assert made.flags == verdict("restyle", restyle()).flags


def test_answers_alone_in_the_order_of_the_assertions(verdict: Judge, restyle: Answer) -> None:
    answer = restyle()
    block = answer["criteria"]["accuracy"]
    block |= {"answers": ["Yes", "No", "Yes", "Yes", "Yes"], "repeated": [False] * 5}
    told = invalid(verdict("restyle", answer))
    assert "criteria.accuracy.assertions.A2.answer ('Yes') and criteria.accuracy.answers.A2 ('No') disagree" in told
    block["answers"] = ["Yes"] * 5
    assert verdict("restyle", answer).scored


def test_a_boolean_cannot_say_that_an_assertion_does_not_apply(verdict: Judge, restyle: Answer) -> None:
    answer = restyle({"accuracy": "/YYYY"})
    answer["criteria"]["accuracy"]["assertions"]["A1"]["passed"] = False
    assert verdict("restyle", answer | {"checks": {"A1": False}}).scored
    assert "checks.A1 ('No') disagree" in invalid(verdict("restyle", answer | {"checks": {"A1": "No"}}))


def test_a_confidence_outside_the_criterion(verdict: Judge, restyle: Answer) -> None:
    answer = restyle(confidence={})
    outside = [{"id": "A1", "answer": "Yes", "confidence": 1}]
    told = invalid(verdict("restyle-confidence", answer | {"results": outside}))
    assert "criteria.accuracy.assertions.A1.confidence (5) and results.A1.confidence (1) disagree" in told


@pytest.mark.parametrize("inside", ["scores", "ratings", ""])
@pytest.mark.parametrize("name", ["A", "a", "accuracy_score"])
def test_a_score_under_the_letter_of_a_criterion(inside: str, name: str, verdict: Judge, restyle: Answer) -> None:
    answer = restyle(score=5)
    place = f"{inside}.{name.lower()}".removeprefix(".")
    told = invalid(verdict("restyle", answer | ({inside: {name: 1}} if inside else {name: 1})))
    assert f"criteria.accuracy.score (5) and {place} (1) disagree" in told
    made = verdict("restyle", answer | ({inside: {name: 5}} if inside else {name: 5}))
    assert made.scored, made.detail


@pytest.mark.parametrize(
    "more",
    [
        {"beauty": 0.1},
        {"beauty_score": 0.1},
        {"scores": {"beauty": 0.1}},
        {"scores": {"beauty": "0.1"}},
        {"scores": {"beauty": 70}},
        {"results": {"beauty": 0.1}},
        {"ratings": {"beauty": 0.1}},
        {"criterion_scores": {"beauty": 0.1}},
        {"beauty": {"rating": 1}},
        {"scores": {"beauty": {"rating": 1}}},
    ],
)
def test_an_unknown_criterion_as_a_number_beside_the_criteria(more: Json, verdict: Judge, description: Answer) -> None:
    told = invalid(verdict("description", description() | more))
    assert "the criterion 'beauty" in told
    assert "is unknown" in told


@pytest.mark.parametrize(
    "more",
    [
        {"confidence": 0.9, "image_id": 1, "total_assertions": 23, "pass_rate": 1},
        {"weighted_score": 0.5, "normalized_score": 0.5, "composite_score": 0.5, "mean": 0.5, "max_score": 1},
        {"description_score": 0.5, "rating": 1, "stars": 1, "human_rating": 1, "expected_score": 0},
        {"seed": 1, "attempt": 1, "version": 1, "temperature": 0, "duration_seconds": 0.5, "cost_usd": 0.01},
        {"num_people": 1, "faces": 1, "objects": 0, "beauty": 70, "beautiful": True, "year": 0},
        {"scores": {"total": 2, "overall": 0.5, "weighted_score": 0.5, "max_score": 1, "confidence": 1}},
        {"details": {"width": 640, "notes": "plain", "images": 1}, "results": {"passed": 1, "failed": 0, "ok": True}},
        {"evaluation": {"overall": {"score": 1}, "notes": {"a": 1}}, "ratings": {"human": 1}},
        {"metadata": {"width": 640, "beauty": 1}, "usage": {"input_tokens": 1}, "hallucination_score": 1},
    ],
)
def test_a_number_that_is_something_else_is_no_criterion(more: Json, verdict: Judge, description: Answer) -> None:
    made = verdict("description", description() | more)
    assert made.scored, made.detail
    assert made.flags == verdict("description", description()).flags


@dataclass(frozen=True)
class Fact:
    """A fact of an answer in our compact form: its place and value, a value that differs, and other places for it."""

    place: str
    value: object
    other: object
    elsewhere: tuple[str, ...]


ANY_NAME = "∗"  # in a place: a name that nobody publishes
TAKEN = {*CLAIMS, *SCORES, *CONTAINERS, "reason", "reasoning", "justification", "evidence", "question", "findings"}


def is_free(name: str) -> bool:
    return not (has_other_meaning(name) or name.startswith(WHOLE) or name in TAKEN)


any_names = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=10).filter(is_free)


def facts(answer: Json) -> Iterator[Fact]:
    for key, block in answer["criteria"].items():
        own = f"criteria.{key}"
        other = 0.25 if block["score"] != 0.25 else 0.5
        places = (
            *(f"{own}.dimension_score", f"scores.{key}.score", f"details.{key}.score", key),
            *(
                f"{own}.{ANY_NAME}_rating",
                f"{own}.score_{ANY_NAME}",
                f"{key}_{ANY_NAME}_score",
                f"{ANY_NAME}_{key}_points",
            ),
        )
        yield Fact(f"{own}.score", block["score"], 2 if "assertions" in block else other, places)
        for id_ in block.get("assertions", ()):
            again = (
                *(f"{own}.results.{id_}.answer", f"dimensions.{key}.assertions.{id_}.answer"),
                f"{own}.assertions.{id_}.{ANY_NAME}_answer",
                *(f"{own}.assertions.{id_}.{name}" for name in ("result", "verdict", "value", "final_result")),
                *(f"{place}.{id_}" for place in ("results", "checks", "assertion_results", own, f"details.{key}")),
                *(f"{place}.{id_}.answer" for place in ("results", ANY_NAME, f"{own}.checks")),
                *(f"{ANY_NAME}.{id_}.result", id_, f"{id_}.answer", f"{own}.{ANY_NAME}.{id_}"),
            )
            yield Fact(f"{own}.assertions.{id_}.answer", "Yes", "No", again)
    for finding in FINDINGS:
        if finding in answer:
            near = (f"{finding}_{ANY_NAME}", f"{ANY_NAME}_{finding}", f"findings.{finding}_{ANY_NAME}")
            yield Fact(
                finding, answer[finding], ["a unicorn"], (f"findings.{finding}", finding.removesuffix("s"), *near)
            )


def write(answer: Json, place: str, value: object) -> None:
    *path, key = place.split(".")
    for part in path:
        answer = answer.setdefault(part, {})
    answer[key] = value


@settings(max_examples=300, deadline=None)
@given(data=st.data(), name=st.sampled_from(["restyle", "description"]))
def test_any_fact_in_a_second_place(
    data: st.DataObject, name: str, verdict: Judge, restyle: Answer, description: Answer
) -> None:
    answer = restyle() if name == "restyle" else description((0.5, 1, 0, 0.75), strengths=["plain words"])
    plain = verdict(name, answer)
    assert plain.scored
    told = copy.deepcopy(answer)
    contradictions: list[tuple[str, str]] = []
    some = st.lists(st.sampled_from(list(facts(answer))), min_size=1, max_size=4, unique_by=lambda fact: fact.place)
    for fact in data.draw(some):
        place = data.draw(st.sampled_from(fact.elsewhere)).replace(ANY_NAME, data.draw(any_names))
        differs = data.draw(st.booleans())
        write(told, place, fact.other if differs else fact.value)
        contradictions += [(fact.place, place)] if differs else []
    made = verdict(name, told)
    if contradictions:
        complaints = invalid(made).split("; ")
        assert len(complaints) == len(contradictions)
        for place, again in contradictions:
            assert any(one.startswith(f"{place} (") and f" and {again} (" in one for one in complaints), complaints
    else:
        assert made.outcome is Outcome.SCORED, made.detail
        assert (made.criteria, made.findings, made.score) == (plain.criteria, plain.findings, plain.score)
        assert made.flags == plain.flags
