"""Reward functions for TRL and Flow-GRPO, called as their trainers call them (trl 1.16.0, `_calculate_rewards`): a
missing score is `None` or NaN, and never 0. The trainers need torch, which is several gigabytes, and are not installed
here; docs/huggingface.md says what was tried by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.host_scripts import answer_or_refuse

import beholder
from beholder.integrations.flow_grpo import make_score
from beholder.integrations.trl import reward
from beholder.testing.base import Received
from beholder.testing.server import JudgeServer

EXAMPLES = Path(__file__).parents[2] / "examples" / "demo"
PIXELS = np.random.default_rng(1).integers(0, 255, (4, 32, 32, 3), np.uint8)
SCORE = pytest.approx(5 / 6)


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(answer_or_refuse, keyless=True) as server:
        yield server


@pytest.fixture
def session(server: JudgeServer) -> Iterator[beholder.Session]:
    with beholder.Session("openai:m", options={"base_url": server.openai_url}) as session:
        yield session


def call_as_trl(
    function: Any, completions: list[Any], **columns: list[Any]
) -> tuple[list[float | None], dict[str, Any]]:
    """Call a reward function with everything that `GRPOTrainer` hands over; returns also what was logged."""
    logged: dict[str, Any] = {}
    rewards = function(
        prompts=["describe it"] * len(completions),
        completions=completions,
        completion_ids=[[1, 2]] * len(completions),
        trainer_state=object(),
        log_extra=lambda column, values: None,
        log_metric=logged.__setitem__,
        **columns,
    )
    return rewards, logged


class TestTrl:
    COLUMNS = ("input", "edited")

    def test_a_completion_is_what_the_rubric_needs_besides(self, session: beholder.Session) -> None:
        function = reward("edit-preservation", session=session)
        images = {name: [PIXELS[0]] * 3 for name in self.COLUMNS}
        told = [{"role": "assistant", "content": "make it blue"}]
        parts = [{"role": "assistant", "content": [{"type": "text", "text": "make it green"}]}]
        rewards, logged = call_as_trl(function, ["make it red", told, parts], **images)
        assert rewards == [SCORE, SCORE, SCORE]
        assert logged == {"beholder/unscored": 0}
        assert function.__name__ == "beholder_edit-preservation"

    def test_a_missing_score_is_none(self, session: beholder.Session) -> None:
        images = {name: [PIXELS[0]] * 2 for name in self.COLUMNS}
        rewards, logged = call_as_trl(reward("edit-preservation", session=session), ["REFUSE", "red"], **images)
        assert rewards == [None, SCORE]
        assert logged == {"beholder/unscored": 0.5}

    def test_a_missing_image_is_none(self, session: beholder.Session) -> None:
        images = {"input": ["gone.png", PIXELS[0]], "edited": [PIXELS[0]] * 2}
        rewards, _ = call_as_trl(reward("edit-preservation", session=session), ["red", "red"], **images)
        assert rewards == [None, SCORE]

    @pytest.mark.parametrize("empty", ["", " \n", [{"role": "assistant", "content": None}]])
    def test_an_empty_completion_is_none(self, session: beholder.Session, empty: Any) -> None:
        images = {name: [PIXELS[0]] * 3 for name in self.COLUMNS}
        function = reward("edit-preservation", session=session)
        assert call_as_trl(function, ["red", empty, "blue"], **images)[0] == [SCORE, None, SCORE]
        assert call_as_trl(function, [empty] * 3, **images)[0] == [None] * 3  # it does not end the training

    def test_an_empty_description_is_judged_and_is_zero(self) -> None:
        texts = {"input": ["what is it?"] * 2, "expected_output": ["a car"] * 2}
        rewards, logged = call_as_trl(reward("description"), ["", "   "], image=[PIXELS[0]] * 2, **texts)
        assert rewards == [0, 0]
        assert logged == {"beholder/unscored": 0}

    def test_a_missing_key_is_said_before_the_training_begins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(beholder.SetupError, match="OPENAI_API_KEY is not set"):
            reward("description", judge="openai:gpt-5-mini")

    def test_a_row_without_its_image_is_none_unless_all_are(self, session: beholder.Session) -> None:
        images = {"input": [PIXELS[0]] * 2, "edited": [PIXELS[0], None]}
        function = reward("edit-preservation", session=session, output="instruction")
        assert call_as_trl(function, ["red", "blue"], **images)[0] == [SCORE, None]
        with pytest.raises(beholder.CaseError, match="edited"):
            call_as_trl(function, ["red"], input=[PIXELS[0]], edited=[None])

    def test_processes_of_one_name_share_a_budget(
        self, server: JudgeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = {"price": {"input": 1, "output": 1}, "params": {"max_tokens": 100}, "base_url": server.openai_url}
        setup: dict[str, Any] = {"options": {**options, "audit": False, "thumbnails": False}}
        setup |= {"judge": "openai:m", "budget": 0.003, "ledger": str(tmp_path / "b.db")}
        one, other = (reward("edit-preservation", **setup, name="grpo") for _ in range(2))
        assert call_as_trl(one, ["red"], input=[PIXELS[0]], edited=[PIXELS[0]])[0] == [SCORE]
        assert call_as_trl(other, ["blue"], input=[PIXELS[0]], edited=[PIXELS[0]])[0] == [None]
        monkeypatch.setenv("WORLD_SIZE", "8")
        with pytest.raises(beholder.UsageError, match="A budget needs a ledger and a name"):
            make_score("edit-preservation", **setup)
        for lacking in ({}, {"ledger": setup["ledger"]}):
            with (
                beholder.Session("openai:m", budget=1, options=setup["options"], **lacking) as alone,
                pytest.raises(beholder.UsageError, match="A budget needs a ledger and a name"),
            ):
                make_score("edit-preservation", session=alone)
        with beholder.Session(**setup, name="grpo") as shared:
            make_score("edit-preservation", session=shared)

    def test_a_budget_is_for_one_run_of_a_name(self, server: JudgeServer, tmp_path: Path) -> None:
        options = {"price": {"input": 1, "output": 1}, "base_url": server.openai_url}
        setup: dict[str, Any] = {"judge": "openai:m", "budget": 1, "ledger": str(tmp_path / "b.db"), "name": "grpo"}
        reward("edit-preservation", **setup, options=options)
        make_score("edit-quality", **setup, options=options)  # of the same run
        with pytest.raises(beholder.LedgerError, match="a budget is for one run: give this one another name"):
            make_score("edit-preservation", **setup, samples=2, options=options)
        assert len(beholder.list_runs(tmp_path / "b.db")) == 1

    def test_beyond_the_budget_is_none(self, server: JudgeServer) -> None:
        options = {"base_url": server.openai_url, "price": {"input": 1, "output": 1}}
        function = reward("edit-preservation", judge="openai:m", budget=1e-9, options=options)
        assert call_as_trl(function, ["red"], input=[PIXELS[0]], edited=[PIXELS[0]])[0] == [None]

    def test_columns_may_have_other_names(self, session: beholder.Session) -> None:
        names = {"input": "photo", "edited": "made"}
        function = reward("edit-preservation", session=session, columns=names)
        assert call_as_trl(function, ["red"], photo=[PIXELS[0]], made=[PIXELS[1]])[0] == [SCORE]

    def test_a_criterion_is_brought_to_one(self, session: beholder.Session) -> None:
        function = reward("edit-preservation", session=session, criterion="unchanged_regions")
        assert call_as_trl(function, ["red"], input=[PIXELS[0]], edited=[PIXELS[1]])[0] == [SCORE]  # 6 of 1 to 7

    def test_a_step_is_asked_at_once(self, server: JudgeServer, session: beholder.Session) -> None:
        images = {name: [PIXELS[0]] * 16 for name in self.COLUMNS}
        rewards, _ = call_as_trl(
            reward("edit-preservation", session=session), [f"make it {number}" for number in range(16)], **images
        )
        assert rewards == [SCORE] * 16
        assert len(server.received) == 16

    def test_wrong_use_is_a_sentence(self, session: beholder.Session) -> None:
        with pytest.raises(beholder.UsageError, match="no input 'beauty'"):
            reward("edit-preservation", columns={"beauty": "x"})
        with pytest.raises(beholder.UsageError, match="stands for several rubrics"):
            reward("edit")
        with pytest.raises(beholder.UsageError, match="'edited' of edit-preservation is an image"):
            call_as_trl(reward("edit-preservation", session=session), ["x"], input=[PIXELS[0]], instruction=["red"])
        with pytest.raises(beholder.UsageError, match="no column 'photo'"):
            call_as_trl(reward("edit-preservation", session=session, columns={"input": "photo"}), ["red"])
        with pytest.raises(beholder.UsageError, match="output="):
            call_as_trl(reward("edit-preservation", session=session), ["red"])
        with pytest.raises(beholder.UsageError, match=r"columns=\{…\} says: here are completion_ids, images"):
            call_as_trl(reward("description", session=session), ["A car."], images=[[PIXELS[0]]])


class TestFlowGrpo:
    def test_a_batch_of_either_layout_is_scored(self, session: beholder.Session) -> None:
        score = make_score("edit-preservation", session=session)("cpu")
        metadata = [{"input": PIXELS[0]}] * 4
        prompts = [f"make it {number}" for number in range(4)]
        floats = PIXELS.transpose(0, 3, 1, 2).astype(np.float32) / 255
        rewards, more = score(PIXELS, prompts, metadata)
        assert rewards == [SCORE] * 4
        assert more == {}
        rewards, more = score(floats, prompts, metadata)
        assert rewards == [SCORE] * 4
        assert more == {}

    def test_both_layouts_are_the_same_pixels(self, server: JudgeServer, session: beholder.Session) -> None:
        score = make_score("edit-preservation", session=session)("cpu")
        score(PIXELS[:1], ["red"], [{"input": PIXELS[1]}])
        score(PIXELS[:1].transpose(0, 3, 1, 2), ["red"], [{"input": PIXELS[1]}])
        assert len(server.received) == 1  # the second time from the session's answers

    def test_a_missing_score_is_nan(self, session: beholder.Session) -> None:
        score = make_score("edit-preservation", session=session)("cpu")
        rewards, _ = score(
            PIXELS[:3], ["red", "REFUSE", "red"], [{"input": one} for one in (PIXELS[0], PIXELS[0], "gone")]
        )
        assert rewards[0] == SCORE
        assert [math.isnan(one) for one in rewards] == [False, True, True]

    def test_an_output_that_is_no_image_is_nan_unless_all_are(
        self, session: beholder.Session, caplog: pytest.LogCaptureFixture
    ) -> None:
        score = make_score("edit-preservation", session=session)("cpu")
        images = np.stack([np.full((3, 8, 8), math.nan), np.full((3, 8, 8), 0.5)])
        rewards, _ = score(images, ["red", "red"], [{"input": PIXELS[0]}] * 2)
        assert [math.isnan(one) for one in rewards] == [True, False]
        assert "not finite" in caplog.text
        with pytest.raises(beholder.CaseError, match="not finite"):
            score(images[:1], ["red"], [{"input": PIXELS[0]}])

    def test_instruments_cost_nothing_and_abstain_rather_than_guess(self) -> None:
        score = make_score("edit-preservation")("cpu")
        smooth = np.kron(PIXELS[0, :8, :8], np.ones((16, 16, 1), np.uint8))
        (same, darker), _ = score([smooth, smooth // 2], ["nothing"] * 2, [{"input": smooth}] * 2)
        assert same == 1
        assert math.isnan(darker)

    def test_a_criterion_that_was_measured_counts_where_the_whole_was_not(self) -> None:
        before, after = (Image.open(EXAMPLES / f"{name}.png") for name in ("before", "after"))
        metadata = [{"input": before}] * 2
        whole = make_score("edit-preservation")("cpu")([before, after], ["improve it"] * 2, metadata)[0]
        one = make_score("edit-preservation", criterion="unchanged_regions")("cpu")
        (same, edited), _ = one([before, after], ["improve it"] * 2, metadata)
        assert math.isnan(whole[1])
        assert same == 1
        assert 0 < edited < 1

    def test_wrong_use_is_a_sentence(self, session: beholder.Session) -> None:
        with pytest.raises(beholder.UsageError, match="no input 'words'"):
            make_score("edit-preservation", prompt="words")
        score = make_score("edit-preservation", session=session)("cpu")
        nothings: tuple[list[dict[str, object]] | None, ...] = ([{}], None)
        for nothing in nothings:
            with pytest.raises(beholder.UsageError, match=r"edited, input are missing.*output="):
                score(PIXELS[:1], ["red"], nothing)
        with pytest.raises(beholder.UsageError, match="2 images and 1 prompts"):
            score(PIXELS[:2], ["red"], [{"input": PIXELS[0]}] * 2)


def test_the_judge_sees_the_text_of_a_completion(session: beholder.Session, server: JudgeServer) -> None:
    seen: list[str] = []

    def answer(asked: Received) -> str | dict[str, object]:
        seen.append(json.dumps(asked.texts))
        return answer_or_refuse(asked)

    server.default = answer
    call_as_trl(reward("edit-preservation", session=session), ["make it plaid"], input=[PIXELS[0]], edited=[PIXELS[1]])
    assert "make it plaid" in seen[0]
