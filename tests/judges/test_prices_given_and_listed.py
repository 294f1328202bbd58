from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given as for_any
from hypothesis import strategies as st

from beholder.providers.prices import Price, answer_cost, find_price
from beholder.verdicts.answer import Usage

OWN = Price(Decimal("0.5"), Decimal(4), Decimal("0.05"))


def test_the_list_knows_input_output_and_cache() -> None:
    assert find_price("anthropic", "claude-haiku-4-5") == Price(Decimal(1), Decimal(5), Decimal("0.1"), Decimal("1.25"))


def test_long_inputs_cost_more_so_the_highest_price_that_can_be_met_is_taken() -> None:
    highest, short, long = (
        find_price("google", "gemini-2.5-pro", input_tokens=tokens) for tokens in (None, 200_000, 200_001)
    )
    assert highest == long == Price(Decimal("2.5"), Decimal(15), Decimal("0.25"))
    assert short == Price(Decimal("1.25"), Decimal(10), Decimal("0.125"))


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "no-such-model"), ("no-such-provider", "gpt-5-mini"), ("google", "gemma-3"), ("openai", "whisper-1")],
)
def test_an_unknown_price_is_none_and_never_0(provider: str, model: str) -> None:
    assert find_price(provider, model) is None
    assert answer_cost(provider, model, Usage(10, 10)) is None


def test_without_the_price_list_only_a_given_price_counts() -> None:
    code = (
        "import sys; sys.modules['genai_prices'] = None\n"
        "from decimal import Decimal; from beholder.providers.prices import Price, find_price\n"
        "assert find_price('openai', 'gpt-5-mini') is None\n"
        "own = Price(Decimal(1), Decimal(2)); assert find_price('openai', 'gpt-5-mini', False, own) == own"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_server_of_ones_own_has_no_listed_price() -> None:
    assert find_price("openai", "gpt-5-mini", base_url_is_own=True) is None
    assert find_price("openai", "gpt-5-mini", True, OWN) == OWN


def test_a_given_price_goes_before_the_list() -> None:
    assert find_price("openai", "gpt-5-mini", False, OWN) == OWN
    assert answer_cost("openai", "gpt-5-mini", Usage(1_000_000, 1_000_000), given=OWN) == Decimal("4.5")
    assert answer_cost("openai", "no-such-model", Usage(1_000_000, 0, 1_000_000), given=OWN) == Decimal("0.05")


def test_a_given_price_of_0_is_known() -> None:
    free = Price(Decimal(0), Decimal(0))
    assert answer_cost("openai", "my-own", Usage(10, 10), given=free) == 0


@pytest.mark.parametrize("usage", [Usage(), Usage(10, None), Usage(None, 10)])
def test_unknown_usage_has_no_cost_at_a_given_price(usage: Usage) -> None:
    assert OWN.cost(usage) is None
    assert answer_cost("openai", "gpt-5-mini", usage, given=OWN) is None


def test_what_has_no_price_of_its_own_costs_what_input_costs() -> None:
    plain = Price(Decimal(2), Decimal(8))
    assert plain.cost(Usage(1_000_000, 0, 400_000, 300_000)) == Decimal(2)
    assert Price(Decimal(2), Decimal(8), written=Decimal(3)).cost(
        Usage(1_000_000, 0, cache_write_tokens=1_000_000)
    ) == Decimal(3)


@for_any(
    tokens=st.integers(0, 150_000),
    cached=st.integers(0, 150_000),
    written=st.integers(0, 150_000),
    output=st.integers(1, 50_000),
)
@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-opus-5"])
def test_both_ways_come_to_the_same(model: str, tokens: int, cached: int, written: int, output: int) -> None:
    usage = Usage(tokens + cached + written, output, cached, written)
    price = find_price("anthropic", model)
    assert price is not None
    assert price.cost(usage) == answer_cost("anthropic", model, usage)


@pytest.mark.parametrize("amount", ["-1", "NaN", "Infinity"])
def test_a_price_is_a_number_from_0_on(amount: str) -> None:
    with pytest.raises(ValueError, match="dollars per million tokens"):
        Price(Decimal(1), Decimal(amount))
