"""A ledger on a real disk, and one in a real PostgreSQL: what is promised of one is promised of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.ledger import run_record
from support.postgres import Server

from beholder.ledger.ledger import Ledger

KINDS = ("sqlite", "postgresql")


@pytest.fixture(scope="module", params=KINDS)
def new_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str | Path]:
    """Calls for places where there is no ledger yet: of a file, of a database."""
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgres")
        return server.schema
    return lambda: tmp_path_factory.mktemp("ledger") / "beholder.db"


@pytest.fixture
def place(new_place: Callable[[], str | Path]) -> str | Path:
    return new_place()


@pytest.fixture
def ledger(place: str | Path) -> Iterator[Ledger]:
    """An empty ledger with one run, `r1`."""
    with Ledger.open(place, create=True) as ledger:
        ledger.start(run_record())
        yield ledger
