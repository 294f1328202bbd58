"""Jobs at providers' batch APIs: what the ledger knows of each request, at every moment."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from support.ledger import run_record

from beholder.ledger import batch_jobs, types
from beholder.ledger.ledger import Ledger
from beholder.verdicts.answer import BatchReply, BatchStage

A, B, C = (bytes([number]) * 16 for number in range(3))


def written(ledger: Ledger, work: Callable[..., Any], *arguments: Any) -> Any:
    with ledger._writing() as connection:
        return work(connection, ledger._run_number(connection, "r1"), *arguments)


def stages(ledger: Ledger) -> dict[bytes, BatchStage]:
    return {key: kept.stage for key, kept in written(ledger, batch_jobs.find_replies, [A, B, C]).items()}


def begun(ledger: Ledger, requests: dict[bytes, int] | None = None) -> Any:
    return written(ledger, batch_jobs.create_job, "judge", requests or {A: 1, B: 1}, Decimal("0.5"))


def test_a_job_that_was_begun_is_under_way_until_its_results_are_here(ledger: Ledger) -> None:
    job = begun(ledger)
    assert written(ledger, batch_jobs.read_pending_jobs) == [job]
    assert (job.handle, job.state, stages(ledger)) == (
        {},
        types.JOB_BEGUN,
        {A: BatchStage.PENDING, B: BatchStage.PENDING},
    )
    written(ledger, batch_jobs.mark_submitted, job, {"id": "batch_1"}, {A: 1, B: 1})
    [there] = written(ledger, batch_jobs.read_pending_jobs)
    assert (there.handle, there.count, there.note) == ({"id": "batch_1"}, 2, job.note)
    assert written(ledger, batch_jobs.read_request_keys, there) == [A, B]
    written(
        ledger,
        batch_jobs.store_replies,
        {B: BatchReply(BatchStage.ANSWERED, 1, 200, '{"é": "\ud83d"}'.encode("utf-8", "replace").decode())},
    )
    left = written(ledger, batch_jobs.finish_job, there, BatchReply(BatchStage.EXPIRED), Decimal("0.1"))
    assert (left, written(ledger, batch_jobs.read_pending_jobs)) == (1, [])
    assert stages(ledger) == {A: BatchStage.EXPIRED, B: BatchStage.ANSWERED}


def test_what_was_never_handed_in_is_as_if_it_had_not_been_asked(ledger: Ledger) -> None:
    written(ledger, batch_jobs.delete_job, begun(ledger))
    assert (stages(ledger), written(ledger, batch_jobs.read_pending_jobs)) == ({}, [])


def test_nothing_is_in_two_jobs_at_once(ledger: Ledger) -> None:
    begun(ledger)
    assert begun(ledger, {B: 1, C: 1}) is None
    assert stages(ledger) == {A: BatchStage.PENDING, B: BatchStage.PENDING}


def test_a_job_that_another_process_dropped_while_it_was_handed_in_is_written_again(ledger: Ledger) -> None:
    job = begun(ledger, {A: 2, B: 1})
    [seen] = written(ledger, batch_jobs.read_pending_jobs)
    written(ledger, batch_jobs.delete_job, seen)
    other = begun(ledger, {B: 1, C: 1})  # in a file of SQLite, under the number that the first had
    for _ in range(2):  # nobody can say whether the first time succeeded, where the ledger's server went away
        written(ledger, batch_jobs.mark_submitted, job, {"id": "batch_1"}, {A: 2, B: 1})
    assert [(one.note, one.state) for one in written(ledger, batch_jobs.read_pending_jobs)] == [
        (other.note, types.JOB_BEGUN),
        (job.note, types.JOB_OPEN),
    ]
    assert written(ledger, batch_jobs.read_request_keys, job) == [A, B]
    assert written(ledger, batch_jobs.find_replies, [A])[A] == BatchReply(BatchStage.PENDING, 2)


def test_who_drops_a_job_that_is_gone_leaves_the_requests_of_the_next(ledger: Ledger) -> None:
    job = begun(ledger)
    written(ledger, batch_jobs.delete_job, job)
    begun(ledger)
    written(ledger, batch_jobs.delete_job, job)
    assert stages(ledger) == {A: BatchStage.PENDING, B: BatchStage.PENDING}


def test_tries_are_counted_over_jobs(ledger: Ledger) -> None:
    first = begun(ledger)
    written(ledger, batch_jobs.finish_job, first, BatchReply(BatchStage.EXPIRED), Decimal(0))
    begun(ledger, {A: 2})
    written(ledger, batch_jobs.store_replies, {A: BatchReply(BatchStage.ANSWERED, 1, 200, "{}")})
    assert written(ledger, batch_jobs.find_replies, [A])[A].tries == 2


def test_a_reply_that_comes_again_is_not_used_again(ledger: Ledger) -> None:
    begun(ledger)
    for _ in range(2):
        written(ledger, batch_jobs.store_replies, {A: BatchReply(BatchStage.ANSWERED, 1, 200, "{}")})
        written(ledger, batch_jobs.use_up, [A])
    assert stages(ledger) == {A: BatchStage.USED, B: BatchStage.PENDING}


def test_money_is_set_aside_until_it_is_in_verdicts(ledger: Ledger) -> None:
    job = begun(ledger)
    assert written(ledger, batch_jobs.sum_reserved_usd) == Decimal("0.5")
    written(ledger, batch_jobs.finish_job, job, BatchReply(BatchStage.EXPIRED), Decimal("0.2"))
    assert written(ledger, batch_jobs.sum_reserved_usd) == Decimal("0.2")
    written(ledger, batch_jobs.close_fetched_jobs)
    assert written(ledger, batch_jobs.sum_reserved_usd) == 0


def test_runs_do_not_see_each_others_jobs_and_take_them_along_when_deleted(ledger: Ledger) -> None:
    ledger.start(run_record("r2"))
    begun(ledger)
    with ledger._reading() as connection:
        other = ledger._run_number(connection, "r2")
        assert (batch_jobs.read_pending_jobs(connection, other), batch_jobs.find_replies(connection, other, [A])) == (
            [],
            {},
        )
    ledger.delete("r1")
    assert ledger.check() == []
