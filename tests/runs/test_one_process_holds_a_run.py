"""One run in a SQLite ledger, one holder: whatever names the file goes by, however often the lock changes hands."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.ledger import run_record
from support.postgres import Server
from support.scripts import PATIENCE_S

from beholder import Ledger, LedgerError, UsageError
from beholder.runs.ledger_access import correct_state, lock_run

HOLD = """
import sys
from beholder import Ledger
from beholder.runs.ledger_access import lock_run
with Ledger.open(sys.argv[1]) as ledger, lock_run(ledger, "r1"):
    print("held", flush=True)
    sys.stdin.read()
"""

# A folder that only one can make at a time tells whether two hold the lock.
CONTEND = """
import os, sys
from beholder import Ledger, UsageError
from beholder.runs.ledger_access import lock_run
ledger, got = Ledger.open("ledger.db"), 0
print("ready", flush=True)
sys.stdin.readline()
for _ in range(400):
    try:
        with lock_run(ledger, "r1"):
            os.mkdir("held")
            got += 1
            os.rmdir("held")
    except UsageError:
        pass
print(got)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger in a folder, and the working folder above it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with Ledger.open("folder/ledger.db", create=True) as ledger:
        ledger.start(run_record("r1"))
        ledger.start(run_record("r2"))
    return tmp_path / "folder" / "ledger.db"


def begin(script: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("name", ["folder/ledger.db", "link.db", "linked/ledger.db", "linked/../folder/ledger.db"])
def test_by_whatever_name_it_is_held_once(place: Path, name: str) -> None:
    Path("link.db").symlink_to(place)
    Path("linked").symlink_to(place.parent)
    holder = begin(HOLD, str(place))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with Ledger.open(name) as ledger:
        with pytest.raises(UsageError, match="r1 is under way in another process"), lock_run(ledger, "r1"):
            pass
        with lock_run(ledger, "r2"):  # another run of the same ledger is free
            pass
        holder.communicate("", timeout=PATIENCE_S)
        with lock_run(ledger, "r1"):
            pass


def test_a_hard_link_is_refused_since_it_would_be_damaged(place: Path) -> None:
    os.link(place, "hard.db")
    for name in ("hard.db", str(place)):
        with pytest.raises(LedgerError, match="another name"):
            Ledger.open(name)
    with Ledger.open("hard.db", read_only=True) as ledger:
        assert len(ledger.runs()) == 2
    Path("hard.db").unlink()
    Ledger.open(place).close()


def test_a_lock_that_cannot_be_opened_is_one_sentence(place: Path) -> None:
    place.with_name("ledger.db.lock").mkdir()
    with (
        Ledger.open(place) as ledger,
        pytest.raises(LedgerError, match=r"The lock '.*ledger.db.lock' of the ledger cannot be opened"),
        lock_run(ledger, "r1"),
    ):
        pass


def test_a_killed_holder_holds_nothing(place: Path) -> None:
    holder = begin(HOLD, str(place))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    with Ledger.open(place) as ledger, lock_run(ledger, "r1"):
        pass


def test_threads_of_one_process_are_kept_apart_too(place: Path) -> None:
    said: list[str] = []

    def try_it() -> None:
        with Ledger.open(place) as other:
            try:
                with lock_run(other, "r1"):
                    said.append("held")
            except UsageError as error:
                said.append(str(error))
            with lock_run(other, "r2"):  # which ends, and takes no other lock of the process along
                pass

    with Ledger.open(place) as ledger, lock_run(ledger, "r1"):
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        holder = begin(HOLD, str(place))
        assert holder.communicate(timeout=PATIENCE_S)[0] == ""
    assert len(said) == 1
    assert "under way" in said[0]


def test_under_contention_no_two_hold_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.parent)
    others = [begin(CONTEND) for _ in range(4)]
    for other in others:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
    for other in others:
        assert other.stdin is not None
        other.stdin.write("\n")
        other.stdin.flush()
    counts = [other.communicate(timeout=PATIENCE_S)[0] for other in others]
    assert [other.returncode for other in others] == [0] * 4
    assert sum(map(int, counts)) > 0
    assert [file.name for file in place.parent.glob("*.lock")] == ["ledger.db.lock"]


def test_on_a_shared_ledger_who_looks_sees_whether_somebody_works_on_it(postgres: Server) -> None:
    with Ledger.open(postgres.database(), create=True) as ledger:
        ledger.start(run_record("r1"))
        ledger.start(run_record("r2"))
        with lock_run(ledger, "r1"):
            assert ledger.is_run_locked("r1")
            assert not ledger.is_run_locked("r2")
            assert correct_state(ledger, ledger.run("r1")).state == "running"
            assert correct_state(ledger, ledger.run("r2")).state == "interrupted"
            with lock_run(ledger, "r1"):  # asking keeps nobody out
                pass
        assert correct_state(ledger, ledger.run("r1")).state == "interrupted"
