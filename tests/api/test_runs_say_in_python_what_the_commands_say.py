"""`run`, `plan`, `Run`, `score`, `measure`, `doctor`, `qualify` and ratings: the same values as the commands print."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beholder
from beholder import Case, ImageError, Ledger, LedgerError, Run, UsageError
from beholder.ledger.copy import copy_runs
from beholder.testing.server import JudgeServer

RUBRIC = "edit-preservation"
Command = Callable[..., str]
CarriedOut = Callable[[Sequence[str]], tuple[int, str, str]]


@pytest.fixture
def cases(make_case: Callable[[int], Case], tmp_path: Path) -> list[Case]:
    """Three cases, which are also in cases.jsonl."""
    made = [make_case(number) for number in range(3)]
    rows = [
        {"id": case.id, **{role: str(path) for role, path in case.images.items()}, **case.fields, "model": f"m{n % 2}"}
        for n, case in enumerate(made)
    ]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


@pytest.fixture
def finished(cases: list[Case], options: dict[str, Any]) -> Run:
    return beholder.run(rubric=RUBRIC, cases="cases.jsonl", judge="openai:test", name="mine", tags=["ci"], **options)


@pytest.fixture
def command(carried_out: CarriedOut) -> Command:
    """Carries out a command and returns what it printed; it may fail if that is said."""

    def carry(words: str, code: int = 0) -> str:
        found, out, err = carried_out(shlex.split(words))
        assert found == code, err
        return out

    return carry


def flags(options: dict[str, Any]) -> str:
    return (
        f"--judge openai:test --base-url {options['base_url']} --no-audit --no-thumbnails --price-input 1000 "
        "--price-output 1000 --param max_tokens=200"
    )


def test_a_run_is_the_run_of_the_command(
    finished: Run, command: Command, options: dict[str, Any], server: JudgeServer
) -> None:
    asked = len(server.received)
    assert asked == 3
    last = command(f"run --rubric {RUBRIC} --cases cases.jsonl --name mine {flags(options)} --json").splitlines()[-1]
    said = json.loads(last)
    assert len(server.received) == asked, "the command resumes what Python has begun"
    assert (said["run"], said["state"], said["exit_code"]) == (finished.id, finished.state, finished.exit_code)
    assert said["tally"] == finished.summary.to_dict()
    assert (finished.passed, finished.missed) == (True, [])


def test_show_and_list(finished: Run, command: Command) -> None:
    assert finished.refresh().to_dict() == json.loads(command("show mine --json"))
    assert finished.to_dict(by="model") == json.loads(command("show mine --by model --json"))
    assert finished.case("c1").to_dict() == json.loads(command("show mine c1 --json"))
    assert finished.raw_answers("c1") == json.loads(command("show mine c1 --raw --json"))
    [listed] = beholder.list_runs()
    assert listed.list_entry() == json.loads(command("runs --json"))
    assert (listed, Run.load(finished.id[:8]), Run.load()) == (finished, finished, finished)


def test_plan(cases: list[Case], command: Command, options: dict[str, Any]) -> None:
    plan = beholder.plan(rubric=RUBRIC, cases="cases.jsonl", judge="openai:test", **options)
    assert json.loads(json.dumps(plan.to_dict())) == json.loads(
        command(f"plan --rubric {RUBRIC} --cases cases.jsonl {flags(options)} --json")
    )
    assert plan.calls == 3
    assert repr(plan).startswith("<Plan of 3 verdicts on 3 cases: 3 calls for $")
    assert not Path("beholder.db").exists()


@pytest.mark.parametrize("to", ["csv", "jsonl", "parquet"])
def test_export(finished: Run, command: Command, to: str) -> None:
    finished.export(f"mine.{to}")
    command(f"export mine --to {to} -o command.{to}")
    assert Path(f"mine.{to}").read_bytes() == Path(f"command.{to}").read_bytes()
    written = io.BytesIO()
    finished.export(written, to)
    assert written.getvalue() == Path(f"mine.{to}").read_bytes()


@pytest.mark.parametrize(("ending", "form"), [("html", "html"), ("md", "md"), ("xml", "junit")])
def test_report(finished: Run, command: Command, ending: str, form: str) -> None:
    made = finished.report(f"python.{ending}")
    said = command(f"report mine --format {form} -o command.{ending}")
    assert str(made) == said.strip().replace("command", "python")
    assert Path(f"python.{ending}").read_bytes() == Path(f"command.{ending}").read_bytes()
    assert made.size == Path(f"python.{ending}").stat().st_size


def test_score(command: Command, server: JudgeServer) -> None:
    lines: list[dict[str, Any]] = [{"case": f"c{n}", "answer": server.default} for n in range(3)]
    Path("answers.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + "no JSON\n")
    result = beholder.score("answers.jsonl", RUBRIC)
    verdicts = list(result)
    out = command(f"score answers.jsonl --rubric {RUBRIC} --json", result.exit_code)
    printed = [json.loads(line) for line in out.splitlines()]
    assert [{**verdict.to_dict(), "answer": verdict.answer} for verdict in verdicts] == printed
    assert (result.exit_code, result.summary.malformed, result.to_dict()["unscored"]) == (2, 1, 0)
    from_mappings = beholder.score(lines, RUBRIC)
    assert [verdict.to_dict() for verdict in from_mappings] == [verdict.to_dict() for verdict in verdicts]
    assert from_mappings.summary.means[RUBRIC, "unchanged_regions"] == 6
    with pytest.raises(UsageError, match="holds no answer"):
        list(beholder.score([], RUBRIC))


def test_measure(make_case: Callable[[int], Case], command: Command) -> None:
    make_case(0)
    result = beholder.measure("before.png", "after0.png", only="colour")
    assert result.to_dict() == json.loads(command("measure before.png after0.png --only colour --json"))
    in_memory = beholder.measure(
        Path("before.png").read_bytes(), io.BytesIO(Path("after0.png").read_bytes()), only=["colour"]
    )
    assert {name: in_memory[name].value for name in in_memory} == {
        name: one.value for name, one in result.values.items()
    }
    assert "ΔE" in result._repr_html_()
    with pytest.raises(UsageError, match="No instrument is named 'color'"):
        beholder.measure("before.png", "after0.png", only="color")
    with pytest.raises(ImageError, match="The image 'after' is an array of shape"):
        beholder.measure("before.png", np.zeros((2, 2, 2)))


def test_doctor(command: Command, server: JudgeServer) -> None:
    checks = beholder.doctor(judge="openai:test", base_url=server.openai_url)
    words = f"doctor --judge openai:test --base-url {server.openai_url} --json"
    assert [check.to_dict() for check in checks] == [json.loads(line) for line in command(words).splitlines()]
    assert "problem" not in {check.state for check in checks}


def test_ratings(finished: Run, command: Command) -> None:
    Path("ratings.csv").write_text("case,rater,aspect,score\nc0,Ann,looks,3\nc1,Ann,looks,5\n")
    done = beholder.import_ratings(finished, "ratings.csv", map_={"looks": "unchanged_regions"})
    assert done.raters == {"Ann": 2}
    written = io.BytesIO()
    beholder.export_ratings("mine", written, raters="Ann", ledger="beholder.db")
    assert written.getvalue().decode() == command("ratings export mine")
    assert "c0,Ann,unchanged_regions,3" in written.getvalue().decode()
    with pytest.raises(UsageError, match="who did: Ann"):
        beholder.export_ratings(finished, "out.csv", raters=["Bob"])


def test_a_run_is_changed_in_the_ledger(finished: Run) -> None:
    assert finished.tag("nightly") == ("ci", "nightly")
    assert finished.untag("ci") == ("nightly",)
    finished.rename("yours")
    assert (Run.load("yours").tags, finished.name) == (("nightly",), "yours")
    assert [run.id for run in beholder.list_runs(tag="nightly")] == [finished.id]
    finished.delete()
    with pytest.raises(LedgerError):
        Run.load("yours")


def test_a_run_is_copied_into_another_ledger(finished: Run, command: Command) -> None:
    copied = finished.copy_to("other.db")
    assert (copied.id, copied.to_dict()) == (finished.id, finished.refresh().to_dict())
    assert "already" in command("ledger copy beholder.db other.db")
    with pytest.raises(UsageError, match="name another ledger"):
        finished.copy_to("./beholder.db")
    told = json.loads(command("ledger copy beholder.db third.db --json"))
    assert told == copy_runs("beholder.db", "fourth.db", [finished.id]).to_dict() | {"to": "third.db"}


def test_reading_creates_no_ledger(tmp_path: Path) -> None:
    Ledger.open("beholder.db", create=True).close()
    for look in (lambda: Run.load("x", "behodler.db"), lambda: beholder.list_runs("behodler.db")):
        with pytest.raises(LedgerError, match=r"did you mean .beholder\.db"):
            look()
    assert not (tmp_path / "behodler.db").exists()


def test_frames_and_notebooks(finished: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    frame: Any = finished.frame()
    assert type(frame).__module__.startswith("polars")
    assert frame["unchanged_regions.score"].to_list() == [6, 6, 6]
    from beholder.ledger import export

    monkeypatch.setattr(export, "find_spec", lambda name: None)
    other: Any = finished.frame()
    assert type(other).__module__.startswith("pandas")
    assert (list(other.columns), list(other["score"])) == (frame.columns, frame["score"].to_list())
    page = finished._repr_html_()
    assert "unchanged_regions" in page
    assert "3 scored" in page
    assert "<script" not in page
    assert repr(finished) == f"<Run {finished.id} 'mine', finished, 3 verdicts>"
    assert [verdict.case for verdict in finished.verdicts()] == ["c0", "c1", "c2"]
    assert list(finished.verdicts(outcome="refused")) == []


def test_thresholds(finished: Run, cases: list[Case], options: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"rubric": RUBRIC, "cases": "cases.jsonl", "judge": "openai:test", **options}
    again = beholder.run(**settings, fail_under={"unchanged_regions": 7})
    assert (again, again.passed, again.exit_code) == (finished, False, 1)
    assert again.missed == ["unchanged_regions: the mean is 6.00, and 7 was asked for"]


def test_a_finished_run_keeps_its_name(
    finished: Run, cases: list[Case], options: dict[str, Any], server: JudgeServer
) -> None:
    asked = len(server.received)
    branch = beholder.run(rubric=RUBRIC, cases="cases.jsonl", judge="openai:test", name="branch", **options)
    assert (branch.name, branch.summary.reused, len(server.received)) == ("branch", 3, asked)
    assert branch != finished == Run.load("mine")
    assert beholder.compare("mine", "branch").gate().status == "passed"
    assert beholder.run(rubric=RUBRIC, cases="cases.jsonl", judge="openai:test", name="mine", **options) == finished
