"""A rubric of kind `preference`: what it may say, what the judge sees, and that other rubrics stay as they were."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from support.preferences import pair

from beholder import Rubric, RubricError, UsageError, make_briefs
from beholder.api.options import Options
from beholder.rubrics.load import check_rubrics, list_rubrics
from beholder.rubrics.prompt import make_answer_schema

NAMES = [name for name in list_rubrics() if name.endswith("-preference")]

OWN = """
rubric: logo-preference
kind: preference
images:
  - {role: first, label: Candidate A}
  - {role: second, label: Candidate B}
criteria:
  - {key: legible, question: Which logo is easier to read?}
"""


@pytest.fixture
def mistake(tmp_path: Path) -> object:
    def load(text: str) -> str:
        path = tmp_path / "rubric.yaml"
        path.write_text(text, "utf-8")
        with pytest.raises(RubricError) as caught:
            Rubric.load(path)
        return str(caught.value)

    return load


@pytest.mark.parametrize("name", NAMES)
def test_the_built_in_ones_are_sound_and_neutral(name: str) -> None:
    [rubric], warnings = check_rubrics(name)
    assert rubric.is_preference
    assert warnings == []
    assert all(criterion.scale == (-3, 3) for criterion in rubric.criteria)
    schema = make_answer_schema(rubric)
    assert list(schema["properties"]) == ["criteria", "overall"]  # type: ignore[call-overload]  # a mapping


def test_there_are_four() -> None:
    assert sorted(NAMES) == [f"{kind}-preference" for kind in ("description", "edit", "generation", "restyle")]


def test_the_kind_of_other_rubrics_is_not_dumped() -> None:
    assert "kind" not in msgspec.to_builtins(Rubric.load("edit-preservation"))
    assert msgspec.to_builtins(Rubric.load("edit-preference"))["kind"] == "preference"


def test_a_rubric_of_ones_own_needs_no_prompt(tmp_path: Path) -> None:
    (tmp_path / "rubric.yaml").write_text(OWN, "utf-8")
    [rubric], _ = check_rubrics(tmp_path / "rubric.yaml")
    assert rubric.is_preference


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("role: second", "role: third"), "compares the images `first` and `second`"),
        (("Candidate A", "Old Logo"), "'Old Logo' should be 'Candidate A'"),
        (("key: legible", "key: overall"), "'overall' is the choice over all criteria"),
        (("key: legible", "key: legible, scale: [1, 7]"), "a preference has no scale"),
        (("key: legible", "key: legible, assertions: [Is it?]"), "a preference has none"),
        (("criteria:", "scoring: {threshold: 0.5}\ncriteria:"), "is for scores"),
        (("criteria:", "findings: [{key: flaws}]\ncriteria:"), "is for scores"),
        (("kind: preference", "kind: preferences"), "'preferences' is not one of scores, preference"),
    ],
)
def test_what_does_not_fit_is_named(mistake: object, change: tuple[str, str], words: str) -> None:
    assert callable(mistake)
    assert words in mistake(OWN.replace(*change))


def test_a_threshold_is_for_scores() -> None:
    with pytest.raises(UsageError, match="gives no scores: leave out threshold"):
        Options(threshold=0.5).load_rubrics("edit-preference")


def test_orders_are_one_of_three() -> None:
    with pytest.raises(UsageError, match="both, random, given, not 'reverse'"):
        Options(orders="reverse")


def test_the_judge_sees_no_model_and_no_id() -> None:
    case = pair(200, 10, "photo7/flux-vs-gemini", model_first="flux", model_second="gemini", source="photo7")
    [brief] = make_briefs("edit-preference", case).values()
    told = str(brief.to_dict())
    assert not any(name in told for name in ("flux", "gemini", "photo7"))
    assert [block.label for block in brief.images] == ["Input Image", "Candidate A", "Candidate B"]
