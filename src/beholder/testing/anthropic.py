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
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from beholder.testing import base


class AnthropicBatchDialect(base.BatchDialect):
    name, prefix, max_requests = "anthropic", "msgbatch_", 100_000
    # The key as in examples, and as the SDKs send it since 2.0.
    page_parameter, key_headers, live_path = "after_id", ("x-api-key", "authorization"), "/anthropic/v1/messages"
    required_header = "anthropic-version"
    cancel_fields = (("processing_status", "canceling"),)
    routes = (
        ("create", "POST /anthropic/v1/messages/batches"),
        ("list_jobs", "GET /anthropic/v1/messages/batches"),
        ("get_job", "GET /anthropic/v1/messages/batches/([^/]+)"),
        ("cancel", "POST /anthropic/v1/messages/batches/([^/]+)/cancel"),
        ("results", "GET /anthropic/v1/messages/batches/([^/]+)/results"),
    )

    def parse_order(self, body: Mapping[str, Any], read_file: base.FileReader) -> base.SubmittedBatch:
        requests = [
            (str(item["custom_id"]), base.as_mapping(item["params"])) for item in base.as_objects(body.get("requests"))
        ]
        if wrong := [key for key, _ in requests if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", key)]:
            raise base.Rejection(
                400, f"requests.custom_id: {wrong[0]!r} should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
            )
        return requests, "", ""

    def line(self, key: str, status: int, body: Mapping[str, object]) -> base.JsonLine:
        result = {"type": "succeeded", "message": body} if status < 400 else {"type": "errored", "error": body}
        return {"custom_id": key, "result": result}

    def failed(self, line: base.JsonLine) -> bool:
        return bool(line["result"]["type"] != "succeeded")

    def describe(self, job: base.FakeBatchJob) -> base.JsonLine:
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
            "expires_at": (job.created + timedelta(days=1)).isoformat(),
            "ended_at": job.created.isoformat() if job.ended else None,
            "cancel_initiated_at": job.created.isoformat() if job.canceled else None,
            "archived_at": None,
            "results_url": f"{job.server_url}/anthropic/v1/messages/batches/{job.id}/results" if job.ended else None,
        }

    def results(self, job: base.FakeBatchJob, name: str) -> list[base.JsonLine]:
        ran = {line["custom_id"] for line in job.lines}
        ending = {"type": "canceled" if job.canceled else "expired"}
        return job.lines + [{"custom_id": key, "result": ending} for key in job.keys if key not in ran]


_SIGNATURE: Mapping[str, dict[str, str]] = {"text": {}, "thinking": {"signature": ""}}
# The body parameters of "Create a Message".
PARAMETERS = base.word_set(
    """cache_control container diagnostics inference_geo max_tokens messages metadata model output_config service_tier
    speed stop_sequences stream system temperature thinking tool_choice tools top_k top_p"""
)
VERSIONS = ("2023-06-01", "2026-10-21")
# Removed in the second version.
SAMPLING_PARAMETERS = frozenset({"temperature", "top_p", "top_k"})
# "JSON Schema limitations": numeric, string-length and array-length constraints are refused.
UNSUPPORTED_KEYWORDS = base.word_set(
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


class AnthropicDialect(base.ProviderDialect):
    name = "anthropic"

    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, object], keyless: bool) -> base.Received:
        if path != "/anthropic/v1/messages":
            raise base.Rejection(404, "Not Found")
        # Examples send the key as x-api-key, the SDKs since 2.0 as a bearer.
        if not keyless and not (headers.get("x-api-key") or headers.get("authorization")):
            raise base.Rejection(401, "x-api-key header is required")
        if (version := headers.get("anthropic-version")) not in VERSIONS:
            raise base.Rejection(400, f"anthropic-version: {version!r} is not a valid version")
        for parameter in body.keys() - (PARAMETERS - (SAMPLING_PARAMETERS if version == VERSIONS[-1] else frozenset())):
            raise base.Rejection(400, f"{parameter}: Extra inputs are not permitted")
        for parameter in ("model", "max_tokens", "messages"):
            if parameter not in body:
                raise base.Rejection(400, f"{parameter}: Field required")
        system = "".join(str(block["text"]) for block in base.as_objects(body.get("system"))) or str(
            body.get("system", "")
        )
        texts, images = [], []
        for number, message in enumerate(base.as_objects(body["messages"])):
            content = message.get("content")
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else base.as_objects(content)
            for place, part in enumerate(parts):
                if part.get("type") == "text":
                    if not str(part["text"]).strip():
                        raise base.Rejection(400, "messages: text content blocks must be non-empty")
                    texts.append(str(part["text"]))
                else:
                    source = base.as_mapping(part.get("source"))
                    media_type = str(source.get("media_type"))
                    where = f"messages.{number}.content.{place}.image.source.base64"
                    complaint = (
                        f"{where}: The image was specified using the {media_type} media type, but it is no such image"
                    )
                    images.append(base.decode_image(source.get("data"), media_type, complaint))
        return base.Received(
            self.name, path, headers, body, system, tuple(texts), tuple(images), self._schema(body), str(body["model"])
        )

    def answer(self, text: str, received: base.Received, kind: base.FaultKind | None = None) -> dict[str, object]:
        # https://platform.claude.com/docs/en/api/messages, response; thinking, if asked for, comes before the text.
        stopped = kind in (base.FaultKind.REFUSAL, base.FaultKind.FILTERED)
        thinking = {
            "type": "thinking",
            "thinking": "Let me look at both images.",
            "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h",
        }
        asked = base.as_mapping(received.body.get("thinking")).get("type", "disabled") != "disabled"
        content = [*([thinking] if asked else []), {"type": "text", "text": text}]
        return {
            "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
            "type": "message",
            "role": "assistant",
            "model": received.model if received.model.endswith(MODEL_DATE) else f"{received.model}-{MODEL_DATE}",
            "content": [] if stopped or kind is base.FaultKind.EMPTY else content,
            "stop_reason": "refusal" if stopped else "max_tokens" if kind is base.FaultKind.TRUNCATED else "end_turn",
            "stop_sequence": None,
            "stop_details": {"type": "refusal", "category": None, "explanation": text or None} if stopped else None,
            "usage": USAGE,
        }

    def events(self, reply: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
        # https://platform.claude.com/docs/en/build-with-claude/streaming
        def event(name: str, **fields: object) -> tuple[str, object]:
            return name, {"type": name, **fields}

        started = {**reply, "content": [], "stop_reason": None, "stop_details": None}
        yield event("message_start", message=started)
        for index, block in enumerate(reply["content"]):
            kind = "text" if block["type"] == "text" else "thinking"
            yield event("content_block_start", index=index, content_block={"type": kind, kind: ""} | _SIGNATURE[kind])
            for piece in base.split_text(block[kind]):
                yield event("content_block_delta", index=index, delta={"type": f"{kind}_delta", kind: piece})
            if kind == "thinking":
                signature = {"type": "signature_delta", "signature": block["signature"]}
                yield event("content_block_delta", index=index, delta=signature)
            yield event("content_block_stop", index=index)
        ending = {key: reply[key] for key in ("stop_reason", "stop_sequence", "stop_details")}
        yield event("message_delta", delta=ending, usage={"output_tokens": reply["usage"]["output_tokens"]})
        yield event("message_stop")

    def list_models(self, names: Sequence[str]) -> dict[str, object]:
        models = [
            {"type": "model", "id": name, "display_name": name, "created_at": "2025-10-01T00:00:00Z"} for name in names
        ]
        return {"data": models, "has_more": False, "first_id": names[0], "last_id": names[-1]}

    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, object]:
        error = {"type": ERROR_TYPES.get(status, "api_error"), "message": message or "Overloaded"}
        return {"type": "error", "error": error, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}

    def rejection(self, fault: base.Fault, received: base.Received) -> base.Rejection:
        if fault.kind is base.FaultKind.UNKNOWN_MODEL:
            return base.Rejection(404, f"model: {received.model}")
        if fault.kind is base.FaultKind.BAD_KEY:
            return base.Rejection(401, "invalid x-api-key")
        return base.Rejection(400, f"'{received.model}' does not support output format.")

    def _schema(self, body: Mapping[str, object]) -> Mapping[str, object] | None:
        output_format = base.as_mapping(base.as_mapping(body.get("output_config")).get("format"))
        if not output_format:
            return None
        schema = base.as_mapping(output_format.get("schema"))
        for part in base.iter_schemas(schema):
            if wrong := part.keys() & UNSUPPORTED_KEYWORDS:
                words = ", ".join(sorted(wrong))
                kind = part.get("type")
                raise base.Rejection(
                    400, f"output_config.format.schema: For '{kind}' type, properties {words} are not supported"
                )
            if part.get("type") == "object" and (problem := base.check_strict_object(part)):
                raise base.Rejection(400, f"output_config.format.schema: {problem}")
        return schema
