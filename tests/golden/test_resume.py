"""Promise: a run that was begun before the restructuring resumes, and pays for nothing twice.

`files/ledger/golden.db.gz` was written by commit 4a0e41e (see `make_ledger.py`): a run of six cases of which three are
done, one of them refused; a jury on a family of rubrics; a run on image files; a batch of which half has come back; and
two reviews by people. A copy of it is resumed here, in another folder and on another day.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from support.golden import (
    EDITED,
    FILES,
    PHOTO,
    Json,
    Wiretap,
    answer_to,
    beholder,
    brief,
    check,
    replay,
    short,
    steady,
    wiretap,
)

FOLDER = FILES / "ledger"
DOORS = re.compile(r"Paint (\d) doors|paint (\d)")


@pytest.fixture(autouse=True)
def _copy() -> None:
    for source in (*FOLDER.glob("*.yaml"), *FOLDER.glob("*.jsonl"), Path(PHOTO), Path(EDITED)):
        shutil.copy(source, ".")
    Path("golden.db").write_bytes(gzip.decompress((FOLDER / "golden.db.gz").read_bytes()))


def ask(tap: Wiretap, *words: str, code: int | None = 0) -> tuple[Json, list[str]]:
    """Carries a command out: its summary, and the numbers of the cases that were asked."""
    tap.clear()
    done = beholder(*words, "--json", "--no-thumbnails", code=code)
    asked = ["".join(found) for one in tap.exchanges for found in DOORS.findall(one.body.decode())]
    return done.lines[-1], sorted(asked)


def runs() -> list[tuple[str, str, str]]:
    with sqlite3.connect("golden.db") as connection:
        found = connection.execute("SELECT id, name, state FROM runs ORDER BY number").fetchall()
    connection.close()
    return found


def answer(rubric: str = "edit-preservation", turn: int = 2) -> Json:
    return answer_to(brief(rubric, PHOTO, EDITED, "--set", "instruction=x")["schema"], turn)


def test_only_what_is_open_is_asked() -> None:
    before = runs()
    with wiretap() as tap:
        tap.always(answer())
        summary, asked = ask(tap, "run", "suite-live.yaml", code=3)  # the refusal stays without a score
        assert (asked, summary["state"], summary["run"]) == (["4", "5", "6"], "finished", before[0][0])
        again, asked = ask(tap, "run", "suite-live.yaml", code=3)
        assert (asked, tap.exchanges, again["run"]) == ([], [], before[0][0])
        assert [one[0] for one in runs()] == [one[0] for one in before]
        retried, asked = ask(tap, "run", "suite-live.yaml", "--retry", "refused")
        assert asked == ["2"]
        check("resume_live", {"resumed": _told(summary), "again": _told(again), "refusal retried": _told(retried)})


def test_what_was_answered_is_found_by_another_run() -> None:
    """Other scoring is another run, and asks nobody what was answered before."""
    with wiretap() as tap:
        tap.always(answer())
        summary, asked = ask(tap, "run", "suite-live.yaml", "--threshold", "0.5", "--name", "stricter")
        assert asked == ["2", "4", "5", "6"]
        assert len(runs()) == 7
        check("resume_other_run", {"summary": _told(summary)})


def test_a_jury_on_a_family_of_rubrics() -> None:
    """A verdict that was invalid is asked again, and the case that is open, by each of the three rubrics twice."""
    with wiretap() as tap:
        tap.say(*(answer("edit-fidelity", turn) for turn in (0, 1)))
        for rubric in ("edit-preservation", "edit-quality", "edit-fidelity"):
            tap.say(*(answer(rubric, turn) for turn in (0, 1)))
        summary, asked = ask(tap, "run", "suite-jury.yaml")
        assert (asked, summary["state"]) == (["1"] * 2 + ["2"] * 6, "finished")
        _, asked = ask(tap, "run", "suite-jury.yaml")
        assert (asked, tap.exchanges) == ([], [])
        check("resume_jury", {"summary": _told(summary)})


def test_a_run_on_files_that_were_moved_is_resumed_by_name() -> None:
    with wiretap() as tap:
        tap.always(answer())
        summary, asked = ask(tap, "run", "suite-files.yaml", "--run", "golden-files")
        assert (asked, summary["state"], summary["run"]) == (["3"], "finished", runs()[2][0])
        _, asked = ask(tap, "run", "suite-files.yaml", "--run", "golden-files")
        assert (asked, tap.exchanges) == ([], [])


def test_a_batch_that_is_under_way_is_collected() -> None:
    replies = json.loads((FOLDER / "replies.json").read_text("utf-8"))
    with replay(replies) as exchanges:
        done = beholder("collect", "suite-batch.yaml", "--json")
        calls = [f"{one.method} {one.url} {one.status}" for one in exchanges]
        assert {one.method for one in exchanges} == {"GET", "DELETE"}  # nothing is handed in
        exchanges.clear()
        beholder("run", "suite-batch.yaml", "--json")
        assert exchanges == []
    check("resume_batch", {"summary": _told(done.lines[-1]), "calls": calls})


def test_the_ledger_reads_as_it_was_written() -> None:
    """Runs, reviews, verdicts and cases, through the commands that show them."""
    beholder("ledger", "check", "--ledger", "golden.db")
    here = ("--ledger", "golden.db")
    found: dict[str, Json] = {"runs": beholder("runs", *here, "--json").out.splitlines()}
    found["reviews"] = beholder("runs", *here, "--reviews", "--json").out.splitlines()
    for run in ("live", "jury", "files", "batch"):
        lines = beholder("export", f"golden-{run}", "--to", "jsonl", *here).lines
        found[f"verdicts of {run}"] = [short(json.dumps(line, ensure_ascii=False)) for line in lines]
    found["ratings"] = beholder("ratings", "export", "golden-live", *here).out.splitlines()
    found["a case"] = short(beholder("show", "golden-live", "c2", *here, "--json").lines[0])
    found["a run"] = short(beholder("show", "golden-live", *here, "--json").lines[0])
    check("ledger_read", found)


def _told(summary: Json) -> Json:
    """The last line of a run without what is another each time."""
    timeless = {key: one for key, one in summary.items() if "second" not in key and not key.endswith("_s")}
    return steady(timeless)
