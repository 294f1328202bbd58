"""A person is a judge: the same rubric, the same checks, the same scores; and nothing that was answered is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from review_making import EDIT, RUN, answers, edits, families, restyles, styled

from beholder.errors import UsageError
from beholder.ledger import Ledger
from beholder.rubrics.library import load
from beholder.runs.review_orders import Order
from beholder.runs.review_sheet import OPEN, answers_of, assertion_name, score_name, verdict_of
from beholder.runs.reviewing import (
    _issued,
    case_of,
    find_or_start,
    keep_draft,
    label_of,
    next_case,
    progress,
    rate,
    rating,
    review_at,
    reviews_of,
)
from beholder.verdicts.model import Outcome

CASE = "photo-00000/model-a"
NAMES = ["Ana", '<script>alert("x")</script>', "../../etc/passwd", "'; DROP TABLE runs; --", "名前", "a" * 64]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_name_whatever_stands_in_it(tmp_path: Path, name: str) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start(ledger, RUN, name)
        [verdict] = rate(ledger, review, CASE, answers())
        assert (review.rater, verdict.judge) == (name, f"person:{name}")
        assert review_at(ledger, review.id) == review
        assert [one.rater for one in reviews_of(ledger, RUN)] == [name]


@pytest.mark.parametrize("name", ["", "  ", "a" * 65, "two\x00", "turned\u202e", "sk-proj-0123456789abcdefghij"])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with edits(tmp_path / "ledger.db") as ledger, pytest.raises(UsageError):
        find_or_start(ledger, RUN, name)


def test_there_is_one_review_for_each_rater_and_run(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        first = find_or_start(ledger, RUN, "Ana Maria")
        assert find_or_start(ledger, RUN, " ana  maria ") == first
        assert find_or_start(ledger, RUN, "Bo") != first
        assert len(reviews_of(ledger, RUN)) == 2
        with pytest.raises(UsageError, match="is a review itself"):
            find_or_start(ledger, first.id, "Bo")
        with pytest.raises(UsageError, match="is no review"):
            review_at(ledger, RUN)


def test_the_latest_run_is_the_one_that_is_rated(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start(ledger, RUN, "Ana")
        assert ledger.run("latest").id == RUN
        assert ledger.run(review.id).tags == ("review",)


def test_answers_are_checked_and_scored_like_any_judges(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start(ledger, RUN, "Ana")
        [verdict] = rate(ledger, review, CASE, {**answers(5), "comment": "The sky is odd."})
        assert verdict.score == pytest.approx(4 / 6)
        assert verdict.assessment == "The sky is odd."
        assert verdict.flags == ()
        kept = ledger.verdict(review.id, CASE)
        assert [one.to_dict() for one in kept] == [
            {**verdict.to_dict(), "images": kept[0].to_dict()["images"], "brief_digest": kept[0].brief_digest}
        ]
        assert kept[0].images == ledger.verdict(RUN, CASE)[0].images
        assert ledger.case(review.id, CASE) == ledger.case(RUN, CASE)
        assert (ledger.run(review.id).spent_usd, ledger.run(review.id).unpriced) == (0, 0)


@pytest.mark.parametrize("wrong", ["9", "0", "4.5", "nan", "inf", "1e999", "five", "-1", "١"])
def test_what_the_scale_has_not_is_refused_and_nothing_is_written(tmp_path: Path, wrong: str) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start(ledger, RUN, "Ana")
        given = answers(5) | {f"{EDIT}:unchanged_regions": wrong}
        if wrong == "١":  # a digit of another script: float() takes it for 1, and so it is
            assert rate(ledger, review, CASE, given)[0].criteria["unchanged_regions"].score == 1
            return
        with pytest.raises(UsageError, match="unchanged_regions"):
            rate(ledger, review, CASE, given)
        assert list(ledger.verdicts(review.id)) == []


def test_nothing_answered_is_no_rating(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start(ledger, RUN, "Ana")
        with pytest.raises(UsageError, match="Nothing is answered"):
            rate(ledger, review, CASE, {"stranger": "5", f"{EDIT}:unchanged_regions": "  "})


def test_na_leaves_open_and_the_rest_counts(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start(ledger, RUN, "Ana")
        given = {f"{EDIT}:unchanged_regions": "7", f"{EDIT}:global_consistency": OPEN}
        [verdict] = rate(ledger, review, CASE, given)
        assert verdict.scored
        assert verdict.score == 1
        assert [verdict.criteria[key].score for key in verdict.criteria] == [7, None, None]
        assert verdict.coverage is not None
        assert (verdict.coverage.measured, verdict.coverage.of) == (1, 3)
        [nothing] = rate(ledger, review, CASE, dict.fromkeys(answers(), OPEN))
        assert (nothing.scored, nothing.score) == (True, None)


def test_failed_assertions_lower_a_persons_score_too() -> None:
    rubric = styled()
    accuracy = rubric.criteria[0]
    given = answers(5, rubric) | {assertion_name(rubric, accuracy, accuracy.assertions[0]): "no"}
    verdict = verdict_of(rubric, "x", "person:Ana", given)
    assert (verdict.criteria["accuracy"].score, verdict.criteria["accuracy"].reported) == (4, 5)
    assert [one.at for one in verdict.corrections] == ["accuracy.score"]


def test_a_score_without_answers_to_assertions_stands() -> None:
    rubric = styled()
    given = {score_name(rubric, criterion): "5" for criterion in rubric.criteria}
    verdict = verdict_of(rubric, "x", "person:Ana", given)
    assert (verdict.score, verdict.grade, verdict.corrections) == (1.0, "A+", ())


def test_na_is_the_rubrics_own_where_it_offers_that() -> None:
    rubric = styled()
    given = answers(5, rubric)
    offered = [(criterion, one) for criterion in rubric.criteria for one in criterion.assertions if one.applies]
    assert offered
    given |= {assertion_name(rubric, *one): OPEN for one in offered}
    verdict = verdict_of(rubric, "x", "person:Ana", given)
    assert (verdict.score, verdict.coverage) == (1.0, None)
    assert sum(one.not_applicable for one in verdict.criteria.values()) == len(offered)


def test_a_case_with_several_rubrics_is_rated_by_all(tmp_path: Path) -> None:
    with families(tmp_path / "ledger.db") as ledger:
        review = find_or_start(ledger, RUN, "Ana")
        there = rating(ledger, review, CASE)
        given = {name: text for rubric in there.sheet.rubrics for name, text in answers(6, rubric).items()}
        verdicts = rate(ledger, review, CASE, given)
        assert [one.rubric for one in verdicts] == [EDIT, "edit-quality", "edit-fidelity"]
        assert progress(ledger, review).rated == 1
        assert next_case(ledger, review, Order()) is None
        assert ledger.run(review.id).state == "finished"


def test_what_was_begun_is_kept_and_gone_on_with(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start(ledger, RUN, "Ana")
        third = "photo-00003/model-a"
        given = {f"{EDIT}:unchanged_regions": "2", "comment": "hm"}
        assert keep_draft(ledger, review, third, given)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert next_case(ledger, review, Order()) == third
        assert rating(ledger, review, third).answers == given
        assert not rating(ledger, review, third).saved
        assert progress(ledger, review).rated == 0
        [draft] = ledger.verdicts(review.id)
        assert (draft.outcome, draft.score) == (Outcome.INTERRUPTED, None)


def test_a_late_draft_never_takes_the_place_of_what_was_saved(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start(ledger, RUN, "Ana")
        keep_draft(ledger, review, CASE, answers(3))
        rate(ledger, review, CASE, answers(6))
        assert not keep_draft(ledger, review, CASE, answers(2))
        [verdict] = ledger.verdicts(review.id)
        assert verdict.criteria["unchanged_regions"].score == 6


def test_a_rating_can_be_changed_and_says_so(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start(ledger, RUN, "Ana")
        rate(ledger, review, CASE, answers(6) | {"comment": "good"})
        assert rating(ledger, review, CASE).answers == answers(6) | {"comment": "good"}
        rate(ledger, review, CASE, answers(2))
        [verdict] = ledger.verdicts(review.id)
        assert verdict.criteria["unchanged_regions"].score == 2
        assert [flag.flag for flag in verdict.flags] == ["rating_changed"]
        assert progress(ledger, review).rated == 1


def test_two_raters_do_not_meet(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        ana, bo = (find_or_start(ledger, RUN, name) for name in ("Ana", "Bo"))
        rate(ledger, ana, CASE, answers(6))
        keep_draft(ledger, bo, CASE, answers(2))
        assert (progress(ledger, ana).rated, progress(ledger, bo).rated) == (1, 0)
        assert rating(ledger, bo, CASE).answers == answers(2)
        assert label_of(ana, CASE) != label_of(bo, CASE)


def test_a_label_stands_for_its_case_in_the_next_process_too(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start(ledger, RUN, "Ana")
        label = label_of(review, CASE)
        _issued.clear()
        assert case_of(ledger, review, label) == CASE
        with pytest.raises(UsageError, match="There is no case"):
            case_of(ledger, review, label[:-1])


def test_what_is_passed_over_comes_again(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db", 8) as ledger:
        review = find_or_start(ledger, RUN, "Ana")
        first = next_case(ledger, review, Order())
        assert first is not None
        seen = [first]
        while (case := next_case(ledger, review, Order(), after=seen[-1])) not in seen:
            assert case is not None
            seen.append(case)
        assert len(seen) == 8
        for case in seen[1:]:
            rate(ledger, review, case, answers())
        assert next_case(ledger, review, Order(), after=seen[0]) is None
        assert next_case(ledger, review, Order()) == first


def test_a_users_own_styles_ask_what_they_asked(tmp_path: Path) -> None:
    with restyles(tmp_path / "ledger.db", "Anime") as ledger:
        record = ledger.run(RUN)
        there = rating(ledger, find_or_start(ledger, record.id, "Ana"), CASE)
        asked = [one.text for criterion in there.sheet.rubrics[0].criteria for one in criterion.assertions]
        assert asked == [one.text for criterion in styled().criteria for one in criterion.assertions]


_STYLED, _EDIT = styled("Pop Art"), load(EDIT)
SAID = st.sampled_from(["", OPEN, "1", "3", "5"])
TICKED = st.sampled_from(["", "yes", "no", OPEN])


@given(st.data())
def test_a_rating_that_is_opened_and_saved_again_is_the_same(data: st.DataObject) -> None:
    rubric = _STYLED
    given_ = {}
    for criterion in rubric.criteria:
        given_[score_name(rubric, criterion)] = data.draw(SAID)
        for one in criterion.assertions:
            given_[assertion_name(rubric, criterion, one)] = data.draw(TICKED)
    given_ = {name: text for name, text in given_.items() if text}
    verdict = verdict_of(rubric, "x", "person:Ana", given_)
    if not verdict.scored:
        return
    again = verdict_of(rubric, "x", "person:Ana", answers_of(rubric, verdict))
    assert again.to_dict() == verdict.to_dict()


@given(st.dictionaries(st.sampled_from([*answers(), "comment"]), st.text(max_size=12)))
def test_any_answers_end_in_a_verdict(given_: dict[str, str]) -> None:
    verdict = verdict_of(_EDIT, "x", "person:Ana", given_)
    assert verdict.outcome in (Outcome.SCORED, Outcome.INVALID)
