"""`beholder estimate`, from a real ledger and from plain files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ledger import entry, run_record, unscored, verdict

from beholder.ledger.ledger import Ledger

CASES, REFUSED = 140, 7
HEAD = "case,rater,aspect,score\n"


def of_people(number: int, rater: int) -> int:
    """1–5, going along with what the judge says of this case (1–7)."""
    said = 1 + number % 7
    return int(np.clip(round(0.5 * said + 1 + ((number * 37 + rater * 11) % 9 - 4) / 4), 1, 5))


def rows(numbers: range, aspect: str = "unchanged regions") -> str:
    return "".join(
        f"{verdict(number).case},{name},{aspect},{of_people(number, rater)}\n"
        for number in numbers
        for rater, name in enumerate(("ann", "bob"))
    )


@pytest.fixture
def judged(folder: Path) -> Path:
    """A ledger with a run of which people rated each third case."""
    with Ledger.open(folder / "beholder.db", create=True) as ledger:
        ledger.start(run_record())
        scored = [entry(number) for number in range(CASES)]
        refused = [entry(number, unscored(number)) for number in range(CASES, CASES + REFUSED)]
        ledger.write("r1", [*scored, *refused])
    (folder / "ratings.csv").write_text(HEAD + rows(range(0, CASES + REFUSED, 3)))
    return folder


@pytest.mark.usefixtures("judged")
def test_a_run_and_some_ratings_give_the_mean_of_all(run: Callable[..., Any]) -> None:
    done = run("estimate latest --ratings ratings.csv --width 0.2")
    assert done.code == 0, done.err
    for said in (
        "unchanged regions: mean human score of 147 cases",
        "people and judge",
        "people alone (49 cases)",
        "judge alone (140 cases)",
        "Right only where these were drawn at random from all",
        "7 cases have no score from the judge",
        "49 (now)",
        "A width of 0.2 takes",
        "Inferred by name: unchanged regions = unchanged_regions",
    ):
        assert said in done.out


@pytest.mark.usefixtures("judged")
def test_as_json_the_truth_lies_in_an_interval_narrower_than_peoples(run: Callable[..., Any]) -> None:
    done = run("estimate --ratings ratings.csv --rating-scale 1..5 --json")
    (found,) = json.loads(done.out)["estimates"]
    truth = np.mean([of_people(number, rater) for number in range(CASES + REFUSED) for rater in range(2)])
    both, people = found["together"], found["people"]
    assert both["low"] < truth < both["high"]
    assert both["high"] - both["low"] < 0.8 * (people["high"] - people["low"])
    assert (found["cases"], found["judged"], found["rated"]) == (147, 140, 49)
    assert found["judge_alone"]["value"] == pytest.approx(1 + (4 - 1) * 4 / 6)  # the mean of 1–7 on 1–5
    assert [row["ratings"] for row in found["widths"]] == [10, 20, 49, 50, 100, 147]


@pytest.mark.usefixtures("judged")
def test_a_pass_rate_is_corrected_by_sensitivity_and_specificity(run: Callable[..., Any]) -> None:
    done = run("estimate --ratings ratings.csv --pass 3 --rating-scale 1..5")
    assert done.code == 0, done.err
    assert "share that people pass (3 or more) of 147 cases" in done.out
    assert "The judge passes a case where its unchanged_regions is at least 4." in done.out
    assert "(sensitivity)" in done.out
    (found,) = json.loads(run("estimate --ratings ratings.csv --pass 3 --judge-pass 5 --json").out)["estimates"]
    assert 0 < found["corrected"]["low"] < found["corrected"]["value"] < found["corrected"]["high"] <= 1
    assert 0 < found["together"]["low"] < found["together"]["high"] < 1


def test_plain_files_do_without_a_run(run: Callable[..., Any], folder: Path) -> None:
    lines = [f"c{number},j,tone,{number % 11}\n" for number in range(60)]
    (folder / "scores.csv").write_text("case,judge,aspect,score\n" + "".join(lines))
    ratings = "".join(f"c{number},ann,tone,{1 + number % 11 // 2 + number % 3 // 2}\n" for number in range(0, 60, 2))
    (folder / "ratings.csv").write_text(HEAD + ratings + "stranger,ann,tone,3\n")
    (folder / "cases.csv").write_text("id,source\n" + "".join(f"c{number},p{number // 4}\n" for number in range(60)))
    done = run("estimate --scores scores.csv --ratings ratings.csv --cases cases.csv --scale 0..10 --rating-scale 1..7")
    assert done.code == 0, done.err
    assert "People rated 30 cases of 15 groups of 60." in done.out
    assert "The judge's 0 to 10 is shown on people's 1 to 7" in done.out
    assert "1 rated case is not in j and left out." in done.out


def test_a_scale_that_only_the_ratings_tell_is_said_to_be_a_guess(run: Callable[..., Any], folder: Path) -> None:
    lines = [f"c{number},j,tone,{number % 11}\n" for number in range(60)]
    (folder / "scores.csv").write_text("case,judge,aspect,score\n" + "".join(lines))
    few = "".join(f"c{number},ann,tone,{score}\n" for number, score in enumerate((0, 0, 0, 0.5, 0.5)))
    (folder / "few.csv").write_text(HEAD + few)
    done = run("estimate --scores scores.csv --ratings few.csv")
    assert (
        "Warning: people's scale was not given and is taken to be 0 to 0.5, as far as their ratings reach" in done.out
    )
    done = run("estimate --scores scores.csv --ratings few.csv --rating-scale 0..1")
    assert "Warning: people's scale" not in done.out
    assert "0.200 (0.000 to " in done.out
    assert "was cut there" in done.out
    done = run("estimate --scores scores.csv --ratings few.csv --rating-scale 0.1..1")
    assert done.code == 2
    assert "The scale 0.1..1 was given, and 'tone' is rated 0, which is not on it" in done.err


def test_nothing_is_cut_short_in_a_narrow_terminal(
    run: Callable[..., Any], judged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    done = run("estimate --ratings ratings.csv --pass 3 --rating-scale 1..5")
    assert "…" not in done.out
    assert any(line.startswith("judge, corrected by how it errs  ") for line in done.out.splitlines())


@pytest.mark.usefixtures("folder")
def test_without_a_run_or_files_it_says_what_to_give(run: Callable[..., Any]) -> None:
    done = run("estimate")
    assert done.code == 2
    assert "Name a run of a ledger, or give what a judge said in a file (--scores or scores=)." in done.err


@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--aspect PQ", "Nobody rated the aspect 'PQ'; rated are unchanged regions."),
        ("--judge-pass 4", "judge_pass goes with pass"),
        ("--width 0", "The width must be above 0"),
        ("--width inf", "The width must be above 0"),
        ("--pass nan", "pass is a score from which a case passes, and nan is none"),
        ("--scale PQ=0..10", "Nobody rated the aspect 'PQ', which has a scale"),
        ("--rating-scale 7..1", "A scale is written from its low to its high end"),
        ("--group photographer", "No case of run r1 (nightly) is in a group 'photographer'"),
    ],
)
def test_what_cannot_be_done_is_one_plain_sentence(run: Callable[..., Any], words: str, said: str) -> None:
    done = run(f"estimate --ratings ratings.csv {words}")
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_ratings_of_other_cases_are_told(run: Callable[..., Any], judged: Path) -> None:
    (judged / "other.csv").write_text(HEAD + "somewhere,ann,unchanged_regions,3\n")
    done = run("estimate --ratings other.csv")
    assert done.code == 2
    assert "The one case that people rated is not in run r1 (nightly)" in done.err


def test_a_single_rating_is_a_value_without_an_interval(run: Callable[..., Any], judged: Path) -> None:
    (judged / "one.csv").write_text(HEAD + rows(range(1)))
    done = run("estimate --ratings one.csv --width 0.1")
    assert done.code == 0, done.err
    assert "There is no interval: one case is rated." in done.out
    assert "How many rated cases a width of 0.1 takes cannot be told from these." in done.out
    assert "people alone (1 case)" in done.out
    assert "1 cases" not in done.out
