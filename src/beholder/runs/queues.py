"""The two ends of a run: cases into the queue of jobs, verdicts out of the queue of what is finished. Between them are
the workers of one process (`engine`) or of a cluster (`ray`)."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from beholder.cases import Case
from beholder.ledger.model import Entry
from beholder.ledger.packing import key_id
from beholder.rubrics.composing import Composer
from beholder.runs.clerk import Clerk, pause
from beholder.runs.known import Known
from beholder.runs.sharing import Claims
from beholder.runs.work import Cases, Watch, Work

HANDED = 2  # cases begun at a time: eighty at once would read all their pictures before the first request goes out
CHUNK = 256  # jobs that are looked up in the ledger together
LEAST_LEASED = 8  # and that are leased together, where there are other processes: about as many as are asked at once
LOOK_AGAIN_S = 1.0  # before the second look at what other processes hold; later ones wait longer
BATCH = 64  # verdicts that are written together
LINGER_S = 0.25  # how long a batch that is not full waits for more

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """One verdict to give. `number` counts them over the whole run."""

    number: int
    position: int
    case: Case
    composer: Composer

    @property
    def key(self) -> tuple[str, str]:
        return self.case.id, self.composer.rubric.name


async def enlist(
    work: Work,
    cases: Cases,
    claims: Claims,
    known: Known | None,
    watch: Watch,
    jobs: asyncio.Queue[Job | None],
    workers: int,
    stop: asyncio.Event,
) -> None:
    """Puts every job that is ours into the queue, then one end mark for each worker. What other processes hold is
    looked at again: they may be gone before it is done."""
    size = min(CHUNK, max(LEAST_LEASED, work.concurrency)) if claims.shared else CHUNK
    held: array[int] | None = None
    patience = LOOK_AGAIN_S
    while not stop.is_set() and (held is None or held):
        if held is not None:  # all rows are read again, which takes its time where there are many
            await pause(stop, patience)
            patience = min(2 * patience, max(LOOK_AGAIN_S, work.lease_s / 4))
        held, looked = array("q"), held
        for chunk in chunks(_jobs(cases(), work.composers, looked), size):
            if stop.is_set():
                break
            if known is not None:
                await known.refresh()
            claimed = await claims.claim([job.key for job in chunk], work.final)
            epoch = claims.epoch
            for job in chunk:
                if job.key in claimed.held or (job.key in claimed.mine and claims.epoch != epoch):
                    held.append(job.number)
                elif job.key not in claimed.mine:
                    watch.skipped(1)
                elif not stop.is_set():
                    await jobs.put(job)
    for _ in range(workers):
        await jobs.put(None)


def _jobs(cases: Iterable[Case], composers: Sequence[Composer], only: Sequence[int] | None) -> Iterator[Job]:
    """All jobs of a run, or only those with these numbers, which rise."""
    wanted = None if only is None else iter(only)
    following = None if wanted is None else next(wanted, None)
    number = 0
    for position, case in enumerate(cases):
        for composer in composers:
            if wanted is None:
                yield Job(number, position, case, composer)
            elif number == following:
                yield Job(number, position, case, composer)
                following = next(wanted, None)
                if following is None:
                    return
            number += 1


async def write_out(
    run_id: str,
    finished: asyncio.Queue[Entry | None],
    clerk: Clerk,
    claims: Claims,
    known: Known | None,
    watch: Watch,
) -> None:
    """Writes batches until the end mark; a batch counts as done when the ledger has it."""
    open_ = True
    while open_:
        batch, open_ = await gathered(finished, BATCH, LINGER_S)
        if batch:
            await clerk.do(clerk.ledger.write, run_id, batch, claims.worker())
            if known is not None:
                known.add(key_id(answer.key) for entry in batch for answer in entry.answers)
            watch.done(batch)


async def gathered(queue: asyncio.Queue[T | None], most: int, linger_s: float) -> tuple[list[T], bool]:
    """What is in a queue, at most so many, and what comes soon after the first; also whether there may be more: `None`
    in the queue is its end."""
    found: list[T] = []
    try:
        async with asyncio.timeout(None) as patience:
            while len(found) < most:
                one = await queue.get()
                if one is None:
                    return found, False
                found.append(one)
                if len(found) == 1:
                    patience.reschedule(asyncio.get_running_loop().time() + linger_s)
    except TimeoutError:
        pass
    return found, True


def chunks(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """So many at a time."""
    iterator = iter(things)
    while chunk := list(islice(iterator, size)):
        yield chunk


def first_of(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that came first, whatever it brought down with it."""
    inner = failures.exceptions[0]
    return first_of(inner) if isinstance(inner, BaseExceptionGroup) else inner
