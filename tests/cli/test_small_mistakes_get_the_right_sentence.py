"""A mistyped judge, an empty file, a filter that matches nothing, a price that nobody knows: each says what to do."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from beholder.testing.server import JudgeServer

RUN = "run --rubric edit-preservation --ledger l.db --cases "
PLAN = RUN.replace("run", "plan", 1)
GOOD = {
    "criteria": {
        key: {
            "score": 6,
            "justification": "as it was before",
        }
        for key in ("unchanged_regions", "global_consistency", "identity_preservation")
    }
}
ONE_IMAGE = """
rubric: sharp-photo
version: "1"
title: Sharp photo
summary: Whether a photo is sharp.
images:
  - {role: photo, label: Photo, about: the photo}
scoring: {kind: weighted_mean, ceiling: [5, 1]}
criteria:
  - key: technique
    question: Is it technically good?
    scale: SCALE
    assertions:
      - {id: T1, text: It is sharp., measured: clean}
      - {id: T2, text: It has pixels enough., measured: print_size}
"""


@pytest.fixture
def cases(folder: Path) -> Path:
    rows = [{"id": f"c{n}", "input": "before.png", "edited": "after.png", "instruction": f"do {n}"} for n in (1, 2, 3)]
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "empty.jsonl").write_text("")
    (folder / "bad.jsonl").write_text('{"id": "c1"}\n')
    return folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (RUN + "empty.jsonl", "There is no case to judge: 'empty.jsonl' is empty."),
        (RUN + "cases.jsonl --only zzz", "--only (only=) 'zzz' matches none of the ids, such as 'c1', 'c2', 'c3'."),
        (RUN + "bad.jsonl --skip-bad", "There is no case to judge: all 1 are invalid; the first: bad.jsonl, line 1"),
        (RUN + "cases.jsonl --judge opnai:gpt-5", "did you mean 'openai:gpt-5'?"),
        (PLAN + "cases.jsonl --judge opnai:gpt-5", "did you mean 'openai:gpt-5'?"),
        (PLAN + "cases.jsonl --judge zzz:gpt-5", "No judge is named 'zzz:'; known are "),
    ],
)
def test_each_mistake_has_its_own_sentence(run: Any, cases: Path, arguments: str, said: str) -> None:
    done = run(arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.parametrize("installed", [True, False])
def test_a_budget_without_a_price_names_the_price_list_if_there_is_none(
    run: Any, cases: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *package: (
            (object() if installed else None) if name == "genai_prices" else find_spec(name, *package)
        ),
    )
    done = run(RUN + "cases.jsonl --judge openai:own-model --budget 1")
    assert done.code == 2
    assert ("beholder[prices]" in done.err) is not installed
    assert "--price-input" in done.err
    assert "in options or a suite price: {input: …, output: …}" in done.err
    assert "1.25" not in done.err  # a price that is nobody's
    planned = run(RUN.replace("run", "plan", 1) + "cases.jsonl --judge openai:own-model --budget 1")
    said = planned.out + planned.err
    assert "price" in said
    assert ("beholder[prices]" in said) is not installed


def test_what_was_not_asked_is_not_done(run: Any, cases: Path, server: JudgeServer) -> None:
    server.say(*[GOOD] * 3)
    model = f"--judge openai:m --base-url {server.openai_url} --price-input 1 --price-output 10 --no-audit"
    done = run(f"{RUN}cases.jsonl {model} --budget 0.0001")
    assert done.code == 3
    assert "0 of 3 done, 3 not asked (over budget)" in " ".join(done.out.split())
    assert not server.received
    assert "a call may cost up to $0." in done.err
    assert "--param max_tokens=N, or params: {max_tokens: N} in options or a suite" in done.err
    # And the advice helps.
    assert run(f"{RUN}cases.jsonl {model} --param max_tokens=600 --budget 0.05").code == 0
    assert len(server.received) == 3


def test_plan_shows_the_brief_only_when_asked(run: Any, cases: Path) -> None:
    plan = RUN.replace("run", "plan", 1) + "cases.jsonl "
    short, long = run(plan), run(plan + "--brief")
    assert "Unchanged regions" not in short.out
    assert "--brief" in short.out
    assert "Unchanged regions" in long.out
    assert json.loads(run(plan + "--json").out)["brief"]


def test_a_range_is_written_as_a_list(run: Any, folder: Path) -> None:
    for written in ("0-10", "0 to 10", "0..10"):
        (folder / "own.yaml").write_text(ONE_IMAGE.replace("SCALE", written))
        done = run("rubrics check own.yaml")
        assert done.code == 2
        assert "scale: should be a list and is a text; write [0, 10]" in done.out


def test_one_image_is_measured_offline(run: Any, folder: Path) -> None:
    (folder / "own.yaml").write_text(ONE_IMAGE.replace("SCALE", "[1, 5]"))
    verdict = json.loads(run("judge own.yaml before.png --json").out)
    answers = {one["id"]: one["answer"] for one in verdict["criteria"]["technique"]["assertions"]}
    assert answers == {"T1": "yes", "T2": "no"}
    assert verdict["score"] is not None
    (folder / "own.yaml").write_text(ONE_IMAGE.replace("SCALE", "[1, 5]").replace("clean", "composition_kept"))
    one, _ = json.loads(run("judge own.yaml before.png --json").out)["criteria"]["technique"]["assertions"]
    assert one["answer"] == "abstained"
    assert "compares two images" in one["evidence"]


def test_measure_takes_one_image(run: Any, folder: Path) -> None:
    measured = json.loads(run("measure before.png --json").out)
    assert measured["image"] == {"source": "before.png", "width": 120, "height": 90}
    assert measured["measurements"]["quality.sharpness"]["value"] is not None
    assert "before.png (120×90)" in run("measure before.png").out
    assert "for two images" in run("measure before.png --maps m").err
    assert "No image instrument is named 'colour'" in run("measure before.png --only colour").err


def test_agree_lists_criteria_and_no_internal_names(run: Any, cases: Path) -> None:
    run(RUN + "cases.jsonl -q")
    (cases / "ratings.csv").write_text("case,rater,aspect,score\nc1,r,beauty,3\nc2,r,beauty,4\nc3,r,beauty,5\n")
    said = run("agree latest --ledger l.db --ratings ratings.csv").err
    assert "None of the aspects that people rated (beauty)" in said
    assert "unchanged_regions" in said
    assert "measured." not in said


def test_a_ledger_is_checked_by_its_name(run: Any, cases: Path) -> None:
    run(RUN + "cases.jsonl -q")
    assert "l.db is sound" in run("ledger check l.db").out
    assert run("ledger check typo.db").code == 2
    assert "Which ledger" in run("ledger check l.db --ledger other.db").err


@pytest.mark.parametrize("form", ["object", "objects", "list"])
def test_pretty_printed_answers_are_read(run: Any, folder: Path, form: str) -> None:
    answers = [{"case": f"c{n}", "answer": GOOD} for n in range(1 if form == "object" else 3)]
    text = json.dumps(answers, indent=2) if form == "list" else "\n".join(json.dumps(one, indent=1) for one in answers)
    (folder / "answers.json").write_text(text)
    done = run("score answers.json --rubric edit-preservation --json")
    assert done.code == 0
    assert [json.loads(line)["case"] for line in done.out.splitlines()] == [one["case"] for one in answers]


def test_a_pretty_printed_list_that_breaks_off_is_told_by_line(run: Any, folder: Path) -> None:
    text = json.dumps([{"case": f"c{n}", "answer": GOOD} for n in range(3)], indent=2)
    (folder / "answers.json").write_text(text[: text.rindex('"score"')])
    done = run("score answers.json --rubric edit-preservation --json")
    assert len(done.out.splitlines()) == 2
    assert "1 line is no recorded answer" in done.err or "1 lines are no recorded answers" in done.err
