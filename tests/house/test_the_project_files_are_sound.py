"""Workflows, issue forms, hooks and the changelog have their form, and the version stands in one place."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

import beholder

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
BIN = Path(sys.executable).parent


def load(path: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def steps_of(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in load(workflow)["jobs"].values() for step in job["steps"]]


def run(program: str, *words: str | Path) -> None:
    done = subprocess.run([BIN / program, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("vendor.github-issue-forms", FORMS),
        ("vendor.dependabot", [ROOT / ".github" / "dependabot.yml"]),
        ("vendor.github-issue-config", [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"]),
    ],
)
def test_files_for_github_fit_their_schema(schema: str, files: list[Path]) -> None:
    assert files
    run("check-jsonschema", "--builtin-schema", schema, *files)


def test_zizmor_finds_no_weakness_in_the_workflows() -> None:
    run("zizmor", "--offline", "--no-progress", "--persona", "pedantic", ROOT / ".github")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_and_keep_no_credentials(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text("utf-8"))
    assert used
    others = [line for line in used if line.split()[0] != "./"]  # which is our own, of the same commit
    assert [line for line in others if not re.fullmatch(r"[\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []
    checkouts = [step for step in steps_of(workflow) if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    assert load(workflow)["permissions"] == {"contents": "read"}


def test_one_commit_of_an_action_is_used_throughout() -> None:
    used = {line for workflow in WORKFLOWS for line in re.findall(r"uses: (\S+)", workflow.read_text("utf-8"))}
    assert len(used) == len({line.partition("@")[0] for line in used})


def test_ci_runs_targets_of_the_makefile_on_all_systems_and_pythons() -> None:
    ci = load(ROOT / ".github" / "workflows" / "ci.yml")
    commands = [step["run"] for step in steps_of(ROOT / ".github" / "workflows" / "ci.yml") if "run" in step]
    targets = {target for command in commands for target in re.findall(r"^make ([\w-]+)", command)}
    assert targets == {"check", "test", "test-fast", "demo"}
    assert len(commands) == 4
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets | {"dist"})
    pythons = ["3.11", "3.12", "3.13", "3.14"]
    assert ci["jobs"]["test"]["strategy"]["matrix"] == {"python": pythons}
    systems = ["macos-latest", "windows-latest"]
    assert ci["jobs"]["test-fast"]["strategy"]["matrix"] == {"os": systems, "python": pythons}


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize(("system", "folder"), [("Windows_NT", "Scripts"), ("", "bin")])
def test_make_finds_the_environment_on_every_system(system: str, folder: str) -> None:
    done = subprocess.run(["make", "-n", "check", f"OS={system}"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f".venv/{folder}/mypy" in done.stdout


def test_only_the_publishing_job_may_ask_for_a_token() -> None:
    jobs = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert {name: job.get("permissions") for name, job in jobs.items()} == {
        "build": None,
        "publish": {"id-token": "write"},
    }
    assert jobs["publish"]["environment"] == "pypi"
    assert not [step for step in jobs["publish"]["steps"] if "run" in step]


def test_hooks_are_the_tools_of_make_check() -> None:
    repos = load(ROOT / ".pre-commit-config.yaml")["repos"]
    hooks = [hook for repo in repos for hook in repo["hooks"]]
    assert {hook["id"] for hook in hooks} == {"ruff", "ruff-format", "mypy", "check-yaml"}
    for repo in repos:
        assert repo["repo"] == "local" or repo["rev"]
    for hook in hooks:
        if hook.get("language") == "system":
            assert shutil.which(hook["entry"].split()[0], path=BIN)


def test_every_yaml_file_can_be_read() -> None:
    [hook] = [
        hook
        for repo in load(ROOT / ".pre-commit-config.yaml")["repos"]
        for hook in repo["hooks"]
        if hook["id"] == "check-yaml"
    ]
    listed = subprocess.run(["git", "ls-files", "-z", "*.yml", "*.yaml"], cwd=ROOT, capture_output=True, text=True)
    names = [name for name in listed.stdout.split("\0") if name and not re.search(hook["exclude"], name)]
    assert len(names) > 20
    for path in (ROOT / name for name in names):
        assert not path.is_file() or yaml.safe_load(path.read_text("utf-8"))


def sections() -> list[tuple[str, str, str]]:
    """The versions of the changelog, newest first: name, date and text."""
    parts = re.split(r"^## ", CHANGELOG.partition("\n[Unreleased]: ")[0], flags=re.MULTILINE)[1:]
    found = [re.fullmatch(r"\[([^\]]+)\](?: - (\S+))?\n(.*)", part, re.DOTALL) for part in parts]
    return [(match[1], match[2] or "", match[3]) for match in found if match] if all(found) else []


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    names = [name for name, _, _ in sections()]
    assert names[0] == "Unreleased"
    assert names[1:] == sorted(names[1:], key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    for name, day, text in sections():
        assert (name == "Unreleased") == (day == ""), name
        assert not day or date.fromisoformat(day)
        headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
        assert set(headings) <= KINDS
        assert len(set(headings)) == len(headings)
        assert name == "Unreleased" or headings
        assert re.search(rf"^\[{re.escape(name)}\]: \S+$", CHANGELOG, re.MULTILINE), f"{name} has no link"


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "beholder.__version__"}
    assert version("beholder") == beholder.__version__
    assert sections()[1][0] == beholder.__version__
    source = (ROOT / "src" / "beholder").rglob("*.py")
    assert [path.name for path in source if f'"{beholder.__version__}"' in path.read_text("utf-8")] == ["__init__.py"]


def test_every_file_of_the_package_is_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    source = ROOT / "src" / "beholder"
    patterns = project["tool"]["setuptools"]["package-data"]["beholder"]
    packed = {path for pattern in patterns for path in source.glob(pattern)}
    files = {path for path in source.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert sorted(files - packed) == []
    assert all((path / "__init__.py").exists() for path in {module.parent for module in source.rglob("*.py")})


def test_every_test_that_a_page_names_is_there() -> None:
    for page in ("CONTRIBUTING.md", "SECURITY.md"):
        text = (ROOT / page).read_text("utf-8")
        named = re.findall(r"`((?:tests|src|docs)/[\w./-]+)`", text)
        assert named
        assert [path for path in named if not (ROOT / path).exists()] == []
