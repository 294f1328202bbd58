"""What the database filters, sorts and pages is what going through the verdicts one by one would give."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledger import entry, listed, run_record, verdict
from support.reports import ledger_with, refused, restyle, told

from beholder.ledger import query, read
from beholder.ledger.ledger import Ledger
from beholder.ledger.schema import lower_ascii
from beholder.ledger.search import fold_words
from beholder.ledger.types import SORT_ORDERS, Entry, StoredVerdict, VerdictFilter
from beholder.verdicts.verdict import Coverage, CriterionResult, Flag, Outcome

RUN = "r1"
INSTRUCTION = "make the car red"  # of every case
GROUPED = ["", "model-a", "model-b", "street", 'A "quoted" Bé']


@pytest.fixture(scope="module")
def ledger(new_place: Callable[[], str | Path]) -> Iterator[Ledger]:
    """Thirty verdicts of two rubrics: scored, refused, and two unmeasured; every third case has a scene."""
    verdicts = [refused(number) if number % 9 == 3 else restyle(number) for number in range(30)]
    for number, most in ((5, 22.5), (7, 15.0)):
        verdicts[number] = replace(
            verdicts[number],
            outcome=Outcome.UNMEASURED,
            score=None,
            percentage=None,
            grade=None,
            passed=None,
            coverage=Coverage(7, 23),
            total_range=(5.0, most),
        )
    entries = [told(number, one, pictures=False) for number, one in enumerate(verdicts)]
    entries = [_in_a_scene(one) if one.position % 3 == 0 else one for one in entries]
    entries += [entry(number, verdict(number, case=f"photo-{number:05d}/anime")) for number in range(5)]
    with ledger_with(new_place(), entries) as found:
        found.index_texts(RUN)
        yield found


def _in_a_scene(one: Entry) -> Entry:
    scene = GROUPED[3 + one.position % 2]
    return replace(one, case=replace(one.case, groups={**one.case.groups, "scene": scene}))


def fits(one: StoredVerdict, wanted: VerdictFilter) -> bool:
    found = one.verdict
    state = str(found.outcome)
    failed = {a.id for result in found.criteria.values() for a in result.assertions if a.answer == "no"}
    result = found.criteria.get(wanted.criterion)
    value = found.score if not wanted.criterion else result.score if result else None
    return all(
        (
            not wanted.outcome or state == wanted.outcome,
            not wanted.grade or found.grade == wanted.grade,
            wanted.passed is None or found.passed is wanted.passed,
            not wanted.rubric or found.rubric == wanted.rubric,
            wanted.least is None or (value is not None and value >= wanted.least),
            wanted.most is None or (value is not None and value <= wanted.most),
            not wanted.assertion or wanted.assertion in failed,
            not wanted.flag or wanted.flag in {flag.flag for flag in found.flags},
            not wanted.style or found.style == wanted.style,
            all(name in one.groups and value in ("", one.groups[name]) for name, value in wanted.groups.items()),
            any(lower_ascii(wanted.text) in lower_ascii(text) for text in (found.case, *one.groups.values()))
            or has_words(wanted.text, " ".join((found.case, *one.groups.values(), INSTRUCTION))),
        )
    )


def has_words(asked: str, text: str) -> bool:
    """Whether each word that is asked for begins a word of the text."""
    words = fold_words(asked)
    return bool(words) and all(any(one.startswith(word) for one in fold_words(text)) for word in words)


WANTED = st.builds(
    VerdictFilter,
    outcome=st.sampled_from(["", "", "scored", "refused", "unmeasured", "invalid"]),
    grade=st.sampled_from(["", "", "A", "F"]),
    passed=st.sampled_from([None, None, True, False]),
    rubric=st.sampled_from(["", "", "restyle", "edit-preservation"]),
    criterion=st.sampled_from(["", "accuracy", "unchanged_regions", "nothing"]),
    least=st.sampled_from([None, None, 0.5, 3, 5]),
    most=st.sampled_from([None, None, 0.5, 3, 5]),
    assertion=st.sampled_from(["", "", "A1", "A3", "A9"]),
    flag=st.sampled_from(["", "", "pixels_disagree", "tie"]),
    style=st.sampled_from(["", "", "Anime"]),
    groups=st.dictionaries(st.sampled_from(["model", "scene", "nobody"]), st.sampled_from(GROUPED), max_size=3),
    text=st.sampled_from(
        ["", "", "0001", "ANIME", "x", "MODEL-B", 'a "QUOTED" b', "scene", "é", "É", "the CAR", "red 0002", "ake"]
    ),
    sort=st.sampled_from(SORT_ORDERS),
)


def test_what_was_measured_in_part_is_sorted_by_what_is_known(ledger: Ledger) -> None:
    """By the highest score that is possible, and by failed assertions; before the scored ones, after those that failed
    altogether, in the usual order."""

    def sorted_by(sort: str) -> list[StoredVerdict]:
        return list(ledger.browse(RUN, VerdictFilter(sort=sort), limit=100).verdicts)

    def bound(one: StoredVerdict) -> float:
        found = one.verdict
        return found.score if found.score is not None else found.score_range[1] if found.score_range else 2.0

    assert list(map(bound, sorted_by("bound"))) == sorted(map(bound, sorted_by("order")))
    fails = [one.verdict.no_count for one in sorted_by("no")]
    assert fails == sorted(fails, reverse=True)
    assert fails[0] == 3
    without = [one for one in sorted_by("worst") if one.verdict.score is None]
    assert [one.verdict.outcome for one in without] == [Outcome.REFUSED] * 3 + [Outcome.UNMEASURED] * 2
    assert [one.verdict.score_range for one in without[3:]] == [(0.2, 0.6), (0.2, 0.9)]


@given(WANTED)
def test_the_database_finds_what_a_reader_would(ledger: Ledger, wanted: VerdictFilter) -> None:
    expected = [one for one in ledger.stored_verdicts(RUN) if fits(one, wanted)]
    found = ledger.browse(RUN, wanted, limit=100)
    assert found.total == len(expected)
    key = Counter((one.verdict.case, one.verdict.rubric) for one in expected)
    assert Counter((one.verdict.case, one.verdict.rubric) for one in found.verdicts) == key


@settings(max_examples=40)
@given(WANTED, st.integers(2, 7))
def test_pages_together_are_the_whole_in_order(ledger: Ledger, wanted: VerdictFilter, size: int) -> None:
    whole = ledger.browse(RUN, wanted, limit=100).verdicts
    pages = [
        one for start in range(0, 42, size) for one in ledger.browse(RUN, wanted, offset=start, limit=size).verdicts
    ]
    assert pages == list(whole)


@pytest.mark.parametrize("criterion", ["", "accuracy"])
def test_the_worst_come_first_and_what_has_no_score_before_them(ledger: Ledger, criterion: str) -> None:
    def value(one: StoredVerdict) -> float | None:
        result = one.verdict.criteria.get(criterion)
        return one.verdict.score if not criterion else result.score if result else None

    worst = [value(one) for one in ledger.browse(RUN, VerdictFilter(criterion=criterion), limit=100).verdicts]
    known = [one for one in worst if one is not None]
    assert known == sorted(known)
    assert worst[: len(worst) - len(known)] == [None] * (len(worst) - len(known))
    best = [
        value(one) for one in ledger.browse(RUN, VerdictFilter(criterion=criterion, sort="best"), limit=100).verdicts
    ]
    assert [one for one in best if one is not None] == sorted(known, reverse=True)
    assert best[len(known) :] == [None] * (len(best) - len(known))


@pytest.mark.parametrize("criterion", ["", "accuracy", "nothing"])
def test_scores_alone_are_those_of_the_verdicts_in_their_order(ledger: Ledger, criterion: str) -> None:
    expected: list[tuple[str, float | None]] = []
    for one in ledger.stored_verdicts(RUN):
        result = one.verdict.criteria.get(criterion)
        expected.append((one.verdict.case, one.verdict.score if not criterion else result.score if result else None))
    assert ledger.case_scores(RUN, criterion) == expected


@given(st.text(), st.text())
def test_any_text_may_be_asked_for(ledger: Ledger, one: str, other: str) -> None:
    wanted = VerdictFilter(
        outcome=one, grade=other, criterion=one, least=1, assertion=other, flag=one, style=other, text=one
    )
    assert ledger.browse(RUN, wanted).total == 0 or not one
    ledger.browse(RUN, VerdictFilter(groups={one: other, other: ""}, rubric=other, text=one))


NAMES = st.text(min_size=1, max_size=8)


@settings(max_examples=40)
@given(NAMES, NAMES)
def test_a_group_of_any_name_is_found(ledger: Ledger, name: str, value: str) -> None:
    run = uuid4().hex
    ledger.start(run_record(run))
    one = entry(1)
    ledger.write(run, [replace(one, case=replace(one.case, groups={name: value})), entry(2)])
    found = ledger.browse(run, VerdictFilter(groups={name: value}))
    assert [judged.verdict.case for judged in found.verdicts] == [one.case.id]
    assert ledger.case(run, one.case.id).groups == {name: value}


def test_of_two_groups_a_case_must_be_in_both(ledger: Ledger) -> None:
    found = ledger.browse(RUN, VerdictFilter(groups={"model": "model-b", "scene": GROUPED[4]}, sort="order"), limit=100)
    expected = [number for number in range(0, 30, 3) if number % 2]
    assert [one.position for one in found.verdicts if one.verdict.rubric == "restyle"] == expected


def test_a_text_is_found_in_the_values_of_groups_and_not_in_their_names(ledger: Ledger) -> None:
    found = ledger.browse(RUN, VerdictFilter(text="Quoted", rubric="restyle"), limit=100)
    assert {one.position for one in found.verdicts} == {number for number in range(0, 30, 3) if number % 2}
    assert not ledger.browse(RUN, VerdictFilter(text="scene")).total


@settings(max_examples=40)
@given(NAMES, NAMES)
def test_a_text_is_found_in_any_value(ledger: Ledger, name: str, value: str) -> None:
    run = uuid4().hex
    ledger.start(run_record(run))
    one = entry(1)
    ledger.write(run, [replace(one, case=replace(one.case, groups={name: value}))])
    assert ledger.browse(run, VerdictFilter(text=value)).total == 1
    assert ledger.browse(run, VerdictFilter(text=f"{value}{value}?")).total == 0


@settings(max_examples=40)
@given(NAMES, NAMES)
def test_a_criterion_and_a_flag_of_any_name_are_found(ledger: Ledger, key: str, flag: str) -> None:
    run = uuid4().hex
    ledger.start(run_record(run))
    odd = verdict(1, criteria={key: CriterionResult(3, 3, (1, 7), 1, "")}, flags=(Flag(flag),), style=key)
    ledger.write(run, [entry(1, odd), entry(2)])
    for wanted in (VerdictFilter(criterion=key, least=3, most=3), VerdictFilter(flag=flag), VerdictFilter(style=key)):
        assert [judged.verdict for judged in ledger.browse(run, wanted).verdicts] == [replace(odd, answer="")]


def test_counts_and_lists_tell_the_same_as_the_verdicts(ledger: Ledger) -> None:
    judged = list(ledger.stored_verdicts(RUN))
    counts = ledger.counts(RUN)
    assert counts.verdicts == len(judged)
    assert counts.states == Counter(str(one.verdict.outcome) for one in judged)
    assert counts.grades == Counter(one.verdict.grade for one in judged if one.verdict.grade)
    scores = [one.verdict.score for one in judged if one.verdict.score is not None]
    assert counts.mean == pytest.approx(sum(scores) / len(scores))
    for (case, rubric, _, score, *_, facets), one in zip(listed(ledger, RUN), judged, strict=True):
        assert (case, rubric, score) == (one.verdict.case, one.verdict.rubric, one.verdict.score)
        assert facets.get("scores", {}) == {
            key: result.score for key, result in one.verdict.criteria.items() if result.score is not None
        }


def test_chosen_runs_are_counted_as_all_of_them_are(place: str | Path) -> None:
    with Ledger.open(place, create=True) as other:
        for name in ("empty", "first", "second", "third"):
            other.start(run_record(name))
        other.write("first", [entry(number) for number in range(4)])
        both = [entry(1), entry(1, verdict(1, rubric="another")), entry(2, refused(2)), entry(3)]
        other.write("second", both)
        other.write("third", [entry(5, refused(5))])
        with other._reading() as connection:
            assert query.read_progress(connection, ["empty", "second"]) == {"second": other.progress()["second"]}
            assert query.read_progress(connection, ["first", "second", "third"]) == other.progress()
            assert read.count_rated_cases(connection, ["empty", "second", "third"]) == {"second": 2}
            assert query.read_progress(connection, []) == {}
            assert read.count_rated_cases(connection, []) == {}


def test_every_verdict_on_a_case_is_found_newest_run_first(place: str | Path) -> None:
    with Ledger.open(place, create=True) as other:
        for name in ("first", "second"):
            other.start(run_record(name))
            other.write(name, [entry(1), entry(2)])
        found = other.case_history(verdict(1).case)
        assert [run for run, _ in found] == ["second", "first"]
        assert {one.verdict.case for _, one in found} == {verdict(1).case}


def test_an_older_file_gets_the_same_facets(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    with sqlite3.connect(old) as file:
        file.executescript(Path(__file__).with_name("version-1.sql").read_text("utf-8"))
    file.close()
    with Ledger.open(old, create=True) as ledger, Ledger.open(new, create=True) as fresh:
        fresh.start(run_record(RUN))
        fresh.write(RUN, [entry(one.position, one.verdict) for one in ledger.stored_verdicts(RUN)])
        assert listed(ledger, RUN) == listed(fresh, RUN)
        assert any(facets for *_, facets in listed(ledger, RUN))
