"""The judge `instruments` on two edits of one photograph: it votes where measurements decide, whatever the order."""

from __future__ import annotations

import pytest
from support.offline import Image, blurred, photo, png, warped, with_ball
from support.preferences import MIRRORED

from beholder import Case, SetupError, Verdict, judge
from beholder.verdicts.verdict import Outcome


def on_pair(first: Image, second: Image, orders: str = "both", before: Image | None = None) -> Verdict:
    images = {"input": png(photo() if before is None else before), "first": png(first), "second": png(second)}
    case = Case("c1", images, {"instruction": "add a red ball"})
    return judge("edit-preference", case, options={"orders": orders})


def choices(verdict: Verdict) -> dict[str, str | None]:
    return {key: result.choice for key, result in verdict.criteria.items()}


def test_the_edit_that_ruined_the_rest_loses_in_either_place() -> None:
    good, bad = with_ball(photo()), blurred(warped(with_ball(photo()), 9), 2)
    there, back = on_pair(good, bad), on_pair(bad, good)
    assert choices(there)["preserved"] == "first"
    assert choices(back) == {key: MIRRORED.get(str(one)) for key, one in choices(there).items()}
    assert choices(there)["followed"] is None
    assert there.preference is not None
    assert back.preference is not None
    assert MIRRORED.get(str(there.preference.winner)) == back.preference.winner
    assert not there.preference.flipped
    for one in (there, back):
        assert {"measured_not_seen", "abstained"} <= {flag.flag for flag in one.flags}
    assert there.measurements["first.whole.details"] == back.measurements["second.whole.details"]


def test_the_order_of_one_question_does_not_matter_either() -> None:
    good, bad = with_ball(photo()), blurred(warped(with_ball(photo()), 9), 2)
    both, given = on_pair(good, bad), on_pair(good, bad, "given")
    assert choices(both) == choices(given)
    for number in range(6):  # some of these ids are asked in swapped order
        case = Case(f"c{number}", {"input": png(photo()), "first": png(good), "second": png(bad)}, {"instruction": "x"})
        verdict = judge("edit-preference", case, options={"orders": "random"})
        assert choices(verdict) == choices(both)
        assert verdict.measurements == both.measurements


def test_what_is_too_close_is_left_open() -> None:
    one = with_ball(photo())
    other = one.copy()
    other[0, 0] = 255 - other[0, 0]
    verdict = on_pair(one, other)
    assert verdict.outcome is Outcome.UNMEASURED
    assert verdict.score is None
    assert verdict.preference is not None
    assert verdict.preference.winner is None
    assert set(choices(verdict).values()) == {None}
    assert "too close to tell" in verdict.criteria["preserved"].reason


def test_an_image_that_came_back_as_it_was_never_wins() -> None:
    verdict = on_pair(photo(), blurred(warped(with_ball(photo()), 9), 2))
    assert choices(verdict)["preserved"] == "first"
    assert choices(verdict)["natural"] is None
    assert verdict.outcome is Outcome.UNMEASURED


def test_other_preferences_need_a_model() -> None:
    with pytest.raises(SetupError, match="cannot answer generation-preference"):
        judge("generation-preference", first=png(photo()), second=png(with_ball(photo())), prompt="a cup")
