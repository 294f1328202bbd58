"""Answers that real models gave, in ../shared/data: every one is read, and what is odd about them is counted.

Run with `-s` to see the counts.
"""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from beholder.judges.recorded import RecordedAnswer, Rescorer, read_recorded
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.seed_format import to_seed_format
from beholder.verdicts.verdict import Outcome, Verdict

FACTORS = {
    "edit-preservation": ("unchanged_regions", "global_consistency", "identity_preservation"),
    "edit-quality": ("scale_realism", "spatial_relationship", "texture_and_detail", "image_quality",
                     "color_and_lighting", "seamlessness"),
    "edit-fidelity": ("alignment", "completeness", "plausibility"),
}  # fmt: skip


def rescored(rubric: str, setting: str, lines: list[dict[str, Any]]) -> list[tuple[Verdict, Rubric]]:
    rescorer = Rescorer(Rubric.load(rubric), setting=setting)
    return [rescorer.verdict(RecordedAnswer(line["image_id"], json.dumps(line), {})) for line in lines]


def told(verdict: Verdict) -> None:
    """The verdict on one line, for a reader of the counts."""
    flags = dict(Counter(flag.flag for flag in verdict.flags))
    corrections = [(one.at, one.said, one.stands) for one in verdict.corrections]
    print(f"\n{verdict.outcome} {verdict.total} {verdict.grade} {verdict.detail[:120]} {flags} {corrections}")


@pytest.fixture(scope="session")
def lines(shared: Path) -> list[dict[str, Any]]:
    found = sorted((shared / "data" / "edit-factors").glob("answers_*.jsonl"))
    return [json.loads(line) for path in found for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("rubric", FACTORS)
@pytest.mark.parametrize("setting", ["online", "offline"])
def test_every_edit_answer_is_scored(rubric: str, setting: str, lines: list[dict[str, Any]]) -> None:
    assert len(lines) == 718
    kinds: Counter[str] = Counter()
    flagged: Counter[str] = Counter()
    for line, (verdict, _) in zip(lines, rescored(rubric, setting, lines), strict=True):
        assert verdict.outcome is Outcome.SCORED, verdict.detail
        assert verdict.setting == setting
        results = line[f"{setting}_factor_results"]
        said = {key: results[key]["score"] for key in FACTORS[rubric]}
        assert {key: result.score for key, result in verdict.criteria.items()} == said
        assert verdict.score == float(Fraction(sum(said.values()) - len(said), 6 * len(said)))
        words = [len(results[key]["justification"].split()) for key in FACTORS[rubric]]
        wrong = sum(not 15 <= count <= 30 for count in words)
        kinds.update(flag.flag for flag in verdict.flags)
        flagged.update({flag.flag for flag in verdict.flags})
        assert sum(flag.flag == "reason_length" for flag in verdict.flags) == wrong
        assert not verdict.corrections
    print(f"\n{rubric} {setting}: flags {dict(kinds)}; verdicts with one {dict(flagged)}")
    # Every line holds both settings and all twelve factors; nothing else is odd about them but the length of reasons.
    assert set(kinds) <= {"other_setting", "sister_criteria", "reason_length"}
    assert flagged["other_setting"] == flagged["sister_criteria"] == len(lines)
    assert 0.3 * len(lines) < flagged["reason_length"] < len(lines)


def test_every_edit_answer_reads_back_from_the_seeds_form(lines: list[dict[str, Any]]) -> None:
    for rubric in FACTORS:
        rescorer = Rescorer(Rubric.load(rubric))
        for verdict, settled in rescored(rubric, "offline", lines):
            again = rescorer.verdict(RecordedAnswer(verdict.case, to_seed_format(verdict, settled), {}))[0]
            assert again.setting == "offline"
            assert again.to_dict()["criteria"] == verdict.to_dict()["criteria"]


def test_without_a_setting_the_answer_tells(lines: list[dict[str, Any]]) -> None:
    (verdict, _), = rescored("edit-quality", "", lines[:1])  # fmt: skip
    assert verdict.setting == "online"
    only = {key: value for key, value in lines[0].items() if key != "online_factor_results"}
    (verdict, _), = rescored("edit-quality", "", [only])  # fmt: skip
    assert verdict.setting == "offline"
    (verdict, _), = rescored("edit-quality", "online", [only])  # fmt: skip
    assert verdict.outcome is Outcome.INVALID


@pytest.fixture(scope="session")
def acrue(shared: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((shared / "data" / "acrue" / "acrue_v2_scores.json").read_text("utf-8"))
    return found


def test_the_restyle_answers_are_read_and_the_broken_one_is_not_guessed(acrue: list[dict[str, Any]]) -> None:
    rescorer = Rescorer(Rubric.load("restyle"))
    verdicts = [
        rescorer.verdict(RecordedAnswer(one["evaluation_id"], json.dumps(one), {"style": one["style"]}))[0]
        for one in acrue
    ]
    for verdict in verdicts:
        told(verdict)
    assert sorted(verdict.outcome for verdict in verdicts) == ["invalid", "scored", "scored"]
    tops = (5, 4, 3, 2)
    for record, verdict in zip(acrue, verdicts, strict=True):
        if not verdict.scored:
            continue
        for key, block in record["scores"].items():
            failed = sum(one["answer"] == "No" for one in block["assertions"])
            applies = any(one["answer"] in ("Yes", "No") for one in block["assertions"])
            expected = min(block["dimension_score"], tops[min(failed, 3)]) if applies else None
            assert verdict.criteria[key].score == expected
        assert {flag.flag for flag in verdict.flags} <= {
            "question_differs",
            "not_applicable",
            "below_guidance",
            "partial",
        }


def test_the_answer_with_confidences_is_read(shared: Path) -> None:
    (record,) = json.loads((shared / "data" / "acrue" / "acrue_v3_storybook.json").read_text("utf-8"))
    rescorer = Rescorer(Rubric.load("restyle-confidence"))
    verdict, _ = rescorer.verdict(RecordedAnswer("c", json.dumps(record), {}))  # the style stands in the answer itself
    told(verdict)
    assert verdict.scored, verdict.detail
    assert verdict.style == "Storybook"
    total = Fraction(0)
    for key, block in record["dimensions"].items():
        sure = [one["confidence"] for one in block["assertions"]]
        passed = sum(one["answer"] == "Yes" for one in block["assertions"])
        score = Fraction(passed, len(sure)) * Fraction(sum(sure), len(sure))
        assert verdict.criteria[key].score == float(score)
        total += score * Fraction(str(block["weight"]))
    assert verdict.total == float(total)
    assert verdict.criteria["accuracy"].score == 2.88


def test_recorded_answers_come_from_a_file(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps({"case": one["image_id"], "answer": one}) + "\n" for one in lines[:3]) + "\n")
    rescorer = Rescorer(Rubric.load("edit-fidelity"))
    assert [rescorer.verdict(one)[0].scored for one in read_recorded(path)] == [True] * 3
