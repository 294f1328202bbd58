"""A judge's votes beside those of people: accuracy with and without ties, κ and α as others compute them, the ceiling,
and which side it leans to."""

from __future__ import annotations

from pathlib import Path

import krippendorff
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

import beholder
from beholder.errors import UsageError

Row = dict[str, object]
WINNERS = ("model_a", "model_b", "tie", "both_bad")


def table(column: list[str], **more: str) -> list[Row]:
    return [{"case": f"c{at}", "winner": word, **more} for at, word in enumerate(column)]


def random_votes(seed: int, count: int = 200) -> tuple[list[str], list[str]]:
    rng = np.random.default_rng(seed)
    people = rng.choice(WINNERS, count, p=[0.3, 0.3, 0.1, 0.3])
    judge = np.where(rng.random(count) < 0.5, people, rng.choice(WINNERS, count))
    return list(map(str, judge)), list(map(str, people))


def test_accuracy_and_kappa_are_what_others_compute() -> None:
    judge, people = random_votes(1)
    found = beholder.agree_arena(table(judge, judge="j"), people=table(people), draws=200).judges[0]
    same = [one == other for one, other in zip(judge, people, strict=True)]
    assert found.accuracy.value == pytest.approx(np.mean(same))
    assert found.kappa.value == pytest.approx(cohen_kappa_score(judge, people))
    decided = [one == other for one, other in zip(judge, people, strict=True) if {one, other} <= set(WINNERS[:2])]
    assert found.decided == len(decided)
    assert found.accuracy_decided.value == pytest.approx(np.mean(decided))
    assert found.confusion["both_bad"]["first"] == sum(
        (one, other) == ("model_a", "both_bad") for one, other in zip(judge, people, strict=True)
    )
    assert sum(sum(row.values()) for row in found.confusion.values()) == 200
    assert found.less_rater.why == "no two people voted on the same pair"


def test_people_among_themselves_are_the_ceiling() -> None:
    judge, first = random_votes(2)
    second, third = random_votes(3)[0], random_votes(2)[0]
    people = [
        row for name, column in zip("xyz", (first, second, third), strict=True) for row in table(column, judge=name)
    ]
    found = beholder.agree_arena(table(judge), people=people, draws=200)
    codes = np.array([[WINNERS.index(word) for word in column] for column in (first, second, third)])
    assert found.people is not None
    alpha = krippendorff.alpha(codes, level_of_measurement="nominal")
    assert found.people.alpha.value == pytest.approx(alpha)
    pairs = [np.mean(codes[one] == codes[other]) for one, other in ((0, 1), (0, 2), (1, 2))]
    assert found.people.same.value == pytest.approx(np.mean(pairs))
    single = np.mean([np.mean(np.array([WINNERS.index(word) for word in judge]) == row) for row in codes])
    assert found.judges[0].one_rater.value == pytest.approx(single)
    assert found.judges[0].less_rater.value == pytest.approx(single - np.mean(pairs))
    assert found.judges[0].without_majority == sum(len(set(column)) == 3 for column in codes.T.tolist())
    alone = beholder.agree_arena(people, draws=200)
    assert (alone.judges, alone.people) == ((), found.people)


def test_the_groups_of_one_side_are_those_of_both() -> None:
    """The judge is right on all pairs of a prompt or on none: drawn by themselves they would look like more."""
    people = table(["model_a"] * 100)
    judged = table([("model_a", "tie")[at // 5 % 2] for at in range(100)], judge="j")
    grouped, grouped_too = (
        [row | {"prompt": f"p{at // 5}"} for at, row in enumerate(rows)] for rows in (people, judged)
    )
    both = beholder.agree_arena(grouped_too, people=grouped, draws=200).judges[0].accuracy
    for rows, voted, group in ((judged, grouped, None), (grouped_too, people, None), (judged, grouped, "prompt")):
        found = beholder.agree_arena(rows, people=voted, group=group, draws=200)
        assert found.judges[0].accuracy == both
        assert "200 draws of 20 groups" in found.interval_note
    alone = beholder.agree_arena(judged, people=people, draws=200).judges[0].accuracy
    assert (both.high or 0) - (both.low or 0) > 1.8 * ((alone.high or 0) - (alone.low or 0))
    with pytest.raises(UsageError, match="no column 'photo' to group votes by"):
        beholder.agree_arena(judged, people=grouped, group="photo")


def test_a_lean_is_told_from_the_split_of_people() -> None:
    people = ["model_a", "model_b"] * 50
    leaning = beholder.agree_arena(table(["model_a"] * 100), people=table(people), draws=200).judges[0]
    assert (leaning.first_judge, leaning.first_people, leaning.lean.value) == (1, 0.5, 0.5)
    assert leaning.lean.excludes_zero
    assert leaning.kappa.value is None
    fair = beholder.agree_arena(table(people), people=table(people), draws=200).judges[0]
    assert (fair.accuracy.value, fair.lean.value) == (1, 0)


def test_votes_are_matched_in_whichever_order_the_outputs_were_shown() -> None:
    judge = [
        {"case": "1", "model_a": "x", "model_b": "y", "winner": "model_a"},
        {"case": "2", "model_a": "x", "model_b": "y", "winner": "model_a", "order": "ba"},
        {"case": "3", "model_a": "x", "model_b": "x", "winner": "model_b"},
    ]
    people = [
        {"case": "1", "model_a": "y", "model_b": "x", "winner": "model_b"},
        {"case": "2", "model_a": "x", "model_b": "y", "winner": "model_a"},
        {"case": "3", "model_a": "x", "model_b": "x", "winner": "model_b"},
        {"case": "4", "model_a": "x", "model_b": "y", "winner": "tie"},
    ]
    found = beholder.agree_arena(judge, people=people, draws=100).judges[0]
    assert (found.pairs, found.accuracy.value) == (3, 1)


@pytest.mark.parametrize("models", [{"model_a": "m", "model_b": "m"}, {}, {"model_a": "m", "model_b": "n"}])
def test_two_outputs_of_one_model_are_told_apart_by_their_columns(models: Row) -> None:
    """Shown in reverse, model_a is the same output, whether the two have one name, none or two."""
    people = [models | {"case": str(at), "winner": "model_a"} for at in range(12)]
    judge = [row | {"judge": "j", "order": order} for row in people for order in ("ab", "ba")]
    agreement = beholder.agree_arena(judge, people=people, draws=100)
    found = agreement.judges[0]
    assert (found.pairs, found.accuracy.value, found.first_judge) == (24, 1, 0.5)
    assert "In 0 of 12 pairs that a judge saw in both orders, its vote changed with the order." in agreement.notes


def test_a_judge_without_an_answer_is_listed_and_never_a_tie() -> None:
    judge, people = random_votes(4, 40)
    rows = table(["", "", *judge[2:]], judge="some") + table([""] * 40, judge="silent")
    found = beholder.agree_arena(rows, people=table(people), draws=100)
    some, silent = found.judges
    assert (some.pairs, some.unanswered) == (38, 2)
    assert (silent.judge, silent.pairs, silent.unanswered, silent.accuracy.value) == ("silent", 0, 40, None)
    assert "silent not defined" in repr(found)
    assert "<table>" in found._repr_html_()


def test_wrong_use_is_one_sentence(tmp_path: Path) -> None:
    rows = table(["model_a", "tie"])
    twice = tmp_path / "votes.csv"
    twice.write_text("case,winner\n1,tie\n1,tie\n", "utf-8")
    with pytest.raises(UsageError, match="is named twice"):
        beholder.agree_arena(twice, people=str(twice))
    with pytest.raises(UsageError, match="have no column case"):
        beholder.agree_arena([{"winner": "tie"}], people=rows)
    with pytest.raises(UsageError, match="No pair has a vote of a judge and one of people"):
        beholder.agree_arena(rows, people=[{"case": "other", "winner": "tie"}])
    with pytest.raises(UsageError, match="No two votes are on the same pair"):
        beholder.agree_arena(rows)
