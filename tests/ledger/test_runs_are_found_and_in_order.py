"""Runs are in the order in which they were started, whatever the clock said, and found by id, start of id or name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from support.ledger import NOW, case, entry, run_record, unscored, verdict

from beholder.errors import LedgerError
from beholder.ledger.ledger import Ledger
from beholder.ledger.query import tally_groups
from beholder.ledger.types import REVIEW_PREFIX


def test_a_clock_that_jumps_changes_no_order(ledger: Ledger) -> None:
    ledger.start(run_record("r2", created=NOW - timedelta(days=400), fingerprint="same"))
    ledger.start(run_record("r3", created=datetime(1970, 1, 1, tzinfo=UTC), fingerprint="same"))
    assert [run.id for run in ledger.runs()] == ["r3", "r2", "r1"]
    assert ledger.run("latest").id == "r3"
    found = ledger.find("same")
    assert found is not None
    assert found.id == "r3"
    assert ledger.find("other") is None


def test_by_id_start_or_name(ledger: Ledger) -> None:
    ledger.start(run_record("abc123", name="monday"))
    ledger.start(run_record("abd456", name="monday"))
    assert ledger.run("abc123").id == "abc123"
    assert ledger.run("abc").id == "abc123"
    assert ledger.run("monday").id == "abd456"
    for name, said in (("ab", "Several runs start"), ("zz", "no run 'zz'"), ("", "no run ''"), ("a%", "no run 'a%'")):
        with pytest.raises(LedgerError, match=said):
            ledger.run(name)


def test_an_id_goes_before_a_name(ledger: Ledger) -> None:
    ledger.start(run_record("r2", name="r1"))
    assert ledger.run("r1").id == "r1"


def test_no_run_yet(place: str | Path) -> None:
    with Ledger.open(place, create=True) as ledger, pytest.raises(LedgerError, match=r"no run in the ledger .* yet"):
        ledger.run()


def test_an_id_is_given_once(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="There is a run 'r1' in the ledger already"):
        ledger.start(run_record("r1"))


def test_renamed_tagged_finished(ledger: Ledger) -> None:
    ledger.rename("r1", "tuesday")
    assert ledger.tag("r1", "good", "ci") == ("ci", "good")
    assert ledger.tag("r1", remove=["ci"]) == ("good",)
    ledger.update("r1", state="finished", total=7)
    run = ledger.run("tuesday")
    assert (run.id, run.tags, run.state, run.total) == ("r1", ("good",), "finished", 7)
    assert run.updated > run.created
    assert ledger.runs(tag="good") == [run]
    assert ledger.runs(tag="ci") == []


def test_wrong_changes_are_refused(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="must not be empty"):
        ledger.rename("r1", " ")
    with pytest.raises(LedgerError, match="must not be empty"):
        ledger.tag("r1", "")
    with pytest.raises(ValueError, match=r"running, .*finished"):
        ledger.update("r1", state="asleep")
    with pytest.raises(TypeError, match="fingerprint"):
        ledger.update("r1", fingerprint="x")  # type: ignore[call-arg]


def test_progress_counts_and_means(ledger: Ledger) -> None:
    ledger.write("r1", [entry(1, verdict(1, score=0.5)), entry(2, verdict(2, score=0.7)), entry(3, unscored(3))])
    far = ledger.progress()["r1"]
    assert (far.done, far.scored) == (3, 2)
    assert far.mean_score == pytest.approx(0.6)


def test_a_mean_is_exact(ledger: Ledger) -> None:
    ledger.write("r1", [entry(number, verdict(number, score=0.7)) for number in range(10)])
    tally = ledger.tally("r1")
    assert tally.score.exact == Fraction(7, 10)
    assert tally.score.value == 0.7


def test_a_tally_can_be_split_by_a_group(ledger: Ledger) -> None:
    for number, model in enumerate(("a", "b", "b")):
        of = verdict(number, score=number / 10)
        ledger.write("r1", [entry(number, of, case=case(of, groups={"model": model}))])
    ledger.write("r1", [entry(9, unscored(9), case=case(unscored(9), groups={}))])
    split = tally_groups(ledger.stored_verdicts("r1"), "model")
    assert {value: (one.verdicts, one.score.value) for value, one in split.items()} == {
        "a": (1, 0.0),
        "b": (2, 0.15),
        "": (1, None),
    }
    assert split["b"].rubrics["edit-preservation"].criteria["unchanged_regions"].count == 2


def test_a_run_is_gone_on_with_or_started(ledger: Ledger) -> None:
    first = run_record("a", fingerprint="same", spent_usd=Decimal(0))
    assert ledger.find_or_create(first, fresh=False) == (first, True)
    assert ledger.find_or_create(run_record("b", fingerprint="same"), fresh=False) == (first, False)
    assert ledger.find_or_create(run_record("c", fingerprint="other"), fresh=False)[1]


def test_a_fresh_run_goes_on_only_with_one_that_was_begun_fresh_and_is_not_finished(ledger: Ledger) -> None:
    def asked(id_: str) -> tuple[str, bool]:
        found, new = ledger.find_or_create(run_record(id_, fingerprint="same", suite={"fresh": True}), fresh=True)
        return found.id, new

    ledger.start(run_record("plain", fingerprint="same"))
    assert asked("a") == ("a", True)
    ledger.update("a", state="interrupted")
    assert asked("b") == ("a", False)
    ledger.update("a", state="finished")
    assert asked("c") == ("c", True)
    assert ledger.find_or_create(run_record("d", fingerprint="same"), fresh=False)[0].id == "c"


def test_by_place_and_tag(ledger: Ledger) -> None:
    for id_, name in (("a1", "weekly"), ("b2", "other"), ("a3", "weekly"), ("a4", "weekly")):
        ledger.start(run_record(id_, name=name))
    ledger.tag("a1", "baseline")
    ledger.tag("a3", "baseline")
    ledger.start(run_record("rated", name="a review", fingerprint=f"{REVIEW_PREFIX}x"))
    named = {
        "latest": "a4",
        "latest~0": "a4",
        "previous": "a3",
        "latest~1": "a3",
        "latest~2": "b2",
        "previous~1": "b2",
        "weekly~1": "a3",
        "weekly~2": "a1",
        "weekly~3": None,
        "a3~1": "a1",  # of the same name
        "tag:baseline": "a3",
        "tag:baseline~1": "a1",
        "tag:base": None,
        "other~1": None,
        "~1": None,
    }
    for name, found in named.items():
        if found is None:
            with pytest.raises(LedgerError, match=f"There is no run '{name}'"):
                ledger.run(name)
        else:
            assert ledger.run(name).id == found, name
    for name, said in (
        ("weekly~3", "counted from 'weekly' back, there are 3 such runs"),
        ("other~1", "counted from 'other' back, there is 1 such run"),
        ("tag:basline", "did you mean 'tag:baseline'"),
        ("previus", "did you mean 'previous'"),
        ("weelky~1", "did you mean 'weekly'"),
    ):
        with pytest.raises(LedgerError, match=said):
            ledger.run(name)


@pytest.mark.parametrize("name", ["latest", "previous", "tag:baseline", "nightly~1"])
def test_a_name_that_stands_for_a_run_is_given_to_none_and_one_of_old_is_found(ledger: Ledger, name: str) -> None:
    for refused in (
        lambda: ledger.rename("r1", name),
        lambda: ledger.find_or_create(run_record("r2", name=name), fresh=True),
    ):
        with pytest.raises(LedgerError, match=f"'{name}' is no name for a run"):
            refused()
    ledger.start(run_record("old", name=name))
    ledger.start(run_record("young"))
    assert ledger.run(name).id == "old"
    assert (
        ledger.find_or_create(run_record("x", name=name, fingerprint=ledger.run("old").fingerprint), fresh=False)[1]
        is False
    )
