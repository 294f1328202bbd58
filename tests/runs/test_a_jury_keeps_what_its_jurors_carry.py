"""A jury's verdict has its jurors' flags, corrections and pedigree; one that fails or is set up wrongly is counted."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from beholder import Case, ScriptedJudge, SetupError, Unreachable, UsageError, judge, judge_rubrics

KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = " ".join(["seen"] * 16)


def answer(score: object = 6) -> dict[str, Any]:
    return {"criteria": {key: {"justification": WORDS, "score": score} for key in KEYS}}


def picture(kind: str = "png") -> bytes:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, kind, **({"save_all": True, "append_images": frames[1:]} if kind == "gif" else {}))
    return out.getvalue()


CASE = Case("c1", {"input": picture("gif"), "edited": picture()}, {"instruction": "make it red"})


def test_flags_name_the_juror_by_its_place() -> None:
    jury = [ScriptedJudge(Unreachable("no such model")), ScriptedJudge(answer()), ScriptedJudge(answer(9), answer("7"))]
    verdict = judge("edit-preservation", CASE, judge=jury)
    assert verdict.scored
    assert verdict.jury is not None
    assert (verdict.jury.answered, verdict.jury.failed) == (2, 1)
    flags = {(flag.flag, flag.at.partition(":")[0]) for flag in verdict.flags}
    assert {("repair_asked", "juror 3"), ("score_in_odd_form", "juror 3"), ("first_frame_of_gif", "juror 2")} <= flags
    assert [juror.outcome for juror in verdict.jury.jurors] == ["unreachable", "scored", "scored"]
    assert verdict.jury.jurors[2].images[0].role == "input"


def test_a_judge_alone_that_is_set_up_wrongly_is_wrong_use() -> None:
    with pytest.raises(SetupError):
        judge("edit-preservation", CASE, judge=ScriptedJudge(SetupError("no such model")))


def test_a_family_is_refused_before_anybody_is_asked() -> None:
    one = ScriptedJudge(answer())
    with pytest.raises(UsageError, match="judge_rubrics"):
        judge("edit", CASE, judge=one)
    assert one.briefs == []


def test_a_family_reads_each_image_once() -> None:
    def reply(brief: Any) -> dict[str, Any]:
        keys = brief.schema["properties"]["criteria"]["properties"]
        return {"criteria": {key: {"justification": WORDS, "score": 6} for key in keys}}

    verdicts = judge_rubrics("edit", CASE, judge=ScriptedJudge(say=reply)).values()
    assert [len(verdict.criteria) for verdict in verdicts] == [3, 6, 3]
    assert len({verdict.images for verdict in verdicts}) == 1


def test_an_unknown_option_is_said_to_be() -> None:
    with pytest.raises(UsageError, match="smaples"):
        judge("edit-preservation", CASE, judge=ScriptedJudge(answer()), smaples=3)
