"""`Conversation`: asks one judge about one brief until there is a verdict.

Each kind of bad answer has its own remedy:

    cut off at the token limit   asked again with a higher limit, twice
    empty                        asked again, twice
    not of the rubric's form     one repair turn in the same conversation, images included, the errors named
    the server ignores schemas   asked again, once; it gets the schema in words then
    without reasons or evidence  the same repair turn; if that brings no better answer, this one counts, and is flagged
    refused, filtered            an outcome, not retried

Nothing that was paid for is lost: tokens, cost and requests of every turn are summed into the verdict.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from traceback import format_exception

from beholder.cases.case import number_repeats
from beholder.errors import AnswerError, BeholderError, ImageError, OverBudget, SetupError, Unreachable, Waiting
from beholder.judges.base import MEASURED_NOT_SEEN, Judge, ReserveCall, capabilities_of, reserve_nothing
from beholder.providers.base import JudgeCall, notify_observers
from beholder.providers.payload import redact
from beholder.rubrics.brief import Brief
from beholder.rubrics.prompt import clean_text
from beholder.verdicts.answer import Answer, Finish, Transcript, TranscriptTurn, Turn
from beholder.verdicts.observe import AnswerContext, Observations
from beholder.verdicts.parse import is_refusal
from beholder.verdicts.score import VerdictHeader, make_scored_verdict, read_answer
from beholder.verdicts.verdict import Flag, Outcome, SentImage, Verdict, sum_if_known

_log = logging.getLogger(__name__)

MAX_LENGTH_RETRIES = 2
MAX_EMPTY_RETRIES = 2
MAX_QUOTED_CHARACTERS = 20_000  # characters of a broken answer that go into the repair turn

_FLAG_REASONS = {MEASURED_NOT_SEEN: "measured, not seen: by instruments, which know nothing of what an image shows"}


@dataclass(slots=True)
class Conversation:
    """The exchange with one judge about one brief, from the first question to the verdict.

    After `run`, either `verdict` is there or `is_waiting` is true. `observed` are the observations behind an answered
    verdict, which a jury combines. `flags` are those of the verdict's flags that say how the answer came about, which
    its text alone does not tell.

    Attributes:
        judge: Who is asked.
        brief: What is asked.
        header: Case, rubric and judge of the verdict.
        sample: The number of the sample, from 0.
        reserve: Reserves what each call may cost before it is made.
    """

    judge: Judge
    brief: Brief
    header: VerdictHeader
    sample: int = 0
    reserve: ReserveCall = reserve_nothing
    turns: tuple[Turn, ...] = ()
    max_tokens: int | None = None
    attempts: int = 0
    was_asked: bool = False
    is_waiting: bool = False
    observed: Observations | None = None
    flags: tuple[Flag, ...] = ()
    _answers: list[Answer] = field(default_factory=list)
    _questions: list[str] = field(default_factory=list)  # one for each answer; empty where the brief alone was asked
    _repair: str = ""  # what the judge is told next
    _length_retries: int = 0
    _empty_retries: int = 0
    _retried_in_words: bool = False
    _fallback: tuple[Answer, Observations] | None = None  # lacks only reasons or evidence; counts if its repair fails
    _verdict: Verdict | None = None

    @property
    def part(self) -> str:
        """Which of several briefs about the case it is about."""
        return self.brief.part

    @property
    def is_open(self) -> bool:
        """Whether there is no verdict yet."""
        return self._verdict is None

    @property
    def has_answers(self) -> bool:
        """Whether the judge was asked and has answered, with whatever."""
        return bool(self._answers)

    @property
    def verdict(self) -> Verdict:
        assert self._verdict is not None, "the conversation has no verdict yet"
        return self._verdict

    @property
    def transcript(self) -> Transcript:
        """All turns so far, and the question that got no answer if the conversation ended with one."""
        answered = zip(self._questions, self._answers, strict=True)
        turns = [TranscriptTurn(question, answer.text, str(answer.finish)) for question, answer in answered]
        if self._repair:
            turns.append(TranscriptTurn(self._repair, "", ""))
        return Transcript(self.judge.name, self.sample, tuple(turns), self.part)

    async def run(self, timeout_s: float | None = None) -> None:
        """Ask the judge until there is a verdict, within `timeout_s` over all turns.

        Raises:
            SetupError: The judge can never answer; or what `reserve` raises. There is a verdict of earlier turns then,
                `unreachable` as a rule. Every other failure is an outcome.
        """
        self.was_asked = True
        try:
            async with asyncio.timeout(timeout_s):
                while self.is_open:
                    async with self.reserve(self.brief, self.turns, self.max_tokens) as call:
                        with self._observed_call() as answers:
                            reply: object = self.judge.answer(
                                self.brief, sample=self.sample, earlier=self.turns, max_tokens=call.max_tokens
                            )
                            if not isawaitable(reply):
                                name = self.judge.name
                                raise SetupError(
                                    f"The judge {name!r} cannot be asked: its `answer` is to be an `async def`."
                                )
                            answer = self._check_answer(await reply)
                            answers.append(answer)
                        call.cost_usd = answer.cost_usd
                    self.take_answer(answer)
        except Waiting:
            self.is_waiting = True
            return
        except TimeoutError:
            self.close(Outcome.UNREACHABLE, f"no verdict within {timeout_s:g} s")
        except Unreachable as error:
            self.attempts += error.attempts
            self.close(Outcome.UNREACHABLE, str(error))
        except ImageError as error:
            self.close(Outcome.UNREADABLE, str(error))
        except OverBudget as error:
            self.close(Outcome.OVER_BUDGET, str(error))
        except AnswerError as error:  # raised by a judge that looks at its answers itself
            self.close(Outcome.INVALID, str(error))
        except Exception as error:  # a `SetupError`, or of the ledger, which `reserve` asks
            self.close(Outcome.UNREACHABLE, str(error))
            self._add_call_details(self._settle())
            if isinstance(error, SetupError) and self.verdict.answered:  # before the repair
                return
            raise
        self._add_call_details(self._settle())

    @contextmanager
    def _observed_call(self) -> Iterator[list[Answer]]:
        """Notify the observers of one call of the judge; its answer goes into the list.

        Raises:
            Unreachable: The judge raised an exception that is not Beholder's, `SystemExit` among them.
        """
        header = self.header
        call = JudgeCall(
            self.judge.name, header.case, header.rubric.name, self.sample, len(self._answers), self.brief.digest
        )
        notify_observers(lambda observer: observer.on_call_start(call))
        answers: list[Answer] = []
        failure: BaseException | None = None
        try:
            yield answers
        except BaseException as error:
            failure = error
            if isinstance(error, BeholderError) or _ends_the_caller(error):
                raise
            # Without its traceback, which may show a key: a client's exception often quotes its URL or headers.
            _log.warning("the judge %s raised %s", self.judge.name, type(error).__name__)
            _log.debug("%s", redact("".join(format_exception(error))))
            reason = redact(clean_text(str(error)))[:500]
            raise Unreachable(f"the judge raised {type(error).__name__}: {reason}") from error
        finally:
            notify_observers(lambda observer: observer.on_call_end(call, answers[0] if answers else None, failure))

    def _check_answer(self, answer: object) -> Answer:
        """Return what the judge answered; raise `SetupError` where that is no answer: an error in its code."""
        if not isinstance(answer, Answer) or not isinstance(answer.text, str):
            given = type(answer.text if isinstance(answer, Answer) else answer).__name__
            raise SetupError(
                f"The judge {self.judge.name!r} returned a value of type {given}; its `answer` is to return an Answer "
                "with a text."
            )
        return answer

    def take_answer(self, answer: Answer) -> None:
        """Close the conversation with the verdict that an answer amounts to, or set what to ask next."""
        self._answers.append(answer)
        self._questions.append(self._repair)
        self._repair = ""
        self.attempts += answer.attempts
        if answer.finish is Finish.REFUSED or (answer.finish is Finish.COMPLETE and is_refusal(answer.text)):
            self.close(Outcome.REFUSED, answer.detail or answer.text)
        elif answer.finish is Finish.FILTERED:
            self.close(Outcome.FILTERED, answer.detail or "the provider's content filter stopped the answer")
        elif answer.finish is Finish.LENGTH:
            self._retry_longer(answer)
        elif not answer.text.strip():
            self._retry_empty()
        else:
            self._parse(answer)

    def close(self, outcome: Outcome, detail: str) -> None:
        """End without a score."""
        self._verdict = self.header.make_verdict(outcome, detail)

    def restore(self, verdict: Verdict, observed: Observations, flags: tuple[Flag, ...]) -> None:
        """End with the verdict of an answer that was given before; the judge is not asked."""
        self._verdict, self.observed, self.flags = verdict, observed, flags

    def _settle(self) -> Answer | None:
        """Return the answer that the verdict is about: the last, unless only the one before its repair is valid."""
        if self._fallback is None or self.verdict.answered:
            return self._answers[-1] if self._answers else None
        answer, self.observed = self._fallback
        self._verdict = make_scored_verdict(self.header, self.observed)
        return answer

    def _add_call_details(self, answer: Answer | None) -> None:
        """Add to the verdict the answer that it is about, and what all turns together used and cost."""
        self.flags = (*self.flags, *_answer_flags(self._answers))
        self._verdict = replace(
            self.verdict,
            flags=(*self.flags, *_brief_flags(self.brief), *self.verdict.flags),
            images=_sent_images(self.brief),
            brief_digest=self.brief.digest,
            model=answer.model if answer else None,
            usage=_sum_usage(self._answers),
            cost_usd=sum_if_known([answer.cost_usd for answer in self._answers]),
            latency_s=round(sum(answer.latency_s for answer in self._answers), 3) if self._answers else None,
            attempts=self.attempts,
            finish=answer.finish.value if answer else None,
            answer=answer.text if answer else "",
        )

    def _retry_longer(self, answer: Answer) -> None:
        if self._length_retries == MAX_LENGTH_RETRIES or self._fallback:
            times = self._length_retries + 1
            self.close(Outcome.TRUNCATED, f"cut off at the token limit {times} times, each time with more room")
            return
        self._length_retries += 1
        used = answer.usage.output_tokens or 0
        self.max_tokens = 2 * max(self.max_tokens or 0, used, self.brief.answer_tokens)
        self.flags += (Flag("cut_off", why=f"asked again with room for {self.max_tokens} tokens"),)

    def _retry_empty(self) -> None:
        if self._empty_retries == MAX_EMPTY_RETRIES or self._fallback:
            self.close(Outcome.INVALID, f"the answer was empty {self._empty_retries + 1} times")
            return
        self._empty_retries += 1
        self.flags += (Flag("empty_answer", why="asked again"),)

    def _parse(self, answer: Answer) -> None:
        """Score an answer, or ask for its repair if none was asked for yet."""
        try:
            self.observed = self._observe(answer, needs_texts=not self.turns and self._asks_for_texts)
            self._verdict = make_scored_verdict(self.header, self.observed)
        except AnswerError as error:
            if not self.turns:
                with suppress(AnswerError):
                    self._fallback = answer, self._observe(answer)
            if answer.ignores_schema and not self._retried_in_words:
                self._retried_in_words = True
                self.flags += (Flag("schema_ignored", why="asked again with the schema in words"),)
                return
            if self.turns:
                tried = "the schema in words and one repair" if self._retried_in_words else "one repair"
                self.close(Outcome.INVALID, f"still wrong after {tried}: {error}")
                return
            self._repair = _repair_message(error)
            self.turns = (Turn(answer.text[:MAX_QUOTED_CHARACTERS], self._repair),)
            self.flags += (Flag("repair_asked", why=f"asked to mend: {error}"),)

    @property
    def _asks_for_texts(self) -> bool:
        """Whether reasons and evidence were asked for: a user's own prompt need not, and measurements have none."""
        return self.brief.schema is not None and not capabilities_of(self.judge).abstains

    def _observe(self, answer: Answer, *, needs_texts: bool = False) -> Observations:
        return read_answer(
            self.header.rubric,
            answer.text,
            replace(make_answer_context(self.judge, self.brief), needs_texts=needs_texts),
        )


def make_answer_context(judge: Judge, brief: Brief) -> AnswerContext:
    """Return what a reader of a judge's answer to a brief must know."""
    return AnswerContext(label=brief.label, may_abstain=capabilities_of(judge).abstains, any_form=brief.schema is None)


def _ends_the_caller(error: BaseException) -> bool:
    """Return whether what came out of a judge is meant for who asked it: a task that was canceled, or Ctrl-C.

    Everything else is the judge's own, even `sys.exit()`: in a task it would end the event loop, and all calls with it.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()  # no other thread gets it from the system
    return isinstance(error, GeneratorExit)


def add_brief_details(verdict: Verdict, brief: Brief) -> Verdict:
    """Return the verdict with what the brief tells: its digest, the images that were sent, and their flags."""
    flags = (*_brief_flags(brief), *verdict.flags)
    return replace(verdict, flags=flags, images=_sent_images(brief), brief_digest=brief.digest)


def _repair_message(error: AnswerError) -> str:
    wrong = "\n".join(f"- {complaint}" for complaint in error.complaints[:50])
    return (
        "Your answer does not have the required form:\n"
        f"{wrong}\n"
        "Look at the images again where you need to, and give the whole answer anew as one JSON object of that form."
    )


def _brief_flags(brief: Brief) -> list[Flag]:
    names = number_repeats(brief.role_in_case(picture.role) for picture in brief.images)
    return [Flag(note, name) for name, picture in zip(names, brief.images, strict=True) for note in picture.image.notes]


def _answer_flags(answers: list[Answer]) -> list[Flag]:
    flags = dict.fromkeys(flag for answer in answers for flag in answer.flags)
    return [Flag(flag, why=_FLAG_REASONS.get(flag, "")) for flag in flags]


def _sent_images(brief: Brief) -> tuple[SentImage, ...]:
    """Return the images of a brief, by their roles in the case and in the rubric's order of these."""
    places = {picture.role: place for place, picture in reversed(list(enumerate(brief.images)))}
    return tuple(
        SentImage(
            role=brief.role_in_case(picture.role),
            digest=picture.image.digest,
            width=picture.image.width,
            height=picture.image.height,
            bytes=len(picture.image.data),
            scaled=picture.image.scaled,
            media_type=picture.image.media_type,
            source_digest=picture.image.source_digest,
            source_width=picture.image.source_width,
            source_height=picture.image.source_height,
            source_format=picture.image.source_format,
        )
        for picture in sorted(brief.images, key=lambda block: places[brief.role_in_case(block.role)])
    )


def _sum_usage(answers: list[Answer]) -> dict[str, int | None]:
    names = ("input_tokens", "output_tokens", "cached_tokens")
    return {name: sum_if_known([getattr(answer.usage, name) for answer in answers]) for name in names}
