"""`run_arena` and `show_arena`: pairs are asked in an ordinary run, whose verdicts make a board."""

from __future__ import annotations

import csv
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.arena import PATTERNS, choose, lot, prefer_red, red_judge, write_arena
from support.votes import RUN, pairs, vote_all

import beholder
from beholder.errors import CaseError, UsageError
from beholder.rubrics.brief import Brief

STRENGTHS = {"aurora": 170, "basalt": 130, "cobalt": 90}
FIELDS = {"instruction": "make it red"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    write_arena(tmp_path, STRENGTHS, 24)
    return tmp_path


def ask(judge: beholder.ScriptedJudge | None = None, **more: object) -> beholder.Arena:
    given = {"rubric": "edit-preference", "pair": PATTERNS, "fields": FIELDS, "audit": False, "thumbnails": False}
    return beholder.run_arena(judge=judge or red_judge(), progress=False, **{**given, **more})  # type: ignore[arg-type]  # keywords of several types


@pytest.mark.usefixtures("folder")
def test_every_pair_is_asked_in_both_orders_and_is_one_vote() -> None:
    judge = red_judge()
    arena = ask(judge)
    assert (arena.statistics.pairs, arena.statistics.votes, len(judge.briefs)) == (72, 72, 144)
    assert [row.model for row in arena.board.ratings] == ["aurora", "basalt", "cobalt"]
    assert arena.board.groups == 24
    assert arena.board.group == "source"
    assert arena.gate("aurora > cobalt").status == "passed"
    assert (arena.statistics.flips, arena.statistics.both_orders) == (0, 72)
    assert (arena.statistics.lean.value, arena.statistics.lean.low) == (0, None)  # no draw can differ
    assert arena.statistics.flip_rate.high == pytest.approx(1 - 0.025 ** (1 / 24))
    assert (arena.run.state, arena.run.total) == ("finished", 72)
    shown = beholder.show_arena()
    assert shown.run.id == arena.run.id
    assert shown.board == arena.board
    assert repr(shown) == f"<Arena {arena.run.id} 'edit-preference', finished: 72 votes on 72 pairs>"
    page = shown._repr_html_()
    assert "edit-preference: 72 votes on 3 models, 24 groups by source" in page
    assert "no vote" in page
    assert page.index("aurora") < page.index("cobalt")


@pytest.mark.usefixtures("folder")
def test_a_judge_that_follows_the_position_makes_flips_and_no_winner() -> None:
    arena = ask(red_judge(lambda brief: choose("A")))
    assert (arena.statistics.flips, arena.statistics.both_orders) == (72, 72)
    assert arena.statistics.flip_rate.value == 1
    assert arena.statistics.flip_rate.low == pytest.approx(0.025 ** (1 / 24))
    assert arena.statistics.lean.value == pytest.approx(0.5)
    assert {(row.wins, row.ties, row.votes) for row in arena.board.ratings} == {(0, 48, 48)}
    assert {counts.flips for counts in arena.statistics.models.values()} == {48}
    assert "No vote has a winner, so that all models are equal." in arena.board.notes
    assert any(
        "In 72 of 72 pairs asked in both orders the answer flipped" in one for one in arena.statistics.sentences()
    )


@pytest.mark.usefixtures("folder")
def test_a_failed_call_is_no_tie_and_is_asked_again_by_the_same_call() -> None:
    broken = red_judge(lambda brief: "no answer" if lot(brief) < 0.2 else prefer_red(brief))
    arena = ask(broken)
    lost = arena.statistics.failed["invalid"]
    assert 5 < lost < 50
    assert arena.statistics.votes == 72 - lost
    assert sum(row.votes for row in arena.board.ratings) == 2 * (72 - lost)
    assert sum(row.ties for row in arena.board.ratings) == 0
    assert sum(counts.failed for counts in arena.statistics.models.values()) == 2 * lost
    assert arena.votes.unanswered == {"scripted": lost}
    judge = red_judge()
    again = ask(judge)
    assert again.run.id == arena.run.id
    assert again.statistics.failed == {}
    assert lost <= len(judge.briefs) < 2 * lost + 1  # of an order that was answered, the ledger has the answer


@pytest.mark.usefixtures("folder")
def test_both_bad_is_a_tie_that_is_reported_by_itself(tmp_path: Path) -> None:
    write_arena(tmp_path / "dark", {"aurora": 120, "umber": -80, "sable": -80}, 10)
    pairs = {role: f"dark/{pattern}" for role, pattern in PATTERNS.items()}
    board = ask(pair=pairs).board
    assert board["umber"].both_bad == board["sable"].both_bad == 10
    assert board["aurora"].both_bad == 0


@pytest.mark.usefixtures("folder")
def test_a_number_of_pairs_is_spread_and_more_go_on_from_fewer() -> None:
    judge = red_judge()
    some = ask(judge, pairs=12)
    assert (some.statistics.pairs, len(judge.briefs)) == (12, 24)
    assert {row.votes for row in some.board.ratings} == {8}
    assert some.board.groups == 12
    more = ask(judge, pairs=30)
    assert (more.statistics.pairs, len(judge.briefs)) == (30, 60)  # the first twelve are in the ledger
    with pytest.raises(UsageError, match=r"There are 72 pairs to compare, and 73 are asked for"):
        ask(pairs=73)


@pytest.mark.usefixtures("folder")
def test_adaptive_pairs_end_when_the_board_is_known_and_go_on_for_a_narrower_one() -> None:
    judge = red_judge()
    arena = ask(judge, pairs="adaptive", until_width=600)
    first = arena.statistics.pairs
    assert first < 72
    assert arena.run.state == "finished"
    assert arena.run.total == first
    assert str(arena.statistics.chosen["why"]).startswith("No interval between neighbors is wider than")
    asked = len(judge.briefs)
    assert asked == 2 * first
    again = ask(judge, pairs="adaptive", until_width=600)
    assert (again.run.id, len(judge.briefs)) == (arena.run.id, asked)
    narrow = ask(judge, pairs="adaptive", until_width=1)
    assert narrow.run.id == arena.run.id
    assert narrow.statistics.pairs == 72
    assert narrow.statistics.chosen["why"] == "All pairs have been asked."
    assert len(judge.briefs) == 144


@pytest.mark.usefixtures("folder")
def test_an_adaptive_run_that_was_stopped_goes_on(asked_to_stop: threading.Event) -> None:
    stop = threading.Event()
    asked: list[Brief] = []

    def say(brief: Brief) -> object:
        asked.append(brief)
        if len(asked) == 30:
            stop.set()
            assert asked_to_stop.wait(60)
        return prefer_red(brief)

    stopped = ask(red_judge(say), pairs="adaptive", until_width=1, stop=stop, concurrency=2)
    assert stopped.run.state == "interrupted"
    assert stopped.statistics.sentences()[0].startswith(
        f"The run was interrupted: {stopped.statistics.pairs} of at most 72 pairs"
    )
    assert 0 < stopped.statistics.votes < 72
    judge = red_judge()
    done = ask(judge, pairs="adaptive", until_width=1)
    assert done.run.id == stopped.run.id
    assert done.statistics.votes == 72
    assert len(asked) + len(judge.briefs) == 144
    assert {brief.digest for brief in asked}.isdisjoint({brief.digest for brief in judge.briefs})


@pytest.mark.usefixtures("folder")
def test_an_adaptive_run_without_answers_asks_one_round_only() -> None:
    judge = red_judge(lambda brief: "no answer")
    arena = ask(judge, pairs="adaptive")
    assert arena.statistics.votes == 0
    assert arena.statistics.pairs < 72
    assert "pairs got a vote" in str(arena.statistics.chosen["why"])
    with pytest.raises(UsageError, match=r"has no vote: \d+ invalid"):
        _ = arena.board


@pytest.mark.usefixtures("folder")
def test_the_votes_of_a_run_are_those_of_a_public_board(tmp_path: Path) -> None:
    arena = ask(red_judge(lambda brief: choose("A") if lot(brief) < 0.3 else prefer_red(brief)))
    (tmp_path / "votes.csv").write_text(arena.votes.to_csv(), "utf-8")
    with (tmp_path / "votes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 72
    assert set(rows[0]) >= {"model_a", "model_b", "winner", "case", "judge", "source"}
    board = beholder.fit_arena(tmp_path / "votes.csv")
    for row in board.ratings:
        assert row.rating.value == pytest.approx(arena.board[row.model].rating.value)


@pytest.mark.usefixtures("folder")
def test_an_earlier_run_anchors_a_new_model(tmp_path: Path) -> None:
    ask(name="old")
    write_arena(tmp_path / "more", {**STRENGTHS, "dolomite": 140}, 24)
    pairs = {role: f"more/{pattern}" for role, pattern in PATTERNS.items()}
    arena = ask(pair=pairs, name="new")
    old = beholder.show_arena("old").board
    anchored = beholder.show_arena(arena.run, anchor="old").board
    for model in STRENGTHS:
        assert anchored[model].anchored
        assert anchored[model].rating.value == pytest.approx(old[model].rating.value)
    assert not anchored["dolomite"].anchored
    assert anchored == beholder.show_arena("new", anchor=beholder.show_arena("old").run).board
    assert anchored == beholder.show_arena("new", anchor=old).board
    with pytest.raises(UsageError, match="The anchor 'older' is no file, and no run"):
        beholder.show_arena("new", anchor="older")


@pytest.mark.usefixtures("folder")
def test_wrong_use_is_said_before_the_first_call(tmp_path: Path) -> None:
    judge = red_judge()
    with pytest.raises(UsageError, match="name one of kind preference"):
        ask(judge, rubric="edit-preservation", pair={"input": "photos/{name}.png", "edited": "out/{model}/{name}.png"})
    with pytest.raises(UsageError, match="a batch answers within a day"):
        ask(judge, pairs="adaptive", batch=True)
    with pytest.raises(UsageError, match="until_width belongs to adaptive pairs, and these are all"):
        ask(judge, until_width=50)
    with pytest.raises(UsageError, match="until_width is a number above 0"):
        ask(judge, pairs="adaptive", until_width=0)
    with pytest.raises(UsageError, match="is all, adaptive or a number of pairs"):
        ask(judge, pairs="most")
    (tmp_path / "out" / "cobalt" / "p003.png").write_bytes((tmp_path / "out" / "basalt" / "p003.png").read_bytes())
    with pytest.raises(CaseError, match="p003: the outputs of basalt and cobalt are the same image"):
        ask(judge)
    assert judge.briefs == []
    assert not (tmp_path / "beholder.db").exists()
    assert ask(judge, skip_bad=True).statistics.pairs == 71


def test_every_pair_that_is_left_out_is_counted_and_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_cases(folder)
    (folder / "out" / "cobalt" / "p003.png").unlink()
    (folder / "out" / "aurora" / "p005.png").unlink()
    (folder / "out" / "basalt" / "p005.png").write_bytes(b"no image")
    (folder / "out" / "basalt" / "p007.png").write_bytes((folder / "out" / "cobalt" / "p007.png").read_bytes())
    with pytest.raises(CaseError) as refused:
        ask(pair=None, cases="cases.jsonl")
    said = str(refused.value)
    assert "the image 'output': out/cobalt/p003.png does not exist" in said
    assert said.count("\n") == 4  # an output that is alone only because its partners cannot be used is not listed, too
    arena = ask(pair=None, cases="cases.jsonl", skip_bad=True)
    assert (arena.statistics.pairs, arena.statistics.of, arena.statistics.left_out) == (66, 66, 6)
    assert "6 of 72 pairs are left out: 4 things are wrong with the cases, the first: " in caplog.text
    sentence = "6 pairs could not be compared and were left out."
    assert sentence in arena.statistics.sentences()
    shown = beholder.show_arena()
    assert sentence in shown._repr_html_()
    asked = shown.to_dict()["asked"]
    assert isinstance(asked, dict)
    assert (asked["of"], asked["left_out"], asked["unplaced"]) == (66, 6, 0)


@pytest.mark.parametrize("listed", [False, True])
def test_missing_outputs_are_counted_by_model_and_named(
    folder: Path, caplog: pytest.LogCaptureFixture, listed: bool
) -> None:
    write_cases(folder)
    gone = {("aurora", "p002"), ("aurora", "p003"), ("cobalt", "p007")}
    rows = (folder / "cases.jsonl").read_text().splitlines()
    kept = [row for row in rows if not any(f'"{photo}-{model}"' in row for model, photo in gone)]
    (folder / "cases.jsonl").write_text("\n".join(kept))
    for model, photo in gone:
        (folder / "out" / model / f"{photo}.png").unlink()
    arena = ask(pair=None, cases="cases.jsonl") if listed else ask()
    sentence = (
        "3 of 72 outputs are missing, and each model is ranked by those that it has: aurora p002, p003; cobalt p007."
    )
    assert sentence in caplog.text
    assert sentence in arena.statistics.sentences()
    shown = beholder.show_arena()
    assert sentence in shown._repr_html_()
    asked: Any = shown.to_dict()["asked"]
    assert (asked["outputs"], asked["left_out"], asked["pairs"]) == (72, 0, 66)
    assert asked["missing"] == {
        "aurora": {"count": 2, "items": ["p002", "p003"]},
        "cobalt": {"count": 1, "items": ["p007"]},
    }


def test_a_run_that_was_killed_is_no_sample(tmp_path: Path) -> None:
    with pairs(tmp_path / "runs.db", unasked=6) as ledger:
        vote_all(ledger, "Ana")
    arena = beholder.show_arena(RUN, ledger=tmp_path / "runs.db")
    told = arena.statistics.sentences()
    assert told[0] == "The run was interrupted: 18 of 24 pairs have a verdict. The same command goes on."
    assert not any("sample" in one for one in told)
    assert arena.run.state == "interrupted"
    people = beholder.show_arena(RUN, judge="people", ledger=tmp_path / "runs.db").statistics.sentences()
    assert not any("interrupted" in one for one in people)


def test_cases_that_are_in_no_pair_are_counted_by_themselves(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_cases(folder)
    lines = (folder / "cases.jsonl").read_text().splitlines()
    nameless = [line.replace('"model": "aurora", ', "") for line in lines[:9]]
    (folder / "cases.jsonl").write_text("\n".join([*nameless, "{no json", *lines[9:]]))
    arena = ask(pair=None, cases="cases.jsonl", skip_bad=True)
    statistics = arena.statistics
    assert (statistics.pairs, statistics.left_out, statistics.unplaced) == (66, 0, 4)
    sentence = "4 cases could not be read or name no model, and are in no pair"
    assert f"0 of 66 pairs are left out, and {sentence}: 4 things are wrong with the cases" in caplog.text
    assert f"{sentence}." in statistics.sentences()
    assert not any("left out" in one for one in statistics.sentences())


def write_cases(folder: Path) -> None:
    rows = [
        {"id": f"{photo}-{model}", "model": model, "input": f"photos/{photo}.png", "output": f"out/{model}/{photo}.png"}
        for photo in (f"p{number:03}" for number in range(24))
        for model in STRENGTHS
    ]
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_plan_says_what_an_arena_costs_before_anything_is_spent(folder: Path) -> None:
    given: dict[str, Any] = {
        "rubric": "edit-preference",
        "pair": PATTERNS,
        "fields": FIELDS,
        "judge": "openai:gpt-5-mini",
    }
    some, every, adaptive = (beholder.plan_arena(pairs=pairs, **given) for pairs in (10, "all", "adaptive"))
    assert (some.cases, every.cases, adaptive.cases) == (10, 72, 72)
    assert (some.judges[0].calls, every.judges[0].calls) == (20, 144)
    assert every.judges[0].text_tokens > some.judges[0].text_tokens > 0
    assert not (folder / "beholder.db").exists()
    (folder / "out" / "cobalt" / "p003.png").write_bytes(b"no image")
    assert beholder.plan_arena(skip_bad=True, **given).cases == 70


@pytest.mark.usefixtures("folder")
def test_a_board_of_some_pairs_says_that_it_is_a_sample() -> None:
    some = ask(pairs=12).statistics
    assert (some.pairs, some.of, some.left_out) == (12, 72, 0)
    assert "This board is of a sample: 12 of 72 pairs." in some.sentences()
    assert ask(pairs=3).statistics.flip_rate.why == "no interval: 3 groups cannot tell; it takes 6"
    adaptive = ask(pairs="adaptive", until_width=600).statistics
    assert f"This board is of a sample: {adaptive.pairs} of 72 pairs." in adaptive.sentences()
    every = ask().statistics
    assert (every.pairs, every.of, every.chosen["pairs"]) == (72, 72, "all")
    assert not any("sample" in sentence for sentence in every.sentences())


@pytest.mark.usefixtures("folder")
def test_the_advantage_of_the_first_position_is_fitted_to_single_answers(tmp_path: Path) -> None:
    ask(red_judge(lambda brief: choose("A") if lot(brief) < 0.4 else prefer_red(brief)))
    plain, fitted = beholder.show_arena(), beholder.show_arena(position=True)
    assert plain.board.position is None
    assert (plain.board.votes, fitted.board.votes) == (72, 144)
    assert fitted.board.position is not None
    assert (fitted.board.position.low or 0) > 20
    assert [row.model for row in fitted.board.ratings] == ["aurora", "basalt", "cobalt"]
    assert "Each of 144 answers is a vote here, in place of 72 verdicts" in fitted.board.notes[0]
    assert not any("Each of" in note for note in plain.board.notes)
    (tmp_path / "votes.csv").write_text(fitted.votes.to_csv())
    again = beholder.fit_arena(tmp_path / "votes.csv", position=True)
    assert again.position == fitted.board.position
    (tmp_path / "votes.csv").write_text(plain.votes.to_csv())
    with pytest.raises(UsageError, match="None of these votes says which output was shown first"):
        beholder.fit_arena(tmp_path / "votes.csv", position=True)
    orders = [[row["order"] for row in csv.DictReader(arena.votes.to_csv().splitlines())] for arena in (plain, fitted)]
    assert [set(found) for found in orders] == [{""}, {"ab"}]  # a verdict over both orders has no position


@pytest.mark.usefixtures("folder")
def test_answers_of_a_pair_without_a_vote_do_not_count_for_the_position() -> None:
    ask(red_judge(lambda brief: "no answer" if lot(brief) < 0.2 else prefer_red(brief)))
    plain, fitted = beholder.show_arena(), beholder.show_arena(position=True)
    lost = plain.statistics.failed["invalid"]
    assert lost
    assert fitted.board.votes == 2 * plain.board.votes == 2 * (72 - lost)
    assert fitted.votes.unanswered == plain.votes.unanswered == {"scripted": lost}


@pytest.mark.usefixtures("folder")
def test_flips_and_other_changes_with_the_order_add_up_to_those_of_agree() -> None:
    ask(
        red_judge(
            lambda brief: choose("A") if lot(brief) < 0.3 else choose("tie") if lot(brief) < 0.6 else prefer_red(brief)
        )
    )
    found = beholder.show_arena().statistics
    assert found.flips > 3
    assert found.other_changes > 3
    assert (found.with_order, found.votes, found.calls) == (72, 72, 144)
    assert any("In 1 other it changed" in one for one in structs.replace(found, other_changes=1).sentences())
    few = structs.replace(found, with_order=3, votes=303).sentences()  # people's votes from a file have no order
    assert any("That rests on 3 of 303 votes; of the others the order is not known." in sentence for sentence in few)
    votes = beholder.show_arena().votes.to_csv().splitlines()
    people = [row | {"winner": "tie"} for row in csv.DictReader(votes)]
    changed = f"In {found.flips + found.other_changes} of 72 pairs that a judge saw in both orders, its vote changed"
    note = next(
        note for note in beholder.agree_arena("latest", people=people, draws=100).notes if "both orders" in note
    )
    assert note.startswith(changed)
    assert f"in {found.flips} of them from one output to the other (a flip)" in note


@pytest.mark.usefixtures("folder")
def test_a_run_of_scores_is_no_arena() -> None:
    cases = [{"id": "c", "input": "photos/p000.png", "edited": "out/aurora/p000.png", "instruction": "make it red"}]
    beholder.run(rubric="edit-preservation", cases=cases, progress=False)
    with pytest.raises(UsageError, match=r"is no arena: its case 'c' does not say which models made its candidates"):
        beholder.show_arena()


@pytest.mark.usefixtures("folder")
def test_texts_are_compared_too() -> None:
    cases = [
        {"id": f"{photo}-{model}", "model": model, "image": f"photos/p{photo:03}.png", "output": f"{words} {photo}"}
        | {"input": "What is there?"}
        for photo in range(8)
        for model, words in (("long", "a red square on a blue ground, number"), ("short", "something"))
    ]

    def say(brief: Brief) -> object:
        text = "".join(getattr(part, "text", "") for part in brief.content)
        longer = text.index("a red square") < text.index("something")
        one = {"reason": "it says more than the other", "choice": "A" if longer else "B", "strength": 3}
        return {"criteria": {key.key: one for key in rubric.criteria}, "overall": one}

    rubric = beholder.Rubric.load("description-preference")
    arena = beholder.run_arena(
        rubric="description-preference", cases=cases, judge=red_judge(say), progress=False, audit=False
    )
    assert arena.statistics.votes == 8
    assert arena.board["long"].wins == 8
