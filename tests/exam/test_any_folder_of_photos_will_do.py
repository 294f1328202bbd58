"""Photographs of a user: one or many, whatever they are called, turned upright; what is no photograph is named."""

from __future__ import annotations

import io
import os
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beholder.cases.case import id_problem
from beholder.errors import UsageError
from beholder.exam.exam import write_exam
from beholder.exam.paper import MAX_NAME_LENGTH, Photo, find_most_unlike, load_photographs, make_plain_names
from beholder.images.codec import Pixels
from beholder.rubrics.rubric import Rubric

PRESERVATION = Rubric.load("edit-preservation")


def scene(seed: int, width: int = 240, height: int = 160) -> Pixels:
    """Something with areas and detail; no two seeds are alike."""
    random = np.random.default_rng(seed)
    rough = cv2.resize(random.integers(0, 255, (6, 8, 3), np.uint8), (width, height), interpolation=cv2.INTER_CUBIC)
    grain = random.normal(0, 12, rough.shape)
    return np.asarray(np.clip(rough + grain, 0, 255), np.uint8)


def save(path: Path, pixels: np.ndarray, **how: object) -> Path:
    Image.fromarray(pixels).save(path, {".png": "PNG", ".jpg": "JPEG"}[path.name[-4:]], **how)
    return path


@pytest.mark.parametrize("rubric", ["edit-preservation", "edit-quality", "edit-fidelity", "restyle"])
def test_one_photo_is_enough(tmp_path: Path, rubric: str) -> None:
    (tmp_path / "photos").mkdir()
    save(tmp_path / "photos" / "only.png", scene(1))
    cases = write_exam(Rubric.load(rubric), tmp_path / "exam", photos=[tmp_path / "photos"], size="quick")
    parts = {case.groups["part"] for case in cases}
    assert {case.groups["source"] for case in cases} == {"only"}
    assert {"clean", "unedited", "injection"} < parts
    assert "swap" not in parts  # there is nothing to swap with
    ids = {case.id for case in cases}
    assert all(case.groups["twin"] in ids for case in cases if "twin" in case.groups)


def test_at_most_so_many_are_taken_and_the_seed_chooses(tmp_path: Path) -> None:
    for number in range(9):
        save(tmp_path / f"p{number}.png", scene(number))
    taken = [[photo.name for photo in load_photographs([tmp_path], 3, seed)] for seed in range(6)]
    assert all(len(names) == 3 and names == sorted(names) for names in taken)
    assert len(set(map(tuple, taken))) > 1


def test_files_and_folders_may_be_mixed_and_the_same_picture_counts_once(tmp_path: Path) -> None:
    folder = tmp_path / "more"
    (folder / "deeper").mkdir(parents=True)
    one = save(tmp_path / "one.png", scene(1))
    save(folder / "two.png", scene(2))
    save(folder / "copy.png", scene(1))
    save(folder / "deeper" / "three.png", scene(3))
    (folder / ".DS_Store").write_bytes(b"not a picture")
    assert len(load_photographs([one, folder, one], 9, 0)) == 2


def test_a_photo_on_its_side_is_turned_upright_and_a_large_one_made_small(tmp_path: Path) -> None:
    pixels = np.zeros((300, 900, 3), np.uint8)
    pixels[:, :450] = (200, 30, 30)
    exif = Image.Exif()
    exif[274] = 6  # a quarter turn
    save(tmp_path / "lying.jpg", pixels, exif=exif, quality=95)
    (photo,) = load_photographs([tmp_path], 9, 0)
    assert photo.pixels.shape == (640, 213, 3)
    assert photo.pixels[:300, :, 0].mean() > 150 > 50 > photo.pixels[340:, :, 0].mean()


def test_of_a_burst_one_is_taken_and_what_is_swapped_in_is_something_else(tmp_path: Path) -> None:
    for number in range(4):
        moved = np.roll(scene(1), number, axis=1).astype(int) + number
        save(tmp_path / f"burst{number}.png", np.clip(moved, 0, 255).astype(np.uint8))
    save(tmp_path / "other.png", scene(2))
    shots = load_photographs([tmp_path], 9, 0)
    assert [photo.name[:5] for photo in shots] == ["burst", "other"]
    nearer = Photo("nearer", (shots[0].pixels // 2 + shots[1].pixels // 2).astype(np.uint8))
    assert find_most_unlike([shots[0], nearer, shots[1]], 0) is shots[1]
    assert find_most_unlike(shots[:1], 0) is None


def test_a_picture_of_nothing_is_named(tmp_path: Path) -> None:
    save(tmp_path / "wall.png", np.full((200, 200, 3), 240, np.uint8))
    with pytest.raises(UsageError, match=r"wall\.png is nearly of one colour"):
        load_photographs([tmp_path], 9, 0)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "I;16"])
def test_any_kind_of_picture_will_do(tmp_path: Path, mode: str) -> None:
    if mode == "I;16":
        Image.fromarray(scene(1)[..., 0].astype(np.uint16) * 257).save(tmp_path / "it.png")
    else:
        Image.fromarray(scene(1)).convert(mode).save(tmp_path / f"it.{'jpg' if mode == 'CMYK' else 'png'}")
    (photo,) = load_photographs([tmp_path], 9, 0)
    assert photo.pixels.shape == (160, 240, 3)
    assert photo.pixels.dtype == np.uint8
    assert photo.pixels.std() > 10


def test_hostile_names_become_plain_ones(tmp_path: Path) -> None:
    names = [
        "..",
        "a\nb",
        "\x1b[31mred",
        "Ünïcode Straße",
        "写真",
        "x" * 200,
        "  ",
        "a,b;c",
        '"quoted"',
        "-rf",
        "con",
        "\u202egnp",
        "Same",
        "same",
    ]
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, name in enumerate(names):
        save(folder / f"{name}.png", scene(number))
    with open(os.fsencode(folder) + b"/\xff\xfe.png", "wb") as file:
        out = io.BytesIO()
        Image.fromarray(scene(99)).save(out, "PNG")
        file.write(out.getvalue())
    cases = write_exam(PRESERVATION, tmp_path / "exam", photos=[folder], size="usual")
    assert len({case.groups["source"] for case in cases}) == 7
    exam = (tmp_path / "exam").resolve()
    for case in cases:
        assert id_problem(case.id) == ""
        assert all(exam in Path(os.fsdecode(path)).resolve().parents for _, path in case.list_images())


@given(st.lists(st.text(max_size=80), max_size=12))
def test_plain_names_are_plain_and_differ(names: list[str]) -> None:
    plain = make_plain_names(names)
    assert len(set(plain)) == len(plain) == len(names)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in plain)
    assert all(0 < len(name) <= MAX_NAME_LENGTH + 4 and name[0] != "-" for name in plain)


def test_what_is_no_photo_is_named_with_its_fault(tmp_path: Path) -> None:
    save(tmp_path / "good.png", scene(1))
    save(tmp_path / "icon.png", scene(2, 32, 32))
    (tmp_path / "notes.txt").write_text("not a picture")
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "cut.png").write_bytes((tmp_path / "good.png").read_bytes()[:900])
    with pytest.raises(UsageError) as raised:
        write_exam(PRESERVATION, tmp_path / "exam", photos=[tmp_path], size="quick")
    told = str(raised.value)
    assert all(name in told for name in ("icon.png is too small (32 × 32)", "notes.txt", "empty.jpg", "cut.png"))
    assert "good.png" not in told
    assert "take the others out" in told
    assert not (tmp_path / "exam").exists()


def test_a_picture_that_breaks_only_when_it_is_decoded_is_named_too(tmp_path: Path) -> None:
    data = bytearray(save(tmp_path / "torn.png", scene(1)).read_bytes())
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    (tmp_path / "torn.png").write_bytes(data)
    with pytest.raises(UsageError, match=r"torn\.png"):
        load_photographs([tmp_path], 9, 0)


def test_many_faults_are_counted(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text("no")
    with pytest.raises(UsageError, match="and 3 more"):
        load_photographs([tmp_path], 9, 0)


def test_a_folder_without_pictures_and_a_file_that_is_not_there_are_told(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    with pytest.raises(UsageError, match=r"no picture in .*bare"):
        load_photographs([tmp_path / "bare"], 9, 0)
    with pytest.raises(UsageError, match=r"gone\.jpg"):
        load_photographs([tmp_path / "gone.jpg"], 9, 0)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    save(tmp_path / "a.png", scene(1))
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "cases.jsonl").write_text("my own")
    with pytest.raises(UsageError, match="not empty and holds no exam"):
        write_exam(PRESERVATION, mine, photos=[tmp_path / "a.png"], size="quick")
    assert [path.name for path in mine.iterdir()] == ["cases.jsonl"]
    assert (mine / "cases.jsonl").read_text() == "my own"
    with pytest.raises(UsageError, match="is a file"):
        write_exam(PRESERVATION, tmp_path / "a.png", size="quick")
