"""A judge against people: every number with its interval, and a plain answer where a number is not defined."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from beholder.errors import UsageError
from beholder.reports.agreement import agreement_tables
from beholder.statistics.agreement import (
    AgreementOptions,
    CriterionAgreement,
    JudgeAgreement,
    agree,
    ratings_from_scores,
)
from beholder.statistics.bootstrap import Interval
from beholder.statistics.claims import p_of_interval
from beholder.statistics.data import Column, ColumnKind, Ratings, Scores
from beholder.statistics.raters import ReferenceMode, find_identical_cases, leave_group_out_medians
from beholder.statistics.sentences import describe_criterion, describe_overall, describe_straightlining

NAN = float("nan")
DRAWS = 200


def judged(values: Sequence[float], scale: tuple[float, float] | None = (1, 7), **groups: Sequence[str]) -> Scores:
    column = Column("realism", ColumnKind.CRITERION, np.array(values, np.float64), scale)
    names = tuple(f"c{at}" for at in range(len(values)))
    return Scores("judge", names, {"realism": column}, {name: tuple(of) for name, of in groups.items()})


def rated(rows: Sequence[Sequence[float]]) -> dict[str, Ratings]:
    values = np.array(rows, np.float64)
    raters = tuple(f"r{at}" for at in range(values.shape[1]))
    return {"realism": Ratings("realism", tuple(f"c{at}" for at in range(len(rows))), raters, values)}


def found(scores: Scores, ratings: dict[str, Ratings], **asked: object) -> CriterionAgreement:
    return agree(scores, ratings, AgreementOptions(draw_count=DRAWS, **asked)).criteria[0]  # type: ignore[arg-type]  # names of Asked


def value(estimate: Interval) -> float:
    assert estimate.value is not None
    return estimate.value


def ends(estimate: Interval) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


RNG = np.random.default_rng(5)
TRUE = RNG.normal(4, 1.2, 60)
JUDGE = np.clip(np.rint(TRUE + RNG.normal(0, 0.7, 60)), 1, 7).tolist()
PEOPLE = np.clip(np.rint(TRUE[:, None] + RNG.normal(0, 0.7, (60, 3))), 1, 7).tolist()


PEOPLE_TOLD = np.array(PEOPLE)
NOISY = TRUE[:, None] + RNG.normal(0, 2, (60, 3))


def test_every_coefficient_has_its_interval() -> None:
    one = found(judged(JUDGE), rated(PEOPLE))
    assert (one.cases, one.ratings, one.raters) == (60, 180, 3)
    for name, estimate in {**one.coefficients, **one.people}.items():
        assert ends(estimate)[0] <= value(estimate) <= ends(estimate)[1], name


def test_it_can_be_written_as_json() -> None:
    whole = agree(judged(JUDGE), rated(PEOPLE), AgreementOptions(draw_count=DRAWS)).to_dict()
    back = json.loads(json.dumps(whole, allow_nan=False))
    assert back["criteria"][0]["coefficients"]["spearman"]["low"] < 1
    assert back["criteria"][0]["each_rater"][0]["rater"] == "r0"


def test_one_rater_has_nobody_to_agree_with() -> None:
    one = found(judged([1, 2, 3, 4, 7]), rated([[2], [2], [4], [4], [6]]))
    assert one.coefficients["spearman"].value == pytest.approx(0.9486833)
    assert "cannot be told (ρ 0.95): that takes more than 6 cases" in " ".join(describe_criterion(one))
    one = found(judged(JUDGE), rated([row[:1] for row in PEOPLE]))
    assert {estimate.why for estimate in one.people.values()} == {"no case was rated by two people"}
    assert "no ceiling to hold it against: no case was rated by two people" in " ".join(describe_criterion(one))


@pytest.mark.parametrize(
    ("judge", "people", "why"),
    [
        ([4, 4, 4, 4], [[1], [2], [3], [4]], "the judge gives every case the same score"),
        ([1, 2, 3, 4], [[4], [4], [4], [4]], "people rate every case the same"),
        ([1], [[4]], "there is one case"),
    ],
)
def test_a_correlation_with_a_constant_is_not_defined(judge: list[float], people: list[list[float]], why: str) -> None:
    one = found(judged(judge), rated(people))
    for name in ("spearman", "tau_b", "tau_c", "pearson"):
        assert (one.coefficients[name].value, one.coefficients[name].why) == (None, why)
    assert one.coefficients["mae"].value is not None
    assert f"cannot be told: {why}" in " ".join(describe_criterion(one))


def test_missing_scores_and_ratings_leave_a_case_out_and_are_told() -> None:
    scores = judged([1, 2, NAN, 4, 5, 6])
    scores = Scores(scores.name, scores.cases, scores.columns, {}, {"c2": "refused"})
    people = rated([[1, 2], [NAN, 2], [3, 3], [NAN, NAN], [5, 6], [6, NAN]])
    whole = agree(scores, people, AgreementOptions(draw_count=DRAWS))
    assert (whole.cases, whole.criteria[0].cases, whole.criteria[0].ratings) == (4, 4, 6)
    assert any("c2 (refused)" in note for note in whole.notes)


def test_no_case_in_common_names_some_of_both() -> None:
    strangers = {"realism": Ratings("realism", ("photo-1",), ("r",), np.ones((1, 1)))}
    with pytest.raises(UsageError, match=r"share no case: the one has 'c0', 'c1', the other 'photo-1'"):
        agree(judged([1, 2]), strangers)


def test_nothing_but_refusals_says_so() -> None:
    scores = judged([NAN, NAN])
    scores = Scores("judge", scores.cases, scores.columns, {}, {"c0": "refused: no"})
    with pytest.raises(UsageError, match=r"None of the 2 cases .* has a score; 'c0': refused: no"):
        agree(scores, rated([[1], [2]]))


def test_one_group_has_values_and_no_intervals() -> None:
    one = found(judged(JUDGE, source=["same"] * 60), rated(PEOPLE))
    assert one.coefficients["spearman"].value is not None
    assert one.coefficients["spearman"].why == "no interval: all cases are of one group"
    assert one.constant.mae.why == "all cases are of one group, so that there is no other to learn from"


def test_cases_of_one_source_make_intervals_wider() -> None:
    # Ten copies of each of twelve cases tell no more than the twelve.
    judge, people = [one for one in JUDGE[:12] for _ in range(10)], [one for one in PEOPLE[:12] for _ in range(10)]
    groups = [str(at) for at in range(12) for _ in range(10)]
    alone, together = (
        found(scores, rated(people)).coefficients["spearman"]
        for scores in (judged(judge), judged(judge, source=groups))
    )
    assert alone.value == together.value
    widths = [high - low for low, high in map(ends, (alone, together))]
    assert widths[1] > 2 * widths[0]


def test_each_rating_may_be_a_point_of_its_own() -> None:
    by_mean = found(judged([1, 3, 5]), rated([[1, 3], [2, 4], [5, 7]]))
    by_each = found(judged([1, 3, 5]), rated([[1, 3], [2, 4], [5, 7]]), against=ReferenceMode.EACH)
    assert by_mean.coefficients["mae"].value == pytest.approx((1 + 0 + 1) / 3)
    assert by_each.coefficients["mae"].value == pytest.approx((0 + 2 + 1 + 1 + 0 + 2) / 6)
    assert by_mean.coefficients["exact"] == by_each.coefficients["exact"]


def test_another_scale_is_mapped_and_said() -> None:
    whole = agree(judged([0, 5, 10, 10], (0, 10)), rated([[0], [0.5], [1], [0]]), AgreementOptions(draw_count=DRAWS))
    one = whole.criteria[0]
    assert (one.judged_on, one.rated_on) == ((0, 10), (0, 1))
    assert one.coefficients["mae"].value == pytest.approx(0.25)
    assert one.coefficients["exact"].value == pytest.approx(0.75)
    assert any("on 0 to 10 were mapped linearly onto the ratings' 0 to 1: realism" in note for note in whole.notes)


def test_ratings_inside_the_judges_scale_are_on_it() -> None:
    one = found(judged([4, 5, 6, 7]), rated([[4], [5], [6], [5]]))
    assert one.rated_on == (1, 7)
    given_ = found(judged([4, 5, 6, 7]), rated([[4], [5], [6], [5]]), rating_scales={"": (4.0, 6.0)})
    assert given_.rated_on == (4, 6)


def test_a_slider_has_no_exact_agreement() -> None:
    one = found(judged(RNG.random(40).tolist(), (0, 1)), rated(RNG.random((40, 1)).tolist()))
    assert one.coefficients["exact"].value is None
    assert one.coefficients["exact"].why == "people's ratings lie on no equal steps"


def test_intervals_over_classes_are_said() -> None:
    whole = agree(
        judged(RNG.random(70).tolist(), (0, 1)), rated(RNG.random((70, 1)).tolist()), AgreementOptions(draw_count=DRAWS)
    )
    assert any("drawn over 64 classes" in note for note in whole.notes)


def test_one_value_is_no_scale_to_map_from_or_onto() -> None:
    for judge, scale, people in (([2, 2, 2], None, 3), ([0, 5, 10], (0, 10), 0)):
        whole = agree(judged(judge, scale), rated([[people]] * 3), AgreementOptions(draw_count=DRAWS))
        assert whole.criteria[0].coefficients["mae"].value == pytest.approx(np.mean(np.abs(np.array(judge) - people)))
        assert any("One number is no scale" in note and "compared as they are" in note for note in whole.notes)
        assert not any("mapped" in note for note in whole.notes)


def test_numbers_taken_to_be_on_one_scale_are_said() -> None:
    people = [[0], [1], [4], [2]]
    notes = agree(judged([0, 1, 3, 2], None), rated(people), AgreementOptions(draw_count=DRAWS)).notes
    assert any(
        "The judge's 0 to 3 and the ratings' 0 to 4 were taken to be on one scale: realism" in one for one in notes
    )
    notes = agree(judged([0, 1, 3, 2], (0, 6)), rated(people), AgreementOptions(draw_count=DRAWS)).notes
    assert any("The ratings' 0 to 4 were taken to be on the judge's 0 to 6: realism" in one for one in notes)
    given_ = AgreementOptions(draw_count=DRAWS, scales={"": (0.0, 4.0)}, rating_scales={"": (0.0, 4.0)})
    assert not any("taken to be" in one for one in agree(judged([0, 1, 3, 2], None), rated(people), given_).notes)


@pytest.mark.parametrize(
    ("judge", "people", "why"),
    [
        ([4, 4, 4, 4], [[1], [2], [3], [4]], "the judge gives every case the same score"),
        ([1, 2, 3, 4], [[4], [4], [4], [4]], "people rate every case the same"),
    ],
)
def test_a_kappa_with_a_constant_is_not_defined(judge: list[float], people: list[list[float]], why: str) -> None:
    kappa = found(judged(judge), rated(people)).coefficients["quadratic_kappa"]
    assert (kappa.value, kappa.low, kappa.why) == (None, None, why)


def test_with_a_majority_that_always_says_the_same_kappa_is_not_defined() -> None:
    one = found(judged([1, 0, 1, 1], (0, 1)), rated([[1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 0, 1]]))
    assert one.coefficients["kappa"].why == "the majority of people says the same of every case"


def test_yes_and_no_have_kappa_precision_and_recall() -> None:
    scores = judged([0, 0, 0, 1, 1, 1], (0, 1))
    people: list[list[float]] = [
        [0, 0, 1],
        [0, 0, 0],
        [1, 1, 1],
        [1, 1, 0],
        [0, 0, 1],
        [0, 1, NAN],
    ]  # failed: c0, c1, c4, c5 (a tie)
    one = found(scores, rated(people))
    assert one.is_decision
    assert one.coefficients["precision"].value == pytest.approx(2 / 3)
    assert one.coefficients["recall"].value == pytest.approx(2 / 4)
    assert "of what people fail the judge finds 50%" in " ".join(describe_criterion(one))
    majority = [0, 0, 1, 1, 0, 0]
    assert one.coefficients["kappa"].value == pytest.approx(cohen_kappa_score([0, 0, 0, 1, 1, 1], majority))
    assert one.coefficients["exact"].value == pytest.approx(3 / 6)
    single = [(x, y) for x, row in zip([0, 0, 0, 1, 1, 1], people, strict=True) for y in row if y == y]
    each = found(scores, rated(people), against=ReferenceMode.EACH)
    assert each.coefficients["kappa"].value == pytest.approx(cohen_kappa_score(*zip(*single, strict=True)))


def test_a_judge_who_fails_nothing_has_no_precision() -> None:
    one = found(judged([1, 1, 1, 1], (0, 1)), rated([[0], [1], [1], [1]]))
    assert one.coefficients["precision"].why == "the judge fails no case"
    assert one.coefficients["recall"].value == 0
    assert one.coefficients["kappa"].why == "the judge gives every case the same score"


def test_the_constant_is_learned_from_other_groups() -> None:
    one = found(judged([1, 2, 3, 4]), rated([[1], [1], [7], [7]]))
    assert one.constant.value == 4
    # Left out one at a time: the median of the three others is on the other side.
    assert one.constant.mae.value == pytest.approx(6)
    difference = one.constant.difference.value
    assert difference == pytest.approx((0 + 1 + 4 + 3) / 4 - 6)


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(0, 4)), min_size=1, max_size=25))
def test_the_median_of_other_groups(points: list[tuple[int, int]]) -> None:
    values, group = (np.array(one) for one in zip(*points, strict=True))
    ours = leave_group_out_medians(values.astype(np.float64), group.astype(np.int64))
    for at, own in enumerate(group):
        others = values[group != own]
        assert (np.isnan(ours[at]) and not len(others)) or ours[at] == np.median(others)


@given(st.lists(st.lists(st.sampled_from([1.0, 2.0, NAN]), min_size=3, max_size=3), min_size=1, max_size=30))
def test_cases_that_are_alike_are_counted_together(rows: list[list[float]]) -> None:
    table = np.array(rows)
    place, first, times = find_identical_cases(table)
    assert np.array_equal(table[first][place], table, equal_nan=True)
    assert np.array_equal(np.bincount(place), times)


def test_always_saying_the_same_can_be_nearer_than_the_judge() -> None:
    lofty = [min(7, one + 2) for one in JUDGE]
    one = found(judged(lofty), rated(PEOPLE))
    assert one.constant.difference.excludes_zero
    told = " ".join(describe_criterion(one))
    assert "further from people than always saying" in told
    assert "too high on average" in told
    assert "ranks cases as a single person would, as far as these cases tell" in told
    assert "on 60 cases that two people or more rated" in told


def test_a_judge_is_held_against_a_person_on_the_same_cases_and_others() -> None:
    scores = [float(one) for one in PEOPLE_TOLD[:, 0]]
    one = found(judged(scores), rated([[NAN, *row[1:]] for row in PEOPLE_TOLD.tolist()]))
    others = found(judged(scores), rated(PEOPLE_TOLD.tolist()))
    # Two raters are left, and each has the other alone to agree with.
    assert value(one.people["judge_as_rater"]) == pytest.approx(
        np.mean([stats.spearmanr(scores, PEOPLE_TOLD[:, at]).statistic for at in (1, 2)])
    )
    assert value(others.people["rater_difference"]) == pytest.approx(
        value(others.people["judge_as_rater"]) - value(others.people["rater_spearman"])
    )


def test_a_judge_that_ranks_backwards_is_said_to() -> None:
    told = " ".join(describe_criterion(found(judged([8 - one for one in JUDGE]), rated(PEOPLE))))
    assert "The judge's ranking is the reverse of people's: what the one puts high the other puts low (ρ -0." in told
    assert "cannot be told" not in told


def test_a_ranking_without_an_interval_says_nothing_for_or_against() -> None:
    for judge in ([1, 2, 3], [3, 2, 1]):
        told = " ".join(describe_criterion(found(judged(judge, source=["same"] * 3), rated([[3], [2], [1]]))))
        assert "better than chance cannot be told: ρ" in told
        assert "has no interval: all cases are of one group." in told


def test_a_judge_whose_difference_lies_below_zero_is_less_than_a_person_however_near() -> None:
    nearly = [max(1, one - (at % 6 == 0)) for at, one in enumerate(PEOPLE_TOLD[:, 0].tolist())]
    one = found(judged(nearly), rated(PEOPLE))
    near, low, high = (Interval(-0.05, *between) for between in ((-0.08, -0.02), (-0.08, 0.02), (0.01, 0.09)))
    for difference, words in ((near, "less well than"), (low, "as"), (replace(high, value=0.05), "better than")):
        shown = replace(
            one,
            people={**one.people, "rater_difference": difference},
            p_holm={**one.p_holm, "rater_difference": p_of_interval(difference, 60)},
        )
        assert f"ranks cases {words} a single person would" in " ".join(describe_criterion(shown))
        among_many = replace(shown, p_holm={**shown.p_holm, "rater_difference": 0.06})
        assert "ranks cases as a single person would" in " ".join(describe_criterion(among_many))


def test_better_and_worse_than_a_person_are_said_where_the_cases_show_it() -> None:
    oracle = found(judged(np.clip(TRUE, 1, 7).tolist()), rated(np.clip(np.rint(NOISY), 1, 7).tolist()))
    assert "ranks cases better than a single person would" in " ".join(describe_criterion(oracle))
    blunt = found(judged(np.clip(np.rint(NOISY[:, 0]), 1, 7).tolist()), rated(PEOPLE))
    assert "less well than a single person would" in " ".join(describe_criterion(blunt))


def test_a_metric_stands_beside_the_judge_with_a_paired_difference() -> None:
    noise = Scores("lpips", judged(JUDGE).cases, {"all": Column("all", ColumnKind.CRITERION, -TRUE)})
    partly = Column("realism", ColumnKind.CRITERION, np.where(np.arange(60) < 30, TRUE, NAN))
    some = Scores("partly", judged(JUDGE).cases, {"realism": partly})
    one = found(judged(JUDGE), rated(PEOPLE), baselines=[noise, some])
    lpips, half = one.baselines
    assert value(lpips.spearman) < 0
    by_strength = value(one.coefficients["spearman"]) + value(lpips.spearman)
    assert value(lpips.difference) == pytest.approx(by_strength)
    assert half.cases == 30


def test_criteria_on_one_scale_are_averaged() -> None:
    columns = {name: Column(name, ColumnKind.CRITERION, np.array(JUDGE), (1, 7)) for name in ("realism", "detail")}
    scores = Scores("judge", judged(JUDGE).cases, columns)
    people = {name: Ratings(name, scores.cases, ("a", "b", "c"), np.array(PEOPLE)) for name in columns}
    whole = agree(scores, people, AgreementOptions(draw_count=DRAWS))
    assert whole.overall["mae"].value == pytest.approx(whole.criteria[0].coefficients["mae"].value)
    assert "Over the 2 criteria together" in describe_overall(whole)
    assert agree(judged(JUDGE), rated(PEOPLE), AgreementOptions(draw_count=DRAWS)).overall == {}


def test_another_judge_may_be_the_reference() -> None:
    other = judged([min(7, one + 1) for one in JUDGE])
    whole = agree(judged(JUDGE), ratings_from_scores(other), AgreementOptions(draw_count=DRAWS), "the other")
    assert whole.reference == "the other"
    one = whole.criteria[0]
    assert one.people == {}
    assert one.each_rater == ()
    told = " ".join(describe_criterion(one, other_judge=True))
    assert "goes with the other judge's" in told
    assert "to the other judge" in told
    assert "people" not in told


def test_with_another_judge_nobody_was_asked() -> None:
    columns = {name: Column(name, ColumnKind.CRITERION, np.array(JUDGE), (1, 7)) for name in ("realism", "detail")}
    flat = {"flat": Column("flat", ColumnKind.CRITERION, np.full(60, 3.0), (1, 7))}
    passed = {"A1": Column("A1", ColumnKind.ASSERTION, np.array([one > 4 for one in JUDGE], np.float64), (0, 1))}
    unlike = {"slider": Column("slider", ColumnKind.CRITERION, TRUE, (0, 10))}
    scores = Scores("judge", judged(JUDGE).cases, {**columns, **passed, **unlike, "flat": columns["realism"]})
    other = ratings_from_scores(Scores("other", scores.cases, {**columns, **flat, **passed, **unlike}))
    whole = agree(scores, other, AgreementOptions(draw_count=DRAWS, rating_scales={"detail": (0.0, 10.0)}), "other")
    words = [
        describe_overall(whole),
        *whole.notes,
        *(told for one in whole.criteria for told in describe_criterion(one, True)),
    ]
    words += [estimate.why for one in whole.criteria for estimate in one.coefficients.values()]
    words += [title for title, _, _ in agreement_tables(whole, full=True)]
    for text in words:
        assert not re.search(
            "people|person|rating|rater", text.replace("--rating-scale", "").replace("rating_scale=", "")
        ), text


def test_straight_lines_are_told() -> None:
    people = [[*row[:2], 7] for row in PEOPLE]
    whole: JudgeAgreement = agree(judged(JUDGE), rated(people), AgreementOptions(draw_count=DRAWS))
    assert "r2 in 1 of 1 criteria" in describe_straightlining(whole.criteria)
    assert (
        describe_straightlining(agree(judged(JUDGE), rated(PEOPLE), AgreementOptions(draw_count=DRAWS)).criteria) == ""
    )


def test_the_same_seed_gives_the_same_intervals() -> None:
    first, again, other = (found(judged(JUDGE), rated(PEOPLE), seed=seed) for seed in (1, 1, 2))
    assert first.coefficients == again.coefficients
    assert first.coefficients["spearman"].low != other.coefficients["spearman"].low


NUMBER = st.sampled_from([0.0, 1.0, 2.5, 7.0, NAN])


@st.composite
def anything(draw: st.DrawFn) -> tuple[list[float], list[list[float]], list[str]]:
    """Scores, ratings and groups, with gaps and ties and constants."""
    cases, raters = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    row = st.lists(NUMBER, min_size=raters, max_size=raters)
    scores = draw(st.lists(NUMBER, min_size=cases, max_size=cases))
    groups = draw(st.lists(st.sampled_from("abc"), min_size=cases, max_size=cases))
    return scores, draw(st.lists(row, min_size=cases, max_size=cases)), groups


@given(anything(), st.sampled_from(ReferenceMode), st.sampled_from([None, (0.0, 1.0), (0.0, 10.0)]), st.booleans())
def test_whatever_there_is_to_compare_there_is_an_answer(
    data: tuple[list[float], list[list[float]], list[str]],
    against: ReferenceMode,
    scale: tuple[float, float] | None,
    other_judge: bool,
) -> None:
    scores, people, groups = data
    metric = Scores("metric", ("c1", "c0"), {"all": Column("all", ColumnKind.CRITERION, np.array([1.0, 2.0]))})
    asked = AgreementOptions(draw_count=100, against=against, baselines=[metric])
    both = ~np.isnan(scores) & ~np.isnan(people).all(axis=1)
    assume(both.any())
    whole = agree(judged(scores, scale, source=groups), rated(people), asked, "other" if other_judge else "")
    json.dumps(whole.to_dict(), allow_nan=False)
    for one in whole.criteria:
        told = {**one.coefficients, **one.people, "constant": one.constant.mae}
        assert all(estimate.value is not None or estimate.why for estimate in told.values())
        assert all(sentence.endswith(".") for sentence in describe_criterion(one, other_judge))
