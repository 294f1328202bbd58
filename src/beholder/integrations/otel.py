"""OpenTelemetry: a span for each call of a model, and an event `gen_ai.evaluation.result` for each verdict.

Off until `instrument` is called, or `--otel` given. Only the API of OpenTelemetry is used, so the application's SDK
decides where spans and events go. Names are those of the semantic conventions for generative AI, which are still in
development, and are therefore written out here. Neither images nor prompts nor answers are recorded; the reasons that a
judge gave for its scores are.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from beholder.errors import AnswerError, ImageError, OverBudget, SetupError, Unreachable, Waiting
from beholder.integrations.shared import describe_criterion
from beholder.judges.base import INSTRUMENTS
from beholder.providers.base import JudgeCall, add_observer, current_case, remove_observer
from beholder.verdicts.answer import Answer, Finish
from beholder.verdicts.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from opentelemetry._logs import Logger, LoggerProvider
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

TRACE_GROUPS = ("traceparent", "tracestate")  # groups of a case that say which span made what is judged
EVENT = "gen_ai.evaluation.result"
MAX_EXPLANATION = 1000  # characters

_PROVIDERS = {"google": "gcp.gemini"}  # whose names in the conventions are not ours
_FINISH_REASONS = {
    Finish.COMPLETE: "stop",
    Finish.LENGTH: "length",
    Finish.REFUSED: "refusal",
    Finish.FILTERED: "content_filter",
}
_OUTCOMES: tuple[tuple[type[BaseException], Outcome], ...] = (
    (ImageError, Outcome.UNREADABLE),
    (OverBudget, Outcome.OVER_BUDGET),
    (AnswerError, Outcome.INVALID),
    (Unreachable, Outcome.UNREACHABLE),
    (TimeoutError, Outcome.UNREACHABLE),
)

_installed: TelemetryObserver | None = None
_installing = threading.Lock()


def instrument(
    *, tracer_provider: TracerProvider | None = None, logger_provider: LoggerProvider | None = None
) -> TelemetryObserver:
    """Record everything that is judged in this process from now on, until `uninstrument`.

    Args:
        tracer_provider: Where spans go; by default the global provider.
        logger_provider: Where events go; by default the global provider.

    Returns:
        The observer. Called again, it takes the place of the one before.

    Raises:
        SetupError: OpenTelemetry is not installed.
    """
    global _installed
    try:
        from opentelemetry import _logs, trace
    except ImportError:
        raise SetupError("OpenTelemetry is not installed: pip install 'beholder[otel]'.") from None
    from beholder import __version__

    tracer = trace.get_tracer("beholder", __version__, tracer_provider)
    logger = _logs.get_logger("beholder", __version__, logger_provider)
    observer = TelemetryObserver(tracer, logger)
    uninstrument()
    with _installing:
        _installed = observer
        add_observer(observer)
    return observer


def uninstrument() -> None:
    """Record nothing more. Does nothing where nothing is recorded."""
    global _installed
    with _installing:
        if _installed is not None:
            remove_observer(_installed)
            _installed = None


def configure() -> None:
    """Send spans and events by OTLP, as the environment variables `OTEL_…` say, until the process ends.

    What `--otel` does. Where the program has configured OpenTelemetry already (`opentelemetry-instrument`), that is
    used.

    Raises:
        SetupError: The SDK or its OTLP exporter is not installed, or OTEL_EXPORTER_OTLP_PROTOCOL is one that Beholder
            does not know.
    """
    try:
        from opentelemetry import _logs, trace
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
        if protocol == "http/protobuf":
            from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        elif protocol == "grpc":
            from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        else:
            raise SetupError(f"OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf or grpc, and {protocol!r} is neither.")
    except ImportError as error:
        raise SetupError(
            f"Telemetry is sent by the SDK of OpenTelemetry, and {error.name} is not installed: "
            "pip install opentelemetry-sdk opentelemetry-exporter-otlp"
        ) from None
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come before what is said here.
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "beholder"}
        resource = Resource.create(named)
        spans = TracerProvider(resource=resource)
        spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(spans)  # the providers send what is left when the process ends
        events = LoggerProvider(resource=resource)
        events.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
        _logs.set_logger_provider(events)
    instrument()


class TelemetryObserver:
    """A `CallObserver` that records spans and events. It is made by `instrument`."""

    def __init__(self, tracer: Tracer, logger: Logger) -> None:
        self._tracer, self._logger = tracer, logger
        self._spans: dict[JudgeCall, Span] = {}  # of the calls under way

    def on_call_start(self, call: JudgeCall) -> None:
        """Begin the span of a call. What instruments measure is no call of a model and has none."""
        from opentelemetry import trace

        if call.judge == INSTRUMENTS:
            return
        provider, _, model = call.judge.partition(":")
        model = model or call.judge  # a judge of one's own may have any name
        attributes: dict[str, str | int] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
            "gen_ai.request.model": model,
            "beholder.judge": call.judge,
            "beholder.rubric": call.rubric,
            "beholder.sample": call.sample,
            "beholder.turn": call.turn,
            "beholder.brief.digest": call.brief_digest,
            **_describe_case(call.case),
        }
        has_parent = trace.get_current_span().get_span_context().is_valid
        parent = None if has_parent else _find_parent()
        span = self._tracer.start_span(f"chat {model}", parent, trace.SpanKind.CLIENT, attributes)
        self._spans[call] = span

    def on_call_end(self, call: JudgeCall, answer: Answer | None, error: BaseException | None) -> None:
        """End the span of a call."""
        from opentelemetry.trace import Status, StatusCode

        span = self._spans.pop(call, None)
        if span is None:
            return
        if answer is not None:
            span.set_attributes(dict(_describe_answer(answer)))
        elif error is not None and not isinstance(error, Waiting):
            kinds = (str(outcome) for kind, outcome in _OUTCOMES if isinstance(error, kind))
            span.set_attribute("error.type", next(kinds, type(error).__qualname__))
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def on_verdict(self, verdict: Verdict) -> None:
        """Emit the events of a verdict: one for the whole, and where it has a score one for each criterion."""
        common: dict[str, str | float] = {
            "beholder.judge": verdict.judge,
            "beholder.rubric.version": verdict.rubric_version,
            **_describe_case(verdict.case),
        }
        if verdict.brief_digest:
            common["beholder.brief.digest"] = verdict.brief_digest
        if verdict.score is None:
            failed = _describe_result(verdict.rubric, None, "", verdict.detail)
            self._emit({**common, **failed, "error.type": str(verdict.outcome)})
            return
        label = verdict.grade or ""
        if verdict.passed is not None:
            label = "pass" if verdict.passed else "fail"
        elif verdict.preference is not None:
            label = verdict.preference.winner or ""
        self._emit({**common, **_describe_result(verdict.rubric, verdict.score, label, verdict.assessment)})
        for key, one in verdict.criteria.items():
            if one.score is not None:
                self._emit(
                    {**common, **_describe_result(f"{verdict.rubric}.{key}", one.score, "", describe_criterion(one))}
                )

    def _emit(self, attributes: Mapping[str, str | float]) -> None:
        from opentelemetry._logs import LogRecord, SeverityNumber

        self._logger.emit(
            LogRecord(
                timestamp=time.time_ns(),
                context=_find_parent(),
                severity_number=SeverityNumber.INFO,
                event_name=EVENT,
                attributes=attributes,
            )
        )


def _describe_result(name: str, score: float | None, label: str, explanation: str) -> dict[str, str | float]:
    found: dict[str, str | float] = {"gen_ai.evaluation.name": name}
    if score is not None:
        found["gen_ai.evaluation.score.value"] = float(score)
    if label:
        found["gen_ai.evaluation.score.label"] = label
    if explanation:
        found["gen_ai.evaluation.explanation"] = explanation[:MAX_EXPLANATION]
    return found


def _describe_answer(answer: Answer) -> Iterator[tuple[str, str | int | tuple[str, ...]]]:
    yield "gen_ai.response.finish_reasons", (_FINISH_REASONS[answer.finish],)
    if answer.model:
        yield "gen_ai.response.model", answer.model
    counts = {
        "input_tokens": answer.usage.input_tokens,
        "output_tokens": answer.usage.output_tokens,
        "cache_read.input_tokens": answer.usage.cached_tokens,
    }
    for name, count in counts.items():
        if count is not None:
            yield f"gen_ai.usage.{name}", count


def _describe_case(case_id: str) -> dict[str, str]:
    context = current_case()
    return {"beholder.case": case_id, **({"beholder.run": context.run} if context is not None and context.run else {})}


def _find_parent() -> Context | None:
    """Return the context that the case under way names as its origin (`traceparent`); `None` for the current one."""
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = current_case()
    if context is None:
        return None
    groups = context.case.groups
    carrier = {name: groups[name] for name in TRACE_GROUPS if name in groups}
    found = TraceContextTextMapPropagator().extract(carrier)
    return found if get_current_span(found).get_span_context().is_remote else None
