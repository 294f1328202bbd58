"""Google's Gemini API, `generateContent`.

Request and reply: https://ai.google.dev/api/generate-content
Schema dialect and `propertyOrdering`: https://ai.google.dev/api/caching#Schema
Structured output: https://ai.google.dev/gemini-api/docs/structured-output
Images: https://ai.google.dev/gemini-api/docs/image-understanding; their tokens, a flat count by media resolution since
Gemini 3, tiles before: https://ai.google.dev/gemini-api/docs/media-resolution
Batches (an uploaded JSONL file, a job, a file of responses; 2 GB a file): https://ai.google.dev/gemini-api/docs/batch-api
and https://ai.google.dev/api/batch-api; uploading: https://ai.google.dev/api/files#method:-media.upload
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

from beholder.images.image import Sizing
from beholder.providers import base
from beholder.providers.batch import (
    MAX_PAGES,
    BatchApi,
    BatchClient,
    BatchHandle,
    BatchResult,
    BatchState,
    BatchStatus,
    UnconfirmedBatch,
    handle_from_reply,
)
from beholder.providers.payload import (
    ImageSplicer,
    MalformedReplyError,
    add_to_description,
    as_count,
    as_mapping,
    as_objects,
    as_text,
    narrow_schema,
    nest_parameters,
    parse_object,
    redact,
    shorten,
    word_set,
)
from beholder.rubrics.brief import TextBlock
from beholder.verdicts.answer import Answer, BatchStage, Finish, Usage

BASE_URL = "https://generativelanguage.googleapis.com"
PARAMETER_NAMES = {
    "max_tokens": "maxOutputTokens",
    "top_p": "topP",
    "top_k": "topK",
    "reasoning_effort": "thinkingConfig.thinkingLevel",
}
THINKING_BUDGETS: Mapping[object, int] = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
RESERVED_PARAMETERS = frozenset(
    {"contents", "systemInstruction", "responseSchema", "responseMimeType", "responseJsonSchema"}
)
# Parameters that are not inside `generationConfig`.
TOP_LEVEL_PARAMETERS = frozenset({"safetySettings", "serviceTier", "labels"})
SCHEMA_KEYWORDS = word_set(
    "type format title description nullable enum items minItems maxItems properties required minimum maximum "
    "minLength maxLength pattern anyOf"
)
LENGTH_FINISHES = frozenset({"MAX_TOKENS", "CONTINUATION"})
FILTERED_FINISHES = word_set(
    "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII MODEL_ARMOR IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT "
    "IMAGE_RECITATION"
)


def build_request(question: base.ChatRequest) -> base.HttpRequest:
    """Return the `generateContent` request for a question."""
    # The answer cache keys on the brief and the judge's identity, not on this body: if the body changes and they
    # do not, stored answers are reused.
    brief = question.brief
    splicer = ImageSplicer()
    parts: list[dict[str, object]] = []
    for part in brief.content:
        if isinstance(part, TextBlock):
            parts.append({"text": part.text})
            continue
        data = splicer.add_image(part.image.data)
        parts += ({"text": part.label}, {"inlineData": {"mimeType": part.image.media_type, "data": data}})
    contents: list[dict[str, object]] = [{"role": "user", "parts": parts}]
    for answer, reply in base.turn_texts(question.earlier):
        contents.append({"role": "model", "parts": [{"text": answer}]})
        contents.append({"role": "user", "parts": [{"text": reply}]})

    fields = nest_parameters(
        _thinking_parameters(question), PARAMETER_NAMES, provider="google", reserved=RESERVED_PARAMETERS
    )
    body: dict[str, object] = {name: fields.pop(name) for name in TOP_LEVEL_PARAMETERS & fields.keys()}
    if question.max_tokens is not None:
        fields["maxOutputTokens"] = question.max_tokens
    if question.detail:
        fields["mediaResolution"] = f"MEDIA_RESOLUTION_{question.detail.upper()}"
    if question.structured and brief.schema is not None:
        fields |= {
            "responseMimeType": "application/json",
            "responseSchema": _to_google_schema(narrow_schema(brief.schema, SCHEMA_KEYWORDS)),
        }
    if fields:
        body["generationConfig"] = fields
    if system := base.system_message(brief, question.structured):
        body["systemInstruction"] = {"parts": [{"text": system}]}
    body["contents"] = contents
    headers = {"Content-Type": "application/json"}
    if question.key:
        headers["x-goog-api-key"] = question.key
    name = quote(question.model.removeprefix("models/"), safe="")
    return base.HttpRequest(f"{question.base_url}/v1beta/models/{name}:generateContent", headers, splicer.encode(body))


def _thinking_parameters(question: base.ChatRequest) -> Mapping[str, object]:
    """Return the parameters; for Gemini 2, which has no thinking level, with the reasoning effort as a token budget.

    The numbers are Google's own for this translation: https://ai.google.dev/gemini-api/docs/openai#thinking
    """
    effort = question.params.get("reasoning_effort")
    if effort not in THINKING_BUDGETS or "gemini-2" not in question.model:
        return question.params
    rest = {name: value for name, value in question.params.items() if name != "reasoning_effort"}
    return {**rest, "thinkingConfig.thinkingBudget": THINKING_BUDGETS[effort]}


def parse_reply(payload: bytes) -> Answer:
    """Return the answer in a reply; raise `MalformedReplyError` where there is none."""
    body = parse_object(payload)
    feedback = as_mapping(body.get("promptFeedback"))
    block_reason = as_text(feedback.get("blockReason"))
    candidate = next(iter(as_objects(body.get("candidates"))), {})
    if not candidate and not block_reason:
        raise MalformedReplyError(
            as_text(as_mapping(body.get("error")).get("message")) or "the reply has no candidates"
        )
    finish_reason, detail = as_text(candidate.get("finishReason")), as_text(candidate.get("finishMessage"))
    finish = Finish.LENGTH if finish_reason in LENGTH_FINISHES else Finish.COMPLETE
    if block_reason:
        finish, detail = Finish.FILTERED, as_text(feedback.get("blockReasonMessage")) or block_reason
    elif finish_reason in FILTERED_FINISHES:
        finish, detail = Finish.FILTERED, detail or finish_reason
    parts = as_objects(as_mapping(candidate.get("content")).get("parts"))
    usage = as_mapping(body.get("usageMetadata"))
    # Thoughts are billed as output; a reply that was all thoughts has no count of candidate tokens.
    outputs = [as_count(usage.get(name)) for name in ("candidatesTokenCount", "thoughtsTokenCount")]
    return Answer(
        text="".join(as_text(part.get("text")) for part in parts if not part.get("thought")),
        finish=finish,
        model=as_text(body.get("modelVersion")) or None,
        usage=Usage(
            input_tokens=as_count(usage.get("promptTokenCount")),
            output_tokens=sum(number or 0 for number in outputs) if outputs != [None, None] else None,
            cached_tokens=as_count(usage.get("cachedContentTokenCount")),
        ),
        detail=detail,
    )


def _to_google_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """Return a narrowed schema in Google's dialect, which has upper-case types and an explicit order of properties."""
    result = dict(schema)
    if isinstance(kind := result.get("type"), str):
        result["type"] = kind.upper()
    if isinstance(properties := result.get("properties"), Mapping):
        result["properties"] = {name: _to_google_schema(part) for name, part in properties.items()}
        result["propertyOrdering"] = list(properties)
    if isinstance(entries := result.get("items"), Mapping):
        result["items"] = _to_google_schema(entries)
    choices = result.get("enum")
    if isinstance(choices, list) and not all(isinstance(choice, str) for choice in choices):
        # An enum may have strings only, and a number written as a string would come back as one.
        result["description"] = add_to_description(result, [f"one of: {', '.join(map(str, choices))}"])
        del result["enum"]
    return result


# The page has no limit; results of this many lines are quickly read again after a broken download.
MAX_BATCH_REQUESTS = 50_000
END_STAGES = {
    "SUCCEEDED": BatchStage.EXPIRED,
    "FAILED": BatchStage.ERRORED,
    "EXPIRED": BatchStage.EXPIRED,
    "CANCELLED": BatchStage.CANCELED,
}
# As the live API answers a google.rpc.Code: https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
# A single request that was canceled (1) was canceled by the provider, and is worth retrying.
RPC_TO_HTTP_STATUS = {
    1: 503,
    3: 400,
    4: 504,
    5: 404,
    6: 409,
    7: 403,
    8: 429,
    9: 400,
    10: 409,
    11: 400,
    12: 501,
    14: 503,
    16: 401,
}
RESOURCE_EXHAUSTED = 8
FILE_KEY = "file"  # key of the uploaded file in a handle


class _GoogleBatchLine(msgspec.Struct):
    key: str
    response: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_LINE_DECODER = msgspec.json.Decoder(_GoogleBatchLine)


def _frame_request(key: str) -> tuple[bytes, bytes]:
    return f'{{"key":"{key}","request":'.encode(), b"}"


async def _submit_batch(client: BatchClient, file: Path, note: str) -> BatchHandle:
    model = quote(client.model.removeprefix("models/"), safe="")
    with client.require_batch_api(f" for '{client.model}'"):
        metadata = {"file": {"display_name": note}}
        uploaded = await client.upload_resumable("/upload/v1beta/files", file, metadata, "application/jsonl")
        name = as_text(as_mapping(uploaded.get("file")).get("name"))
        batch = {"display_name": note, "input_config": {"file_name": name}}
        path = f"/v1beta/models/{model}:batchGenerateContent"
        created = await client.create_batch(path, {"batch": batch}, f"/v1beta/{name}")
    return {**handle_from_reply(created, "name"), FILE_KEY: name}


async def _find_batch(client: BatchClient, unconfirmed: UnconfirmedBatch) -> BatchHandle | None:
    after = ""
    for _ in range(MAX_PAGES):
        page = await client.get(f"/v1beta/batches?pageSize=100{after}")
        for batch in as_objects(page.get("operations")):
            metadata = as_mapping(batch.get("metadata"))
            if metadata.get("displayName") == unconfirmed.note:
                file = as_text(as_mapping(metadata.get("inputConfig")).get("fileName"))
                return {"id": as_text(batch.get("name")), **({FILE_KEY: file} if file else {})}
        if not (token := as_text(page.get("nextPageToken"))):
            return None
        after = f"&pageToken={quote(token, safe='')}"
    return None


async def _get_batch_status(client: BatchClient, handle: BatchHandle) -> BatchStatus:
    batch = await client.get(f"/v1beta/{handle['id']}")
    metadata, error = as_mapping(batch.get("metadata")), as_mapping(batch.get("error"))
    status = as_text(metadata.get("state")).removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
    stats = as_mapping(metadata.get("batchStats"))
    return BatchStatus(
        BatchState.ENDED if status in END_STAGES or batch.get("done") is True else BatchState.IN_PROGRESS,
        answered=_parse_count(stats.get("successfulRequestCount")),
        failed=_parse_count(stats.get("failedRequestCount")),
        unfinished_stage=END_STAGES.get(status, BatchStage.EXPIRED),
        reason=shorten(redact(as_text(error.get("message")))),
        queue_full=error.get("code") == RESOURCE_EXHAUSTED,
    )


async def _iter_results(client: BatchClient, handle: BatchHandle) -> AsyncGenerator[BatchResult, None]:
    batch = await client.get(f"/v1beta/{handle['id']}")
    output = as_mapping(as_mapping(batch.get("metadata")).get("output"))
    file = as_text(as_mapping(batch.get("response")).get("responsesFile")) or as_text(output.get("responsesFile"))
    if not file:
        return
    async for result in client.results(f"/download/v1beta/{file}:download?alt=media", "key", _parse_result):
        yield result


async def _cancel_batch(client: BatchClient, handle: BatchHandle) -> None:
    await client.post_json(f"/v1beta/{handle['id']}:cancel", {})


async def _delete_files(client: BatchClient, handle: BatchHandle) -> None:
    """Delete the uploaded file: Google would keep it for two days, and allows 20 GB a project."""
    if FILE_KEY in handle:
        await client.delete(f"/v1beta/{handle[FILE_KEY]}")


def _parse_result(data: bytes) -> BatchResult:
    line = _LINE_DECODER.decode(data)
    if line.response:
        return BatchResult(line.key, BatchStage.ANSWERED, 200, bytes(line.response))
    error = as_mapping(msgspec.json.decode(line.error)) if line.error else {}
    code = as_count(error.get("code")) or 2
    status = code if 400 <= code < 600 else RPC_TO_HTTP_STATUS.get(code, 500)
    return BatchResult(line.key, BatchStage.ERRORED, status, msgspec.json.encode({"error": error}))


def _parse_count(value: object) -> int:
    """Parse a count; Google writes large numbers as strings."""
    digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 15
    return as_count(int(str(value)) if digits else value) or 0


def _gemini_version(name: str) -> tuple[int, int]:
    return base.parse_model_version(r"gemini-(\d+)(?:\.(\d+))?", name)


# Tokens of an image by its detail.
MEDIA_RESOLUTION = {"low": 280, "medium": 560, "high": 1120, "ultra_high": 2240}
GEMINI_2_MEDIA_RESOLUTION = {"low": 64, "medium": 256}


def _image_rule(name: str, detail: str | None) -> tuple[str, base.ImageTokenCounter]:
    version = _gemini_version(name)
    if version >= (3, 0):
        unknown = "; model unknown" if version == base.NEWEST_VERSION else ""
        flat = MEDIA_RESOLUTION.get(detail or "high", MEDIA_RESOLUTION["high"])
        return f"google media resolution, as for gemini-3{unknown}", lambda width, height: flat
    if detail in GEMINI_2_MEDIA_RESOLUTION:
        fixed = GEMINI_2_MEDIA_RESOLUTION[detail]
        return "google media resolution, as for gemini-2.5", lambda width, height: fixed
    return "google tiles, as for gemini-2.5", _count_crop_tokens


def _count_crop_tokens(width: int, height: int) -> int:
    if max(width, height) <= 384:
        return 258
    unit = min(768, max(256, min(width, height) * 2 // 3))
    return 258 * base.ceil_div(width, unit) * base.ceil_div(height, unit)


TOKEN_RULES = base.TokenRules(
    model_names=re.compile("gemini"),
    image_rule=_image_rule,
    characters_per_10_tokens=lambda name: 40,  # Google: a token is about 4 characters
    thinks=lambda name: _gemini_version(name) >= (2, 5),
)

BATCH_API = BatchApi(
    max_requests=MAX_BATCH_REQUESTS,
    frame=_frame_request,
    submit=_submit_batch,
    find=_find_batch,
    get_status=_get_batch_status,
    results=_iter_results,
    cancel=_cancel_batch,
    delete_files=_delete_files,
)

PROVIDER = base.Provider(
    name="google",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    base_url=BASE_URL,
    # Larger images are scaled down to fit 3072 × 3072; 7 MB is the limit for an image in the request.
    sizing=Sizing(max_side=3072, max_bytes=7 * 1024 * 1024),
    build_request=build_request,
    parse_reply=parse_reply,
    base_url_variable="GOOGLE_GEMINI_BASE_URL",
    parameter_names=PARAMETER_NAMES,
    image_details=("low", "medium", "high"),
    token_rules=TOKEN_RULES,
    batch=BATCH_API,
)
