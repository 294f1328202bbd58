"""`beholder measure`: a table for people, JSON for scripts, maps for the eye; never a traceback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from support.images import read_bgr

from beholder.instruments.registry import list_instruments

MEASURE = "measure before.png after.png "


@pytest.fixture
def mask(folder: Path) -> Path:
    """Where the fixture's edit is."""
    place = np.zeros((90, 120), np.uint8)
    place[20:50, 30:70] = 255
    cv2.imwrite(str(folder / "mask.png"), place)
    return folder / "mask.png"


def test_a_table_with_every_instrument_under_its_family(run: Any, folder: Path) -> None:
    done = run(MEASURE)
    assert done.code == 0
    assert done.err == ""
    lines = [line.strip() for line in done.out.splitlines()]
    for one in list_instruments("pair"):
        family, _, name = one.name.partition(".")
        assert family.capitalize() in lines
        assert any(line.split(" ")[0] == name for line in lines), one.name
    assert "120×90" in done.out
    assert "is inferred" in done.out


def test_json_has_every_measurement_and_no_map(run: Any, folder: Path) -> None:
    done = run(MEASURE + "--json")
    assert done.code == 0
    found = json.loads(done.out)
    assert found["before"] == {"source": "before.png", "width": 120, "height": 90}
    assert found["mask"] is None
    assert "maps" not in found
    measured = {one.name for one in (*list_instruments("pair"), *list_instruments("image"))}
    assert set(found["measurements"]) == {*measured, "people.realism", "people.kept"}
    for one in found["measurements"].values():
        assert list(one) == ["value", "unit", "better", "sentence"]
        assert one["value"] is None or isinstance(one["value"], float | int)
        assert one["better"] in ("higher", "lower", None)
        assert one["value"] is not None or one["sentence"]


def test_a_measurement_without_a_meaning_is_a_dash_and_says_why(run: Any, folder: Path) -> None:
    cv2.imwrite(str(folder / "dot.png"), np.zeros((1, 1, 3), np.uint8))
    done = run("measure dot.png dot.png")
    assert done.code == 0
    found = json.loads(run("measure dot.png dot.png --json").out)["measurements"]
    without = {name: one for name, one in found.items() if one["value"] is None}
    assert without
    assert all(one["sentence"] for one in without.values())
    assert sum(line.split()[1:2] == ["—"] for line in done.out.splitlines()) == len(without)


def test_only_takes_families_and_single_instruments(run: Any, folder: Path) -> None:
    found = json.loads(run(MEASURE + "--json --only geometry --only colour.palette").out)["measurements"]
    assert "colour.palette" in found
    assert {name.partition(".")[0] for name in found} == {"geometry", "colour"}
    assert sum(name.startswith("colour.") for name in found) == 1


def test_a_mask_says_where_the_edit_belongs(run: Any, folder: Path, mask: Path) -> None:
    done = run(MEASURE + "--mask mask.png --only locality")
    assert done.code == 0
    assert "where mask.png is white" in done.out
    found = json.loads(run(MEASURE + "--mask mask.png --only locality --json").out)
    assert found["mask"] == "mask.png"
    assert found["measurements"]["locality.region"]["value"] == pytest.approx(30 * 40 / (90 * 120))


def test_maps_are_written_and_named(run: Any, folder: Path, mask: Path) -> None:
    done = run(MEASURE + "--maps new/maps --only colour --mask mask.png")
    assert done.code == 0
    written = sorted(path.name for path in (folder / "new" / "maps").iterdir())
    assert written
    assert done.out.splitlines()[-1].startswith(f"Wrote {len(written)} map")
    for name in written:
        assert name in done.out
        picture = cv2.imread(str(folder / "new" / "maps" / name))
        assert picture is not None
        assert picture.std() > 10


def test_with_json_the_maps_are_in_the_object(run: Any, folder: Path) -> None:
    found = json.loads(run(MEASURE + "--maps maps --only structure --json").out)
    assert found["maps"]
    for name, path in found["maps"].items():
        assert name in found["measurements"]
        assert (folder / path).is_file()


def test_where_nothing_has_a_map_that_is_said(run: Any, folder: Path) -> None:
    done = run(MEASURE + "--maps maps --only geometry.size")
    assert done.code == 0
    assert "no picture was written" in done.out


def header_of_a_bomb(folder: Path) -> None:
    png = (folder / "before.png").read_bytes()
    (folder / "bomb.png").write_bytes(png[:16] + (60_000).to_bytes(4, "big") + png[20:])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("measure missing.png after.png", "missing.png does not exist"),
        ("measure before.png .", "is a directory"),
        ("measure text.png after.png", "text.png"),
        ("measure short.png after.png", "short.png"),
        ("measure before.png bomb.png", "bomb.png"),
        ("measure before.png after.png --mask missing.png", "missing.png"),
        ("measure before.png after.png --mask tall.png", "another shape"),
        ("measure before.png after.png --only colr", "'colr'; there are geometry"),
        ("measure before.png after.png --only colour.pallet", "colour.palette"),
        ("measure before.png after.png --maps before.png", "not a folder"),
        ("measure before.png after.png --maps before.png/maps", "before.png/maps"),
        ("measure https://example.invalid/a.png after.png", "remote"),
    ],
)
def test_bad_input_is_one_sentence(run: Any, folder: Path, arguments: str, said: str) -> None:
    (folder / "text.png").write_text("not a picture", "utf-8")
    (folder / "short.png").write_bytes((folder / "before.png").read_bytes()[:200])
    cv2.imwrite(str(folder / "tall.png"), np.zeros((120, 30), np.uint8))
    header_of_a_bomb(folder)
    done = run(arguments)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""
    assert "Traceback" not in done.err


def test_a_hostile_file_name_cannot_speak_to_the_terminal(run: Any, folder: Path) -> None:
    name = "a\x1b[2Jb.png"
    shutil.copy(folder / "before.png", folder / name)
    for words in (("measure", name, "after.png", "--only", "geometry"), ("measure", "before.png", f"no{name}")):
        done = run(*words)
        assert "\x1b[2J" not in done.out + done.err


def test_a_map_that_cannot_be_written_is_said(run: Any, folder: Path) -> None:
    (folder / "maps" / "colour.difference_median.png").mkdir(parents=True)
    done = run(MEASURE + "--maps maps --only colour.difference_median")
    assert done.code == 2
    assert "'maps' cannot be written to" in done.err
    assert done.err.count("\n") == 1


def test_grey_alpha_and_other_sizes_are_measured(run: Any, folder: Path) -> None:
    before = read_bgr(folder / "before.png")
    cv2.imwrite(str(folder / "grey.png"), cv2.cvtColor(before, cv2.COLOR_BGR2GRAY))
    clear = cv2.cvtColor(before, cv2.COLOR_BGR2BGRA)
    clear[:20, :, 3] = 0
    cv2.imwrite(str(folder / "clear.png"), clear)
    cv2.imwrite(str(folder / "double.png"), cv2.resize(before, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC))
    cv2.imwrite(str(folder / "strip.png"), before[:, :20])
    for name in ("grey.png", "clear.png", "double.png", "strip.png"):
        assert run(f"measure before.png {name} --maps maps").code == 0


def test_people_are_asked_for_by_name_and_say_nothing_of_masked_edits(run: Any, folder: Path) -> None:
    found = json.loads(run("measure before.png after.png --json --only people").out)["measurements"]
    assert list(found) == ["people.realism", "people.kept"]
    assert all(one["value"] is None or 0 <= one["value"] <= 1 for one in found.values())
    cv2.imwrite(str(folder / "mask.png"), np.full((90, 120), 255, np.uint8))
    masked = json.loads(run("measure before.png after.png --mask mask.png --json --only people").out)["measurements"]
    assert [one["value"] for one in masked.values()] == [None, None]
    assert "without a mask" in masked["people.kept"]["sentence"]
