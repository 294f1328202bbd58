"""A run by batch, split into jobs, stopped, and killed at its worst moment."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from beholder.errors import SetupError
from beholder.judges.factory import judge_from
from beholder.judges.model import ModelJudge
from beholder.ledger.ledger import Ledger
from beholder.providers.base import HttpRequest
from beholder.providers.openai import BATCH_API
from beholder.providers.payload import RequestBody
from beholder.reports.progress import ProgressCounter
from beholder.runs.batch import BatchPass, BatchPassOptions
from beholder.runs.batch_queue import LedgerBatchQueue, open_request_folder
from beholder.runs.engine import WRITE_BATCH
from beholder.runs.execution import SuiteRun, prepare_run
from beholder.runs.ledger_access import LedgerThread
from beholder.runs.limits import Budget
from beholder.runs.suite import load_suite
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer
from beholder.verdicts.answer import BatchReply, BatchStage


@contextmanager
def begun(server: JudgeServer, folder: Path, **more: object) -> Iterator[SuiteRun]:
    flags = {
        "rubric": "edit-preservation",
        "cases": str(folder / "cases.jsonl"),
        "judges": ["openai:test"],
        "base_url": server.openai_url,
        "ledger": str(folder / "ledger.db"),
        "thumbnails": False,
        "audit": False,
        **more,
    }
    suite = load_suite(None, flags)
    with prepare_run(suite) as suite_run:
        yield suite_run


@pytest.mark.parametrize(("most_requests", "most_bytes", "sizes"), [(2, 10**9, [2, 2, 1]), (100, 250, [1] * 5)])
async def test_jobs_are_split_by_number_and_by_size(
    server: JudgeServer,
    cases: Callable[[int], Path],
    tmp_path: Path,
    most_requests: int,
    most_bytes: int,
    sizes: list[int],
) -> None:
    cases(1)
    with begun(server, tmp_path) as suite_run:
        ledger, record = suite_run.ledger, suite_run.record
        judge = judge_from("openai:test", base_url=server.openai_url)
        assert isinstance(judge, ModelJudge)
        clerk = LedgerThread(ledger)
        tray = LedgerBatchQueue(judge, BATCH_API, clerk, record.id, Budget(), tmp_path, print)
        tray.max_requests, tray.max_bytes = most_requests, most_bytes
        for number in range(5):
            body = json.dumps({"model": "test", "messages": [{"role": "user", "content": f"question {number}"}]})
            for _ in range(2):  # the same request twice is one
                await tray.put(bytes([number]) * 16, 1, HttpRequest("", {}, RequestBody((body.encode(),))), Decimal(0))
        await tray.submit()
        await tray.aclose()
        await judge.aclose()
        clerk.close()
        assert [len(job.keys) for job in server.batches.jobs] == sizes
        written = [ledger.batch_job_keys(record.id, job) for job in ledger.pending_batch_jobs(record.id)]
        assert written == [list(map(bytes.fromhex, job.keys)) for job in server.batches.jobs]
        assert list(tmp_path.glob("*.jsonl")) == [tmp_path / "cases.jsonl"]


async def test_nothing_is_handed_in_once_it_was_stopped(
    server: JudgeServer, cases: Callable[[int], Path], tmp_path: Path
) -> None:
    cases(3)
    with begun(server, tmp_path) as suite_run:
        stop = asyncio.Event()
        stop.set()
        standing = await BatchPass(
            suite_run, BatchPassOptions(retry_answered=True), ProgressCounter(3), stop, print
        ).run()
        assert (standing.state, server.batches.jobs) == ("interrupted", [])
        standing = await BatchPass(
            suite_run, BatchPassOptions(retry_answered=True), ProgressCounter(3), asyncio.Event(), print
        ).run()
        assert (standing.state, len(server.batches.jobs[0].keys)) == ("waiting", 3)


def test_the_folder_of_requests_is_never_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows renames no folder with an open file in it."""

    def refuse(*paths: object) -> None:
        raise PermissionError(13, "Access is denied")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, refuse)
    with open_request_folder() as one, open_request_folder() as other:
        assert sorted(path for path in tmp_path.iterdir() if path.is_dir()) == sorted((one, other))
    assert list(tmp_path.iterdir()) == []


def test_killed_before_it_has_a_folder_its_lock_is_deleted_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "beholder-requests-killed.lock").touch()
    with open_request_folder() as folder:
        assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", ".lock"]
        assert (stat.S_IMODE(folder.stat().st_mode), list(folder.iterdir())) == (0o700, [])


def test_killed_between_handing_in_and_writing_down_it_pays_once(
    server: JudgeServer,
    cases: Callable[[int], Path],
    command: Callable[..., list[str]],
    good_answer: Callable[..., dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server has the job, and kills whoever brought it before it has said so. The next start deletes the requests
    that it left behind, which nobody else could read, and not those of a process that lives."""
    cases(3)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    environment["TMPDIR"] = str(scratch)
    program = subprocess.Popen(command("--batch"), env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE)

    def modes(pattern: str) -> list[int]:
        return sorted(stat.S_IMODE(path.stat().st_mode) for path in scratch.glob(pattern))

    def kill(_: object) -> dict[str, Any]:
        assert (modes("*"), modes("*/*.jsonl")) == ([0o600, 0o700], [0o600])  # the lock, the folder
        program.send_signal(signal.SIGKILL)
        program.wait()
        return good_answer()

    server.say(kill)
    program.communicate()
    assert (program.returncode, len(server.batches.jobs)) == (-signal.SIGKILL, 1)
    assert len(list(scratch.glob("*/*.jsonl"))) == 1
    collect = [word if word != "run" else "collect" for word in command()]
    with open_request_folder() as used:
        assert [path for path in scratch.iterdir() if path.is_dir()] == [used]  # the other one is deleted already
        done = subprocess.run(collect, env=environment, capture_output=True, text=True, check=False)
        assert [path for path in scratch.iterdir() if path.is_dir()] == [used]
    assert list(scratch.iterdir()) == []
    assert "was found again at its provider" in done.stderr
    assert done.returncode == 0
    assert (len(server.batches.jobs), len(server.received)) == (1, 3)
    assert "3 scored" in done.stdout


@pytest.mark.parametrize(
    ("module", "function", "written"),
    [("beholder.ledger.batch_jobs", "use_up", 0), ("beholder.reports.progress", "ProgressCounter.on_written", 1)],
)
@pytest.mark.parametrize("again", ["collect", "run"])
def test_killed_beside_a_verdict_without_a_score_it_counts_its_money_once(
    server: JudgeServer,
    cases: Callable[[int], Path],
    command: Callable[..., list[str]],
    tmp_path: Path,
    module: str,
    function: str,
    written: int,
    again: str,
) -> None:
    """That a reply is done with is written together with the verdict: killed just before there is neither, and killed
    just after there are both."""
    cases(1)
    server.default = Fault.refusal("I would rather not.")
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    python, _, _, _, *words = command("--price-input", "1", "--price-output", "10")

    def beholder(*more: str, first: str = "") -> int:
        program = [python, "-c", f"{first}\nfrom beholder.cli import main\nmain()", *more, *words]
        return subprocess.run(program, env=environment, capture_output=True, check=False).returncode

    def verdicts() -> list[Any]:
        with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
            return list(ledger.verdicts("latest"))

    killed = f"import os, {module}\n{module}.{function} = lambda *_: os.kill(os.getpid(), {int(signal.SIGKILL)})"
    assert beholder("run", "--batch") == 0
    assert (beholder("collect", first=killed), len(verdicts())) == (-signal.SIGKILL, written)
    assert beholder(again) == 3
    [verdict] = verdicts()
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        assert (verdict.outcome, ledger.run().state, len(server.received)) == ("refused", "finished", 1)
        assert ledger.run().spent_usd == verdict.cost_usd > 0


async def test_a_reply_is_done_with_as_soon_as_there_is_a_verdict_by_it(
    server: JudgeServer,
    cases: Callable[[int], Path],
    tmp_path: Path,
    good_answer: Callable[..., dict[str, Any]],
) -> None:
    """Killed later in the pass, it would read the refusal again and count its cost twice. The pass is held open by a
    repair that is not answered before."""
    cases(2)
    server.say(Fault.refusal("I would rather not."), {"criteria": {}})
    used: list[BatchReply] = []

    def repaired(_: object) -> dict[str, Any]:
        patience = time.monotonic() + 20
        with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
            while not used and time.monotonic() < patience:
                [job] = [job for job in ledger.batch_jobs("latest") if not job.pending]
                there = ledger.batch_replies("latest", ledger.batch_job_keys("latest", job))
                used.extend(kept for kept in there.values() if kept.stage is BatchStage.USED)
        return good_answer()

    with begun(server, tmp_path) as suite_run:
        stop = asyncio.Event()
        await BatchPass(suite_run, BatchPassOptions(retry_answered=True), ProgressCounter(2), stop, print).run()
        server.default = repaired
        how = BatchPassOptions(repair_live=True, even_if_nothing_new=False)
        standing = await BatchPass(suite_run, how, ProgressCounter(2), stop, print).run()
        assert (standing.state, len(used)) == ("finished", 1)


async def test_the_cost_of_a_live_repair_is_reserved_before_it_is_asked(
    server: JudgeServer, cases: Callable[[int], Path], tmp_path: Path, good_answer: Callable[..., dict[str, Any]]
) -> None:
    """What a killed process had reserved counts as spent: `unsettled_usd` is what it would leave behind."""
    cases(2)
    server.say(good_answer(), {"criteria": {}})
    reserved: list[Decimal] = []

    def repaired(_: object) -> dict[str, Any]:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            reserved.append(ledger.unsettled_usd("latest"))
        return good_answer()

    with begun(server, tmp_path, budget=1, price={"input": 0, "output": 10}) as suite_run:
        stop = asyncio.Event()
        await BatchPass(suite_run, BatchPassOptions(retry_answered=True), ProgressCounter(2), stop, print).run()
        server.default = repaired
        how = BatchPassOptions(repair_live=True, even_if_nothing_new=False)
        standing = await BatchPass(suite_run, how, ProgressCounter(2), stop, print).run()
        assert standing.state == "finished"
        assert len(reserved) == 1
        assert 0 < reserved[0] < 1
        assert suite_run.ledger.reserved_usd(suite_run.id) == 0


async def test_a_live_repair_whose_verdict_is_written_is_not_reserved_any_more_when_the_pass_fails(
    server: JudgeServer, cases: Callable[[int], Path], tmp_path: Path, good_answer: Callable[..., dict[str, Any]]
) -> None:
    cases(2)
    server.say({"criteria": {}}, {"criteria": {}})
    repairs: list[object] = []
    reserved: list[Decimal] = []

    def repair_one(asked: object) -> dict[str, Any] | Fault:
        repairs.append(asked)
        if len(repairs) == 1:
            return good_answer()
        deadline = time.monotonic() + 240
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            while not list(ledger.verdicts("latest")) and time.monotonic() < deadline:
                time.sleep(0.05)
            reserved.append(ledger.unsettled_usd("latest"))
        return Fault.bad_key()

    with begun(server, tmp_path, budget=1, price={"input": 0, "output": 10}) as suite_run:
        stop = asyncio.Event()
        await BatchPass(suite_run, BatchPassOptions(retry_answered=True), ProgressCounter(2), stop, print).run()
        server.default = repair_one
        how = BatchPassOptions(repair_live=True, even_if_nothing_new=False)
        with pytest.raises(SetupError):
            await BatchPass(suite_run, how, ProgressCounter(2), stop, print).run()
        assert suite_run.ledger.unsettled_usd(suite_run.id) == 0 < reserved[0]


async def test_a_run_is_not_finished_while_a_case_has_no_verdict(
    server: JudgeServer, cases: Callable[[int], Path], command: Callable[..., list[str]], tmp_path: Path
) -> None:
    """The last case is asked what the first is, whose answer had no score and is used up before the last is reached."""
    count = 4 * WRITE_BATCH
    rows = cases(count).read_text().splitlines()
    (tmp_path / "cases.jsonl").write_text("\n".join([*rows, rows[0].replace('"c0"', '"again"')]))
    server.default = Fault.refusal("I would rather not.")
    with begun(server, tmp_path) as suite_run:
        ledger, record = suite_run.ledger, suite_run.record
        for anew, done, state in ((True, 0, "waiting"), (False, count, "interrupted")):
            watch, how = ProgressCounter(count + 1), BatchPassOptions(retry_answered=anew)
            standing = await BatchPass(suite_run, how, watch, asyncio.Event(), print).run()
            assert (standing.state, len(list(ledger.verdicts(record.id)))) == (state, done)
        live = subprocess.run(command(), capture_output=True, check=False)
        assert (live.returncode, ledger.run(record.id).state) == (3, "finished")
        assert (ledger.progress()[record.id].done, len(server.received)) == (count + 1, count + 1)


async def test_a_run_is_not_finished_while_its_last_job_is_handed_in(
    server: JudgeServer, cases: Callable[[int], Path], tmp_path: Path, good_answer: Callable[..., dict[str, Any]]
) -> None:
    cases(1)
    states: list[str] = []

    def answer(_: object) -> dict[str, Any]:  # the provider has the job, and has not said so yet
        with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
            states.append(ledger.run().state)
        return good_answer()

    server.default = answer
    with begun(server, tmp_path) as suite_run:
        await BatchPass(
            suite_run, BatchPassOptions(retry_answered=True), ProgressCounter(1), asyncio.Event(), print
        ).run()
    assert states == ["running"]
