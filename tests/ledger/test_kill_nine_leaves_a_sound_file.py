"""A process that is killed at any moment leaves a sound file, and everything that it said was safe is in it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import ledger as ledger_support

from beholder.ledger.ledger import Ledger

BATCH = 16


@pytest.mark.parametrize("seed", range(4))
def test_at_any_moment(place: Path, seed: int) -> None:
    moments = random.Random(seed)
    for attempt in range(3):  # the third process finds what two killed ones left
        said, safe = killed(place, f"run{attempt}", moments.randint(1, 25), moments.randint(0, 200_000))
        with Ledger.open(place, create=True) as ledger:
            assert ledger.check() == []
            found = [verdict.case for verdict in ledger.verdicts(f"run{attempt}")]
        assert len(found) % BATCH == 0
        assert safe <= len(found) <= safe + BATCH, said


def killed(place: Path, run: str, lines: int, beats: int) -> tuple[str, int]:
    """Lets a process write, kills it in the middle of it; what it said, and how many verdicts it called safe."""
    command = [sys.executable, ledger_support.__file__, str(place), run, "0", "100000", str(BATCH)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        heard = [writer.stdout.readline() for _ in range(lines)]
        for _ in range(beats):  # on into the next batch, wherever that is by then
            pass
        writer.send_signal(signal.SIGKILL)
        heard += writer.stdout.readlines()
    assert writer.returncode == -signal.SIGKILL
    return "".join(heard), int(heard[-1].replace("started", "0"))


def test_a_run_that_was_killed_can_be_gone_on_with(place: Path) -> None:
    killed(place, "run", 3, 0)
    with Ledger.open(place, create=True) as ledger:
        assert ledger.run("run").state == "running"
        assert ledger.outcomes("run", ["photo-00000/model-a"]) != {}
        ledger.write("run", [ledger_support.entry(0)])
        assert ledger.progress()["run"].done % BATCH == 0
