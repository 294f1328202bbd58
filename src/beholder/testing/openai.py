"""OpenAI's chat completions, from the server's side.

Forms: https://developers.openai.com/api/docs/api-reference/chat/create and …/chat/object
Errors: https://developers.openai.com/api/docs/guides/error-codes
Rules of strict schemas: https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
"""

from __future__ import annotations

from collections.abc import Mapping

from beholder.testing.dialects import Dialect, Rejection, mapping, objects, picture, schemas, strict_object, words
from beholder.testing.replies import Fault, Kind, Received

# The parameters of "Create chat completion".
PARAMETERS = words(
    """audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages
    metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key
    prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier
    stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity
    web_search_options"""
)
# "Unsupported type-specific keywords" of strict schemas, and what is no keyword at all.
KEYWORDS = words(
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
DATED = "2025-08-07"
BAD_IMAGE = (
    "You uploaded an unsupported image. Please make sure your image is valid and has of one the following formats: "
    "['png', 'jpeg', 'gif', 'webp']."
)
# https://developers.openai.com/api/docs/guides/error-codes
TYPES = {429: "requests", 500: "server_error", 503: "server_error"}
CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


class OpenAI(Dialect):
    name = "openai"

    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, object], keyless: bool) -> Received:
        if path != "/openai/v1/chat/completions":
            raise Rejection(404, f"Invalid URL (POST {path.removeprefix('/openai')})")
        if not keyless and not headers.get("authorization", "").removeprefix("Bearer ").strip():
            raise Rejection(
                401, "You didn't provide an API key. You need to provide your API key in an Authorization header."
            )
        for parameter in body.keys() - PARAMETERS:
            raise Rejection(400, f"Unknown parameter: '{parameter}'.", parameter)
        if not isinstance(body.get("model"), str):
            raise Rejection(400, "you must provide a model parameter")
        system, texts, images = "", [], []
        for message in objects(body.get("messages")):
            content = message.get("content")
            if message.get("role") in ("system", "developer"):
                system += str(content)
            elif isinstance(content, str):
                texts.append(content)
            for part in objects(content):
                if part.get("type") == "text":
                    texts.append(str(part["text"]))
                elif part.get("type") == "image_url":
                    media_type, _, data = str(mapping(part["image_url"])["url"]).partition(";base64,")
                    images.append(picture(data, media_type.removeprefix("data:"), BAD_IMAGE))
                else:
                    raise Rejection(400, f"Invalid value: '{part.get('type')}'.", "messages")
        return Received(
            self.name, path, headers, body, system, tuple(texts), tuple(images), self._schema(body), str(body["model"])
        )

    def answer(self, text: str, heard: Received, kind: Kind | None = None) -> dict[str, object]:
        # https://developers.openai.com/api/docs/api-reference/chat/object
        refused = kind is Kind.REFUSAL
        reasons = {Kind.TRUNCATED: "length", Kind.FILTERED: "content_filter"}
        return {
            "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
            "object": "chat.completion",
            "created": 1_763_164_800,
            "model": f"{heard.model}-{DATED}",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": None if refused or kind in (Kind.EMPTY, Kind.FILTERED) else text,
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

    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, object]:
        error = {
            "message": message or f"The server had an error while processing your request ({status}).",
            "type": TYPES.get(status, "invalid_request_error"),
            "param": parameter,
            "code": "unknown_parameter" if parameter and message.startswith("Unknown") else CODES.get(status),
        }
        return {"error": error}

    def rejection(self, fault: Fault, heard: Received) -> Rejection:
        if fault.kind is Kind.UNKNOWN_MODEL:
            return Rejection(404, f"The model `{heard.model}` does not exist or you do not have access to it.")
        if fault.kind is Kind.BAD_KEY:
            key = heard.headers.get("authorization", "").removeprefix("Bearer ")
            masked = f"{key[:8]}{'*' * 20}{key[-4:]}"
            return Rejection(
                401,
                f"Incorrect API key provided: {masked}. You can find your API key at "
                "https://platform.openai.com/account/api-keys.",
            )
        return Rejection(
            400,
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
            "response_format",
        )

    def _schema(self, body: Mapping[str, object]) -> Mapping[str, object] | None:
        wanted = mapping(mapping(body.get("response_format")).get("json_schema"))
        if not wanted:
            return None
        schema, name = mapping(wanted.get("schema")), wanted.get("name")
        for part in schemas(schema) if wanted.get("strict") else ():
            wrong = strict_object(part)
            if unknown := part.keys() - KEYWORDS:
                wrong = f"'{min(unknown)}' is not permitted."
            if wrong:
                message = f"Invalid schema for response_format '{name}': In context=(), {wrong}"
                raise Rejection(400, message, "response_format")
        return schema
