"""A scored answer is found again by brief, judge and sample, whichever run paid for it."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import update
from support.ledger import entry, hexed, run_record, stored, unscored, verdict

from beholder.ledger import schema
from beholder.ledger.encoding import pack
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import AnswerKey
from beholder.verdicts.verdict import Flag


def test_an_answer_is_found_by_its_key_and_by_no_other(ledger: Ledger) -> None:
    ledger.write("r1", [entry(1), entry(2)])
    answer = stored(verdict(1))
    others = [replace(answer.key, sample=1), replace(answer.key, judge="x"), replace(answer.key, brief_digest="x")]
    assert ledger.cached_answers([answer.key, *others]) == {answer.key: answer}
    assert ledger.cached_answers([]) == {}


def test_many_are_found_at_once(ledger: Ledger) -> None:
    ledger.write("r1", [entry(number) for number in range(1300)])
    keys = [stored(verdict(number)).key for number in range(1300)]
    assert set(ledger.cached_answers(keys)) == set(keys)


def test_no_key_can_pose_as_another(ledger: Ledger) -> None:
    """The parts are told apart: `a` + `bc` is not `ab` + `c`."""
    one = replace(stored(verdict(1)), key=AnswerKey("a", "bc", 1))
    ledger.write("r1", [entry(1, answers=(one,))])
    assert ledger.cached_answers([AnswerKey("ab", "c", 1), AnswerKey("a", "b", 1), AnswerKey("abc", "", 1)]) == {}


def test_an_answer_without_a_score_is_not_found(ledger: Ledger) -> None:
    ledger.write("r1", [entry(1, unscored(1))])
    assert ledger.cached_answers([stored(verdict(1)).key]) == {}


def test_a_fresh_answer_is_the_one_that_is_found_and_the_old_verdict_keeps_its_own(ledger: Ledger) -> None:
    ledger.write("r1", [entry(1)])
    ledger.start(run_record("r2"))
    fresh = verdict(1, answer="another answer to the same brief")
    ledger.write("r2", [entry(1, fresh)])
    key = stored(fresh).key
    assert ledger.cached_answers([key])[key].text == "another answer to the same brief"
    assert ledger.verdict("r1", fresh.case)[0].answer == verdict(1).answer
    assert ledger.verdict("r2", fresh.case)[0].answer == fresh.answer


def test_a_thumbnail_is_made_once(ledger: Ledger) -> None:
    first, second = hexed("photo 1"), hexed("photo 2")
    ledger.write("r1", [entry(1, thumbnails=((first, b"RIFF....WEBP1"),))])
    assert ledger.has_thumbnail([first, second]) == {first}
    assert ledger.thumbnail(first) == b"RIFF....WEBP1"
    assert ledger.thumbnail(second) is None
    assert ledger.has_thumbnail([]) == set()


def test_an_answer_keeps_its_own_flags(ledger: Ledger) -> None:
    flags = (
        Flag("repair_asked", at="answer", said="no \ud800 JSON", why="it was asked again"),
        Flag("x", said=[1, 0.5]),
    )
    answer = replace(stored(verdict(1)), flags=flags)
    ledger.write("r1", [entry(1, answers=(answer,)), entry(2)])
    assert ledger.cached_answers([answer.key]) == {answer.key: answer}
    assert ledger.check() == []


def test_damaged_flags_are_told(ledger: Ledger) -> None:
    answer = replace(stored(verdict(1)), flags=(Flag("repair_asked"),))
    ledger.write("r1", [entry(1, answers=(answer,))])
    for damaged in (b"\0", pack([1]), pack({})):
        with ledger._writer.begin() as connection:
            connection.execute(update(schema.answers).values(flags=damaged))
        [said] = ledger.check()
        assert said.startswith("The ledger is damaged: the flags of answer 1 (row 1 of answers) cannot be read;")
        assert ledger.cached_answers([answer.key]) == {}  # it is asked for again
