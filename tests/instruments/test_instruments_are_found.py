"""Instruments are found by entry point, ours and those of plugins; a broken plugin is one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.instruments import photo

from beholder.errors import UsageError
from beholder.instruments.pair import ImagePair
from beholder.instruments.registry import list_instruments, measure_pair

PLUGIN = """
from beholder.instruments.instrument import Instrument, Measurement
def measure(pair):
    return Measurement("mine.red", float(pair.after[..., 0].mean()), sentence="So red.")
MINE = (Instrument("mine.red", "How red it is.", measure),)
TWICE = (Instrument("colour.palette", "How red it is.", measure),)
"""
SHOW = """
import numpy as np
from beholder.errors import SetupError
from beholder.instruments.pair import ImagePair
from beholder.instruments.registry import list_instruments, measure_pair
try:
    print(list_instruments()[0].name, list_instruments()[-1].name, end=" ")
    image = np.full((8, 8, 3), 7, np.uint8)
    print(measure_pair(ImagePair(image, image), ["mine"])["mine.red"].value)
except SetupError as error:
    print(error)
"""


def installed(folder: Path, code: str, points: str) -> str:
    """What a process says that finds a package named plugin."""
    (folder / "plugin.py").write_text(code, "utf-8")
    info = folder / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[beholder.instruments]\n{points}\n", "utf-8")
    return _ran(folder, SHOW)


def _said(folder: Path, code: str, points: str, show: str) -> str:
    installed(folder, code, points)
    return _ran(folder, show)


def _ran(folder: Path, show: str) -> str:
    code = f"import sys; sys.path.insert(0, {str(folder)!r})\n{show}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_ours_register_the_same_way() -> None:
    families = {one.name.partition(".")[0] for one in list_instruments()}
    assert {"geometry", "colour", "structure", "locality"} <= families


def test_names_are_unique_and_in_a_stable_order() -> None:
    names = [one.name for one in list_instruments()]
    assert len(set(names)) == len(names)
    assert names[0] == "geometry.size"
    order = list(dict.fromkeys(name.partition(".")[0] for name in names))
    assert order[:4] == ["geometry", "colour", "structure", "locality"]


def test_a_plugin_adds_one(tmp_path: Path) -> None:
    assert installed(tmp_path, PLUGIN, "mine = plugin:MINE") == "geometry.size mine.red 7.0\n"


@pytest.mark.parametrize(
    ("code", "point", "said"),
    [
        (
            "raise RuntimeError('no\\nluck')",
            "plugin:MINE",
            "cannot be loaded: RuntimeError: no luck. Mend or uninstall",
        ),
        ("", "plugin:MINE", "cannot be loaded: AttributeError"),
        ("MINE = 7", "plugin:MINE", "cannot be loaded: TypeError"),
        ("MINE = ('red',)", "plugin:MINE", "must be a tuple of Instruments"),
        (PLUGIN, "plugin:TWICE", "brings 'colour.palette'; its names must be broken.SOMETHING, each once."),
    ],
)
def test_a_broken_plugin_is_one_sentence(tmp_path: Path, code: str, point: str, said: str) -> None:
    out = installed(tmp_path, code, f"broken = {point}")
    assert out.startswith(f"The plugin 'broken' of beholder.instruments ({point}) ")
    assert said in out
    assert out.count("\n") == 1


def test_a_choice_by_name_or_family() -> None:
    pair = ImagePair(photo(), photo())
    assert list(measure_pair(pair, ["colour.cast", "colour.palette"])) == ["colour.palette", "colour.cast"]
    assert all(name.startswith("geometry.") for name in measure_pair(pair, ["geometry"]))
    assert measure_pair(pair, []) == {}
    with pytest.raises(UsageError, match=r"No pair instrument is named 'colour\.nothing'; there are .*colour\.palette"):
        measure_pair(pair, ["colour.nothing"])


def test_cheap_ones_are_some_of_all() -> None:
    pair = ImagePair(photo(), photo())
    cheap, everything = measure_pair(pair, cheap_only=True), measure_pair(pair)
    assert set(cheap) < set(everything)
    assert {"locality.leakage", "colour.noticeable", "structure.ssim", "geometry.confidence"} <= set(cheap)


def test_a_broken_plugin_stops_only_those_who_want_it(tmp_path: Path) -> None:
    asked = SHOW.replace("list_instruments()[0].name, list_instruments()[-1].name", "'ours:'").replace(
        '"mine"', '"colour.cast"'
    )
    shown = asked.replace("mine.red", "colour.cast")
    assert _said(tmp_path, "raise RuntimeError", "broken = plugin:MINE", shown) == "ours: 0.0\n"


def test_a_family_has_one_name(tmp_path: Path) -> None:
    said = installed(tmp_path, PLUGIN, "mine = plugin:MINE\nmine = plugin:TWICE")
    assert "has the name of another family" in said


@pytest.mark.parametrize(
    "body", ["raise ValueError('no\\nluck')", "return Measurement('mine.red', float('nan'))", "return 7"]
)
def test_a_plugin_that_fails_has_not_measured(tmp_path: Path, body: str) -> None:
    plugin = PLUGIN.replace(
        'return Measurement("mine.red", float(pair.after[..., 0].mean()), sentence="So red.")', body
    )
    assert installed(tmp_path, plugin, "mine = plugin:MINE") == "geometry.size mine.red None\n"
