"""The judges of a suite, made with the limits of the run, and estimates of what their calls take: tokens and money.

The rules for images are in the provider modules (`Provider.token_rules`); images count at the sizes that are sent. Text
is a rule of thumb from its characters; a provider's tokenizer may differ by a quarter either way.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from beholder.errors import UsageError
from beholder.judges.base import INSTRUMENTS, CostBound, Judge
from beholder.judges.factory import judge_from, uses_custom_base_url
from beholder.providers import anthropic, google, openai
from beholder.providers.base import THINKING_TOKENS, TokenRules, ceil_div
from beholder.providers.prices import MILLION, TIER_PARAMETERS, Price, find_price
from beholder.rubrics.brief import Brief, TextBlock
from beholder.runs.limits import AdaptiveLimiter, CallBudget, RunLimits
from beholder.runs.suite import Suite
from beholder.runs.suite_file import JudgeEntry, SuiteFile
from beholder.verdicts.answer import Turn

TEXT_MARGIN_DIVISOR = 4  # a tokenizer may count a quarter more than our rule of thumb


def make_judges(suite: Suite, limits: RunLimits) -> list[Judge]:
    """Return the judges of a suite. Their limiters, and what reserves the cost of their calls, are put into `limits`.

    Raises:
        SetupError: A judge cannot be asked: its key is missing, say.
    """
    judges = []
    for position, entry in enumerate(suite.judges):
        judge = suite.objects.judges.get(position)
        if judge is None:
            judge = make_judge(
                entry,
                suite,
                limits,
                send_provider_key=position not in suite.without_key,
                allow_http_key=suite.allow_http_key,
            )
        else:
            reserve_costs(judge, entry, limits)
        judges.append(judge)
    return judges


def require_prices(suite: Suite) -> None:
    """Raise `UsageError` if a budget is set and the price of a judge is unknown."""
    for entry in suite.judges:
        require_price(entry, suite.budget)


def require_price(entry: JudgeEntry, budget: float | None) -> None:
    """Raise `UsageError` if a budget is set and the price of a judge is unknown."""
    if budget is not None and find_judge_price(entry) is None:
        has_list = importlib.util.find_spec("genai_prices") is not None
        lacking = "it is not in the price list" if has_list else "no price list is installed"
        if ":" in entry.judge and uses_custom_base_url(entry.judge, entry.base_url, entry.base_urls):
            has_list, lacking = True, "the prices of a server of your own are in no list"
        install = "" if has_list else "install one with `pip install 'beholder[prices]'`, or "
        raise UsageError(
            f"The price of {entry.judge} is not known, so a budget cannot be kept: {lacking}. Please {install}give its "
            "price in US dollars per million tokens (--price-input or price=, and --price-output or price=; in options "
            "or a suite price: {input: …, output: …})."
        )


def find_judge_price(entry: JudgeEntry, *, batch: bool = False) -> Price | None:
    """Return the price of a judge, live or by batch: that of the suite, else of the price list; `None` if unknown."""
    if entry.judge == INSTRUMENTS:
        return Price(Decimal(0), Decimal(0))
    provider, _, model = entry.judge.partition(":")
    if not model:  # a judge of the caller's own, of no provider that a price list knows
        return entry.given_price()
    if TIER_PARAMETERS & entry.params.keys():  # another tier has another price
        return find_price(provider, model, base_url_is_own=True, given=entry.given_price(), batch=batch)
    elsewhere = uses_custom_base_url(entry.judge, entry.base_url, entry.base_urls)
    return find_price(provider, model, base_url_is_own=elsewhere, given=entry.given_price(), batch=batch)


def make_judge(
    entry: JudgeEntry,
    suite: SuiteFile,
    limits: RunLimits,
    *,
    send_provider_key: bool = True,
    allow_http_key: bool = False,
) -> Judge:
    """Return one judge of a suite. Its limiter, and what reserves the cost of its calls, are put into `limits`.

    Args:
        entry: The judge.
        suite: The suite it is of.
        limits: The limits of the run.
        send_provider_key: See `JudgeSettings`, as for `allow_http_key`.
        allow_http_key: See `JudgeSettings`.

    Raises:
        SetupError: It cannot be asked: its key is missing, say.
    """
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
        send_provider_key=send_provider_key,
        allow_http_key=allow_http_key,
        price=entry.given_price(),
        structured_output="off" if entry.structured_output == "off" else "auto",
    )
    limits.limiters.append(limiter)
    reserve_costs(judge, entry, limits)
    return judge


def reserve_costs(judge: Judge, entry: JudgeEntry, limits: RunLimits) -> None:
    """Put into `limits` what reserves the cost of a judge's calls, if there is a budget and its price is known."""
    price = find_judge_price(entry)
    if limits.budget.limit is not None and price is not None and entry.judge != INSTRUMENTS:
        bound = make_cost_bound(entry, price, judge.sizing.detail)
        limits.reserve[id(judge)] = CallBudget(limits.budget, bound).reserve


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


@dataclass(frozen=True, slots=True)
class TokenEstimate:
    """Tokens of one call.

    Attributes:
        text_tokens: of all texts, by a rule of thumb.
        image_tokens: of all images, by the provider's rule.
        output_low: of a terse answer.
        output_high: of the longest answer.
        rule: how images were counted, and whose rule was used where the model is unknown.
        thinks: whether the model adds thoughts to its answer, of which nobody knows the length beforehand.
    """

    text_tokens: int
    image_tokens: int
    output_low: int
    output_high: int
    rule: str
    thinks: bool = False

    @property
    def input_tokens(self) -> int:
        return self.text_tokens + self.image_tokens


def estimate_tokens(
    provider: str, model: str, brief: Brief, detail: str | None = None, *, max_tokens: int | None = None
) -> TokenEstimate:
    """Estimate the tokens of one call.

    Args:
        provider: as in `openai:gpt-5-mini`.
        model: as in `openai:gpt-5-mini`.
        brief: the question.
        detail: image detail, if it is set.
        max_tokens: limit as a judge is given it; with it, `output_high` is a true upper bound. On Anthropic that
            includes the tokens that our requests add for models that think without being asked; a thinking budget among
            the parameters has to be added by the caller. Without `max_tokens`, `output_high` is a true bound on
            Anthropic, where the brief's own estimate is the limit; elsewhere no limit is sent, and it is an estimate
            that allows for thoughts.
    """
    rules, name = _find_token_rules(provider, model)
    rule, count = rules.image_rule(name, detail)
    thinking = rules.thinks(name) and (max_tokens is None or rules.adds_thinking_tokens)
    high = (brief.answer_tokens if max_tokens is None else max_tokens) + (THINKING_TOKENS if thinking else 0)
    weight = sum(map(_weigh_text, _iterate_texts(brief)))
    return TokenEstimate(
        text_tokens=ceil_div(10 * weight, rules.characters_per_10_tokens(name)),
        image_tokens=sum(count(block.image.width, block.image.height) for block in brief.images),
        # `answer_tokens` is generous, so that no answer is cut off: recorded ones take a sixteenth of it or more.
        output_low=min(brief.answer_tokens // 20, high),
        output_high=high,
        rule=rule,
        thinks=rules.thinks(name),
    )


def estimate_text_tokens(provider: str, model: str, text: str) -> int:
    """Estimate the tokens of a text, such as the earlier turns of a conversation."""
    rules, name = _find_token_rules(provider, model)
    return ceil_div(10 * _weigh_text(text), rules.characters_per_10_tokens(name))


def estimate_cost(estimate: TokenEstimate, price: Price) -> tuple[Decimal, Decimal]:
    """Return the lowest and the highest cost of a call in US dollars, exactly.

    Lowest: all text comes from the prompt cache, and the answer is terse. Highest: all input is written to the cache,
    where that costs more, and the answer is as long as it may be.
    """
    cached = price.input if price.cached is None else min(price.input, price.cached)
    written = price.input if price.written is None else max(price.input, price.written)
    low = estimate.text_tokens * cached + estimate.image_tokens * price.input + estimate.output_low * price.output
    high = estimate.input_tokens * written + estimate.output_high * price.output
    return low / MILLION, high / MILLION


def estimate_usual_cost(estimate: TokenEstimate, output: float, cached_share: float, price: Price) -> Decimal:
    """Return the cost of a call in US dollars with so many tokens of output, and this share of the input cached."""
    cached = price.input if price.cached is None else price.cached
    share = Decimal(cached_share)
    per_input = price.input * (1 - share) + cached * share
    return (estimate.input_tokens * per_input + Decimal(output) * price.output) / MILLION


def _iterate_texts(brief: Brief) -> Iterator[str]:
    yield brief.system
    for part in brief.content:
        yield part.text if isinstance(part, TextBlock) else part.label
    if brief.schema is not None:
        yield json.dumps(brief.schema, ensure_ascii=False, separators=(",", ":"), default=dict)


_NARROW = re.compile("[\u0080-\u07ff]")
_BEYOND = re.compile("[\U00010000-\U0010ffff]")


def _weigh_text(text: str) -> int:
    """Return the length of a text in characters of English that take as many tokens.

    Other alphabets take about twice the tokens per character; Chinese, Japanese, Korean and Indic scripts and signs a
    token each; emoji and rare characters two.
    """
    if text.isascii():
        return len(text)
    plain, narrow, beyond = len(text.encode("ascii", "ignore")), len(_NARROW.findall(text)), len(_BEYOND.findall(text))
    return plain + 2 * narrow + 4 * (len(text) - plain - narrow - beyond) + 8 * beyond


def _count_unknown_image(width: int, height: int) -> int:
    return ceil_div(width, 28) * ceil_div(height, 28)


_UNKNOWN_RULES = TokenRules(
    model_names=re.compile(""),
    image_rule=lambda name, detail: ("a token for 28 × 28 pixels; provider unknown", _count_unknown_image),
    characters_per_10_tokens=lambda name: 40,
    thinks=lambda name: True,
)
_MAKERS = {
    "anthropic": anthropic.TOKEN_RULES,
    "google": google.TOKEN_RULES,
    "openai": openai.TOKEN_RULES,
}


def _find_token_rules(provider: str, model: str) -> tuple[TokenRules, str]:
    """Return the rules of a model's maker and the model's bare name.

    The name tells the maker, whichever provider serves the model; otherwise the maker is the provider.
    """
    name = model.lower().rpartition("/")[2]
    by_name = (rules for rules in _MAKERS.values() if rules.model_names.search(name))
    by_provider = (rules for maker, rules in _MAKERS.items() if provider.startswith(maker))
    return next(by_name, next(by_provider, _UNKNOWN_RULES)), name
