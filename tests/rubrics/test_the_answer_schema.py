"""The form of an answer: what was observed comes before the score, and nothing that code computes is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema
import pytest
from support.schemas import schema_of

from beholder.rubrics.brief import Brief, Composer
from beholder.rubrics.rubric import NotApplicable, Rubric
from beholder.verdicts.score import VerdictHeader, score_answer

Compose = Callable[..., Brief]
NAMES = ("restyle", "restyle-confidence", "description", "edit-preservation", "edit-quality", "edit-fidelity")


def objects(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every object in a schema, however deep."""
    if schema.get("type") == "object":
        yield schema
        for inner in schema["properties"].values():
            yield from objects(inner)


def smallest(schema: Mapping[str, Any]) -> object:
    """The least value that a schema admits."""
    kind = schema["type"]
    if kind == "object":
        return {key: smallest(inner) for key, inner in schema["properties"].items()}
    if kind in ("integer", "number"):
        return schema["minimum"]
    if kind == "array":
        return []
    return schema["enum"][-1] if "enum" in schema else "seen at the top left"


@pytest.fixture(params=NAMES)
def brief(request: pytest.FixtureRequest, compose: Compose) -> Brief:
    return compose(request.param)


def test_it_is_a_valid_schema_in_which_all_is_required_and_nothing_else_allowed(brief: Brief) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of(brief))
    for one in objects(schema_of(brief)):
        assert one["required"] == list(one["properties"])
        assert one["additionalProperties"] is False


def test_an_answer_that_fits_it_is_scored(brief: Brief) -> None:
    answer = smallest(schema_of(brief))
    jsonschema.validate(answer, schema_of(brief))
    rubric = Composer(Rubric.load(brief.rubric)).rubric_for_style("Anime")
    verdict = score_answer(VerdictHeader("c", rubric, "j"), json.dumps(answer))
    assert verdict.scored, verdict.detail


def test_nothing_that_code_computes_is_asked_for(brief: Brief) -> None:
    asked = {key for one in objects(schema_of(brief)) for key in one["properties"]}
    computed = "pass_rate passed total total_assertions weighted_total percentage grade summary question overall weight"
    assert not asked & set(computed.split())


ORDERS = {
    "restyle": (["criteria", "assessment"], ["assertions", "score", "reason"], ["answer", "evidence"]),
    "restyle-confidence": (["criteria", "assessment"], ["assertions", "reason"], ["answer", "evidence", "confidence"]),
    "description": (
        ["hallucinations", "missing_elements", "strengths", "improvements", "criteria", "assessment"],
        ["reason", "score"],
        [],
    ),
    "edit-preservation": (["image_id", "criteria"], ["justification", "score"], []),
    "edit-quality": (["image_id", "criteria"], ["justification", "score"], []),
    "edit-fidelity": (["image_id", "criteria"], ["justification", "score"], []),
}


@pytest.mark.parametrize("name", NAMES)
def test_observations_come_before_the_score(name: str, compose: Compose) -> None:
    top, inside, assertion = ORDERS[name]
    schema = schema_of(compose(name))
    assert list(schema["properties"]) == top
    criteria = schema["properties"]["criteria"]["properties"]
    assert list(criteria) == [criterion.key for criterion in Rubric.load(name).criteria]
    for block in criteria.values():
        assert list(block["properties"]) == inside
        for one in block["properties"].get("assertions", {}).get("properties", {}).values():
            assert list(one["properties"]) == assertion


def test_scales_are_in_the_schema(compose: Compose) -> None:
    def score(name: str, key: str) -> object:
        return schema_of(compose(name))["properties"]["criteria"]["properties"][key]["properties"]["score"]

    assert score("restyle", "accuracy") == {"type": "integer", "minimum": 1, "maximum": 5}
    assert score("description", "clarity") == {"type": "number", "minimum": 0, "maximum": 1}
    assert score("edit-quality", "seamlessness") == {"type": "integer", "minimum": 1, "maximum": 7}


def answers(mode: NotApplicable, compose: Compose) -> dict[str, list[str]]:
    brief = compose(Rubric.load("restyle").with_scoring(not_applicable=mode))
    return {
        id_: one["properties"]["answer"]["enum"]
        for block in schema_of(brief)["properties"]["criteria"]["properties"].values()
        for id_, one in block["properties"]["assertions"]["properties"].items()
    }


def test_not_applicable_is_offered_where_it_should_be(compose: Compose) -> None:
    """In Anime A2, A3, C3, C4 and E1 are asked only where there are people or animals."""
    conditional = {"A2", "A3", "C3", "C4", "E1"}
    accepting = answers(NotApplicable.ACCEPT, compose)
    assert len(accepting) == 23
    assert {id_ for id_, offered in accepting.items() if "N/A" in offered} == conditional
    assert all(offered[:2] == ["Yes", "No"] for offered in accepting.values())
    assert all(offered == ["Yes", "No", "N/A"] for offered in answers(NotApplicable.OFFER, compose).values())
    assert all(offered == ["Yes", "No"] for offered in answers(NotApplicable.REFUSE, compose).values())


def test_the_text_says_what_the_schema_says(compose: Compose) -> None:
    for mode in NotApplicable:
        brief = compose(Rubric.load("restyle").with_scoring(not_applicable=mode))
        conditional = [line for line in brief.system.splitlines() if "asked only where" in line]
        assert len(conditional) == 5
        assert all(("else N/A" in line) == (mode is not NotApplicable.REFUSE) for line in conditional)
        assert ("or N/A where it makes no sense" in brief.system) == (mode is NotApplicable.OFFER)


@pytest.mark.parametrize("name", NAMES)
def test_the_text_names_the_keys_in_their_order(name: str, compose: Compose) -> None:
    brief = compose(name)
    form = brief.system[brief.system.index("## Your answer") :]
    places = [form.index(f"- `{key}`") for key in schema_of(brief)["properties"]]
    assert places == sorted(places)
    inside = [form.index(f"`{key}`", places[ORDERS[name][0].index("criteria")]) for key in ORDERS[name][1]]
    assert inside == sorted(inside)
