"""Anthropic's messages.

Request and reply: https://platform.claude.com/docs/en/api/messages
Structured output, `output_config.format`, no beta header: https://platform.claude.com/docs/en/build-with-claude/structured-outputs
Cache mark: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
Pictures: https://platform.claude.com/docs/en/build-with-claude/vision
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from beholder.images.model import Sizing
from beholder.judges.protocol import Finish, Usage
from beholder.judges.wires import Malformed, Question, Reply, Request, Splicer, Wire, conversation, place, system_text
from beholder.judges.wires.reading import count, document, items, mapping, text, total
from beholder.judges.wires.schemas import narrow, words
from beholder.rubrics.brief import Text

BASE_URL = "https://api.anthropic.com"
# The version of 2026-10-21 refuses sampling parameters; the one before still takes them, for models that know them.
# https://platform.claude.com/docs/en/api/versioning
VERSION, SAMPLING_VERSION = "2026-10-21", "2023-06-01"
SAMPLING = frozenset({"temperature", "top_p", "top_k"})
NAMES = {"reasoning_effort": "output_config.effort", "seed": None}
RESERVED = frozenset({"model", "messages", "system", "stream"})
KEYWORDS = words("type properties required additionalProperties enum const description items anyOf format $ref $defs")
FINISHES = {
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.REFUSED,
}
# Claude 5 and later think without being asked, and thoughts count towards `max_tokens`: without room of their own
# they would eat the answer's.
THINKING_ROOM = 8192
_GENERATION = re.compile(r"claude-[a-z]+-(\d+)")


def request(question: Question) -> Request:
    brief = question.brief
    splicer = Splicer()
    content: list[dict[str, object]] = []
    for part in brief.content:
        words = part.text if isinstance(part, Text) else part.label
        if words.strip():
            content.append({"type": "text", "text": words})
        if not isinstance(part, Text):
            data = splicer.stand_in(part.image.data)
            source = {"type": "base64", "media_type": part.image.media_type, "data": data}
            content.append({"type": "image", "source": source})
    messages: list[dict[str, object]] = [{"role": "user", "content": content}]
    for said, reply in conversation(question.earlier):
        messages += ({"role": "assistant", "content": said}, {"role": "user", "content": reply})

    body: dict[str, object] = {"model": question.model}
    body |= place(question.params, NAMES, wire="anthropic", reserved=RESERVED)
    if question.max_tokens is not None or "max_tokens" not in body:
        body["max_tokens"] = (question.max_tokens or brief.answer_tokens) + _thinking_room(question.model, body)
    if (system := system_text(brief, question.structured)).strip():
        body["system"] = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
    if question.structured and brief.schema is not None:
        form = {"type": "json_schema", "schema": narrow(brief.schema, KEYWORDS)}
        body["output_config"] = {**mapping(body.get("output_config")), "format": form}
    body["messages"] = messages
    version = SAMPLING_VERSION if SAMPLING & body.keys() else VERSION
    headers = {"Content-Type": "application/json", "anthropic-version": version}
    if question.key:
        headers["x-api-key"] = question.key
    return Request(f"{question.base_url}/v1/messages", headers, splicer.dump(body))


def read(payload: bytes) -> Reply:
    body = document(payload)
    if body.get("type") != "message" or not isinstance(body.get("content"), list):
        raise Malformed(text(mapping(body.get("error")).get("message")) or "the reply is no message")
    usage, stop = mapping(body.get("usage")), mapping(body.get("stop_details"))
    cached, written = count(usage.get("cache_read_input_tokens")), count(usage.get("cache_creation_input_tokens"))
    return Reply(
        text="".join(text(block.get("text")) for block in items(body["content"]) if block.get("type") == "text"),
        finish=FINISHES.get(text(body.get("stop_reason")), Finish.COMPLETE),
        model=text(body.get("model")) or None,
        # Anthropic's `input_tokens` leaves out what came from the cache or went into it; ours is the total.
        usage=Usage(
            input_tokens=total(count(usage.get("input_tokens")), cached, written),
            output_tokens=count(usage.get("output_tokens")),
            cached_tokens=cached,
        ),
        detail=text(stop.get("explanation")) or text(stop.get("category")),
        cache_writes=written or 0,
    )


def _thinking_room(model: str, body: Mapping[str, object]) -> int:
    thinking = mapping(body.get("thinking"))
    if (budget := count(thinking.get("budget_tokens"))) is not None:
        return budget
    if thinking.get("type") in ("disabled", "between_tools"):
        return 0
    generation = _GENERATION.match(model)
    thinks = bool(thinking) or (generation is not None and int(generation[1]) >= 5)
    return THINKING_ROOM if thinks else 0


wire = Wire(
    name="anthropic",
    key_variables=("ANTHROPIC_API_KEY",),
    base_url=BASE_URL,
    # Every Claude sees 1568 pixels a side unscaled; 5 MB bind the base64, which is a third longer than the bytes.
    sizing=Sizing(max_side=1568, max_bytes=5 * 1024 * 1024 * 3 // 4),
    request=request,
    read=read,
    base_url_variable="ANTHROPIC_BASE_URL",
    names=NAMES,
)
