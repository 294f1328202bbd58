"""A gate has three results, and what could not be decided is no pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.statistics import SCORES, write_build, write_builds

import beholder


@pytest.fixture
def builds(tmp_path: Path) -> Path:
    return write_builds(tmp_path / "beholder.db")


@pytest.mark.parametrize(
    ("before", "after", "fail_on", "status"),
    [
        ("whole", "again", "regression", "passed"),
        ("lower", "whole", "regression", "passed"),
        ("whole", "lower", "regression", "failed"),
        ("whole", "none", "regression", "undecided"),
        ("whole", "none", "inconclusive", "failed"),
        ("none", "nothing", "regression", "undecided"),
        ("few", "fewer", "regression", "undecided"),  # three groups cannot tell a drop from chance
        ("few", "fewer", "inconclusive", "failed"),
    ],
)
def test_a_gate_passes_fails_or_is_undecided(builds: Path, before: str, after: str, fail_on: str, status: str) -> None:
    gate = beholder.compare(before, after, ledger=builds).gate(fail_on=fail_on)
    assert gate.status == status
    assert status in repr(gate)
    assert bool_is_refused(gate)
    assert (gate.status == "passed") == (not gate.failed and not gate.undecided)


def bool_is_refused(gate: beholder.Gate) -> bool:
    with pytest.raises(beholder.UsageError, match="neither true nor false; ask for its status"):
        bool(gate)
    return True


@pytest.mark.parametrize("on", ["scoer", ["score", "scoer"]])
def test_a_column_that_is_not_there_is_wrong_use(builds: Path, on: str | list[str]) -> None:
    comparison = beholder.compare("whole", "lower", ledger=builds)
    with pytest.raises(beholder.UsageError, match="no 'scoer' in both runs to decide by; did you mean 'score'"):
        comparison.gate(on=on)


@pytest.mark.parametrize("on", [[], (), "", None, 5, [None], {}])
def test_a_gate_that_looks_at_nothing_is_wrong_use(builds: Path, on: Any) -> None:
    comparison = beholder.compare("whole", "lower", ledger=builds)
    with pytest.raises(beholder.UsageError):
        comparison.gate(on=on)


@pytest.mark.parametrize("fail_on", ["regression", "inconclusive"])
@pytest.mark.parametrize("name", ["whole", "latest", "tag:ci", "again~1"])
def test_a_run_is_no_gate_for_itself(tmp_path: Path, name: str, fail_on: str) -> None:
    place = tmp_path / "beholder.db"
    with beholder.Ledger.open(place, create=True) as ledger:
        write_build(ledger, "whole", SCORES)
        write_build(ledger, "again", SCORES)
        ledger.rename("whole", "again")
        if name in ("latest", "tag:ci"):
            ledger.delete("again" if name == "latest" else "whole")
    comparison = beholder.compare("whole" if name != "tag:ci" else "again", name, ledger=place)
    assert comparison.same_run
    with pytest.raises(beholder.UsageError, match="so that it could never fail; name an older run first"):
        comparison.gate(fail_on=fail_on)


def test_a_file_of_scores_is_no_gate_for_itself(tmp_path: Path) -> None:
    lines = [f"c{at},{judge},clarity,4" for at in range(8) for judge in "ab"]
    for judge in "ab":
        mine = [line for line in lines if f",{judge}," in line]
        (tmp_path / f"{judge}.csv").write_text("\n".join(["case,judge,aspect,score", *mine]), "utf-8")
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    assert beholder.compare(scores=[first, second]).gate(on="clarity").status == "passed"
    with pytest.raises(beholder.UsageError, match="could never fail"):
        beholder.compare(scores=[first, tmp_path / "." / "a.csv"]).gate(on="clarity")


def test_a_drop_that_the_test_does_not_confirm_is_not_green(tmp_path: Path) -> None:
    place = tmp_path / "beholder.db"
    with beholder.Ledger.open(place, create=True) as ledger:
        write_build(ledger, "before", [0.8] * 60)
        write_build(ledger, "after", [0.6] * 4 + [0.8] * 56)
    comparison = beholder.compare("before", "after", ledger=place)
    gate = comparison.gate()
    assert gate.status == gate.to_dict()["status"] == "undecided"
    assert "the permutation test does not agree (p = 0.125)" in gate.undecided["score"]
    assert comparison.gate(fail_on="inconclusive").status == "failed"


def test_a_margin_lets_a_drop_pass(builds: Path) -> None:
    comparison = beholder.compare("whole", "lower", margin=0.3, ledger=builds)
    assert comparison.gate().status == "passed"
    assert comparison.gate().to_dict()["failed"] == {}


@pytest.mark.parametrize(
    ("left", "status"),
    [([0], "undecided"), ([0, 1], "undecided"), (range(6), "passed"), (range(12), "passed")],
)
def test_a_gate_on_what_is_left_of_a_run_is_not_green(tmp_path: Path, left: Sequence[int], status: str) -> None:
    place = tmp_path / "beholder.db"
    with beholder.Ledger.open(place, create=True) as ledger:
        write_build(ledger, "before", [0.8] * 12)
        write_build(ledger, "after", [0.8] * len(left), cases=[f"p{at}" for at in left])
        write_build(ledger, "refused", [0.8 if at in left else None for at in range(12)])
    for after in ("after", "refused"):
        gate = beholder.compare("before", after, ledger=place).gate()
        assert gate.status == status
        assert (
            not gate.undecided
            or f"since {12 - len(left)} of the cases before are missing or" in gate.undecided["score"]
        )
