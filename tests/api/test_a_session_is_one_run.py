"""The verdicts of a session are one run in its ledger: named, resumable, and each stored before it is returned."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.postgres import Server

from beholder import AsyncSession, Case, Ledger, LedgerError, Rubric, Session, UsageError
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

RUBRIC = "edit-preservation"
JUDGE = "openai:test"


def test_each_verdict_is_stored_before_it_is_returned(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    with Session(JUDGE, ledger="a.db", name="mine", options=options) as session, Ledger.open("a.db") as ledger:
        assert session.run_id is not None
        for number in range(3):
            verdict = session.judge(RUBRIC, make_case(number))
            assert verdict.scored
            assert ledger.verdict(session.run_id, f"c{number}")[0].score == verdict.score
        record = ledger.run("mine")
        assert (record.id, record.total, record.state) == (session.run_id, 3, "running")
        assert [stored.position for stored in ledger.stored_verdicts("mine")] == [0, 1, 2]
        assert session.spent_usd == record.spent_usd
        assert session.spent_usd > Decimal("0.1")
    with Ledger.open("a.db") as ledger:
        assert ledger.run("mine").state == "finished"
        assert ledger.check() == []


def test_a_session_of_the_same_name_goes_on_without_asking_again(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    with Session(JUDGE, ledger="a.db", name="mine", options=options) as session:
        first = [session.judge(RUBRIC, make_case(number)) for number in range(3)]
    asked = len(server.received)
    with Session(JUDGE, ledger="a.db", name="mine", options=options) as again:
        assert again.run_id == session.run_id
        assert [again.judge(RUBRIC, make_case(number)) for number in range(3)] == first
        assert len(server.received) == asked
        again.judge(RUBRIC, make_case(3))
        assert len(server.received) == asked + 1


@pytest.mark.parametrize("changed", [{"samples": 2}, {"options": {"params": {"temperature": 0}}}, {"name": "other"}])
def test_another_judge_or_name_is_another_run(
    changed: dict[str, Any], make_case: Callable[[int], Case], options: dict[str, Any]
) -> None:
    usual: dict[str, Any] = {"ledger": "a.db", "name": "mine", "options": options}
    with Session(JUDGE, **usual) as session:
        session.judge(RUBRIC, make_case(0))
    changed = {**changed, "options": {**options, **changed.get("options", {})}}
    with Session(JUDGE, **{**usual, **changed}) as other:
        assert other.run_id != session.run_id


def test_a_session_without_a_name_is_a_run_of_its_own_and_reuses_answers(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    runs = set()
    for _ in range(2):
        with Session(JUDGE, ledger="a.db", options=options) as session:
            session.judge(RUBRIC, make_case(0))
            runs.add(session.run_id)
    assert len(runs) == 2
    assert len(server.received) == 1


def test_other_content_under_the_same_id_is_judged_anew_and_replaces_the_verdict(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    other = make_case(1)
    with Session(JUDGE, ledger="a.db", name="mine", options=options) as session:
        first = session.judge(RUBRIC, make_case(0))
        second = session.judge(RUBRIC, Case("c0", other.images, other.fields))
        assert first.brief_digest != second.brief_digest
    with Ledger.open("a.db") as ledger:
        assert [verdict.brief_digest for verdict in ledger.verdicts("mine")] == [second.brief_digest]
        assert ledger.run("mine").total == 1


def test_a_refusal_is_final_and_a_failure_is_tried_again(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    server.default = Fault.refusal("I cannot judge this.")
    with Session(JUDGE, ledger="a.db", options=options) as session:
        assert session.judge(RUBRIC, make_case(0)).outcome == "refused"
        asked = len(server.received)
        assert session.judge(RUBRIC, make_case(0)).outcome == "refused"
        assert len(server.received) == asked
        server.default = Fault.status(400, "no")
        assert session.judge(RUBRIC, make_case(1)).outcome == "unreachable"
        asked = len(server.received)
        assert session.judge(RUBRIC, make_case(1)).outcome == "unreachable"
        assert len(server.received) > asked


def test_several_rubrics_are_added_to_the_run_and_two_of_one_name_are_refused(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    with Session(JUDGE, ledger="a.db", name="mine", options=options) as session:
        session.judge_rubrics([RUBRIC, "edit-fidelity"], make_case(0))
        with pytest.raises(LedgerError, match="another rubric"):
            session.judge(Rubric.load(RUBRIC).with_scoring(threshold=0.9), make_case(1))
    with Ledger.open("a.db") as ledger:
        record = ledger.run("mine")
        assert set(record.load_rubrics()) == {RUBRIC, "edit-fidelity"}
        assert record.total == 2


def test_without_the_cache_every_case_is_asked_again(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    with Session(JUDGE, ledger="a.db", options={**options, "cache": False}) as session:
        for _ in range(2):
            session.judge(RUBRIC, make_case(0))
    assert len(server.received) == 2


def test_without_a_ledger_answers_are_kept_in_memory(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer, tmp_path: Path
) -> None:
    with Session(JUDGE, options=options) as session:
        assert session.run_id is None
        assert session.judge(RUBRIC, make_case(0)) == session.judge(RUBRIC, make_case(0))
    assert len(server.received) == 1
    assert not list(tmp_path.glob("*.db"))


def test_an_open_ledger_stays_open(make_case: Callable[[int], Case], options: dict[str, Any]) -> None:
    with Ledger.open("a.db", create=True) as ledger:
        with Session(JUDGE, ledger=ledger, name="mine", options=options) as session:
            session.judge(RUBRIC, make_case(0))
        assert ledger.run("mine").total == 1


async def test_an_async_session_is_the_same_on_the_callers_loop(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    cases = [make_case(number) for number in range(20)]
    async with AsyncSession(JUDGE, ledger="a.db", name="mine", options=options) as session:
        verdicts = [verdict async for verdict in session.judge_many(RUBRIC, cases)]
    assert [verdict.case for verdict in verdicts] == [case.id for case in cases]
    with Session(JUDGE, ledger="a.db", name="mine", options=options) as again:
        assert again.run_id == session.run_id
        assert list(again.judge_many(RUBRIC, cases)) == verdicts
    assert len(server.received) == 20


def test_on_postgresql_it_is_the_same(
    postgres: Server, make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    place = postgres.schema()
    cases = [make_case(number) for number in range(12)]
    with Session(JUDGE, ledger=place, name="mine", budget=8, options=options) as session:
        verdicts = list(session.judge_many(RUBRIC, cases))
        assert {verdict.outcome for verdict in verdicts} == {"scored", "over_budget"}
        assert 4 < session.spent_usd <= 8
    asked = len(server.received)
    assert asked == sum(verdict.scored for verdict in verdicts)
    with Session(JUDGE, ledger=place, name="mine", budget=8, options=options) as again:
        assert again.run_id == session.run_id
        for case, verdict in zip(cases, verdicts, strict=True):
            assert not verdict.scored or again.judge(RUBRIC, case) == verdict
        assert again.run.total == 12
    assert len(server.received) == asked


@pytest.mark.parametrize("at_once", [True, False])
def test_an_id_that_comes_with_other_content_is_logged(
    at_once: bool, make_case: Callable[[int], Case], options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    cases = [replace(make_case(number), id="same") for number in range(2)]
    with Session(JUDGE, ledger="a.db", name="mine", options=options) as session:
        session.judge(RUBRIC, make_case(3))
        if at_once:
            assert len(list(session.judge_many(RUBRIC, cases))) == 2
        else:
            session.judge(RUBRIC, cases[0])
    if not at_once:
        assert caplog.messages == []
        with Session(JUDGE, ledger="a.db", name="mine", options=options) as session:
            session.judge(RUBRIC, cases[0])
            session.judge(RUBRIC, cases[1])
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.name.startswith("beholder.")
    assert "the case 'same' was judged by edit-preservation with other images or fields before" in record.getMessage()


def test_a_prompt_file_is_read_when_the_session_is_made(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer, tmp_path: Path
) -> None:
    (tmp_path / "mine.md").write_text("Look closely.")
    with Session(JUDGE, ledger="a.db", options={**options, "prompt": "mine.md"}) as session:
        (tmp_path / "mine.md").unlink()
        session.judge(RUBRIC, make_case(0))
        assert session.run.record.prompt == "Look closely."
    assert "Look closely." in str(server.received[0].body)


@pytest.mark.parametrize("ledger", ["a.db", None])
def test_the_same_case_asked_for_at_once_is_judged_once(
    ledger: str | None, make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    case, other = make_case(0), make_case(1)
    cases = [case] * 6 + [Case(case.id, other.images, other.fields)]  # the last is other content under the same id
    with Session(JUDGE, ledger=ledger, options=options) as session, ThreadPoolExecutor(len(cases)) as pool:
        verdicts = list(pool.map(lambda one: session.judge(RUBRIC, one), cases))
        assert [verdict.outcome for verdict in verdicts] == ["scored"] * len(cases)
        assert verdicts[0] == verdicts[5]
        assert verdicts[0].brief_digest != verdicts[6].brief_digest
        assert len(server.received) == 2
        assert session.spent_usd == 2 * (verdicts[0].cost_usd or 0)


def test_a_verdict_that_the_ledger_could_not_take_is_not_paid_for_again(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    class FullDisk(Ledger):
        full = True

        def write(self, *args: Any, **kwargs: Any) -> Any:
            if self.full:
                raise LedgerError("The disk is full.")
            return super().write(*args, **kwargs)

    with FullDisk.open("a.db", create=True) as ledger:
        assert isinstance(ledger, FullDisk)
        with Session(JUDGE, ledger=ledger, name="mine", options=options) as session:
            with pytest.raises(LedgerError, match="full"):
                session.judge(RUBRIC, make_case(0))
            ledger.full = False
            verdict = session.judge(RUBRIC, make_case(0))
            assert verdict.scored
            assert session.spent_usd == verdict.cost_usd
        assert ledger.check() == []
    assert len(server.received) == 1


def test_a_session_in_which_nothing_is_judged_is_finished_as_well(
    make_case: Callable[[int], Case], options: dict[str, Any]
) -> None:
    with Session("openai:test", ledger="a.db", name="mine", options=options) as session:
        assert session.run.state == "running"
        with Session("openai:test", ledger="a.db", name="mine", options=options) as other:
            other.judge(RUBRIC, make_case(0))
            with Session("openai:test", ledger="a.db", name="mine", options=options):
                pass
            assert session.run.state == "running"  # `other` is still at work
        finished = session.run
    with Session("openai:test", ledger="a.db", name="empty", options=options):
        pass
    with Ledger.open("a.db") as ledger:
        assert {run.name: run.state for run in ledger.runs()} == {"mine": "finished", "empty": "finished"}
        assert ledger.run("mine").updated == finished.record.updated  # whoever only looks changes nothing


async def test_the_run_of_an_asynchronous_session(make_case: Callable[[int], Case], options: dict[str, Any]) -> None:
    async with AsyncSession(JUDGE, ledger="a.db", name="mine", options=options) as session:
        await session.judge(RUBRIC, make_case(0))
        assert (session.run.id, session.run.name) == (session.run_id, "mine")
        assert [verdict.case for verdict in session.run.verdicts()] == ["c0"]
    async with AsyncSession(JUDGE, options=options) as session:
        with pytest.raises(UsageError, match="without a ledger has no run"):
            session.run  # noqa: B018
