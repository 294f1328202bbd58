"""Whatever a judge answers, the end is a scored verdict or `invalid` with a reason; never an exception."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.rubrics.rubric import Rubric
from beholder.verdicts.observe import AnswerContext
from beholder.verdicts.score import VerdictHeader, score_answer
from beholder.verdicts.seed_format import to_seed_format
from beholder.verdicts.verdict import Outcome, Verdict

Answer = Callable[..., dict[str, Any]]
NAMES = ["restyle", "restyle-confidence", "description", "edit-preservation online", "edit-quality offline"]
WORDS = st.sampled_from(
    re.findall(
        r"\w+",
        """criteria assertions scores dimensions details results online_factor_results offline_factor_results score
        reason justification reasoning assessment overall_assessment summary id question answer evidence confidence
        pass_rate passed total percentage grade accuracy completeness relevance usefulness visual_accuracy clarity
        hallucinations unchanged_regions global_consistency identity_preservation image_id findings A1 Accuracy""",
    )
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(0, 7), st.floats(), st.text(max_size=12), WORDS,
    st.sampled_from(["Yes", "No", "N/A", "abstain", "4/5", "6", "0.5", 10**400, -(10**400), 0.5, 1e308]),
    st.sampled_from(["\ud800", "\0"]),
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=6),
    max_leaves=30,
)


def sound(rubric: Rubric, verdict: Verdict) -> None:
    """What holds of every verdict on an answer: a scored one has a score, unless its judge left too much open."""
    text = json.dumps(verdict.to_dict(), allow_nan=False)
    assert isinstance(json.loads(text), dict)
    if verdict.outcome is Outcome.INVALID:
        assert verdict.detail
        assert (verdict.score, verdict.total, verdict.grade, verdict.passed) == (None,) * 4
        assert not verdict.criteria
        return
    assert verdict.outcome is (Outcome.UNMEASURED if verdict.score is None else Outcome.SCORED)
    assert set(verdict.criteria) == {criterion.key for criterion in rubric.criteria}
    for result in verdict.criteria.values():
        assert result.score is None or result.scale[0] <= result.score <= result.scale[1]
    if verdict.coverage is not None:
        assert 0 <= verdict.coverage.measured < verdict.coverage.of
        assert sum(one.abstained for one in verdict.criteria.values()) == verdict.coverage.open
    else:
        assert verdict.score is not None  # where nothing applied, there is no verdict to defend
        json.dumps(to_seed_format(verdict, rubric), allow_nan=False)
    assert verdict.score is None or 0 <= verdict.score <= 1


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    text=st.text(max_size=200) | st.text(st.sampled_from('{}[]",:0123. \n`eE-truefalsn'), max_size=80),
)
def test_any_text(name: str, text: str, rubrics: dict[str, Rubric]) -> None:
    sound(rubrics[name], score_answer(VerdictHeader("c", rubrics[name], "j"), text, AnswerContext(label="case-1")))


@settings(max_examples=400, deadline=None)
@given(name=st.sampled_from(NAMES), value=VALUES)
def test_any_json(name: str, value: object, rubrics: dict[str, Rubric]) -> None:
    made = score_answer(VerdictHeader("c", rubrics[name], "j"), json.dumps(value), AnswerContext(label="case-1"))
    sound(rubrics[name], made)
    json.dumps(made.to_dict(), ensure_ascii=False).encode("utf-8")  # half a surrogate pair would not pass
    if isinstance(value, dict):  # as a caller of the library may hand it in
        sound(rubrics[name], score_answer(VerdictHeader("c", rubrics[name], "j"), value, AnswerContext(label="case-1")))


def paths(value: object, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for key, one in inner for path in paths(one, (*here, key)))]


def changed(value: object, path: tuple[str | int, ...], what: str, new: object) -> object:
    """The document with what stands at `path` replaced, removed, renamed or doubled."""
    if not path:
        return new
    copy = value.copy()  # type: ignore[attr-defined]
    key, *rest = path
    if rest:
        copy[key] = changed(copy[key], tuple(rest), what, new)
    elif what == "remove":
        del copy[key]
    elif what == "rename" and isinstance(copy, dict):
        copy = {(str(new) if one == key else one): inner for one, inner in copy.items()}
    elif what == "double" and isinstance(copy, list):
        copy.append(copy[key])  # type: ignore[index]  # the key of a list is a number
    else:
        copy[key] = new
    return copy


@pytest.fixture(scope="session")
def valid(
    rubrics: dict[str, Rubric], restyle: Answer, description: Answer, factors: Answer
) -> dict[str, list[dict[str, Any]]]:
    """Valid answers to each rubric, compact and published."""
    quality = {one.key: {"score": 4, "justification": "x"} for one in rubrics["edit-quality offline"].criteria}
    compact = {
        "restyle": restyle(),
        "restyle-confidence": restyle(confidence={}),
        "description": description(),
        "edit-preservation online": factors(),
        "edit-quality offline": {"image_id": "case-1", "criteria": quality},
    }
    made = {name: score_answer(VerdictHeader("c", rubrics[name], "j"), answer) for name, answer in compact.items()}
    return {name: [compact[name], to_seed_format(made[name], rubrics[name])] for name in NAMES}


@settings(max_examples=600, deadline=None)
@given(data=st.data(), name=st.sampled_from(NAMES), form=st.integers(0, 1), abstains=st.booleans())
def test_any_change_of_a_valid_answer(
    data: st.DataObject,
    name: str,
    form: int,
    abstains: bool,
    rubrics: dict[str, Rubric],
    valid: dict[str, list[dict[str, Any]]],
) -> None:
    document: object = valid[name][form]
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(paths(document)))
        what = data.draw(st.sampled_from(["replace", "remove", "rename", "double"]))
        document = changed(document, path, what, data.draw(LEAVES | st.builds(list) | st.builds(dict)))
    text = json.dumps(document)
    made = score_answer(
        VerdictHeader("c", rubrics[name], "j"), text, AnswerContext(label="case-1", may_abstain=abstains)
    )
    sound(rubrics[name], made)
    assert abstains or made.coverage is None


@settings(max_examples=200, deadline=None)
@given(data=st.data(), name=st.sampled_from(NAMES))
def test_any_damage_to_the_text_of_a_valid_answer(
    data: st.DataObject, name: str, rubrics: dict[str, Rubric], valid: dict[str, list[dict[str, Any]]]
) -> None:
    text = json.dumps(valid[name][0])
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    text = text[:start] + data.draw(st.text(st.sampled_from('{}[]",:0 \\u"'), max_size=6)) + text[end:]
    sound(rubrics[name], score_answer(VerdictHeader("c", rubrics[name], "j"), text, AnswerContext(label="case-1")))
