"""The same question, asked at the same time by two runs, sessions or processes with one ledger, is asked once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from beholder import AsyncSession, Case, Ledger, LedgerError
from beholder.ledger.encoding import key_id
from beholder.ledger.locks import AnswerLocks
from beholder.ledger.types import AnswerKey
from beholder.runs.cache import SharedAnswerCache
from beholder.runs.ledger_access import LedgerThread
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

PATIENCE_S = 240
RUBRIC = "edit-preservation"


@pytest.fixture
def make_case(cases: Callable[[int], Path], tmp_path: Path) -> Callable[[str], Case]:
    """Cases of different names with the same content."""
    cases(1)
    images = {"input": tmp_path / "before.png", "edited": tmp_path / "after0.png"}
    return lambda name: Case(name, images, {"instruction": "make it red"})


@pytest.fixture
def options(server: JudgeServer) -> dict[str, Any]:
    return {"base_url": server.openai_url, "audit": False, "thumbnails": False}


async def test_by_two_sessions_and_twice_in_each(
    server: JudgeServer, make_case: Callable[[str], Case], options: dict[str, Any], place: str
) -> None:
    async with (
        AsyncSession("openai:test", ledger=place, name="one", options=options) as one,
        AsyncSession("openai:test", ledger=place, name="two", options=options) as two,
    ):
        calls = [session.judge(RUBRIC, make_case(name)) for session in (one, two) for name in ("a", "b")]
        verdicts = await asyncio.gather(*calls)
    assert [verdict.score for verdict in verdicts] == [verdicts[0].score] * 4
    assert len(server.received) == 1
    with Ledger.open(place) as ledger:
        assert [ledger.progress()[run.id].scored for run in ledger.runs()] == [2, 2]


async def test_a_question_without_an_answer_is_asked_by_whoever_waited(
    server: JudgeServer, make_case: Callable[[str], Case], options: dict[str, Any], place: str
) -> None:
    server.say(Fault.refusal("I would rather not."))
    async with AsyncSession("openai:test", ledger=place, options=options) as session:
        verdicts = await asyncio.gather(*(session.judge(RUBRIC, make_case(name)) for name in "ab"))
    assert sorted(verdict.outcome for verdict in verdicts) == ["refused", "scored"]
    assert len(server.received) == 2


KEY = AnswerKey("brief", "judge", 0)


@pytest.fixture
def caches(place: str) -> Iterator[tuple[SharedAnswerCache, AnswerLocks]]:
    """A cache, and the locks of somebody else."""
    with Ledger.open(place, create=True) as ledger:
        thread, locks = LedgerThread(ledger), ledger.open_answer_locks()
        cache = SharedAnswerCache(thread, lease_s=0.0)  # nobody waits for long
        yield cache, locks
        cache.close()
        locks.close()
        thread.close()


async def is_unlocked(locks: AnswerLocks) -> bool:
    """Whether an answer can be locked, once the thread for locks has come to it."""
    deadline = time.monotonic() + PATIENCE_S
    while not locks.lock([key_id(KEY)]):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


async def test_a_lookup_that_fails_after_it_locked_leaves_no_lock(
    caches: tuple[SharedAnswerCache, AnswerLocks], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, others = caches

    async def fail() -> None:
        raise LedgerError("the server is gone")

    monkeypatch.setattr(cache, "refresh", fail)
    with pytest.raises(LedgerError):
        await cache.look_up_or_lock([KEY])
    assert await is_unlocked(others)


async def test_a_lookup_that_is_canceled_while_it_locks_leaves_no_lock(
    caches: tuple[SharedAnswerCache, AnswerLocks], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, others = caches
    locking, go_on, lock = threading.Event(), threading.Event(), cache._locks.lock

    def lock_slowly(ids: Collection[bytes]) -> bool:
        locking.set()
        return go_on.wait(PATIENCE_S) and lock(ids)

    async def never_end() -> None:
        await asyncio.Event().wait()

    if cache._lock_thread is None:  # in a file it takes no time: it is canceled in the look that follows
        go_on.set()
    monkeypatch.setattr(cache._locks, "lock", lock_slowly)
    monkeypatch.setattr(cache, "refresh", never_end)
    looking = asyncio.create_task(cache.look_up_or_lock([KEY]))
    assert await asyncio.to_thread(locking.wait, PATIENCE_S)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    go_on.set()
    if cache._lock_thread is not None:
        await asyncio.wrap_future(cache._lock_thread.submit(lambda: None))  # then it has locked
    assert await is_unlocked(others)


async def test_who_waited_in_vain_does_not_free_the_lock_of_who_still_asks(
    caches: tuple[SharedAnswerCache, AnswerLocks],
) -> None:
    cache, others = caches
    assert await cache.look_up_or_lock([KEY]) == {}
    assert await cache.look_up_or_lock([KEY]) == {}, "after its wait it asks as well"
    cache.release([KEY])
    assert await asyncio.to_thread(lambda: not others.lock([key_id(KEY)])), "the other one still asks"
    cache.release([KEY])
    assert await is_unlocked(others)


@pytest.fixture
def start(command: Callable[..., list[str]], place: str, spawn: Any) -> Callable[[str], subprocess.Popen[str]]:
    def begin(name: str) -> subprocess.Popen[str]:
        python, module, beholder, *words = command("--ledger", place, "--name", name, "--json")
        process: subprocess.Popen[str] = spawn([python, module, beholder, "-v", *words])
        return process

    return begin


@pytest.mark.parametrize("what", ["both end", "the first is killed", "the second is interrupted"])
def test_by_two_processes(
    what: str,
    cases: Callable[[int], Path],
    start: Callable[[str], subprocess.Popen[str]],
    held: Any,
) -> None:
    path = cases(5)
    try:
        first = start("first")
        held.wait_until_asked(first)
        text = path.read_text("utf-8")
        path.write_text(text.replace('"id": "c', '"id": "d'), "utf-8")  # another run: the same cases by other names
        second = start("second")
        assert second.stderr is not None
        assert any("is waited for" in line for line in second.stderr)
        if what == "the first is killed":
            first.kill()
        if what == "the second is interrupted":  # it does not wait for what the first one asks
            second.send_signal(signal.SIGINT)
            out, said = second.communicate(timeout=PATIENCE_S)
            assert "interrupted" in out + said
    finally:
        held.go.set()
    for process in {"both end": (first, second), "the first is killed": (second,)}.get(what, (first,)):
        out, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said
        assert '"scored": 5' in out
    assert len(held.asked) <= 10 if what == "the first is killed" else len(held.asked) == 5


def test_all_or_none_are_locked_and_a_file_is_left_by_nobody(place: str) -> None:
    a, b, c = (bytes([number]) * 16 for number in range(3))
    with Ledger.open(place, create=True) as ledger:
        one: AnswerLocks = ledger.open_answer_locks()
        other = ledger.open_answer_locks()
        assert one.lock([a, b])
        assert not one.lock([a])
        assert not other.lock([c, b])
        assert other.lock([c])
        assert one.has_others()
        one.unlock([b, c])
        assert other.lock([b])
        assert not other.lock([a])
        one.close()
        assert other.lock([a])
        other.close()


@pytest.mark.skipif(sys.platform == "win32", reason="only the runs of one process wait for each other there")
@pytest.mark.parametrize("what", ["another process holds its first byte", "another user owns it"])
def test_a_file_of_locks_that_cannot_be_used_is_not_waited_for(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if what == "another user owns it":
        monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    opened: list[AnswerLocks] = []
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        status = (tmp_path / "ledger.db").stat()
        path = tmp_path / f"beholder-asking-{os.getuid()}-{status.st_dev:x}-{status.st_ino:x}"
        lock = "import fcntl; fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)\n" if what.startswith("another process") else ""
        hold = f"import sys; file = open(sys.argv[1], 'w')\n{lock}print(flush=True); input()"
        command = [sys.executable, "-c", hold, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            opening = threading.Thread(target=lambda: opened.append(ledger.open_answer_locks()), daemon=True)
            opening.start()
            opening.join(PATIENCE_S)
            try:
                [locks] = opened
            finally:
                holder.kill()
        other = ledger.open_answer_locks()
        a = bytes(16)
        assert locks.lock([a])
        assert not other.lock([a]), "the runs of one process still wait for each other"
        assert not is_locked_file(path)
        other.close()
        locks.close()
    assert path.exists(), "it is somebody else's to delete"


def is_locked_file(path: Path) -> bool:
    """Whether this process holds a lock on some byte of a file; another process looks."""
    look = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    return subprocess.run([sys.executable, "-c", look, str(path)], capture_output=True, check=False).returncode != 0
