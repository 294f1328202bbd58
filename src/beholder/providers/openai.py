"""OpenAI's chat completions, also as vLLM, SGLang, Ollama, LM Studio and OpenRouter serve them.

Request and reply: https://developers.openai.com/api/docs/api-reference/chat/create
Structured output: https://developers.openai.com/api/docs/guides/structured-outputs
Images and their tokens: https://developers.openai.com/api/docs/guides/images-vision#calculating-costs
Batches (a JSONL file of requests, a job, a file of replies and one of errors; 50,000 requests and 200 MB a file, one
model a file): https://developers.openai.com/api/docs/guides/batch and …/api-reference/batch, …/api-reference/files
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from pathlib import Path
from typing import Annotated

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

BASE_URL = "https://api.openai.com/v1"
RESERVED_PARAMETERS = frozenset({"model", "messages", "response_format", "stream", "n"})
SCHEMA_KEYWORDS = word_set(
    "type properties required additionalProperties enum const description items minimum maximum "
    "exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems pattern format anyOf $ref $defs"
)


def build_request(question: base.ChatRequest) -> base.HttpRequest:
    """Return the chat completion request for a question."""
    # The answer cache keys on the brief and the judge's identity, not on this body: if the body changes and they
    # do not, stored answers are reused.
    brief, params = question.brief, question.params
    detail = {"detail": question.detail} if question.detail else {}
    splicer = ImageSplicer()
    content: list[dict[str, object]] = []
    for part in brief.content:
        if isinstance(part, TextBlock):
            content.append({"type": "text", "text": part.text})
            continue
        url = f"data:{part.image.media_type};base64,{splicer.add_image(part.image.data)}"
        content.append({"type": "text", "text": part.label})
        content.append({"type": "image_url", "image_url": {"url": url} | detail})
    system = base.system_message(brief, question.structured)
    messages: list[dict[str, object]] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": content})
    for answer, reply in base.turn_texts(question.earlier):
        messages += ({"role": "assistant", "content": answer}, {"role": "user", "content": reply})

    # OpenAI's reasoning models reject the old name of the limit; many compatible servers know only the old one.
    uses_new_name = question.base_url == BASE_URL or "max_completion_tokens" in params
    limit = "max_completion_tokens" if uses_new_name else "max_tokens"
    body: dict[str, object] = {"model": question.model, "messages": messages}
    body |= nest_parameters(params, {"max_tokens": limit}, provider="openai", reserved=RESERVED_PARAMETERS)
    if question.max_tokens is not None:
        body[limit] = question.max_tokens
    if question.structured and brief.schema is not None:
        schema = {"name": "answer", "strict": True, "schema": narrow_schema(brief.schema, SCHEMA_KEYWORDS)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    headers = {"Content-Type": "application/json"}
    if question.key:
        headers["Authorization"] = f"Bearer {question.key}"
    return base.HttpRequest(f"{question.base_url}/chat/completions", headers, splicer.encode(body))


def parse_reply(payload: bytes) -> Answer:
    """Return the answer in a chat completion; raise `MalformedReplyError` where there is none."""
    body = parse_object(payload)
    choice = next(iter(as_objects(body.get("choices"))), {})
    # OpenRouter reports an upstream's failure inside a reply with status 200.
    if (error := as_mapping(body.get("error") or choice.get("error"))) or choice.get("finish_reason") == "error":
        raise MalformedReplyError(as_text(error.get("message")) or "the reply reports an error")
    if "message" not in choice:
        raise MalformedReplyError("the reply has no choices")
    message = as_mapping(choice.get("message"))
    content = message.get("content")
    text = as_text(content) or "".join(as_text(part.get("text")) for part in as_objects(content))
    moved = as_mapping(message.get("provider_specific_fields")).get("refusal")  # by LiteLLM's proxy
    refusal = as_text(message.get("refusal")) or as_text(moved)
    refusal = refusal or "".join(as_text(part.get("refusal")) for part in as_objects(content))
    finish = {"length": Finish.LENGTH, "content_filter": Finish.FILTERED}.get(as_text(choice.get("finish_reason")))
    usage = as_mapping(body.get("usage"))
    cached = as_mapping(usage.get("prompt_tokens_details"))
    return Answer(
        text=text,
        finish=finish or (Finish.REFUSED if refusal else Finish.COMPLETE),
        model=as_text(body.get("model")) or None,
        usage=Usage(
            input_tokens=as_count(usage.get("prompt_tokens")),
            output_tokens=as_count(usage.get("completion_tokens")),
            cached_tokens=as_count(cached.get("cached_tokens")),
            cache_write_tokens=as_count(cached.get("cache_write_tokens")) or 0,
        ),
        detail=refusal,
    )


NOTE_KEY = "beholder"  # key of our note in a batch's metadata
END_STAGES = {
    "completed": BatchStage.EXPIRED,
    "failed": BatchStage.ERRORED,
    "expired": BatchStage.EXPIRED,
    "cancelled": BatchStage.CANCELED,
}
NOT_RUN_STAGES = {"batch_expired": BatchStage.EXPIRED, "batch_cancelled": BatchStage.CANCELED}
QUEUE_FULL = "token_limit_exceeded"  # an account's tier limits how many tokens may be queued


class _OpenAIBatchResponse(msgspec.Struct):
    status_code: Annotated[int, msgspec.Meta(ge=100, le=599)]
    body: msgspec.Raw


class _OpenAIBatchError(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _OpenAIBatchLine(msgspec.Struct):
    custom_id: str
    response: _OpenAIBatchResponse | None = None
    error: _OpenAIBatchError | None = None


_LINE_DECODER = msgspec.json.Decoder(_OpenAIBatchLine)


def _frame_request(key: str) -> tuple[bytes, bytes]:
    return f'{{"custom_id":"{key}","method":"POST","url":"/v1/chat/completions","body":'.encode(), b"}"


async def _submit_batch(client: BatchClient, file: Path, note: str) -> BatchHandle:
    with client.require_batch_api():
        uploaded = await client.upload("/files", file, {"purpose": "batch"})
        file_id = as_text(uploaded.get("id"))
        batch_request = {
            "input_file_id": file_id,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {NOTE_KEY: note},
        }
        batch = await client.create_batch("/batches", batch_request, f"/files/{file_id}")
    return handle_from_reply(batch, "id")


async def _find_batch(client: BatchClient, unconfirmed: UnconfirmedBatch) -> BatchHandle | None:
    after = ""
    for _ in range(MAX_PAGES):
        page = await client.get(f"/batches?limit=100{after}")
        batches = as_objects(page.get("data"))
        for batch in batches:
            if as_mapping(batch.get("metadata")).get(NOTE_KEY) == unconfirmed.note:
                return {"id": as_text(batch.get("id"))}
        if (
            not batches
            or not page.get("has_more")
            or (as_count(batches[-1].get("created_at")) or 0) < unconfirmed.since.timestamp() - 3600
        ):
            return None
        after = f"&after={as_text(batches[-1].get('id'))}"
    return None


async def _get_batch_status(client: BatchClient, handle: BatchHandle) -> BatchStatus:
    batch = await _get_batch(client, handle)
    status = as_text(batch.get("status"))
    counts = as_mapping(batch.get("request_counts"))
    errors = as_objects(as_mapping(batch.get("errors")).get("data"))
    running = BatchState.CANCELING if status == "cancelling" else BatchState.IN_PROGRESS
    return BatchStatus(
        BatchState.ENDED if status in END_STAGES else running,
        answered=as_count(counts.get("completed")) or 0,
        failed=as_count(counts.get("failed")) or 0,
        unfinished_stage=END_STAGES.get(status, BatchStage.EXPIRED),
        reason=shorten(redact("; ".join(as_text(error.get("message")) for error in errors[:3]))),
        queue_full=any(error.get("code") == QUEUE_FULL for error in errors),
    )


async def _iter_results(client: BatchClient, handle: BatchHandle) -> AsyncGenerator[BatchResult, None]:
    batch = await _get_batch(client, handle)
    for file in (as_text(batch.get("output_file_id")), as_text(batch.get("error_file_id"))):
        if file:
            async for result in client.results(f"/files/{file}/content", "custom_id", _parse_result):
                yield result


async def _cancel_batch(client: BatchClient, handle: BatchHandle) -> None:
    await client.post_json(f"/batches/{handle['id']}/cancel", {})


async def _delete_files(client: BatchClient, handle: BatchHandle) -> None:
    """Delete the uploaded file, which OpenAI would keep for 30 days."""
    if file := as_text((await _get_batch(client, handle)).get("input_file_id")):
        await client.delete(f"/files/{file}")


async def _get_batch(client: BatchClient, handle: BatchHandle) -> Mapping[str, object]:
    return await client.get(f"/batches/{handle['id']}")


def _parse_result(data: bytes) -> BatchResult:
    line = _LINE_DECODER.decode(data)
    if line.response is not None:
        stage = BatchStage.ANSWERED if 200 <= line.response.status_code < 300 else BatchStage.ERRORED
        return BatchResult(line.custom_id, stage, line.response.status_code, bytes(line.response.body))
    error = line.error or _OpenAIBatchError()
    if not_run := NOT_RUN_STAGES.get(error.code or ""):
        return BatchResult(line.custom_id, not_run)
    body = msgspec.json.encode({"error": {"code": error.code, "message": error.message}})
    return BatchResult(line.custom_id, BatchStage.ERRORED, 500, body)


@dataclass(frozen=True, slots=True)
class TileRule:
    """Image tokens by 512-pixel tiles: `baseline`, and `tile` for each tile."""

    baseline: int
    tile: int


@dataclass(frozen=True, slots=True)
class PatchRule:
    """Image tokens by 32-pixel patches.

    Attributes:
        percent: tokens for 100 patches.
        limits: longest side in pixels and most patches by image detail, `""` for any other detail.
    """

    percent: int
    limits: Mapping[str, tuple[int, int | None]]


_DEFAULT_LIMITS = {"": (2048, 6144)}
_UNLIMITED: dict[str, tuple[int, int | None]] = {"": (65_535, None), "low": (512, None)}
_GPT_5_5_LIMITS: dict[str, tuple[int, int | None]] = {"": (6000, 10_000), "low": (512, None), "high": (2048, 2500)}
_GPT_5_4_LIMITS = {"": (2048, 2500), "low": (2048, 6144), "original": (6000, 10_000)}
_SMALL_MODEL_RULE = PatchRule(120, _DEFAULT_LIMITS)
_GPT_4_RULE = TileRule(85, 170)
# By the beginning of the model's name. The page no longer has patch limits for models that will be shut down
# (gpt-5-mini, gpt-5-nano, gpt-4.1-nano, o4-mini): they get those of the models with which it used to list them.
IMAGE_TOKEN_RULES: dict[str, TileRule | PatchRule] = {
    "gpt-6": PatchRule(120, _UNLIMITED | {"high": (65_535, 2500)}),
    "gpt-5.6": PatchRule(120, _UNLIMITED | {"high": (2048, 2500)}),
    "gpt-5.5": PatchRule(120, _GPT_5_5_LIMITS),
    "gpt-5.4": PatchRule(120, _GPT_5_4_LIMITS),
    "gpt-5.3": _SMALL_MODEL_RULE,
    "gpt-5.2": _SMALL_MODEL_RULE,
    "gpt-5.1-codex-mini": _SMALL_MODEL_RULE,
    "gpt-5.1": TileRule(70, 140),
    "gpt-5-codex-mini": _SMALL_MODEL_RULE,
    "gpt-5-mini": _SMALL_MODEL_RULE,
    "gpt-5-nano": PatchRule(150, _DEFAULT_LIMITS),
    "gpt-5": TileRule(70, 140),
    "gpt-4.1-mini": PatchRule(162, _DEFAULT_LIMITS),
    "gpt-4.1-nano": PatchRule(246, _DEFAULT_LIMITS),
    "gpt-4.1": _GPT_4_RULE,
    "gpt-4o-mini": TileRule(2833, 5667),
    "gpt-4o": _GPT_4_RULE,
    "o4-mini": PatchRule(172, _DEFAULT_LIMITS),
    "o3": TileRule(75, 150),
    "o1": TileRule(75, 150),
}


def _image_rule(name: str, detail: str | None) -> tuple[str, base.ImageTokenCounter]:
    """Return the rule of the longest known beginning of the model's name; of an unknown model that of the newest."""
    known = [start for start in IMAGE_TOKEN_RULES if f"{name}-".startswith(f"{start}-")]
    like = max(known, key=len, default="gpt-6")
    rule = IMAGE_TOKEN_RULES[like]
    unknown = "" if known else "; model unknown"
    if isinstance(rule, TileRule):
        tile = 0 if detail == "low" else rule.tile
        return f"openai tiles, as for {like}{unknown}", lambda *size: rule.baseline + tile * _count_tiles(*size)
    side, budget = rule.limits.get(detail or "", rule.limits[""])

    def count(width: int, height: int) -> int:
        return base.ceil_div(_count_patches(*_fit_side(width, height, side), budget) * rule.percent, 100)

    return f"openai patches, as for {like}{unknown}", count


def _count_patches(width: int, height: int, budget: int | None) -> int:
    """Count patches of an image that is scaled down to at most `budget` patches.

    The page scales by √(32² · budget ÷ (width · height)), then to whole patches on the side that loses less. This is
    the same in integers, without rounding errors of floats.
    """
    if budget is None or base.ceil_div(width, 32) * base.ceil_div(height, 32) <= budget:
        return base.ceil_div(width, 32) * base.ceil_div(height, 32)
    across, down = isqrt(budget * width // height), isqrt(budget * height // width)
    if across * height <= down * width:
        return across * base.ceil_div(32 * across * height // width, 32)
    return down * base.ceil_div(32 * down * width // height, 32)


def _count_tiles(width: int, height: int) -> int:
    short, long = sorted(_fit_side(width, height, 2048))
    if short > 768:
        short, long = 768, long * 768 // short
    return base.ceil_div(short, 512) * base.ceil_div(long, 512)


def _fit_side(width: int, height: int, side: int) -> tuple[int, int]:
    longest = max(width, height)
    if longest <= side:
        return width, height
    return max(1, round(Fraction(width * side, longest))), max(1, round(Fraction(height * side, longest)))


TOKEN_RULES = base.TokenRules(
    model_names=re.compile(r"^gpt-\d|^o\d"),
    image_rule=_image_rule,
    characters_per_10_tokens=lambda name: 40,  # OpenAI: a token is about 4 characters of English
    thinks=lambda name: not re.match(r"gpt-[34]", name),
)

BATCH_API = BatchApi(
    max_requests=50_000,
    frame=_frame_request,
    submit=_submit_batch,
    find=_find_batch,
    get_status=_get_batch_status,
    results=_iter_results,
    cancel=_cancel_batch,
    delete_files=_delete_files,
)

PROVIDER = base.Provider(
    name="openai",
    key_variables=("OPENAI_API_KEY",),
    base_url=BASE_URL,
    # An image at full detail is scaled to fit 2048 × 2048.
    sizing=Sizing(max_side=2048, max_bytes=20 * 1024 * 1024),
    build_request=build_request,
    parse_reply=parse_reply,
    base_url_variable="OPENAI_BASE_URL",
    parameter_names={"max_tokens": "max_completion_tokens"},
    image_details=("auto", "low", "high", "original"),
    key_optional=True,
    token_rules=TOKEN_RULES,
    batch=BATCH_API,
)
