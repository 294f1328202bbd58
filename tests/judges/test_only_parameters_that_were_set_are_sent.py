from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import pytest
from support.judges import KEY, MODELS, PROTOCOLS, WIRES, brief, judge

from beholder.errors import SetupError
from beholder.judges.factory import parse_param
from beholder.providers.base import ChatRequest
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer


async def sent(server: JudgeServer, protocol: str, params: Mapping[str, object], **call: object) -> dict[str, Any]:
    async with aclosing(judge(server, protocol, params=params)) as one:
        await one.answer(brief(), **call)  # type: ignore[arg-type]
    return dict(server.received[-1].body)


BARE = {
    "openai": {"model", "messages", "response_format"},
    "anthropic": {"model", "messages", "system", "max_tokens", "output_config"},
    "google": {"contents", "systemInstruction", "generationConfig"},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_nothing_set_nothing_sent(server: JudgeServer, protocol: str) -> None:
    body = await sent(server, protocol, {})
    assert body.keys() == BARE[protocol]
    if protocol == "google":
        assert body["generationConfig"].keys() == {"responseMimeType", "responseSchema"}
    if protocol == "anthropic":
        assert body["max_tokens"] == 2048
        assert body["output_config"].keys() == {"format"}


async def test_common_names_go_where_each_provider_keeps_them(server: JudgeServer) -> None:
    common = {"max_tokens": 900, "temperature": 0, "top_p": 0.9, "reasoning_effort": "low"}
    body = await sent(server, "openai", {**common, "seed": 7})
    assert {name: body[name] for name in (*common, "seed")} == {**common, "seed": 7}
    body = await sent(server, "anthropic", common)
    assert (body["max_tokens"], body["temperature"], body["top_p"]) == (900, 0, 0.9)
    assert body["output_config"]["effort"] == "low"
    assert "format" in body["output_config"]
    config = (await sent(server, "google", {**common, "seed": 7}))["generationConfig"]
    assert (config["maxOutputTokens"], config["temperature"], config["topP"], config["seed"]) == (900, 0, 0.9, 7)
    assert config["thinkingConfig"] == {"thinkingBudget": 1024}  # Gemini 2 knows no levels


def test_a_reasoning_effort_is_a_level_from_gemini_3_on() -> None:
    question = ChatRequest(brief(), "gemini-3-pro", "http://localhost", None, {"reasoning_effort": "low"})
    body = json.loads(b"".join(WIRES["google"].build_request(question).body.chunks()))
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "low"}


async def test_native_and_dotted_names_pass_straight_through(server: JudgeServer) -> None:
    assert (await sent(server, "openai", {"verbosity": "low"}))["verbosity"] == "low"
    body = await sent(server, "anthropic", {"thinking.type": "enabled", "thinking.budget_tokens": 2000})
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert body["max_tokens"] == 2048 + 2000
    body = await sent(server, "google", {"thinkingConfig.thinkingBudget": 0, "safetySettings": []})
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 0}
    assert body["safetySettings"] == []


def body_at(protocol: str, base_url: str, model: str | None = None, **changes: object) -> dict[str, Any]:
    question = ChatRequest(brief(), model or MODELS[protocol], base_url, KEY, **changes)  # type: ignore[arg-type]
    body: dict[str, Any] = json.loads(b"".join(WIRES[protocol].build_request(question).body.chunks()))
    return body


def test_the_token_limit_has_its_new_name_at_openai_itself_and_its_old_one_elsewhere() -> None:
    official = body_at("openai", "https://api.openai.com/v1", max_tokens=500)
    assert official["max_completion_tokens"] == 500
    assert "max_tokens" not in official
    elsewhere = body_at("openai", "http://localhost:8000/v1", max_tokens=500, params={"max_tokens": 100})
    assert elsewhere["max_tokens"] == 500
    assert "max_completion_tokens" not in elsewhere
    chosen = body_at("openai", "http://localhost:8000/v1", max_tokens=500, params={"max_completion_tokens": 100})
    assert chosen["max_completion_tokens"] == 500
    assert "max_tokens" not in chosen


def test_a_claude_that_thinks_unasked_has_room_for_it_beside_the_answer() -> None:
    url = "https://api.anthropic.com"
    assert body_at("anthropic", url, "claude-haiku-4-5")["max_tokens"] == 2048
    assert body_at("anthropic", url, "claude-sonnet-5")["max_tokens"] == 2048 + 8192
    assert body_at("anthropic", url, "claude-sonnet-5", max_tokens=4096)["max_tokens"] == 4096 + 8192
    assert body_at("anthropic", url, "claude-sonnet-5", params={"max_tokens": 900})["max_tokens"] == 900
    quiet = body_at("anthropic", url, "claude-opus-5", params={"thinking.type": "disabled"})
    assert quiet["max_tokens"] == 2048


async def test_anthropic_is_asked_by_its_newest_version_unless_sampling_is_set(server: JudgeServer) -> None:
    # https://platform.claude.com/docs/en/api/versioning: the newest knows no temperature, top_p and top_k
    for params, version in (({}, "2026-10-21"), ({"temperature": 0}, "2023-06-01"), ({"top_k": 5}, "2023-06-01")):
        await sent(server, "anthropic", params)
        assert server.received[-1].headers["anthropic-version"] == version


async def test_a_limit_for_one_answer_goes_before_the_judges_own(server: JudgeServer) -> None:
    assert (await sent(server, "openai", {"max_tokens": 100}, max_tokens=4096))["max_tokens"] == 4096
    assert (await sent(server, "anthropic", {"max_tokens": 100}, max_tokens=4096))["max_tokens"] == 4096
    body = await sent(server, "google", {"max_tokens": 100}, max_tokens=4096)
    assert body["generationConfig"]["maxOutputTokens"] == 4096


async def test_samples_do_not_share_a_seed(server: JudgeServer) -> None:
    assert (await sent(server, "openai", {"seed": 7}, sample=0))["seed"] == 7
    assert (await sent(server, "openai", {"seed": 7}, sample=2))["seed"] == 9
    assert "seed" not in await sent(server, "openai", {}, sample=2)


async def test_detail_and_max_side_belong_to_the_pictures(server: JudgeServer) -> None:
    body = await sent(server, "openai", {"detail": "high", "max_side": 1024})
    assert body.keys() == BARE["openai"]
    details = [part["image_url"].get("detail") for part in body["messages"][1]["content"] if part["type"] != "text"]
    assert details == ["high", "high"]
    assert '"detail"' not in json.dumps(await sent(server, "openai", {}))
    config = (await sent(server, "google", {"detail": "low"}))["generationConfig"]
    assert config["mediaResolution"] == "MEDIA_RESOLUTION_LOW"
    assert judge(server, params={"max_side": 1024}).sizing.max_side == 1024
    assert judge(server).sizing.max_side == 2048


@pytest.mark.parametrize(
    ("protocol", "params", "sentence"),
    [
        ("anthropic", {"detail": "high"}, "anthropic knows no picture detail 'high'; set max_side instead."),
        ("openai", {"detail": "huge"}, "openai knows no picture detail 'huge'; it knows auto, low, high, original."),
        ("openai", {"max_side": "big"}, "max_side is 'big'; it must be a whole number of pixels, for example 1024."),
    ],
)
def test_wrong_picture_settings_are_told_at_once(
    server: JudgeServer, protocol: str, params: dict[str, object], sentence: str
) -> None:
    with pytest.raises(SetupError) as error:
        judge(server, protocol, params=params)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("protocol", "params", "sentence"),
    [
        ("anthropic", {"seed": 1}, "anthropic has no parameter 'seed'; leave it out."),
        ("openai", {"messages": []}, "The parameter 'messages' is set by Beholder itself; leave it out."),
        ("google", {"responseSchema.type": "X"}, "The parameter 'responseSchema.type' is set by Beholder itself"),
        ("google", {"thinkingConfig": 1, "thinkingConfig.x": 2}, "which another parameter set already"),
        ("openai", {"temperature": float("nan")}, "cannot be sent as JSON"),
        ("google", {"thinkingConfig": {"budget": float("inf")}}, "cannot be sent as JSON"),
    ],
)
def test_parameters_that_cannot_be_sent_are_told_at_once(
    server: JudgeServer, protocol: str, params: dict[str, object], sentence: str
) -> None:
    with pytest.raises(SetupError) as error:
        judge(server, protocol, params=params)
    assert sentence in str(error.value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_parameter_the_provider_does_not_know_is_a_mistake_of_setup(server: JudgeServer, protocol: str) -> None:
    async with aclosing(judge(server, protocol, params={"warmth": 3})) as one:
        with pytest.raises(SetupError) as error:
            await one.answer(brief())
    assert "warmth" in str(error.value)
    assert "Leave that parameter out" in str(error.value)


@pytest.mark.parametrize(
    ("protocol", "sentence"),
    [
        ("openai", "Unsupported value: 'reasoning_effort' does not support 'huge' with this model."),
        ("anthropic", "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"),
        ("google", "Invalid value at 'generation_config.thinking_config.thinking_level', \"huge\""),
    ],
)
async def test_a_value_the_model_does_not_take_is_a_mistake_of_setup(
    server: JudgeServer, protocol: str, sentence: str
) -> None:
    server.default = Fault.status(400, sentence)
    async with aclosing(judge(server, protocol, params={"reasoning_effort": "huge"})) as one:
        with pytest.raises(SetupError) as error:
            await one.answer(brief())
    assert sentence.rstrip(".") in str(error.value)
    assert len(server.received) == 1


def test_parameters_are_read_from_the_command_line() -> None:
    assert parse_param("temperature=0.2") == ("temperature", 0.2)
    assert parse_param("reasoning_effort=low") == ("reasoning_effort", "low")
    assert parse_param("store=false") == ("store", False)
    assert parse_param('stop=["a=b"]') == ("stop", ["a=b"])
    assert parse_param("temperature=NaN") == ("temperature", "NaN")
    with pytest.raises(SetupError, match="write NAME=VALUE"):
        parse_param("temperature")
