"""`compare`, `agree`, `calibrate`, `estimate` and `history`: from Python they say what the commands print as JSON."""

from __future__ import annotations

import asyncio
import csv
import json
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest
from support.statistics import COUNT, write_builds, write_rated_run

import beholder
from beholder.ledger.ledger import Ledger

CarriedOut = Callable[[Sequence[str]], tuple[int, str, str]]


@pytest.fixture
def builds(tmp_path: Path) -> Path:
    return write_builds(tmp_path / "beholder.db")


@pytest.fixture
def kind(tmp_path: Path) -> Path:
    return write_rated_run(tmp_path / "kind.db")


@pytest.mark.usefixtures("builds")
@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("compare whole lower", lambda: beholder.compare("whole", "lower")),
        (
            "compare whole none --margin 0.1 --margin score=0.2 --detect 0.05 --top 2 --draws 200 --seed 3",
            lambda: beholder.compare(
                "whole", "none", margin={"": 0.1, "score": 0.2}, detect=0.05, top=2, draws=200, seed=3
            ),
        ),
        ("history --tag ci --last 2", lambda: beholder.history(tag="ci", last=2)),
        ("history whole --on global_consistency", lambda: beholder.history("whole", on="global_consistency")),
        ("agree whole --with lower --draws 200", lambda: beholder.agree("whole", with_="lower", draws=200)),
    ],
)
def test_runs(carried_out: CarriedOut, command: str, call: Callable[[], Any]) -> None:
    code, out, err = carried_out([*shlex.split(command), "--json"])
    assert (code in (0, 3), err) == (True, "")
    assert call().to_dict() == json.loads(out)


@pytest.mark.parametrize(
    ("command", "call"),
    [
        (
            "agree kind --ratings ratings.csv --draws 200 --rating-scale 1..7 --against each --only 'model=model 1'",
            lambda: beholder.agree(
                "kind",
                ratings="ratings.csv",
                draws=200,
                rating_scale=(1, 7),
                against="each",
                only={"model": "model 1"},
                ledger="kind.db",
            ),
        ),
        (
            "calibrate kind --ratings ratings.csv --try linear --try offset --draws 200 --folds 4 "
            "--map 'Unchanged regions=min(unchanged_regions,global_consistency)'",
            lambda: beholder.calibrate(
                "kind",
                ratings="ratings.csv",
                try_=["linear", "offset"],
                draws=200,
                folds=4,
                map_={"Unchanged regions": "min(unchanged_regions,global_consistency)"},
                ledger="kind.db",
            ),
        ),
        (
            "estimate kind --ratings ratings.csv --rating-scale 'Unchanged regions=1..7' --width 0.5",
            lambda: beholder.estimate(
                "kind",
                ratings="ratings.csv",
                rating_scale={"Unchanged regions": (1, 7)},
                width=0.5,
                ledger="kind.db",
            ),
        ),
        (
            "estimate kind --ratings ratings.csv --pass 4 --judge-pass 5",
            lambda: beholder.estimate(ratings="ratings.csv", pass_=4, judge_pass=5, ledger="kind.db"),
        ),
    ],
)
def test_runs_and_ratings(kind: Path, carried_out: CarriedOut, command: str, call: Callable[[], Any]) -> None:
    code, out, err = carried_out([*shlex.split(command), "--ledger", "kind.db", "--json"])
    assert (code in (0, 1), err) == (True, "")
    assert call().to_dict() == json.loads(out)


def test_a_run_is_as_good_as_its_name_and_brings_its_own_ledger(builds: Path, kind: Path, tmp_path: Path) -> None:
    named = beholder.compare("whole", "lower", ledger=builds, draws=100)
    before, after = beholder.Run.load("whole", builds), beholder.Run.load("lower", builds)
    assert beholder.compare(before, after, draws=100) == named
    with Ledger.open(builds, read_only=True) as ledger:
        assert beholder.compare("whole", after, ledger=ledger, draws=100) == named
        assert ledger.run("whole").name == "whole"  # a ledger that was handed in stays open
    run = beholder.Run.load("kind", kind)
    assert beholder.agree(run, ratings="ratings.csv", draws=100).judges[0].cases == COUNT
    assert beholder.agree(before, with_=after, draws=100).judges[0].reference.startswith("run lower")


@pytest.mark.parametrize("kind_of_table", ["mappings", "one pass", "pandas", "polars"])
def test_ratings_may_be_a_table_in_memory(kind: Path, kind_of_table: str) -> None:
    with open("ratings.csv", encoding="utf-8", newline="") as file:
        rows: list[dict[str, object]] = [{**row, "score": float(row["score"])} for row in csv.DictReader(file)]
    table: Any = {
        "mappings": rows,
        "one pass": iter(rows),
        "pandas": pandas.DataFrame(rows),
        "polars": polars.DataFrame(rows),
    }[kind_of_table]
    found = beholder.agree("kind", ratings=table, ledger=kind, draws=100)
    assert found == beholder.agree("kind", ratings="ratings.csv", ledger=kind, draws=100)


def test_what_is_wrong_with_a_table_in_memory_is_said(kind: Path) -> None:
    rows: list[dict[str, object]] = [{"case": "c1", "rater": "a", "aspect": "x", "score": score} for score in (1, 2)]
    with pytest.raises(beholder.UsageError, match="1 row of the table") as told:
        beholder.agree("kind", ratings=rows, ledger=kind)
    assert "'a' rates 'x' of 'c1' a second time" in str(told.value)
    with pytest.raises(beholder.UsageError, match="holds no rating; it should have rows of case,rater,aspect,score"):
        beholder.estimate("kind", ratings=[], ledger=kind)


def test_what_was_learned_is_saved_and_applied(kind: Path, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    result = beholder.calibrate(
        "kind",
        ratings="ratings.csv",
        try_="offset",
        draws=200,
        ledger=kind,
        progress=lambda what, done, total: steps.append((what, done, total)),
    )
    assert result.helps
    assert steps == [("fitting maps, and testing them on what they have not seen", 0, 1)]
    result.save(tmp_path / "calibration.json")
    saved = json.loads((tmp_path / "calibration.json").read_text("utf-8"))
    assert saved["made"]["from"] == "run kind (kind)"
    assert list(saved["aspects"]) == ["Unchanged regions"]
    calibrated = beholder.Run.load("kind", ledger=kind).calibrated(tmp_path / "calibration.json")
    assert next(iter(calibrated.verdicts())).calibrated
    with pytest.raises(beholder.UsageError, match="A report has no place for a calibration"):
        calibrated.report(tmp_path / "report.html")
    with pytest.raises(beholder.UsageError, match="cannot be written"):
        result.save(tmp_path / "nowhere" / "calibration.json")


def test_what_does_not_help_is_not_saved(kind: Path, tmp_path: Path) -> None:
    result = beholder.calibrate("kind", ratings="ratings.csv", try_="constant", draws=200, ledger=kind)
    assert not result.helps
    with pytest.raises(beholder.UsageError, match="no map is worth having"):
        result.save(tmp_path / "calibration.json")
    assert not (tmp_path / "calibration.json").exists()


def test_in_threads_and_in_a_running_loop_the_result_is_the_same(builds: Path) -> None:
    def compared() -> beholder.Comparison:
        return beholder.compare("whole", "lower", ledger=builds, draws=100)

    async def in_a_loop() -> beholder.Comparison:
        return compared()

    with ThreadPoolExecutor(8) as pool:
        results = [future.result() for future in [pool.submit(compared) for _ in range(8)]]
    assert all(result == results[0] for result in [*results, asyncio.run(in_a_loop())])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: beholder.compare("whole", "lowr"), "There is no run 'lowr' .*did you mean 'lower'"),
        (lambda: beholder.compare("whole", "lower", ledger="beholdr.db"), "beholdr.db"),
        (lambda: beholder.history(ledger="beholdr.db"), "beholdr.db"),
        (lambda: beholder.compare("whole"), "Name two runs"),
        (lambda: beholder.compare("whole", "lower", draws=5), "100 to 100,000, not 5"),
        (lambda: beholder.compare("whole", "lower", margin=-1), "The margin is how far a mean may fall"),
        (lambda: beholder.compare("whole", "lower").gate(fail_on="worse"), "fail_on is one of regression, inconc"),
        (lambda: beholder.agree("whole"), "Say with what to compare"),
        (lambda: beholder.agree("whole", with_="lower", against="all"), "against is one of mean, each, not 'all'"),
        (lambda: beholder.agree("whole", with_="lower", scale=(7, 1)), r"such as \(1, 7\), not \(7, 1\)"),
        (lambda: beholder.agree("whole", with_="lower", only=["task"]), "is written GROUP=VALUE"),
        (lambda: beholder.calibrate("whole", for_="luck"), "for_ is one of error, rank, not 'luck'"),
        (lambda: beholder.calibrate("whole", folds=1), "folds is a whole number from 2 on, not 1"),
        (lambda: beholder.calibrate("whole"), "Give human ratings"),
        (lambda: beholder.estimate("whole", judge_pass=3), "judge_pass goes with pass"),
        (lambda: beholder.estimate("whole", ratings="no.csv"), "no.csv"),
    ],
)
def test_wrong_use_is_a_sentence_and_creates_nothing(builds: Path, call: Callable[[], Any], said: str) -> None:
    before = sorted(builds.parent.iterdir())
    with pytest.raises(beholder.UsageError, match=said):
        call()
    assert sorted(path for path in builds.parent.iterdir() if path.suffix not in (".db-wal", ".db-shm")) == before


@pytest.mark.parametrize(
    ("ignored", "sentence"),
    [
        ({"before": "a"}, "not both"),
        ({"after": "b"}, "leave out the second run"),
        ({"ledger": "beholder.db"}, "leave out the ledger"),
    ],
)
def test_nothing_is_ignored_where_files_are_compared(tmp_path: Path, ignored: dict[str, Any], sentence: str) -> None:
    with pytest.raises(beholder.UsageError, match=sentence):
        beholder.compare(scores=tmp_path / "both.csv", **ignored)
