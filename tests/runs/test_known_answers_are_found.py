"""Whatever the ledger holds is found, by a filter that may only err towards looking."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from support.ledger import run_record

from beholder import Case, Ledger, Verdict
from beholder.ledger.types import AnswerKey, Entry, StoredAnswer
from beholder.runs.cache import AnswerCache
from beholder.runs.ledger_access import LedgerThread
from beholder.verdicts.verdict import Outcome


def answered(ledger: Ledger, keys: Sequence[AnswerKey]) -> None:
    ledger.write("run", [_entry(place, key) for place, key in enumerate(keys)])


def _entry(place: int, key: AnswerKey) -> Entry:
    case = Case(f"{key.brief_digest}-{place}", images={}, fields={})
    verdict = Verdict(case.id, "rubric", "1", "judge", Outcome.INVALID)
    answer = StoredAnswer(key, "{}", None, {}, Decimal(0), 0.1, 1)
    return Entry(place, case, verdict, (answer,))


def keys(start: int, stop: int) -> list[AnswerKey]:
    return [AnswerKey(f"{number:064x}", "judge", 0) for number in range(start, stop)]


async def test_answers_are_found_whoever_wrote_them_and_whenever(tmp_path: Path) -> None:
    with (
        Ledger.open(tmp_path / "ledger.db", create=True) as ours,
        Ledger.open(tmp_path / "ledger.db", create=True) as theirs,
    ):
        ours.start(run_record("run"))
        answered(ours, keys(0, 300))
        clerk = LedgerThread(ours)
        known = AnswerCache(clerk)
        await known.refresh()
        assert set(await known.look_up(keys(0, 300))) == set(keys(0, 300))
        answered(theirs, keys(300, 400))
        await known.refresh()
        assert set(await known.look_up(keys(200, 500))) == set(keys(200, 400))
        clerk.close()


async def test_what_is_new_is_not_looked_up(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.start(run_record("run"))
        answered(ledger, keys(0, 300))
        clerk = LedgerThread(ledger)
        known = AnswerCache(clerk)
        await known.refresh()
        clerk.close()  # whoever asks the ledger now fails
        assert [await known.look_up([key]) for key in keys(1000, 1100)] == [{}] * 100
