"""`compare` and `history` on runs that were really made, from the arguments to the exit code."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import cv2
import msgspec
import numpy as np
import pytest
from msgspec import structs
from support.ledger import KEYS, WORDS, case, entry, run_record, unscored, verdict

from beholder.cli import main
from beholder.ledger.ledger import Ledger
from beholder.rubrics.load import load_rubric
from beholder.testing.base import Fault, Received
from beholder.testing.server import JudgeServer
from beholder.verdicts.verdict import AssertionResult, CriterionResult, Outcome, Verdict

COUNT = 16
IMAGES = {"input": "before.png", "edited": "after.png"}
SUITE = (
    "--rubric edit-preservation --cases cases.jsonl --judge openai:test --no-audit --no-thumbnails -q --fresh "
    "--tag nightly"
)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of one suite: `old`, `same` that scores as it did, and `bad`, two points lower on unchanged_regions
    and with one case refused."""
    folder = tmp_path_factory.mktemp("builds")
    picture = np.random.default_rng(7).integers(0, 255, (40, 60, 3), np.uint8)
    for name in ("before.png", "after.png"):
        cv2.imwrite(str(folder / name), picture)
    rows = [{"id": f"p{at}", "instruction": f"paint wall {at}", "source": f"s{at}", **IMAGES} for at in range(COUNT)]
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    with JudgeServer(keyless=True) as server, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("BEHOLDER_LEDGER", raising=False)
        for name, down, refused in (("old", 0, None), ("same", 0, None), ("bad", 2, 3)):
            server.default = _says(down, refused)
            command = f"beholder run {SUITE} --name {name} --base-url {server.openai_url}"
            patch.setattr(sys, "argv", command.split())
            with pytest.raises(SystemExit) as stop:
                main()
            assert stop.value.code in (0, 3)
    return folder / "beholder.db"


@pytest.fixture
def builds(ledger: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    shutil.copy(ledger, folder / "beholder.db")
    return folder


def _says(down: int, refused: int | None) -> Callable[[Received], Any]:
    def reply(asked: Received) -> Any:
        found = re.search(r"paint wall (\d+)", " ".join(asked.texts))
        assert found
        at = int(found.group(1))
        if at == refused:
            return Fault.refusal("I cannot")
        scores = dict(zip(KEYS, (6 - down, 3 + at % 3, 5), strict=True))
        return {"criteria": {key: {"justification": WORDS[0], "score": score} for key, score in scores.items()}}

    return reply


def test_a_worse_build_is_found_told_and_held(run: Any, builds: Path) -> None:
    done = run("compare old bad --fail-on regression --markdown pr.md --junit junit.xml")
    assert done.code == 1
    assert "score is worse by 0.111" in done.err
    assert f"{COUNT} cases in both" in done.out
    assert re.search(r"Unchanged regions +15 +6\.000 +4\.000 +-2\.000", done.out)
    assert "p3 (before: scored; now: refused" in done.out
    assert "is worse on score by 0.111" in done.out
    assert "❌ **Regression** on <code>score</code>" in (builds / "pr.md").read_text("utf-8")
    suite = Xml.parse(builds / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    assert suite.get("failures") == "1"


def test_the_same_build_passes(run: Any, builds: Path) -> None:
    done = run("compare old same --fail-on regression --on any --junit junit.xml")
    assert (done.code, done.err) == (0, "")
    assert f"is the same as old ({_id(run, 'old')}) on every one of these {COUNT} cases" in done.out
    assert 'failures="0"' in (builds / "junit.xml").read_text("utf-8")


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ("", 0),
        ("--fail-on regression", 1),
        ("--fail-on regression --margin 0.2", 0),
        ("--fail-on regression --on unchanged_regions --margin 0.2", 1),
        ("--fail-on regression --on unchanged_regions --margin unchanged_regions=2.5", 0),
        ("--fail-on regression --on global_consistency", 0),
        ("--fail-on regression --on any", 1),
        ("--fail-on inconclusive --margin 0.5", 0),
        ("--fail-on inconclusive --margin 0.12", 1),  # the refused case could make it worse
        ("--fail-on regression --on nothing", 2),
        ("--fail-on everything", 2),
        ("--margin x", 2),
        ("--margin -1", 2),
        ("--margin nan", 2),
        ("--margin score=inf", 2),
        ("--margin 0.1 --margin 0.2", 2),
        ("--margin score=0.1 --margin score=5", 2),
        ("--margin 0.1 --margin score=0.2", 0),
        ("--detect 0", 2),
        ("--detect inf", 2),
        ("--detect nan", 2),
        ("--group nothing", 2),
        ("--markdown nowhere/pr.md", 2),
    ],
)
def test_exit_codes(run: Any, builds: Path, flags: str, code: int) -> None:
    done = run(f"compare old bad {flags}")
    assert done.code == code, done.err
    if code == 2:
        assert done.err.count("\n") == 1


def test_json_has_everything(run: Any, builds: Path) -> None:
    done = run("compare old bad --json --fail-on regression --detect 0.05 --top 2")
    assert done.code == 1
    found = json.loads(done.out)
    score = found["changes"][0]
    assert (score["name"], score["cases"], score["worse"], score["lost"]) == ("score", COUNT - 1, COUNT - 1, 1)
    assert score["difference"]["value"] == pytest.approx(-1 / 9)
    assert score["if_lost_were_lowest"]["value"] < score["difference"]["value"] < score["if_lost_were_highest"]["value"]
    assert [one["case"] for one in found["unlike"]] == ["p3"]
    assert found["gate"]["regressed"] == ["score"]
    assert len(found["moved"]) == 2


def test_criteria_have_the_titles_of_the_rubric_and_json_their_keys(run: Any, builds: Path) -> None:
    told = run("compare old bad").out
    assert "unchanged_regions" not in told
    assert "Unchanged regions 6 → 4" in told
    assert "and Unchanged regions by 2.000" in told
    found = json.loads(run("compare old bad --json").out)
    assert [one["name"] for one in found["changes"]] == ["score", *KEYS]
    assert "unchanged_regions" in found["moved"][0]["changes"]


def test_criteria_that_are_called_the_same_are_told_apart(run: Any, builds: Path) -> None:
    rubric = load_rubric("edit-preservation")
    same = structs.replace(rubric, criteria=tuple(structs.replace(one, title="Kept") for one in rubric.criteria))
    with Ledger.open(builds / "beholder.db", create=True) as ledger:
        for name in ("before", "after"):
            ledger.start(run_record(name, name=name, total=4, rubrics=(msgspec.to_builtins(same),)))
            ledger.write(name, [entry(at) for at in range(4)])
    told = run("compare before after").out
    for key in KEYS:
        assert re.search(rf"^Kept \({key}\) +4 ", told, re.MULTILINE)


def test_markdown_may_be_printed_in_place_of_the_table(run: Any, builds: Path) -> None:
    assert run("compare old bad --markdown -").out.startswith("### <code>bad ")


def test_plain_files_are_compared_without_a_ledger(run: Any, builds: Path) -> None:
    for name in ("old", "bad"):
        run(f"export {name} --to jsonl -o {name}.jsonl")
    (builds / "beholder.db").rename(builds / "elsewhere.db")
    done = run("compare --scores old.jsonl --scores bad.jsonl --fail-on regression --json")
    assert done.code == 1
    assert json.loads(done.out)["changes"][0]["difference"]["value"] == pytest.approx(-1 / 9)
    lines = ["case,judge,aspect,score"]
    lines += [f"c{at},{judge},clarity,{score}" for at in range(8) for judge, score in (("a", 4), ("b", 3 + at % 2))]
    (builds / "both.csv").write_text("\n".join(lines), "utf-8")
    done = run("compare --scores both.csv")
    assert done.code == 0
    assert re.search(r"clarity +8 +4\.000 +3\.500 +-0\.500", done.out)
    assert "each is taken as independent" in done.out


def test_a_gate_is_undecided_where_interval_and_test_disagree(run: Any, builds: Path) -> None:
    lines = ["case,judge,aspect,score"]
    lines += [f"c{at},{judge},clarity,{4 - (judge == 'b' and at < 4)}" for at in range(60) for judge in "ab"]
    (builds / "both.csv").write_text("\n".join(lines), "utf-8")
    command = "compare --scores both.csv --fail-on regression --on clarity"
    done = run(command)
    said = "but the permutation test does not agree (p = 0.125): neither a regression nor an all-clear."
    assert (done.code, said in done.err, said in done.out) == (4, True, False)
    as_json = run(f"{command} --json")
    gate = json.loads(as_json.out)["gate"]
    assert (as_json.code, gate["status"]) == (4, "undecided")
    assert said in gate["doubted"]["clarity"]
    assert said in gate["undecided"]["clarity"]
    held = run(f"{command.replace('regression', 'inconclusive')}")
    assert held.code == 1
    assert (said in held.err, said in held.out) == (True, False)


def _build(ledger: Ledger, id_: str, scores: list[float | None], name: str = "") -> None:
    """A finished run without sources; None is a case that was refused."""
    ledger.start(run_record(id_, name=name or id_, total=len(scores), state="finished"))
    said = [
        unscored(at, Outcome.REFUSED, case=f"p{at}", detail="I cannot")
        if score is None
        else replace(verdict(at, case=f"p{at}"), score=score)
        for at, score in enumerate(scores)
    ]
    ledger.write(id_, [entry(at, one, case=replace(case(one), groups={})) for at, one in enumerate(said)])


@pytest.fixture
def sparse(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Builds that lost scores: `half`, and `none` all of them; `few` of three cases, each lower in
    `fewer`; `nothing`, as `none`; and four that are the same, `nightly`."""
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    scores = [0.7 + 0.01 * (at % 5) for at in range(12)]
    with Ledger.open(folder / "beholder.db", create=True) as ledger:
        for night in range(4):
            _build(ledger, f"r{night}", [*scores], "nightly")
        _build(ledger, "whole", [*scores])
        _build(ledger, "half", [*scores[:6], *[None] * 6])
        _build(ledger, "none", [None] * 12)
        _build(ledger, "nothing", [None] * 12)
        _build(ledger, "few", [0.8, 0.7, 0.9])
        _build(ledger, "fewer", [0.65, 0.55, 0.75])
    return folder


def test_an_open_gate_and_its_headline_speak_of_the_cases_that_were_lost(run: Any, sparse: Path) -> None:
    done = run("compare whole half --fail-on regression --markdown pr.md")
    assert (done.code, done.err) == (0, "")
    assert "6 of 12 cases lost their score; had each the lowest, score would be worse by 0.359" in done.out
    same = "half (half) is the same as whole (whole) on 6 of 12 cases, those with a number in both runs."
    assert f"Of the others only: {same}" in done.out
    assert done.out.rstrip().endswith("and `max_unscored` of a run one that has too many without a score.")
    assert "⚠️ **No regression shown, and cases lost**" in (sparse / "pr.md").read_text("utf-8")
    assert run("compare whole half --fail-on inconclusive").code == 1


@pytest.mark.parametrize(
    ("runs", "flags", "code", "said"),
    [
        ("whole none", "", 3, ""),
        ("whole none", "--fail-on regression", 4, "nothing to decide 'score' by"),
        ("whole none", "--fail-on regression --margin score=0.1", 4, "nothing to decide 'score' by"),
        ("whole none", "--fail-on inconclusive", 1, "score: no case has a number in both runs"),
        ("none nothing", "--fail-on regression --margin score=0.1", 4, "nothing to decide 'score' by"),
        ("few fewer", "", 0, ""),
        ("few fewer", "--fail-on regression", 4, "score fell by 0.15, and 3 groups of cases cannot tell"),
    ],
)
def test_what_cannot_be_decided_is_shown_and_written_all_the_same(
    run: Any, sparse: Path, runs: str, flags: str, code: int, said: str
) -> None:
    done = run(f"compare {runs} {flags} --markdown pr.md --junit junit.xml")
    assert done.code == code
    assert said in done.err
    if runs != "none nothing":
        assert re.search(r"^score +[03] ", done.out, re.MULTILINE)
        assert "| <code>score</code> |" in (sparse / "pr.md").read_text("utf-8")
    if "none" in runs:
        for text in (done.out, (sparse / "pr.md").read_text("utf-8")):
            assert "p0 (" in text
            assert "refused" in text
    suite = Xml.parse(sparse / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("errors")) == (("1", "0") if code == 1 else ("0", "1"))
    assert json.loads(run(f"compare {runs} {flags} --json").out)["before"].startswith(runs.split()[0])


def test_runs_that_are_the_same_have_no_trend_and_no_source_is_named(run: Any, sparse: Path) -> None:
    done = run("history nightly")
    stays = "trend: 0.0000 (0.0000 to 0.0000) a run over the 12 cases that all runs have; it stays where it is."
    assert stays in done.out
    assert "each case independent of the others" in done.out
    assert "source" not in done.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("compare old bad --margin score=0.1 --margin score=5", "given twice, as 0.1 and as 5"),
        ("compare", "Name two runs"),
        ("compare old", "Name two runs"),
        ("compare old nothing", "There is no run 'nothing'"),
        ("compare old --scores x.csv --scores y.csv", "not both"),
        ("compare --scores one.csv", "hold the scores of 1: a"),
        ("history nothing", "No run has the name 'nothing'; the names are: bad, old, same."),
        ("history --tag nothing", "No run has the tag 'nothing'"),
        ("history old --on nothing", "No run has 'nothing' to follow; there are: "),
    ],
)
def test_wrong_use_is_one_sentence(run: Any, builds: Path, arguments: str, said: str) -> None:
    (builds / "one.csv").write_text("case,judge,aspect,score\nc,a,clarity,3\n", "utf-8")
    done = run(arguments)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_history_has_a_row_for_each_run_and_a_trend(run: Any, builds: Path) -> None:
    done = run("history --tag nightly")
    assert done.code == 0
    assert re.search(r"score +[▁▂▃▄▅▆▇█]{3} ", done.out)
    assert "over the 15 cases that all runs have; it goes down." in done.out
    found = json.loads(run("history --tag nightly --json").out)
    [line] = found["lines"]
    assert [point["cases"] for point in line["points"]] == [COUNT, COUNT, COUNT - 1]
    assert line["slope"]["value"] == pytest.approx(-1 / 18)
    assert [one["scored"] for one in found["runs"]] == [COUNT, COUNT, COUNT - 1]
    assert {one["verdicts"] for one in found["runs"]} == {COUNT}
    assert found["runs"][2]["unscored"]["value"] == pytest.approx(1 / COUNT)
    assert re.search(rf"{COUNT - 1} of {COUNT} +[\d.]+ \(", done.out)
    assert "trend: not defined; a trend takes 3 runs at least." in run("history old").out
    assert len(json.loads(run("history --tag nightly --last 2 --json").out)["runs"]) == 2


def _id(run: Any, name: str) -> str:
    return str(
        next(one["run"] for line in run("runs --json").out.splitlines() if (one := json.loads(line))["name"] == name)
    )


@pytest.fixture
def restyles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of a rubric with grades and assertions, judged by two judges."""
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    rubric = msgspec.to_builtins(load_rubric("restyle"))
    with Ledger.open(folder / "beholder.db", create=True) as ledger:
        for name, fails, judge in (("one", 2, "openai:a"), ("two", 9, "openai:b")):
            suite = {"rubric": "restyle", "judges": [judge]}
            ledger.start(run_record(name, name=name, total=12, suite=suite, rubrics=(rubric,), state="finished"))
            ledger.write(name, [entry(at, _restyle(at, at < fails, judge)) for at in range(12)])
        said = [unscored(at, Outcome.REFUSED, case=f"p{at}\x1b[2J|", detail="no") for at in range(2)]
        ledger.start(run_record("odd", name="odd", total=5))
        ledger.write("odd", [entry(at, one, case=case(one)) for at, one in enumerate(said)])
    return folder


def _restyle(at: int, fails: bool, judge: str) -> Verdict:
    answered = (
        AssertionResult("A1", "Is it drawn?", "no" if fails else "yes"),
        AssertionResult("A2", "Is it flat?", "yes"),
    )
    accuracy = CriterionResult(4 - fails, 4 - fails, (1, 5), 1, "", assertions=answered)
    grade = "C" if fails else "B"
    found = verdict(at, case=f"p{at}", rubric="restyle", judge=judge, model=judge, criteria={"accuracy": accuracy})
    return replace(found, score=0.6 if fails else 0.75, grade=grade, passed=not fails)


def test_grades_pass_rates_and_assertions_are_compared(run: Any, restyles: Path) -> None:
    found = json.loads(run("compare one two --json").out)
    changes = {one["name"]: one for one in found["changes"]}
    assert list(changes) == ["score", "passed", "accuracy", "A1", "A2", "grade"]
    assert changes["passed"]["difference"]["value"] == pytest.approx(-7 / 12)
    assert changes["A1"]["difference"]["value"] == pytest.approx(-7 / 12)
    assert changes["A1"]["p_holm"] == pytest.approx(2 * changes["A1"]["p"])  # two assertions, a family of their own
    assert changes["accuracy"]["p_holm"] == changes["accuracy"]["p"]
    assert changes["A1"]["about"] == "Is it drawn?"
    assert changes["grade"]["difference"]["value"] == pytest.approx(-7 / 12)
    assert changes["grade"]["grades"]["B"] == {"before": 10, "after": 3}
    shown = run("compare one two").out
    assert "grade: B 10 → 3, C 2 → 9; 0 up, 7 down" in shown
    assert "more often fails A1" in shown
    assert "A2" not in shown  # nothing moved there; --json has it
    assert "<summary>Grades: 0 up, 7 down</summary>" in run("compare one two --markdown -").out


def test_apples_and_pears_are_told(run: Any, restyles: Path) -> None:
    done = run("compare one two")
    assert "The judges differ: openai:a before, openai:b now." in done.out
    assert "Other models answered: openai:a before, openai:b now." in done.out
    done = run("compare one one")
    assert "are the same run" in done.err
    assert "Not like with like" not in done.out


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("one one --fail-on regression", "could never fail"),
        ("one none", "none"),
        ("one two --fail-on regresion", "regresion"),
    ],
)
def test_a_gate_that_was_refused_leaves_no_older_decision(run: Any, restyles: Path, wrong: str, sentence: str) -> None:
    files = "--junit j.xml --markdown pr.md"
    assert run(f"compare two one --fail-on regression {files}").code == 0
    assert "✅" in (restyles / "pr.md").read_text("utf-8")
    done = run(f"compare {wrong} {files}")
    assert done.code == 2
    suite = Xml.parse(restyles / "j.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    error = suite.find("testcase/error")
    assert error is not None
    assert sentence in error.get("message", "")
    assert f"beholder: {error.get('message')}\n" == done.err
    told = (restyles / "pr.md").read_text("utf-8")
    assert "❌ **Not decided**" in told
    assert "✅" not in told
    assert run(f"compare two one --fail-on regression {files}").code == 0  # which replaces them without --force


def test_runs_without_a_case_in_common_are_wrong_use(run: Any, restyles: Path) -> None:
    done = run("compare one odd")
    assert done.code == 2
    assert "have no case in common" in done.err
    assert "\x1b" not in done.err
    done = run("compare odd odd")
    assert done.code == 3
    assert "cannot be compared" in done.out
    assert "odd (odd) is interrupted: it has 2 of 5 verdicts." in done.out
    assert "\x1b" not in done.out


@pytest.mark.parametrize(
    "flags",
    [
        "--fail-on regression",
        "--fail-on inconclusive --json",
        "--junit junit.xml",
        "--fail-on regression --markdown pr.md",
    ],
)
@pytest.mark.parametrize("runs", ["same latest", "bad bad", "latest bad"])
def test_a_gate_on_one_run_and_itself_is_wrong_use(run: Any, builds: Path, runs: str, flags: str) -> None:
    if runs == "same latest":
        assert run("runs delete bad --yes").code == 0  # a nightly gate whose new run was never made
    done = run(f"compare {runs} {flags}")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "so that it could never fail; name an older run first" in done.err
    assert not (builds / "pr.md").exists()
    assert not (builds / "junit.xml").exists()


@pytest.mark.parametrize("before", ["previous", "latest~1", "tag:baseline", "tag:nightly~1", "same"])
def test_the_run_before_may_be_named_by_its_place_or_tag(run: Any, builds: Path, before: str) -> None:
    run("runs tag same baseline")
    done = run(f"compare {before} latest --fail-on regression --json")
    assert done.code == 1
    assert json.loads(done.out)["before"].startswith("same (")
