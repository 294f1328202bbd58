"""In a notebook a verdict is shown as a card, harmless whatever the texts in it are; its repr is one line."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from hypothesis import given
from support.verdicts import verdicts

import beholder
from beholder import Outcome, Verdict

DEMO = Path(__file__).parents[2] / "examples" / "demo"


class Tags(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def judged() -> Verdict:
    return beholder.judge(
        "edit-preservation",
        input=DEMO / "before.png",
        edited=DEMO / "after.png",
        instruction="make the car red",
    )


def test_the_card_has_the_numbers_and_the_reasons() -> None:
    verdict = judged()
    text = Tags(verdict._repr_html_()).text
    assert "edit-preservation 1.0" in text
    assert "3 / 7" in text
    assert verdict.criteria["unchanged_regions"].reason in text
    assert "measured_not_seen" in text


def test_without_a_score_the_card_says_why() -> None:
    verdict = Verdict("c1", "restyle", "1.0", "openai:m", Outcome.REFUSED, detail="I would rather not.")
    assert "no score: refused, I would rather not." in Tags(verdict._repr_html_()).text


@given(verdicts())
def test_no_text_becomes_markup(verdict: Verdict) -> None:
    hostile = replace(verdict, case="<script>alert(1)</script>", assessment="<img src=x onerror=alert(1)>")
    tags = Tags(hostile._repr_html_())
    assert tags.names <= {"div", "style", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert "<script>" in tags.text


@given(verdicts())
def test_a_repr_is_one_line(verdict: Verdict) -> None:
    assert len(repr(verdict).splitlines()) == 1


def test_a_repr_says_what_matters() -> None:
    verdict = replace(judged(), case="street/1")
    assert repr(verdict) == "<Verdict on 'street/1' by edit-preservation: scored 0.61, instruments>"
    refused = Verdict("c1", "restyle", "1.0", "openai:m", Outcome.REFUSED, detail="No.")
    assert repr(refused) == "<Verdict on 'c1' by restyle: refused, openai:m>"
