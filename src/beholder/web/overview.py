"""A run in numbers: what its report says of it, worked out aside; and what the ledger counts at once."""

from __future__ import annotations

from functools import partial

from beholder.ledger import Ledger, RunRecord
from beholder.ledger.browsing import Counts
from beholder.reports.html.gathering import gather
from beholder.reports.html.summary import Summary, summarised
from beholder.web.computing import MANY, Result, Workshop, apart


def overview_of(book: Ledger, shop: Workshop, record: RunRecord) -> Result[Summary]:
    """What the run came to, if that is known by now."""
    work = partial(overview_at, book.address, record.id)
    many = record.total > MANY
    return shop.get(("overview", record.id), record.updated, partial(apart, work) if many else work, patient=not many)


def overview_at(address: str, run: str) -> Summary:
    """What a run of the ledger at an address came to: what another process can be sent."""
    with Ledger.open(address, read_only=True) as book:
        return summarised(gather(book, book.run(run)))


def counts_of(book: Ledger, shop: Workshop, record: RunRecord) -> Counts:
    return shop.now(("counts", record.id), record.updated, lambda: book.counts(record.id))
