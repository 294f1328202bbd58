"""The table of the demo shows every case, and a miss as a miss."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.schemas import schema_of

from beholder.demo.cases import DemoSuite
from beholder.demo.suite import (
    CAUGHT,
    FALSE_ALARM,
    FINE,
    MISSED,
    NO_OPINION,
    DemoResult,
    count_results,
    summarize_verdict,
)
from beholder.ledger.types import StoredVerdict
from beholder.testing.server import JudgeServer
from beholder.verdicts.verdict import AssertionResult, CriterionResult, Outcome, Verdict

Run = Any

FACTORS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"


def judged(verdict: Verdict, expected: str) -> StoredVerdict:
    return StoredVerdict(1, verdict, {"expected": expected, "flaw": "blurred" if expected == "bad" else "none"}, False)


def edit(*scores: int | None) -> Verdict:
    criteria = {
        key: CriterionResult(score, score, (1, 7), 1, reason=f"reason of {key}")
        for key, score in zip(FACTORS, scores, strict=True)
    }
    return Verdict("c", "edit-preservation", "1.0", "j", Outcome.SCORED, criteria=criteria)


def restyle(answers: str, percentage: float | None = None) -> Verdict:
    """An answer for each letter: y, n, a (abstained)."""
    words = {"y": "yes", "n": "no", "a": "abstained"}
    results = [
        AssertionResult(f"A{number}", "?", words[letter], f"evidence {number}") for number, letter in enumerate(answers)
    ]
    criteria = {"accuracy": CriterionResult(None, None, (1, 5), 1, assertions=tuple(results))}
    return Verdict("c", "restyle", "2.0", "j", Outcome.SCORED, criteria=criteria, percentage=percentage)


def description(score: float, passed: bool, *found: str) -> Verdict:
    criteria = {"clarity": CriterionResult(score, score, (0, 1), 1)}
    findings = {"hallucinations": found}
    return Verdict(
        *("c", "description", "1.0", "j", Outcome.SCORED),
        criteria=criteria,
        score=score,
        passed=passed,
        findings=findings,
        grade="Good",
    )


def open_description(score: float) -> Verdict:
    """Half of it was left open."""
    criteria = {
        "clarity": CriterionResult(score, score, (0, 1), 50, reason="says nothing"),
        "relevance": CriterionResult(None, None, (0, 1), 50),
    }
    return Verdict(*("c", "description", "1.0", "j", Outcome.SCORED), criteria=criteria)


UNSCORED = Verdict("c", "restyle", "2.0", "j", Outcome.UNREACHABLE, detail="no answer")


@pytest.mark.parametrize(
    ("verdict", "bad", "good", "why"),
    [
        (edit(7, 4, 6), CAUGHT, FALSE_ALARM, "reason of global_consistency"),
        (edit(5, 5, 6), MISSED, FINE, ""),
        (edit(None, None, 3), CAUGHT, FALSE_ALARM, "reason of identity_preservation"),
        (edit(None, 7, None), MISSED, FINE, ""),
        (
            edit(None, None, None),
            NO_OPINION,
            NO_OPINION,
            "reason of unchanged_regions · reason of global_consistency (+ 1 more reason)",
        ),
        (restyle("yynann"), CAUGHT, FALSE_ALARM, "evidence 2 · evidence 4 (+ 1 more reason)"),
        (restyle("yyyaaa"), MISSED, FINE, ""),
        (restyle("aaa"), NO_OPINION, NO_OPINION, ""),
        (restyle("yyn", 80.0), MISSED, FINE, "evidence 2"),
        (restyle("nny", 59.9), CAUGHT, FALSE_ALARM, "evidence 0 · evidence 1"),
        (description(0.65, False, "a dog"), CAUGHT, FALSE_ALARM, "a dog"),
        (description(0.8, True, "a dog"), MISSED, FINE, ""),
        (description(0.8, False, "a dog", "a cat"), CAUGHT, FALSE_ALARM, "a dog · a cat"),  # by its gate
        (open_description(0.0), CAUGHT, FALSE_ALARM, "says nothing"),
        (open_description(0.9), NO_OPINION, NO_OPINION, "says nothing"),
        (UNSCORED, NO_OPINION, NO_OPINION, "no answer"),
    ],
)
def test_a_verdict_is_told_as_what_it_is(verdict: Verdict, bad: str, good: str, why: str) -> None:
    one = summarize_verdict(judged(verdict, "bad"))
    assert (one.outcome, one.flaw, one.reason) == (bad, "blurred", why)
    other = summarize_verdict(judged(verdict, "good"))
    assert (other.outcome, other.flaw) == (good, "")


marks = st.one_of(
    st.tuples(st.just("blurred"), st.sampled_from([CAUGHT, MISSED, NO_OPINION])),
    st.tuples(st.just(""), st.sampled_from([FINE, FALSE_ALARM, NO_OPINION])),
)


@given(st.lists(marks, max_size=60))
def test_every_case_is_counted_once(rows: list[tuple[str, str]]) -> None:
    bad, good = count_results([DemoResult("c", flaw, mark, "", "") for flaw, mark in rows]).split("; ")
    for sentence, flawed in ((bad, True), (good, False)):
        right, total, *rest = map(int, re.findall(r"\d+", sentence))
        assert right + sum(rest) == total == sum(bool(flaw) == flawed for flaw, _ in rows)
        assert right == sum(mark == (CAUGHT if flawed else FINE) and bool(flaw) == flawed for flaw, mark in rows)


def answer(schema: Mapping[str, Any], score: int) -> Any:
    """An answer that fits a schema, the same for every question."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = str(schema.get("type")).lower()
    if kind == "object":
        return {key: answer(inner, score) for key, inner in schema["properties"].items()}
    return {"array": [], "integer": score, "number": score / 5, "string": WORDS}[kind]


@pytest.fixture
def blind() -> Any:
    """A judge that is content with everything."""
    with JudgeServer(lambda asked: answer(schema_of(asked), 5), keyless=True) as server:
        yield server


def test_a_judge_that_likes_everything_misses_everything(
    run: Run, tmp_path: Path, blind: JudgeServer, made: tuple[DemoSuite, ...]
) -> None:
    done = run("demo", tmp_path / "demo", "--judge", "openai:blind", "--base-url", blind.openai_url)
    assert done.code == 0, done.err
    bad = sum(bool(sample.flaw) for chapter in made for sample in chapter.samples)
    good = sum(not sample.flaw for chapter in made for sample in chapter.samples)
    line = f"In all: 0 of {bad} bad ones caught, {bad} missed; {good} of {good} good ones found fine, 0 false alarms"
    assert line in done.out
    for chapter in made:
        assert f"{chapter.name.capitalize()}, judged by openai:blind" in done.out
        for sample in chapter.samples:
            shown = [one for one in done.out.splitlines() if re.search(rf"\s{re.escape(sample.id)}\s", one)]
            assert any(one.split()[0] == ("missed" if sample.flaw else "fine") for one in shown), sample.id
            assert any((sample.flaw or "good") in one for one in shown), sample.id
    sent = json.dumps([request.body for request in blind.received], default=str)
    for sample in (sample for chapter in made for sample in chapter.samples if sample.flaw):
        assert sample.flaw not in sent  # no judge is told


def test_it_is_judged_once_and_told_again(run: Run, tmp_path: Path, blind: JudgeServer) -> None:
    command = ("demo", tmp_path / "demo", "--judge", "openai:blind", "--base-url", blind.openai_url)
    first = run(*command)
    asked = len(blind.received)
    other = run("demo", tmp_path / "demo", "--judge", "openai:other", "--base-url", blind.openai_url)
    assert "judged by openai:other" in other.out
    asked_other = len(blind.received)
    again = run(*command)  # not the newest run any more
    assert (asked, asked_other, len(blind.received)) == (39, 78, 78)
    assert again.out == first.out


def test_a_judge_that_cannot_be_asked_is_no_catch(run: Run, tmp_path: Path) -> None:
    with JudgeServer("I would rather not.", keyless=True) as server:
        done = run("demo", tmp_path / "demo", "--judge", "openai:mute", "--base-url", server.openai_url)
    assert done.code == 3
    assert re.search(r"In all: 0 of \d+ bad ones caught, 0 missed, \d+ without an opinion; 0 of", done.out)
    assert "no opinion   motorcycle/blue-cast" in done.out


def test_it_says_what_to_do_next(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "my demo"
    done = run("demo", place, "--no-run")
    assert done.code == 0
    assert "13 restyles, 13 edits, 13 descriptions" in done.out
    assert f"beholder demo '{place}' --judge openai:gpt-5-mini" in done.out
    assert not (place / "beholder.db").exists()
