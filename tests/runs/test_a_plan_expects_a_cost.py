"""`plan` says what a run will likely cost: by the answers that the ledger has, else by the length of a usual answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import beholder
from beholder.ledger.ledger import Ledger
from beholder.testing.server import JudgeServer

MakeCases = Callable[[int], Path]
PRICE = {"input": 2, "output": 10, "cached": 1}


@pytest.fixture
def settings(tmp_path: Path, server: JudgeServer, cases: MakeCases) -> dict[str, Any]:
    return {
        "rubric": "edit-preservation",
        "cases": str(cases(4)),
        "judge": {"judge": "openai:gpt-4o", "base_url": server.openai_url, "price": PRICE},
        "ledger": tmp_path / "ledger.db",
        "thumbnails": False,
        "audit": False,
    }


def test_without_an_answer_in_the_ledger_it_is_a_usual_one(settings: dict[str, Any]) -> None:
    [judge] = beholder.plan(**settings).judges
    assert judge.learned_from == 0
    assert judge.output_expected == 4 * 3 * 47
    assert judge.money_low is not None
    assert judge.money_expected is not None
    assert judge.money_high is not None
    assert judge.money_low < judge.money_expected < judge.money_high
    sent = judge.text_tokens + judge.image_tokens
    assert judge.money_expected == Decimal(2 * sent + 10 * judge.output_expected) / 1_000_000


def test_answers_in_the_ledger_tell_the_next_ones(settings: dict[str, Any], tmp_path: Path) -> None:
    beholder.run(**settings, limit=3, progress=False)
    whole = beholder.plan(**settings)
    [judge] = whole.judges
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        usages = [verdict.usage for verdict in ledger.verdicts("latest")]
    outputs = [usage["output_tokens"] or 0 for usage in usages]
    share = sum(usage["cached_tokens"] or 0 for usage in usages) / sum(usage["input_tokens"] or 0 for usage in usages)
    assert (judge.calls, judge.learned_from) == (1, 3)
    assert judge.output_expected == round(sum(outputs) / 3)
    sent = judge.text_tokens + judge.image_tokens
    expected = sent * (2 * (1 - share) + 1 * share) + 10 * sum(outputs) / 3
    assert float(judge.money_expected or 0) == pytest.approx(expected / 1e6)
    assert whole.expected_money == judge.money_expected
    assert json.loads(json.dumps(whole.to_dict()))["money_expected"] == pytest.approx(expected / 1e6)
    assert "about $" in repr(whole)


def test_answers_to_another_rubric_or_by_another_judge_tell_nothing(settings: dict[str, Any]) -> None:
    beholder.run(**settings, progress=False)
    [other_rubric] = beholder.plan(**{**settings, "rubric": "edit-fidelity"}).judges
    assert other_rubric.learned_from == 0
    judge = settings["judge"]
    [other_judge] = beholder.plan(**{**settings, "judge": {**judge, "judge": "openai:gpt-4o-mini"}}).judges
    assert other_judge.learned_from == 0


def test_nobody_knows_how_long_a_model_thinks_until_it_has(settings: dict[str, Any]) -> None:
    judge = settings["judge"]
    settings = {**settings, "judge": {**judge, "judge": "openai:gpt-5-mini"}}
    [before] = beholder.plan(**settings).judges
    assert (before.output_expected, before.money_expected) == (None, None)
    assert before.money_high is not None
    beholder.run(**settings, limit=2, progress=False)
    [after] = beholder.plan(**settings).judges
    assert after.learned_from == 2
    assert after.money_expected is not None
    assert after.money_low is not None
    assert after.money_low <= after.money_expected


def test_a_sample_is_extrapolated_and_nothing_is_expected_where_nothing_is_asked(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    [exact] = beholder.plan(**settings).judges
    monkeypatch.setattr("beholder.api.execute.SAMPLE_SIZE", 2)
    [guess] = beholder.plan(**settings).judges
    assert guess.output_expected == exact.output_expected
    beholder.run(**settings, progress=False)
    [done] = beholder.plan(**settings).judges
    assert (done.calls, done.output_expected, done.money_expected) == (0, 0, Decimal(0))
