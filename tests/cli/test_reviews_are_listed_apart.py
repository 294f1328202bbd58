"""`beholder runs` lists what was judged; reviews by people are named, listed when asked for, and marked in JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from support.reviews import RUN, answers, edits

from beholder.cli import main
from beholder.ledger.ledger import Ledger
from beholder.reviews import sheet
from beholder.reviews.review import find_or_start_review

Listed = Callable[..., str]


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Listed:
    with edits(tmp_path / "beholder.db") as ledger:
        review = find_or_start_review(ledger, RUN, "Ada")
        first, second, *_ = ledger.case_ids(RUN)
        sheet.record_rating(ledger, review, first, answers())
        sheet.record_draft(ledger, review, second, answers())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def listed(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["beholder", *(words if words[:1] == ("show",) else ("runs", *words))])
        with suppress(SystemExit):
            main()
        return capsys.readouterr().out

    return listed


def test_runs_are_listed_and_reviews_only_named(listed: Listed) -> None:
    head, run, more = listed().splitlines()
    assert head.startswith("run")
    assert run.startswith(RUN)
    assert more == "1 review by people: beholder runs --reviews"


def test_reviews_are_listed_when_asked_for(listed: Listed) -> None:
    _, review = listed("--reviews").splitlines()
    assert "nightly, rated by Ada" in review


def test_a_review_under_way_is_open_and_says_how_much_is_rated(listed: Listed) -> None:
    _, review = listed("--reviews").splitlines()
    assert " open " in review
    assert " 1 of 12 rated " in review  # and not the one that was only begun
    [told] = [json.loads(line) for line in listed("--json", "--reviews").splitlines()]
    assert (told["state"], told["rated"], told["cases"]) == ("open", 1, 12)
    assert "), open, started" in listed("show", told["run"])
    assert json.loads(listed("show", told["run"], "--json"))["state"] == "open"


def test_a_run_that_was_interrupted_is_not_open(listed: Listed) -> None:
    with Ledger.open("beholder.db", create=True) as ledger:
        ledger.update(RUN, state="interrupted")
    assert " interrupted " in listed().splitlines()[1]
    told = [json.loads(line) for line in listed("--json").splitlines()]
    assert [(one["state"], "rated" in one) for one in told] == [("open", True), ("interrupted", False)]


def test_json_has_both_and_says_which_is_which(listed: Listed) -> None:
    assert [json.loads(line)["review"] for line in listed("--json").splitlines()] == [True, False]
    [review] = [json.loads(line) for line in listed("--json", "--reviews").splitlines()]
    assert review["name"] == "nightly, rated by Ada"
