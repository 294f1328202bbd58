"""Anthropic's messages.

Request and reply: https://platform.claude.com/docs/en/api/messages
Structured output, `output_config.format`, no beta header:
https://platform.claude.com/docs/en/build-with-claude/structured-outputs
Prompt cache: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
Images and their tokens, 28-pixel patches (about width × height ÷ 784; earlier pages said ÷ 750):
https://platform.claude.com/docs/en/build-with-claude/vision#evaluate-image-size and …/vision-coordinates (scaling)
Batches (one request that holds all others, and a stream of results; 100,000 requests, 256 MB):
https://platform.claude.com/docs/en/build-with-claude/batch-processing and …/docs/en/api/messages/batches
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from beholder.images.image import Sizing
from beholder.providers import base
from beholder.providers.batch import (
    MAX_PAGES,
    UNCONFIRMED,
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
    sum_counts,
    word_set,
)
from beholder.rubrics.brief import TextBlock
from beholder.verdicts.answer import Answer, BatchStage, Finish, Usage

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
_GENERATION = re.compile(r"claude-[a-z]+-(\d+)")


def build_request(question: base.ChatRequest) -> base.HttpRequest:
    """Return the messages request for a question; the system message is marked for the prompt cache."""
    # The answer cache keys on the brief and the judge's identity, not on this body: if the body changes and they
    # do not, stored answers are reused.
    brief = question.brief
    splicer = ImageSplicer()
    content: list[dict[str, object]] = []
    for part in brief.content:
        text = part.text if isinstance(part, TextBlock) else part.label
        if text.strip():
            content.append({"type": "text", "text": text})
        if not isinstance(part, TextBlock):
            data = splicer.add_image(part.image.data)
            source = {"type": "base64", "media_type": part.image.media_type, "data": data}
            content.append({"type": "image", "source": source})
    messages: list[dict[str, object]] = [{"role": "user", "content": content}]
    for answer, reply in base.turn_texts(question.earlier):
        messages += ({"role": "assistant", "content": answer}, {"role": "user", "content": reply})

    body: dict[str, object] = {"model": question.model}
    body |= nest_parameters(question.params, PARAMETER_NAMES, provider="anthropic", reserved=RESERVED_PARAMETERS)
    if question.max_tokens is not None or "max_tokens" not in body:
        body["max_tokens"] = (question.max_tokens or brief.answer_tokens) + _thinking_tokens(question.model, body)
    if (system := base.system_message(brief, question.structured)).strip():
        body["system"] = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
    if question.structured and brief.schema is not None:
        output_format = {"type": "json_schema", "schema": narrow_schema(brief.schema, SCHEMA_KEYWORDS)}
        body["output_config"] = {**as_mapping(body.get("output_config")), "format": output_format}
    body["messages"] = messages
    version = SAMPLING_API_VERSION if SAMPLING_PARAMETERS & body.keys() else API_VERSION
    headers = {"Content-Type": "application/json", "anthropic-version": version}
    if question.key:
        headers["x-api-key"] = question.key
    return base.HttpRequest(f"{question.base_url}/v1/messages", headers, splicer.encode(body))


def parse_reply(payload: bytes) -> Answer:
    """Return the answer in a message; raise `MalformedReplyError` where there is none."""
    body = parse_object(payload)
    if body.get("type") != "message" or not isinstance(body.get("content"), list):
        raise MalformedReplyError(as_text(as_mapping(body.get("error")).get("message")) or "the reply is no message")
    usage, stop = as_mapping(body.get("usage")), as_mapping(body.get("stop_details"))
    cached, written = as_count(usage.get("cache_read_input_tokens")), as_count(usage.get("cache_creation_input_tokens"))
    return Answer(
        text="".join(
            as_text(block.get("text")) for block in as_objects(body["content"]) if block.get("type") == "text"
        ),
        finish=FINISHES.get(as_text(body.get("stop_reason")), Finish.COMPLETE),
        model=as_text(body.get("model")) or None,
        # Anthropic's `input_tokens` excludes what was read from or written to the cache; ours is the total.
        usage=Usage(
            input_tokens=sum_counts(as_count(usage.get("input_tokens")), cached, written),
            output_tokens=as_count(usage.get("output_tokens")),
            cached_tokens=cached,
            cache_write_tokens=written or 0,
        ),
        detail=as_text(stop.get("explanation")) or as_text(stop.get("category")),
    )


def _thinking_tokens(model: str, body: Mapping[str, object]) -> int:
    """Return the tokens for thoughts, which count towards `max_tokens`; Claude 5 and later always think."""
    thinking = as_mapping(body.get("thinking"))
    if (budget := as_count(thinking.get("budget_tokens"))) is not None:
        return budget
    if thinking.get("type") in ("disabled", "between_tools"):
        return 0
    generation = _GENERATION.match(model)
    thinks = bool(thinking) or (generation is not None and int(generation[1]) >= 5)
    return base.THINKING_TOKENS if thinks else 0


BATCH_PATH = "/v1/messages/batches"
CLOCK_SKEW = timedelta(minutes=5)  # between the provider's clock and ours
MAX_SUBMIT_DELAY = timedelta(hours=1)  # from the beginning of a submission to the job: the file is uploaded first
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


def _frame_request(key: str) -> tuple[bytes, bytes]:
    return f'{{"custom_id":"{key}","params":'.encode(), b"}"


async def _submit_batch(client: BatchClient, file: Path, note: str) -> BatchHandle:
    """Submit a batch. It cannot carry a note, so `find` compares the number of requests and the time."""
    with client.require_batch_api():
        batch = await client.post_file(BATCH_PATH, file, {"Content-Type": "application/json"})
    return handle_from_reply(batch, "id")


async def _find_batch(client: BatchClient, unconfirmed: UnconfirmedBatch) -> BatchHandle | None:
    """Return the batch with the same number of requests that was created soonest after.

    If that is the wrong one, none of its results will have a key of ours.
    """
    nearest: tuple[bool, timedelta, str] | None = None
    async for batch, created in _iter_batches_since(client, unconfirmed.since - CLOCK_SKEW):
        id_, delay = as_text(batch.get("id")), created - unconfirmed.since
        same_count = sum(_request_counts(batch).values()) == unconfirmed.count
        possible = same_count and delay < MAX_SUBMIT_DELAY and id_ not in unconfirmed.others
        rank = (delay < timedelta(0), abs(delay), id_)  # negative only if the provider's clock is slow
        if possible and (nearest is None or rank < nearest):
            nearest = rank
    return {"id": nearest[2], UNCONFIRMED: "yes"} if nearest else None


async def _iter_batches_since(
    client: BatchClient, since: datetime
) -> AsyncIterator[tuple[Mapping[str, object], datetime]]:
    """Iterate over batches and when they were created, newest first, as the provider lists them."""
    after = ""
    for _ in range(MAX_PAGES):
        page = await client.get(f"{BATCH_PATH}?limit=100{after}")
        batches = as_objects(page.get("data"))
        for batch in batches:
            created = _created_at(batch)
            if created is None or created < since:
                return
            yield batch, created
        if not batches or not page.get("has_more"):
            return
        after = f"&after_id={as_text(batches[-1].get('id'))}"


async def _get_batch_status(client: BatchClient, handle: BatchHandle) -> BatchStatus:
    batch = await client.get(f"{BATCH_PATH}/{handle['id']}")
    status = as_text(batch.get("processing_status"))
    counts = _request_counts(batch)
    return BatchStatus(
        BatchState(status) if status in set(BatchState) else BatchState.IN_PROGRESS,
        answered=counts["succeeded"],
        failed=counts["errored"] + counts["expired"] + counts["canceled"],
    )


async def _iter_results(client: BatchClient, handle: BatchHandle) -> AsyncGenerator[BatchResult, None]:
    """Iterate over the results at the base URL, not at `results_url`: the key must not go anywhere else."""
    async for result in client.results(f"{BATCH_PATH}/{handle['id']}/results", "custom_id", _parse_result):
        yield result


async def _cancel_batch(client: BatchClient, handle: BatchHandle) -> None:
    await client.post_json(f"{BATCH_PATH}/{handle['id']}/cancel", {})


async def _delete_files(client: BatchClient, handle: BatchHandle) -> None:
    """Do nothing: no file was uploaded."""


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
        created = datetime.fromisoformat(as_text(batch.get("created_at")))
        return created.astimezone(UTC) if created.tzinfo else created.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _claude_version(name: str) -> tuple[int, int]:
    """Parse `claude-opus-4-7`, `claude-3-5-haiku-20241022`, `claude-sonnet-4-20250514` (a date is no version)."""
    return base.parse_model_version(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2})(?!\d))?", name)


# Longest side in pixels and most tokens of an image: Claude 4.7 and later, and before.
HIGH_RESOLUTION_LIMITS = (2576, 4784)
STANDARD_LIMITS = (1568, 1568)


def _image_rule(name: str, detail: str | None) -> tuple[str, base.ImageTokenCounter]:
    version = _claude_version(name)
    limits, tier = (HIGH_RESOLUTION_LIMITS, "high resolution") if version >= (4, 7) else (STANDARD_LIMITS, "standard")
    unknown = "; model unknown" if version == base.NEWEST_VERSION else ""
    return f"anthropic patches, {tier}{unknown}", lambda width, height: _image_tokens(width, height, *limits)


def _image_tokens(width: int, height: int, max_side: int, max_tokens: int) -> int:
    """Count a token for each 28 × 28 pixels, at the largest size of the same proportions within both limits."""
    long, short = max(width, height), min(width, height)

    def cells(edge: int) -> tuple[int, int]:
        return base.ceil_div(edge, 28), base.ceil_div(max(1, round(edge * short / long)), 28)

    def too_large(edge: int) -> bool:
        across, down = cells(edge)
        return across * 28 > max_side or across * down > max_tokens

    edge = bisect_left(range(1, long + 1), True, key=too_large)
    across, down = cells(edge)
    return across * down


TOKEN_RULES = base.TokenRules(
    model_names=re.compile("claude"),
    image_rule=_image_rule,
    # The models page says 2.5 million characters to a million tokens since 4.7, and 3.4 million before.
    characters_per_10_tokens=lambda name: 25 if _claude_version(name) >= (4, 7) else 34,
    thinks=lambda name: _claude_version(name) >= (5, 0),
    adds_thinking_tokens=True,
)

BATCH_API = BatchApi(
    max_requests=100_000,
    frame=_frame_request,
    submit=_submit_batch,
    find=_find_batch,
    get_status=_get_batch_status,
    results=_iter_results,
    cancel=_cancel_batch,
    delete_files=_delete_files,
    prefix=b'{"requests":[',
    separator=b",",
    suffix=b"]}",
)

PROVIDER = base.Provider(
    name="anthropic",
    key_variables=("ANTHROPIC_API_KEY",),
    base_url=BASE_URL,
    # Every Claude sees 1568 pixels a side unscaled; 5 MB is the limit for base64, which is a third longer than bytes.
    sizing=Sizing(max_side=1568, max_bytes=5 * 1024 * 1024 * 3 // 4),
    build_request=build_request,
    parse_reply=parse_reply,
    base_url_variable="ANTHROPIC_BASE_URL",
    parameter_names=PARAMETER_NAMES,
    token_rules=TOKEN_RULES,
    batch=BATCH_API,
)
