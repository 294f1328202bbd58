"""The jobs of a run at their providers: looked for, looked at, and their results put into the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

from sqlalchemy import Connection

from beholder.errors import Unreachable
from beholder.judges.batches import UNSURE, Forgotten, Look, Lost, Result, Short, State
from beholder.judges.batches.desk import UNREADABLE
from beholder.judges.model import ModelJudge
from beholder.judges.stages import Kept, Stage
from beholder.judges.wires.faults import Again, Never
from beholder.ledger import Ledger, jobs
from beholder.runs.clerk import Clerk
from beholder.runs.trays import LedgerTray, Tell

STORED = 256  # results that are written together
MOST_LOOKS = 5  # at results of which some are missing; then those are asked again

# In the handle of a job: how often its results were too few; the ids of jobs that it turned out not to be; that there
# was no room for it.
LOOKS, NOT, FULL = "looks", "not", "full"


class Fetching:
    """Looks at every job that is open. `requests` are those that came back with it or are in no open job any more,
    `answered` those of open jobs that the provider has come to."""

    def __init__(self, clerk: Clerk, run: str, tell: Tell) -> None:
        self.requests = 0
        self.answered = 0
        self._clerk, self._run, self._tell = clerk, run, tell

    async def fetch(self, found: Sequence[jobs.Job], trays: Mapping[str, LedgerTray]) -> None:
        """One that cannot be looked at just now stays open."""
        for job in found:
            tray = trays.get(job.judge)
            if tray is None:
                self._tell(f"A job of {job.count} requests is for a judge at another base URL; it is left alone.")
                continue
            try:
                await self._fetch(tray, job)
            except (Again, Never, Unreachable) as error:
                self._tell(f"{_named(tray, job)} cannot be looked at: {error}")

    async def _fetch(self, tray: LedgerTray, job: jobs.Job) -> None:
        ours = False
        while not ours:
            try:
                found = job if "id" in job.handle else await self._found(tray, job)
                if found is None:
                    return
                job = found
                ours = await self._looked_at(tray, job)
            except Forgotten:
                if UNSURE not in job.handle:
                    await self._clerk.write(jobs.fetched, self._run, job, Kept(Stage.EXPIRED), job.reserved_usd)
                    self.requests += job.count
                    said = "is forgotten by its provider; what it had not answered before is asked again."
                    return self._tell(f"{_named(tray, job)} {said}")
            if not ours:
                others = f"{job.handle.get(NOT, '')} {job.handle['id']}".strip()
                job = await self._marked(job, {NOT: others})
        return None

    async def _found(self, tray: LedgerTray, job: jobs.Job) -> jobs.Job | None:
        """A job of which nobody knows whether it was handed in, with its handle if it was."""
        others = await self._clerk.do(_surely_others, self._clerk.ledger)
        others |= set(job.handle.get(NOT, "").split())
        handle = await tray.api.find(tray.desk, Lost(job.note, job.created, job.count, others))
        if handle is None:
            await self._clerk.write(jobs.drop, self._run, job)
            self.requests += job.count
            self._tell(f"{_named(tray, job)} was begun and never handed in; they are asked again.")
            return None
        self._tell(f"{_named(tray, job)} was found again at its provider.")
        return await self._marked(job, {**job.handle, **handle})

    async def _looked_at(self, tray: LedgerTray, job: jobs.Job) -> bool:
        """Fetches what there is; false where it has turned out to be another job."""
        look = await tray.api.look(tray.desk, job.handle)
        if look.state is not State.ENDED:
            self.answered += look.answered + look.failed
            return True
        if look.full:
            await self._wait_for_room(tray, job, look)
            return True
        return await self._store(tray, job, look)

    async def _wait_for_room(self, tray: LedgerTray, job: jobs.Job, look: Look) -> None:
        tray.closed = f"{_named(tray, job)} was too much for now ({look.why})"
        refused = Kept(Stage.ERRORED, 1, 429, _error(look.why))

        def last(connection: Connection, number: int) -> None:
            jobs.set_handle(connection, number, job, {**job.handle, FULL: "yes"})
            jobs.fetched(connection, number, job, refused, Decimal(0))

        await self._clerk.write(last, self._run)
        await _tidy(tray, job)
        self._tell(f"{tray.closed}; they are handed in again the next time, in smaller jobs and one after the other.")

    async def _store(self, tray: LedgerTray, job: jobs.Job, look: Look) -> bool:
        """The results of a job that ended, into the ledger; the last of them together with the state of the job. False
        where none of them is of this job."""
        wanted, cost = set(await self._clerk.do(_keys, self._clerk.ledger, self._run, job)), Decimal(0)
        came: dict[bytes, Kept] = {}
        lines = nameless = new = 0
        try:
            async for result in tray.api.results(tray.desk, job.handle):
                lines += 1
                key = _key(result)
                nameless += not result.key
                if key not in wanted:
                    continue
                if UNSURE in job.handle:
                    job = await self._marked(job, {name: job.handle[name] for name in job.handle if name != UNSURE})
                wanted.discard(key)
                body = tray.judge.hidden(result.body.decode("utf-8", "replace"))
                came[key] = Kept(result.ending, 1, result.status, body)
                cost += _cost(tray.judge, result)
                if len(came) == STORED:
                    new += await self._clerk.write(jobs.keep, self._run, came)
                    came = {}
            if lines < look.answered + look.failed:
                raise Short(f"{tray.judge.name} has {look.answered + look.failed} results, and sent {lines}.")
        except Again as again:
            new += await self._clerk.write(jobs.keep, self._run, came)
            came = {}
            looks = int(job.handle.get(LOOKS, "0")) + (isinstance(again, Short) and not new)
            kept = f"{job.count - len(wanted)} of {job.count} are kept"
            if looks < MOST_LOOKS:
                self.requests += new
                await self._marked(job, {**job.handle, LOOKS: str(looks)})
                self._tell(f"{again} {kept}; the rest is fetched the next time.")
                return True
            self._tell(f"{again} {kept}; the rest has not come {looks} times and is asked again.")
        if UNSURE in job.handle and not nameless:
            return False
        rest = Kept(look.rest, 1, 400, _error(look.why))
        if nameless:  # theirs are among these
            rest = Kept(Stage.ERRORED, 1, 400, UNREADABLE.decode())
        elif look.rest is Stage.ERRORED:
            self._tell(f"{tray.judge.name} refused a job of {job.count} requests: {look.why or 'it does not say why'}.")

        def last(connection: Connection, number: int) -> None:
            jobs.keep(connection, number, came)
            jobs.fetched(connection, number, job, rest, cost)

        await self._clerk.write(last, self._run)
        await _tidy(tray, job)
        self.requests += job.count
        return True

    async def _marked(self, job: jobs.Job, handle: Mapping[str, str]) -> jobs.Job:
        if handle != job.handle:
            await self._clerk.write(jobs.set_handle, self._run, job, handle)
        return replace(job, handle=handle)


async def _tidy(tray: LedgerTray, job: jobs.Job) -> None:
    with suppress(Again, Never, Forgotten, Unreachable):
        await tray.api.tidy(tray.desk, job.handle)


def _named(tray: LedgerTray, job: jobs.Job) -> str:
    return f"A job of {job.count} requests for {tray.judge.name}"


def _error(why: str) -> str:
    return json.dumps({"error": {"message": why}})


def _key(result: Result) -> bytes:
    try:
        return bytes.fromhex(result.key)
    except ValueError:
        return b""


def _cost(judge: ModelJudge, result: Result) -> Decimal:
    if result.ending is not Stage.ANSWERED:
        return Decimal(0)
    try:
        return judge.read(result.body, batch=True).cost_usd or Decimal(0)
    except Again:
        return Decimal(0)


def _keys(ledger: Ledger, run: str, job: jobs.Job) -> list[bytes]:
    with ledger.reading() as connection:
        return jobs.keys(connection, ledger.number(connection, run), job)


def _surely_others(ledger: Ledger) -> set[str]:
    """The ids of jobs that this ledger knows by more than their size and time."""
    with ledger.reading() as connection:
        return {handle["id"] for handle in jobs.handles(connection) if "id" in handle and UNSURE not in handle}
