"""At random, the most uncertain first, what the pixels contradict first, or as many of each group."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.ledger import KEYS, run_record, verdict
from support.reviews import RUN, edits

from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.reviews import review
from beholder.reviews.review import ReviewOrder, ReviewOrderKind, measure_uncertainty, order_cases, parse_order
from beholder.verdicts.verdict import CalibratedRating, Coverage, Juror, Jury, Outcome


def test_random_is_the_same_for_one_rater_and_another_for_the_next(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db", 30) as ledger:
        ana = order_cases(ledger, RUN, "ana", ReviewOrder())
        assert order_cases(ledger, RUN, "ana", ReviewOrder()) == ana
        assert order_cases(ledger, RUN, "bo", ReviewOrder()) != ana
        assert sorted(ana) == [f"photo-{number:05d}/model-a" for number in range(30)]
        assert ana != sorted(ana)


def test_what_has_no_score_and_what_jurors_differ_on_comes_first(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        found = order_cases(ledger, RUN, "ana", ReviewOrder(ReviewOrderKind.UNCERTAIN))
        assert found[:2] == ["photo-00003/model-a", "photo-00005/model-a"]
        assert len(set(found)) == 12


def test_what_the_pixels_contradict_comes_first(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        assert order_cases(ledger, RUN, "ana", ReviewOrder(ReviewOrderKind.AUDIT))[0] == "photo-00007/model-a"


def test_a_quota_goes_round_the_values_of_a_group(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        group = {case.id: case.groups["model"] for case in ledger.cases(RUN)}
        found = order_cases(ledger, RUN, "ana", ReviewOrder(ReviewOrderKind.QUOTA, "model"))
        for upto in range(2, 13, 2):
            counts = Counter(group[case] for case in found[:upto])
            assert counts["model-a"] == counts["model-b"]
        short = order_cases(ledger, RUN, "ana", ReviewOrder(ReviewOrderKind.QUOTA, "model", each=2))
        assert Counter(group[case] for case in short) == {"model-a": 2, "model-b": 2}
        with pytest.raises(UsageError, match="No case of this run is in a group 'colour'"):
            order_cases(ledger, RUN, "ana", ReviewOrder(ReviewOrderKind.QUOTA, "colour"))


def test_a_quota_of_a_run_without_cases_is_refused(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.start(run_record(RUN))
        with pytest.raises(UsageError, match="No case of this run is in a group 'model'"):
            order_cases(ledger, RUN, "ana", ReviewOrder(ReviewOrderKind.QUOTA, "model"))


SURE = verdict(0, score=0.5)
JURORS = (Juror("a", 0, Outcome.SCORED, 0.5), Juror("b", 0, Outcome.SCORED, 0.5))
HOW_SURE = {
    "a score and nothing against it": (SURE, 0),
    "no score": (replace(SURE, score=None), 1),
    "jurors who differ overall": (replace(SURE, jury=Jury(2, 0, {"score": 0.4}, None, JURORS)), 0.4),
    "jurors who differ on a criterion": (replace(SURE, jury=Jury(2, 0, {KEYS[1]: 3, "score": 0.1}, None, JURORS)), 0.5),
    "jurors who answer differently": (replace(SURE, jury=Jury(2, 0, {}, 0.25, JURORS)), 0.75),
    "much left open": (replace(SURE, coverage=Coverage(1, 4, "criteria")), 0.75),
    "a wide interval": (replace(SURE, calibrated={"score": CalibratedRating(0.5, 0.2, 0.8, (0, 1), 0.5, "abc")}), 0.6),
    "an interval without ends": (
        replace(SURE, calibrated={"score": CalibratedRating(None, None, None, (0, 1), 0.5, "abc")}),
        0,
    ),
    "more than all of it": (replace(SURE, jury=Jury(2, 0, {"score": 7}, None, JURORS)), 1),
}


@pytest.mark.parametrize("why", HOW_SURE)
def test_uncertainty_is_the_worst_of_what_a_verdict_says_of_itself(why: str) -> None:
    one, expected = HOW_SURE[why]
    assert measure_uncertainty(one) == pytest.approx(expected)


def test_of_a_large_run_some_are_looked_at_and_none_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review, "SAMPLE_SIZE", 4)
    with edits(tmp_path / "ledger.db") as ledger:
        found = order_cases(ledger, RUN, "ana", ReviewOrder(ReviewOrderKind.UNCERTAIN))
        plain = order_cases(ledger, RUN, "ana", ReviewOrder())
        assert sorted(found[:4]) == sorted(plain[:4])
        assert found[4:] == plain[4:]


@pytest.mark.parametrize(("kind", "group", "each"), [("best", "", 0), ("quota", "", 0), ("quota", "model", -1)])
def test_an_order_that_there_is_not_is_refused(kind: str, group: str, each: int) -> None:
    with pytest.raises(UsageError):
        parse_order(kind, group, each)
