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
from dataclasses import replace
from decimal import Decimal
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, cast, get_args

from beholder.errors import SetupError
from beholder.images.model import Sizing
from beholder.judges.model import GROUP, Options, answered, checked_url, seeded, split_params
from beholder.judges.protocol import Answer, Finish, Turn, Usage
from beholder.judges.wires import conversation, place, system_text
from beholder.judges.wires.faults import (
    Again,
    Asked,
    Blocked,
    complaint_of,
    meaning,
    redact,
    shorten,
)
from beholder.judges.wires.patience import Patience
from beholder.rubrics.brief import Brief, Text

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

DETAILS = ("auto", "low", "high", "original")
NAMES = {"reasoning_effort": "thinking"}
RESERVED = frozenset({"model", "messages", "timeout", "max_retries", "extra_headers"})


def other_judge(provider: str, model: str, options: Options) -> OtherJudge:
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
        raise SetupError(f"No judge is named '{provider}:'; known are {', '.join(_known())}.") from None
    except ImportError as error:
        named = re.search(r"pydantic-ai-slim\[([\w-]+)\]", str(error))
        extra = named[1] if named else provider
        raise SetupError(
            f"'{provider}:{model}' needs its provider's package; "
            f"run: pip install 'beholder[providers]' 'pydantic-ai-slim[{extra}]'"
        ) from None
    arguments = _arguments(provider, inspect.signature(provider_class.__init__).parameters, options)

    def make(_: str) -> Provider[Any]:
        return provider_class(**arguments)

    try:
        return OtherJudge(provider, model, infer_model(f"{provider}:{model}", make), options)
    except UserError as error:
        # Its sentence also says how to do it in Python and advertises a test model; people here need the first part.
        said = re.sub(r" or pass (it|them) via `[^`]*`", "", str(error).split(" To try Pydantic AI")[0])
        raise SetupError(f"'{provider}:{model}' cannot be asked: {redact(said)}") from None


class OtherJudge:
    """A model behind pydantic-ai, with the same answers, outcomes and retries as one behind a wire."""

    def __init__(self, provider: str, model: str, asked: Model, options: Options) -> None:
        self.provider, self.model, self._model, self._options = provider, model, asked, options
        self.params, self._sizing = split_params(options.params, Sizing(), DETAILS, provider)
        self._structured = bool(asked.profile.get("supports_json_schema_output", False))
        self._keys = _secrets(provider, options.key_variable)
        self._open: AsyncExitStack | None = None
        url = options.base_url or asked.base_url or provider
        variable = options.key_variable or f"the environment of {provider}"
        self._asked = Asked(self.name, model, url, variable, (variable,), tuple(self.params))
        self._settings(self.params)

    def __repr__(self) -> str:
        return f"OtherJudge({self.name!r})"

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}"

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
        patience = Patience(self._options.retries, self._options.sleep, self._options.random)
        params = dict(seeded(self.params, sample)) | ({"max_tokens": max_tokens} if max_tokens is not None else {})

        async def ask(structured: bool) -> Answer:
            return await patience.persist(lambda: self._once(brief, earlier, self._settings(params), structured))

        answer, able = await answered(ask, patience, brief, self._structured)
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
            complaint = complaint_of(error.body)
            complaint = replace(complaint, message=self._safe(complaint.message))
            raise meaning(
                error.status_code, complaint, self._asked, structured=structured, after=error.retry_after, key=None
            ) from None
        except exceptions.ContentFilterError as error:
            raise Blocked(self._safe(str(error))) from None
        except exceptions.UserError as error:
            raise SetupError(f"{self.name} cannot be asked: {self._safe(str(error))}.") from None
        except (exceptions.ModelAPIError, exceptions.UnexpectedModelBehavior) as error:
            raise Again(f"{self.name} gave no answer: {self._safe(str(error))}.") from None
        return self._answer(response, time.perf_counter() - started)

    def _messages(self, brief: Brief, earlier: Sequence[Turn], structured: bool) -> list[ModelMessage]:
        from pydantic_ai.messages import BinaryContent, ModelRequest, ModelResponse, TextPart, UserPromptPart

        system = system_text(brief, structured) or None
        content: list[str | BinaryContent] = []
        extra = {"detail": self._sizing.detail} if self._sizing.detail else None
        for part in brief.content:
            if isinstance(part, Text):
                content.append(part.text)
                continue
            image = BinaryContent(part.image.data, media_type=part.image.media_type, vendor_metadata=extra)
            content += (part.label, image)
        messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(content)], instructions=system)]
        for said, reply in conversation(earlier):
            messages.append(ModelResponse(parts=[TextPart(said)]))
            messages.append(ModelRequest(parts=[UserPromptPart(reply)], instructions=system))
        return messages

    def _settings(self, params: Mapping[str, object]) -> ModelSettings:
        """Parameters that pydantic-ai names go to it; any other goes into the request's body as it is."""
        from pydantic_ai.settings import ModelSettings

        fields = place(params, NAMES, wire=self.provider, reserved=RESERVED)
        prefixes = tuple({self.provider.split("-")[0] + "_", "openai_"})
        known = {
            name: value
            for name, value in fields.items()
            if name in ModelSettings.__annotations__ or name.startswith(prefixes)
        }
        rest = {name: value for name, value in fields.items() if name not in known}
        # Retrying is done here, once: the SDK's own retries would multiply with ours and hide from `attempts`.
        own = ModelSettings(timeout=self._options.timeout_s, max_retries=0)
        if rest:
            own["extra_body"] = rest
        return cast(ModelSettings, {**known, **own})

    def _answer(self, response: ModelResponse, latency_s: float) -> Answer:
        from pydantic_ai.messages import TextPart

        details = response.provider_details or {}
        refusal = details.get("refusal")
        finish = {"length": Finish.LENGTH, "content_filter": Finish.FILTERED}.get(response.finish_reason or "")
        if response.finish_reason == "error":
            raise Again(f"{self.name} reported an error instead of an answer.")
        measured = not response.usage.unmeasured_requests
        return Answer(
            text="".join(part.content for part in response.parts if isinstance(part, TextPart)),
            finish=Finish.REFUSED if refusal else finish or Finish.COMPLETE,
            model=response.model_name,
            usage=Usage(response.usage.input_tokens, response.usage.output_tokens, response.usage.cache_read_tokens)
            if measured
            else Usage(),
            cost_usd=None if self._options.base_url else _price(response),
            latency_s=latency_s,
            detail=self._safe(str(refusal or details.get("block_reason") or "")),
        )

    def _safe(self, message: str) -> str:
        for key in self._keys:
            message = redact(message, key)
        return shorten(redact(message))


def _arguments(provider: str, accepted: Mapping[str, object], options: Options) -> dict[str, object]:
    arguments: dict[str, object] = {}
    if options.base_url:
        name = next((name for name in ("base_url", "api_base") if name in accepted), None)
        if name is None:
            raise SetupError(f"{provider} takes no base URL; for a compatible server use openai: with a base URL.")
        arguments[name] = checked_url(options.base_url)
    if options.key_variable:
        if "api_key" not in accepted:
            raise SetupError(f"{provider} takes no key variable; it finds its credentials in the environment.")
        key = os.environ.get(options.key_variable, "").strip()
        if not key:
            raise SetupError(f"{provider} needs a key and {options.key_variable} is not set; set it first.")
        arguments["api_key"] = key
    return arguments


def _secrets(provider: str, variable: str | None) -> list[str]:
    """Values of the environment that may be this provider's keys, so that no message shows them."""
    prefix = provider.upper().replace("-", "_").split("_")[0]
    names = [
        name
        for name in os.environ
        if name == variable or (name.startswith((prefix, "AWS", "HF")) and name.endswith(("KEY", "TOKEN")))
    ]
    return sorted((os.environ[name] for name in names if len(os.environ[name]) >= 6), key=len, reverse=True)


def _price(response: ModelResponse) -> Decimal | None:
    try:
        return response.cost().total_price or None
    except (AssertionError, LookupError, ValueError):
        return None


def _known() -> list[str]:
    from pydantic_ai.models import KnownModelName

    named = {name.partition(":")[0] for name in get_args(KnownModelName.__value__) if ":" in name}
    return sorted(
        {f"{name}:" for name in named if "/" not in name} | {f"{entry.name}:" for entry in entry_points(group=GROUP)}
    )
