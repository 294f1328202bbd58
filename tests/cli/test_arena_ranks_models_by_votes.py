"""`beholder arena`: boards from votes and from runs, the gate's exit codes, agreement, and the same in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.preferences import paint
from support.statistics import write_builds

import beholder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    words = ["model_a"] * 60 + ["model_b"] * 20 + ["tie"] * 10 + ["both_bad"] * 10
    rows = [f"new,old,{word},p{at}" for at, word in enumerate(words)]
    rows += [f"old,same,{'model_a' if at % 2 else 'model_b'},q{at}" for at in range(40)]
    (tmp_path / "votes.csv").write_text("\n".join(["model_a,model_b,winner,prompt", *rows]), "utf-8")
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_board_is_a_small_table(run: Any) -> None:
    done = run("arena fit votes.csv --draws 200")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "140 votes on 3 models, 140 groups by prompt"
    assert lines[1].split() == ["rank", "model", "rating", "votes", "win", "rate", "both", "bad"]
    assert lines[2].split()[:2] == ["1", "new"]
    assert lines[2].split()[-3:] == ["100", "70%", "10%"]
    assert "Intervals are 95%, percentile bootstrap, 200 draws of 140 groups by prompt (seed 0)." in done.out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("condition", "code", "said"),
    [
        ("new > old", 0, ""),
        ("old > new", 1, "old is not better than new"),
        ("old > same", 4, "Whether old is better than same cannot be told"),
        ("old > newer", 2, "did you mean 'new'?"),
    ],
)
def test_the_gate_decides_the_exit_code(run: Any, condition: str, code: int, said: str) -> None:
    done = run("arena", "fit", "votes.csv", "--draws", "200", "--fail-unless", condition)
    assert done.code == code
    assert said in done.err


@pytest.mark.usefixtures("folder")
def test_json_is_what_python_says_and_an_anchor_for_later(run: Any, folder: Path) -> None:
    done = run("arena fit votes.csv --position --draws 200 --json")
    board = beholder.fit_arena("votes.csv", position=True, draws=200)
    assert json.loads(done.out) == board.to_dict()
    (folder / "old.json").write_text(done.out, "utf-8")
    (folder / "old.csv").write_text("model,rating\nold,1234\n", "utf-8")
    anchored = run("arena fit votes.csv --anchor old.csv --draws 200 --json")
    by_model = {row["model"]: row["rating"]["value"] for row in json.loads(anchored.out)["ratings"]}
    assert by_model["old"] == pytest.approx(1234)
    more = (folder / "votes.csv").read_text("utf-8").replace("same", "newest")
    (folder / "more.csv").write_text(more, "utf-8")
    joined = json.loads(run("arena fit more.csv --anchor old.json --draws 200 --json").out)
    old = {row["model"]: row["rating"]["value"] for row in json.loads(done.out)["ratings"]}
    for row in joined["ratings"]:
        assert row["anchored"] == (row["model"] in old)
        assert row["model"] not in old or row["rating"]["value"] == pytest.approx(old[row["model"]])
    assert "Anchors without votes are left out: same." in joined["notes"]
    refused = run("arena fit votes.csv --anchor old.json --draws 200")
    assert (refused.code, "All models of the votes are anchored" in refused.err) == (2, True)


@pytest.mark.usefixtures("folder")
def test_votes_are_written_as_csv(run: Any, folder: Path) -> None:
    assert run("arena fit votes.csv --draws 200 --csv again.csv").code == 0
    assert (folder / "again.csv").read_text("utf-8") == beholder.read_votes("votes.csv").to_csv()
    refused = run("arena fit votes.csv --csv nowhere/again.csv")
    assert (refused.code, "cannot be written" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("command", "kept", "said"),
    [
        ("arena fit --runs whole lower --csv beholder.db", "beholder.db", "is the ledger itself"),
        ("arena fit --runs whole lower --ledger ./beholder.db --csv link.db", "beholder.db", "is the ledger itself"),
        ("arena fit votes.csv --csv beholder.db", "beholder.db", "is the ledger itself"),
        ("arena fit votes.csv --csv ./votes.csv", "votes.csv", "is what is read here"),
        ("arena fit votes.csv --anchor old.csv --csv old.csv", "old.csv", "is what is read here"),
    ],
)
def test_votes_never_replace_the_ledger_or_what_is_read(
    run: Any, folder: Path, command: str, kept: str, said: str
) -> None:
    write_builds(folder / "beholder.db")
    (folder / "link.db").symlink_to("beholder.db")
    (folder / "old.csv").write_text("model,rating\nold,1234\n", "utf-8")
    before = (folder / kept).read_bytes()
    done = run(f"{command} --draws 200")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert (folder / kept).read_bytes() == before


def test_runs_are_compared_by_their_scores(run: Any, folder: Path) -> None:
    write_builds(folder / "beholder.db")
    done = run("arena fit --runs whole lower --draws 200 --csv derived.csv")
    assert (done.code, done.err) == (0, "")
    assert "derived from scores: nobody compared two outputs" in done.out
    board = beholder.fit_arena(runs=["whole", "lower"], draws=200)
    assert board.derived
    assert board.ratings[0].model == "whole"
    assert (folder / "derived.csv").read_text("utf-8") == beholder.derive_votes(["whole", "lower"]).to_csv()
    with pytest.raises(beholder.UsageError, match="have no position"):
        beholder.fit_arena(runs=["whole", "lower"], position=True)
    with pytest.raises(beholder.UsageError, match="named twice"):
        beholder.derive_votes(["whole", "whole"])
    with pytest.raises(beholder.UsageError, match="two runs or more"):
        beholder.derive_votes(["whole"])
    with pytest.raises(beholder.UsageError, match="has no score 'beauty'"):
        beholder.derive_votes(["whole", "lower"], on="beauty")
    cases = [beholder.Case("c", {"input": paint(1), "edited": paint(2)}, {"instruction": "make it red"})]
    silent = beholder.ScriptedJudge(beholder.Unreachable("the line is dead"))
    beholder.run(rubric="edit-preservation", cases=cases, judge=silent, name="dead", progress=False)
    with pytest.raises(beholder.UsageError, match=r"No case of dead \(.*\) is scored, of 1"):
        beholder.derive_votes(["whole", "dead"])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("arena fit", "Name one file of votes"),
        ("arena fit votes.csv votes.csv", "Name one file of votes"),
        ("arena fit votes.csv --on score", "belong to runs"),
        ("arena fit votes.csv --anchor votes.csv", "with the columns model and rating"),
        ("arena fit votes.csv --group promt", "did you mean 'prompt'?"),
        ("arena fit votes.csv --anchor wrong.csv", "'wrong.csv', line 3: the rating 'abc' is no number."),
        ("arena agree votes.csv", "no column case"),
        ("arena agree votes.csv --people ./votes.csv", "is named twice, so that its votes would be compared with th"),
    ],
)
def test_wrong_use_is_one_sentence(run: Any, folder: Path, command: str, said: str) -> None:
    (folder / "wrong.csv").write_text("model,rating\nold,1000\nnew,abc\n", "utf-8")
    done = run(command)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.usefixtures("folder")
def test_agreement_with_people(run: Any, folder: Path) -> None:
    words = ("model_a", "model_b", "tie", "both_bad")
    lines = [(f"c{at}", words[at % 4], words[at % 4 if at % 5 else 0]) for at in range(60)]
    (folder / "people.csv").write_text("case,winner\n" + "".join(f"{case},{vote}\n" for case, vote, _ in lines))
    (folder / "judge.csv").write_text(
        "case,judge,winner\n" + "".join(f"{case},gpt,{vote}\n" for case, _, vote in lines)
    )
    done = run("arena agree judge.csv --people people.csv --full --draws 200")
    assert (done.code, done.err) == (0, "")
    assert "gpt" in done.out
    assert "people \\ judge" in done.out
    found = run("arena agree judge.csv --people people.csv --draws 200 --json")
    expected = beholder.agree_arena("judge.csv", people="people.csv", draws=200)
    assert json.loads(found.out) == expected.to_dict()
    assert expected.judges[0].accuracy.value == pytest.approx(51 / 60)
