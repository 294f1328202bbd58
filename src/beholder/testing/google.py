"""Google's `generateContent`, from the server's side.

Forms: https://ai.google.dev/api/generate-content
Schema: https://ai.google.dev/api/caching#Schema
Errors: https://ai.google.dev/gemini-api/docs/troubleshooting and https://google.aip.dev/193
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from beholder.testing.dialects import Dialect, Rejection, mapping, objects, picture, words
from beholder.testing.replies import Fault, Kind, Received

# GenerateContentRequest.
PARAMETERS = words(
    """contents tools toolConfig safetySettings systemInstruction generationConfig cachedContent serviceTier labels
    store model"""
)
# GenerationConfig.
SETTINGS = words(
    """stopSequences responseMimeType responseSchema responseJsonSchema responseFormat responseModalities candidateCount
    maxOutputTokens temperature topP topK seed presencePenalty frequencyPenalty responseLogprobs logprobs
    enableEnhancedCivicAnswers speechConfig thinkingConfig imageConfig mediaResolution"""
)
# Schema.
FIELDS = words(
    """type format title description nullable enum maxItems minItems properties required minProperties maxProperties
    minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum"""
)
TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"})
# Thoughts are not among the candidates' tokens, and both are billed as output.
USAGE = {
    "promptTokenCount": 1200,
    "candidatesTokenCount": 80,
    "totalTokenCount": 1400,
    "cachedContentTokenCount": 1024,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 684}, {"modality": "IMAGE", "tokenCount": 516}],
    "thoughtsTokenCount": 120,
}
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_PATH = re.compile(r"/google/(?:v1|v1beta)/models/([^/:]+):generateContent")


class Google(Dialect):
    name = "google"

    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, object], keyless: bool) -> Received:
        # Google serves both versions.
        if not (match := _PATH.fullmatch(path)):
            raise Rejection(404, "Requested entity was not found.")
        if not keyless and not headers.get("x-goog-api-key"):
            raise Rejection(
                403,
                "Method doesn't allow unregistered callers (callers without established identity). "
                "Please use API Key or other form of API consumer identity to call this API.",
            )
        body = mapping(_camel(body))
        _known(body, PARAMETERS, "")
        settings = mapping(body.get("generationConfig"))
        _known(settings, SETTINGS, "generation_config")
        _known(mapping(settings.get("thinkingConfig")), _THINKING, "generation_config.thinking_config")
        instruction = mapping(body.get("systemInstruction"))
        system = "".join(str(part["text"]) for part in objects(instruction.get("parts")))
        texts, images = [], []
        for content in objects(body.get("contents")):
            if content.get("role") not in ("user", "model"):
                raise Rejection(400, "Please use a valid role: user, model.")
            for part in objects(content.get("parts")):
                if "text" in part:
                    texts.append(str(part["text"]))
                else:
                    inline = mapping(part.get("inlineData"))
                    # Protocol buffers read both base64 alphabets.
                    data = str(inline.get("data")).translate(str.maketrans("-_", "+/"))
                    images.append(picture(data, str(inline.get("mimeType")), "Unable to process input image."))
        schema = settings.get("responseSchema")
        if isinstance(schema, Mapping):
            _check(schema, "generation_config.response_schema")
            if settings.get("responseMimeType") != "application/json":
                raise Rejection(400, "Response schema is only supported with response mime type application/json.")
        wanted = schema if isinstance(schema, Mapping) else None
        model = unquote(match[1])
        return Received(self.name, path, headers, body, system, tuple(texts), tuple(images), wanted, model)

    def answer(self, text: str, heard: Received, kind: Kind | None = None) -> dict[str, object]:
        # https://ai.google.dev/api/generate-content#GenerateContentResponse; text may come in several parts, and
        # thoughts among them.
        half = len(text) // 2
        parts = [{"text": "Looking at both.", "thought": True}, {"text": text[:half]}, {"text": text[half:]}]
        reasons = {Kind.TRUNCATED: "MAX_TOKENS", Kind.FILTERED: "PROHIBITED_CONTENT"}
        candidate: dict[str, object] = {"finishReason": reasons.get(kind, "STOP") if kind else "STOP", "index": 0}
        if kind not in (Kind.EMPTY, Kind.FILTERED):
            candidate["content"] = {"parts": parts, "role": "model"}
        return {
            "candidates": [candidate],
            "usageMetadata": USAGE,
            "modelVersion": f"{heard.model}-001",
            "responseId": "kLcXaZ2QGdDkz7IPqJ2X6Q4",
        }

    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, object]:
        error: dict[str, object] = {
            "code": status,
            "message": message or "The model is overloaded. Please try again later.",
            "status": STATUSES.get(status, "UNKNOWN"),
        }
        if "API key not valid" in message:
            info = "type.googleapis.com/google.rpc.ErrorInfo"
            error["details"] = [{"@type": info, "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]
        return {"error": error}

    def rejection(self, fault: Fault, heard: Received) -> Rejection:
        if fault.kind is Kind.UNKNOWN_MODEL:
            return Rejection(
                404,
                f"models/{heard.model} is not found for API version v1beta, or is not supported for generateContent. "
                "Call ListModels to see the list of available models and their supported methods.",
            )
        if fault.kind is Kind.BAD_KEY:
            # A bad key is a bad argument here: 400.
            return Rejection(400, "API key not valid. Please pass a valid API key.")
        return Rejection(400, "JSON mode is not enabled for this model")


_THINKING = frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"})


def _camel(value: object, names: bool = False) -> object:
    """The value with camelCase keys. Google reads both spellings; `names` are a schema's own properties and stay."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    spelled = {key if names else re.sub(r"_(\w)", lambda match: match[1].upper(), key): key for key in value}
    return {name: _camel(value[key], names=name == "properties" and not names) for name, key in spelled.items()}


def _known(given: Mapping[str, object], known: frozenset[str], where: str) -> None:
    for name in given.keys() - known:
        at = f" at '{where}'" if where else ""
        raise Rejection(400, f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.')


def _check(schema: Mapping[str, object], where: str) -> None:
    _known(schema, FIELDS, where)
    if schema.get("type") not in TYPES:
        raise Rejection(
            400, f"Invalid value at '{where}.type' (type.googleapis.com/google.ai.Type), {schema.get('type')}"
        )
    choices = schema.get("enum")
    if isinstance(choices, list) and not all(isinstance(choice, str) for choice in choices):
        raise Rejection(400, f"Invalid value at '{where}.enum[0]' (TYPE_STRING), {choices[0]}")
    properties = mapping(schema.get("properties"))
    for name, part in properties.items():
        _check(mapping(part), f"{where}.properties[{name}].value")
    if "items" in schema:
        _check(mapping(schema["items"]), f"{where}.items")
