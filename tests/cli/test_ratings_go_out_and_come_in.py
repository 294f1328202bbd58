"""Ratings as case,rater,aspect,score, out of the ledger and into it; and commands that take them from reviews."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledger import KEYS
from support.reviews import EDIT, RUN, alike, answers, edits, restyles, styled

from beholder.ledger.export import escape_formula, unescape_formula
from beholder.ledger.ledger import Ledger
from beholder.reviews.review import find_next_case, find_or_start_review, list_reviews
from beholder.reviews.sheet import record_rating
from beholder.verdicts.verdict import Verdict

FIRST = "photo-00000/model-a"


@pytest.fixture
def ledger(folder: Path) -> Path:
    """`beholder.db` with a run that Ana and Bo have rated, but for one case each."""
    with edits(folder / "beholder.db") as book:
        for at, name in enumerate(("Ana", "Bo")):
            review = find_or_start_review(book, RUN, name)
            for turn in range(11):
                case = find_next_case(book, review)
                assert case is not None
                record_rating(book, review, case, answers(1 + (turn + at + len(case)) % 7))
    return folder / "beholder.db"


def test_an_export_comes_in_again_as_it_was(run: Any, ledger: Path, folder: Path) -> None:
    assert run("ratings export r1 -o ratings.csv").code == 0
    text = (folder / "ratings.csv").read_text("utf-8")
    assert text.startswith("case,rater,aspect,score\n")
    assert len(text.splitlines()) == 1 + 2 * 11 * 4
    edits(folder / "other.db").close()
    done = run("ratings import ratings.csv --run r1 --ledger other.db")
    assert (done.code, done.err) == (0, "")
    assert "Ana: 11 cases rated." in done.out
    assert "computed from the criteria: score" in done.out
    assert run("ratings export r1 --ledger other.db").out == text


def test_ratings_that_people_may_have_made_are_replaced_by_force_only(run: Any, ledger: Path, folder: Path) -> None:
    made = "case,rater,aspect,score\na,ann,score,1\n"
    (folder / "mine.csv").write_text(made, "utf-8")
    done = run("ratings export r1 -o mine.csv")
    assert done.code == 2
    assert "'mine.csv' exists and is no empty file" in done.err
    assert (folder / "mine.csv").read_text("utf-8") == made
    assert run("ratings export r1 -o mine.csv --force").code == 0
    assert (folder / "mine.csv").read_text("utf-8") != made


def test_ratings_on_another_scale_come_in_once_it_is_declared(run: Any, folder: Path) -> None:
    edits(folder / "beholder.db").close()
    rows = [f"{FIRST},{rater},{key},{score}" for rater, score in (("Ana", 0.5), ("Bo", 0.1)) for key in KEYS]
    (folder / "halves.csv").write_text("\n".join(["case,rater,aspect,score", *rows, f"{FIRST},Cy,looks,10"]), "utf-8")
    refused = run("ratings import halves.csv --run r1 --map looks=unchanged_regions")
    assert refused.code == 2
    assert "a whole number from 1 to 7, not 0.5." in refused.err
    words = "ratings import halves.csv --run r1 --map looks=unchanged_regions --rating-scale 0..1"
    assert "from 0 to 1 here, not 10." in run(words).err
    (folder / "halves.csv").write_text("\n".join(["case,rater,aspect,score", *rows]), "utf-8")
    done = run("ratings import halves.csv --run r1 --rating-scale 0..1")
    assert (done.code, done.err) == (0, "")
    (folder / "looks.csv").write_text(f"case,rater,aspect,score\n{FIRST},Cy,looks,10", "utf-8")
    words = "ratings import looks.csv --run r1 --map looks=unchanged_regions"
    assert run(f"{words} --rating-scale 0..1 --rating-scale looks=0..20").code == 0
    with Ledger.open(folder / "beholder.db") as book:
        found = [
            [result.score for result in verdict.criteria.values()]
            for review in list_reviews(book, RUN)
            for verdict in book.verdicts(review.id)
        ]
    assert found == [[4, 4, 4], [1.6, 1.6, 1.6], [4, None, None]]
    assert "Bo: 1 rated so already." in run("ratings import halves.csv --run r1 --rating-scale 0..1").out
    assert "there are " in run("ratings import halves.csv --run r1 --rating-scale other=0..1").err


def test_assertions_come_in_again_too(run: Any, folder: Path) -> None:
    for name, rated in (("beholder.db", True), ("other.db", False)):
        with restyles(folder / name, "Anime", "Pop Art") as book:
            if rated:
                given = answers(3, styled("Anime")) | {"restyle:accuracy:A1": "no"}
                record_rating(book, find_or_start_review(book, RUN, "Ana"), FIRST, given)
    run("ratings export r1 -o ratings.csv")
    text = (folder / "ratings.csv").read_text("utf-8")
    assert f"{FIRST},Ana,Anime/A1,0\n" in text
    assert run("ratings import ratings.csv --run r1 --ledger other.db").code == 0
    assert run("ratings export r1 --ledger other.db").out == text


def test_one_rater_or_one_review_is_exported_alone(run: Any, ledger: Path) -> None:
    with Ledger.open(ledger, create=True) as book:
        [_, bo] = list_reviews(book, RUN)
    by_name = run("ratings export r1 --rater bo").out
    assert len(by_name.splitlines()) == 1 + 11 * 4
    assert run(f"ratings export {bo.id}").out == by_name
    assert "who did: Ana, Bo" in run("ratings export r1 --rater Cy").err


def test_what_covers_some_criteria_leaves_the_others_open(run: Any, folder: Path) -> None:
    edits(folder / "beholder.db").close()
    (folder / "some.csv").write_text(f"case,rater,aspect,score\n{FIRST},Cy,Unchanged Regions,4\n", "utf-8")
    assert run("ratings import some.csv --run r1").code == 0
    with Ledger.open(folder / "beholder.db", create=True) as book:
        [review] = list_reviews(book, RUN)
        [verdict] = book.verdicts(review.id)
    assert [one.score for one in verdict.criteria.values()] == [4, None, None]
    assert verdict.coverage is not None


def import_rows(run: Any, folder: Path, *rows: str) -> Any:
    (folder / "rows.csv").write_text("\n".join(["case,rater,aspect,score", *rows, ""]), "utf-8")
    return run("ratings import rows.csv --run r1")


def only(folder: Path) -> Verdict:
    with Ledger.open(folder / "beholder.db", create=True) as book:
        [review] = list_reviews(book, RUN)
        [verdict] = book.verdicts(review.id)
    return verdict


def test_what_a_file_does_not_speak_of_stays(run: Any, folder: Path) -> None:
    with edits(folder / "beholder.db") as book:
        record_rating(book, find_or_start_review(book, RUN, "Ana"), FIRST, answers(3) | {"comment": "The sky is odd."})
    done = import_rows(run, folder, f"{FIRST},ana,unchanged_regions,6")
    assert (done.code, done.out) == (0, "Ana: 1 case rated.\n")
    verdict = only(folder)
    assert [one.score for one in verdict.criteria.values()] == [6, 3, 3]
    assert verdict.assessment == "The sky is odd."


def test_what_is_rated_so_already_is_left_alone(run: Any, folder: Path) -> None:
    with restyles(folder / "beholder.db", "Anime") as book:
        given = answers(5, styled("Anime")) | {"restyle:accuracy:A1": "no", "comment": "fine"}
        [before] = record_rating(book, find_or_start_review(book, RUN, "Ana"), FIRST, given)
    assert (before.criteria["accuracy"].reported, before.criteria["accuracy"].score) == (5, 4)
    run("ratings export r1 -o ratings.csv")
    done = run("ratings import ratings.csv --run r1")
    assert "Ana: 0 cases rated." in done.out
    assert "Ana: 1 rated so already." in done.out
    assert import_rows(run, folder, f"{FIRST},Ana,Completeness,5").code == 0  # by another spelling
    after = only(folder)
    assert (after.criteria, after.flags, after.assessment) == (before.criteria, before.flags, "fine")


def test_a_rater_is_one_in_any_case_of_letters_and_rates_once(run: Any, folder: Path) -> None:
    edits(folder / "beholder.db").close()
    done = import_rows(run, folder, f"{FIRST},Ana,unchanged_regions,6", f"{FIRST},ana,unchanged_regions,2")
    assert done.code == 2
    assert f"'Ana' (also written 'ana') rates 'unchanged_regions' of '{FIRST}' a second time" in done.err
    done = import_rows(run, folder, f"{FIRST},Ana,unchanged_regions,6", f"{FIRST},ana,Unchanged Regions,2")
    assert done.code == 2
    assert "a second time" in done.err
    with Ledger.open(folder / "beholder.db", create=True) as book:
        assert list_reviews(book, RUN) == []
    done = import_rows(run, folder, f"{FIRST},Ana,unchanged_regions,6", f"{FIRST},ana,global_consistency,2")
    assert done.out == "Ana: 1 case rated.\n"
    assert [one.score for one in only(folder).criteria.values()] == [6, 2, None]


NAMES = ["'t Hooft", "'=x", "=x", "''=x", "-5", "+1 to all", "@home", "'"]


def test_an_apostrophe_that_belongs_to_a_name_stays(run: Any, folder: Path) -> None:
    with edits(folder / "beholder.db") as book:
        for name in NAMES:
            record_rating(book, find_or_start_review(book, RUN, name), FIRST, answers(3))
    run("ratings export r1 -o ratings.csv")
    edits(folder / "other.db").close()
    assert run("ratings import ratings.csv --run r1 --ledger other.db").code == 0
    with Ledger.open(folder / "other.db", create=True) as book:
        assert sorted(review.rater for review in list_reviews(book, RUN)) == sorted(NAMES)


@given(st.text())
def test_what_is_made_harmless_is_what_it_was(text: str) -> None:
    assert unescape_formula(escape_formula(text)) == text
    assert not escape_formula(text).startswith(("=", "@", "\t", "\r"))


def test_criteria_of_several_rubrics_come_in_again_as_they_were(run: Any, folder: Path) -> None:
    for name, rated in (("beholder.db", True), ("other.db", False)):
        with alike(folder / name) as book:
            if rated:
                said = {f"{EDIT}:unchanged_regions": "3", "second-look:unchanged_regions": "6"}
                record_rating(book, find_or_start_review(book, RUN, "Ana"), FIRST, said)
    run("ratings export r1 -o ratings.csv")
    text = (folder / "ratings.csv").read_text("utf-8")
    assert f"{FIRST},Ana,second-look.unchanged_regions,6\n" in text
    assert run("ratings import ratings.csv --run r1 --ledger other.db").code == 0
    assert run("ratings export r1 --ledger other.db").out == text


BAD = {
    "an aspect that there is not": (f"{FIRST},Cy,niceness,4", "'niceness' is no criterion"),
    "a case that there is not": ("elsewhere,Cy,unchanged_regions,4", "has no case 'elsewhere'"),
    "a score off the scale": (f"{FIRST},Cy,unchanged_regions,9", "1 to 7"),
    "half a point": (f"{FIRST},Cy,unchanged_regions,4.5", "a whole number from 1 to 7, not 4.5"),
    "nothing but the overall": (f"{FIRST},Cy,overall,0.5", "computed from criteria"),
    "a rater without a name": (f"{FIRST},\u200b,unchanged_regions,4", "A rater's name"),
}


@pytest.mark.parametrize("why", BAD)
def test_what_cannot_be_taken_is_refused_whole(run: Any, folder: Path, why: str) -> None:
    row, sentence = BAD[why]
    edits(folder / "beholder.db").close()
    text = f"case,rater,aspect,score\n{FIRST},Ana,global_consistency,4\n" if "overall" not in why else ""
    (folder / "bad.csv").write_text(f"{text or 'case,rater,aspect,score' + chr(10)}{row}\n", "utf-8")
    done = run("ratings import bad.csv --run r1")
    assert done.code == 2
    assert sentence in done.err
    with Ledger.open(folder / "beholder.db", create=True) as book:
        assert list_reviews(book, RUN) == []


def test_every_reason_is_told_at_once_with_its_lines(run: Any, folder: Path) -> None:
    edits(folder / "beholder.db").close()
    done = import_rows(
        run,
        folder,
        f"{FIRST},Ana,global_consistency,4",
        "elsewhere,Ana,unchanged_regions,4",
        f"{FIRST},Ana,unchanged_regions,much",
        f"{FIRST},Ana,unchanged_regions,9",
        f"{FIRST},Ana,niceness,4",
        f"{FIRST},Bo,niceness,4",
        f"{FIRST},Bo,,4",
        f"{FIRST},Ana,global_consistency,5",
    )
    assert done.code == 2
    head, *lines = done.err.splitlines()
    assert "cannot be taken, and nothing of it was:" in head
    assert [line.partition(": ")[0] for line in lines] == [
        "line 3",
        "line 4",
        "line 5",
        "lines 6, 7",
        "line 8",
        "line 9",
    ]
    assert "has no case 'elsewhere'" in lines[0]
    assert "'much' is no number" in lines[1]
    assert lines[2] == "line 5: 'unchanged_regions' is rated with a whole number from 1 to 7, not 9."
    assert "'niceness' is no criterion of the rubric; there are unchanged_regions," in lines[3]
    assert "there is no aspect" in lines[4]
    assert "a second time" in lines[5]


def test_an_aspect_by_another_name_is_mapped(run: Any, folder: Path) -> None:
    edits(folder / "beholder.db").close()
    (folder / "some.csv").write_text(f"case,rater,aspect,score\n{FIRST},Cy,niceness,4\n", "utf-8")
    assert run("ratings import some.csv --run r1 --map niceness=unchanged_regions").code == 0
    assert f"{FIRST},Cy,unchanged_regions,4" in run("ratings export r1").out
    assert "ASPECT=CRITERION" in run("ratings import some.csv --run r1 --map niceness").err


def test_a_run_that_nobody_rated_says_how_to(run: Any, folder: Path) -> None:
    edits(folder / "beholder.db").close()
    for command in ("ratings export r1", "agree r1", "estimate r1", "calibrate r1"):
        done = run(command)
        assert done.code == 2
        assert "beholder view" in done.err


def test_agree_takes_the_reviews_of_the_run(run: Any, ledger: Path) -> None:
    run("ratings export r1 -o ratings.csv")
    from_reviews = json.loads(run("agree r1 --draws 100 --json").out)
    scales = " ".join(f"--rating-scale {key}=1..7" for key in KEYS) + " --rating-scale score=0..1"
    from_file = json.loads(run(f"agree r1 --ratings ratings.csv --draws 100 --json {scales}").out)
    assert from_reviews == from_file
    assert "against people" in run("agree --draws 100").out  # the latest run, which is none of the reviews


def test_estimate_takes_the_reviews_of_the_run(run: Any, ledger: Path) -> None:
    run("ratings export r1 -o ratings.csv")
    ask = "estimate r1 --aspect unchanged_regions --json --rating-scale 1..7"
    assert run(ask).out == run(f"{ask} --ratings ratings.csv").out
    done = run("estimate --aspect unchanged_regions")
    assert done.code == 0
    assert "people and judge" in done.out


def test_calibrate_takes_the_reviews_of_the_run(run: Any, ledger: Path) -> None:
    run("ratings export r1 -o ratings.csv")
    ask = "calibrate r1 --aspect unchanged_regions --try constant --try linear --draws 100 --json"
    from_reviews, from_file = run(ask), run(f"{ask} --ratings ratings.csv --rating-scale 1..7")
    assert from_reviews.code == from_file.code
    one, other = json.loads(from_reviews.out), json.loads(from_file.out)
    assert one["aspects"] == other["aspects"]
    assert (one["made"]["ratings"], other["made"]["ratings"]) == ("reviews", "ratings.csv")


def test_a_review_is_read_like_any_run(run: Any, ledger: Path) -> None:
    with Ledger.open(ledger, create=True) as book:
        [ana, _] = list_reviews(book, RUN)
    shown = run(f"show {ana.id}").out
    assert "person:Ana" in shown
    assert "review" in shown
    assert f"{EDIT},1.0" in run(f"export {ana.id}").out
    assert "against" in run(f"agree r1 --with {ana.id} --draws 100").out
    compared = run(f"compare r1 {ana.id}")
    assert compared.code == 0
    assert "rated by Ana" in compared.out
    assert "before, person:Ana now." in compared.out
