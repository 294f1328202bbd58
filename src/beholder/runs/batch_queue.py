"""Requests of a run by batch: queued in a file for each judge, submitted as jobs, answered from the ledger."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import IO

from beholder.errors import SetupError, Unreachable
from beholder.judges.model import ModelJudge
from beholder.ledger import types
from beholder.ledger.ledger import Ledger
from beholder.ledger.locks import lock_file
from beholder.ledger.types import Entry, WriteToken
from beholder.providers.base import HttpRequest
from beholder.providers.batch import MAX_BATCH_BYTES, BatchApi, BatchClient, BatchHandle
from beholder.providers.retry import PermanentError, RetryableError
from beholder.runs.ledger_access import CallCoalescer, LedgerThread
from beholder.runs.limits import Budget
from beholder.verdicts.answer import BatchReply

Notify = Callable[[str], None]

FOLDER_PREFIX = "beholder-requests-"  # of folders with requests and their locks, in the folder for temporary files
_LOCK_SUFFIX = ".lock"


@contextmanager
def open_request_folder() -> Iterator[Path]:
    """Make a folder for request files, which only this user may read, and delete it at the end of the context.

    A file beside it is locked for as long as this process lives. Folders that killed processes left behind have a file
    that nobody locks, and are deleted now.
    """
    _delete_abandoned_folders()
    handle, lock = _create_lock()
    try:
        yield Path(tempfile.mkdtemp(prefix=f"{lock.stem}-"))
    finally:
        _delete_folder(handle, lock)


def _create_lock() -> tuple[int, Path]:
    """Create and lock a file with a new name; again if another process took it for an abandoned one before that."""
    while True:
        handle, name = tempfile.mkstemp(_LOCK_SUFFIX, FOLDER_PREFIX)
        with suppress(OSError):
            if lock_file(handle) and Path(name).exists():
                return handle, Path(name)
        os.close(handle)


def _delete_abandoned_folders() -> None:
    for lock in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*{_LOCK_SUFFIX}"):
        with suppress(OSError):  # it was deleted meanwhile, or is not ours
            status = lock.lstat()
            if not stat.S_ISREG(status.st_mode) or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
                continue
            handle = os.open(lock, os.O_RDWR)
            if lock_file(handle):
                _delete_folder(handle, lock)
            else:  # its process lives
                os.close(handle)


def _delete_folder(handle: int, lock: Path) -> None:
    """Delete the folder that belongs to a lock, and the lock, which is open as `handle`."""
    for folder in lock.parent.glob(f"{lock.stem}-*"):
        shutil.rmtree(folder, ignore_errors=True)
    os.close(handle)  # Windows deletes no open file
    with suppress(OSError):  # another process deletes it, too
        lock.unlink()


class LedgerBatchQueue:
    """The requests and replies of one judge; implements `judges.batch.BatchQueue`.

    Requests go into one file, which is submitted as a job whenever it is full, and at the end (`submit`). So the disk
    holds one job at a time, and memory does not grow.

    Attributes:
        closed_reason: Why nothing more is submitted in this pass; further requests are left for the next one.
        one_job_at_a_time: Close the queue after a job.
        used_replies: By brief, the keys of replies that were read for cases without a verdict yet.
    """

    def __init__(
        self,
        judge: ModelJudge,
        api: BatchApi,
        ledger_thread: LedgerThread,
        run: str,
        budget: Budget,
        folder: Path,
        notify: Notify,
    ) -> None:
        self.judge, self.api, self.client = judge, api, BatchClient(judge)
        self.max_requests, self.max_bytes = api.max_requests, MAX_BATCH_BYTES
        self.one_job_at_a_time = False
        self.closed_reason = ""
        self.submitted = 0
        self.used_replies: dict[str, list[bytes]] = {}
        self._thread, self._ledger = ledger_thread, ledger_thread.ledger
        self._run, self._budget, self._notify = run, budget, notify
        self._path = folder / f"{id(self):x}.jsonl"
        self._file: IO[bytes] | None = None
        self._queued: dict[bytes, int] = {}  # requests in the file, with the number of the attempt
        self._submitted: Mapping[bytes, int] = {}  # those of the job that was submitted last
        self._reserved = Decimal(0)
        self._lock = asyncio.Lock()
        self._lookups: CallCoalescer[bytes, BatchReply | None] = CallCoalescer(self._look_up)

    async def find(self, key: bytes) -> BatchReply | None:
        """Return the reply that the ledger has; coalesced with the lookups of other cases."""
        return await self._lookups.call(key)

    async def put(self, key: bytes, tries: int, request: HttpRequest, max_usd: Decimal) -> None:
        if self.closed_reason or key in self._queued or key in self._submitted:
            return
        before, after = self.api.frame(key.hex())
        size = len(before) + len(request.body) + len(after) + len(self.api.separator)
        async with self._lock:
            if self._file is not None and (
                len(self._queued) >= self.max_requests or self._file.tell() + size > self.max_bytes
            ):
                await self._submit()
            if self.closed_reason or key in self._queued or key in self._submitted:
                return
            await self._budget.reserve(max_usd)
            if self._file is None:
                self._path.touch(0o600)  # the images of the cases are in it
                self._file = self._path.open("wb")
            self._file.write(self.api.separator if self._queued else self.api.prefix)
            self._file.write(before)
            self._file.writelines(request.body.chunks())
            self._file.write(after)
            self._queued[key] = tries
            self._reserved += max_usd

    def mark_used(self, brief_digest: str, key: bytes) -> None:
        self.used_replies.setdefault(brief_digest, []).append(key)

    async def submit(self) -> None:
        """Submit the queued requests as a job. Raises `SetupError` where it is refused for good."""
        async with self._lock:
            await self._submit()

    async def aclose(self) -> None:
        """Forget requests that were not submitted: the next pass queues them again."""
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)
        await self.client.aclose()

    async def _submit(self) -> None:
        if self._file is None:
            return
        self._file.write(self.api.suffix)
        self._file.close()
        self._file, requests, self._queued = None, self._queued, {}
        reserved, self._reserved = self._reserved, Decimal(0)
        self._submitted = requests
        job = await self._thread.call(self._ledger.create_batch_job, self._run, self.judge.identity, requests, reserved)
        if job is None:
            self._notify(f"Another process has just submitted some of the same requests for {self.judge.name}.")
            return
        handle = await self._send(job)
        if handle is not None:
            await self._thread.call(self._ledger.mark_batch_submitted, self._run, job, handle, requests)
            self.submitted += job.count
            if self.one_job_at_a_time:
                self.closed_reason = "There is room for one job at a time."

    async def _send(self, job: types.BatchJob) -> BatchHandle | None:
        """Send a job to the provider; `None` where it did not take it, or nobody knows whether it did."""
        try:
            return await self.api.submit(self.client, self._path, job.note)
        except RetryableError as again:
            if not again.rate_limited:
                self.closed_reason = (
                    f"{again} Nobody can tell whether it took a job of {job.count} requests; that is found out the "
                    "next time, before anything is asked again."
                )
                self._notify(self.closed_reason)
                return None
            self.closed_reason = f"{again} It takes no more jobs for now; the rest is submitted the next time."
        except Unreachable as error:
            self.closed_reason = f"{error} The rest is submitted the next time."
        except (PermanentError, SetupError) as error:
            await self._thread.call(self._ledger.delete_batch_job, self._run, job)
            raise SetupError(str(error)) from None
        await self._thread.call(self._ledger.delete_batch_job, self._run, job)
        self._notify(self.closed_reason)
        return None

    async def _look_up(self, keys: Sequence[bytes]) -> list[BatchReply | None]:
        there = await self._thread.call(self._ledger.batch_replies, self._run, list(keys))
        return [there.get(key) for key in keys]


class BatchLedger(Ledger):
    """A ledger that marks replies as used in the transaction that writes the verdicts made from them.

    So no reply is read for a second verdict and counted twice in the costs, whenever the process ends.

    Attributes:
        live_usd: What live repairs have reserved and no verdict that was written has counted yet, by digest of brief.
        written_usd: What live repairs had reserved whose verdicts are written.
    """

    def __init__(self, ledger: Ledger, queues: Iterable[LedgerBatchQueue]) -> None:
        super().__init__(ledger.database)
        self._queues = tuple(queues)
        self.live_usd: dict[str, Decimal] = {}
        self.written_usd = Decimal(0)

    def write(
        self,
        run: str,
        entries: Sequence[Entry],
        worker: WriteToken | None = None,
        *,
        used_replies: Collection[bytes] = (),
        growing: bool = False,
    ) -> None:
        digests = _list_brief_digests(entries)
        used = [key for queue in self._queues for digest in digests for key in queue.used_replies.get(digest, ())]
        super().write(run, entries, worker, used_replies=[*used_replies, *used], growing=growing)
        for digest in digests:
            self.written_usd += self.live_usd.pop(digest, Decimal(0))
            for queue in self._queues:
                queue.used_replies.pop(digest, None)


def _list_brief_digests(entries: Iterable[Entry]) -> set[str]:
    """Return the digests of all briefs that the verdicts answer."""
    verdicts = [entry.verdict for entry in entries]
    digests = {verdict.brief_digest for verdict in verdicts}
    digests |= {juror.brief_digest for verdict in verdicts if verdict.jury for juror in verdict.jury.jurors}
    return digests - {""}
