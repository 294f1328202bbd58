"""How judges are made from their names (`openai:gpt-5-mini`), and what is known of a judge without making it.

The part before the colon names a plug-in (an entry point of the group `beholder.judges`, as Beholder's own providers
are) or a provider that pydantic-ai knows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import TypeAlias, Unpack

from beholder.errors import SetupError
from beholder.images.image import DEFAULT_SIZING, Sizing
from beholder.judges.base import INSTRUMENTS, Judge
from beholder.judges.model import SEVERAL_BASE_URLS, ModelJudge
from beholder.plugins import find_named_entry_points
from beholder.providers.base import (
    DEFAULT_SETTINGS,
    ENTRY_POINT_GROUP,
    JudgeSettings,
    JudgeSettingsKwargs,
    Provider,
    format_identity,
    split_image_params,
)
from beholder.providers.endpoint import normalize_base_url

JudgePlugin: TypeAlias = Provider | Callable[[str, JudgeSettings], Judge]
"""A provider, or a function that makes a judge from the model's name and the settings."""


def judge_from(spec: str, settings: JudgeSettings | None = None, **given: Unpack[JudgeSettingsKwargs]) -> Judge:
    """Make a judge from its name.

    Args:
        spec: `PROVIDER:MODEL`, such as `openai:gpt-5-mini`, with a plug-in of the group `beholder.judges` or a provider
            that pydantic-ai knows; `instruments` is the judge that only measures.
        settings: what to set about it.
        **given: the same by keyword: `judge_from("openai:qwen", base_url="http://localhost:8000/v1")`.

    Raises:
        SetupError: there is no such judge, or a key, base URL or parameter cannot work.
    """
    names = [one.name for one in fields(JudgeSettings)]
    if unknown := next((name for name in given if name not in names), None):
        close = get_close_matches(unknown, names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}."
        raise SetupError(f"There is no setting {unknown!r} of a judge; {hint}")
    settings = replace(settings or DEFAULT_SETTINGS, **given)
    if spec == INSTRUMENTS:
        from beholder.judges.offline.judge import InstrumentsJudge

        return InstrumentsJudge(settings)
    provider, model = split_spec(spec)
    plugin = load_plugin(provider)
    if plugin is None:
        from beholder.providers.pydantic_ai import make_pydantic_ai_judge

        return make_pydantic_ai_judge(provider, model, settings)
    return ModelJudge(plugin, model, settings) if isinstance(plugin, Provider) else plugin(model, settings)


def check_judge_name(spec: str) -> None:
    """Raise `SetupError` for a name that no judge can have, without a key and without making it."""
    provider, model = split_spec(spec)
    if spec != INSTRUMENTS and load_plugin(provider) is None:
        from beholder.providers.pydantic_ai import check_prefix

        check_prefix(provider, model)


def judge_identity(spec: str, base_url: str | None, params: Mapping[str, object], base_urls: Sequence[str] = ()) -> str:
    """Return the identity that `judge_from` would give a judge, without a key and without making it."""
    if spec == INSTRUMENTS:
        return judge_from(spec, base_url=base_url, params=params).identity
    plugin = load_plugin(split_spec(spec)[0])
    sizing = judge_sizing(spec, params)
    rest = {name: value for name, value in params.items() if name not in ("detail", "max_side")}
    if base_urls:
        return format_identity(spec, SEVERAL_BASE_URLS, rest, sizing.detail)
    if not isinstance(plugin, Provider):
        return format_identity(spec, base_url or "", rest, sizing.detail)
    custom_url = base_url or os.environ.get(plugin.base_url_variable, "").strip()
    place = normalize_base_url(custom_url) if custom_url else plugin.base_url
    return format_identity(spec, place, rest, sizing.detail)


def uses_custom_base_url(spec: str, base_url: str | None, base_urls: Sequence[str] = ()) -> bool:
    """Return whether a judge would be asked at another address than its provider's own."""
    if spec == INSTRUMENTS:
        return False
    plugin = load_plugin(split_spec(spec)[0])
    if base_urls or not isinstance(plugin, Provider):
        return bool(base_urls or base_url)
    custom_url = base_url or os.environ.get(plugin.base_url_variable, "").strip()
    return bool(custom_url) and custom_url.rstrip("/") != plugin.base_url


def judge_sizing(spec: str, params: Mapping[str, object]) -> Sizing:
    """Return how a judge would want its images, without a key and without making it."""
    if spec == INSTRUMENTS:
        return judge_from(spec, params=params).sizing
    provider, _ = split_spec(spec)
    plugin = load_plugin(provider)
    if isinstance(plugin, Provider):
        return split_image_params(params, plugin.sizing, plugin.image_details, plugin.name)[1]
    from beholder.providers.pydantic_ai import IMAGE_DETAILS

    return split_image_params(params, DEFAULT_SIZING, IMAGE_DETAILS, provider)[1]


def split_spec(spec: str) -> tuple[str, str]:
    """Split `openai:gpt-5-mini` into provider and model (empty for `instruments`); raise `SetupError` for no name."""
    if not isinstance(spec, str):
        raise SetupError(f"A judge is named by a text such as openai:gpt-5-mini, not by {spec!r}.")
    if spec == INSTRUMENTS:
        return spec, ""
    provider, colon, model = spec.partition(":")
    if not colon or not provider.strip():
        raise SetupError(f"'{spec}' names no judge; write PROVIDER:MODEL, for example openai:gpt-5-mini.")
    if not model.strip():
        raise SetupError(f"'{spec}' names no model; write one after the colon, for example {provider}:NAME.")
    return provider, model


def load_plugin(provider: str) -> JudgePlugin | None:
    """Load the plug-in of that prefix; `None` where there is none."""
    points = find_named_entry_points(ENTRY_POINT_GROUP)
    return next((point.load() for point in points if point.name == provider), None)


def load_plugins() -> list[JudgePlugin]:
    """Load all plug-ins, Beholder's own among them."""
    return [point.load() for point in find_named_entry_points(ENTRY_POINT_GROUP)]


def parse_param(text: str) -> tuple[str, object]:
    """Parse the parameter `NAME=VALUE`; a value that is JSON (`0.2`, `true`, `[…]`) is decoded, else it is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SetupError(f"'{text}' is no parameter; write NAME=VALUE, for example temperature=0.")
    try:
        return name.strip(), json.loads(value, parse_constant=_reject_constant)
    except ValueError:
        return name.strip(), value


def _reject_constant(text: str) -> object:
    raise ValueError(text)
