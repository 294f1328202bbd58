"""Judges through pydantic-ai, for providers without a module here (`mistral:`, `groq:`, `bedrock:` …).

pydantic-ai and the provider's SDK are imported when such a judge is made, not before.
"""

from __future__ import annotations

import inspect
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from decimal import Decimal
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, cast, get_args

from beholder.errors import SetupError, Unreachable
from beholder.images.image import DEFAULT_SIZING
from beholder.providers.base import (
    ENTRY_POINT_GROUP,
    JudgeSettings,
    apply_sample_seed,
    finish_answer,
    format_identity,
    normalize_base_url,
    split_image_params,
    system_message,
    turn_texts,
)
from beholder.providers.payload import MIN_KEY_CHARACTERS, nest_parameters, redact, remove_api_keys, shorten
from beholder.providers.prices import answer_cost
from beholder.providers.retry import (
    CallTarget,
    FilteredRequestError,
    NoStructuredOutputError,
    PermanentError,
    RetryableError,
    classify_error,
    read_error_body,
)
from beholder.rubrics.brief import Brief, TextBlock
from beholder.verdicts.answer import Answer, Finish, Turn, Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings


IMAGE_DETAILS = ("auto", "low", "high", "original")
PARAMETER_NAMES = {"reasoning_effort": "thinking"}
RESERVED_PARAMETERS = frozenset({"model", "messages", "timeout", "max_retries", "extra_headers"})
_SECRET_VARIABLE = re.compile("KEY|TOKEN|SECRET")


def make_pydantic_ai_judge(provider: str, model: str, settings: JudgeSettings) -> PydanticAIJudge:
    """Make a judge through pydantic-ai; raise `SetupError` for an unknown prefix, a missing extra or a missing key."""
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
        from pydantic_ai.providers import Provider, infer_provider_class
    except ImportError:
        raise SetupError(
            f"'{provider}:{model}' is asked through pydantic-ai, which is not installed; "
            f"run: pip install 'beholder[providers]' 'pydantic-ai-slim[{provider}]'"
        ) from None
    try:
        provider_class = infer_provider_class(provider)
    except ValueError:
        raise SetupError(f"No judge is named '{provider}:'; known are {', '.join(_known_prefixes())}.") from None
    except ImportError as error:
        match = re.search(r"pydantic-ai-slim\[([\w-]+)\]", str(error))
        extra = match[1] if match else provider
        raise SetupError(
            f"'{provider}:{model}' needs its provider's package; "
            f"run: pip install 'beholder[providers]' 'pydantic-ai-slim[{extra}]'"
        ) from None
    arguments = _provider_arguments(provider, inspect.signature(provider_class.__init__).parameters, settings)

    def make(_: str) -> Provider[Any]:
        return provider_class(**arguments)

    try:
        return PydanticAIJudge(provider, model, infer_model(f"{provider}:{model}", make), settings)
    except UserError as error:
        # Its message also says how to do it in Python and advertises a test model; users here need the first part.
        reason = re.sub(r" or pass (it|them) via `[^`]*`", "", str(error).split(" To try Pydantic AI")[0])
        raise SetupError(f"'{provider}:{model}' cannot be asked: {redact(reason)}") from None


class PydanticAIJudge:
    """A model behind pydantic-ai, with the same answers, outcomes and retries as `ModelJudge`."""

    def __init__(self, provider: str, model: str, client: Model, settings: JudgeSettings) -> None:
        self.provider, self.model, self.settings = provider, model, settings
        self._client = client
        self.params, self.sizing = split_image_params(settings.params, DEFAULT_SIZING, IMAGE_DETAILS, provider)
        self._structured_output = bool(client.profile.get("supports_json_schema_output", False))
        self._secrets = _find_secrets(settings.key_variable)
        self._connection: AsyncExitStack | None = None
        url = settings.base_url or client.base_url or provider
        variable = settings.key_variable or f"the environment of {provider}"
        self._target = CallTarget(self.name, model, url, variable, (variable,), tuple(self.params))
        self._model_settings(self.params)  # parameters that cannot be sent are reported now

    def __repr__(self) -> str:
        return f"PydanticAIJudge({self.name!r})"

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}"

    @property
    def identity(self) -> str:
        return format_identity(self.name, self.settings.base_url or "", self.params, self.sizing.detail)

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """Ask the model, with retries, as `ModelJudge.answer`."""
        if self._connection is None:
            self._connection = AsyncExitStack()
            await self._connection.enter_async_context(self._client)
        retrier = self.settings.retrier(brief)
        params = dict(apply_sample_seed(self.params, sample))
        if max_tokens is not None:
            params["max_tokens"] = max_tokens
        model_settings = self._model_settings(params)
        structured_output = self._structured_output
        while True:
            structured = structured_output and brief.schema is not None
            try:
                answer = await retrier.call(self._send_once, brief, earlier, model_settings, structured)
                break
            except NoStructuredOutputError:
                structured_output = False
            except FilteredRequestError as error:
                answer = Answer("", finish=Finish.FILTERED, detail=str(error))
                break
            except PermanentError as error:
                raise Unreachable(str(error), retrier.attempts) from None
        self._structured_output = self._structured_output and structured_output
        return finish_answer(answer, retrier.attempts, brief, structured_output)

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.aclose()
            self._connection = None

    async def _send_once(
        self, brief: Brief, earlier: Sequence[Turn], model_settings: ModelSettings, structured: bool
    ) -> Answer:
        from pydantic_ai import exceptions
        from pydantic_ai.direct import model_request
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition

        parameters = ModelRequestParameters()
        if structured and brief.schema is not None:
            output = OutputObjectDefinition(json_schema=dict(brief.schema), name="answer", strict=True)
            parameters = ModelRequestParameters(output_mode="native", output_object=output)
        started = time.perf_counter()
        try:
            response = await model_request(
                self._client,
                self._messages(brief, earlier, structured),
                model_settings=model_settings,
                model_request_parameters=parameters,
            )
        except exceptions.ModelHTTPError as error:
            body = read_error_body(error.body, self._secrets)
            raise classify_error(
                error.status_code, body, self._target, structured=structured, retry_after=error.retry_after
            ) from None
        except exceptions.ContentFilterError as error:
            raise FilteredRequestError(self._redact(str(error))) from None
        except exceptions.UserError as error:
            raise SetupError(f"{self.name} cannot be asked: {self._redact(str(error))}.") from None
        except (exceptions.ModelAPIError, exceptions.UnexpectedModelBehavior) as error:
            raise RetryableError(f"{self.name} gave no answer: {self._redact(str(error))}.") from None
        return self._parse_answer(response, time.perf_counter() - started)

    def _messages(self, brief: Brief, earlier: Sequence[Turn], structured: bool) -> list[ModelMessage]:
        from pydantic_ai.messages import BinaryContent, ModelRequest, ModelResponse, TextPart, UserPromptPart

        system = system_message(brief, structured) or None
        content: list[str | BinaryContent] = []
        extra = {"detail": self.sizing.detail} if self.sizing.detail else None
        for part in brief.content:
            if isinstance(part, TextBlock):
                content.append(part.text)
                continue
            image = BinaryContent(part.image.data, media_type=part.image.media_type, vendor_metadata=extra)
            content += (part.label, image)
        messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(content)], instructions=system)]
        for answer, reply in turn_texts(earlier):
            messages.append(ModelResponse(parts=[TextPart(answer)]))
            messages.append(ModelRequest(parts=[UserPromptPart(reply)], instructions=system))
        return messages

    def _model_settings(self, params: Mapping[str, object]) -> ModelSettings:
        """Return pydantic-ai's settings; parameters that it does not know go into the request's body as they are."""
        from pydantic_ai.settings import ModelSettings

        fields = nest_parameters(params, PARAMETER_NAMES, provider=self.provider, reserved=RESERVED_PARAMETERS)
        prefixes = tuple({self.provider.split("-")[0] + "_", "openai_"})
        known = {
            name: value
            for name, value in fields.items()
            if name in ModelSettings.__annotations__ or name.startswith(prefixes)
        }
        rest = {name: value for name, value in fields.items() if name not in known}
        # Only we retry: the SDK's own retries would multiply with ours and be missing from `attempts`.
        own = ModelSettings(timeout=self.settings.timeout_s, max_retries=0)
        if rest:
            own["extra_body"] = rest
        return cast(ModelSettings, {**known, **own})

    def _parse_answer(self, response: ModelResponse, latency_s: float) -> Answer:
        from pydantic_ai.messages import TextPart

        details = response.provider_details or {}
        refusal = details.get("refusal")
        finish = {"length": Finish.LENGTH, "content_filter": Finish.FILTERED}.get(response.finish_reason or "")
        if response.finish_reason == "error":
            raise RetryableError(f"{self.name} reported an error instead of an answer.")
        usage = Usage()
        if not response.usage.unmeasured_requests:
            used = response.usage
            usage = Usage(used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens)
        return Answer(
            text=remove_api_keys(
                "".join(part.content for part in response.parts if isinstance(part, TextPart)), self._secrets
            ),
            finish=Finish.REFUSED if refusal else finish or Finish.COMPLETE,
            model=remove_api_keys(response.model_name, self._secrets) if response.model_name else None,
            usage=usage,
            cost_usd=self._cost(response, usage),
            latency_s=latency_s,
            detail=self._redact(str(refusal or details.get("block_reason") or "")),
        )

    def _cost(self, response: ModelResponse, usage: Usage) -> Decimal | None:
        if (given := self.settings.price) is not None:
            return answer_cost(self.provider, self.model, usage, given=given)
        if self.settings.base_url:
            return None
        try:
            return response.cost().total_price or None
        except (AssertionError, LookupError, ValueError):
            return None

    def _redact(self, message: str) -> str:
        return shorten(redact(message, self._secrets))


def _provider_arguments(provider: str, accepted: Mapping[str, object], settings: JudgeSettings) -> dict[str, object]:
    arguments: dict[str, object] = {}
    if settings.base_urls:
        raise SetupError(f"{provider} takes one base URL; several are for openai:, anthropic: and google:.")
    if settings.base_url:
        name = next((name for name in ("base_url", "api_base") if name in accepted), None)
        if name is None:
            raise SetupError(f"{provider} takes no base URL; for a compatible server use openai: with a base URL.")
        arguments[name] = normalize_base_url(settings.base_url)
    if settings.key_variable:
        if "api_key" not in accepted:
            raise SetupError(f"{provider} takes no key variable; it finds its credentials in the environment.")
        key = os.environ.get(settings.key_variable, "").strip()
        if not key:
            raise SetupError(f"{provider} needs a key and {settings.key_variable} is not set; set it first.")
        arguments["api_key"] = key
    return arguments


def _find_secrets(variable: str | None) -> tuple[str, ...]:
    """Return the values in the environment that may be keys, longest first, to keep them out of messages.

    Only the provider's SDK knows which one it uses: Cohere's is CO_API_KEY, Amazon's AWS_BEARER_TOKEN_BEDROCK.
    """
    values = {
        value.strip() for name, value in os.environ.items() if name == variable or _SECRET_VARIABLE.search(name.upper())
    }
    return tuple(sorted((value for value in values if len(value) >= MIN_KEY_CHARACTERS), key=len, reverse=True))


def _known_prefixes() -> list[str]:
    from pydantic_ai.models import KnownModelName

    prefixes = {name.partition(":")[0] for name in get_args(KnownModelName.__value__) if ":" in name}
    return sorted(
        {f"{name}:" for name in prefixes if "/" not in name}
        | {f"{entry.name}:" for entry in entry_points(group=ENTRY_POINT_GROUP)}
    )
