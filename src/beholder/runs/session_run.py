"""The run of a session in the ledger: its cases and rubrics come one by one, and each verdict is stored at once.

Several processes may work on it at the same time, on SQLite too: each is a worker (`ledger.leases`) that gets its part
of the budget and of the rate limits through the ledger. Cases are not leased: who asks for a verdict waits for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import platform
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import msgspec

from beholder.cases.case import Case, list_texts
from beholder.errors import ImageError, LedgerError
from beholder.images.image import ImageSource
from beholder.images.source import is_remote, read_image
from beholder.ledger.encoding import key_id
from beholder.ledger.ledger import Ledger
from beholder.ledger.rescue import rescue_verdicts
from beholder.ledger.types import FINISHED, RUNNING, AnswerKey, Entry, RunRecord, StoredAnswer, VerdictKey
from beholder.rubrics.rubric import Rubric
from beholder.runs.cache import SharedAnswerCache
from beholder.runs.image_pool import ThumbnailSelector
from beholder.runs.ledger_access import LEASE_S, CallCoalescer, CaseLeases, LedgerThread, has_ended, join_run
from beholder.runs.limits import RunLimits
from beholder.runs.suite_file import JudgeEntry, SuiteFile, dump_non_defaults
from beholder.verdicts.verdict import FINAL_OUTCOMES, Verdict

_log = logging.getLogger(__name__)

SESSION_PREFIX = "session:"  # of the fingerprint of a session's run
REMEMBERED = 10_000  # verdicts of which the content is remembered, to notice an id that comes with another


def find_or_create_session_run(
    ledger: Ledger, name: str, settings: SuiteFile, prompt: str | None, key: str, *, sole: bool = False
) -> RunRecord:
    """Return the run that a session continues, or a new one.

    Args:
        ledger: Where the run is.
        name: The name of the session; empty for one that continues no run.
        settings: Judges, samples and what else is set.
        prompt: The text of a prompt of the user's own.
        key: A digest of what a session must have in common with the run that it continues.
        sole: Refuse a name that the run of a session with another key has.

    Raises:
        LedgerError: The ledger cannot be written, or as `sole` says.
    """
    from beholder import __version__

    now = datetime.now(UTC)
    judges = [dump_non_defaults(entry) for entry in settings.judges if isinstance(entry, JudgeEntry)]
    run = RunRecord(
        id=f"{now:%y%m%d}-{secrets.token_hex(3)}",
        name=name or "session",
        fingerprint=SESSION_PREFIX + (key if name else secrets.token_hex(16)),
        state=RUNNING,
        created=now,
        updated=now,
        total=0,
        suite=msgspec.to_builtins({**dump_non_defaults(settings), "judges": judges, "session": True}),
        prompt=prompt,
        versions={"beholder": __version__, "python": platform.python_version(), "platform": platform.platform()},
    )
    sole_of = SESSION_PREFIX if sole and name else ""
    record, is_new = ledger.find_or_create(run, fresh=False, same_name=True, sole_of=sole_of)
    _log.info("run %s %s: %s", record.id, "begun" if is_new else "resumed", record.name)
    return record


class SessionRun:
    """One process at work on the run of a session. Belongs to one event loop, from `join` on.

    Args:
        ledger: Where the run is.
        run_id: The run.
        limits: Those of the judges, which all processes share.
        timeout_s: How long a case may wait for an answer that somebody else asks for.

    Attributes:
        stop: Once it is set, no case that waits for somebody else's answer begins a call.
        thumbnails: Tells which images have no thumbnail in the ledger.
    """

    def __init__(
        self,
        ledger: Ledger,
        run_id: str,
        limits: RunLimits,
        timeout_s: float | None = None,
    ) -> None:
        self.ledger, self.id = ledger, run_id
        self._limits = limits
        self._thread = LedgerThread(ledger)
        self.stop = asyncio.Event()
        self._cache = SharedAnswerCache(self._thread, self.stop, timeout_s=timeout_s)
        self._outcomes: CallCoalescer[str, Mapping[VerdictKey, str]] = CallCoalescer(self._find_outcomes)
        self._writes: CallCoalescer[Entry, None] = CallCoalescer(self._write_batch)
        self._write_turn = asyncio.Lock()
        self._rubrics: dict[str, Rubric] = {}
        self._contents: dict[VerdictKey, tuple[int, int]] = {}
        self.joined = False
        self._work = AsyncExitStack()  # ended by `leave`
        self._leases: CaseLeases | None = None  # set by `join`
        self._record: RunRecord | None = None  # too
        self.thumbnails = ThumbnailSelector(self._find_thumbnails)

    async def join(self) -> None:
        """Register this process as a worker on the run. Everything else is called after it, until `leave`.

        After a `LedgerError` it may be called again.
        """
        if self._leases is None:
            joining = join_run(self._thread, self.id, self._limits, LEASE_S, shared=True)
            self._leases = await self._work.enter_async_context(joining)
        await self._thread.call(partial(self.ledger.update, self.id, state=RUNNING))
        self._record = await self._thread.call(self.ledger.run, self.id)
        self.joined = True

    async def leave(self) -> None:
        """Stop working on the run, if that was begun. It is finished when nobody else works on it."""
        try:
            await self._work.aclose()
            self._thread.retry_for_s = 0.0
            # A run in which nothing was judged is finished, too; but then it is no error that this cannot be stored.
            with nullcontext() if self.joined else suppress(LedgerError):
                others = await self._thread.call(self.ledger.active_workers, self.id)
                state = (await self._thread.call(self.ledger.run, self.id)).state
                if state == RUNNING and all(map(has_ended, others)):
                    await self._thread.call(partial(self.ledger.update, self.id, state=FINISHED))
                    _log.info("run %s finished", self.id)
        finally:
            self._thread.close()
            self._cache.close()

    async def check_file(self) -> None:
        """Raise `LedgerError` if the ledger's file is gone or its disk is full: called before anything is asked."""
        if problem := self.ledger.find_file_problem():
            raise LedgerError(problem + await self._thread.call(self.ledger.save_displaced))

    async def add_rubric(self, rubric: Rubric) -> None:
        """Add a rubric to the run. Raises `LedgerError` if it has another one of that name."""
        if self._rubrics.get(rubric.name) != rubric:
            await self._thread.call(self.ledger.add_rubric, self.id, msgspec.to_builtins(rubric))
            self._rubrics[rubric.name] = rubric

    async def find_verdict(self, case: Case, rubric: Rubric) -> Verdict | None:
        """Return the verdict that the run has on the same content, if its outcome is final.

        Args:
            case: The case.
            rubric: The rubric in the setting of the case.
        """
        outcomes = await self._outcomes.call(case.id)
        if outcomes.get((case.id, rubric.name)) not in FINAL_OUTCOMES:
            return None
        verdict, other_content = await asyncio.to_thread(self._read_same, case, rubric)
        if other_content is not None:
            self._contents[case.id, rubric.name] = other_content
        return verdict

    async def look_up(self, keys: Sequence[AnswerKey]) -> Mapping[AnswerKey, StoredAnswer]:
        """Return the stored answers to these keys, whichever run paid for them; waits for those that are asked for."""
        return await self._cache.look_up_or_lock(keys)

    def release(self, keys: Sequence[AnswerKey]) -> None:
        """Let others ask for answers that were looked up here and got none."""
        self._cache.release(keys)

    async def write(self, entry: Entry) -> None:
        """Store a verdict, together with those of other tasks. Raises `LedgerError`.

        A case whose id the run has with other content is logged: its verdict takes the place of that one.
        """
        self._warn_of_other_content(entry)
        await self._writes.call(entry)

    async def rescue(self, entries: Sequence[Entry]) -> LedgerError:
        """Store verdicts that the ledger could not take elsewhere, since they are paid for. Returns an error that says
        where."""
        assert self._record is not None
        assert self._leases is not None
        rubrics = tuple(msgspec.to_builtins(rubric) for rubric in self._rubrics.values())
        # Each a batch of its own: whichever were sent together, each write may have succeeded after all.
        placed = [[replace(entry, position=position)] for position, entry in enumerate(entries)]
        record, token = replace(self._record, total=0, rubrics=rubrics), self._leases.make_write_token()
        where = await asyncio.to_thread(rescue_verdicts, self.ledger, record, placed, token)
        return LedgerError(f"The ledger {self.ledger.place!r} cannot be written.{where}")

    def _read_same(self, case: Case, rubric: Rubric) -> tuple[Verdict | None, tuple[int, int] | None]:
        """Return the stored verdict if it is on the same content, else a hash of the content that it is on."""
        try:
            stored = self.ledger.case(self.id, case.id)
            verdicts = self.ledger.verdict(self.id, case.id)
        except LedgerError:  # deleted meanwhile
            return None, None
        verdict = next((one for one in verdicts if one.rubric == rubric.name), None)
        if verdict is None or _is_same_content(stored, verdict, case, rubric):
            return verdict, None
        return None, _hash_content(stored, verdict)

    def _warn_of_other_content(self, entry: Entry) -> None:
        key = entry.case.id, entry.verdict.rubric
        now = _hash_content(entry.case, entry.verdict)
        before = self._contents.pop(key, now)
        if before[0] != now[0] or (before[1] != now[1] and before[1] and now[1]):
            _log.warning(
                "beholder: the case %r was judged by %s with other images or fields before; the run %s keeps the last "
                "verdict only. Give each case an id of its own.",
                *key,
                self.id,
            )
        self._contents[key] = now
        if len(self._contents) > REMEMBERED:
            del self._contents[next(iter(self._contents))]

    async def _find_outcomes(self, case_ids: Sequence[str]) -> Sequence[Mapping[VerdictKey, str]]:
        await self._cache.refresh()
        found = await self._thread.call(self.ledger.outcomes, self.id, list(dict.fromkeys(case_ids)))
        return [found] * len(case_ids)

    async def _find_thumbnails(self, digests: list[str]) -> set[str]:
        return await self._thread.call(self.ledger.has_thumbnail, digests)

    async def _write_batch(self, entries: Sequence[Entry]) -> Sequence[None]:
        assert self._leases is not None
        async with self._write_turn:  # one at a time: only the last write of a worker is known to have happened
            token = self._leases.make_write_token()
            await self._thread.call(partial(self.ledger.write, self.id, entries, token, growing=True))
        self._cache.add(key_id(answer.key) for entry in entries for answer in entry.answers)
        if self.ledger.is_displaced:  # a lack of room is told before the next case: this one is written
            await self.check_file()
        return [None] * len(entries)


def _is_same_content(stored: Case, verdict: Verdict, case: Case, rubric: Rubric) -> bool:
    """Return whether a stored verdict is on the same texts and image files. Remote images are not looked at."""
    if {name: list_texts(text) for name, text in stored.fields.items()} != {
        name: list_texts(text) for name, text in case.fields.items()
    }:
        return False
    sent = [(image.role, image.source_digest) for image in verdict.images]
    try:
        given = [(role, _digest_file(source)) for role in rubric.roles for source in case.sources(role)]
        return bool(sent) and sent == given
    except ImageError:
        return False


def _hash_content(case: Case, verdict: Verdict) -> tuple[int, int]:
    """Return hashes of the texts and of the images that were judged; 0 for images that could not be read."""
    texts = hash(frozenset((name, list_texts(text)) for name, text in case.fields.items()))
    return texts, hash(tuple((one.role, one.source_digest) for one in verdict.images)) if verdict.images else 0


def _digest_file(source: ImageSource) -> str:
    if isinstance(source, str) and is_remote(source):
        return ""
    return hashlib.sha256(read_image(source)).hexdigest()
