"""`beholder report` writes a file, says how large it is and what its pictures are like, and spares the ledger."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.ledger import run_record
from support.reports import usual_run

from beholder.cli import main
from beholder.ledger.ledger import Ledger

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    usual_run(tmp_path / "beholder.db", 8).close()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["beholder", "report", *words])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return command


def test_the_file_is_named_after_the_run_and_its_size_is_said(command: Command, tmp_path: Path) -> None:
    code, out, err = command("latest")
    assert (code, err) == (0, "")
    size = (tmp_path / "nightly.html").stat().st_size
    assert out == (
        f"nightly.html: 8 verdicts on 8 cases, {size / 1e6:.1f} MB. Pictures are at most 512 pixels wide and high.\n"
    )


def test_less_room_means_less_detail(command: Command, tmp_path: Path) -> None:
    _, out, _ = command("latest", "-o", "small.html", "--max-mb", "0.25")
    assert (tmp_path / "small.html").stat().st_size <= 250_000
    assert "WebP quality" in out


@pytest.mark.parametrize(("format_", "name"), [("md", "nightly.md"), ("junit", "nightly.xml")])
def test_other_formats(command: Command, tmp_path: Path, format_: str, name: str) -> None:
    assert command("latest", "--format", format_)[0] == 0
    assert (tmp_path / name).stat().st_size > 500


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("latest", "--format", "pdf"), "The format is one of html, md, junit, not 'pdf'."),
        (("latest", "-o", "beholder.db"), "'beholder.db' is the ledger itself; name another file."),
        (("latest", "-o", "nowhere/report.html"), "cannot be written"),
        (("latest", "-o", "report.pdf"), "'report.pdf' ends in none of .html, .md and .xml"),
        (("latest", "--group", "colour"), "in a group 'colour'"),
        (("latest", "--against", "latest"), "A run is set against an older one, and 'latest' is the run r1 itself."),
        (("latest", "--max-mb", "nan"), "max_mb is a number from 0.1 on, not nan."),
        (("latest", "--max-mb", "inf"), "max_mb is a number from 0.1 on, not inf."),
        (("latest", "--fail-under", "80"), "fail_under says which tests of the format junit fail"),
        (("latest", "--format", "junit", "--fail-under", "nan"), "nan is no number"),
        (("latest", "--format", "junit", "--fail-under", "0.8"), "for a score of 0.8 say 80."),
        (("latest", "--format", "junit", "--fail-under", "much"), "'much' is neither."),
        (("latest", "--format", "junit", "--fail-under", "beauty=4"), "there are: score, accuracy, exceptional."),
        (("yesterday",), "no run 'yesterday'"),
    ],
)
def test_wrong_use_is_one_plain_sentence(command: Command, words: tuple[str, ...], said: str) -> None:
    code, _, err = command(*words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_junit_of_two_runs_is_what_compare_writes(command: Command, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "beholder.db", create=True) as ledger:
        ledger.start(run_record("r2", name="tuned"))
    code, _, err = command("r2", "--against", "r1", "--format", "junit")
    assert code == 2
    assert "beholder compare OLD NEW --junit FILE" in err


@pytest.mark.parametrize("format_", ["html", "md", "junit"])
def test_a_dash_prints_the_report_and_what_there_is_to_say_goes_elsewhere(
    command: Command, tmp_path: Path, format_: str
) -> None:
    assert command("latest", "--format", format_, "-o", "file")[0] == 0
    code, out, err = command("latest", "--format", format_, "-o", "-")
    assert (code, out) == (0, (tmp_path / "file").read_text("utf-8"))
    assert ("8 verdicts" if format_ == "html" else " bytes.") in err
    assert not (tmp_path / "-").exists()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("format_", ["html", "md"])
def test_a_long_run_has_a_bar_on_a_terminal_and_nowhere_else(
    command: Command, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    monkeypatch.setattr("beholder.cli.show.PROGRESS_FROM_VERDICTS", 8)
    code, _, err = command("latest", "--format", format_)
    assert (code, err) == (0, "")
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen)
    assert command("latest", "--format", format_)[0] == 0
    assert "reading verdicts" in screen.getvalue()
    assert ("making pictures" in screen.getvalue()) == (format_ == "html")


def test_a_short_run_has_no_bar(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert command("latest")[0] == 0
    assert screen.getvalue() == ""
