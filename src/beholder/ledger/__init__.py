"""What is kept: runs, cases, answers, verdicts, thumbnails. One SQLite file, which a person can hold, or a PostgreSQL
database, which a team shares.

    model        what goes in and comes out: RunRecord, Entry, AnswerKey, StoredAnswer
    ledger       Ledger, the door: opening, runs, writing, reading, deleting
    places       where a ledger is; opening opens the database there
    sqlite       everything that only SQLite does: opening, pragmas, errors as sentences, checks
    postgres     everything that only PostgreSQL does; dialects is what both do, and say differently
    tables       the tables; migrations brings an older ledger up to them
    records      runs as rows
    packing      JSON, zlib (with the dictionary in words) and digests
    writing      a batch as rows; reading streams them back; checking looks at all of them; copying, into another ledger
    sharing      several processes on one run
    jobs         requests that a provider answers in its own time
    facets       what of a verdict lists are filtered by; browsing filters, sorts and pages them
    redacting    no key is kept
    tallying     what a run came to
    flattening   verdicts as flat rows; exporting writes them as CSV, JSONL, Parquet

Importing this package loads no database library; `Ledger` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from beholder.ledger.model import AnswerKey, Entry, RunRecord, StoredAnswer

if TYPE_CHECKING:
    from beholder.ledger.ledger import Ledger

__all__ = ["AnswerKey", "Entry", "Ledger", "RunRecord", "StoredAnswer"]


def __getattr__(name: str) -> object:
    if name == "Ledger":
        from beholder.ledger.ledger import Ledger

        return Ledger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
