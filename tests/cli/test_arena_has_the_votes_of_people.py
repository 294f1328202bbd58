"""`arena show --judge people`, `arena agree RUN` and `ratings` with the votes that people gave on a run of pairs."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from support.votes import JUDGE, MODELS, PHOTOS, RUN, pairs, vote_all

COUNT = 3 * PHOTOS


@pytest.fixture
def ledger(folder: Path) -> Path:
    with pairs(folder / "beholder.db") as book:
        vote_all(book, "Ana")
        vote_all(book, "Bo", wrong=3)
    return folder / "beholder.db"


@pytest.mark.usefixtures("ledger")
def test_people_have_a_board(run: Any, folder: Path) -> None:
    shown = run(f"arena show {RUN} --judge people --csv votes.csv")
    assert (shown.code, shown.err) == (0, "")
    assert f"{2 * COUNT} votes on 3 models" in shown.out
    rows = list(csv.DictReader((folder / "votes.csv").read_text("utf-8").splitlines()))
    assert {row["judge"] for row in rows} == {"person:Ana", "person:Bo"}
    asked = json.loads(run(f"arena show {RUN} --judge person:ana --json").out)
    assert [row["model"] for row in asked["ratings"]] == list(MODELS)
    assert asked["asked"]["votes"] == COUNT
    gate = run(f"arena show {RUN} --judge person:ana --fail-unless 'aurora > cobalt'")
    assert gate.code == 0
    wrong = run(f"arena show {RUN} --judge gpt")
    assert (wrong.code, wrong.out) == (2, "")
    assert "this run was reviewed by: 'person:Ana', 'person:Bo'" in wrong.err


@pytest.mark.usefixtures("ledger")
def test_the_judge_is_set_beside_them(run: Any) -> None:
    told = run(f"arena agree {RUN} --full")
    assert (told.code, told.err) == (0, "")
    assert "two people" in told.out
    found = json.loads(run(f"arena agree {RUN} --json").out)
    assert found == json.loads(run(f"arena agree {RUN} --runs --json").out)
    assert found["judges"][0]["pairs"] == COUNT - 1
    assert found["people"]["pairs"] == COUNT


def test_votes_of_a_file_count_in_place_of_those_of_the_ledger(run: Any, ledger: Path, folder: Path) -> None:
    case = "photo-00000/basalt-aurora"
    (folder / "one.csv").write_text(f"case,model_a,model_b,winner\n{case},basalt,aurora,model_b\n", "utf-8")
    found = json.loads(run(f"arena agree {RUN} --people one.csv --json").out)
    assert found["judges"][0]["pairs"] == 1


def test_several_runs_are_set_beside_people(run: Any, ledger: Path) -> None:
    pairs(ledger, run="r2").close()
    found = json.loads(run(f"arena agree {RUN} r2 --runs --json").out)
    judges = [judge["judge"] for judge in found["judges"]]
    assert judges == [f"{JUDGE} (r1)", f"{JUDGE} (r1), each answer", f"{JUDGE} (r2)", f"{JUDGE} (r2), each answer"]
    assert found["people"]["pairs"] == COUNT
    several = run("arena agree one.csv two.csv")
    assert several.code == 2
    assert "several runs, with --runs" in several.err


def test_what_is_neither_file_nor_run_is_told(run: Any, ledger: Path) -> None:
    for name in ("nothing", "nothing.csv"):
        told = run(f"arena agree {name}")
        assert told.code == 2
        assert "nothing" in told.err


@pytest.mark.usefixtures("ledger")
def test_votes_go_out_and_come_in(run: Any, folder: Path) -> None:
    assert run(f"ratings export {RUN} -o votes.csv").code == 0
    text = (folder / "votes.csv").read_text("utf-8")
    assert len(text.splitlines()) == 1 + 2 * COUNT
    pairs(folder / "other.db").close()
    done = run(f"ratings import votes.csv --run {RUN} --ledger other.db")
    assert (done.code, done.err) == (0, "")
    assert f"Ana: {COUNT} cases rated." in done.out
    assert run(f"ratings export {RUN} --ledger other.db").out == text
    mapped = run(f"ratings import votes.csv --run {RUN} --map a=b")
    assert mapped.code == 2
    assert "nothing is mapped" in mapped.err
