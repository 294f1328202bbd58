"""A judge that may abstain leaves open what it cannot tell; what is left open becomes no score, but a range."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.errors import AnswerError, UsageError
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.jury import combine_observations, compute_agreement
from beholder.verdicts.observe import AnswerContext
from beholder.verdicts.score import VerdictHeader, make_scored_verdict, read_answer, score_answer
from beholder.verdicts.seed_format import to_seed_format
from beholder.verdicts.verdict import MIN_COVERAGE, Coverage, Outcome, Verdict

DIMENSIONS = {"accuracy": ("A", 5), "completeness": ("C", 5), "relevance": ("R", 4), "usefulness": ("U", 4),
              "exceptional": ("E", 5)}  # fmt: skip
SAID = {"Y": "Yes", "N": "No", "/": "N/A", "?": "abstain"}
CEILING, GUIDANCE = (5, 4, 3, 2), (4, 3, 2, 1)
FACTORS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = "fifteen words that say what is seen in the picture and where it is seen"


def measured(answers: dict[str, str], score: object = "abstain") -> str:
    """An answer to `restyle`: "YN??/" by dimension, all Yes where nothing is said."""
    criteria = {
        key: {
            "assertions": {
                f"{letter}{n}": {"answer": SAID[one], "evidence": "top left"}
                for n, one in enumerate(answers.get(key, "Y" * count), 1)
            },
            "score": score,
            "reason": "measured",
        }
        for key, (letter, count) in DIMENSIONS.items()
    }
    return json.dumps({"criteria": criteria, "assessment": "Measured."})


def factors(*scores: object) -> str:
    blocks = {key: {"justification": WORDS, "score": one} for key, one in zip(FACTORS, scores, strict=True)}
    return json.dumps({"criteria": blocks})


@pytest.fixture
def judged(rubrics: dict[str, Rubric]) -> Callable[..., Verdict]:
    def judge(name: str, answer: str, **scoring: object) -> Verdict:
        head = VerdictHeader("c", rubrics[name].with_scoring(**scoring), "instruments")
        return score_answer(head, answer, AnswerContext(may_abstain=True))

    return judge


def test_answers_without_an_opinion_score_what_the_ceiling_allows(judged: Callable[..., Verdict]) -> None:
    made = judged("restyle", measured({"accuracy": "YYNYN", "exceptional": "NNNNY"}))
    assert {key: one.score for key, one in made.criteria.items()} == {
        "accuracy": 3, "completeness": 5, "relevance": 5, "usefulness": 5, "exceptional": 2,
    }  # fmt: skip
    assert made.total == 3 + 5 + 2.5 + 2.5 + 4
    assert (made.coverage, made.total_range) == (None, None)
    assert made.corrections == ()
    assert made.criteria["accuracy"].reported is None


def test_below_the_coverage_there_is_a_range_in_place_of_score_and_grade(judged: Callable[..., Verdict]) -> None:
    made = judged(
        "restyle",
        measured({"accuracy": "YN???", "completeness": "?????", "usefulness": "NYYY", "exceptional": "?????"}),
    )
    assert made.outcome is Outcome.UNMEASURED
    assert made.detail == "only 10 of 23 assertions measured, and a score needs 80 %"
    assert [made.score, made.total, made.percentage, made.grade, made.passed] == [None] * 5
    assert made.coverage == Coverage(10, 23, "assertions")
    accuracy = made.criteria["accuracy"]
    assert (accuracy.score, accuracy.score_range) == (None, (1, 4))  # 1 + 3 failures: guidance 1; 1 failure: ceiling 4
    assert (accuracy.yes, accuracy.no, accuracy.abstained) == (1, 1, 3)
    assert [one.answer for one in accuracy.assertions] == ["yes", "no", "abstained", "abstained", "abstained"]
    assert made.criteria["completeness"].score_range == (1, 5)
    assert (made.criteria["usefulness"].score, made.criteria["usefulness"].score_range) == (4, None)
    assert made.total_range == (1 + 1 + 2.5 + 2 + 2, 4 + 5 + 2.5 + 2 + 10)
    assert made.max_total == 25
    [flag] = [flag for flag in made.flags if flag.flag == "abstained"]
    assert flag.at == "accuracy, completeness, exceptional"
    assert flag.why == "13 of 23 assertions were left open"
    assert not made.partial


def test_from_the_coverage_up_what_was_left_open_leaves_the_denominator(judged: Callable[..., Verdict]) -> None:
    made = judged("restyle", measured({"accuracy": "YN?YY", "relevance": "????"[:3] + "Y"}))
    assert made.coverage == Coverage(19, 23, "assertions")
    assert Fraction(19, 23) >= MIN_COVERAGE
    assert made.criteria["accuracy"].score == 4
    assert made.criteria["accuracy"].score_range == (2, 4)
    assert made.criteria["relevance"].score == 5
    assert made.total == 4 + 5 + 2.5 + 2.5 + 10
    assert made.grade == "A+"
    assert made.total_range == (2 + 5 + 0.5 + 2.5 + 10, 24)


def test_a_dimension_that_is_all_open_leaves_the_total(judged: Callable[..., Verdict]) -> None:
    made = judged("restyle", measured({"relevance": "????", "accuracy": "NNNYY"}))
    assert made.criteria["relevance"].score is None
    assert made.partial
    assert made.total == pytest.approx((2 + 5 + 2.5 + 10) / 22.5 * 25)


def test_n_a_is_no_abstention(judged: Callable[..., Verdict]) -> None:
    made = judged("restyle", measured({"accuracy": "//?YY", "completeness": "/////"}))
    assert made.coverage == Coverage(15, 16, "assertions")
    completeness = made.criteria["completeness"]
    assert (completeness.score, completeness.score_range) == (None, None)
    assert {flag.flag for flag in made.flags} >= {"partial", "abstained"}


def test_factors_have_the_same_rule_and_those_that_were_answered_keep_their_scores(
    judged: Callable[..., Verdict],
) -> None:
    made = judged("edit-preservation online", factors(7, "abstain", 4))
    assert (made.outcome, made.score, made.partial) == (Outcome.UNMEASURED, None, False)
    assert made.coverage == Coverage(2, 3, "factors")
    assert (made.criteria["unchanged_regions"].score, made.criteria["identity_preservation"].score) == (7, 4)
    assert made.criteria["global_consistency"].score is None
    assert made.criteria["global_consistency"].abstained == 1
    assert made.criteria["global_consistency"].score_range == (1, 7)
    assert made.total_range is None


def test_factors_that_are_all_open_have_no_score(judged: Callable[..., Verdict]) -> None:
    made = judged("edit-preservation online", factors("abstain", "abstain", "abstain"))
    assert made.outcome is Outcome.UNMEASURED
    assert made.score is None
    assert made.coverage == Coverage(0, 3, "factors")


def test_a_weighted_mean_needs_its_coverage_too(judged: Callable[..., Verdict]) -> None:
    keys = ("visual_accuracy", "completeness", "clarity", "relevance")
    blocks: dict[str, dict[str, object]] = {key: {"reason": "x", "score": 0.9} for key in keys}
    blocks["visual_accuracy"]["score"] = "abstain"
    lists: dict[str, list[str]] = {
        key: [] for key in ("hallucinations", "missing_elements", "strengths", "improvements")
    }
    text = json.dumps({**lists, "criteria": blocks, "assessment": "x"})
    made = judged("description", text)
    assert (made.score, made.grade, made.passed) == (None, None, None)
    assert made.coverage == Coverage(3, 4, "criteria")
    assert made.criteria["clarity"].score == 0.9


def test_a_failed_gate_fails_a_case_that_has_no_score(judged: Callable[..., Verdict]) -> None:
    from beholder.rubrics.rubric import GateRule

    text = factors(2, "abstain", "abstain")
    made = judged("edit-preservation online", text, gates=(GateRule(criterion="unchanged_regions", least=3),))
    assert made.passed is False
    rule = (GateRule(criterion="accuracy", least=3),)
    assert judged("restyle", measured({"accuracy": "NNN??", "exceptional": "?????"}), gates=rule).passed is None
    assert judged("restyle", measured({"accuracy": "NNNYY", "exceptional": "?????"}), gates=rule).passed is False


@pytest.mark.parametrize("said", ["abstain", "Abstain", "abstained", None])
def test_nobody_else_may_abstain(rubrics: dict[str, Rubric], said: object) -> None:
    with pytest.raises(AnswerError, match="from 1 to 7"):
        read_answer(rubrics["edit-preservation online"], factors(7, said, 4))
    answer = json.loads(measured({}, score=4))
    answer["criteria"]["accuracy"]["assertions"]["A1"]["answer"] = said
    with pytest.raises(AnswerError, match="should be Yes or No"):
        read_answer(rubrics["restyle"], json.dumps(answer))


def test_measurements_are_taken_only_from_a_judge_that_measures(rubrics: dict[str, Rubric]) -> None:
    told = {"a.b": {"value": 0.5, "unit": "ΔE", "sentence": "A half."}, "c.d": {"value": None}, "e.f": "many"}
    text = json.dumps({**json.loads(factors(7, 6, 4)), "measurements": told})
    rubric = rubrics["edit-preservation online"]
    assert read_answer(rubric, text).measurements == {}
    observed = read_answer(rubric, text, AnswerContext(may_abstain=True))
    nothing = {"value": None, "unit": "", "sentence": ""}
    kept = make_scored_verdict(VerdictHeader("c", rubric, "j"), observed).measurements
    assert kept == {"a.b": told["a.b"], "c.d": nothing, "e.f": nothing}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("restyle", measured({"accuracy": "?YYYY"}), "without an answer"),
        ("edit-preservation online", factors(7, "abstain", 7), "is unmeasured"),
    ],
)
def test_the_seed_format_has_no_word_for_it(
    name: str, text: str, why: str, judged: Callable[..., Verdict], rubrics: dict[str, Rubric]
) -> None:
    with pytest.raises(UsageError, match=why):
        to_seed_format(judged(name, text), rubrics[name])


def test_it_reads_back_from_json(judged: Callable[..., Verdict]) -> None:
    made = judged("restyle", measured({"accuracy": "YN???", "exceptional": "?????"}))
    again = Verdict.from_dict(json.loads(json.dumps(made.to_dict())))
    assert again.coverage == made.coverage
    assert again.total_range == made.total_range
    assert again.criteria["accuracy"].score_range == made.criteria["accuracy"].score_range


def test_an_older_verdict_without_the_words_reads_too(judged: Callable[..., Verdict]) -> None:
    values = judged("edit-preservation online", factors(7, 6, 5)).to_dict()
    del values["coverage"], values["total_range"]
    for block in values["criteria"].values():
        del block["abstained"], block["score_range"]
    assert Verdict.from_dict(values).coverage is None


@pytest.mark.parametrize("score", [None, 0.75])
def test_an_older_verdict_that_was_scored_by_too_little_is_unmeasured(
    judged: Callable[..., Verdict], score: float | None
) -> None:
    made = judged("edit-preservation online", factors(7, "abstain", 4))
    older = {**made.to_dict(), "outcome": "scored", "detail": "", "score": score, "partial": score is not None}
    assert Verdict.from_dict(older) == Verdict.from_dict(made.to_dict())


def test_who_abstains_takes_no_part_in_a_jury(rubrics: dict[str, Rubric]) -> None:
    rubric = rubrics["restyle"]
    instruments = read_answer(
        rubric, measured({"accuracy": "N????", "completeness": "?????"}), AnswerContext(may_abstain=True)
    )
    model = read_answer(rubric, measured({"accuracy": "YYYYN"}, score=4))
    together = combine_observations(rubric, [model, instruments])
    made = make_scored_verdict(VerdictHeader("c", rubric, "jury"), together)
    assert made.coverage is None
    assert [one.answer for one in made.criteria["accuracy"].assertions] == ["no", "yes", "yes", "yes", "no"]
    assert made.criteria["accuracy"].score == 3
    assert made.criteria["completeness"].score == 4  # the model's alone
    assert {flag.at for flag in made.flags if flag.flag == "tie"} == {"A1"}
    assert compute_agreement([model, instruments]) == 13 / 14  # of those that both answered


def test_what_all_jurors_leave_open_stays_open(rubrics: dict[str, Rubric]) -> None:
    rubric = rubrics["edit-preservation online"]
    one = read_answer(rubric, factors(7, "abstain", "abstain"), AnswerContext(may_abstain=True))
    other = read_answer(rubric, factors(5, "abstain", 2), AnswerContext(may_abstain=True))
    made = make_scored_verdict(VerdictHeader("c", rubric, "jury"), combine_observations(rubric, [one, other]))
    assert {key: result.score for key, result in made.criteria.items()} == {
        "unchanged_regions": 6, "global_consistency": None, "identity_preservation": 2,
    }  # fmt: skip


ANSWERS = st.fixed_dictionaries({
    key: st.text(st.sampled_from("YN?/"), min_size=count, max_size=count) for key, (_, count) in DIMENSIONS.items()
})  # fmt: skip


def filled(answers: dict[str, str], with_: str) -> dict[str, str]:
    return {key: said.replace("?", with_) for key, said in answers.items()}


@settings(max_examples=300)
@given(answers=ANSWERS)
def test_whatever_the_open_answers_are_the_total_lies_in_its_range(
    answers: dict[str, str], rubrics: dict[str, Rubric]
) -> None:
    head = VerdictHeader("c", rubrics["restyle"], "j")
    made = score_answer(head, measured(answers), AnswerContext(may_abstain=True))
    if made.outcome is Outcome.INVALID:
        assert set("".join(answers.values())) == {"/"}
        return
    asked = "".join(answers.values()).replace("/", "")
    enough = asked.count("?") * 10 <= len(asked) * 2
    assert (made.coverage is None) == ("?" not in asked)
    assert (made.score is not None) == (enough and asked.count("?") < len(asked))
    if made.coverage is None:
        return
    assert made.total_range is not None
    low, high = made.total_range
    for answer in "YN":
        whole = score_answer(head, measured(filled(answers, answer)), AnswerContext(may_abstain=True))
        assert whole.total is not None
        assert low - 1e-9 <= whole.total <= high + 1e-9
    if made.total is not None:
        assert low - 1e-9 <= made.total <= high + 1e-9
    for key, result in made.criteria.items():
        if result.abstained and result.score_range:
            no, open_ = answers[key].count("N"), answers[key].count("?")
            assert result.score_range == (GUIDANCE[min(no + open_, 3)], CEILING[min(no, 3)])
