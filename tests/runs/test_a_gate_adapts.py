"""How many requests are under way follows what the server can bear, and never exceeds what the user allowed."""

from __future__ import annotations

import asyncio

import pytest

from beholder.runs.limits import AdaptiveLimiter, LeakyBucket


async def test_no_more_than_allowed_are_under_way() -> None:
    gate = AdaptiveLimiter(3)
    most = 0

    async def request() -> None:
        nonlocal most
        await gate.acquire(1)
        most = max(most, gate.in_flight)
        await asyncio.sleep(0)
        gate.release(0.1)

    await asyncio.gather(*(request() for _ in range(50)))
    assert most == 3
    assert gate.in_flight == 0


async def test_a_push_back_lowers_the_limit_once_for_all_that_were_under_way() -> None:
    gate = AdaptiveLimiter(10)
    for _ in range(10):
        await gate.acquire(1)
    for _ in range(10):
        gate.release(None)
    assert gate.limit == pytest.approx(6.0)


async def test_push_backs_that_go_on_lead_to_one_at_a_time_and_never_to_none() -> None:
    gate = AdaptiveLimiter(64)
    for _ in range(200):
        await gate.acquire(1)
        gate.release(None)
    assert gate.limit == 1.0


async def test_answers_raise_the_limit_again_up_to_what_was_allowed() -> None:
    gate = AdaptiveLimiter(8)
    await gate.acquire(1)
    gate.release(None)
    lowered = gate.limit
    for _ in range(200):
        await gate.acquire(1)
        gate.release(0.1)
    assert lowered < 8
    assert gate.limit == 8.0


async def test_a_server_that_slows_down_gets_fewer() -> None:
    gate = AdaptiveLimiter(32)
    for latency in [1.0] * 50 + [10.0] * 10:
        await gate.acquire(1)
        gate.release(latency)
    assert gate.limit < 32


async def test_quick_answers_that_become_less_quick_change_nothing() -> None:
    gate = AdaptiveLimiter(32)
    for latency in [0.01] + [1.0] * 200:
        await gate.acquire(1)
        gate.release(latency)
    assert gate.limit == 32


async def test_who_gives_up_waiting_takes_no_place() -> None:
    gate = AdaptiveLimiter(1)
    await gate.acquire(1)
    waiting = asyncio.create_task(gate.acquire(1))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.release(0.1)
    assert gate.in_flight == 0
    await asyncio.wait_for(gate.acquire(1), 1)


class Clock:
    """A loop's time that passes only by sleeping."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


async def test_requests_and_tokens_per_minute_are_kept_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    gate = AdaptiveLimiter(100, requests_per_minute=60, tokens_per_minute=6_000, sleep=clock.sleep)
    for _ in range(3):
        await gate.acquire(500)  # five seconds' worth of tokens, one second's of requests
    assert clock.now == pytest.approx(110.0)


async def test_a_process_keeps_to_its_part_of_a_pace_and_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    gate = AdaptiveLimiter(100, requests_per_minute=60, sleep=clock.sleep)
    gate.set_share(0.25)
    for _ in range(3):
        await gate.acquire(1)
    assert clock.now == pytest.approx(108.0)
    gate.set_share(0)
    waiting = asyncio.create_task(gate.acquire(1))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    gate.set_share(1)
    await waiting


async def test_a_pace_does_not_save_up_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    pace = LeakyBucket(60, clock.sleep)
    await pace.acquire(1)
    clock.now += 100
    for _ in range(3):
        await pace.acquire(1)
    assert clock.slept == pytest.approx([1.0, 1.0])


async def test_who_gives_up_waiting_for_its_turn_has_booked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    released = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await released.wait()
        clock.now += seconds

    pace = LeakyBucket(60, sleep)
    await pace.acquire(1)
    waiting = [asyncio.create_task(pace.acquire(1)) for _ in range(50)]
    await asyncio.sleep(0)
    for one in waiting[:49]:
        one.cancel()
    await asyncio.gather(*waiting[:49], return_exceptions=True)
    released.set()
    await waiting[49]
    assert clock.now == pytest.approx(101.0)
