"""The table of instruments in the docs is what the registry says."""

from __future__ import annotations

import runpy
from pathlib import Path

from beholder.instruments.registry import list_instruments

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_is_as_it_would_be_written_today() -> None:
    page, renewed = runpy.run_path(str(DOCS / "tables.py"))["renew"]("instruments")
    assert renewed == page, "the table is old; write it anew: python docs/tables.py"
    for kind in ("pair", "image", "text"):
        assert all(f"| `{one.name}` | {one.about} |\n" in page for one in list_instruments(kind))


def test_what_an_instrument_says_of_itself_fits_a_table() -> None:
    for kind in ("pair", "image", "text"):
        for one in list_instruments(kind):
            assert one.about.endswith("."), one.name
            assert not set("|\n") & set(one.about), one.name
