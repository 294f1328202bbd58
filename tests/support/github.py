"""A job that uses our GitHub Action, as a runner would: the steps of `action.yml` in their order, with their
expressions. Its own steps are run with bash; the actions by others that it uses are played here, and so is `gh`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
ARTIFACT = "https://github.com/owner/photos/actions/runs/1/artifacts/7"
COMMENT = "https://github.com/owner/photos/pull/5#issuecomment-{}"

# As much of the command line tool as the action uses; it has jq's own filters.
GH = """#!{python}
import json, pathlib, sys
import jq

store = pathlib.Path({store!r})
words = sys.argv[1:]
comments = json.loads(store.read_text())
print(*words, file=open({calls!r}, "a"))
if words[:2] == ["pr", "view"]:
    for found in jq.compile(words[words.index("--jq") + 1]).input_value({{"comments": comments}}).all():
        print(found)
    sys.exit()
if {read_only!r}:
    sys.exit("GraphQL: Resource not accessible by integration (addComment)")
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
        python: An interpreter that has the package jq, for `gh`.
        environment: Further environment variables.
        read_only: Whether the token may not write comments.
    """

    folder: Path
    python: Path
    environment: Values = field(default_factory=dict)
    read_only: bool = False
    run_id: int = 1

    def __post_init__(self) -> None:
        for name in ("checkout", "cache", "programs"):
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

    def job(
        self,
        *,
        pull_request: bool = True,
        action: Path = ROOT,
        install: bool = False,
        checkout: bool = True,
        **inputs: str,
    ) -> Done:
        """Run the action, on the pull request of this repository or on a push to its main branch.

        Files are as old as their `checkout`, without which they are those of the last job.
        """
        for file in self.checkout.rglob("*") if checkout else ():
            os.utime(file, (self.run_id, self.run_id))
        job = _Job(self, action, pull_request, {name.replace("_", "-"): value for name, value in inputs.items()})
        self.run_id += 1
        return job.run(install=install)


class _Job:
    def __init__(self, repository: Repository, action: Path, pull_request: bool, inputs: Values) -> None:
        self.repository, self.action = repository, action
        self.temp = repository.folder / f"temp-{repository.run_id}"
        self.temp.mkdir()
        event = {"pull_request": {"number": 5}} if pull_request else {}
        (self.temp / "event.json").write_text(json.dumps(event))
        assert set(inputs) <= set(ACTION["inputs"])
        assert all(one.get("default") is not None or one.get("required") for one in ACTION["inputs"].values())
        self.context: Values = {f"inputs.{key}": one.get("default", "") for key, one in ACTION["inputs"].items()}
        self.context |= {f"inputs.{key}": value for key, value in inputs.items()}
        self.context |= {"runner.temp": str(self.temp), "github.token": "the-token"}
        self.context["github.event.pull_request.number"] = "5" if pull_request else ""
        self.variables = {
            "GITHUB_REF": "refs/pull/5/merge" if pull_request else "refs/heads/main",
            "GITHUB_BASE_REF": "main" if pull_request else "",
            "GITHUB_RUN_ID": str(repository.run_id),
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_REPOSITORY": "owner/photos",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_EVENT_PATH": str(self.temp / "event.json"),
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary.md"),
            "GITHUB_ACTION_PATH": str(action),
        }
        self.log, self.report = "", ""

    def run(self, *, install: bool) -> Done:
        """Run the steps: after one that fails only those that say `always()`."""
        code = 0
        for step in ACTION["runs"]["steps"]:
            if not install and "install" in step.get("run", ""):
                continue  # the programs of the environment of the tests are on PATH
            condition = step.get("if", "true")
            if (code and "always()" not in condition) or not self.evaluate(condition):
                continue
            done = self.run_bash(step) if "run" in step else self.play(step)
            code = code or done
        outputs = {name: self.expand(one["value"]) for name, one in ACTION["outputs"].items()}
        summary = self.temp / "summary.md"
        return Done(code, self.log, summary.read_text() if summary.exists() else "", outputs, self.report)

    def run_bash(self, step: Mapping[str, Any]) -> int:
        output = self.temp / "output"
        output.write_text("")
        programs = self.repository.folder / "programs"
        self.write_gh(programs / "gh")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("BEHOLDER_", "GITHUB_"))}
        path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), inherited["PATH"]))
        environment = {**inherited, **self.variables, "GITHUB_OUTPUT": str(output), "PATH": path}
        environment |= self.repository.environment
        environment |= {name: self.expand(str(value)) for name, value in step.get("env", {}).items()}
        assert "${{" not in step["run"], "an expression in a script is an injection"
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command,
            cwd=self.repository.checkout,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.log += done.stdout
        for line in output.read_text().splitlines():
            key, _, value = line.partition("=")
            self.context[f"steps.{step.get('id')}.outputs.{key}"] = value
        return done.returncode

    def play(self, step: Mapping[str, Any]) -> int:
        name = step["uses"].partition("@")[0]
        given = {key: self.expand(str(value)) for key, value in step.get("with", {}).items()}
        if name == "actions/setup-python":
            self.context[f"steps.{step['id']}.outputs.python-path"] = sys.executable
        elif name == "actions/cache/save":
            if Path(given["path"]).exists():
                shutil.copyfile(given["path"], self.repository.folder / "cache" / given["key"])
        elif name == "actions/cache/restore":
            # The newest whose key begins so. Which cache is whose: by the branch, of which the key has the digest.
            found = list((self.repository.folder / "cache").glob(f"{given['restore-keys']}*"))
            if found:
                shutil.copyfile(max(found, key=lambda one: int(one.name.split("-")[-2])), given["path"])
        else:
            assert name == "actions/upload-artifact"
            self.report = Path(given["path"]).read_text("utf-8")
            self.context[f"steps.{step['id']}.outputs.artifact-url"] = ARTIFACT
        return 0

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
        folder = self.repository.folder
        text = GH.format(
            python=self.repository.python,
            store=str(self.repository.comments_file),
            calls=str(folder / "gh-calls.txt"),
            read_only=self.repository.read_only,
            comment=COMMENT,
        )
        file.write_text(text)
        file.chmod(0o755)
