"""The offline judge sits for nothing; a rubric of one's own is sat with the papers that fit it; wrong use is a
sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beholder import Ledger

OWN = """
rubric: mine
images:
  - {role: input, label: Before}
  - {role: edited, label: After}
fields:
  - {name: instruction, about: what was asked for}
criteria:
  - {key: kept, scale: [1, 7], question: Is the rest as it was?}
  - {key: pretty, scale: [1, 7], question: Is it pretty?}
"""


def offline(room: Any, *more: str) -> Any:
    return room.command("qualify", "--size", "quick", "--photos", "photos", "--rubric", "edit-preservation", *more)


def test_the_offline_judge_sits_without_a_question_and_twice_the_same(room: Any) -> None:
    done = offline(room, "--json")
    assert done.code == 0, done.err
    (card,) = json.loads(done.out)["cards"]
    again = [mark for mark in card["marks"] if mark["examined"] in ("steadiness", "order", "labels")]
    examined = [mark for mark in again if mark["papers"]]  # measured, not assumed
    assert {mark["examined"] for mark in examined} == {"steadiness", "order", "labels"}
    assert {(mark["value"], mark["standing"]) for mark in examined} == {(0, "passed")}
    assert card["judge"] == "instruments"
    assert room.server.received == []


def test_the_card_is_told_in_sentences_with_what_each_number_means(room: Any) -> None:
    done = offline(room, "--details")
    assert done.code == 0
    words = " ".join(done.out.split())
    assert "a coin: 50%" in words
    assert "In edit-preservation, instruments is qualified for" in words
    assert "first noticed" in words
    assert "Intervals are 95%" in words


def test_a_rubric_of_ones_own_has_no_pass_mark_for_what_should_fall(room: Any, said: Any) -> None:
    Path("mine").mkdir()
    Path("mine/rubric.yaml").write_text(OWN, "utf-8")
    room.server.default = lambda asked: {
        "criteria": {key: {"reason": "It looks the same.", "score": 4} for key in ("kept", "pretty")}
    }
    words = ["qualify", "--judge", "openai:test", "--base-url", room.server.openai_url, "--size", "quick"]
    done = room.command(*words, "--photos", "photos", "--rubric", "mine", "--yes", "--json")
    assert done.code == 0, done.err
    (card,) = json.loads(done.out)["cards"]
    by = {(mark["criterion"], mark["examined"]): mark for mark in card["marks"]}
    assert by["kept", "detection"]["standing"] == "no pass mark"
    assert by["kept", "detection"]["value"] == 0.5
    assert by["pretty", "steadiness"]["standing"] == "passed"
    assert any("is not known for this rubric" in note for note in card["notes"])


def test_a_rubric_that_no_papers_fit_is_refused_with_those_that_do(room: Any) -> None:
    Path("mine").mkdir()
    Path("mine/rubric.yaml").write_text(OWN.replace("role: edited", "role: video"), "utf-8")
    done = room.command("qualify", "--judge", "openai:test", "--rubric", "mine")
    assert done.code == 2
    assert "no papers for the rubric 'mine'" in done.err
    assert "input and edited with instruction (edit-preservation)" in done.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("qualify latest --judge openai:test", "give one of them"),
        ("qualify nobody", "There is no run 'nobody'"),
        ("qualify plain", "is no exam; `beholder runs --tag exam` lists those that are"),
        ("qualify --size enormous", "enormous"),
        ("qualify --rubric edit-quality", "cannot answer edit-quality"),
        ("qualify --photos nowhere", "nowhere"),
    ],
)
def test_wrong_use_is_one_sentence(room: Any, words: str, sentence: str) -> None:
    from datetime import UTC, datetime

    from beholder.ledger.types import RunRecord

    with Ledger.open("beholder.db", create=True) as ledger:
        now = datetime.now(UTC)
        ledger.start(RunRecord("261116-aaaaaa", "plain", "f", "finished", now, now, 0))
    done = room.command(*words.split())
    assert done.code == 2
    assert sentence in done.err
    assert "Traceback" not in done.err
