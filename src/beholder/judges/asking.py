"""Asking one judge one brief until there is a verdict: each kind of bad answer has its own remedy.

    cut off at the token limit   asked again with more room, twice
    empty                        asked again, twice
    breaks the rubric's form     one repair turn in the same conversation, images included, the errors named
    refused, filtered            an outcome, not retried

Nothing that was paid for is lost: tokens, cost and requests of every turn are summed into the verdict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from beholder.errors import AnswerError, Unreachable
from beholder.judges.protocol import Answer, Finish, Judge, Turn
from beholder.rubrics.brief import Brief
from beholder.verdicts.judging import Head, read_answer, scored_verdict
from beholder.verdicts.model import Flag, Outcome, SentImage, Verdict, known_sum
from beholder.verdicts.observing import Observations

MORE_ROOM = 2
EMPTY_AGAIN = 2
QUOTED_BACK = 20_000  # characters of a broken answer that go into the repair turn

_DECLINES = re.compile(
    r"\A\W*(i('|’)?m (very )?sorry|sorry|i can(no|'|’)?t|i am (not able|unable)|i('|’)m unable)\b", re.I
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A verdict, and the observations behind it where it is scored (a jury combines those)."""

    verdict: Verdict
    observed: Observations | None = None


async def ask(judge: Judge, brief: Brief, head: Head, *, sample: int = 0) -> Asked:
    """The verdict of one judge on one brief. Raises `SetupError` only; every other failure is an outcome."""
    talk = _Talk(brief, head)
    try:
        while talk.open:
            answer = await judge.answer(brief, sample=sample, earlier=talk.turns, max_tokens=talk.max_tokens)
            talk.hear(answer)
    except Unreachable as error:
        talk.attempts += error.attempts
        talk.end(Outcome.UNREACHABLE, str(error))
    return talk.result()


@dataclass(slots=True)
class _Talk:
    """A conversation about one brief, from the first question to the verdict."""

    brief: Brief
    head: Head
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
        if answer.finish is Finish.REFUSED or (answer.finish is Finish.COMPLETE and _declined(answer.text)):
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
        self._verdict = self.head.verdict(outcome, detail)

    def result(self) -> Asked:
        assert self._verdict is not None
        last = self._answers[-1] if self._answers else None
        verdict = replace(
            self._verdict,
            model=last.model if last else None,
            flags=(*self._flags, *_brief_flags(self.brief), *_answer_flags(self._answers), *self._verdict.flags),
            images=_sent(self.brief),
            usage=_usage(self._answers),
            cost_usd=known_sum([answer.cost_usd for answer in self._answers]),
            latency_s=round(sum(answer.latency_s for answer in self._answers), 3) if self._answers else None,
            attempts=self.attempts,
            brief_digest=self.brief.digest,
            answer=last.text if last else "",
        )
        return Asked(verdict, self._observed)

    def _cut_off(self, answer: Answer) -> None:
        if self._cuts == MORE_ROOM:
            self.end(Outcome.TRUNCATED, f"cut off at the token limit {self._cuts + 1} times, each time with more room")
            return
        self._cuts += 1
        used = answer.usage.output_tokens or 0
        self.max_tokens = 2 * max(self.max_tokens or 0, used, self.brief.answer_tokens)
        self._flags.append(Flag("cut_off", why=f"asked again with room for {self.max_tokens} tokens"))

    def _empty(self) -> None:
        if self._empties == EMPTY_AGAIN:
            self.end(Outcome.INVALID, f"the answer was empty {self._empties + 1} times")
            return
        self._empties += 1
        self._flags.append(Flag("empty_answer", why="asked again"))

    def _read(self, text: str) -> None:
        try:
            self._observed = read_answer(self.head.rubric, text, label=self.brief.label)
        except AnswerError as error:
            if self.turns:
                self.end(Outcome.INVALID, f"still wrong after one repair: {error}")
                return
            self.turns = (Turn(text[:QUOTED_BACK], _repair(error)),)
            self._flags.append(Flag("repaired", why=f"asked to mend: {error}"))
            return
        self.open = False
        self._verdict = scored_verdict(self.head, self._observed)


def _repair(error: AnswerError) -> str:
    wrong = "\n".join(f"- {complaint}" for complaint in error.complaints[:50])
    return (
        "Your answer does not have the required form:\n"
        f"{wrong}\n"
        "Look at the images again where you need to, and give the whole answer anew as one JSON object of that form."
    )


def _declined(text: str) -> bool:
    """A refusal in plain words, from a model that has no other way to refuse."""
    return "{" not in text and bool(_DECLINES.match(text))


def _brief_flags(brief: Brief) -> list[Flag]:
    notes = [Flag(note, picture.role) for picture in brief.pictures for note in picture.image.notes]
    return [Flag(flag) for flag in brief.flags] + notes


def _answer_flags(answers: list[Answer]) -> list[Flag]:
    return [Flag(flag) for flag in dict.fromkeys(flag for answer in answers for flag in answer.flags)]


def _sent(brief: Brief) -> tuple[SentImage, ...]:
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
        for picture in brief.pictures
    )


def _usage(answers: list[Answer]) -> dict[str, int | None]:
    names = ("input_tokens", "output_tokens", "cached_tokens")
    return {name: known_sum([getattr(answer.usage, name) for answer in answers]) for name in names}
