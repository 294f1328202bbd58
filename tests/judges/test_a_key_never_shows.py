from __future__ import annotations

import json
import logging
import re
import traceback
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.judges import KEY, MODELS, PROTOCOLS, WIRES, Waits, brief, judge

from beholder.errors import BeholderError, SetupError, Unreachable
from beholder.judges.factory import judge_from
from beholder.judges.model import ModelJudge
from beholder.providers.base import ChatRequest, JudgeSettings
from beholder.providers.payload import _escaped_key, redact, remove_api_keys
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

# What a careless provider might say; the key stands in the middle, at the end, in a URL and half masked.
ECHOES = [
    Fault.bad_key(),
    Fault.status(400, f"Bad key {KEY} in request"),
    Fault.status(403, f"key={KEY}"),
    Fault.status(404, f"https://api.example/v1?key={KEY}"),
    Fault.status(429, f"Too many requests for {KEY}."),
    Fault.status(500, f"Bearer {KEY}"),
]
NEVER = (KEY, KEY[:12], KEY[-8:])


def absent(*texts: object) -> None:
    for text in texts:
        for piece in NEVER:
            assert piece not in str(text)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("echo", ECHOES, ids=lambda fault: f"{fault.kind.name}{fault.code}")
async def test_not_in_an_error_its_traceback_or_a_log(
    server: JudgeServer, protocol: str, echo: Fault, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_JUDGE_KEY", KEY)
    server.say(*[echo] * 3)
    async with aclosing(judge(server, protocol, key=None, key_variable="MY_JUDGE_KEY", retries=2)) as one:
        with pytest.raises(BeholderError) as error:
            await one.answer(brief())
        absent(repr(one), vars(one)["_target"])
    absent(error.value, repr(error.value), "".join(traceback.format_exception(error.value)), caplog.text)
    assert len(server.received) >= 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_not_in_an_answer(server: JudgeServer, protocol: str) -> None:
    server.say(Fault.refusal(f"I will not use {KEY}."), {"seen": f"Bearer {KEY}"})
    async with aclosing(judge(server, protocol, model=f"echo-{KEY}")) as one:
        refused, answered = await one.answer(brief()), await one.answer(brief())
    absent(refused, answered)
    assert "I will not use [key]" in refused.detail + refused.text
    assert answered.text == '{"seen": "Bearer [key]"}'
    assert answered.model is not None
    assert answered.model.startswith("echo-[key]")


async def test_a_placeholder_for_a_key_is_no_secret_and_its_word_stays_in_answers(server: JudgeServer) -> None:
    server.say({"severity": "none"})
    async with aclosing(judge(server, key="none")) as one:
        assert (await one.answer(brief())).text == '{"severity": "none"}'


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_it_travels_in_a_header_and_nowhere_else(server: JudgeServer, protocol: str) -> None:
    async with aclosing(judge(server, protocol)) as one:
        await one.answer(brief())
    (heard,) = server.received
    assert KEY not in heard.path
    assert KEY not in repr(heard)
    assert KEY not in str(heard.body)
    holding = {name for name, value in heard.headers.items() if KEY in value}
    assert holding == {{"openai": "authorization", "anthropic": "x-api-key", "google": "x-goog-api-key"}[protocol]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_not_in_the_repr_of_a_request(protocol: str) -> None:
    question = ChatRequest(brief(), "m", "http://127.0.0.1:1", KEY)
    request = WIRES[protocol].build_request(question)
    absent(repr(question), repr(request), request.url)


async def test_not_when_the_server_cannot_be_reached() -> None:
    one = ModelJudge(
        WIRES["openai"], "m", JudgeSettings(base_url="http://nowhere.invalid/v1", sleep=Waits().sleep), key=KEY
    )
    async with aclosing(one):
        with pytest.raises(Unreachable) as error:
            await one.answer(brief())
    absent("".join(traceback.format_exception(error.value)))


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-********************abcd.",
        "Incorrect API key provided: my-own-k***********************1234.",
        "key sk-ant-api03-AbCdEf_0123456789-xyz",
        "API key AIzaSyA-1234567890_abcdefghijklmnopqrst not valid",
        "Authorization: Bearer eyJhbGciOi.abc",
    ],
)
def test_anything_shaped_like_a_key_is_redacted(text: str) -> None:
    said = redact(text)
    assert "[key]" in said
    for piece in ("abcd", "1234", "AbCdEf", "eyJ", "sk-", "AIza", "my-own"):
        assert piece not in said


def test_plain_words_are_left_alone() -> None:
    text = "The task-force asked: is *this* model (sk-1) allowed? Bearer tokens are."
    assert redact(text) == text


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_missing_key_names_the_variables(protocol: str) -> None:
    with pytest.raises(SetupError) as error:
        judge_from(f"{protocol}:{MODELS[protocol]}")
    names = " or ".join(WIRES[protocol].key_variables)
    assert str(error.value) == (
        f"{protocol} needs a key and {names} is not set; set it: export {WIRES[protocol].key_variables[0]}=YOUR_KEY"
    )


def test_a_named_variable_that_is_not_set_is_told() -> None:
    with pytest.raises(SetupError, match="MY_OTHER_KEY is not set"):
        judge_from("openai:gpt-5-mini", key_variable="MY_OTHER_KEY", base_url="http://localhost:8000/v1")


def test_a_broken_key_is_told_without_showing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-first\nsecond")
    with pytest.raises(SetupError) as error:
        judge_from("openai:gpt-5-mini")
    assert "OPENAI_API_KEY holds characters that no key has" in str(error.value)
    assert "second" not in str(error.value)


@pytest.mark.parametrize("variable", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
async def test_google_takes_its_key_from_either_variable(
    server: JudgeServer, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, KEY)
    async with aclosing(judge(server, "google", key=None)) as one:
        await one.answer(brief())
    assert server.received[0].headers["x-goog-api-key"] == KEY


async def test_a_local_server_needs_no_key_and_gets_none() -> None:
    async with JudgeServer(keyless=True) as server, aclosing(judge(server, "openai", key=None)) as one:
        await one.answer(brief())
        assert "authorization" not in server.received[0].headers


async def test_a_server_that_wants_a_key_after_all_says_so(server: JudgeServer) -> None:
    async with aclosing(judge(server, "openai", key=None)) as one:
        with pytest.raises(SetupError) as error:
            await one.answer(brief())
    assert "No key was sent; set OPENAI_API_KEY, or name another variable." in str(error.value)


def test_a_base_url_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(SetupError) as error:
        judge_from("openai:m", base_url="https://me:hunter2@models.example/v1")
    assert "hunter2" not in str(error.value)
    assert "models.example holds a password" in str(error.value)


@st.composite
def escaped_keys(draw: st.DrawFn, key: str = 'sk-proj/Zq7u0Tu4"mW9=') -> tuple[str, str]:
    """A key, and a JSON text with it in which any character may be written as an escape."""
    forms = [
        [f"\\u{ord(one):04x}", f"\\u{ord(one):04X}", json.dumps(one)[1:-1], *(["\\/"] * (one == "/"))] for one in key
    ]
    written = "".join(draw(st.sampled_from(choice)) for choice in forms)
    before, after = (draw(st.text("\\u073sk-x \n", max_size=12)) for _ in range(2))
    return key, f'{{"seen": "{json.dumps(before)[1:-1]}{written}{json.dumps(after)[1:-1]}"}}'


@given(escaped_keys())
def test_a_key_that_comes_back_escaped_is_removed_and_the_rest_stays_json(case: tuple[str, str]) -> None:
    key, text = case
    assert key in json.loads(text)["seen"]
    removed = remove_api_keys(text, (key,))
    assert key not in json.loads(removed)["seen"]
    assert "[key]" in removed
    twice = remove_api_keys(json.dumps({"reply": text}), (key,))  # as a batch's reply is kept
    assert key not in json.loads(json.loads(twice)["reply"])["seen"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_not_in_a_verdict_by_way_of_an_escape(server: JudgeServer, protocol: str) -> None:
    hidden = "".join(f"\\u{ord(one):04x}" for one in KEY)
    server.say(f'{{"seen": "Bearer {hidden}", "also": "{KEY[:4]}\\u{ord(KEY[4]):04X}{KEY[5:]}"}}')
    async with aclosing(judge(server, protocol)) as one:
        answered = await one.answer(brief())
    assert json.loads(answered.text) == {"seen": "Bearer [key]", "also": "[key]"}


@pytest.mark.parametrize("text", ["\\u" + "\\" * 1_000_000, "\\us\\" * 250_000, "\\usk-proj-Zq7" * 80_000])
def test_a_long_text_is_searched_in_one_pass(text: str) -> None:
    steps = re.compile(_escaped_key(KEY).pattern)  # one that looked again and again would not end here
    assert steps.sub("", text) == text
