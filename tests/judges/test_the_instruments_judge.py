"""The judge `instruments`: found by name and by default, offline, free, the same each time, plain about its limits."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from support.offline import on_edit, photo, png, with_ball

from beholder import Case, Rubric, ScriptedJudge, SetupError, judge, judge_from, judge_rubrics
from beholder.cases.case import FieldValue
from beholder.errors import CaseError
from beholder.judges.base import Capabilities, Judge, capabilities_of, check_judges
from beholder.judges.factory import judge_identity, judge_sizing, split_spec, uses_custom_base_url
from beholder.judges.offline.judge import InstrumentsJudge
from beholder.rubrics.load import load_rubrics
from beholder.verdicts.verdict import Coverage, Outcome

FIELDS: dict[str, FieldValue] = {
    "input": "What is shown?",
    "output": "A cup of coffee on a wooden table.",
    "expected_output": ("A white cup of coffee on a wooden table, beside a spoon.", "A cup and a spoon on a table."),
}


def edit(**fields: str) -> Case:
    return Case(
        "c", {"input": png(photo()), "edited": png(with_ball(photo()))}, {"instruction": "add a ball", **fields}
    )


def test_it_is_found_by_name() -> None:
    found = judge_from("instruments")
    assert isinstance(found, InstrumentsJudge)
    assert isinstance(found, Judge)
    assert found.name == "instruments"
    assert split_spec("instruments") == ("instruments", "")


def test_it_is_asked_where_no_judge_is_named() -> None:
    made = judge("edit-preservation", edit())
    assert made.judge == "instruments"
    assert made.outcome is Outcome.SCORED


def test_its_identity_covers_its_version_and_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    first = InstrumentsJudge()
    before = first.identity
    name, version, weights = json.loads(before)
    assert name == "instruments"
    assert len(weights) == 64
    assert weights[:8] in first.model
    assert version in first.model
    assert judge_identity("instruments", None, {"max_side": 512}) == first.identity
    monkeypatch.setattr("beholder.judges.offline.judge._weights_digest", lambda: "0" * 64)
    assert InstrumentsJudge().identity != before


def test_it_gets_the_originals_and_asks_nobody() -> None:
    sizing = judge_sizing("instruments", {})
    assert sizing.max_side is sizing.max_bytes is None
    assert judge_sizing("instruments", {"max_side": 200, "detail": "low"}).max_side == 200
    assert not uses_custom_base_url("instruments", None)
    made = on_edit(photo(), with_ball(photo()))
    assert made.cost_usd == Decimal(0)
    assert made.usage == {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0}
    assert made.attempts == 1
    assert made.model is not None
    assert made.model.startswith("instruments ")
    assert not made.images[0].scaled


def test_it_says_that_it_measured_and_did_not_see() -> None:
    made = judge("edit-preservation", edit())
    [flag] = [flag for flag in made.flags if flag.flag == "measured_not_seen"]
    assert flag.why.startswith("measured, not seen")
    region = made.measurements["locality.region"]
    assert isinstance(region, dict)
    assert region["value"] > 0
    assert region["sentence"].endswith(".")


async def test_the_same_brief_has_the_same_answer() -> None:
    from beholder.rubrics.brief import Composer
    from beholder.runs.case import make_brief
    from beholder.runs.image_pool import ImagePool

    for name, case in (("edit-preservation", edit()), ("description", Case("d", {}, FIELDS))):
        one = InstrumentsJudge()
        rubric = Rubric.load(name)
        sizing = one.sizing if capabilities_of(one).needs_images(rubric) else None
        brief = await make_brief(Composer(rubric), case, sizing, ImagePool(workers=0))
        texts = {(await one.answer(brief, sample=sample)).text for sample in range(3)}
        assert len(texts) == 1


def test_a_description_needs_no_image() -> None:
    made = judge("description", Case("d", {}, FIELDS))
    assert made.outcome is Outcome.SCORED
    assert made.coverage is None
    assert made.score is not None
    assert made.images == ()
    assert set(made.findings) == {"hallucinations", "missing_elements", "strengths", "improvements"}
    assert any("spoon" in one for one in made.findings["missing_elements"])
    assert judge("description", Case("d", {"image": "nowhere.png"}, FIELDS)).score == made.score


def test_what_the_expected_text_does_not_support_is_named_as_that() -> None:
    said = {**FIELDS, "output": "A red elephant beside a cup of coffee on a wooden table."}
    made = judge("description", Case("d", {}, said))
    assert any("elephant" in one and "expected" in one for one in made.findings["hallucinations"])


def test_without_an_expected_description_accuracy_is_left_open() -> None:
    fields = {key: text for key, text in FIELDS.items() if key != "expected_output"}
    made = judge("description", Case("d", {}, fields))
    assert [made.criteria[key].score for key in ("visual_accuracy", "completeness")] == [None, None]
    assert (made.score, made.grade, made.passed) == (None, None, None)
    assert made.coverage is not None
    assert made.coverage.what == "criteria"


def test_a_model_still_needs_the_image() -> None:
    with pytest.raises(CaseError, match="image"):
        judge("description", Case("d", {}, FIELDS), judge=[ScriptedJudge({"criteria": {}}), "instruments"])


def test_a_jury_with_a_model_has_its_answers_for_what_is_left_open(tmp_path: Path) -> None:
    said = {key: {"justification": " ".join(["word"] * 20), "score": 3} for key in
            ("unchanged_regions", "global_consistency", "identity_preservation")}  # fmt: skip
    other = png(photo("chelsea")[: photo().shape[0], : photo().shape[1]])
    case = Case("c", {"input": png(photo("astronaut")[:200, :300]), "edited": other}, {"instruction": "x"})
    made = judge("edit-preservation", case, judge=[ScriptedJudge({"criteria": said}), "instruments"])
    assert [one.score for one in made.criteria.values()] == [3, 3, 3]
    assert made.coverage is None
    assert made.jury is not None
    assert [juror.score for juror in made.jury.jurors] == [pytest.approx(1 / 3), None]
    assert (made.jury.answered, made.jury.unmeasured, made.jury.failed) == (1, 1, 0)
    assert "jurors_failed" not in {flag.flag for flag in made.flags}
    assert any(flag.flag == "measured_not_seen" and flag.at.startswith("juror 2") for flag in made.flags)


@pytest.mark.parametrize("name", ["edit-quality", "edit-fidelity", "restyle-confidence"])
def test_what_it_cannot_answer_it_says_before_any_case_is_begun(name: str) -> None:
    style = {"style": "Anime"} if name == "restyle-confidence" else {"instruction": "x"}
    roles = Rubric.load(name).roles
    case = Case("c", dict.fromkeys(roles, "nowhere.png"), style)
    with pytest.raises(SetupError) as error:
        judge(name, case)
    assert str(error.value).startswith(f"The judge instruments cannot answer {name}: ")
    assert "edit-preservation, restyle, description" in str(error.value)
    assert "openai:gpt-5-mini" in str(error.value)


def test_of_a_family_it_answers_its_part_and_leaves_the_others_open() -> None:
    check_judges([InstrumentsJudge()], load_rubrics("edit"))
    made = list(judge_rubrics("edit", edit()).values())
    assert [one.rubric for one in made] == ["edit-preservation", "edit-quality", "edit-fidelity"]
    assert made[0].score == 1
    assert [one.coverage for one in made] == [None, Coverage(0, 6, "factors"), Coverage(0, 3, "factors")]
    assert made[1].score is None
    assert "reason_length" not in {flag.flag for one in made for flag in one.flags}


def test_models_are_asked_what_they_always_were() -> None:
    scripted = ScriptedJudge("x")
    assert not capabilities_of(scripted).abstains
    assert capabilities_of(scripted).needs_images(Rubric.load("description"))
    check_judges([scripted], [Rubric.load("edit-quality")])


def test_a_judge_says_what_it_can_do_as_one_value_or_as_attributes() -> None:
    class ByAttributes(ScriptedJudge):
        abstains = True

        def needs_images(self, rubric: Rubric) -> bool:
            return False

        def objection(self, rubric: Rubric) -> str:
            return f"not {rubric.name}"

    class ByValue(ScriptedJudge):
        capabilities = Capabilities(
            abstains=True, needs_images=lambda rubric: False, objection=lambda rubric: f"not {rubric.name}"
        )

    rubric = Rubric.load("edit-quality")
    for one in (ByAttributes("x"), ByValue("x")):
        can = capabilities_of(one)
        assert (can.abstains, can.answers_later, can.needs_images(rubric)) == (True, False, False)
        with pytest.raises(SetupError, match="not edit-quality"):
            check_judges([one], [rubric])


def test_starting_it_loads_neither_numpy_nor_opencv() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from beholder.judges.offline.judge import InstrumentsJudge; InstrumentsJudge().identity;"
        "print(sorted({'numpy', 'cv2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
