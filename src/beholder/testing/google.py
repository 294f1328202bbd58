"""Google's `generateContent` and batches, from the server's side.

Requests and replies: https://ai.google.dev/api/generate-content
Schema: https://ai.google.dev/api/caching#Schema
Errors: https://ai.google.dev/gemini-api/docs/troubleshooting and https://google.aip.dev/193
Batches: https://ai.google.dev/gemini-api/docs/batch-api, https://ai.google.dev/api/batch-api and …/api/files
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from beholder.testing import base

BATCH_STATES = {"in_progress": "RUNNING", "completed": "SUCCEEDED"}  # Google's states, where they have other names
RPC_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 429: 8, 500: 13, 503: 14, 504: 4}


class GoogleBatchDialect(base.BatchDialect):
    name, prefix, max_requests = "google", "batches/", 1_000_000
    page_parameter, key_headers = "pageToken", ("x-goog-api-key",)
    live_path = "/google/v1beta/models/{model}:generateContent"
    routes = (
        ("begin_upload", "POST /google/upload/v1(?:beta)?/files"),
        ("upload", "POST /google/upload/v1(?:beta)?/files/([0-9]+)"),
        ("delete_file", "DELETE /google/v1(?:beta)?/(files/[^/]+)"),
        ("create", "POST /google/v1(?:beta)?/models/([^/:]+):batchGenerateContent"),
        ("list_jobs", "GET /google/v1(?:beta)?/batches"),
        ("get_job", "GET /google/v1(?:beta)?/(batches/[^/:]+)"),
        ("cancel", "POST /google/v1(?:beta)?/(batches/[^/:]+):cancel"),
        ("results", "GET /google/(?:download/)?v1(?:beta)?/files/(of-[^/:]+):download"),
    )

    def parse_order(self, body: Mapping[str, Any], read_file: base.FileReader) -> base.SubmittedBatch:
        batch = base.as_mapping(_to_camel_case(body.get("batch")))
        file = str(base.as_mapping(batch.get("inputConfig")).get("fileName"))
        lines = [json.loads(line) for line in read_file(file).splitlines()]
        note = str(batch.get("displayName", ""))
        return [(line["key"], line["request"]) for line in lines], note, file

    def line(self, key: str, status: int, body: Mapping[str, object]) -> base.JsonLine:
        if status < 400:
            return {"key": key, "response": body}
        return {
            "key": key,
            "error": {"code": RPC_CODES.get(status, 2), "message": base.as_mapping(body["error"])["message"]},
        }

    def failed(self, line: base.JsonLine) -> bool:
        return "error" in line

    def describe(self, job: base.FakeBatchJob) -> base.JsonLine:
        bad = sum(map(self.failed, job.lines))
        stats = {"requestCount": str(len(job.keys))}
        if job.ended and not job.course.fails:
            stats |= {"successfulRequestCount": str(len(job.lines) - bad), "failedRequestCount": str(bad)}
        metadata = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "displayName": job.note,
            "inputConfig": {"fileName": job.file},
            "state": f"BATCH_STATE_{BATCH_STATES.get(job.state, job.state.upper())}",
            "batchStats": stats,
        }
        if not job.ended:
            return {"name": job.id, "metadata": metadata}
        file = {"responsesFile": f"files/of-{job.id.removeprefix(self.prefix)}"} if job.lines else {}
        metadata["output"] = file  # here for the SDK, and below as an operation has it
        error = {"code": 8 if job.course.full else 3, "message": job.course.fails}
        result = {"error": error} if job.course.fails else {"response": file}
        return {"name": job.id, "metadata": metadata, "done": True, **result}

    def list_page(self, page: Sequence[base.FakeBatchJob], has_more: bool) -> base.JsonLine:
        token = {"nextPageToken": page[-1].id} if has_more else {}
        return {"operations": [self.describe(job) for job in page], **token}

    async def receive_file(self, request: web.Request, number: str) -> tuple[str, bytes, base.JsonLine]:
        data, name = await request.read(), f"files/{number}"
        whole = len(data) == int(request.query["size"])
        if request.headers.get("X-Goog-Upload-Command") != "upload, finalize" or not whole:
            raise base.Rejection(400, "The upload is not whole.")
        return name, data, {"file": {"name": name, "mimeType": "application/jsonl", "state": "ACTIVE"}}


# GenerateContentRequest.
PARAMETERS = base.word_set(
    """contents tools toolConfig safetySettings systemInstruction generationConfig cachedContent serviceTier labels
    store model"""
)
# GenerationConfig.
GENERATION_SETTINGS = base.word_set(
    """stopSequences responseMimeType responseSchema responseJsonSchema responseFormat responseModalities candidateCount
    maxOutputTokens temperature topP topK seed presencePenalty frequencyPenalty responseLogprobs logprobs
    enableEnhancedCivicAnswers speechConfig thinkingConfig imageConfig mediaResolution"""
)
# Schema.
SCHEMA_FIELDS = base.word_set(
    """type format title description nullable enum maxItems minItems properties required minProperties maxProperties
    minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum"""
)
SCHEMA_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"})
# Thoughts are not among the candidates' tokens, and both are billed as output.
USAGE = {
    "promptTokenCount": 1200,
    "candidatesTokenCount": 80,
    "totalTokenCount": 1400,
    "cachedContentTokenCount": 1024,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 684}, {"modality": "IMAGE", "tokenCount": 516}],
    "thoughtsTokenCount": 120,
}
ERROR_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_PATH = re.compile(r"/google/(?:v1|v1beta)/models/([^/:]+):(?:generateContent|streamGenerateContent)")


class GoogleDialect(base.ProviderDialect):
    name = "google"

    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, object], keyless: bool) -> base.Received:
        # Google serves both versions.
        if not (match := _PATH.fullmatch(path)):
            raise base.Rejection(404, "Requested entity was not found.")
        if not keyless and not headers.get("x-goog-api-key"):
            raise base.Rejection(
                403,
                "Method doesn't allow unregistered callers (callers without established identity). "
                "Please use API Key or other form of API consumer identity to call this API.",
            )
        body = base.as_mapping(_to_camel_case(body))
        _check_known(body, PARAMETERS, "")
        settings = base.as_mapping(body.get("generationConfig"))
        _check_known(settings, GENERATION_SETTINGS, "generation_config")
        _check_known(
            base.as_mapping(settings.get("thinkingConfig")), _THINKING_FIELDS, "generation_config.thinking_config"
        )
        instruction = base.as_mapping(body.get("systemInstruction"))
        system = "".join(str(part["text"]) for part in base.as_objects(instruction.get("parts")))
        texts, images = [], []
        for content in base.as_objects(body.get("contents")):
            if content.get("role") not in ("user", "model"):
                raise base.Rejection(400, "Please use a valid role: user, model.")
            for part in base.as_objects(content.get("parts")):
                if "text" in part:
                    texts.append(str(part["text"]))
                else:
                    inline = base.as_mapping(part.get("inlineData"))
                    # Protocol buffers read both base64 alphabets.
                    data = str(inline.get("data")).translate(str.maketrans("-_", "+/"))
                    images.append(
                        base.decode_image(data, str(inline.get("mimeType")), "Unable to process input image.")
                    )
        schema = settings.get("responseSchema")
        if isinstance(schema, Mapping):
            _check_schema(schema, "generation_config.response_schema")
            if settings.get("responseMimeType") != "application/json":
                raise base.Rejection(400, "Response schema is only supported with response mime type application/json.")
        wanted = schema if isinstance(schema, Mapping) else None
        model = unquote(match[1])
        return base.Received(self.name, path, headers, body, system, tuple(texts), tuple(images), wanted, model)

    def answer(self, text: str, received: base.Received, kind: base.FaultKind | None = None) -> dict[str, object]:
        # https://ai.google.dev/api/generate-content#GenerateContentResponse; text may come in several parts, and
        # thoughts among them.
        half = len(text) // 2
        parts = [{"text": "Looking at both.", "thought": True}, {"text": text[:half]}, {"text": text[half:]}]
        reasons = {base.FaultKind.TRUNCATED: "MAX_TOKENS", base.FaultKind.FILTERED: "PROHIBITED_CONTENT"}
        candidate: dict[str, object] = {"finishReason": reasons.get(kind, "STOP") if kind else "STOP", "index": 0}
        if kind not in (base.FaultKind.EMPTY, base.FaultKind.FILTERED):
            candidate["content"] = {"parts": parts, "role": "model"}
        return {
            "candidates": [candidate],
            "usageMetadata": USAGE,
            "modelVersion": f"{received.model}-001",
            "responseId": "kLcXaZ2QGdDkz7IPqJ2X6Q4",
        }

    def wants_stream(self, received: base.Received) -> bool:
        return received.path.endswith(":streamGenerateContent")

    def events(self, reply: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
        # https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent
        (candidate,) = reply["candidates"]
        for part in candidate.get("content", {}).get("parts", ()):
            yield "", {**reply, "candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]}
        yield "", {**reply, "candidates": [{key: value for key, value in candidate.items() if key != "content"}]}

    def list_models(self, names: Sequence[str]) -> dict[str, object]:
        methods = ["generateContent", "batchGenerateContent"]
        models = [
            {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods} for name in names
        ]
        return {"models": models}

    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, object]:
        error: dict[str, object] = {
            "code": status,
            "message": message or "The model is overloaded. Please try again later.",
            "status": ERROR_STATUSES.get(status, "UNKNOWN"),
        }
        if "API key not valid" in message:
            info = "type.googleapis.com/google.rpc.ErrorInfo"
            error["details"] = [{"@type": info, "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]
        return {"error": error}

    def rejection(self, fault: base.Fault, received: base.Received) -> base.Rejection:
        if fault.kind is base.FaultKind.UNKNOWN_MODEL:
            return base.Rejection(
                404,
                f"models/{received.model} is not found for API version v1beta, or is not supported for "
                "generateContent. Call ListModels to see the list of available models and their supported methods.",
            )
        if fault.kind is base.FaultKind.BAD_KEY:
            # A bad key is a bad argument here: 400.
            return base.Rejection(400, "API key not valid. Please pass a valid API key.")
        return base.Rejection(400, "JSON mode is not enabled for this model")


_THINKING_FIELDS = frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"})


def _to_camel_case(value: object, names: bool = False) -> object:
    """Return the value with camelCase keys, since Google reads both spellings.

    With `names` the keys are names of a schema's properties, which stay.
    """
    if isinstance(value, list):
        return [_to_camel_case(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    spelled = {key if names else re.sub(r"_(\w)", lambda match: match[1].upper(), key): key for key in value}
    return {name: _to_camel_case(value[key], names=name == "properties" and not names) for name, key in spelled.items()}


def _check_known(given: Mapping[str, object], known: frozenset[str], where: str) -> None:
    for name in given.keys() - known:
        at = f" at '{where}'" if where else ""
        raise base.Rejection(400, f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.')


def _check_schema(schema: Mapping[str, object], where: str) -> None:
    _check_known(schema, SCHEMA_FIELDS, where)
    if schema.get("type") not in SCHEMA_TYPES:
        raise base.Rejection(
            400, f"Invalid value at '{where}.type' (type.googleapis.com/google.ai.Type), {schema.get('type')}"
        )
    choices = schema.get("enum")
    if isinstance(choices, list) and not all(isinstance(choice, str) for choice in choices):
        raise base.Rejection(400, f"Invalid value at '{where}.enum[0]' (TYPE_STRING), {choices[0]}")
    properties = base.as_mapping(schema.get("properties"))
    for name, part in properties.items():
        _check_schema(base.as_mapping(part), f"{where}.properties[{name}].value")
    if "items" in schema:
        _check_schema(base.as_mapping(schema["items"]), f"{where}.items")
