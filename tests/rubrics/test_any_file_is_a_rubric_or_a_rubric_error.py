"""Whatever stands in a rubric's file: it is refused with a reason, or it can be asked and scored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.schemas import schema_of

from beholder.cases.case import Case
from beholder.errors import RubricError
from beholder.rubrics import builtin_folder
from beholder.rubrics.brief import Brief, Composer
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.score import VerdictHeader, score_answer

START = yaml.safe_load((builtin_folder / "_shared" / "start.yaml").read_text("utf-8"))
NUMBERS = (
    st.integers(-3, 6) | st.sampled_from([0.5, -1e9, 1e308, 10**30, float("nan"), float("inf"), -0.0]) | st.floats(0, 1)
)
ODD = st.one_of(
    NUMBERS,
    st.none(),
    st.booleans(),
    st.sampled_from(
        ["", "criteria", "score", "weighted_mean", "factors", "confidence", "offer", "refuse", "P1", "x y", "é"]
    ),
    st.lists(NUMBERS, max_size=4),
    st.builds(dict),
)


def paths(value: object, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The place of everything inside a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for key, one in inner for path in paths(one, (*here, key)))]


def changed(value: object, path: tuple[str | int, ...], new: object, gone: bool) -> object:
    """The document with `new` at `path`, or without what stands there."""
    if not path:
        return new
    copy = value.copy()  # type: ignore[attr-defined]
    if len(path) == 1 and gone:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(copy[path[0]], path[1:], new, gone)
    return copy


def best(schema: Mapping[str, Any]) -> object:
    """The highest answer that a schema admits."""
    if schema["type"] == "object":
        return {key: best(inner) for key, inner in schema["properties"].items()}
    if schema["type"] in ("integer", "number"):
        return schema["maximum"]
    return [] if schema["type"] == "array" else "Yes"


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any") / "any.yaml"


@settings(max_examples=400, deadline=None)
@given(changes=st.lists(st.tuples(st.sampled_from(paths(START)), ODD, st.booleans()), min_size=1, max_size=3))
def test_a_changed_rubric_is_refused_or_can_be_asked_and_scored(
    changes: list[tuple[tuple[str | int, ...], object, bool]], place: Path, compose: Callable[..., Brief]
) -> None:
    document: object = START
    for path, new, gone in changes:
        if path in paths(document):
            document = changed(document, path, new, gone)
    place.write_text(yaml.safe_dump(document, allow_unicode=True), "utf-8")
    try:
        rubric = Rubric.load(place)
    except RubricError:
        return
    fields = {field.name: "x" for field in rubric.fields}
    brief = compose(rubric, fields=fields)
    settled = Composer(rubric).rubric_for(Case("c", fields=fields))
    verdict = score_answer(VerdictHeader("c", settled, "j"), json.dumps(best(schema_of(brief))))
    assert verdict.scored, verdict.detail
    assert verdict.score is None or 0 <= verdict.score <= 1
    json.dumps(verdict.to_dict(), allow_nan=False)


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("rubic:-[]{}&*!|>'\"#%@, \n\t0.é?"), max_size=60))
def test_any_text_is_refused_with_a_reason(text: str, place: Path) -> None:
    place.write_text(text, "utf-8")
    with pytest.raises(RubricError):
        Rubric.load(place)
