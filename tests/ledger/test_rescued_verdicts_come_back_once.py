"""Verdicts that were rescued come back with their cost: once, whether the ledger had taken some of them after all or
not, and never in place of a better one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from support.ledger import entry, unscored, verdict

from beholder.errors import LedgerError
from beholder.ledger.copy import copy_run
from beholder.ledger.ledger import Ledger
from beholder.ledger.rescue import RESCUED_KEY, rescue_verdicts
from beholder.ledger.types import Entry, WriteToken
from beholder.verdicts.verdict import Outcome

EACH = Decimal("0.25")


def paid(*numbers: int) -> list[Entry]:
    return [entry(number, spent_usd=EACH) for number in numbers]


def failed(number: int, outcome: Outcome) -> Entry:
    return replace(entry(number, spent_usd=EACH), verdict=unscored(number, outcome), answers=())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where rescues of a server's verdicts go."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rescued(ledger: Ledger, batches: Sequence[Sequence[Entry]], worker: WriteToken | None = None) -> Path:
    said = rescue_verdicts(ledger, ledger.run("r1"), batches, worker)
    found = re.search(r"are in '([^']+)': when it can be written again, run `beholder ledger copy ", said)
    assert found, said
    return Path(found[1])


def restore(ledger: Ledger, rescue: Path) -> None:
    for _ in range(2):  # once more changes nothing
        with Ledger.open(rescue) as source:
            copy_run(source, ledger, "r1")


def outcomes(ledger: Ledger) -> dict[str, str]:
    return {one.case: str(one.outcome) for one in ledger.verdicts("r1")}


@pytest.mark.parametrize("goes_on", [False, True])
def test_what_was_stored_although_the_reply_was_lost_is_not_counted_twice(ledger: Ledger, goes_on: bool) -> None:
    token = WriteToken("worker", "first", leased=False)
    ledger.grant("r1", "worker", Decimal(10), Decimal(2), 1)
    first, second = [*paid(0, 1), failed(2, Outcome.INVALID)], paid(3, 4)
    ledger.write("r1", first, token)  # the server has committed, and the client knows nothing of it
    rescue = rescued(ledger, [first, second], token)
    if goes_on:  # before the rescue is copied
        ledger.write("r1", paid(2), WriteToken("worker", "another", leased=False))
    restore(ledger, rescue)
    assert outcomes(ledger) == {verdict(number).case: "scored" for number in range(5)} | (
        {} if goes_on else {verdict(2).case: "invalid"}
    )
    assert ledger.run("r1").spent_usd == (6 if goes_on else 5) * EACH
    assert ledger.reserved_usd("r1") == 2 - (6 if goes_on else 5) * EACH
    assert ledger.check() == []


def test_what_was_not_stored_is_counted_although_its_cases_were_judged_again(ledger: Ledger) -> None:
    rescue = rescued(ledger, [paid(0, 1)])
    again = replace(entry(0, spent_usd=EACH), verdict=verdict(0, latency_s=4.5))
    ledger.write("r1", [again])
    restore(ledger, rescue)
    assert ledger.run("r1").spent_usd == 3 * EACH
    assert ledger.verdict("r1", verdict(0).case)[0].latency_s == 4.5
    assert outcomes(ledger) == {verdict(0).case: "scored", verdict(1).case: "scored"}


@pytest.mark.parametrize(
    ("before", "there", "stays"),
    [
        (Outcome.UNREACHABLE, Outcome.REFUSED, "refused"),
        (Outcome.UNREACHABLE, Outcome.FILTERED, "filtered"),
        (Outcome.UNREACHABLE, Outcome.SCORED, "scored"),
        (Outcome.REFUSED, Outcome.SCORED, "scored"),
        (Outcome.REFUSED, Outcome.UNREACHABLE, "refused"),
        (Outcome.SCORED, Outcome.REFUSED, "scored"),
        (Outcome.SCORED, Outcome.UNREACHABLE, "scored"),
    ],
)
def test_a_better_verdict_stays(ledger: Ledger, before: Outcome, there: Outcome, stays: str) -> None:
    def made(outcome: Outcome) -> Entry:
        return paid(0)[0] if outcome is Outcome.SCORED else failed(0, outcome)

    rescue = rescued(ledger, [[made(before)]])
    ledger.write("r1", [made(there)])
    restore(ledger, rescue)
    assert outcomes(ledger) == {verdict(0).case: stays}
    assert ledger.run("r1").spent_usd == 2 * EACH  # both were paid for


def test_one_that_cannot_be_stored_is_named_and_the_others_are(ledger: Ledger, folder: Path) -> None:
    odd = paid(1)[0]
    odd = replace(odd, answers=(replace(odd.answers[0], attempts=2**80),))  # more than a column takes
    said = rescue_verdicts(ledger, ledger.run("r1"), [[*paid(0), odd, *paid(2)], paid(3)], None)
    assert "3 verdicts that it could not take are in" in said
    assert f"without the cases {verdict(1).case!r}, whose verdicts cannot be stored" in said
    rescue = Path(said.split("'")[1])
    restore(ledger, rescue)
    assert set(outcomes(ledger)) == {verdict(number).case for number in (0, 2, 3)}
    assert ledger.run("r1").spent_usd == 3 * EACH
    rescue.unlink()
    assert list(folder.rglob("beholder-rescued-*")) == []  # of the other places that were tried nothing is left


def test_a_rescue_of_an_older_version_is_read(ledger: Ledger) -> None:
    rescue = rescued(ledger, [paid(0), paid(1)])
    with Ledger.open(rescue) as other:
        other.update_suite("r1", **{RESCUED_KEY: "worker 0123456789abcdef"})
    restore(ledger, rescue)
    assert len(outcomes(ledger)) == 2
    assert ledger.run("r1").spent_usd == 2 * EACH


def test_a_rescue_that_is_damaged_is_said_to_be(ledger: Ledger) -> None:
    rescue = rescued(ledger, [paid(0)])
    with Ledger.open(rescue) as other:
        other.update_suite("r1", **{RESCUED_KEY: {"worker": "", "name": "x", "batches": [{"verdicts": "?"}]}})
    with Ledger.open(rescue) as source, pytest.raises(LedgerError, match=r"The rescued run 'r1' is damaged"):
        copy_run(source, ledger, "r1")
