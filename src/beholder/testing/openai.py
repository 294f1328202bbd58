"""OpenAI's chat completions and batches, from the server's side.

Requests and replies: https://developers.openai.com/api/docs/api-reference/chat/create and …/chat/object
Errors: https://developers.openai.com/api/docs/guides/error-codes
Rules of strict schemas: https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
Batches: https://developers.openai.com/api/docs/guides/batch and …/api-reference/batch
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aiohttp import web

from beholder.testing import base


class OpenAIBatchDialect(base.BatchDialect):
    name, prefix, max_requests = "openai", "batch_", 50_000
    page_parameter, key_headers, live_path = "after", ("authorization",), "/openai/v1/chat/completions"
    list_fields, cancel_fields = (("object", "list"),), (("status", "cancelling"),)
    routes = (
        ("upload", "POST /openai/v1/files"),
        ("delete_file", "DELETE /openai/v1/files/([^/]+)"),
        ("create", "POST /openai/v1/batches"),
        ("list_jobs", "GET /openai/v1/batches"),
        ("get_job", "GET /openai/v1/batches/([^/]+)"),
        ("cancel", "POST /openai/v1/batches/([^/]+)/cancel"),
        ("results", "GET /openai/v1/files/([^/]+)/content"),
    )

    def parse_order(self, body: Mapping[str, Any], read_file: base.FileReader) -> base.SubmittedBatch:
        if body.get("endpoint") != "/v1/chat/completions" or body.get("completion_window") != "24h":
            raise base.Rejection(400, "Invalid value: 'endpoint' or 'completion_window'.")
        data = read_file(body.get("input_file_id"))
        if len(data) > 200_000_000:
            raise base.Rejection(400, "The file is larger than 200 MB.")
        lines = [json.loads(line) for line in data.splitlines()]
        if any((line["method"], line["url"]) != ("POST", "/v1/chat/completions") for line in lines):
            raise base.Rejection(400, "The 'url' of a line is not the endpoint of the batch.")
        if len({line["body"]["model"] for line in lines}) > 1:
            raise base.Rejection(400, "All requests of a batch must be of one model.")
        note = str(base.as_mapping(body.get("metadata")).get("beholder", ""))
        return [(line["custom_id"], line["body"]) for line in lines], note, body["input_file_id"]

    def line(self, key: str, status: int, body: Mapping[str, object]) -> base.JsonLine:
        response = {"status_code": status, "request_id": "req_123", "body": body}
        return {"id": f"batch_req_{key[:8]}", "custom_id": key, "response": response, "error": None}

    def failed(self, line: base.JsonLine) -> bool:
        return line["response"] is None or line["response"]["status_code"] >= 400

    def describe(self, job: base.FakeBatchJob) -> base.JsonLine:
        bad = sum(map(self.failed, job.lines))
        good = len(job.lines) - bad
        files = job.ended and not job.course.fails
        code = "token_limit_exceeded" if job.course.full else "invalid_request"
        error = {"code": code, "message": job.course.fails, "param": None, "line": None}
        return {
            "id": job.id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "errors": {"object": "list", "data": [error]} if job.state == "failed" else None,
            "input_file_id": job.file,
            "completion_window": "24h",
            "status": job.state,
            "output_file_id": f"output-of-{job.id}" if files and good else None,
            "error_file_id": f"errors-of-{job.id}" if files and bad else None,
            "created_at": int(job.created.timestamp()),
            "request_counts": {"total": len(job.keys), "completed": good * job.ended, "failed": bad * job.ended},
            "metadata": {"beholder": job.note} if job.note else None,
        }

    def results(self, job: base.FakeBatchJob, name: str) -> list[base.JsonLine]:
        return [line for line in job.lines if self.failed(line) is name.startswith("errors-")]

    async def receive_file(self, request: web.Request, number: str) -> tuple[str, bytes, base.JsonLine]:
        form = await request.post()
        file = form.get("file")
        if form.get("purpose") != "batch" or file is None or isinstance(file, str | bytes | bytearray):
            raise base.Rejection(400, "'purpose' and 'file' are required")
        with file.file as opened:
            id_, data = f"file-{number}", opened.read()
        return (
            id_,
            data,
            {
                "id": id_,
                "object": "file",
                "bytes": len(data),
                "created_at": CREATED,
                "filename": file.filename,
                "purpose": "batch",
                "status": "processed",
            },
        )


# The parameters of "Create chat completion".
PARAMETERS = base.word_set(
    """audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages
    metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key
    prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier
    stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity
    web_search_options"""
)
# Keywords of strict schemas: all but the "unsupported type-specific keywords".
KEYWORDS = base.word_set(
    """type properties required additionalProperties enum const description items minimum maximum exclusiveMinimum
    exclusiveMaximum multipleOf minItems maxItems pattern format anyOf title $ref $defs"""
)
# The usage of a reply; its input includes the cached tokens.
USAGE = {
    "prompt_tokens": 1117,
    "completion_tokens": 46,
    "total_tokens": 1163,
    "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 20,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}
MODEL_DATE = "2025-08-07"
CREATED = 1_763_164_800
BAD_IMAGE = (
    "You uploaded an unsupported image. Please make sure your image is valid and has of one the following formats: "
    "['png', 'jpeg', 'gif', 'webp']."
)
# https://developers.openai.com/api/docs/guides/error-codes
ERROR_TYPES = {429: "requests", 500: "server_error", 503: "server_error"}
ERROR_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


class OpenAIDialect(base.ProviderDialect):
    name = "openai"

    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, object], keyless: bool) -> base.Received:
        if path != "/openai/v1/chat/completions":
            raise base.Rejection(404, f"Invalid URL (POST {path.removeprefix('/openai')})")
        if not keyless and not headers.get("authorization", "").removeprefix("Bearer ").strip():
            raise base.Rejection(
                401, "You didn't provide an API key. You need to provide your API key in an Authorization header."
            )
        for parameter in body.keys() - PARAMETERS:
            raise base.Rejection(400, f"Unknown parameter: '{parameter}'.", parameter)
        if not isinstance(body.get("model"), str):
            raise base.Rejection(400, "you must provide a model parameter")
        system, texts, images = "", [], []
        for message in base.as_objects(body.get("messages")):
            content = message.get("content")
            if message.get("role") in ("system", "developer"):
                system += str(content)
            elif isinstance(content, str):
                texts.append(content)
            for part in base.as_objects(content):
                if part.get("type") == "text":
                    texts.append(str(part["text"]))
                elif part.get("type") == "image_url":
                    media_type, _, data = str(base.as_mapping(part["image_url"])["url"]).partition(";base64,")
                    images.append(base.decode_image(data, media_type.removeprefix("data:"), BAD_IMAGE))
                else:
                    raise base.Rejection(400, f"Invalid value: '{part.get('type')}'.", "messages")
        return base.Received(
            self.name, path, headers, body, system, tuple(texts), tuple(images), self._schema(body), str(body["model"])
        )

    def answer(self, text: str, received: base.Received, kind: base.FaultKind | None = None) -> dict[str, object]:
        # https://developers.openai.com/api/docs/api-reference/chat/object
        refused = kind is base.FaultKind.REFUSAL
        reasons = {base.FaultKind.TRUNCATED: "length", base.FaultKind.FILTERED: "content_filter"}
        return {
            "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
            "object": "chat.completion",
            "created": CREATED,
            "model": f"{received.model}-{MODEL_DATE}",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": None if refused or kind in (base.FaultKind.EMPTY, base.FaultKind.FILTERED) else text,
                        "refusal": text if refused else None,
                        "annotations": [],
                    },
                    "logprobs": None,
                    "finish_reason": reasons.get(kind, "stop") if kind else "stop",
                }
            ],
            "usage": USAGE,
            "service_tier": "default",
            "system_fingerprint": None,
        }

    def events(self, reply: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
        # https://developers.openai.com/api/docs/api-reference/chat-streaming
        (choice,) = reply["choices"]
        common = {key: reply[key] for key in ("id", "created", "model", "service_tier", "system_fingerprint")}
        common |= {"object": "chat.completion.chunk", "usage": None}

        def chunk(delta: Mapping[str, object], reason: object = None) -> dict[str, object]:
            return {**common, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}

        yield "", chunk({"role": "assistant", "content": "", "refusal": None})
        for key in ("content", "refusal"):
            for piece in base.split_text(choice["message"][key] or ""):
                yield "", chunk({key: piece})
        yield "", chunk({}, choice["finish_reason"])
        yield "", {**common, "choices": [], "usage": reply["usage"]}
        yield "", "[DONE]"

    def list_models(self, names: Sequence[str]) -> dict[str, object]:
        models = [{"id": name, "object": "model", "created": CREATED, "owned_by": "beholder"} for name in names]
        return {"object": "list", "data": models}

    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, object]:
        error = {
            "message": message or f"The server had an error while processing your request ({status}).",
            "type": ERROR_TYPES.get(status, "invalid_request_error"),
            "param": parameter,
            "code": "unknown_parameter" if parameter and message.startswith("Unknown") else ERROR_CODES.get(status),
        }
        return {"error": error}

    def rejection(self, fault: base.Fault, received: base.Received) -> base.Rejection:
        if fault.kind is base.FaultKind.UNKNOWN_MODEL:
            return base.Rejection(404, f"The model `{received.model}` does not exist or you do not have access to it.")
        if fault.kind is base.FaultKind.BAD_KEY:
            key = received.headers.get("authorization", "").removeprefix("Bearer ")
            masked = f"{key[:8]}{'*' * 20}{key[-4:]}"
            return base.Rejection(
                401,
                f"Incorrect API key provided: {masked}. You can find your API key at "
                "https://platform.openai.com/account/api-keys.",
            )
        return base.Rejection(
            400,
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
            "response_format",
        )

    def _schema(self, body: Mapping[str, object]) -> Mapping[str, object] | None:
        wanted = base.as_mapping(base.as_mapping(body.get("response_format")).get("json_schema"))
        if not wanted:
            return None
        schema, name = base.as_mapping(wanted.get("schema")), wanted.get("name")
        for part in base.iter_schemas(schema) if wanted.get("strict") else ():
            wrong = base.check_strict_object(part)
            if unknown := part.keys() - KEYWORDS:
                wrong = f"'{min(unknown)}' is not permitted."
            if wrong:
                message = f"Invalid schema for response_format '{name}': In context=(), {wrong}"
                raise base.Rejection(400, message, "response_format")
        return schema
