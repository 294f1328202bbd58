"""A board gives ranks and intervals where votes can tell, and a sentence where they cannot; a gate is green by no
accident."""

from __future__ import annotations

import numpy as np
import pytest

import beholder
from beholder.errors import UsageError

Row = dict[str, object]


def votes(one: str, other: str, wins: int, losses: int, ties: int = 0, *, prompt: str = "p") -> list[Row]:
    """So many votes on two models, each on a prompt of its own."""
    words = ["model_a"] * wins + ["model_b"] * losses + ["tie"] * ties
    return [
        {"model_a": one, "model_b": other, "winner": word, "prompt": f"{prompt}-{one}{other}-{number}"}
        for number, word in enumerate(words)
    ]


def test_a_clear_order_has_clear_ranks() -> None:
    board = beholder.fit_arena(
        votes("a", "b", 150, 50) + votes("b", "c", 150, 50) + votes("a", "c", 180, 20), draws=400
    )
    assert [(row.model, row.rank) for row in board.ratings] == [("a", (1, 1)), ("b", (2, 2)), ("c", (3, 3))]
    assert np.mean([row.rating.value or 0 for row in board.ratings]) == pytest.approx(1000)
    assert board.gate("a > b").status == "passed"
    assert board.gate("c > a").status == "failed"
    assert board.gate("a > b", "c > b").status == "failed"
    assert board.notes == ()
    assert repr(board).startswith("<Leaderboard of 600 votes: a 1")


def test_equal_models_share_their_ranks_and_leave_a_gate_undecided() -> None:
    board = beholder.fit_arena(votes("a", "b", 31, 29, 10), draws=400)
    assert {row.rank for row in board.ratings} == {(1, 2)}
    gate = board.gate("a > b")
    assert gate.status == "undecided"
    assert "Whether a is better than b cannot be told" in gate.sentences()[0]
    with pytest.raises(UsageError):
        bool(gate)


def test_votes_on_one_photograph_are_one_piece_of_evidence() -> None:
    """Sixty votes on two photographs decide nothing; on sixty they do."""
    alone = votes("a", "b", 45, 15)
    shared = [row | {"prompt": f"p{at % 2}"} for at, row in enumerate(alone)]
    assert beholder.fit_arena(alone, draws=400).gate("a > b").status == "passed"
    board = beholder.fit_arena(shared, draws=400)
    assert board.groups == 2
    assert board.gate("a > b").status == "undecided"
    assert board["a"].rating.why == "no interval: 2 groups of votes cannot tell; it takes 6"


@pytest.mark.parametrize("words", [["model_a"], ["tie"], ["model_a", "model_a"], ["model_a", "model_b"]])
@pytest.mark.parametrize("position", [False, True])
def test_votes_of_one_group_have_no_intervals(words: list[str], position: bool) -> None:
    rows = [{"model_a": "a", "model_b": "b", "winner": word, "case": "1"} for word in words]
    board = beholder.fit_arena(rows, position=position, draws=200)
    assert board.interval_note == "There are no intervals: all votes are of one group."
    assert board["a"].rating.low is None
    assert board["a"].win_rate.low is None
    assert board.gate("a > b").status == "undecided"


def test_a_model_that_never_lost_has_a_prior_and_no_interval() -> None:
    board = beholder.fit_arena(votes("a", "b", 20, 0) + votes("b", "c", 12, 8) + votes("a", "c", 20, 0), draws=200)
    text = " ".join(board.notes)
    assert "The model a never lost or tied: how much better is not known." in text
    assert "a prior was used: normal around 1000 with a standard deviation of 400 points" in text
    assert board["a"].rating.why == "no interval: it never lost"
    assert np.isfinite(board["a"].rating.value or np.nan)
    assert board["a"].rank == (1, 1)
    assert board.gate("a > b").status == "passed"


@pytest.mark.parametrize(("wins", "ties", "status"), [(1, 29, "undecided"), (3, 3, "undecided"), (20, 10, "passed")])
@pytest.mark.parametrize("word", ["tie", "both_bad"])
def test_ties_do_not_bound_the_rating_of_a_model_that_never_lost(wins: int, ties: int, status: str, word: str) -> None:
    """Strengths and the frequency of ties may grow together without end; a gate passed by rounding errors."""
    rows = [row | {"winner": word} for row in votes("a", "b", 0, 0, ties)] + votes("a", "b", wins, 0)
    board = beholder.fit_arena([row | {"source": f"p{at}"} for at, row in enumerate(rows)], draws=200)
    assert board["a"].rating.why == "no interval: it never lost"
    assert board["a"].rating.value is not None
    assert board["a"].rating.value < 1500
    assert "The model a never lost: how much better is not known." in board.notes
    assert board.gate("a > b").status == status


def test_a_model_that_never_lost_and_has_a_rating_by_its_ties_is_named() -> None:
    """The others beat each other in a circle, which says how frequent ties are."""
    rows = votes("a", "b", 30, 0) + votes("a", "c", 10, 0, 10) + votes("b", "c", 15, 15)
    said = "a never lost: only ties, and how frequent they are elsewhere, bound the rating."
    assert said in beholder.fit_arena(rows, draws=100).notes
    assert said not in beholder.fit_arena([*rows, *votes("b", "a", 1, 0)], draws=100).notes


def test_draws_without_a_loss_do_not_widen_intervals_beyond_reason() -> None:
    rows = votes("a", "b", 8, 2, 20)
    board = beholder.fit_arena([row | {"source": f"p{at}"} for at, row in enumerate(rows)], draws=400)
    pair = board.compare("a", "b").difference
    assert pair.high is not None
    assert pair.high < 1000
    assert any("a prior with a standard deviation of 400 points keeps" in note for note in board.notes)


def test_models_that_only_tie_are_connected() -> None:
    board = beholder.fit_arena(votes("a", "b", 1, 0, 20) + votes("b", "c", 0, 0, 20), draws=200)
    assert not any("do not connect" in note for note in board.notes)
    assert board.gate("a > c").status == "undecided"


def test_a_gate_between_anchored_models_is_undecided() -> None:
    rows = votes("a", "b", 30, 20) + votes("b", "new", 30, 20)
    board = beholder.fit_arena(rows, anchor={"a": 1200.0, "b": 800.0}, draws=200)
    assert board.gate("a > b").status == "undecided"
    assert board.gate("a > b").undecided["a > b"] == "a and b are both anchored: these votes say nothing of them."


@pytest.mark.parametrize(
    ("ties", "position", "said"),
    [
        (0, False, "400 points."),
        (4, False, "400 points, and around 0 for the frequency of ties."),
        (4, True, "400 points, and around 0 for the frequency of ties and the position."),
    ],
)
def test_a_board_says_what_the_prior_is_on(ties: int, position: bool, said: str) -> None:
    rows = votes("a", "b", 20, 0) + votes("b", "c", 12, 8, ties) + votes("c", "a", 0, 20)
    note = next(note for note in beholder.fit_arena(rows, position=position, draws=200).notes if "prior" in note)
    assert note == f"To keep ratings finite a prior was used: normal around 1000 with a standard deviation of {said}"


def test_three_wins_of_three_decide_nothing() -> None:
    board = beholder.fit_arena(votes("a", "b", 3, 0), draws=200)
    assert {row.rank for row in board.ratings} == {(1, 2)}
    assert board.gate("a > b").status == "undecided"


def test_models_that_votes_do_not_connect_are_not_compared() -> None:
    board = beholder.fit_arena(votes("a", "b", 30, 10) + votes("c", "d", 30, 10), draws=200)
    assert any("do not connect all models (a, b; c, d)" in note for note in board.notes)
    assert board.gate("a > d").status == "undecided"
    assert board.gate("a > b").status == "passed"
    assert board.compare("a", "c").difference.why == "no interval: votes do not connect the two"


def test_a_model_with_one_vote_is_named() -> None:
    board = beholder.fit_arena(votes("a", "b", 30, 20) + votes("a", "new", 0, 1), draws=200)
    assert "new: 1 vote, which tells next to nothing." in board.notes
    assert board["new"].rank == (1, 3)
    assert board["new"].rating.low is None


def test_only_ties_make_equal_models() -> None:
    board = beholder.fit_arena(votes("a", "b", 0, 0, 12), draws=200)
    assert [row.rating.value for row in board.ratings] == pytest.approx([1000, 1000])
    assert "No vote has a winner, so that all models are equal." in board.notes


def test_without_a_winner_no_gate_says_that_a_model_never_lost() -> None:
    board = beholder.fit_arena(votes("a", "b", 0, 0, 30) + votes("b", "c", 0, 0, 30), draws=100)
    gate = board.gate("a > c")
    assert gate.status == "undecided"
    assert gate.sentences()[0].endswith("(no interval: no vote has a winner).")
    assert {row.rating.why for row in board.ratings} == {"no interval: no vote has a winner"}
    assert board.interval_note.startswith("No rating has an interval.")


def test_a_missing_interval_is_explained_once() -> None:
    few = [row | {"prompt": f"d{at % 4}"} for at, row in enumerate(votes("b", "dusk", 10, 8))]
    board = beholder.fit_arena(votes("a", "b", 30, 20) + few, draws=100)
    why = "interval: 4 groups of votes cannot tell; it takes 6."
    assert [note for note in board.notes if why in note] == [f"dusk has no {why}"]
    assert why in board._repr_html_()
    assert board.interval_note.startswith("Intervals are 95%")
    alone = beholder.fit_arena(few, draws=100)
    assert [note for note in alone.notes if "interval" in note] == [f"No model has an {why}"]  # nor are they too narrow
    assert "95%" not in alone.interval_note


def test_a_lean_to_the_first_is_found_and_does_not_count_for_a_model() -> None:
    """`a` is mostly shown first, where 70 % of votes go: with the position fitted the two are equal."""
    rows = votes("a", "b", 140, 60) + votes("b", "a", 28, 12)
    plain, fitted = beholder.fit_arena(rows, draws=400), beholder.fit_arena(rows, position=True, draws=400)
    assert plain.gate("a > b").status == "passed"
    assert fitted.gate("a > b").status == "undecided"
    assert fitted.compare("a", "b").difference.value == pytest.approx(0, abs=1)
    assert fitted.position is not None
    assert fitted.position.value == pytest.approx(400 * np.log10(7 / 3), abs=1)
    assert fitted.position.excludes_zero


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (votes("a", "b", 30, 0) + votes("b", "a", 20, 0), "The first shown always won:"),
        (votes("a", "b", 30, 0, 5) + votes("b", "a", 20, 0, 5), "The first shown always won or tied:"),
        (votes("a", "b", 0, 30) + votes("b", "a", 0, 20), "The second shown always won:"),
        (votes("a", "b", 30, 0), "The first shown always won:"),  # with a prior
        (votes("a", "b", 30, 2) + votes("b", "a", 20, 2), " draws: with the position fitted"),
        (votes("a", "b", 30, 0) + votes("b", "a", 10, 10), "The advantage of the position has no bound:"),
    ],
)
def test_where_the_first_always_wins_no_model_is_better(rows: list[Row], said: str) -> None:
    board = beholder.fit_arena(rows, position=True, draws=400)
    assert any(said in note for note in board.notes), board.notes
    pair = board.compare("a", "b")
    assert (pair.difference.low, pair.probability.low, pair.better) == (None, None, "")
    assert board["a"].rating.low is None
    assert board.position is not None
    assert board.position.low is None
    assert board.gate("a > b").status == "undecided"
    assert board.gate("b > a").status == "undecided"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (votes("a", "b", 30, 20), False),
        (votes("a", "b", 30, 20, 5) + votes("b", "c", 20, 30), False),  # three in a row: the order tells nothing either
        (votes("a", "b", 30, 20) + votes("b", "a", 25, 25), True),
        (votes("a", "b", 30, 20) + votes("b", "c", 30, 20) + votes("a", "c", 30, 20), True),  # by the third pair
        (votes("a", "b", 30, 20) + votes("c", "d", 30, 20) + votes("d", "c", 20, 25), True),
        (votes("a", "b", 30, 20) + votes("b", "a", 2, 2), False),  # not in draws without these four
    ],
)
def test_models_shown_in_one_order_only_do_not_tell_the_advantage_of_the_first(rows: list[Row], told: bool) -> None:
    board = beholder.fit_arena(rows, position=True, draws=400)
    assert board.position is not None
    assert any("shown in one order only" in note for note in board.notes) != told
    assert (board.position.low is not None) == told
    assert (board["a"].rating.low is not None) == told
    assert told or board.position.why.startswith("no interval: the models were shown in one order only")
    assert told or board.gate("a > b").status == "undecided"


def test_anchors_tell_the_position_where_models_were_shown_in_one_order_only() -> None:
    rows = votes("a", "b", 30, 20) + votes("b", "c", 25, 20)
    board = beholder.fit_arena(rows, position=True, anchor={"a": 1000, "b": 950}, draws=400)
    assert board.position is not None
    assert board.position.low is not None


def test_the_position_is_not_fitted_to_votes_of_unknown_order() -> None:
    shown = votes("a", "b", 30, 20, 5) + votes("b", "a", 30, 20, 5)
    unknown = [row | {"order": ""} for row in votes("a", "b", 40, 10, prompt="q")]
    with pytest.raises(UsageError, match=r"None of these votes says which .*`beholder arena show RUN --position`"):
        beholder.fit_arena(unknown, position=True)
    some = beholder.fit_arena([row | {"order": "ab"} for row in shown] + unknown, position=True, draws=200)
    known = beholder.fit_arena(shown, position=True, draws=200)
    assert some.position == known.position
    assert (some.votes, some["a"].votes) == (110, 110)
    assert "50 votes without a known order do not count, as the position is fitted." in some.notes
    assert beholder.fit_arena(unknown, draws=200).votes == 50


def test_the_same_seed_gives_the_same_board() -> None:
    rows = votes("a", "b", 30, 20, 5)
    assert (
        beholder.fit_arena(rows, seed=4, draws=200).to_dict() == beholder.fit_arena(rows, seed=4, draws=200).to_dict()
    )


def test_a_notebook_shows_the_board_and_names_cannot_break_it() -> None:
    board = beholder.fit_arena(votes("<b>a</b>", "b", 30, 20), draws=200)
    html = board._repr_html_()
    assert "<table>" in html
    assert "&lt;b&gt;a&lt;/b&gt;" in html
    assert "<b>a</b>" not in html


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        ("a >= b", "is written"),
        ("a < b", "is written"),
        ("a > ", "is written"),
        ("a > bb", "No model 'bb' is on the board; did you mean 'b'?"),
        ("a > a", "both of these are 'a'"),
    ],
)
def test_a_wrong_condition_is_one_sentence(condition: str, sentence: str) -> None:
    board = beholder.fit_arena(votes("a", "b", 30, 20), draws=200)
    with pytest.raises(UsageError, match=sentence.replace("?", r"\?")):
        board.gate(condition)


def test_a_name_may_hold_the_sign_of_a_condition() -> None:
    board = beholder.fit_arena(votes("v1>v2", "base", 90, 10), draws=200)
    assert board.gate("v1>v2 > base").status == "passed"


@pytest.mark.parametrize("rating", [50_001, -50_001, 1e9, 1e300, float("inf")])
def test_an_anchor_far_out_is_refused(rating: float) -> None:
    with pytest.raises(UsageError, match="from −50,000 to 50,000, not"):
        beholder.fit_arena(votes("a", "b", 30, 20), anchor={"a": rating}, draws=200)


@pytest.mark.parametrize("anchor", [{"a": 50_000}, {"a": -50_000}, {"a": 50_000, "z": -50_000}])
def test_a_board_follows_its_anchors_however_far(anchor: dict[str, float]) -> None:
    rows = votes("a", "b", 30, 20) + votes("b", "c", 30, 20) + votes("a", "c", 20, 25) + votes("c", "z", 10, 10)
    board = beholder.fit_arena(rows, anchor=anchor, draws=200)
    assert board["a"].rating.value == pytest.approx(anchor["a"])
    assert board["b"].rating.value == pytest.approx(anchor["a"], abs=400)


def test_wrong_use_is_one_sentence() -> None:
    rows = votes("a", "b", 30, 20)
    with pytest.raises(UsageError, match="one of the two"):
        beholder.fit_arena()
    with pytest.raises(UsageError, match="one of the two"):
        beholder.fit_arena(rows, runs=["x", "y"])
    with pytest.raises(UsageError, match="All models of the votes are anchored"):
        beholder.fit_arena(rows, anchor={"a": 1000, "b": 900})
    with pytest.raises(UsageError, match="The anchor of 'a' is a rating"):
        beholder.fit_arena(rows, anchor={"a": float("nan")})
    with pytest.raises(UsageError, match="draws is a whole number"):
        beholder.fit_arena(rows, draws=3)
    with pytest.raises(UsageError, match="read with the group 'prompt'"):
        beholder.fit_arena(beholder.read_votes(rows), group="case")
