"""DESIGN, "Answers, checked": what happens to an answer that is empty, cut off, malformed, refused or never came."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from beholder import Answer, Finish, Outcome, Rubric, ScriptedJudge, SetupError, Unreachable, Usage, Verdict
from beholder.cases.case import Case
from beholder.images.image import PreparedImage
from beholder.judges.conversation import Conversation
from beholder.rubrics.brief import Brief, Composer
from beholder.verdicts.score import VerdictHeader

KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = " ".join(["evidence"] * 20)
WHOLE = '{"criteria": {' + ", ".join(f'"{key}": {{"justification": "{WORDS}", "score": 6}}' for key in KEYS) + "}}"


def good(**scores: object) -> dict[str, Any]:
    return {"criteria": {key: {"justification": WORDS, "score": scores.get(key, 6)} for key in KEYS}}


def composed() -> tuple[Brief, VerdictHeader]:
    composer = Composer(Rubric.load("edit-preservation"))
    image = PreparedImage(b"\xff\xd8", "image/jpeg", 8, 8, "d1", "d0", 16, 16, "jpeg", ("rotated_upright",))
    case = Case("c1", images={"input": b"", "edited": b""}, fields={"instruction": "make it red"})
    return composer.compose(case, {"input": image, "edited": image}), VerdictHeader(
        "c1", composer.rubric_for(case), "scripted"
    )


async def asked(*lines: Any) -> tuple[Conversation, ScriptedJudge]:
    judge = ScriptedJudge(*lines)
    brief, head = composed()
    return await ask_judge(judge, brief, head), judge


async def ask_judge(judge: ScriptedJudge, brief: Brief, head: VerdictHeader) -> Conversation:
    conversation = Conversation(judge, brief, head)
    await conversation.run()
    return conversation


def flags(result: Conversation) -> list[str]:
    return [flag.flag for flag in result.verdict.flags]


async def test_a_good_answer_is_scored_at_once() -> None:
    result, judge = await asked(good())
    assert result.verdict.outcome is Outcome.SCORED
    assert len(judge.briefs) == 1
    assert result.observed is not None


async def test_a_malformed_answer_gets_one_repair_turn_that_names_every_error() -> None:
    broken = good(unchanged_regions=9, global_consistency=True)
    result, judge = await asked(broken, good())
    assert result.verdict.outcome is Outcome.SCORED
    [turn] = judge.turns[1]
    assert "unchanged_regions.score" in turn.reply
    assert "global_consistency.score" in turn.reply
    assert "repair_asked" in flags(result)


async def test_a_second_malformed_answer_is_invalid() -> None:
    result, judge = await asked(good(unchanged_regions=9), good(unchanged_regions=0), good())
    assert result.verdict.outcome is Outcome.INVALID
    assert result.verdict.score is None
    assert "is 0" in result.verdict.detail
    assert len(judge.briefs) == 2


async def test_an_answer_that_ignores_the_schema_is_asked_for_in_words_and_then_repaired() -> None:
    ignored = Answer('{"fine": true}', ignores_schema=True)
    result, judge = await asked(ignored, '{"fine": true}', '{"fine": true}')
    assert result.verdict.detail.startswith("still wrong after the schema in words and one repair:")
    assert len(judge.briefs) == 3


async def test_a_flag_that_stays_on_an_invalid_verdict_does_not_claim_a_repair() -> None:
    result, _ = await asked(good(unchanged_regions=9), good(unchanged_regions=9))
    assert result.verdict.outcome is Outcome.INVALID
    assert "repair_asked" in flags(result)


async def test_an_answer_in_which_nothing_applies_is_sent_back_once() -> None:
    composer = Composer(Rubric.load("restyle"))
    image = PreparedImage(b"\xff\xd8", "image/jpeg", 8, 8, "d1", "d0", 8, 8, "jpeg", ())
    case = Case("c1", images={"original": b"", "restyled": b""}, fields={"style": "Mosaic"})
    brief = composer.compose(case, {"original": image, "restyled": image})
    rubric = composer.rubric_for(case)
    blank = {
        one.key: {"assertions": {a.id: {"answer": "N/A", "evidence": "x"} for a in one.assertions}, "reason": "x"}
        for one in rubric.criteria
    }
    judge = ScriptedJudge({"criteria": blank, "assessment": "x"})
    result = await ask_judge(judge, brief, VerdictHeader("c1", rubric, "scripted"))
    assert result.verdict.outcome is Outcome.INVALID
    assert "nothing in it applies" in result.verdict.detail
    assert "nothing in it applies: every assertion is N/A" in judge.turns[1][0].reply
    assert len(judge.briefs) == 2


async def test_an_empty_answer_is_asked_for_again_as_if_for_the_first_time() -> None:
    result, judge = await asked("", "  \n", good())
    assert result.verdict.outcome is Outcome.SCORED
    assert judge.turns == [(), (), ()]
    result, judge = await asked("")
    assert result.verdict.outcome is Outcome.INVALID
    assert len(judge.briefs) == 3


async def test_a_cut_off_answer_gets_more_room_each_time() -> None:
    rooms: list[int | None] = []

    class Watched(ScriptedJudge):
        async def answer(self, brief: Brief, **how: Any) -> Answer:
            rooms.append(how["max_tokens"])
            return await super().answer(brief, **how)

    judge = Watched(Answer("{", finish=Finish.LENGTH, usage=Usage(10, 5000)))
    brief, head = composed()
    result = await ask_judge(judge, brief, head)
    assert result.verdict.outcome is Outcome.TRUNCATED
    assert rooms == [None, 10_000, 20_000]


async def test_a_cut_off_answer_is_not_scored_even_if_it_looks_whole() -> None:
    whole = Answer(WHOLE, finish=Finish.LENGTH)
    result, _ = await asked(whole)
    assert result.verdict.outcome is Outcome.TRUNCATED


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer("", finish=Finish.REFUSED, detail="not this"), Outcome.REFUSED),
        (Answer("I'm sorry, but I can't help with identifying people."), Outcome.REFUSED),
        (Answer("", finish=Finish.FILTERED, detail="SAFETY"), Outcome.FILTERED),
    ],
)
async def test_refusals_and_filters_are_outcomes_and_not_retried(answer: Answer, outcome: Outcome) -> None:
    result, judge = await asked(answer)
    assert result.verdict.outcome is outcome
    assert len(judge.briefs) == 1


async def test_an_unreachable_judge_is_an_outcome_with_its_sentence() -> None:
    result, _ = await asked(Unreachable("no answer from example", attempts=6))
    assert result.verdict.outcome is Outcome.UNREACHABLE
    assert result.verdict.detail == "no answer from example"
    assert result.verdict.attempts == 6


async def test_wrong_use_is_raised() -> None:
    with pytest.raises(SetupError):
        await asked(SetupError("no key"))


async def test_what_was_paid_for_is_counted_over_all_turns() -> None:
    def paid(line: str) -> Answer:
        return Answer(line, usage=Usage(100, 10, 0), cost_usd=Decimal("0.001"), attempts=2, latency_s=1.0)

    result, _ = await asked(paid(""), paid("{}"), Unreachable("gone", attempts=3))
    verdict = result.verdict
    assert verdict.outcome is Outcome.UNREACHABLE
    assert verdict.usage == {"input_tokens": 200, "output_tokens": 20, "cached_tokens": 0}
    assert verdict.cost_usd == Decimal("0.002")
    assert verdict.attempts == 7


async def test_a_cost_that_is_unknown_in_part_is_unknown() -> None:
    result, _ = await asked(Answer("", cost_usd=Decimal("0.001")), Answer(WHOLE))
    assert result.verdict.cost_usd is None


async def test_what_was_sent_is_in_the_verdict() -> None:
    result, _ = await asked(good())
    [first, _] = result.verdict.images
    assert (first.role, first.digest, first.scaled, first.source_width) == ("input", "d1", True, 16)
    assert flags(result).count("rotated_upright") == 2


async def test_an_echoed_label_that_differs_is_flagged() -> None:
    result, _ = await asked({"image_id": "another", **good()})
    assert "label_differs" in flags(result)


@pytest.mark.parametrize(
    ("lines", "finish"),
    [
        ([good()], "complete"),
        ([Answer("{", finish=Finish.LENGTH), good()], "complete"),
        ([Answer("{", finish=Finish.LENGTH)], "length"),
        ([Answer("", finish=Finish.REFUSED, detail="no")], "refused"),
        ([Answer("", finish=Finish.FILTERED)], "filtered"),
        ([Unreachable("gone")], None),
    ],
)
async def test_the_verdict_says_how_the_last_answer_ended(lines: list[Any], finish: str | None) -> None:
    verdict = (await asked(*lines))[0].verdict
    assert verdict.finish == finish
    assert verdict.to_dict()["finish"] == finish
    assert Verdict.from_dict(verdict.to_dict()).finish == finish


async def test_prose_that_is_no_refusal_is_sent_back() -> None:
    result, judge = await asked("I cannot see any difference outside the car. All three factors: 7.", good())
    assert result.verdict.outcome is Outcome.SCORED
    assert len(judge.briefs) == 2
