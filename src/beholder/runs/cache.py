"""The answer cache: answers that the ledger has, whichever run paid for them, looked up behind a Bloom filter."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from struct import Struct

from beholder.errors import AnswerError
from beholder.judges.base import capabilities_of
from beholder.judges.conversation import Conversation, add_brief_details
from beholder.ledger.encoding import key_id, split_ids
from beholder.ledger.types import AnswerKey, StoredAnswer
from beholder.runs.concurrency import CallCoalescer
from beholder.runs.ledger_access import LedgerThread
from beholder.verdicts.observe import AnswerContext
from beholder.verdicts.score import make_scored_verdict, read_answer

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


def _bloom_bits(id_: bytes) -> tuple[int, ...]:
    """Return the positions of an id in the filter: four parts of it, since it is a hash already."""
    return tuple(place & _BLOOM_MASK for place in _FOUR_INTEGERS.unpack(id_))


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
        observed = read_answer(
            header.rubric,
            stored.text,
            AnswerContext(label=brief.label, may_abstain=capabilities_of(conversation.judge).abstains),
        )
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
    """Return the answer behind a scored verdict as the ledger stores it."""
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
