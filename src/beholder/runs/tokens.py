"""What a brief will take: tokens by each provider's own documented rules, and money from–to. No call, no network.

Pictures count at the sizes that are really sent. The rules, as the pages stood in autumn 2026:

- OpenAI, 32-px patches or 512-px tiles: https://developers.openai.com/api/docs/guides/images-vision#calculating-costs
- Anthropic, 28-px patches (about width × height ÷ 784; the pages before said ÷ 750):
  https://platform.claude.com/docs/en/build-with-claude/vision#evaluate-image-size
  https://platform.claude.com/docs/en/build-with-claude/vision-coordinates (how a picture is scaled to fit)
- Google, a flat count by media resolution since Gemini 3, tiles before:
  https://ai.google.dev/gemini-api/docs/media-resolution and https://ai.google.dev/gemini-api/docs/image-understanding

Text is a rule of thumb from its characters; a provider's tokenizer may differ by a quarter either way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from beholder.providers.anthropic import (
    HIGH_RESOLUTION_LIMITS,
    STANDARD_LIMITS,
    THINKING_TOKENS,
    anthropic_image_tokens,
    claude_version,
)
from beholder.providers.base import NEWEST_VERSION, ImageTokenCounter, ceil_div
from beholder.providers.google import gemini_version, google_image_tokens
from beholder.providers.openai import openai_image_tokens
from beholder.providers.prices import MILLION, Price
from beholder.rubrics.brief import Brief, TextBlock


@dataclass(frozen=True, slots=True)
class TokenEstimate:
    """Tokens of one call. `rule` says how pictures were counted, and where a model was unknown whose rule was used.

    `image_tokens` follow the provider's rule, `text_tokens` are a rule of thumb.
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
    """What one call with `brief` will take. `provider` and `model` as in `openai:gpt-5-mini`.

    `max_tokens` is the limit as a judge is given it; with it, `output_high` is a true upper bound. On Anthropic that
    includes the room for thoughts that our wire adds for models that think unasked; a thinking budget among the
    parameters has to be added by the caller. Without `max_tokens`, `output_high` is a true bound on Anthropic, where
    the brief's own guess is the limit; elsewhere no limit is sent, and it is a guess that leaves room for thoughts.
    """
    maker, name = _find_model_maker(provider, model)
    rule, count = _find_image_rule(maker, name, detail)
    thoughts = THINKING_TOKENS if _thinks(maker, name) and (max_tokens is None or maker == "anthropic") else 0
    high = (brief.answer_tokens if max_tokens is None else max_tokens) + thoughts
    return TokenEstimate(
        text_tokens=_weight_to_tokens(sum(map(_weigh_text, _iterate_texts(brief))), maker, name),
        image_tokens=sum(count(picture.image.width, picture.image.height) for picture in brief.images),
        # `answer_tokens` is a generous guess, so that no answer is cut off; a terse model needs an eighth.
        output_low=min(brief.answer_tokens // 8, high),
        output_high=high,
        rule=rule,
    )


def estimate_text_tokens(provider: str, model: str, text: str) -> int:
    """A rule of thumb for tokens of text, such as the earlier turns of a conversation."""
    return _weight_to_tokens(_weigh_text(text), *_find_model_maker(provider, model))


def estimate_cost(estimate: TokenEstimate, price: Price) -> tuple[Decimal, Decimal]:
    """US dollars from–to, exactly. From: all text comes from the prompt cache, and the answer is terse. To: all input
    is written to the cache, where that costs more, and the answer is as long as it may be."""
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
    """A text's length in characters of English: other alphabets take about twice the tokens a character, Chinese,
    Japanese, Korean and Indic scripts and signs a token each, emoji and rare characters two."""
    if text.isascii():
        return len(text)
    plain, narrow, beyond = len(text.encode("ascii", "ignore")), len(_NARROW.findall(text)), len(_BEYOND.findall(text))
    return plain + 2 * narrow + 4 * (len(text) - plain - narrow - beyond) + 8 * beyond


def _weight_to_tokens(weight: int, maker: str, name: str) -> int:
    """OpenAI and Google say that a token is about 4 characters of English. For Claude the models page says 2.5 million
    characters to a million tokens since 4.7, and 3.4 million before."""
    tenths = 40 if maker != "anthropic" else 25 if claude_version(name) >= (4, 7) else 34
    return ceil_div(10 * weight, tenths)


def _find_model_maker(provider: str, model: str) -> tuple[str, str]:
    """Whose rules hold, and the model's bare name. Whoever serves a model, its name tells who made it."""
    name = model.lower().rpartition("/")[2]
    for maker, mark in (("anthropic", r"claude"), ("google", r"gemini"), ("openai", r"^gpt-\d|^o\d")):
        if re.search(mark, name):
            return maker, name
    return next((maker for maker in ("openai", "anthropic", "google") if provider.startswith(maker)), ""), name


def _thinks(maker: str, name: str) -> bool:
    """Whether a model may think unasked; one that is unknown may."""
    if maker == "openai":
        return not re.match(r"gpt-[34]", name)
    if maker == "anthropic":
        return claude_version(name) >= (5, 0)
    return maker != "google" or gemini_version(name) >= (2, 5)


def _find_image_rule(maker: str, name: str, detail: str | None) -> tuple[str, ImageTokenCounter]:
    if maker == "openai":
        return openai_image_tokens(name, detail)
    if maker == "anthropic":
        version = claude_version(name)
        limit, tier = (
            (HIGH_RESOLUTION_LIMITS, "high resolution") if version >= (4, 7) else (STANDARD_LIMITS, "standard")
        )
        unknown = "; model unknown" if version == NEWEST_VERSION else ""
        return f"anthropic patches, {tier}{unknown}", lambda width, height: anthropic_image_tokens(
            width, height, *limit
        )
    if maker == "google":
        return google_image_tokens(name, detail)
    return (
        "a token for 28 × 28 pixels; provider unknown",
        lambda width, height: ceil_div(width, 28) * ceil_div(height, 28),
    )
