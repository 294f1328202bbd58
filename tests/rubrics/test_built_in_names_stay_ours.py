"""No plug-in takes over a name that is built in, unless its user says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from beholder.rubrics.load import check_overrides

PLUGIN = """
from dataclasses import replace
from pathlib import Path
from beholder.instruments.instrument import Instrument, Measurement
from beholder.providers import openai
PROVIDER = replace(openai.PROVIDER, base_url="https://evil.example/v1")
INSTRUMENTS = (Instrument("colour.mine", "How red it is.", lambda pair: Measurement("colour.mine", 1.0)),)
rubrics = Path(__file__).parent / "rubrics"
styles = Path(__file__).parent / "styles"
"""
POINTS = """
[beholder.judges]
openai = evil_plugin:PROVIDER
[beholder.instruments]
colour = evil_plugin:INSTRUMENTS
[beholder.rubrics]
builtin = evil_plugin:rubrics
[beholder.styles]
builtin = evil_plugin:styles
"""
SHOW = """
import logging, sys
logging.basicConfig()
sys.path.insert(0, sys.argv[1])
from beholder.instruments.registry import list_instruments
from beholder.judges.factory import load_plugin, load_plugins
from beholder.rubrics.load import find_style, load_rubric, load_styles
print(load_plugin("openai").base_url, len(load_plugins()))
print([one.name for one in list_instruments() if one.name.startswith("colour.")][0])
print(load_rubric("description").summary)
print(load_styles()["Anime"].description, "|", find_style("Manga").description, "|", find_style("Woodcut").description)
print(load_rubric("sharp").summary)
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """An installed package that registers names of ours, and some of its own."""
    (tmp_path / "evil_plugin.py").write_text(PLUGIN, "utf-8")
    for name in ("description", "sharp"):
        (tmp_path / "rubrics" / name).mkdir(parents=True)
        text = (
            f"rubric: {name}\nsummary: evil\nimages: [{{role: photo, label: Photo}}]\ncriteria: [{{key: sharpness}}]\n"
        )
        (tmp_path / "rubrics" / name / "rubric.yaml").write_text(text, "utf-8")
    (tmp_path / "styles").mkdir()
    for name, alias in (("Anime", "Manga"), ("Woodcut", "Manga")):
        text = f"style: {name}\naliases: [{alias}]\ndescription: evil\nassertions: {{accuracy: ['Is it?']}}\n"
        (tmp_path / "styles" / f"{name.lower()}.yaml").write_text(text, "utf-8")
    info = tmp_path / "evil_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil-plugin\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(POINTS, "utf-8")
    return tmp_path


def shown(plugin: Path, override: str = "") -> tuple[list[str], str]:
    variables = {**os.environ, "BEHOLDER_OVERRIDE": override}
    done = subprocess.run(
        [sys.executable, "-c", SHOW, str(plugin)], env=variables, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize(
    ("given", "hint"),
    [("opena", "'opena' that a plug-in could replace; did you mean 'openai'?"), ("zzz", "there are ")],
)
def test_what_is_not_built_in_cannot_be_replaced(given: str, hint: str) -> None:
    words = [sys.executable, "-m", "beholder", "--override", given, "rubrics"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr


def test_what_is_built_in_is_known() -> None:
    check_overrides(["openai", "description", "colour", "Anime", "openai, google"])


def test_ours_are_used_and_its_own_are_found(plugin: Path) -> None:
    (judge, instrument, rubric, styles, own), said = shown(plugin)
    assert judge == "https://api.openai.com/v1 3"
    assert instrument != "colour.mine"
    assert rubric != "evil"
    anime, manga, woodcut = styles.split(" | ")
    assert "evil" not in (anime, manga)
    assert (woodcut, own) == ("evil", "evil")
    for name in ("openai", "colour", "description"):
        assert said.count(f"would replace '{name}', which is built in, and is left out") == 1


def test_whoever_names_it_gets_it(plugin: Path) -> None:
    (judge, instrument, rubric, styles, _), said = shown(plugin, "openai, colour,description,Anime")
    assert judge == "https://evil.example/v1 3"
    assert (instrument, rubric) == ("colour.mine", "evil")
    assert styles.startswith("evil | evil")
    assert said == ""


@pytest.mark.parametrize("flags", [[], ["--override", "description"]])
def test_the_command_has_a_flag(plugin: Path, flags: list[str]) -> None:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(plugin), *sys.path])}
    words = [sys.executable, "-m", "beholder", *flags, "rubrics", "show", "description", "--json"]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=True)
    assert ('"summary": "evil"' in done.stdout) == bool(flags)
    assert ("--override description" in done.stderr) != bool(flags)
