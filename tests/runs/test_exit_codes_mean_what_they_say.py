"""0, 1 or 3: a gate that always opens is none."""

from __future__ import annotations

import pytest

from beholder import UsageError
from beholder.runs.execution import RunMeans, choose_exit_code, find_missed_thresholds


def means(scored: int = 10, total: int = 10, **values: float) -> RunMeans:
    return RunMeans(total, scored, values)


@pytest.mark.parametrize(
    ("result", "fail_under", "max_unscored", "code"),
    [
        (means(score=0.8), {}, None, 0),
        (means(score=0.8), {"score": 80}, None, 0),
        (means(score=0.57), {"score": 57}, None, 0),  # 0.57 × 100 is 56.99… in floats
        (means(score=0.7999), {"score": 80}, None, 1),
        (means(score=0.9, accuracy=3.9), {"accuracy": 4}, None, 1),
        (means(score=0.9, accuracy=4.0), {"accuracy": 4}, None, 0),
        (means(scored=9, score=0.9), {}, None, 3),
        (means(scored=9, score=0.9), {}, "10%", 0),
        (means(scored=9, score=0.9), {}, "9%", 1),
        (means(scored=9, score=0.9), {}, 1, 0),
        (means(scored=9, score=0.9), {}, 0, 1),
        (means(scored=9, score=0.1), {"score": 80}, None, 1),  # 1 wins over 3
        (means(scored=0), {"score": 80}, "100%", 1),  # no evidence is no pass
        (means(scored=0), {}, None, 3),
    ],
)
def test_exit_codes(
    result: RunMeans, fail_under: dict[str, float], max_unscored: str | float | None, code: int
) -> None:
    assert choose_exit_code(result, fail_under, max_unscored) == code
    assert bool(find_missed_thresholds(result, fail_under, max_unscored)) == (code == 1)


@pytest.mark.parametrize("wrong", ["many", "-1", "2%%x", ""])
def test_a_share_that_is_none_is_said_to_be(wrong: str) -> None:
    with pytest.raises(UsageError, match="max_unscored"):
        choose_exit_code(means(score=1), {}, wrong)
