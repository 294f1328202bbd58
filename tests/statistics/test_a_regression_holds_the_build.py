"""A gate closes on a drop that is shown, beyond the margin, and never opens because it could not see."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as Xml

import numpy as np
import pytest

from beholder.errors import UsageError
from beholder.reports.ci import comparison_junit, comparison_markdown, format_prose
from beholder.reports.comparison import cases_needed, conclusion
from beholder.statistics.comparison import Comparison, ComparisonOptions, compare
from beholder.statistics.data import Column, ColumnKind, Floats, Scores
from beholder.statistics.gate import FailOn, gate_comparison


def scores(name: str, **columns: Floats) -> Scores:
    kinds = {"score": (ColumnKind.OVERALL, (0.0, 1.0)), "passed": (ColumnKind.PASSED, (0.0, 1.0))}
    made = {}
    for key, values in columns.items():
        kind, scale = kinds.get(key, (ColumnKind.CRITERION, (1.0, 5.0)))
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
    return compare(
        scores("old", **old), scores("new", **new), ComparisonOptions(margin=margin, margins=margins, detect=0.001)
    )


def test_a_drop_in_one_criterion_trips_it_and_nothing_else() -> None:
    found = dropped(0.3)
    assert gate_comparison(found, ["any"]).regressed == ("accuracy",)
    assert "accuracy is worse by 0.3" in gate_comparison(found, ["any"]).failed["accuracy"]
    assert gate_comparison(found, ["accuracy"]).regressed == ("accuracy",)
    assert gate_comparison(found).failed == {}
    assert gate_comparison(found, ["clarity"]).failed == {}


def test_the_verdict_says_it_in_one_sentence() -> None:
    said = conclusion(dropped(0.3))
    assert said.startswith("new is worse on accuracy by 0.30")
    assert "nothing else changed that these 60 cases could show" in said
    assert re.search(
        r"a change of score by 0\.0\d+ would have been found in only 80% of such comparisons, a smaller one in fewer",
        said,
    )
    assert "probably" not in said
    assert cases_needed(dropped(0.3))[0].startswith("score: to find a difference of 0.001 in 80% of comparisons takes ")


def test_a_fall_that_was_noticed_is_not_said_to_go_unnoticed() -> None:
    rng = np.random.default_rng(2)
    old = rng.uniform(3, 5, 20)
    found = compare(scores("old", accuracy=old), scores("new", accuracy=old - rng.uniform(0, 3, 20)))
    assert found.changes[0].is_worse
    assert re.fullmatch(r"new is worse on accuracy by 1\.\d+ \([\d.]+ to [\d.]+ worse\)\.", conclusion(found))


def test_a_margin_allows_what_is_within_it() -> None:
    assert gate_comparison(dropped(0.3, margin=0.2), ["accuracy"]).regressed == ("accuracy",)
    assert gate_comparison(dropped(0.3, margin=0.4), ["accuracy"]).failed == {}
    assert gate_comparison(dropped(0.3, accuracy=0.4), ["any"]).failed == {}
    assert gate_comparison(dropped(0.3, margin=0.299), ["accuracy"]).regressed == ()


def test_an_improvement_is_no_regression() -> None:
    found = dropped(-0.3)
    assert gate_comparison(found, ["any"]).failed == {}
    assert conclusion(found).startswith("new is better on accuracy by 0.299 (0.294 to 0.304 better)")


def test_what_is_not_ruled_out_fails_only_who_asks_for_that() -> None:
    noisy = dropped(0.0)
    assert gate_comparison(noisy, ["any"]).failed == {}
    assert (
        set(gate_comparison(noisy, ["any"], FailOn.INCONCLUSIVE).failed)
        == set(gate_comparison(noisy, ["any"]).inconclusive)
        != set()
    )
    assert gate_comparison(dropped(0.0, margin=0.1), ["any"], FailOn.INCONCLUSIVE).failed == {}


def test_a_drop_in_a_handful_of_cases_is_not_let_through_unseen() -> None:
    unseen = gate_comparison(dropped(0.3, cases=5), ["accuracy"]).undecided["accuracy"]
    assert re.match(r"accuracy fell by 0.[23]\d*, and 5 groups of cases cannot tell that from chance", unseen)
    assert gate_comparison(dropped(0.3, cases=6), ["accuracy"]).regressed == ("accuracy",)
    assert gate_comparison(dropped(-0.3, cases=3), ["accuracy"]).failed == {}


def test_noise_seldom_trips_it() -> None:
    rng = np.random.default_rng(12)
    tripped = 0
    for number in range(150):
        names = [f"k{at}" for at in range(8)]
        old = {name: rng.uniform(1, 5, 25) for name in names}
        new = {name: values + rng.normal(0, 0.5, 25) for name, values in old.items()}
        found = compare(scores("old", **old), scores("new", **new), ComparisonOptions(draw_count=200, seed=number))
        tripped += bool(gate_comparison(found, ["any"]).regressed)
    assert tripped <= 10  # half of 5 % are drops; without Holm about 27 of these would trip


def test_a_gate_on_what_is_not_there_is_not_open() -> None:
    found = compare(scores("old", accuracy=np.ones(9)), scores("new", accuracy=np.ones(9)))
    said = "There is no 'score' in both runs to decide by; there are: accuracy, or any."
    assert gate_comparison(found).undecided == {"score": said}
    with pytest.raises(
        UsageError, match=r"no 'acuracy' in both runs .*; did you mean 'accuracy'\? There are: accuracy"
    ):
        gate_comparison(found, ["acuracy"])
    with pytest.raises(
        UsageError, match=r"no 'xyz' in both runs to decide by; there are: score, accuracy, clarity, or any\."
    ):
        gate_comparison(dropped(0.3), ["accuracy", "xyz"])


def test_a_margin_for_nothing_or_below_nothing_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="no 'nothing' to have a margin"):
        dropped(0.1, nothing=0.1)
    with pytest.raises(UsageError, match="0 or more"):
        dropped(0.1, margin=-0.1)


def test_a_gate_without_a_number_is_not_open() -> None:
    gone = scores("new", accuracy=np.full(9, np.nan))
    for after in (gone, replace(gone, columns={})):
        found = compare(scores("old", accuracy=np.ones(9)), after)
        decided = gate_comparison(found, ["any"])
        said = "Nothing has a score in both runs, so that there is nothing to decide 'accuracy' by."
        assert decided.undecided == decided.to_dict()["undecided"] == {"accuracy": said}
        assert "❌ **Not decided** on <code>accuracy</code>" in comparison_markdown(found, decided)
        suite = Xml.fromstring(comparison_junit(found, decided)).find("testsuite")
        assert suite is not None
        assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "1")
        error = suite.find("testcase/error")
        assert error is not None
        assert error.get("message") == said


def test_an_error_of_junit_names_what_is_not_there_beside_a_regression() -> None:
    columns = {"accuracy": np.linspace(3, 5, 20)}
    found = compare(scores("old", **columns), scores("new", accuracy=columns["accuracy"] - 1))
    decided = gate_comparison(found, ["accuracy", "score"])
    assert (decided.regressed, list(decided.undecided)) == (("accuracy",), ["score"])
    suite = Xml.fromstring(comparison_junit(found, decided)).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "1")
    assert [one.get("name") for one in suite.iter("testcase") if one.find("error") is not None] == ["score"]


def all_down(groups: int, criteria: int = 8, each: int = 4) -> Comparison:
    """Every criterion falls by about 2 of 4 points in every case, `each` cases a group."""
    rng = np.random.default_rng(0)
    sources = tuple(f"p{row // each}" for row in range(groups * each))
    names = [f"k{at}" for at in range(criteria)]
    old = scores("old", **{name: np.full(len(sources), 4.5) for name in names})
    new = scores("new", **{name: 2.5 - 0.1 * rng.random(len(sources)) for name in names})
    return compare(replace(old, groups={"source": sources}), replace(new, groups={"source": sources}))


def test_a_gate_that_could_not_close_for_many_columns_does_not_open() -> None:
    found = all_down(7)
    unseen = gate_comparison(found, ["any"]).undecided["k0"]
    assert re.match(r"k0 fell by 2.05, and 7 groups of cases cannot .* among 8 columns: it takes 9 at least", unseen)
    assert gate_comparison(found, ["k0"]).regressed == ("k0",)
    assert len(gate_comparison(all_down(9), ["any"]).regressed) == 8
    assert "8 groups" in gate_comparison(all_down(8), ["any"]).undecided["k0"]
    assert gate_comparison(all_down(9), ["any"]).undecided == {}


def test_the_verdict_never_says_that_nothing_changed_where_it_could_not_see() -> None:
    said = conclusion(all_down(7))
    assert "othing changed" not in said
    assert said.startswith("Not sure: k0 is worse by 2.05")
    assert said.endswith(
        "7 groups of cases cannot tell any change in one of 8 columns from chance: it takes 9 at least."
    )
    assert conclusion(all_down(9)).startswith("new is worse on k0 by 2.05")


def test_an_interval_is_no_regression_unless_the_test_agrees_and_that_is_said() -> None:
    after = np.ones(100)
    after[:4] = 0
    found = compare(scores("old", passed=np.ones(100)), scores("new", passed=after))
    assert found.changes[0].difference.high is not None
    assert found.changes[0].difference.high < 0
    decided = gate_comparison(found, ["passed"])
    assert (decided.regressed, decided.failed) == ((), {})
    said = decided.doubted["passed"]
    assert (decided.status, decided.undecided) == ("undecided", {"passed": said})
    assert "wholly beyond the margin of 0, but the permutation test does not agree (p = 0.125)" in said
    assert decided.to_dict()["doubted"] == {"passed": said}
    assert format_prose(said) in comparison_markdown(found, decided)
    suite = Xml.fromstring(comparison_junit(found, decided)).find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
    error = suite.find("testcase/error")
    assert error is not None
    assert error.get("message") == said
    assert "❌ **Not decided**" in comparison_markdown(found, decided)
    assert gate_comparison(found, ["passed"], FailOn.INCONCLUSIVE).failed == {"passed": said}
    assert conclusion(found).startswith("Not sure: passed is worse by 0.040")


@pytest.mark.parametrize("groups", [6, 12])
def test_a_gate_on_one_column_seldom_trips_by_chance(groups: int) -> None:
    rng = np.random.default_rng(groups)
    tripped = 0
    for number in range(600):
        old = rng.uniform(0.3, 0.7, groups)
        new = old + rng.normal(0, 0.1, groups)
        found = compare(
            scores("old", score=old), scores("new", score=new), ComparisonOptions(draw_count=200, seed=number)
        )
        tripped += bool(gate_comparison(found).regressed)
    assert tripped <= 15  # half of 5 % are drops; with 6 groups the interval alone would trip at 4 %


def test_what_rounding_leaves_is_no_regression() -> None:
    old, new = np.tile([0.9, 0.0], 12), np.tile([0.6, 0.3], 12)
    assert (new - old).sum() != 0
    sources = tuple(f"p{row // 2}" for row in range(24))
    first, second = (
        replace(scores(name, score=values), groups={"source": sources}) for name, values in (("old", old), ("new", new))
    )
    for before, after in ((first, second), (second, first)):
        found = compare(before, after)
        change = found.changes[0]
        assert (change.difference.value, change.difference.low, change.difference.high, change.p) == (0, 0, 0, 1)
        assert not change.is_significant
        assert gate_comparison(found).regressed == gate_comparison(found).inconclusive == ()


def test_a_fall_by_just_the_margin_is_within_it() -> None:
    old = np.full(12, 0.8)
    new = np.full(12, 0.7)
    assert (new - old)[0] < -0.1  # by rounding
    found = compare(scores("old", score=old), scores("new", score=new), ComparisonOptions(margin=0.1))
    assert found.changes[0].p_beyond == 1
    assert gate_comparison(found).regressed == gate_comparison(found).inconclusive == ()


@pytest.mark.parametrize("wrong", [-0.1, float("nan"), float("inf")])
def test_a_margin_is_a_number_from_0_up(wrong: float) -> None:
    with pytest.raises(UsageError, match="The margin is how far a mean may fall"):
        ComparisonOptions(margin=wrong)
    with pytest.raises(UsageError, match="The margin of clarity is how far"):
        ComparisonOptions(margins={"clarity": wrong})
    with pytest.raises(UsageError, match="The difference to detect is a number above 0"):
        ComparisonOptions(detect=wrong)
