"""`Conversation`: asks one judge about one brief until there is a verdict.

Each kind of bad answer has its own remedy:

    cut off at the token limit   asked again with a higher limit, twice
    empty                        asked again, twice
    not of the rubric's form     one repair turn in the same conversation, images included, the errors named
    refused, filtered            an outcome, not retried

Nothing that was paid for is lost: tokens, cost and requests of every turn are summed into the verdict.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from beholder.errors import AnswerError, ImageError, OverBudget, SetupError, Unreachable, Waiting
from beholder.judges.base import MEASURED_NOT_SEEN, Judge, ReserveCall, capabilities_of, reserve_nothing
from beholder.rubrics.brief import Brief
from beholder.verdicts.answer import Answer, Finish, Turn
from beholder.verdicts.observe import AnswerContext, Observations
from beholder.verdicts.parse import is_refusal
from beholder.verdicts.score import VerdictHeader, make_scored_verdict, read_answer
from beholder.verdicts.verdict import Flag, Outcome, SentImage, Verdict, sum_if_known

MAX_LENGTH_RETRIES = 2
MAX_EMPTY_RETRIES = 2
MAX_QUOTED_CHARACTERS = 20_000  # characters of a broken answer that go into the repair turn

_FLAG_REASONS = {MEASURED_NOT_SEEN: "measured, not seen: by instruments, which know nothing of what an image shows"}


@dataclass(slots=True)
class Conversation:
    """The exchange with one judge about one brief, from the first question to the verdict.

    After `run`, either `verdict` is there or `is_waiting` is true. `observed` are the observations behind a scored
    verdict, which a jury combines. `flags` are those of the verdict's flags that say how the answer came about, which
    its text alone does not tell.

    Args:
        judge: Who is asked.
        brief: What is asked.
        header: Case, rubric and judge of the verdict.
        sample: The number of the sample, from 0.
        is_juror: Whether there are other jurors: a `SetupError` is then the outcome of this one, else it is raised.
        reserve: Reserves what each call may cost before it is made.
    """

    judge: Judge
    brief: Brief
    header: VerdictHeader
    sample: int = 0
    is_juror: bool = False
    reserve: ReserveCall = reserve_nothing
    turns: tuple[Turn, ...] = ()
    max_tokens: int | None = None
    attempts: int = 0
    was_asked: bool = False
    is_waiting: bool = False
    observed: Observations | None = None
    flags: tuple[Flag, ...] = ()
    _answers: list[Answer] = field(default_factory=list)
    _length_retries: int = 0
    _empty_retries: int = 0
    _verdict: Verdict | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is no verdict yet."""
        return self._verdict is None

    @property
    def verdict(self) -> Verdict:
        assert self._verdict is not None, "the conversation has no verdict yet"
        return self._verdict

    async def run(self, timeout_s: float | None = None) -> None:
        """Ask the judge until there is a verdict, within `timeout_s` over all turns.

        Raises:
            SetupError: The judge can never answer, and is the only one. Every other failure is an outcome.
        """
        self.was_asked = True
        try:
            async with asyncio.timeout(timeout_s):
                while self.is_open:
                    async with self.reserve(self.brief, self.turns, self.max_tokens) as call:
                        answer = await self.judge.answer(
                            self.brief, sample=self.sample, earlier=self.turns, max_tokens=call.max_tokens
                        )
                        call.cost_usd = answer.cost_usd
                    self.take_answer(answer)
        except Waiting:
            self.is_waiting = True
            return
        except SetupError as error:
            if not self.is_juror:
                raise
            self._verdict = add_brief_details(self.header.make_verdict(Outcome.UNREACHABLE, str(error)), self.brief)
            self.flags = ()
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
        self._add_call_details()

    def take_answer(self, answer: Answer) -> None:
        """Close the conversation with the verdict that an answer amounts to, or set what to ask next."""
        self._answers.append(answer)
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
            self._parse(answer.text)

    def close(self, outcome: Outcome, detail: str) -> None:
        """End without a score."""
        self._verdict = self.header.make_verdict(outcome, detail)

    def restore(self, verdict: Verdict, observed: Observations, flags: tuple[Flag, ...]) -> None:
        """End with the verdict of an answer that was given before; the judge is not asked."""
        self._verdict, self.observed, self.flags = verdict, observed, flags

    def _add_call_details(self) -> None:
        """Add to the verdict what all turns together used and cost."""
        last = self._answers[-1] if self._answers else None
        self.flags = (*self.flags, *_answer_flags(self._answers))
        self._verdict = replace(
            self.verdict,
            flags=(*self.flags, *_brief_flags(self.brief), *self.verdict.flags),
            images=_sent_images(self.brief),
            brief_digest=self.brief.digest,
            model=last.model if last else None,
            usage=_sum_usage(self._answers),
            cost_usd=sum_if_known([answer.cost_usd for answer in self._answers]),
            latency_s=round(sum(answer.latency_s for answer in self._answers), 3) if self._answers else None,
            attempts=self.attempts,
            finish=last.finish.value if last else None,
            answer=last.text if last else "",
        )

    def _retry_longer(self, answer: Answer) -> None:
        if self._length_retries == MAX_LENGTH_RETRIES:
            times = self._length_retries + 1
            self.close(Outcome.TRUNCATED, f"cut off at the token limit {times} times, each time with more room")
            return
        self._length_retries += 1
        used = answer.usage.output_tokens or 0
        self.max_tokens = 2 * max(self.max_tokens or 0, used, self.brief.answer_tokens)
        self.flags += (Flag("cut_off", why=f"asked again with room for {self.max_tokens} tokens"),)

    def _retry_empty(self) -> None:
        if self._empty_retries == MAX_EMPTY_RETRIES:
            self.close(Outcome.INVALID, f"the answer was empty {self._empty_retries + 1} times")
            return
        self._empty_retries += 1
        self.flags += (Flag("empty_answer", why="asked again"),)

    def _parse(self, text: str) -> None:
        try:
            self.observed = read_answer(
                self.header.rubric,
                text,
                AnswerContext(label=self.brief.label, may_abstain=capabilities_of(self.judge).abstains),
            )
        except AnswerError as error:
            if self.turns:
                self.close(Outcome.INVALID, f"still wrong after one repair: {error}")
                return
            self.turns = (Turn(text[:MAX_QUOTED_CHARACTERS], _repair_message(error)),)
            self.flags += (Flag("repair_asked", why=f"asked to mend: {error}"),)
            return
        self._verdict = make_scored_verdict(self.header, self.observed)


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
    return [Flag(note, picture.role) for picture in brief.images for note in picture.image.notes]


def _answer_flags(answers: list[Answer]) -> list[Flag]:
    flags = dict.fromkeys(flag for answer in answers for flag in answer.flags)
    return [Flag(flag, why=_FLAG_REASONS.get(flag, "")) for flag in flags]


def _sent_images(brief: Brief) -> tuple[SentImage, ...]:
    return tuple(
        SentImage(
            role=picture.role,
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
        for picture in brief.images
    )


def _sum_usage(answers: list[Answer]) -> dict[str, int | None]:
    names = ("input_tokens", "output_tokens", "cached_tokens")
    return {name: sum_if_known([getattr(answer.usage, name) for answer in answers]) for name in names}
