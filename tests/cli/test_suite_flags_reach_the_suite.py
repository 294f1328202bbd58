"""The flags of `run` and `plan` say what a suite's keys say, and a wrong one is told by its own name."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from beholder.cli.options import FLAGS, _load_suite
from beholder.runs.suite import Suite


@pytest.fixture
def suite(folder: Path) -> Callable[..., Suite]:
    case = {"id": "a", "input": "before.png", "edited": "after.png", "instruction": "make it red"}
    (folder / "cases.jsonl").write_text(json.dumps(case), "utf-8")
    (folder / "suite.yaml").write_text(
        "rubric: edit-preservation\ncases: cases.jsonl\njudges: [openai:x]\n"
        "limits: {timeout_s: 5, requests_per_minute: 60}\ntags: [nightly]\n",
        "utf-8",
    )

    def make(**given: object) -> Suite:
        return _load_suite(Path("suite.yaml"), {name: given.get(name) for name, *_ in FLAGS})

    return make


def test_a_price_goes_to_every_judge(suite: Callable[..., Suite]) -> None:
    (judge,) = suite(price_input=0.1, price_output=2.5).judges
    price = judge.given_price()
    assert price is not None
    assert (price.input, price.output) == (Decimal("0.1"), Decimal("2.5"))


def test_limits_are_merged_one_by_one(suite: Callable[..., Suite]) -> None:
    limits = suite(timeout=120.0, total_timeout=300.0).limits
    assert (limits.timeout_s, limits.total_timeout_s, limits.requests_per_minute) == (120, 300, 60)


def test_a_flag_that_is_not_given_changes_nothing(suite: Callable[..., Suite]) -> None:
    assert suite(tag=[], gate=None).tags == ("nightly",)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--timeout 0", "--timeout: "),
        ("--total-timeout -1", "--total-timeout: "),
        ("--requests-per-minute 0", "--requests-per-minute: "),
        ("--price-input 1", "--price-input and --price-output go together; give both."),
        ("--price-output 1", "--price-input and --price-output go together; give both."),
        ("--price-input -1 --price-output 1", "--price-input: "),
        ("--judge openai:x --judge openai:x", "--judge ([1]): stands here twice"),
    ],
)
def test_a_wrong_flag_is_told_by_its_own_name(suite: object, run: Any, flags: str, said: str) -> None:
    done = run(f"plan suite.yaml {flags}")
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_price_makes_the_cost_known(suite: object, run: Any) -> None:
    done = run("plan suite.yaml --price-input 1 --price-output 2 --json")
    assert done.code == 0, done.err
    assert done.out != run("plan suite.yaml --price-input 1 --price-output 3 --json").out


def test_what_is_wrong_in_the_file_is_told_before_a_flag_that_is_wrong_by_it(folder: Path, run: Any) -> None:
    text = "rubric: edit-preservation\ncases: cases.jsonl\njudge: openai:x\n"
    (folder / "misspelled.yaml").write_text(text, "utf-8")
    done = run("plan misspelled.yaml --base-url http://localhost:1/v1")
    assert done.code == 2
    assert "line 3" in done.err
    assert "judges" in done.err
    assert "no judge of the suite is one" not in done.err
