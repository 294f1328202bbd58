"""Places in an answer are checked boxes; what is none is left out, and costs nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from beholder.rubrics.prompt import make_answer_schema, render_system_prompt
from beholder.rubrics.rubric import Rubric
from beholder.rubrics.validate import find_rubric_problems
from beholder.verdicts.verdict import Place, Verdict

Answer = Callable[..., dict[str, Any]]
Judge = Callable[..., Verdict]
BOX = {"left": 0.1, "top": 0.2, "right": 0.5, "bottom": 0.75}


@pytest.fixture
def asked(rubrics: dict[str, Rubric]) -> Rubric:
    """A rubric that asks for places."""
    return structs.replace(rubrics["restyle"], places=True)


def place(**changes: object) -> dict[str, object]:
    return {"at": "A1", "image": "restyled", "box": BOX, **changes}


def test_places_are_asked_for_where_the_rubric_wants_them(asked: Rubric, rubrics: dict[str, Rubric]) -> None:
    plain = rubrics["restyle"]
    assert "places" in json.dumps(make_answer_schema(asked))
    assert "`places`" in render_system_prompt(asked)
    assert render_system_prompt(structs.replace(plain, places=False)) == render_system_prompt(plain)
    assert "places" not in json.dumps(make_answer_schema(plain))


def test_places_are_read(asked: Rubric, verdict: Judge, restyle: Answer) -> None:
    label = asked.image("restyled").label
    given = [place(), place(at="accuracy", image=label, box=[0, 0, 1, 0.5]), place(image="", box=BOX)]
    made = verdict(asked, restyle() | {"places": given})
    assert made.places == (
        Place("A1", ((0.1, 0.2, 0.5, 0.75),), "restyled"),
        Place("accuracy", ((0, 0, 1, 0.5),), "restyled"),
        Place("A1", ((0.1, 0.2, 0.5, 0.75),)),
    )
    assert made.to_dict()["places"][0] == {"at": "A1", "boxes": [[0.1, 0.2, 0.5, 0.75]], "role": "restyled"}
    assert Verdict.from_dict(made.to_dict()).places == made.places


def test_a_role_of_several_images_has_no_places(asked: Rubric, verdict: Judge, restyle: Answer) -> None:
    first, second = asked.images
    several = structs.replace(asked, images=(structs.replace(first, many=True), second))
    one = make_answer_schema(several)["properties"]["places"]["items"]["properties"]["image"]  # type: ignore[index]
    assert one["enum"] == [second.label]
    assert f"as above; only {second.label})" in render_system_prompt(several)
    assert "as above)" in render_system_prompt(asked)
    given = [place(image=name) for name in (first.label, first.role, second.label)]
    made = verdict(several, restyle() | {"places": given})
    assert [found.role for found in made.places or ()] == [second.role]
    assert find_rubric_problems(several) == []
    none = structs.replace(asked, images=tuple(structs.replace(image, many=True) for image in asked.images))
    assert [problem.key for problem in find_rubric_problems(none)] == ["places"]


@pytest.mark.parametrize(
    "given",
    [
        None,
        "upper left",
        {"A1": BOX},
        ["A1"],
        [place(at="Z9")],
        [place(at=7)],
        [place(image="photo of somebody else")],
        [place(box=None)],
        [place(box=[0.1, 0.2, 0.5])],
        [place(box=[10, 20, 500, 750])],  # pixels
        [place(box=[0.5, 0.2, 0.1, 0.75])],
        [place(box=[0.1, 0.2, 0.5, float("nan")])],
        [place(box={"left": "far", "top": 0, "right": 1, "bottom": 1})],
    ],
    ids=str,
)
def test_what_is_no_place_costs_nothing(given: object, asked: Rubric, verdict: Judge, restyle: Answer) -> None:
    plain = verdict(asked, restyle())
    assert plain.places is None
    assert "places" not in plain.to_dict()
    if "nan" not in json.dumps(given).casefold():
        made = verdict(asked, restyle() | {"places": given})
        assert (made.score, made.flags, made.places) == (plain.score, plain.flags, None)


def test_places_that_nobody_asked_for_are_left_out(verdict: Judge, restyle: Answer) -> None:
    made = verdict("restyle", restyle() | {"places": [place()]})
    assert made.places is None
    assert made.score is not None
