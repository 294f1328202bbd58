"""Options that name a file to write keep to one rule: what is something else stays, and no pipe waits for ever."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.ledger import entry, run_record

from beholder import Run, UsageError
from beholder.api.files import OutputKind, check_output
from beholder.ledger.ledger import Ledger

VOTES = "model_a,model_b,winner\na,b,model_a\nb,a,model_b\na,b,tie\n"
COMMANDS = {
    "export first -o {}": "csv",
    "export first --to jsonl -o {}": "jsonl",
    "export first --to parquet -o {}": "parquet",
    "compare first second --markdown {}": "md",
    "compare first second --junit {}": "xml",
    "report first -o {}": "md",
    "arena fit votes.csv --draws 100 --csv {}": "csv",
}


@pytest.fixture
def book(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    with Ledger.open(folder / "beholder.db", create=True) as ledger:
        for number, name in enumerate(("first", "second")):
            ledger.start(run_record(f"aaa11{number}", name=name, total=3))
            ledger.write(f"aaa11{number}", [entry(number) for number in range(3)])
            ledger.update(f"aaa11{number}", state="finished")
    (folder / "votes.csv").write_text(VOTES, "utf-8")
    return folder


@pytest.mark.parametrize(("words", "ending"), COMMANDS.items())
def test_what_is_something_else_is_replaced_by_force_only(run: Any, book: Path, words: str, ending: str) -> None:
    file = book / f"notes.{ending}"
    file.write_text("case,notes\na,mine\n", "utf-8")
    done = run(words.format(file.name))
    assert done.code == 2
    assert f"{file.name!r} exists and is no " in done.err
    assert "--force" in done.err
    assert file.read_text("utf-8") == "case,notes\na,mine\n"
    assert run(words.format(file.name) + " --force").code == 0
    assert "mine" not in file.read_text("utf-8", "replace")


@pytest.mark.parametrize(("words", "ending"), COMMANDS.items())
def test_what_is_ours_or_empty_is_replaced(run: Any, book: Path, words: str, ending: str) -> None:
    (book / f"out.{ending}").touch()
    for _ in range(1 if words.startswith("arena fit") else 2):
        done = run(words.format(f"out.{ending}"))
        assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("arena fit votes.csv --draws 100 --csv {}", "model_a,model_b,winner\na,b,tie\n"),
        ("export first -o {}", "case,image,outcome,notes\na,a.png,good,mine\n"),
        ("export first --to jsonl -o {}", '{"case": "a", "outcome": "good", "notes": "mine"}\n'),
    ],
)
def test_what_people_may_have_made_is_replaced_by_force_only(run: Any, book: Path, words: str, text: str) -> None:
    """Files of ratings and votes are also what Beholder reads; and a column of an export is no whole export."""
    (book / "mine.csv").write_text(text, "utf-8")
    done = run(words.format("mine.csv"))
    assert done.code == 2
    assert "'mine.csv' exists and is no " in done.err
    assert "--force" in done.err
    assert (book / "mine.csv").read_text("utf-8") == text
    done = run(words.format("mine.csv") + " --force")
    assert "exists" not in done.err


@pytest.mark.parametrize(("words", "ending"), COMMANDS.items())
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
def test_a_pipe_that_nobody_reads_is_a_sentence(run: Any, book: Path, words: str, ending: str) -> None:
    os.mkfifo(book / f"pipe.{ending}")
    done = run(words.format(f"pipe.{ending}"))
    assert done.code == 2
    assert "is a pipe, and nobody reads from it" in " ".join(done.err.split())
    assert (book / f"pipe.{ending}").is_fifo()


@pytest.mark.parametrize("words", COMMANDS)
def test_the_null_device_takes_everything(run: Any, book: Path, words: str) -> None:
    form = " --format md" if words.startswith("report") else ""
    done = run(words.format("/dev/null") + form)
    assert done.code == 0, done.err


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a system without devices in a folder")
def test_another_device_is_a_sentence(run: Any, book: Path, words: str) -> None:
    form = " --format md" if words.startswith("report") else ""
    done = run(words.format("/dev/zero") + form)
    assert (done.code, "'/dev/zero' is a device" in done.err) == (2, True)


def test_a_dash_prints(run: Any, book: Path) -> None:
    assert run("export first -o -").out == run("export first").out != ""
    assert not (book / "-").exists()


def test_python_has_the_same_rule(book: Path) -> None:
    made = Run.load("first", "beholder.db")
    (book / "notes.csv").write_text("case,notes\n", "utf-8")
    with pytest.raises(UsageError, match="force=True"):
        made.export("notes.csv")
    made.export("notes.csv", force=True)
    made.export("notes.csv")


@pytest.mark.parametrize(
    ("kind", "text", "fits"),
    [
        (OutputKind.RATINGS, "case,rater,aspect,score\na,ann,score,1\n", False),
        (OutputKind.VOTES, VOTES, False),
        (OutputKind.VOTES, "", True),
        (OutputKind.RATINGS, "case,score\na,1\n", False),
        (OutputKind.CALIBRATION, '{"kind": "beholder calibration"}', True),
        (OutputKind.CALIBRATION, '{"kind": "settings"}', False),
        (OutputKind.EXPORT, "case,rater,aspect,score\na,ann,score,1\n", False),
    ],
)
def test_a_file_is_known_by_how_it_begins(tmp_path: Path, kind: OutputKind, text: str, fits: bool) -> None:
    file = tmp_path / "file"
    file.write_text(text, "utf-8")
    if fits:
        check_output(file, kind)
    else:
        with pytest.raises(UsageError, match="exists and is no"):
            check_output(file, kind)
    check_output(file, kind, force=True)
