"""Estimates of what a brief will take, without network: tokens by each provider's documented rules, and money.

The rules for images are in the provider modules (`Provider.token_rules`); images count at the sizes that are sent. Text
is a rule of thumb from its characters; a provider's tokenizer may differ by a quarter either way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from beholder.providers import anthropic, google, openai
from beholder.providers.base import THINKING_TOKENS, TokenRules, ceil_div
from beholder.providers.prices import MILLION, Price
from beholder.rubrics.brief import Brief, TextBlock


@dataclass(frozen=True, slots=True)
class TokenEstimate:
    """Tokens of one call.

    Attributes:
        text_tokens: of all texts, by a rule of thumb.
        image_tokens: of all images, by the provider's rule.
        output_low: of a terse answer.
        output_high: of the longest answer.
        rule: how images were counted, and whose rule was used where the model is unknown.
    """

    text_tokens: int
    image_tokens: int
    output_low: int
    output_high: int
    rule: str

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
        # `answer_tokens` is generous, so that no answer is cut off; a terse model needs an eighth.
        output_low=min(brief.answer_tokens // 8, high),
        output_high=high,
        rule=rule,
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
