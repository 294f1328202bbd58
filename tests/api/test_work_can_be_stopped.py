"""Work in another thread can be stopped: calls under way are finished and stored, no new one begins, and the same call
resumes."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.scripts import PATIENCE_S, ended, interrupt

from beholder import Case, Ledger, Run, Session, UsageError, Waiting, collect, run
from beholder.testing.server import JudgeServer

RUBRIC = "edit-preservation"


class NoticedEvent(threading.Event):
    """An event that says whether somebody has seen it set."""

    def __init__(self) -> None:
        super().__init__()
        self.noticed = threading.Event()

    def is_set(self) -> bool:
        if found := super().is_set():
            self.noticed.set()
        return found


def test_a_run_is_stopped_by_an_event_and_resumes(
    make_case: Callable[[int], Case],
    options: dict[str, Any],
    held: tuple[threading.Event, threading.Event],
    server: JudgeServer,
) -> None:
    asked, go = held
    cases = [make_case(number) for number in range(8)]
    settings: dict[str, Any] = {"rubric": RUBRIC, "cases": cases, "judge": "openai:test", "concurrency": 1, **options}
    stop = NoticedEvent()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, **settings, ledger="a.db", progress=False, stop=stop)
        assert asked.wait(PATIENCE_S)
        stop.set()
        assert stop.noticed.wait(PATIENCE_S)
        go.set()
        stopped = running.result(PATIENCE_S)
    assert (stopped.state, Run.load(ledger="a.db").state) == ("interrupted", "interrupted")
    assert stopped.summary.outcomes["scored"] == len(server.received) < 8
    resumed = run(**settings, ledger="a.db", progress=False, stop=threading.Event())
    assert (resumed, resumed.state, len(server.received)) == (stopped, "finished", 8)


def test_many_cases_are_stopped_by_an_event(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    taken: list[Case] = []

    def endless() -> Iterator[Case]:
        while True:
            taken.append(make_case(len(taken)))
            yield taken[-1]

    stop, found = threading.Event(), []
    with Session("openai:test", ledger="a.db", concurrency=2, options=options) as session:
        for verdict in session.judge_many(RUBRIC, endless(), stop=stop):
            found.append(verdict.case)
            stop.set()
        assert len(list(session.run.verdicts())) == len(server.received)
    assert found == [case.id for case in taken], "every case that was taken has its verdict"


@pytest.mark.parametrize("how", ["judge", "judge_many"])
def test_ctrl_c_that_ends_the_program_stops_sessions_in_other_threads(
    how: str,
    make_case: Callable[[int], Case],
    run_script: Callable[[str], subprocess.Popen[str]],
    held: tuple[threading.Event, threading.Event],
    server: JudgeServer,
    tmp_path: Path,
) -> None:
    asked, go = held
    make_case(0)
    work = {
        "judge": "for case in cases(): session.judge('edit-preservation', case)",
        "judge_many": "for verdict in session.judge_many('edit-preservation', cases()): pass",
    }[how]
    process = run_script(f"""
import itertools, os, sys, threading
import beholder
def cases():
    for number in itertools.count():
        images = {{"input": "before.png", "edited": "after0.png"}}
        yield beholder.Case(f"c{{number}}", images, {{"instruction": str(number)}})
options = {{"base_url": os.environ["URL"]}}
session = beholder.Session("openai:test", ledger="a.db", name="mine", concurrency=2, options=options)
def work():
    {work}
threading.Thread(target=work).start()
wait_for_ctrl_c()
""")
    assert asked.wait(PATIENCE_S)
    interrupt(process, tmp_path)
    go.set()
    _, said = ended(process)
    assert "KeyboardInterrupt" in said
    with Ledger.open("a.db") as ledger:
        assert ledger.check() == []
        assert {verdict.outcome for verdict in ledger.verdicts("mine")} == {"scored"}
        assert ledger.run("mine").total == len(server.received)


@pytest.mark.parametrize("how", ["close", "stop", "timeout"])
def test_a_case_that_waits_for_the_answer_of_another_session_begins_no_call(
    how: str,
    make_case: Callable[[int], Case],
    options: dict[str, Any],
    held: tuple[threading.Event, threading.Event],
    server: JudgeServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, go = held
    caplog.set_level("INFO", "beholder")
    stop, case = threading.Event(), make_case(0)
    others = options | ({"total_timeout_s": 0.5} if how == "timeout" else {})
    with (
        ThreadPoolExecutor(2) as pool,
        Session("openai:test", ledger="a.db", options=options) as one,
        Session("openai:test", ledger="a.db", options=others) as other,
    ):
        try:
            first = pool.submit(one.judge, RUBRIC, case)
            assert asked.wait(PATIENCE_S)
            if how == "stop":
                second = pool.submit(lambda: list(other.judge_many(RUBRIC, [case], stop=stop)))
            else:
                second = pool.submit(lambda: [other.judge(RUBRIC, case)])
            deadline = time.monotonic() + PATIENCE_S
            while "is waited for" not in caplog.text and time.monotonic() < deadline:
                time.sleep(0.02)
            if how == "close":
                other.close()
                with pytest.raises(Waiting, match="judge the case again later"):
                    second.result(PATIENCE_S)
            elif how == "stop":
                stop.set()
                assert second.result(PATIENCE_S) == []
            else:
                [verdict] = second.result(PATIENCE_S)
                assert (verdict.outcome, verdict.detail) == ("unreachable", "no verdict within 0.5 s")
        finally:
            go.set()
        assert first.result(PATIENCE_S).scored
    assert len(server.received) == 1


def test_a_case_that_waits_for_the_answer_of_its_own_session_gets_it(
    make_case: Callable[[int], Case],
    options: dict[str, Any],
    held: tuple[threading.Event, threading.Event],
    server: JudgeServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, go = held
    caplog.set_level("INFO", "beholder")
    case = make_case(0)
    with ThreadPoolExecutor(3) as pool:
        session = Session("openai:test", ledger="a.db", options=options)
        try:
            calls = [pool.submit(session.judge, RUBRIC, replace(case, id=name)) for name in "ab"]
            assert asked.wait(PATIENCE_S)
            deadline = time.monotonic() + PATIENCE_S
            while "is waited for" not in caplog.text and time.monotonic() < deadline:
                time.sleep(0.02)
            closing = pool.submit(session.close)
        finally:
            go.set()
        assert [call.result(PATIENCE_S).outcome for call in calls] == ["scored", "scored"]
        closing.result(PATIENCE_S)
    assert len(server.received) == 1


@pytest.mark.parametrize("call", [run, collect])
def test_what_is_no_event_is_told(call: Callable[..., object], make_case: Callable[[int], Case]) -> None:
    with pytest.raises(UsageError, match=r"stop is a threading.Event, and bool is not"):
        call(rubric=RUBRIC, cases=[make_case(0)], stop=True)
    stop: Any = 3
    with Session() as session, pytest.raises(UsageError, match=r"stop is a threading.Event, and int is not"):
        session.judge_many(RUBRIC, [make_case(0)], stop=stop)
