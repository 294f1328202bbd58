"""One run, one process: two at once would pay for the same cases. Where the ledger is shared they lease their cases,
and only one that hands a run in as a batch needs it alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from beholder.errors import UsageError

if TYPE_CHECKING:
    from beholder.ledger import Ledger


@contextmanager
def held(ledger: Ledger, run_id: str, *, alone: bool = False) -> Iterator[None]:
    """Holds a run for this process; on a shared ledger with others, unless it must be `alone`. However the process
    ends, nothing stays behind. Raises `UsageError` when another process has it.
    """
    if ledger.path is not None:
        with _held_file(ledger.path, run_id):
            yield
    else:
        with ledger.held(run_id, alone=alone) as mine:
            if not mine:
                raise UsageError(_TAKEN.format(run_id))
            yield


_TAKEN = "The run {} is under way in another process; wait for it, or stop it."


@contextmanager
def _held_file(ledger: Path, run_id: str) -> Iterator[None]:
    """By a lock on a file beside the ledger. Where there is no `flock` (Windows), nobody is kept out."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    path = ledger.with_name(f"{ledger.name}.{run_id}.lock")
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(_TAKEN.format(run_id)) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
