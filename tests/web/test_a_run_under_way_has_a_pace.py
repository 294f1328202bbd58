"""How fast a run is, and how long it takes: by what was seen of it lately, and nothing before that is known."""

from __future__ import annotations

from dataclasses import replace

from support.ledger import run_record

from beholder.web.background import PACE_WINDOW_S, RunPaceMeter
from beholder.web.responses import format_time_left


def test_the_pace_is_that_of_the_last_minutes() -> None:
    now = 0.0
    meter = RunPaceMeter(lambda: now)
    record = run_record(total=1010, skipped=10)
    assert meter.measure(record, 100) is None  # a resumed run: when the hundred were judged nobody knows
    now = 60.0
    pace = meter.measure(record, 130)
    assert pace is not None
    assert (pace.per_minute, pace.minutes_left) == (30, 29)
    now = 61.0 + PACE_WINDOW_S
    pace = meter.measure(record, 130 + 6 * 60)
    assert pace is not None
    assert round(pace.per_minute) == round(360 / (1 + PACE_WINDOW_S) * 60)  # the first minute no longer counts
    assert meter.measure(replace(record, state="finished"), 1000) is None


def test_a_run_that_stands_still_has_none() -> None:
    meter = RunPaceMeter(iter((0.0, 30.0, 60.0)).__next__)
    assert [meter.measure(run_record(), 5) for _ in range(3)] == [None] * 3


def test_times_are_for_people() -> None:
    assert [format_time_left(minutes) for minutes in (0.4, 7.2, 89, 120, 60 * 24 * 3)] == [
        "less than a minute left",
        "about 7 min left",
        "about 89 min left",
        "about 2.0 h left",
        "about 3 days left",
    ]
