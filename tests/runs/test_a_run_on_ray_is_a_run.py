"""A run on a real Ray cluster of several nodes: the same verdicts as locally, whatever dies in the middle."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support import postgres as postgres_support
from support.preferences import choose, paint, redness
from support.probes import edit_case, is_probe, reply_both

from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunProgress
from beholder.runs.ray.cluster import join_cluster
from beholder.testing.base import Received
from beholder.testing.server import JudgeServer

pytest.importorskip("ray", reason="the extra ray is not installed")
pytest.importorskip("pyarrow", reason="the extra ray is not installed")

# Nothing but loopback, for the cluster and for who joins it; no telemetry; and no token in anybody's home.
QUIET = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "OMP_NUM_THREADS": "1",
}
KEY = "sk-of-the-driver-alone"

# A judge that dies, and its process with it, of every case whose instruction says so. Its "model" is a file in which it
# notes each case that it is asked about.
DEADLY = """
import os
import re
import signal
import socket
import sqlite3
from beholder.judges.recorded import ScriptedJudge

WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"

def judge(model, settings):
    def say(brief):
        with open(model, "a") as notes:
            notes.write(brief.fields["instruction"] + "\\n")
        if "die" in brief.fields["instruction"]:
            os._exit(1)
        return {"criteria": {one.key: {"justification": WORDS, "score": 5} for one in brief.criteria}}

    return ScriptedJudge(say=say, name="deadly:" + model)
"""


class Nodes:
    """The cluster, from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address, self.logs = self._line().split()

    def add(self, name: str, cpus: int = 1, **variables: str) -> None:
        self._order("add", name, str(cpus), *(f"{key}={value}" for key, value in variables.items()))

    def kill(self, name: str) -> None:
        self._order("kill", name)

    def _order(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        assert self._line() == "done"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def plugin(folder: Path) -> Path:
    (folder / "deadly_judge.py").write_text(DEADLY, "utf-8")
    info = folder / "deadly_judge-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly-judge\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[beholder.judges]\ndeadly = deadly_judge:judge\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of the cluster, and of who joins it."""
    kept = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    path = os.pathsep.join(filter(None, (str(plugin(tmp_path_factory.mktemp("plugin"))), kept.get("PYTHONPATH"))))
    return {**kept, **QUIET, "PYTHONPATH": path}


@pytest.fixture(scope="module")
def nodes(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Two nodes: the head, which is where a run is started, and `second`."""
    script = Path(__file__).parents[1] / "support" / "ray_cluster.py"
    with (
        (tmp_path_factory.mktemp("ray") / "log").open("w") as log,
        subprocess.Popen(
            [sys.executable, str(script), "1"],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as process,
    ):
        cluster = Nodes(process)
        cluster.add("second")
        yield cluster
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def start(
    nodes: Nodes, environment: dict[str, str], command: Callable[..., list[str]]
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a run on the cluster; one that is left over at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(line: Sequence[str] | None = None, address: str = nodes.address) -> subprocess.Popen[str]:
        line = [*(line or command()), "--engine", "ray", *(("--address", address) if address else ())]
        keyed = {**environment, "OPENAI_API_KEY": KEY}  # which the nodes of the cluster lack
        process = subprocess.Popen(
            line, env=keyed, text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code, and all that it said."""
    out, err = process.communicate(timeout=300)
    return process.returncode, out + err


def told(path: Path) -> dict[str, tuple[str, float | None, str]]:
    """What a ledger says of each case."""
    with Ledger.open(path, read_only=True) as ledger:
        return {one.case: (one.outcome.value, one.score, one.detail) for one in ledger.verdicts("latest", answers=True)}


@dataclass
class Counting:
    """Answers; the one that is asked for as number `at`, and all after it, only once they are `released`: what is to
    happen in the middle of a run happens there, however slow the machine is."""

    answer: dict[str, Any]
    at: int
    asked: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def __call__(self, _: object) -> dict[str, Any]:
        self.asked += 1
        if self.asked >= self.at:
            self.reached.set()
            self.released.wait()
        return self.answer

    @contextmanager
    def held(self, process: subprocess.Popen[str]) -> Iterator[None]:
        """Waits until the process has asked so often, and lets it go on at the end."""
        try:
            while not self.reached.wait(0.1):
                assert process.poll() is None, ended(process)
            yield
        finally:
            self.released.set()


def test_whatever_dies_in_the_middle_the_verdicts_are_those_of_a_local_run(
    nodes: Nodes,
    start: Callable[..., subprocess.Popen[str]],
    run: Callable[..., subprocess.CompletedProcess[str]],
    cases: Callable[[int], Path],
    server: JudgeServer,
    good_answer: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> None:
    cases(count := 120)
    nodes.add("doomed")

    server.default = counting = Counting(good_answer(), at=40)
    process = start()
    with counting.held(process):
        process.kill()  # the driver: its office and workers end with it
        process.wait()
    with Ledger.open(tmp_path / "ledger.db", read_only=True) as ledger:
        before = ledger.progress().get(ledger.run().id, RunProgress()).done
    first = len(server.received)
    assert before <= first < count

    server.default = counting = Counting(good_answer(), at=30)
    process = start()
    with counting.held(process):
        nodes.kill("doomed")
    code, said = ended(process)
    assert code == 0, said
    there = told(tmp_path / "ledger.db")
    assert len(there) == count
    assert {outcome for outcome, _, _ in there.values()} == {"scored"}
    assert {one.headers["authorization"] for one in server.received} == {f"Bearer {KEY}"}
    assert written(nodes, KEY) == []
    # What was under way at the two deaths; workers of a driver that is gone may still ask for a moment.
    assert len(server.received) - first <= count - before + 3 * 8

    code, said = ended(start(address="127.0.0.1:1"))  # nothing is left to do, and nobody is asked for
    assert code == 0, said

    local = run("--ledger", str(tmp_path / "local.db"))
    assert local.returncode == 0, local.stderr
    assert told(tmp_path / "local.db") == there


def test_pairs_are_asked_in_both_orders_on_ray_too(
    start: Callable[..., subprocess.Popen[str]],
    run: Callable[..., subprocess.CompletedProcess[str]],
    command: Callable[..., list[str]],
    cases: Callable[[int], Path],
    server: JudgeServer,
    tmp_path: Path,
) -> None:
    path = cases(count := 6)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for number, line in enumerate(lines):
        (tmp_path / f"first{number}.png").write_bytes(paint(200 - number))
        line |= {"first": f"first{number}.png", "second": line.pop("edited")}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")

    def prefer_red(request: Received) -> dict[str, Any]:
        a, b = (redness(image) for image in request.images[-2:])
        return choose("A" if a > b else "B")

    server.default = prefer_red
    line = ["edit-preference" if word == "edit-preservation" else word for word in command()]
    code, said = ended(start(line))
    assert code == 0, said
    assert len(server.received) == 2 * count
    with Ledger.open(tmp_path / "ledger.db", read_only=True) as ledger:
        verdicts = list(ledger.verdicts("latest"))
    assert {one.preference.winner for one in verdicts if one.preference} == {"first"}
    assert [len(one.preference.answers) for one in verdicts if one.preference] == [2] * count


def test_edits_are_looked_at_closely_on_ray_too(
    start: Callable[..., subprocess.Popen[str]],
    command: Callable[..., list[str]],
    server: JudgeServer,
    tmp_path: Path,
) -> None:
    lines = []
    for number in range(count := 3):
        case = edit_case(number)
        for role, data in case.images.items():
            assert isinstance(data, bytes)
            (tmp_path / f"{role}{number}.png").write_bytes(data)
        lines.append({"id": case.id, **{role: f"{role}{number}.png" for role in case.images}, **case.fields})
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    server.default = reply_both
    line = ["edit-fidelity" if word == "edit-preservation" else word for word in command()]
    code, said = ended(start([*line, "--probe"]))
    assert code == 0, said
    assert sorted(map(is_probe, server.received)) == [False] * count + [True] * count
    with Ledger.open(tmp_path / "ledger.db", read_only=True) as ledger:
        verdicts = list(ledger.verdicts("latest"))
    assert ["probe.intact" in one.measurements for one in verdicts] == [True] * count


def test_a_case_that_kills_its_worker_ends_as_an_outcome_and_what_was_paid_for_is_found(
    start: Callable[..., subprocess.Popen[str]],
    environment: dict[str, str],
    command: Callable[..., list[str]],
    cases: Callable[[int], Path],
    tmp_path: Path,
) -> None:
    path = cases(20)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for line in lines:
        line["instruction"] = "die" if line["id"] == "c7" else f"case {line['id']}"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    notes = tmp_path / "notes"
    line = command()
    at = line.index("--judge")
    line[at : at + 4] = ["--judge", f"deadly:{notes}"]  # in place of the server
    judged = subprocess.run([*line, "--only", "c1?"], env=environment, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stderr
    assert len(notes.read_text("utf-8").splitlines()) == 10

    code, said = ended(start(line))
    assert code == 3, said
    found = told(tmp_path / "ledger.db")
    outcome, score, detail = found.pop("c7")
    assert (outcome, score) == ("interrupted", None)
    assert "died" in detail
    assert {outcome for outcome, _, _ in found.values()} == {"scored"}
    assert len(found) == 19
    asked = notes.read_text("utf-8").splitlines()
    assert asked.count("die") == 3
    assert [asked.count(f"case c{number}") for number in range(10, 20)] == [1] * 10
    assert max(asked.count(f"case c{number}") for number in range(10)) <= 2


def find_workers(nodes: Nodes) -> list[Any]:
    """The processes that judge: those of Ray's nodes that have the name of a worker."""
    psutil: Any = import_module("psutil")  # which Ray brings along
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            parent = process.parent()
            is_ours = parent is not None and any(nodes.logs in word for word in parent.cmdline())
            if is_ours and "RayWorker" in " ".join(process.cmdline()):
                found.append(process)
    return found


@pytest.mark.parametrize("how", ["left alone", "interrupted"])
def test_cases_of_workers_that_freeze_are_taken_back(
    how: str,
    nodes: Nodes,
    start: Callable[..., subprocess.Popen[str]],
    command: Callable[..., list[str]],
    cases: Callable[[int], Path],
    server: JudgeServer,
    good_answer: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> None:
    """A process that was stopped is not dead: neither it nor Ray says anything."""
    cases(count := 24)
    server.default = counting = Counting(good_answer(), at=8)
    process = start(command("--lease", "15", "--timeout", "60", "--total-timeout", "90"))
    with counting.held(process):
        frozen = find_workers(nodes)
        assert frozen
        for worker in frozen:
            worker.suspend()
        if how == "interrupted":
            process.send_signal(signal.SIGINT)
    code, said = ended(process)
    found = told(tmp_path / "ledger.db")
    assert {outcome for outcome, _, _ in found.values()} <= {"scored"}
    if how == "interrupted":
        assert "interrupted" in said
    else:
        assert (code, len(found)) == (0, count), said
    assert not [worker for worker in frozen if worker.is_running() and worker.status() == "stopped"]


def test_when_the_ledger_takes_no_more_what_is_in_progress_is_finished_and_rescued(
    start: Callable[..., subprocess.Popen[str]],
    cases: Callable[[int], Path],
    server: JudgeServer,
    good_answer: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> None:
    cases(count := 200)

    def reply(_: Any) -> dict[str, Any]:
        if len(server.received) == 40:
            with closing(sqlite3.connect(tmp_path / "ledger.db", timeout=60)) as database, database:
                database.execute("UPDATE runs SET spent_usd = 'damaged'")  # to which no cost can be added
        return good_answer()

    server.default = reply
    code, said = ended(start())
    assert code == 2, said
    rescue = re.search(r"that it could not take are in '([^']+)'", " ".join(said.split()))
    assert rescue, said
    asked = len(server.received)
    assert asked < count
    assert len({**told(tmp_path / "ledger.db"), **told(Path(rescue[1]))}) == asked


def test_without_an_address_ray_is_started_here_and_stopped_once_it_finishes_what_is_under_way(
    start: Callable[..., subprocess.Popen[str]],
    cases: Callable[[int], Path],
    server: JudgeServer,
    good_answer: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> None:
    cases(count := 120)
    server.default = counting = Counting(good_answer(), at=20)
    process = start(address="")
    with counting.held(process):
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to Ray's processes, too
    _, said = ended(process)
    assert "interrupted" in said
    found = told(tmp_path / "ledger.db")
    assert len(found) == len(server.received) < count  # what was asked was answered, and is there


def test_nodes_with_another_beholder_are_named_before_the_first_call(
    nodes: Nodes,
    start: Callable[..., subprocess.Popen[str]],
    cases: Callable[[int], Path],
    server: JudgeServer,
    tmp_path: Path,
) -> None:
    cases(4)
    for name, text in (("older", "__version__ = '0.0.9'"), ("without", "raise ImportError")):
        (tmp_path / name / "beholder").mkdir(parents=True)
        (tmp_path / name / "beholder" / "__init__.py").write_text(text, "utf-8")
        nodes.add(name, PYTHONPATH=str(tmp_path / name))
    try:
        code, said = ended(start())
    finally:
        nodes.kill("older")
        nodes.kill("without")
    assert code == 2
    assert "has Beholder 0.0.9; here it is" in said
    assert "has no Beholder" in said
    assert "Traceback" not in said
    assert server.received == []


@pytest.mark.parametrize("kind", ["closed", "deaf"])
def test_an_address_that_does_not_answer_is_one_plain_sentence(
    kind: str,
    environment: dict[str, str],
    cases: Callable[[int], Path],
    command: Callable[..., list[str]],
    server: JudgeServer,
) -> None:
    """Ray alone would try for minutes; `deaf` is a server that is no Ray."""
    cases(4)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        if kind == "deaf":
            listener.listen()
        line = changed(HASTY, command("--engine", "ray", "--address", address))
        found = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 2, found.stderr
    assert found.stderr.startswith(f"beholder: There is no Ray cluster at {address} ("), found.stderr
    assert found.stderr.count("\n") == 1
    assert server.received == []


def changed(change: str, line: Sequence[str]) -> list[str]:
    """A command line of Beholder in which something is otherwise, in the process that is started and nowhere else."""
    return [line[0], "-c", f"{change}\nfrom beholder.cli import main\nmain()", *line[3:]]


HASTY = """
from beholder.runs.ray import cluster

cluster.JOIN_TIMEOUT_S = 2
"""
BROKEN = """
from beholder.errors import LedgerError
from beholder.runs import limits

async def reserve(self, amount):
    raise LedgerError("nobody knows what is left")

limits.Budget.reserve = reserve
"""


def test_a_budget_that_cannot_be_asked_ends_the_run(
    start: Callable[..., subprocess.Popen[str]],
    cases: Callable[[int], Path],
    command: Callable[..., list[str]],
    priced: Path,
    server: JudgeServer,
) -> None:
    """Workers, which ask for money, would wait for ever."""
    cases(4)
    line = [*command()[:4], str(priced), "--budget", "1", "--ledger", str(priced.parent / "ledger.db")]
    code, said = ended(start(changed(BROKEN, line)))
    assert code == 2, said
    assert "nobody knows what is left" in said
    assert server.received == []


def test_a_team_s_ledger_and_a_budget_hold_and_secrets_stay_where_they_are(
    nodes: Nodes,
    start: Callable[..., subprocess.Popen[str]],
    cases: Callable[[int], Path],
    command: Callable[..., list[str]],
    priced: Path,
    server: JudgeServer,
    postgres: postgres_support.Server,
    good_answer: Callable[..., dict[str, Any]],
) -> None:
    """A call may cost 0.10, and costs 0.00046: the budget is enough for one at a time, of the two that may be. Each
    takes so long that the other is wanted meanwhile."""
    cases(30)

    def slow(_: object) -> dict[str, Any]:
        time.sleep(0.5)
        return good_answer()

    server.default = slow
    place = postgres.database()
    line = [*command()[:4], str(priced), "--concurrency", "2", "--ledger", place, "--json"]
    process = start([*line, "--budget", "0.15"])
    out, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    outcomes = json.loads(out.splitlines()[-1])["tally"]["outcomes"]
    assert outcomes["scored"] == len(server.received) > 0
    assert outcomes["scored"] + outcomes["over_budget"] == 30
    with Ledger.open(place, create=True) as ledger:
        assert ledger.check() == []
        assert ledger.run().spent_usd == outcomes["scored"] * Decimal("0.00046")
        assert ledger.reserved_usd("latest") == 0  # what was not used was given back
    assert written(nodes, KEY, postgres_support.PASSWORD) == []
    assert written(nodes, "Worker") != []  # it is where one has to look


def written(nodes: Nodes, *secrets: str) -> list[Path]:
    """The files of Ray in which one of these stands."""
    files = [file for file in Path(nodes.logs).rglob("*") if file.is_file()]
    return [file for file in files if any(secret.encode() in file.read_bytes() for secret in secrets)]


@pytest.fixture
def priced(tmp_path: Path, server: JudgeServer) -> Path:
    """A suite whose calls cost up to 0.10, and 0.00046 in the end."""
    path = tmp_path / "suite.yaml"
    path.write_text(
        "rubric: edit-preservation\ncases: cases.jsonl\nthumbnails: false\naudit: false\njudges:\n"
        f"- {{judge: openai:test, base_url: '{server.openai_url}', price: {{input: 0, output: 10}},\n"
        "   params: {max_completion_tokens: 10000}}\n",
        "utf-8",
    )
    return path


@pytest.mark.parametrize("address", ["nonsense", "10.0.0.1", "ray://10.0.0.1:10001", ":6379", "host:port"])
async def test_what_is_no_address_is_told_without_asking_anyone(address: str) -> None:
    with pytest.raises(UsageError, match="address"):
        async with join_cluster(address):
            pass
