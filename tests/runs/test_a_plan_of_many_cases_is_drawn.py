"""A plan of very many cases is told from some of them: it says so, counts what it can, and is never far off."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.ledger.ledger import Ledger
from beholder.runs.engine import pick_positions
from beholder.runs.execution import check_suite_cases
from beholder.runs.plan import SAMPLE_SIZE, Plan, SampleSpread, draw_sample, plan_run
from beholder.runs.suite import Suite, load_suite

Command = Callable[..., list[str]]
Beholder = Callable[[list[str]], subprocess.CompletedProcess[str]]


@pytest.fixture
def uneven(tmp_path: Path, cases: Any) -> Callable[[int], Path]:
    """So many cases on one pair of pictures, whose instructions are of very different lengths."""

    def make(count: int) -> Path:
        path: Path = cases(1)
        case = json.loads(path.read_text("utf-8"))
        lines = [{**case, "id": f"c{n}", "instruction": f"{n} " + "make it red " * (n * 7 % 400)} for n in range(count)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        return path

    return make


def suite_on(path: Path, **more: object) -> Suite:
    flags = {"rubric": "edit-preservation", "cases": str(path), "judges": ["openai:gpt-5-mini"], **more}
    return load_suite(None, flags)


async def planned(suite: Suite, most: int | None, ledger: Ledger | None = None) -> Plan:
    return await plan_run(suite, check_suite_cases(suite), ledger, sample_size=most)


async def test_a_part_tells_the_whole_within_what_it_says(uneven: Any) -> None:
    suite = suite_on(uneven(600))
    every, some = await planned(suite, None), await planned(suite, 150)
    [exact], [guess] = every.judges, some.judges
    assert (every.made, some.made, some.pending) == (600, 150, 600)
    assert (exact.margin, guess.calls, guess.answered) == (0, exact.calls, 0)
    assert 0 < guess.margin < 0.2
    assert guess.money_high is not None
    assert exact.money_high is not None
    # Twice the margin: what 95 draws in 100 keep to, a fixed draw need not.
    assert abs(float(guess.money_high / exact.money_high) - 1) < 2 * guess.margin
    assert guess.image_tokens == exact.image_tokens  # all have the same pictures


async def test_up_to_the_limit_every_brief_is_made(uneven: Any) -> None:
    suite = suite_on(uneven(40))
    every, some = await planned(suite, None), await planned(suite, 40)
    assert some == every


def test_what_is_done_is_counted_and_not_guessed(uneven: Any, command: Command, run: Any) -> None:
    uneven(60)
    run("--quiet")
    words = command()
    suite = suite_on(
        Path(words[words.index("--cases") + 1]),
        judges=["openai:test"],
        base_url=words[words.index("--base-url") + 1],
        thumbnails=False,
        audit=False,
    )
    with Ledger.open(words[words.index("--ledger") + 1], read_only=True) as ledger:
        found = asyncio.run(planned(suite, 5, ledger))
    assert (found.done, found.pending, found.made, found.judges[0].calls) == (60, 0, 0, 0)


def test_the_command_says_that_it_drew(uneven: Any, command: Command, beholder: Beholder) -> None:
    uneven(SAMPLE_SIZE + 50)
    words = ["plan" if word == "run" else word for word in command()]

    def told(*more: str) -> str:
        return beholder([*words, *more]).stdout

    drawn = json.loads(told("--json"))
    assert drawn["sampled"] == {"cases": SAMPLE_SIZE, "of": SAMPLE_SIZE + 50}
    assert (drawn["cases"], drawn["calls"]) == (SAMPLE_SIZE + 50, SAMPLE_SIZE + 50)
    text = " ".join(told("--no-brief").split())
    assert f"from {SAMPLE_SIZE:,} of {SAMPLE_SIZE + 50:,} cases" in text
    assert "--exact" in text
    exact = json.loads(told("--json", "--exact"))
    assert exact["sampled"] is None
    assert exact["judges"][0]["margin"] == 0
    assert abs(drawn["judges"][0]["text_tokens"] / exact["judges"][0]["text_tokens"] - 1) < 0.02


@given(st.integers(0, 300), st.integers(1, 300))
def test_a_draw_is_ascending_without_repetition_and_of_the_size_asked_for(count: int, most: int) -> None:
    places = range(5, 5 + count)
    found = list(draw_sample(places, most))
    assert len(found) == min(count, most)
    assert found == sorted(set(found))
    assert set(found) <= set(places)
    assert list(pick_positions(range(5 + count), found)) == found


def test_every_place_has_the_same_chance() -> None:
    found = draw_sample(range(10_000), 1000)
    by_tenth = [sum(place // 1000 == tenth for place in found) for tenth in range(10)]
    assert min(by_tenth) > 60


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=50))
def test_a_margin_is_nothing_where_all_are_drawn_and_shrinks_with_the_draw(parts: list[float]) -> None:
    spread = SampleSpread()
    for part in parts:
        spread.add(part)
    assert spread.margin(len(parts), len(parts)) == 0
    assert 0 <= spread.margin(len(parts), len(parts) + 1) <= spread.margin(len(parts), 100 * len(parts))


def test_a_draw_that_tells_nothing_says_so() -> None:
    assert SampleSpread().margin(1, 10) == 1
    assert SampleSpread().margin(10, 100) == 1
