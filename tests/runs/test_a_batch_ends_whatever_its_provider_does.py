"""Jobs that expire, break off, fail, are forgotten or taken without a word, in any order: in the end every case has its
verdict, nothing is left under way, and money is counted once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from beholder.providers import batch
from beholder.reports.progress import ProgressCounter
from beholder.runs.batch import BatchPass, BatchPassOptions, BatchRunStatus
from beholder.runs.execution import prepare_run
from beholder.runs.suite import load_suite
from beholder.testing.base import Course, Fault
from beholder.testing.server import JudgeServer

COUNT, MOST_PASSES = 12, 60
URLS = {"openai": "openai_url", "anthropic": "anthropic_url", "google": "google_url"}


def course(chance: random.Random) -> Course:
    return chance.choice(
        [
            Course(),
            Course(looks=chance.randrange(3), backwards=True),
            Course(expired=chance.randrange(2)),
            Course(cut=chance.randrange(3), short=chance.random() < 0.5, even=chance.random() < 0.5),
            Course(forgotten=True),
            Course(unheard=True),
            Course(fails="Too much is waiting.", full=True),
        ]
    )


ToTheEnd = Callable[..., Awaitable[None]]


@pytest.fixture
def to_the_end(
    server: JudgeServer,
    cases: Callable[[int], Path],
    good_answer: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> ToTheEnd:
    """Hands a run in at a provider of many moods, and collects it until nothing is under way."""
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-test-0123456789")
    replies: list[dict[str, Any] | str | Fault] = [
        *[good_answer()] * 4,
        Fault.status(500),
        "no JSON",
        Fault.empty(),
        Fault.refusal("I would rather not."),
    ]

    async def to_the_end(
        protocol: str, seed: int, place: str, course: Callable[[random.Random], Course] = course
    ) -> None:
        chance = random.Random(f"{protocol} {seed}")
        server.default = lambda _: chance.choice(replies)
        flags = {
            "rubric": "edit-preservation",
            "cases": str(cases(COUNT)),
            "judges": [f"{protocol}:test"],
            "base_url": getattr(server, URLS[protocol]),
            "price": {"input": 1, "output": 10},
            "ledger": place,
            "thumbnails": False,
            "audit": False,
        }
        suite = load_suite(None, flags)
        with prepare_run(suite) as suite_run:
            ledger, record = suite_run.ledger, suite_run.record

            async def go(how: BatchPassOptions) -> BatchRunStatus:
                server.batches.usual = course(chance)
                told: list[str] = []
                return await BatchPass(suite_run, how, ProgressCounter(COUNT), asyncio.Event(), told.append).run()

            standing = await go(BatchPassOptions(retry_answered=True))
            passes = 0
            while standing.state == "waiting":
                passes += 1
                assert passes < MOST_PASSES
                standing = await go(BatchPassOptions(even_if_nothing_new=False))
            verdicts = list(ledger.verdicts(record.id))
            assert (standing.state, len(verdicts), ledger.pending_batch_jobs(record.id)) == ("finished", COUNT, [])
            assert {str(one.outcome) for one in verdicts} <= {"scored", "refused", "invalid", "unreachable"}
            assert sum((one.cost_usd or Decimal(0) for one in verdicts), Decimal(0)) == ledger.run(record.id).spent_usd
            assert ledger.reserved_usd(record.id) == 0
            assert ledger.check() == []

    return to_the_end


@pytest.mark.parametrize("protocol", URLS)
@pytest.mark.parametrize("seed", [0, 7, 17])
async def test_in_the_end_every_case_has_its_verdict(
    to_the_end: ToTheEnd, tmp_path: Path, protocol: str, seed: int
) -> None:
    await to_the_end(protocol, seed, str(tmp_path / "ledger.db"))


@pytest.mark.parametrize("protocol", URLS)
@pytest.mark.parametrize("endless", ["\n", '{"custom_id": "ab", "key": "ab"}\n', "{}\n", "x"])
async def test_results_without_an_end_are_read_up_to_a_limit(
    to_the_end: ToTheEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, endless: str
) -> None:
    monkeypatch.setattr(batch, "MAX_REPLY_BYTES", 2**16)

    def course(chance: random.Random) -> Course:
        return Course(expired=chance.randrange(2), endless=chance.choice(["", endless]))

    await to_the_end(protocol, 1, str(tmp_path / "ledger.db"), course)


async def test_so_it_has_in_a_shared_ledger(to_the_end: ToTheEnd, postgres: Any) -> None:
    await to_the_end("openai", 17, postgres.schema())
