"""The answer cache: answers that the ledger has, whichever run paid for them, looked up behind a Bloom filter.

An answer that another run, session or process is asking for at the moment is waited for (`SharedAnswerCache`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from struct import Struct

from beholder.errors import AnswerError, Unreachable, Waiting
from beholder.judges.conversation import Conversation, add_brief_details, make_answer_context
from beholder.ledger.encoding import key_id, split_ids
from beholder.ledger.types import AnswerKey, StoredAnswer
from beholder.runs.ledger_access import CallCoalescer, LedgerThread
from beholder.runs.worker_processes import DaemonThreadPool
from beholder.verdicts.score import make_scored_verdict, read_answer

_log = logging.getLogger(__name__)

_BLOOM_BYTES = 2 * 1024 * 1024
_BLOOM_MASK = _BLOOM_BYTES * 8 - 1
_FOUR_INTEGERS = Struct("<4I")


class AnswerCache:
    """Looks up stored answers.

    A lookup in the ledger costs a quarter of a millisecond of CPU, and most cases of most runs are new. So a Bloom
    filter of all answered keys tells which need no lookup. It is updated with every batch of our own verdicts and
    before every chunk of cases. Its 2 MB hold a million keys with 2 false positives in a thousand.
    """

    def __init__(self, ledger_thread: LedgerThread) -> None:
        self._thread = ledger_thread
        self._newest = 0
        self._bits = bytearray(_BLOOM_BYTES)
        self._lookups: CallCoalescer[Sequence[AnswerKey], Mapping[AnswerKey, StoredAnswer]] = CallCoalescer(
            self._find_all
        )

    async def refresh(self) -> None:
        """Add the answers that other processes have written since."""
        new, self._newest = await self._thread.call(self._thread.ledger.answered_since, self._newest)
        self.add(split_ids(new))

    def add(self, ids: Iterable[bytes]) -> None:
        """Add answers by the ids of their keys (`ledger.encoding.key_id`)."""
        for id_ in ids:
            for bit in _bloom_bits(id_):
                self._bits[bit >> 3] |= 1 << (bit & 7)

    async def look_up(self, keys: Sequence[AnswerKey]) -> Mapping[AnswerKey, StoredAnswer]:
        """Return the stored answers to these keys; coalesced with the lookups of other workers."""
        likely = [key for key in keys if all(self._bits[bit >> 3] >> (bit & 7) & 1 for bit in _bloom_bits(key_id(key)))]
        return await self._lookups.call(likely) if likely else {}

    async def _find_all(self, wanted: Sequence[Sequence[AnswerKey]]) -> Sequence[Mapping[AnswerKey, StoredAnswer]]:
        found = await self._thread.call(self._thread.ledger.cached_answers, [key for keys in wanted for key in keys])
        return [found] * len(wanted)


MAX_WAIT_S = 30.0  # for an answer that somebody else is asking for; then it is asked for here as well
FIRST_PAUSE_S, MAX_PAUSE_S = 0.05, 0.5

# Whether the caller of a session wants no new call any more; set in the task of each case.
call_is_stopped: ContextVar[Callable[[], bool]] = ContextVar("call_is_stopped", default=lambda: False)


class SharedAnswerCache(AnswerCache):
    """An answer cache that locks what it does not have, so that nobody else asks for it at the same time.

    A lock ends when the answer was written (`add`), or when every case that asks for it here has called `release`: one
    that waited too long asks as well. See `ledger.locks`.

    Args:
        ledger_thread: Where the answers are.
        stop: Once it is set, or `call_is_stopped`, what somebody else asks for is neither waited for nor asked for.
        lease_s: Who is silent for so long is not waited for any longer than that either.
        timeout_s: How long one case may wait at most.
    """

    def __init__(
        self,
        ledger_thread: LedgerThread,
        stop: asyncio.Event | None = None,
        lease_s: float = MAX_WAIT_S,
        timeout_s: float | None = None,
    ) -> None:
        super().__init__(ledger_thread)
        self._max_wait_s = min(MAX_WAIT_S, lease_s)
        self._timeout_s = math.inf if timeout_s is None else timeout_s
        self._locks = ledger_thread.ledger.open_answer_locks()
        self._asking: Counter[bytes] = Counter()  # how many cases ask for an answer here
        self._stop = stop
        # Locks of a file take microseconds, those of a server a round trip.
        self._lock_thread = DaemonThreadPool(1, "locks") if ledger_thread.ledger.shared else None
        self._refreshes: CallCoalescer[None, None] = CallCoalescer(self._refresh_once)

    async def look_up_or_lock(self, keys: Sequence[AnswerKey]) -> Mapping[AnswerKey, StoredAnswer]:
        """Return the stored answers to these keys. The others are the caller's to ask for, until `add` or `release`.

        While somebody else asks for one of them, it waits, but not for ever: a process may hang.

        Raises:
            Waiting: Somebody else asked for one of them, and `stop` was set.
            Unreachable: Somebody else still asks for one of them after `timeout_s`.
        """
        found = await self.look_up(keys)
        clock, pause_s = asyncio.get_running_loop().time, FIRST_PAUSE_S
        begun, waited = clock(), False
        while missing := {key_id(key) for key in keys if key not in found}:
            locked, has_others = await self._lock(missing)
            try:
                if waited or has_others:  # it may have been written since the last look
                    await self._refreshes.call(None)
                    found = await self.look_up(keys)
                is_mine = locked or clock() - begun > self._max_wait_s
                if any(key not in found for key in keys):
                    self._check_stop(missing, waited if is_mine else None)
                    if not locked and clock() - begun > self._timeout_s:
                        raise Unreachable(f"no verdict within {self._timeout_s:g} s", attempts=0)
            except BaseException:
                if locked:
                    self._release(missing)
                raise
            if is_mine:
                if not locked:
                    self._asking.update(missing)
                self._release(missing.intersection(map(key_id, found)))
                return found
            if not waited:
                _log.info("an answer that somebody else is asking for is waited for")
            await asyncio.sleep(min(pause_s, self._timeout_s))
            pause_s, waited = min(2 * pause_s, MAX_PAUSE_S), True
        return found

    def _check_stop(self, missing: Collection[bytes], waited: bool | None) -> None:
        """Raise `Waiting` if no new call may begin.

        Args:
            missing: What somebody else asks for. If that is a case of this cache, it is waited for: its call ends soon.
            waited: Whether it was waited for and is now this case's to ask for; `None` as long as it is not.
        """
        is_stopped = call_is_stopped.get()() or (self._stop is not None and self._stop.is_set())
        if is_stopped and (not self._asking.keys() >= set(missing) if waited is None else waited):
            raise Waiting("Somebody else asks for this answer, and the work was stopped; judge the case again later.")

    def add(self, ids: Iterable[bytes]) -> None:
        answered: list[bytes] = []
        super().add(self._note_asked(ids, answered))
        self._unlock(answered)

    def release(self, keys: Sequence[AnswerKey]) -> None:
        """Take back that a case asks for these answers: of those that `look_up_or_lock` left to it, none is stored."""
        self._release({key_id(key) for key in keys})

    def _release(self, ids: Collection[bytes]) -> None:
        asked = [id_ for id_ in ids if id_ in self._asking]
        self._asking.subtract(asked)
        self._unlock([id_ for id_ in asked if not self._asking[id_]])

    def close(self) -> None:
        if self._lock_thread is not None:
            self._lock_thread.submit(self._locks.close)
            self._lock_thread.shutdown()
        else:
            self._locks.close()

    async def _lock(self, ids: Collection[bytes]) -> tuple[bool, bool]:
        """Lock all of these or none. Returns whether they are locked, and whether there are others that may ask."""

        def lock() -> tuple[bool, bool]:
            return self._locks.lock(ids), self._locks.has_others()

        def give_up(late: asyncio.Future[tuple[bool, bool]]) -> None:
            if late.result()[0]:
                self._asking.update(ids)
                self._release(ids)

        if self._lock_thread is None:
            done = lock()
        else:
            locking = asyncio.get_running_loop().run_in_executor(self._lock_thread, lock)
            try:
                done = await asyncio.shield(locking)
            except asyncio.CancelledError:  # the thread locks them nevertheless
                locking.add_done_callback(give_up)
                raise
        if done[0]:
            self._asking.update(ids)
        return done

    def _note_asked(self, ids: Iterable[bytes], asked: list[bytes]) -> Iterator[bytes]:
        """Yield all ids, of which there may be a million, and append those that are asked for here to `asked`."""
        for id_ in ids:
            if id_ in self._asking:
                asked.append(id_)
            yield id_

    def _unlock(self, ids: Sequence[bytes]) -> None:
        for id_ in ids:
            del self._asking[id_]
        if self._lock_thread is None:
            self._locks.unlock(ids)
        elif ids:
            with suppress(RuntimeError):  # closed, which ends all locks
                self._lock_thread.submit(self._locks.unlock, ids)

    async def _refresh_once(self, calls: Sequence[None]) -> Sequence[None]:
        await self.refresh()
        return calls


def _bloom_bits(id_: bytes) -> tuple[int, ...]:
    """Return the positions of an id in the filter: four parts of it, since it is a hash already."""
    return tuple(place & _BLOOM_MASK for place in _FOUR_INTEGERS.unpack(id_))


MEMORY_ANSWERS = 4096


class MemoryAnswerCache:
    """Keeps the newest answers in memory: the answer cache of a session without a ledger."""

    def __init__(self) -> None:
        self._answers: dict[AnswerKey, StoredAnswer] = {}
        self._noted: dict[Hashable, None] = {}

    def add(self, answers: Iterable[StoredAnswer]) -> None:
        """Add answers; the oldest are dropped once there are `MEMORY_ANSWERS`."""
        self._answers |= {answer.key: answer for answer in answers}
        while len(self._answers) > MEMORY_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def note(self, verdict: Hashable) -> bool:
        """Note what a verdict is on, and return whether that was noted before. As many are kept as of answers."""
        if verdict in self._noted:
            return True
        self._noted[verdict] = None
        if len(self._noted) > MEMORY_ANSWERS:
            del self._noted[next(iter(self._noted))]
        return False

    async def look_up(self, keys: Sequence[AnswerKey]) -> Mapping[AnswerKey, StoredAnswer]:
        """Return the answers to these keys that there are."""
        return {key: self._answers[key] for key in keys if key in self._answers}


AnswerLookup = Callable[[Sequence[AnswerKey]], Awaitable[Mapping[AnswerKey, StoredAnswer]]]


def digest_identity(identity: str) -> str:
    """Return a short digest of a judge's identity, as in `AnswerKey.judge`."""
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def restore_answer(conversation: Conversation, stored: StoredAnswer) -> None:
    """End a conversation with a stored answer, which is checked and scored again.

    Where the answer no longer passes (scoring has become stricter), the conversation stays open: the judge is asked.
    """
    brief, header = conversation.brief, conversation.header
    try:
        observed = read_answer(header.rubric, stored.text, make_answer_context(conversation.judge, brief))
    except AnswerError:
        return
    verdict = add_brief_details(make_scored_verdict(header, observed), brief)
    verdict = replace(
        verdict,
        flags=(*stored.flags, *verdict.flags),
        finish="complete",
        model=stored.model,
        usage=stored.usage,
        cost_usd=stored.cost_usd,
        latency_s=stored.latency_s,
        attempts=stored.attempts,
        answer=stored.text,
    )
    conversation.restore(verdict, observed, stored.flags)


def make_stored_answer(key: AnswerKey, conversation: Conversation) -> StoredAnswer:
    """Return the answer behind a verdict as the ledger stores it."""
    verdict = conversation.verdict
    return StoredAnswer(
        key,
        text=verdict.answer,
        model=verdict.model,
        usage=verdict.usage,
        cost_usd=verdict.cost_usd,
        latency_s=verdict.latency_s,
        attempts=verdict.attempts,
        flags=conversation.flags,
    )
