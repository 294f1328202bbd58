"""What `export -o` names and is no regular file is written to, and stays what it is."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.ledger import entry, run_record

from beholder.ledger.ledger import Ledger


@pytest.fixture
def book(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    with Ledger.open(folder / "beholder.db", create=True) as ledger:
        ledger.start(run_record("aaa111", name="first"))
        ledger.write("aaa111", [entry(number) for number in range(3)])
    return folder


@pytest.mark.parametrize("to", ["csv", "jsonl", "parquet"])
def test_a_pipe_stays_a_pipe(run: Any, book: Path, to: str) -> None:
    run(f"export first --to {to} -o file")
    os.mkfifo(book / "pipe")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit((book / "pipe").read_bytes)
        done = run(f"export first --to {to} -o pipe")
        assert (done.code, done.err) == (0, "")
        assert (book / "pipe").is_fifo()  # or nobody would ever be read from
        assert reading.result(timeout=60) == (book / "file").read_bytes()


def test_a_device_stays_a_device_and_a_link_a_link(run: Any, book: Path) -> None:
    (book / "null").symlink_to("/dev/null")
    (book / "there").mkdir()
    (book / "link").symlink_to("there/file")
    for name in ("null", "link"):
        assert run(f"export first -o {name}").code == 0
        assert (book / name).is_symlink()
    assert (book / "there" / "file").is_file()
