"""A verdict takes little room on the disk, and reading many takes no more memory than reading few."""

from __future__ import annotations

import tracemalloc
from hashlib import sha256
from pathlib import Path

from support.ledger import entry, run_record

from beholder.ledger.encoding import ZLIB_DICTIONARY
from beholder.ledger.ledger import Ledger


def test_an_edit_verdict_with_its_answer_takes_less_than_two_kilobytes(tmp_path: Path) -> None:
    place = tmp_path / "beholder.db"
    with Ledger.open(place, create=True) as ledger:
        ledger.start(run_record())
    empty = place.stat().st_size  # the tables, which take a page each
    with Ledger.open(place) as ledger:
        for start in range(0, 640, 64):
            ledger.write("r1", [entry(number) for number in range(start, start + 64)])
    assert (place.stat().st_size - empty) / 640 < 1900


def peak(ledger: Ledger) -> int:
    tracemalloc.start()
    for _ in ledger.verdicts("r1", answers=True):
        pass
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def test_reading_streams(ledger: Ledger) -> None:
    ledger.write("r1", [entry(number) for number in range(600)])
    peak(ledger)  # what is loaded once
    few = peak(ledger)
    ledger.write("r1", [entry(number) for number in range(600, 3000)])
    assert peak(ledger) < 1.5 * few


def test_the_words_of_the_file_format_never_change() -> None:
    """Every ledger that was ever written needs them to be read."""
    assert sha256(ZLIB_DICTIONARY).hexdigest() == "484a62b562133895392c9e2765c3656b82442836217a8a5a794d7517ecc7a7e0"
