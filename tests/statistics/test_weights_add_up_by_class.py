"""The weight of each class is the plain sum over its points, however many draws are packed into one integer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.statistics.agreement import AgreementOptions, agree
from beholder.statistics.bootstrap import ClusterBootstrap
from beholder.statistics.coefficients import BootstrapWeights, ClassSums, pair_scores, rank_statistics
from beholder.statistics.data import Column, ColumnKind, Floats, Ints, Ratings, Scores


def plainly(place: Ints, case: Ints, size: int, share: Floats, weights: Floats) -> Floats:
    return np.array([np.bincount(place, row[case] * share, size) for row in weights])


@given(
    seed=st.integers(0, 1 << 30),
    points=st.integers(0, 40),
    size=st.integers(1, 30),
    draws=st.integers(1, 10),
    most=st.sampled_from([0, 1, 5, (1 << 21) - 1, 1 << 21, 1 << 30]),
    grouped=st.booleans(),
)
def test_sums_are_the_plain_ones(seed: int, points: int, size: int, draws: int, most: int, grouped: bool) -> None:
    rng = np.random.default_rng(seed)
    place, case = rng.integers(0, size, points), rng.integers(0, 12, points)
    share = rng.choice([1.0, 0.5, 0.25], points)
    group = rng.integers(0, 4, 12) if grouped else np.arange(12)
    rows = rng.integers(0, most, (draws, int(group.max()) + 1), endpoint=True).astype(np.float64)
    expected = plainly(place, case, size, share, rows[:, group])
    found = np.concatenate(list(ClassSums(place, case, size, share).sums(BootstrapWeights(rows, group))))
    assert np.array_equal(found, expected)


def test_more_draws_than_fit_in_a_block_are_all_there() -> None:
    rng = np.random.default_rng(0)
    place, case, share = rng.integers(0, 300_000, 50), np.arange(50), np.ones(50)
    rows = rng.integers(0, 4, (20, 50)).astype(np.float64)
    blocks = list(ClassSums(place, case, 300_000).sums(rows))
    assert len(blocks) > 1
    assert np.array_equal(np.concatenate(blocks), plainly(place, case, 300_000, share, rows))


def test_terms_are_added_up_by_group_or_by_case_alike() -> None:
    rng = np.random.default_rng(1)
    group, terms = rng.integers(0, 5, 40), rng.normal(size=(40, 3))
    counts = rng.integers(0, 4, (7, 5)).astype(np.float64)
    assert np.allclose(
        BootstrapWeights(counts, group).weighted_sums(terms), BootstrapWeights(counts[:, group]).weighted_sums(terms)
    )


def test_agreement_draws_the_groups_that_its_sentence_names() -> None:
    rng = np.random.default_rng(2)
    true = rng.normal(size=200)
    x, people = true + rng.normal(size=200), true[:, None] + rng.normal(size=(200, 2))
    cases, sources = tuple(f"c{row}" for row in range(200)), tuple(f"s{row // 5}" for row in range(200))
    scores = Scores("judge", cases, {"a": Column("a", ColumnKind.CRITERION, x, None)}, {"source": sources})
    found = agree(scores, {"a": Ratings("a", cases, ("ada", "ben"), people)}, AgreementOptions(draw_count=300))
    pairs = pair_scores(x, np.round(people.mean(axis=1), 12))
    expected = ClusterBootstrap(sources, 200, count=300).estimates(rank_statistics(pairs))
    assert "300 draws of 40 groups" in found.intervals
    for name, one in expected.items():
        ours = found.criteria[0].coefficients[name]
        assert (ours.value, ours.low, ours.high) == pytest.approx((one.value, one.low, one.high), rel=1e-5, abs=1e-8), (
            name
        )
