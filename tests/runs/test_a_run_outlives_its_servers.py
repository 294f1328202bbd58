"""A run over several servers: one that fails, one that dies in the middle and one that is slow cost it nothing but
time, and a judge is the same judge whoever serves it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from beholder.errors import RubricError, UsageError
from beholder.ledger.ledger import Ledger
from beholder.runs.suite import Suite, load_suite
from beholder.testing.base import Fault, Received, ReplyContent
from beholder.testing.server import JudgeServer

CASES = 60

RunSuite = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def answers() -> list[bytes]:
    """The edited images for which an answer was given, by whichever server."""
    return []


@pytest.fixture
def answering(good_answer: Callable[[], dict[str, Any]], answers: list[bytes]) -> Callable[[Received], dict[str, Any]]:
    def reply(heard: Received) -> dict[str, Any]:
        answers.append(heard.images[-1])
        return good_answer()

    return reply


@pytest.fixture
def life() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def write_suite(folder: Path, servers: Sequence[JudgeServer]) -> Path:
    path = folder / "suite.yaml"
    listed = "".join(f"      - {server.openai_url}\n" for server in servers)
    path.write_text(
        "rubric: edit-preservation\ncases: cases.jsonl\nledger: ledger.db\nthumbnails: false\naudit: false\n"
        f"concurrency: 8\njudges:\n  - judge: openai:qwen3-vl\n    base_urls:\n{listed}",
        "utf-8",
    )
    return path


@pytest.fixture
def run_suite(beholder: Callable[[list[str]], subprocess.CompletedProcess[str]]) -> RunSuite:
    return lambda *arguments: beholder([sys.executable, "-m", "beholder", "run", *arguments])


def outcomes(folder: Path) -> list[tuple[str, int]]:
    with Ledger.open(folder / "ledger.db", read_only=True) as ledger:
        (run,) = ledger.runs()
        return [(one.verdict.outcome.value, one.verdict.attempts) for one in ledger.stored_verdicts(run.id)]


def test_no_case_is_lost_and_none_is_answered_twice(
    tmp_path: Path,
    cases: Callable[[int], Path],
    life: ExitStack,
    answering: Any,
    answers: list[bytes],
    run_suite: RunSuite,
) -> None:
    cases(CASES)
    death = ExitStack()
    life.callback(death.close)
    dying = death.enter_context(JudgeServer(keyless=True))
    failing = life.enter_context(JudgeServer(Fault.status(503), keyless=True))
    slow = life.enter_context(JudgeServer(keyless=True))
    enough, gone = threading.Event(), threading.Thread(target=death.close)

    def until_it_dies(heard: Received) -> ReplyContent:
        if len(dying.received) > 20:
            enough.set()
            if gone.ident is None:
                gone.start()
            return Fault.drop()
        return answering(heard)  # type: ignore[no-any-return]

    def slowly(heard: Received) -> ReplyContent:
        assert enough.wait(60)  # so what it has must wait until the other is dead
        return answering(heard)  # type: ignore[no-any-return]

    dying.default, slow.default = until_it_dies, slowly
    done = run_suite(str(write_suite(tmp_path, [failing, dying, slow])), "--quiet", "--json")
    gone.join()
    assert done.returncode == 0, done.stderr
    said = outcomes(tmp_path)
    assert [outcome for outcome, _ in said] == ["scored"] * CASES
    assert len(answers) == len(set(answers)) == CASES
    assert len(dying.received) > 20
    assert len(failing.received) >= 1
    assert max(attempts for _, attempts in said) <= 4


def test_another_server_changes_neither_the_run_nor_its_answers(
    tmp_path: Path, cases: Callable[[int], Path], life: ExitStack, answering: Any, run_suite: RunSuite
) -> None:
    cases(4)
    first, second, third = (life.enter_context(JudgeServer(answering, keyless=True)) for _ in range(3))
    assert run_suite(str(write_suite(tmp_path, [first, second])), "--quiet").returncode == 0
    assert len(first.received) + len(second.received) == 4
    again = run_suite(str(write_suite(tmp_path, [third, second, first])), "--quiet")
    assert (again.returncode, len(third.received)) == (0, 0), again.stderr
    flags = [word for server in (third, first) for word in ("--base-url", server.openai_url)]
    with (tmp_path / "cases.jsonl").open("a", encoding="utf-8") as file:  # another run, and one case more to ask
        line = {"id": "new", "input": "before.png", "edited": "after0.png", "instruction": "make it blue"}
        file.write(json.dumps(line) + "\n")
    assert run_suite(str(tmp_path / "suite.yaml"), "--quiet", *flags).returncode == 0
    assert sum(len(server.received) for server in (first, second, third)) == 5


def test_a_request_that_is_wrong_is_not_carried_from_server_to_server(
    tmp_path: Path, cases: Callable[[int], Path], life: ExitStack, run_suite: RunSuite
) -> None:
    cases(1)
    here, there = (life.enter_context(JudgeServer(Fault.status(400, "no"), keyless=True)) for _ in range(2))
    assert run_suite(str(write_suite(tmp_path, [here, there])), "--quiet").returncode == 3
    assert outcomes(tmp_path) == [("unreachable", 1)]
    assert len(here.received) + len(there.received) == 1


A, B = "http://a:8000/v1", "http://b:8000/v1"


@pytest.fixture
def suite(tmp_path: Path, cases: Callable[[int], Path]) -> Callable[..., Suite]:
    def make(judge: str, **flags: object) -> Suite:
        cases(1)
        path = tmp_path / "suite.yaml"
        path.write_text(f"rubric: edit-preservation\ncases: cases.jsonl\njudges:\n  - {judge}\n", "utf-8")
        return load_suite(path, {**flags, "trust_suite": True})

    return make


def test_a_flag_replaces_all_that_the_suite_says_of_servers(suite: Callable[..., Suite]) -> None:
    several, one = f"{{judge: openai:x, base_urls: ['{A}', '{B}']}}", f"{{judge: openai:x, base_url: '{A}'}}"
    places = [
        (judge.base_url, judge.base_urls)
        for made in (suite(several), suite(several, base_url=B), suite(one, base_urls=[A, B]), suite(one))
        for judge in made.judges
    ]
    assert places == [(None, (A, B)), (B, ()), (None, (A, B)), (A, ())]


def test_the_order_and_number_of_servers_is_nothing_that_matters(suite: Callable[..., Suite]) -> None:
    made = [suite(f"{{judge: openai:x, base_urls: {urls}}}") for urls in ([A, B], [B, A], [A])]
    assert len({json.dumps(one.fingerprint_settings()) for one in made}) == 1
    assert json.loads(json.dumps(made[0].public_dict()))["judges"] == [{"judge": "openai:x", "base_urls": [A, B]}]


def test_the_suite_in_the_docs_is_one(tmp_path: Path, cases: Callable[[int], Path]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "judges.md").read_text("utf-8")
    (block,) = re.findall(r"^```yml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    cases(1)
    (tmp_path / "suite.yaml").write_text(block, "utf-8")
    (judge,) = load_suite(tmp_path / "suite.yaml", {"trust_suite": True}).judges
    assert judge.base_urls == tuple(f"http://gpu{number}:8000/v1" for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("urls", "said"),
    [
        (f"base_urls: ['{A}', '{A}/']", r"line 4, judges\[0\].base_urls\[1\]: stands here twice"),
        (f"base_urls: ['{A}', here]", r"line 4, judges\[0\].base_urls\[1\]: 'here' is no base URL"),
        (f"base_url: '{A}', base_urls: ['{B}']", r"judges\[0\].base_urls: `base_url` and `base_urls` are both given"),
        (f"base_urls: '{A}'", r"line 4, judges\[0\].base_urls: "),
    ],
)
def test_wrong_servers_are_told_at_line_and_key(suite: Callable[..., Suite], urls: str, said: str) -> None:
    with pytest.raises(RubricError, match=said):
        suite(f"{{judge: openai:x, {urls}}}")


def test_a_wrong_flag_is_told_by_its_name(suite: Callable[..., Suite]) -> None:
    with pytest.raises(UsageError, match=r"--base-url \(\[1\]\): 'here' is no base URL"):
        suite("openai:x", base_urls=[A, "here"])
