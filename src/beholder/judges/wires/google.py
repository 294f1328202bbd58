"""Google's Gemini API, `generateContent`.

Request and reply: https://ai.google.dev/api/generate-content
Schema dialect and `propertyOrdering`: https://ai.google.dev/api/caching#Schema
Structured output: https://ai.google.dev/gemini-api/docs/structured-output
Pictures: https://ai.google.dev/gemini-api/docs/image-understanding
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from beholder.images.model import Sizing
from beholder.judges.protocol import Finish, Usage
from beholder.judges.wires import Malformed, Question, Reply, Request, Splicer, Wire, conversation, place, system_text
from beholder.judges.wires.reading import count, document, items, mapping, text
from beholder.judges.wires.schemas import described, narrow, words
from beholder.rubrics.brief import Text

BASE_URL = "https://generativelanguage.googleapis.com"
NAMES = {
    "max_tokens": "maxOutputTokens",
    "top_p": "topP",
    "top_k": "topK",
    "reasoning_effort": "thinkingConfig.thinkingLevel",
}
BUDGETS: Mapping[object, int] = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
RESERVED = frozenset({"contents", "systemInstruction", "responseSchema", "responseMimeType", "responseJsonSchema"})
# Not inside `generationConfig`.
TOP_LEVEL = frozenset({"safetySettings", "serviceTier", "labels"})
KEYWORDS = words(
    "type format title description nullable enum items minItems maxItems properties required minimum maximum "
    "minLength maxLength pattern anyOf"
)
LENGTH = frozenset({"MAX_TOKENS", "CONTINUATION"})
FILTERED = words(
    "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII MODEL_ARMOR IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT "
    "IMAGE_RECITATION"
)


def request(question: Question) -> Request:
    brief = question.brief
    splicer = Splicer()
    parts: list[dict[str, object]] = []
    for part in brief.content:
        if isinstance(part, Text):
            parts.append({"text": part.text})
            continue
        data = splicer.stand_in(part.image.data)
        parts += ({"text": part.label}, {"inlineData": {"mimeType": part.image.media_type, "data": data}})
    contents: list[dict[str, object]] = [{"role": "user", "parts": parts}]
    for said, reply in conversation(question.earlier):
        contents.append({"role": "model", "parts": [{"text": said}]})
        contents.append({"role": "user", "parts": [{"text": reply}]})

    fields = place(_efforts(question), NAMES, wire="google", reserved=RESERVED)
    body: dict[str, object] = {name: fields.pop(name) for name in TOP_LEVEL & fields.keys()}
    if question.max_tokens is not None:
        fields["maxOutputTokens"] = question.max_tokens
    if question.detail:
        fields["mediaResolution"] = f"MEDIA_RESOLUTION_{question.detail.upper()}"
    if question.structured and brief.schema is not None:
        fields |= {"responseMimeType": "application/json", "responseSchema": _dialect(narrow(brief.schema, KEYWORDS))}
    if fields:
        body["generationConfig"] = fields
    if system := system_text(brief, question.structured):
        body["systemInstruction"] = {"parts": [{"text": system}]}
    body["contents"] = contents
    headers = {"Content-Type": "application/json"}
    if question.key:
        headers["x-goog-api-key"] = question.key
    name = quote(question.model.removeprefix("models/"), safe="")
    return Request(f"{question.base_url}/v1beta/models/{name}:generateContent", headers, splicer.dump(body))


def _efforts(question: Question) -> Mapping[str, object]:
    """The parameters, with a reasoning effort as the budget of tokens that Gemini 2 knows in place of a level.

    The numbers are Google's own for this translation: https://ai.google.dev/gemini-api/docs/openai#thinking
    """
    effort = question.params.get("reasoning_effort")
    if effort not in BUDGETS or "gemini-2" not in question.model:
        return question.params
    rest = {name: value for name, value in question.params.items() if name != "reasoning_effort"}
    return {**rest, "thinkingConfig.thinkingBudget": BUDGETS[effort]}


def read(payload: bytes) -> Reply:
    body = document(payload)
    blocked = mapping(body.get("promptFeedback"))
    reason = text(blocked.get("blockReason"))
    candidate = next(iter(items(body.get("candidates"))), {})
    if not candidate and not reason:
        raise Malformed(text(mapping(body.get("error")).get("message")) or "the reply has no candidates")
    ended = text(candidate.get("finishReason"))
    if reason:
        finish, detail = Finish.FILTERED, text(blocked.get("blockReasonMessage")) or reason
    elif ended in FILTERED:
        finish, detail = Finish.FILTERED, text(candidate.get("finishMessage")) or ended
    else:
        finish, detail = (Finish.LENGTH if ended in LENGTH else Finish.COMPLETE), text(candidate.get("finishMessage"))
    parts = items(mapping(candidate.get("content")).get("parts"))
    usage = mapping(body.get("usageMetadata"))
    # Thoughts are billed as output, and a reply that was all thoughts counts no candidate tokens.
    outputs = [count(usage.get(name)) for name in ("candidatesTokenCount", "thoughtsTokenCount")]
    return Reply(
        text="".join(text(part.get("text")) for part in parts if not part.get("thought")),
        finish=finish,
        model=text(body.get("modelVersion")) or None,
        usage=Usage(
            input_tokens=count(usage.get("promptTokenCount")),
            output_tokens=sum(number or 0 for number in outputs) if outputs != [None, None] else None,
            cached_tokens=count(usage.get("cachedContentTokenCount")),
        ),
        detail=detail,
    )


def _dialect(schema: Mapping[str, object]) -> dict[str, object]:
    """A narrowed schema in Google's dialect, where the order of properties has to be said."""
    said = dict(schema)
    if isinstance(kind := said.get("type"), str):
        said["type"] = kind.upper()
    if isinstance(properties := said.get("properties"), Mapping):
        said["properties"] = {name: _dialect(part) for name, part in properties.items()}
        said["propertyOrdering"] = list(properties)
    if isinstance(entries := said.get("items"), Mapping):
        said["items"] = _dialect(entries)
    choices = said.get("enum")
    if isinstance(choices, list) and not all(isinstance(choice, str) for choice in choices):
        # Only strings may be listed, and a number written as a string would come back as one.
        said["description"] = described(said, [f"one of: {', '.join(map(str, choices))}"])
        del said["enum"]
    return said


wire = Wire(
    name="google",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    base_url=BASE_URL,
    # Larger pictures are scaled down to fit 3072 × 3072; 7 MB is the limit for a picture in the request.
    sizing=Sizing(max_side=3072, max_bytes=7 * 1024 * 1024),
    request=request,
    read=read,
    base_url_variable="GOOGLE_GEMINI_BASE_URL",
    names=NAMES,
    details=("low", "medium", "high"),
)
