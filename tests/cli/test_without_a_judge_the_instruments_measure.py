"""Without a judge, the command line measures, offline; what was left open is said, and no score is exit code 3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from support.images import read_bgr

EDIT = 'judge edit-preservation before.png after.png --set instruction="add a patch" '
DESCRIPTION = 'judge description --set input=What? --set "output=A cup on a table." '
RESTYLE = "judge restyle before.png after.png --set style=Anime "


def test_an_edit(run: Any, folder: Path) -> None:
    done = run(EDIT)
    assert done.code == 0
    assert "measured, not seen" in done.out
    assert "instruments" in done.out
    assert done.err == ""


def test_a_restyle_has_its_coverage_and_its_range_on_the_card(run: Any, folder: Path) -> None:
    done = run(RESTYLE)
    assert done.code == 3
    said = " ".join(done.out.replace("│", " ").split())
    assert "no score: unmeasured" in said
    assert "of 23 assertions measured; the total lies between " in said
    assert "of 25; no grade below 80 % coverage" in said
    assert "Left open" not in said
    assert "Left open" in run(RESTYLE + "--full").out


def test_a_description_without_an_image(run: Any, folder: Path) -> None:
    done = run(DESCRIPTION + '--set "expected_output=A cup stands on a table." --json')
    assert done.code == 0
    verdict = json.loads(done.out)
    assert verdict["judge"] == "instruments"
    assert verdict["coverage"] is None
    assert verdict["measurements"]["description.human"]["value"] > 1


def test_a_description_of_which_nothing_is_expected(run: Any, folder: Path) -> None:
    done = run(DESCRIPTION)
    assert done.code == 3
    assert "0 of 4 criteria measured; no score below 80 % coverage" in done.out


def test_abstentions_have_no_seed_format(run: Any, folder: Path) -> None:
    done = run(RESTYLE + "--format seed")
    assert done.code == 3
    assert done.out == ""
    assert "is unmeasured and has no seed format: only " in done.err
    assert json.loads(run(EDIT + "--format seed").out)["online_factor_results"]["unchanged_regions"]["score"] == 7


def test_too_few_factors_are_no_score(run: Any, folder: Path) -> None:
    middle = read_bgr("before.png")
    middle[20:70, 30:90] = (40, 40, 200)
    cv2.imwrite("after.png", middle)
    turned = EDIT.replace("add a patch", "turn the dog into a cat")
    done = run(turned + "--json")
    verdict = json.loads(done.out)
    assert (done.code, verdict["outcome"], verdict["coverage"]["measured"]) == (3, "unmeasured", 2)
    assert verdict["criteria"]["unchanged_regions"]["score"] is not None
    assert run(turned + "--format seed").code == 3


def test_a_family_is_judged_as_far_as_it_can_be_measured(run: Any, folder: Path) -> None:
    done = run(EDIT.replace("edit-preservation", "edit") + "--json")
    assert done.code == 3
    scores = {line["rubric"]: line["score"] for line in map(json.loads, done.out.splitlines())}
    assert scores == {"edit-preservation": 1.0, "edit-quality": None, "edit-fidelity": None}


def test_a_threshold_is_met_or_missed_by_measuring(run: Any, folder: Path) -> None:
    assert run(EDIT + "--fail-under 90").code == 0
    cv2.imwrite("after.png", cv2.GaussianBlur(read_bgr("before.png"), (0, 0), 3))
    assert run(EDIT + "--fail-under 90").code == 1


def suite(folder: Path, rows: list[dict[str, str]], *more: str) -> str:
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return " ".join(("run --rubric edit-preservation --cases cases.jsonl --ledger l.db --json", *more))


ROWS = [
    {"id": "kept", "input": "before.png", "edited": "after.png", "instruction": "add a patch"},
    {"id": "open", "input": "before.png", "edited": "other.png", "instruction": "add a patch"},
]


@pytest.fixture
def other(folder: Path) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (90, 120, 3), np.uint8)
    cv2.imwrite("other.png", noise)


def test_a_suite_without_judges(run: Any, folder: Path, other: None) -> None:
    done = run(suite(folder, ROWS[:1]))
    assert done.code == 0, done.err
    summary = json.loads(done.out.splitlines()[-1])
    assert summary["tally"]["judges"] == {"instruments": 1}
    assert summary["tally"]["score"] == 1
    assert summary["tally"]["cost_usd"] == 0


def test_a_suite_of_which_a_case_has_no_score(run: Any, folder: Path, other: None) -> None:
    assert run(suite(folder, ROWS)).code == 3
    assert run(suite(folder, ROWS, "--max-unscored 1")).code == 0


def test_a_plan_sends_nothing(run: Any, folder: Path, other: None) -> None:
    done = run(suite(folder, ROWS).replace("run ", "plan ", 1).replace("--json", "--no-brief"))
    assert done.code == 0, done.err
    assert "instruments: measured here; nothing is sent" in done.out


def test_a_suite_with_a_budget_needs_no_price_for_it(run: Any, folder: Path, other: None) -> None:
    assert run(suite(folder, ROWS[:1], "--budget 0")).code == 0


def test_measured_answers_are_recalled_with_what_was_left_open(run: Any, folder: Path, other: None) -> None:
    first = run(suite(folder, ROWS))
    again = run(suite(folder, ROWS, "--threshold 0.5"))  # another run, by the answers of the first
    for done in (first, again):
        assert done.err == "" or "no score" in done.err, done.err
    exported = [run("export --ledger l.db --to jsonl").out]
    verdicts = [json.loads(line) for line in exported[0].splitlines()]
    assert {one["case"]: one["reused"] for one in verdicts} == {"kept": True, "open": True}
    left_open = next(one for one in verdicts if one["case"] == "open")
    assert left_open["coverage"] == {"measured": 0, "of": 3, "what": "factors"}
    assert left_open["score"] is None
    assert "measured_not_seen" in {flag["flag"] for flag in left_open["flags"]}
    assert "locality.region" in left_open["measurements"]


@pytest.mark.parametrize("flag", ["--base-url http://localhost:8000/v1", "--param temperature=0", "--key-variable KEY"])
def test_what_is_for_models_needs_a_model(run: Any, folder: Path, other: None, flag: str) -> None:
    done = run(suite(folder, ROWS, flag))
    assert done.code == 2
    assert "is for a model, and no judge of the suite is one" in done.err


def test_a_rubric_that_cannot_be_measured_is_told_before_a_run_is_begun(run: Any, folder: Path, other: None) -> None:
    done = run(suite(folder, ROWS).replace("edit-preservation", "edit-quality"))
    assert done.code == 2
    assert "instruments cannot answer edit-quality" in done.err
    assert not (folder / "l.db").exists()
