"""An observer hears of every call of a judge, its end, and the verdict; it can break nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from beholder import Answer, Case, ScriptedJudge, Verdict, judge_async
from beholder.errors import Unreachable
from beholder.providers.base import JudgeCall, add_observer, remove_observer

GOOD = {
    "criteria": {
        key: {"justification": "the wall behind the car shows the same mortar lines as before", "score": 6}
        for key in ("unchanged_regions", "global_consistency", "identity_preservation")
    }
}


class Recorder:
    """Writes down what it hears of."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def on_call_start(self, call: JudgeCall) -> None:
        self.heard.append(("start", call))

    def on_call_end(self, call: JudgeCall, answer: Answer | None, error: BaseException | None) -> None:
        self.heard.append(("end", call, answer, error))

    def on_verdict(self, verdict: Verdict) -> None:
        self.heard.append(("verdict", verdict))


class Broken(Recorder):
    """Fails whenever it is called."""

    def on_call_start(self, call: JudgeCall) -> None:
        raise RuntimeError("broken")

    def on_verdict(self, verdict: Verdict) -> None:
        raise RuntimeError("broken")


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    add_observer(recorder)
    yield recorder
    remove_observer(recorder)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    cv2.imwrite(str(tmp_path / "a.png"), np.full((8, 8, 3), 90, np.uint8))
    images: dict[str, Any] = {"input": tmp_path / "a.png", "edited": tmp_path / "a.png"}
    return Case("c", images=images, fields={"instruction": "nothing"})


async def test_each_turn_is_a_call_and_then_there_is_a_verdict(recorder: Recorder, case: Case) -> None:
    verdict = await judge_async("edit-preservation", case, judge=ScriptedJudge("not JSON", GOOD))
    starts, ends = recorder.heard[0:4:2], recorder.heard[1:4:2]
    assert [what for what, *_ in recorder.heard] == ["start", "end", "start", "end", "verdict"]
    assert [call.turn for _, call in starts] == [0, 1]
    assert [end[1] is start[1] for start, end in zip(starts, ends, strict=True)] == [True, True]
    assert ends[0][2].text == "not JSON"
    assert (starts[0][1].case, starts[0][1].rubric) == ("c", "edit-preservation")
    assert recorder.heard[4] == ("verdict", verdict)


async def test_a_call_that_fails_ends_with_its_error(recorder: Recorder, case: Case) -> None:
    await judge_async("edit-preservation", case, judge=ScriptedJudge(Unreachable("gone")))
    what, _, answer, error = recorder.heard[1]
    assert (what, answer, str(error)) == ("end", None, "gone")


async def test_an_observer_that_fails_changes_nothing(
    recorder: Recorder, case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken()
    add_observer(broken)
    try:
        verdict = await judge_async("edit-preservation", case, judge=ScriptedJudge(GOOD))
    finally:
        remove_observer(broken)
    assert verdict.scored
    assert recorder.heard[-1] == ("verdict", verdict)
    assert "broken" in caplog.text
