"""A judge's tray in a run by batch: requests lie in a file until they are a job, replies in the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO

from sqlalchemy import Connection

from beholder.errors import SetupError, Unreachable
from beholder.judges.batches import MOST_BYTES, Batches, Handle
from beholder.judges.batches.desk import Desk
from beholder.judges.model import ModelJudge
from beholder.judges.stages import Kept
from beholder.judges.wires import Request
from beholder.judges.wires.faults import Again, Never
from beholder.ledger import Ledger, jobs
from beholder.ledger.model import Entry
from beholder.ledger.sharing import Worker
from beholder.runs.budget import Budget
from beholder.runs.clerk import Clerk
from beholder.runs.together import Together

Tell = Callable[[str], None]


class LedgerTray:
    """Implements `judges.batched.Tray`. Requests go into one file, which is handed in as a job whenever it is full, and
    at the end (`hand_in`): as much of the disk is used as one job needs, and no memory that grows.

    `closed` says why nothing more is handed in this time; then requests are only left for the next. `only_one` closes
    it after a job.
    """

    def __init__(
        self, judge: ModelJudge, api: Batches, clerk: Clerk, run: str, budget: Budget, folder: Path, tell: Tell
    ) -> None:
        self.judge, self.api, self.desk = judge, api, Desk(judge)
        self.most_requests, self.most_bytes = api.most_requests, MOST_BYTES
        self.only_one = False
        self.closed = ""
        self.handed_in = 0
        self.answers: dict[str, list[bytes]] = {}  # by brief, the replies that were read for cases not yet done
        self._clerk, self._run, self._budget, self._tell = clerk, run, budget, tell
        self._path = folder / f"{id(self):x}.jsonl"
        self._file: IO[bytes] | None = None
        self._lying: dict[bytes, int] = {}  # in the file, with the number of the try
        self._gone: Mapping[bytes, int] = {}  # in the job that was handed in last
        self._reserved = Decimal(0)
        self._one_at_a_time = asyncio.Lock()
        self._found: Together[bytes, Kept | None] = Together(self._look_up)

    async def find(self, key: bytes) -> Kept | None:
        """What the ledger has; asked for together with all that is wanted just now."""
        return await self._found.ask(key)

    async def put(self, key: bytes, tries: int, request: Request, most_usd: Decimal) -> None:
        if self.closed or key in self._lying or key in self._gone:
            return
        before, after = self.api.frame(key.hex())
        size = len(before) + len(request.body) + len(after) + len(self.api.between)
        async with self._one_at_a_time:
            if self._file is not None and (
                len(self._lying) >= self.most_requests or self._file.tell() + size > self.most_bytes
            ):
                await self._hand_in()
            if self.closed or key in self._lying or key in self._gone:
                return
            await self._budget.reserve(most_usd)
            if self._file is None:
                self._file = self._path.open("wb")
            self._file.write(self.api.between if self._lying else self.api.opening)
            self._file.write(before)
            self._file.writelines(request.body.pieces())
            self._file.write(after)
            self._lying[key] = tries
            self._reserved += most_usd

    def used(self, brief_digest: str, key: bytes) -> None:
        self.answers.setdefault(brief_digest, []).append(key)

    async def hand_in(self) -> None:
        """What lies in the tray. Raises `SetupError` where it is refused for good."""
        async with self._one_at_a_time:
            await self._hand_in()

    async def aclose(self) -> None:
        """What still lies in the tray is as if it had not been asked."""
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)
        await self.desk.aclose()

    async def _hand_in(self) -> None:
        if self._file is None:
            return
        self._file.write(self.api.closing)
        self._file.close()
        self._file, requests, self._lying = None, self._lying, {}
        reserved, self._reserved = self._reserved, Decimal(0)
        self._gone = requests
        job = await self._clerk.write(jobs.begin, self._run, self.judge.identity, requests, reserved)
        if job is None:
            self._tell(f"Another process has just handed in some of the same requests for {self.judge.name}.")
            return
        handle = await self._submitted(job)
        if handle is not None:
            await self._clerk.write(jobs.handed_in, self._run, job, handle, requests)
            self.handed_in += job.count
            if self.only_one:
                self.closed = "There is room for one job at a time."

    async def _submitted(self, job: jobs.Job) -> Handle | None:
        try:
            return await self.api.submit(self.desk, self._path, job.note)
        except Again as again:
            if not again.busy:
                self.closed = (
                    f"{again} Nobody can tell whether it took a job of {job.count} requests; that is found out the "
                    "next time, before anything is asked again."
                )
                self._tell(self.closed)
                return None
            self.closed = f"{again} It takes no more jobs for now; the rest is handed in the next time."
        except Unreachable as error:
            self.closed = f"{error} The rest is handed in the next time."
        except (Never, SetupError) as error:
            await self._clerk.write(jobs.drop, self._run, job)
            raise SetupError(str(error)) from None
        await self._clerk.write(jobs.drop, self._run, job)
        self._tell(self.closed)
        return None

    async def _look_up(self, keys: Sequence[bytes]) -> list[Kept | None]:
        there = await self._clerk.do(_kept, self._clerk.ledger, self._run, list(keys))
        return [there.get(key) for key in keys]


class SettlingLedger(Ledger):
    """A ledger as a run by batch writes its verdicts: the transaction that has a verdict also notes that the replies
    behind it are used up. Whatever ends the process, no reply is read for a second verdict and paid for again in the
    sums."""

    def __init__(self, ledger: Ledger, trays: Iterable[LedgerTray]) -> None:
        super().__init__(ledger.database)
        self._trays = tuple(trays)

    def write(self, run: str, entries: Sequence[Entry], worker: Worker | None = None) -> None:
        super().write(run, entries, worker)
        for tray in self._trays:
            for digest in _briefs(entries):
                tray.answers.pop(digest, None)

    def _also_write(self, connection: Connection, run: int, entries: Sequence[Entry]) -> None:
        done = _briefs(entries)
        jobs.use_up(
            connection, run, [key for tray in self._trays for digest in done for key in tray.answers.get(digest, ())]
        )


def _briefs(entries: Iterable[Entry]) -> set[str]:
    """The digests of all briefs that the verdicts answer."""
    verdicts = [entry.verdict for entry in entries]
    digests = {one.brief_digest for one in verdicts}
    digests |= {juror.brief_digest for one in verdicts if one.jury for juror in one.jury.jurors}
    return digests - {""}


def _kept(ledger: Ledger, run: str, keys: list[bytes]) -> dict[bytes, Kept]:
    with ledger.reading() as connection:
        return jobs.find(connection, ledger.number(connection, run), keys)
