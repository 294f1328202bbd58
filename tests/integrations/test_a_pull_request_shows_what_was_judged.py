"""The GitHub Action, all steps of `action.yml`: exit codes, summary, comment, annotations, what it compares with; and
nothing that comes from a case is a command, an output or markup."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml
from support.calibration_files import file_values
from support.github import ACTION, ARTIFACT, ROOT, Done, Repository
from support.hosts import node_host
from support.scripts import PATIENCE_S

import beholder
from beholder.errors import UsageError
from beholder.integrations.github import (
    MAX_COMMENT_CHARACTERS,
    JobResult,
    comment_marker,
    cut_markdown,
    explain_comment_failure,
    find_baseline,
    format_annotation,
    read_flags,
)
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"
REFUSAL = Fault.refusal("I cannot look at this.")
PAGE = ROOT / "docs" / "github-action.md"


def answer(score: int) -> dict[str, object]:
    return {"criteria": {key: {"justification": WORDS, "score": score} for key in KEYS}}


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(answer(6), keyless=True) as server:
        yield server


@pytest.fixture
def repository(tmp_path: Path, server: JudgeServer) -> Repository:
    made = Repository(tmp_path, {"OPENAI_BASE_URL": server.openai_url})
    write_suite(made.checkout)
    return made


@pytest.fixture
def run_suite(
    repository: Repository, server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., beholder.Run]:
    """Judges the suite as it is in the repository, without an Action, into a ledger."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)

    def run(ledger: Path, **settings: Any) -> beholder.Run:
        made = beholder.run(repository.checkout / "suite.yaml", ledger=ledger, **settings)
        Path(f"{ledger}.lock").unlink(missing_ok=True)  # which no cache has
        return made

    return run


def wait_until(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.02)


def write_suite(folder: Path, ids: tuple[str, ...] = ("car", "house"), seed: int = 1, judge: str = "openai:m") -> None:
    """Write a suite; another seed makes other images, so that there are no answers to them yet."""
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(seed)
    with (folder / "cases.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "input", "edited", "instruction"))
        for at, name in enumerate(ids):
            cv2.imwrite(str(folder / f"{at}.png"), random.integers(0, 255, (48, 48, 3), np.uint8))
            rows.writerow((name, f"{at}.png", f"{at}.png", "make the car red"))
    price = {"input": 0, "output": 1000}
    entry = {"judge": judge, "price": price, "params": {"max_tokens": 1000}} if ":" in judge else judge
    suite = {"rubric": "edit-preservation", "judges": [entry], "cases": "cases.csv", "audit": False}
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite))


def test_a_success_is_a_summary_a_report_and_a_comment(repository: Repository) -> None:
    done = repository.job(suite="suite.yaml", fail_under="80 unchanged_regions=5")
    assert done.code == 0, done.log
    assert done.outputs["passed"] == "true"
    assert done.outputs["exit-code"] == "0"
    assert float(done.outputs["score"]) == pytest.approx(5 / 6, abs=1e-4)
    assert done.outputs["unscored"] == "0"
    assert float(done.outputs["cost-usd"]) > 0
    assert re.fullmatch(r"\d{6}-\w{6}", done.outputs["run"])
    assert done.outputs["report-url"] == ARTIFACT
    assert done.report.startswith("<!doctype html>")
    assert done.summary.startswith("## ✅ <code>suite&#46;yaml</code> passed\n")
    assert f"[Open the report]({ARTIFACT})" in done.summary
    assert "There is nothing to compare with" in done.summary
    assert "<code>Unchanged regions</code>" in done.summary
    assert done.commands("error") == []
    [comment] = repository.comments
    assert comment["body"] == f"{comment_marker('suite.yaml')}\n{done.summary}"


def test_the_comment_is_updated_and_those_of_others_are_left_alone(repository: Repository) -> None:
    foreign = {"url": "https://github.com/o/r/pull/5#issuecomment-9", "viewerDidAuthor": False}
    foreign["body"] = f"{comment_marker('suite.yaml')}\nwritten by somebody who wants it overwritten"
    repository.comments_file.write_text(json.dumps([foreign]))
    repository.job(suite="suite.yaml")
    repository.job(suite="suite.yaml", fail_under="99")
    assert repository.comments[0] == foreign
    [ours] = repository.comments[1:]
    assert "❌" in ours["body"]
    repository.job(suite="suite.yaml", name="another suite")
    assert len(repository.comments) == 3
    repository.job(suite="suite.yaml", name="a third", comment="never")
    assert len(repository.comments) == 3


def test_a_push_has_no_comment(repository: Repository) -> None:
    assert repository.job(suite="suite.yaml", pull_request=False).code == 0
    assert repository.comments == []


def test_a_missed_threshold_fails_the_job(repository: Repository) -> None:
    done = repository.job(suite="suite.yaml", fail_under="90")
    assert done.code == 1
    assert done.outputs["passed"] == "false"
    assert "score: the mean is 83.33, and 90 was asked for" in done.summary
    first, *worst = done.commands("error")
    assert "score%3A" not in first
    assert first.startswith("::error file=suite.yaml,title=Beholder::suite.yaml: score: the mean is 83.33")
    assert [re.findall(r"title=(.*?)::", line) for line in worst] == [
        ["car by edit-preservation"],
        ["house by edit-preservation"],
    ]
    assert "unchanged_regions 6 of 7: the wall" in worst[0]


def test_a_case_without_a_score_is_no_zero_and_fails_unless_it_is_allowed(
    repository: Repository, server: JudgeServer
) -> None:
    server.default = lambda asked: REFUSAL if len(server.received) == 1 else answer(6)
    done = repository.job(suite="suite.yaml", args="--concurrency 1")
    assert (done.code, done.outputs["unscored"]) == (3, "1")
    assert float(done.outputs["score"]) == pytest.approx(5 / 6, abs=1e-4)
    assert "some cases have no score" in done.summary
    [one] = done.commands("error")
    assert "no score: refused" in one
    again = repository.job(suite="suite.yaml", max_unscored="1", args="--concurrency 1")
    assert (again.code, again.outputs["passed"], again.outputs["unscored"]) == (0, "true", "0")  # it is asked again


def test_more_unscored_than_allowed_is_a_missed_threshold(repository: Repository, server: JudgeServer) -> None:
    server.default = REFUSAL
    done = repository.job(suite="suite.yaml", max_unscored="1")
    assert (done.code, done.outputs["score"], done.outputs["unscored"]) == (1, "", "2")


def test_the_budget_ends_the_run_and_is_never_passed(repository: Repository, server: JudgeServer) -> None:
    done = repository.job(suite="suite.yaml", budget="1.02", args="--concurrency 1")  # a call may cost a dollar
    assert (done.code, done.outputs["unscored"]) == (3, "1"), done.outputs
    assert len(server.received) == 1
    assert "over&#95;budget" in done.summary or "over budget" in done.summary
    more = repository.job(suite="suite.yaml", budget="9", args="--concurrency 1")
    assert more.code == 0
    assert len(server.received) == 2, "what was answered on this branch is not paid for again"


def test_what_cannot_be_judged_says_why(repository: Repository) -> None:
    done = repository.job(suite="suites/none.yaml")
    assert (done.code, done.outputs["run"], done.outputs["passed"]) == (2, "", "false")
    assert "could not be judged" in done.summary
    assert "none" in done.summary
    [error] = done.commands("error")
    assert error.startswith("::error file=suites/none.yaml,")
    (repository.checkout / "1.png").unlink()
    done = repository.job(suite="suite.yaml")
    assert (done.code, done.report) == (2, "")
    assert "line 3: the image 'input': 1.png does not exist" in done.commands("error")[0].replace("%0A", "\n")
    assert len(repository.comments) == 2, "a comment for each suite, though there was no run"


def test_a_pull_request_is_compared_with_its_base_branch(repository: Repository, server: JudgeServer) -> None:
    ids = tuple(f"case {at}" for at in range(12))
    write_suite(repository.checkout, ids)
    assert repository.job(suite="suite.yaml", pull_request=False).code == 0
    asked = len(server.received)

    same = repository.job(suite="suite.yaml")
    assert same.code == 0, same.log
    assert len(server.received) == asked, "images that have not changed cost nothing"
    assert "No regression" in same.summary

    write_suite(repository.checkout, ids, seed=2)
    server.default = answer(2)
    worse = repository.job(suite="suite.yaml")
    assert worse.code == 1
    assert "❌ **Regression**" in worse.summary
    assert "❌ **Regression**" in repository.comments[0]["body"]
    assert "::error file=suite.yaml" in worse.commands("error")[0]
    asked = len(server.received)
    assert repository.job(suite="suite.yaml", fail_on="never").code == 0
    assert repository.job(suite="suite.yaml", baseline="never").code == 0
    assert len(server.received) == asked, "what this branch has paid for is not paid for again"


def test_the_run_of_the_base_branch_is_not_compared_with_an_older_one(repository: Repository) -> None:
    assert repository.job(suite="suite.yaml", pull_request=False).code == 0
    same = repository.job(suite="suite.yaml", checkout=False)
    assert "This is the run of the base branch" in same.summary


def test_what_the_base_branch_has_paid_for_since_is_not_paid_for_again(
    repository: Repository, server: JudgeServer, run_suite: Callable[..., beholder.Run]
) -> None:
    """The pull request has a cache of its own; the base branch moved on, and the pull request took that over."""
    run_suite(repository.cache("refs/pull/5/merge"))
    write_suite(repository.checkout, seed=2)
    run_suite(repository.cache("refs/heads/main"))
    asked = len(server.received)
    done = repository.job(suite="suite.yaml")
    assert (done.code, len(server.received)) == (0, asked), done.log
    assert "No regression" in done.summary


def test_a_run_is_compared_with_what_the_base_branch_has_now(
    repository: Repository, server: JudgeServer, run_suite: Callable[..., beholder.Run], tmp_path: Path
) -> None:
    kept = tmp_path / "kept.db"
    server.default = answer(2)
    bad = run_suite(kept)
    write_suite(repository.checkout, seed=2)
    server.default = answer(6)
    good = run_suite(kept)

    def compared_with(run: beholder.Run) -> str:
        baseline = find_baseline("auto", kept, str(kept), run)
        assert (baseline.run is None) == baseline.notice.startswith("This is the run of the base branch")
        return baseline.run.id if baseline.run else ""

    assert compared_with(bad) == good.id, "a pull request that goes back to an older state is a regression"
    assert compared_with(good) == ""
    write_suite(repository.checkout, seed=1)
    run_suite(kept, resume=bad.id)
    assert compared_with(good) == bad.id, "the base branch itself went back"


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"LEDGER": "own.db", "BASELINE": "auto"}, "set `baseline` to a run in it"),
        ({"FAIL_ON": "regresion"}, "one of regression, inconclusive, never, not 'regresion'"),
        ({"COMMENT": "sometimes"}, "auto or never, not 'sometimes'"),
        ({"ARGS": "--tag 'it is"}, "No closing quotation"),
    ],
)
def test_wrong_inputs_are_found_before_anything_is_paid_for(inputs: dict[str, str], says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says):
        read_flags(tmp_path, {"SUITE": "suite.yaml", **inputs})


def test_wrong_inputs_have_a_summary(repository: Repository) -> None:
    done = repository.job(suite="suite.yaml", args="--tag 'it is")
    assert (done.code, done.outputs["passed"], done.outputs["exit-code"]) == (2, "false", "2")
    assert "No closing quotation" in done.summary
    assert "No closing quotation" in done.commands("error")[0]


def test_cases_that_could_not_be_calibrated_are_not_said_to_have_no_score(
    run_suite: Callable[..., beholder.Run], tmp_path: Path
) -> None:
    (tmp_path / "people.json").write_text(json.dumps(file_values()))
    run = run_suite(tmp_path / "own.db", calibration=tmp_path / "people.json")
    assert (run.exit_code, run.summary.score.count) == (3, run.total)
    result = JobResult("suite.yaml", run.exit_code, run)
    assert "some cases have no score" not in result.markdown()
    assert "- The calibration gave no verdict a rating: it was fitted for" in result.markdown()
    assert "it was fitted for" in next(result.annotations("suite.yaml"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_job_that_is_canceled_keeps_what_it_has_paid_for(
    repository: Repository, server: JudgeServer, number: signal.Signals
) -> None:
    """A runner sends SIGINT to the process of the step only, and kills all that is left ten seconds later."""
    write_suite(repository.checkout, tuple(f"case {at}" for at in range(12)))
    begun, go_on = threading.Event(), threading.Event()

    def reply(asked: object) -> dict[str, object]:
        if len(server.received) == 2:
            begun.set()
            go_on.wait(PATIENCE_S)
        return answer(6)

    def cancel(process: subprocess.Popen[str]) -> bool:
        try:
            assert begun.wait(PATIENCE_S)
            [ledger] = repository.folder.rglob("beholder.db")
            wait_until(lambda: beholder.Run.load("latest", ledger).progress.done == 1)
            if number == signal.SIGKILL:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
                wait_until(lambda: "what is in progress is finished" in (ledger.parent / "stderr.txt").read_text())
        finally:
            go_on.set()
        return True

    server.default = reply
    done = repository.job(suite="suite.yaml", args="--concurrency 1", meanwhile=cancel)
    [cached] = (repository.folder / "cache").iterdir()
    kept = beholder.Run.load("latest", cached)
    if number == signal.SIGKILL:
        assert (kept.progress.done, done.outputs["exit-code"]) == (1, "")
    else:
        assert (kept.progress.done > 1, kept.state, done.outputs["exit-code"]) == (True, "interrupted", "130")


def test_a_comparison_that_decides_nothing_is_no_pass(repository: Repository, server: JudgeServer) -> None:
    assert repository.job(suite="suite.yaml", pull_request=False).code == 0
    write_suite(repository.checkout, seed=2)
    server.default = answer(2)
    done = repository.job(suite="suite.yaml")
    assert done.code == 4
    assert "could not be decided" in done.summary
    write_suite(repository.checkout, ("another", "and one more"))
    done = repository.job(suite="suite.yaml")
    assert done.code == 4
    assert "The comparison decided nothing" in done.summary
    assert "The comparison decided nothing" in done.commands("error")[0]
    done = repository.job(suite="suite.yaml", fail_on="never")
    assert (done.code, done.commands("error")) == (0, [])
    assert "The comparison decided nothing" in done.commands("notice")[0]


def test_a_baseline_may_be_named_and_a_wrong_one_is_wrong_use(repository: Repository) -> None:
    assert repository.job(suite="suite.yaml", args="--tag approved", pull_request=False).code == 0
    assert "No regression" in repository.job(suite="suite.yaml", baseline="tag:approved", pull_request=False).summary
    done = repository.job(suite="suite.yaml", baseline="tag:none")
    assert done.code == 2
    assert done.commands("error")


def test_a_token_that_may_only_read_is_a_notice(repository: Repository) -> None:
    repository.refusal = "GraphQL: Resource not accessible by integration (addComment)"
    done = repository.job(suite="suite.yaml")
    assert done.code == 0
    assert done.summary
    [notice] = done.commands("notice")
    assert "Resource not accessible by integration" in notice
    assert "pull-requests: write" in notice
    assert "HTTP 502" in explain_comment_failure("gh: Server Error (HTTP 502)")
    assert "pull-requests" not in explain_comment_failure("gh: Server Error (HTTP 502)")


HOSTILE = (
    "::error::one",
    "a%0A::error::two",
    "</code></details><img src=x onerror=alert(1)> @everyone #1",
    "| [x](https://evil.example) | `y` |",
    "$(touch pwned) `touch pwned`; ${{ github.token }}",
)


def test_names_of_cases_are_no_commands_and_no_markup(repository: Repository, server: JudgeServer) -> None:
    folder = repository.checkout / "a b;$(touch pwned)"
    write_suite(folder, HOSTILE)
    (folder / "suite.yaml").rename(folder / "-s,u:i`te\n::error::.yaml")
    server.default = lambda asked: REFUSAL
    done = repository.job(suite="-s,u:i`te\n::error::.yaml", working_directory="a b;$(touch pwned)")
    assert done.code == 3, done.log
    assert sorted(repository.folder.rglob("pwned")) == []
    commands = done.commands("error")
    assert len(commands) == len(HOSTILE)
    for line in commands:
        assert re.fullmatch(r"::error file=[^,:]*,title=[^,:]*::no score: refused.*", line), line
    body = repository.comments[0]["body"]
    for text in (done.summary, body):
        assert "<img" not in text
        assert "](https://evil" not in text
        assert "@everyone" not in text
        assert "`" not in text
        assert "${{" not in text
        assert not re.search(r"^::", text, re.MULTILINE)
        assert text.count("<details>") == text.count("</details>")
    assert body.splitlines()[0] == comment_marker("a b;$(touch pwned)/-s,u:i`te\n::error::.yaml")
    told = {name: done.outputs[name] for name in ("score", "unscored", "passed", "exit-code", "report-url")}
    assert told == {"score": "", "unscored": "5", "passed": "false", "exit-code": "3", "report-url": ARTIFACT}
    assert re.fullmatch(r"\d{6}-\w{6}", done.outputs["run"])


def test_flags_with_quotes_are_words_and_never_executed(repository: Repository) -> None:
    done = repository.job(suite="suite.yaml", args='--tag "two words" --tag $(touch${IFS}pwned) ; touch pwned')
    assert done.code == 2, "; is one more suite"
    assert not (repository.checkout / "pwned").exists()
    done = repository.job(suite="suite.yaml", args="--tag 'two words' --only 'c*'")
    assert (done.code, done.outputs["unscored"]) == (0, "0")


def test_jobs_may_run_at_once(repository: Repository, server: JudgeServer) -> None:
    """Two projects, each with a suite.yaml, on one runner: neither ends before the other has begun."""
    ids = {"a": ("boat",), "b": ("tree", "lake")}
    for seed, (folder, cases) in enumerate(ids.items()):
        write_suite(repository.checkout / folder, cases, seed)
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def judge(folder: str) -> Done:
        return repository.job(
            suite="suite.yaml",
            working_directory=folder,
            temp="shared",
            checkout=False,
            meanwhile=lambda process: both.wait() < 0,
        )

    with ThreadPoolExecutor() as threads:
        done = dict(zip(ids, threads.map(judge, ids), strict=True))
    for folder, cases in ids.items():
        assert done[folder].code == 0, done[folder].log
        assert done[folder].summary.startswith(f"## ✅ <code>{folder}/suite&#46;yaml</code> passed\n")
        cached = repository.cache("refs/pull/5/merge", f"{folder}/suite.yaml").name.removesuffix("-0-1")
        [ledger] = (repository.folder / "cache").glob(f"{cached}-*")
        [run] = beholder.list_runs(ledger)
        assert run.id == done[folder].outputs["run"]
        assert {verdict.case for verdict in run.verdicts()} == set(cases)
    assert len(repository.comments) == 2


def test_text_that_is_too_long_is_cut_after_a_line() -> None:
    text = "## head\n<details><summary>x</summary>\n" + "| é |\n" * 20_000 + "</details>\n"
    short = cut_markdown(text, MAX_COMMENT_CHARACTERS, in_bytes=False)
    assert MAX_COMMENT_CHARACTERS - 100 < len(short) <= MAX_COMMENT_CHARACTERS
    assert short.endswith("| é |\n</details>\n\n*The rest is in the report.*\n")
    assert len(cut_markdown(text, 70_000, in_bytes=True).encode()) <= 70_000
    assert cut_markdown("short", 10, in_bytes=True) == "short"


def test_an_annotation_is_one_command() -> None:
    assert format_annotation("error", "100%\n::error::x", "a,b:c.yaml", "t\r\n::e") == (
        "::error file=a%2Cb%3Ac.yaml,title=t %0A%3A%3Ae::100%25%0A::error::x"
    )


@pytest.mark.parametrize("version", ["", "0.0.0"])
def test_the_action_installs_what_its_ref_has(repository: Repository, version: str) -> None:
    """Of a copy, since pip builds where the source is. A version that was never released is refused by pip."""
    action = repository.folder / "action"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in (
        name for name in listed.split("\0") if name.startswith(("src/", "action", "pyproject", "README", "LIC"))
    ):
        (action / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, action / name)
    repository.environment |= {"PIP_NO_DEPS": "1"}
    done = repository.job(suite="suite.yaml", action=action, install=True, version=version)
    environment = repository.folder / "temp-1" / "beholder" / "environment"
    if version:
        assert done.code != 0
        assert "0.0.0" in done.log
        return
    if "after connection broken by" in done.log and not os.environ.get("CI"):  # as pip says it
        pytest.skip("the registry cannot be reached")
    assert environment.is_dir(), done.log
    # Without its dependencies it cannot start; with those of the tests it can.
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "zz-tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    program = environment / "bin" / "python"
    found = subprocess.run(
        [program, "-P", "-c", "import beholder; print(beholder.__file__)"], capture_output=True, text=True, check=True
    )
    assert Path(found.stdout.strip()).is_relative_to(packages)


def test_the_action_and_the_workflow_on_its_page_are_valid(tmp_path: Path) -> None:
    programs = Path(sys.executable).parent
    workflow = re.findall(r"^```yml\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)[0]
    file = tmp_path / ".github" / "workflows" / "images.yml"
    file.parent.mkdir(parents=True)
    file.write_text(workflow)
    packages = ("@action-validator/cli@0.6.0", "@action-validator/core@0.6.0")
    validator = node_host("action-validator", *packages) / "action-validator"
    commands: list[list[str | Path]] = [
        [programs / "check-jsonschema", "--builtin-schema", "vendor.github-actions", ROOT / "action.yml"],
        [programs / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", file],
        [programs / "zizmor", "--offline", "--no-progress", "--persona", "pedantic", ROOT / "action.yml"],
        [programs / "zizmor", "--offline", "--no-progress", tmp_path / ".github"],
        [validator, file],
        [validator, ROOT / "action.yml"],
    ]
    for command in commands:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    [step] = [
        step
        for job in yaml.safe_load(workflow)["jobs"].values()
        for step in job["steps"]
        if "/beholder@" in step["uses"]
    ]
    assert set(step["with"]) <= set(ACTION["inputs"])


def test_our_own_workflow_judges_with_the_action(repository: Repository) -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    [step] = [step for job in jobs.values() for step in job["steps"] if step.get("uses") == "./"]
    shutil.copytree(ROOT / "examples", repository.checkout / "examples")
    done = repository.job(**{name.replace("-", "_"): value for name, value in step["with"].items()})
    assert done.code == 0, done.log
    assert float(done.outputs["score"]) > 0
    assert done.outputs["unscored"] == "0"
    assert repository.comments == []


def test_the_page_lists_every_input_and_output() -> None:
    text = PAGE.read_text("utf-8")
    named = re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)
    assert sorted(named) == sorted([*ACTION["inputs"], *ACTION["outputs"]])


def test_actions_by_others_are_pinned_to_the_commits_of_our_workflows() -> None:
    used = re.findall(r"uses: (\S+@\S+) # v\d+\.\d+\.\d+", (ROOT / "action.yml").read_text("utf-8"))
    assert len(used) == len([step for step in ACTION["runs"]["steps"] if "uses" in step])
    workflows = "".join(path.read_text("utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    ours = dict(one.split("@") for one in re.findall(r"uses: (\S+@\S+)", workflows))
    for action, commit in (one.split("@") for one in used):
        assert re.fullmatch(r"[0-9a-f]{40}", commit)
        assert ours.get(action, commit) == commit
