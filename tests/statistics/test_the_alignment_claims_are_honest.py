"""`make alignment`, calibrations: what is claimed is of cases that no map has seen, and a part of the data will do."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest

from beholder.bands import IntervalBand
from beholder.statistics.bootstrap import Interval
from beholder.statistics.calibration_features import Features
from beholder.statistics.calibration_held_out import predict_out_of_fold
from beholder.statistics.calibration_recipes import RECIPES, CalibrationRecipe, fit_linear
from beholder.statistics.calibration_task import CalibrationTask
from beholder.statistics.data import Bools

HERE = Path(__file__).parents[2] / "benchmarks" / "alignment"
MODELS = ("one", "two", "three")
PLAIN = {name: RECIPES[name] for name in ("constant", "line", "linear")}
FACTORS = {
    "unchanged_regions": "unchanged_regions", "global_consistency": "global_consistency",
    "identity_preservation": "identity_preservation", "scale_realism": "scale_realism",
    "spatial_relationship": "spatial_relationship", "texture_detail": "texture_and_detail",
    "image_quality": "image_quality", "color_lighting": "color_and_lighting", "seamlessness": "seamlessness",
    "alignment": "alignment", "completeness": "completeness", "plausibility": "plausibility",
}  # fmt: skip


def script(name: str) -> ModuleType:
    sys.path.insert(0, str(HERE))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(HERE))


calibration, claims, factors, run = (script(name) for name in ("calibration", "claims", "factors", "run"))


def lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def edits_folder(folder: Path, photographs: int = 8) -> Path:
    """Small edits in the layout of ImagenHub; people rate what the judge says, with some noise, and one of the judge's
    answers is short."""
    place = folder / "imagenhub"
    (place / "images").mkdir(parents=True)
    random = np.random.default_rng(len(folder.name))
    cases: list[dict[str, object]] = []
    said: list[dict[str, object]] = []
    ratings = ["case,rater,aspect,score"]
    for number in range(photographs):
        noise = random.integers(0, 255, (64, 64, 3), np.uint8)
        before = np.asarray(cv2.GaussianBlur(noise, (0, 0), 2), np.uint8)
        cv2.imwrite(str(place / "images" / f"{number}.png"), before)
        for model in MODELS:
            case, name = f"text/{model}/{number}", f"images/{number}-{model}.png"
            after = before.copy()
            after[: random.integers(8, 56)] //= 2
            cv2.imwrite(str(place / name), after)
            cases.append({
                "id": case, "task": "text", "model": model, "source": f"{folder.name}{number}", "instruction": "x",
                "input": f"images/{number}.png", "edited": name,
            })  # fmt: skip
            for aspect in ("SC", "PQ"):
                level = random.random()
                numbers = [round(10 * level), 10]
                short = aspect == "PQ" and number == 0 and model == "one"
                said.append({
                    "case": case, "judge": "gpt4o_0shot", "aspect": aspect, "scores": numbers[:1] if short else numbers
                })  # fmt: skip
                said.append({"case": case, "judge": "gemini_0shot", "aspect": aspect, "scores": numbers})
                for rater in "abc":
                    score = float(np.clip(round(2 * (level + random.normal(0, 0.15))) / 2, 0, 1))
                    ratings.append(f"{case},{rater},{aspect},{score}")
    lines(place / "cases.jsonl", cases)
    lines(place / "judge_scores.jsonl", said)
    (place / "ratings.csv").write_text("\n".join(ratings), "utf-8")
    return folder


def factors_folder(folder: Path, told: bool = True, cases: int = 30) -> Path:
    """Answers for twelve factors in the layout of edit-factors. Where `told`, people rate what the judge says."""
    place = folder / "edit-factors"
    place.mkdir(parents=True)
    random = np.random.default_rng(len(folder.name))
    answers: list[dict[str, object]] = []
    ratings = ["case,rater,aspect,score"]
    for number in range(cases):
        level = random.uniform(1, 7)
        scores = {key: int(np.clip(round(level + random.normal(0, 1)), 1, 7)) for key in FACTORS.values()}
        results = {key: {"score": score, "justification": "seen"} for key, score in scores.items()}
        answers.append({"image_id": f"{folder.name}{number}", "online_factor_results": results})
        people = level if told else random.uniform(1, 7)
        ratings += [
            f"{folder.name}{number},{rater},{aspect},{np.clip(round(people + random.normal(0, 1)), 1, 7):g}"
            for aspect in FACTORS
            for rater in "abc"
        ]
    lines(place / "answers_category_wise.jsonl", answers)
    (place / "ratings.csv").write_text("\n".join(ratings), "utf-8")
    return folder


Show = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    def show(benchmark: ModuleType, fit: Path, data: Path) -> list[dict[str, Any]]:
        assert benchmark.main(["--fit", str(fit), "--data", str(data), "--json"]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return found

    return show


@pytest.fixture(scope="module")
def edits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return edits_folder(tmp_path_factory.mktemp("data") / "first")


def test_an_aim_is_reached_by_its_value_or_by_its_whole_interval() -> None:
    found = Interval(0.7, 0.6, 0.8)
    assert claims.Claim("ρ", found, 0.7).reached
    assert not claims.Claim("ρ", found, 0.71).reached
    assert claims.Claim("ρ", found, 0.59, surely=True).reached
    assert not claims.Claim("ρ", found, 0.6, surely=True).reached
    assert not claims.Claim("ρ", Interval(None, why="constant"), 0).reached
    assert "NOT reached" in str(claims.Claim("ρ", found, 0.71))


def test_a_short_answer_costs_only_what_it_lacks(edits: Path) -> None:
    tables = [table.to_dict() for table in calibration.tables(edits, edits, PLAIN)]
    assert [table["cases"] for table in tables] == [24, 23]
    for table in tables:
        assert table["rows"][calibration.JURY]["ρ"]["value"] > 0.5
        assert set(table["rows"]) >= {"GPT-4o alone", "a constant", "one rater against the others", calibration.ONE}


# One map that is always chosen, whatever people say of a few cases: so that nothing but its fit can tell of them.
FIRM = {name: RECIPES[name] for name in ("constant", "line")}


def say(task: CalibrationTask, here: Bools) -> CalibrationTask:
    """The task, had people rated some of its cases lower."""
    values = task.ratings.values
    return replace(task, ratings=replace(task.ratings, values=np.where(here[:, None], 0.6 * values, values)))


@pytest.mark.parametrize("aspect", ["SC", "PQ"])
def test_no_map_has_seen_the_ratings_that_it_is_held_against(edits: Path, aspect: str) -> None:
    """What is said of a photograph (or a maker, where neither was seen) stays the same whatever people say of it."""
    task = calibration.tasks_of(edits)[aspect, calibration.JURY]
    said, name, _ = calibration.predicted(task, task, FIRM, same=True)
    for which, names in (("", task.groups), (calibration.NEITHER, task.groups), (calibration.NEITHER, task.makers)):
        here = np.array(names) == names[0]
        again, same_name, _ = calibration.predicted(*[say(task, here)] * 2, FIRM, same=True)
        assert name == same_name == "line, weight 1"
        for first, second in zip(said[which], again[which], strict=True):
            assert second[here] == pytest.approx(first[here])
        assert again[which][0][~here] != pytest.approx(said[which][0][~here])
    # Of a maker that it has seen, it does know.
    here = np.array(task.makers) == task.makers[0]
    again, _, _ = calibration.predicted(*[say(task, here)] * 2, FIRM, same=True)
    assert again[""][0][here] != pytest.approx(said[""][0][here])


def test_what_is_known_by_heart_of_makers_and_photographs_is_worth_nothing_where_neither_was_seen(edits: Path) -> None:
    """Numbers that name each photograph and each maker, and people who rate nothing else. Without either, what is said
    has the error of a constant, by maps of every kind."""
    plain = calibration.tasks_of(edits)["SC", calibration.ONE]
    for seed in range(3):
        random = np.random.default_rng(seed)
        photos, makers = (np.unique(names, return_inverse=True)[1] for names in (plain.groups, plain.makers))
        marks = np.column_stack([photos[:, None] == np.arange(8), makers[:, None] == np.arange(3)]).astype(float)
        people = 0.5 * random.permutation(8)[photos] / 7 + 0.5 * random.permutation(3)[makers] / 2
        judge = random.uniform(0, 10, len(people))
        raw = plain.raw.name
        task = replace(
            plain,
            features=Features((raw, *(f"given.{at}" for at in range(11))), np.column_stack([judge, marks])),
            raw=replace(plain.raw, values=judge),
            ratings=replace(plain.ratings, values=np.repeat(people[:, None], 3, axis=1)),
        )
        seen = predict_out_of_fold(task, CalibrationRecipe(lambda data: fit_linear(data, (1.0,))), np.arange(24)).values
        said = calibration.predicted(task, task, RECIPES, same=True)[0][calibration.NEITHER][0]
        constant = np.abs(people - np.median(people)).mean()
        assert np.abs(seen - people).mean() < 0.5 * constant
        assert np.abs(said - people).mean() > 0.9 * constant


def test_two_folders_are_fitted_and_tested_without_what_both_hold(edits: Path, tmp_path: Path) -> None:
    second = edits_folder(tmp_path / "second", 4)
    table = calibration.tables(edits, second, PLAIN)[0]
    assert table.counts["cases"] == 12
    copy = shutil.copytree(edits, tmp_path / "copy")
    with pytest.raises(SystemExit, match="nothing is left to fit on"):
        calibration.main(["--fit", str(copy), "--data", str(edits)])


def test_photographs_that_both_folders_hold_are_left_out_of_the_fit(edits: Path) -> None:
    """Nothing that people said of a tested photograph is known, in the map or in its intervals, by whatever maker."""
    task = calibration.tasks_of(edits)["PQ", calibration.JURY]
    shared = np.array(task.groups) == task.groups[0]
    half = task.select(shared)
    one, two, three = (
        calibration.predicted(known, half, FIRM, same=False)
        for known in (task, say(task, shared), say(task, np.array(task.groups) == task.groups[-1]))
    )
    assert set(one[0]) == {"", calibration.CONSTANT}
    for which in one[0]:
        assert one[0][which][0] == pytest.approx(two[0][which][0])
    assert one[0][""][0] != pytest.approx(three[0][""][0])
    assert one[2] == two[2]


def test_intervals_of_another_folder_are_those_of_the_folder_that_was_fitted_on() -> None:
    bands = [IntervalBand(0.0, 0.0, 0.0, 0.92, 50), IntervalBand(None, -0.1, 0.2, 0.8, 50)]
    values, ratings = np.array([0.0, 0.0, 0.5, 0.5, 0.6, 0.9]), np.array([0.0, 0.1, 0.4, 0.7, 0.81, 1.0])
    first, second = calibration.tested_bands(bands, values, ratings)
    assert (first.covered, first.cases, first.high) == (0.5, 2, 0.0)
    assert (second.covered, second.cases, second.low) == (0.75, 4, -0.1)
    assert [band.up_to for band in calibration.tested_bands(bands, values[2:], ratings[2:])] == [None]
    assert calibration.tested_bands([], values, ratings) == []


@pytest.mark.parametrize(
    ("low", "high", "covered", "honest"),
    [(-0.1, 0.2, 0.8, True), (-0.1, 0.2, 0.9, False), (0, 0, 0.92, True), (0, 0, 0.7, False), (0, 0.2, 0.92, False)],
)
def test_more_than_should_be_is_covered_honestly_only_by_a_single_point(
    low: float, high: float, covered: float, honest: bool
) -> None:
    assert calibration.is_honest(IntervalBand(None, low, high, covered, 50)) is honest


def test_factors_are_paired_by_name(tmp_path: Path) -> None:
    first, second = (factors.tasks_of(factors_folder(tmp_path / name), factors.JUDGE) for name in ("one", "three"))
    turned = dict(reversed(first.items()))
    plain, other = (factors.Errors(known, second, same=False) for known in (first, turned))
    weights = np.ones((1, len(plain.cases)))
    for aspect in plain.factors:
        found = [one.factors[aspect][factors.MAP](weights)[0] for one in (plain, other)]
        assert found[0] == found[1]
    few = {aspect: task for aspect, task in first.items() if aspect != "alignment"}
    assert "alignment" not in factors.Errors(few, second, same=False).factors
    with pytest.raises(SystemExit, match="nothing to test"):
        factors.Errors({}, second, same=False)


def test_a_judge_that_tells_is_nearer_than_a_constant_and_one_that_does_not_is_not(tmp_path: Path, show: Show) -> None:
    told, untold = factors_folder(tmp_path / "told"), factors_folder(tmp_path / "untold", told=False)
    for data, reached in ((told, True), (untold, False)):
        by_factor, by_judge = show(factors, data, data)
        assert by_factor["claims"][0]["reached"] is reached
        # Where a map is no nearer than a constant, `calibrate` writes none.
        assert by_factor["claims"][2]["reached"]
        assert by_factor["claims"][2]["found"]["value"] == 12
        if not reached:
            assert by_factor["claims"][1]["found"]["value"] < 12
            assert by_factor["notes"][2].count(",") == 11  # all are left out
        assert len(by_factor["rows"]) == 13
        assert set(by_judge["rows"]) == {"category_wise"}
    elsewhere = show(factors, told, factors_folder(tmp_path / "another"))[0]
    assert elsewhere["claims"][0]["reached"]


def test_a_set_that_is_not_there_is_named_and_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = factors_folder(tmp_path / "part")
    assert run.main(["--data", str(folder), "--fit", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "Not measured: imagenhub" in printed
    assert "Not measured: flickr8k-expert" in printed
    assert "reached: error of a constant" in printed
    for benchmark in (calibration, factors):
        assert benchmark.main(["--data", str(tmp_path), "--fit", str(folder)]) == 0
        assert "No human ratings of edit" in capsys.readouterr().out
