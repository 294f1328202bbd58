"""`judge_many` takes cases as judges become free, in order or as they are finished, and keeps a hard budget."""

from __future__ import annotations

import asyncio
import csv
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest

from beholder import Answer, AsyncSession, Brief, Case, CaseError, ScriptedJudge, Session, UsageError, Verdict
from beholder.testing.server import JudgeServer

RUBRIC = "edit-preservation"
PATIENCE_S = 60


def make_session(options: dict[str, Any], **more: Any) -> Session:
    return Session("openai:test", **{"options": options, **more})


def test_cases_are_taken_one_by_one_and_only_as_many_as_are_under_way(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    cases = [make_case(number) for number in range(60)]
    taken: list[int] = []

    def feed() -> Iterator[Case]:
        for number, case in enumerate(cases):
            taken.append(number)
            assert threading.current_thread() is threading.main_thread()
            yield case

    with make_session(options, concurrency=4, ledger="a.db") as session:
        verdicts = session.judge_many(RUBRIC, feed())
        assert taken == []
        for done in range(1, len(cases) + 1):
            assert next(verdicts).case == f"c{done - 1}"
            assert len(taken) - done < 5
        assert list(verdicts) == []
        assert session.run.total == len(cases)


def test_verdicts_come_as_they_are_finished_where_order_does_not_matter(make_case: Callable[[int], Case]) -> None:
    others_are_done = threading.Event()

    class Slow(ScriptedJudge):
        async def answer(self, brief: Brief, **more: Any) -> Answer:
            if brief.fields["instruction"] == "slow":
                assert await asyncio.to_thread(others_are_done.wait, PATIENCE_S)
            return await super().answer(brief, **more)

    first = make_case(0)
    cases = [Case("slow", first.images, {"instruction": "slow"}), *(make_case(number) for number in range(1, 6))]
    with Session(Slow("no JSON"), options={"audit": False}) as session:
        seen = []
        for verdict in session.judge_many(RUBRIC, cases, ordered=False):
            seen.append(verdict.case)
            if len(seen) == 5:
                others_are_done.set()
    assert seen[-1] == "slow"
    assert sorted(seen) == sorted(case.id for case in cases)


def test_a_bad_case_is_raised_in_its_place_or_skipped(
    make_case: Callable[[int], Case], options: dict[str, Any], caplog: pytest.LogCaptureFixture, server: JudgeServer
) -> None:
    bad = Case("bad", make_case(1).images, {"instruct": "x"})
    cases: list[object] = [make_case(0), bad, {"input": "before.png"}, make_case(2)]
    with make_session(options) as session:
        seen: list[Verdict] = []
        with pytest.raises(CaseError, match="unknown field 'instruct'"):
            seen.extend(session.judge_many(RUBRIC, cases))
        with caplog.at_level(logging.WARNING, "beholder"):
            assert [one.case for one in session.judge_many(RUBRIC, cases, on_bad_case="skip")] == ["c0", "c2"]
        assert "instruct" in caplog.text
        assert "lacks" in caplog.text
        with pytest.raises(UsageError, match="on_bad_case"):
            session.judge_many(RUBRIC, cases, on_bad_case="ignore")  # type: ignore[arg-type]
        for nothing in (make_case(0), {"input": "x"}, 3, b"x"):
            with pytest.raises(UsageError):
                session.judge_many(RUBRIC, nothing)  # type: ignore[arg-type]


def test_cases_come_from_files_frames_and_mappings(
    make_case: Callable[[int], Case], options: dict[str, Any], tmp_path: Path
) -> None:
    records = []
    for number in range(3):
        make_case(number)
        records.append(
            {"id": f"c{number}", "input": "before.png", "edited": f"after{number}.png", "instruction": "make it red"}
        )
    with (tmp_path / "cases.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    sources: list[Any] = [
        *("cases.csv", tmp_path / "cases.csv"),
        *(records, iter(records), pandas.DataFrame(records), polars.DataFrame(records)),
    ]
    with make_session(options) as session:
        for source in sources:
            assert [verdict.case for verdict in session.judge_many(RUBRIC, source)] == ["c0", "c1", "c2"]


def test_what_is_left_is_finished_and_stored(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    with make_session(options, ledger="a.db", concurrency=4) as session:
        for verdict in session.judge_many(RUBRIC, (make_case(number) for number in range(100))):
            assert verdict.scored
            break
        asked = len(server.received)
        assert 1 <= asked <= 5
        assert session.run.total == asked


def test_a_progress_bar_is_shown_on_stderr_only(
    make_case: Callable[[int], Case],
    options: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with make_session(options) as session:
        assert len(list(session.judge_many(RUBRIC, [make_case(number) for number in range(3)], progress=True))) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert RUBRIC in printed.err


@pytest.mark.parametrize("ledger", [None, "a.db"])
def test_a_budget_is_hard_whatever_threads_ask(
    ledger: str | None, make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    budget = Decimal(15)
    cases = [make_case(number) for number in range(40)]
    with make_session(options, ledger=ledger, budget=budget) as session, ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(lambda case: session.judge(RUBRIC, case), cases))
        spent = session.spent_usd
    scored = [verdict for verdict in verdicts if verdict.scored]
    assert {verdict.outcome for verdict in verdicts} == {"scored", "over_budget"}
    assert len(server.received) == len(scored)
    assert sum(verdict.cost_usd or 0 for verdict in scored) == spent
    assert budget - 3 < spent <= budget


def test_the_budget_of_a_run_counts_what_earlier_sessions_spent(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    for part in range(3):
        with make_session(options, ledger="a.db", name="mine", budget=6) as session:
            list(session.judge_many(RUBRIC, [make_case(part * 4 + number) for number in range(4)]))
            assert session.spent_usd <= 6
    assert 2 <= len(server.received) <= 5


@pytest.mark.parametrize("ordered", [True, False])
async def test_cases_may_come_asynchronously_and_wait_for_verdicts(
    ordered: bool, make_case: Callable[[int], Case], options: dict[str, Any]
) -> None:
    """A source that gives a case only when it has seen the verdict on the one before."""
    seen = [asyncio.Event() for _ in range(4)]

    async def cases() -> AsyncIterator[Case]:
        for number, event in enumerate(seen):
            yield make_case(number)
            await event.wait()

    found = []
    async with AsyncSession("openai:test", options=options) as session:
        async for verdict in session.judge_many(RUBRIC, cases(), ordered=ordered):
            found.append(verdict.case)
            seen[len(found) - 1].set()
    assert found == ["c0", "c1", "c2", "c3"]


async def test_an_asynchronous_source_is_checked_as_any_other(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    async def cases() -> AsyncIterator[object]:
        for number in range(12):
            yield make_case(number)
        yield {"id": "bad"}
        raise ConnectionError("the queue is gone")

    async with AsyncSession("openai:test", concurrency=2, options=options) as session:
        with pytest.raises(CaseError, match="case 13: "):
            [verdict async for verdict in session.judge_many(RUBRIC, cases())]
        with pytest.raises(CaseError, match="Reading case 14 raised ConnectionError: the queue is gone"):
            [verdict async for verdict in session.judge_many(RUBRIC, cases(), on_bad_case="skip")]
        async for verdict in session.judge_many(RUBRIC, cases()):
            assert verdict.scored
            break
    assert len(server.received) == 12
    source: Any = cases()
    with Session() as plain, pytest.raises(UsageError, match="give them to an AsyncSession"):
        plain.judge_many(RUBRIC, source)
