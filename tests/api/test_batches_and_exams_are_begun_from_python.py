"""`run(batch=True)`, `collect` and `qualify`: long work is begun, resumed and read from Python as by the commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import beholder
from beholder import Case, ExamReport, Run, UsageError
from beholder.testing.server import JudgeServer

RUBRIC = "edit-preservation"
CarriedOut = Callable[[Sequence[str]], tuple[int, str, str]]


def test_a_batch_is_submitted_and_collected(
    make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer
) -> None:
    cases = [make_case(number) for number in range(3)]
    settings: dict[str, Any] = {"rubric": RUBRIC, "cases": cases, "judge": "openai:test", **options}
    with pytest.raises(UsageError, match="There is no ledger"):
        beholder.collect(**settings)
    waiting = beholder.run(**settings, batch=True)
    assert (waiting.state, waiting.passed, len(server.batches.jobs)) == ("waiting", False, 1)
    assert waiting.exit_code == 0, "as that of `beholder run --batch`"
    done = beholder.collect(**settings, wait=True, pause_s=0.01)
    assert (done, done.state, dict(done.summary.outcomes)) == (waiting, "finished", {"scored": 3})
    assert len(server.received) == 3, "nobody was asked live as well"
    with pytest.raises(UsageError, match="Nothing of the run"):
        beholder.collect(**settings, resume=done)
    with pytest.raises(UsageError, match="repair takes batch or live"):
        beholder.collect(**settings, repair="never")


@pytest.mark.parametrize("threshold", [{"fail_under": 10}, {"max_unscored": 0}])
def test_thresholds_are_undecided_while_a_run_waits(
    make_case: Callable[[int], Case], options: dict[str, Any], threshold: dict[str, Any]
) -> None:
    settings: dict[str, Any] = {"rubric": RUBRIC, "cases": [make_case(0)], "judge": "openai:test", **options}
    waiting = beholder.run(**settings, **threshold, batch=True)
    assert (waiting.state, waiting.exit_code, waiting.passed) == ("waiting", 4, False)
    done = beholder.collect(**settings, **threshold, wait=True, pause_s=0.01)
    assert (done.state, done.exit_code, done.passed) == ("finished", 0, True)


def test_a_batch_is_canceled(make_case: Callable[[int], Case], options: dict[str, Any], server: JudgeServer) -> None:
    settings: dict[str, Any] = {"rubric": RUBRIC, "cases": [make_case(0)], "judge": "openai:test", **options}
    beholder.run(**settings, batch=True)
    beholder.collect(**settings, cancel=True)
    assert server.batches.jobs[0].canceled


def test_an_exam_is_taken_and_read_again(carried_out: CarriedOut, server: JudgeServer, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(2):
        coarse = np.random.default_rng(number).integers(0, 255, (9, 12, 3), np.uint8)
        photo = cv2.resize(coarse, (192, 144), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(tmp_path / "photos" / f"p{number}.png"), photo)
    settings: dict[str, Any] = {"rubric": RUBRIC, "photos": "photos", "size": "quick", "base_url": server.openai_url}
    report = beholder.qualify("openai:test", **settings)
    asked = len(server.received)
    assert (report.unanswered, report.exit_code(), len(report.cards)) == (0, 0, 1)
    words = ["qualify", "--judge", "openai:test", "--base-url", server.openai_url, "--size", "quick", "--yes", "--json"]
    code, out, err = carried_out([*words, "--rubric", RUBRIC, "--photos", "photos"])
    assert (code, json.loads(out)) == (0, json.loads(json.dumps(report.to_dict()))), err
    assert len(server.received) == asked, "the command resumes what Python has begun"
    url = settings.pop("base_url")
    assert beholder.qualify("openai:test", **settings, options={"base_url": url}).to_dict() == report.to_dict()
    assert len(server.received) == asked, "options say the same as keywords"
    with pytest.raises(UsageError, match="base_url is given by itself and in options"):
        beholder.qualify("openai:test", **settings, base_url=url, options={"base_url": url})
    first = report.cards[0].run
    assert ExamReport.load(first).to_dict() == ExamReport.load(Run.load(first)).to_dict() == report.to_dict()
    assert RUBRIC in repr(report)
    assert RUBRIC in report._repr_html_()
    with pytest.raises(UsageError, match="given by its name"):
        beholder.qualify(beholder.ScriptedJudge("x"))  # type: ignore[arg-type]  # which is what is tested
