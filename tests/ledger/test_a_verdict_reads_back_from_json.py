"""`Verdict.from_dict` is the inverse of `to_dict`."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from support.verdicts import verdicts

from beholder.errors import UsageError
from beholder.verdicts.verdict import Flag, Outcome, Verdict


@given(verdicts())
def test_a_verdict_is_the_same_after_json(given: Verdict) -> None:
    found = Verdict.from_dict(json.loads(json.dumps(given.to_dict())))
    assert found.to_dict() == given.to_dict()
    assert found.cost_usd == given.cost_usd  # to the precision of a double
    assert (found.criteria, found.jury, found.images) == (given.criteria, given.jury, given.images)


def test_what_json_cannot_hold_is_held_as_a_text() -> None:
    odd = Verdict(
        *("c", "r", "1", "j", Outcome.SCORED),
        flags=(Flag("f", said=float("nan")), Flag("f", said=10**40), Flag("f", said=Decimal("1E+40"))),
        usage={"input_tokens": 10**40},
        measurements={"x": float("inf")},
    )
    found = Verdict.from_dict(odd.to_dict())
    assert [flag.said for flag in found.flags] == ["nan", "a huge number", "1E+40"]
    assert found.usage == {"input_tokens": None}
    assert found.measurements == {"x": "inf"}


def test_keys_that_are_not_a_verdicts_are_ignored() -> None:
    given = Verdict("c", "r", "1", "j", Outcome.REFUSED)
    assert Verdict.from_dict({**given.to_dict(), "groups": {"model": "a"}}) == given


@pytest.mark.parametrize("wrong", [{}, {"case": 1}, {"outcome": "splendid"}, {"flags": "none"}, {"usage": []}])
def test_what_is_no_verdict_is_said_to_be_none(wrong: dict[str, object]) -> None:
    values = Verdict("c", "r", "1", "j", Outcome.SCORED).to_dict()
    with pytest.raises(UsageError, match="This is no verdict"):
        Verdict.from_dict({**values, **wrong} if wrong else {})
