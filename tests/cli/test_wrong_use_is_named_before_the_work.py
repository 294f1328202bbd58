"""What a person mistyped is named before anything is judged, computed or written: exit code 2, or a warning."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from beholder import Run, UsageError

EDIT = "judge edit-preservation {} after.png --set instruction=x"


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("befor.png", "the image 'input': befor.png does not exist."),
        (".", "the image 'input': . is a directory; name an image file in it."),
        ("https://example.com/a.png", "(--allow-remote or allow_remote=True)."),
    ],
)
def test_a_path_without_an_image_is_wrong_use(run: Any, folder: Path, named: str, why: str) -> None:
    for command in (EDIT, EDIT + " --plan", EDIT + " --json"):
        done = run(command.format(named))
        assert (done.code, done.out) == (2, "")
        assert done.err.rstrip().endswith(why)


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"no image", "is a text file, not an image"), (b"", "is empty (0 bytes)"), (b"\x01\x00" * 99, "not an image of")],
)
def test_a_file_that_is_no_image_is_wrong_use_of_judge_and_an_outcome_of_a_run(
    run: Any, folder: Path, content: bytes, why: str
) -> None:
    (folder / "other.png").write_bytes(content)
    done = run(EDIT.format("other.png") + " --json")
    assert (done.code, done.out) == (2, "")
    assert "the image 'input': other.png " in done.err
    assert why in done.err
    row = {"id": "a", "input": "other.png", "edited": "after.png", "instruction": "x"}
    (folder / "cases.jsonl").write_text(json.dumps(row))
    assert run("run --rubric edit-preservation --cases cases.jsonl --json").code in (2, 3)


def test_a_damaged_image_is_an_outcome(run: Any, folder: Path) -> None:
    whole = (folder / "before.png").read_bytes()
    (folder / "broken.png").write_bytes(whole[: len(whole) // 2])
    done = run(EDIT.format("broken.png") + " --json")
    assert (done.code, json.loads(done.out)["outcome"]) == (3, "unreadable")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
def test_a_case_file_that_is_a_pipe_is_said_to_be_one(run: Any, folder: Path) -> None:
    os.mkfifo(folder / "cases.jsonl")
    for command in ("run", "plan"):
        done = run(f"{command} --rubric edit-preservation --cases cases.jsonl")
        assert (done.code, done.out) == (2, "")
        assert "the case file 'cases.jsonl' cannot be read: it is a pipe and no file; cases are read" in done.err
    assert "it is a directory and no file" in run("run --rubric edit-preservation --cases .").err


def test_a_quiet_run_says_in_one_sentence_what_has_no_score(run: Any, folder: Path) -> None:
    row = {"id": "a", "original": "before.png", "restyled": "after.png", "style": "Anime"}
    (folder / "cases.jsonl").write_text(json.dumps(row))
    done = run("run --rubric restyle --cases cases.jsonl -q")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("beholder: 1 of 1 has no score (1 unmeasured); see `beholder show ")
    assert done.err.count("\n") == 1


def test_history_lists_what_a_person_would_follow(run: Any, folder: Path) -> None:
    row = {"id": "a", "original": "before.png", "restyled": "after.png", "style": "Anime"}
    (folder / "cases.jsonl").write_text(json.dumps(row))
    run("run --rubric restyle --cases cases.jsonl -q")
    assert run("history --on foo").err == "beholder: No run has 'foo' to follow: nothing in them has a score.\n"
    assert run("history").err == "beholder: No run has an overall score to follow: nothing in them has a score.\n"


def test_a_report_replaces_only_reports(run: Any, folder: Path) -> None:
    row = {"id": "a", "input": "before.png", "edited": "after.png", "instruction": "add a patch"}
    (folder / "cases.jsonl").write_text(json.dumps(row))
    run("run --rubric edit-preservation --cases cases.jsonl -q")
    for name in ("report.html", "report.md", "report.xml"):
        (folder / name).write_text("")
        assert [run(f"report -o {name}").code for _ in range(2)] == [0, 0]
        (folder / name).write_text("# What I wrote\n")
        done = run(f"report -o {name}")
        assert (done.code, (folder / name).read_text()) == (2, "# What I wrote\n")
        assert f"'{name}' exists and is no report of Beholder's" in done.err
        with pytest.raises(UsageError, match="force=True"):
            Run.load().report(name)
        assert run(f"report -o {name} --force").code == 0
        assert (folder / name).read_text() != "# What I wrote\n"
        Run.load().report(name)


def test_a_missed_score_is_said(run: Any, folder: Path) -> None:
    done = run('judge edit-preservation before.png after.png --set "instruction=add a patch" --fail-under 100.5')
    assert done.code == 1
    assert done.err == "beholder: score × 100 is 100.00, and 100.5 was asked for\n"


@pytest.mark.parametrize(
    "command",
    [
        "run --rubric restyle --rubric description --cases cases.jsonl",
        "plan --rubric restyle --rubric=description --cases cases.jsonl",
        "run --rubric restyle --cases cases.jsonl --cases more.jsonl",
    ],
)
def test_a_second_rubric_or_case_file_is_refused(run: Any, folder: Path, command: str) -> None:
    done = run(command)
    assert done.code == 2
    assert " is given 2 times and takes one value; run once for each." in done.err
    assert run("rubrics check restyle restyle-confidence").code == 0


def test_a_style_that_is_nearly_another_is_named(run: Any, folder: Path) -> None:
    rows = [
        {"id": style, "original": "before.png", "restyled": "after.png", "style": style}
        for style in ("Animme", "Vaporwave", "anime")
    ]
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    warning = (
        "beholder: No style is called 'Animme', and its cases are asked the generic assertions. Did you mean Anime?"
    )
    for command in ("plan", "run"):
        done = run(f"{command} --rubric restyle --cases cases.jsonl --ledger l.db")
        assert [line for line in done.err.splitlines() if "No style" in line] == [warning]
    judged = map(json.loads, run("export --ledger l.db --to jsonl").out.splitlines())
    flags = {one["case"]: [flag["why"] for flag in one["flags"] if flag["flag"] == "generic_style"] for one in judged}
    asked = "no style has this name; the generic assertions were asked."
    assert flags == {"Animme": [f"{asked} Did you mean Anime?"], "Vaporwave": [asked], "anime": []}


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("report --ledger l.db -o nowhere/report.html", "'nowhere/report.html' cannot be written: "),
        ("report --ledger l.db -o .", "'.' is a folder; name a file in it."),
        ("compare a b --ledger none.db --junit nowhere/gate.xml", "'nowhere/gate.xml' cannot be written: "),
        ("compare a b --ledger none.db --markdown .", "'.' is a folder; name a file in it."),
        ("calibrate a --ledger none.db -o nowhere/maps.json", "'nowhere/maps.json' cannot be written: "),
    ],
)
def test_a_file_that_cannot_be_written_is_named_first(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, why: str
) -> None:
    """There is no ledger none.db, which would be said next; and nothing of a report is drafted."""
    row = {"id": "c", "input": "before.png", "edited": "after.png", "instruction": "add a patch"}
    (folder / "cases.jsonl").write_text(json.dumps(row), "utf-8")
    assert run("run --rubric edit-preservation --cases cases.jsonl --ledger l.db --quiet").code == 0
    monkeypatch.setattr("beholder.api.files._draft_report", lambda *given: pytest.fail("the report was drafted"))
    done = run(command)
    assert (done.code, why in done.err) == (2, True), done.err
