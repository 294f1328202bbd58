"""Answers that the ledger has, whoever paid for them, found without a look for each case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct

from beholder.ledger.model import AnswerKey, StoredAnswer
from beholder.ledger.packing import key_id, split_ids
from beholder.runs.clerk import Clerk
from beholder.runs.together import Together

_BLOOM_BYTES = 2 * 1024 * 1024
_BLOOM_MASK = _BLOOM_BYTES * 8 - 1
_PLACES = Struct("<4I")


class Known:
    """Looking an answer up costs a quarter of a millisecond of CPU, and most cases of most runs are new: a Bloom filter
    of all that was answered, brought up to date with every batch of our own and every chunk of cases, tells which need
    no look. 2 MB hold a million keys with 2 needless looks in a thousand."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk
        self._newest = 0
        self._bits = bytearray(_BLOOM_BYTES)
        self._looks: Together[Sequence[AnswerKey], Mapping[AnswerKey, StoredAnswer]] = Together(self._look_up)

    async def refresh(self) -> None:
        """Learns what others have written."""
        new, self._newest = await self._clerk.do(self._clerk.ledger.answered_since, self._newest)
        self.add(split_ids(new))

    def add(self, ids: Iterable[bytes]) -> None:
        for id_ in ids:
            for bit in _bits(id_):
                self._bits[bit >> 3] |= 1 << (bit & 7)

    async def recall(self, keys: Sequence[AnswerKey]) -> Mapping[AnswerKey, StoredAnswer]:
        """Those of the answers that there are; asked for together with all that other workers want just now."""
        likely = [key for key in keys if all(self._bits[bit >> 3] >> (bit & 7) & 1 for bit in _bits(key_id(key)))]
        return await self._looks.ask(likely) if likely else {}

    async def _look_up(self, wanted: Sequence[Sequence[AnswerKey]]) -> Sequence[Mapping[AnswerKey, StoredAnswer]]:
        found = await self._clerk.do(self._clerk.ledger.cached, [key for keys in wanted for key in keys])
        return [found] * len(wanted)


def _bits(id_: bytes) -> tuple[int, ...]:
    """The places of an id in the filter: four parts of it, since it is a hash already."""
    return tuple(place & _BLOOM_MASK for place in _PLACES.unpack(id_))
