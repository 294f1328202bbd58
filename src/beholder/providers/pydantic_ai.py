"""Judges through pydantic-ai, for providers without a module here (`mistral:`, `groq:`, `bedrock:` …).

pydantic-ai and the provider's SDK are imported when such a judge is made, not before.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from contextvars import ContextVar
from decimal import Decimal
from difflib import get_close_matches
from functools import partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, cast, get_args

from beholder.errors import SetupError
from beholder.images.image import DEFAULT_SIZING
from beholder.providers import base, endpoint, retry
from beholder.providers.http import close_with_loop
from beholder.providers.payload import (
    as_count,
    nest_parameters,
    redact,
    remove_api_keys,
    shorten,
)
from beholder.providers.prices import answer_cost
from beholder.providers.schema_support import SchemaSupport
from beholder.rubrics.brief import Brief, TextBlock
from beholder.verdicts.answer import Answer, Finish, Turn, Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings


_log = logging.getLogger(__name__)

IMAGE_DETAILS = ("auto", "low", "high", "original")
PARAMETER_NAMES = {"reasoning_effort": "thinking"}
RESERVED_PARAMETERS = frozenset({"model", "messages", "timeout", "max_retries", "extra_headers"})


def check_prefix(provider: str, model: str) -> None:
    """Raise `SetupError` for a prefix that neither a plug-in nor pydantic-ai has.

    Where pydantic-ai is not installed, only for one that is nearly that of a plug-in.
    """
    known, hint = _own_providers(), ""
    try:
        from pydantic_ai.providers import infer_provider_class
    except ImportError:
        pass
    else:
        try:
            infer_provider_class(provider)
            return
        except ImportError:  # the package of a provider that it knows is missing
            return
        except ValueError:
            known = _known_prefixes()
            hint = f"known are {', '.join(f'{name}:' for name in known)}."
    if meant := get_close_matches(provider, known, n=1):
        hint = f"did you mean '{meant[0]}:{model}'?"
    if hint:
        raise SetupError(f"No judge is named '{provider}:'; {hint}")


def make_pydantic_ai_judge(provider: str, model: str, settings: base.JudgeSettings) -> PydanticAIJudge:
    """Make a judge through pydantic-ai; raise `SetupError` for an unknown prefix, a missing extra or a missing key."""
    check_prefix(provider, model)
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
    except ImportError as error:
        match = re.search(r"pydantic-ai-slim\[([\w-]+)\]", str(error))
        extra = match[1] if match else provider
        raise SetupError(
            f"'{provider}:{model}' needs its provider's package; "
            f"run: pip install 'beholder[providers]' 'pydantic-ai-slim[{extra}]'"
        ) from None
    arguments = _provider_arguments(provider, inspect.signature(provider_class.__init__).parameters, settings)

    def make(_: str) -> Provider[Any]:
        made = provider_class(**arguments)
        _adapt_client(provider, made.client)
        return made

    try:
        return PydanticAIJudge(provider, model, lambda: infer_model(f"{provider}:{model}", make), settings)
    except UserError as error:
        # Its message also says how to do it in Python and advertises a test model; users here need the first part.
        reason = re.sub(r" or pass (it|them) via `[^`]*`", "", str(error).split(" To try Pydantic AI")[0])
        raise SetupError(f"'{provider}:{model}' cannot be asked: {redact(reason)}") from None


class PydanticAIJudge:
    """A model behind pydantic-ai, with the same answers, outcomes and retries as `ModelJudge`.

    Args:
        provider: as pydantic-ai names it.
        model: the model's name.
        make_client: returns a client with connections of its own; each event loop gets one.
        settings: what the user set.
    """

    def __init__(
        self, provider: str, model: str, make_client: Callable[[], Model], settings: base.JudgeSettings
    ) -> None:
        self.provider, self.model, self.settings = provider, model, settings
        self._make_client = make_client
        client = make_client()
        self.params, self.sizing = base.split_image_params(settings.params, DEFAULT_SIZING, IMAGE_DETAILS, provider)
        self._is_native = bool(client.profile.get("supports_json_schema_output", False))
        self._unsupported: Collection[str] = getattr(client, "unsupported_settings", ())
        has_schemas = self._is_native or provider == "mistral"
        self.schema_support = SchemaSupport(has_schemas and settings.structured_output == "auto")
        self._secrets = endpoint.find_secrets(settings.key_variable)
        self._connections: dict[asyncio.AbstractEventLoop, tuple[Model, AsyncExitStack]] = {}
        close_with_loop(self)
        weakref.finalize(self, _close_abandoned, self._connections).atexit = False
        url = settings.base_url or client.base_url or provider
        variable = settings.key_variable or f"the environment of {provider}"
        self._target = retry.CallTarget(self.name, model, url, variable, (variable,), tuple(self.params))
        self._model_settings(self.params)  # parameters that cannot be sent are reported now

    def __repr__(self) -> str:
        return f"PydanticAIJudge({self.name!r})"

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}"

    @property
    def identity(self) -> str:
        return base.format_identity(self.name, self.settings.base_url or "", self.params, self.sizing.detail)

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """Ask the model, with retries, as `ModelJudge.answer`."""
        client = await self._connect()
        params = dict(base.apply_sample_seed(self.params, sample))
        if max_tokens is not None:
            params["max_tokens"] = max_tokens
        model_settings = self._model_settings(params)
        send = partial(self._send_once, client, brief, earlier, model_settings)
        return await self.schema_support.ask(send, brief, self.settings.retrier(brief))

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        if connection := self._connections.pop(asyncio.get_running_loop(), None):
            await connection[1].aclose()

    async def _connect(self) -> Model:
        """Return the client of the running event loop."""
        loop = asyncio.get_running_loop()
        if (connection := self._connections.get(loop)) is None:
            for closed in [one for one in list(self._connections) if one.is_closed()]:
                self._connections.pop(closed, None)  # by another thread, perhaps
            client, stack = self._make_client(), AsyncExitStack()
            await stack.enter_async_context(client)
            connection = self._connections.setdefault(loop, (client, stack))
            if connection[1] is not stack:  # another task was faster
                await stack.aclose()
        return connection[0]

    async def _send_once(
        self, client: Model, brief: Brief, earlier: Sequence[Turn], model_settings: ModelSettings, structured: bool
    ) -> Answer:
        from pydantic_ai import exceptions
        from pydantic_ai.direct import model_request
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.output import OutputObjectDefinition

        parameters = ModelRequestParameters()
        schema = brief.schema if structured else None
        if schema is not None and self._is_native:
            output = OutputObjectDefinition(json_schema=dict(schema), name="answer", strict=True)
            parameters = ModelRequestParameters(output_mode="native", output_object=output)
        messages = self._messages(brief, earlier, structured)
        _mistral_schema.set(schema)
        started = time.perf_counter()
        try:
            response = await model_request(
                client, messages, model_settings=model_settings, model_request_parameters=parameters
            )
        except exceptions.ModelHTTPError as error:
            body = retry.read_error_body(error.body, self._secrets)
            raise retry.classify_error(
                error.status_code, body, self._target, structured=structured, retry_after=error.retry_after
            ) from None
        except exceptions.ContentFilterError as error:
            raise retry.FilteredRequestError(self._redact(str(error))) from None
        except exceptions.UserError as error:
            raise SetupError(f"{self.name} cannot be asked: {self._redact(str(error))}.") from None
        except (exceptions.ModelAPIError, exceptions.UnexpectedModelBehavior) as error:
            raise retry.RetryableError(f"{self.name} gave no answer: {self._redact(str(error))}.") from None
        except Exception as error:  # whatever an SDK raises about a reply that is not of its form
            _log.debug("%s: %s", self.name, type(error).__name__, exc_info=True)
            what = self._redact(f"{type(error).__name__}: {error}")
            raise retry.RetryableError(f"{self.name} sent a reply that is not of its form ({what}).") from None
        answer = self._parse_answer(response, time.perf_counter() - started)
        request_id = self._redact(response.provider_response_id or "")
        base.log_request(self.name, brief, 200, answer.latency_s, request_id, answer)
        return answer

    def _messages(self, brief: Brief, earlier: Sequence[Turn], structured: bool) -> list[ModelMessage]:
        from pydantic_ai.messages import BinaryContent, ModelRequest, ModelResponse, TextPart, UserPromptPart

        system = base.system_message(brief, structured) or None
        content: list[str | BinaryContent] = []
        extra = {"detail": self.sizing.detail} if self.sizing.detail else None
        for part in brief.content:
            if isinstance(part, TextBlock):
                content.append(part.text)
                continue
            image = BinaryContent(part.image.data, media_type=part.image.media_type, vendor_metadata=extra)
            content += (part.label, image)
        messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(content)], instructions=system)]
        for answer, reply in base.turn_texts(earlier):
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
        # pydantic-ai warns of each setting that an SDK does not know; those of Amazon's are set in `_adapt_client`.
        ours = {name: value for name, value in own.items() if name not in self._unsupported}
        return cast(ModelSettings, {**known, **ours})

    def _parse_answer(self, response: ModelResponse, latency_s: float) -> Answer:
        from pydantic_ai.messages import TextPart

        details = response.provider_details or {}
        refusal = details.get("refusal")
        finish = {"length": Finish.LENGTH, "content_filter": Finish.FILTERED}.get(response.finish_reason or "")
        if response.finish_reason == "error":
            raise retry.RetryableError(f"{self.name} reported an error instead of an answer.")
        usage = Usage()
        if not response.usage.unmeasured_requests:
            used = response.usage
            counts = (as_count(used.input_tokens), as_count(used.output_tokens), as_count(used.cache_read_tokens))
            usage = Usage(*counts, as_count(used.cache_write_tokens) or 0)
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


# pydantic-ai (2.66) sends Mistral no schema, although its API takes one: it is added to the call of Mistral's SDK.
_mistral_schema: ContextVar[Mapping[str, object] | None] = ContextVar("_mistral_schema", default=None)


def _adapt_client(provider: str, client: Any) -> None:
    """Set up an SDK's client in ways that pydantic-ai has no setting for."""
    if provider == "bedrock":  # only we retry, and boto3 knows no `max_retries` of a request
        service = client.meta.service_model.service_id.hyphenize()
        client.meta.events.unregister(f"needs-retry.{service}", unique_id=f"retry-config-{service}")
    elif provider == "mistral":
        complete = client.chat.complete_async

        async def complete_with_schema(**given: Any) -> Any:
            if (schema := _mistral_schema.get()) is not None:
                answer = {"name": "answer", "schema_definition": dict(schema), "strict": True}
                given["response_format"] = {"type": "json_schema", "json_schema": answer}
            return await complete(**given)

        client.chat.complete_async = complete_with_schema


def _close_abandoned(connections: dict[asyncio.AbstractEventLoop, tuple[Model, AsyncExitStack]]) -> None:
    """Close the connections of a judge that is gone, on the event loops that still run."""
    for loop, (_, stack) in list(connections.items()):
        if loop.is_running():
            asyncio.run_coroutine_threadsafe(stack.aclose(), loop)


def _provider_arguments(
    provider: str, accepted: Mapping[str, object], settings: base.JudgeSettings
) -> dict[str, object]:
    arguments: dict[str, object] = {}
    if "aws_read_timeout" in accepted:
        arguments |= {"aws_read_timeout": settings.timeout_s, "aws_connect_timeout": settings.connect_timeout_s}
    if settings.base_urls:
        raise SetupError(f"{provider} takes one base URL; several are for openai:, anthropic: and google:.")
    if settings.base_url:
        name = next((name for name in ("base_url", "api_base") if name in accepted), None)
        if name is None:
            raise SetupError(f"{provider} takes no base URL; for a compatible server use openai: with a base URL.")
        arguments[name] = endpoint.normalize_base_url(settings.base_url)
        # Only the provider's SDK knows whether it sends a key.
        endpoint.check_key_transport(provider, settings.base_url, settings)
    if settings.key_variable:
        if "api_key" not in accepted:
            raise SetupError(f"{provider} takes no key variable; it finds its credentials in the environment.")
        key = os.environ.get(settings.key_variable, "").strip()
        if not key:
            raise SetupError(f"{provider} needs a key and {settings.key_variable} is not set; set it first.")
        arguments["api_key"] = key
    elif not settings.send_provider_key:
        if "api_key" not in accepted:
            raise SetupError(
                f"{provider} finds its credentials in the environment, and {settings.base_url} stands in a suite file; "
                "trust the file (--trust-suite or trust_suite=True), or name the base URL yourself."
            )
        arguments["api_key"] = endpoint.PLACEHOLDER_KEY
    return arguments


def _own_providers() -> list[str]:
    return [entry.name for entry in entry_points(group=base.ENTRY_POINT_GROUP)]


def _known_prefixes() -> list[str]:
    from pydantic_ai.models import KnownModelName

    prefixes = {name.partition(":")[0] for name in get_args(KnownModelName.__value__) if ":" in name}
    return sorted({name for name in prefixes if "/" not in name} | {*_own_providers()})
