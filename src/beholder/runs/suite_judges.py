"""The judges of a suite: made with the limits of the run, and what their calls cost."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from beholder.errors import UsageError
from beholder.judges.base import INSTRUMENTS, CostBound, Judge
from beholder.judges.factory import judge_from, uses_custom_base_url
from beholder.providers.prices import MILLION, TIER_PARAMETERS, Price, find_price
from beholder.rubrics.brief import Brief
from beholder.runs.limits import AdaptiveLimiter, CallBudget, RunLimits
from beholder.runs.suite import Suite
from beholder.runs.suite_file import JudgeEntry
from beholder.runs.tokens import estimate_cost, estimate_text_tokens, estimate_tokens
from beholder.verdicts.answer import Turn

TEXT_MARGIN_DIVISOR = 4  # a tokenizer may count a quarter more than our rule of thumb


def make_judges(suite: Suite, limits: RunLimits) -> list[Judge]:
    """Return the judges of a suite. Their limiters, and what reserves the cost of their calls, are put into `limits`.

    Raises:
        SetupError: A judge cannot be asked: its key is missing, say.
    """
    return [_make_limited_judge(entry, suite, limits) for entry in suite.judges]


def require_prices(suite: Suite) -> None:
    """Raise `UsageError` if a budget is set and the price of a judge is unknown."""
    for entry in suite.judges:
        if suite.budget is not None and find_judge_price(entry) is None:
            raise UsageError(
                f"Nobody knows what {entry.judge} costs, so a budget cannot be kept: give its price in the suite, "
                "price: {input: 1.25, output: 10}, in US dollars per million tokens."
            )


def find_judge_price(entry: JudgeEntry, *, batch: bool = False) -> Price | None:
    """Return the price of a judge, live or by batch: that of the suite, else of the price list; `None` if unknown."""
    if entry.judge == INSTRUMENTS:
        return Price(Decimal(0), Decimal(0))
    provider, _, model = entry.judge.partition(":")
    if TIER_PARAMETERS & entry.params.keys():  # another tier has another price
        return find_price(provider, model, base_url_is_own=True, given=entry.given_price(), batch=batch)
    elsewhere = uses_custom_base_url(entry.judge, entry.base_url, entry.base_urls)
    return find_price(provider, model, base_url_is_own=elsewhere, given=entry.given_price(), batch=batch)


def _make_limited_judge(entry: JudgeEntry, suite: Suite, limits: RunLimits) -> Judge:
    limiter = AdaptiveLimiter(
        suite.concurrency,
        requests_per_minute=suite.limits.requests_per_minute,
        tokens_per_minute=suite.limits.tokens_per_minute,
    )
    judge = judge_from(
        entry.judge,
        base_url=entry.base_url,
        base_urls=entry.base_urls,
        key_variable=entry.key_variable,
        params={**suite.image_params(), **entry.params},
        timeout_s=suite.limits.timeout_s,
        limiter=limiter,
        price=entry.given_price(),
    )
    limits.limiters.append(limiter)
    price = find_judge_price(entry)
    if limits.budget.limit is not None and price is not None and entry.judge != INSTRUMENTS:
        bound = make_cost_bound(entry, price, judge.sizing.detail)
        limits.reserve[id(judge)] = CallBudget(limits.budget, bound).reserve
    return judge


def make_cost_bound(entry: JudgeEntry, price: Price, detail: str | None) -> CostBound:
    """Return a function that computes the highest cost of a call in US dollars, and the token limit it assumes.

    The number of tokens of a text is estimated, with a margin for tokenizers that count more.
    """
    provider, _, model = entry.judge.partition(":")

    def bound(brief: Brief, earlier: Sequence[Turn], max_tokens: int | None) -> tuple[Decimal, int | None]:
        limit = max_tokens or entry.max_tokens()
        if limit is None and provider != "anthropic":  # whose request always has the brief's own limit
            limit = estimate_tokens(provider, model, brief, detail).output_high
        expected = estimate_tokens(provider, model, brief, detail, max_tokens=limit)
        turn_tokens = sum(estimate_text_tokens(provider, model, turn.answer + turn.reply) for turn in earlier)
        unsure = expected.text_tokens // TEXT_MARGIN_DIVISOR + turn_tokens
        thoughts = entry.params.get("thinking.budget_tokens")
        more = price.input * unsure + price.output * (thoughts if isinstance(thoughts, int) else 0)
        return estimate_cost(expected, price)[1] + more / MILLION, limit

    return bound
