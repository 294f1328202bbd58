"""Votes of people as files: out of the ledger and into it again, ours and those of public boards."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from support.votes import MODELS, PHOTOS, RUN, pairs, vote, vote_all

import beholder
from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.reviews.review import find_or_start_review, list_reviews
from beholder.reviews.votes import list_winners, recorded_order

CASE = "photo-00000/basalt-aurora"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    pairs(tmp_path / "ledger.db").close()
    return tmp_path / "ledger.db"


def votes_of(place: Path) -> dict[tuple[str, str], tuple[dict[str, str], str]]:
    with Ledger.open(place, read_only=True) as ledger:
        return {
            (review.rater, verdict.case): (list_winners(verdict), recorded_order(verdict))
            for review in list_reviews(ledger, RUN)
            for verdict in ledger.verdicts(review.id)
            if verdict.answered
        }


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_votes_come_in_again_as_they_were(place: Path, tmp_path: Path) -> None:
    with Ledger.open(place) as ledger:
        vote_all(ledger, "Ana", wrong=2)
        bo = find_or_start_review(ledger, RUN, "=Bo")
        vote(ledger, bo, CASE, "both_bad", natural="tie", followed="second")
    beholder.export_ratings(RUN, tmp_path / "votes.csv", ledger=place)
    text = (tmp_path / "votes.csv").read_text("utf-8")
    assert text.startswith("case,rater,aspect,winner,order\n")
    assert len(text.splitlines()) == 1 + 3 * PHOTOS + 3
    other = tmp_path / "other.db"
    pairs(other).close()
    done = beholder.import_ratings(RUN, tmp_path / "votes.csv", ledger=other)
    assert done.raters == {"Ana": 3 * PHOTOS, "=Bo": 1}
    assert votes_of(other) == votes_of(place)
    beholder.export_ratings(RUN, tmp_path / "again.csv", ledger=other)
    assert (tmp_path / "again.csv").read_text("utf-8") == text
    with pytest.raises(UsageError, match="exists and is no empty file"):  # it may be a file of somebody's own
        beholder.export_ratings(RUN, tmp_path / "again.csv", ledger=other)
    beholder.export_ratings(RUN, tmp_path / "again.csv", ledger=other, force=True)
    again = beholder.import_ratings(RUN, tmp_path / "votes.csv", ledger=other)
    assert again.raters == {"Ana": 0, "=Bo": 0}
    assert again.notes == [f"Ana: {3 * PHOTOS} voted so already.", "=Bo: 1 voted so already."]


def test_votes_of_public_boards_are_matched_by_models(place: Path, tmp_path: Path) -> None:
    file = write(
        tmp_path / "board.csv",
        "case,judge,model_a,model_b,winner,order\n"
        f"{CASE},Ana,basalt,aurora,model_b,ab\n"
        f"{CASE},Bo,aurora,basalt,model_a,ab\n"
        f"{CASE},Cy,aurora,basalt,model_b,ba\n"
        f"{CASE},Di,aurora,basalt,tie (bothbad),\n",
    )
    beholder.import_ratings(RUN, file, ledger=place)
    assert votes_of(place) == {
        ("Ana", CASE): ({"overall": "second"}, "given"),
        ("Bo", CASE): ({"overall": "second"}, "swapped"),  # aurora, the second candidate, was shown first
        ("Cy", CASE): ({"overall": "first"}, "given"),
        ("Di", CASE): ({"overall": "both_bad"}, ""),
    }


def test_a_file_without_orders_leaves_them_unknown_and_the_rest_as_it_is(place: Path, tmp_path: Path) -> None:
    with Ledger.open(place) as ledger:
        vote(ledger, find_or_start_review(ledger, RUN, "Ana"), CASE, "first", natural="tie")
    order = votes_of(place)["Ana", CASE][1]
    assert order in ("given", "swapped")
    file = write(tmp_path / "v.csv", f"case,rater,winner\n{CASE},ana,second\n{CASE},Bo,tie\n")
    assert beholder.import_ratings(RUN, file, ledger=place).raters == {"Ana": 1, "Bo": 1}
    assert votes_of(place)["Ana", CASE] == ({"natural": "tie", "overall": "second"}, order)
    assert votes_of(place)["Bo", CASE] == ({"overall": "tie"}, "")
    people = beholder.show_arena(RUN, judge="people", ledger=place)
    assert (people.statistics.votes, people.statistics.calls) == (2, 1)  # the lean is of votes whose order is known
    assert any("That rests on 1 of 2 votes" in sentence for sentence in people.statistics.sentences())
    fitted = beholder.show_arena(RUN, judge="people", position=True, ledger=place)
    assert sorted(row["order"] for row in csv.DictReader(fitted.votes.to_csv().splitlines())) == ["", "ab"]
    assert fitted.board.votes == 1
    assert "1 vote without a known order does not count, as the position is fitted." in fitted.board.notes
    judge = beholder.show_arena(RUN, ledger=place).statistics
    assert (judge.with_order, judge.calls) == (judge.votes, 2 * judge.votes + 1)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (
            f"case,rater,winner\n{CASE},Ana,aurora\n",
            "line 2: the winner 'aurora' is none of first, second, tie or both_bad",
        ),
        ("case,rater,winner\np9,Ana,tie\n", "line 2: the run r1 has no case 'p9'; votes are on pairs that were judged"),
        (f"case,rater,winner\n{CASE},,tie\n", "line 2: A rater's name is one line"),
        (f"case,rater,aspect,winner\n{CASE},Ana,looks,tie\n", "the aspect 'looks' is none of overall, followed, "),
        (
            f"case,rater,aspect,winner\n{CASE},Ana,natural,tie\n",
            "'Ana' has no vote on 'photo-00000/basalt-aurora' as a",
        ),
        (f"case,rater,winner\n{CASE},Ana,tie\n{CASE},ANA,tie\n", "line 3: 'Ana' votes on 'overall' of"),
        (f"case,rater,winner,order\n{CASE},Ana,tie,left\n", "the order 'left' is none of given, swapped, ab and ba"),
        (f"case,rater,winner\n{CASE},Ana,model_a\n", "the winner is 'model_a', and there are no columns model_a and"),
        (
            f"case,rater,model_a,model_b,winner\n{CASE},Ana,aurora,cobalt,tie\n",
            "compares basalt and aurora, not aurora and cobalt",
        ),
        (
            f"case,rater,aspect,winner,order\n{CASE},Ana,natural,tie,given\n{CASE},Ana,overall,tie,swapped\n",
            "line 3: 'Ana' saw 'photo-00000/basalt-aurora' in one order, and here are two",
        ),
        ("case,rater,winner\n", "holds no vote"),
    ],
)
def test_what_is_no_vote_is_refused_with_a_sentence_and_nothing_is_taken(
    place: Path, tmp_path: Path, rows: str, why: str
) -> None:
    good = rows.splitlines()[0].count(",") == 2 and rows.count("\n") > 1
    file = write(tmp_path / "v.csv", rows + (f"{CASE},Zoe,tie\n" if good else ""))
    with pytest.raises(UsageError) as refused:
        beholder.import_ratings(RUN, file, ledger=place)
    assert why in str(refused.value)
    assert votes_of(place) == {}


def test_people_have_a_board_of_their_own(place: Path) -> None:
    with Ledger.open(place) as ledger:
        vote_all(ledger, "Ana")
        vote_all(ledger, "Bo", wrong=3)
    judge = beholder.show_arena(RUN, ledger=place)
    people = beholder.show_arena(RUN, judge="people", ledger=place)
    assert (judge.statistics.votes, people.statistics.votes) == (3 * PHOTOS - 1, 6 * PHOTOS)
    assert [row.model for row in people.board.ratings] == list(MODELS)
    assert people.statistics.both_orders == 0
    assert people.board.groups == PHOTOS
    ana = beholder.show_arena(RUN, judge="person:ana", ledger=place)
    assert (ana.statistics.votes, ana.board["aurora"].losses) == (3 * PHOTOS, 0)
    with pytest.raises(UsageError, match=r"not of 'person:Cy'; this run was reviewed by: 'person:Ana', 'person:Bo'\."):
        beholder.show_arena(RUN, judge="person:Cy", ledger=place)


def test_the_votes_of_people_are_written_in_the_order_in_which_they_were_shown(place: Path) -> None:
    with Ledger.open(place) as ledger:
        vote_all(ledger, "Ana")
        cases = {case: ledger.case(RUN, case).groups for case in ledger.case_ids(RUN)}
    rows = list(csv.DictReader(beholder.show_arena(RUN, judge="people", ledger=place).votes.to_csv().splitlines()))
    shown = votes_of(place)
    for row in rows:
        groups = cases[row["case"]]
        first, second = groups["model_first"], groups["model_second"]
        if shown["Ana", row["case"]][1] == "swapped":
            first, second = second, first
        assert (row["model_a"], row["model_b"]) == (first, second)
        assert MODELS[row[row["winner"]]] == max(MODELS[first], MODELS[second])
    assert {row["winner"] for row in rows} == {"model_a", "model_b"}


def test_nobody_has_voted(place: Path) -> None:
    with pytest.raises(UsageError, match=r"Nobody has voted on the pairs of the run r1 \(nightly\) yet"):
        beholder.show_arena(RUN, judge="people", ledger=place)


def test_judge_and_people_are_set_beside_each_other(place: Path) -> None:
    with Ledger.open(place) as ledger:
        vote_all(ledger, "Ana")
        vote_all(ledger, "Bo", wrong=3)
    agreement = beholder.agree_arena(RUN, ledger=place)
    verdicts = agreement.judges[0]
    assert (verdicts.judge, verdicts.pairs, verdicts.unanswered) == ("openai:gpt-5-mini", 3 * PHOTOS - 1, 1)
    assert verdicts.without_majority == 3  # where Bo votes against Ana
    assert verdicts.accuracy_decided.value == 1
    assert verdicts.accuracy.value == pytest.approx((3 * PHOTOS - 4 - 3) / (3 * PHOTOS - 4))
    assert agreement.people is not None
    assert agreement.people.same.value == pytest.approx((3 * PHOTOS - 3) / (3 * PHOTOS))
    each = next(one for one in agreement.judges if "each answer" in one.judge)
    assert each.lean.value is not None
    assert each.lean.value > 0  # of the pair with a flip: A both times
    assert beholder.agree_arena(runs=[RUN], ledger=place) == agreement
