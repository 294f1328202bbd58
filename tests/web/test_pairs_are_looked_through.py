"""The pages on pairs: who is better, filters by winner and flip, and the brief that was sent in its order."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from support.preferences import choose, judge_by, pair
from support.web import Started

from beholder import ScriptedJudge, run


@pytest.mark.parametrize("orders", ["both", "random"])
def test_pairs_are_listed_filtered_and_opened(tmp_path: Path, started: Started, orders: str) -> None:
    cases = [pair(200, 10, f"c{number}") for number in range(4)]
    done = run(rubric="edit-preference", cases=cases, judge=judge_by(), ledger=tmp_path / "runs.db", orders=orders)
    with httpx.Client(base_url=started(tmp_path / "runs.db"), trust_env=False) as client:
        listed = client.get(f"/runs/{done.id}/cases").raise_for_status().text
        assert listed.count("first is better") >= 4
        assert "No case fits" in client.get(f"/runs/{done.id}/cases", params={"winner": "second"}).text
        assert "No case fits" not in client.get(f"/runs/{done.id}/cases", params={"winner": "first"}).text
        for case in cases:
            page = client.get(f"/runs/{done.id}/case", params={"id": case.id}).raise_for_status().text
            assert "This is the text that was sent, as its digest says." in page
        verdicts = client.get(f"/api/runs/{done.id}/case", params={"id": "c0"}).raise_for_status().json()["verdicts"]
    assert verdicts[0]["preference"]["winner"] == "first"
    assert len(verdicts[0]["preference"]["answers"]) == (2 if orders == "both" else 1)


def test_flips_are_found(tmp_path: Path, started: Started) -> None:
    follower = ScriptedJudge(choose("A"))
    done = run(rubric="edit-preference", cases=[pair(200, 10)], judge=follower, ledger=tmp_path / "runs.db")
    with httpx.Client(base_url=started(tmp_path / "runs.db"), trust_env=False) as client:
        assert "200-10" in client.get(f"/runs/{done.id}/cases", params={"flag": "order_flip"}).text
