"""Kill it at any moment, start it again: it goes on where it was."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beholder import Ledger, LedgerError
from beholder.runs.engine import WRITE_BATCH
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

CONCURRENCY = 8  # as in the fixture `command`

Run = Callable[..., subprocess.CompletedProcess[str]]


def summary(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return last


def verdicts_in(path: Path) -> int:
    """How many a ledger holds; none where the kill came before there was one."""
    try:
        with Ledger.open(path, create=False) as ledger:
            return ledger.tally("latest").verdicts
    except LedgerError:
        return 0


def test_killed_at_twenty_random_moments_every_case_is_judged_and_hardly_one_twice(
    tmp_path: Path, server: JudgeServer, cases: Any, command: Any, run: Run, good_answer: Callable[[], dict[str, Any]]
) -> None:
    count, kills = 400, 20
    cases(count)
    moments = random.Random(20261115)
    lost = 0
    for _ in range(kills):
        wanted = len(server.received) + moments.randint(1, 24)
        process = subprocess.Popen(command("--quiet"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def reply(_: Any, process: Any = process, wanted: int = wanted) -> dict[str, Any]:
            if len(server.received) >= wanted:
                process.kill()
            return good_answer()

        server.default = reply
        process.wait()
        now_lost = len(server.received) - verdicts_in(tmp_path / "ledger.db")
        assert now_lost - lost <= CONCURRENCY + WRITE_BATCH
        lost = now_lost
    server.default = good_answer()
    last = run("--json")
    assert last.returncode == 0, last.stderr
    assert summary(last)["tally"]["outcomes"] == {"scored": count}
    late = len(server.received) - count - lost  # on their way when the last kill came, and counted after it
    assert 0 <= late <= CONCURRENCY
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        assert ledger.check() == []
        assert len(ledger.runs()) == 1
        assert len({verdict.case for verdict in ledger.verdicts("latest")}) == count


def test_a_finished_run_asks_nobody_again(server: JudgeServer, cases: Any, run: Run) -> None:
    cases(12)
    first, second = summary(run("--json")), summary(run("--json"))
    assert len(server.received) == 12
    assert first["run"] == second["run"]
    assert second["before"] == 12


def test_another_run_takes_answers_from_the_ledger_and_fresh_asks_again(
    tmp_path: Path, server: JudgeServer, cases: Any, run: Run
) -> None:
    path = cases(6)
    first = summary(run("--json"))
    path.write_text(path.read_text("utf-8").replace('"model": "a"', '"model": "renamed"'), "utf-8")
    second = summary(run("--json"))
    assert second["run"] != first["run"]
    assert (second["reused"], len(server.received)) == (6, 6)
    third = summary(run("--json", "--fresh"))
    assert third["run"] != second["run"]
    assert (third["reused"], len(server.received)) == (0, 12)


def test_a_number_that_nobody_asked_for_is_no_reason_to_ask_again(
    server: JudgeServer, cases: Any, run: Run, good_answer: Callable[[], dict[str, Any]]
) -> None:
    """`severity: 2` was taken for a second score: an answer with it was repaired, and a stored one asked for again."""
    path = cases(3)
    answer = good_answer()
    for block in answer["criteria"].values():
        block["severity"] = 1 if block["score"] != 1 else 2
    server.default = answer
    first = summary(run("--json"))
    assert (first["tally"]["outcomes"], len(server.received)) == ({"scored": 3}, 3)
    path.write_text(path.read_text("utf-8").replace('"model": "a"', '"model": "renamed"'), "utf-8")
    assert (summary(run("--json"))["reused"], len(server.received)) == (3, 3)


def test_an_image_that_changed_is_another_run_and_only_it_is_asked(
    tmp_path: Path, server: JudgeServer, cases: Any, run: Run
) -> None:
    cases(5)
    first = summary(run("--json"))
    (tmp_path / "after3.png").write_bytes((tmp_path / "after2.png").read_bytes())
    second = summary(run("--json"))
    assert second["run"] != first["run"]
    assert (second["reused"], len(server.received)) == (5, 5)  # the picture of another case: its brief is known


def test_failures_are_tried_again_and_refusals_only_when_asked_to(server: JudgeServer, cases: Any, run: Run) -> None:
    cases(3)
    server.say(Fault.refusal("no"), {"criteria": {}}, {"criteria": {}})
    first = run("--json", "--concurrency", "1")
    assert first.returncode == 3
    assert summary(first)["tally"]["outcomes"] == {"refused": 1, "invalid": 1, "scored": 1}
    second = summary(run("--json"))
    assert second["tally"]["outcomes"] == {"scored": 2, "refused": 1}
    third = run("--json", "--retry", "refused")
    assert third.returncode == 0
    assert summary(third)["tally"]["outcomes"] == {"scored": 3}
    assert len(server.received) == 4 + 1 + 1


def test_a_wrong_key_in_the_middle_stops_the_run_and_keeps_what_is_done(
    tmp_path: Path, server: JudgeServer, cases: Any, run: Run, good_answer: Callable[[], dict[str, Any]]
) -> None:
    cases(40)
    server.say(*[good_answer()] * 10, *[Fault.bad_key()] * 40)
    done = run("--quiet", "--concurrency", "1")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        assert ledger.tally("latest").outcomes["scored"] == 10
        assert ledger.run("latest").state == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_finishes_what_is_under_way_and_says_how_to_go_on(
    server: JudgeServer,
    cases: Any,
    command: Any,
    run: Run,
    good_answer: Callable[[], dict[str, Any]],
    number: signal.Signals,
) -> None:
    cases(200)
    process = subprocess.Popen(command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def reply(_: Any) -> dict[str, Any]:
        if len(server.received) == 20:
            process.send_signal(number)
        return good_answer()

    server.default = reply
    _, err = process.communicate()
    asked = len(server.received)
    assert process.returncode == 130  # and not 3, although some have no score
    assert "run the same command again to resume" in err
    assert asked < 200
    last = summary(run("--json"))
    assert last["tally"]["outcomes"] == {"scored": 200}
    assert last["before"] == asked
    assert len(server.received) == 200


def test_a_second_interrupt_stops_at_once(
    server: JudgeServer, cases: Any, command: Any, good_answer: Callable[[], dict[str, Any]]
) -> None:
    cases(30)
    process = subprocess.Popen(command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def reply(_: Any) -> Any:
        if len(server.received) == 5:
            process.send_signal(signal.SIGINT)
        return good_answer() if len(server.received) < 4 else Fault.hang()

    server.default = reply
    assert process.stderr is not None
    with process, process.stderr:
        for line in process.stderr:
            if "Ctrl-C again" in line:  # the first was heard; what is under way would hang for minutes
                process.send_signal(signal.SIGINT)
    assert process.returncode == 130


def test_the_same_run_is_not_executed_twice_at_once(server: JudgeServer, cases: Any, command: Any) -> None:
    cases(30)
    first = subprocess.Popen(command("--quiet"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    second: list[subprocess.CompletedProcess[str]] = []

    def reply(_: Any) -> Any:
        if not second:
            second.append(subprocess.run(command("--quiet"), capture_output=True, text=True, check=False))
        return good

    good = server.default
    server.default = reply
    assert first.wait() == 0
    assert second[0].returncode == 2
    assert "another process" in second[0].stderr
    assert len(server.received) == 30


def test_an_interrupted_fresh_run_goes_on_fresh(server: JudgeServer, cases: Any, command: Any, run: Run) -> None:
    cases(40)
    run("--json")
    process = subprocess.Popen(command("--fresh"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    good = server.default

    def reply(_: Any) -> Any:
        if len(server.received) == 50:
            process.send_signal(signal.SIGINT)
        return good

    server.default = reply
    process.wait()
    assert 50 <= len(server.received) < 80
    last = summary(run("--json", "--fresh"))
    assert last["reused"] == 0
    assert len(server.received) == 80


def test_ctrl_c_at_a_terminal_reaches_the_whole_group_and_loses_nothing(
    tmp_path: Path, server: JudgeServer, cases: Any, command: Any
) -> None:
    cases(120)
    words = [word for word in command() if word != "--no-thumbnails"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, process_group=0)
    good = server.default

    def reply(_: Any) -> Any:
        if len(server.received) == 40:
            os.killpg(process.pid, signal.SIGINT)
        return good

    server.default = reply
    _, err = process.communicate()
    assert "Traceback" not in err
    assert process.returncode == 130
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        assert ledger.tally("latest").outcomes["scored"] == len(server.received)


def test_two_runs_on_one_ledger_at_once(tmp_path: Path, server: JudgeServer, cases: Any, command: Any) -> None:
    cases(60)
    both = [
        subprocess.Popen(command("--json", "--name", name, "--tag", name, *more), stdout=subprocess.PIPE, text=True)
        for name, more in (("one", ("--samples", "1")), ("two", ("--samples", "2")))
    ]
    results = [json.loads(process.communicate()[0].splitlines()[-1]) for process in both]
    assert [result["tally"]["outcomes"] for result in results] == [{"scored": 60}, {"scored": 60}]
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        assert ledger.check() == []
        assert len(ledger.runs()) == 2


def test_the_same_brief_is_hardly_asked_again_within_a_run(
    tmp_path: Path, server: JudgeServer, cases: Any, run: Run
) -> None:
    path = cases(60)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    again = [{**line, "id": f"{line['id']}-{turn}"} for turn in range(20) for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in again), "utf-8")
    assert summary(run("--json"))["tally"]["outcomes"] == {"scored": 20 * 60}
    assert len(server.received) <= 60 + 2 * (CONCURRENCY + 3 * WRITE_BATCH)  # what was under way or not written yet
