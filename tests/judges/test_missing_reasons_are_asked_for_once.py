"""An answer without reasons or evidence is sent back once; whatever comes of that, its scores stand and are flagged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from beholder import Answer, Case, Finish, Outcome, Rubric, ScriptedJudge, Session, SetupError, Unreachable, Usage
from beholder.errors import ImageError, OverBudget
from beholder.images.image import PreparedImage
from beholder.judges.base import Capabilities, ReservedCall, reserve_nothing
from beholder.judges.conversation import Conversation
from beholder.judges.recorded import RecordedAnswer, Rescorer
from beholder.rubrics.brief import Brief, Composer
from beholder.verdicts.answer import Turn
from beholder.verdicts.score import VerdictHeader

KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = " ".join(["evidence"] * 20)
IMAGE = PreparedImage(b"\xff\xd8", "image/jpeg", 8, 8, "d1", "d0", 8, 8, "jpeg", ())


def factors(score: object = 6, reason: object = WORDS) -> dict[str, Any]:
    return {"criteria": {key: {"justification": reason, "score": score} for key in KEYS}}


UNREASONED = factors(reason="")


def edit() -> tuple[Brief, VerdictHeader]:
    composer = Composer(Rubric.load("edit-preservation"))
    case = Case("c1", images={"input": b"", "edited": b""}, fields={"instruction": "make it red"})
    brief = composer.compose(case, {"input": IMAGE, "edited": IMAGE})
    return brief, VerdictHeader("c1", composer.rubric_for(case), "scripted")


def restyle() -> tuple[Brief, VerdictHeader]:
    composer = Composer(Rubric.load("restyle"))
    case = Case("c1", images={"original": b"", "restyled": b""}, fields={"style": "Anime"})
    brief = composer.compose(case, {"original": IMAGE, "restyled": IMAGE})
    return brief, VerdictHeader("c1", composer.rubric_for(case), "scripted")


async def ask(*lines: Any, asked: Callable[[], tuple[Brief, VerdictHeader]] = edit, **how: Any) -> Any:
    judge = ScriptedJudge(*lines)
    conversation = Conversation(judge, *asked(), **how)
    await conversation.run(timeout_s=600)
    return conversation, judge


def flags(conversation: Conversation) -> list[str]:
    return [flag.flag for flag in conversation.verdict.flags]


async def test_missing_reasons_are_named_in_one_repair_turn() -> None:
    conversation, judge = await ask(UNREASONED, factors(5))
    assert [result.score for result in conversation.verdict.criteria.values()] == [5, 5, 5]
    assert flags(conversation) == ["repair_asked"]
    [first, [turn]] = judge.turns
    assert first == ()
    assert json.loads(turn.answer) == UNREASONED
    for key in KEYS:
        assert f"{key}.justification is missing" in turn.reply


@pytest.mark.parametrize("second", [UNREASONED, factors(5, reason=None)])
async def test_what_is_still_missing_is_flagged_and_the_scores_stand(second: dict[str, Any]) -> None:
    conversation, judge = await ask(UNREASONED, second)
    assert conversation.verdict.outcome is Outcome.SCORED
    assert flags(conversation) == ["repair_asked", *["empty_reason"] * 3]
    assert json.loads(conversation.verdict.answer) == second
    assert len(judge.briefs) == 2


FAILURES: dict[str, Any] = {
    "a score off the scale": factors(99),
    "no JSON": "no JSON",
    "empty": "",
    "cut off": Answer("{", finish=Finish.LENGTH),
    "refused": Answer("", finish=Finish.REFUSED, detail="not again"),
    "refused in words": "I'm sorry, but I can't help with identifying people.",
    "filtered": Answer("", finish=Finish.FILTERED),
    "unreachable": Unreachable("gone", attempts=3),
    "wrong set-up": SetupError("no such model any more"),
    "no image": ImageError("the image is gone"),
    "no time": TimeoutError("as if the time of the conversation was over"),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_repair_that_fails_costs_one_call_and_no_score(failure: str) -> None:
    paid = Answer(json.dumps(UNREASONED), model="m-1", usage=Usage(100, 10, 0), cost_usd=Decimal("0.001"))
    conversation, judge = await ask(paid, FAILURES[failure])
    verdict = conversation.verdict
    assert (verdict.outcome, verdict.score) == (Outcome.SCORED, pytest.approx(5 / 6))
    assert flags(conversation) == ["repair_asked", *["empty_reason"] * 3]
    assert (verdict.answer, verdict.model, verdict.finish) == (paid.text, "m-1", "complete")
    assert conversation.observed is not None
    assert len(judge.briefs) == 2
    assert conversation.transcript.turns[0].answer == paid.text
    assert len(conversation.transcript.turns) == 2


async def test_a_budget_without_room_for_the_repair_keeps_the_answer() -> None:
    @asynccontextmanager
    async def reserve(brief: Brief, earlier: Sequence[Turn], max_tokens: int | None) -> AsyncIterator[ReservedCall]:
        if earlier:
            raise OverBudget("nothing is left")
        async with reserve_nothing(brief, earlier, max_tokens) as call:
            yield call

    conversation, judge = await ask(UNREASONED, factors(5), reserve=reserve)
    assert (conversation.verdict.outcome, len(judge.briefs)) == (Outcome.SCORED, 1)
    assert "empty_reason" in flags(conversation)


def assertions(rubric: Rubric, **entry: object) -> dict[str, Any]:
    def answered(id_: str) -> dict[str, object]:
        return {"answer": "Yes", "evidence": "top left"} | (entry if id_ == "A1" else {})

    criteria = {
        criterion.key: {
            "assertions": {assertion.id: answered(assertion.id) for assertion in criterion.assertions},
            "score": 5,
            "reason": "because",
        }
        for criterion in rubric.criteria
    }
    return {"criteria": criteria, "assessment": "Fine."}


async def test_missing_evidence_is_asked_for_too() -> None:
    rubric = restyle()[1].rubric
    lacking = assertions(rubric, evidence=" ")
    conversation, judge = await ask(lacking, assertions(rubric), asked=restyle)
    assert flags(conversation) == ["repair_asked"]
    assert "A1.evidence is missing" in judge.turns[1][0].reply
    conversation, judge = await ask(lacking, asked=restyle)
    assert (conversation.verdict.total, len(judge.briefs)) == (25, 2)
    assert flags(conversation) == ["repair_asked", "empty_evidence"]


async def test_what_does_not_apply_needs_no_evidence() -> None:
    rubric = restyle()[1].rubric
    _, judge = await ask(assertions(rubric, answer="N/A", evidence=""), asked=restyle)
    assert len(judge.briefs) == 1


async def test_one_repair_turn_names_all_that_is_wrong() -> None:
    lacking = factors(reason="")
    lacking["criteria"][KEYS[0]]["score"] = 99
    conversation, judge = await ask(lacking, UNREASONED)
    reply = judge.turns[1][0].reply
    assert f"{KEYS[0]}.score should be" in reply
    assert f"{KEYS[1]}.justification is missing" in reply
    assert flags(conversation) == ["repair_asked", *["empty_reason"] * 3]  # and no second repair
    assert len(judge.briefs) == 2


async def test_an_own_prompt_need_not_ask_for_reasons() -> None:
    def own() -> tuple[Brief, VerdictHeader]:
        brief, header = edit()
        return replace(brief, schema=None), header

    conversation, judge = await ask(UNREASONED, asked=own)
    assert (flags(conversation), len(judge.briefs)) == (["empty_reason"] * 3, 1)


async def test_what_was_measured_is_not_asked_for_again() -> None:
    judge = ScriptedJudge(UNREASONED)
    judge.capabilities = Capabilities(abstains=True)  # type: ignore[attr-defined]
    conversation = Conversation(judge, *edit())
    await conversation.run()
    assert len(judge.briefs) == 1


def test_a_stored_answer_is_not_asked_for_again() -> None:
    judge = ScriptedJudge(UNREASONED)
    images = {"input": _png(0), "edited": _png(9)}
    case = Case("c1", images=images, fields={"instruction": "make it red"})
    with Session(judge) as session:
        first, second = (session.judge("edit-preservation", case) for _ in range(2))
    assert len(judge.briefs) == 2  # the question and its repair
    assert [flag.flag for flag in first.flags] == [flag.flag for flag in second.flags]
    assert (second.outcome, second.score, second.answer) == (Outcome.SCORED, first.score, first.answer)


def test_a_recorded_answer_is_flagged() -> None:
    verdict, _ = Rescorer(Rubric.load("edit-preservation")).verdict(RecordedAnswer("c1", UNREASONED, {}))
    assert verdict.outcome is Outcome.SCORED
    assert [flag.flag for flag in verdict.flags] == ["empty_reason"] * 3


def _png(level: int) -> bytes:
    import cv2
    import numpy as np

    return cv2.imencode(".png", np.full((24, 32, 3), level, np.uint8))[1].tobytes()


async def test_scores_stand_too_where_the_schema_was_ignored_and_nobody_answers_again() -> None:
    ignored = Answer(json.dumps(UNREASONED), model="scripted", ignores_schema=True)
    conversation, judge = await ask(ignored, Unreachable("the server is gone"))
    assert len(judge.briefs) == 2
    assert conversation.verdict.outcome is Outcome.SCORED
    assert conversation.verdict.criteria["unchanged_regions"].score == 6
