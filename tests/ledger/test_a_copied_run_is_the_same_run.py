"""A run that is copied into another ledger is the same run there; copying again changes nothing, and a copy that was
interrupted goes on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ledger import entry, listed, run_record, stored, unscored, verdict
from support.verdicts import verdicts

from beholder.cases.case import Case
from beholder.errors import LedgerError
from beholder.ledger import schema
from beholder.ledger.batch_jobs import create_job
from beholder.ledger.copy import CopyResult, copy_run, select_runs
from beholder.ledger.export import json_lines
from beholder.ledger.ledger import Ledger
from beholder.verdicts.verdict import Flag, Juror, Jury, Outcome, Verdict

WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8 "
WAYS = (("sqlite", "postgresql"), ("postgresql", "sqlite"), ("sqlite", "sqlite"), ("postgresql", "postgresql"))


@pytest.fixture(params=WAYS, ids=" to ".join)
def two(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Ledger, Ledger]]:
    """A ledger to copy from, and an empty one to copy into."""
    places = [
        request.getfixturevalue("postgres").schema() if kind == "postgresql" else tmp_path / f"{number}.db"
        for number, kind in enumerate(request.param)
    ]
    with Ledger.open(places[0], create=True) as source, Ledger.open(places[1], create=True) as target:
        yield source, target


def fill(ledger: Ledger) -> None:
    """A jury, refusals, thumbnails, an answer that two runs share, a fresh answer, a review."""
    ledger.start(run_record("r1", total=300, prompt="Rate it"))
    jurors = tuple(Juror("openai:x", sample, Outcome.SCORED, 0.5) for sample in range(2))
    whole = verdict(5, answer="", jury=Jury(2, 0, {"score": 0.1}, 0.75, jurors))
    answers = tuple(replace(stored(verdict(5), sample), text=f"answer {sample}") for sample in range(2))
    entries = [entry(number) for number in range(10, 300)]
    entries += [entry(5, whole, answers=answers), entry(6, unscored(6))]
    entries += [entry(7, thumbnails=((verdict(7).images[0].source_digest, WEBP),))]
    ledger.write("r1", entries)
    ledger.write("r1", [entry(10, verdict(10, answer="another", flags=(Flag("tie"),)))])
    ledger.start(run_record("r2", name="second", fingerprint="other", tags=("a", "b")))
    ledger.write("r2", [entry(10, reused=True), entry(11, spent_usd=None)])
    ledger.update("r1", state="finished")
    ledger.start(run_record("r3", name="by eye", fingerprint="review:x", suite={"review_of": "r1", "rater": "me"}))
    ledger.write("r3", [entry(20, verdict(20, judge="person:me", answer=""), answers=())])
    for run in ("r2", "r3"):
        ledger.update(run, state="interrupted")


def everything(ledger: Ledger, run: str) -> list[object]:
    """All that can be seen of a run."""
    lines = list(json_lines(ledger.stored_verdicts(run, answers=True)))
    raw = [ledger.raw_answers(run, id_) for id_ in ledger.case_ids(run)[:9]]
    digests = sorted({image.source_digest for one in ledger.verdicts(run) for image in one.images})
    pictures = [ledger.thumbnail(digest) for digest in digests]
    return [ledger.run(run), list(ledger.cases(run)), listed(ledger, run), raw, pictures, lines]


def test_a_run_that_goes_on_elsewhere_does_not_go_on_in_the_copy(two: tuple[Ledger, Ledger]) -> None:
    source, target = two
    source.start(run_record("r9"))
    copy(source, target)
    assert (source.run("r9").state, target.run("r9").state) == ("running", "interrupted")
    assert copy(source, target)[0].written == {}


def copy(source: Ledger, target: Ledger, *names: str) -> list[CopyResult]:
    return [copy_run(source, target, one.id) for one in select_runs(source, names)]


def rows(ledger: Ledger) -> dict[str, set[tuple[object, ...]]]:
    with ledger._reading() as connection:
        return {
            table.name: {tuple(row) for row in connection.execute(table.select())}
            for table in schema.metadata.sorted_tables
        }


def test_everything_of_every_run_is_there_in_the_same_order(two: tuple[Ledger, Ledger]) -> None:
    source, target = two
    fill(source)
    copied = copy(source, target)
    assert [one.run for one in copied] == ["r1", "r2", "r3"]
    assert copied[0].written["verdicts"] == 293
    assert [one.id for one in target.runs()] == [one.id for one in source.runs()]
    for run in ("r1", "r2", "r3"):
        assert everything(target, run) == everything(source, run)
    keys = [stored(verdict(number)).key for number in (10, 11)]
    assert target.cached_answers(keys) == source.cached_answers(keys)
    assert target.check() == []


def test_a_second_copy_changes_nothing_and_says_so(two: tuple[Ledger, Ledger]) -> None:
    source, target = two
    fill(source)
    copy(source, target)
    before = rows(target)
    assert [one.written for one in copy(source, target)] == [{}, {}, {}]
    assert rows(target) == before


def test_what_came_since_is_brought_along(two: tuple[Ledger, Ledger]) -> None:
    source, target = two
    fill(source)
    copy(source, target)
    source.write("r1", [entry(400), entry(6)])  # a new one, and one that was refused before
    again = {one.run: one.written for one in copy(source, target)}
    assert again == {
        "r1": {"cases": 1, "answers": 2, "links": 4, "verdicts": 2, "runs": 1},
        "r2": {},
        "r3": {},
    }
    assert everything(target, "r1") == everything(source, "r1")


def test_an_interrupted_copy_goes_on(two: tuple[Ledger, Ledger]) -> None:
    source, target = two
    fill(source)

    def stop(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_run(source, target, "r1", stop)
    half = target.run("r1")
    assert (half.state, target.progress()["r1"].done) == ("interrupted", 256)
    assert target.check() == []
    [done, _] = copy(source, target, "r1")
    assert done.written == {"verdicts": 37, "runs": 1}
    assert everything(target, "r1") == everything(source, "r1")


def test_only_the_runs_that_were_named_and_their_reviews(two: tuple[Ledger, Ledger]) -> None:
    source, target = two
    fill(source)
    assert [one.run for one in copy(source, target, "r1")] == ["r1", "r3"]
    assert [one.id for one in target.runs()] == ["r3", "r1"]
    with pytest.raises(LedgerError, match="no run 'nothing'"):
        copy(source, target, "nothing")


def test_what_is_there_already_is_not_copied_twice(two: tuple[Ledger, Ledger]) -> None:
    source, target = two
    fill(source)
    target.start(run_record("own"))
    target.write("own", [entry(number) for number in range(100, 150)])
    [one, _] = copy(source, target, "r1")
    with source._reading() as connection:
        whole = connection.exec_driver_sql("SELECT count(*) FROM answers").scalar_one()
    assert one.written["answers"] == whole - 50
    assert target.check() == []


def test_a_run_that_was_changed_there_is_left_as_it_is(two: tuple[Ledger, Ledger]) -> None:
    source, target = two
    fill(source)
    copy(source, target, "r2")
    target.rename("r2", "mine")
    before = rows(target)
    [one] = copy(source, target, "r2")
    assert (one.written, one.left) == ({}, "it was changed there since")
    assert rows(target) == before


def test_another_run_of_the_same_id_is_not_mixed_in(two: tuple[Ledger, Ledger]) -> None:
    source, target = two
    fill(source)
    target.start(run_record("r1", fingerprint="something else"))
    with pytest.raises(LedgerError, match="has another run 'r1'"):
        copy(source, target)


def test_a_run_that_waits_for_a_batch_is_left(two: tuple[Ledger, Ledger]) -> None:
    source, target = two
    source.start(run_record("r1"))
    with source._writing() as connection:
        create_job(connection, source._run_number(connection, "r1"), "judge", {b"k" * 16: 1}, Decimal(1))
    [one] = copy(source, target)
    assert "waits for a batch" in one.left
    assert target.runs() == []


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(verdicts(), min_size=1, max_size=3, unique_by=lambda one: one.case), st.integers(0, 2**60))
def test_any_verdict_is_exported_alike(two: tuple[Ledger, Ledger], given: list[Verdict], number: int) -> None:
    source, target = two
    run = f"{number:x}-{len(source.runs())}"
    source.start(run_record(run, state="finished"))
    source.write(run, [entry(at, one, case=Case(one.case, {}, {}, {"g": one.case})) for at, one in enumerate(given)])
    copy(source, target, run)
    assert everything(target, run) == everything(source, run)


def test_an_old_ledger_with_texts_that_postgresql_refuses(tmp_path: Path, postgres: object) -> None:
    with Ledger.open(tmp_path / "old.db", create=True) as source, Ledger.open(postgres.schema(), create=True) as target:  # type: ignore[attr-defined]
        source.start(run_record("r1"))
        source.write("r1", [entry(1)])
        with sqlite3.connect(tmp_path / "old.db") as file:
            file.execute("UPDATE runs SET name = 'a' || char(0)")
            file.execute("UPDATE cases SET groups = ?", ('{"g": "\\u0000\\ud800"}',))
        file.close()
        copy(source, target)
        assert target.run("r1").name == "a\\x00"
        assert list(target.case_groups("r1").values()) == [{"g": "\\x00\\ud800"}]
