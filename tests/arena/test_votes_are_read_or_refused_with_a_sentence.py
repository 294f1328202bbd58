"""Votes come in as the public boards have them and go out again; what is wrong with them is said in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest

import beholder
from beholder.arena.votes import DERIVED_JUDGE
from beholder.errors import UsageError

GOOD = "model_a,model_b,winner\na,b,model_a\nb,a,tie\na,b,both_bad\na,b,model_b\n"


def write(folder: Path, text: str, name: str = "votes.csv") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_the_rows_of_the_public_boards_come_out_as_they_went_in(tmp_path: Path) -> None:
    votes = beholder.read_votes(write(tmp_path, GOOD))
    assert (len(votes), votes.models) == (4, ("a", "b"))
    assert votes.to_csv() == GOOD


def test_csv_jsonl_and_mappings_are_the_same(tmp_path: Path) -> None:
    rows = [
        {"model_a": "a", "model_b": "b", "winner": "model_b", "prompt": "p1", "case": "c1", "judge": "j"},
        {"model_a": "a", "model_b": "b", "winner": "tie", "prompt": "p1", "case": "c2", "judge": "j"},
    ]
    text = "\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)])
    table = beholder.read_votes(write(tmp_path, "\ufeff" + text))
    lines = beholder.read_votes(write(tmp_path, "\n".join(map(json.dumps, rows)), "votes.jsonl"))
    given = beholder.read_votes(rows)
    frames = [beholder.read_votes(frame(rows)) for frame in (polars.DataFrame, pandas.DataFrame)]
    assert [votes.to_csv() for votes in (lines, given, *frames)] == [table.to_csv()] * 4
    assert (table.group_name, table.notes) == ("prompt", ())


def test_the_model_that_was_shown_first_is_written_first(tmp_path: Path) -> None:
    votes = beholder.read_votes(write(tmp_path, "model_a,model_b,winner,order\na,b,model_a,ba\na,b,tie,ab\n"))
    assert votes.to_csv() == "model_a,model_b,winner,order\nb,a,model_b,ab\na,b,tie,ab\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no votes"),
        ("model_a,model_b,winner\n", "holds no votes"),
        ("model_a,model_b,winer\na,b,tie\n", "has no column winner; did you mean 'winer'?"),
        ("model_a,winner\na,tie\n", "has no column model_b; did you mean 'model_a'? it has: model_a, winner."),
        ("model_a,model_b,winner,winner\na,b,tie,tie\n", "has two columns called 'winner'"),
        (
            GOOD + "a,b,modela\n",
            "line 6: 'modela' is no winner; did you mean 'model_a'? there are model_a, model_b, tie",
        ),
        (GOOD + "a,b,b\n", "line 6: the winner is written model_a or model_b, not by its name 'b'"),
        ("model_a,model_b,winner\na,a,tie\n", "holds no vote: all compare a model with itself"),
        (GOOD + "a,,tie\n", "line 6: there is one output only"),
        (GOOD + "a,b\n", "line 6: has 2 cells, and the header has 3"),
        ("model_a,model_b,winner,order\na,b,tie,left\n", "the order 'left' is not ab"),
        ("model_a,model_b,winner\na,b,\n", "holds no vote: no row has a winner"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        beholder.read_votes(write(tmp_path, text))
    assert sentence in str(refused.value)
    assert str(refused.value).count("\n") <= 1


def test_contradictory_votes_of_one_judge_are_refused(tmp_path: Path) -> None:
    head = "case,judge,model_a,model_b,winner\n"
    path = write(tmp_path, head + "c,j,a,b,model_a\nc,k,a,b,model_b\nc,j,a,b,tie\n")
    with pytest.raises(
        UsageError, match=r"line 4: 'j' voted on 'a' and 'b' of 'c' before \(line 2\).*: model_a and th"
    ):
        beholder.read_votes(path)


def test_votes_of_nobody_on_one_pair_all_count_and_are_said() -> None:
    """Without a judge they may be of several people, or one file twice."""
    rows = [{"case": "1", "model_a": "a", "model_b": "b", "winner": word} for word in ("model_a", "model_b", "model_b")]
    votes = beholder.read_votes(rows)
    assert len(votes) == 3
    assert votes.notes == (
        "2 votes are on a pair that was voted on before, and no column judge says by whom: each counts. 1 of them "
        "contradicts the vote before.",
    )
    assert beholder.read_votes([row | {"judge": f"j{at}"} for at, row in enumerate(rows)]).notes == ()


def test_derived_votes_stay_derived_in_their_file(tmp_path: Path) -> None:
    rows = [{"model_a": a, "model_b": b, "winner": "model_a", "judge": DERIVED_JUDGE} for a, b in ("ab", "ba")]
    path = write(tmp_path, beholder.read_votes(rows).to_csv())
    board = beholder.fit_arena(path, draws=100)
    assert board.derived
    assert any("derived from scores: nobody compared two outputs" in note for note in board.notes)
    with pytest.raises(UsageError, match="have no position"):
        beholder.fit_arena(path, position=True, draws=100)
    mixed = beholder.read_votes([rows[0], rows[1] | {"judge": "j"}])
    assert not mixed.derived
    assert mixed.notes == ("1 of 2 votes are derived from scores: nobody compared the two outputs.",)


def test_a_change_with_the_order_is_told_from_a_flip() -> None:
    words = {"c": ("model_a", "model_a"), "d": ("model_a", "tie"), "e": ("model_a", "model_b")}  # a flip, a lean, none
    rows = [
        {"case": case, "judge": "j", "model_a": models[0], "model_b": models[1], "winner": word}
        for case, both in words.items()
        for models, word in zip(("ab", "ba"), both, strict=True)
    ]
    assert beholder.read_votes(rows).notes == (
        "In 2 of 3 pairs that a judge saw in both orders, its vote changed with the order, in 1 of them from one "
        "output to the other (a flip).",
    )


def test_a_repeated_vote_counts_once_and_a_flip_is_counted(tmp_path: Path) -> None:
    head = "case,judge,model_a,model_b,winner\n"
    text = head + "c,j,a,b,model_a\nc,j,a,b,model_a\nc,j,b,a,model_a\nd,j,a,b,model_a\nd,j,b,a,model_b\n"
    votes = beholder.read_votes(write(tmp_path, text))
    assert len(votes) == 4
    assert votes.notes == (
        "1 vote has been given before and does not count again.",
        "In 1 of 2 pairs that a judge saw in both orders, its vote changed with the order.",
    )


def test_votes_within_one_model_are_skipped_and_counted() -> None:
    rows = [{"model_a": a, "model_b": b, "winner": "model_a"} for a, b in ("ab", "aa", "ba", "bb")]
    votes = beholder.read_votes(rows)
    assert len(votes) == 2
    note = "2 rows compare a model with itself, which ranks nothing, and do not count."
    assert votes.notes == (note,)
    assert note in beholder.fit_arena(rows, draws=100).notes
    assert beholder.read_votes(rows[:2]).notes == (
        "1 row compares a model with itself, which ranks nothing, and does not count.",
    )


def test_a_failed_call_is_no_tie(tmp_path: Path) -> None:
    votes = beholder.read_votes(write(tmp_path, GOOD + "a,b,\na,b,\n"))
    assert len(votes) == 4
    assert votes.notes == ("2 rows without a winner have no vote, and do not count.",)


def test_a_winner_that_a_frame_lacks_is_a_failed_call() -> None:
    rows = [{"model_a": "a", "model_b": "b", "winner": "tie"}, {"model_a": "a", "model_b": "b"}]
    assert len(beholder.read_votes(pandas.DataFrame(rows))) == 1


@pytest.mark.parametrize("source", [[1, 2], ["votes"], 7])
def test_what_is_no_table_is_named(source: Any) -> None:
    with pytest.raises(UsageError, match="Votes are a file, a frame or mappings"):
        beholder.read_votes(source)


def test_ten_problems_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        beholder.read_votes(write(tmp_path, GOOD + "a,b,nobody\n" * 25))
    lines = str(refused.value).splitlines()
    assert (len(lines), lines[0][:7], lines[-1]) == (12, "25 rows", "… and 15 more")


def test_an_unknown_group_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "model_a,model_b,winner,photo\na,b,tie,p\n")
    assert beholder.read_votes(path, group="photo").group_name == "photo"
    with pytest.raises(UsageError, match="no column 'foto' to group votes by; did you mean 'photo'"):
        beholder.read_votes(path, group="foto")
    with pytest.raises(UsageError, match="no column 'foto'"):
        beholder.read_votes([{"model_a": "a", "model_b": "b", "winner": "tie"}], group="foto")


@pytest.mark.parametrize("name", ["nowhere.csv", ".", "a\0b"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        beholder.read_votes(tmp_path / name)
    with pytest.raises(UsageError, match="cannot be read"):
        beholder.fit_arena([{"model_a": "a", "model_b": "b", "winner": "tie"}], anchor=tmp_path / name)


def test_text_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_bytes(GOOD.encode("utf-16"))
    with pytest.raises(UsageError, match="not UTF-8"):
        beholder.read_votes(path)
