"""A job that uses our GitHub Action, as a runner would: the steps of `action.yml` in their order, with their
expressions. Its own steps are run with bash; the actions by others that it uses are played here, and so is `gh`."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
ARTIFACT = "https://github.com/owner/photos/actions/runs/1/artifacts/7"
COMMENT = "https://github.com/owner/photos/pull/5#issuecomment-{}"

# As much of the command line tool as the action uses.
GH = """#!{python}
import fcntl, json, pathlib, sys

store = pathlib.Path({store!r})
fcntl.flock(store.with_suffix(".lock").open("w"), fcntl.LOCK_EX)  # jobs run at once
words = sys.argv[1:]
comments = json.loads(store.read_text())
if words[:2] == ["pr", "view"]:
    print(json.dumps({{"comments": comments}}))
    sys.exit()
if {refusal!r}:
    sys.exit({refusal!r})
if words[:2] == ["pr", "comment"]:
    body = pathlib.Path(words[words.index("--body-file") + 1]).read_text()
    url = {comment!r}.format(100 + len(comments))
    comments.append({{"url": url, "viewerDidAuthor": True, "body": body}})
else:
    number = words[words.index("PATCH") + 1].rpartition("/")[2]
    [one] = [one for one in comments if one["url"].endswith("-" + number)]
    one["body"] = pathlib.Path(words[words.index("--field") + 1].removeprefix("body=@")).read_text()
store.write_text(json.dumps(comments))
"""

Values = dict[str, str]
# Called with the process of the step that judges; returns whether it has canceled the job.
Meanwhile = Callable[[subprocess.Popen[str]], bool]


@dataclass
class Done:
    """What a job came to: the exit code of its last step, what it logged, its summary and its outputs."""

    code: int
    log: str
    summary: str
    outputs: Values
    report: str

    def commands(self, level: str) -> list[str]:
        """The workflow commands of this level that a runner would have obeyed."""
        found, stopped = [], ""
        for line in self.log.splitlines():
            if stopped:
                stopped = "" if line == f"::{stopped}::" else stopped
            elif line.startswith("::stop-commands::"):
                stopped = line.removeprefix("::stop-commands::")
            elif line.startswith(f"::{level} "):
                found.append(line)
        return found


@dataclass
class Repository:
    """A repository with the suite of a project, a cache of the Actions, and comments on its pull request.

    Attributes:
        folder: Where everything is.
        environment: Further environment variables.
        refusal: What GitHub says to a comment, if it takes none.
    """

    folder: Path
    environment: Values = field(default_factory=dict)
    refusal: str = ""
    run_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        for name in ("checkout", "cache"):
            (self.folder / name).mkdir()
        self.comments_file.write_text("[]")

    @property
    def checkout(self) -> Path:
        return self.folder / "checkout"

    @property
    def comments_file(self) -> Path:
        return self.folder / "comments.json"

    @property
    def comments(self) -> list[dict[str, Any]]:
        loaded = json.loads(self.comments_file.read_text())
        assert isinstance(loaded, list)
        return loaded

    def cache(self, ref: str, name: str = "suite.yaml") -> Path:
        """The oldest cache of a branch for a suite of that name."""
        digests = [hashlib.sha256(text.encode()).hexdigest()[:16] for text in (name, ref)]
        return self.folder / "cache" / f"beholder-{digests[0]}-{digests[1]}-0-1"

    def job(
        self,
        *,
        pull_request: bool = True,
        action: Path = ROOT,
        install: bool = False,
        checkout: bool = True,
        temp: str = "",
        meanwhile: Meanwhile = lambda process: False,
        **inputs: str,
    ) -> Done:
        """Run the action, on the pull request of this repository or on a push to its main branch.

        Files are as old as their `checkout`, without which they are those of the last job. `temp` is the folder of the
        runner, by default one of the job's own.
        """
        run_id = next(self.run_ids)
        for file in self.checkout.rglob("*") if checkout else ():
            os.utime(file, (run_id, run_id))
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        job = _Job(self, run_id, action, pull_request, given, self.folder / (temp or f"temp-{run_id}"))
        return job.run(install=install, meanwhile=meanwhile)


class _Job:
    def __init__(
        self, repository: Repository, run_id: int, action: Path, pull_request: bool, inputs: Values, temp: Path
    ) -> None:
        self.repository, self.action = repository, action
        self.files = repository.folder / f"job-{run_id}"
        (self.files / "programs").mkdir(parents=True)
        self.write_gh(self.files / "programs" / "gh")
        temp.mkdir(exist_ok=True)
        event = {"pull_request": {"number": 5}} if pull_request else {}
        (self.files / "event.json").write_text(json.dumps(event))
        assert set(inputs) <= set(ACTION["inputs"])
        assert all(one.get("default") is not None or one.get("required") for one in ACTION["inputs"].values())
        self.context: Values = {f"inputs.{key}": one.get("default", "") for key, one in ACTION["inputs"].items()}
        self.context |= {f"inputs.{key}": value for key, value in inputs.items()}
        self.context |= {"runner.temp": str(temp), "github.token": "the-token"}
        self.context["github.event.pull_request.number"] = "5" if pull_request else ""
        self.variables = {
            "GITHUB_REF": "refs/pull/5/merge" if pull_request else "refs/heads/main",
            "GITHUB_BASE_REF": "main" if pull_request else "",
            "GITHUB_RUN_ID": str(run_id),
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_REPOSITORY": "owner/photos",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_EVENT_PATH": str(self.files / "event.json"),
            "GITHUB_STEP_SUMMARY": str(self.files / "summary.md"),
            "GITHUB_ACTION_PATH": str(action),
        }
        self.log, self.report = "", ""

    def run(self, *, install: bool, meanwhile: Meanwhile) -> Done:
        """Run the steps: after one that fails only those that say `always()`."""
        code = 0
        for step in ACTION["runs"]["steps"]:
            if not install and "install" in step.get("run", ""):
                continue  # the programs of the environment of the tests are on PATH
            condition = step.get("if", "true")
            if (code and "always()" not in condition) or not self.evaluate(condition):
                continue
            during = meanwhile if step.get("id") == "judge" else lambda process: False
            done = self.run_bash(step, during) if "run" in step else self.play(step)
            code = code or done
        outputs = {name: self.expand(one["value"]) for name, one in ACTION["outputs"].items()}
        summary = self.files / "summary.md"
        return Done(code, self.log, summary.read_text() if summary.exists() else "", outputs, self.report)

    def run_bash(self, step: Mapping[str, Any], meanwhile: Meanwhile) -> int:
        output = self.files / "output"
        output.write_text("")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("BEHOLDER_", "GITHUB_"))}
        path = os.pathsep.join((str(self.files / "programs"), str(Path(sys.executable).parent), inherited["PATH"]))
        environment = {**inherited, **self.variables, "GITHUB_OUTPUT": str(output), "PATH": path}
        environment |= self.repository.environment
        environment |= {name: self.expand(str(value)) for name, value in step.get("env", {}).items()}
        assert "${{" not in step["run"], "an expression in a script is an injection"
        script = self.files / "script.sh"  # as a runner does: `bash -c` would replace itself by its last command
        script.write_text(step["run"])
        with subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.repository.checkout,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            canceled = meanwhile(process)
            self.log += process.communicate()[0]
        for line in output.read_text().splitlines():
            key, _, value = line.partition("=")
            self.context[f"steps.{step.get('id')}.outputs.{key}"] = value
        return 130 if canceled else process.returncode

    def play(self, step: Mapping[str, Any]) -> int:
        name = step["uses"].partition("@")[0]
        given = {key: self.expand(str(value)) for key, value in step.get("with", {}).items()}
        if name == "actions/setup-python":
            self.context[f"steps.{step['id']}.outputs.python-path"] = sys.executable
        elif name == "actions/cache/save":
            if self.cached(given["path"]).exists():
                shutil.copyfile(self.cached(given["path"]), self.repository.folder / "cache" / given["key"])
        elif name == "actions/cache/restore":
            # The newest whose key begins so. Which cache is whose: by the branch, of which the key has the digest.
            found = list((self.repository.folder / "cache").glob(f"{given['restore-keys']}*"))
            if found:
                newest = max(found, key=lambda one: int(one.name.split("-")[-2]))
                shutil.copyfile(newest, self.cached(given["path"]))
        else:
            assert name == "actions/upload-artifact"
            self.report = Path(given["path"]).read_text("utf-8")
            self.context[f"steps.{step['id']}.outputs.artifact-url"] = ARTIFACT
        return 0

    def cached(self, path: str) -> Path:
        """The file of a cache. GitHub finds a cache only by the very path that it was saved with, so that this must not
        have the folders of a runner in it."""
        assert not Path(path).is_absolute()
        assert ".." not in Path(path).parts  # which the cache refuses
        return self.repository.checkout / path

    def expand(self, text: str) -> str:
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: str(self.evaluate(found[1])), text)

    def evaluate(self, expression: str) -> object:
        """Evaluate an expression of the workflow language, of which the action uses little."""
        words = {"&&": "and", "||": "or", "always()": "True", "true": "True"}
        token = r"'[^']*'|always\(\)|&&|\|\||[A-Za-z_][\w.-]*"

        def translate(found: re.Match[str]) -> str:
            word = found[0]
            return word if word.startswith("'") else words.get(word) or repr(self.context.get(word, ""))

        return eval(re.sub(token, translate, expression), {"__builtins__": {}})

    def write_gh(self, file: Path) -> None:
        text = GH.format(
            python=sys.executable,
            store=str(self.repository.comments_file),
            refusal=self.repository.refusal,
            comment=COMMENT,
        )
        file.write_text(text)
        file.chmod(0o755)
