"""`estimate_arena`: people's votes on some pairs and a judge's on all make one board, which is that of people."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from support.votes import RUN, pairs, vote

import beholder
from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.reviews.review import ReviewOrder, ReviewOrderKind, find_or_start_review

Row = dict[str, str]
MODELS = ("aurora", "basalt", "cobalt", "dune")
PEOPLE = {"aurora": 0.9, "basalt": 0.3, "cobalt": -0.3, "dune": -0.9}
JUDGE = {"aurora": 0.0, "basalt": 0.9, "cobalt": -0.9, "dune": 0.6}  # favors basalt and dune


def simulate(seed: int, photos: int = 200, voted: int = 60, follows: float = 0.7) -> tuple[list[Row], list[Row]]:
    """The judge's votes on all pairs and people's on those of some photographs.

    The judge sees of a pair what people see with a probability of `follows`, and adds a bias of its own to it.
    """
    rng = np.random.default_rng(seed)
    judged, people = [], []
    chosen = set(rng.permutation(photos)[:voted].tolist())
    for photo in range(photos):
        for one, other in combinations(MODELS, 2):
            noise, own = rng.logistic(), rng.logistic()
            shared = rng.random() < follows
            human = PEOPLE[one] - PEOPLE[other] + noise
            seen = PEOPLE[one] - PEOPLE[other] + JUDGE[one] - JUDGE[other] + (noise if shared else own)
            case = {"case": f"{photo}/{one}-{other}", "source": f"p{photo}", "model_a": one, "model_b": other}
            judged.append(case | {"winner": "model_a" if seen > 0 else "model_b"})
            if photo in chosen:
                people.append(case | {"winner": "model_a" if human > 0 else "model_b"})
    return judged, people


def test_a_biased_judge_makes_intervals_narrower_and_no_bias() -> None:
    truth = {model: 1000 + strength * 400 / np.log(10) for model, strength in PEOPLE.items()}
    errors: list[list[float]] = []
    judge_errors: list[list[float]] = []
    widths, inside = [], []
    for seed in range(40):
        judged, people = simulate(seed, follows=1)
        found = beholder.estimate_arena(judged, people=people, draws=300)
        errors.append([(found.board[model].rating.value or 0) - truth[model] for model in MODELS])
        judge_errors.append([(found.judge[model].rating.value or 0) - truth[model] for model in MODELS])
        for model in MODELS:
            both, alone = (board[model].rating for board in (found.board, found.people))
            assert both.low is not None
            assert both.high is not None
            inside.append(both.low <= truth[model] <= both.high)
            widths.append((both.high - both.low) / ((alone.high or 0) - (alone.low or 0)))
    mean, spread = np.mean(errors, axis=0), np.std(errors, axis=0) / np.sqrt(len(errors))
    assert (np.abs(mean) < 3.5 * spread + 4).all()
    assert np.abs(np.mean(judge_errors, axis=0)).max() > 60
    assert np.mean(widths) < 0.9
    assert 0.90 <= np.mean(inside) <= 0.99


def test_a_judge_that_knows_nothing_leaves_the_board_of_people() -> None:
    rng = np.random.default_rng(1)
    judged, people = simulate(2)
    guessed = [row | {"winner": str(rng.choice(["model_a", "model_b", "tie"]))} for row in judged]
    found = beholder.estimate_arena(guessed, people=people, draws=300)
    assert found.weight < 0.3
    for model in MODELS:
        assert found.board[model].rating.value == pytest.approx(found.people[model].rating.value, abs=15)


def test_where_people_voted_on_everything_their_board_stands() -> None:
    judged, people = simulate(3, photos=60, voted=60)
    found = beholder.estimate_arena(judged, people=people, draws=200)
    assert found.weight == 0
    assert found.board == found.people
    plain = beholder.fit_arena(people, draws=200)
    for model in MODELS:
        assert found.board[model].rating.value == pytest.approx(plain[model].rating.value)
        assert found.bias[model].value == pytest.approx(
            (found.judge[model].rating.value or 0) - (plain[model].rating.value or 0)
        )
    assert (found.bias["dune"].low or 0) > 0  # the judge favors it


def test_the_order_of_rows_and_of_candidates_does_not_matter() -> None:
    judged, people = simulate(4)
    turned = {"model_a": "model_b", "model_b": "model_a"}
    mirrored = [
        row | {"model_a": row["model_b"], "model_b": row["model_a"], "winner": turned[row["winner"]]}
        for row in people[::-1]
    ]
    one, other = (beholder.estimate_arena(judged, people=given, draws=200) for given in (people, mirrored))
    for model in MODELS:
        assert one.board[model].rating.value == pytest.approx(other.board[model].rating.value)


def test_groups_that_only_people_name_are_used() -> None:
    judged, people = simulate(4, photos=40, voted=40)
    both = beholder.estimate_arena(judged, people=people, draws=200)
    alone = [{name: text for name, text in row.items() if name != "source"} for row in judged]
    found = beholder.estimate_arena(alone, people=people, draws=200)
    assert (found.board, found.judge, found.notes) == (both.board, both.judge, both.notes)
    some = beholder.estimate_arena(alone, people=people[:-60], draws=200)
    assert any("The judge's votes do not say the source" in note for note in some.notes)


def test_pairs_that_were_not_drawn_at_random_are_said() -> None:
    judged, _ = simulate(5)
    best = [row for row in judged if "aurora" not in (row["model_a"], row["model_b"]) or row["winner"] == "model_a"]
    found = beholder.estimate_arena(judged, people=best, draws=200)
    assert any("are not like the others" in note and "aurora" in note for note in found.notes)
    assert not any("not like the others" in note for note in _estimate(5).notes)


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (None, ""),
        (ReviewOrder(ReviewOrderKind.UNCERTAIN), "most uncertain first"),
        (ReviewOrder(ReviewOrderKind.QUOTA, "source", 1), "a quota by source"),
    ],
)
def test_an_order_that_is_not_random_is_said(tmp_path: Path, order: ReviewOrder | None, said: str) -> None:
    with pairs(tmp_path / "runs.db") as ledger:
        find_or_start_review(ledger, RUN, "Cy", ReviewOrder(ReviewOrderKind.AUDIT))  # has no vote
        review = find_or_start_review(ledger, RUN, "Ana", order)
        for case in sorted(ledger.case_ids(RUN))[:9]:
            vote(ledger, review, case, "first")
    found = beholder.estimate_arena(RUN, ledger=tmp_path / "runs.db", draws=100)
    notes = [note for note in found.notes if "were not drawn at random" in note]
    begin = f"The pairs that Ana voted on were not drawn at random (the order of the review: {said})"
    assert [note.startswith(begin) for note in notes] == [True] * bool(said)
    with Ledger.open(tmp_path / "runs.db") as ledger:
        for case in ledger.case_ids(RUN):
            vote(ledger, review, case, "first")
    every = beholder.estimate_arena(RUN, ledger=tmp_path / "runs.db", draws=100)
    assert not any("were not drawn at random" in note for note in every.notes)


def _estimate(seed: int) -> beholder.ArenaEstimate:
    judged, people = simulate(seed)
    return beholder.estimate_arena(judged, people=people, draws=200)


def test_what_does_not_count_is_said_and_the_result_is_shown() -> None:
    judged, people = simulate(6)
    more = [*people, people[0] | {"case": "elsewhere"}]
    found = beholder.estimate_arena(judged, people=more, draws=200)
    assert "1 vote of people is on a pair that the judge has no vote on, and does not count." in found.notes
    assert (found.pairs, found.shared) == (1200, 360)
    page = found._repr_html_()
    assert "The board of people, estimated: 360 votes of people on 360 of 1,200 pairs" in page
    assert page.index("aurora") < page.index("dune")
    assert found.gate("aurora > dune").status == "passed"
    assert repr(found).startswith("<ArenaEstimate of 1,200 pairs, 360 with votes of people: aurora")


def test_people_who_voted_on_too_few_photographs_keep_their_own_board() -> None:
    for photos, voted, said in ((12, 1, "1 group"), (12, 5, "5 groups"), (1, 1, "")):
        judged, people = simulate(8, photos=photos, voted=voted)
        found = beholder.estimate_arena(judged, people=people, draws=100)
        plain = beholder.fit_arena(people, draws=100)
        assert found.weight == 0
        for model in MODELS:
            assert found.board[model].rating.value == pytest.approx(plain[model].rating.value)
            assert (found.board[model].rating.low, found.bias[model].low) == (None, None)
        why = f"Ratings are people's own, without the judge: people voted on {said}, and it takes 6"
        assert any(note.startswith(why) for note in found.notes) == bool(said)
    some = [row for row in people if "dune" not in (row["model_a"], row["model_b"])]  # three pairs of one photograph
    assert beholder.estimate_arena(simulate(8, photos=12)[0], people=some, draws=100).weight == 0


def test_a_prior_that_keeps_the_judges_ratings_finite_does_not_reach_the_estimate() -> None:
    """A judge for which aurora always wins: of few votes the prior pulls it by more than of many."""
    judged, people = simulate(9)
    always = [row | {"winner": "model_a" if row["model_a"] == "aurora" else row["winner"]} for row in judged]
    found = beholder.estimate_arena(always, people=people, draws=200)
    assert found.weight == 0
    for model in MODELS:
        assert found.board[model].rating == found.people[model].rating
    assert any("a prior alone keeps ratings finite, of aurora (the judge on" in note for note in found.notes)
    assert not any("not like the others" in note for note in found.notes)
    assert found.bias["aurora"].why == "no interval: by the judge's votes it never lost"
    assert found.bias["basalt"].low is not None


def test_there_is_no_bias_with_an_interval_where_people_never_let_a_model_lose() -> None:
    judged, people = simulate(10)
    always = [row | {"winner": "model_a" if row["model_a"] == "aurora" else row["winner"]} for row in people]
    found = beholder.estimate_arena(judged, people=always, draws=200)
    assert found.board["aurora"].rating.why == "no interval: it never lost"
    assert (found.bias["aurora"].low, found.bias["aurora"].why) == (
        None,
        "no interval: by people's votes it never lost",
    )


def test_what_was_left_out_of_both_tables_is_said() -> None:
    judged, people = simulate(11)
    failed = [row | {"winner": ""} if at % 6 == 0 else row for at, row in enumerate(judged)]
    lost = [*people, people[0] | {"model_b": people[0]["model_a"]}]
    found = beholder.estimate_arena(failed, people=lost, draws=100)
    assert (found.pairs, found.unanswered) == (1000, 200)
    assert "of 1,000 pairs with a vote of the judge (200 more have none)" in found._repr_html_()
    assert "Votes of the judge: 200 rows without a winner have no vote, and do not count." in found.notes
    assert any(note.startswith("Votes of people: 1 row compares a model with itself") for note in found.notes)


def test_cases_that_people_did_not_vote_on_keep_the_groups_that_the_judge_names() -> None:
    """Only people's file has `scene`; the judge's has `source`, by which its other votes hang together."""
    judged, people = simulate(12)
    scenes = [{name: row[name] for name in row if name != "source"} | {"scene": row["source"]} for row in people]
    found, wanted = (
        beholder.estimate_arena(judged, people=given, group=group, draws=200)
        for given, group in ((scenes, "scene"), (people, None))
    )
    assert found.judge.groups == wanted.judge.groups == 200
    for model in MODELS:
        assert found.board[model].rating == wanted.board[model].rating
    assert any("The judge's votes do not say the scene: " in note and "by their source" in note for note in found.notes)
    # Where the judge's file says more, but not what was asked for, people's column counts.
    prompts = [{name: row[name] for name in row if name != "source"} | {"prompt": row["source"][:2]} for row in people]
    assert beholder.estimate_arena(judged, people=prompts, group="prompt", draws=100).board.group == "prompt"


@pytest.mark.parametrize(("follows", "photos", "voted"), [(0.5, 200, 60), (0.5, 60, 8), (1, 60, 8), (0.5, 60, 12)])
def test_intervals_cover_what_people_would_say(follows: float, photos: int, voted: int) -> None:
    """Also of a judge that sees half of what people see, and of few photographs, which tell the weight as well."""
    truth = {model: 1000 + strength * 400 / np.log(10) for model, strength in PEOPLE.items()}
    inside = []
    for seed in range(30):
        judged, people = simulate(seed, photos, voted, follows)
        board = beholder.estimate_arena(judged, people=people, draws=200).board
        inside += [
            row.rating.low <= truth[row.model] <= (row.rating.high or 0) for row in board.ratings if row.rating.low
        ]
    assert len(inside) > 60
    assert np.mean(inside) >= 0.9


def test_wrong_use_is_one_sentence() -> None:
    judged, people = simulate(7, photos=10, voted=5)
    with pytest.raises(UsageError, match=r"Name the votes of people \(--people or people=\)"):
        beholder.estimate_arena(judged)
    two = [row | {"judge": name} for name in ("x", "y") for row in judged]
    with pytest.raises(UsageError, match="One judge is set beside people, and these votes are of 2: x, y"):
        beholder.estimate_arena(two, people=people)
    with pytest.raises(UsageError, match="No pair has a vote of a judge and one of people"):
        beholder.estimate_arena(judged, people=[row | {"case": "x" + row["case"]} for row in people])
