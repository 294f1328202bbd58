"""A gate closes on a drop that is shown, beyond the margin, and never opens because it could not see."""

from __future__ import annotations

import numpy as np
import pytest

from beholder.errors import UsageError
from beholder.reports.changes import needed, verdict
from beholder.statistics.comparison.comparing import Comparison, compare
from beholder.statistics.comparison.gating import FailOn, gate
from beholder.statistics.data import Column, Floats, Kind, Scores


def scores(name: str, **columns: Floats) -> Scores:
    kinds = {"score": (Kind.OVERALL, (0.0, 1.0)), "passed": (Kind.PASSED, (0.0, 1.0))}
    made = {}
    for key, values in columns.items():
        kind, scale = kinds.get(key, (Kind.CRITERION, (1.0, 5.0)))
        made[key] = Column(key, kind, values, scale)
    cases = tuple(f"c{row}" for row in range(len(next(iter(columns.values())))))
    return Scores(name, cases, made, {"source": cases})


def dropped(by: float, cases: int = 60, margin: float = 0.0, **margins: float) -> Comparison:
    """Accuracy falls by so much, everything else stays, up to noise."""
    rng = np.random.default_rng(6)
    old = {
        "score": rng.uniform(0.4, 0.8, cases),
        "accuracy": rng.uniform(2, 5, cases),
        "clarity": rng.uniform(2, 5, cases),
    }
    new = {key: values + rng.normal(0, 0.02, cases) for key, values in old.items()}
    new["accuracy"] = new["accuracy"] - by
    return compare(scores("old", **old), scores("new", **new), margin=margin, margins=margins, detect=0.001)


def test_a_drop_in_one_criterion_trips_it_and_nothing_else() -> None:
    found = dropped(0.3)
    assert gate(found, ["any"]).regressed == ("accuracy",)
    assert "accuracy is worse by 0.3" in gate(found, ["any"]).failed["accuracy"]
    assert gate(found, ["accuracy"]).regressed == ("accuracy",)
    assert gate(found).failed == {}
    assert gate(found, ["clarity"]).failed == {}


def test_the_verdict_says_it_in_one_sentence() -> None:
    said = verdict(dropped(0.3))
    assert said.startswith("new is worse on accuracy by 0.30")
    assert "nothing else changed that these 60 cases could show" in said
    assert "a drop of score under 0.0" in said
    assert needed(dropped(0.3))[0].startswith("score: to see a difference of 0.001 takes ")


def test_a_margin_allows_what_is_within_it() -> None:
    assert gate(dropped(0.3, margin=0.2), ["accuracy"]).regressed == ("accuracy",)
    assert gate(dropped(0.3, margin=0.4), ["accuracy"]).failed == {}
    assert gate(dropped(0.3, accuracy=0.4), ["any"]).failed == {}
    assert gate(dropped(0.3, margin=0.299), ["accuracy"]).regressed == ()


def test_an_improvement_is_no_regression() -> None:
    found = dropped(-0.3)
    assert gate(found, ["any"]).failed == {}
    assert verdict(found).startswith("new is better on accuracy by 0.299 (0.294 to 0.304 better)")


def test_what_is_not_ruled_out_fails_only_who_asks_for_that() -> None:
    noisy = dropped(0.0)
    assert gate(noisy, ["any"]).failed == {}
    assert set(gate(noisy, ["any"], FailOn.INCONCLUSIVE).failed) == set(gate(noisy, ["any"]).open) != set()
    assert gate(dropped(0.0, margin=0.1), ["any"], FailOn.INCONCLUSIVE).failed == {}


def test_a_drop_in_a_handful_of_cases_is_not_let_through_unseen() -> None:
    with pytest.raises(
        UsageError, match=r"accuracy fell by 0.[23]\d*, and 5 groups of cases cannot tell that from chance"
    ):
        gate(dropped(0.3, cases=5), ["accuracy"])
    assert gate(dropped(0.3, cases=6), ["accuracy"]).regressed == ("accuracy",)
    assert gate(dropped(-0.3, cases=3), ["accuracy"]).failed == {}


def test_noise_seldom_trips_it() -> None:
    rng = np.random.default_rng(12)
    tripped = 0
    for number in range(150):
        names = [f"k{at}" for at in range(8)]
        old = {name: rng.uniform(1, 5, 25) for name in names}
        new = {name: values + rng.normal(0, 0.5, 25) for name, values in old.items()}
        found = compare(scores("old", **old), scores("new", **new), draws=200, seed=number)
        tripped += bool(gate(found, ["any"]).regressed)
    assert tripped <= 10  # half of 5 % are drops; without Holm about 27 of these would trip


@pytest.mark.parametrize("on", ["nothing", "score"])
def test_a_gate_on_what_is_not_there_is_wrong_use(on: str) -> None:
    found = compare(scores("old", accuracy=np.ones(9)), scores("new", accuracy=np.ones(9)))
    with pytest.raises(UsageError, match=f"no '{on}' in both runs to decide by; there are: accuracy, or any"):
        gate(found, [on])


def test_a_margin_for_nothing_or_below_nothing_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="no 'nothing' to have a margin"):
        dropped(0.1, nothing=0.1)
    with pytest.raises(UsageError, match="0 or more"):
        dropped(0.1, margin=-0.1)


def test_a_gate_without_a_number_is_not_open() -> None:
    gone = scores("new", accuracy=np.full(9, np.nan))
    with pytest.raises(UsageError, match="nothing to decide"):
        gate(compare(scores("old", accuracy=np.ones(9)), gone), ["any"])
