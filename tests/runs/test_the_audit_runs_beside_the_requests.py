"""Every verdict of a model on a pair carries what was measured of it, unless that is switched off; no request waits."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from beholder import Case, Ledger, ScriptedJudge, Verdict, judge_async
from beholder.errors import ImageError
from beholder.images import codec
from beholder.images.image import PreparedImage
from beholder.images.prepare import prepare_image
from beholder.judges.audit import PAIR_MEASUREMENTS, AuditPlan, plan_audit
from beholder.rubrics.load import load_rubric
from beholder.runs.case import _select_thumbnails
from beholder.runs.image_pool import ImagePool, ThumbnailSelector
from beholder.runs.worker_processes import WorkerProcess
from beholder.testing.server import JudgeServer


def verdicts(ledger: Path) -> list[Verdict]:
    with Ledger.open(ledger, create=True) as book:
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


@pytest.mark.usefixtures("own_workers")
async def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    picture = prepare_image(bytes(cv2.imencode(".png", np.full((64, 64, 3), 90, np.uint8))[1]))
    order = plan_audit(load_rubric("edit-preservation"))
    assert order is not None
    pictures = ImagePool(workers=1)
    try:
        first = (await pictures.examine(order, [picture, picture])).evidence
        assert pictures._pool is not None
        for worker in pictures._pool._idle_workers:
            os.kill(worker.pid, signal.SIGKILL)
        assert (await pictures.examine(order, [picture, picture])).evidence == first
        assert first is not None
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
    verdict = await judge_async("edit-preservation", case, judge=ScriptedJudge("not JSON"))
    assert (verdict.outcome, verdict.measurements) == ("invalid", {})


async def test_measuring_that_fails_costs_no_answer(tmp_path: Path) -> None:
    for name in "ab":
        cv2.imwrite(str(tmp_path / f"{name}.png"), np.full((8, 8, 3), 90, np.uint8))
    pictures = ImagePool(workers=0)
    picture = prepare_image((tmp_path / "a.png").read_bytes())
    evidence = (await pictures.examine(AuditPlan(("nobody.measures",)), [picture, picture])).evidence
    assert evidence is not None
    assert "measuring failed" in evidence.failed


def prepared(side: int, seed: int) -> PreparedImage:
    noise = np.random.default_rng(seed).integers(0, 256, (side // 16, side // 16, 3), dtype=np.uint8)
    return prepare_image(bytes(cv2.imencode(".jpg", cv2.resize(noise, (side, side)))[1]))


async def test_one_task_decodes_each_image_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    decode = codec.decode

    def count(data: bytes, *more: Any) -> codec.Raster:
        decoded.append(data)
        return decode(data, *more)

    monkeypatch.setattr(codec, "decode", count)
    images = [prepared(1600, 1), prepared(1600, 2)]
    digests = [image.source_digest for image in images]
    examined = await ImagePool(workers=0).examine(plan_audit(load_rubric("edit-preservation")), images, digests)
    assert decoded == [image.data for image in images]
    assert examined.evidence is not None
    assert examined.evidence.readings
    assert list(examined.thumbnails) == digests


async def test_what_is_measured_does_not_depend_on_thumbnails() -> None:
    images = [prepared(1600, 1), prepared(1600, 2)]
    plan = plan_audit(load_rubric("edit-preservation"))
    digests = [image.source_digest for image in images]
    found = [await ImagePool(workers=0).examine(plan, images, wanted) for wanted in ((), digests[:1], digests)]
    assert found[0].evidence == found[1].evidence == found[2].evidence
    assert [list(one.thumbnails) for one in found] == [[], digests[:1], digests]


async def test_thumbnails_stay_where_measuring_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*more: object) -> None:
        raise ZeroDivisionError("an instrument's own mistake")

    monkeypatch.setattr("beholder.instruments.registry.measure_pair", fail)
    images = [prepared(64, 1), prepared(64, 2)]
    digests = [image.source_digest for image in images]
    found = await ImagePool(workers=0).examine(plan_audit(load_rubric("edit-preservation")), images, digests)
    assert found.evidence is not None
    assert found.evidence.failed == "measuring failed: ZeroDivisionError: an instrument's own mistake"
    assert list(found.thumbnails) == digests


async def test_the_audit_stays_where_a_thumbnail_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(image: object) -> bytes:
        raise ImageError("it cannot be encoded")

    monkeypatch.setattr("beholder.judges.audit.encode_thumbnail", fail)
    images = [prepared(64, 1), prepared(64, 2)]
    digests = [image.source_digest for image in images]
    found = await ImagePool(workers=0).examine(plan_audit(load_rubric("edit-preservation")), images, digests)
    assert found.evidence is not None
    assert (found.evidence.failed, found.thumbnails) == ("", {})


async def test_a_ledger_that_cannot_tell_costs_a_thumbnail_and_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(digests: list[str]) -> set[str]:
        raise OSError("the disk is gone")

    selector = ThumbnailSelector(fail)
    assert await _select_thumbnails(selector, ["a"]) == ()
    assert "a case has no thumbnails" in caplog.text
    with pytest.raises(OSError, match="gone"):  # it does not count as having one
        await selector.select_new(["a"])


async def test_without_a_plan_only_what_needs_a_thumbnail_is_decoded() -> None:
    good, broken = prepared(64, 1), replace(prepared(64, 2), data=b"no image")
    found = await ImagePool(workers=0).examine(None, [good, broken], [good.source_digest, broken.source_digest])
    assert (found.evidence, list(found.thumbnails)) == (None, [good.source_digest])
    assert (await ImagePool(workers=0).examine(None, [broken])).thumbnails == {}


async def test_an_image_gets_its_thumbnail_from_one_case_that_comes_to_an_end() -> None:
    asked: list[list[str]] = []

    async def find_stored(digests: list[str]) -> set[str]:
        asked.append(digests)
        return {"stored"} & set(digests)

    selector = ThumbnailSelector(find_stored)
    found = list(await asyncio.gather(selector.select_new(["stored", "a"]), selector.select_new(["a", "b"])))
    assert (found, asked) == ([{"a"}, {"b"}], [["stored", "a", "b"]])  # looked up together
    assert await selector.select_new(["a", "b"]) == set()
    selector.forget(["b"])
    assert await selector.select_new(["a", "b"]) == {"b"}


def test_a_worker_keeps_to_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENCV_FOR_THREADS_NUM", raising=False)
    worker = WorkerProcess()
    try:
        assert worker.call(cv2.getNumThreads) == 1
    finally:
        worker.close()
