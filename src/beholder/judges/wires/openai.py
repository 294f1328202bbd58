"""OpenAI's chat completions, also as vLLM, SGLang, Ollama, LM Studio and OpenRouter speak them.

Request and reply: https://developers.openai.com/api/docs/api-reference/chat/create
Structured output: https://developers.openai.com/api/docs/guides/structured-outputs
Pictures: https://developers.openai.com/api/docs/guides/images-vision
"""

from __future__ import annotations

from beholder.images.model import Sizing
from beholder.judges.protocol import Finish, Usage
from beholder.judges.wires import Malformed, Question, Reply, Request, Splicer, Wire, conversation, place, system_text
from beholder.judges.wires.reading import count, document, items, mapping, text
from beholder.judges.wires.schemas import narrow, words
from beholder.rubrics.brief import Text

BASE_URL = "https://api.openai.com/v1"
RESERVED = frozenset({"model", "messages", "response_format", "stream", "n"})
KEYWORDS = words(
    "type properties required additionalProperties enum const description items minimum maximum "
    "exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems pattern format anyOf $ref $defs"
)


def request(question: Question) -> Request:
    brief, params = question.brief, question.params
    detail = {"detail": question.detail} if question.detail else {}
    splicer = Splicer()
    content: list[dict[str, object]] = []
    for part in brief.content:
        if isinstance(part, Text):
            content.append({"type": "text", "text": part.text})
            continue
        url = f"data:{part.image.media_type};base64,{splicer.stand_in(part.image.data)}"
        content.append({"type": "text", "text": part.label})
        content.append({"type": "image_url", "image_url": {"url": url} | detail})
    system = system_text(brief, question.structured)
    messages: list[dict[str, object]] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": content})
    for said, reply in conversation(question.earlier):
        messages += ({"role": "assistant", "content": said}, {"role": "user", "content": reply})

    # OpenAI's reasoning models refuse the old name of the limit; many compatible servers know only the old one.
    newer = question.base_url == BASE_URL or "max_completion_tokens" in params
    limit = "max_completion_tokens" if newer else "max_tokens"
    body: dict[str, object] = {"model": question.model, "messages": messages}
    body |= place(params, {"max_tokens": limit}, wire="openai", reserved=RESERVED)
    if question.max_tokens is not None:
        body[limit] = question.max_tokens
    if question.structured and brief.schema is not None:
        schema = {"name": "answer", "strict": True, "schema": narrow(brief.schema, KEYWORDS)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    headers = {"Content-Type": "application/json"}
    if question.key:
        headers["Authorization"] = f"Bearer {question.key}"
    return Request(f"{question.base_url}/chat/completions", headers, splicer.dump(body))


def read(payload: bytes) -> Reply:
    body = document(payload)
    choice = next(iter(items(body.get("choices"))), {})
    # OpenRouter reports an upstream's failure inside a reply with status 200.
    if (error := mapping(body.get("error") or choice.get("error"))) or choice.get("finish_reason") == "error":
        raise Malformed(text(error.get("message")) or "the reply reports an error")
    if "message" not in choice:
        raise Malformed("the reply has no choices")
    message = mapping(choice.get("message"))
    content = message.get("content")
    said = text(content) or "".join(text(part.get("text")) for part in items(content))
    refusal = text(message.get("refusal")) or "".join(text(part.get("refusal")) for part in items(content))
    finish = {"length": Finish.LENGTH, "content_filter": Finish.FILTERED}.get(text(choice.get("finish_reason")))
    usage = mapping(body.get("usage"))
    cached = mapping(usage.get("prompt_tokens_details"))
    return Reply(
        text=said,
        finish=finish or (Finish.REFUSED if refusal else Finish.COMPLETE),
        model=text(body.get("model")) or None,
        usage=Usage(
            input_tokens=count(usage.get("prompt_tokens")),
            output_tokens=count(usage.get("completion_tokens")),
            cached_tokens=count(cached.get("cached_tokens")),
        ),
        detail=refusal,
        cache_writes=count(cached.get("cache_write_tokens")) or 0,
    )


wire = Wire(
    name="openai",
    key_variables=("OPENAI_API_KEY",),
    base_url=BASE_URL,
    # A picture at full detail is scaled to fit 2048 × 2048.
    sizing=Sizing(max_side=2048, max_bytes=20 * 1024 * 1024),
    request=request,
    read=read,
    base_url_variable="OPENAI_BASE_URL",
    names={"max_tokens": "max_completion_tokens"},
    details=("auto", "low", "high", "original"),
    keyless=True,
)
