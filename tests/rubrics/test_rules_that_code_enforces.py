"""The rules of the seeds that no judge has to follow, because code does: each shown on an answer that breaks it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from beholder.cases.case import Case
from beholder.rubrics.brief import Composer
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.score import VerdictHeader, score_answer
from beholder.verdicts.verdict import Outcome, Verdict

DIMENSIONS = {"accuracy": "A5", "completeness": "C5", "relevance": "R4", "usefulness": "U4", "exceptional": "E5"}


def restyle(score: object = 5, failed: int = 0, **closing: object) -> Verdict:
    """A verdict on a compact answer in which `failed` assertions of each dimension failed."""
    criteria = {
        key: {
            "assertions": {
                f"{last[0]}{n}": {"answer": "No" if n <= failed else "Yes", "evidence": "seen top left"}
                for n in range(1, int(last[1]) + 1)
            },
            "score": score,
            "reason": "because",
        }
        for key, last in DIMENSIONS.items()
    }
    rubric = Composer(Rubric.load("restyle")).rubric_for(Case("c", fields={"style": "Anime"}))
    return score_answer(
        VerdictHeader("c", rubric, "j"), json.dumps({"criteria": criteria, "assessment": "fine"} | closing)
    )


def describe(scores: object = 0.5, gate: bool = False, **rest: object) -> Verdict:
    rubric = Rubric.load("description")
    keys = [criterion.key for criterion in rubric.criteria]
    each = scores if isinstance(scores, list) else [scores] * len(keys)
    details = {key: {"reason": "r", "score": one} for key, one in zip(keys, each, strict=True)}
    lists = dict.fromkeys(("hallucinations", "missing_elements", "strengths", "improvements"), ())
    if gate:
        from beholder.rubrics.rubric import GateRule

        rubric = rubric.with_scoring(gates=(GateRule(finding="hallucinations"),))
    return score_answer(
        VerdictHeader("c", rubric, "j"), json.dumps({"criteria": details, "assessment": "x"} | lists | rest)
    )


def factors(score: object = 4, words: int = 20) -> Verdict:
    rubric = Rubric.load("edit-preservation")
    block = {"justification": " ".join(["word"] * words), "score": score}
    return score_answer(
        VerdictHeader("c", rubric, "j"),
        json.dumps({"image_id": "x", "criteria": {one.key: block for one in rubric.criteria}}),
    )


ENFORCED: dict[str, Callable[[], bool]] = {
    "all pass allows 5": lambda: restyle(5, 0).total == 25,
    "1 failure allows 4": lambda: restyle(5, 1).total == 20,
    "2 failures allow 3": lambda: restyle(5, 2).total == 15,
    "3 failures allow 2": lambda: restyle(5, 3).total == 10,
    "4 failures allow 2": lambda: restyle(5, 4).total == 10,
    "under the lower end is flagged and stands": lambda: (
        restyle(3, 0).total == 15 and {flag.flag for flag in restyle(3, 0).flags} == {"below_guidance"}
    ),
    "a score is 1 to 5": lambda: all(restyle(score).outcome is Outcome.INVALID for score in (0, 6, 4.5, "", True)),
    "weights 1, 1, 0.5, 0.5, 2": lambda: [one.weight for one in restyle().criteria.values()] == [1, 1, 0.5, 0.5, 2],
    "max score 25": lambda: restyle(1, 4).max_total == 25,
    "percentage": lambda: restyle(1, 4).percentage == 20,
    "grades": lambda: [restyle(5, n).grade for n in range(4)] == ["A+", "A", "C", "F"],
    "description: 40/30/20/10": lambda: (
        [describe([1, 0, 0, 0]).score, describe([0, 1, 0, 0]).score] == [0.4, 0.3]
        and [describe([0, 0, 1, 0]).score, describe([0, 0, 0, 1]).score] == [0.2, 0.1]
    ),
    "description: scores 0 to 1": lambda: all(describe(n).outcome is Outcome.INVALID for n in (-0.01, 1.01, 2, True)),
    "description: passes from 0.7": lambda: describe(0.7).passed is True and describe(0.69).passed is False,
    "description: bands": lambda: (
        [describe(n).grade for n in (0.9, 0.89, 0.7, 0.69, 0.5, 0.49, 0.3, 0.29, 0)]
        == ["Excellent", "Good", "Good", "Acceptable", "Acceptable", "Poor", "Poor", "Failed", "Failed"]
    ),
    "description: the lists are kept": lambda: (
        describe(hallucinations=["a cat"]).findings["hallucinations"] == ("a cat",)
    ),
    "description: hallucinations fail a case only if a gate is set": lambda: (
        describe(1, hallucinations=["a cat"]).passed is True
        and describe(1, gate=True, hallucinations=["a cat"]).passed is False
    ),
    "edit: integers 1 to 7": lambda: all(factors(n).outcome is Outcome.INVALID for n in (0, 8, 6.5, True)),
    "edit: 15 to 30 words": lambda: (
        [[flag.flag for flag in factors(4, n).flags] for n in (14, 15, 30, 31)]
        == [["reason_length"] * 3, [], [], ["reason_length"] * 3]
    ),
    "edit: no overall of its own": lambda: (
        factors().score_derived and factors().passed is None and factors().grade is None
    ),
}


@pytest.mark.parametrize("rule", ENFORCED)
def test_code_enforces(rule: str) -> None:
    assert ENFORCED[rule]()
