"""A criterion of assertions has no reason of its own: what was answered No stands for it, in every host alike."""

from __future__ import annotations

import pytest

from beholder.integrations import github, mlflow, promptfoo
from beholder.integrations import pytest as plugin
from beholder.verdicts.verdict import AssertionResult, CriterionResult, Outcome, Verdict

LIGHT = CriterionResult(
    score=3,
    reported=3,
    scale=(1, 7),
    weight=1,
    yes=1,
    no=1,
    assertions=(
        AssertionResult("light_1", "Are the shadows soft?", "no", "hard edges below the car"),
        AssertionResult("light_2", "Is the sky blue?", "yes", "blue throughout"),
    ),
)
COLOR = CriterionResult(score=6.5, reported=6, scale=(1, 7), weight=1, reason="as in the photograph")
VERDICT = Verdict("c", "own", "1", "openai:m", Outcome.SCORED, criteria={"light": LIGHT, "color": COLOR}, score=0.625)
LINES = ["light 3 of 7: Are the shadows soft? hard edges below the car", "color 6.5 of 7: as in the photograph"]


@pytest.mark.parametrize(
    "said",
    [
        mlflow._explain(VERDICT, None),
        github._describe_verdict(VERDICT),
        "\n".join(plugin._explain(VERDICT)),
        promptfoo._to_result(VERDICT, None, True, 0.5)["reason"],
    ],
    ids=["mlflow", "github", "pytest", "promptfoo"],
)
def test_every_host_says_why_a_score_is_low(said: str) -> None:
    assert said.splitlines()[-2:] == LINES
