"""Ratings, scores and verdicts are read whole; what cannot be used is named by its line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.ledger import entry, run_record

from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.statistics.data import (
    ColumnKind,
    add_groups,
    load_run_scores,
    read_groups,
    read_ratings,
    read_scores,
    select_group,
    tabulate_verdicts,
)
from beholder.statistics.pairs import COMPARED_KINDS, load_compared_run
from beholder.verdicts.verdict import AssertionResult, CriterionResult, Jury, Outcome, Verdict


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_ratings_are_cases_by_raters(tmp_path: Path) -> None:
    path = written(
        tmp_path, "r.csv", "\ufeffcase,rater,aspect,score\r\na,x,SC,1\r\na,y,SC,0.5\r\nb,x,SC,\r\nb,y,SC,0\r\n"
    )
    found = read_ratings(path)["SC"]
    assert (found.cases, found.raters) == (("a", "b"), ("x", "y"))
    np.testing.assert_array_equal(found.values, [[1, 0.5], [np.nan, 0]])
    np.testing.assert_array_equal(found.mean(), [0.75, 0])
    np.testing.assert_array_equal(found.for_cases(["b", "unknown"]).values, [[np.nan, 0], [np.nan, np.nan]])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("case,rater,aspect,score\na,x,SC,good\n", "line 2: the score 'good' is no number"),
        ("case,rater,aspect,score\na,x,SC,nan\n", "line 2: the score 'nan' is no score"),
        ("case,rater,aspect,score\na,x,SC,1e308\n", "line 2: the score '1e308' is no score; at most 1e\\+09 is"),
        ("case,rater,aspect,score\na,,SC,1\n", "line 2: there is no rater"),
        ("case,rater,aspect,score\na,x,SC,1\na,x,SC,2\n", "line 3: 'x' rates 'SC' of 'a' a second time"),
        ("case,rater,aspect,score\n", "holds no rating"),
        ("id,who\na,x\n", "there is no rater and no aspect; a row has case, rater, aspect, score"),
    ],
)
def test_what_is_no_rating_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_ratings(written(tmp_path, "r.csv", text))


def test_scores_of_several_judges_stand_apart(tmp_path: Path) -> None:
    path = written(tmp_path, "s.csv", "case,judge,aspect,score\na,j,SC,7\nb,j,SC,3\na,k,SC,1\n")
    first, second = read_scores(path)
    assert (first.name, first.cases, second.name, second.cases) == ("j", ("a", "b"), "k", ("a",))
    np.testing.assert_array_equal(first.columns["SC"].values, [7, 3])


def verdict(case: str, score: int | None, *, style: str | None = None, rubric: str = "restyle") -> Verdict:
    asserted = AssertionResult("A1", "Is it?", "yes"), AssertionResult("A2", "Has it?", "not_applicable")
    result = CriterionResult(score, score, (1, 5), 1.0, assertions=asserted)
    if score is None:
        return Verdict(case, rubric, "1", "j", Outcome.REFUSED, detail="it would not", style=style)
    return Verdict(case, rubric, "1", "j", Outcome.SCORED, criteria={"accuracy": result}, score=score / 5, style=style)


def test_verdicts_are_columns_and_a_refusal_is_said(tmp_path: Path) -> None:
    spread = Jury(2, 0, {"accuracy": 2, "score": 0.4}, None, ())
    lines: list[tuple[Verdict, Mapping[str, str]]] = [
        (verdict("a", 4), {"source": "p1"}),
        (verdict("b", None), {}),
        (replace(verdict("c", 2), jury=spread, measurements={"m.x": {"value": 3.5}}), {}),
    ]
    found = tabulate_verdicts("these", lines)
    assert found.cases == ("a", "b", "c")
    assert found.missing_reasons == {"b": "refused, it would not"}
    assert found.groups == {"source": ("p1", "", "")}
    kinds = {name: column.kind for name, column in found.columns.items()}
    assert kinds == {
        "accuracy": ColumnKind.CRITERION,
        "A1": ColumnKind.ASSERTION,
        "score": ColumnKind.OVERALL,
        "spread.accuracy": ColumnKind.SPREAD,
        "spread.score": ColumnKind.SPREAD,
        "measured.m.x": ColumnKind.MEASUREMENT,
    }
    np.testing.assert_array_equal(found.columns["accuracy"].values, [4, np.nan, 2])
    assert found.columns["accuracy"].scale == (1, 5)
    path = tmp_path / "v.jsonl"
    path.write_text("\n".join(json.dumps(one.to_dict() | {"groups": dict(groups)}) for one, groups in lines), "utf-8")
    (again,) = read_scores(path)
    assert again.name == "j (v.jsonl)"
    assert again.groups == found.groups
    assert again.missing_reasons == found.missing_reasons
    for name, column in found.columns.items():
        np.testing.assert_array_equal(again.columns[name].values, column.values)


def test_a_run_to_compare_has_all_columns_but_the_measured_ones(tmp_path: Path) -> None:
    spread = Jury(2, 0, {"accuracy": 2, "score": 0.4}, None, ())
    measured = replace(verdict("c", 2), jury=spread, measurements={"m.x": 3.5}, passed=True)
    odd = replace(verdict("d", 3), assessment="\ud800")  # of which no part can be read by itself
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.start(run_record("r1"))
        ledger.write(
            "r1", [entry(at, one) for at, one in enumerate((verdict("a", 4), verdict("b", None), measured, odd))]
        )
        whole, compared = load_run_scores(ledger, "r1"), load_compared_run(ledger, "r1").scores
    assert (compared.cases, compared.groups, compared.missing_reasons) == (
        whole.cases,
        whole.groups,
        {"b": "refused, it would not"},
    )
    kept = {name: column for name, column in whole.columns.items() if column.kind in COMPARED_KINDS}
    assert list(compared.columns) == list(kept) == ["accuracy", "A1", "score", "passed"]
    for name, column in compared.columns.items():
        np.testing.assert_array_equal(column.values, kept[name].values)
        assert (column.scale, column.question) == (kept[name].scale, kept[name].question)


def test_styles_and_rubrics_keep_their_names_apart() -> None:
    found = tabulate_verdicts("these", [(verdict("a", 4, style="Anime"), {}), (verdict("b", 2, style="Doodle"), {})])
    assert {"Anime/A1", "Doodle/A1", "score"} <= found.columns.keys()
    both = tabulate_verdicts("these", [(verdict("a", 4), {}), (verdict("a", 2, rubric="other"), {})])
    assert {"restyle.score", "other.score"} <= both.columns.keys()
    assert {"restyle.accuracy", "other.accuracy"} <= both.columns.keys()
    np.testing.assert_array_equal(both.columns["restyle.accuracy"].values, [4])
    np.testing.assert_array_equal(both.columns["other.accuracy"].values, [2])
    with pytest.raises(UsageError, match="two verdicts on 'a'"):
        tabulate_verdicts("these", [(verdict("a", 4), {}), (verdict("a", 4), {})])


def test_two_columns_never_have_one_name() -> None:
    named = CriterionResult(4, 4, (1, 5), 1.0, assertions=(AssertionResult("A1", "Is it?", "yes"),))
    one = Verdict("a", "mine", "1", "j", Outcome.SCORED, criteria={"score": named}, score=0.8)
    found = tabulate_verdicts("these", [(one, {})])
    assert {name: column.values[0] for name, column in found.columns.items()} == {
        "score.score": 4,
        "A1": 1,
        "score": 0.8,
    }
    twice = Verdict("a", "mine", "1", "j", Outcome.SCORED, criteria={"A1": named}, score=0.8)
    with pytest.raises(UsageError, match="Two columns of these are called 'A1'"):
        tabulate_verdicts("these", [(twice, {})])


def test_groups_come_from_a_case_file_that_holds_more(tmp_path: Path) -> None:
    path = written(tmp_path, "c.jsonl", '{"id": "a", "source": "p1", "references": ["x"], "size": 3}\n')
    assert read_groups(path) == {"a": {"source": "p1", "size": "3"}}
    scores = add_groups(tabulate_verdicts("these", [(verdict("a", 4), {}), (verdict("b", 4), {})]), read_groups(path))
    assert scores.groups == {"source": ("p1", ""), "size": ("3", "")}
    assert select_group(scores, None) == ("p1", "")
    assert scores.select([1]).groups["source"] == ("",)
    with pytest.raises(
        UsageError, match="no case of these is in a group 'sauce'; there are: source, size".capitalize()
    ):
        select_group(scores, "sauce")


@pytest.mark.parametrize("name", ["missing.csv", "missing.jsonl", "ratings.txt"])
def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path, name: str) -> None:
    for read in (read_ratings, read_scores, read_groups):
        with pytest.raises(UsageError):
            read(tmp_path / name)
