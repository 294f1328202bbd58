"""Rescuing verdicts that a ledger cannot take, because its disk is full or its server gone: they are paid for.

They go into a small ledger of their own, elsewhere. It has the same run with these verdicts alone, marked by
`RESCUED_KEY`; `beholder ledger copy` adds them to the run in the ledger that could not take them (`copy`).
"""

from __future__ import annotations

import os
import secrets
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec

from beholder.errors import LedgerError
from beholder.ledger.encoding import parse_amount
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import INTERRUPTED, Entry, RunRecord, WriteToken
from beholder.ledger.write import sum_costs

RESCUED_KEY = "rescued"  # in the suite of a rescued run: a `Rescue`
RESTORED_KEY = "restored"  # in the suite of a run that got verdicts back: the names of these rescues
MAX_NAMED = 3  # cases named in a sentence


class RescuedBatch(msgspec.Struct, frozen=True):
    """Verdicts that would have been written together: how many, what they cost, and how many cost an unknown amount."""

    verdicts: int
    spent_usd: str
    unpriced: int

    @property
    def cost_usd(self) -> Decimal:
        return parse_amount(self.spent_usd)


class Rescue(msgspec.Struct, frozen=True):
    """What is stored beside rescued verdicts.

    The batches are in the order in which the verdicts were stored. The ledger may have taken one although it seemed to
    fail: its server committed, and the reply was lost.

    Attributes:
        worker: The worker that had the verdicts; empty if it had reserved nothing.
        name: The name of the rescue.
        batches: What was to be written together; empty where that is not known.
    """

    worker: str
    name: str
    batches: tuple[RescuedBatch, ...] = ()


def read_rescue(run: RunRecord) -> Rescue | None:
    """Return what a run says of its rescue; `None` for a run that was not rescued. Raises `LedgerError` for damage."""
    stored = run.suite.get(RESCUED_KEY)
    if stored is None:
        return None
    if isinstance(stored, str):  # the first rescues had no more than the worker and the name
        worker, _, name = stored.rpartition(" ")
        return Rescue(worker, name)
    try:
        rescue = msgspec.convert(stored, Rescue)
        for batch in rescue.batches:
            parse_amount(batch.spent_usd)
        return rescue
    except (msgspec.ValidationError, ValueError, ArithmeticError):
        raise LedgerError(f"The rescued run {run.id!r} is damaged: nobody knows what its verdicts cost.") from None


def rescue_verdicts(
    ledger: Ledger, record: RunRecord, batches: Sequence[Sequence[Entry]], worker: WriteToken | None
) -> str:
    """Store verdicts that a ledger could not take in another one, and return in a sentence where.

    A verdict that no ledger can take, because a value in it cannot be encoded, is named; the others are stored.

    Args:
        ledger: The ledger that could not take them.
        record: Their run.
        batches: The verdicts, as they were to be written together.
        worker: The token of the write that failed: what the worker had reserved is settled when they are copied back.
    """
    name = secrets.token_hex(8)
    stored: Path | None = None
    lost = [entry for batch in batches for entry in batch]
    total = len(lost)
    for folder in _list_folders(ledger.path):
        path = folder / f"beholder-rescued-{record.id}-{name[:6]}.db"
        failed = _store(path, record, batches, worker.holder if worker else "", name)
        if len(failed) < len(lost):
            if stored is not None:
                _delete_file(stored)
            stored, lost = path, failed
        else:
            _delete_file(path)
        if not lost:
            break
    if stored is None:
        return f" {_count(total)} could not be stored elsewhere either, and are lost."
    copy = shlex.join(("beholder", "ledger", "copy", str(stored), ledger.place))
    where = f" {_count(total - len(lost))} are in {str(stored)!r}: when it can be written again, run `{copy}`"
    if lost:
        named = ", ".join(repr(entry.case.id) for entry in lost[:MAX_NAMED])
        more = f" and {len(lost) - MAX_NAMED} more" if len(lost) > MAX_NAMED else ""
        where += f" (without the cases {named}{more}, whose verdicts cannot be stored at all)"
    return f"{where} and start again."


def _count(verdicts: int) -> str:
    return f"{verdicts} verdict{'s' if verdicts > 1 else ''} that it could not take"


def _store(path: Path, record: RunRecord, batches: Sequence[Sequence[Entry]], holder: str, name: str) -> list[Entry]:
    """Store verdicts in a new ledger, and return those that could not be stored: all, if it cannot be written."""
    everything = [entry for batch in batches for entry in batch]
    run = replace(record, state=INTERRUPTED, updated=datetime.now(UTC), spent_usd=Decimal(0), unpriced=0)
    failed: list[Entry] = []
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with Ledger.open(path, create=True) as other:
            other.start(run)
            rescued = []
            for batch in batches:
                not_stored = _write_what_can_be(other, run.id, batch)
                failed += not_stored
                kept = [entry for entry in batch if not any(entry is one for one in not_stored)]
                known_usd, unpriced = sum_costs(kept)
                rescued.append(RescuedBatch(len(kept), str(known_usd), unpriced))
            rescue = Rescue(holder, name, tuple(rescued))
            other.update_suite(run.id, **{RESCUED_KEY: msgspec.to_builtins(rescue)})
    except (LedgerError, OSError):
        return everything
    return failed


def _write_what_can_be(ledger: Ledger, run: str, entries: Sequence[Entry]) -> list[Entry]:
    """Write verdicts together; if that fails, one by one. Returns those that could not be written."""
    try:
        ledger.write(run, entries)
    except Exception:  # a value that cannot be encoded raises anything
        if len(entries) == 1:
            return list(entries)
        return [entry for one in entries for entry in _write_what_can_be(ledger, run, [one])]
    return []


def _delete_file(path: Path) -> None:
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(OSError):
            file.unlink(missing_ok=True)


def _list_folders(path: Path | None) -> list[Path]:
    """Return where a file could be stored: beside the ledger (if only that cannot be written), and on other disks."""
    folders = [path.absolute().parent] if path is not None else []
    with suppress(OSError):
        folders.append(Path.cwd())
    with suppress(RuntimeError):
        folders.append(Path.home())
    folders.append(Path(tempfile.gettempdir()))
    return list(dict.fromkeys(folder.resolve() for folder in folders))
