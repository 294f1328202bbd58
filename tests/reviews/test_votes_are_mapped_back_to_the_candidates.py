"""Votes of people: sides are random, recorded and undone; a vote is a verdict like a judge's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.votes import PHOTOS, RUBRIC, RUN, pairs, vote, vote_all

from beholder.errors import UsageError
from beholder.reviews.review import find_or_start_review
from beholder.reviews.sheet import (
    OPEN_ANSWER,
    answers_from_verdict,
    load_rating,
    record_draft,
    record_rating,
    score_answers,
)
from beholder.reviews.votes import (
    SIDES,
    choose_order,
    compare_votes,
    list_winners,
    recorded_order,
    side_of,
    vote_name,
    winner_on,
)
from beholder.rubrics.load import load_rubric
from beholder.verdicts.verdict import WINNERS, Outcome

EDITS = load_rubric(RUBRIC)
ORDERS = st.sampled_from(("given", "swapped", ""))
KEYS = [criterion.key for criterion in EDITS.criteria]
NAME = vote_name(EDITS)
CASE = "photo-00000/basalt-aurora"


@given(ORDERS, st.sampled_from(SIDES))
def test_the_winner_is_the_candidate_on_the_chosen_side(order: str, side: str) -> None:
    verdict = score_answers(EDITS, "x", "person:Ana", {NAME: side}, order)
    assert verdict.outcome is Outcome.SCORED
    assert verdict.preference is not None
    shown = {"left": "second", "right": "first"} if order == "swapped" else {"left": "first", "right": "second"}
    assert verdict.preference.winner == shown.get(side, side)
    assert recorded_order(verdict) == order


@given(ORDERS, st.sampled_from(WINNERS), st.sampled_from(SIDES))
def test_sides_are_undone(order: str, winner: str, side: str) -> None:
    assert winner_on(side_of(winner, order), order) == winner
    assert side_of(winner_on(side, order), order) == side


@given(
    ORDERS,
    st.fixed_dictionaries(
        {NAME: st.sampled_from(SIDES)}, optional={vote_name(EDITS, key): st.sampled_from(SIDES) for key in KEYS}
    ),
    st.sampled_from(["", "The sky is odd."]),
)
def test_the_form_shows_what_was_voted(order: str, sides: dict[str, str], comment: str) -> None:
    answers = sides | ({"comment": comment} if comment else {})
    verdict = score_answers(EDITS, "x", "person:Ana", answers, order)
    assert answers_from_verdict(EDITS, verdict, order) == answers
    assert verdict.flags == ()


@given(st.sampled_from(SIDES), st.lists(st.sampled_from((*SIDES, OPEN_ANSWER)), min_size=3, max_size=3))
def test_the_same_sides_in_swapped_order_are_the_mirrored_vote(side: str, chosen: list[str]) -> None:
    mirrored = {"first": "second", "second": "first"}
    answers = {NAME: side} | {vote_name(EDITS, key): one for key, one in zip(KEYS, chosen, strict=True)}
    one, other = (list_winners(score_answers(EDITS, "x", "j", answers, order)) for order in ("given", "swapped"))
    assert other == {key: mirrored.get(winner, winner) for key, winner in one.items()}


def test_sides_differ_between_raters_and_cases_and_are_about_even() -> None:
    cases = [f"photo {number}" for number in range(400)]
    ana, bo = ([choose_order(review, case) for case in cases] for review in ("r-ana", "r-bo"))
    assert choose_order("r-ana", "photo 7") == ana[7]
    for orders in (ana, bo):
        assert 150 < orders.count("swapped") < 250
    assert 150 < sum(one == other for one, other in zip(ana, bo, strict=True)) < 250


def test_a_vote_is_a_verdict_by_a_person_with_the_order_in_which_it_was_shown(tmp_path: Path) -> None:
    with pairs(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        for case in ledger.case_ids(RUN):
            vote(ledger, review, case, "first", natural="tie")
        stored = list(ledger.stored_verdicts(review.id, answers=True))
        assert {one.verdict.judge for one in stored} == {"person:Ana"}
        assert {one.verdict.preference.winner for one in stored if one.verdict.preference} == {"first"}
        assert {recorded_order(one.verdict) for one in stored} == {"given", "swapped"}
        for one in stored:
            order = recorded_order(one.verdict)
            assert order == choose_order(review.id, one.verdict.case)
            letter = json.loads(one.verdict.answer or "")["overall"]["choice"]
            assert letter == ("B" if order == "swapped" else "A")
            assert one.verdict.criteria["natural"].choice == "tie"
            assert one.verdict.criteria["followed"].choice is None
            assert one.groups["model_first"]


def test_the_sheet_has_the_candidates_in_the_order_of_the_sides(tmp_path: Path) -> None:
    with pairs(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        seen = set()
        for case in ledger.case_ids(RUN):
            sheet = load_rating(ledger, review, case).sheet
            seen.add(sheet.order)
            swapped = sheet.order == "swapped"
            assert sheet.roles == (("input", "second", "first") if swapped else ("input", "first", "second"))
        assert seen == {"given", "swapped"}


def test_a_vote_on_single_criteria_alone_is_kept_as_a_draft_and_not_saved(tmp_path: Path) -> None:
    with pairs(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        some = {vote_name(EDITS, "natural"): "left"}
        assert record_draft(ledger, review, CASE, some)
        assert load_rating(ledger, review, CASE).answers == some
        with pytest.raises(UsageError, match=r"Say first which is better all in all: left, right"):
            record_rating(ledger, review, CASE, some)
        with pytest.raises(UsageError, match=r"is answered with left, right, tie or both_bad, not 'first'"):
            record_rating(ledger, review, CASE, {NAME: "first"})
        assert not load_rating(ledger, review, CASE).saved


def test_a_changed_vote_is_shown_on_the_sides_it_was_given_on(tmp_path: Path) -> None:
    with pairs(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        other = {"given": "swapped", "swapped": "given"}[choose_order(review.id, CASE)]
        record_rating(ledger, review, CASE, {NAME: "left"}, order=other)
        rating = load_rating(ledger, review, CASE)
        assert (rating.sheet.order, rating.answers) == (other, {NAME: "left"})
        record_rating(ledger, review, CASE, {NAME: "right"}, order="")
        rating = load_rating(ledger, review, CASE)  # how it was shown is not known: the page shows its own order
        assert rating.sheet.order == choose_order(review.id, CASE)
        assert rating.verdicts[0].preference is not None
        assert rating.verdicts[0].preference.winner == "second"
        assert winner_on(rating.answers[NAME], rating.sheet.order) == "second"


def test_same_votes_are_counted_and_opposite_ones_come_first(tmp_path: Path) -> None:
    with pairs(tmp_path / "ledger.db") as ledger:
        review = vote_all(ledger, "Ana", wrong=2)
        [overall], split = compare_votes(ledger, review)
        count = 3 * PHOTOS
        # Of the last four pairs the judge has a flip (a tie), two bad ones, a tie, and one that failed.
        assert (overall.key, overall.pairs, overall.same) == ("overall", count - 1, count - 4 - 2)
        assert (overall.decided, overall.same_decided) == (count - 4, count - 6)
        assert [one.is_opposite for one in split] == [True, True, False, False, False]
