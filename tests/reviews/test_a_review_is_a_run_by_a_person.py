"""A person is a judge: the same rubric, the same checks, the same scores; and nothing that was answered is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection
from support.reviews import EDIT, RUN, answers, edits, families, restyles, styled

from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry
from beholder.reviews.review import (
    ReviewOrder,
    ReviewOrderKind,
    case_from_label,
    case_label,
    find_next_case,
    find_or_start_review,
    list_reviews,
    load_review,
    read_review_progress,
)
from beholder.reviews.sheet import (
    OPEN_ANSWER,
    answers_from_verdict,
    assertion_name,
    load_rating,
    record_draft,
    record_rating,
    score_answers,
    score_name,
)
from beholder.rubrics.load import load_rubric
from beholder.verdicts.verdict import Flag, Outcome

CASE = "photo-00000/model-a"
NAMES = ["Ana", '<script>alert("x")</script>', "../../etc/passwd", "'; DROP TABLE runs; --", "名前", "a" * 64]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_name_whatever_stands_in_it(tmp_path: Path, name: str) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, name)
        [verdict] = record_rating(ledger, review, CASE, answers())
        assert (review.rater, verdict.judge) == (name, f"person:{name}")
        assert load_review(ledger, review.id) == review
        assert [one.rater for one in list_reviews(ledger, RUN)] == [name]


@pytest.mark.parametrize("name", ["", "  ", "a" * 65, "two\x00", "turned\u202e", "sk-proj-0123456789abcdefghij"])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with edits(tmp_path / "ledger.db") as ledger, pytest.raises(UsageError):
        find_or_start_review(ledger, RUN, name)


def test_there_is_one_review_for_each_rater_and_run(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        first = find_or_start_review(ledger, RUN, "Ana Maria")
        assert find_or_start_review(ledger, RUN, " ana  maria ") == first
        assert find_or_start_review(ledger, RUN, "Bo") != first
        assert len(list_reviews(ledger, RUN)) == 2
        with pytest.raises(UsageError, match="is a review itself"):
            find_or_start_review(ledger, first.id, "Bo")
        with pytest.raises(UsageError, match="is no review"):
            load_review(ledger, RUN)


def test_the_latest_run_is_the_one_that_is_rated(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        assert ledger.run("latest").id == RUN
        assert ledger.run(review.id).tags == ("review",)


def test_answers_are_checked_and_scored_like_any_judges(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        [verdict] = record_rating(ledger, review, CASE, {**answers(5), "comment": "The sky is odd."})
        assert verdict.score == pytest.approx(4 / 6)
        assert verdict.assessment == "The sky is odd."
        assert verdict.flags == ()
        kept = ledger.verdict(review.id, CASE)
        assert [one.to_dict() for one in kept] == [
            {**verdict.to_dict(), "images": kept[0].to_dict()["images"], "brief_digest": kept[0].brief_digest}
        ]
        assert kept[0].images == ledger.verdict(RUN, CASE)[0].images
        assert ledger.case(review.id, CASE) == ledger.case(RUN, CASE)
        assert ledger.run(review.id).spent_usd == 0
        assert ledger.run(review.id).unpriced == 0


@pytest.mark.parametrize("wrong", ["9", "0", "4.5", "nan", "inf", "1e999", "five", "-1", "٩"])
def test_what_the_scale_has_not_is_refused_and_nothing_is_written(tmp_path: Path, wrong: str) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        given = answers(5) | {f"{EDIT}:unchanged_regions": wrong}
        with pytest.raises(UsageError, match="unchanged_regions"):
            record_rating(ledger, review, CASE, given)
        assert list(ledger.verdicts(review.id)) == []


def test_a_digit_of_another_script_is_that_digit(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        [verdict] = record_rating(ledger, review, CASE, answers(5) | {f"{EDIT}:unchanged_regions": "١"})
        assert verdict.criteria["unchanged_regions"].score == 1


def test_nothing_answered_is_no_rating(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        with pytest.raises(UsageError, match="Nothing is answered"):
            record_rating(ledger, review, CASE, {"stranger": "5", f"{EDIT}:unchanged_regions": "  "})


def test_na_leaves_open_and_the_rest_counts(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        given = {f"{EDIT}:unchanged_regions": "7", f"{EDIT}:global_consistency": OPEN_ANSWER}
        [verdict] = record_rating(ledger, review, CASE, given)
        assert (verdict.outcome, verdict.score) == (Outcome.UNMEASURED, None)
        assert [verdict.criteria[key].score for key in verdict.criteria] == [7, None, None]
        assert verdict.coverage is not None
        assert (verdict.coverage.measured, verdict.coverage.of) == (1, 3)
        [nothing] = record_rating(ledger, review, CASE, dict.fromkeys(answers(), OPEN_ANSWER))
        assert (nothing.outcome, nothing.score) == (Outcome.UNMEASURED, None)
        assert read_review_progress(ledger, review).rated == 1
        assert find_next_case(ledger, review) != CASE


def test_failed_assertions_lower_a_persons_score_too() -> None:
    rubric = styled()
    accuracy = rubric.criteria[0]
    given = answers(5, rubric) | {assertion_name(rubric, accuracy, accuracy.assertions[0]): "no"}
    verdict = score_answers(rubric, "x", "person:Ana", given)
    assert (verdict.criteria["accuracy"].score, verdict.criteria["accuracy"].reported) == (4, 5)
    assert [one.at for one in verdict.corrections] == ["accuracy.score"]


def test_a_score_without_answers_to_assertions_stands() -> None:
    rubric = styled()
    given = {score_name(rubric, criterion): "5" for criterion in rubric.criteria}
    verdict = score_answers(rubric, "x", "person:Ana", given)
    assert (verdict.score, verdict.grade, verdict.corrections) == (1.0, "A+", ())


def test_na_is_the_rubrics_own_where_it_offers_that() -> None:
    rubric = styled()
    given = answers(5, rubric)
    offered = [(criterion, one) for criterion in rubric.criteria for one in criterion.assertions if one.applies]
    assert offered
    given |= {assertion_name(rubric, *one): OPEN_ANSWER for one in offered}
    verdict = score_answers(rubric, "x", "person:Ana", given)
    assert (verdict.score, verdict.coverage) == (1.0, None)
    assert sum(one.not_applicable for one in verdict.criteria.values()) == len(offered)


def test_a_case_with_several_rubrics_is_rated_by_all(tmp_path: Path) -> None:
    with families(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        there = load_rating(ledger, review, CASE)
        given = {name: text for rubric in there.sheet.rubrics for name, text in answers(6, rubric).items()}
        verdicts = record_rating(ledger, review, CASE, given)
        assert [one.rubric for one in verdicts] == [EDIT, "edit-quality", "edit-fidelity"]
        assert read_review_progress(ledger, review).rated == 1
        assert find_next_case(ledger, review) is None
        assert ledger.run(review.id).state == "finished"


def test_what_was_begun_is_kept_and_gone_on_with(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        third = "photo-00003/model-a"
        given = {f"{EDIT}:unchanged_regions": "2", "comment": "hm"}
        assert record_draft(ledger, review, third, given)
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        assert find_next_case(ledger, review) == third
        assert load_rating(ledger, review, third).answers == given
        assert not load_rating(ledger, review, third).saved
        assert read_review_progress(ledger, review).rated == 0
        [draft] = ledger.verdicts(review.id)
        assert (draft.outcome, draft.score) == (Outcome.INTERRUPTED, None)


def test_a_late_draft_never_takes_the_place_of_what_was_saved(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        record_draft(ledger, review, CASE, answers(3))
        record_rating(ledger, review, CASE, answers(6))
        assert not record_draft(ledger, review, CASE, answers(2))
        [verdict] = ledger.verdicts(review.id)
        assert verdict.criteria["unchanged_regions"].score == 6


class Slower(Ledger):
    """A ledger whose writes wait for what somebody else does just before."""

    meanwhile: Callable[[], object] | None = None

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        first, self.meanwhile = self.meanwhile, None
        if first is not None:
            first()
        with super()._writing() as connection:
            yield connection


def test_a_draft_never_takes_the_place_of_what_another_process_saves_meanwhile(tmp_path: Path) -> None:
    edits(tmp_path / "ledger.db").close()
    with Slower.open(tmp_path / "ledger.db") as slow, Ledger.open(tmp_path / "ledger.db", create=True) as other:
        assert isinstance(slow, Slower)
        review = find_or_start_review(slow, RUN, "Ana")
        slow.meanwhile = lambda: record_rating(other, review, CASE, answers(6))
        assert not record_draft(slow, review, CASE, answers(2))
        [verdict] = slow.verdicts(review.id)
        assert verdict.criteria["unchanged_regions"].score == 6


def test_a_rating_that_another_process_saves_meanwhile_is_one_that_was_changed(tmp_path: Path) -> None:
    edits(tmp_path / "ledger.db").close()
    with Slower.open(tmp_path / "ledger.db") as slow, Ledger.open(tmp_path / "ledger.db", create=True) as other:
        assert isinstance(slow, Slower)
        review = find_or_start_review(slow, RUN, "Ana")
        slow.meanwhile = lambda: record_rating(other, review, CASE, answers(6))
        [verdict] = record_rating(slow, review, CASE, answers(2))
        assert [flag.flag for flag in verdict.flags] == ["rating_changed"]


@pytest.mark.parametrize(
    ("turn", "stands"),
    [("page.9", "1"), ("page.11", "2"), ("other.1", "2"), ("", "2"), ("page.x", "2"), (".1", "2")],
)
def test_a_draft_that_comes_late_is_passed_over_for_a_newer_one_of_its_page(
    tmp_path: Path, turn: str, stands: str
) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        asked = f"{EDIT}:unchanged_regions"
        assert record_draft(ledger, review, CASE, {asked: "1"}, "page.10")
        assert record_draft(ledger, review, CASE, {asked: "2"}, turn)
        assert load_rating(ledger, review, CASE).answers == {asked: stands}


def test_a_review_goes_on_as_it_was_begun(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        quota = ReviewOrder(ReviewOrderKind.QUOTA, "model", each=2)
        begun = find_or_start_review(ledger, RUN, "Ana", quota, hide=True)
        assert (begun.order, begun.hide_judge) == (quota, True)
        assert find_or_start_review(ledger, RUN, "ana") == load_review(ledger, begun.id) == begun
        assert read_review_progress(ledger, begun).total == 4
        other = find_or_start_review(ledger, RUN, "Ana", ReviewOrder(ReviewOrderKind.AUDIT), hide=False)
        assert load_review(ledger, begun.id) == other
        assert (other.id, other.order, other.hide_judge) == (begun.id, ReviewOrder(ReviewOrderKind.AUDIT), False)
        assert find_next_case(ledger, other) == "photo-00007/model-a"
        bo = find_or_start_review(ledger, RUN, "Bo")
        assert (bo.order, bo.hide_judge) == (ReviewOrder(), False)


def test_a_comment_may_be_as_long_as_a_form_lets_it(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        lines = "word\n" * 4000
        [verdict] = record_rating(ledger, review, CASE, answers(5) | {"comment": lines.replace("\n", "\r\n")})
        assert verdict.assessment == lines.strip()


def test_a_rating_can_be_changed_and_says_so(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        record_rating(ledger, review, CASE, answers(6) | {"comment": "good"})
        assert load_rating(ledger, review, CASE).answers == answers(6) | {"comment": "good"}
        record_rating(ledger, review, CASE, answers(2))
        [verdict] = ledger.verdicts(review.id)
        assert verdict.criteria["unchanged_regions"].score == 2
        assert [flag.flag for flag in verdict.flags] == ["rating_changed"]
        assert read_review_progress(ledger, review).rated == 1


def test_two_raters_do_not_meet(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        ana, bo = (find_or_start_review(ledger, RUN, name) for name in ("Ana", "Bo"))
        record_rating(ledger, ana, CASE, answers(6))
        record_draft(ledger, bo, CASE, answers(2))
        assert (read_review_progress(ledger, ana).rated, read_review_progress(ledger, bo).rated) == (1, 0)
        assert load_rating(ledger, bo, CASE).answers == answers(2)
        assert case_label(ledger, ana, CASE) != case_label(ledger, bo, CASE)


def test_a_label_stands_for_its_case_and_nothing_else_does(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        cases = ledger.case_ids(RUN)
        labels = [case_label(ledger, review, case) for case in cases]
        assert [case_from_label(ledger, review, label) for label in labels] == cases
        digests, places = ({label[start:end] for label in labels} for start, end in ((5, 13), (13, 21)))
        assert len(digests) == len(places) == len(cases)
        mixed = labels[0][:13] + labels[1][13:]
        for wrong in (labels[0][:-1], labels[0] + "0", mixed, "case-", "x", "case-" + "f" * 16):
            with pytest.raises(UsageError, match="There is no case"):
                case_from_label(ledger, review, wrong)
        with pytest.raises(UsageError, match="There is no case"):
            case_label(ledger, review, "elsewhere")


def test_what_is_passed_over_comes_again(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db", 8) as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        first = find_next_case(ledger, review)
        assert first is not None
        seen = [first]
        while (case := find_next_case(ledger, review, after=seen[-1])) not in seen:
            assert case is not None
            seen.append(case)
        assert len(seen) == 8
        for case in seen[1:]:
            record_rating(ledger, review, case, answers())
        assert find_next_case(ledger, review, after=seen[0]) is None
        assert find_next_case(ledger, review) == first


def test_what_was_asked_is_asked_again_whatever_the_style_is_by_now(tmp_path: Path) -> None:
    """As with a user's own style, or one of ours from before: the ledger has what was asked, not today's files."""
    with restyles(tmp_path / "ledger.db", "Anime") as ledger:
        _reword(ledger, {"A1": "Are the outlines as they were drawn then?"})
        there = load_rating(ledger, find_or_start_review(ledger, RUN, "Ana"), CASE)
        asked = {one.id: one for criterion in there.sheet.rubrics[0].criteria for one in criterion.assertions}
        today = {one.id: one for criterion in styled().criteria for one in criterion.assertions}
        assert asked.keys() == today.keys()
        assert asked["A1"].text == "Are the outlines as they were drawn then?"
        assert {id_: one for id_, one in asked.items() if id_ != "A1"} == {
            id_: one for id_, one in today.items() if id_ != "A1"
        }
        assert any(one.applies for one in asked.values())


def test_the_words_of_a_judge_are_not_asked_of_a_person(tmp_path: Path) -> None:
    with restyles(tmp_path / "ledger.db", "Anime") as ledger:
        _reword(ledger, {"A1": "In my words: are lines clean?"}, Flag("question_differs", "A1, B2"))
        there = load_rating(ledger, find_or_start_review(ledger, RUN, "Ana"), CASE)
        assert there.sheet.rubrics[0].criteria[0].assertions == styled().criteria[0].assertions


def _reword(ledger: Ledger, questions: dict[str, str], *flags: Flag) -> None:
    """The run as it would be had its judge been asked, or written, other questions."""
    [one] = ledger.stored_verdicts(RUN)
    criteria = {
        key: replace(
            result,
            assertions=tuple(
                replace(each, question=questions.get(each.id, each.question)) for each in result.assertions
            ),
        )
        for key, result in one.verdict.criteria.items()
    }
    verdict = replace(one.verdict, criteria=criteria, flags=(*one.verdict.flags, *flags))
    ledger.write(RUN, [Entry(one.position, ledger.case(RUN, CASE), verdict)])


_STYLED, _EDIT = styled("Pop Art"), load_rubric(EDIT)
SAID = st.sampled_from(["", OPEN_ANSWER, "1", "3", "5"])
TICKED = st.sampled_from(["", "yes", "no", OPEN_ANSWER])


@given(st.data())
def test_a_rating_that_is_opened_and_saved_again_is_the_same(data: st.DataObject) -> None:
    rubric = _STYLED
    given_ = {}
    for criterion in rubric.criteria:
        given_[score_name(rubric, criterion)] = data.draw(SAID)
        for one in criterion.assertions:
            given_[assertion_name(rubric, criterion, one)] = data.draw(TICKED)
    given_ = {name: text for name, text in given_.items() if text}
    verdict = score_answers(rubric, "x", "person:Ana", given_)
    if not verdict.scored:
        return
    again = score_answers(rubric, "x", "person:Ana", answers_from_verdict(rubric, verdict))
    assert again.to_dict() == verdict.to_dict()


@given(st.dictionaries(st.sampled_from([*answers(), "comment"]), st.text(max_size=12)))
def test_any_answers_end_in_a_verdict(given_: dict[str, str]) -> None:
    verdict = score_answers(_EDIT, "x", "person:Ana", given_)
    assert verdict.outcome in (Outcome.SCORED, Outcome.UNMEASURED, Outcome.INVALID)
