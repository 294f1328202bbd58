"""One run, one process: two at once would pay for the same cases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beholder.errors import UsageError


@contextmanager
def held(ledger: Path, run_id: str) -> Iterator[None]:
    """Holds a run for this process. The system lets go of it however the process ends, so nothing stays behind.

    Raises `UsageError` when another process has it. Where there is no `flock` (Windows), nobody is kept out.
    """
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
            raise UsageError(f"The run {run_id} is under way in another process; wait for it, or stop it.") from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
