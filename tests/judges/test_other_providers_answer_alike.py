from __future__ import annotations

import json
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from support.judges import JPEG, KEY, PNG, SCHEMA, Waits, brief
from support.schemas import schema_of

from beholder.errors import BeholderError, SetupError, Unreachable
from beholder.judges.base import Judge
from beholder.judges.factory import judge_from, judge_sizing
from beholder.providers.base import JudgeSettings, StructuredOutput
from beholder.providers.prices import Price
from beholder.providers.pydantic_ai import PydanticAIJudge, make_pydantic_ai_judge
from beholder.testing.base import Fault, Received
from beholder.testing.server import JudgeServer
from beholder.verdicts.answer import Finish, Turn, Usage

# Ollama's own provider in pydantic-ai speaks OpenAI's protocol, so our loopback server can answer for it.


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)


def other(server: JudgeServer, waits: Waits, **given: object) -> PydanticAIJudge:
    settings = JudgeSettings(base_url=server.openai_url, sleep=waits.sleep, random=lambda: 0.5, **given)  # type: ignore[arg-type]
    return make_pydantic_ai_judge("ollama", "qwen3-vl", settings)


async def test_the_same_brief_arrives_and_the_same_answer_comes_back(server: JudgeServer, waits: Waits) -> None:
    server.say({"score": 4})
    async with aclosing(other(server, waits)) as one:
        assert isinstance(one, Judge)
        assert one.name == "ollama:qwen3-vl"
        answer = await one.answer(brief())
    (heard,) = server.received
    assert heard.images == (JPEG, PNG)
    assert heard.system == brief().system
    assert heard.texts == ("Image `original`:", "Image `restyled`:", "Style: anime. Judge.")
    assert list(schema_of(heard)["properties"]) == list(SCHEMA["properties"])
    assert answer.text == '{"score": 4}'
    assert answer.usage == Usage(1117, 46, 1024)
    assert answer.model == "qwen3-vl-2025-08-07"
    assert (answer.finish, answer.attempts, answer.flags) == (Finish.COMPLETE, 1, ())
    assert answer.cost_usd is None
    assert answer.latency_s > 0


async def test_earlier_turns_follow(server: JudgeServer, waits: Waits) -> None:
    async with aclosing(other(server, waits)) as one:
        await one.answer(brief(), earlier=(Turn("first", "mend it"),), max_tokens=900)
    (heard,) = server.received
    assert heard.texts[-2:] == ("first", "mend it")
    assert heard.system == brief().system
    assert 900 in (heard.body.get("max_tokens"), heard.body.get("max_completion_tokens"))


async def test_only_parameters_that_were_set_are_sent(server: JudgeServer, waits: Waits) -> None:
    params = {"temperature": 0, "seed": 3, "verbosity": "low", "detail": "low", "max_side": 512}
    async with aclosing(other(server, waits)) as bare, aclosing(other(server, waits, params=params)) as one:
        await bare.answer(brief())
        await one.answer(brief(), sample=1)
        assert one.sizing.max_side == 512
    first, second = (heard.body for heard in server.received)
    assert not first.keys() & {"temperature", "seed", "verbosity", "max_tokens", "max_completion_tokens", "top_p"}
    assert (second["temperature"], second["seed"], second["verbosity"]) == (0, 4, "low")
    assert '"detail": "low"' in json.dumps(second["messages"])
    assert '"detail"' not in json.dumps(first["messages"])


@pytest.mark.parametrize("fault", [Fault.status(429), Fault.status(500), Fault.status(503), Fault.drop(), Fault.cut()])
async def test_what_may_pass_is_tried_again_here_and_not_in_the_sdk(
    server: JudgeServer, waits: Waits, fault: Fault
) -> None:
    server.say(fault, fault, "{}")
    async with aclosing(other(server, waits)) as one:
        answer = await one.answer(brief())
    assert answer.attempts == 3
    assert len(server.received) == 3
    assert len(waits.slept) == 2


async def test_what_does_not_pass_becomes_unreachable(server: JudgeServer, waits: Waits) -> None:
    server.default = Fault.status(429, retry_after=3)
    async with aclosing(other(server, waits, retries=1)) as one:
        with pytest.raises(Unreachable) as error:
            await one.answer(brief())
    assert error.value.attempts == 2
    assert waits.slept == [3 * 1.125]


async def test_a_page_instead_of_json_is_tried_again(server: JudgeServer, waits: Waits) -> None:
    server.say(Fault.html(), "{}")
    async with aclosing(other(server, waits)) as one:
        assert (await one.answer(brief())).attempts == 2


async def test_rejections_end_at_once(server: JudgeServer, waits: Waits) -> None:
    server.say(Fault.status(400, "prompt is too long"), Fault.unknown_model(), Fault.bad_key())
    async with aclosing(other(server, waits)) as one:
        with pytest.raises(Unreachable, match=r"ollama:qwen3-vl answered 400: prompt is too long\."):
            await one.answer(brief())
        with pytest.raises(SetupError, match="There is no model 'qwen3-vl'"):
            await one.answer(brief())
        with pytest.raises(SetupError, match="The key came from"):
            await one.answer(brief())
    assert len(server.received) == 3


async def test_truncation_refusal_and_filter_are_told_apart(server: JudgeServer, waits: Waits) -> None:
    server.say(Fault.truncated('{"half":'), Fault.filtered(), Fault.refusal("I will not."))
    async with aclosing(other(server, waits)) as one:
        finishes = [(await one.answer(brief())).finish for _ in range(3)]
    assert finishes == [Finish.LENGTH, Finish.FILTERED, Finish.REFUSED]


async def test_a_server_without_structured_output_is_told_in_words(server: JudgeServer, waits: Waits) -> None:
    def without(heard: Received) -> Fault | str:
        return Fault.no_structured_output() if heard.schema is not None else "{}"

    server.default = without
    async with aclosing(other(server, waits)) as one:
        answers = [await one.answer(brief()) for _ in range(2)]
    assert [answer.attempts for answer in answers] == [2, 1]
    assert {answer.flags for answer in answers} == {("structured_output_unavailable",)}
    assert "Answer with one JSON object of this JSON Schema" in server.received[-1].system


@pytest.mark.parametrize("echo", [Fault.bad_key(), Fault.status(400, f"Bad {KEY}"), Fault.status(500, f"Bad {KEY}")])
async def test_the_key_never_shows(server: JudgeServer, waits: Waits, echo: Fault) -> None:
    server.default = echo
    async with aclosing(other(server, waits, retries=0)) as one:
        with pytest.raises(BeholderError) as error:
            await one.answer(brief())
    told = "".join(traceback.format_exception(error.value)) + repr(one)
    assert KEY not in told
    assert KEY[-8:] not in told


@pytest.mark.parametrize("variable", ["CO_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "AWS_SECRET_ACCESS_KEY", "my_token"])
async def test_no_key_of_the_environment_shows_in_errors_or_answers(
    server: JudgeServer, waits: Waits, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    hidden = "no-known-shape-of-a-key"
    monkeypatch.setenv(variable, hidden)
    server.say({"seen": hidden}, Fault.refusal(f"Not with {hidden}"), Fault.status(400, f"Bad {hidden}"))
    async with aclosing(other(server, waits, retries=0)) as one:
        answers = [await one.answer(brief()) for _ in range(2)]
        with pytest.raises(BeholderError) as error:
            await one.answer(brief())
    told = "".join(traceback.format_exception(error.value)) + str(answers)
    assert hidden not in told
    assert told.count("[key]") >= 3


async def test_a_price_that_was_given_is_used(server: JudgeServer, waits: Waits) -> None:
    price = Price(Decimal(2), Decimal(10), cached=Decimal(1))
    async with aclosing(other(server, waits, price=price)) as one:
        answer = await one.answer(brief())
    assert answer.usage == Usage(1117, 46, 1024)
    assert answer.cost_usd == Decimal(93 * 2 + 1024 * 1 + 46 * 10) / 1_000_000


def test_a_plan_takes_the_picture_settings_that_the_judge_takes(server: JudgeServer, waits: Waits) -> None:
    for params in ({"detail": "low"}, {"detail": "original", "max_side": 700}, {}):
        assert judge_sizing("mistral:pixtral-large", params) == other(server, waits, params=params).sizing
    for ask in (
        lambda: judge_sizing("ollama:x", {"detail": "huge"}),
        lambda: other(server, waits, params={"detail": "huge"}),
    ):
        with pytest.raises(
            SetupError, match="ollama knows no picture detail 'huge'; it knows auto, low, high, original"
        ):
            ask()


def test_a_missing_sdk_names_what_to_install() -> None:
    with pytest.raises(SetupError) as error:
        judge_from("cohere:command-a-vision")
    assert str(error.value) == (
        "'cohere:command-a-vision' needs its provider's package; "
        "run: pip install 'beholder[providers]' 'pydantic-ai-slim[cohere]'"
    )


def test_a_missing_pydantic_ai_names_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "from beholder.judges.factory import judge_from\n"
        "try: judge_from('mistral:pixtral-large')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.startswith("SetupError 'mistral:pixtral-large' is asked through pydantic-ai, which is not installed;")
    assert "pip install 'beholder[providers]' 'pydantic-ai-slim[mistral]'" in said


def test_a_missing_key_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(SetupError) as error:
        judge_from("openrouter:qwen/qwen3-vl")
    assert "OPENROUTER_API_KEY" in str(error.value)
    assert "Pydantic AI" not in str(error.value)
    assert "OpenRouterProvider" not in str(error.value)


async def test_a_key_from_a_named_variable_is_used(
    server: JudgeServer, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "my-own-key-123")
    async with aclosing(other(server, waits, key_variable="MY_KEY")) as one:
        await one.answer(brief())
    assert server.received[0].headers["authorization"] == "Bearer my-own-key-123"


def test_a_base_url_where_none_is_taken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    with pytest.raises(SetupError, match="openrouter takes no base URL"):
        judge_from("openrouter:qwen/qwen3-vl", base_url="http://127.0.0.1:1/v1")


def chat_completion(heard: list[dict[str, Any]], fault: int | None = None) -> type[BaseHTTPRequestHandler]:
    """A server that answers every POST: with a chat completion, or with an error status."""
    choice = {"index": 0, "message": {"role": "assistant", "content": '{"score": 4}'}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    good = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.dumps({"message": "broken"} if fault else good).encode()
            self.send_response(fault or 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    return Handler


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("choice", ["auto", "off"])
async def test_mistral_has_its_own_structured_output(
    waits: Waits, monkeypatch: pytest.MonkeyPatch, choice: StructuredOutput
) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    heard: list[dict[str, Any]] = []
    with serving(chat_completion(heard)) as url:
        settings = JudgeSettings(base_url=url, sleep=waits.sleep, structured_output=choice)
        async with aclosing(make_pydantic_ai_judge("mistral", "pixtral-large", settings)) as one:
            answer = await one.answer(brief())
    (body,) = heard
    assert answer.text == '{"score": 4}'
    if choice == "off":
        assert "response_format" not in body
        assert answer.flags == ("structured_output_unavailable",)
        return
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"] == {"name": "answer", "schema": SCHEMA, "strict": True}
    assert "JSON Schema" not in json.dumps(body["messages"])
    assert answer.flags == ()


async def test_amazons_sdk_makes_no_retries_of_its_own(waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    heard: list[dict[str, Any]] = []
    with serving(chat_completion(heard, 500)) as url:
        settings = JudgeSettings(base_url=url, sleep=waits.sleep, random=lambda: 0.5)
        async with aclosing(make_pydantic_ai_judge("bedrock", "amazon.nova-lite-v1:0", settings)) as one:
            with pytest.raises(Unreachable) as error:
                await one.answer(brief())
    assert error.value.attempts == len(heard) == 6


async def test_what_an_sdk_raises_about_a_reply_is_no_crash(
    server: JudgeServer, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise KeyError("choices")

    monkeypatch.setattr("pydantic_ai.direct.model_request", broken)
    async with aclosing(other(server, waits, retries=1)) as one:
        with pytest.raises(Unreachable, match=r"not of its form \(KeyError: 'choices'\)"):
            await one.answer(brief())
