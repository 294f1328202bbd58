"""Promise: what people and programs call, write and read by name keeps its name.

Commands, flags and defaults; keys of `suite.yaml`, `rubric.yaml` and style files; tables and indexes of the ledger;
names of instruments, rubrics and plug-ins; columns of exports; keys of every JSON output and of the HTML report; exit
codes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sqlite3
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import pytest
import typer.core
import yaml
from support.golden import (
    EDITED,
    EXAMPLES,
    FILES,
    MODELS,
    PHOTO,
    PLACES,
    Fault,
    Json,
    answer_to,
    beholder,
    brief,
    check,
    digest,
    short,
    wiretap,
)

LEDGER = ("--ledger", "golden.db")
CRITERIA = re.compile(
    "unchanged_regions|global_consistency|identity_preservation|scale_realism|spatial_relationship|texture_and_detail|"
    "image_quality|color_and_lighting|seamlessness|alignment|completeness|plausibility"
)


@pytest.fixture
def golden_ledger() -> None:
    Path("golden.db").write_bytes(gzip.decompress((FILES / "ledger" / "golden.db.gz").read_bytes()))
    for source in (FILES / "ledger").glob("*.*l"):
        Path(source.name).write_bytes(source.read_bytes())


def keys(value: Json) -> dict[str, str]:
    """The keys of JSON values, without the values: by each one at the top those below it."""
    found: dict[str, set[str]] = {}
    for path in _paths(value):
        first, _, rest = path.partition(".")
        found.setdefault(first, set()).update([rest] if rest else [])
    return {first: " ".join(sorted(rest)) for first, rest in found.items()}


def _paths(value: Json) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _paths(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            name = CRITERIA.sub("CRITERION", str(key)).replace(".", "·")
            yield name
            yield from (f"{name}.{path}" for path in _paths(one))


def test_commands_and_flags() -> None:
    groups: list[Any] = []

    def taken(self: Any, *_: object, **__: object) -> None:
        groups.append(self)

    with mock.patch.object(typer.core.TyperGroup, "main", taken):
        beholder("--help")
    found: dict[str, Json] = {}

    def walk(command: Any, name: str) -> None:
        found[name] = [_parameter(one) for one in command.params]
        for inner, one in getattr(command, "commands", {}).items():
            walk(one, f"{name} {inner}")

    walk(groups[0], "beholder")
    check("commands", found)


def _parameter(one: Any) -> str:
    """An option or argument on one line: its names, its type, and what holds where it is not given."""
    names = "/".join([*one.opts, *one.secondary_opts])
    kind = "flag" if getattr(one, "is_flag", False) else one.type.name
    marks = [word for word, here in (("required", one.required), ("again and again", one.multiple)) if here]
    marks += [f"from {one.envvar}"] if one.envvar else []
    default = (
        one.default if isinstance(one.default, str | int | float | bool | None | list | tuple) else str(one.default)
    )
    return " ".join(
        [one.param_type_name, names, kind, *([] if default is None else [f"default {json.dumps(default)}"]), *marks]
    )


def test_keys_of_suites_rubrics_and_styles() -> None:
    schema = json.loads(beholder("init", "--schema").out)
    found: dict[str, Json] = {
        name: {key: _kind(one) for key, one in kind["properties"].items()} for name, kind in schema["$defs"].items()
    }
    by_keys = {" ".join(sorted(one)): one for one in found.values()}  # the classes behind them may have other names
    names = [*beholder("rubrics", "--json").lines[0]]
    shown = [beholder("rubrics", "show", one, "--json").lines[0] for one in ("restyle", FILES / "rubric")]
    check(
        "keys_of_files",
        {
            "suite.yaml": by_keys,
            "rubrics": names,
            "rubric.yaml, read": keys(shown),
            "rubric.yaml, written": keys(yaml.safe_load((FILES / "rubric" / "rubric.yaml").read_text("utf-8"))),
            "checked": [beholder("rubrics", "check", FILES / "rubric", "--json").lines[0]["problems"]],
            "style": keys(beholder("styles", "show", "Felt", "--styles", FILES / "styles", "--json").lines[0]),
            "rubrics as they are read": {
                one: [digest(json.dumps(part, sort_keys=True))[:24] for part in _shown(one)] for one in names
            },
        },
    )


def _shown(rubric: str) -> list[Json]:
    return beholder("rubrics", "show", rubric, "--json").lines


def _kind(schema: Json) -> str:
    """What a key takes, without the words about it."""
    plain = {key: one for key, one in schema.items() if key not in ("description", "$ref")}
    return json.dumps(plain, sort_keys=True)


def test_a_key_that_nobody_knows_is_refused() -> None:
    Path("cases.jsonl").write_text("", "utf-8")
    Path("suite.yaml").write_text("rubric: restyle\ncases: cases.jsonl\njudgs: [x]\n", "utf-8")
    Path("rubric.yaml").write_text("rubric: mine\ncritera: []\n", "utf-8")
    assert "judgs" in beholder("plan", "suite.yaml", code=2).err
    assert "critera" in beholder("rubrics", "check", "rubric.yaml", code=2).out


@pytest.mark.usefixtures("golden_ledger")
def test_tables_of_the_ledger() -> None:
    """A ledger that is made now has the same tables as one of commit 4a0e41e that was upgraded."""
    words = ("--rubric", "description", "--cases", "one.jsonl", "--ledger", "new.db")
    row = {"id": "d", "image": PHOTO, "input": "What?", "output": "A house.", "expected_output": "A house."}
    Path("one.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    beholder("run", *words, "--no-thumbnails", "--quiet")
    beholder("runs", *LEDGER)
    found = {}
    for file in ("new.db", "golden.db"):
        connection = sqlite3.connect(file)
        found[file] = {
            "tables": {
                name: " ".join(sql.split())
                for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
                if not name.startswith("case_words_")  # FTS5's own, which is SQLite's business
            },
            "meta": dict(connection.execute("SELECT key, value FROM meta").fetchall()),
            "pragmas": [
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("user_version", "application_id", "page_size", "auto_vacuum", "encoding", "journal_mode")
            ],
        }
        connection.close()
    assert found["new.db"] == found["golden.db"]
    check("tables", found["new.db"])


def test_names_of_instruments_and_plug_ins() -> None:
    pair = [EXAMPLES / "demo" / name for name in ("before.png", "after.png")]
    measured = json.loads(beholder("measure", *pair, "--json").out)["measurements"]
    said = ("--set", "input=What?", "--set", "output=A red car.", "--set", "expected_output=A red car and a house.")
    texts = beholder("judge", "description", pair[0], *said, "--json", code=None).lines[0]["measurements"]
    check(
        "instruments",
        {
            "of images": {name: f"{one['unit']}, {one['better']}" for name, one in measured.items()},
            "of texts": sorted(texts),
            "plug-ins": {
                group: sorted(one.name for one in entry_points(group=f"beholder.{group}") if "plugin" not in one.value)
                for group in ("judges", "instruments", "rubrics", "styles")
            },
        },
    )


@pytest.mark.usefixtures("golden_ledger")
def test_exports() -> None:
    polars = pytest.importorskip("polars")
    beholder("export", "golden-jury", "--to", "parquet", "-o", "all.parquet", *LEDGER)
    frame = polars.read_parquet("all.parquet")
    found: dict[str, Json] = {"parquet": ", ".join(f"{name} {kind}" for name, kind in frame.schema.items())}
    for run in ("golden-live", "golden-jury"):
        text = beholder("export", run, *LEDGER).out
        found[f"csv of {run}"] = " ".join(next(csv.reader(io.StringIO(text))))
        found[f"csv of {run}, cells"] = short(text)
        found[f"jsonl of {run}"] = keys(beholder("export", run, "--to", "jsonl", *LEDGER).lines)
    people = beholder("export", "golden-live", "--calibration", FILES / "people.json", "--anyway", *LEDGER, code=None)
    found["csv with a calibration"] = {"code": people.code, "columns": people.out.partition("\n")[0]}
    found["ratings"] = beholder("ratings", "export", "golden-live", *LEDGER).out.splitlines()[0]
    check("exports", found)


@pytest.mark.usefixtures("golden_ledger")
def test_keys_of_json_outputs() -> None:
    foreign = EXAMPLES / "foreign-judge"
    priced = ("--price-input", "1", "--price-output", "2")
    commands: dict[str, tuple[str | Path, ...]] = {
        "runs": ("runs", *LEDGER),
        "show": ("show", "golden-live", *LEDGER),
        "show a case": ("show", "golden-live", "c1", *LEDGER),
        "show by group": ("show", "golden-live", "--by", "source", *LEDGER),
        "compare": ("compare", "golden-live", "golden-batch", *LEDGER),
        "history": ("history", "golden-live", *LEDGER),
        "plan": ("plan", "suite-live.yaml", *priced),
        "agree": ("agree", "golden-live", "--ratings", "ratings.csv", *LEDGER),
        "estimate": ("estimate", "golden-live", "--ratings", "ratings.csv", *LEDGER),
        "doctor": ("doctor", *LEDGER),
        "styles": ("styles",),
        "check": ("rubrics", "check", foreign),
    }
    Path("ratings.csv").write_text(
        "case,rater,aspect,score\nc1,a,unchanged_regions,5\nc3,a,unchanged_regions,2\n", "utf-8"
    )
    found = {}
    for what, words in commands.items():
        done = beholder(*words, "--json", code=None)
        text = done.out.strip()
        values = [json.loads(line) for line in text.splitlines()] if _is_lines(text) else json.loads(text or "null")
        found[what] = {"code": done.code if what != "doctor" else None, "keys": keys(values)}
    [plan] = [json.loads(beholder("plan", "suite-live.yaml", *priced, "--json", code=None).out)]
    found["plan in numbers"] = {key: one for key, one in plan.items() if key not in ("example", "brief", "run")}
    check("json_outputs", found)


def _is_lines(text: str) -> bool:
    try:
        json.loads(text.splitlines()[0] if text else "x")
    except ValueError:
        return False
    return len(text.splitlines()) > 1


@pytest.mark.usefixtures("golden_ledger")
def test_reports() -> None:
    beholder("report", "golden-live", "-o", "run.html", *LEDGER)
    page = Path("run.html").read_text("utf-8")
    blocks = re.findall(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', page, re.DOTALL)
    found: dict[str, Json] = {f"html {name}": _block(text) for name, text in blocks}
    markdown = beholder("report", "golden-live", "--format", "md", "-o", "-", *LEDGER).out
    found["markdown"] = [line for line in markdown.splitlines() if line.startswith(("#", "|"))][:8]
    junit = beholder("report", "golden-live", "--format", "junit", "-o", "-", *LEDGER, code=None).out
    found["junit"] = [f"{one.tag} {sorted(one.attrib)}" for one in ElementTree.fromstring(junit).iter()]
    check("reports", found)


def _block(text: str) -> Json:
    """The keys of a block of the page, which is JSON, or JSON a line."""
    try:
        return keys(json.loads(text))
    except ValueError:
        return keys([json.loads(line) for line in text.splitlines() if line.strip()])


@pytest.mark.usefixtures("golden_ledger")
def test_exit_codes() -> None:
    edit = ("judge", "edit-preservation", PHOTO, EDITED, "--set", "instruction=x", "--no-audit")
    here = ("--judge", MODELS["openai"], "--base-url", PLACES["openai"])
    good = answer_to(brief(*edit[1:])["schema"])
    found: dict[str, int] = {}
    with wiretap() as tap:
        for what, words, reply in (
            ("scored", edit, good),
            ("below --fail-under", (*edit, "--fail-under", "99"), good),
            ("below --threshold", (*edit, "--threshold", "0.99"), good),
            ("refused", edit, Fault.refusal("no")),
            ("wrong key", edit, Fault.bad_key()),
        ):
            tap.say(reply)
            found[what] = beholder(*words, *here, code=None).code
    for what, command in {
        "no such command": "nothing",
        "no such flag": "runs --nothing",
        "no arguments": "",
        "help": "--help",
        "version": "--version",
        "no such rubric": "rubrics show nothing",
        "no such file": "score nothing.jsonl --rubric restyle",
        "no such run": "show nothing --ledger golden.db",
        "no such ledger": "runs --ledger nothing.db",
        "no such judge": f"judge description {PHOTO} --set input=a --set output=b --judge nothing:x",
        "below a mean": "run suite-live.yaml --only c1 --fail-under unchanged_regions=7.5 --judge instruments --quiet",
        "few may have no score": "run suite-live.yaml --judge instruments --no-thumbnails --quiet --max-unscored 6",
        "nothing to collect": "collect suite-live.yaml",
        "comparison without a gate": "compare golden-live golden-batch --ledger golden.db",
        "comparison with a gate": "compare golden-live golden-batch --ledger golden.db --fail-on regression",
        "ledger that is sound": "ledger check --ledger golden.db",
    }.items():
        found[what] = beholder(*command.split(), code=None).code
    check("exit_codes", found)
