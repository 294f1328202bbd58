"""Several processes use one ledger at the same time: all that they write is there, and readers never wait."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from support import ledger as ledger_support

from beholder.ledger.ledger import Ledger

COUNT, BATCH = 320, 8


def test_both_make_it_and_both_write(place: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, ledger_support.__file__, str(place), f"run{number}", str(first), str(COUNT), str(BATCH)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, first in enumerate((0, 160, 1000))  # the first two write half of their answers alike
    ]
    for writer in writers:
        said, errors = writer.communicate()
        assert writer.returncode == 0, errors
        assert said.split()[-1] == str(COUNT)
    with Ledger.open(place, create=True) as ledger:
        done = {id_: far.done for id_, far in ledger.progress().items()}
        assert done == {"run0": COUNT, "run1": COUNT, "run2": COUNT}
        assert ledger.check() == []


def test_of_many_who_want_the_same_run_exactly_one_starts_it(place: Path) -> None:
    Ledger.open(place, create=True).close()
    together = Barrier(6)

    def ask(number: int) -> list[tuple[str, bool]]:
        got = []
        with Ledger.open(place, create=True) as ledger:
            for turn in range(5):
                wanted = ledger_support.run_record(f"r{turn}-{number}", fingerprint=f"same {turn}")
                together.wait()
                found, new = ledger.find_or_create(wanted, fresh=False)
                got.append((found.id, new))
        return got

    with ThreadPoolExecutor(6) as pool:
        turns = list(zip(*pool.map(ask, range(6)), strict=True))
    for turn in turns:
        assert len({id_ for id_, _ in turn}) == 1
        assert sorted(new for _, new in turn) == [False] * 5 + [True]
    with Ledger.open(place, create=True) as ledger:
        assert len(ledger.runs()) == 5


def test_readers_see_whole_batches_while_another_process_writes(place: Path) -> None:
    with Ledger.open(place, create=True):
        pass
    command = [sys.executable, ledger_support.__file__, str(place), "run", "0", str(COUNT), str(BATCH)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer,
        Ledger.open(place, read_only=True, timeout_s=0) as reader,
    ):
        assert writer.stdout is not None
        for line in writer.stdout:
            if line.strip() != "started":
                done = reader.progress()["run"].done
                assert done % BATCH == 0
                assert done >= int(line)
    assert writer.returncode == 0


def test_a_reader_that_stops_half_way_holds_nobody_up(ledger: Ledger) -> None:
    ledger.write("r1", [ledger_support.entry(number) for number in range(600)])
    reading = ledger.verdicts("r1")
    next(reading)
    with Ledger.open(ledger.address, timeout_s=0, create=True) as other:
        other.write("r1", [ledger_support.entry(601)])
        other.delete("r1")
    assert len(list(reading)) < 600  # and what is gone is gone, without an error
