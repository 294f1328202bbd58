"""Several processes on one run, in a real PostgreSQL: each case is judged by one, and whoever dies is replaced."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from support.ledger import run_record
from support.postgres import Server

from beholder import Ledger, UsageError
from beholder.ledger import schema
from beholder.ledger.postgres import _WRITE_LOCK
from beholder.runs.engine import WRITE_BATCH
from beholder.runs.ledger_access import LedgerThread, join_run, lock_run
from beholder.runs.limits import RunLimits
from beholder.testing.base import Received
from beholder.testing.server import JudgeServer

CONCURRENCY = 8
PATIENCE_S = 240
LAPSES_S, LASTS_S = "3", "600"  # a lease that is soon over, where one is waited for; elsewhere none ends by itself


@pytest.fixture
def start(tmp_path: Path, server: JudgeServer, postgres: Server, spawn: Any) -> Callable[..., subprocess.Popen[str]]:
    """Starts one more process on the run."""
    place = postgres.database()

    def begin(*more: str) -> subprocess.Popen[str]:
        arguments = [
            *("--rubric", "edit-preservation", "--cases", str(tmp_path / "cases.jsonl"), "--judge", "openai:test"),
            *("--base-url", server.openai_url, "--no-thumbnails", "--no-audit", "--concurrency", str(CONCURRENCY)),
            *("--ledger", place, "--lease", LASTS_S, "--json", *more),
        ]
        process: subprocess.Popen[str] = spawn([sys.executable, "-m", "beholder", "run", *arguments])
        return process

    begin.place = place  # type: ignore[attr-defined]
    return begin


@pytest.fixture
def together(server: JudgeServer, start: Any) -> Callable[[Sequence[subprocess.Popen[str]], Callable[[], Any]], None]:
    """Holds every answer until all these processes are at work on the run, however long each takes to start."""

    def together(processes: Sequence[subprocess.Popen[str]], reply: Callable[[], Any]) -> None:
        all_here = threading.Event()

        def held_back(_: Received) -> Any:
            all_here.wait()
            return reply()

        server.default = held_back
        try:
            with Ledger.open(start.place, create=True) as ledger:
                while at_work(ledger) < len(processes):
                    for process in processes:
                        assert process.poll() is None, process.communicate()
                    all_here.wait(0.05)
        finally:
            all_here.set()

    return together


def at_work(ledger: Ledger) -> int:
    with ledger._reading() as connection:
        return connection.scalar(select(func.count()).select_from(schema.workers)) or 0


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 3), told
    summary: dict[str, Any] = json.loads(out.splitlines()[-1])
    return summary


def test_four_processes_two_of_them_killed_judge_every_case_once(
    server: JudgeServer, cases: Any, start: Any, together: Any, good_answer: Callable[[], dict[str, Any]]
) -> None:
    count = 400
    cases(count)
    processes = [start("--lease", LAPSES_S) for _ in range(4)]
    killed = processes[:2]
    asked_at_kill: list[int] = []

    def reply() -> dict[str, Any]:
        if len(server.received) >= 100 * (1 + len(asked_at_kill)) and len(asked_at_kill) < len(killed):
            killed[len(asked_at_kill)].kill()
            asked_at_kill.append(len(server.received))
        return good_answer()

    together(processes, reply)
    survivors = [ended(process) for process in processes[2:]]
    for process in killed:
        process.communicate()
    assert len(asked_at_kill) == 2
    assert len({summary["run"] for summary in survivors}) == 1
    for summary in survivors:
        assert summary["state"] == "finished"
        assert summary["tally"]["outcomes"] == {"scored": count}
    assert len(server.received) - count <= len(killed) * (CONCURRENCY + WRITE_BATCH)
    with Ledger.open(start.place, create=True) as ledger:
        assert ledger.check() == []
        assert len(ledger.runs()) == 1
        assert len({verdict.case for verdict in ledger.verdicts("latest")}) == count


def test_together_they_keep_to_the_budget(
    cases: Any, start: Any, together: Any, good_answer: Callable[[], dict[str, Any]]
) -> None:
    cases(120)
    money = ("--budget", "0.02", "--price-input", "1", "--price-output", "1")
    processes = [start(*money) for _ in range(3)]
    together(processes, good_answer)
    summaries = [ended(process) for process in processes]
    with Ledger.open(start.place, create=True) as ledger:
        spent = ledger.run("latest").spent_usd
        outcomes = ledger.tally("latest").outcomes
    assert spent is not None
    assert 0 < spent <= 0.02
    assert outcomes["over_budget"] > 0
    assert outcomes["scored"] + outcomes["over_budget"] == 120
    assert {summary["exit_code"] for summary in summaries} == {3}


def test_a_failure_is_tried_by_one_of_them(server: JudgeServer, cases: Any, start: Any, together: Any) -> None:
    cases(60)
    processes = [start("--retry", "refused") for _ in range(3)]
    together(processes, lambda: "I cannot help with that request.")
    for process in processes:
        ended(process)
    assert len(server.received) == 60


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_server_that_is_restarted_in_the_middle_costs_nothing(
    server: JudgeServer, cases: Any, start: Any, good_answer: Callable[[], dict[str, Any]], postgres: Server, how: str
) -> None:
    count = 300
    cases(count)
    restarts: list[int] = []

    def reply(_: Any) -> dict[str, Any]:
        if len(server.received) >= 100 and not restarts:
            restarts.append(len(server.received))
            postgres.stop(how)
            postgres.start()
        return good_answer()

    server.default = reply
    summary = ended(start("--price-input", "1", "--price-output", "1"))
    assert restarts
    assert summary["tally"]["outcomes"] == {"scored": count}
    assert len(server.received) == count
    with Ledger.open(start.place, create=True) as ledger:
        assert ledger.check() == []
        paid = sum(verdict.cost_usd or 0 for verdict in ledger.verdicts("latest"))
        assert ledger.run("latest").spent_usd == paid


def heartbeats(ledger: Ledger) -> dict[int, float]:
    """By process, the seconds until its leases expire, by the server's clock."""
    columns = schema.workers.c
    with ledger._reading() as connection:
        rows = connection.execute(select(columns.holder, columns.until - schema.database_time_s())).all()
    return {int(holder.split(":")[1]): left for holder, left in rows}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("joins", ["before", "after"])
def test_a_server_that_was_away_for_longer_than_a_lease_costs_nothing(
    joins: str, cases: Any, start: Any, held: Any, postgres: Server
) -> None:
    """One process has all cases, and comes back after the other one, which joined before or after the outage: that
    takes none of them over."""
    lease_s, count = 10.0, CONCURRENCY
    cases(count)
    try:
        slow = start("--lease", str(lease_s))
        held.wait_until_asked(slow)  # it has leased all cases by then
        if joins == "before":
            other = start("--lease", str(lease_s))
            with Ledger.open(start.place) as ledger:
                wait_until(lambda: at_work(ledger) == 2)
        postgres.stop("immediate")
        away_since = time.monotonic()
        wait_until(lambda: time.monotonic() - away_since > lease_s + 1)
        slow.send_signal(signal.SIGSTOP)
        try:
            postgres.start()
            if joins == "after":
                other = start("--lease", str(lease_s))
            with Ledger.open(start.place) as ledger:
                wait_until(lambda: heartbeats(ledger).get(other.pid, 0) > 0)
        finally:
            slow.send_signal(signal.SIGCONT)
        with Ledger.open(start.place) as ledger:
            wait_until(lambda: heartbeats(ledger)[slow.pid] > lease_s / 2)
    finally:
        held.go.set()
    for process in (slow, other):
        assert ended(process)["tally"]["outcomes"] == {"scored": count}
    assert len(held.asked) == count


async def test_a_stalled_process_does_not_keep_others_from_renewing_their_leases(postgres: Server) -> None:
    import psycopg

    place, lease_s = postgres.database(), 12.0
    with Ledger.open(place, create=True) as ledger:
        ledger.start(run_record())
        thread = LedgerThread(ledger)
        async with join_run(thread, "r1", RunLimits(), lease_s):
            with psycopg.connect(place) as stalled:  # in the middle of a write transaction
                stalled.execute("SELECT pg_advisory_xact_lock(%s)", (_WRITE_LOCK,))
                begun = time.monotonic()
                while time.monotonic() - begun < 1.25 * lease_s:
                    await asyncio.sleep(0.1)
                    assert heartbeats(ledger)[os.getpid()] > 0
        thread.close()


def test_a_batch_has_a_run_alone(postgres: Server) -> None:
    place = postgres.database()
    with Ledger.open(place, create=True) as one, Ledger.open(place, create=True) as other:
        one.start(run_record())
        with lock_run(one, "r1", alone=True):
            for alone in (True, False):
                with (
                    pytest.raises(UsageError, match="under way in another process"),
                    lock_run(other, "r1", alone=alone),
                ):
                    pass
        with lock_run(one, "r1"), lock_run(other, "r1"):
            pass
        with lock_run(other, "r1", alone=True):
            pass


def test_a_process_that_was_stopped_for_longer_than_its_lease_loses_and_spoils_nothing(
    server: JudgeServer, cases: Any, start: Any, together: Any, good_answer: Callable[[], dict[str, Any]]
) -> None:
    count = 200
    cases(count)
    sleeper, other = start("--lease", LAPSES_S), start("--lease", LAPSES_S)
    asked: list[int] = []

    def reply() -> dict[str, Any]:
        if len(server.received) >= 60 and not asked:
            asked.append(1)
            sleeper.send_signal(signal.SIGSTOP)
        return good_answer()

    together([sleeper, other], reply)
    summary = ended(other)
    sleeper.send_signal(signal.SIGCONT)
    ended(sleeper)
    assert summary["tally"]["outcomes"] == {"scored": count}
    assert len(server.received) - count <= 2 * CONCURRENCY + WRITE_BATCH
    with Ledger.open(start.place, create=True) as ledger:
        assert ledger.check() == []
        assert ledger.run("latest").state == "finished"


def test_a_copy_of_the_files_joins_a_run_by_its_name(
    tmp_path: Path, server: JudgeServer, cases: Any, start: Any
) -> None:
    cases(10)
    first = ended(start())
    for file in tmp_path.glob("*.png"):
        os.utime(file, (1, 1))
    assert ended(start("--run", first["run"]))["run"] == first["run"]
    assert len(server.received) == 10
    other = start("--run", first["run"], "--limit", "5")
    _, told = other.communicate(timeout=PATIENCE_S)
    assert other.returncode == 2
    assert "number of cases differ" in told
