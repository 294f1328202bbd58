"""Every provider that pydantic-ai knows and that has no wire here: `mistral:`, `groq:`, `bedrock:`, `openrouter:` …

pydantic-ai and the provider's SDK are imported when such a judge is made, never before.
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

from beholder.errors import SetupError
from beholder.images.image import DEFAULT_SIZING, Sizing
from beholder.providers.base import (
    ENTRY_POINT_GROUP,
    JudgeSettings,
    apply_sample_seed,
    ask_with_schema_fallback,
    format_identity,
    normalize_base_url,
    split_image_params,
    system_message,
    turn_texts,
)
from beholder.providers.payload import MIN_KEY_CHARACTERS, nest_parameters, redact, remove_keys, shorten
from beholder.providers.prices import answer_cost
from beholder.providers.retry import CallTarget, FilteredRequestError, RetryableError, classify_error, read_error_body
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
    """A judge through pydantic-ai. Raises `SetupError` for an unknown prefix, a missing extra or a missing key."""
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
        named = re.search(r"pydantic-ai-slim\[([\w-]+)\]", str(error))
        extra = named[1] if named else provider
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
        # Its sentence also says how to do it in Python and advertises a test model; people here need the first part.
        said = re.sub(r" or pass (it|them) via `[^`]*`", "", str(error).split(" To try Pydantic AI")[0])
        raise SetupError(f"'{provider}:{model}' cannot be asked: {redact(said)}") from None


class PydanticAIJudge:
    """A model behind pydantic-ai, with the same answers, outcomes and retries as one behind a wire."""

    def __init__(self, provider: str, model: str, asked: Model, settings: JudgeSettings) -> None:
        self.provider, self.model, self._model, self._given = provider, model, asked, settings
        self.params, self._sizing = split_image_params(settings.params, DEFAULT_SIZING, IMAGE_DETAILS, provider)
        self._structured = bool(asked.profile.get("supports_json_schema_output", False))
        self._secrets = _find_secrets(settings.key_variable)
        self._open: AsyncExitStack | None = None
        url = settings.base_url or asked.base_url or provider
        variable = settings.key_variable or f"the environment of {provider}"
        self._target = CallTarget(self.name, model, url, variable, (variable,), tuple(self.params))
        self._settings(self.params)

    def __repr__(self) -> str:
        return f"OtherJudge({self.name!r})"

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}"

    @property
    def identity(self) -> str:
        return format_identity(self.name, self._given.base_url or "", self.params, self._sizing.detail)

    @property
    def sizing(self) -> Sizing:
        return self._sizing

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """As `ModelJudge.answer`."""
        if self._open is None:
            self._open = AsyncExitStack()
            await self._open.enter_async_context(self._model)
        patience = self._given.patience(brief)
        params = dict(apply_sample_seed(self.params, sample)) | (
            {"max_tokens": max_tokens} if max_tokens is not None else {}
        )

        async def ask(structured: bool) -> Answer:
            return await patience.persist(lambda: self._once(brief, earlier, self._settings(params), structured))

        answer, able = await ask_with_schema_fallback(ask, patience, brief, self._structured)
        self._structured = self._structured and able
        return answer

    async def aclose(self) -> None:
        if self._open is not None:
            await self._open.aclose()
            self._open = None

    async def _once(self, brief: Brief, earlier: Sequence[Turn], settings: ModelSettings, structured: bool) -> Answer:
        from pydantic_ai import exceptions
        from pydantic_ai.direct import model_request
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition

        parameters = ModelRequestParameters()
        if structured and brief.schema is not None:
            form = OutputObjectDefinition(json_schema=dict(brief.schema), name="answer", strict=True)
            parameters = ModelRequestParameters(output_mode="native", output_object=form)
        started = time.perf_counter()
        try:
            response = await model_request(
                self._model,
                self._messages(brief, earlier, structured),
                model_settings=settings,
                model_request_parameters=parameters,
            )
        except exceptions.ModelHTTPError as error:
            complaint = read_error_body(error.body, self._secrets)
            raise classify_error(
                error.status_code, complaint, self._target, structured=structured, after=error.retry_after
            ) from None
        except exceptions.ContentFilterError as error:
            raise FilteredRequestError(self._safe(str(error))) from None
        except exceptions.UserError as error:
            raise SetupError(f"{self.name} cannot be asked: {self._safe(str(error))}.") from None
        except (exceptions.ModelAPIError, exceptions.UnexpectedModelBehavior) as error:
            raise RetryableError(f"{self.name} gave no answer: {self._safe(str(error))}.") from None
        return self._answer(response, time.perf_counter() - started)

    def _messages(self, brief: Brief, earlier: Sequence[Turn], structured: bool) -> list[ModelMessage]:
        from pydantic_ai.messages import BinaryContent, ModelRequest, ModelResponse, TextPart, UserPromptPart

        system = system_message(brief, structured) or None
        content: list[str | BinaryContent] = []
        extra = {"detail": self._sizing.detail} if self._sizing.detail else None
        for part in brief.content:
            if isinstance(part, TextBlock):
                content.append(part.text)
                continue
            image = BinaryContent(part.image.data, media_type=part.image.media_type, vendor_metadata=extra)
            content += (part.label, image)
        messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(content)], instructions=system)]
        for said, reply in turn_texts(earlier):
            messages.append(ModelResponse(parts=[TextPart(said)]))
            messages.append(ModelRequest(parts=[UserPromptPart(reply)], instructions=system))
        return messages

    def _settings(self, params: Mapping[str, object]) -> ModelSettings:
        """Parameters that pydantic-ai names go to it; any other goes into the request's body as it is."""
        from pydantic_ai.settings import ModelSettings

        fields = nest_parameters(params, PARAMETER_NAMES, wire=self.provider, reserved=RESERVED_PARAMETERS)
        prefixes = tuple({self.provider.split("-")[0] + "_", "openai_"})
        known = {
            name: value
            for name, value in fields.items()
            if name in ModelSettings.__annotations__ or name.startswith(prefixes)
        }
        rest = {name: value for name, value in fields.items() if name not in known}
        # Retrying is done here, once: the SDK's own retries would multiply with ours and hide from `attempts`.
        own = ModelSettings(timeout=self._given.timeout_s, max_retries=0)
        if rest:
            own["extra_body"] = rest
        return cast(ModelSettings, {**known, **own})

    def _answer(self, response: ModelResponse, latency_s: float) -> Answer:
        from pydantic_ai.messages import TextPart

        details = response.provider_details or {}
        refusal = details.get("refusal")
        finish = {"length": Finish.LENGTH, "content_filter": Finish.FILTERED}.get(response.finish_reason or "")
        if response.finish_reason == "error":
            raise RetryableError(f"{self.name} reported an error instead of an answer.")
        usage = Usage()
        if not response.usage.unmeasured_requests:
            used = response.usage
            usage = Usage(used.input_tokens, used.output_tokens, used.cache_read_tokens)
        return Answer(
            text=remove_keys(
                "".join(part.content for part in response.parts if isinstance(part, TextPart)), self._secrets
            ),
            finish=Finish.REFUSED if refusal else finish or Finish.COMPLETE,
            model=remove_keys(response.model_name, self._secrets) if response.model_name else None,
            usage=usage,
            cost_usd=self._cost(response, usage),
            latency_s=latency_s,
            detail=self._safe(str(refusal or details.get("block_reason") or "")),
        )

    def _cost(self, response: ModelResponse, usage: Usage) -> Decimal | None:
        if (given := self._given.price) is not None:
            return answer_cost(
                self.provider, self.model, usage, cache_writes=response.usage.cache_write_tokens, given=given
            )
        return None if self._given.base_url else _response_cost(response)

    def _safe(self, message: str) -> str:
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
    """Values of the environment that may be keys, the longest first, so that no message shows them. Which of them is
    this provider's only its SDK knows: Cohere's is in CO_API_KEY, Amazon's in AWS_BEARER_TOKEN_BEDROCK."""
    values = {
        value.strip() for name, value in os.environ.items() if name == variable or _SECRET_VARIABLE.search(name.upper())
    }
    return tuple(sorted((value for value in values if len(value) >= MIN_KEY_CHARACTERS), key=len, reverse=True))


def _response_cost(response: ModelResponse) -> Decimal | None:
    try:
        return response.cost().total_price or None
    except (AssertionError, LookupError, ValueError):
        return None


def _known_prefixes() -> list[str]:
    from pydantic_ai.models import KnownModelName

    named = {name.partition(":")[0] for name in get_args(KnownModelName.__value__) if ":" in name}
    return sorted(
        {f"{name}:" for name in named if "/" not in name}
        | {f"{entry.name}:" for entry in entry_points(group=ENTRY_POINT_GROUP)}
    )
