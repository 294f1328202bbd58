"""What a server makes of its first requests: whether it can be asked at all, and whether it keeps to a schema.

Both are found out by the questions themselves, once for a judge, and hold for all its questions after that.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal

from beholder.errors import AnswerError, SetupError, Unreachable
from beholder.providers.retry import (
    FilteredRequestError,
    NoStructuredOutputError,
    PermanentError,
    Retrier,
)
from beholder.rubrics.brief import Brief
from beholder.verdicts.answer import Answer, Finish
from beholder.verdicts.parse import is_refusal, parse_bare_answer, parse_number

_log = logging.getLogger(__name__)

STRUCTURED_OUTPUT_UNAVAILABLE = "structured_output_unavailable"
IGNORED_BEFORE_OFF = 2  # answers of another form, before a server counts as one that ignores schemas
# How long other calls wait for the reply to the first. A wrong model, key or parameter is refused within a moment; a
# model that takes longer is thinking.
MAX_FIRST_CALL_S = 5.0


class FirstCall:
    """Lets the first call of a judge out alone, until a reply shows that the judge can be asked.

    Without it, a wrong model name would be sent as often as cases are judged at once.
    """

    def __init__(self) -> None:
        self._is_over = False
        self._under_way: asyncio.Future[None] | None = None

    @asynccontextmanager
    async def take_turn(self) -> AsyncIterator[None]:
        """Wait for the first call, if this is not it, and keep others waiting, if it is.

        Raises:
            SetupError: the first call ended in it, while this one waited.
        """
        loop = asyncio.get_running_loop()
        while not self._is_over and (first := self._under_way) is not None and first.get_loop() is loop:
            await asyncio.wait([first], timeout=MAX_FIRST_CALL_S)
            if first.done():
                first.result()
            else:
                self.end()
        if self._is_over:
            yield
            return
        first = self._under_way = loop.create_future()
        try:
            yield
            self._is_over = True
        except SetupError as error:
            if not first.done():
                first.set_exception(error)
                first.exception()  # nobody may be waiting
            raise
        except Exception:
            self._is_over = True
            raise
        finally:  # if it was canceled, another call is the first
            if not first.done():
                first.set_result(None)
            if self._under_way is first:
                self._under_way = None

    def end(self) -> None:
        """Let the others out: the first request failed in a way that may pass, and is repeated."""
        self._is_over = True
        first = self._under_way
        if first is not None and first.get_loop() is asyncio.get_running_loop() and not first.done():
            first.set_result(None)


class SchemaSupport:
    """Asks with structured output until the server says, or shows, that it has none; then with the schema in words.

    The answers of a server that enforces a schema have its form. If the first ones do not, the server takes the schema
    and ignores it, as `transformers serve` does; what it answered so `ignores_schema`, and may be asked again.

    Args:
        available: whether to begin with structured output.
    """

    def __init__(self, available: bool) -> None:
        self.available = available
        self._first_call = FirstCall()
        self._ignored: int | None = 0  # answers of another form; `None` once one kept to it

    async def ask(self, send: Callable[[bool], Awaitable[Answer]], brief: Brief, retrier: Retrier) -> Answer:
        """Send a question with retries, and once more without structured output if the server refuses that.

        Args:
            send: sends it once, with structured output or without.
            brief: the question.
            retrier: repeats it.

        Returns:
            The answer with its number of requests, and flagged where the schema could not be enforced.

        Raises:
            SetupError: the model can never answer.
            Unreachable: it could not answer this time.
        """
        retrier.on_failure = self._first_call.end
        async with self._first_call.take_turn():
            available = self.available
            while True:
                structured = available and brief.schema is not None
                try:
                    answer = await retrier.call(send, structured)
                    break
                except NoStructuredOutputError:
                    available = False
                except FilteredRequestError as error:
                    answer = Answer("", finish=Finish.FILTERED, detail=str(error))
                    break
                except PermanentError as error:
                    raise Unreachable(str(error), retrier.attempts) from None
            self.available = self.available and available
        if structured and brief.schema is not None:
            answer = replace(answer, ignores_schema=self._is_ignored(answer, brief.schema))
        return finish_answer(answer, retrier.attempts, brief, available)

    def _is_ignored(self, answer: Answer, schema: Mapping[str, object]) -> bool:
        """Return whether the server is known to ignore schemas, and ignored this one. The first answers decide that."""
        text = answer.text.strip()
        if self._ignored is None or answer.finish is not Finish.COMPLETE or not text or is_refusal(text):
            return False
        if fits_schema(text, schema, complete=False):
            self._ignored = None if self.available else self._ignored
            return False
        self._ignored += 1
        if self.available and self._ignored >= IGNORED_BEFORE_OFF:
            _log.warning("beholder: a server ignores the schema of an answer; it gets it in words from now on.")
            self.available = False
        return not self.available


def fits_schema(text: str, schema: Mapping[str, object], *, complete: bool = True) -> bool:
    """Return whether an answer is a JSON object with the types, keys and choices of a schema, and nothing around it.

    Thinking may stand before it: a server enforces a schema from its end on. Ranges and lengths are not looked at: not
    every server enforces them.

    Args:
        text: the answer.
        schema: the schema that was sent with the question.
        complete: whether every key that is required must be there.
    """
    try:
        return _fits(parse_bare_answer(text), schema, complete)
    except (AnswerError, json.JSONDecodeError):
        return False


def _fits(value: object, schema: Mapping[str, object], complete: bool) -> bool:
    kind, choices = schema.get("type"), schema.get("enum")
    if isinstance(choices, Sequence) and value not in choices:
        return False
    if kind == "object":
        parts, required = schema.get("properties"), schema.get("required")
        parts = parts if isinstance(parts, Mapping) else {}
        return (
            isinstance(value, Mapping)
            and (not complete or not isinstance(required, Sequence) or all(key in value for key in required))
            and (schema.get("additionalProperties") is not False or value.keys() <= parts.keys())
            and all(_fits(inner, parts[key], complete) for key, inner in value.items() if key in parts)
        )
    if kind == "array":
        items = schema.get("items")
        inner_schema = items if isinstance(items, Mapping) else {}
        return isinstance(value, list) and all(_fits(inner, inner_schema, complete) for inner in value)
    if kind in ("integer", "number"):
        number = parse_number(value) if isinstance(value, int | Decimal) else None  # not a costly one: 1e999999999
        return number is not None and (kind == "number" or number == int(number))
    plain = {"string": str, "boolean": bool}.get(str(kind))
    return plain is None or isinstance(value, plain)


def finish_answer(answer: Answer, attempts: int, brief: Brief, structured_output: bool) -> Answer:
    """Return the answer with its number of requests, and flagged where the schema could not be enforced."""
    unavailable = brief.schema is not None and not structured_output
    return replace(answer, attempts=attempts, flags=(STRUCTURED_OUTPUT_UNAVAILABLE,) if unavailable else ())
