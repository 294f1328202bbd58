"""A ledger that is moved or deleted while it is in use, or whose disk is full, is noticed before more is paid for; what
was paid for is stored, and the message says where."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scripts import PATIENCE_S

from beholder import Case, Ledger, LedgerError, Session
from beholder.ledger import sqlite
from beholder.runs import engine
from beholder.testing.server import JudgeServer

CONCURRENCY = 8  # as in the fixture `command`
COUNT = 120

Run = Callable[..., subprocess.CompletedProcess[str]]


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def replace(path: Path) -> None:
    """Another ledger takes its place."""
    with Ledger.open(path.with_name("other.db"), create=True):
        pass
    path.with_name("other.db").replace(path)


def saved_in(said: str) -> Path:
    found = re.search(r"All that was paid for is in '([^']+)'", said)
    assert found, said
    return Path(found[1])


@pytest.mark.parametrize("vanish", [Path.unlink, rename, replace, lambda path: shutil.rmtree(path.parent)])
def test_a_ledger_that_vanishes_is_saved_and_the_run_goes_on_from_there(
    vanish: Callable[[Path], None], tmp_path: Path, server: JudgeServer, cases: Any, run: Run,
    good_answer: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    cases(COUNT)
    (tmp_path / "folder").mkdir()
    place = tmp_path / "folder" / "ledger.db"
    gone: list[int] = []

    def reply(_: Any) -> dict[str, Any]:
        if len(server.received) >= 20 and not gone:
            gone.append(len(server.received))
            vanish(place)
        return good_answer()

    server.default = reply
    done = run("--quiet", "--ledger", str(place))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "was moved or deleted while it was in use" in done.stderr
    saved = saved_in(done.stderr.replace("\n", " "))
    asked = len(server.received)
    assert asked < COUNT
    with Ledger.open(saved) as ledger:
        assert ledger.tally("latest").outcomes == {"scored": asked}
        assert ledger.check() == []
    server.default = good_answer()
    assert run("--quiet", "--ledger", str(saved)).returncode == 0
    assert len(server.received) == COUNT


def test_a_session_says_so_before_it_asks_again(
    tmp_path: Path, server: JudgeServer, cases: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cases(3)
    place = tmp_path / "session.db"
    made = [
        Case(f"c{number}", images={"input": "before.png", "edited": f"after{number}.png"}, fields={"instruction": "x"})
        for number in range(3)
    ]
    with Session("openai:test", ledger=place, options={"base_url": server.openai_url}) as session:
        assert session.judge("edit-preservation", made[0]).scored
        place.unlink()
        with pytest.raises(LedgerError, match="was moved or deleted") as caught:
            session.judge("edit-preservation", made[1])
    assert len(server.received) == 1
    with Ledger.open(saved_in(str(caught.value))) as ledger:
        assert [verdict.case for verdict in ledger.verdicts("latest")] == ["c0"]


@pytest.mark.parametrize("cache", [True, False])
def test_a_session_on_a_disk_that_fills_up_returns_what_it_stored_and_asks_no_more(
    cache: bool, tmp_path: Path, server: JudgeServer, cases: Any, monkeypatch: pytest.MonkeyPatch,
    good_answer: Callable[[], dict[str, Any]],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    cases(2)

    def reply(_: Any) -> dict[str, Any]:
        monkeypatch.setattr(sqlite, "MIN_FREE_BYTES", 2**62)
        return good_answer()

    server.default = reply
    first, second = (
        Case(f"c{number}", images={"input": "before.png", "edited": f"after{number}.png"}, fields={"instruction": "x"})
        for number in range(2)
    )
    options = {"base_url": server.openai_url, "cache": cache}
    with Session("openai:test", ledger="session.db", options=options) as session:
        assert session.judge("edit-preservation", first).scored
        with pytest.raises(LedgerError, match="Make room and start again"):
            session.judge("edit-preservation", second)
        assert [verdict.case for verdict in session.run.verdicts()] == ["c0"]
    assert len(server.received) == 1


FULL = """
import resource, sys
from beholder import LedgerError, run
from beholder.runs import engine
engine.WRITE_PAUSE_S = 0.0
most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, most[1]))  # as a quota: there is room, and a write fails
try:
    run(rubric="edit-preservation", cases="cases.jsonl", judge="openai:test", base_url=sys.argv[1], ledger="ledger.db",
        concurrency=8, thumbnails=False, audit=False, budget=float(sys.argv[2]) or None, fresh=sys.argv[3] == "fresh",
        price={"input": 0, "output": 1}, params={"max_completion_tokens": 50}, progress=False)
except LedgerError as error:
    print(error)
"""


def rescued_in(said: str) -> Path:
    found = re.search(r"(\d+) verdicts? that it could not take are in '([^']+)': .*`beholder ledger copy", said)
    assert found, said
    return Path(found[2])


@pytest.mark.parametrize(("budget", "fresh"), [(0, "resumed"), (1, "resumed"), (0, "fresh")])
def test_when_a_write_fails_nothing_that_was_paid_for_is_lost(
    budget: int, fresh: str, tmp_path: Path, server: JudgeServer, cases: Any, run: Run, beholder: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    cases(400)
    words = [sys.executable, "-c", FULL, server.openai_url, str(budget), fresh]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert "cannot be written: the disk is full or failing" in done.stdout
    rescue = rescued_in(done.stdout)
    assert rescue.stat().st_mode & 0o777 == 0o600
    asked = len(server.received)
    assert asked < 400
    with Ledger.open("ledger.db") as ledger, Ledger.open(rescue) as other:
        cases_of = [{one.case for one in place.verdicts("latest")} for place in (ledger, other)]
        paid = [place.run("latest").spent_usd or 0 for place in (ledger, other)]
        assert ledger.reserved_usd("latest") == (paid[1] if budget else 0)
    assert not cases_of[0] & cases_of[1]
    assert len(cases_of[0] | cases_of[1]) == asked
    for _ in range(2):  # once more changes nothing
        copied = beholder([sys.executable, "-m", "beholder", "ledger", "copy", str(rescue), "ledger.db"])
        assert copied.returncode == 0, copied.stderr
        with Ledger.open("ledger.db") as ledger:
            assert {one.case for one in ledger.verdicts("latest")} == cases_of[0] | cases_of[1]
            assert ledger.run("latest").spent_usd == sum(paid) > 0
            assert ledger.reserved_usd("latest") == 0
            assert ledger.run("latest").total == 400
            assert len(ledger.runs()) == 1
            assert ledger.check() == []
    more = ("--price-input", "0", "--price-output", "1", "--param", "max_completion_tokens=50")
    assert run("--quiet", *more, *(["--fresh"] if fresh == "fresh" else [])).returncode == 0
    assert len(server.received) == 400


def test_what_could_not_be_written_is_as_soon_as_it_can_be(
    tmp_path: Path, server: JudgeServer, cases: Any, run: Run, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    cases(400)
    monkeypatch.setattr(engine, "WRITE_PAUSE_S", 0.0)
    failing = iter([True, True])
    write = Ledger.write

    def fail(self: Ledger, *given: Any, **named: Any) -> None:
        if next(failing, False):
            raise LedgerError("The ledger cannot be written: the disk is full.")
        write(self, *given, **named)

    monkeypatch.setattr(Ledger, "write", fail)
    done = run("--quiet")
    assert done.returncode == 2
    assert "all that was paid for is stored; start again" in done.stderr.replace("\n", " ")
    asked = len(server.received)
    assert asked < 400
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert ledger.tally("latest").outcomes == {"scored": asked}
    assert run("--quiet").returncode == 0
    assert len(server.received) == 400


QUOTA = """
import os, resource, sys
from beholder import Case, LedgerError, Session
with Session("openai:test", ledger="session.db", options={"base_url": sys.argv[1], "thumbnails": False}) as session:
    def judge(number):
        images = {"input": "before.png", "edited": f"after{number}.png"}
        return session.judge("edit-preservation", Case(f"c{number}", images=images, fields={"instruction": "x"}))
    judge(0)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, most[1]))  # as a quota: there is room, and no write succeeds
    for number in (1, 2, 3):
        try:
            judge(number)
        except LedgerError as error:
            print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, most)
    judge(3)
"""

QUOTA_TO_THE_END = """
import resource, sys
from beholder import Case, LedgerError, Session
options = {"base_url": sys.argv[1], "thumbnails": False}
with Session("openai:test", ledger="session.db", name="s", options=options) as session:
    for number in range(300):
        images = {"input": "before.png", "edited": f"after{number}.png"}
        try:
            session.judge("edit-preservation", Case(f"c{number}", images=images, fields={"instruction": "x"}))
        except LedgerError:
            break
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
"""


def test_what_a_session_could_not_write_to_its_end_is_rescued(
    tmp_path: Path, server: JudgeServer, cases: Any, beholder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cases(300)
    words = [sys.executable, "-c", QUOTA_TO_THE_END, server.openai_url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1, done.stderr  # `close` raises what it says
    rescue, asked = rescued_in(done.stderr), len(server.received)
    assert asked < 300
    copied = beholder([sys.executable, "-m", "beholder", "ledger", "copy", str(rescue), "session.db"])
    assert copied.returncode == 0, copied.stderr
    with Ledger.open("session.db") as ledger:
        assert [one.case for one in ledger.verdicts("latest")] == [f"c{number}" for number in range(asked)]
        assert ledger.run("latest").total == asked
        assert ledger.check() == []


def test_a_session_whose_last_write_failed_asks_for_nothing_more(
    tmp_path: Path, server: JudgeServer, cases: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a disk quota nothing is known before a write fails. What could not be written is, as soon as that works."""
    monkeypatch.chdir(tmp_path)
    cases(4)
    words = [sys.executable, "-c", QUOTA, server.openai_url]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the disk is full or failing") == 3
    assert len(server.received) == 3  # for c0, for c1, which could not be written, and for c3 in the end
    with Ledger.open("session.db") as ledger:
        assert sorted(verdict.case for verdict in ledger.verdicts("latest")) == ["c0", "c1", "c3"]


def test_the_working_folder_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with Ledger.open("ledger.db", create=True) as ledger:
        monkeypatch.chdir("folder")
        assert ledger.find_file_problem() == ""
        assert ledger.save_displaced() == ""


def test_on_a_full_disk_nobody_is_asked(
    server: JudgeServer, cases: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases(10)
    monkeypatch.setattr(sqlite, "MIN_FREE_BYTES", 2**62)
    done = run("--quiet")
    assert done.returncode == 2
    assert "Make room and start again" in done.stderr
    assert server.received == []


def test_a_disk_that_fills_up_is_noticed_before_the_next_case(
    tmp_path: Path, server: JudgeServer, cases: Any, run: Run, monkeypatch: pytest.MonkeyPatch,
    good_answer: Callable[[], dict[str, Any]],
) -> None:  # fmt: skip
    cases(COUNT)

    def reply(_: Any) -> dict[str, Any]:
        if len(server.received) == 20:
            monkeypatch.setattr(sqlite, "MIN_FREE_BYTES", 2**62)
        return good_answer()

    server.default = reply
    done = run("--quiet")
    assert done.returncode == 2
    assert "Make room and start again" in done.stderr
    asked = len(server.received)
    assert asked <= 20 + 2 * CONCURRENCY + 2  # those under way, those prepared, and those in the queue
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert ledger.tally("latest").outcomes == {"scored": asked}
        assert ledger.run("latest").state == "interrupted"
    monkeypatch.undo()
    assert run("--quiet").returncode == 0
    assert len(server.received) == COUNT
