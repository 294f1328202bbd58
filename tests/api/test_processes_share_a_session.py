"""Several processes on one session: forked, spawned or each with the same name, they keep its budget together."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.sessions import judge_some

from beholder import Case, Ledger, LedgerError, ScriptedJudge, Session, UsageError
from beholder.testing.server import JudgeServer

RUBRIC = "edit-preservation"
PROCESSES, CALLS = 4, 12
BUDGET = Decimal(24)

_shared: Session | None = None


def judge_inherited(cases: list[Case]) -> list[str]:
    assert _shared is not None
    return judge_some(_shared, cases)


def spent_at(server: JudgeServer, ledger: str) -> Decimal:
    """What all answers cost together that the server gave: each costs the same, by the usage that it reports."""
    with Ledger.open(ledger) as opened:
        [cost] = {verdict.cost_usd for verdict in opened.verdicts("mine") if verdict.scored}
    assert cost is not None
    return len(server.received) * cost


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_budget_of_a_session_that_was_sent_to_other_processes(
    method: str, make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    parts = [[make_case(part * CALLS + number) for number in range(CALLS)] for part in range(PROCESSES)]
    context = multiprocessing.get_context(method)
    with Session("openai:test", ledger="a.db", name="mine", budget=BUDGET, options=options) as session:
        first = session.judge(RUBRIC, make_case(999))
        assert first.scored
        with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
            outcomes = [outcome for part in pool.map(judge_some, [session] * PROCESSES, parts) for outcome in part]
        assert session.run.total == 1 + PROCESSES * CALLS
        assert session.spent_usd <= BUDGET
    assert set(outcomes) == {"scored", "over_budget"}
    assert len(server.received) == 1 + outcomes.count("scored")
    assert BUDGET / 3 < spent_at(server, "a.db") <= BUDGET


def test_a_session_that_a_child_inherits_opens_connections_of_its_own(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = multiprocessing.get_context("fork")
    with Session("openai:test", ledger="a.db", options=options) as session:
        session.judge(RUBRIC, make_case(0))
        monkeypatch.setattr(sys.modules[__name__], "_shared", session)
        with context.Pool(2) as pool:
            parts = [[make_case(1), make_case(2)], [make_case(3), make_case(0)]]
            assert pool.map(judge_inherited, parts) == [["scored"] * 2] * 2
            pool.close()
            pool.join()
        assert session.judge(RUBRIC, make_case(4)).scored
        assert session.run.total == 5
        assert [stored.position for stored in session_verdicts(session)] == [0, 1, 2, 3, 4]
    assert len(server.received) == 5
    with Ledger.open("a.db") as ledger:
        assert ledger.check() == []
        assert ledger.run().state == "finished"


def session_verdicts(session: Session) -> list[Any]:
    assert session.run_id is not None
    with Ledger.open("a.db") as ledger:
        return list(ledger.stored_verdicts(session.run_id))


SCRIPT = """
import os, sys
import beholder
options = {"base_url": os.environ["URL"], "audit": False, "thumbnails": False, "price": {"input": 1000, "output": 1000},
           "params": {"max_tokens": 200}}
start, count = map(int, sys.argv[1:])
with beholder.Session("openai:test", ledger="a.db", name="mine", budget=24, options=options) as session:
    numbers = range(start, start + count)
    inputs = [{"input": "before.png", "edited": f"after{n}.png", "instruction": "x"} for n in numbers]
    for verdict in session.judge_many("edit-preservation", inputs):
        print(verdict.outcome)
"""


def test_processes_that_know_only_the_name_share_run_and_budget(
    make_case: Callable[[int], Case], server: JudgeServer, tmp_path: Path
) -> None:
    for number in range(PROCESSES * CALLS):
        make_case(number)
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "URL": server.openai_url}
    started = [
        subprocess.Popen(
            [sys.executable, "script.py", str(number * CALLS), str(CALLS)],
            stdout=subprocess.PIPE,
            cwd=tmp_path,
            env=environment,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    outcomes = [line for process in started for line in process.communicate(timeout=120)[0].splitlines()]
    assert [process.returncode for process in started] == [0] * PROCESSES
    assert len(outcomes) == PROCESSES * CALLS
    assert set(outcomes) <= {"scored", "over_budget"}
    assert spent_at(server, "a.db") <= BUDGET
    with Ledger.open("a.db") as ledger:
        assert len(ledger.runs()) == 1
        assert (ledger.run("mine").total, ledger.run("mine").state) == (PROCESSES * CALLS, "finished")


def test_a_session_with_a_judge_that_was_handed_in_cannot_be_sent() -> None:
    with Session(ScriptedJudge("x")) as session, pytest.raises(UsageError, match="handed in"):
        pickle.dumps(session)


@pytest.mark.parametrize("method", ["heartbeat", "update"])
def test_a_ledger_that_fails_once_leaves_the_budget_as_it_is(
    method: str, make_case: Callable[[int], Case], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = getattr(Ledger, method), []

    def fail_once(ledger: Ledger, *args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise LedgerError("The disk is full.")
        return real(ledger, *args, **kwargs)

    with Session("openai:test", ledger="a.db", budget=BUDGET, options=options) as session:
        monkeypatch.setattr(Ledger, method, fail_once)
        with pytest.raises(LedgerError, match="full"):
            session.judge(RUBRIC, make_case(0))
        assert [session.judge(RUBRIC, make_case(number)).outcome.value for number in range(3)] == ["scored"] * 3
        assert 0 < session.spent_usd <= BUDGET


@pytest.mark.parametrize("ledger", ["a.db", None])
def test_copies_in_one_process_share_connections_until_the_last_is_closed(
    ledger: str | None, make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    with Session("openai:test", ledger=ledger, options=options) as session:
        for _ in range(3):
            copy = pickle.loads(pickle.dumps(session))
            assert copy.judge(RUBRIC, make_case(0)).scored
            assert copy._worker is session._worker
        copy.close()
        with pytest.raises(UsageError, match="closed"):
            copy.judge(RUBRIC, make_case(0))
        assert session.judge(RUBRIC, make_case(0)).scored
    assert len(server.received) == 1


def test_two_sessions_that_are_set_up_alike_stay_two_when_they_are_sent(options: dict[str, Any]) -> None:
    with Session("openai:test", options=options) as one, Session("openai:test", options=options) as other:
        copies = [pickle.loads(pickle.dumps(session)) for session in (one, other)]
        assert [copy._open() for copy in copies] == [one._worker, other._worker]


def test_a_session_that_waits_for_its_next_case_keeps_no_money_from_others(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    def open_session() -> Session:
        return Session("openai:test", ledger="a.db", name="mine", budget=7, options=options)

    with open_session() as idle, open_session() as other:  # a call costs 1.163 and may cost 2.644
        assert idle.run_id == other.run_id
        verdicts = list(idle.judge_many(RUBRIC, [make_case(number) for number in range(3)]))
        assert [verdict.outcome.value for verdict in verdicts] == ["scored"] * 3
        assert other.judge(RUBRIC, make_case(3)).scored
        assert other.judge(RUBRIC, make_case(4)).outcome == "over_budget"
    assert spent_at(server, "a.db") == Decimal("4.652")


def test_a_session_keeps_its_ledger_wherever_it_is_used(
    make_case: Callable[[int], Case], options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session("openai:test", ledger="a.db", name="mine", options=options) as session:
        session.judge(RUBRIC, make_case(0))
        sent = pickle.dumps(session)
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(elsewhere)
        assert session.run.total == 1
    with pickle.loads(sent) as copy:
        copy.judge(RUBRIC, make_case(1))
        assert copy.run.total == 2
    assert list(elsewhere.iterdir()) == []
    (tmp_path / "a.db").unlink()
    with pytest.raises(LedgerError):  # the run is not there: it is not begun anew
        pickle.loads(sent).judge(RUBRIC, make_case(2))
    assert not (tmp_path / "a.db").exists()
