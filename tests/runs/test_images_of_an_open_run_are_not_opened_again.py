"""Whoever goes on with a run trusts the files that it began with, as long as name, size and time of change are the
same; anything else is looked at as if it were new."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beholder.ledger.ledger import Ledger
from beholder.ledger.types import INTERRUPTED
from beholder.testing.server import JudgeServer

COUNT = 6


@pytest.fixture
def place(tmp_path: Path, cases: Callable[[int], Path], run: Any) -> Path:
    """A run that was interrupted, in a ledger."""
    cases(COUNT)
    assert run().returncode == 0
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.update("latest", state=INTERRUPTED)
    return tmp_path


def spoil(image: Path, *, later_s: int) -> None:
    """No image any more, and as large as before."""
    was = image.stat()
    image.write_bytes(b"x" * was.st_size)
    os.utime(image, ns=(was.st_atime_ns, was.st_mtime_ns + later_s * 10**9))


def test_what_is_as_it_was_is_not_opened(place: Path, run: Any, server: JudgeServer) -> None:
    spoil(place / "after3.png", later_s=0)
    done = run()
    assert (done.returncode, len(server.received)) == (0, COUNT)
    assert "resuming run" in done.stdout
    with Ledger.open(place / "ledger.db", create=True) as ledger:
        assert [one.state for one in ledger.runs()] == ["finished"]


def test_what_was_touched_is_opened(place: Path, run: Any) -> None:
    spoil(place / "after3.png", later_s=1)
    done = run()
    assert done.returncode == 2
    assert "after3.png" in done.stderr


def test_what_is_missing_is_told(place: Path, run: Any) -> None:
    (place / "after3.png").unlink()
    done = run()
    assert done.returncode == 2
    assert "after3.png" in done.stderr


def test_a_run_that_is_finished_vouches_for_nothing(place: Path, run: Any) -> None:
    assert run().returncode == 0
    spoil(place / "after3.png", later_s=0)
    assert run().returncode == 2
