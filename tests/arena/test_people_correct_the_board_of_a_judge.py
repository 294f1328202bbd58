"""`estimate_arena`: people's votes on some pairs and a judge's on all make one board, which is that of people."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import beholder
from beholder.errors import UsageError

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


def test_wrong_use_is_one_sentence() -> None:
    judged, people = simulate(7, photos=10, voted=5)
    with pytest.raises(UsageError, match=r"Name the votes of people \(--people or people=\)"):
        beholder.estimate_arena(judged)
    two = [row | {"judge": name} for name in ("x", "y") for row in judged]
    with pytest.raises(UsageError, match="One judge is set beside people, and these votes are of 2: x, y"):
        beholder.estimate_arena(two, people=people)
    with pytest.raises(UsageError, match="No pair has a vote of a judge and one of people"):
        beholder.estimate_arena(judged, people=[row | {"case": "x" + row["case"]} for row in people])
