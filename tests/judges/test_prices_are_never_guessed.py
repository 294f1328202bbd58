from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import pytest

from beholder.providers.prices import answer_cost
from beholder.verdicts.answer import Usage


def test_cached_tokens_cost_less_and_written_ones_more() -> None:
    plain = answer_cost("anthropic", "claude-haiku-4-5", Usage(1_000_000, 0, 0))
    assert plain == Decimal(1)
    assert answer_cost("anthropic", "claude-haiku-4-5", Usage(1_000_000, 0, 1_000_000)) == Decimal("0.1")
    assert answer_cost("anthropic", "claude-haiku-4-5", Usage(1_000_000, 0, 0, 1_000_000)) == Decimal("1.25")


@pytest.mark.parametrize("usage", [Usage(), Usage(10, None), Usage(None, 10)])
def test_unknown_usage_has_no_cost(usage: Usage) -> None:
    assert answer_cost("openai", "gpt-5-mini", usage) is None


@pytest.mark.parametrize(("provider", "model"), [("openai", "no-such-model"), ("no-such-provider", "gpt-5-mini")])
def test_an_unknown_model_has_no_cost(provider: str, model: str) -> None:
    assert answer_cost(provider, model, Usage(10, 10)) is None


def test_without_the_price_list_there_is_no_cost() -> None:
    code = (
        "import sys; sys.modules['genai_prices'] = None\n"
        "from beholder.providers.prices import answer_cost; from beholder.verdicts.answer import Usage\n"
        "assert answer_cost('openai', 'gpt-5-mini', Usage(10, 10)) is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
