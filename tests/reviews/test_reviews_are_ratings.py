"""What people said in reviews is what a file of ratings would say, under the names that the run's own columns have."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from support.ledger import verdict
from support.reviews import EDIT, RUN, alike, answers, edits, families, kept, restyles, styled, told

from beholder.ledger.ledger import Ledger
from beholder.reviews.ratings import compare_with_judge, format_ratings_csv, load_column_names, read_review_ratings
from beholder.reviews.review import find_or_start_review
from beholder.reviews.sheet import load_rating, record_draft, record_rating
from beholder.rubrics.load import load_rubric
from beholder.statistics.data import ColumnKind, load_run_scores, read_ratings

FIRST, SECOND = "photo-00000/model-a", "photo-00001/model-a"


def rated(ledger: Ledger) -> None:
    ana, bo = (find_or_start_review(ledger, RUN, name) for name in ("Ana", "Bo"))
    record_rating(ledger, ana, FIRST, answers(3))
    record_rating(ledger, ana, SECOND, {f"{EDIT}:unchanged_regions": "7"})
    record_rating(ledger, bo, FIRST, answers(5))
    record_draft(ledger, bo, SECOND, answers(1))


def test_a_run_that_nobody_reviewed_has_no_ratings(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        assert read_review_ratings(ledger, RUN) == {}


def test_each_criterion_and_the_overall_is_an_aspect_and_a_draft_is_none(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        rated(ledger)
        found = read_review_ratings(ledger, RUN)
        assert list(found) == ["unchanged_regions", "global_consistency", "identity_preservation", "score"]
        regions = found["unchanged_regions"]
        assert (regions.cases, regions.raters) == ((FIRST, SECOND), ("Ana", "Bo"))
        np.testing.assert_array_equal(regions.values, [[3, 5], [7, np.nan]])
        assert found["global_consistency"].cases == (FIRST,)
        assert found["score"].cases == (FIRST,)  # of the second one factor of three was rated, which is no score
        np.testing.assert_allclose(found["score"].values, [[2 / 6, 4 / 6]])


@pytest.mark.parametrize("styles", [("Anime",), ("Anime", "Pop Art")])
def test_aspects_have_the_names_of_the_runs_columns(tmp_path: Path, styles: tuple[str, ...]) -> None:
    with restyles(tmp_path / "ledger.db", *styles) as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        record_rating(ledger, review, FIRST, answers(4, styled("Anime"), "no"))
        found = read_review_ratings(ledger, RUN)
        assert set(found) <= set(load_run_scores(ledger, RUN).columns)
        assert ("A1" if len(styles) == 1 else "Anime/A1") in found
        assert set(read_review_ratings(ledger, RUN, assertions=False)) == {
            *("accuracy", "completeness", "relevance", "usefulness", "exceptional", "score")
        }


def test_of_several_rubrics_each_has_its_overall(tmp_path: Path) -> None:
    with families(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        there = load_rating(ledger, review, FIRST)
        record_rating(
            ledger,
            review,
            FIRST,
            {name: text for rubric in there.sheet.rubrics for name, text in answers(6, rubric).items()},
        )
        found = read_review_ratings(ledger, RUN)
        assert {"edit-preservation.score", "edit-quality.score", "edit-fidelity.score", "seamlessness"} <= set(found)


def test_a_criterion_of_several_rubrics_is_told_apart_as_in_the_runs_columns(tmp_path: Path) -> None:
    with alike(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        given = {f"{rubric}:unchanged_regions": score for rubric, score in ((EDIT, "3"), ("second-look", "6"))}
        record_rating(ledger, review, FIRST, given)
        found = read_review_ratings(ledger, RUN)
        assert found[f"{EDIT}.unchanged_regions"].values.tolist() == [[3]]
        assert found["second-look.unchanged_regions"].values.tolist() == [[6]]
        assert set(found) <= set(load_run_scores(ledger, RUN).columns)
        agreed, _ = compare_with_judge(ledger, review)
        judged = ledger.verdict(RUN, FIRST)[0].criteria["unchanged_regions"].score
        assert judged is not None
        assert {one.aspect: (one.cases, one.bias) for one in agreed if "regions" in one.aspect} == {
            f"{EDIT}.unchanged_regions": (1, judged - 3),
            "second-look.unchanged_regions": (1, judged - 6),
        }


def test_the_names_of_a_large_run_are_told_without_its_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpacked(*_: object) -> None:
        raise AssertionError("a verdict was unpacked")

    with restyles(tmp_path / "ledger.db", "Anime", "Pop Art") as ledger:
        monkeypatch.setattr("beholder.ledger.encoding.unpack_verdict", unpacked)
        names = load_column_names(ledger, ledger.run(RUN))
        assert names((ColumnKind.ASSERTION, "Anime", "A1")) == "Anime/A1"


def test_near_is_a_step_of_a_whole_scale_and_a_tenth_of_any_other(tmp_path: Path) -> None:
    whole = load_rubric(EDIT)
    any_number = structs.replace(whole, criteria=tuple(structs.replace(one, whole=False) for one in whole.criteria))
    near = {}
    for rubric in (whole, any_number):
        with kept(tmp_path / f"{rubric.criteria[0].whole}.db", (rubric,), [told(0, verdict(0))]) as ledger:
            review = find_or_start_review(ledger, RUN, "Ana")
            judged = ledger.verdict(RUN, FIRST)[0].criteria["unchanged_regions"].score
            assert judged == 1
            record_rating(ledger, review, FIRST, {f"{EDIT}:unchanged_regions": "2"})
            agreed, _ = compare_with_judge(ledger, review)
            near[rubric.criteria[0].whole] = {one.aspect: one.near for one in agreed}["unchanged_regions"]
    assert near == {True: 1, False: 0}  # one of six steps is more than a tenth


def test_an_export_reads_back_as_the_same_ratings(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        rated(ledger)
        path = tmp_path / "ratings.csv"
        path.write_bytes(b"".join(format_ratings_csv(ledger, RUN)))
        there, back = read_review_ratings(ledger, RUN), read_ratings(path)
    assert list(there) == list(back)
    for aspect in there:
        assert (there[aspect].cases, there[aspect].raters) == (back[aspect].cases, back[aspect].raters)
        np.testing.assert_allclose(there[aspect].values, back[aspect].values)


def test_a_formula_in_a_name_is_no_formula_in_a_spreadsheet(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        record_rating(ledger, find_or_start_review(ledger, RUN, '=HYPERLINK("http://x")'), FIRST, answers(3))
        lines = b"".join(format_ratings_csv(ledger, RUN)).decode().splitlines()
    assert all("\"'=HYPERLINK" in line for line in lines[1:])


def test_judge_and_person_stand_side_by_side(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ana")
        judge = {case: ledger.verdict(RUN, case)[0].criteria for case in (FIRST, SECOND)}
        first = {f"{EDIT}:{key}": str(one.score) for key, one in judge[FIRST].items()}
        record_rating(ledger, review, FIRST, first)
        record_rating(ledger, review, SECOND, answers(7))
        record_rating(ledger, review, "photo-00003/model-a", answers(7))  # which the judge refused
        agreed, apart = compare_with_judge(ledger, review)
        by_name = {one.aspect: one for one in agreed}
        own = judge[SECOND]["unchanged_regions"].score
        assert own is not None
        regions = by_name["unchanged_regions"]
        assert (regions.cases, regions.same) == (2, 0.5)
        assert math.isclose(regions.bias, (own - 7) / 2)
        assert [one.case for one in apart] == [SECOND, FIRST]
        assert apart[0].share == pytest.approx((7 - own) / 6)
        assert apart[1].share == 0
