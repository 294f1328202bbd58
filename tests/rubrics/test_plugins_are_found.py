"""Rubrics and styles of a plugin are found by entry point, as ours are."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

RUBRIC = "rubric: sharp\nsummary: Is it sharp?\nimages: [{role: photo, label: Photo}]\ncriteria: [{key: sharpness}]\n"
STYLE = "style: Woodcut\ndescription: Black ink.\nassertions: {accuracy: ['Is it still the same subject?']}\n"


@pytest.mark.parametrize("group", ["beholder.judges", "beholder.rubrics", "beholder.styles"])
def test_ours_register_the_same_way(group: str) -> None:
    assert [point for point in entry_points(group=group) if point.value.startswith("beholder.")]


def installed(folder: Path, code: str, points: str) -> None:
    """A package named plugin, found by whoever has `folder` on its path."""
    (folder / "plugin.py").write_text(code, "utf-8")
    info = folder / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(points, "utf-8")


def test_a_plugin_adds_rubrics_and_styles(tmp_path: Path) -> None:
    (tmp_path / "rubrics" / "sharp").mkdir(parents=True)
    (tmp_path / "rubrics" / "sharp" / "rubric.yaml").write_text(RUBRIC, "utf-8")
    (tmp_path / "styles").mkdir()
    (tmp_path / "styles" / "woodcut.yaml").write_text(STYLE, "utf-8")
    installed(
        tmp_path,
        f"rubrics = {str(tmp_path / 'rubrics')!r}\nstyles = {str(tmp_path / 'styles')!r}\n",
        "[beholder.rubrics]\nplugin = plugin:rubrics\n[beholder.styles]\nplugin = plugin:styles\n",
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from beholder.rubrics.load import find_style, list_rubrics, load_rubric\n"
        "print(list_rubrics()['sharp'], load_rubric('sharp').criteria[0].key, find_style('woodcut').description)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Is it sharp? sharpness Black ink.\n"


@pytest.mark.parametrize(
    ("group", "code", "command", "said"),
    [
        ("beholder.rubrics", "raise RuntimeError('no\\nluck')", "rubrics", "cannot be loaded: RuntimeError: no luck."),
        ("beholder.styles", "import nothing_like_it", "styles", "cannot be loaded: ModuleNotFoundError: No module"),
        ("beholder.rubrics", "", "rubrics", "cannot be loaded: AttributeError"),
        ("beholder.rubrics", "folder = '/nowhere'", "rubrics", "names the folder '/nowhere', which is not there."),
    ],
)
def test_a_broken_plugin_is_one_sentence(tmp_path: Path, group: str, code: str, command: str, said: str) -> None:
    installed(tmp_path, code + "\n", f"[{group}]\nbroken = plugin:folder\n")
    run = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv[1:] = [{command!r}]\n"
    done = subprocess.run(
        [sys.executable, "-c", run + "from beholder.cli import main; main()"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"beholder: The plugin 'broken' of {group} (plugin:folder) {said}")
    assert done.stderr.count("\n") == 1
