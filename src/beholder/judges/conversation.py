"""Asking one judge one brief until there is a verdict: each kind of bad answer has its own remedy.

    cut off at the token limit   asked again with more room, twice
    empty                        asked again, twice
    breaks the rubric's form     one repair turn in the same conversation, images included, the errors named
    refused, filtered            an outcome, not retried

Nothing that was paid for is lost: tokens, cost and requests of every turn are summed into the verdict.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from beholder.errors import AnswerError, ImageError, OverBudget, Unreachable
from beholder.judges.base import MEASURED_NOT_SEEN, Judge, capabilities_of
from beholder.rubrics.brief import Brief
from beholder.verdicts.answer import Answer, Finish, Turn
from beholder.verdicts.jury import ConversationResult
from beholder.verdicts.observe import AnswerContext, Observations
from beholder.verdicts.parse import is_refusal
from beholder.verdicts.score import VerdictHeader, make_scored_verdict, read_answer
from beholder.verdicts.verdict import Flag, Outcome, SentImage, Verdict, sum_if_known

MAX_LENGTH_RETRIES = 2
MAX_EMPTY_RETRIES = 2
MAX_QUOTED_CHARACTERS = 20_000  # characters of a broken answer that go into the repair turn

_FLAG_REASONS = {MEASURED_NOT_SEEN: "measured, not seen: by instruments, which know nothing of what an image shows"}


async def ask_judge(
    judge: Judge, brief: Brief, head: VerdictHeader, *, sample: int = 0, timeout_s: float | None = None
) -> ConversationResult:
    """The verdict of one judge on one brief, within `timeout_s` over all turns.

    Raises `SetupError` only; every other failure is an outcome.
    """
    talk = Conversation(brief, head, capabilities_of(judge).abstains)
    try:
        async with asyncio.timeout(timeout_s):
            while talk.open:
                answer = await judge.answer(brief, sample=sample, earlier=talk.turns, max_tokens=talk.max_tokens)
                talk.hear(answer)
    except TimeoutError:
        talk.end(Outcome.UNREACHABLE, f"no verdict within {timeout_s:g} s")
    except Unreachable as error:
        talk.attempts += error.attempts
        talk.end(Outcome.UNREACHABLE, str(error))
    except ImageError as error:
        talk.end(Outcome.UNREADABLE, str(error))
    except OverBudget as error:
        talk.end(Outcome.OVER_BUDGET, str(error))
    return talk.result()


@dataclass(slots=True)
class Conversation:
    """A conversation about one brief, from the first question to the verdict."""

    brief: Brief
    head: VerdictHeader
    may_abstain: bool = False
    turns: tuple[Turn, ...] = ()
    max_tokens: int | None = None
    open: bool = True
    attempts: int = 0
    _answers: list[Answer] = field(default_factory=list)
    _flags: list[Flag] = field(default_factory=list)
    _cuts: int = 0
    _empties: int = 0
    _verdict: Verdict | None = None
    _observed: Observations | None = None

    def hear(self, answer: Answer) -> None:
        """Takes an answer in: ends the talk, or leaves it open with what to ask next."""
        self._answers.append(answer)
        self.attempts += answer.attempts
        if answer.finish is Finish.REFUSED or (answer.finish is Finish.COMPLETE and is_refusal(answer.text)):
            self.end(Outcome.REFUSED, answer.detail or answer.text)
        elif answer.finish is Finish.FILTERED:
            self.end(Outcome.FILTERED, answer.detail or "the provider's content filter stopped the answer")
        elif answer.finish is Finish.LENGTH:
            self._cut_off(answer)
        elif not answer.text.strip():
            self._empty()
        else:
            self._read(answer.text)

    def end(self, outcome: Outcome, detail: str) -> None:
        self.open = False
        self._verdict = self.head.make_verdict(outcome, detail)

    def result(self) -> ConversationResult:
        assert self._verdict is not None
        last = self._answers[-1] if self._answers else None
        flags = (*self._flags, *_answer_flags(self._answers))
        verdict = replace(
            self._verdict,
            flags=(*flags, *_brief_flags(self.brief), *self._verdict.flags),
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
        return ConversationResult(verdict, self._observed, flags)

    def _cut_off(self, answer: Answer) -> None:
        if self._cuts == MAX_LENGTH_RETRIES:
            self.end(Outcome.TRUNCATED, f"cut off at the token limit {self._cuts + 1} times, each time with more room")
            return
        self._cuts += 1
        used = answer.usage.output_tokens or 0
        self.max_tokens = 2 * max(self.max_tokens or 0, used, self.brief.answer_tokens)
        self._flags.append(Flag("cut_off", why=f"asked again with room for {self.max_tokens} tokens"))

    def _empty(self) -> None:
        if self._empties == MAX_EMPTY_RETRIES:
            self.end(Outcome.INVALID, f"the answer was empty {self._empties + 1} times")
            return
        self._empties += 1
        self._flags.append(Flag("empty_answer", why="asked again"))

    def _read(self, text: str) -> None:
        try:
            self._observed = read_answer(
                self.head.rubric, text, AnswerContext(label=self.brief.label, may_abstain=self.may_abstain)
            )
        except AnswerError as error:
            if self.turns:
                self.end(Outcome.INVALID, f"still wrong after one repair: {error}")
                return
            self.turns = (Turn(text[:MAX_QUOTED_CHARACTERS], _repair_message(error)),)
            self._flags.append(Flag("repair_asked", why=f"asked to mend: {error}"))
            return
        self.open = False
        self._verdict = make_scored_verdict(self.head, self._observed)


def add_brief_details(verdict: Verdict, brief: Brief) -> Verdict:
    """The verdict with what the brief has to say: its digest, the images that were sent, and their flags."""
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
