"""`beholder arena run` and `show`: the commands, their exit codes, files and JSON, and the same in Python."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.arena import PATTERNS, choose, red_judge, write_arena

import beholder
from beholder.testing.__main__ import answer_by_schema
from beholder.testing.base import Course, Received
from beholder.testing.server import JudgeServer

STRENGTHS = {"aurora": 180, "basalt": 110, "cobalt": 100}


def see_red(received: Received) -> str:
    """What a server says that sees which of the last two images is redder."""
    one, other = (
        float(np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))[..., 0].mean()) for data in received.images[-2:]
    )
    return json.dumps(choose("A" if one > other else "B"))


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(see_red, keyless=True) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: JudgeServer) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    write_arena(tmp_path, STRENGTHS, 20)
    suite = {
        "rubric": "edit-preference",
        "pairs": PATTERNS,
        "fields": {"instruction": "make it red"},
        "judges": [{"judge": "openai:red", "base_url": server.openai_url}],
        "audit": False,
        "thumbnails": False,
    }
    (tmp_path / "suite.yaml").write_text(json.dumps(suite), "utf-8")
    return tmp_path


@pytest.fixture
def board(folder: Path) -> beholder.Arena:
    """A run called `made`, by a judge in Python."""
    return beholder.run_arena(
        rubric="edit-preference",
        pair=PATTERNS,
        fields={"instruction": "make it red"},
        judge=red_judge(),
        name="made",
        progress=False,
        audit=False,
        thumbnails=False,
    )


@pytest.mark.usefixtures("folder")
def test_a_suite_of_outputs_becomes_a_board(run: Any, server: JudgeServer) -> None:
    done = run("arena run suite.yaml --trust-suite")
    assert done.code == 0, done.err
    assert len(server.received) == 120
    lines = done.out.splitlines()
    assert lines[0].endswith("60 pairs")
    title = lines.index("60 votes on 3 models, 20 groups by source")
    headers = ["rank", "model", "rating", "votes", "win", "rate", "both", "bad", "flips", "no", "vote"]
    assert lines[title + 1].split() == headers
    assert lines[title + 2].split()[1] == "aurora"
    assert "In 0 of 60 pairs asked in both orders the answer flipped" in done.out
    again = run("arena run suite.yaml --trust-suite --quiet")
    assert (again.code, again.out, len(server.received)) == (0, "", 120)


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "google"])
def test_the_loopback_server_votes_by_itself(
    run: Any, server: JudgeServer, folder: Path, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "nobodys-key")
    server.default = answer_by_schema
    suite = json.loads((folder / "suite.yaml").read_text("utf-8"))
    suite["judges"] = [{"judge": f"{dialect}:any", "base_url": getattr(server, f"{dialect}_url")}]
    (folder / "suite.yaml").write_text(json.dumps(suite), "utf-8")
    done = run("arena run suite.yaml --trust-suite --pairs 1")
    assert done.code == 0, done.err
    assert "1 vote on 2 models" in done.out
    more = run("arena run suite.yaml --trust-suite --pairs 3")
    assert "1 verdict from the ledger" in more.out


@pytest.mark.usefixtures("folder")
def test_adaptive_lines_of_json_end_with_the_board(run: Any, server: JudgeServer) -> None:
    done = run("arena run suite.yaml --trust-suite --pairs adaptive --until-width 700 --json")
    assert done.code == 0, done.err
    *_, summary, found = (json.loads(line) for line in done.out.splitlines())
    assert (summary["event"], found["event"]) == ("summary", "arena")
    assert found["asked"]["pairs"] == summary["total"] == len(server.received) // 2 < 60
    assert found["asked"]["chosen"]["until_width"] == 700
    assert {key: value for key, value in found.items() if key != "event"} == beholder.show_arena().to_dict()


@pytest.mark.usefixtures("folder")
def test_a_budget_ends_adaptive_pairs_and_a_larger_one_goes_on(run: Any, server: JudgeServer) -> None:
    price = "--price-input 1 --price-output 1000"
    done = run(
        f"arena run suite.yaml --trust-suite --pairs adaptive --until-width 1 {price} --budget 12 --concurrency 1"
    )
    asked = len(server.received)
    assert 0 < asked < 120
    assert "not asked (over budget)" in done.out
    assert "The budget is spent." in done.out, done.out
    assert done.code == 3
    more = run(f"arena run suite.yaml --trust-suite --pairs adaptive --until-width 1 {price} --budget 6000")
    assert more.code == 0, more.err
    assert "All pairs have been asked." in more.out
    assert len(server.received) == 120


@pytest.mark.usefixtures("folder")
def test_a_run_without_a_vote_says_so_and_keeps_its_exit_code(run: Any, server: JudgeServer) -> None:
    server.default = "I see two images."
    done = run("arena run suite.yaml --trust-suite --pairs 3")
    assert done.code == 3
    assert "has no vote: 3 invalid." in done.err


@pytest.mark.usefixtures("board")
@pytest.mark.parametrize(
    ("condition", "code", "said"),
    [
        ("aurora > cobalt", 0, "the gate has passed: aurora > cobalt"),
        ("cobalt > aurora", 1, "cobalt is not better than aurora"),
        ("basalt > cobalt", 4, "Whether basalt is better than cobalt cannot be told"),
        ("basalt > cobald", 2, "did you mean 'cobalt'?"),
    ],
)
def test_the_gate_decides_the_exit_code(run: Any, condition: str, code: int, said: str) -> None:
    done = run("arena", "show", "made", "--fail-unless", condition)
    assert done.code == code
    assert said in done.err


def test_json_csv_and_anchors_are_those_of_python(run: Any, board: beholder.Arena, folder: Path) -> None:
    done = run("arena show --json --csv votes.csv")
    assert json.loads(done.out) == board.to_dict()
    assert (folder / "votes.csv").read_text("utf-8") == board.votes.to_csv()
    (folder / "old.json").write_text(done.out, "utf-8")
    for anchor in ("old.json", "made"):
        anchored = run("arena", "show", "made", "--anchor", anchor)
        assert anchored.code == 2
        assert "All models of the votes are anchored" in anchored.err
    assert run("arena fit votes.csv --json").code == 0
    for on in ("", "--on score"):
        of_pairs = run(f"arena fit --runs made made {on}")
        assert (of_pairs.code, of_pairs.out) == (2, "")
        assert "it has votes on pairs, and no scores to make votes of" in of_pairs.err
    refused = run("arena show made --csv beholder.db")
    assert refused.code == 2
    assert "is the ledger itself" in refused.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("arena run suite.yaml --trust-suite --pairs many", "is all, adaptive or a number of pairs such as 500"),
        ("arena run suite.yaml --trust-suite --pairs 500", "There are 60 pairs to compare, and 500 are asked for"),
        ("arena run suite.yaml --trust-suite --until-width 20", "--until-width belongs to adaptive pairs"),
        ("arena run suite.yaml --trust-suite --pairs adaptive --batch", "a batch answers within a day"),
        ("arena run suite.yaml --trust-suite --rubric edit-preservation", "output"),
        ("arena run suite.yaml --trust-suite --fail-under 80", '`beholder arena show --fail-unless "candidate >'),
        ("run suite.yaml --trust-suite", "Single outputs of several models are compared by `beholder arena run`."),
        ("arena show", "There is no ledger"),
    ],
)
def test_wrong_use_is_a_sentence(run: Any, line: str, said: str, server: JudgeServer) -> None:
    done = run(line)
    assert done.code == 2
    assert said in done.err
    assert server.received == []


@pytest.mark.usefixtures("folder")
def test_pairs_asked_by_batch_wait_and_the_same_command_fetches_them(run: Any, server: JudgeServer) -> None:
    server.batches.courses.append(Course(looks=1))
    line = "arena run suite.yaml --trust-suite --pairs 12 --batch"
    begun = run(line)
    assert begun.code == 0, begun.err
    assert [len(job.keys) for job in server.batches.jobs] == [24]
    assert "has no verdict yet." in begun.err
    for _ in range(2):
        done = run(line)
    assert done.code == 0, done.err
    assert "12 votes on 3 models" in done.out
    assert len(server.batches.jobs) == 1
