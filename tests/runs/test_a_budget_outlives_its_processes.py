"""What a provider bills for the answers that it gave stays within the budget, whatever happens to the processes that
asked: killed, stopped for longer than their lease, or resumed by others."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.ledger import entry, run_record
from support.postgres import Server
from support.scripts import PATIENCE_S

from beholder import Ledger, OverBudget
from beholder.runs.ledger_access import LedgerThread, join_run
from beholder.runs.limits import Budget, RunLimits
from beholder.runs.ray.cluster import Cluster
from beholder.runs.ray.coordinator import Coordinator
from beholder.runs.ray.driver import RayPipeline, plan_workers, try_reserve
from beholder.testing.openai import USAGE
from beholder.testing.server import JudgeServer

CONCURRENCY = 8  # as in the fixture `command`
COST = Decimal(int(str(USAGE["completion_tokens"]))) / 1000  # what the provider bills for an answer, in US dollars
MONEY = ("--price-input", "0", "--price-output", "1000", "--param", "max_completion_tokens=50")  # $0.05 at most

SESSION = """
import sys
from beholder import Session
ledger, server, cases, budget = sys.argv[1:]
options = {"base_url": server, "params": {"max_completion_tokens": 50}, "price": {"input": 0, "output": 1000}}
with Session("openai:test", ledger=ledger, name="s", budget=float(budget), concurrency=8, options=options) as session:
    for verdict in session.judge_many("edit-preservation", cases):
        pass
"""


def billed(server: JudgeServer) -> Decimal:
    return len(server.received) * COST


def spent(place: str | Path) -> Decimal:
    with Ledger.open(place) as ledger:
        return ledger.run("latest").spent_usd or Decimal(0)


@pytest.fixture
def begin(
    tmp_path: Path, server: JudgeServer, command: Callable[..., list[str]], spawn: Any
) -> Callable[..., subprocess.Popen[str]]:
    """Starts a process that judges all cases, by a command or in a session."""

    def begin(how: str, place: str, budget: Decimal, *more: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", SESSION, place, server.openai_url, str(tmp_path / "cases.jsonl"), str(budget)]
        if how == "run":
            words = command("--quiet", *MONEY, "--budget", str(budget), "--ledger", place, "--lease", "1", *more)
        process: subprocess.Popen[str] = spawn(words)
        return process

    return begin


@pytest.mark.parametrize("how", ["run", "session", "postgresql"])
def test_killed_again_and_again_it_is_never_billed_more(
    how: str, request: pytest.FixtureRequest, tmp_path: Path, server: JudgeServer, cases: Any, begin: Any,
    good_answer: Callable[[], dict[str, Any]],
) -> None:  # fmt: skip
    cases(70)
    budget = 70 * COST
    place = str(tmp_path / "ledger.db")
    if how == "postgresql":
        place = request.getfixturevalue("postgres").database()
    kind = "session" if how == "session" else "run"
    killed = 0
    for _ in range(3):
        wanted = len(server.received) + 10
        process = begin(kind, place, budget)

        def reply(_: Any, process: Any = process, wanted: int = wanted) -> dict[str, Any]:
            if len(server.received) >= wanted:
                process.kill()
            return good_answer()

        server.default = reply
        _, said = process.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in said
        killed += process.returncode == -signal.SIGKILL
    server.default = good_answer()
    assert killed >= 2
    _, said = begin(kind, place, budget).communicate(timeout=PATIENCE_S)
    assert how != "run" or "of the budget stay reserved" in said  # elsewhere the dead are not known to be dead yet
    assert 0 < spent(place) < billed(server) <= budget
    with Ledger.open(place) as ledger:
        assert billed(server) <= spent(place) + ledger.reserved_usd("latest") <= budget
    # Who gives more goes on, and what is not known to be spent is not lost on the way.
    begin(kind, place, 3 * budget).communicate(timeout=PATIENCE_S)
    with Ledger.open(place) as ledger:
        assert ledger.tally("latest").outcomes == {"scored": 70}
        assert ledger.check() == []


def test_what_a_process_reserved_that_only_slept_is_nobody_elses(
    server: JudgeServer, cases: Any, begin: Any, postgres: Server, good_answer: Callable[[], dict[str, Any]]
) -> None:
    cases(60)
    budget = 30 * COST
    place = postgres.database()
    Ledger.open(place, create=True).close()
    asleep: list[int] = []

    def reply(_: Any) -> dict[str, Any]:
        if len(server.received) == CONCURRENCY:  # all its calls are out
            sleeper.send_signal(signal.SIGSTOP)
            asleep.append(1)
        return good_answer()

    server.default = reply
    # Without the cache: it would wait for the answers that the sleeper is asking for.
    sleeper = begin("run", place, budget, "--lease", "1", "--fresh")
    until = time.monotonic() + PATIENCE_S
    with Ledger.open(place) as ledger:
        while not asleep or ledger.active_workers("latest"):  # until its lease is over
            assert time.monotonic() < until
            assert sleeper.poll() is None
            time.sleep(0.05)
    other = begin("run", place, budget, "--lease", "600", "--fresh")
    _, said = other.communicate(timeout=PATIENCE_S)
    assert other.returncode == 3, said
    sleeper.send_signal(signal.SIGCONT)
    _, said = sleeper.communicate(timeout=PATIENCE_S)
    assert sleeper.returncode == 3, said
    assert 0 < spent(place) <= budget
    assert billed(server) <= budget
    with Ledger.open(place) as ledger:
        assert ledger.reserved_usd("latest") == 0  # its answers have come, and nothing is in doubt


async def test_what_a_ray_worker_reserved_that_died_counts_as_spent(tmp_path: Path) -> None:
    """The driver reserves in the ledger; what workers did not use comes back, what a dead one had does not."""
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.start(run_record())
        thread, budget, office = LedgerThread(ledger), Budget(Decimal(10)), Coordinator()
        pipeline = RayPipeline(Handle(office), plan_workers(1, 1, Cluster("here", 1, 1)), lambda: None)  # type: ignore[arg-type]
        async with join_run(thread, "r1", RunLimits(budget), 60) as leases:
            assert [await try_reserve(budget, Decimal(2)) for _ in range(2)] == ["", ""]
            assert ledger.reserved_usd("r1") == 4  # before a call is made; for these alone, of a small budget
            await office.finish_cases([], Decimal("1.5"))
            await thread.call(ledger.write, "r1", [entry(0, spent_usd=Decimal("0.5"))], leases.make_write_token())
            await pipeline.settle_rest(budget)
        thread.close()
        assert ledger.run("r1").spent_usd == Decimal("0.5")
        assert ledger.reserved_usd("r1") == 2


class Handle:
    """An actor of Ray as its callers have it."""

    def __init__(self, actor: object) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._actor, name)
        return type("Method", (), {"remote": staticmethod(lambda *args: asyncio.ensure_future(call(*args)))})


async def test_an_answer_of_unknown_cost_counts_in_full_after_the_run_too(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.start(run_record())
        thread = LedgerThread(ledger)
        for left in ("1", "0"):
            budget = Budget(Decimal(2))
            async with join_run(thread, "r1", RunLimits(budget), 60) as leases:
                await budget.begin_call(Decimal(1))
                budget.end_call(Decimal(1), None)
                await thread.call(ledger.write, "r1", [entry(0, spent_usd=None)], leases.make_write_token())
            assert 2 - ledger.reserved_usd("r1") == Decimal(left)
        async with join_run(thread, "r1", RunLimits(budget := Budget(Decimal(2))), 60):
            with pytest.raises(OverBudget, match="processes have reserved counts as spent"):
                await budget.begin_call(Decimal(1))
        thread.close()
