"""`runs`, `show`, `export` and `doctor`, on a real ledger."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.ledger import case, entry, run_record, unscored, verdict

from beholder.api.run import Run
from beholder.errors import LedgerError
from beholder.images.prepare import digest
from beholder.ledger.ledger import Ledger
from beholder.testing.server import JudgeServer
from beholder.verdicts.verdict import CriterionResult, Outcome


@pytest.fixture
def book(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs: `first` with three verdicts and `second`, which has just begun."""
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    files = {"input": "before.png", "edited": "after.png"}
    sent = tuple(
        replace(image, source_digest=digest((folder / files[image.role]).read_bytes())) for image in verdict(1).images
    )
    first = verdict(1, case="p1/anime", images=sent, grade="B", passed=True)
    said = unscored(2, Outcome.REFUSED, case="p2/\x1b[2Jpop", detail="no\x1b[2J")
    with Ledger.open(folder / "beholder.db", create=True) as ledger:
        ledger.start(run_record("aaa111", name="first", total=3, created=datetime.now(UTC) - timedelta(hours=3)))
        ledger.write(
            "aaa111",
            [
                entry(1, first, case=case(first, images=files)),
                entry(2, said, case=case(said, groups={"model": "model-b"})),
                entry(3, verdict(3, case="p3/anime")),
            ],
        )
        ledger.update("aaa111", state="finished")
        ledger.start(run_record("bbb222", name="second [bold]", tags=("nightly", "x")))
    return folder


def test_runs_are_listed_newest_first(run: Any, book: Path) -> None:
    with Ledger.open(book / "beholder.db") as ledger, ledger.lock_run("bbb222", alone=True):
        done = run("runs")
    assert done.code == 0
    head, second, first = done.out.splitlines()
    assert head.split() == ["run", "name", "state", "done", "mean", "score", "spent", "age", "tags"]
    assert second.startswith("bbb222  second [bold]  running")
    assert "nightly, x" in second
    assert first.startswith("aaa111  first")
    for part in ("finished", "3/3", "0.500, 2 of 3 scored", "$0.0056", "3 h"):
        assert part in first


def test_runs_as_json(run: Any, book: Path) -> None:
    lines = [json.loads(line) for line in run("runs --json").out.splitlines()]
    assert [line["run"] for line in lines] == ["bbb222", "aaa111"]
    assert (lines[1]["done"], lines[1]["scored"], lines[1]["total"]) == (3, 2, 3)
    assert [json.loads(line)["run"] for line in run("runs --json --tag nightly").out.splitlines()] == ["bbb222"]


def test_runs_are_renamed_tagged_and_deleted(run: Any, book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("runs rename first best").out == "Run aaa111 is now called 'best'.\n"
    assert run("runs tag best good better").out == "Run aaa111 has the tags: ci, good, better.\n"
    assert run("runs tag best --remove ci --remove good").out == "Run aaa111 has the tags: better.\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert "Kept run aaa111 (best) with 3 verdicts." in run("runs delete best").out
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert "Deleted run aaa111 (best) with 3 verdicts." in run("runs delete best").out
    assert run("runs delete latest --yes").code == 0
    assert run("runs").out == "No runs yet.\n"


def test_cases_are_starred_commented_and_searched(run: Any, book: Path) -> None:
    assert run("runs star first p1/anime p3/anime").out == "Run aaa111 has stars on: p1/anime, p3/anime.\n"
    assert run("runs star first p1/anime --remove").out == "Run aaa111 has stars on: p3/anime.\n"
    assert run("runs star first nobody").code == 2
    Run.load("first", book / "beholder.db").comment("p1/anime", "the\x1b[2J hand", "Ada")
    [line] = run("runs comment first").out.splitlines()
    number, told = line.split(maxsplit=1)
    assert told.startswith("p1/anime: the [2J hand (Ada, ")
    [values] = map(json.loads, run("runs comment first p1/anime --json").out.splitlines())
    assert (values["id"], values["case"], values["author"]) == (number, "p1/anime", "Ada")
    assert run(f"runs comment first --remove {number}").out == ""
    assert "p3/anime: good (" in run("runs comment first p3/anime good").out
    assert run("show first --search CAR --json").out == '["p1/anime", "p2/\\u001b[2Jpop", "p3/anime"]\n'
    assert run("show first --search p3").out == "p3/anime\n"
    assert run("show first --search croissant").out == "No case has this text.\n"


def test_nobody_there_to_ask(run: Any, book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    done = run("runs delete first")
    assert done.code == 2
    assert "add --yes" in done.err
    assert "first" in run("runs").out


def test_show_a_run(run: Any, book: Path) -> None:
    done = run("show first")
    assert done.code == 0
    for line in (
        "outcomes: 2 scored, 1 refused",
        "verdicts: 3 of 3, 0 from answers that the ledger had",
        "grades of edit-preservation: 1 B",
        "edit-preservation: 1 passed, 0 failed",
        "judge: 3 openai:gpt-5-mini",
        "model: 3 gpt-5-mini-2025-08-07",
        "tags: ci",
    ):
        assert line in done.out
    rows = [line.split() for line in done.out.splitlines() if line.startswith("edit-preservation ")]
    assert ["edit-preservation", "unchanged_regions", "2", "3.000"] in rows
    assert ["edit-preservation", "score", "2", "0.500"] in rows


def test_show_a_run_split_by_a_group(run: Any, book: Path) -> None:
    done = run("show first --by model")
    rows = [line.split() for line in done.out.splitlines()]
    assert ["model-a", "2", "2", "0.500", "3.000", "4.000", "5.000"] in rows
    assert ["model-b", "1", "0", "–", "–", "–", "–"] in rows
    found = json.loads(run("show first --by model --json").out)
    assert found["groups"]["model"]["model-b"]["outcomes"] == {"refused": 1}
    assert found["outcomes"] == {"scored": 2, "refused": 1}
    assert found["run"] == "aaa111"


def test_show_by_a_group_that_no_case_is_in_lists_those_there_are(run: Any, book: Path) -> None:
    done = run("show first --by nope")
    assert done.code == 2
    assert "there are" in done.err
    assert "model" in done.err


def test_show_a_case_says_what_changed_on_the_disk(run: Any, book: Path) -> None:
    done = run("show first p1/anime")
    assert "Unchanged regions" in done.out
    assert f"input: {book / 'before.png'} (unchanged)" in done.out
    assert f"edited: {book / 'after.png'} (unchanged)" in done.out
    (book / "after.png").write_bytes((book / "before.png").read_bytes())
    (book / "before.png").unlink()
    done = run("show first p1/anime")
    assert f"edited: {book / 'after.png'} (has changed since)" in done.out
    assert "(cannot be compared: " in done.out
    assert "does not exist" in done.out


def test_show_a_case_as_json_and_raw(run: Any, book: Path) -> None:
    found = json.loads(run("show first p1/anime --json").out)
    assert found["verdicts"][0]["case"] == "p1/anime"
    assert [image["since"] for image in found["images"]] == ["unchanged", "unchanged"]
    assert found["groups"]["model"] == "model-a"
    assert json.loads(run("show first p1/anime --raw --json").out) == {"edit-preservation": [verdict(1).answer]}
    assert verdict(1).answer in run("show first p1/anime --raw").out


def test_hostile_text_cannot_speak_to_the_terminal(run: Any, book: Path) -> None:
    for command in (("show", "first", "p2/\x1b[2Jpop"), ("show", "first"), ("runs",)):
        done = run(*command)
        assert done.code == 0
        assert "\x1b[2J" not in done.out + done.err


def test_export_to_each_format(run: Any, book: Path) -> None:
    printed = run("export first").out
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [row["case"] for row in rows] == ["p1/anime", "p2/\x1b[2Jpop", "p3/anime"]
    assert run("export first --to csv -o out.csv").out == ""
    assert (book / "out.csv").read_text("utf-8") == printed
    run("export first --to jsonl -o out.jsonl")
    assert len((book / "out.jsonl").read_text("utf-8").splitlines()) == 3
    run("export first --to parquet -o out.parquet")
    polars = pytest.importorskip("polars")
    assert polars.read_parquet(book / "out.parquet")["score"].null_count() == 1
    assert sorted(path.name for path in book.glob("*out*")) == ["out.csv", "out.jsonl", "out.parquet"]
    assert (book / "out.csv").stat().st_mode & 0o444 == 0o444


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("show nothing", "There is no run 'nothing'"),
        ("show first p9", "There is no case 'p9'"),
        ("show first p9 --raw", "There is no case 'p9'"),
        ("show first --ledger none.db", "There is no ledger at 'none.db'"),
        ("show first --ledger .", "is a folder"),
        ("runs --ledger before.png", "not a database at all"),
        ("runs rename nothing x", "There is no run 'nothing'"),
        ("runs rename first ''", "must not be empty"),
        ("runs delete nothing --yes", "There is no run 'nothing'"),
        ("runs delete first --ledger none.db --yes", "There is no ledger at 'none.db'"),
        ("export first --to xlsx", "csv, jsonl, parquet"),
        ("export first --to parquet", "-o FILE"),
        ("export first -o nowhere/out.csv", "cannot be written"),
        ("export first -o .", "is a folder"),
        ("export first -o beholder.db", "is the ledger itself"),
    ],
)
def test_wrong_use_is_one_sentence(run: Any, book: Path, arguments: str, said: str) -> None:
    done = run(arguments)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1
    assert not (book / "none.db").exists()
    with Ledger.open(book / "beholder.db", read_only=True) as ledger:
        assert [record.name for record in ledger.runs()] == ["second [bold]", "first"]


def test_a_bad_export_leaves_no_half_file(run: Any, book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(verdicts: Iterable[object]) -> Iterator[bytes]:
        yield b"{}\n"
        raise LedgerError("The ledger is damaged.")

    monkeypatch.setattr("beholder.api.run.json_lines", fail)
    (book / "out.jsonl").write_text("as it was", "utf-8")
    done = run("export first --to jsonl -o out.jsonl --force")
    assert (done.code, "damaged" in done.err) == (2, True)
    assert (book / "out.jsonl").read_text("utf-8") == "as it was"
    assert [path.name for path in book.glob("*out*")] == ["out.jsonl"]


def test_doctor_finds_everything_well(run: Any, book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    done = run("doctor")
    assert done.code == 0
    assert "✓ key for openai: OPENAI_API_KEY is set" in done.out
    assert "· key for anthropic: ANTHROPIC_API_KEY is not set" in done.out
    assert "jpeg, png, webp" in done.out
    assert "beholder.db is sound: 2 runs" in done.out
    assert "sk-very" not in done.out + done.err
    lines = [json.loads(line) for line in run("doctor --json").out.splitlines()]
    assert {line["state"] for line in lines} <= {"ok", "note"}


def test_doctor_tells_what_is_wrong_with_a_ledger(run: Any, book: Path) -> None:
    with Ledger.open(book / "beholder.db", create=True) as ledger, ledger._writer.begin() as connection:
        connection.exec_driver_sql("UPDATE answers SET body = x'00'")
    done = run("doctor")
    assert done.code == 2
    assert "✗ ledger: The ledger is damaged: answer 1 (row 1 of answers) cannot be read" in done.out
    assert "none at nowhere.db yet" in run("doctor --ledger nowhere.db").out
    assert run("doctor --ledger .").code == 2


def test_doctor_asks_a_server_and_sends_no_key_without_a_judge(
    run: Any, book: Path, server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    done = run(f"doctor --base-url {server.openai_url}")
    assert f"{server.openai_url}/models answers" in done.out
    assert server.received == []
    done = run("doctor --base-url http://127.0.0.1:9")
    assert done.code == 2
    assert "✗ server: http://127.0.0.1:9/models cannot be reached" in done.out
    assert "is no base URL" in run("doctor --base-url nonsense").out


def test_a_criterion_may_have_any_name(run: Any, folder: Path) -> None:
    odd = verdict(1, criteria={"[red]": CriterionResult(3, 3, (1, 5), 1)})
    with Ledger.open("beholder.db", create=True) as ledger:
        ledger.start(run_record())
        ledger.write("r1", [entry(1, odd, case=case(odd, groups={"[blue]": "[/green]"}))])
    done = run("show", "r1", "--by", "[blue]")
    assert done.code == 0
    for name in ("[red]", "[blue]", "[/green]"):
        assert name in done.out
