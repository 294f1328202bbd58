"""Writes the table of instruments in docs/instruments.md anew, from what the registry says: `python docs/tables.py`."""

from __future__ import annotations

import re
from pathlib import Path

from beholder.instruments.instrument import InstrumentKind
from beholder.instruments.registry import list_instruments

PAGE = Path(__file__).parent / "instruments.md"
TITLES: dict[InstrumentKind, str] = {"pair": "Of two images", "image": "Of one image", "text": "Of a text"}
PLACE = re.compile(r"(?<=<!-- instruments: python docs/tables.py -->\n).*?(?=<!-- end -->)", re.DOTALL)


def tables() -> str:
    """For each kind of instrument a table: its name, and what it measures."""
    parts = []
    for kind, title in TITLES.items():
        if known := list_instruments(kind):
            rows = [f"| `{one.name}` | {one.about} |\n" for one in known]
            parts.append(f"\n{title}:\n\n| instrument | what it measures |\n|---|---|\n{''.join(rows)}")
    return "".join(parts) + "\n"


def renewed(page: str) -> str:
    """The page with the tables in their place."""
    return PLACE.sub(lambda _: tables(), page)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
