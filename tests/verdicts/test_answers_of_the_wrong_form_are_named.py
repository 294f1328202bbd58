"""Missing, doubled and unknown parts, wrong types: invalid, with everything that is wrong named at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from beholder.verdicts.verdict import Outcome, Verdict

Answer = Callable[..., dict[str, Any]]
Judge = Callable[..., Verdict]


def invalid(verdict: Verdict) -> str:
    assert verdict.outcome is Outcome.INVALID
    assert (verdict.score, verdict.total, verdict.grade, verdict.passed, dict(verdict.criteria)) == (None,) * 4 + ({},)
    return verdict.detail


def test_everything_that_is_wrong_is_named_at_once(verdict: Judge, restyle: Answer) -> None:
    answer = restyle()
    criteria = answer["criteria"]
    del criteria["relevance"]
    criteria["beauty"] = {"score": 5}
    del criteria["accuracy"]["assertions"]["A3"]
    criteria["accuracy"]["assertions"]["A9"] = {"answer": "Yes", "evidence": "x"}
    criteria["completeness"]["score"] = 6
    criteria["usefulness"]["reason"] = ["x"]
    criteria["exceptional"]["assertions"]["E1"]["answer"] = "Maybe"
    criteria["exceptional"]["assertions"]["E2"]["evidence"] = 5
    answer["assessment"] = {"text": "x"}
    told = invalid(verdict("restyle", answer))
    for complaint in (
        "the criterion 'relevance' is missing",
        "the criterion 'beauty' is unknown",
        "the assertion A3 in accuracy is missing",
        "the assertion 'A9' in accuracy is unknown",
        "completeness.score should be a whole number from 1 to 5 and is 6",
        "usefulness.reason should be a text and is a list",
        "E1.answer should be Yes or No and is 'Maybe'",
        "E2.evidence should be a text and is 5",
        "assessment should be a text and is an object",
    ):
        assert complaint in told


@pytest.mark.parametrize("listed", [True, False])
def test_a_doubled_assertion_is_named(listed: bool, verdict: Judge, restyle: Answer) -> None:
    answer = restyle()
    block = answer["criteria"]["accuracy"]
    entry = {"answer": "Yes", "evidence": "x"}
    if listed:
        block["assertions"] = [{"id": id_, **entry} for id_ in ("A1", "A2", "A3", "A4", "A5", "A5")]
        assert "the assertion A5 in accuracy stands there twice" in invalid(verdict("restyle", answer))
    else:
        text = json.dumps(answer).replace('"A5": {', '"A4": {')
        assert "the key 'A4' stands twice" in invalid(verdict("restyle", text))


@pytest.mark.parametrize("twin", ["Accuracy", "ACCURACY", " accuracy "])
def test_a_doubled_criterion_is_named(twin: str, verdict: Judge, restyle: Answer) -> None:
    answer = restyle()
    answer["criteria"][twin] = answer["criteria"]["accuracy"]
    assert "criteria holds 'accuracy' twice, spelled differently" in invalid(verdict("restyle", answer))


def test_a_key_that_stands_twice_is_named(verdict: Judge, description: Answer) -> None:
    text = json.dumps(description()).replace('"clarity"', '"relevance"')
    assert "the key 'relevance' stands twice in one object" in invalid(verdict("description", text))


def test_keys_of_criteria_may_be_spelled_as_people_spell(verdict: Judge, description: Answer) -> None:
    answer = description((0.1, 0.2, 0.3, 0.4))
    names = {
        "visual_accuracy": "Visual Accuracy",
        "completeness": "COMPLETENESS",
        "clarity": " clarity",
        "relevance": "Relevance",
    }
    answer["criteria"] = {names[key]: block for key, block in answer["criteria"].items()}
    assert verdict("description", answer).criteria["visual_accuracy"].score == 0.1


@pytest.mark.parametrize("answer", [{}, {"criteria": {}}, {"criteria": []}, {"criteria": None}, {"criteria": "none"},
                                    {"a": 1}, {"criteria": {"criteria": {}}}])  # fmt: skip
def test_an_answer_without_criteria_lacks_each(answer: dict[str, Any], verdict: Judge) -> None:
    told = invalid(verdict("edit-fidelity online", answer))
    assert [f"'{key}' is missing" in told for key in ("alignment", "completeness", "plausibility")] == [True] * 3


@pytest.mark.parametrize(
    "listed", [None, [], {}, "Yes", 5, [None], ["Yes"], [[]], {"A1": None}, {"A1": 5}, [{"answer": "Yes"}]]
)
def test_assertions_of_a_wrong_type_are_named(listed: object, verdict: Judge, restyle: Answer) -> None:
    answer = restyle()
    answer["criteria"]["accuracy"]["assertions"] = listed
    assert "in accuracy" in invalid(verdict("restyle", answer)).replace("of accuracy", "in accuracy")


@pytest.mark.parametrize("value", [None, 5, {}, [], "maybe", "", "yes and no", "Yes, mostly", 1])
def test_an_answer_is_yes_or_no(value: object, verdict: Judge, restyle: Answer) -> None:
    answer = restyle()
    answer["criteria"]["accuracy"]["assertions"]["A1"]["answer"] = value
    assert "A1.answer should be Yes or No" in invalid(verdict("restyle", answer))


@pytest.mark.parametrize(
    ("value", "read"), [("yes", "yes"), (" NO. ", "no"), ("Y", "yes"), (True, "yes"), (False, "no")]
)
def test_yes_and_no_are_read_as_people_write_them(value: object, read: str, verdict: Judge, restyle: Answer) -> None:
    answer = restyle()
    answer["criteria"]["accuracy"]["assertions"]["A1"]["answer"] = value
    made = verdict("restyle", answer)
    assert made.criteria["accuracy"].assertions[0].answer == read
    assert [flag.flag for flag in made.flags] == (["answer_as_boolean"] if isinstance(value, bool) else [])


@pytest.mark.parametrize("value", ["none", 5, {"a": 1}, [1], [None], [["a"]], True])
def test_findings_are_lists_of_texts(value: object, verdict: Judge, description: Answer) -> None:
    assert "hallucinations should be a list of texts" in invalid(
        verdict("description", description(hallucinations=value))
    )


def test_a_list_that_was_not_given_is_flagged_unless_a_gate_needs_it(verdict: Judge, description: Answer) -> None:
    from beholder.rubrics.rubric import GateRule

    answer = description((1, 1, 1, 1))
    del answer["hallucinations"]
    assert [(flag.flag, flag.at) for flag in verdict("description", answer).flags] == [
        ("finding_missing", "hallucinations")
    ]
    gated = verdict("description", answer, gates=(GateRule(finding="hallucinations"),))
    assert "hallucinations should be a list" in invalid(gated)


def test_both_settings_in_one_answer(verdict: Judge, factors: Answer) -> None:
    near, far = factors((7, 7, 7))["criteria"], factors((1, 1, 1))["criteria"]
    answer = {"image_id": "x", "online_factor_results": near, "offline_factor_results": far}
    for setting, score in (("online", 1.0), ("offline", 0.0)):
        made = verdict(f"edit-preservation {setting}", answer)
        assert made.score == score
        assert [flag.flag for flag in made.flags] == ["other_setting"]
    del answer["online_factor_results"]
    assert "for another setting" in invalid(verdict("edit-preservation online", answer))


def test_factors_of_sisters_are_set_aside_and_unknown_ones_are_not(verdict: Judge, factors: Answer) -> None:
    answer = factors()
    answer["criteria"] |= {"seamlessness": {"score": 1}, "alignment": {"score": 99}}
    made = verdict("edit-preservation online", answer)
    assert [(flag.flag, flag.said) for flag in made.flags] == [("sister_criteria", ["seamlessness", "alignment"])]
    answer["criteria"]["vibes"] = {"score": 7}
    assert "'vibes' is unknown" in invalid(verdict("edit-preservation online", answer))


def test_what_is_only_odd_is_flagged_and_the_scores_stand(verdict: Judge, factors: Answer, restyle: Answer) -> None:
    made = verdict("edit-preservation online", factors(reason="too short"), label="case-2")
    assert [flag.flag for flag in made.flags] == ["reason_length"] * 3 + ["label_differs"]
    assert verdict("edit-preservation online", factors(), label="case-1").flags == ()
    assert [flag.flag for flag in verdict("edit-preservation online", factors(reason=" ")).flags] == [
        "empty_reason"
    ] * 3
    answer = restyle()
    answer["criteria"]["accuracy"]["assertions"]["A1"] |= {"evidence": " ", "question": "Is it quite another question?"}
    answer["assessment"] = ""
    made = verdict("restyle", answer)
    assert sorted(flag.flag for flag in made.flags) == ["assessment_missing", "empty_evidence", "question_differs"]
    assert made.total == 20


def test_an_answer_with_thousands_of_mistakes_is_told_the_first_fifty(verdict: Judge, restyle: Answer) -> None:
    answer = restyle()
    answer["criteria"]["accuracy"]["assertions"] = [{"id": f"X{n}"} for n in range(20_000)]
    answer["criteria"] |= {f"c{n}": 1 for n in range(20_000)}
    told = invalid(verdict("restyle", answer))
    assert told.endswith("more")
    assert told.count(";") == 50


def test_one_word_is_one_word(verdict: Judge, factors: Answer) -> None:
    assert {flag.why for flag in verdict("edit-preservation online", factors(reason="fine")).flags} == {
        "1 word; 15 to 30 were asked for"
    }


def test_a_number_with_thousands_of_digits_is_told_in_plain_words(verdict: Judge, factors: Answer) -> None:
    text = json.dumps(factors((777, 4, 4))).replace("777", "9" * 5000)
    made = verdict("edit-preservation online", text)
    assert made.detail == "the answer holds a number that cannot be read: it has thousands of digits"
