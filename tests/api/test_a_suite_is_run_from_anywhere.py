"""`beholder.run` works in a script, a notebook, a running event loop and any thread; it resumes, and ends well."""

from __future__ import annotations

import asyncio
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.scripts import PATIENCE_S, ended, interrupt, run_in_notebook, wait_until_noticed

import beholder
from beholder import (
    Answer,
    Brief,
    Case,
    CaseError,
    Ledger,
    Options,
    Run,
    ScriptedJudge,
    SetupError,
    UsageError,
    judge_from,
)
from beholder.api.arguments import make_suite
from beholder.images.image import Sizing
from beholder.ledger.types import Entry
from beholder.testing.server import JudgeServer

RUBRIC = "edit-preservation"
Start = Callable[[str], "subprocess.Popen[str]"]

BEGIN = """
import os, signal, sys, threading
import beholder
beholder.run  # loaded before the main thread may have ended
cases = [
    {"id": f"c{n}", "input": "before.png", "edited": f"after{n}.png", "instruction": "make it red"} for n in range(4)
]
def run(**more):
    settings = {"base_url": os.environ["URL"], "concurrency": 1, "audit": False}
    result = beholder.run(rubric="edit-preservation", cases=cases, judge="openai:test", **settings, **more)
    print(result.state, result.summary.verdicts, flush=True)
"""


@pytest.fixture
def cases(make_case: Callable[[int], Case]) -> list[Case]:
    return [make_case(number) for number in range(4)]


@pytest.fixture
def settings(cases: list[Case], options: dict[str, Any]) -> dict[str, Any]:
    return {"rubric": RUBRIC, "cases": cases, "judge": "openai:test", "ledger": "a.db", **options}


def test_a_script_needs_no_guard(cases: list[Case], run_script: Start) -> None:
    process = run_script(BEGIN + "run()\n")
    assert (ended(process), process.returncode) == (("finished 4\n", ""), 0)


async def test_inside_a_running_event_loop(settings: dict[str, Any]) -> None:
    assert beholder.run(**settings).state == "finished"
    results = await asyncio.gather(*(asyncio.to_thread(beholder.run, **settings, samples=n) for n in (2, 3)))
    assert [result.state for result in results] == ["finished"] * 2


def test_in_many_threads_at_once(settings: dict[str, Any], server: JudgeServer) -> None:
    with ThreadPoolExecutor(6) as threads:
        work = [threads.submit(beholder.run, **settings, samples=number) for number in range(1, 7)]
        found = [one.result() for one in work]
    assert {result.state for result in found} == {"finished"}
    assert len({result.id for result in found}) == 6


def test_in_a_notebook(cases: list[Case], server: JudgeServer, tmp_path: Path) -> None:
    text = BEGIN.replace('os.environ["URL"]', repr(server.openai_url)) + "run()\nbeholder.Run.load()\n"
    printed, shown = run_in_notebook(text, tmp_path)
    assert printed["text"] == "finished 4\n"
    assert shown["data"]["text/plain"].startswith("<Run ")
    assert "unchanged_regions" in shown["data"]["text/html"]


def test_the_same_call_resumes_and_asks_nobody_again(settings: dict[str, Any], server: JudgeServer) -> None:
    first = beholder.run(**settings)
    assert len(server.received) == 4
    assert beholder.run(**settings) == first
    assert beholder.run(**{**settings, "cases": iter(settings["cases"])}) == first
    assert len(server.received) == 4
    again = beholder.run(**settings, fresh=True)
    assert again != first
    assert len(server.received) == 8
    assert pickle.loads(pickle.dumps(first)).summary.verdicts == 4


def test_images_in_memory_are_known_again(cases: list[Case], settings: dict[str, Any], server: JudgeServer) -> None:
    def in_memory() -> Iterator[dict[str, object]]:
        for case in cases:
            images = {role: Path(str(path)).read_bytes() for role, path in case.list_images()}
            yield {"id": case.id, **images, "instruction": "make it red"}

    first = beholder.run(**{**settings, "cases": in_memory()})
    assert beholder.run(**{**settings, "cases": in_memory()}) == first
    assert len(server.received) == 4


def test_a_frame_is_a_source_of_cases(cases: list[Case], settings: dict[str, Any]) -> None:
    import pandas

    rows = [{"id": case.id, **{role: str(path) for role, path in case.list_images()}, **case.fields} for case in cases]
    assert beholder.run(**{**settings, "cases": pandas.DataFrame(rows)}).summary.verdicts == 4


@pytest.mark.parametrize("where", ["main", "worker"])
def test_ctrl_c_finishes_and_stores_the_calls_under_way(
    where: str,
    cases: list[Case],
    run_script: Start,
    held: tuple[threading.Event, threading.Event],
    server: JudgeServer,
    tmp_path: Path,
) -> None:
    asked, go = held
    # A thread that nobody joins: the main thread waits at its end, and is interrupted there or before.
    work = {"main": "run()", "worker": "threading.Thread(target=run).start()\nwait_for_ctrl_c()"}[where]
    process = run_script(BEGIN + work + "\n")
    assert asked.wait(PATIENCE_S)
    interrupt(process, tmp_path)
    go.set()
    _, said = ended(process)
    assert "KeyboardInterrupt" in said
    begun = Run.load()
    assert (begun.state, begun.summary.outcomes["scored"]) == ("interrupted", len(server.received))
    assert len(server.received) < 4
    process = run_script(BEGIN + "run()\n")
    assert ended(process) == ("finished 4\n", "")
    assert len(server.received) == 4
    with Ledger.open() as ledger:
        assert ledger.check() == []


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals for single threads on this platform")
def test_ctrl_c_is_noticed_though_the_system_tells_another_thread(
    cases: list[Case], run_script: Start, held: tuple[threading.Event, threading.Event], tmp_path: Path
) -> None:
    """Nothing interrupts the wait of the main thread then, nor if the signal comes just before the wait begins."""
    asked, go = held
    listen = """
def listen():
    sys.stdin.readline()
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
threading.Thread(target=listen, daemon=True).start()
run()
"""
    process = run_script(BEGIN + listen)
    assert asked.wait(PATIENCE_S)
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    wait_until_noticed(tmp_path)
    go.set()
    assert "KeyboardInterrupt" in ended(process)[1]
    assert Run.load().state == "interrupted"


def test_the_main_thread_may_end_before_a_run_does(cases: list[Case], run_script: Start) -> None:
    process = run_script(BEGIN + "threading.Thread(target=run).start()\n")
    assert (ended(process), process.returncode) == (("finished 4\n", ""), 0)


class Watcher:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.skipped = self.written = 0

    def on_skipped(self, count: int) -> None:
        self.skipped += count

    def on_waiting(self, count: int) -> None:
        raise AssertionError

    def on_written(self, entries: Sequence[Entry]) -> None:
        self.written += len(entries)


def test_an_observer_is_told_of_the_progress(settings: dict[str, Any]) -> None:
    first, second = Watcher(), Watcher()
    beholder.run(**settings, progress=first)
    beholder.run(**settings, progress=second)
    assert ((first.skipped, first.written), (second.skipped, second.written)) == ((0, 4), (4, 0))


def test_a_bar_is_shown_only_where_somebody_looks(
    settings: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    beholder.run(**settings)
    beholder.run(**settings, progress=False)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("CI", "true")
    beholder.run(**settings)
    assert capsys.readouterr().err == ""
    beholder.run(**settings, progress=True)
    assert "4/4" in capsys.readouterr().err


class OwnJudge:
    """A judge of the user's own, which must not be closed."""

    name = identity = "own"
    sizing = Sizing()

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self.asked = 0

    async def answer(self, brief: Brief, **_: object) -> Answer:
        self.asked += 1
        return Answer(self._answer, model="own-1")

    async def aclose(self) -> None:
        raise AssertionError("a judge that was handed in is closed by its owner")


def test_a_judge_that_is_handed_in_is_not_closed(settings: dict[str, Any], server: JudgeServer) -> None:
    import json

    own = OwnJudge(json.dumps(server.default))
    given = {key: settings[key] for key in ("rubric", "cases", "ledger", "audit", "thumbnails")}
    result = beholder.run(**given, judge=own)
    assert (own.asked, result.summary.judges, result.record.suite["judges"]) == (4, {"own": 4}, [{"judge": "own"}])
    assert beholder.run(**given, judge=own) == result
    assert own.asked == 4
    assert beholder.plan(**given, judge=OwnJudge("")).done == 4
    model = judge_from("openai:test", base_url=server.openai_url)
    jury = beholder.run(**given, judge=[own, {"judge": model}])
    assert jury.summary.outcomes["scored"] == 4
    asyncio.run(model.aclose())
    with pytest.raises(UsageError, match="own"):
        beholder.run(**given, judge=own, budget=1)
    priced = {"judge": OwnJudge(json.dumps(server.default)), "price": {"input": 1, "output": 1}}
    assert beholder.run(**given, judge=priced, budget=1, fresh=True).state == "finished"


def test_a_rubric_object_and_an_open_ledger(settings: dict[str, Any]) -> None:
    rubric = beholder.Rubric.load(RUBRIC)
    with Ledger.open("a.db", create=True) as ledger:
        first = beholder.run(**{**settings, "rubric": rubric, "ledger": ledger})
        assert len(ledger.runs()) == 1
    assert beholder.run(**settings) == first


def test_a_budget_is_hard(settings: dict[str, Any], server: JudgeServer) -> None:
    result = beholder.run(**settings, budget=2.5, concurrency=1)
    assert result.summary.outcomes["over_budget"] == 4 - len(server.received) > 0
    assert not result.passed


def test_a_suite_is_a_path_or_a_mapping(settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(f"rubric: {RUBRIC}\nsamples: 2\nname: from-file\n")
    more = {key: value for key, value in settings.items() if key != "rubric"}
    from_file = beholder.run("suite.yaml", **more)
    assert (from_file.name, from_file.record.suite["samples"]) == ("from-file", 2)
    assert beholder.run({"rubric": RUBRIC, "samples": 2, **more}) == from_file
    assert beholder.run({"rubric": RUBRIC, "samples": 2}, **more, samples=1) != from_file


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sampels": 2}, "sampels: is not a key that is known here; did you mean 'samples'?"),
        ({"samples": 0}, "samples: "),
        ({"timeout_s": -1}, "timeout_s: "),
        ({"rubric": "edit-preservatoin"}, "Did you mean 'edit-preservation'?"),
        ({"judge": "gpt"}, "judge: 'gpt' names no judge"),
        ({"judge": 3}, "judge: give a name such as 'openai:gpt-5-mini'"),
        ({"judge": {"jugde": "x"}}, "judge: give a name"),
        ({"cases": "none.jsonl"}, "cases: there is no case file 'none.jsonl'"),
        ({"cases": 3}, "cases are a file or an iterable of cases, and int is neither."),
        ({"cases": [{"id": "x"}]}, "lacks the image 'input'"),
        ({"cases": []}, "There is no case to judge: the cases that were given are empty."),
        ({"retry": "refusal"}, "retry takes outcomes"),
        ({"progress": "yes"}, "progress is True, False, None or an object"),
        ({"resume": "x", "fresh": True}, "resume resumes a run, and fresh starts one"),
        ({"engine": "ray"}, "engine: on a Ray cluster, judges are given by name and cases in a file."),
        ({"fail_under": {"beauty": 3}}, "fail_under.beauty: is not a criterion of edit-preservation"),
        ({"budget": -1}, "budget: "),
    ],
)
def test_wrong_use_is_one_plain_sentence(settings: dict[str, Any], wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        beholder.run(**{**settings, **wrong})
    assert said in str(caught.value)
    assert "--" not in str(caught.value) or isinstance(caught.value, CaseError)


def test_a_suite_that_is_none_is_told() -> None:
    for suite, said in (
        (3, "a path or a mapping"),
        ("none.yaml", "none.yaml"),
        ({"rubrik": 1}, "did you mean 'rubric'?"),
    ):
        with pytest.raises(UsageError) as caught:
            beholder.run(suite)  # type: ignore[arg-type]  # which is what is tested
        assert said in str(caught.value)
    with pytest.raises(SetupError, match="OPENAI_API_KEY"):
        beholder.run(rubric=RUBRIC, cases=[Case("x")], judge="openai:gpt-5-mini")
    assert not Path("beholder.db").exists()


def test_a_failure_of_the_judge_is_an_outcome(settings: dict[str, Any]) -> None:
    given = {key: settings[key] for key in ("rubric", "cases", "ledger", "audit", "thumbnails")}
    broken = ScriptedJudge(beholder.Unreachable("nobody is there"))
    result = beholder.run(**given, judge=broken)
    assert (result.state, dict(result.summary.outcomes), result.exit_code) == ("finished", {"unreachable": 4}, 3)
    assert not result.passed


def test_options_of_a_session_are_options_of_a_run(
    cases: list[Case], options: dict[str, Any], server: JudgeServer, tmp_path: Path
) -> None:
    of: dict[str, Any] = {"rubric": RUBRIC, "cases": cases, "judge": "openai:test", "ledger": "a.db"}
    first = beholder.run(**of, options=options)
    again = beholder.run(**of, options=Options(**options))
    assert (again, first.summary.verdicts, len(server.received)) == (first, 4, 4)
    assert beholder.run(**of, **options) == first
    assert beholder.plan(**of, options=options).run == first.id
    suite = {**of, **options, "audit": True, "styles": [tmp_path]}
    assert beholder.run(suite, options={"audit": False, "styles": []}) == first
    assert len(server.received) == 4


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"options": {"audit": False}, "audit": False}, "audit is given by itself and in options; give it once"),
        ({"options": {"samples": 2}}, "There is no option 'samples'"),
        ({"options": 5}, "options are Options or a mapping"),
        ({"options": {"cache": False}}, "fresh=True asks every case again"),
        ({"options": {"prompt_text": "Judge."}}, "give a file with it as prompt"),
        ({"options": {"timeout_s": 0}}, "timeout_s: "),
        ({"judges": ["openai:other"]}, "judge and judges are the same"),
        ({"timeout": 5, "timeout_s": 5}, "timeout and timeout_s are the same; give one of them"),
        ({"gates": [], "gate": "x"}, "gate and gates are the same; give one of them, which may be a list"),
        ({"options": {"timeout": 5}, "timeout_s": 5}, "timeout_s is given by itself and in options; give it once"),
    ],
)
@pytest.mark.parametrize("call", [beholder.run, beholder.plan, beholder.collect])
def test_what_is_said_twice_is_refused(call: Callable[..., object], more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call(**{"rubric": RUBRIC, "cases": [], "judge": "openai:test", **more})


def test_the_words_of_flags_are_those_of_the_file() -> None:
    of: dict[str, Any] = {"rubric": "description", "cases": [], "judge": "openai:test"}
    words = {"gate": "hallucinations", "timeout": 7, "total_timeout": 9, "param": {"temperature": 0}, "tag": "mine"}
    keys = {"gates": ["hallucinations"], "timeout_s": 7, "total_timeout_s": 9, "params": {"temperature": 0}}
    suites = [make_suite(None, {**of, **given})[0] for given in (words, {**keys, "tags": ["mine"]})]
    by_word, by_key = [(one.gates, one.limits, one.judges, one.tags) for one in suites]
    assert by_word == by_key
    assert (suites[0].limits.timeout_s, suites[0].gates, suites[0].tags) == (7, ("hallucinations",), ("mine",))
    assert Options.of({"gate": "hallucinations", "timeout": 7}) == Options(gates=["hallucinations"], timeout_s=7)


def test_a_keyword_takes_precedence_over_the_judges_of_a_mapping(settings: dict[str, Any]) -> None:
    settings.pop("judge")
    assert beholder.run({**settings, "judges": ["openai:other"]}, judge="openai:test").summary.verdicts == 4
