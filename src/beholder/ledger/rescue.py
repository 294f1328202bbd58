"""Rescuing verdicts that a ledger cannot take, because its disk is full or its server gone: they are paid for.

They go into a small ledger of their own, elsewhere. It has the same run with these verdicts alone, marked by
`RESCUED_KEY`; `beholder ledger copy` adds them to the run in the ledger that could not take them (`copy`).
"""

from __future__ import annotations

import os
import secrets
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from beholder.errors import LedgerError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import INTERRUPTED, Entry, RunRecord, WriteToken

RESCUED_KEY = "rescued"  # in the suite of a rescued run: the worker that had its verdicts, and the name of the rescue
RESTORED_KEY = "restored"  # in the suite of a run that got verdicts back: the names of these rescues


def rescue_verdicts(ledger: Ledger, record: RunRecord, entries: Sequence[Entry], worker: WriteToken | None) -> str:
    """Store verdicts that a ledger could not take in another one, and return in a sentence where.

    Args:
        ledger: The ledger that could not take them.
        record: Their run.
        entries: The verdicts.
        worker: The token of the write that failed: what the worker had reserved is settled when they are copied back.
    """
    name = secrets.token_hex(8)
    run = replace(
        record,
        state=INTERRUPTED,
        updated=datetime.now(UTC),
        suite={**record.suite, RESCUED_KEY: f"{worker.holder if worker else ''} {name}"},
        spent_usd=Decimal(0),
        unpriced=0,
    )
    count = f"{len(entries)} verdict{'s' if len(entries) > 1 else ''} that it could not take"
    for folder in _list_folders(ledger.path):
        path = folder / f"beholder-rescued-{run.id}-{name[:6]}.db"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with Ledger.open(path, create=True) as other:
                other.start(run)
                other.write(run.id, entries)
        except (LedgerError, OSError):
            for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
                with suppress(OSError):
                    file.unlink(missing_ok=True)
            continue
        copy = shlex.join(("beholder", "ledger", "copy", str(path), ledger.place))
        return f" {count} are in {str(path)!r}: when it can be written again, run `{copy}` and start again."
    return f" {count} could not be stored elsewhere either, and are lost."


def _list_folders(path: Path | None) -> Iterator[Path]:
    """Return where a file could be stored: beside the ledger (if only that cannot be written), and on other disks."""
    if path is not None:
        yield path.absolute().parent
    with suppress(OSError):
        yield Path.cwd()
    with suppress(RuntimeError):
        yield Path.home()
    yield Path(tempfile.gettempdir())
