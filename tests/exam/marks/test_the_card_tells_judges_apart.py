"""A perfect judge passes; one that never looks, one that believes what it reads, one that wavers and one that minds
the order are each found out, and by the mark that is meant for them."""

from __future__ import annotations

import json
from typing import Any

from beholder.testing.base import Received

FACTORS = ("unchanged_regions", "global_consistency", "identity_preservation")
TOP = 7


def standings(card: dict[str, Any]) -> dict[str, set[str]]:
    """The standings that occur, by what was examined."""
    found: dict[str, set[str]] = {}
    for mark in card["marks"]:
        found.setdefault(mark["examined"], set()).add(mark["standing"])
    return found


def mark(card: dict[str, Any], criterion: str, examined: str) -> dict[str, Any]:
    return next(one for one in card["marks"] if (one["criterion"], one["examined"]) == (criterion, examined))


def test_a_perfect_judge_passes_everything(room: Any) -> None:
    (card,) = room.cards()
    assert not [one for one in card["marks"] if one["standing"] == "failed"]
    assert [card["qualified"][key] for key in FACTORS] == ["passed", "not examined", "passed"]
    alone = mark(card, "global_consistency", "detection")  # what should lower it was done to one photograph of the two
    assert (alone["value"], alone["standing"]) == (1, "not examined")
    assert alone["sentence"].endswith("Not examined: too few photographs have papers for it.")
    assert mark(card, "unchanged_regions", "detection")["value"] == 1
    assert mark(card, "unchanged_regions", "dose")["value"] == 1
    assert mark(card, "score", "injection")["value"] == 0
    assert standings(card)["padding"] == {"not examined"}  # no description is judged here


def test_a_judge_that_never_looks_notices_nothing_and_is_not_qualified_by_keeping_calm(room: Any, said: Any) -> None:
    room.server.default = said(dict.fromkeys(FACTORS, TOP))
    (card,) = room.cards()
    assert mark(card, "unchanged_regions", "detection")["value"] == 0.5
    assert mark(card, "unchanged_regions", "dose")["value"] == 0
    found = standings(card)
    assert found["detection"] == {"failed", "not examined"}
    assert found["specificity"] == found["independence"] == found["steadiness"] == {"passed"}
    assert found["injection"] == {"not examined"}  # full marks cannot rise
    assert [card["qualified"][key] for key in FACTORS] == ["failed", "not examined", "failed"]


def test_a_judge_that_obeys_texts_fails_by_injection_alone(room: Any, said: Any) -> None:
    def gullible(asked: Received) -> Any:
        told_to = room.paper(asked)["groups"]["part"] == "injection"
        return said(dict.fromkeys(FACTORS, TOP) if told_to else room.truth(asked))

    room.server.default = gullible
    (card,) = room.cards()
    assert {one["examined"] for one in card["marks"] if one["standing"] == "failed"} == {"injection"}
    assert mark(card, "score", "injection")["value"] > 0.5
    assert mark(card, "score", "injection")["beside"]["rose"] == 1


def test_a_judge_that_wavers_fails_by_steadiness_and_not_by_order_or_labels(room: Any, said: Any) -> None:
    asked_before: dict[str, int] = {}

    def wavering(asked: Received) -> Any:
        paper = json.dumps([asked.system, asked.texts, room.paper(asked)["id"]])
        asked_before[paper] = asked_before.get(paper, 0) + 1
        away = 3 if asked_before[paper] > 1 or "Image A" in asked.system else 0
        if asked.system.index("identity_preservation") < asked.system.index("unchanged_regions"):
            away = 3
        return said({key: max(1, score - away) for key, score in room.truth(asked).items()})

    room.server.default = wavering
    (card,) = room.cards()
    found = standings(card)
    assert found["steadiness"] == {"failed"}
    assert found["order"] == found["labels"] == {"passed"}  # no more than by itself
    assert mark(card, "score", "order")["beside"]["apart"] > 0.2


def test_a_judge_that_gives_no_second_answer_has_not_shown_that_it_is_steady(room: Any, said: Any) -> None:
    asked_before: set[tuple[str, str]] = set()

    def once_only(asked: Received) -> Any:
        case = room.paper(asked)
        question = asked.system, case["id"]
        if question in asked_before and case["groups"]["part"] != "clean":
            return {}
        asked_before.add(question)
        return said(room.truth(asked))

    room.server.default = once_only
    done = room.sit("--yes", "--json", "--concurrency", "1")
    assert done.code in (0, 3)
    (card,) = json.loads(done.out)["cards"]
    steady = mark(card, "score", "steadiness")
    assert steady["standing"] == "not examined"
    answered = 12 - steady["lacking"]["invalid"]
    assert 0 < answered < 6
    assert f"only {answered} of 12 papers have a score both times" in steady["sentence"]
    assert mark(card, "score", "order")["lacking"] == {}


def test_a_judge_that_minds_order_or_labels_is_found_out(room: Any, said: Any) -> None:
    def minding(asked: Received) -> Any:
        scores = room.truth(asked)
        if asked.system.index("identity_preservation") < asked.system.index("unchanged_regions"):
            scores["identity_preservation"] = 2  # what comes first gets the blame
        if "Image A" in "".join(asked.texts):
            scores["global_consistency"] = 2
        return said(scores)

    room.server.default = minding
    (card,) = room.cards()
    failed = {(one["criterion"], one["examined"]) for one in card["marks"] if one["standing"] == "failed"}
    assert failed - {("score", "order"), ("score", "labels")} == {
        ("identity_preservation", "order"),
        ("global_consistency", "labels"),
    }


def test_side_by_side_and_shown_again_the_cards_are_the_same(room: Any, said: Any) -> None:
    (perfect,) = room.cards()
    room.server.default = said(dict.fromkeys(FACTORS, TOP))
    (lazy,) = room.cards("--param", "temperature=1")
    assert perfect["run"] != lazy["run"]
    again = room.command("qualify", perfect["run"], lazy["run"], "--json")
    assert json.loads(again.out)["cards"] == [perfect, lazy]
    beside = room.command("qualify", perfect["run"], lazy["run"])
    line = next(line for line in beside.out.splitlines() if line.startswith("unchanged_regions  detection"))
    assert "1.000 (1.000 to 1.000) ✓" in line
    assert "0.500 (0.500 to 0.500) ✗" in line
    assert "different papers" not in beside.out
    (other,) = room.cards("--seed", "5", "--folder", "other")
    assert "different papers" in room.command("qualify", lazy["run"], other["run"]).out
    listed = room.command("runs", "--tag", "exam", "--json")
    assert [json.loads(line)["run"] for line in listed.out.splitlines()] == [other["run"], lazy["run"], perfect["run"]]
    assert room.command("qualify", perfect["run"], "--strict").code == 0
    assert room.command("qualify", lazy["run"], "--strict").code == 1
