"""Anthropic's messages.

Request and reply: https://platform.claude.com/docs/en/api/messages
Structured output, `output_config.format`, no beta header: https://platform.claude.com/docs/en/build-with-claude/structured-outputs
Cache mark: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
Pictures: https://platform.claude.com/docs/en/build-with-claude/vision

Anthropic's Message Batches: one request that holds all others, and a stream of results.

Guide, limits (100,000 requests, 256 MB), price: https://platform.claude.com/docs/en/build-with-claude/batch-processing
Calls: https://platform.claude.com/docs/en/api/messages/batches
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from beholder.images.image import Sizing
from beholder.providers.base import (
    UNCONFIRMED,
    BatchHandle,
    BatchResult,
    BatchState,
    BatchStatus,
    ChatRequest,
    HttpRequest,
    Provider,
    ProviderReply,
    UnconfirmedBatch,
    ceil_div,
    handle_from_reply,
    parse_model_version,
    system_message,
    turn_texts,
)
from beholder.providers.http import BatchApi, BatchClient
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
    sum_counts,
    word_set,
)
from beholder.rubrics.brief import TextBlock
from beholder.verdicts.answer import BatchStage, Finish, Usage

BASE_URL = "https://api.anthropic.com"
# The version of 2026-10-21 refuses sampling parameters; the one before still takes them, for models that know them.
# https://platform.claude.com/docs/en/api/versioning
API_VERSION, SAMPLING_API_VERSION = "2026-10-21", "2023-06-01"
SAMPLING_PARAMETERS = frozenset({"temperature", "top_p", "top_k"})
PARAMETER_NAMES = {"reasoning_effort": "output_config.effort", "seed": None}
RESERVED_PARAMETERS = frozenset({"model", "messages", "system", "stream"})
SCHEMA_KEYWORDS = word_set(
    "type properties required additionalProperties enum const description items anyOf format $ref $defs"
)
FINISHES = {
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.REFUSED,
}
# Claude 5 and later think without being asked, and thoughts count towards `max_tokens`: without room of their own
# they would eat the answer's.
THINKING_TOKENS = 8192
_GENERATION = re.compile(r"claude-[a-z]+-(\d+)")


def build_request(question: ChatRequest) -> HttpRequest:
    brief = question.brief
    splicer = ImageSplicer()
    content: list[dict[str, object]] = []
    for part in brief.content:
        words = part.text if isinstance(part, TextBlock) else part.label
        if words.strip():
            content.append({"type": "text", "text": words})
        if not isinstance(part, TextBlock):
            data = splicer.stand_in(part.image.data)
            source = {"type": "base64", "media_type": part.image.media_type, "data": data}
            content.append({"type": "image", "source": source})
    messages: list[dict[str, object]] = [{"role": "user", "content": content}]
    for said, reply in turn_texts(question.earlier):
        messages += ({"role": "assistant", "content": said}, {"role": "user", "content": reply})

    body: dict[str, object] = {"model": question.model}
    body |= nest_parameters(question.params, PARAMETER_NAMES, wire="anthropic", reserved=RESERVED_PARAMETERS)
    if question.max_tokens is not None or "max_tokens" not in body:
        body["max_tokens"] = (question.max_tokens or brief.answer_tokens) + _thinking_tokens(question.model, body)
    if (system := system_message(brief, question.structured)).strip():
        body["system"] = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
    if question.structured and brief.schema is not None:
        form = {"type": "json_schema", "schema": narrow_schema(brief.schema, SCHEMA_KEYWORDS)}
        body["output_config"] = {**as_mapping(body.get("output_config")), "format": form}
    body["messages"] = messages
    version = SAMPLING_API_VERSION if SAMPLING_PARAMETERS & body.keys() else API_VERSION
    headers = {"Content-Type": "application/json", "anthropic-version": version}
    if question.key:
        headers["x-api-key"] = question.key
    return HttpRequest(f"{question.base_url}/v1/messages", headers, splicer.dump(body))


def parse_reply(payload: bytes) -> ProviderReply:
    body = parse_object(payload)
    if body.get("type") != "message" or not isinstance(body.get("content"), list):
        raise MalformedReplyError(as_text(as_mapping(body.get("error")).get("message")) or "the reply is no message")
    usage, stop = as_mapping(body.get("usage")), as_mapping(body.get("stop_details"))
    cached, written = as_count(usage.get("cache_read_input_tokens")), as_count(usage.get("cache_creation_input_tokens"))
    return ProviderReply(
        text="".join(
            as_text(block.get("text")) for block in as_objects(body["content"]) if block.get("type") == "text"
        ),
        finish=FINISHES.get(as_text(body.get("stop_reason")), Finish.COMPLETE),
        model=as_text(body.get("model")) or None,
        # Anthropic's `input_tokens` leaves out what came from the cache or went into it; ours is the total.
        usage=Usage(
            input_tokens=sum_counts(as_count(usage.get("input_tokens")), cached, written),
            output_tokens=as_count(usage.get("output_tokens")),
            cached_tokens=cached,
        ),
        detail=as_text(stop.get("explanation")) or as_text(stop.get("category")),
        cache_writes=written or 0,
    )


def _thinking_tokens(model: str, body: Mapping[str, object]) -> int:
    thinking = as_mapping(body.get("thinking"))
    if (budget := as_count(thinking.get("budget_tokens"))) is not None:
        return budget
    if thinking.get("type") in ("disabled", "between_tools"):
        return 0
    generation = _GENERATION.match(model)
    thinks = bool(thinking) or (generation is not None and int(generation[1]) >= 5)
    return THINKING_TOKENS if thinks else 0


PROVIDER = Provider(
    name="anthropic",
    key_variables=("ANTHROPIC_API_KEY",),
    base_url=BASE_URL,
    # Every Claude sees 1568 pixels a side unscaled; 5 MB bind the base64, which is a third longer than the bytes.
    sizing=Sizing(max_side=1568, max_bytes=5 * 1024 * 1024 * 3 // 4),
    request=build_request,
    read=parse_reply,
    base_url_variable="ANTHROPIC_BASE_URL",
    names=PARAMETER_NAMES,
)


BATCH_PATH = "/v1/messages/batches"
CLOCK_SKEW = timedelta(minutes=5)  # between the provider's clock and ours
MAX_SUBMIT_DELAY = timedelta(hours=1)  # after a job was begun here: it is uploaded first
# https://platform.claude.com/docs/en/api/errors#http-errors
ERROR_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class _AnthropicBatchOutcome(msgspec.Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _AnthropicBatchLine(msgspec.Struct):
    custom_id: str
    result: _AnthropicBatchOutcome


_LINE_DECODER = msgspec.json.Decoder(_AnthropicBatchLine)


def frame_request(key: str) -> tuple[bytes, bytes]:
    return f'{{"custom_id":"{key}","params":'.encode(), b"}"


async def submit_batch(desk: BatchClient, file: Path, note: str) -> BatchHandle:
    """A batch can carry no note; `find` goes by the number of its requests and its time."""
    with desk.making():
        batch = await desk.send(BATCH_PATH, file, {"Content-Type": "application/json"})
    return handle_from_reply(batch, "id")


async def find_batch(desk: BatchClient, lost: UnconfirmedBatch) -> BatchHandle | None:
    """The batch of that many requests that was begun soonest after; if it is not the one, none of its results will have
    a key of ours."""
    nearest: tuple[bool, timedelta, str] | None = None
    async for batch, begun in _iter_batches_since(desk, lost.since - CLOCK_SKEW):
        id_, late = as_text(batch.get("id")), begun - lost.since
        same = sum(_request_counts(batch).values()) == lost.count and late < MAX_SUBMIT_DELAY and id_ not in lost.others
        rank = (late < timedelta(0), abs(late), id_)  # before it was begun only by a clock that is slow
        if same and (nearest is None or rank < nearest):
            nearest = rank
    return {"id": nearest[2], UNCONFIRMED: "yes"} if nearest else None


async def _iter_batches_since(
    desk: BatchClient, since: datetime
) -> AsyncIterator[tuple[Mapping[str, object], datetime]]:
    """The newest first, as the provider lists them."""
    after = ""
    while True:
        page = await desk.get(f"{BATCH_PATH}?limit=100{after}")
        found = as_objects(page.get("data"))
        for batch in found:
            begun = _created_at(batch)
            if begun is None or begun < since:
                return
            yield batch, begun
        if not found or not page.get("has_more"):
            return
        after = f"&after_id={as_text(found[-1].get('id'))}"


async def get_batch_status(desk: BatchClient, handle: BatchHandle) -> BatchStatus:
    batch = await desk.get(f"{BATCH_PATH}/{handle['id']}")
    status = as_text(batch.get("processing_status"))
    counts = _request_counts(batch)
    return BatchStatus(
        BatchState(status) if status in set(BatchState) else BatchState.IN_PROGRESS,
        answered=counts["succeeded"],
        failed=counts["errored"] + counts["expired"] + counts["canceled"],
    )


async def iter_results(desk: BatchClient, handle: BatchHandle) -> AsyncIterator[BatchResult]:
    """From the base URL, and not from `results_url`: the key goes nowhere else."""
    async for result in desk.results(f"{BATCH_PATH}/{handle['id']}/results", "custom_id", _parse_result):
        yield result


async def cancel_batch(desk: BatchClient, handle: BatchHandle) -> None:
    await desk.say(f"{BATCH_PATH}/{handle['id']}/cancel", {})


async def delete_files(desk: BatchClient, handle: BatchHandle) -> None:
    """Nothing was uploaded but the batch itself."""


def _parse_result(data: bytes) -> BatchResult:
    line = _LINE_DECODER.decode(data)
    outcome = line.result
    if outcome.type == "succeeded":
        return BatchResult(line.custom_id, BatchStage.ANSWERED, 200, bytes(outcome.message))
    if outcome.type == "errored":
        error = msgspec.json.decode(outcome.error) if outcome.error else {}
        kind = as_text(as_mapping(as_mapping(error).get("error")).get("type"))
        return BatchResult(line.custom_id, BatchStage.ERRORED, ERROR_STATUSES.get(kind, 500), bytes(outcome.error))
    return BatchResult(line.custom_id, BatchStage.CANCELED if outcome.type == "canceled" else BatchStage.EXPIRED)


def _request_counts(batch: Mapping[str, object]) -> dict[str, int]:
    counts = as_mapping(batch.get("request_counts"))
    return {
        name: as_count(counts.get(name)) or 0 for name in ("processing", "succeeded", "errored", "canceled", "expired")
    }


def _created_at(batch: Mapping[str, object]) -> datetime | None:
    try:
        return datetime.fromisoformat(as_text(batch.get("created_at")))
    except ValueError:
        return None


BATCH_API = BatchApi(
    "anthropic",
    100_000,
    frame_request,
    submit_batch,
    find_batch,
    get_batch_status,
    iter_results,
    cancel_batch,
    delete_files,
    opening=b'{"requests":[',
    between=b",",
    closing=b"]}",
)


def claude_version(name: str) -> tuple[int, int]:
    """`claude-opus-4-7`, `claude-3-5-haiku-20241022`, `claude-sonnet-4-20250514` (a date is no version)."""
    return parse_model_version(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2})(?!\d))?", name)


# The longest side and the most tokens of a picture: Claude 4.7 and later, and before.
HIGH_RESOLUTION_LIMITS = (2576, 4784)
STANDARD_LIMITS = (1568, 1568)


def anthropic_image_tokens(width: int, height: int, side: int, most: int) -> int:
    """A token for each 28 × 28 pixels of the largest size, in the same proportions, that is within both limits."""
    long, short = max(width, height), min(width, height)

    def cells(edge: int) -> tuple[int, int]:
        return ceil_div(edge, 28), ceil_div(max(1, round(edge * short / long)), 28)

    def too_large(edge: int) -> bool:
        across, down = cells(edge)
        return across * 28 > side or across * down > most

    edge = bisect_left(range(1, long + 1), True, key=too_large)
    across, down = cells(edge)
    return across * down
