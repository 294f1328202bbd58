"""The worked examples of the providers' own pages, beside the page; and what holds for every rule."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.images.image import PreparedImage
from beholder.providers.anthropic import build_request as anthropic_request
from beholder.providers.base import THINKING_TOKENS, ChatRequest
from beholder.providers.prices import Price
from beholder.rubrics.brief import Brief, ImageBlock, TextBlock
from beholder.runs.suite_judges import TokenEstimate, estimate_cost, estimate_text_tokens, estimate_tokens

MODELS = [
    ("openai", "gpt-6-astra"),
    ("openai", "gpt-5.5"),
    ("openai", "gpt-5.4"),
    ("openai", "gpt-5-mini"),
    ("openai", "gpt-4o"),
    ("anthropic", "claude-opus-5"),
    ("anthropic", "claude-haiku-4-5"),
    ("google", "gemini-3.8-flash"),
    ("google", "gemini-2.5-flash"),
    ("mistral", "pixtral-large-latest"),
]
DETAILS = st.sampled_from([None, "auto", "low", "medium", "high", "original"])
SIDES = st.integers(1, 16_384)


def brief_of(*sizes: tuple[int, int], text: str = "", answer_tokens: int = 2048) -> Brief:
    pictures = [
        ImageBlock("image", "", PreparedImage(b"", "image/png", width, height, "", "", width, height, "png"))
        for width, height in sizes
    ]
    return Brief("r", "1", None, text, tuple(pictures), None, "", "", answer_tokens)


def pictured(provider: str, model: str, width: int, height: int, detail: str | None = None) -> int:
    return estimate_tokens(provider, model, brief_of((width, height)), detail).image_tokens


# https://developers.openai.com/api/docs/guides/images-vision#calculating-costs, read as of autumn 2026, unless noted
@pytest.mark.parametrize(
    ("model", "detail", "width", "height", "tokens"),
    [
        ("gpt-6-astra", "high", 1024, 1024, 1229),
        ("gpt-6-astra", "high", 2048, 2048, 3000),
        ("gpt-6-astra", "high", 4096, 512, 2458),
        ("gpt-5.4", "high", 1024, 1024, 1229),
        ("gpt-5.4", "high", 2048, 2048, 3000),
        ("gpt-5.4", None, 2048, 2048, 3000),  # auto is high
        ("gpt-5.4", "low", 2048, 2048, 4916),  # "it can use more tokens than high": 64 × 64 patches
        ("gpt-5.5", None, 2048, 2048, 4916),  # auto is original
        ("gpt-5.6-luna", "low", 2048, 1024, 154),  # within 512 × 512: 16 × 8 patches
        ("gpt-5.2", "original", 4096, 4096, 4916),  # not supported: as the others, within 2048
        ("gpt-4.1-mini-2025-04-14", None, 1024, 1024, 1659),
        # the page of 2025, for gpt-4o
        ("gpt-4o", "high", 1024, 1024, 765),
        ("gpt-4o", "high", 2048, 4096, 1105),
        ("gpt-4o", "low", 4096, 8192, 85),
        # billed, less 8 for the prompt: https://community.openai.com/t/1281361
        ("gpt-4.1", "high", 2049, 513, 1445),
        ("gpt-4.1", "high", 2050, 513, 765),
        ("gpt-5", None, 512, 512, 210),
        ("gpt-5-chat-latest", "low", 512, 512, 70),
        ("gpt-4o-mini", "high", 512, 512, 8500),
        ("o3", None, 512, 512, 225),
        # measured: https://huggingface.co/datasets/JOHNISKING/image-token-cost
        ("gpt-6-astra", None, 4032, 3024, 14_364),
        ("gpt-6-astra", "high", 4032, 3024, 2942),
        ("gpt-5.5", "auto", 4032, 3024, 11_868),
        ("gpt-6-astra", "high", 2560, 1440, 2931),
    ],
)
def test_openai(model: str, detail: str | None, width: int, height: int, tokens: int) -> None:
    assert pictured("openai", model, width, height, detail) == tokens


# https://platform.claude.com/docs/en/build-with-claude/vision-coordinates
@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        ("claude-haiku-4-5", 1075, 1520, 33 * 47),  # scaled to 924 × 1307
        ("claude-haiku-4-5", 1920, 1080, 52 * 30),  # scaled to 1456 × 819
        ("claude-opus-4-7", 1075, 1520, 39 * 55),  # "does not resize the same scan: 2145 tokens"
        ("claude-sonnet-5", 1920, 1080, 69 * 39),
        ("claude-sonnet-5", 3840, 2160, 4784),
        ("claude-3-5-sonnet-20241022", 1092, 1092, 1521),
        ("claude-sonnet-4-20250514", 1932, 1932, 1521),
        ("claude-fable-5", 1932, 1932, 4761),
    ],
)
def test_anthropic(model: str, width: int, height: int, tokens: int) -> None:
    assert pictured("anthropic", model, width, height) == tokens


@pytest.mark.parametrize(
    ("model", "detail", "width", "height", "tokens"),
    [
        # https://ai.google.dev/gemini-api/docs/image-understanding#token-calculation
        ("gemini-2.5-flash", None, 384, 384, 258),
        ("gemini-2.5-flash", None, 960, 540, 6 * 258),
        # https://ai.google.dev/gemini-api/docs/media-resolution#token-counts
        ("gemini-2.5-pro", "low", 960, 540, 64),
        ("gemini-2.5-pro", "medium", 960, 540, 256),
        ("gemini-3-pro-preview", None, 960, 540, 1120),
        ("gemini-3.8-flash", "low", 960, 540, 280),
        ("gemini-3.8-flash", "medium", 64, 64, 560),
        ("gemini-4-argon", "high", 3072, 3072, 1120),
    ],
)
def test_google(model: str, detail: str | None, width: int, height: int, tokens: int) -> None:
    assert pictured("google", model, width, height, detail) == tokens


@pytest.mark.parametrize(
    ("provider", "model", "rule"),
    [
        ("openai", "gpt-5-mini-2025-08-07", "openai patches, as for gpt-5-mini"),
        ("openai", "gpt-4o-2024-11-20", "openai tiles, as for gpt-4o"),
        ("openai", "gpt-5.9", "openai patches, as for gpt-6; model unknown"),
        ("openai", "my-own-qwen", "openai patches, as for gpt-6; model unknown"),
        ("anthropic", "claude-next", "anthropic patches, high resolution; model unknown"),
        ("bedrock", "anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic patches, standard"),
        ("openrouter", "openai/gpt-4.1-mini", "openai patches, as for gpt-4.1-mini"),
        ("google-vertex", "gemini-2.5-pro", "google tiles, as for gemini-2.5"),
        ("google", "gemini-flash-latest", "google media resolution, as for gemini-3; model unknown"),
        ("mistral", "pixtral-large-latest", "a token for 28 × 28 pixels; provider unknown"),
    ],
)
def test_an_estimate_says_whose_rule_was_used(provider: str, model: str, rule: str) -> None:
    assert estimate_tokens(provider, model, brief_of()).rule == rule


@pytest.mark.parametrize(("provider", "model"), MODELS)
@given(width=st.integers(1, 1024), height=st.integers(1, 1024), grown=st.integers(0, 64), detail=DETAILS)
def test_a_larger_square_or_a_longer_side_never_takes_fewer_tokens(
    provider: str, model: str, width: int, height: int, grown: int, detail: str | None
) -> None:
    """Where nothing is scaled, that is: beyond its limits each provider scales down, and may land below the limit."""
    if model != "gemini-2.5-flash" and detail != "low":  # Gemini's crops follow the shorter side
        assert pictured(provider, model, width, height, detail) <= pictured(
            provider, model, width + grown, height, detail
        )
    assert pictured(provider, model, width, width, detail) <= pictured(
        provider, model, width + grown, width + grown, detail
    )


MOST = {
    "gpt-6-astra": 314_573,
    "gpt-5.5": 12_000,
    "gpt-5.4": 12_000,
    "gpt-5-mini": 4916,
    "gpt-4o": 85 + 8 * 170,
    "claude-opus-5": 4784,
    "claude-haiku-4-5": 1568,
    "gemini-3.8-flash": 1120,
}


@pytest.mark.parametrize(("provider", "model"), [one for one in MODELS if one[1] in MOST])
@given(width=SIDES, height=SIDES, detail=DETAILS)
def test_no_picture_takes_more_than_the_most_nor_nothing(
    provider: str, model: str, width: int, height: int, detail: str | None
) -> None:
    assert 0 < pictured(provider, model, width, height, detail) <= MOST[model]
    # Turning a picture changes nothing.
    assert pictured(provider, model, width, height, detail) == pictured(provider, model, height, width, detail)


def test_every_picture_counts() -> None:
    one, two = (estimate_tokens("openai", "gpt-4o", brief_of(*[(512, 512)] * count)).image_tokens for count in (1, 2))
    assert (one, two) == (255, 510)


def test_text_is_counted_by_script_and_tokenizer() -> None:
    assert estimate_text_tokens("openai", "gpt-5-mini", "x" * 400) == 100
    assert estimate_text_tokens("google", "gemini-3.8-flash", "x" * 400) == 100
    assert estimate_text_tokens("anthropic", "claude-haiku-4-5", "x" * 340) == 100
    assert estimate_text_tokens("anthropic", "claude-opus-5", "x" * 250) == 100
    assert estimate_text_tokens("openai", "gpt-5-mini", "ж" * 100) == 50
    assert estimate_text_tokens("openai", "gpt-5-mini", "画" * 100) == 100
    assert estimate_text_tokens("openai", "gpt-5-mini", "🙂" * 100) == 200
    assert estimate_text_tokens("openai", "gpt-5-mini", "") == 0


@given(st.text(), st.text())
def test_more_text_never_takes_fewer_tokens(one: str, more: str) -> None:
    assert estimate_text_tokens("openai", "gpt-5-mini", one) <= estimate_text_tokens("openai", "gpt-5-mini", one + more)


def test_system_fields_labels_and_schema_all_count() -> None:
    bare = brief_of((8, 8), text="s" * 40)
    (picture,) = bare.images
    full = replace(bare, content=(replace(picture, label="l" * 40), TextBlock("t" * 40)), schema={"k": "v" * 32})
    assert estimate_tokens("openai", "gpt-4o", bare).text_tokens == 10
    assert estimate_tokens("openai", "gpt-4o", full).text_tokens == 40
    assert estimate_tokens("openai", "gpt-4o", full).input_tokens == 40 + 255


@pytest.mark.parametrize(("provider", "model"), MODELS)
@given(limit=st.integers(1, 100_000), answer=st.integers(1, 10_000))
def test_with_a_limit_the_output_is_bounded_by_it(provider: str, model: str, limit: int, answer: int) -> None:
    said = estimate_tokens(provider, model, brief_of(answer_tokens=answer), max_tokens=limit)
    assert said.output_high == limit + (THINKING_TOKENS if model == "claude-opus-5" else 0)
    assert said.output_low <= said.output_high


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-opus-5", "claude-sonnet-4-20250514"])
@pytest.mark.parametrize("limit", [None, 300])
def test_on_anthropic_the_bound_is_the_limit_that_the_wire_sends(model: str, limit: int | None) -> None:
    brief = brief_of(text="Judge.")
    sent = anthropic_request(ChatRequest(brief, model, "http://localhost", None, max_tokens=limit))
    high = estimate_tokens("anthropic", model, brief, max_tokens=limit).output_high
    assert f'"max_tokens":{high}' in b"".join(sent.body.chunks()).decode().replace(": ", ":")


def test_models_that_think_unasked_get_room_for_it() -> None:
    brief = brief_of(answer_tokens=800)
    assert estimate_tokens("openai", "gpt-4o", brief).output_high == 800
    assert estimate_tokens("openai", "gpt-5-mini", brief).output_high == 800 + THINKING_TOKENS
    assert estimate_tokens("google", "gemini-2.0-flash", brief).output_high == 800
    assert estimate_tokens("google", "gemini-2.5-flash", brief).output_high == 800 + THINKING_TOKENS
    assert estimate_tokens("openai", "gpt-5-mini", brief).output_low == 40


def test_money_from_and_to() -> None:
    said = TokenEstimate(text_tokens=1000, image_tokens=2000, output_low=100, output_high=1000, rule="")
    plain = Price(Decimal(2), Decimal(10))
    assert estimate_cost(said, plain) == (Decimal("0.007"), Decimal("0.016"))
    # From: text out of the cache. To: all input into it.
    caching = Price(Decimal(2), Decimal(10), Decimal("0.2"), Decimal("2.5"))
    assert estimate_cost(said, caching) == (Decimal("0.0052"), Decimal("0.0175"))


AMOUNTS = st.decimals(0, 100, places=3)


@given(
    st.builds(Price, AMOUNTS, AMOUNTS, st.none() | AMOUNTS, st.none() | AMOUNTS),
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**4), st.integers(0, 10**4)),
)
def test_from_is_never_more_than_to(price: Price, counts: tuple[int, int, int, int]) -> None:
    text, image, low, more = counts
    least, most = estimate_cost(TokenEstimate(text, image, low, low + more, ""), price)
    assert least <= most
