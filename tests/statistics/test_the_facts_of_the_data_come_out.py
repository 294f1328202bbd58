"""On the shared data, the developers' half: the facts that its README lists come out of `agree`, near where they were
measured on the whole sets, and exactly where the README gives them for this half."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from beholder.judges.recorded import Rescorer, read_recorded
from beholder.rubrics.load import load_rubrics
from beholder.statistics.agreement import AgreementOptions, CriterionAgreement, JudgeAgreement, agree
from beholder.statistics.bootstrap import Interval
from beholder.statistics.data import (
    Column,
    ColumnKind,
    Scores,
    add_groups,
    read_groups,
    read_ratings,
    tabulate_verdicts,
)
from beholder.statistics.raters import ReferenceMode
from beholder.verdicts.verdict import Verdict

FOLDER = Path(__file__).parents[2] / ".." / "shared" / "data"
TOLERANCE = 0.06  # half of the data against all of it


@pytest.fixture(scope="module")
def data() -> Path:
    if not (FOLDER / "README.md").is_file():
        if os.environ.get("CI"):
            pytest.fail(f"CI runs with the shared data, and {FOLDER} does not have it")
        pytest.skip(f"the shared data is not at {FOLDER}")
    return FOLDER


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def value(estimate: Interval) -> float:
    assert estimate.value is not None
    return estimate.value


def by_aspect(found: JudgeAgreement) -> Mapping[str, CriterionAgreement]:
    return {one.aspect: one for one in found.criteria}


@pytest.fixture(scope="module", params=["text", "mask"])
def task(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def gpt4o(data: Path, task: str) -> Mapping[str, CriterionAgreement]:
    """The smaller of GPT-4o's two numbers, or the one where it gave but one."""
    said: dict[str, dict[str, float]] = {}
    for line in lines(data / "imagenhub" / "judge_scores.jsonl"):
        if line["judge"] == "gpt4o_0shot" and line["case"].startswith(task) and line["scores"]:
            said.setdefault(line["case"], {})[line["aspect"]] = min(line["scores"])
    columns = {
        aspect: Column(
            aspect, ColumnKind.CRITERION, np.array([one.get(aspect, np.nan) for one in said.values()]), (0, 10)
        )
        for aspect in ("SC", "PQ")
    }
    scores = add_groups(Scores("GPT-4o", tuple(said), columns), read_groups(data / "imagenhub" / "cases.jsonl"))
    return by_aspect(agree(scores, read_ratings(data / "imagenhub" / "ratings.csv"), AgreementOptions(draw_count=300)))


def test_gpt4o_ranks_edits_as_it_was_measured(gpt4o: Mapping[str, CriterionAgreement], task: str) -> None:
    found = [value(gpt4o[aspect].coefficients["spearman"]) for aspect in ("SC", "PQ")]
    if task == "text":
        assert [round(one, 3) for one in found] == [0.658, 0.535]
    else:
        assert found == pytest.approx([0.664, 0.503], abs=TOLERANCE)


def test_one_rater_against_the_others(gpt4o: Mapping[str, CriterionAgreement], task: str) -> None:
    found = [value(gpt4o[aspect].people["rater_spearman"]) for aspect in ("SC", "PQ")]
    assert found == pytest.approx({"text": [0.745, 0.686], "mask": [0.756, 0.699]}[task], abs=TOLERANCE)


@pytest.fixture(scope="module")
def category_wise(data: Path) -> JudgeAgreement:
    """GPT-5-mini's answers that compare the input with the edited image (`online`)."""
    problems: list[str] = []
    rescorers = [Rescorer(one, setting="online", style_folders=[], family=True) for one in load_rubrics("edit")]
    recorded = read_recorded(data / "edit-factors" / "answers_category_wise.jsonl", problems.append)
    verdicts: list[tuple[Verdict, Mapping[str, str]]] = [
        (rescorer.verdict(one)[0], {}) for one in recorded for rescorer in rescorers
    ]
    assert not problems
    scores = tabulate_verdicts("GPT-5-mini", verdicts)
    return agree(scores, read_ratings(data / "edit-factors" / "ratings.csv"), AgreementOptions(draw_count=300))


def test_raters_of_edit_factors_barely_agree(category_wise: JudgeAgreement) -> None:
    published = {
        "unchanged_regions": 0.13,
        "global_consistency": 0.06,
        "identity_preservation": 0.10,
        "completeness": 0.39,
    }
    criteria = by_aspect(category_wise)
    found = {aspect: value(criteria[aspect].people["alpha_interval"]) for aspect in published}
    assert found == pytest.approx(published, abs=TOLERANCE)


def test_the_judge_of_edit_factors_ranks_a_little(category_wise: JudgeAgreement) -> None:
    """On 41 cases a fact measured on more of them need only lie in the interval."""
    published = {"unchanged_regions": 0.43, "global_consistency": 0.34, "identity_preservation": 0.37}
    for aspect, fact in published.items():
        found = by_aspect(category_wise)[aspect].coefficients["spearman"]
        assert found.low is not None
        assert found.high is not None
        assert found.low <= fact <= found.high


def test_raw_numbers_are_further_from_people_than_a_constant(category_wise: JudgeAgreement) -> None:
    assert len(category_wise.criteria) == 12
    assert value(category_wise.overall["mae"]) == pytest.approx(1.05, abs=TOLERANCE)
    assert value(category_wise.overall["constant"]) == pytest.approx(0.73, abs=TOLERANCE)
    difference = category_wise.overall["difference"]
    assert value(difference) > 0
    assert difference.excludes_zero


def test_tf_idf_on_flickr8k_as_in_the_literature(data: Path) -> None:
    """Kendall's τc with each expert's rating a point of its own; cases of one image belong together."""
    cases = list(lines(data / "flickr8k-expert" / "cases.jsonl"))
    references = [" ".join(case["references"]) for case in cases]
    model = TfidfVectorizer().fit(references)
    one, other = model.transform(case["output"] for case in cases), model.transform(references)
    cosine = np.asarray(one.multiply(other).sum(axis=1)).ravel()
    columns = {"description": Column("description", ColumnKind.CRITERION, cosine, (0, 1))}
    groups = {"image": tuple(case["image"] for case in cases)}
    scores = Scores("tf-idf", tuple(case["id"] for case in cases), columns, groups)
    asked = AgreementOptions(against=ReferenceMode.EACH, group="image", draw_count=100)
    found = agree(scores, read_ratings(data / "flickr8k-expert" / "ratings.csv"), asked).criteria[0]
    assert found.ratings == 3 * len(cases)
    assert 100 * value(found.coefficients["tau_c"]) == pytest.approx(43.5, abs=1)
