"""One judge object, one session: used from many threads and event loops, in a running loop, trio, a notebook."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ALL_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from support.scripts import run_in_notebook

import beholder
from beholder import (
    Answer,
    AsyncSession,
    Brief,
    Case,
    Judge,
    Session,
    UsageError,
    Verdict,
    judge,
    judge_async,
    judge_from,
)
from beholder.api.options import make_case as make_case_of_inputs
from beholder.images.image import Sizing
from beholder.providers import http
from beholder.testing.server import JudgeServer

RUBRIC = "edit-preservation"
THREADS, CALLS = 8, 30


@pytest.fixture
def model(server: JudgeServer) -> Judge:
    return judge_from("openai:test", base_url=server.openai_url)


def in_threads(call: Callable[[int], Verdict]) -> list[Verdict]:
    """Eight threads that begin at the same moment, each with thirty calls."""
    begin = threading.Barrier(THREADS)

    def work(thread: int) -> list[Verdict]:
        begin.wait()
        return [call(thread * CALLS + number) for number in range(CALLS)]

    with ThreadPoolExecutor(THREADS) as pool:
        return [verdict for verdicts in pool.map(work, range(THREADS)) for verdict in verdicts]


NO_AUDIT = {"audit": False}


def test_eight_threads_on_one_judge_object(model: Judge, make_case: Callable[[int], Case], server: JudgeServer) -> None:
    cases = [make_case(number) for number in range(THREADS * CALLS)]
    verdicts = in_threads(lambda number: judge(RUBRIC, cases[number], judge=model, options=NO_AUDIT))
    assert [verdict.outcome for verdict in verdicts] == ["scored"] * len(cases)
    assert [verdict.case for verdict in verdicts] == [case.id for case in cases]
    assert len(server.received) == len(cases)


def test_eight_threads_on_one_session(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    cases = [make_case(number) for number in range(THREADS * CALLS)]
    with Session("openai:test", ledger="a.db", options=options) as session:
        verdicts = in_threads(lambda number: session.judge(RUBRIC, cases[number]))
        assert session.run.total == len(cases)
    assert [verdict.outcome for verdict in verdicts] == ["scored"] * len(cases)
    assert len(server.received) == len(cases)


async def ask_and_close(model: Judge, case: Case) -> Verdict:
    try:
        return await judge_async(RUBRIC, case, judge=model, options=NO_AUDIT)
    finally:
        await model.aclose()


def test_an_event_loop_of_its_own_in_each_of_eight_threads(model: Judge, make_case: Callable[[int], Case]) -> None:
    case = make_case(0)
    verdicts = in_threads(lambda _: asyncio.run(ask_and_close(model, case)))
    assert {verdict.outcome for verdict in verdicts} == {"scored"}


def test_one_judge_object_outlives_event_loops_and_leaves_nothing_open(
    server: JudgeServer, make_case: Callable[[int], Case]
) -> None:
    case = make_case(0)
    model = judge_from("openai:test", base_url=server.openai_url)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert asyncio.run(ask_and_close(model, case)).scored
            assert judge(RUBRIC, case, judge=model, options=NO_AUDIT).scored
        with Session(model, options=NO_AUDIT) as session:
            assert session.judge(RUBRIC, case).scored
        del model, session
        gc.collect()


def test_a_judge_behind_pydantic_ai_is_used_in_the_same_way(
    server: JudgeServer, make_case: Callable[[int], Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "sk-test")
    model = judge_from("ollama:qwen3-vl", base_url=server.openai_url)
    case = make_case(0)
    for _ in range(2):
        assert asyncio.run(ask_and_close(model, case)).scored
        assert judge(RUBRIC, case, judge=model, options=NO_AUDIT).scored
    with Session(model, options=NO_AUDIT) as session, ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(asyncio.run, ask_and_close(model, case)) for _ in range(4)]
        assert session.judge(RUBRIC, case).scored
        assert all(call.result().scored for call in calls)


class LoopOfAnotherThread(asyncio.SelectorEventLoop):
    """An event loop that is closed, and whose connections another thread forgets just when this one wants to."""

    def __init__(self, connections: dict[asyncio.AbstractEventLoop, Any]) -> None:
        super().__init__()
        self.close()
        self.connections = connections
        connections[self] = None

    def is_closed(self) -> bool:
        if vars(self).get("connections") is not None:
            self.connections.pop(self, None)
        return super().is_closed()


@pytest.mark.parametrize("name", ["openai:test", "ollama:qwen3-vl"])
def test_two_threads_may_forget_the_same_closed_event_loop(
    name: str, server: JudgeServer, make_case: Callable[[int], Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "sk-test")
    model: Any = judge_from(name, base_url=server.openai_url)
    connections = model._connections if name.startswith("ollama") else model._servers._servers[0].client._sessions
    LoopOfAnotherThread(connections)
    assert asyncio.run(ask_and_close(model, make_case(0))).scored
    assert not connections


async def test_a_client_of_pydantic_ai_is_opened_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client(AbstractAsyncContextManager["Client"]):
        state = "new"

        async def __aenter__(self) -> Client:
            await asyncio.sleep(0)
            self.state = "open"
            return self

        async def __aexit__(self, *_: object) -> None:
            self.state = "closed"

    monkeypatch.setenv("OLLAMA_API_KEY", "sk-test")
    model: Any = judge_from("ollama:qwen3-vl", base_url="http://127.0.0.1:1/v1")
    made: list[Client] = []

    def make_client() -> Client:
        made.append(Client())
        return made[-1]

    async def connect() -> Client:
        client: Client = await model._connect()
        assert client.state == "open"
        return client

    monkeypatch.setattr(model, "_make_client", make_client)
    first, second = await asyncio.gather(connect(), connect())
    assert first is second
    await model.aclose()
    assert {client.state for client in made} == {"closed"}


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_makes_judges_though_another_thread_was_making_one() -> None:
    with http._clients_lock:
        if not (child := os.fork()):
            signal.alarm(30)  # ends a child that waits for ever
            http.close_with_loop(http.HttpClient("http://127.0.0.1:1", timeout_s=1, connect_timeout_s=1))
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


async def test_inside_a_running_event_loop(
    model: Judge, make_case: Callable[[int], Case], options: dict[str, Any]
) -> None:
    case = make_case(0)
    assert judge(RUBRIC, case, judge=model, options=NO_AUDIT).scored
    with Session("openai:test", options=options) as session:
        assert session.judge(RUBRIC, case).scored
        assert [verdict.case for verdict in session.judge_many(RUBRIC, [case])] == ["c0"]
    async with AsyncSession("openai:test", options=options) as mine:
        assert (await mine.judge(RUBRIC, case)).scored
    assert (await judge_async(RUBRIC, case, judge=model, options=NO_AUDIT)).scored
    await model.aclose()


def test_inside_trio(model: Judge, make_case: Callable[[int], Case], options: dict[str, Any]) -> None:
    case = make_case(0)

    async def main() -> list[Verdict]:
        with Session("openai:test", options=options) as session:
            in_thread = await trio.to_thread.run_sync(lambda: session.judge(RUBRIC, case))
            return [judge(RUBRIC, case, judge=model, options=NO_AUDIT), session.judge(RUBRIC, case), in_thread]

    assert [verdict.outcome for verdict in trio.run(main)] == ["scored"] * 3


def test_the_async_functions_need_asyncio_and_say_so(make_case: Callable[[int], Case]) -> None:
    async def main() -> None:
        await beholder.judge_async(RUBRIC, make_case(0))

    with pytest.raises(beholder.UsageError, match=r"need asyncio; .* such as trio, call a Session in a thread"):
        trio.run(main)
    with beholder.Session() as session:
        assert repr(session) == "<Session, without a ledger>"


def test_in_a_notebook(make_case: Callable[[int], Case], server: JudgeServer, tmp_path: Path) -> None:
    make_case(0)
    code = f"""
import beholder
options = {{"base_url": {server.openai_url!r}, "audit": False}}
inputs = {{"input": "before.png", "edited": "after0.png", "instruction": "make it red"}}
with beholder.Session("openai:test", ledger="a.db", options=options) as session:
    print(session.judge("edit-preservation", **inputs).outcome)
    print((await beholder.judge_async("edit-preservation", judge="openai:test", options=options, **inputs)).outcome)
beholder.judge("edit-preservation", judge="openai:test", options=options, **inputs)
"""
    printed, shown = run_in_notebook(code, tmp_path)
    assert printed["text"] == "scored\nscored\n"
    assert shown["data"]["text/plain"].startswith("<Verdict on 'after0-")
    assert "unchanged regions" in shown["data"]["text/html"].lower()


class BlockingJudge:
    """A judge that uses the session that asks it, on the session's own thread."""

    name = identity = "blocking"
    sizing = Sizing()
    session: Session

    async def answer(self, brief: Brief, **_: object) -> Answer:
        self.session.judge(RUBRIC, Case("other"))
        raise AssertionError

    async def aclose(self) -> None:
        raise AssertionError("a judge that was handed in is closed by its owner")


def test_a_session_that_would_wait_for_itself_says_so(make_case: Callable[[int], Case]) -> None:
    asked = BlockingJudge()
    with Session(asked, options=NO_AUDIT) as session:
        asked.session = session
        with pytest.raises(UsageError, match="AsyncSession"):
            session.judge(RUBRIC, make_case(0))


def test_a_judge_that_was_handed_in_is_not_closed(make_case: Callable[[int], Case]) -> None:
    class Owned(beholder.ScriptedJudge):
        async def aclose(self) -> None:
            raise AssertionError("a judge that was handed in is closed by its owner")

    owned = Owned("no JSON")
    case = make_case(0)
    with Session(owned, options=NO_AUDIT) as session:
        assert session.judge(RUBRIC, case).outcome == "invalid"
    assert judge(RUBRIC, case, judge=owned, options=NO_AUDIT).outcome == "invalid"
    assert asyncio.run(judge_async(RUBRIC, case, judge=owned, options=NO_AUDIT)).outcome == "invalid"


@pytest.mark.parametrize("several", [False, True])
async def test_images_are_encoded_beside_the_event_loop(several: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded_in: list[threading.Thread] = []
    image = np.zeros((24, 32, 3), np.uint8)

    def make_and_note(*arguments: Any) -> Case:
        encoded_in.append(threading.current_thread())
        return make_case_of_inputs(*arguments)

    monkeypatch.setattr("beholder.api.async_session.make_case", make_and_note)
    monkeypatch.setattr("beholder.api.session.make_case", make_and_note)
    inputs: dict[str, Any] = {"input": image, "edited": image, "instruction": "x"}
    async with AsyncSession() as mine:
        await (mine.judge_rubrics([RUBRIC], **inputs) if several else mine.judge(RUBRIC, **inputs))
    assert encoded_in.pop() is not threading.current_thread()
    with Session() as session:
        session.judge_rubrics([RUBRIC], **inputs) if several else session.judge(RUBRIC, **inputs)
    assert encoded_in == [threading.current_thread()]


def test_every_wait_is_one_that_ctrl_c_ends_on_windows(
    make_case: Callable[[int], Case], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts: list[float | None] = []

    def wait_and_note(futures: Any, timeout: float | None = None, return_when: str = ALL_COMPLETED) -> Any:
        timeouts.append(timeout)
        return wait(futures, timeout, return_when)

    monkeypatch.setattr("beholder.api.loop.POLL_S", 0.01)
    monkeypatch.setattr("beholder.api.loop.wait", wait_and_note)
    cases = [make_case(number) for number in range(3)]
    for ordered in (True, False):
        timeouts.clear()
        with Session("openai:test", options=options) as session:
            assert len(list(session.judge_many(RUBRIC, cases, ordered=ordered))) == 3
        assert set(timeouts) == {0.01}
    timeouts.clear()
    assert judge(RUBRIC, cases[0], judge="openai:test", options=options).scored
    assert set(timeouts) == {0.01}


def test_a_judge_that_was_closed_on_another_loop_leaves_no_connection_open(
    make_case: Callable[[int], Case], run_script: Callable[[str], Any]
) -> None:
    make_case(0)
    process = run_script("""
import asyncio, os
import beholder
mine = beholder.judge_from("openai:test", base_url=os.environ["URL"])
inputs = {"input": "before.png", "edited": "after0.png", "instruction": "make it red"}
print(beholder.judge("edit-preservation", judge=mine, **inputs).outcome)
asyncio.run(mine.aclose())
""")
    assert process.communicate(timeout=120) == ("scored\n", "")
