"""Jobs at providers' batch APIs: what the ledger knows of each request, at every moment."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from ledger_making import run_record

from beholder.ledger import Ledger, jobs

A, B, C = (bytes([number]) * 16 for number in range(3))


def written(ledger: Ledger, work: Callable[..., Any], *arguments: Any) -> Any:
    with ledger.writing() as connection:
        return work(connection, ledger.number(connection, "r1"), *arguments)


def stages(ledger: Ledger) -> dict[bytes, str]:
    return {key: kept.stage for key, kept in written(ledger, jobs.find, [A, B, C]).items()}


def begun(ledger: Ledger, requests: dict[bytes, int] | None = None) -> Any:
    return written(ledger, jobs.begin, "judge", requests or {A: 1, B: 1}, Decimal("0.5"))


def test_a_job_that_was_begun_is_under_way_until_its_results_are_here(ledger: Ledger) -> None:
    job = begun(ledger)
    assert written(ledger, jobs.under_way) == [job]
    assert (job.handle, job.state, stages(ledger)) == ({}, jobs.BEGUN, {A: jobs.PENDING, B: jobs.PENDING})
    written(ledger, jobs.handed_in, job, {"id": "batch_1"})
    [there] = written(ledger, jobs.under_way)
    assert (there.handle, there.keys, there.note) == ({"id": "batch_1"}, (A, B), job.note)
    written(
        ledger, jobs.keep, {B: jobs.Kept("answered", 1, 200, '{"é": "\ud83d"}'.encode("utf-8", "replace").decode())}
    )
    left = written(ledger, jobs.fetched, there, jobs.Kept("expired"), Decimal("0.1"))
    assert (left, written(ledger, jobs.under_way)) == (1, [])
    assert stages(ledger) == {A: "expired", B: "answered"}


def test_what_was_never_handed_in_is_as_if_it_had_not_been_asked(ledger: Ledger) -> None:
    written(ledger, jobs.drop, begun(ledger))
    assert (stages(ledger), written(ledger, jobs.under_way)) == ({}, [])


def test_nothing_is_in_two_jobs_at_once(ledger: Ledger) -> None:
    begun(ledger)
    assert begun(ledger, {B: 1, C: 1}) is None
    assert stages(ledger) == {A: jobs.PENDING, B: jobs.PENDING}


def test_tries_are_counted_over_jobs(ledger: Ledger) -> None:
    first = begun(ledger)
    written(ledger, jobs.fetched, first, jobs.Kept("expired"), Decimal(0))
    begun(ledger, {A: 2})
    written(ledger, jobs.keep, {A: jobs.Kept("answered", 1, 200, "{}")})
    assert written(ledger, jobs.find, [A])[A].tries == 2


def test_a_reply_that_comes_again_is_not_used_again(ledger: Ledger) -> None:
    begun(ledger)
    for _ in range(2):
        written(ledger, jobs.keep, {A: jobs.Kept("answered", 1, 200, "{}")})
        written(ledger, jobs.use_up, [A])
    assert stages(ledger) == {A: jobs.USED, B: jobs.PENDING}


def test_money_is_set_aside_until_it_is_in_verdicts(ledger: Ledger) -> None:
    job = begun(ledger)
    assert written(ledger, jobs.set_aside) == Decimal("0.5")
    written(ledger, jobs.fetched, job, jobs.Kept("expired"), Decimal("0.2"))
    assert written(ledger, jobs.set_aside) == Decimal("0.2")
    written(ledger, jobs.close)
    assert written(ledger, jobs.set_aside) == 0


def test_runs_do_not_see_each_others_jobs_and_take_them_along_when_deleted(ledger: Ledger) -> None:
    ledger.start(run_record("r2"))
    begun(ledger)
    with ledger.reading() as connection:
        other = ledger.number(connection, "r2")
        assert (jobs.under_way(connection, other), jobs.find(connection, other, [A])) == ([], {})
    ledger.delete("r1")
    assert ledger.check() == []
