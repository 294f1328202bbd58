"""One pass finds what is wrong with rows, ids and image files; what is good goes on, in its order."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cases import picture

from beholder.cases.case import Case, CaseRow
from beholder.cases.validation import MAX_PROBLEMS, check_cases, iter_valid_cases
from beholder.images.image import ImageLimits, ImageSource
from beholder.images.source import ImageInfo, inspect_image


def row(number: int, id_: str, *images: str | bytes, **fields: str) -> CaseRow:
    case = Case(id_, {f"role{n}": source for n, source in enumerate(images)}, fields, {})
    return CaseRow(f"c.jsonl, line {number}", case, (), id_)


@pytest.fixture
def image(tmp_path: Path) -> str:
    path = tmp_path / "a.png"
    path.write_bytes(picture())
    return str(path)


def test_good_rows_are_counted_and_come_out_in_order(image: str) -> None:
    rows = [
        row(1, "b", image),
        row(2, "a", image),
        CaseRow("c.jsonl, line 3", None, ("is not JSON",)),
        row(4, "c", image),
    ]
    checked = check_cases(rows)
    assert (checked.count, checked.bad_positions, checked.problem_count) == (3, (2,), 1)
    assert checked.problems == ("c.jsonl, line 3: is not JSON",)
    assert [case.id for case in iter_valid_cases(rows, checked)] == ["b", "a", "c"]


def test_an_id_that_stands_twice_names_both_lines_and_the_first_is_good(image: str) -> None:
    rows = [row(1, "a", image), row(2, "b", image), row(3, "a", image), row(4, "a", image)]
    checked = check_cases(rows)
    assert checked.problems == (
        "c.jsonl, line 3: the id 'a' stands already in c.jsonl, line 1",
        "c.jsonl, line 4: the id 'a' stands already in c.jsonl, line 1",
    )
    assert checked.count == 2
    assert [case.id for case in iter_valid_cases(rows, checked)] == ["a", "b"]


def test_hashes_that_collide_are_no_duplicates(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beholder.cases.validation._hash", lambda id_: 7)
    checked = check_cases([row(1, "a", image), row(2, "b", image)])
    assert (checked.count, checked.problem_count) == (2, 0)


def test_very_many_ids_are_compared_sorted(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beholder.cases.validation._FEW", 10)
    rows = [row(n, f"p{n % 90}", image) for n in range(100)]
    checked = check_cases(rows)
    assert checked.problem_count == 10
    assert [case.id for case in iter_valid_cases(rows, checked)] == [f"p{n}" for n in range(90)]


def test_images_that_cannot_be_used_are_told_with_their_role(tmp_path: Path, image: str) -> None:
    whole = picture("JPEG", (200, 200))
    files = {"text.png": b"hello", "empty.png": b"", "cut.jpg": whole[: len(whole) // 2], "html.jpg": b"<html></html>"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    names = [*files, "folder.png", "pipe.png", "none.png"]
    checked = check_cases([row(n, name, image, str(tmp_path / name)) for n, name in enumerate(names, 1)])
    assert checked.count == 0
    words = ["a text file", "is empty", "is cut off", "a web page", "is a directory", "is a pipe", "does not exist"]
    for number, (problem, word) in enumerate(zip(checked.problems, words, strict=True), 1):
        assert problem.startswith(f"c.jsonl, line {number}: the image 'role1': ")
        assert word in problem


def test_images_over_the_caps_are_told(tmp_path: Path, image: str) -> None:
    assert "pixels" in check_cases([row(1, "a", image)], limits=ImageLimits(max_side=10)).problems[0]
    assert "bytes" in check_cases([row(1, "a", image)], limits=ImageLimits(max_bytes=10)).problems[0]


def test_data_uris_and_bytes_are_looked_into(image: str) -> None:
    import base64

    uri = "data:image/png;base64," + base64.b64encode(Path(image).read_bytes()).decode()
    checked = check_cases(
        [row(1, "a", uri), row(2, "b", Path(image).read_bytes()), row(3, "c", uri[:60]), row(4, "d", b"x")]
    )
    assert checked.count == 2
    assert ["line 3" in checked.problems[0], "line 4" in checked.problems[1]] == [True, True]


def test_a_web_image_needs_to_be_allowed_and_is_not_fetched() -> None:
    rows = [row(1, "a", "https://pictures.invalid/a.png")]
    assert "--allow-remote" in check_cases(rows).problems[0]
    assert check_cases(rows, allow_remote=True).count == 1
    assert (
        "ftp: addresses are not read" in check_cases([row(1, "a", "ftp://host/a.png")], allow_remote=True).problems[0]
    )


def test_a_store_that_cannot_be_read_here_is_found_and_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(1, "a", "s3://bucket/a.png")]
    monkeypatch.setitem(sys.modules, "s3fs", None)  # as if it were not installed
    assert "run: pip install s3fs" in check_cases(rows, allow_remote=True).problems[0]
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert "pip install 'beholder[stores]' s3fs" in check_cases(rows, allow_remote=True).problems[0]


def test_each_file_is_looked_at_once(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder.cases import validation

    looked: list[object] = []

    def recorded_inspect(source: ImageSource, limits: ImageLimits) -> ImageInfo:
        looked.append(source)
        return inspect_image(source, limits)

    monkeypatch.setattr(validation, "inspect_image", recorded_inspect)
    check_cases([row(n, f"p{n}", image) for n in range(50)])
    assert looked == [image]


def test_problems_are_all_counted_and_the_first_are_kept() -> None:
    checked = check_cases([CaseRow(f"line {n}", None, ("is wrong", "is bad")) for n in range(200)])
    assert checked.problem_count == 400
    assert len(checked.problems) == MAX_PROBLEMS
    assert len(checked.bad_positions) == 200


def test_the_fingerprint_changes_with_whatever_is_judged(image: str) -> None:
    def fingerprint(*rows: CaseRow) -> str:
        return check_cases(rows).fingerprint

    first = fingerprint(row(1, "a", image, text="x"))
    assert first == fingerprint(row(9, "a", image, text="x"))
    assert first == fingerprint(row(1, "a", os.path.relpath(image), text="x"))
    others = {fingerprint(row(1, "b", image, text="x")), fingerprint(row(1, "a", image, text="y"))}
    os.utime(image, ns=(1, 1))
    others.add(fingerprint(row(1, "a", image, text="x")))
    assert len(others - {first}) == 3


def test_an_iterator_is_refused_since_it_cannot_be_read_again(image: str) -> None:
    def once() -> Iterator[CaseRow]:
        yield row(1, "a", image)

    with pytest.raises(TypeError, match="second look"):
        check_cases(once())
