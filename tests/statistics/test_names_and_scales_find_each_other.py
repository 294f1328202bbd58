"""Aspects find their criteria by name or as told, and numbers on different scales are brought onto one."""

from __future__ import annotations

import numpy as np
import pytest

from beholder.errors import UsageError
from beholder.statistics.aspects import (
    describe_matches,
    fits_scale,
    infer_scales,
    infer_scales_by_aspect,
    match_aspects,
    parse_scale,
    parse_scales,
    rescale,
)
from beholder.statistics.data import Column, ColumnKind, Ratings, Scores

NAN = float("nan")


def column(
    name: str, *values: float, kind: ColumnKind = ColumnKind.CRITERION, scale: tuple[float, float] | None = (0, 10)
) -> Column:
    return Column(name, kind, np.array(values, np.float64), scale)


def judge(*columns: Column) -> Scores:
    return Scores("judge", ("a", "b"), {one.name: one for one in columns})


@pytest.mark.parametrize(
    ("aspect", "criterion"),
    [
        ("realism", "realism"),
        ("Realism", "realism"),
        ("texture_detail", "texture_and_detail"),
        ("Colour Lighting", "color_and_lighting"),
        ("color-lighting", "colour_and_lighting"),
    ],
)
def test_names_are_compared_loosely(aspect: str, criterion: str) -> None:
    found = match_aspects([aspect, "other"], judge(column(criterion, 1, 2)))
    assert {name: one.name for name, one in found.items()} == {aspect: criterion}


def test_an_exact_name_wins_and_two_loose_ones_are_refused() -> None:
    both = judge(column("Detail", 1, 2), column("detail", 3, 4))
    assert match_aspects(["detail"], both)["detail"].values.tolist() == [3, 4]
    with pytest.raises(UsageError, match="could be any of Detail, detail; say which, DETAIL=CRITERION"):
        match_aspects(["DETAIL"], both)


def test_overall_is_the_rubrics_own_score() -> None:
    found = match_aspects(
        ["overall"], judge(column("score", 0, 1, kind=ColumnKind.OVERALL, scale=(0, 1)), column("x", 1, 1))
    )
    assert found["overall"].name == "score"


@pytest.mark.parametrize(
    ("text", "values"),
    [("SC=min(a,b)", [1, 4]), ("SC = mean( a , b )", [2, 4.5]), ("SC=max(a,b)", [3, 5]), ("SC=A", [1, 5])],
)
def test_criteria_can_be_combined(text: str, values: list[float]) -> None:
    found = match_aspects(["SC"], judge(column("a", 1, 5), column("b", 3, 4)), [text])["SC"]
    assert found.values.tolist() == values
    assert found.scale == (0, 10)


def test_a_combination_lacks_what_a_part_lacks() -> None:
    found = match_aspects(["SC"], judge(column("a", 1, NAN), column("b", 3, 4)), ["SC=min(a,b)"])["SC"]
    assert np.array_equal(found.values, [1, NAN], equal_nan=True)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["SC"], "is ASPECT=CRITERION"),
        (["=a"], "is ASPECT=CRITERION"),
        (["PQ=a"], "'PQ', which nobody rated; rated are SC"),
        (["SC=a", "SC=b"], "Two pairs name the aspect 'SC'"),
        (["SC=c"], "judge has no criterion 'c'; there are a, b, unlike"),
        (["SC=min(a,c)"], "judge has no criterion 'c'"),
        (["SC=sum(a,b)"], "combined by min, max, mean, not by 'sum'"),
        (["SC=min(a,unlike)"], "on different scales"),
        (
            ["SC=avg(a"],
            r"'avg\(a' is neither a criterion of judge nor .* written min\(a,b\), max\(a,b\) or mean\(a,b\)",
        ),
        ([], r"None of the aspects that people rated \(SC\) has the name of a criterion of judge \(a, b, unlike\)"),
    ],
)
def test_a_pair_that_cannot_be_is_one_plain_sentence(given: list[str], problem: str) -> None:
    scores = judge(column("a", 1, 2), column("b", 1, 2), column("unlike", 1, 2, scale=(1, 7)))
    with pytest.raises(UsageError, match=problem):
        match_aspects(["SC"], scores, given)


def test_what_was_inferred_and_left_out_is_told() -> None:
    scores = judge(column("texture_and_detail", 1, 2), column("b", 1, 2), column("same", 1, 1))
    aspects, given = ["texture_detail", "SC", "same", "joy"], ["SC=b"]
    assert describe_matches(match_aspects(aspects, scores, given), aspects, given) == [
        "Inferred by name: texture_detail = texture_and_detail (ASPECT=CRITERION changes it: --map or map_=).",
        "Rated, but no criterion has the name: joy (ASPECT=CRITERION adds it: --map or map_=).",
    ]


def test_scales_are_mapped_from_end_to_end() -> None:
    assert rescale(column("a", 0, 5, 10), (1, 7)).values.tolist() == [1, 4, 7]
    assert rescale(column("a", 0, 5, 10), (1, 7)).scale == (1, 7)
    same = column("a", 0.1, 0.7)
    assert rescale(same, (0, 10)) is same
    for unknown in (column("a", 1, scale=None), column("a", 1, scale=(3, 3))):
        with pytest.raises(UsageError, match=r"a=0\.\.10 \(--scale or scale=\)"):
            rescale(unknown, (0, 1))


@pytest.mark.parametrize(
    ("seen", "scale", "fit"),
    [((4, 6), (1, 7), True), ((1, 4), (1, 7), True), ((0, 1), (0, 10), False), ((0, 8), (1, 7), False)],
)
def test_numbers_fit_a_scale_or_not(seen: tuple[float, float], scale: tuple[float, float], fit: bool) -> None:
    assert fits_scale(seen, scale) is fit


@pytest.mark.parametrize(
    ("judged", "rated", "given", "expected"),
    [
        (column("a", 2, 6, scale=(1, 7)), (2, 6), {}, ((1, 7), (1, 7))),
        (column("a", 2, 6, scale=(0, 10)), (0, 1), {}, ((0, 10), (0, 1))),
        (column("a", 2, 6, scale=(0, 10)), (0, 1), {"rating_scale": (-1, 1)}, ((0, 10), (-1, 1))),
        (column("a", 2, 6, scale=(0, 10)), (0, 1), {"scale": (0, 8)}, ((0, 8), (0, 1))),
        (column("a", 2, 7, scale=None), (1, 6), {}, ((1, 7), (1, 7))),
        (column("a", 0, 10, scale=None), (0, 1), {}, ((0, 10), (0, 1))),
        (column("a", 3, 5, scale=None), (1, 6), {"rating_scale": (1, 7)}, ((1, 7), (1, 7))),
        (column("a", 0, 100, scale=None), (1, 6), {"rating_scale": (1, 7)}, ((0, 100), (1, 7))),
        (column("a", NAN, scale=None), (1, 6), {}, ((1, 6), (1, 6))),
    ],
)
def test_scales_are_taken_as_given_or_inferred(
    judged: Column,
    rated: tuple[float, float],
    given: dict[str, tuple[float, float]],
    expected: tuple[tuple[float, float], tuple[float, float]],
) -> None:
    assert infer_scales(judged, rated, **given) == expected


def test_aspects_rated_together_are_on_one_scale() -> None:
    columns = {name: column(name, 0, 1, scale=None) for name in ("wide", "narrow", "tiny")}
    people = {"wide": [1.0, 7.0], "narrow": [3.0, 7.0], "tiny": [0.5, 1.5]}
    ratings = {name: Ratings(name, ("a", "b"), ("r",), np.array(values)[:, None]) for name, values in people.items()}
    found = infer_scales_by_aspect(columns, ratings, {"": (0, 1)}, {"tiny": (0, 2)})
    assert found == {"wide": ((0, 1), (0.5, 7)), "narrow": ((0, 1), (0.5, 7)), "tiny": ((0, 1), (0, 2))}


@pytest.mark.parametrize(
    ("judged", "rated", "problem"),
    [
        ((0, 2), None, r"The scale 0\.\.2 was given, and the judge gives 'a' 3, .* a=0\.\.3 \(--scale or"),
        (None, (2, 7), r"The scale 2\.\.7 was given, and 'a' is rated 1, .* a=1\.\.7 \(--rating-scale or"),
    ],
)
def test_a_number_off_a_scale_that_was_given_is_refused(
    judged: tuple[float, float] | None, rated: tuple[float, float] | None, problem: str
) -> None:
    columns, people = (
        {"a": column("a", 1, 3, scale=None)},
        {"a": Ratings("a", ("x", "y"), ("r",), np.array([[1], [NAN]]))},
    )
    for name in ("", "a"):
        with pytest.raises(UsageError, match=problem):
            infer_scales_by_aspect(columns, people, {name: judged} if judged else {}, {name: rated} if rated else {})
    assert infer_scales_by_aspect(columns, people, {"": (0, 3)}, {"": (0, 3)})["a"] == ((0, 3), (0, 3))


def test_scales_are_written_from_end_to_end() -> None:
    assert parse_scales(["0..10", "SC=-1..1.5"]) == {"": (0, 10), "SC": (-1, 1.5)}
    for wrong in ("7", "7..1", "1..1", "SC=", "a..b", "1-7"):
        with pytest.raises(UsageError, match=r"such as 1\.\.7"):
            parse_scale(wrong.rpartition("=")[2])
