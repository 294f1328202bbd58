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
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import isqrt

from beholder.judges.prices import MILLION, Price
from beholder.judges.wires.anthropic import THINKING_ROOM
from beholder.rubrics.brief import Brief, Text

Count = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class Estimate:
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


def estimate(
    provider: str, model: str, brief: Brief, detail: str | None = None, *, max_tokens: int | None = None
) -> Estimate:
    """What one call with `brief` will take. `provider` and `model` as in `openai:gpt-5-mini`.

    `max_tokens` is the limit as a judge is given it; with it, `output_high` is a true upper bound. On Anthropic that
    includes the room for thoughts that our wire adds for models that think unasked; a thinking budget among the
    parameters has to be added by the caller. Without `max_tokens`, `output_high` is a true bound on Anthropic, where
    the brief's own guess is the limit; elsewhere no limit is sent, and it is a guess that leaves room for thoughts.
    """
    maker, name = _maker(provider, model)
    rule, count = _picture_rule(maker, name, detail)
    thoughts = THINKING_ROOM if _thinks(maker, name) and (max_tokens is None or maker == "anthropic") else 0
    high = (brief.answer_tokens if max_tokens is None else max_tokens) + thoughts
    return Estimate(
        text_tokens=_tokens(sum(map(_weight, _texts(brief))), maker, name),
        image_tokens=sum(count(picture.image.width, picture.image.height) for picture in brief.pictures),
        # `answer_tokens` is a generous guess, so that no answer is cut off; a terse model needs an eighth.
        output_low=min(brief.answer_tokens // 8, high),
        output_high=high,
        rule=rule,
    )


def text_tokens(provider: str, model: str, text: str) -> int:
    """A rule of thumb for tokens of text, such as the earlier turns of a conversation."""
    return _tokens(_weight(text), *_maker(provider, model))


def money(estimate: Estimate, price: Price) -> tuple[Decimal, Decimal]:
    """US dollars from–to, exactly. From: all text comes from the prompt cache, and the answer is terse. To: all input
    is written to the cache, where that costs more, and the answer is as long as it may be."""
    cached = price.input if price.cached is None else min(price.input, price.cached)
    written = price.input if price.written is None else max(price.input, price.written)
    low = estimate.text_tokens * cached + estimate.image_tokens * price.input + estimate.output_low * price.output
    high = estimate.input_tokens * written + estimate.output_high * price.output
    return low / MILLION, high / MILLION


def _texts(brief: Brief) -> Iterator[str]:
    yield brief.system
    for part in brief.content:
        yield part.text if isinstance(part, Text) else part.label
    if brief.schema is not None:
        yield json.dumps(brief.schema, ensure_ascii=False, separators=(",", ":"), default=dict)


_NARROW = re.compile("[\u0080-\u07ff]")
_BEYOND = re.compile("[\U00010000-\U0010ffff]")


def _weight(text: str) -> int:
    """A text's length in characters of English: other alphabets take about twice the tokens a character, Chinese,
    Japanese, Korean and Indic scripts and signs a token each, emoji and rare characters two."""
    if text.isascii():
        return len(text)
    plain, narrow, beyond = len(text.encode("ascii", "ignore")), len(_NARROW.findall(text)), len(_BEYOND.findall(text))
    return plain + 2 * narrow + 4 * (len(text) - plain - narrow - beyond) + 8 * beyond


def _tokens(weight: int, maker: str, name: str) -> int:
    """OpenAI and Google say that a token is about 4 characters of English. For Claude the models page says 2.5 million
    characters to a million tokens since 4.7, and 3.4 million before."""
    tenths = 40 if maker != "anthropic" else 25 if _claude(name) >= (4, 7) else 34
    return _ceil(10 * weight, tenths)


def _maker(provider: str, model: str) -> tuple[str, str]:
    """Whose rules hold, and the model's bare name. Whoever serves a model, its name tells who made it."""
    name = model.lower().rpartition("/")[2]
    for maker, mark in (("anthropic", r"claude"), ("google", r"gemini"), ("openai", r"^gpt-\d|^o\d")):
        if re.search(mark, name):
            return maker, name
    return next((maker for maker in ("openai", "anthropic", "google") if provider.startswith(maker)), ""), name


_NEWEST = (99, 0)


def _claude(name: str) -> tuple[int, int]:
    """`claude-opus-4-7`, `claude-3-5-haiku-20241022`, `claude-sonnet-4-20250514` (a date is no version)."""
    return _version(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2})(?!\d))?", name)


def _gemini(name: str) -> tuple[int, int]:
    return _version(r"gemini-(\d+)(?:\.(\d+))?", name)


def _version(pattern: str, name: str) -> tuple[int, int]:
    found = re.search(pattern, name)
    return (int(found[1]), int(found[2] or 0)) if found else _NEWEST


def _thinks(maker: str, name: str) -> bool:
    """Whether a model may think unasked; one that is unknown may."""
    if maker == "openai":
        return not re.match(r"gpt-[34]", name)
    if maker == "anthropic":
        return _claude(name) >= (5, 0)
    return maker != "google" or _gemini(name) >= (2, 5)


def _picture_rule(maker: str, name: str, detail: str | None) -> tuple[str, Count]:
    if maker == "openai":
        return _openai(name, detail)
    if maker == "anthropic":
        version = _claude(name)
        limit, tier = (HIGH_RESOLUTION, "high resolution") if version >= (4, 7) else (STANDARD, "standard")
        unknown = "; model unknown" if version == _NEWEST else ""
        return f"anthropic patches, {tier}{unknown}", lambda width, height: _anthropic(width, height, *limit)
    if maker == "google":
        return _google(name, detail)
    return "a token for 28 × 28 pixels; provider unknown", lambda width, height: _ceil(width, 28) * _ceil(height, 28)


@dataclass(frozen=True, slots=True)
class Tiles:
    base: int
    tile: int


@dataclass(frozen=True, slots=True)
class Patches:
    """`percent` is the multiplier; `limits` the longest side and the most patches by detail, `""` for any other."""

    percent: int
    limits: Mapping[str, tuple[int, int | None]]


_ANY = {"": (2048, 6144)}
_FREE: dict[str, tuple[int, int | None]] = {"": (65_535, None), "low": (512, None)}
_GPT_5_5: dict[str, tuple[int, int | None]] = {"": (6000, 10_000), "low": (512, None), "high": (2048, 2500)}
_GPT_5_4 = {"": (2048, 2500), "low": (2048, 6144), "original": (6000, 10_000)}
_SMALL = Patches(120, _ANY)
_GPT_4 = Tiles(85, 170)
# By the beginning of the model's name. The page has no patch limit any more for models that will be shut down
# (gpt-5-mini, gpt-5-nano, gpt-4.1-nano, o4-mini): they get that of the models with which it used to list them.
OPENAI: dict[str, Tiles | Patches] = {
    "gpt-6": Patches(120, _FREE | {"high": (65_535, 2500)}),
    "gpt-5.6": Patches(120, _FREE | {"high": (2048, 2500)}),
    "gpt-5.5": Patches(120, _GPT_5_5),
    "gpt-5.4": Patches(120, _GPT_5_4),
    "gpt-5.3": _SMALL,
    "gpt-5.2": _SMALL,
    "gpt-5.1-codex-mini": _SMALL,
    "gpt-5.1": Tiles(70, 140),
    "gpt-5-codex-mini": _SMALL,
    "gpt-5-mini": _SMALL,
    "gpt-5-nano": Patches(150, _ANY),
    "gpt-5": Tiles(70, 140),
    "gpt-4.1-mini": Patches(162, _ANY),
    "gpt-4.1-nano": Patches(246, _ANY),
    "gpt-4.1": _GPT_4,
    "gpt-4o-mini": Tiles(2833, 5667),
    "gpt-4o": _GPT_4,
    "o4-mini": Patches(172, _ANY),
    "o3": Tiles(75, 150),
    "o1": Tiles(75, 150),
}


def _openai(name: str, detail: str | None) -> tuple[str, Count]:
    known = [start for start in OPENAI if f"{name}-".startswith(f"{start}-")]
    like = max(known, key=len, default="gpt-6")
    rule = OPENAI[like]
    unknown = "" if known else "; model unknown"
    if isinstance(rule, Tiles):
        tile = 0 if detail == "low" else rule.tile
        return f"openai tiles, as for {like}{unknown}", lambda *size: rule.base + tile * _tiles(*size)
    side, budget = rule.limits.get(detail or "", rule.limits[""])

    def count(width: int, height: int) -> int:
        return _ceil(_patches(*_fit(width, height, side), budget) * rule.percent, 100)

    return f"openai patches, as for {like}{unknown}", count


def _patches(width: int, height: int, budget: int | None) -> int:
    """The page scales by √(32² · budget ÷ (width · height)), then to whole patches on the side that loses less; in
    whole numbers that comes to this, without a float's doubt at the edges."""
    if budget is None or _ceil(width, 32) * _ceil(height, 32) <= budget:
        return _ceil(width, 32) * _ceil(height, 32)
    across, down = isqrt(budget * width // height), isqrt(budget * height // width)
    if across * height <= down * width:
        return across * _ceil(32 * across * height // width, 32)
    return down * _ceil(32 * down * width // height, 32)


def _tiles(width: int, height: int) -> int:
    short, long = sorted(_fit(width, height, 2048))
    if short > 768:
        short, long = 768, long * 768 // short
    return _ceil(short, 512) * _ceil(long, 512)


def _fit(width: int, height: int, side: int) -> tuple[int, int]:
    longest = max(width, height)
    if longest <= side:
        return width, height
    return max(1, round(Fraction(width * side, longest))), max(1, round(Fraction(height * side, longest)))


# The longest side and the most tokens of a picture: Claude 4.7 and later, and before.
HIGH_RESOLUTION = (2576, 4784)
STANDARD = (1568, 1568)


def _anthropic(width: int, height: int, side: int, most: int) -> int:
    """A token for each 28 × 28 pixels of the largest size, in the same proportions, that is within both limits."""
    long, short = max(width, height), min(width, height)

    def cells(edge: int) -> tuple[int, int]:
        return _ceil(edge, 28), _ceil(max(1, round(edge * short / long)), 28)

    def too_large(edge: int) -> bool:
        across, down = cells(edge)
        return across * 28 > side or across * down > most

    edge = bisect_left(range(1, long + 1), True, key=too_large)
    across, down = cells(edge)
    return across * down


MEDIA_RESOLUTION = {"low": 280, "medium": 560, "high": 1120, "ultra_high": 2240}
GEMINI_2_RESOLUTION = {"low": 64, "medium": 256}


def _google(name: str, detail: str | None) -> tuple[str, Count]:
    version = _gemini(name)
    if version >= (3, 0):
        unknown = "; model unknown" if version == _NEWEST else ""
        flat = MEDIA_RESOLUTION.get(detail or "high", MEDIA_RESOLUTION["high"])
        return f"google media resolution, as for gemini-3{unknown}", lambda width, height: flat
    if detail in GEMINI_2_RESOLUTION:
        fixed = GEMINI_2_RESOLUTION[detail]
        return "google media resolution, as for gemini-2.5", lambda width, height: fixed
    return "google tiles, as for gemini-2.5", _crops


def _crops(width: int, height: int) -> int:
    if max(width, height) <= 384:
        return 258
    unit = min(768, max(256, min(width, height) * 2 // 3))
    return 258 * _ceil(width, unit) * _ceil(height, unit)


def _ceil(number: int, of: int) -> int:
    return -(-number // of)
