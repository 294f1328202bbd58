"""Promise: what is sent to a provider is byte for byte what it was.

Requests are written down by a real proxy on loopback: method, address, headers and body, for every wire, for the first
question, the repair, the second try after an answer that was cut off, and servers that know no structured output; and
every call of the three batch APIs. The digest of the whole body is stored beside its values, which say what changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.golden import (
    EDITED,
    EXAMPLES,
    FILES,
    MODELS,
    PHOTO,
    PIXELS,
    PLACES,
    STYLED,
    TARGET,
    Course,
    Exchange,
    Fault,
    Json,
    Reply,
    answer_to,
    beholder,
    brief,
    check,
    digest,
    short,
    wiretap,
)

from beholder.testing import Received

EDIT = ("edit-preservation", PHOTO, EDITED, "--set", "instruction=Mach die Tür blau – „jetzt“.")
RESTYLE = ("restyle", PHOTO, STYLED, "--set", "style=Pop Art")
DESCRIPTION = ("description", TARGET, "--set", "input=What?", "--set", "output=A house.")


def at(provider: str, model: str = "") -> tuple[str, ...]:
    return ("--judge", model or MODELS[provider], "--base-url", PLACES[provider])


def asked(words: Sequence[str | Path], replies: Sequence[Reply], code: int | None = 0) -> list[Json]:
    """The requests of `beholder judge WORDS`, where these are the answers."""
    with wiretap() as tap:
        tap.say(*replies)
        beholder("judge", *words, "--no-audit", "--json", code=code)
        return tap.told()


@pytest.mark.parametrize("provider", list(PLACES))
def test_live_requests(provider: str) -> None:
    here = at(provider)
    edit, restyle, told = (answer_to(brief(*words)["schema"]) for words in (EDIT, RESTYLE, DESCRIPTION))
    family = beholder("judge", "edit", *EDIT[1:], "--plan", "--json").lines
    criteria = {**edit["criteria"], "unchanged_regions": {"justification": "short", "score": 11}}
    wrong = {**edit, "criteria": criteria}
    found = {
        "first": asked((*EDIT, *here), [edit]),
        "restyle": asked((*RESTYLE, *here), [restyle]),
        "description": asked((*DESCRIPTION, *here), [told]),
        "prompt of one's own": asked((*RESTYLE, *here, "--prompt", FILES / "prompt.md"), [restyle]),
        "repair": asked((*EDIT, *here), [wrong, edit]),
        "repair of what is no JSON": asked((*EDIT, *here), ["It looks fine to me {", edit]),
        "more room": asked((*EDIT, *here), [Fault.truncated('{"criteria": {'), Fault.truncated("{"), edit]),
        "more room, then repair": asked((*EDIT, *here), [Fault.truncated('{"criteria": {'), wrong, edit]),
        "empty": asked((*EDIT, *here), [Fault.empty(), edit]),
        "refused": asked((*EDIT, *here), [Fault.refusal("I cannot help with that.")], code=3),
        "filtered": asked((*EDIT, *here), [Fault.filtered()], code=3),
        "no structured output": asked((*EDIT, *here), [Fault.no_structured_output(), edit]),
        "no structured output, then repair": asked((*EDIT, *here), [Fault.no_structured_output(), wrong, edit]),
        "busy": asked((*EDIT, *here), [Fault.status(429, retry_after=0), edit]),
        "a limit of one's own": asked((*EDIT, *here, "--param", "max_tokens=4000"), [edit]),
        "effort": asked((*EDIT, *here, "--param", "reasoning_effort=low"), [edit]),
        "nested": asked((*EDIT, *here, "--param", "metadata.user_id=u1"), [edit], code=None),
        "sampling": asked((*EDIT, *here, "--param", "temperature=0.5", "--param", "top_p=0.9"), [edit], code=None),
        "family": _asked_family(("edit", *EDIT[1:], *here), family),
    }
    check(f"requests_{provider}", _after_the_first(found))


def _asked_family(words: Sequence[str | Path], family: Sequence[Json]) -> list[Json]:
    """The requests of a family in the order of its rubrics. They are asked in any order, so that an answer is made
    for its request, which has the criteria of one of them."""
    criteria = [one["schema"]["properties"]["criteria"]["properties"] for one in family]

    def place(asked_for: object) -> int:
        text = json.dumps(asked_for, default=dict)
        return next(place for place, keys in enumerate(criteria) if all(f'"{key}"' in text for key in keys))

    def answer(request: Received) -> Json:
        return answer_to(family[place(request.schema)]["schema"])

    return sorted(asked(words, [answer] * len(family)), key=lambda request: place(request["body"]))


def _after_the_first(found: dict[str, list[Json]]) -> dict[str, list[Json]]:
    """Only the first request is written out; of the others each value, and each turn of the talk, is one line."""
    first = next(iter(found.values()))[0]
    for request in [one for requests in found.values() for one in requests if one is not first]:
        request["headers"] = {
            name: one for name, one in request["headers"].items() if one != first["headers"].get(name)
        }
        request["body"] = _lines(request["body"], first["body"])
        del request["bytes"]
    return found


def _lines(body: Json, first: Json) -> Json:
    """The values of a body, those that are as in the first request left out: the digest covers them."""
    told: dict[str, Json] = {}
    for key, value in (body or {}).items():
        if value != first.get(key):
            told[key] = [_line(one) for one in value] if isinstance(value, list) else _line(value)
    return {"keys": " ".join(body or ()), **told}


def _line(value: Json) -> str:
    return str(short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))


def test_providers_own_parameters_and_models() -> None:
    edit = answer_to(brief(*EDIT)["schema"])
    flags = {
        "openai detail": (*at("openai"), "--detail", "high", "--param", "seed=7", "--samples", "2"),
        "openai without a key": (*at("openai", "openai:qwen"), "--param", "chat_template_kwargs.enable_thinking=false"),
        "openai newer limit": (*at("openai", "openai:gpt-5"), "--param", "max_completion_tokens=900"),
        "anthropic that thinks": at("anthropic", "anthropic:claude-opus-5"),
        "anthropic budget": (
            *at("anthropic"),
            "--param",
            "thinking.type=enabled",
            "--param",
            "thinking.budget_tokens=2000",
        ),
        "anthropic no thoughts": (*at("anthropic", "anthropic:claude-opus-5"), "--param", "thinking.type=disabled"),
        "google thinking": (*at("google"), "--param", "generationConfig.thinkingConfig.thinkingBudget=0"),
        "google resolution": (*at("google"), "--param", "mediaResolution=MEDIA_RESOLUTION_LOW"),
        "google detail": (*at("google"), "--detail", "high"),
        "a key variable": (*at("openai"), "--key-variable", "DEEPSEEK_API_KEY"),
        "two servers": (*at("openai"), "--base-url", "http://other.invalid/openai/v1"),
    }
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEEPSEEK_API_KEY", "sk-another-0123456789")
        for what, words in flags.items():
            if what == "openai without a key":
                patch.delenv("OPENAI_API_KEY")
            requests = asked((*EDIT, *words), [edit, edit], code=None)
            requests.sort(key=lambda one: json.dumps(one["body"]))
            for one in requests:
                told = {"messages", "system", "response_format", "contents", "systemInstruction"}  # above, by provider
                one["body"] = _lines(one["body"], {key: one["body"].get(key) for key in told})
            found[what] = requests
            if what == "openai without a key":
                patch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    check("requests_parameters", found)


def test_pictures_are_sent_as_they_were_prepared() -> None:
    """Scaled ones, those turned upright, those with alpha; their base64 is in the digest of the body."""
    told = answer_to(brief(*DESCRIPTION)["schema"])
    found = {}
    large = EXAMPLES / "demo" / "before.png"
    for provider in PLACES:
        for name in (FILES / "turned.jpg", FILES / "alpha.png", FILES / "photo.png", large):
            size = ("--max-side", "24") if name.stem == "photo" else ()
            requests = asked(("description", name, *DESCRIPTION[2:], *at(provider), *size), [told])
            found[f"{provider} {name.name}"] = [(one["bytes"], one["sha256"]) for one in requests]
    check("requests_pictures", found, made_with=PIXELS)


def test_requests_through_pydantic_ai() -> None:
    """Its SDKs word the headers; the body's values are ours, as far as these versions write them."""
    edit = answer_to(brief(*EDIT)["schema"])
    words = (*EDIT, "--judge", "ollama:llava", "--base-url", PLACES["openai"])
    wrong: Json = {"criteria": {}}
    found: dict[str, Json] = {}
    for what, more, replies in (
        ("first", (), [edit]),
        ("repair", (), [wrong, edit]),
        ("more room", (), [Fault.truncated("{"), edit]),
        ("no structured output", (), [Fault.no_structured_output(), edit]),
        (
            "parameters",
            ("--param", "temperature=0.5", "--param", "top_k=4", "--param", "seed=3", "--detail", "low"),
            [edit],
        ),
    ):
        found[what] = asked((*words, *more), replies)
        for one in found[what]:
            one["headers"] = {}
    found = _after_the_first(found)
    check("requests_pydantic_ai", found, made_with=("pydantic-ai-slim", "openai"))


BOUNDARY = re.compile(rb"(?<=--)[0-9a-f]{32}|(?<=boundary=)[0-9a-f]{32}")
NOTE = re.compile(r"(?<=beholder-[0-9a-f]{32}-)\d{18}")  # when a job was handed in, to the microsecond


@pytest.mark.parametrize("provider", list(PLACES))
def test_batches(provider: str) -> None:
    """Handed in, looked at, cut off half-way, repaired in a second batch, tidied up."""
    rows = [
        {"id": f"c{number}", "input": PHOTO, "edited": EDITED, "instruction": f"paint {number} doors"}
        for number in range(3)
    ]
    Path("cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    words = ("--rubric", "edit-preservation", "--cases", "cases.jsonl", *at(provider), "--ledger", "runs.db")
    quiet = ("--no-audit", "--no-thumbnails", "--json", "--concurrency", "1")
    good = answer_to(brief(*EDIT)["schema"])
    calls: list[Json] = []
    with wiretap() as tap:
        tap.always(good)
        tap.say(good, {"criteria": {}}, good)
        tap.batch_goes(Course(looks=1))
        for command in ("run --batch", "collect", "collect", "collect"):
            beholder(*command.split(), *words, *quiet)
            calls += [{"command": command}, *(_call(one) for one in tap.exchanges)]
            tap.exchanges.clear()
        outcomes = [line["outcome"] for line in beholder("export", "--to", "jsonl", "--ledger", "runs.db").lines]
        tap.batch_goes(Course(looks=9))
        beholder("run", *words, *quiet, "--batch", "--samples", "2")
        tap.exchanges.clear()
        beholder("collect", *words, *quiet, "--samples", "2", "--cancel")
        calls += [{"command": "collect --cancel"}, *(_call(one) for one in tap.exchanges)]
    check(f"batches_{provider}", {"calls": calls, "outcomes": outcomes})


def _call(one: Exchange) -> Json:
    """A call of a batch API; what is another each time (a boundary, the time in our note on a job) is replaced."""
    boundary = BOUNDARY.search(one.headers.get("content-type", "").encode())
    body = one.body
    if boundary:
        body = body.replace(boundary[0], b"BOUNDARY")
    body = NOTE.sub("TIME", body.decode()).encode()
    headers = {
        name: BOUNDARY.sub(b"BOUNDARY", value.encode()).decode()
        for name, value in one.headers.items()
        if name not in ("content-length", "x-goog-upload-header-content-length", "host", "accept", "accept-encoding")
    }
    lines = [line for line in body.decode().splitlines() if line]
    return {
        "request": f"{one.method} {one.url}",
        "headers": headers,
        "sha256": digest(body) if body else "",
        "lines": [_of_batch(line) for line in lines],
        "status": one.status,
    }


def _of_batch(line: str) -> Json:
    try:
        return {key: _line(one) for key, one in json.loads(line).items()}
    except (ValueError, AttributeError):
        return short(line)
