"""The parts of the Ray engine that need no Ray: the office, the shares, the attempts, and the rooms of a worker."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.cases.case import Case
from beholder.errors import OverBudget, SetupError
from beholder.ledger.ledger import Ledger
from beholder.runs.engine import RunSettings
from beholder.runs.ledger_access import CallCoalescer
from beholder.runs.limits import Budget
from beholder.runs.ray import coordinator
from beholder.runs.ray.cluster import Cluster
from beholder.runs.ray.coordinator import (
    WORKER_TIMEOUT_S,
    AttemptTracker,
    CaseMessage,
    Coordinator,
    CoordinatorSettings,
    ProcessIdentity,
    ShareAllocator,
    StartDecision,
    TaskChunk,
    WorkerSetup,
    make_picklable,
)
from beholder.runs.ray.driver import RayPipeline, plan_workers, try_reserve
from beholder.runs.ray.worker import RemoteBudget, ResizableSemaphore, SharedExclusiveLock, WorkerRuntime
from beholder.runs.suite import Suite, load_suite
from beholder.testing.base import Fault, Received, ReplyContent
from beholder.testing.server import JudgeServer
from beholder.verdicts.verdict import Outcome

PROCESS = ProcessIdentity("head", 1, 0.0)
PATIENCE_S = 120


async def opened(
    tmp_path: Path, *, slots: int = 8, most: int = 8, deaths: int = 9, lease_s: float = 60.0
) -> Coordinator:
    place = str(tmp_path / "ledger.db")
    Ledger.open(place, create=True).close()
    office = Coordinator(live_nodes=lambda: {"head"})
    await office.open(CoordinatorSettings(place, True, slots, most, deaths, lease_s, {"OPENAI_API_KEY": "sk-test"}))
    return office


class Handle:
    """An office as workers and the driver have it: what they ask is done later, and elsewhere."""

    def __init__(self, office: Coordinator) -> None:
        self._office = office

    def __getattr__(self, name: str) -> SimpleNamespace:
        call = getattr(self._office, name)
        return SimpleNamespace(remote=lambda *args, **kwargs: asyncio.ensure_future(call(*args, **kwargs)))


def budgeted(folder: Path, server: JudgeServer) -> Suite:
    path = folder / "suite.yaml"
    path.write_text(
        "rubric: edit-preservation\ncases: cases.jsonl\nbudget: 0.15\njudges:\n"
        f"- {{judge: openai:test, base_url: '{server.openai_url}', price: {{input: 0, output: 10}},\n"
        "   params: {max_completion_tokens: 10000}}\n",
        "utf-8",
    )
    return load_suite(path)


def recipe(suite: Suite, folder: Path) -> WorkerSetup:
    work = RunSettings("run", suite.composers(), use_cache=False, thumbnails=False, audit=False)
    return WorkerSetup(work, suite, str(folder))


async def leave(bench: WorkerRuntime) -> None:
    """Closes what goes with the process otherwise."""
    bench.images.close()
    for judge in bench.judges:
        await judge.aclose()


def jobs(*numbers: int) -> list[CaseMessage]:
    return [CaseMessage(number, number, make_picklable(Case(f"c{number}")), 0) for number in numbers]


async def idle(task: asyncio.Task[object]) -> bool:
    """Whether a task still waits when everyone else had a turn."""
    for _ in range(20):
        await asyncio.sleep(0)
    return not task.done()


@given(
    st.integers(1, 40), st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 12), st.booleans()), max_size=40)
)
def test_shares_never_come_to_more_than_the_whole(slots: int, events: list[tuple[str, int, bool]]) -> None:
    shares = ShareAllocator(slots)
    has: dict[str, tuple[int, float]] = {}
    under_way: dict[str, int] = {}
    for worker, wish, leaves in events:
        if leaves:
            shares.remove(worker)
            has.pop(worker, None)
            under_way.pop(worker, None)
            continue
        shares.touch(worker, 0.0)
        under_way[worker] = min(wish, max(has.get(worker, (0, 0.0))[0], under_way.get(worker, 0)))
        allowed, part, _ = shares.allocate(worker, under_way[worker])
        has[worker] = (allowed, part)
        assert sum(max(has[name][0], under_way[name]) for name in has) <= slots
        assert sum(part for _, part in has.values()) <= 1 + 1e-9


@given(st.integers(1, 40), st.integers(1, 9))
def test_in_the_end_all_is_shared_out_evenly(slots: int, workers: int) -> None:
    shares = ShareAllocator(slots)
    names = [f"w{number}" for number in range(workers)]
    for name in names:
        shares.touch(name, 0.0)
        shares.allocate(name, 0)
    found = [[shares.allocate(name, 0) for name in names] for _ in range(3)][-1]
    assert sum(allowed for allowed, _, _ in found) == slots
    assert max(allowed for allowed, _, _ in found) - min(allowed for allowed, _, _ in found) <= 1
    assert sum(part for _, part, _ in found) == pytest.approx(1)
    assert all(settled for _, _, settled in found)


def test_the_share_of_a_worker_that_is_not_heard_of_goes_to_the_others() -> None:
    shares = ShareAllocator(4)
    shares.touch("a", 0.0)
    shares.touch("b", WORKER_TIMEOUT_S)
    assert shares.list_dead(WORKER_TIMEOUT_S + 1) == ["a"]
    shares.remove("a")
    assert shares.allocate("b", 0) == (4, 1.0, True)


def test_a_case_whose_process_died_is_begun_again_alone_and_three_times_at_most() -> None:
    attempts = AttemptTracker(live_nodes=lambda: {"head"})
    for worker in "abcd":
        attempts.register_worker(worker, "head")
    assert attempts.start("a", 1, False) is StartDecision.GO
    assert attempts.start("b", 1, False) is StartDecision.ALONE
    assert attempts.start("b", 1, True) is StartDecision.GO
    assert attempts.start("c", 1, True) is StartDecision.GO
    assert attempts.start("d", 1, True) is StartDecision.GIVEN_UP


def test_a_case_whose_node_died_is_not_to_blame_the_first_time() -> None:
    attempts = AttemptTracker(live_nodes=lambda: {"head"})
    for worker, node in (("a", "gone"), ("b", "gone"), ("c", "gone"), ("d", "head")):
        attempts.register_worker(worker, node)
    assert attempts.start("a", 1, False) is StartDecision.GO
    assert attempts.start("b", 1, False) is StartDecision.GO
    assert attempts.start("c", 1, False) is StartDecision.ALONE
    assert attempts.start("c", 1, True) is StartDecision.GO
    assert attempts.start("d", 1, True) is StartDecision.GIVEN_UP


async def test_no_more_cases_are_on_their_way_than_may_be(tmp_path: Path) -> None:
    office = await opened(tmp_path, most=4)
    assert await office.add_chunk(jobs(0, 1, 2, 3))
    following: asyncio.Task[object] = asyncio.create_task(office.add_chunk(jobs(4)))
    assert await idle(following)
    await office.finish_cases([(0, b"v0")])
    assert await idle(following)  # it is not in the ledger yet
    assert await office.collect(0) == ([b"v0"], None)
    collecting = asyncio.create_task(office.collect(1))
    assert await following
    await office.finish()
    assert await collecting is None


async def test_a_verdict_that_was_fetched_but_not_written_is_fetched_again(tmp_path: Path) -> None:
    office = await opened(tmp_path)
    await office.add_chunk(jobs(0, 1))
    await office.finish_cases([(0, b"v0"), (1, b"v1"), (1, b"once more")])
    assert await office.collect(0) == ([b"v0", b"v1"], None)
    assert await office.collect(1) == ([b"v1"], None)


async def test_a_chunk_is_handed_out_again_until_it_is_done(tmp_path: Path) -> None:
    office = await opened(tmp_path)
    await office.add_chunk(jobs(0, 1))
    body = await office.chunk(0)
    assert body is not None
    assert body == await office.chunk(0)
    assert await office.start_cases("a", [(0, False), (1, False)]) == [StartDecision.GO, StartDecision.GO]
    await office.finish_cases([(0, b"v0")])
    assert await office.start_cases("b", [(0, False)]) == [StartDecision.DONE]
    await office.finish_cases([(1, b"v1")])
    done: TaskChunk = pickle.loads(await office.chunk(0) or b"")
    assert done.tasks == ()
    await office.close_input()
    assert await office.chunk(1) is None
    assert not await office.is_more(1)


async def test_once_halted_nothing_is_begun(tmp_path: Path) -> None:
    office = await opened(tmp_path)
    await office.add_chunk(jobs(0, 1))
    await office.stop()
    assert await office.start_cases("a", [(0, False)]) == [StartDecision.STOPPED]
    assert not await office.add_chunk(jobs(2))
    assert not await office.is_more(0)
    share = await office.share("a", 0, -1)
    assert share.stopped
    assert not share.canceled


async def test_what_a_worker_could_not_go_on_with_comes_after_what_was_ready(tmp_path: Path) -> None:
    office = await opened(tmp_path)
    await office.add_chunk(jobs(0, 1))
    await office.finish_cases([(0, b"v0")])
    await office.fail(b"why")
    assert await office.collect(0) == ([b"v0"], None)
    assert await office.collect(1) == ([], b"why")


async def test_workers_that_die_one_after_the_other_end_the_run(tmp_path: Path) -> None:
    office = await opened(tmp_path, deaths=3)
    for worker in "abc":
        assert await office.register_worker(worker, worker, PROCESS) == {"OPENAI_API_KEY": "sk-test"}
    await office.register_worker("d", "d", PROCESS)
    bodies, failure = await office.collect(0) or ([], None)
    assert bodies == []
    assert "3 workers died in a row" in str(pickle.loads(failure or b""))


async def test_money_comes_from_the_driver(tmp_path: Path) -> None:
    office = await opened(tmp_path)
    asking = asyncio.create_task(office.request_funds([Decimal("0.5"), Decimal(2)]))
    await office.finish_cases([], returned_usd=Decimal("0.1"))
    wishes, back = await office.read_fund_requests()
    assert list(wishes.values()) == [Decimal("0.5"), Decimal(2)]
    assert back == Decimal("0.1")
    await office.answer_fund_requests(dict(zip(wishes, ["", "too much"], strict=True)))
    assert await asking == ["", "too much"]
    following = asyncio.create_task(office.request_funds([Decimal(1)], returned_usd=Decimal("0.2")))
    assert (await office.read_fund_requests())[1] == Decimal("0.2")  # what was given back is given back once
    following.cancel()


@given(st.integers(0, 30), st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), max_size=30))
def test_money_is_neither_lost_nor_spent_twice(limit: int, calls: list[tuple[int, int]]) -> None:
    """Of a budget, asked for by several workers at once: each call may cost the first amount and comes to at most so
    much."""
    budget = Budget(Decimal(limit))
    refused: list[int] = []

    async def ask(amounts: Sequence[Decimal], back: Decimal) -> list[str]:
        budget.settle(back, Decimal(0))
        return [await try_reserve(budget, amount) for amount in amounts]

    async def call(purse: RemoteBudget, most: int, cost: int) -> None:
        try:
            await purse.reserve(Decimal(most))
        except OverBudget:
            refused.append(most)
            return
        assert budget.reserved <= limit
        await asyncio.sleep(0)
        purse.settle(Decimal(most), Decimal(min(most, cost)))

    async def spend() -> None:
        purses = [RemoteBudget(Decimal(limit), ask) for _ in range(3)]
        await asyncio.gather(*(call(purses[n % 3], *one) for n, one in enumerate(calls)))
        for purse in purses:
            await ask([], purse.take_unused())
        assert sum(purse.spent for purse in purses) == budget.reserved <= limit

    asyncio.run(spend())
    assert refused == [] or sum(most for most, _ in calls) > limit


async def test_what_a_call_did_not_come_to_is_there_for_the_other_workers(
    tmp_path: Path, server: JudgeServer, cases: Callable[[int], Path]
) -> None:
    """Calls may cost 0.10 each and cost a hundredth of that; 0.15 is enough for one at a time, by whichever worker."""
    cases(12)
    suite = budgeted(tmp_path, server)
    office = await opened(tmp_path, slots=2, most=12)
    driver: Any = Handle(office)  # in place of Ray's handle of an actor
    budget = Budget(Decimal("0.15"))
    paying = asyncio.create_task(
        RayPipeline(driver, plan_workers(2, 12, Cluster("here", 2, 2)), lambda: None).serve_fund_requests(budget)
    )
    benches = [WorkerRuntime(name, driver, recipe(suite, tmp_path)) for name in "ab"]
    living = [asyncio.create_task(bench.follow_share()) for bench in benches]
    parcels = [
        CaseMessage(number, number, make_picklable(row.case), 0) for number, row in enumerate(suite.rows()) if row.case
    ]
    await office.add_chunk(parcels)
    for parcel in parcels:
        await benches[parcel.number % 2].judge(TaskChunk(0, (parcel,)))
    for task in (paying, *living):
        task.cancel()
    for bench in benches:
        await leave(bench)
    bodies, _ = await office.collect(0) or ([], None)
    entries = [pickle.loads(body) for body in bodies]
    assert [entry.verdict.outcome for entry in entries] == [Outcome.SCORED] * 12
    assert 0 < sum(entry.spent_usd for entry in entries) <= budget.reserved <= Decimal("0.15")


async def test_a_judge_that_can_never_answer_costs_the_other_cases_of_its_chunk_no_answer(
    tmp_path: Path, server: JudgeServer, cases: Callable[[int], Path], good_answer: Callable[[], dict[str, Any]]
) -> None:
    """The first request is refused for good while the second is in progress; the third case is not begun any more."""
    cases(3)
    go_on = threading.Event()

    def reply(_: Received) -> ReplyContent:
        if len(server.received) == 1:
            return Fault.unknown_model()
        go_on.wait(PATIENCE_S)
        return good_answer()

    server.default = reply
    path = tmp_path / "suite.yaml"
    path.write_text(
        "rubric: edit-preservation\ncases: cases.jsonl\njudges:\n"
        f"- {{judge: openai:test, base_url: '{server.openai_url}'}}\n",
        "utf-8",
    )
    suite = load_suite(path)
    office = await opened(tmp_path, slots=2)
    driver: Any = Handle(office)
    bench = WorkerRuntime("a", driver, recipe(suite, tmp_path))
    living = asyncio.create_task(bench.follow_share())
    parcels = [
        CaseMessage(number, number, make_picklable(row.case), 0) for number, row in enumerate(suite.rows()) if row.case
    ]
    await office.add_chunk(parcels)
    others = asyncio.all_tasks()
    judging = asyncio.create_task(bench.judge(TaskChunk(0, tuple(parcels))))
    assert await idle(judging)
    begun = [task for task in asyncio.all_tasks() - others if "_judge_task" in repr(task.get_coro())]
    assert len(begun) == 3
    await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
    await idle(judging)
    go_on.set()
    with pytest.raises(SetupError, match="There is no model 'test'"):
        await judging
    living.cancel()
    await leave(bench)
    await office.finish()
    bodies, _ = await office.collect(0) or ([], None)
    assert [pickle.loads(body).verdict.outcome for body in bodies] == [Outcome.SCORED]
    assert len(server.received) == 2


async def test_a_worker_that_cannot_keep_to_its_share_ends_the_run(
    tmp_path: Path, server: JudgeServer, cases: Callable[[int], Path]
) -> None:
    cases(1)
    office = await opened(tmp_path)

    async def share(*_: object) -> None:
        raise RuntimeError("no share today")

    office.share = share  # type: ignore[method-assign,assignment]
    driver: Any = Handle(office)
    bench = WorkerRuntime("a", driver, recipe(budgeted(tmp_path, server), tmp_path))
    await bench.follow_share()
    await leave(bench)
    bodies, failure = await office.collect(0) or ([], None)
    assert bodies == []
    assert str(pickle.loads(failure or b"")) == "no share today"


def test_what_is_secret_is_not_shown() -> None:
    shown = repr(
        CoordinatorSettings("postgresql://me:open-sesame@host/db", True, 1, 1, 1, 60.0, {"OPENAI_API_KEY": "sk-test"})
    )
    assert "open-sesame" not in shown
    assert "sk-test" not in shown


async def test_a_worker_hears_at_once_that_another_came(tmp_path: Path) -> None:
    office = await opened(tmp_path, slots=8)
    await office.register_worker("a", "a", PROCESS)
    share = await office.share("a", 0, -1)
    assert (share.slots, share.part) == (8, 1.0)
    waiting = asyncio.create_task(office.share("a", 6, share.version))
    await office.register_worker("b", "b", PROCESS)
    share = await waiting
    assert (share.slots, share.part) == (4, 0.5)
    assert share.version == -1  # it has more under way than it should
    assert (await office.share("b", 0, -1)).slots == 2


async def test_a_worker_that_is_started_again_has_the_share_of_the_dead_one_at_once(tmp_path: Path) -> None:
    office = await opened(tmp_path, slots=8)
    await office.register_worker("dead", "actor", PROCESS)
    await office.share("dead", 8, -1)
    await office.register_worker("alive", "actor", PROCESS)
    assert (await office.share("alive", 0, -1)).slots == 8


@pytest.mark.parametrize("lease_s", [0.0, 600.0])
async def test_a_worker_that_does_not_call_is_to_be_ended_once_and_one_that_was_replaced_is_not(
    lease_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "WORKER_TIMEOUT_S", 0.0)
    office = await opened(tmp_path, lease_s=lease_s)
    await office.register_worker("replaced", "actor", ProcessIdentity("head", 1, 0.0))
    await office.register_worker("silent", "actor", ProcessIdentity("head", 2, 0.0))
    await asyncio.sleep(0.001)
    if lease_s:
        assert await office.take_silent_workers() == []
        await office.stop()
    assert await office.take_silent_workers() == [ProcessIdentity("head", 2, 0.0)]
    assert await office.take_silent_workers() == []


@given(st.integers(0, 6), st.lists(st.one_of(st.sampled_from(["in", "out"]), st.integers(0, 6)), max_size=40))
def test_slots_follow_their_size(size: int, events: list[int | str]) -> None:
    async def follow() -> None:
        slots = ResizableSemaphore(size)
        for event in events:
            if event == "in" and not slots.locked():
                await slots.acquire()
                assert slots.acquired <= slots.size
            elif event == "out" and slots.acquired:
                slots.release()
            elif isinstance(event, int):
                slots.resize(event)
        free = 0
        while not slots.locked():
            await slots.acquire()
            free += 1
        assert slots.acquired == max(slots.size, slots.acquired)
        assert free == 0 or slots.acquired == slots.size

    asyncio.run(follow())


async def test_who_is_alone_is_alone() -> None:
    room = SharedExclusiveLock()
    inside: list[str] = []
    go_on = asyncio.Event()

    async def together(name: str) -> None:
        async with room.shared():
            inside.append(name)
            await go_on.wait()
            inside.remove(name)

    async def alone() -> None:
        async with room.exclusive():
            assert inside == []
            inside.append("alone")
            await asyncio.sleep(0)
            assert inside == ["alone"]
            inside.remove("alone")

    tasks = [asyncio.create_task(together("a")), asyncio.create_task(together("b"))]
    await idle(tasks[0])
    assert inside == ["a", "b"]
    single = asyncio.create_task(alone())
    await idle(single)
    later = asyncio.create_task(together("c"))
    assert await idle(later)
    assert inside == ["a", "b"]  # who came after does not go before
    go_on.set()
    await asyncio.gather(*tasks, single, later)


async def test_questions_of_many_are_asked_as_one() -> None:
    asked: list[Sequence[int]] = []

    async def send(numbers: Sequence[int]) -> list[int]:
        asked.append(numbers)
        return [2 * number for number in numbers]

    together: CallCoalescer[int, int] = CallCoalescer(send)
    assert await asyncio.gather(*(together.call(number) for number in range(5))) == [0, 2, 4, 6, 8]
    assert await together.call(9) == 18
    assert asked == [[0, 1, 2, 3, 4], [9]]


@given(st.integers(1, 4096), st.integers(1, 10**9), st.integers(1, 500), st.integers(1, 64))
def test_a_plan_has_work_for_everyone(concurrency: int, count: int, nodes: int, each: int) -> None:
    plan = plan_workers(concurrency, count, Cluster("here", nodes, nodes * each))
    assert 1 <= plan.workers <= min(concurrency, nodes * each)
    assert plan.workers * plan.chunks_per_worker * plan.chunk_size >= concurrency
    assert plan.max_cases >= plan.workers * plan.chunks_per_worker * plan.chunk_size
