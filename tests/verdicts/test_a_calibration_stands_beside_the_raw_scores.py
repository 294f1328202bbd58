"""A calibrated verdict says what people would, with an interval, and keeps everything that the judge said."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from support.calibration_files import file_values

from beholder.ledger.export import ExportColumns, flatten_verdict
from beholder.ledger.query import tally_verdicts
from beholder.ledger.types import StoredVerdict
from beholder.reports.cards import render_verdict
from beholder.verdicts.calibration import apply_calibration, collect_numbers, look_up_number, parse_calibration
from beholder.verdicts.verdict import AssertionResult, CriterionResult, Jury, Outcome, Verdict


def verdict(score: float = 8, answer: str = "yes", **changes: Any) -> Verdict:
    criteria = {
        "quality": CriterionResult(score, score, (0, 10), 1, assertions=(AssertionResult("A1", "Is it?", answer),)),
        "other": CriterionResult(3, 3, (0, 10), 1),
    }
    made = Verdict("case 1", "mine", "1.0", "openai:gpt-5-mini", Outcome.SCORED, criteria=criteria, score=0.55)
    return replace(made, grade="B", passed=True, **changes)


def applied(given: Verdict, values: dict[str, Any] | None = None, **how: Any) -> Verdict:
    [found] = apply_calibration(parse_calibration(values or file_values()), [given], **how)
    return found


def test_it_says_what_people_would_and_changes_nothing_else() -> None:
    given = verdict()
    found = applied(given)
    people = found.calibrated["looks"]
    assert people.value == pytest.approx(0.5 + 0.4 * 0.6 + 0.2 * 0.5)
    assert people.value is not None
    assert people.low == pytest.approx(people.value - 0.2)
    assert people.high == pytest.approx(people.value + 0.1)
    assert (people.raw, people.scale, people.why, people.filled) == (8, (0.0, 1.0), "", ())
    assert people.calibration == parse_calibration(file_values()).digest[:12]
    assert replace(found, calibrated={}) == given


def test_it_stays_on_the_human_scale() -> None:
    """The interval is that of a rating at the end, however far beyond it the map says: its errors were those of ratings
    on the scale."""
    people = applied(verdict(1000)).calibrated["looks"]
    assert (people.low, people.value, people.high) == (0.8, 1.0, 1.0)
    people = applied(verdict(-1000)).calibrated["looks"]
    assert (people.low, people.value, people.high) == (0.0, 0.0, 0.1)


def test_what_was_sometimes_missing_may_be_missing_and_is_named() -> None:
    people = applied(verdict(answer="not_applicable")).calibrated["looks"]
    assert people.value == pytest.approx(0.5 + 0.4 * 0.6 + 0.2 * 0.5)
    assert people.filled == ("A1",)


def test_what_was_never_missing_may_not_be() -> None:
    values = file_values(inputs=[{"name": "quality", "median": 5.0}, {"name": "pixels.structure.ssim", "median": 0.9}])
    people = applied(verdict(), values).calibrated["looks"]
    assert people.value is None
    assert people.why == "pixels.structure.ssim is missing here, which the map needs"
    assert people.raw == 8
    known = applied(verdict(), values, extra={"pixels.structure.ssim": 0.5}).calibrated["looks"]
    assert known.value is not None


@pytest.mark.parametrize("share", [0.0, 0.03])  # of the fitted cases in which the judge left a number out
@pytest.mark.parametrize("form", ["juror.{}.quality", "min(juror.{0}.quality, juror.{0}.other)"])
def test_a_judge_that_was_not_asked_is_told_from_one_with_a_similar_name(form: str, share: float) -> None:
    asked = [f"juror.openai:gpt-4.1.{key}" for key in ("quality", "other", "third")]
    missing = form.format("openai:gpt-4.5")
    names = ["quality", *asked, missing]
    weights = {"means": [5.0] * 5, "scales": [5.0] * 5, "weights": [0.1] * 5}
    values = file_values(
        inputs=[{"name": name, "median": 5.0, "missing": share} for name in names],
        map={"kind": "linear", "intercept": 0.5, **weights},
    )
    people = applied(verdict(), values, extra=dict.fromkeys(asked, 5.0)).calibrated["looks"]
    assert (people.value, people.why) == (None, f"{missing} is missing here, which the map needs")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rubric": "theirs"}, "it was fitted for the rubric mine, and this is theirs"),
        ({"rubric_version": "2.0"}, "it was fitted for mine 1.0, and this is version 2.0"),
        ({"style": "Ink"}, "it was fitted for the style Anime, Oil, and this is Ink"),
        ({"judge": "google:gemini"}, "it was fitted for the judge openai:gpt-5-mini, and this is google:gemini"),
    ],
)
def test_another_rubric_or_judge_is_refused_unless_stated(changes: dict[str, Any], says: str) -> None:
    given = verdict(**changes)
    values = file_values()
    values["made"]["styles"] = ["Anime", "Oil"]
    people = applied(given, values).calibrated["looks"]
    assert (people.value, people.why) == (None, says)
    assert applied(given, values, anyway=True).calibrated["looks"].value is not None
    for style in (None, "Oil"):
        assert applied(verdict(style=style), values).calibrated["looks"].value is not None


def test_an_assertion_is_that_of_its_style() -> None:
    inputs = [{"name": "quality", "median": 5.0}, {"name": "Anime/A1", "median": 1.0}]
    values = file_values(inputs=inputs)
    assert applied(verdict(style="Anime"), values).calibrated["looks"].value is not None
    other = applied(verdict(style="Ink"), values, anyway=True).calibrated["looks"]
    assert (other.value, other.why) == (None, "Anime/A1 is missing here, which the map needs")


def test_a_verdict_without_scores_is_left_as_it_is() -> None:
    refused = replace(verdict(), outcome=Outcome.REFUSED, criteria={}, score=None)
    assert applied(refused) == refused


def test_verdicts_by_several_rubrics_are_taken_together() -> None:
    values = file_values(inputs=[{"name": "quality", "median": 5.0}, {"name": "far", "median": 5.0}])
    values["made"]["rubrics"]["sister"] = "1.0"
    sister = replace(verdict(), rubric="sister", criteria={"far": CriterionResult(10, 10, (0, 10), 1)})
    first, second = apply_calibration(parse_calibration(values), [verdict(), sister])
    assert first.calibrated["looks"].value == 1.0
    assert second.calibrated == {}
    assert applied(verdict(), values).calibrated["looks"].why.startswith("far is missing")


@pytest.mark.parametrize("raw", ["quality", "score"])
def test_the_own_number_of_a_verdict_is_taken_where_another_has_one_of_that_name(raw: str) -> None:
    inputs = [{"name": name, "median": 5.0} for name in (raw, "other", "A1")]
    weights = {"means": [5.0] * 3, "scales": [5.0] * 3, "weights": [0.4, 0.1, 0.1]}
    values = file_values(raw=raw, inputs=inputs, map={"kind": "linear", "intercept": 0.5, **weights})
    sister = replace(verdict(1), rubric="sister", criteria={"quality": CriterionResult(1, 1, (0, 10), 1)}, score=0.1)
    first, second = apply_calibration(parse_calibration(values), [verdict(), sister])
    assert first.calibrated == applied(verdict(), values).calibrated
    assert first.calibrated["looks"].filled == ()
    assert second.calibrated["looks"].value is None


def test_an_aspect_whose_own_number_is_missing_is_not_rated() -> None:
    criteria = {"other": verdict().criteria["other"]}
    inputs = [{"name": name, "median": 5.0} for name in ("quality", "other", "score")]
    weights = {"means": [5.0] * 3, "scales": [5.0] * 3, "weights": [0.4, 0.1, 0.1]}
    values = file_values(inputs=inputs, map={"kind": "linear", "intercept": 0.5, **weights})
    assert applied(verdict(criteria=criteria), values).calibrated == {}


def test_numbers_go_by_the_names_that_statistics_give_them() -> None:
    jury = Jury(2, 0, {"quality": 3, "score": 0.1}, None, ())
    given = verdict(
        style="Anime", jury=jury, measurements={"a.b": {"value": 0.5, "unit": "", "sentence": ""}, "c": "?"}
    )
    found = collect_numbers([given])
    assert found == {
        "quality": 8,
        "other": 3,
        "mine.quality": 8,
        "mine.other": 3,
        "Anime/A1": 1,
        "score": 0.55,
        "mine.score": 0.55,
        "spread.quality": 3,
        "spread.score": 0.1,
        "measured.a.b": 0.5,
    }
    assert look_up_number("min(quality, other)", found) == 3
    assert look_up_number("mean(quality,other)", found) == 5.5
    assert look_up_number("max(quality, gone)", found) is None
    assert look_up_number("sum(quality, other)", found) is None
    assert collect_numbers([verdict()])["A1"] == 1


def test_cards_columns_and_means_show_both() -> None:
    found = applied(verdict())
    text = io.StringIO()
    Console(file=text, width=110).print(render_verdict(found))
    assert "people would say 0.84 (0.64 to 0.94 of 1); the judge said 8" in text.getvalue()
    text = io.StringIO()
    Console(file=text, width=110).print(render_verdict(applied(verdict(judge="x:y"))))
    assert "looks: not calibrated, it was fitted for the judge" in text.getvalue()
    one = StoredVerdict(0, found, {}, False)
    columns = ExportColumns()
    columns.add(one)
    names = list(columns.kinds)
    at = names.index("looks.calibrated")
    assert names[at : at + 3] == ["looks.calibrated", "looks.calibrated_low", "looks.calibrated_high"]
    assert flatten_verdict(one)["looks.calibrated"] == pytest.approx(0.84)
    assert tally_verdicts([one]).rubrics["mine"].calibrated["looks"].value == pytest.approx(0.84)
    plain = ExportColumns()
    plain.add(replace(one, verdict=verdict()))
    assert not any("calibrated" in name for name in plain.kinds)


def test_it_reads_back_from_json() -> None:
    found = applied(verdict(answer="not_applicable"))
    assert Verdict.from_dict(json.loads(json.dumps(found.to_dict()))) == found
