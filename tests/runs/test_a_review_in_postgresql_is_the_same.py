"""What is promised of a review in a file holds in PostgreSQL: nothing lost, nothing overwritten, however many write."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import postgres_server
from review_making import EDIT, RUN, answers, edits, restyles

from beholder.ledger import Ledger
from beholder.runs.review_labels import case_of, label_of
from beholder.runs.review_orders import Kind, Order, ordered
from beholder.runs.review_queue import next_case, progress
from beholder.runs.reviewing import find_or_start, keep_draft, rate, rating, review_at
from beholder.statistics.data import Kind as Of
from beholder.statistics.reviews import names_of, ratings_of_reviews

CASE = "photo-00000/model-a"


def test_a_review_goes_the_same_way(postgres: postgres_server.Server, tmp_path: Path) -> None:
    quota = Order(Kind.QUOTA, "model", each=2)
    with edits(postgres.schema()) as ledger, edits(tmp_path / "ledger.db") as file:
        for order in (Order(), quota, Order(Kind.UNCERTAIN), Order(Kind.AUDIT)):
            assert ordered(ledger, RUN, "ana", order) == ordered(file, RUN, "ana", order)
        review = find_or_start(ledger, RUN, "Ana", quota, hide=True)
        assert review_at(ledger, review.id) == find_or_start(ledger, RUN, "ana") == review
        assert [case_of(ledger, review, label_of(ledger, review, case)) for case in ledger.case_ids(RUN)] == (
            file.case_ids(RUN)
        )
        assert keep_draft(ledger, review, CASE, {f"{EDIT}:unchanged_regions": "2"}, "page.2")
        assert keep_draft(ledger, review, CASE, {f"{EDIT}:unchanged_regions": "1"}, "page.1")
        assert rating(ledger, review, CASE).answers == {f"{EDIT}:unchanged_regions": "2"}
        assert progress(ledger, review).rated == 0
        case = next_case(ledger, review)
        assert case is not None
        rate(ledger, review, case, answers(4))
        assert not keep_draft(ledger, review, case, answers(1))
        assert (progress(ledger, review).rated, progress(ledger, review).of) == (1, 4)
        assert ratings_of_reviews(ledger, RUN)["unchanged_regions"].values.tolist() == [[4]]


def test_styles_are_told_from_each_other(postgres: postgres_server.Server) -> None:
    for styles, name in ((("Anime",), "A1"), (("Anime", "Pop Art"), "Anime/A1")):
        with restyles(postgres.schema(), *styles) as ledger:
            assert names_of(ledger, ledger.run(RUN))((Of.ASSERTION, "Anime", "A1")) == name


def test_many_at_once_lose_nothing(postgres: postgres_server.Server) -> None:
    place = postgres.schema()
    edits(place).close()
    with Ledger.open(place) as ledger, ThreadPoolExecutor(24) as many:
        reviews = [find_or_start(ledger, RUN, f"rater {number}") for number in range(24)]
        done = [many.submit(keep_draft, ledger, review, CASE, answers(3)) for review in reviews]
        done += [many.submit(rate, ledger, review, CASE, answers(6)) for review in reviews]
        done += [many.submit(keep_draft, ledger, review, CASE, answers(1)) for review in reviews]
        for one in done:
            one.result()
        assert [progress(ledger, review).rated for review in reviews] == [1] * len(reviews)
        found = ratings_of_reviews(ledger, RUN)["unchanged_regions"]
        assert found.values.tolist() == [[6] * 24]
