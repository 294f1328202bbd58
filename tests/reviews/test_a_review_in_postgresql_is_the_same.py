"""What is promised of a review in a file holds in PostgreSQL: nothing lost, nothing overwritten, however many write."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from support import postgres as postgres_support
from support.reviews import EDIT, RUN, answers, edits, restyles

from beholder.ledger.ledger import Ledger
from beholder.reviews.ratings import load_column_names, read_review_ratings
from beholder.reviews.review import (
    ReviewOrder,
    ReviewOrderKind,
    case_from_label,
    case_label,
    find_next_case,
    find_or_start_review,
    load_review,
    order_cases,
    read_review_progress,
)
from beholder.reviews.sheet import load_rating, record_draft, record_rating
from beholder.statistics.data import ColumnKind as Of

CASE = "photo-00000/model-a"


def test_a_review_goes_the_same_way(postgres: postgres_support.Server, tmp_path: Path) -> None:
    quota = ReviewOrder(ReviewOrderKind.QUOTA, "model", each=2)
    with edits(postgres.schema()) as ledger, edits(tmp_path / "ledger.db") as file:
        for order in (ReviewOrder(), quota, ReviewOrder(ReviewOrderKind.UNCERTAIN), ReviewOrder(ReviewOrderKind.AUDIT)):
            assert order_cases(ledger, RUN, "ana", order) == order_cases(file, RUN, "ana", order)
        review = find_or_start_review(ledger, RUN, "Ana", quota, hide=True)
        assert load_review(ledger, review.id) == find_or_start_review(ledger, RUN, "ana") == review
        assert [case_from_label(ledger, review, case_label(ledger, review, case)) for case in ledger.case_ids(RUN)] == (
            file.case_ids(RUN)
        )
        assert record_draft(ledger, review, CASE, {f"{EDIT}:unchanged_regions": "2"}, "page.2")
        assert record_draft(ledger, review, CASE, {f"{EDIT}:unchanged_regions": "1"}, "page.1")
        assert load_rating(ledger, review, CASE).answers == {f"{EDIT}:unchanged_regions": "2"}
        assert read_review_progress(ledger, review).rated == 0
        case = find_next_case(ledger, review)
        assert case is not None
        record_rating(ledger, review, case, answers(4))
        assert not record_draft(ledger, review, case, answers(1))
        assert (read_review_progress(ledger, review).rated, read_review_progress(ledger, review).total) == (1, 4)
        assert read_review_ratings(ledger, RUN)["unchanged_regions"].values.tolist() == [[4]]


def test_styles_are_told_from_each_other(postgres: postgres_support.Server) -> None:
    for styles, name in ((("Anime",), "A1"), (("Anime", "Pop Art"), "Anime/A1")):
        with restyles(postgres.schema(), *styles) as ledger:
            assert load_column_names(ledger, ledger.run(RUN))((Of.ASSERTION, "Anime", "A1")) == name


def test_many_at_once_lose_nothing(postgres: postgres_support.Server) -> None:
    place = postgres.schema()
    edits(place).close()
    with Ledger.open(place, create=True) as ledger, ThreadPoolExecutor(24) as many:
        reviews = [find_or_start_review(ledger, RUN, f"rater {number}") for number in range(24)]
        done: list[Future[Any]] = [many.submit(record_draft, ledger, review, CASE, answers(3)) for review in reviews]
        done += [many.submit(record_rating, ledger, review, CASE, answers(6)) for review in reviews]
        done += [many.submit(record_draft, ledger, review, CASE, answers(1)) for review in reviews]
        for one in done:
            one.result()
        assert [read_review_progress(ledger, review).rated for review in reviews] == [1] * len(reviews)
        found = read_review_ratings(ledger, RUN)["unchanged_regions"]
        assert found.values.tolist() == [[6] * 24]
