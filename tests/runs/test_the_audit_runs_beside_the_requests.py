"""Every verdict of a model on a pair carries what was measured of it, unless that is switched off; no request waits."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from beholder import Case, Ledger, ScriptedJudge, Verdict, judge_async
from beholder.judges.audit import PAIR_MEASUREMENTS, AuditPlan, plan_audit
from beholder.rubrics.load import load_rubric
from beholder.runs.image_pool import ImagePool
from beholder.testing.server import JudgeServer


def verdicts(ledger: Path) -> list[Verdict]:
    with Ledger.open(ledger) as book:
        return list(book.verdicts("latest"))


def test_a_run_measures_pairs(tmp_path: Path, server: JudgeServer, cases: Any, run: Any) -> None:
    cases(3)
    assert run("--audit", "--json").returncode == 0
    for verdict in verdicts(tmp_path / "ledger.db"):
        assert set(PAIR_MEASUREMENTS) <= set(verdict.measurements)


def test_without_an_audit_nothing_is_measured(tmp_path: Path, server: JudgeServer, cases: Any, run: Any) -> None:
    cases(3)
    assert run("--no-audit", "--json").returncode == 0
    assert [verdict.measurements for verdict in verdicts(tmp_path / "ledger.db")] == [{}] * 3


def test_answers_from_the_ledger_are_audited_too(tmp_path: Path, server: JudgeServer, cases: Any, run: Any) -> None:
    cases(3)
    run("--no-audit", "--json")
    asked = len(server.received)
    run("--audit", "--json", "--limit", "2")
    assert len(server.received) == asked
    assert all(verdict.measurements for verdict in verdicts(tmp_path / "ledger.db"))


async def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    picture = bytes(cv2.imencode(".png", np.full((64, 64, 3), 90, np.uint8))[1])
    order = plan_audit(load_rubric("edit-preservation"))
    assert order is not None
    pictures = ImagePool(workers=1)
    try:
        first = await pictures.audit(order, picture, picture)
        assert pictures._pool is not None
        for pid in list(pictures._pool._processes):
            os.kill(pid, signal.SIGKILL)
        assert await pictures.audit(order, picture, picture) == first
        assert first.identical
    finally:
        pictures.close()


async def test_the_instruments_do_not_audit_themselves(tmp_path: Path) -> None:
    for name, level in (("a", 90), ("b", 120)):
        cv2.imwrite(str(tmp_path / f"{name}.png"), np.full((64, 64, 3), level, np.uint8))
    images: dict[str, Any] = {"input": tmp_path / "a.png", "edited": tmp_path / "b.png"}
    case = Case("c", images=images, fields={"instruction": "make it lighter"})
    verdict = await judge_async("edit-preservation", case)
    assert not [flag for flag in verdict.flags if flag.flag == "pixels_disagree"]


async def test_a_verdict_without_a_score_is_not_measured(tmp_path: Path) -> None:
    for name in "ab":
        cv2.imwrite(str(tmp_path / f"{name}.png"), np.full((8, 8, 3), 90, np.uint8))
    images: dict[str, Any] = {"input": tmp_path / "a.png", "edited": tmp_path / "b.png"}
    case = Case("c", images=images, fields={"instruction": "make it lighter"})
    verdict = await judge_async("edit-preservation", case, ScriptedJudge("not JSON"))
    assert (verdict.outcome, verdict.measurements) == ("invalid", {})


async def test_measuring_that_fails_costs_no_answer(tmp_path: Path) -> None:
    for name in "ab":
        cv2.imwrite(str(tmp_path / f"{name}.png"), np.full((8, 8, 3), 90, np.uint8))
    pictures = ImagePool(workers=0)
    picture = (tmp_path / "a.png").read_bytes()
    evidence = await pictures.audit(AuditPlan(("nobody.measures",)), picture, picture)
    assert "measuring failed" in evidence.failed
