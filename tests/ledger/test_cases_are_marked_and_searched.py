"""Stars, comments, saved views and the words of cases: kept with their run, copied with it, deleted with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select
from support.ledger import case, entry, run_record, verdict

from beholder.errors import LedgerError
from beholder.ledger import database, schema, search
from beholder.ledger.copy import copy_run
from beholder.ledger.ledger import Ledger
from beholder.ledger.search import fold_words
from beholder.ledger.types import Entry, VerdictFilter
from beholder.verdicts.verdict import Coverage, Outcome

FIRST, SECOND, THIRD = (verdict(number).case for number in range(3))


def asked(number: int, instruction: str) -> Entry:
    of = verdict(number)
    return entry(number, of, case=replace(case(of), fields={"instruction": instruction, "notes": ("Öl", "赤い車")}))


def found(ledger: Ledger, text: str) -> list[str]:
    ledger.index_texts("r1")
    return [one.verdict.case for one in ledger.browse("r1", VerdictFilter(text=text, sort="order")).verdicts]


def test_words_are_found_in_any_order_as_they_begin(ledger: Ledger) -> None:
    texts = ("Make the CROISSANT golden-brown", "remove the café's sign", "make it “brown”; 2nd try")
    ledger.write("r1", [asked(number, text) for number, text in enumerate(texts)])
    assert found(ledger, "brown make") == [FIRST, THIRD]
    assert found(ledger, "croi") == [FIRST]
    assert found(ledger, "CAFE") == found(ledger, "café's sign") == [SECOND]
    assert found(ledger, "ol 赤") == [FIRST, SECOND, THIRD]
    assert found(ledger, "oissant") == []
    assert found(ledger, '" OR brown* NOT (') == []  # nobody speaks to the database
    assert found(ledger, "photo-00001") == [SECOND]
    ledger.write("r1", [asked(0, "paint it blue"), asked(3, "brown")])  # one is replaced, one is new
    assert found(ledger, "brown") == [THIRD, verdict(3).case]
    assert found(ledger, "blue") == [FIRST]
    assert ledger.count_unindexed("r1") == 0
    assert ledger.check() == []


def test_a_run_that_nobody_searches_has_no_index(ledger: Ledger) -> None:
    ledger.write("r1", [asked(0, "brown")])
    assert ledger.browse("r1", VerdictFilter(text="brown")).total == 0
    with ledger._reading() as connection:
        assert connection.scalar(select(func.count()).select_from(schema.case_texts)) == 0


def test_folding_is_the_same_for_every_database() -> None:
    assert fold_words("Straße, ÉCOLE_2 x²") == ["strasse", "ecole", "2", "x2"]
    assert fold_words("赤い車 3D") == ["赤", "い", "車", "3d"]
    assert fold_words("한국어 ﾊﾟﾝ") == ["한", "국", "어", "ハ", "ン"]


def test_a_syllable_of_korean_is_a_word(ledger: Ledger) -> None:
    ledger.write("r1", [asked(0, "한국 지도"), asked(1, "각국")])
    assert found(ledger, "국") == [FIRST, SECOND]
    assert found(ledger, "국 도") == [FIRST]
    assert found(ledger, "구") == found(ledger, "ᄀ") == []


def test_a_copy_over_an_older_one_is_found_by_its_new_words(
    ledger: Ledger, new_place: Callable[[], str | Path]
) -> None:
    ledger.write("r1", [asked(0, "brown"), asked(1, "brown")])
    with Ledger.open(new_place(), create=True) as other:
        copy_run(ledger, other, "r1")
        assert found(other, "brown") == [FIRST, SECOND]
        ledger.write("r1", [asked(0, "golden")])
        copy_run(ledger, other, "r1")
        assert (found(other, "brown"), found(other, "golden")) == ([SECOND], [FIRST])
        assert other.check() == []


def test_indexing_ends_while_others_write(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "INDEX_BATCH", 3)
    ledger.write("r1", [asked(number, "brown") for number in range(7)])
    batches: list[int] = []

    def note(count: int) -> None:
        batches.append(count)
        if len(batches) < 9:
            ledger.write("r1", [asked(100 + len(batches), "brown")])

    assert ledger.index_texts("r1", note) == 10
    assert batches == [3, 3, 3, 1]
    assert ledger.count_unindexed("r1") == 1


def test_marks_are_kept_copied_and_deleted_with_their_run(ledger: Ledger, new_place: Callable[[], str | Path]) -> None:
    ledger.write("r1", [asked(number, "brown") for number in range(3)])
    ledger.start(run_record("r2"))
    ledger.write("r2", [asked(0, "golden")])
    changed = ledger.run("r1").updated
    for id_ in (SECOND, FIRST, SECOND):
        ledger.star("r1", id_)
    ledger.star("r2", FIRST)
    first = ledger.comment("r1", FIRST, " the hand ", "Ada")
    second = ledger.comment("r1", SECOND, "the other hand")
    ledger.save_view("r1", "bad", "grade=F")
    assert ledger.run("r1").updated == changed  # the numbers of a run do not have to be worked out anew for them
    assert ledger.starred("r1") == {FIRST, SECOND}
    assert ledger.starred("r1", [FIRST, THIRD]) == {FIRST}
    assert ledger.comments("r1") == [first, second]
    assert (first.text, first.author) == ("the hand", "Ada")
    for wanted in (VerdictFilter(sort="order", starred=True), VerdictFilter(sort="order", commented=True)):
        assert [one.verdict.case for one in ledger.browse("r1", wanted).verdicts] == [FIRST, SECOND]
    with Ledger.open(new_place(), create=True) as other:
        for _ in range(2):
            result = copy_run(ledger, other, "r1")
        assert result.written == {}
        assert (other.starred("r1"), other.comments("r1"), other.views("r1")) == (
            {FIRST, SECOND},
            [first, second],
            {"bad": "grade=F"},
        )
    found(ledger, "brown")
    ledger.unstar("r1", FIRST)
    ledger.delete_comment("r1", first.id)
    ledger.delete_view("r1", "bad")
    assert (ledger.starred("r1"), ledger.comments("r1"), ledger.views("r1")) == ({SECOND}, [second], {})
    ledger.delete("r1")
    assert ledger.starred("r2") == {FIRST}
    assert ledger.check() == []
    if ledger.path is not None:
        assert b"the other hand" not in ledger.path.read_bytes()
        assert b"brown" not in ledger.path.read_bytes()


def test_what_is_not_there_is_not_marked(ledger: Ledger) -> None:
    for mark in (lambda: ledger.star("r1", "nobody"), lambda: ledger.comment("r1", "nobody", "hi")):
        with pytest.raises(LedgerError, match="There is no case 'nobody'"):
            mark()
    ledger.unstar("r1", "nobody")


def test_an_older_ledger_gets_the_bounds_of_what_was_measured_in_part(ledger: Ledger) -> None:
    low, high = (
        verdict(
            number,
            outcome=Outcome.UNMEASURED,
            score=None,
            total_range=(0, most),
            max_total=10.0,
            coverage=Coverage(1, 4),
        )
        for number, most in ((0, 9.0), (1, 3.0))
    )
    ledger.write("r1", [entry(0, low), entry(1, high)])
    with ledger._writing() as connection:
        connection.execute(schema.verdicts.update().values(facets=None))
        for name in ("stars", "comments", "views", "case_texts"):
            connection.exec_driver_sql(f"DROP TABLE {name}")
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TABLE case_words")
        for migration in database.MIGRATIONS[4:]:
            migration(connection)
    page = ledger.browse("r1", VerdictFilter(sort="bound"))
    assert [one.verdict.case for one in page.verdicts] == [SECOND, FIRST]
    assert ledger.check() == []
    ledger.star("r1", FIRST)
    assert found(ledger, FIRST) == [FIRST]
