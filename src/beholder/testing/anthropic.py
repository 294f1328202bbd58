"""Anthropic's messages and message batches, from the server's side.

Requests and replies: https://platform.claude.com/docs/en/api/messages
Errors: https://platform.claude.com/docs/en/api/errors
Schemas: https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
Versions: https://platform.claude.com/docs/en/api/versioning
Stop reasons: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons
Batches: https://platform.claude.com/docs/en/build-with-claude/batch-processing and …/api/messages/batches
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from beholder.testing.base import (
    BatchDialect,
    FakeBatchJob,
    Fault,
    FaultKind,
    FileReader,
    JsonLine,
    ProviderDialect,
    Received,
    Rejection,
    SubmittedBatch,
    as_mapping,
    as_objects,
    check_strict_object,
    decode_image,
    iter_schemas,
    word_set,
)


class AnthropicBatchDialect(BatchDialect):
    name, prefix, max_requests = "anthropic", "msgbatch_", 100_000
    page_parameter, key_header, live_path = "after_id", "x-api-key", "/anthropic/v1/messages"
    required_header = "anthropic-version"
    cancel_fields = (("processing_status", "canceling"),)
    routes = (
        ("create", "POST /anthropic/v1/messages/batches"),
        ("list_jobs", "GET /anthropic/v1/messages/batches"),
        ("get_job", "GET /anthropic/v1/messages/batches/([^/]+)"),
        ("cancel", "POST /anthropic/v1/messages/batches/([^/]+)/cancel"),
        ("results", "GET /anthropic/v1/messages/batches/([^/]+)/results"),
    )

    def parse_order(self, body: Mapping[str, Any], read_file: FileReader) -> SubmittedBatch:
        requests = [(str(item["custom_id"]), as_mapping(item["params"])) for item in as_objects(body.get("requests"))]
        if wrong := [key for key, _ in requests if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", key)]:
            raise Rejection(400, f"requests.custom_id: {wrong[0]!r} should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        return requests, "", ""

    def line(self, key: str, status: int, body: Mapping[str, object]) -> JsonLine:
        result = {"type": "succeeded", "message": body} if status < 400 else {"type": "errored", "error": body}
        return {"custom_id": key, "result": result}

    def failed(self, line: JsonLine) -> bool:
        return bool(line["result"]["type"] != "succeeded")

    def describe(self, job: FakeBatchJob) -> JsonLine:
        bad, rest = sum(map(self.failed, job.lines)), len(job.keys) - len(job.lines)
        counts = {"processing": 0, "succeeded": len(job.lines) - bad, "errored": bad}
        counts |= {"canceled": rest * job.canceled, "expired": rest * (not job.canceled)}
        processing = {**dict.fromkeys(counts, 0), "processing": len(job.keys)}
        return {
            "id": job.id,
            "type": "message_batch",
            "processing_status": "ended" if job.ended else "in_progress",
            "request_counts": counts if job.ended else processing,
            "created_at": job.created.isoformat(),
            "results_url": f"https://api.anthropic.com/v1/messages/batches/{job.id}/results" if job.ended else None,
        }

    def results(self, job: FakeBatchJob, name: str) -> list[JsonLine]:
        ran = {line["custom_id"] for line in job.lines}
        ending = {"type": "canceled" if job.canceled else "expired"}
        return job.lines + [{"custom_id": key, "result": ending} for key in job.keys if key not in ran]


# The body parameters of "Create a Message".
PARAMETERS = word_set(
    """cache_control container diagnostics inference_geo max_tokens messages metadata model output_config service_tier
    speed stop_sequences stream system temperature thinking tool_choice tools top_k top_p"""
)
VERSIONS = ("2023-06-01", "2026-10-21")
# Removed in the second version.
SAMPLING_PARAMETERS = frozenset({"temperature", "top_p", "top_k"})
# "JSON Schema limitations": numeric, string-length and array-length constraints are refused.
UNSUPPORTED_KEYWORDS = word_set(
    """minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength maxItems uniqueItems
    propertyOrdering nullable"""
)
# `input_tokens` excludes what was read from the cache and written to it: the total is their sum, 2310.
USAGE = {
    "input_tokens": 286,
    "cache_creation_input_tokens": 500,
    "cache_read_input_tokens": 1524,
    "cache_creation": {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 640,
    "service_tier": "standard",
}
MODEL_DATE = "20251001"
# https://platform.claude.com/docs/en/api/errors#http-errors
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class AnthropicDialect(ProviderDialect):
    name = "anthropic"

    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, object], keyless: bool) -> Received:
        if path != "/anthropic/v1/messages":
            raise Rejection(404, "Not Found")
        # Examples send the key as x-api-key, the SDKs since 2.0 as a bearer.
        if not keyless and not (headers.get("x-api-key") or headers.get("authorization")):
            raise Rejection(401, "x-api-key header is required")
        if (version := headers.get("anthropic-version")) not in VERSIONS:
            raise Rejection(400, f"anthropic-version: {version!r} is not a valid version")
        for parameter in body.keys() - (PARAMETERS - (SAMPLING_PARAMETERS if version == VERSIONS[-1] else frozenset())):
            raise Rejection(400, f"{parameter}: Extra inputs are not permitted")
        for parameter in ("model", "max_tokens", "messages"):
            if parameter not in body:
                raise Rejection(400, f"{parameter}: Field required")
        system = "".join(str(block["text"]) for block in as_objects(body.get("system"))) or str(body.get("system", ""))
        texts, images = [], []
        for number, message in enumerate(as_objects(body["messages"])):
            content = message.get("content")
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else as_objects(content)
            for place, part in enumerate(parts):
                if part.get("type") == "text":
                    if not str(part["text"]).strip():
                        raise Rejection(400, "messages: text content blocks must be non-empty")
                    texts.append(str(part["text"]))
                else:
                    source = as_mapping(part.get("source"))
                    media_type = str(source.get("media_type"))
                    where = f"messages.{number}.content.{place}.image.source.base64"
                    complaint = (
                        f"{where}: The image was specified using the {media_type} media type, but it is no such image"
                    )
                    images.append(decode_image(source.get("data"), media_type, complaint))
        return Received(
            self.name, path, headers, body, system, tuple(texts), tuple(images), self._schema(body), str(body["model"])
        )

    def answer(self, text: str, received: Received, kind: FaultKind | None = None) -> dict[str, object]:
        # https://platform.claude.com/docs/en/api/messages, response; thinking comes before the text.
        stopped = kind in (FaultKind.REFUSAL, FaultKind.FILTERED)
        thinking = {
            "type": "thinking",
            "thinking": "Let me look at both images.",
            "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h",
        }
        return {
            "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
            "type": "message",
            "role": "assistant",
            "model": received.model if received.model.endswith(MODEL_DATE) else f"{received.model}-{MODEL_DATE}",
            "content": [] if stopped or kind is FaultKind.EMPTY else [thinking, {"type": "text", "text": text}],
            "stop_reason": "refusal" if stopped else "max_tokens" if kind is FaultKind.TRUNCATED else "end_turn",
            "stop_sequence": None,
            "stop_details": {"type": "refusal", "category": None, "explanation": text or None} if stopped else None,
            "usage": USAGE,
        }

    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, object]:
        error = {"type": ERROR_TYPES.get(status, "api_error"), "message": message or "Overloaded"}
        return {"type": "error", "error": error, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}

    def rejection(self, fault: Fault, received: Received) -> Rejection:
        if fault.kind is FaultKind.UNKNOWN_MODEL:
            return Rejection(404, f"model: {received.model}")
        if fault.kind is FaultKind.BAD_KEY:
            return Rejection(401, "invalid x-api-key")
        return Rejection(400, f"'{received.model}' does not support output format.")

    def _schema(self, body: Mapping[str, object]) -> Mapping[str, object] | None:
        output_format = as_mapping(as_mapping(body.get("output_config")).get("format"))
        if not output_format:
            return None
        schema = as_mapping(output_format.get("schema"))
        for part in iter_schemas(schema):
            if wrong := part.keys() & UNSUPPORTED_KEYWORDS:
                words = ", ".join(sorted(wrong))
                kind = part.get("type")
                raise Rejection(
                    400, f"output_config.format.schema: For '{kind}' type, properties {words} are not supported"
                )
            if part.get("type") == "object" and (problem := check_strict_object(part)):
                raise Rejection(400, f"output_config.format.schema: {problem}")
        return schema
