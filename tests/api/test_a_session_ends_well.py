"""However a process ends, calls under way are finished and stored, and nothing is asked again."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from support.scripts import PATIENCE_S, ended, interrupt

from beholder import AsyncSession, Case, Ledger, LedgerError, Rubric, Session, Verdict
from beholder.testing.server import JudgeServer

RUBRIC = "edit-preservation"
Start = Callable[[str], "subprocess.Popen[str]"]

# An unguarded script: its functions are not in a `main`.
BEGIN = """
import os, signal, sys, threading, time
import beholder
options = {"base_url": os.environ["URL"]}
def inputs(n):
    return {"input": "before.png", "edited": f"after{n}.png", "instruction": "make it red"}
session = beholder.Session("openai:test", ledger="a.db", name="mine", options=options)
def judge(n):
    verdict = session.judge("edit-preservation", **inputs(n))
    print(f"judged {n} {verdict.outcome}\\n", end="", flush=True)  # in one piece, beside other threads
"""


@pytest.fixture
def pictures(tmp_path: Path) -> None:
    """Images that have to be decoded and scaled down in another process."""
    random = np.random.default_rng(0)
    for name in ("before", *(f"after{number}" for number in range(8))):
        cv2.imwrite(str(tmp_path / f"{name}.png"), random.integers(0, 255, (24, 2600, 3), np.uint8))


def stored(name: str = "mine") -> dict[str, str]:
    with Ledger.open("a.db") as ledger:
        assert ledger.check() == []
        return {verdict.case.partition("-")[0]: str(verdict.outcome) for verdict in ledger.verdicts(name)}


def test_a_script_needs_no_guard_and_may_leave_its_session_open(pictures: None, run_script: Start) -> None:
    process = run_script(BEGIN + "judge(0)\n")
    out, said = ended(process)
    assert (process.returncode, out, said) == (0, "judged 0 scored\n", "")
    assert stored() == {"after0": "scored"}
    with Ledger.open("a.db") as ledger:
        assert ledger.run("mine").state == "finished"


@pytest.mark.parametrize(("judge", "outcome"), [('"openai:test"', "scored"), ('"instruments"', "unmeasured")])
def test_the_main_thread_may_end_before_the_others(judge: str, outcome: str, pictures: None, run_script: Start) -> None:
    text = """
def judge_late(n):
    threading.main_thread().join()
    judge(n)
for n in range(4):
    threading.Thread(target=judge_late, args=(n,)).start()
"""
    begin = BEGIN if "openai" in judge else BEGIN.replace('"openai:test"', judge).replace(", options=options", "")
    process = run_script(begin + text)
    out, said = ended(process)
    assert (process.returncode, said) == (0, "")
    assert sorted(out.splitlines()) == [f"judged {n} {outcome}" for n in range(4)]
    assert len(stored()) == 4


def test_calls_of_daemon_threads_are_finished_at_exit(
    pictures: None, run_script: Start, held: tuple[threading.Event, threading.Event]
) -> None:
    asked, go = held
    process = run_script(
        BEGIN + "threading.Thread(target=judge, args=(0,), daemon=True).start()\nsys.stdin.readline()\n"
    )
    assert asked.wait(PATIENCE_S)
    assert process.stdin is not None
    process.stdin.write("\n")  # the main thread ends while the call is under way
    process.stdin.close()
    process.stdin = None
    go.set()
    ended(process)
    assert process.returncode == 0
    assert stored() == {"after0": "scored"}


@pytest.mark.parametrize("where", ["main", "worker", "many"])
def test_ctrl_c_finishes_the_calls_under_way(
    where: str,
    pictures: None,
    run_script: Start,
    held: tuple[threading.Event, threading.Event],
    server: JudgeServer,
    tmp_path: Path,
) -> None:
    asked, go = held
    work = {
        "main": "judge(0)",
        "worker": "thread = threading.Thread(target=judge, args=(0,))\n    thread.start()\n    thread.join()",
        "many": "print([v.outcome for v in session.judge_many('edit-preservation', [inputs(0)])])",
    }[where]
    process = run_script(f"{BEGIN}with session:\n    {work}\n    judge(1)\n")
    assert asked.wait(PATIENCE_S)
    interrupt(process, tmp_path)
    go.set()
    _, said = ended(process)
    assert process.returncode in (1, 130, -signal.SIGINT)
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert stored() == {"after0": "scored"}
    assert len(server.received) == 1


def test_after_kill_nine_the_run_goes_on_by_its_name(pictures: None, run_script: Start, server: JudgeServer) -> None:
    process = run_script(BEGIN + "for n in range(4): judge(n)\nos.kill(os.getpid(), signal.SIGKILL)\n")
    ended(process)
    assert process.returncode == -signal.SIGKILL
    assert len(server.received) == 4
    process = run_script(BEGIN + "for n in range(5): judge(n)\nsession.close()\n")
    out, said = ended(process)
    assert (out.splitlines(), said) == ([f"judged {n} scored" for n in range(5)], "")
    assert len(server.received) == 5
    with Ledger.open("a.db") as ledger:
        assert len(ledger.runs()) == 1
        assert (ledger.run("mine").total, ledger.run("mine").state) == (5, "finished")


async def test_a_call_that_is_canceled_is_finished_and_stored(
    make_case: Callable[[int], Case],
    options: dict[str, Any],
    held: tuple[threading.Event, threading.Event],
    server: JudgeServer,
) -> None:
    asked, go = held
    async with AsyncSession("openai:test", ledger="a.db", name="mine", options=options) as session:
        call = asyncio.create_task(session.judge(RUBRIC, make_case(0)))
        await asyncio.to_thread(asked.wait, PATIENCE_S)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        go.set()
    assert stored() == {"c0": "scored"}


def test_a_session_that_is_dropped_ends_its_thread(make_case: Callable[[int], Case], options: dict[str, Any]) -> None:
    session = Session("openai:test", ledger="a.db", name="mine", options=options)
    session.judge(RUBRIC, make_case(0))
    [thread] = [one for one in threading.enumerate() if one.name == "beholder-session" and one.daemon]
    del session
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    with Ledger.open("a.db") as ledger:
        assert ledger.run("mine").state == "finished"


@pytest.mark.parametrize("several", [False, True])
def test_closing_waits_for_the_calls_of_other_threads_without_a_ledger_too(
    several: bool,
    make_case: Callable[[int], Case],
    options: dict[str, Any],
    held: tuple[threading.Event, threading.Event],
    server: JudgeServer,
) -> None:
    asked, go = held
    session = Session("openai:test", options=options)

    def judge() -> Verdict:
        return session.judge_rubrics([RUBRIC], make_case(0))[RUBRIC] if several else session.judge(RUBRIC, make_case(0))

    with ThreadPoolExecutor(2) as pool:
        call = pool.submit(judge)
        assert asked.wait(PATIENCE_S)
        closing = pool.submit(session.close)
        go.set()
        assert call.result(PATIENCE_S).scored
        closing.result(PATIENCE_S)
    assert len(server.received) == 1


async def test_an_async_session_that_is_closed_waits_for_its_calls_without_a_ledger_too(
    make_case: Callable[[int], Case],
    options: dict[str, Any],
    held: tuple[threading.Event, threading.Event],
    server: JudgeServer,
) -> None:
    asked, go = held
    session = AsyncSession("openai:test", options=options)
    call = asyncio.create_task(session.judge(RUBRIC, make_case(0)))
    await asyncio.to_thread(asked.wait, PATIENCE_S)
    closing = asyncio.create_task(session.close())
    await asyncio.sleep(0)
    go.set()
    await closing
    assert (await call).scored
    assert len(server.received) == 1


async def test_without_a_ledger_a_call_that_nobody_waits_for_is_canceled(
    make_case: Callable[[int], Case],
    options: dict[str, Any],
    held: tuple[threading.Event, threading.Event],
) -> None:
    asked, go = held
    async with AsyncSession("openai:test", options=options) as session:
        calls = [asyncio.create_task(session.judge(RUBRIC, make_case(0))) for _ in range(2)]
        await asyncio.to_thread(asked.wait, PATIENCE_S)
        calls[0].cancel()
        await asyncio.wait(calls[:1])
        assert calls[0].cancelled()
        calls[1].cancel()
        await asyncio.wait(calls)
        await session.close()  # does not wait for an answer
    go.set()


def test_a_session_that_only_its_iterator_knows_stays_open(
    make_case: Callable[[int], Case], options: dict[str, Any]
) -> None:
    cases = [make_case(number) for number in range(3)]
    verdicts = Session("openai:test", options=options).judge_many(RUBRIC, cases)
    gc.collect()
    assert [verdict.outcome for verdict in verdicts] == ["scored"] * 3


def test_a_session_that_is_collected_on_its_own_thread_is_closed() -> None:
    class Box:
        held: object

    session = Session()
    assert session._worker is not None
    loop, box = session._worker.loop, Box()
    box.held = (box, session)
    del box, session

    async def collect() -> None:
        gc.collect()

    loop.submit(collect()).result(PATIENCE_S)
    loop.join()


async def test_only_the_first_error_of_many_cases_is_told(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with AsyncSession("openai:test", ledger="a.db", options=options) as session:
        await session.judge(RUBRIC, make_case(0))
        other = Rubric.load(RUBRIC).with_scoring(threshold=0.9)
        with pytest.raises(LedgerError, match="another rubric"):
            [verdict async for verdict in session.judge_many(other, [make_case(number) for number in range(5)])]
    gc.collect()
    assert told == []
