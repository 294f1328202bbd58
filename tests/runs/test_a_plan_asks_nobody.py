"""`beholder plan`: what a run would do and cost, and what it needs before money may be spent."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beholder.testing.server import JudgeServer

Command = Callable[..., list[str]]
Beholder = Callable[[list[str]], subprocess.CompletedProcess[str]]


@pytest.fixture
def planned(command: Command, beholder: Beholder) -> Callable[..., dict[str, Any]]:
    def planned(*more: str) -> dict[str, Any]:
        words = ["plan" if word == "run" else word for word in command(*more)]
        done = beholder([*words, "--json"])
        assert done.returncode == 0, done.stderr
        plan: dict[str, Any] = json.loads(done.stdout)
        return plan

    return planned


def test_a_plan_counts_and_prices_without_a_call_or_a_ledger(
    tmp_path: Path, server: JudgeServer, cases: Any, planned: Any
) -> None:
    cases(7)
    plan = planned("--samples", "3")
    assert (plan["cases"], plan["verdicts"], plan["calls"]) == (7, 7, 21)
    [judge] = plan["judges"]
    assert judge["image_tokens"] > 0
    assert judge["text_tokens"] > 21 * 500
    assert judge["money_low"] is None  # a server of one's own: nobody knows
    assert "Unchanged regions" in plan["brief"]["system"]
    assert server.received == []
    assert not (tmp_path / "ledger.db").exists()


def test_what_the_ledger_has_need_not_be_asked(cases: Any, planned: Any, run: Any) -> None:
    cases(5)
    run("--json", "--limit", "3")
    plan = planned()
    assert (plan["calls"], plan["answered"], plan["done"]) == (2, 3, 0)
    run("--json")
    again = planned()
    assert (again["calls"], again["done"]) == (0, 5)


def test_a_known_model_has_a_price(tmp_path: Path, cases: Any, command: Command, beholder: Beholder) -> None:
    path = cases(2)
    words = [*command()[:4], "--rubric", "edit-preservation", "--cases", str(path), "--judge", "openai:gpt-5-mini"]
    words[3] = "plan"
    plan = json.loads(beholder([*words, "--ledger", str(tmp_path / "ledger.db"), "--json"]).stdout)
    assert 0 < plan["money_low"] < plan["money_high"]


def test_a_budget_needs_a_price_and_holds(
    server: JudgeServer, tmp_path: Path, cases: Any, command: Command, run: Any, beholder: Beholder
) -> None:
    cases(30)
    refused = run("--quiet", "--budget", "1")
    assert refused.returncode == 2
    assert "price" in refused.stderr
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "rubric: edit-preservation\ncases: cases.jsonl\nledger: other.db\nthumbnails: false\nbudget: 0.25\n"
        f"judges: [{{judge: openai:test, base_url: '{server.openai_url}', price: {{input: 5, output: 10}}}}]\n",
        "utf-8",
    )
    words = [*command()[:4], str(suite), "--json", "--concurrency", "4"]
    done = beholder(words)
    summary = json.loads(done.stdout.splitlines()[-1])
    outcomes = summary["tally"]["outcomes"]
    assert done.returncode == 3
    assert outcomes["over_budget"] + outcomes["scored"] == 30
    assert outcomes["scored"] == len(server.received) > 0
    assert 0 < summary["spent_usd"] <= 0.25
    more = beholder([*words, "--budget", "100"])
    assert json.loads(more.stdout.splitlines()[-1])["tally"]["outcomes"] == {"scored": 30}
    assert len(server.received) == 30


def test_a_budget_of_nothing_spends_nothing(
    server: JudgeServer, tmp_path: Path, cases: Any, command: Command, beholder: Beholder
) -> None:
    cases(3)
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "rubric: edit-preservation\ncases: cases.jsonl\nthumbnails: false\nbudget: 0\nledger: l.db\n"
        f"judges: [{{judge: openai:test, base_url: '{server.openai_url}', price: {{input: 5, output: 10}}}}]\n",
        "utf-8",
    )
    done = beholder([*command()[:4], str(suite), "--json"])
    assert json.loads(done.stdout.splitlines()[-1])["tally"]["outcomes"] == {"over_budget": 3}
    assert server.received == []


def test_everything_wrong_with_the_cases_is_listed_before_the_first_call(
    tmp_path: Path, server: JudgeServer, cases: Any, run: Any
) -> None:
    path = cases(4)
    (tmp_path / "after1.png").write_text("not a picture", "utf-8")
    (tmp_path / "after2.png").unlink()
    path.write_text(path.read_text("utf-8").replace('"id": "c3"', '"id": "c0"') + '{"id": "half', "utf-8")
    done = run("--quiet")
    assert done.returncode == 2
    assert [f"line {line}" in done.stderr for line in (2, 3, 4, 5)] == [True] * 4
    assert server.received == []
    skipping = run("--json", "--skip-bad")
    assert skipping.returncode == 0
    assert json.loads(skipping.stdout.splitlines()[-1])["tally"]["verdicts"] == 1


def test_a_threshold_that_is_missed_is_exit_code_1(cases: Any, run: Any) -> None:
    cases(3)
    assert run("--quiet", "--fail-under", "80").returncode == 0
    missed = run("--quiet", "--fail-under", "90")
    assert missed.returncode == 1
    assert "the mean is 83.33" in missed.stderr
    assert run("--quiet", "--fail-under", "unchanged_regions=6.5").returncode == 1
