"""The statistics of the exam are those that scikit-learn and SciPy compute, also under draws and ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from beholder.exam.paper import SIZES, ExamSize
from beholder.exam.report_card import PASS_MARKS, ExamMetric, auc, dose_response

few = st.integers(0, 4).map(lambda step: step / 4)  # a scale of five steps: ties are the rule


@st.composite
def papers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    size = draw(st.integers(2, 40))
    scores = np.array(draw(st.lists(few, min_size=size, max_size=size)))
    damaged = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    damaged[:2] = True, False
    weights = np.array(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)), float)
    weights[:2] += 1
    return scores, damaged, weights


@given(papers())
def test_detection_is_the_area_under_the_roc_curve_in_every_draw(drawn: tuple[np.ndarray, ...]) -> None:
    scores, damaged, weights = drawn
    found = auc(scores, damaged, ~damaged)(np.stack([np.ones(len(scores)), weights]))
    assert found[0] == pytest.approx(roc_auc_score(~damaged, scores))
    assert found[1] == pytest.approx(roc_auc_score(~damaged, scores, sample_weight=weights))


@given(papers())
def test_a_paper_without_a_score_takes_no_part_in_detection(drawn: tuple[np.ndarray, ...]) -> None:
    scores, damaged, weights = drawn
    with_gaps = np.concatenate([scores, [np.nan, np.nan]])
    more = np.concatenate([damaged, [True, False]])
    found = auc(with_gaps, more, ~more)(np.concatenate([weights, [5, 5]])[None, :])
    assert found[0] == pytest.approx(auc(scores, damaged, ~damaged)(weights[None, :])[0])


def test_detection_is_not_defined_without_papers_of_one_sort() -> None:
    scores = np.array([0.2, 0.4])
    assert np.isnan(auc(scores, np.array([True, True]), np.array([False, False]))(np.ones((1, 2)))[0])
    one_of_each = auc(scores, np.array([True, False]), np.array([False, True]))
    assert np.isnan(one_of_each(np.array([[2.0, 0.0]]))[0])  # a draw in which no clean paper is


@given(st.lists(few, min_size=3, max_size=8))
def test_dose_is_spearman_with_its_sign_turned(scores: list[float]) -> None:
    strengths = list(range(len(scores)))
    if len(set(scores)) == 1:
        assert dose_response(strengths, scores) == 0
    else:
        assert dose_response(strengths, scores) == pytest.approx(-spearmanr(strengths, scores).statistic)


def test_dose_needs_three_strengths_and_leaves_out_what_has_no_score() -> None:
    assert np.isnan(dose_response([0, 1], [1.0, 0.5]))
    assert np.isnan(dose_response([0, 1, 2], [1.0, np.nan, 0.5]))
    assert dose_response([0, 1, 2, 3], [1.0, np.nan, 0.5, 0.25]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("scores", "about"),
    [([6, 5, 4, 3, 2, 1], 1.0), ([6, 6, 5, 5, 4, 4], 0.95), ([6, 6, 6, 6, 6, 2], 0.65), ([1, 2, 3, 4, 5, 6], -1.0)],
)
def test_what_the_pass_mark_for_dose_says_of_itself(scores: list[int], about: float) -> None:
    assert dose_response(range(6), scores) == pytest.approx(about, abs=0.01)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_who_only_notices_the_strongest_does_not_pass_by_dose(size: ExamSize) -> None:
    scores = [1.0] * len(size.strengths) + [0.0]
    least = PASS_MARKS[ExamMetric.DOSE].least
    assert least is not None
    assert dose_response([0, *size.strengths], scores) < least
    scores[-2] = 0.5  # who notices the two strongest does
    assert dose_response([0, *size.strengths], scores) > least
