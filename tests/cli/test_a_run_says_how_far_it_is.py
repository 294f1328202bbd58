"""A run over its budget is not called finished, and one whose process was killed is not called running."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

import beholder
from beholder import Run
from beholder.ledger.ledger import Ledger
from beholder.testing.server import JudgeServer
from beholder.web.server import create_app, serve_in_thread

ASKED, TOTAL = 2, 5
HOLD = """
import sys
from beholder.ledger.ledger import Ledger
with Ledger.open(sys.argv[1]) as ledger, ledger.lock_run(sys.argv[2], alone=True) as mine:
    print(mine, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def over_budget(folder: Path, server: JudgeServer, answer: Any) -> Run:
    """A run of which two cases were asked, and three were not."""
    rows = [
        {"id": f"c{n}", "input": "before.png", "edited": "after.png", "instruction": f"make it {n}"}
        for n in range(TOTAL)
    ]
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    server.default = answer()
    options = {"base_url": server.openai_url, "price": {"input": 0, "output": 1000}, "params": {"max_tokens": 1000}}
    made = beholder.run(
        rubric="edit-preservation",
        cases="cases.jsonl",
        judge="openai:x",
        ledger="beholder.db",
        options={**options, "audit": False},
        budget=1.06,
        concurrency=1,
    )
    assert len(server.received) == ASKED
    return made


def said(done: Any) -> str:
    return " ".join(done.out.split())


def test_what_was_not_asked_is_said_everywhere(run: Any, over_budget: Run) -> None:
    line = f"{ASKED} of {TOTAL}, {TOTAL - ASKED} not asked"
    assert (over_budget.state, over_budget.progress.not_asked) == ("over_budget", TOTAL - ASKED)
    loaded = Run.load("latest", "beholder.db")
    assert (loaded.state, loaded.summary.not_asked) == ("over_budget", TOTAL - ASKED)
    assert "over_budget" in repr(loaded)
    assert line in loaded._repr_html_()
    assert f"over budget {line}" in said(run("runs"))
    assert over_budget.id in run("runs").out
    assert json.loads(run("runs --json").out)["state"] == "over_budget"
    shown = said(run("show"))
    assert ", over budget, started" in shown
    assert f"verdicts: {line} (over budget)" in shown
    assert json.loads(run("show --json").out)["state"] == "over_budget"
    for name in ("report.md", "report.html"):
        assert run(f"report -o {name}").code == 0
        assert f"{line} (over budget)" in Path(name).read_text("utf-8")


def test_what_to_do_about_it_is_said_in_full(run: Any, over_budget: Run, server: JudgeServer) -> None:
    assert "--param max_tokens=N" in run("show").out
    words = "run -q --rubric edit-preservation --cases cases.jsonl --judge openai:x --no-audit --concurrency 1"
    price = "--price-input 0 --price-output 1000 --param max_tokens=1000 --budget 1.06 --max-unscored 100%"
    done = run(f"{words} --base-url {server.openai_url} {price}")
    assert (done.code, done.out) == (0, "")
    assert f"beholder: {TOTAL - ASKED} of {TOTAL} were not asked: a call may cost up to $1.0000" in done.err
    assert "--param max_tokens=N" in done.err


def test_what_is_reserved_for_a_killed_process_is_shown(run: Any, over_budget: Run) -> None:
    assert " reserved spent" not in said(run("show"))
    assert "reserved" not in run("runs").out
    with Ledger.open("beholder.db") as ledger:
        each = Decimal("1.91")
        assert ledger.grant(over_budget.id, "killed", Decimal(100), each, 1) == each
    assert over_budget.reserved_usd == each
    assert "$1.9100 reserved" in said(run("runs"))
    assert "+ $1.9100 reserved spent by this run" in said(run("show"))


def test_the_web_says_so_too(over_budget: Run) -> None:
    app = create_app(Path("beholder.db"))
    try:
        with serve_in_thread(app) as address, httpx.Client(base_url=address, trust_env=False) as client:
            assert client.get("/api/runs").json()[0]["state"] == "over_budget"
            assert client.get(f"/api/runs/{over_budget.id}").json()["not_asked"] == TOTAL - ASKED
            listed = client.get("/").text
            assert "3 not asked (over budget)" in listed
            assert ">finished<" not in listed
            assert "over budget" in client.get(f"/runs/{over_budget.id}").text
    finally:
        app.state.background.close()
        app.state.ledger.close()


def test_a_larger_budget_finishes_it(run: Any, over_budget: Run, server: JudgeServer) -> None:
    words = "run --rubric edit-preservation --cases cases.jsonl --judge openai:x --no-audit --concurrency 1"
    price = "--price-input 0 --price-output 1000 --param max_tokens=1000"
    done = run(f"{words} --base-url {server.openai_url} {price} --budget 9")
    assert done.code == 0, done.err
    assert over_budget.refresh().state == "finished"
    assert "5/5" in run("runs").out


def test_a_killed_run_is_interrupted(run: Any, over_budget: Run) -> None:
    with Ledger.open("beholder.db") as ledger:
        ledger.update(over_budget.id, state="running")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, "beholder.db", over_budget.id], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == b"True"
        assert Run.load("latest", "beholder.db").state == "running"
        assert json.loads(run("runs --json").out)["state"] == "running"
    finally:
        holder.kill()
        holder.communicate()
    assert Run.load("latest", "beholder.db").state == "interrupted"
    assert json.loads(run("runs --json").out)["state"] == "interrupted"
    assert "interrupted" in run("show").out
    assert over_budget.refresh().state == "interrupted"


def test_a_run_under_way_is_not_asked_about_before_it_is_kept(run: Any, over_budget: Run) -> None:
    with Ledger.open("beholder.db") as ledger, ledger.lock_run(over_budget.id, alone=True):
        done = run("runs delete latest")
    assert (done.code, done.out) == (2, "")
    assert "is under way" in done.err
    assert Run.load("latest", "beholder.db").id == over_budget.id


def test_asking_whether_a_run_is_locked_changes_no_lock(over_budget: Run) -> None:
    with Ledger.open("beholder.db") as ledger:
        assert not ledger.is_run_locked(over_budget.id)
        with ledger.lock_run(over_budget.id, alone=True) as mine:
            assert mine
            assert ledger.is_run_locked(over_budget.id)
            seen = subprocess.run(
                [sys.executable, "-c", HOLD, "beholder.db", over_budget.id], input=b"", capture_output=True, check=True
            )
            assert seen.stdout.strip() == b"False"
        assert not ledger.is_run_locked(over_budget.id)
