"""A feature goes by a name under which a later verdict has the very same number, or none."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.cases.case import Case
from beholder.errors import SetupError
from beholder.images.image import ImageSource
from beholder.statistics.aspects import find_column
from beholder.statistics.calibration_features import measure_cases, measure_pixels
from beholder.statistics.calibration_task import Provenance, read_file_provenance
from beholder.statistics.data import Column, ColumnKind, Scores, read_scores, tabulate_verdicts
from beholder.verdicts.calibration import collect_numbers, look_up_number
from beholder.verdicts.verdict import AssertionResult, CriterionResult, Outcome, Verdict


def verdict(case: str, style: str | None, judge: str = "a:judge") -> Verdict:
    asked = (AssertionResult("A1", "Is it?", "yes"), AssertionResult("A2", "And that?", "no"))
    criteria = {"look": CriterionResult(4, 4, (0, 10), 1, assertions=asked)}
    return Verdict(case, "mine", "1.0", judge, Outcome.SCORED, style=style, criteria=criteria, score=0.4)


def scores(*verdicts: Verdict) -> Scores:
    return tabulate_verdicts("a run", ((one, {}) for one in verdicts))


def spelled(styles: tuple[str, ...], judged: Scores) -> Scores:
    return Provenance("a run", ("a:judge",), styles=styles).column_aliases(judged).rename_all(judged)


@pytest.mark.parametrize("styles", [("Anime",), ("Anime", "Oil"), (None,), ("Anime", None)])
def test_every_number_of_a_verdict_is_there_under_its_own_name(styles: tuple[str | None, ...]) -> None:
    verdicts = [verdict(f"case {row}", style) for row, style in enumerate(styles)]
    judged = spelled(tuple(style or "" for style in styles), scores(*verdicts))
    for row, one in enumerate(verdicts):
        numbers = collect_numbers([one])
        named = {
            name: column.values[row] for name, column in judged.columns.items() if column.kind is ColumnKind.ASSERTION
        }
        assert {name for name, value in named.items() if not np.isnan(value)} == {
            name for name in numbers if "A" in name
        }


def test_criteria_of_one_key_are_told_apart_by_their_rubrics() -> None:
    first = verdict("case 1", None)
    overall = {"look": CriterionResult(7, 7, (0, 10), 1), "score": CriterionResult(2, 2, (0, 10), 1)}
    second = replace(first, rubric="sister", criteria=overall, score=0.9)
    for judged in ([first], [second], [first, second]):
        numbers = collect_numbers(judged)
        columns = {
            name: one.values[0] for name, one in scores(*judged).columns.items() if one.kind is not ColumnKind.ASSERTION
        }
        assert {name: numbers.get(name) for name in columns} == columns
    assert "look" not in numbers


def test_an_assertion_of_one_style_is_not_that_of_another() -> None:
    judged = scores(verdict("case 1", "Anime"))
    spelling = Provenance("a run", ("a:judge",), styles=("Anime",)).column_aliases(judged)
    assert spelling.rename(judged.columns["A1"]).name == "Anime/A1"
    least = find_column("min(A1, A2)", judged)
    assert spelling.rename(least).name == "min(Anime/A1, Anime/A2)"
    assert spelling.rename(judged.columns["look"]).name == "look"
    numbers = collect_numbers([verdict("case 2", "Oil")])
    assert look_up_number("min(Anime/A1, Anime/A2)", numbers) is None
    assert look_up_number("min(Oil/A1, Oil/A2)", numbers) == 0


def test_a_file_of_several_judges_tells_of_the_one_that_is_calibrated(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.jsonl"
    both = [verdict("case 1", "Anime"), replace(verdict("case 1", "Oil", "b:judge"), rubric_version="2.0")]
    file.write_text("".join(json.dumps(one.to_dict()) + "\n" for one in both), "utf-8")
    for judged, style in zip(read_scores(file), ("Anime", "Oil"), strict=True):
        pedigree = read_file_provenance(judged, [file], None)
        assert (pedigree.judges, pedigree.styles) == ((judged.name,), (style,))
        assert pedigree.to_dict()["styles"] == [style]


def test_files_of_one_name_tell_each_of_its_own_verdicts(tmp_path: Path) -> None:
    files = [tmp_path / folder / "verdicts.jsonl" for folder in "xy"]
    for file, version in zip(files, ("1.0", "2.0"), strict=True):
        file.parent.mkdir()
        made = replace(verdict("case 1", "Anime"), rubric_version=version)
        file.write_text(json.dumps(made.to_dict()) + "\n", "utf-8")
    for file, version in zip(files, ("1.0", "2.0"), strict=True):
        [judged] = read_scores(file)
        pedigree = read_file_provenance(replace(judged, name=f"a:judge ({file})"), files, None)
        assert (pedigree.judges, pedigree.rubrics) == (("a:judge",), {"mine": version})


NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5)


@given(NUMBERS, st.sampled_from(["min", "max", "mean"]))
def test_a_combination_is_the_same_for_a_column_and_for_a_verdict(values: list[float], how: str) -> None:
    numbers = {f"c{at}": value for at, value in enumerate(values)}
    columns = {name: Column(name, ColumnKind.CRITERION, np.array([one, 0.0]), (0, 1)) for name, one in numbers.items()}
    found = find_column(f"{how}({','.join(numbers)})", Scores("a judge", ("x", "y"), columns))
    assert look_up_number(found.name, numbers) == found.values[0]


class Fatal:
    """What ends the process that it is sent to."""

    def __reduce__(self) -> Any:
        return os._exit, (1,)


def test_a_process_that_dies_while_measuring_is_one_plain_sentence() -> None:
    pair: Any = (Fatal(), Fatal())
    with pytest.raises(SetupError, match="ended from outside after 0 of 1 cases") as told:
        measure_pixels({"case 1": pair}, workers=1)
    assert "\n" not in str(told.value)


def test_measuring_says_how_far_it_is_and_what_it_could_not_measure(tmp_path: Path) -> None:
    image = tmp_path / "image.png"
    cv2.imwrite(str(image), np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8))
    pair: dict[str, ImageSource] = {"input": image, "edited": image}
    cases = [Case("pair", pair), Case("lone", {"image": image}), Case("gone", {**pair, "edited": tmp_path / "no.png"})]
    steps: list[tuple[str, int, int]] = []
    measured, failed = measure_cases(cases, ["colour"], lambda what, done, of: steps.append((what, done, of)))
    assert list(measured) == ["pair"]
    assert all(name.startswith("pixels.colour") for name in measured["pair"])
    assert failed["lone"] == "it has no two images to compare"
    assert "no.png" in failed["gone"]
    assert steps == [("measuring", 0, 2), ("measuring", 1, 2), ("measuring", 2, 2)]
