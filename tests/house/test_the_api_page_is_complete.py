"""Every public name is explained on the API page and has its signature in the reference; links between pages work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

import beholder
from beholder.cli.app import app

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "api.md").read_text("utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text("utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("name", sorted(beholder.__all__))
def test_a_name_is_explained_in_the_guide(name: str) -> None:
    assert re.search(rf"`(?:beholder\.)?{name}\b", GUIDE), f"docs/api.md says nothing of {name}"


@pytest.mark.parametrize("name", sorted(beholder.__all__))
def test_a_name_has_its_place_in_the_reference(name: str) -> None:
    assert f"\n### {name}\n" in REFERENCE


def test_every_command_has_its_row_in_the_guide() -> None:
    commands = typer.main.get_command(app)
    assert isinstance(commands, TyperGroup)
    rows = re.findall(r"^\| (`beholder .*?) \|", GUIDE, re.MULTILINE)
    named = {name.removeprefix("beholder ") for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert named == set(commands.commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_to_a_file(page: Path) -> None:
    # ../../ leads from a page to the other pages that GitHub has of a repository.
    links = re.findall(r"\]\((?!https?://|#|mailto:|\.\./\.\./)([^)#\s]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
