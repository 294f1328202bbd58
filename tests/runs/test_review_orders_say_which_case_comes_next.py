"""At random, the most uncertain first, what the pixels contradict first, or as many of each group."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_making import KEYS, run_record, verdict
from review_making import RUN, edits

from beholder.errors import UsageError
from beholder.ledger import Ledger
from beholder.runs import review_orders
from beholder.runs.review_orders import Kind, Order, order_from, ordered, uncertainty
from beholder.verdicts.model import Calibrated, Coverage, Juror, Jury, Outcome


def test_random_is_the_same_for_one_rater_and_another_for_the_next(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db", 30) as ledger:
        ana = ordered(ledger, RUN, "ana", Order())
        assert ordered(ledger, RUN, "ana", Order()) == ana
        assert ordered(ledger, RUN, "bo", Order()) != ana
        assert sorted(ana) == [f"photo-{number:05d}/model-a" for number in range(30)]
        assert ana != sorted(ana)


def test_what_has_no_score_and_what_jurors_differ_on_comes_first(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        found = ordered(ledger, RUN, "ana", Order(Kind.UNCERTAIN))
        assert found[:2] == ["photo-00003/model-a", "photo-00005/model-a"]
        assert len(set(found)) == 12


def test_what_the_pixels_contradict_comes_first(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        assert ordered(ledger, RUN, "ana", Order(Kind.AUDIT))[0] == "photo-00007/model-a"


def test_a_quota_goes_round_the_values_of_a_group(tmp_path: Path) -> None:
    with edits(tmp_path / "ledger.db") as ledger:
        group = {case.id: case.groups["model"] for case in ledger.cases(RUN)}
        found = ordered(ledger, RUN, "ana", Order(Kind.QUOTA, "model"))
        for upto in range(2, 13, 2):
            counts = Counter(group[case] for case in found[:upto])
            assert counts["model-a"] == counts["model-b"]
        short = ordered(ledger, RUN, "ana", Order(Kind.QUOTA, "model", each=2))
        assert Counter(group[case] for case in short) == {"model-a": 2, "model-b": 2}
        with pytest.raises(UsageError, match="No case of this run is in a group 'colour'"):
            ordered(ledger, RUN, "ana", Order(Kind.QUOTA, "colour"))


def test_a_quota_of_a_run_without_cases_is_refused(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.start(run_record(RUN))
        with pytest.raises(UsageError, match="No case of this run is in a group 'model'"):
            ordered(ledger, RUN, "ana", Order(Kind.QUOTA, "model"))


SURE = verdict(0, score=0.5)
JURORS = (Juror("a", 0, Outcome.SCORED, 0.5), Juror("b", 0, Outcome.SCORED, 0.5))
HOW_SURE = {
    "a score and nothing against it": (SURE, 0),
    "no score": (replace(SURE, score=None), 1),
    "jurors who differ overall": (replace(SURE, jury=Jury(2, 0, {"score": 0.4}, None, JURORS)), 0.4),
    "jurors who differ on a criterion": (replace(SURE, jury=Jury(2, 0, {KEYS[1]: 3, "score": 0.1}, None, JURORS)), 0.5),
    "jurors who answer differently": (replace(SURE, jury=Jury(2, 0, {}, 0.25, JURORS)), 0.75),
    "much left open": (replace(SURE, coverage=Coverage(1, 4, "criteria")), 0.75),
    "a wide interval": (replace(SURE, calibrated={"score": Calibrated(0.5, 0.2, 0.8, (0, 1), 0.5, "abc")}), 0.6),
    "an interval without ends": (
        replace(SURE, calibrated={"score": Calibrated(None, None, None, (0, 1), 0.5, "abc")}),
        0,
    ),
    "more than all of it": (replace(SURE, jury=Jury(2, 0, {"score": 7}, None, JURORS)), 1),
}


@pytest.mark.parametrize("why", HOW_SURE)
def test_uncertainty_is_the_worst_of_what_a_verdict_says_of_itself(why: str) -> None:
    one, expected = HOW_SURE[why]
    assert uncertainty(one) == pytest.approx(expected)


def test_of_a_large_run_some_are_looked_at_and_none_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review_orders, "LOOKED_AT", 4)
    with edits(tmp_path / "ledger.db") as ledger:
        found = ordered(ledger, RUN, "ana", Order(Kind.UNCERTAIN))
        plain = ordered(ledger, RUN, "ana", Order())
        assert sorted(found[:4]) == sorted(plain[:4])
        assert found[4:] == plain[4:]


@pytest.mark.parametrize(("kind", "group", "each"), [("best", "", 0), ("quota", "", 0), ("quota", "model", -1)])
def test_an_order_that_there_is_not_is_refused(kind: str, group: str, each: int) -> None:
    with pytest.raises(UsageError):
        order_from(kind, group, each)
