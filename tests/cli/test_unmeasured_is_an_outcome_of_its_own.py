"""`unmeasured` is an outcome of its own: counted apart from `scored`, final in its run, and never a zero."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import cv2
import numpy as np
import pytest

RUN = "run --rubric edit-preservation --cases cases.jsonl --ledger l.db --json "
DETAIL = "unmeasured, only 0 of 3 factors measured, and a score needs 80 %"


@pytest.fixture
def suite(folder: Path) -> Path:
    """One pair that can be measured, and one whose images have nothing in common."""
    cv2.imwrite("other.png", np.random.default_rng(3).integers(0, 256, (90, 120, 3), np.uint8))
    rows = [
        {"id": name, "input": "before.png", "edited": edited, "instruction": "add a patch"}
        for name, edited in (("kept", "after.png"), ("open", "other.png"))
    ]
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


def summary(done: Any) -> Any:
    return json.loads(done.out.splitlines()[-1])


def test_it_is_counted_apart_and_a_resume_does_not_try_it_again(run: Any, suite: Path) -> None:
    first = run(RUN)
    assert (first.code, summary(first)["outcomes"]) == (3, {"scored": 1, "unmeasured": 1})
    again = run(RUN)
    assert (again.code, summary(again)["before"], summary(again)["outcomes"]) == (3, 2, {})
    assert summary(again)["tally"]["outcomes"] == {"scored": 1, "unmeasured": 1}
    retried = run(RUN + "--retry unmeasured")
    assert (summary(retried)["before"], summary(retried)["outcomes"]) == (1, {"unmeasured": 1})
    assert run(RUN + "--max-unscored 1").code == 0


def test_every_view_of_the_run_says_so(run: Any, suite: Path) -> None:
    run(RUN)
    shown = run("show --ledger l.db").out
    assert "outcomes: 1 scored, 1 unmeasured" in shown
    assert f"open: {DETAIL}" in shown
    lines = map(json.loads, run("export --ledger l.db --to jsonl").out.splitlines())
    [exported] = [line for line in lines if line["case"] == "open"]
    assert (exported["outcome"], exported["score"], exported["coverage"]["measured"]) == ("unmeasured", None, 0)
    assert "1 scored, 1 unmeasured." in run("report --ledger l.db --format md -o -").out
    [tests] = Xml.fromstring(run("report --ledger l.db --format junit -o -").out)
    assert [one.get("message") for one in tests.iter("skipped")] == [DETAIL]
    assert run("report --ledger l.db -o page.html").code == 0
    assert "unmeasured" in (suite / "page.html").read_text("utf-8")


def test_a_comparison_has_it_as_a_case_without_a_score(run: Any, suite: Path) -> None:
    """The case that could be measured before has no score now; that is no drop to zero."""
    cases = (suite / "cases.jsonl").read_text("utf-8")
    (suite / "cases.jsonl").write_text(cases.replace("other.png", "after.png"), "utf-8")
    run(RUN + "--name before")
    (suite / "cases.jsonl").write_text(cases, "utf-8")
    run(RUN + "--name after")
    compared = json.loads(run("compare before after --ledger l.db --json").out)
    [uneven] = compared["unlike"]
    assert (uneven["case"], uneven["before"], uneven["after"]) == ("open", "scored", DETAIL)
    [score] = [change for change in compared["changes"] if change["name"] == "score"]
    assert (score["cases"], score["difference"]["value"]) == (1, 0)
