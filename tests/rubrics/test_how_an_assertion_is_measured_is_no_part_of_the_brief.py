"""`measured:` tells a judge that only measures how to answer; no model is told, and no cached answer is lost by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from beholder import Case
from beholder.errors import RubricError
from beholder.images.image import PreparedImage
from beholder.judges.base import identity_for_brief
from beholder.judges.offline.judge import InstrumentsJudge
from beholder.judges.recorded import ScriptedJudge
from beholder.rubrics.brief import Brief, Composer
from beholder.rubrics.load import find_style, load_styles
from beholder.rubrics.rubric import Rubric, Style

IMAGE = PreparedImage(b"x", "image/png", 8, 8, "d" * 64, "d" * 64, 8, 8, "png")


def untagged(style: Style) -> Style:
    bare = {key: tuple(structs.replace(one, measured="") for one in listed) for key, listed in style.assertions.items()}
    return structs.replace(style, assertions=bare)


def brief(style: str, folder: Path | None = None) -> Brief:
    composer = Composer(Rubric.load("restyle"), style_folders=[folder] if folder else [])
    return composer.compose(Case("c", {}, {"style": style}), {"original": IMAGE, "restyled": IMAGE})


def written(style: Style, folder: Path) -> Path:
    import msgspec

    values = msgspec.to_builtins(untagged(style))
    for key in ("generic", "near"):
        values.pop(key)
    for listed in values["assertions"].values():
        for one in listed:
            one.pop("id")
    (folder / "style.yaml").write_bytes(msgspec.yaml.encode(values))
    return folder


@pytest.mark.parametrize("name", ["Anime", "Pop Art", "Storybook"])
def test_a_tag_changes_neither_text_nor_schema_nor_digest(name: str, tmp_path: Path) -> None:
    tagged, bare = brief(name), brief(name, written(load_styles()[name], tmp_path))
    assert any(one.measured for criterion in tagged.criteria for one in criterion.assertions)
    assert not any(one.measured for criterion in bare.criteria for one in criterion.assertions)
    assert (tagged.system, tagged.content, tagged.schema) == (bare.system, bare.content, bare.schema)
    assert tagged.digest == bare.digest


def test_the_generic_set_keeps_its_tags_under_any_name() -> None:
    found = find_style("Stained Glass")
    assert any(one.measured for listed in found.assertions.values() for one in listed)


def test_an_answer_that_was_measured_depends_on_the_tags(tmp_path: Path) -> None:
    tagged, bare = brief("Anime"), brief("Anime", written(load_styles()["Anime"], tmp_path))
    instruments, model = InstrumentsJudge(), ScriptedJudge("x")
    assert identity_for_brief(instruments, tagged) != identity_for_brief(instruments, bare)
    assert identity_for_brief(model, tagged) == identity_for_brief(model, bare) == "scripted"


def test_a_brief_has_the_case_and_the_criteria_as_values() -> None:
    made = brief("Anime")
    assert made.fields == {"style": "Anime"}
    assert [one.key for one in made.criteria] == ["accuracy", "completeness", "relevance", "usefulness", "exceptional"]
    assert made.criteria[0].assertions[0].id == "A1"


def test_a_brief_without_images_is_for_a_judge_that_needs_none() -> None:
    fields = {"input": "a", "output": "b"}
    composer = Composer(Rubric.load("description"))
    without = composer.compose(Case("c", {}, fields), None)
    assert without.images == ()
    assert without.fields == fields
    with_ = composer.compose(Case("c", {}, fields), {"image": IMAGE})
    assert with_.digest != without.digest


STYLE = """style: Mine
description: Mine.
assertions:
  accuracy:
    - {text: "Is it sharp?", measured: sharp}
    - {text: "Is it nice?", measured: nice}
  completeness:
    - {text: "Is it all?", measured: 7}
"""
RUBRIC = """rubric: mine
images: [{role: a, label: A}, {role: b, label: B}]
criteria:
- key: x
  assertions:
  - {text: "Is it sharp?", measured: unless sharp}
"""


def test_an_unknown_check_in_a_style_is_told_at_line_and_key(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(STYLE, "utf-8")
    with pytest.raises(RubricError) as error:
        find_style("Mine", [tmp_path])
    problems = {(one.line, one.key): one.message for one in error.value.problems}
    assert set(problems) == {(6, "assertions.accuracy[1].measured"), (8, "assertions.completeness[0].measured")}
    said = problems[6, "assertions.accuracy[1].measured"]
    assert said.startswith("'nice' names no check; write one of composition_kept, ")
    assert "`yes if` or `no unless`" in said


def test_an_unknown_check_in_a_rubric_is_told_at_line_and_key(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(RUBRIC, "utf-8")
    with pytest.raises(RubricError) as error:
        Rubric.load(tmp_path / "mine.yaml")
    [problem] = error.value.problems
    assert (problem.line, problem.key) == (6, "criteria[0].assertions[0].measured")
