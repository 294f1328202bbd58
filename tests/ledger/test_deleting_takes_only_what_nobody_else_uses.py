"""A run is deleted with everything that only it used; what another run refers to stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.ledger import entry, hexed, run_record, stored, verdict

from beholder.errors import LedgerError
from beholder.ledger.ledger import Ledger
from beholder.verdicts.verdict import Jury

SECRET = "a sentence that nobody may read any more"


def webp(name: str) -> bytes:
    return b"RIFF....WEBP" + name.encode()


@pytest.fixture
def shared(ledger: Ledger) -> Ledger:
    """`r1` paid for cases 1 and 2; `r2` has case 2 from the ledger."""
    pictures = {number: ((hexed(f"photo {number}"), webp(f"photo {number}")),) for number in (1, 2)}
    ledger.write("r1", [entry(number, thumbnails=pictures[number]) for number in (1, 2)])
    ledger.start(run_record("r2"))
    ledger.write("r2", [entry(2, answers=(), reused=True)])
    return ledger


def test_what_another_run_uses_stays(shared: Ledger) -> None:
    shared.delete("r1")
    assert [run.id for run in shared.runs()] == ["r2"]
    kept, gone = stored(verdict(2)), stored(verdict(1))
    assert shared.cached_answers([kept.key, gone.key]) == {kept.key: kept}
    assert shared.verdict("r2", verdict(2).case) == [verdict(2)]
    assert shared.has_thumbnail([hexed("photo 1"), hexed("photo 2")]) == {hexed("photo 2")}
    assert shared.check() == []


def test_the_last_one_takes_everything(shared: Ledger) -> None:
    shared.delete("r1")
    shared.delete("r2")
    assert shared.runs() == []
    assert shared.cached_answers([stored(verdict(number)).key for number in (1, 2)]) == {}
    assert shared.has_thumbnail([hexed("photo 2")]) == set()
    with shared._engine.connect() as connection:
        for table in ("runs", "cases", "verdicts", "answers", "thumbnails", "run_answers", "run_thumbnails"):
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0, table


def test_a_jurys_answers_stay_as_long_as_it_uses_them(shared: Ledger) -> None:
    shared.start(run_record("r3"))
    jury = verdict(1, answer="", jury=Jury(1, 0, {}, None, ()))
    shared.write("r3", [entry(1, jury, answers=(), reused=True, used=(stored(verdict(1)).key,))])
    shared.delete("r1")
    assert shared.raw_answers("r3", jury.case) == {"edit-preservation": [verdict(1).answer]}
    assert shared.check() == []


def test_an_answer_that_went_in_the_meantime_stays_with_the_verdict(shared: Ledger) -> None:
    reused = entry(1, answers=(), reused=True)
    shared.delete("r1")  # by another process, after the answer was looked up
    shared.write("r2", [reused])
    assert shared.verdict("r2", verdict(1).case) == [verdict(1)]
    assert shared.check() == []


def test_an_answer_that_is_paid_for_again_is_there_again(shared: Ledger) -> None:
    shared.delete("r1")
    shared.write("r2", [entry(1)])
    assert stored(verdict(1)).key in shared.cached_answers([stored(verdict(1)).key])


def test_a_deleted_number_is_never_given_again(ledger: Ledger) -> None:
    ledger.start(run_record("r2"))
    ledger.delete("r2")
    ledger.start(run_record("r3"))
    with ledger._engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT number FROM runs WHERE id = 'r3'").scalar() == 3


def test_nothing_of_it_stays_in_the_file_and_the_room_comes_back(tmp_path: Path) -> None:
    place = tmp_path / "beholder.db"
    mark = SECRET.encode()
    with Ledger.open(place, create=True) as ledger:
        ledger.start(run_record())
        ledger.start(run_record("r2", name=SECRET))
        pictures = [(hexed(str(number)), webp("") + mark * 200) for number in range(64)]
        ledger.write("r2", [entry(number, thumbnails=(pictures[number],)) for number in range(64)])
    large = place.stat().st_size
    assert mark in place.read_bytes()
    with Ledger.open(place, create=True) as ledger:
        ledger.delete("r2")
    assert mark not in b"".join(file.read_bytes() for file in place.parent.iterdir())
    assert place.stat().st_size < large / 2


def test_a_run_that_is_not_there(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="no run 'r9'"):
        ledger.delete("r9")
