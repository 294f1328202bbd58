"""A report is one file that asks for nothing from elsewhere, and nothing in it that others wrote is ever markup."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.ledger import run_record
from support.reports import RUN, Opened, ledger_with, restyle, told, written

from beholder.reports.text import escape_hidden, script_json
from beholder.verdicts.verdict import AssertionResult, Correction, CriterionResult, Flag, Juror, Jury, Outcome

EVIL = [
    "</script><script>window.harmed = 1</script>",
    "<!--<script>",
    '"><img src=x onerror="window.harmed = 2">',
    "'><svg onload=window.harmed=3>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:window.harmed=4",
    "\u202egnp.exe\u2066",
    "&lt;b&gt;&amp;",
    "a\x00b\x1b[31m\r\nc",
    "\ud800",
]


class Elements(HTMLParser):
    """Every element with its attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._in = tag if tag in self.texts else ""
        if self._in:
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in:
            self.texts[self._in][-1] += data


def evil_verdict(number: int) -> Any:
    bad = EVIL[number % len(EVIL)]
    # A rubric's keys and ids are checked when it is loaded; a verdict may still carry anything.
    criteria = {
        f"accuracy {bad}": CriterionResult(
            2, 5, (1, 5), 1, bad, 0, 1, 0, (AssertionResult(f"A1 {bad}", bad, "no", f"{bad} seen"),)
        )
    }
    return restyle(
        number,
        case=f"{number} {bad}",
        style=bad,
        grade=bad,
        model=bad,
        judge=f"judge {bad}",
        criteria=criteria,
        findings={f"strengths {bad}": (bad,)},
        assessment=bad,
        flags=(Flag(f"flag {bad}", bad, bad, bad),),
        corrections=(Correction(bad, bad, bad, bad),),
        measurements={bad: {"value": 1, "unit": bad, "sentence": bad}},
    )


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evil")
    entries = []
    for number in range(2 * len(EVIL)):
        one = told(number, evil_verdict(number))
        groups = {"source": str(number // 2), f"group {EVIL[0]}": EVIL[number % 2], "model": EVIL[2]}
        fields = {"style": EVIL[number % len(EVIL)], EVIL[1]: EVIL[2]}
        entries.append(replace(one, case=replace(one.case, groups=groups, fields=fields)))
    rubric = {
        "rubric": EVIL[0],
        "title": EVIL[2],
        "summary": EVIL[0],
        "criteria": [{"key": "accuracy", "title": EVIL[3]}],
    }
    record = run_record(RUN, name=EVIL[0], tags=(EVIL[2],), rubrics=(rubric,), versions={"beholder": EVIL[0]})
    with ledger_with(folder / "ledger.db", entries, record) as ledger:
        return written(ledger, folder / "evil.html")


def test_nothing_in_it_is_loaded_from_elsewhere(report: Path) -> None:
    text = report.read_text("utf-8")
    elements = Elements(text)
    for tag, attributes in elements.found:
        assert not attributes.keys() & {"src", "srcset", "action", "data", "style", "background"}, tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert str(attributes.get("href", "#")).startswith("#"), attributes
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
    assert "@import" not in elements.texts["style"][0]
    assert "url(" not in elements.texts["style"][0]


def test_its_policy_lets_only_its_own_style_and_script_work(report: Path) -> None:
    elements = Elements(report.read_text("utf-8"))
    policy = next(attributes["content"] for tag, attributes in elements.found if attributes.get("http-equiv"))
    scripts = [attributes for tag, attributes in elements.found if tag == "script"]
    assert [one["type"] for one in scripts[:-1]] == ["application/json"] * (len(scripts) - 1)
    assert scripts[-1] == {"type": "module"}
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data: blob:;")
    for name, kind in (("script", "script-src"), ("style", "style-src")):
        digest = base64.b64encode(hashlib.sha256(elements.texts[name][-1].encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}';" in policy
    assert "unsafe" not in policy


def test_hostile_names_and_texts_make_no_element(report: Path, evil: Path) -> None:
    usual, hostile = (Elements(path.read_text("utf-8")) for path in (report, evil))
    assert {tag for tag, _ in hostile.found} <= {tag for tag, _ in usual.found}
    for tag, attributes in hostile.found:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "style")], (tag, attributes)
    for script in hostile.texts["script"][:-1]:
        json.loads(script)
    assert hostile.texts["script"][-1] == usual.texts["script"][-1]


def test_what_hides_or_reorders_letters_is_written_out(evil: Path) -> None:
    text = evil.read_text("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text.replace("\n", ""))
    assert "\\\\u202egnp.exe" in text  # in JSON the backslash is doubled
    assert escape_hidden("\u202egnp.exe") == "\\u202egnp.exe"
    assert escape_hidden("half \ud800 a pair") == "half \\ud800 a pair"
    assert (
        escape_hidden("family \U0001f468\u200d\U0001f469 & ümlaut\n") == "family \U0001f468\u200d\U0001f469 & ümlaut\n"
    )


@pytest.mark.parametrize("text", EVIL[:5])
def test_json_in_a_script_cannot_end_it(text: str) -> None:
    assert "<" not in script_json({text: [text]})
    assert json.loads(script_json({text: [text]})) == {text: [text]}


def test_hostile_texts_do_nothing_in_a_browser(evil: Path, opened: Opened) -> None:
    page = opened(evil)
    assert page.locator(".card").count() == 2 * len(EVIL)
    for number in range(len(EVIL)):
        page.evaluate(f"location.hash = 'case={number}'")
        page.wait_for_selector("dialog.case[open]")
        for fold in page.locator("dialog.case summary").all():
            fold.click()
        assert page.locator("dialog.case img:not(.cv-image), dialog.case svg, dialog.case script").count() == 0
    assert page.evaluate("window.harmed") is None
    assert "</script><script>window.harmed" in "".join(page.locator(".card .name").all_text_contents())


def test_the_same_run_gives_the_same_bytes_and_names_no_place(tmp_path: Path) -> None:
    jurors = tuple(Juror(f"judge-{at}", at, Outcome.SCORED, 0.5, model=f"model-{at}") for at in range(5))
    jury = Jury(5, 0, {}, None, jurors)
    entries = [told(number, restyle(number, jury=jury)) for number in range(6)]
    ledger_with(tmp_path / "ledger.db", entries).close()
    pages = []
    for seed in ("1", "2"):
        words = [sys.executable, "-m", "beholder", "report", RUN, "-o", f"{seed}.html", "--ledger", "ledger.db"]
        subprocess.run(words, cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True)
        pages.append((tmp_path / f"{seed}.html").read_bytes())
    assert pages[0] == pages[1]
    assert str(tmp_path).encode() not in pages[0]
    assert b"/data/photos" not in pages[0]
