"""Several base URLs are one judge: the least loaded server is asked, a failing one is left alone, nothing is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from support.judges import KEY, MODELS, PROTOCOLS, WIRES, base_url, brief
from support.loopback import tls_front

from beholder.errors import SetupError, Unreachable
from beholder.judges.factory import judge_from, judge_identity, uses_custom_base_url
from beholder.judges.model import ModelJudge
from beholder.providers.base import JudgeSettings
from beholder.providers.load_balancer import FIRST_PAUSE_S, MAX_PAUSE_S
from beholder.rubrics.brief import TextBlock
from beholder.testing.base import Fault, Received, ReplyContent
from beholder.testing.server import JudgeServer

NOBODY = "http://127.0.0.1:9/v1"


@dataclass
class Time:
    """A clock that only sleeping moves."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now


@pytest.fixture
def three() -> Iterator[list[JudgeServer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(JudgeServer(keyless=True)) for _ in range(3)]


@asynccontextmanager
async def judging(
    urls: Sequence[str], time: Time | None = None, protocol: str = "openai", **given: object
) -> AsyncIterator[ModelJudge]:
    time = time or Time()
    settings = JudgeSettings(base_urls=urls, sleep=time.sleep, clock=time.clock, random=lambda: 0.5, **given)  # type: ignore[arg-type]
    key = None if protocol == "openai" else KEY
    async with aclosing(ModelJudge(WIRES[protocol], MODELS[protocol], settings, key=key)) as judge:
        yield judge


def urls(servers: Sequence[JudgeServer], protocol: str = "openai") -> list[str]:
    return [base_url(server, protocol) for server in servers]


def counts(servers: Sequence[JudgeServer]) -> list[int]:
    return [len(server.received) for server in servers]


async def test_servers_without_load_take_turns(three: list[JudgeServer]) -> None:
    async with judging(urls(three)) as judge:
        for _ in range(6):
            await judge.answer(brief())
    assert counts(three) == [2, 2, 2]


async def test_a_slow_server_gets_no_more_than_it_can_do(three: list[JudgeServer]) -> None:
    """It holds one request until the others have answered all the rest."""
    enough = threading.Event()
    answered = 0

    def quick(_: Received) -> ReplyContent:
        nonlocal answered
        answered += 1
        if answered == 11:
            enough.set()
        return "{}"

    def slow(_: Received) -> ReplyContent:
        assert enough.wait(60)
        return "{}"

    three[0].default = three[1].default = quick
    three[2].default = slow
    room = asyncio.Semaphore(3)

    async with judging(urls(three)) as judge:

        async def one() -> int:
            async with room:
                return (await judge.answer(brief())).attempts

        assert await asyncio.gather(*(one() for _ in range(12))) == [1] * 12
    assert len(three[2].received) == 1
    assert sum(counts(three)) == 12


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_what_failed_at_one_server_goes_to_another_at_once(protocol: str, three: list[JudgeServer]) -> None:
    three[0].default = Fault.status(503)
    time = Time()
    async with judging(urls(three, protocol), time, protocol) as judge:
        attempts = [(await judge.answer(brief())).attempts for _ in range(7)]
    assert attempts == [2, 1, 1, 1, 1, 1, 1]
    assert len(three[0].received) == 1
    assert time.slept == []


@pytest.mark.parametrize("fault", [Fault.status(500), Fault.drop(), Fault.cut(), Fault.html(), Fault.hang()])
async def test_every_way_of_failing_sets_a_server_aside(fault: Fault, three: list[JudgeServer]) -> None:
    three[0].default = fault
    async with judging(urls(three), timeout_s=3.0 if fault == Fault.hang() else 60.0) as judge:
        assert [(await judge.answer(brief())).attempts for _ in range(4)] == [2, 1, 1, 1]
    assert len(three[0].received) == 1


async def test_pauses_grow_and_end_with_the_first_answer(three: list[JudgeServer]) -> None:
    failing = three[0]
    failing.default = Fault.status(500)
    time, asked_at = Time(), []
    async with judging(urls(three), time) as judge:
        while time.now < 200:
            before = len(failing.received)
            await judge.answer(brief())
            if len(failing.received) > before:
                asked_at.append(time.now)
            time.now += 0.5
        pauses = [after - before for before, after in pairwise(asked_at)]
        assert pauses[:7] == [1, 2, 4, 8, 16, 32, 60]
        assert max(pauses) == MAX_PAUSE_S
        failing.default = "{}"
        time.now += MAX_PAUSE_S
        for _ in range(6):
            await judge.answer(brief())
        failing.say(Fault.status(500))  # once well again, it begins with a short pause
        for _ in range(3):
            await judge.answer(brief())
        time.now += FIRST_PAUSE_S
        before = len(failing.received)
        for _ in range(3):
            await judge.answer(brief())
        assert len(failing.received) == before + 1


async def test_after_a_pause_one_request_tries_a_server_for_all(three: list[JudgeServer]) -> None:
    three[0].default = Fault.status(500)
    time = Time()
    async with judging(urls(three), time) as judge:
        await judge.answer(brief())
        time.now += FIRST_PAUSE_S
        answers = await asyncio.gather(*(judge.answer(brief()) for _ in range(9)))
    assert sorted(answer.attempts for answer in answers) == [1] * 8 + [2]
    assert len(three[0].received) == 2


async def test_a_server_that_is_gone_is_looked_for_and_costs_no_request() -> None:
    time = Time()
    with JudgeServer(keyless=True) as well, ExitStack() as life:
        leaving = life.enter_context(JudgeServer(keyless=True))
        async with judging(urls([well, leaving]), time) as judge:
            assert [(await judge.answer(brief())).attempts for _ in range(2)] == [1, 1]
            await asyncio.to_thread(life.close)
            assert [(await judge.answer(brief())).attempts for _ in range(4)] == [1, 2, 1, 1]
            for _ in range(5):
                time.now += MAX_PAUSE_S
                assert (await judge.answer(brief())).attempts == 1
    assert time.slept == []


async def test_requests_that_fail_together_are_one_failure() -> None:
    time = Time()
    with JudgeServer(keyless=True) as well, JudgeServer(keyless=True) as shaken:
        async with judging(urls([shaken, well]), time) as judge:
            for _ in range(2):  # both answer, and requests go out together from then on
                await judge.answer(brief())
            shaken.say(*[Fault.drop()] * 4)
            answers = await asyncio.gather(*(judge.answer(brief()) for _ in range(8)))
            assert sorted(answer.attempts for answer in answers) == [1, 1, 1, 1, 2, 2, 2, 2]
            time.now += FIRST_PAUSE_S
            await judge.answer(brief())
            assert len(shaken.received) == 6


async def test_too_many_requests_is_slow_and_not_dead(three: list[JudgeServer]) -> None:
    three[0].say(Fault.status(429, retry_after=20))
    time = Time()
    async with judging(urls(three), time) as judge:
        attempts = [(await judge.answer(brief())).attempts for _ in range(5)]
        assert attempts == [2, 1, 1, 1, 1]
        assert counts(three) == [1, 3, 2]
        time.now += 20
        await asyncio.gather(*(judge.answer(brief()) for _ in range(6)))
    assert counts(three) == [3, 5, 4]  # two at once: it is not on trial
    assert time.slept == []


async def test_a_long_rest_of_one_is_waited_for_by_nobody(three: list[JudgeServer]) -> None:
    three[0].say(Fault.status(429, retry_after=3600))
    time = Time()
    async with judging(urls(three), time) as judge:
        assert (await judge.answer(brief())).attempts == 2
    assert time.slept == []


async def test_all_down_is_waited_for_as_usual_and_then_unreachable(three: list[JudgeServer]) -> None:
    for server in three:
        server.default = Fault.status(503, "starting")
    time = Time()
    async with judging(urls(three), time) as judge:
        with pytest.raises(Unreachable) as error:
            await judge.answer(brief())
    assert str(error.value).endswith("answered 503: starting. Base URLs tried: 3 of 3. Tried 6 times.")
    assert any(url in str(error.value) for url in urls(three))
    assert error.value.attempts == 6 == sum(counts(three))
    assert len(time.slept) < 5


async def test_nobody_there_at_all_is_said_with_the_number_of_servers() -> None:
    async with judging([NOBODY, "http://127.0.0.1:10/v1"]) as judge:
        with pytest.raises(Unreachable, match=r"Cannot connect to .* Base URLs tried: 2 of 2\. Tried 6 times\."):
            await judge.answer(brief())


async def test_an_outage_may_last(three: list[JudgeServer]) -> None:
    """No pause grows past all numbers, however often nobody answers."""
    three[0].default = three[1].default = Fault.status(503)
    async with judging(urls(three[:2]), retries=0) as judge:
        for _ in range(2100):
            with pytest.raises(Unreachable):
                await judge.answer(brief(TextBlock("?")))
    assert min(counts(three[:2])) > 1024


async def test_who_comes_back_while_all_are_down_is_found(three: list[JudgeServer]) -> None:
    for server in three:
        server.say(Fault.status(503), Fault.status(503))
    async with judging(urls(three)) as judge:
        answers = await asyncio.gather(*(judge.answer(brief()) for _ in range(6)))
    assert sum(answer.attempts for answer in answers) == 6 + 6


async def test_a_request_that_no_server_stands_harms_no_other(three: list[JudgeServer]) -> None:
    def reply(heard: Received) -> ReplyContent:
        return Fault.status(500) if "poison" in heard.texts[-1] else "{}"

    for server in three:
        server.default = reply
    async with judging(urls(three), retries=2) as judge:
        with pytest.raises(Unreachable):
            await judge.answer(brief(TextBlock("poison")))
        assert [(await judge.answer(brief(TextBlock("good")))).attempts for _ in range(6)] == [1] * 6


async def test_a_server_that_cannot_be_trusted_is_set_aside(server: JudgeServer) -> None:
    server.keyless = True
    async with tls_front(int(server.url.rpartition(":")[2])) as front:
        stranger = f"https://127.0.0.1:{front.port}/openai/v1"
        async with judging([stranger, server.openai_url]) as judge:
            assert [(await judge.answer(brief())).attempts for _ in range(3)] == [2, 1, 1]
        async with judging([stranger, stranger.replace("127.0.0.1", "localhost")], retries=1) as judge:
            with pytest.raises(Unreachable, match=r"not trusted .* Base URLs tried: 2 of 2"):
                await judge.answer(brief())


async def test_a_wrong_server_is_named(three: list[JudgeServer]) -> None:
    three[1].default = Fault.unknown_model()
    async with judging(urls(three)) as judge:
        await judge.answer(brief())
        with pytest.raises(SetupError, match=f"There is no model 'gpt-5-mini' at {three[1].openai_url}"):
            await judge.answer(brief())


async def test_the_body_is_the_same_at_every_server(three: list[JudgeServer]) -> None:
    async with judging(urls(three)) as judge:
        for _ in range(3):
            await judge.answer(brief())
    bodies = [server.received[0].body for server in three]
    assert bodies[0] == bodies[1] == bodies[2]


def judge_at(*base_urls: str, **given: object) -> str:
    return judge_from("openai:qwen3-vl", base_urls=base_urls, **given).identity  # type: ignore[arg-type]


def test_who_adds_a_server_keeps_all_answers() -> None:
    a, b, c = (f"http://{name}:8000/v1" for name in "abc")
    assert judge_at(a, b) == judge_at(b, a) == judge_at(a, b, c) == judge_at(c)
    assert judge_at(a, b) == judge_identity("openai:qwen3-vl", None, {}, [c])
    assert judge_at(a, b) != judge_at(a, b, params={"temperature": 0})
    assert judge_at(a, b) != judge_from("openai:qwen3-vl", base_url=a).identity
    assert judge_from("openai:qwen3-vl", base_url=a).identity == judge_identity("openai:qwen3-vl", a, {})
    assert uses_custom_base_url("openai:qwen3-vl", None, [a])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: judge_at("http://a/v1", "http://a/v1/"), "http://a/v1 stands there twice"),
        (lambda: judge_at("http://a/v1", "nonsense"), "'nonsense' is no base URL"),
        (lambda: judge_at("http://a/v1", "https://api.openai.com/v1"), "is openai's own address"),
        (lambda: judge_at("http://a/v1", base_url="http://b/v1"), "are both given; keep one"),
        (lambda: judge_from("ollama:m", base_urls=["http://a/v1"]), "ollama takes one base URL"),
    ],
)
def test_base_urls_that_cannot_be_are_told_at_once(make: Callable[[], object], said: str) -> None:
    with pytest.raises(SetupError, match=said):
        make()
