"""`agree` on plain files and on runs: tables, one sentence for each criterion, JSON, and plain refusals."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.ledger import KEYS, case, entry, run_record, verdict

from beholder.ledger.ledger import Ledger

JUDGE = [2, 3, 5, 6, 7, 4, 3, 6, 5, 2, 7, 4]
SHIFTS = [(-1, 0, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1)]


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


@pytest.fixture
def files(folder: Path) -> Path:
    """`scores.csv` by one judge, `two.csv` by two, `ratings.csv` by three people who nearly agree, `cases.csv`."""
    people = [[min(7, max(1, one + d)) for d in SHIFTS[at % 4]] for at, one in enumerate(JUDGE)]
    write(
        folder / "ratings.csv",
        ("case", "rater", "aspect", "score"),
        (
            (f"p{at}", f"rater{k}", aspect, one)
            for aspect in ("realism", "detail")
            for at, row in enumerate(people)
            for k, one in enumerate(row)
        ),
    )
    header = ("case", "judge", "aspect", "score")
    said = [(f"p{at}", "gpt", aspect, one) for at, one in enumerate(JUDGE) for aspect in ("realism", "detail")]
    other = [(f"p{at}", "gemini", "realism", 8 - one) for at, one in enumerate(JUDGE)]
    write(folder / "scores.csv", header, said)
    write(folder / "two.csv", header, [*said, *other])
    write(folder / "ssim.csv", header, [(f"p{at}", "ssim", "all", at / 10) for at in range(len(JUDGE))])
    write(folder / "cases.csv", ("id", "source", "task"), [(f"p{at}", f"s{at // 2}", "ab"[at < 8]) for at in range(12)])
    return folder


def test_tables_a_sentence_for_each_criterion_and_the_intervals_told(run: Any, files: Path) -> None:
    done = run("agree --scores scores.csv --ratings ratings.csv --cases cases.csv --draws 200")
    assert done.code == 0
    assert done.out.startswith("gpt against people, 12 cases")
    for part in ("Spearman ρ", "one rater", "quadratic κ", "α ordinal", "ICC(1,k)", "constant", "mean of them"):
        assert part in done.out
    for aspect in ("realism", "detail"):
        # Six groups of cases cannot tell two criteria from chance.
        assert f"{aspect}: Whether the judge ranks cases better than chance cannot be told from these (ρ " in done.out
    assert "200 draws of 6 groups (seed 0)" in done.out
    assert "Every coefficient" not in done.out


def test_in_full_every_coefficient_and_every_rater_is_shown(run: Any, files: Path) -> None:
    done = run("agree --scores scores.csv --ratings ratings.csv --draws 200 --full")
    for part in ("alpha_nominal", "rater_mae", "within_one", "rater0", "most given"):
        assert part in done.out


def test_as_json(run: Any, files: Path) -> None:
    done = run("agree --scores scores.csv --ratings ratings.csv --baseline ssim.csv --draws 200 --json")
    (found,) = json.loads(done.out)["agreements"]
    assert [one["aspect"] for one in found["criteria"]] == ["realism", "detail"]
    realism = found["criteria"][0]
    assert realism["coefficients"]["spearman"]["low"] <= realism["coefficients"]["spearman"]["value"]
    assert realism["baselines"][0]["name"] == "ssim"
    assert realism["raters"] == 3


def test_other_metrics_have_a_table(run: Any, files: Path) -> None:
    done = run("agree --scores scores.csv --ratings ratings.csv --baseline ssim.csv --draws 200")
    assert "judge less metric" in done.out
    assert "ssim" in done.out


def test_several_judges_are_set_beside_people_one_after_the_other(run: Any, files: Path) -> None:
    found = json.loads(run("agree --scores two.csv --ratings ratings.csv --draws 200 --json").out)["agreements"]
    assert [one["judge"] for one in found] == ["gpt", "gemini"]


@pytest.mark.parametrize("command", ["--scores two.csv", "--scores scores.csv --with other.csv"])
def test_judge_against_judge(run: Any, files: Path, command: str) -> None:
    header = ("case", "judge", "aspect", "score")
    write(files / "other.csv", header, [(f"p{at}", "gemini", "realism", 8 - one) for at, one in enumerate(JUDGE)])
    done = run(f"agree {command} --draws 200")
    assert done.code == 0
    assert done.out.startswith("gpt against gemini")
    assert "the other judge's scores" in done.out
    assert "Same answer as the other judge beyond chance" in done.out
    for word in ("one rater", "people", "single rating"):
        assert word not in done.out


def test_yes_and_no_are_set_beside_the_majority(run: Any, files: Path) -> None:
    write(files / "yes.csv", ("case", "judge", "aspect", "score"), [(f"p{at}", "gpt", "ok", at % 2) for at in range(9)])
    people = [(f"p{at}", f"r{k}", "ok", int((at + k) % 3 > 0)) for at in range(9) for k in range(3)]
    write(files / "said.csv", ("case", "rater", "aspect", "score"), people)
    done = run("agree --scores yes.csv --ratings said.csv --draws 200")
    assert "Yes or no, against the majority of people (a tie is a failure)" in done.out
    done = run("agree --scores yes.csv --ratings said.csv --draws 200 --against each")
    assert "Yes or no, against each rating" in done.out


def test_one_case_is_one_case(run: Any, files: Path) -> None:
    write(
        files / "one.csv", ("case", "rater", "aspect", "score"), [("p1", "r", "realism", 2), ("p1", "s", "realism", 4)]
    )
    done = run("agree --scores scores.csv --ratings one.csv --draws 200")
    assert done.out.startswith("gpt against people, 1 case\n")
    assert "1 cases" not in done.out


def test_only_some_cases(run: Any, files: Path) -> None:
    done = run("agree --scores scores.csv --ratings ratings.csv --cases cases.csv --only task=b --draws 200 --json")
    (found,) = json.loads(done.out)["agreements"]
    assert found["cases"] == 8
    assert not any("Not judged" in note for note in found["notes"])


def test_a_combination_of_criteria_on_a_scale_that_is_given(run: Any, files: Path) -> None:
    words = "--map realism=min(realism,detail) --scale realism=0..10 --rating-scale 1..7"
    done = run(f"agree --scores scores.csv --ratings ratings.csv --draws 200 {words} --json")
    (found,) = json.loads(done.out)["agreements"]
    realism = found["criteria"][0]
    assert realism["criterion"] == "min(realism, detail)"
    assert (realism["judged_on"], realism["rated_on"]) == ([0, 10], [1, 7])
    assert any("mapped linearly" in note for note in found["notes"])


def test_a_run_of_the_ledger_against_people_and_against_another_run(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    with Ledger.open(folder / "beholder.db", create=True) as book:
        for name in ("aaa111", "bbb222"):
            book.start(run_record(name, name=name, total=6))
            said = [verdict(at, case=f"p{at}") for at in range(1, 7)]
            book.write(name, [entry(at, one, case=case(one)) for at, one in enumerate(said, start=1)])
            book.update(name, state="finished")
    people = [(f"p{at}", f"r{k}", KEYS[0], 1 + (at + k) % 7) for at in range(1, 7) for k in range(2)]
    write(folder / "ratings.csv", ("case", "rater", "aspect", "score"), people)
    done = run("agree aaa111 --ratings ratings.csv --draws 200")
    assert done.code == 0, done.err
    assert "against people, 6 cases" in done.out
    done = run("agree aaa111 --with bbb222 --draws 200 --json")
    (found,) = json.loads(done.out)["agreements"]
    assert "bbb222" in found["reference"]
    assert all(one["coefficients"]["mae"]["value"] == 0 for one in found["criteria"])


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (
            "--scores scores.csv",
            "Say with what to compare: a file of ratings of people (--ratings or ratings=), or a run",
        ),
        (
            "latest --scores scores.csv --ratings ratings.csv",
            "Give a run ('latest') or files of scores (--scores or scores=), not both.",
        ),
        (
            "--scores scores.csv --ratings ratings.csv --with x",
            "Give ratings (of people) or another judge (--with or with_=)",
        ),
        ("--scores scores.csv --ratings ratings.csv --against median", "--against is one of mean, each"),
        ("--scores scores.csv --ratings ratings.csv --scale 7..1", "such as 1..7, not '7..1'"),
        ("--scores scores.csv --ratings ratings.csv --scale joy=1..7", "'joy'; there are realism, detail"),
        ("--scores scores.csv --ratings ratings.csv --only task", "is written GROUP=VALUE"),
        (
            "--scores scores.csv --ratings ratings.csv --only task=x",
            "has a group 'task', of which some are to be kept; there are: none",
        ),
        (
            "--scores scores.csv --ratings ratings.csv --cases cases.csv --only kind=x",
            "No case of gpt has a group 'kind', of which some are to be kept; there are: source, task.",
        ),
        ("--scores scores.csv --ratings ratings.csv --cases cases.csv --only task=x", "has task 'x'; there is: a, b."),
        ("--scores scores.csv --ratings ratings.csv --scale 1..5", "the judge gives 'realism' 6, which is not on it"),
        ("--scores scores.csv --ratings ratings.csv --map realism=avg(q", "'avg(q' is neither a criterion of gpt nor"),
        ("", "Name a run of a ledger, or give what a judge said in a file (--scores or scores=)."),
        ("--ratings ratings.csv", "Name a run of a ledger, or give what a judge said in a file"),
        ("--scores scores.csv --ratings ratings.csv --group model", "is in a group 'model'; there are: none"),
        ("--scores scores.csv --with two.csv", "holds 2 judges (gpt, gemini), not one"),
    ],
)
def test_what_cannot_be_compared_is_one_plain_sentence(run: Any, files: Path, command: str, problem: str) -> None:
    done = run(f"agree {command}")
    assert done.code == 2
    assert problem in done.err
    assert "Traceback" not in done.err


def test_two_files_of_one_judge_are_told_apart(run: Any, files: Path) -> None:
    header = ("case", "judge", "aspect", "score")
    (files / "old").mkdir()
    for name, plus in (("later.csv", 1), ("old/scores.csv", 2)):
        rows = [(f"p{at}", "gpt", "realism", min(7, one + plus * (at % 2))) for at, one in enumerate(JUDGE)]
        write(files / name, header, rows)
    done = run("agree --scores scores.csv --scores later.csv --ratings ratings.csv --draws 200")
    assert "gpt (scores.csv) against people" in done.out
    assert "gpt (later.csv) against people" in done.out
    same_name = run("agree --scores scores.csv --scores old/scores.csv --ratings ratings.csv --draws 200")
    assert "gpt (scores.csv) against people" in same_name.out
    assert "gpt (old/scores.csv) against people" in same_name.out
    with_other = run("agree --scores scores.csv --with later.csv --draws 200")
    assert with_other.out.startswith("gpt against gpt (later.csv), 12 cases")
    compared = run("compare --scores scores.csv --scores later.csv --draws 200")
    assert compared.out.startswith("gpt (scores.csv) → gpt (later.csv), 12 cases")
    metrics = run("agree --scores two.csv --ratings ratings.csv --baseline later.csv --baseline old/scores.csv --json")
    baselines = json.loads(metrics.out)["agreements"][0]["criteria"][0]["baselines"]
    assert [one["name"] for one in baselines] == ["gpt (later.csv)", "gpt (scores.csv)"]
    estimated = run("estimate --scores scores.csv --scores later.csv --ratings ratings.csv --aspect realism")
    assert "realism: mean human score of 12 cases; gpt (scores.csv), realism" in estimated.out
    assert "realism: mean human score of 12 cases; gpt (later.csv), realism" in estimated.out


def test_a_criterion_on_which_the_judge_abstains_says_on_how_many_cases_it_rests(run: Any, files: Path) -> None:
    header = ("case", "judge", "aspect", "score")
    rows = [(f"p{at}", "gpt", "realism", one) for at, one in enumerate(JUDGE)]
    write(files / "some.csv", header, [*rows, *((f"p{at}", "gpt", "detail", JUDGE[at]) for at in range(9))])
    done = run("agree --scores some.csv --ratings ratings.csv --draws 200")
    assert "detail (9 of 12 cases): " in done.out
    assert "realism: " in done.out
