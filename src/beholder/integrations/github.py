"""The GitHub Action (`action.yml`): what its steps work out between two calls of `beholder`.

`action/run.sh` calls this module as `python -P -m beholder.integrations.github STEP FOLDER`; the inputs of the action
are in environment variables. Everything that comes from cases, suites or branches is untrusted: in Markdown it is shown
as it is, in workflow commands and outputs it cannot begin a line.
"""

from __future__ import annotations

import filecmp
import hashlib
import io
import json
import os
import posixpath
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from beholder.errors import BeholderError, UsageError

# Everything else is imported where it is used: most steps of the action need little of it.
if TYPE_CHECKING:
    from beholder.api.run import Run
    from beholder.statistics.comparison import Comparison
    from beholder.statistics.gate import Gate
    from beholder.verdicts.verdict import Verdict

MAX_ANNOTATIONS = 10  # that GitHub shows of a step
MAX_SUMMARY_BYTES = 900_000  # GitHub refuses a summary above 1 MiB, and loses one shortly below it
MAX_COMMENT_CHARACTERS = 65_000  # of 65,536
AUTO, NEVER = "auto", "never"  # of the inputs `baseline` and `fail-on`
LEDGER_NAME, BASELINE_NAME = "beholder.db", "baseline.db"

_MEANINGS = {
    0: ("✅", "passed"),
    1: ("❌", "a threshold was missed, or there is a regression"),
    2: ("❌", "could not be judged"),
    3: ("❌", "some cases have no score"),
    4: ("❌", "could not be decided"),
    130: ("❌", "was canceled"),
}


@dataclass(frozen=True)
class Baseline:
    """What a run is compared with.

    Attributes:
        run: The older run, if there is one.
        notice: Why there is none, where one was looked for.
    """

    run: Run | None = None
    notice: str = ""


@dataclass(frozen=True)
class JobResult:
    """What a job came to.

    Attributes:
        name: What the suite is called in the summary and the comment.
        code: The exit code of `beholder run`, or where that is 0, of the comparison.
        run: The run, if there is one.
        problem: Why there is no run, or why it cannot be compared.
        notice: What the reader may want to know besides.
        comparison: With the baseline, if there is one.
        gate: Its decision, if one was asked for.
    """

    name: str
    code: int
    run: Run | None = None
    problem: str = ""
    notice: str = ""
    comparison: Comparison | None = None
    gate: Gate | None = None

    @property
    def passed(self) -> bool:
        return self.code == 0

    @property
    def problems(self) -> list[str]:
        """Why the job failed, in sentences, without what the comparison says."""
        found = [self.problem] if self.problem else []
        if self.run is not None:
            found += self.run.missed
            if why := self.run.why_uncalibrated:
                found.append(f"The calibration gave no verdict a rating: {why}")
        return found

    def outputs(self) -> dict[str, str]:
        """Return the outputs of the action, without the address of the report."""
        values = {"exit-code": str(self.code), "passed": json.dumps(self.passed)}
        if self.run is not None:
            tally = self.run.summary
            values |= {"run": self.run.id, "unscored": str(self.run.total - tally.score.count)}
            values["score"] = "" if tally.score.value is None else f"{tally.score.value:.6g}"
            values["cost-usd"] = "" if self.run.spent_usd is None else f"{self.run.spent_usd:.6f}"
        return values

    def markdown(self) -> str:
        """Return the text of the summary and of the comment: the decision first, then tables."""
        from beholder.reports.ci import format_code, format_prose

        sign, meaning = _MEANINGS.get(self.code, ("❌", "failed"))
        if self.code == 3 and self.run is not None and self.run.summary.score.count == self.run.total:
            meaning = "has scores, and no ratings by its calibration"
        problems = [f"- {format_prose(sentence)}" for sentence in self.problems]
        lines = [f"## {sign} {format_code(self.name)} {meaning}", "", *problems]
        if self.notice:
            lines += ["", format_prose(self.notice)]
        if self.run is not None:
            spent = self.run.spent_usd
            lines += ["", f"Spent: {'unknown' if spent is None else f'${spent:.4f}'}.", "", _run_markdown(self.run)]
        if self.comparison is not None:
            lines += ["", self.comparison.to_markdown(self.gate)]
        return "\n".join(lines).rstrip("\n") + "\n"

    def annotations(self, suite: str) -> Iterator[str]:
        """Yield workflow commands: why the job failed, then the worst cases, as errors only if it failed; no more than
        GitHub shows."""
        level = "notice" if self.passed else "error"
        decided = self.gate.sentences() if self.gate is not None else []
        why = [*self.problems, *decided]
        for sentence in why[:MAX_ANNOTATIONS]:
            yield format_annotation(level, f"{self.name}: {sentence}", suite)
        for verdict in find_worst(self.run)[: max(0, MAX_ANNOTATIONS - len(why))] if self.run else ():
            yield format_annotation(level, _describe_verdict(verdict), suite, f"{verdict.case} by {verdict.rubric}")


def find_baseline(named: str, kept: Path, ledger: str, current: Run) -> Baseline:
    """Return the run that a run is compared with.

    Args:
        named: "auto", the finished run that the base branch has worked on last; "never"; or a run in `ledger`.
        kept: Where the ledger of the base branch is, if the cache had one.
        ledger: The ledger of the current run.
        current: The run itself.

    Raises:
        UsageError: There is no run of that name.
    """
    from beholder.api.run import Run, list_runs
    from beholder.ledger.types import FINISHED

    if named == NEVER:
        return Baseline()
    if named != AUTO:
        return Baseline(Run.load(named, ledger))
    runs = [run for run in list_runs(kept) if run.record.state == FINISHED] if kept.is_file() else []
    if not runs:
        return Baseline(notice="There is nothing to compare with: the base branch has no finished run in the cache.")
    newest = max(runs, key=lambda run: run.record.updated)  # not started: an older run is resumed after a revert
    if newest.id == current.id:
        return Baseline(notice="This is the run of the base branch: its cases and images are the same.")
    return Baseline(newest)


def judge_result(folder: Path, code: int, inputs: Mapping[str, str]) -> JobResult:
    """Return what `beholder run` came to, compared with the baseline.

    Args:
        folder: With `run.jsonl` and `stderr.txt`, what the command printed, and the ledgers.
        code: Its exit code.
        inputs: The inputs of the action: NAME, SUITE, WORKING_DIRECTORY, LEDGER, BASELINE, FAIL_ON.
    """
    from beholder.api.run import Run
    from beholder.api.statistics import compare
    from beholder.statistics.data import parse_choice
    from beholder.statistics.gate import FailOn

    name = read_name(inputs)
    ledger = inputs.get("LEDGER") or str(folder / LEDGER_NAME)
    said = (folder / "stderr.txt").read_text("utf-8", "replace").strip()
    summary = _read_summary(folder / "run.jsonl")
    if summary is None:
        return JobResult(name, code or 70, problem=said or "beholder run ended without a result.")
    run = Run.load(summary, ledger)
    try:
        fail_on = inputs.get("FAIL_ON") or FailOn.REGRESSION
        wanted = None if fail_on == NEVER else parse_choice(FailOn, fail_on, "fail-on")
        baseline = find_baseline(inputs.get("BASELINE") or AUTO, folder / BASELINE_NAME, ledger, run)
    except UsageError as error:
        return JobResult(name, code or 2, run, str(error))
    if baseline.run is None:
        return JobResult(name, code, run, notice=baseline.notice)
    try:
        comparison = compare(baseline.run, run)
        gate = None if wanted is None else comparison.gate(wanted)
    except UsageError as error:  # such as no case in common: nothing is decided, which is no pass
        return JobResult(name, code or (4 if wanted else 0), run, f"The comparison decided nothing: {error}")
    decided = {"passed": 0, "failed": 1, "undecided": 4}[gate.status] if gate is not None else 0
    return JobResult(name, code or decided, run, comparison=comparison, gate=gate)


def read_name(inputs: Mapping[str, str]) -> str:
    """Return what the suite is called: by default its path, since two projects may each have a suite.yaml."""
    return inputs.get("NAME") or _suite_path(inputs)


def read_flags(folder: Path, inputs: Mapping[str, str]) -> list[str]:
    """Return the flags of `beholder run` that the inputs of the action say.

    Raises:
        UsageError: An input is wrong. What a run is compared with is looked at before anything is paid for.
    """
    from beholder.statistics.gate import FailOn

    ledger = inputs.get("LEDGER")
    if ledger and (inputs.get("BASELINE") or AUTO) == AUTO:
        raise UsageError(
            "With a ledger of your own nobody can tell which of its runs is that of the base branch: set `baseline` to "
            "a run in it, such as tag:approved, or to never."
        )
    if (fail_on := inputs.get("FAIL_ON") or NEVER) not in (NEVER, *FailOn):
        raise UsageError(f"The input `fail-on` is one of {', '.join([*FailOn, NEVER])}, not {fail_on!r}.")
    if (comment := inputs.get("COMMENT") or AUTO) not in (AUTO, NEVER):
        raise UsageError(f"The input `comment` is {AUTO} or {NEVER}, not {comment!r}.")
    flags = ["--json", "--ledger", ledger or str(folder / LEDGER_NAME)]
    for name in ("judge", "budget", "max-unscored"):
        if value := inputs.get(name.upper().replace("-", "_")):
            flags += [f"--{name}", value]
    for minimum in inputs.get("FAIL_UNDER", "").split():
        flags += ["--fail-under", minimum]
    try:
        flags += shlex.split(inputs.get("ARGS", ""))
    except ValueError as error:
        raise UsageError(f"The input `args` is not words as in a shell ({error}): {inputs['ARGS']}") from None
    return [*flags, "--", inputs["SUITE"]]


def find_worst(run: Run) -> list[Verdict]:
    """Return the verdicts that a reader should look at, the worst first: without a score, not passed, or below a mean
    that was missed."""
    minimum = run.fail_under.get("score", 0) / 100 if run.missed else 0
    bad = [
        verdict
        for verdict in run.verdicts()
        if verdict.score is None or verdict.passed is False or verdict.score < minimum
    ]
    bad.sort(key=lambda verdict: (verdict.score is not None, verdict.score or 0.0))
    return bad[:MAX_ANNOTATIONS]


def format_annotation(level: str, message: str, file: str = "", title: str = "Beholder") -> str:
    """Return a workflow command that shows a message; whatever is in it, it is one line and one command."""
    properties = {"file": file, "title": title}
    shown = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items() if value)
    return f"::{level} {shown}::{_escape_data(message)}"


def cut_markdown(text: str, limit: int, *, in_bytes: bool) -> str:
    """Return Markdown that is at most `limit` long, cut after a line, with a sentence on what was cut."""
    note = "\n\n*The rest is in the report.*\n"
    size = (lambda part: len(part.encode())) if in_bytes else len
    if size(text) <= limit:
        return text
    room = limit - size(note) - size("\n</details>") * (text.count("<details>") + 1)
    kept: list[str] = []
    for line in text.split("\n"):
        room -= size(line) + 1
        if room < 0:
            break
        kept.append(line)
    shown = "\n".join(kept)
    return shown + "\n</details>" * (shown.count("<details>") - shown.count("</details>")) + note


def comment_marker(name: str) -> str:
    """Return the invisible first line by which the comment of a suite is found again."""
    return f"<!-- beholder {_digest(name)} -->"


def explain_comment_failure(error: str) -> str:
    """Return why there is no comment, in the words of GitHub, and what to do where it is the token."""
    hint = "A fork's token never may; else the job needs `permissions: pull-requests: write`. "
    hint = hint if "Resource not accessible" in error else ""
    return f"The comment could not be written: {error.strip()}\n{hint}The job summary has the same text."


def _suite_path(inputs: Mapping[str, str]) -> str:
    return posixpath.normpath(posixpath.join(inputs.get("WORKING_DIRECTORY") or ".", inputs["SUITE"]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _escape_data(text: str) -> str:
    from beholder.reports.text import printable

    return printable(text, lines=True).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def _describe_verdict(verdict: Verdict) -> str:
    from beholder.integrations.shared import explain_criterion
    from beholder.verdicts.verdict import format_share

    if verdict.score is None:
        return f"no score: {verdict.missing_score_reason}"
    reasons = [explain_criterion(key, one) for key, one in verdict.criteria.items() if one.score is not None]
    return "\n".join([f"score {format_share(verdict.score, 3, decisive=verdict.is_decisive)}", *reasons])


def _run_markdown(run: Run) -> str:
    written = io.BytesIO()
    run.report(written, format="md")
    return written.getvalue().decode()


def _read_summary(file: Path) -> str | None:
    """Return the id of the run in the last line that `beholder run --json` printed."""
    for line in reversed(file.read_text("utf-8", "replace").splitlines()):
        with suppress(ValueError, TypeError, KeyError):
            event = json.loads(line)
            if event["event"] == "summary":
                return str(event["run"])
    return None


def _write_outputs(values: Mapping[str, str]) -> None:
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        file.writelines(f"{key}={' '.join(value.splitlines())}\n" for key, value in values.items())


def _prepare(home: Path) -> None:
    """Make the folder of this suite, and name the caches of this branch and of the base branch.

    Where the cache puts the ledger (`cached`) is relative to the workspace: its path is part of what a cache is found
    by, and other folders differ from runner to runner. A later run cannot overwrite a cache, so that each attempt has
    its own, and the newest is restored by its prefix.
    """
    name = _digest(read_name(os.environ))
    folder = home / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text("utf-8"))
    base = os.environ.get("GITHUB_BASE_REF") or event.get("merge_group", {}).get("base_ref", "")
    own = os.environ["GITHUB_REF"]
    prefix = f"beholder-{name}"
    refs = {"own": own, "base": f"refs/heads/{base.removeprefix('refs/heads/')}" if base else own}
    keys = {f"{which}-cache": f"{prefix}-{_digest(ref)}-" for which, ref in refs.items()}
    attempt = f"{os.environ['GITHUB_RUN_ID']}-{os.environ['GITHUB_RUN_ATTEMPT']}"
    cached = f".{prefix}.db"
    Path(cached).unlink(missing_ok=True)  # whatever the checkout has there
    new = f"{keys['own-cache']}{attempt}"
    _write_outputs({**keys, "new-cache": new, "folder": str(folder), "cached": cached})


def _judge(folder: Path) -> None:
    """Run the suite, and collect what it came to, also if it could not even be started."""
    try:
        os.chdir(os.environ.get("WORKING_DIRECTORY") or ".")
        flags = read_flags(folder, os.environ)
        _add_runs_of_base(folder)
        code = _run_beholder(folder, flags)
    except (UsageError, OSError) as error:
        (folder / "run.jsonl").write_text("")
        (folder / "stderr.txt").write_text(str(error), "utf-8")
        code = 2
    _collect(folder, code)


def _add_runs_of_base(folder: Path) -> None:
    """Copy the runs of the base branch into the ledger of this branch: neither pays for what the other has."""
    from beholder.ledger.copy import copy_runs

    kept, ledger = folder / BASELINE_NAME, folder / LEDGER_NAME
    if not kept.is_file():
        return
    if not ledger.exists():
        shutil.copyfile(kept, ledger)
    elif not filecmp.cmp(kept, ledger, shallow=False):  # the base branch itself has its ledger twice
        copy_runs(kept, ledger)


def _run_beholder(folder: Path, flags: list[str]) -> int:
    """Run `beholder run`, print what it prints, and return its exit code.

    To cancel a job, a runner sends signals to its process only: they are passed on, so that the calls in progress are
    finished and stored.
    """
    command = [sys.executable, "-X", "utf8", "-P", "-m", "beholder", "run", *flags]
    # What is printed in between may hold names from cases, and is no workflow command whatever it begins with.
    token = f"stop-{secrets.token_hex(8)}"
    print(f"::stop-commands::{token}", flush=True)
    with (
        (folder / "stderr.txt").open("wb") as errors,
        (folder / "run.jsonl").open("wb") as lines,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process,
    ):

        def pass_on(number: int, frame: object) -> None:
            with suppress(ValueError):  # on Windows, where a console tells all its processes
                process.send_signal(number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, pass_on)
        assert process.stdout is not None
        for line in process.stdout:
            lines.write(line)
            print(line.decode("utf-8", "replace"), end="", flush=True)
    print((folder / "stderr.txt").read_text("utf-8", "replace"))
    print(f"::{token}::", flush=True)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode  # as a shell says it


def _close_ledger(folder: Path) -> None:
    """Bring what a killed process wrote last into the file of the ledger: the cache does not have the log beside it."""
    from beholder.ledger.ledger import Ledger

    Ledger.open(folder / LEDGER_NAME).close()


def _collect(folder: Path, code: int) -> None:
    """Write the summary's text, the report and the outputs, and print the annotations."""
    result = judge_result(folder, code, os.environ)
    outputs = result.outputs()
    (folder / "result.md").write_text(result.markdown(), "utf-8")
    if result.run is not None:
        report = folder / f"beholder-{result.run.id}.html"
        outputs["report"] = str(result.run.report(report, force=True).path)
    _write_outputs(outputs)
    for line in result.annotations(_suite_path(os.environ)):
        print(line)


def _publish(folder: Path) -> None:
    """Write the job summary, and the comment on the pull request."""
    text = (folder / "result.md").read_text("utf-8")
    if url := os.environ.get("REPORT_URL"):
        head, _, rest = text.partition("\n")
        text = f"{head}\n\n[Open the report]({url})\n{rest}"
    with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as file:
        file.write(cut_markdown(text, MAX_SUMMARY_BYTES, in_bytes=True))
    pull_request = os.environ.get("PULL_REQUEST")
    if not pull_request or os.environ.get("COMMENT") == NEVER:
        return
    marker = comment_marker(read_name(os.environ))
    comment = cut_markdown(text, MAX_COMMENT_CHARACTERS - len(marker), in_bytes=False)
    (folder / "comment.md").write_text(f"{marker}\n{comment}", "utf-8")
    try:
        _write_comment(folder / "comment.md", marker, pull_request)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        problem = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        print(format_annotation("notice", explain_comment_failure(problem)))


def _write_comment(file: Path, marker: str, pull_request: str) -> None:
    """Update our comment on the pull request, or write the first one. One by somebody else is never touched."""
    repository = os.environ["GITHUB_REPOSITORY"]
    listed = json.loads(_run_gh("pr", "view", pull_request, "--repo", repository, "--json", "comments"))
    ours = [
        comment["url"].rpartition("#issuecomment-")[2]
        for comment in listed["comments"]
        if comment["viewerDidAuthor"] and comment["body"].startswith(marker)
    ]
    if ours:
        address = f"repos/{repository}/issues/comments/{ours[-1]}"
        _run_gh("api", "--silent", "--method", "PATCH", address, "--field", f"body=@{file}")
    else:
        _run_gh("pr", "comment", pull_request, "--repo", repository, "--body-file", str(file))


def _run_gh(*words: str) -> str:
    host = os.environ["GITHUB_SERVER_URL"].partition("://")[2]
    environment = {**os.environ, "GH_HOST": host}
    done = subprocess.run(["gh", *words], env=environment, check=True, capture_output=True, encoding="utf-8")
    return done.stdout


STEPS = {"prepare": _prepare, "judge": _judge, "close": _close_ledger, "publish": _publish}


def main(arguments: list[str]) -> None:
    """Do a step of the action: STEP FOLDER."""
    step, folder = arguments
    if step not in STEPS:
        raise UsageError(f"The steps are {', '.join(STEPS)}, not {step!r}.")
    STEPS[step](Path(folder))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BeholderError as error:
        sys.exit(format_annotation("error", str(error)))
