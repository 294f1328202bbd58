"""Every flag of a command is an argument of the same name in Python, or docs/api.md says what it is there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import typer

import beholder
from beholder.cli.app import app
from beholder.integrations.mcp import serve
from beholder.integrations.trackers import log_run
from beholder.runs.suite_file import KEYS_OF_FLAGS, JudgeEntry, Limits, SuiteFile

GUIDE = Path(beholder.__file__).parents[2] / "docs" / "api.md"
OPTIONS = {one.name for one in fields(beholder.Options)}
OPTION_WORDS = OPTIONS | {flag for flag, key in KEYS_OF_FLAGS.items() if key in OPTIONS}
SUITE = {*SuiteFile.__struct_fields__, *Limits.__struct_fields__, *JudgeEntry.__struct_fields__, *KEYS_OF_FLAGS}
TRUST = {"trust_suite", "allow_http_key"}
FUNCTIONS: dict[str, tuple[Callable[..., object], set[str]]] = {
    "judge": (beholder.judge, {*OPTION_WORDS, *inspect.signature(beholder.Session).parameters}),
    "run": (beholder.run, SUITE | TRUST),
    "plan": (beholder.plan, SUITE | TRUST),
    "collect": (beholder.collect, SUITE | TRUST),
    "qualify": (beholder.qualify, SUITE | TRUST),
    "score": (beholder.score, set()),
    "measure": (beholder.measure, set()),
    "doctor": (beholder.doctor, set()),
    "agree": (beholder.agree, set()),
    "compare": (beholder.compare, set()),
    "calibrate": (beholder.calibrate, set()),
    "estimate": (beholder.estimate, set()),
    "history": (beholder.history, set()),
    "report": (beholder.Run.report, set()),
    "export": (beholder.Run.export, set()),
    "log": (log_run, set()),
    "view": (beholder.view, set()),
    "demo": (beholder.build_demo, set()),
    "init": (beholder.init, set()),
    "mcp": (serve, OPTION_WORDS),
    "arena run": (beholder.run_arena, SUITE | TRUST),
    "arena show": (beholder.show_arena, set()),
    "arena fit": (beholder.fit_arena, set()),
    "arena plan": (beholder.plan_arena, SUITE | TRUST),
    "arena agree": (beholder.agree_arena, set()),
    "arena estimate": (beholder.estimate_arena, set()),
}


def other_names() -> Iterator[tuple[str, str]]:
    """The flags that are no argument of their function, each with its command. `with_` is the argument of `--with`."""
    group = typer.main.get_command(app)
    commands = getattr(group, "commands")  # noqa: B009  # click's own type is not typer's
    for name, (function, more) in FUNCTIONS.items():
        known = {*inspect.signature(function).parameters} | more
        command, _, inner = name.partition(" ")
        found = commands[command].commands[inner] if inner else commands[command]
        for option in found.params:
            flag = max(option.opts, key=len)
            word = flag.lstrip("-").replace("-", "_")
            if flag.startswith("--") and flag != "--help" and not {word, f"{word}_"} & known:
                yield name, flag


def listed_names() -> set[tuple[str, str]]:
    """The rows of the table "Flags that are something else in Python"."""
    section = GUIDE.read_text("utf-8").partition("### Flags that are something else in Python")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (`--[^|]*) \| ([^|]*) \|", section, re.MULTILINE)
    return {
        (command, flag)
        for flags, commands in rows
        for flag in re.findall(r"`(--[\w-]+)`", flags)
        for command in re.findall(r"`([\w ]+)`", commands)
    }


def test_the_guide_lists_every_flag_that_is_something_else_in_python_and_no_other() -> None:
    assert sorted(other_names()) == sorted(listed_names())


def test_every_command_that_python_has_is_compared() -> None:
    group = typer.main.get_command(app)
    # Methods of Run and Ledger, and functions by name.
    subgroups = {"runs", "ledger", "ratings", "rubrics", "styles", "grade"}
    compared = {name.partition(" ")[0] for name in FUNCTIONS}
    assert {*getattr(group, "commands")} - subgroups - compared == {"show"}  # noqa: B009
