"""Whatever ends a run in the middle (the ledger, a juror that can never answer, the case file), nothing more is asked,
what is in progress is finished, and everything that was answered is stored or rescued: the next run pays for the
rest."""

from __future__ import annotations

import logging
import re
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.postgres import Server

from beholder import Case, Ledger, LedgerError, Session, SetupError
from beholder import run as run_suite
from beholder.ledger.types import Entry
from beholder.runs import engine
from beholder.runs.ledger_access import LedgerThread
from beholder.testing.base import Fault, Received, ReplyContent
from beholder.testing.server import JudgeServer

COUNT = 60
CONCURRENCY = 8  # as in the fixture `command`
PATIENCE_S = 120
FAIL_S = 20  # after which what should have happened meanwhile has not
PRICED = ("--price-input", "0", "--price-output", "1", "--param", "max_completion_tokens=50", "--budget", "1")

Run = Callable[..., subprocess.CompletedProcess[str]]

# A batch job whose cost cannot be read: nothing is granted any more, and verdicts can be written.
DAMAGE_GRANTS = (
    "INSERT INTO jobs (run, judge, state, handle, reserved_usd, created, body) "
    "SELECT number, '', 'begun', '', 'x', '', '' FROM runs"
)
MEND_GRANTS = "DELETE FROM jobs"
# The cost of the run cannot be read: nothing is granted, and nothing can be written either.
DAMAGE_ALL = "UPDATE runs SET name = name || '|' || spent_usd, spent_usd = 'x'"
MEND_ALL = (
    "UPDATE runs SET spent_usd = substr(name, instr(name, '|') + 1), name = substr(name, 1, instr(name, '|') - 1)"
)


def do(place: Path, statement: str) -> None:
    with closing(sqlite3.connect(place, timeout=PATIENCE_S)) as connection, connection:
        connection.execute(statement)


def happens_at(
    count: int, server: JudgeServer, answer: ReplyContent, happens: Callable[[], object]
) -> Callable[[Received], ReplyContent]:
    """A reply: at the request of that number something happens first, while the requests after it are out."""

    def reply(_: Received) -> ReplyContent:
        if len(server.received) == count:
            happens()
        return answer

    return reply


def rescued_in(said: str) -> Path:
    found = re.search(r"that it could not take are in '([^']+)'", " ".join(said.split()))
    assert found, said
    return Path(found[1])


@pytest.fixture(autouse=True)
def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that is gone is tried again for a moment only, and rescues go into the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "WRITE_PAUSE_S", 0.0)
    defaults = LedgerThread.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "retry_for_s", 0.5)


def stored(place: str | Path) -> set[str]:
    with Ledger.open(place) as ledger:
        return {one.case for one in ledger.verdicts("latest") if one.scored}


@pytest.mark.parametrize("damage", [DAMAGE_GRANTS, DAMAGE_ALL])
def test_a_ledger_that_fails_between_calls_loses_no_answer(
    damage: str, tmp_path: Path, server: JudgeServer, cases: Any, run: Run, beholder: Any, good_answer: Any
) -> None:
    """The money for the next call is asked for while other calls are out."""
    place = tmp_path / "ledger.db"
    cases(COUNT)
    server.default = happens_at(20, server, good_answer(), lambda: do(place, damage))
    done = run("--quiet", *PRICED)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert "cannot be read" in said
    asked = len(server.received)
    assert asked < COUNT
    found = stored(place)
    if damage == DAMAGE_ALL:
        do(place, MEND_ALL)
        rescue = rescued_in(said)
        assert beholder([sys.executable, "-m", "beholder", "ledger", "copy", str(rescue), str(place)]).returncode == 0
        assert not found & stored(rescue)
        found |= stored(rescue)
    else:
        do(place, MEND_GRANTS)
    assert len(found) == asked
    with Ledger.open(place) as ledger:
        assert ledger.check() == []
        assert ledger.reserved_usd("latest") == 0
    server.default = good_answer()
    assert run("--quiet", *PRICED).returncode == 0
    assert len(server.received) == COUNT


def test_a_juror_that_fails_for_good_costs_the_others_no_answer(
    tmp_path: Path, server: JudgeServer, cases: Any, run: Run, good_answer: Any
) -> None:
    cases(COUNT)

    def reply(received: Received) -> Any:
        fails = received.model == "other" and len(server.received) >= 40
        return Fault.unknown_model() if fails else good_answer()

    server.default = reply
    done = run("--quiet", "--judge", "openai:other")
    assert done.returncode == 2
    assert "There is no model 'other'" in " ".join(done.stderr.split())
    assert done.stderr.count("There is no model 'other'") == 1
    asked = Counter(one.model for one in server.received)
    assert asked["test"] < COUNT
    server.default = good_answer()
    assert run("--quiet", "--judge", "openai:other").returncode == 0
    assert Counter(one.model for one in server.received)["test"] == COUNT  # none was asked for twice
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert ledger.tally("latest").outcomes == {"scored": COUNT}
        assert ledger.check() == []


def test_a_juror_that_can_never_answer_is_said_while_others_still_answer(
    server: JudgeServer, cases: Any, good_answer: Any
) -> None:
    """The calls of the others may take minutes, in which one may mend the key."""
    said, was_said = threading.Event(), []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "There is no model 'other'" in record.getMessage():
                said.set()

    def reply(_: Received) -> Any:
        was_said.append(said.wait(FAIL_S))
        return good_answer()

    server.default = reply
    listener = Listener()
    logging.getLogger("beholder").addHandler(listener)
    try:
        with JudgeServer(Fault.unknown_model(), keyless=True) as other:
            judges = {"openai:test": server.openai_url, "openai:other": other.openai_url}
            jury = {"judges": [{"judge": name, "base_url": url} for name, url in judges.items()]}
            with pytest.raises(SetupError, match="other"):
                run_suite(jury, rubric="edit-preservation", cases=cases(1), ledger="ledger.db")
    finally:
        logging.getLogger("beholder").removeHandler(listener)
    assert was_said == [True]


class BrokenObserver:
    """An observer that always fails."""

    def on_skipped(self, count: int) -> None:
        raise ValueError(f"{count} skipped")

    def on_waiting(self, count: int) -> None:
        raise ValueError(f"{count} waiting")

    def on_written(self, entries: Sequence[Entry]) -> None:
        raise ValueError(f"{len(entries)} written")


def test_an_observer_that_fails_loses_no_answer(
    tmp_path: Path, server: JudgeServer, cases: Any, good_answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cases(COUNT)
    asked_more = threading.Event()

    def reply(received: Received) -> Any:
        """Hold all but the first answers back until the observer has failed."""
        if len(server.received) > 4:
            asked_more.wait(PATIENCE_S)
        return good_answer()

    class Observer(BrokenObserver):
        def on_written(self, entries: Sequence[Entry]) -> None:
            asked_more.set()
            super().on_written(entries)

    server.default = reply
    options = {"base_url": server.openai_url}
    with pytest.raises(ValueError, match="written"):
        run_suite(
            rubric="edit-preservation", cases=path, judge="openai:test", ledger="ledger.db", options=options,
            concurrency=CONCURRENCY, progress=Observer(),
        )  # fmt: skip
    assert len(stored("ledger.db")) == len(server.received) < COUNT
    with pytest.raises(ValueError, match="1 skipped"):
        run_suite(
            rubric="edit-preservation", cases=path, judge="openai:test", ledger="ledger.db", options=options,
            concurrency=CONCURRENCY, progress=BrokenObserver(),
        )  # fmt: skip
    assert len(stored("ledger.db")) == len(server.received) < COUNT


def test_progress_that_nobody_reads_loses_no_answer(
    tmp_path: Path, server: JudgeServer, cases: Any, command: Any, good_answer: Any
) -> None:
    """As with `beholder run --json | head -1`: what is in progress is stored, and the code is that of a closed pipe."""
    cases(COUNT)
    closed, failed = threading.Event(), threading.Event()

    def reply(_: Received) -> Any:
        if len(server.received) > CONCURRENCY:
            closed.wait(PATIENCE_S)
        if len(server.received) > 2 * CONCURRENCY:
            failed.wait(PATIENCE_S)
        return good_answer()

    server.default = reply
    code = "import runpy; from beholder.cli import output; output.JSON_INTERVAL_S = 0.0; runpy.run_module('beholder')"
    words = [sys.executable, "-c", code, *command("--json")[3:]]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        process.stdout.close()
        closed.set()
        said = process.stderr.readline()
        failed.set()
        rest = process.stderr.read()
        assert process.wait(PATIENCE_S) == 141
    assert '"event": "progress"' in first
    assert "Broken pipe" in said
    assert "what is in progress is finished" in said
    assert rest == ""
    assert 2 * CONCURRENCY < len(server.received) < COUNT
    assert len(stored(tmp_path / "ledger.db")) == len(server.received)


@pytest.mark.parametrize("budget", [(), PRICED], ids=["", "budget"])
def test_a_server_that_is_gone_for_good_loses_no_answer(
    budget: tuple[str, ...], tmp_path: Path, postgres: Server, server: JudgeServer, cases: Any, run: Run, beholder: Any,
    good_answer: Any,
) -> None:  # fmt: skip
    place = postgres.database()
    cases(COUNT)
    server.default = happens_at(20, server, good_answer(), lambda: postgres.stop("immediate"))
    flags = ("--quiet", *budget, "--ledger", place, "--lease", "4")  # which the next run waits for
    done = run(*flags)
    postgres.start()
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    asked = len(server.received)
    assert 20 <= asked < COUNT
    rescue = rescued_in(done.stderr)
    before = stored(place)
    assert beholder([sys.executable, "-m", "beholder", "ledger", "copy", str(rescue), place]).returncode == 0
    assert len(stored(place)) == asked
    assert before | stored(rescue) == stored(place)
    with Ledger.open(place) as ledger:
        paid = (ledger.run("latest").spent_usd or 0) if budget else 0
        assert ledger.check() == []
    server.default = good_answer()
    assert run(*flags).returncode == 0
    assert len(server.received) == COUNT
    with Ledger.open(place) as ledger:
        assert (ledger.run("latest").spent_usd or 0) * asked == paid * COUNT or not budget


def make_case(number: int) -> Case:
    images = {"input": "before.png", "edited": f"after{number}.png"}
    return Case(f"c{number}", images=images, fields={"instruction": "x"})


@pytest.mark.parametrize("budget", [None, 1.0])
def test_a_session_whose_server_is_gone_for_good_loses_no_answer(
    budget: float | None, postgres: Server, server: JudgeServer, cases: Any, good_answer: Any, beholder: Any
) -> None:
    place = postgres.database()
    cases(3)
    options = {
        "base_url": server.openai_url,
        "params": {"max_completion_tokens": 50},
        "price": {"input": 0, "output": 1},
    }
    session = Session("openai:test", ledger=place, name="s", budget=budget, options=options)
    assert session.judge("edit-preservation", make_case(0)).scored
    server.default = happens_at(2, server, good_answer(), lambda: postgres.stop("immediate"))
    for number in (1, 2):
        with pytest.raises(LedgerError):
            session.judge("edit-preservation", make_case(number))
    assert len(server.received) == 2
    with pytest.raises(LedgerError) as error:
        session.close()
    postgres.start()
    rescue = rescued_in(str(error.value))
    assert beholder([sys.executable, "-m", "beholder", "ledger", "copy", str(rescue), place]).returncode == 0
    assert stored(place) == {"c0", "c1"}
    with Session("openai:test", ledger=place, name="s", budget=budget, options=options) as session:
        assert all(session.judge("edit-preservation", make_case(number)).scored for number in range(3))
    assert len(server.received) == 3


def test_a_session_keeps_what_other_jurors_have_answered(
    tmp_path: Path, server: JudgeServer, cases: Any, good_answer: Any
) -> None:
    cases(1)
    server.default = lambda received: Fault.unknown_model() if received.model == "other" else good_answer()
    jury, options = ["openai:test", "openai:other"], {"base_url": server.openai_url}
    for _ in range(2):
        with (
            Session(jury, ledger="s.db", name="s", options=options) as session,
            pytest.raises(SetupError, match="other"),
        ):
            session.judge("edit-preservation", make_case(0))
    assert Counter(one.model for one in server.received)["test"] == 1
    server.default = good_answer()
    with Session(jury, ledger="s.db", name="s", options=options) as session:
        assert session.judge("edit-preservation", make_case(0)).scored
    assert Counter(one.model for one in server.received)["test"] == 1
