"""Several answers, each checked alone, become one set of observations that is scored once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from random import Random
from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.rubrics.rubric import GateRule, Rubric
from beholder.verdicts.jury import compute_agreement, compute_spread, score_jury
from beholder.verdicts.score import VerdictHeader, make_scored_verdict, read_answer
from beholder.verdicts.verdict import Outcome, Verdict

Answer = Callable[..., dict[str, Any]]
Jury = Callable[..., Verdict]

COUNTS = {"accuracy": 5, "completeness": 5, "relevance": 4, "usefulness": 4, "exceptional": 5}
sets = st.fixed_dictionaries({key: st.text("YN/", min_size=n, max_size=n) for key, n in COUNTS.items()}).filter(
    lambda answers: set("".join(answers.values())) != {"/"}  # where nothing applies there is no score
)
fives = st.fixed_dictionaries(dict.fromkeys(COUNTS, st.integers(1, 5)))


@pytest.fixture(scope="session")
def jury(rubrics: dict[str, Rubric]) -> Jury:
    def make(name: str, answers: Sequence[dict[str, Any] | None], **scoring: object) -> Verdict:
        rubric = rubrics[name].with_scoring(**scoring)
        observed = [None if answer is None else read_answer(rubric, json.dumps(answer)) for answer in answers]
        return score_jury(VerdictHeader("c", rubric, "jury"), observed)

    return make


def test_an_assertion_goes_by_the_majority(jury: Jury, restyle: Answer) -> None:
    made = jury("restyle", [restyle({"accuracy": said}) for said in ("YYYYN", "YNYYN", "YNNYY")])
    answers = [one.answer for one in made.criteria["accuracy"].assertions]
    assert answers == ["yes", "no", "yes", "yes", "no"]
    assert made.flags == ()


def test_a_tie_counts_as_no_and_is_flagged(jury: Jury, restyle: Answer) -> None:
    made = jury("restyle", [restyle({"accuracy": said}) for said in ("YYYYY", "NYYYY")])
    assert made.criteria["accuracy"].assertions[0].answer == "no"
    assert [(flag.flag, flag.at) for flag in made.flags] == [("tie", "A1")]


def test_not_applicable_needs_most_of_the_jury(jury: Jury, restyle: Answer) -> None:
    """Of four: / / / Y is N/A; / / Y N is a tie of those to whom it applies; / / Y Y is Yes; / Y N N is No."""
    jurors = ["///YY", "//YYY", "/YYNY", "YNYNY"]
    made = jury("restyle", [restyle({"accuracy": said}) for said in jurors])
    answers = [one.answer for one in made.criteria["accuracy"].assertions]
    assert answers == ["not_applicable", "no", "yes", "no", "yes"]
    assert [flag.at for flag in made.flags if flag.flag == "tie"] == ["A2", "A4"]


def test_scores_are_medians_and_ceilings_come_after(jury: Jury, restyle: Answer) -> None:
    """Each juror alone keeps its 5; together two assertions failed, and the median 5 is lowered to 3."""
    answers = [
        restyle({"accuracy": said}, {"accuracy": score}) for said, score in (("NNYYY", 5), ("NNYYY", 5), ("YYYYY", 2))
    ]
    made = jury("restyle", answers)
    assert (made.criteria["accuracy"].reported, made.criteria["accuracy"].score) == (5, 3)
    assert [(one.at, one.said, one.stands) for one in made.corrections] == [("accuracy.score", 5, 3)]


def test_between_two_middle_scores_stands_their_mean(jury: Jury, factors: Answer) -> None:
    made = jury("edit-preservation online", [factors((4, 7, 1)), factors((5, 7, 2))])
    assert [one.score for one in made.criteria.values()] == [4.5, 7, 1.5]
    assert made.score == float((Fraction(7, 12) + 1 + Fraction(1, 12)) / 3)


def test_a_list_of_findings_stands_where_most_filled_it(jury: Jury, description: Answer) -> None:
    def answers(*lists: list[str]) -> list[dict[str, Any]]:
        return [description((1, 1, 1, 1), hallucinations=one) for one in lists]

    gate = (GateRule(finding="hallucinations"),)
    made = jury("description", answers(["a cat"], ["A cat", "a dog"], []), gates=gate)
    assert [one.casefold() for one in made.findings["hallucinations"]] == ["a cat", "a dog"]
    assert made.passed is False
    for few in (answers(["a cat"], [], []), answers(["a cat"], [])):
        made = jury("description", few, gates=gate)
        assert made.findings["hallucinations"] == ()
        assert made.passed is True


def test_the_words_beside_a_score_are_those_of_the_nearest_juror(jury: Jury, factors: Answer) -> None:
    made = jury(
        "edit-preservation online", [factors((1, 1, 1), "low"), factors((4, 4, 4), "mid"), factors((7, 7, 7), "high")]
    )
    assert {one.reason for one in made.criteria.values()} == {"mid"}


def test_flags_of_jurors_say_whose_they_are(jury: Jury, factors: Answer) -> None:
    made = jury("edit-preservation online", [factors(), factors((6.0, 4, 4))])
    assert [(flag.flag, flag.at) for flag in made.flags] == [("score_in_odd_form", "juror 2: unchanged_regions.score")]


def test_a_juror_keeps_its_number_when_another_fails(jury: Jury, factors: Answer) -> None:
    odd = factors((6.0, 4, 4))
    for jurors in ([None, factors(), odd], [None, None, odd]):
        made = jury("edit-preservation online", jurors)
        assert [flag.at for flag in made.flags] == ["juror 3: unchanged_regions.score"]


def test_a_jury_that_finds_nothing_applicable_has_no_score(jury: Jury, restyle: Answer) -> None:
    """Each juror finds one thing that applies, another each; of every assertion most say that it does not."""
    jurors = [restyle({key: "/" * n for key, n in COUNTS.items()} | {key: "Y" * COUNTS[key]}) for key in COUNTS]
    made = jury("restyle", jurors)
    assert made.outcome is Outcome.INVALID
    assert made.detail == "nothing in it applies: every assertion is N/A"
    assert made.score is None


def test_one_juror_is_no_jury(jury: Jury, restyle: Answer, verdict: Callable[..., Verdict]) -> None:
    answer = restyle({"accuracy": "NYYYY"}, {"accuracy": 5})
    assert jury("restyle", [answer]).criteria == verdict("restyle", answer).criteria


def test_spread_and_agreement(rubrics: dict[str, Rubric], factors: Answer, restyle: Answer) -> None:
    rubric = rubrics["edit-preservation online"]
    verdicts = []
    for scores in ((1, 4, 7), (3, 4, 6), (7, 4, 7)):
        observed = read_answer(rubric, json.dumps(factors(scores)))
        verdicts.append(make_scored_verdict(VerdictHeader("c", rubric, "j"), observed))
    assert compute_spread(rubric, verdicts) == {
        "unchanged_regions": 6,
        "global_consistency": 0,
        "identity_preservation": 1,
        "score": pytest.approx(15 / 18 - 9 / 18),
    }
    assert compute_agreement([read_answer(rubric, json.dumps(factors()))] * 2) is None
    styled = rubrics["restyle"]
    answers = [read_answer(styled, json.dumps(restyle({"accuracy": said}))) for said in ("YYYYY", "NYYY/")]
    assert compute_agreement(answers) == 21 / 23
    assert compute_agreement(answers[:1]) is None


@settings(max_examples=150, deadline=None)
@given(jurors=st.lists(st.tuples(sets, fives), min_size=1, max_size=5))
def test_any_jury_is_scored_as_by_hand(
    jury: Jury, restyle: Answer, jurors: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    made = jury("restyle", [restyle(answers, scores) for answers, scores in jurors])
    if not made.scored:
        assert "nothing in it applies" in made.detail
        return
    for key, count in COUNTS.items():
        votes = [[answers[key][n] for answers, _ in jurors] for n in range(count)]
        said = [
            "/" if 2 * one.count("/") > len(one) else "Y" if one.count("Y") > one.count("N") else "N" for one in votes
        ]
        result = made.criteria[key]
        assert (result.yes, result.no, result.not_applicable) == tuple(said.count(kind) for kind in "YN/")
        if set(said) == {"/"}:
            assert result.score is None
        else:
            middle = median(Fraction(scores[key]) for _, scores in jurors)
            assert result.score == float(min(middle, (5, 4, 3, 2)[min(said.count("N"), 3)]))


@settings(max_examples=100, deadline=None)
@given(jurors=st.lists(st.tuples(sets, fives), min_size=2, max_size=5), seed=st.randoms())
def test_the_order_of_jurors_does_not_matter(
    jury: Jury, restyle: Answer, jurors: list[tuple[dict[str, Any], dict[str, Any]]], seed: Random
) -> None:
    answers = [restyle(one, scores) for one, scores in jurors]
    shuffled = answers.copy()
    seed.shuffle(shuffled)
    one, other = jury("restyle", answers), jury("restyle", shuffled)
    assert (one.total, one.grade, one.partial) == (other.total, other.grade, other.partial)
