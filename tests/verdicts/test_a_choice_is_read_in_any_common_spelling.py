"""Answers to a preference are read in our form and in those of others; what contradicts itself is invalid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.preferences import EDIT, choose, without_texts

from beholder import Outcome, score
from beholder.errors import AnswerError
from beholder.verdicts.observe import AnswerContext
from beholder.verdicts.preference import combine_juror_choices, combine_order_choices, read_choice_word
from beholder.verdicts.score import VerdictHeader, read_answer, score_answer
from beholder.verdicts.verdict import WINNERS, Verdict

RECORDED = AnswerContext(any_form=True)
MIRROR = {"first": "second", "second": "first"}


def verdict_on(answer: str | dict[str, Any], order: str = "given") -> Verdict:
    return score_answer(VerdictHeader("c1", EDIT, "recorded", order), answer, RECORDED)


def winner_of(answer: str | dict[str, Any], order: str = "given") -> str | None:
    verdict = verdict_on(answer, order)
    assert verdict.preference is not None, verdict.detail
    return verdict.preference.winner


@pytest.mark.parametrize(
    ("text", "winner"),
    [
        ("[[A>B]]", "first"),
        ("The light fits better.\n\nMy final verdict is: [[B>A]]", "second"),
        ("[[A=B=Good]]", "tie"),
        ("[[A=B=Bad]]", "both_bad"),
        ("[[A=B]]", "tie"),
        ("[[A]]", "first"),
        ("[[C]]", "tie"),
        ("[[A>>B]]", "first"),
        ("[[A>B]] … so again [[A > B]]", "first"),
        ("<think>[[A>B]]? No.</think> [[B>A]]", "second"),
        ("<think>{a} [[A>B]]? No.</think> [[B>A]]", "second"),
        ('{"winner": "A"}', "first"),
        ('{"choice": "Candidate B", "reason": "sharper"}', "second"),
        ('{"preference": "tie (bothbad)"}', "both_bad"),
        ('{"overall": "neither"}', "both_bad"),
        ('{"overall": {"winner": "Image 2"}}', "second"),
        ('{"verdict": "[[A=B=Bad]]"}', "both_bad"),
        ('```json\n{"better": "a"}\n```', "first"),
    ],
)
def test_the_spellings_of_others(text: str, winner: str) -> None:
    assert winner_of(text) == winner
    assert winner_of(text, "swapped") == MIRROR.get(winner, winner)


def test_two_brackets_say_how_far() -> None:
    preference = verdict_on("[[A>>B]]").preference
    assert preference is not None
    assert preference.strength == 3
    plain = verdict_on("[[A>B]]").preference
    assert plain is not None
    assert plain.strength is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("[[A>B]] or rather [[B>A]]", "contradicts itself"),
        ('{"winner": "A", "choice": "B"}', "disagree"),
        ('{"overall": {"choice": "A"}, "winner": "B"}', "disagree"),
        ('{"choice": "A"} [[B>A]]', "disagree"),
        (
            '{"criteria": {"followed": "A", "preserved": "A", "natural": "A"}, "natural": "B", "overall": "A"}',
            "disagree",
        ),
        ('{"winner": "the left one"}', "should be A, B, tie or both_bad and is 'the left one'"),
        ('{"winner": 7}', "should be A, B, tie or both_bad and is 7"),
        ('{"winner": "A", "Winner": "A"}', "twice"),
        ('{"winner": "A", "strength": 4}', "should be 1, 2 or 3"),
        ('{"winner": "A", "strength": 0}', "should be 1, 2 or 3"),
        ('{"winner": "A", "criteria": {"followed": "A"}}', "the criterion 'preserved' is missing"),
        ('{"winner": "A", "criteria": {"followed": "A", "preserved": "A", "natural": "A", "price": "B"}}', "unknown"),
        ("both are fine", "no JSON object"),
        ('{"criteria": {}}', "overall is missing"),
        ('[[A>B]] {"winner": ', "JSON"),
    ],
)
def test_what_is_wrong_is_named(answer: str, words: str) -> None:
    verdict = verdict_on(answer)
    assert verdict.outcome is Outcome.INVALID
    assert words in verdict.detail
    assert verdict.score is None


def test_a_mark_that_a_reason_quotes_is_no_vote() -> None:
    answer = choose("A")
    answer["overall"]["reason"] = "the candidate has the writing [[B>A]] on its wall"
    assert winner_of(json.dumps(answer)) == "first"


def test_our_own_prompt_asks_for_every_criterion() -> None:
    with pytest.raises(AnswerError, match="the criterion 'followed' is missing"):
        read_answer(EDIT, "[[A>B]]", AnswerContext())


def test_missing_reasons_and_strengths_are_asked_for_once_and_flagged_then() -> None:
    bare = without_texts(choose("A"))
    del bare["overall"]["strength"]
    with pytest.raises(AnswerError) as caught:
        read_answer(EDIT, json.dumps(bare), AnswerContext(needs_texts=True))
    assert "overall.strength is missing" in str(caught.value)
    assert "natural.reason is missing" in str(caught.value)
    observed = read_answer(EDIT, json.dumps(bare), AnswerContext())
    assert {flag.flag for flag in observed.flags} == {"empty_reason", "strength_missing"}
    assert observed.overall is not None
    assert observed.overall.strength is None


def test_a_strength_beside_a_tie_is_ignored_and_flagged() -> None:
    answer = choose("tie")
    answer["overall"]["strength"] = 2
    verdict = verdict_on(answer)
    assert [flag.flag for flag in verdict.flags] == ["strength_ignored"]
    assert verdict.preference is not None
    assert verdict.preference.strength is None


def test_criteria_have_a_choice_and_a_number() -> None:
    verdict = verdict_on(choose("B", 3, followed="A", natural="tie"), "swapped")
    assert {key: (one.choice, one.score) for key, one in verdict.criteria.items()} == {
        "followed": ("second", -3),
        "preserved": ("first", 3),
        "natural": ("tie", 0),
    }
    assert (verdict.score, verdict.score_derived, verdict.passed) == (1.0, True, None)
    values = verdict.to_dict()
    assert Verdict.from_dict(values).preference == verdict.preference


def test_recorded_answers_are_scored() -> None:
    lines = [{"case": "c1", "answer": "[[A>B]]", "judge": "gpt"}, {"case": "c2", "answer": "[[A=B=Bad]]"}]
    result = score([*lines, {"case": "c3", "answer": "[[A>B]] [[B>A]]"}], "edit-preference")
    found = {one.case: (str(one.outcome), one.preference.winner if one.preference else None) for one in result}
    assert found == {"c1": ("scored", "first"), "c2": ("scored", "both_bad"), "c3": ("invalid", None)}


@given(st.lists(st.sampled_from(WINNERS), min_size=1, max_size=7))
def test_combining_is_symmetric_in_the_candidates(choices: Sequence[str]) -> None:
    mirrored = [MIRROR.get(one, one) for one in choices]
    for combine in (combine_order_choices, combine_juror_choices):
        choice, flag = combine(choices)
        assert combine(mirrored) == (MIRROR.get(choice, choice), flag)
        assert combine([*reversed(choices)]) == (choice, flag)


@given(st.text(max_size=30))
def test_any_word_is_a_choice_or_none(word: str) -> None:
    assert read_choice_word(word) in ("A", "B", "tie", "both_bad", None)


@given(st.text(max_size=200))
def test_any_answer_ends_in_a_verdict(text: str) -> None:
    assert verdict_on(text).outcome in (Outcome.SCORED, Outcome.INVALID, Outcome.REFUSED)


def test_an_answer_with_thousands_of_mistakes_is_told_the_first_fifty() -> None:
    answer = choose("A")
    answer["criteria"] |= {f"c{number}": "A" for number in range(20_000)}
    told = verdict_on(answer).detail
    assert told.endswith("and 19,950 more")
    assert told.count(";") == 50


def test_keys_that_stand_twice_and_reasons_are_checked_as_in_scores() -> None:
    answer = choose("A", natural="B")
    answer["criteria"]["natural"] |= {"Choice": "B", "reason": 7}
    told = verdict_on(answer).detail
    assert "criteria.natural holds 'choice' twice, spelled differently" in told
    assert "natural.reason should be a text and is 7" in told
