"""A rubric of one's own needs no code, and a mistake in it is a sentence with its line and key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.schemas import schema_of

from beholder.cases.case import Case
from beholder.errors import RubricError, UsageError
from beholder.rubrics import builtin_folder
from beholder.rubrics.brief import Brief, Composer
from beholder.rubrics.load import list_rubrics, load_rubrics, load_styles
from beholder.rubrics.rubric import Rubric
from beholder.rubrics.yaml_files import read_yaml
from beholder.verdicts.score import VerdictHeader, score_answer

GOOD = """\
rubric: mine
images:
  - {role: photo, label: Photo}
criteria:
  - key: sharp
    weight: 2
  - key: calm
    scale: [0, 10]
"""

# what is put in place of what -> the line and key it is complained about at, and a word of the complaint
MISTAKES = {
    "negative weight": ("weight: 2", "weight: -2", 6, "criteria[0].weight", "0 or more"),
    "duplicate criterion": ("key: calm", "key: sharp", 7, "criteria[1].key", "twice"),
    "bad key": ("key: calm", "key: Very calm", 7, "criteria[1].key", "lower-case"),
    "key that is taken": ("key: calm", "key: criteria", 4, "criteria", "holds the criteria"),
    "scale upside down": ("[0, 10]", "[10, 0]", 8, "criteria[1].scale", "in this order"),
    "scale of one number": ("[0, 10]", "[0]", 8, "criteria[1].scale", "length 2"),
    "scale without end": ("[0, 10]", "[0, .inf]", 8, "criteria[1].scale", "highest"),
    "scale of 400 digits": ("[0, 10]", f"[0, 1{'0' * 400}]", 8, "criteria[1].scale", "highest"),
    "broken whole scale": ("[0, 10]", "[0.5, 10]", 8, "criteria[1].scale", "whole: false"),
    "weight as text": ("weight: 2", "weight: heavy", 6, "criteria[0].weight", "should be a number and is a text"),
    "weight as a boolean": ("weight: 2", "weight: true", 6, "criteria[0].weight", "a number and is true or false"),
    "weight without end": ("weight: 2", "weight: .inf", 6, "criteria[0].weight", "too large; a weight is at most"),
    "weight that is no number": ("weight: 2", "weight: .nan", 6, "criteria[0].weight", "0 or more"),
    "unknown key": ("weight: 2", "wieght: 2", 6, "criteria[0].wieght", "not a key that is known"),
    "key twice": ("weight: 2", "weight: 2\n    weight: 3", 7, "criteria[0].weight", "twice"),
    "missing label": ("label: Photo", "about: x", 3, "images[0]", "`label` is missing"),
    "not YAML": ("rubric: mine", "rubric: [mine", 2, "", "not valid YAML"),
    "tagged as a whole number": ("weight: 2", "weight: !!int x", 6, "", "cannot be read"),
    "tagged as a number": ("weight: 2", "weight: !!float z", 6, "", "cannot be read"),
    "day that is none": ("weight: 2", "weight: 2026-13-45", 6, "", "cannot be read"),
    "list in itself": ("[0, 10]", "&a [*a]", 8, "", "cannot be read"),
    "reserved": ("rubric: mine", "rubric: mine\nsetting: online", 2, "setting", "cannot be set"),
    "anchor off the scale": ("[0, 10]", "[0, 10]\n    anchors: {11: x}", 9, "criteria[1].anchors", "not on the scale"),
    "anchor that is no score": ("[0, 10]", "[0, 10]\n    anchors: {best: x}", 9, "criteria[1].anchors", "not on the"),
}  # fmt: skip

# lines that are added at the end (line 9) -> key, a word of the complaint
ADDED = {
    "scoring: {kind: geometric}": ("scoring.kind", "weighted_total, weighted_mean, factors"),
    "scoring: {not_applicable: maybe}": ("scoring.not_applicable", "accept, offer, refuse"),
    "scoring: {criterion_score: guess}": ("scoring.criterion_score", "given, confidence"),
    "scoring: {threshold: 70}": ("scoring.threshold", "between 0 and 1"),
    "scoring: {threshold: .nan}": ("scoring.threshold", "between 0 and 1"),
    "scoring: {ceiling: [5, 4]}": ("scoring.ceiling", "needs assertions"),
    "scoring: {guidance: [.nan]}": ("scoring.guidance", "list of scores"),
    "scoring: {criterion_score: confidence}": ("criteria[0]", "needs assertions"),
    "scoring: {not_applicable: offer}": ("scoring.not_applicable", "needs assertions"),
    "scoring: {gates: [{finding: lies}]}": ("scoring.gates[0].finding", "not a finding"),
    "scoring: {gates: [{criterion: loud, least: 1}]}": ("scoring.gates[0].criterion", "calm, sharp"),
    "scoring: {gates: [{criterion: calm}]}": ("scoring.gates[0]", "least"),
    "scoring: {gates: [{criterion: calm, least: .inf}]}": ("scoring.gates[0]", "least"),
    "scoring: {gates: [{}]}": ("scoring.gates[0]", "either"),
    "scoring: {grades: [{grade: a, least: 0}, {grade: b, least: 0.5}]}": ("scoring.grades", "best grade down"),
    "scoring: {grades: [{grade: a, least: 0.5}]}": ("scoring.grades", "least: 0"),
    "scoring: {grades: [{grade: a, least: 90}, {grade: b}]}": ("scoring.grades[0].least", "above the highest"),
    "scoring: {grades: [{grade: a, least: .nan}, {grade: b}]}": ("scoring.grades", "number"),
    "findings: [{key: criteria}]": ("findings[0].key", "another part"),
    "findings: [{key: a}, {key: a}]": ("findings[1].key", "twice"),
    "reason: {words: [30, 15]}": ("reason.words", "least and the most"),
    "reason: {key: score}": ("reason.key", "of its own"),
    "echo: assessment": ("echo", "of its own"),
    "settings: {near: {images: [other], results: r}}": ("settings.near.images", "photo"),
    "styles: true": ("criteria", "letter"),
    "version: 1.0": ("version", "should be a text and is a number"),
    "styles: 3": ("styles", "should be true or false and is a whole number"),
    "reason: {words: [15.5, 30]}": ("reason.words[0]", "should be a whole number and is a number"),
    "fields: {name: a}": ("fields", "should be a list and is a mapping"),
    "findings: [lies]": ("findings[0]", "should be a mapping and is a text"),
    "prompt: '{{ oops'": ("", "no valid template"),
}


def mistake(path: Path) -> RubricError:
    with pytest.raises(RubricError) as caught:
        Rubric.load(path)
    return caught.value


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_at_its_line_and_key(name: str, rubric_file: Callable[..., Path]) -> None:
    before, after, line, key, word = MISTAKES[name]
    assert GOOD.count(before) == 1
    error = mistake(rubric_file(GOOD.replace(before, after)))
    assert [one for one in error.problems if (one.line, one.key) == (line, key) and word in one.message], str(error)
    assert f"line {line}" in str(error)
    assert "mine.yaml" in str(error)


@pytest.mark.parametrize("line", ADDED)
def test_a_mistake_in_how_it_is_scored_is_named(line: str, rubric_file: Callable[..., Path]) -> None:
    key, word = ADDED[line]
    error = mistake(rubric_file(GOOD + line + "\n"))
    assert [one for one in error.problems if one.key == key and word in one.message and one.line], str(error)


def test_every_problem_is_told_at_once(rubric_file: Callable[..., Path]) -> None:
    text = GOOD.replace("weight: 2", "weight: -1").replace("[0, 10]", "[3, 3]") + "scoring: {threshold: 7}\n"
    keys = [one.key for one in mistake(rubric_file(text)).problems]
    assert sorted(keys) == ["criteria[0].weight", "criteria[1].scale", "scoring.threshold"]


MANY = """\
rubric: Mine
version: 1.0
titel: typo
images:
  - {role: photo}
  - {role: mask, label: Mask, colour: red}
criteria:
  - key: sharp
    weight: heavy
    scale: [3, 3]
    anchors: {9: nine}
  - key: calm
    wieght: 2
    weight: -1
    scale: [0, ten]
    anchors: {7: beyond the default scale}
    weight: 3
  - titel: nameless
    assertions: [Is it?, {txt: typo}]
settings: {near: {images: [photo, other], results: r}}
setting: near
scoring:
  kind: geometric
  threshold: 70
  ceiling: [5, 4]
  gates: [{finding: lies}, {criterion: nameless, least: 1}]
  grades: [{grade: A, least: 90}, {grade: B, least: 0}]
"""


def test_one_mistake_hides_no_other(rubric_file: Callable[..., Path]) -> None:
    """Shapes, typos, keys that stand twice and what does not go together, in the order of the lines."""
    error = mistake(rubric_file(MANY))
    assert [(one.line, one.key, one.message) for one in error.problems] == [
        (1, "rubric", "'Mine' should be lower-case letters, digits and hyphens"),
        (2, "version", "should be a text and is a number"),
        (3, "titel", "is not a key that is known here"),
        (5, "images[0]", "`label` is missing"),
        (6, "images[1].colour", "is not a key that is known here"),
        (9, "criteria[0].weight", "should be a number and is a text"),
        (10, "criteria[0].scale", "[3, 3] should be the lowest and the highest score, in this order"),
        (11, "criteria[0].anchors", "'9' is not on the scale 3–3"),
        (13, "criteria[1].wieght", "is not a key that is known here"),
        (14, "criteria[1].weight", "-1 should be 0 or more"),
        (15, "criteria[1].scale[1]", "should be a number and is a text"),
        (17, "criteria[1].weight", "stands here twice"),
        (18, "criteria[2].titel", "is not a key that is known here"),
        (18, "criteria[2]", "`key` is missing"),
        (19, "criteria[2].assertions[1].txt", "is not a key that is known here"),
        (19, "criteria[2].assertions[1]", "`text` is missing"),
        (20, "settings.near.images", "'other' is not among the images (mask, photo)"),
        (21, "setting", "this key cannot be set in a file; remove it"),
        (23, "scoring.kind", "'geometric' is not one of weighted_total, weighted_mean, factors"),
        (24, "scoring.threshold", "70 should be between 0 and 1"),
        (26, "scoring.gates[0].finding", "'lies' is not a finding of this rubric (there are none)"),
    ]  # nothing of what leans on a wrong value: grades on the kind, ceiling on a scale, a gate on a missing key


def test_a_style_is_no_rubric(rubric_file: Callable[..., Path]) -> None:
    [problem] = mistake(rubric_file(STYLE)).problems
    assert "looks like a style, not a rubric" in problem.message


def test_a_style_file_cannot_say_that_it_is_the_generic_set(rubric_file: Callable[..., Path]) -> None:
    folder = rubric_file(STYLE + "generic: true\nnear: Anime\n", "styles/fresco.yaml").parent
    with pytest.raises(RubricError) as caught:
        load_styles([folder])
    assert [one.key for one in caught.value.problems] == ["generic", "near"]


def test_something_must_be_asked_and_count(rubric_file: Callable[..., Path]) -> None:
    start = GOOD[: GOOD.index("criteria")]
    assert "at least one criterion" in str(mistake(rubric_file(start + "criteria: []\n")))
    assert "above 0" in str(mistake(rubric_file(start + "criteria: [{key: a, weight: 0}, {key: b, weight: 0}]\n")))
    assert "at least one image" in str(mistake(rubric_file("rubric: mine\ncriteria: [{key: a}]\n")))


def test_a_total_needs_scales_that_add_up(rubric_file: Callable[..., Path]) -> None:
    text = GOOD.replace("[0, 10]", "[-3, 3]")
    assert Rubric.load(rubric_file(text)).criteria[1].scale == (-3, 3)
    error = mistake(rubric_file(text + "scoring: {kind: weighted_total}\n"))
    assert [(one.key, one.line) for one in error.problems] == [("criteria[1].scale", 8)]


def test_a_ceiling_stays_on_the_scale(rubric_file: Callable[..., Path]) -> None:
    text = GOOD.replace("weight: 2", "assertions: [Is it sharp?]") + "scoring: {ceiling: [5, 0]}\n"
    assert "not on the scale 1–5" in str(mistake(rubric_file(text)))


def test_assertions_have_ids_of_their_own(rubric_file: Callable[..., Path]) -> None:
    text = GOOD.replace("weight: 2", "letter: S\n    assertions: [{text: One?, id: S2}, Two?]")
    error = mistake(rubric_file(text))
    assert error.problems[0].key == "criteria[0].assertions[1].id"
    fine = Rubric.load(rubric_file(text.replace(", id: S2", "")))
    assert [one.id for one in fine.assertions()] == ["S1", "S2"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("just text\n", "should be a mapping and is a text"),
        ("- a\n- b\n", "should be a mapping and is a list"),
        ("a: " + "9" * 5000, "cannot be read (a number with thousands of digits)"),
        ("[" * 100_000, "nested"),
        ("- " * 10_000, "nested"),
        ("a: &a [*a]\n", "cannot be read"),
        ("a: !!python/object/apply:os.system [ls]\n", "not a key"),
        ("a: !!python/name:os.system x\n", "not valid YAML"),
        ("? [a, b]\n: c\n", "plain text"),
        ("a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(8)), "more than"),
        ("rubric: mine\n---\nrubric: other\n", "not valid YAML"),
        ("x: " + "y" * 2_000_000, "at most"),
    ],
)  # fmt: skip
def test_no_file_is_too_broken_for_a_sentence(text: str, word: str, rubric_file: Callable[..., Path]) -> None:
    assert word in str(mistake(rubric_file(text)))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "rubric.yaml").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in str(mistake(tmp_path))
    (tmp_path / "rubric.yaml").write_text(GOOD)
    (tmp_path / "prompt.md.j2").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in str(mistake(tmp_path))


def test_a_folder_a_file_and_a_name_are_found(rubric_file: Callable[..., Path]) -> None:
    path = rubric_file(GOOD, "folder/rubric.yaml")
    (path.parent / "prompt.md.j2").write_text("Look at {{ criteria[0].name }}.\n")
    assert Rubric.load(path.parent).prompt == Rubric.load(str(path.parent)).prompt
    assert Rubric.load(rubric_file(GOOD)).criteria[1].scale == (0, 10)
    with pytest.raises(UsageError, match="Did you mean 'restyle'"):
        Rubric.load("restile")
    with pytest.raises(UsageError, match="stands for several rubrics"):
        Rubric.load("edit")
    assert [one.name for one in load_rubrics("edit")] == ["edit-preservation", "edit-quality", "edit-fidelity"]
    assert set(list_rubrics()) == {
        "description",
        "description-preference",
        "edit",
        "edit-fidelity",
        "edit-preference",
        "edit-preservation",
        "edit-quality",
        "generation-preference",
        "restyle",
        "restyle-confidence",
        "restyle-preference",
    }


def test_the_prompt_of_a_folder_stands_in_one_place(rubric_file: Callable[..., Path]) -> None:
    path = rubric_file(GOOD + "prompt: hello\n", "folder/rubric.yaml")
    (path.parent / "prompt.md.j2").write_text("hello")
    assert "keep one" in str(mistake(path.parent))


@pytest.mark.parametrize("prompt", ["{{ nobody.here }}", "{{ 1 / 0 }}", "{{ criteria[99].name }}", "{{ rubric + 1 }}",
                                    "{{ rubric.__class__.__mro__ }}", "{% include 'nothing' %}"])  # fmt: skip
def test_a_prompt_that_cannot_be_rendered_is_a_rubric_error(
    prompt: str, rubric_file: Callable[..., Path], compose: Callable[..., Brief]
) -> None:
    rubric = Rubric.load(rubric_file(GOOD + f'prompt: "{prompt}"\n'))
    with pytest.raises(RubricError, match="the prompt of mine"):
        compose(rubric, fields={})


def test_the_rubric_that_a_newcomer_starts_from_works(compose: Callable[..., Brief]) -> None:
    rubric = Rubric.load(builtin_folder / "_shared" / "start.yaml")
    brief = compose(rubric, fields={"product": "a cup"})
    assert "P3. Is the writing on the product legible?" in brief.system
    answer = {
        "defects": [],
        "criteria": {
            "product_visible": {
                "assertions": {
                    "P1": {"answer": "Yes", "evidence": "x"},
                    "P2": {"answer": "No", "evidence": "x"},
                    "P3": {"answer": "N/A", "evidence": "x"},
                },
                "score": 5,
                "reason": "x",
            },
            "background": {"reason": "x", "score": 5},
        },
        "assessment": "x",
    }
    verdict = score_answer(VerdictHeader("c", rubric, "j"), json.dumps(answer))
    # One failure allows 4: (2·4 + 1·5) of (2·5 + 1·5) = 13/15.
    assert (verdict.total, verdict.max_total, verdict.grade, verdict.passed) == (13, 15, "shop", True)


def test_the_word_for_a_reason_is_the_users(rubric_file: Callable[..., Path], compose: Callable[..., Brief]) -> None:
    rubric = Rubric.load(rubric_file(GOOD + "reason: {key: rationale, words: [2, 3]}\n"))
    criteria = schema_of(compose(rubric, fields={}))["properties"]["criteria"]["properties"]
    assert list(criteria["sharp"]["properties"]) == ["rationale", "score"]
    answer = {"criteria": {key: {"rationale": "quite sharp", "score": 3} for key in ("sharp", "calm")}}
    verdict = score_answer(VerdictHeader("c", rubric, "j"), json.dumps(answer))
    assert verdict.criteria["sharp"].reason == "quite sharp"
    assert not verdict.flags


STYLE = "style: Fresco\ndescription: d\nassertions:\n" + "".join(
    f"  {key}: [Is it?]\n" for key in ("accuracy", "completeness", "relevance", "usefulness", "exceptional")
)


def test_a_style_that_leaves_a_criterion_without_assertions_is_refused(rubric_file: Callable[..., Path]) -> None:
    case = Case("c", fields={"style": "fresco"})
    folder = rubric_file(STYLE, "styles/fresco.yaml").parent
    rubric = Composer(Rubric.load("restyle"), style_folders=[folder]).rubric_for(case)
    assert [one.id for one in rubric.assertions()] == ["A1", "C1", "R1", "U1", "E1"]
    folder = rubric_file(STYLE.replace("relevance", "relevanse"), "typo/fresco.yaml").parent
    with pytest.raises(RubricError, match="none for the criterion 'relevance'"):
        Composer(Rubric.load("restyle"), style_folders=[folder]).rubric_for(case)


def test_a_style_file_is_checked_too(rubric_file: Callable[..., Path]) -> None:
    bad = rubric_file(STYLE.replace("[Is it?]", "[{text: Is it?, id: A1}]").replace("d\n", "' '\n", 1), "s/fresco.yaml")
    with pytest.raises(RubricError) as caught:
        load_styles([bad.parent])
    assert {(one.key, one.line) for one in caught.value.problems} >= {
        ("description", 2),
        ("assertions.accuracy[0].id", 4),
    }
    with pytest.raises(UsageError, match="no folder of styles"):
        load_styles([bad.parent / "nowhere"])


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RubricError, match="cannot be read: No such file"):
        read_yaml(tmp_path / "none.yaml", Rubric, lambda _: [])
