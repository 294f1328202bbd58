"""What a judge worked out wrongly is kept as a correction; what it worked out rightly, also rounded, is not noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beholder.verdicts.verdict import Verdict

Answer = Callable[..., dict[str, Any]]
Judge = Callable[..., Verdict]


def corrected(verdict: Verdict) -> dict[str, tuple[object, object]]:
    return {one.at: (one.said, one.stands) for one in verdict.corrections}


@pytest.fixture(scope="session")
def published(restyle: Answer) -> Answer:
    """An answer in the seed's form with the sums that `sums` claims for accuracy and the summary."""

    def make(
        accuracy: str = "YYYYN", score: object = 4, sums: dict[str, object] | None = None, **summary: object
    ) -> dict[str, Any]:
        compact = restyle({"accuracy": accuracy}, {"accuracy": score})
        blocks = {
            key: {
                "results": [{"id": id_, **entry} for id_, entry in block["assertions"].items()],
                "score": block["score"],
                "reason": "because",
            }
            for key, block in compact["criteria"].items()
        }
        blocks["accuracy"] |= sums or {}
        return {"style": "Mosaic", "assertions": blocks, "summary": summary, "overall_assessment": "Fine."}

    return make


RIGHT = {"total_assertions": 23, "total_passed": 22, "overall_pass_rate": "22/23", "weighted_total": 20.0,
         "max_score": 25.0, "percentage": 80.0, "grade": "A"}  # fmt: skip


def test_right_sums_are_no_corrections(verdict: Judge, published: Answer) -> None:
    sums = {"pass_rate": "4/5", "passed": 4, "total": 5, "weighted_score": 4.0}
    assert verdict("restyle", published(sums=sums, **RIGHT)).corrections == ()


@pytest.mark.parametrize(("key", "said", "stands"), [
    ("total_assertions", 25, 23), ("total_passed", 23, 22), ("overall_pass_rate", "23/23", "22/23"),
    ("weighted_total", 21, 20), ("weighted_total", 19.9, 20), ("max_score", 20, 25), ("percentage", 80.1, 80),
    ("percentage", "most of it", 80), ("percentage", True, 80), ("grade", "A+", "A"), ("grade", 4, "A"),
    ("overall_pass_rate", "22 of 23", "22/23"),
])  # fmt: skip
def test_a_wrong_sum_of_the_whole_is_kept(
    key: str, said: object, stands: object, verdict: Judge, published: Answer
) -> None:
    made = verdict("restyle", published(**(RIGHT | {key: said})))
    assert corrected(made) == {key: (said, stands)}
    assert made.to_dict()["reported"][key] == said
    assert (made.total, made.grade) == (20.0, "A")


@pytest.mark.parametrize(("key", "said", "stands"), [
    ("pass_rate", "5/5", "4/5"), ("passed", 5, 4), ("total", 4, 5), ("weighted_score", 5, 4),
])  # fmt: skip
def test_a_wrong_sum_of_a_dimension_is_kept(
    key: str, said: object, stands: object, verdict: Judge, published: Answer
) -> None:
    assert corrected(verdict("restyle", published(sums={key: said}))) == {f"accuracy.{key}": (said, stands)}


def test_sums_that_follow_from_a_lowered_score_are_corrected_with_it(verdict: Judge, published: Answer) -> None:
    made = verdict("restyle", published(score=5, sums={"weighted_score": 5.0}, weighted_total=21.0, percentage=84))
    assert corrected(made) == {
        "accuracy.score": (5, 4),
        "accuracy.weighted_score": (5.0, 4),
        "weighted_total": (21.0, 20),
        "percentage": (84, 80),
    }


@pytest.mark.parametrize(("said", "right"), [
    (66.67, True), (66.7, True), (67, True), (66.667, True), (66.6667, True), (66.66666667, True),
    (200 / 3, True), (66.6666666666, False),
    (66.66, False), (66.6, False), (66, False), (66.6666, False), (66.67001, False), (1e300, False), (-66.67, False),
    ("66.67", True), ("66.67 %", False),
])  # fmt: skip
def test_a_number_is_right_when_it_is_the_exact_one_rounded(
    said: object, right: bool, verdict: Judge, published: Answer
) -> None:
    answer = published("YYYYY", percentage=said)
    for key, score in {"accuracy": 2, "completeness": 3, "relevance": 4, "exceptional": 4}.items():
        answer["assertions"][key]["score"] = score
    for entry in answer["assertions"]["usefulness"]["results"]:
        entry["answer"] = "N/A"
    made = verdict("restyle", answer)  # 2 + 3 + 2 + 8 = 15 of 22.5
    assert made.percentage == 200 / 3
    assert ("percentage" not in corrected(made)) == right


@pytest.mark.parametrize(("claims", "wrong"), [
    ({"score": 0.86, "passed": True}, set()),
    ({"score": 0.9}, set()),  # to one decimal it is right
    ({"score": 1}, set()),  # and to none
    ({"score": 0.8600000000000001}, set()),  # what doubles make of it
    ({"score": 0.85}, {"score"}),
    ({"score": "0.86"}, set()),
    ({"passed": False}, {"passed"}),
    ({"passed": "yes"}, {"passed"}),
    ({"score": None, "passed": None}, set()),
    ({"score": 1e-300}, {"score"}),
    ({"score": 10**400}, {"score"}),
    ({"score": []}, set()),
    ({"grade": "Good"}, set()),
    ({"grade": "Excellent"}, {"grade"}),
])  # fmt: skip
def test_claims_beside_a_description(
    claims: dict[str, Any], wrong: set[str], verdict: Judge, description: Answer
) -> None:
    made = verdict("description", description((0.9, 0.8, 0.85, 0.9), **claims))
    assert set(corrected(made)) == wrong
    assert (made.score, made.passed) == (0.86, True)


def test_claims_of_a_confidence_answer(verdict: Judge, restyle: Answer) -> None:
    answer = restyle({"accuracy": "YNYNY"}, confidence={"accuracy": [5, 5, 5, 5, 4]})
    block = answer["criteria"]["accuracy"]
    block |= {"avg_confidence": 4.8, "dimension_score": 2.88, "weighted_score": 2.88, "passed": 3, "total": 5}
    assert verdict("restyle-confidence", answer).corrections == ()
    block |= {"avg_confidence": 4.9, "dimension_score": 3, "passed": 4}
    made = verdict("restyle-confidence", answer)
    assert corrected(made) == {"accuracy.avg_confidence": (4.9, 4.8), "accuracy.passed": (4, 3)}  # 3 is 2.88, rounded
    block |= {"dimension_score": 3.5}
    made = verdict("restyle-confidence", answer)
    assert corrected(made)["accuracy.score"] == (3.5, 2.88)
    assert made.criteria["accuracy"].reported == 3.5
