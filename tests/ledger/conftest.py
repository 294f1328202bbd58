"""A ledger on a real disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_making import run_record

from beholder.ledger import Ledger


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "beholder.db"


@pytest.fixture
def ledger(place: Path) -> Iterator[Ledger]:
    """An empty ledger with one run, `r1`."""
    with Ledger.open(place) as ledger:
        ledger.start(run_record())
        yield ledger
