"""Everything that takes a ledger takes one in PostgreSQL, and nowhere is its password seen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.ledger import KEYS
from support.postgres import PASSWORD, Server
from support.web import worked_out

from beholder.ledger.ledger import Ledger
from beholder.testing.server import JudgeServer
from beholder.web.server import create_app, serve_in_thread

COUNT = 8


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.database()


@pytest.fixture
def server(answer: Callable[..., Any]) -> Iterator[JudgeServer]:
    with JudgeServer(answer(), keyless=True) as server:
        yield server


@pytest.fixture
def judged(run: Any, folder: Path, url: str, server: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger with a run of eight cases, by a suite that names it."""
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    lines = [
        {"id": f"c{number}", "input": "before.png", "edited": "after.png", "instruction": f"make it {number}"}
        for number in range(COUNT)
    ]
    (folder / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    suite = (
        "name: by postgresql\nrubric: edit-preservation\ncases: cases.jsonl\n"
        f"judges:\n- {{judge: 'openai:test', base_url: '{server.openai_url}'}}\nledger: '{url}'\n"
    )
    (folder / "suite.yaml").write_text(suite, "utf-8")
    done = run("run suite.yaml -q")
    assert done.code == 0, done.err
    assert PASSWORD not in done.out + done.err
    return url


def test_a_run_is_begun_once_and_gone_on_with(run: Any, judged: str, server: JudgeServer) -> None:
    asked = len(server.received)
    assert asked == COUNT
    done = run("run suite.yaml --json")
    assert done.code == 0
    assert json.loads(done.out.splitlines()[-1])["before"] == COUNT
    assert len(server.received) == asked
    planned = json.loads(run("plan suite.yaml --json").out)
    assert planned["verdicts"] == COUNT


def test_every_command_reads_it(run: Any, judged: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratings = "case,rater,aspect,score\n" + "".join(
        f"c{number},r{rater},{key},{1 + (number + rater) % 7}\n"
        for number in range(COUNT)
        for rater in range(2)
        for key in KEYS
    )
    (folder / "ratings.csv").write_text(ratings, "utf-8")
    monkeypatch.setenv("BEHOLDER_LEDGER", judged)
    commands = {
        "runs": "by postgresql",
        "runs rename latest nightly": "is now called 'nightly'",
        "runs tag latest good": "has the tags: good",
        "show latest": f"{COUNT}",
        "show latest c1": "edit-preservation",
        "export latest --to csv": "case,",
        "export latest --to jsonl": '"case": "c1"',
        "report latest -o report.html": "report.html",
        "agree latest --ratings ratings.csv --draws 100": "against people",
        "estimate latest --ratings ratings.csv": "people",
        "ratings import ratings.csv --run latest": "r1",
        "history nightly --draws 100": "nightly",
        "ledger check": f"is sound: 3 runs, {3 * COUNT} cases, {3 * COUNT} verdicts, {COUNT} answers",
        "doctor": "is sound: 3 runs",
        "runs delete nightly --yes": "Deleted run",
    }
    for command, said in commands.items():
        done = run(command)
        assert done.code in (0, 3), f"{command}: {done.err or done.out}"
        assert said in done.out + done.err, command
        assert PASSWORD not in done.out + done.err
    assert PASSWORD not in (folder / "report.html").read_text("utf-8")


@pytest.fixture
def client(judged: str) -> Iterator[httpx.Client]:
    app = create_app(judged)
    with serve_in_thread(app) as address, httpx.Client(base_url=address, trust_env=False) as client:
        yield client
    app.state.background.close()
    app.state.ledger.close()


def test_every_page_shows_it(client: httpx.Client, judged: str) -> None:
    with Ledger.open(judged, read_only=True) as ledger:
        run = ledger.run().id
    pages = [
        client.get("/").raise_for_status().text,
        worked_out(client, f"/runs/{run}"),
        client.get(f"/runs/{run}/cases", params={"sort": "worst", "q": "C1"}).raise_for_status().text,
        client.get(f"/runs/{run}/cases", params={"criterion": "unchanged_regions", "least": "6"}).text,
        client.get(f"/runs/{run}/cases", params={"outcome": "\0", "flag": "\0", "q": "\0", "group": "a=\0"}).text,
        client.get(f"/runs/{run}/case", params={"id": "c1"}).raise_for_status().text,
        worked_out(client, "/compare", after=run, before=run),
    ]
    for page in pages:
        assert PASSWORD not in page
    assert "by postgresql" in pages[0]
    assert len(re.findall(r"c\d", pages[2])) > 0


def test_a_server_that_is_away_is_a_page_and_comes_back(client: httpx.Client, postgres: Server) -> None:
    postgres.stop()
    try:
        away = client.get("/")
        assert away.status_code == 503
        assert "does not answer" in away.text
        assert PASSWORD not in away.text
    finally:
        postgres.start()
    assert client.get("/").status_code == 200


def test_a_database_without_a_ledger_is_no_problem_yet(run: Any, url: str, folder: Path) -> None:
    done = run("doctor", "--ledger", url)
    assert done.code == 0
    assert "none in the database yet; the first run makes it" in done.out
    done = run("runs", "--ledger", url)
    assert done.code == 2
    assert "There is no ledger at 'postgresql://beholder@127.0.0.1" in done.err


def test_a_server_that_is_away_is_one_sentence(run: Any, postgres: Server) -> None:
    done = run("runs", "--ledger", f"postgresql://me:{PASSWORD}@127.0.0.1:1/db")
    assert done.code == 2
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert "postgresql://me@127.0.0.1:1/db" in done.err
    assert PASSWORD not in done.err


def test_runs_are_copied_to_a_file_and_back(run: Any, judged: str, folder: Path, postgres: Server) -> None:
    out = run("ledger", "copy", judged, "copy.db").out
    assert re.search(rf"by postgresql: copied {COUNT} cases, {COUNT} answers, .*{COUNT} verdicts", out)
    assert "Nothing was copied: 1 of 1 runs are in copy.db already." in run("ledger", "copy", judged, "copy.db").out
    back = postgres.database()
    assert run("ledger", "copy", "copy.db", back, "--json").code == 0
    said = json.loads(run("ledger", "copy", "copy.db", back, "--json", "--run", "latest").out)
    assert [one["written"] for one in said["runs"]] == [{}]
    assert PASSWORD not in json.dumps(said)
    first, second, third = (run("export", "latest", "--ledger", at).out for at in (judged, "copy.db", back))
    assert first == second == third != ""
    assert run("ledger", "copy", back, back).code == 2


def test_a_damaged_one_is_told(run: Any, judged: str, postgres: Server) -> None:
    name = judged.rpartition("/")[2]
    assert json.loads(run("ledger", "check", "--json", "--ledger", judged).out)["sound"] is True
    postgres.sql("UPDATE answers SET body = (SELECT body FROM cases LIMIT 1) WHERE number = 1", database=name)
    postgres.sql("UPDATE verdicts SET outcome = 'refused' WHERE case_id = 'c2'", database=name)
    done = run("ledger", "check", "--ledger", judged)
    assert done.code == 1
    assert "answer 1 (row 1 of answers) is not the text that was stored under its digest" in done.out
    assert "of verdicts) stands in lists as something else than it is" in done.out
    postgres.sql("DELETE FROM verdicts WHERE case_id IN ('c2', 'c1')", "DELETE FROM answers", database=name)
    done = run("ledger", "check", "--json", "--ledger", judged)
    assert done.code == 1
    assert json.loads(done.out)["sound"] is False
