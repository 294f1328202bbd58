"""Patterns and folders become cases by the names that they share; a file without a partner is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.cases import EDIT, RESTYLE, picture

from beholder.cases.case import Case, CaseRow, CaseSchema
from beholder.cases.patterns import pair_rows
from beholder.errors import CaseError

Tree = Callable[..., Path]

STYLES = {"original": "photos/{name}.jpg", "restyled": "out/{style}/{name}.png"}
FREE = CaseSchema((("original", "restyled"),))


def cases(rows: list[CaseRow]) -> dict[str, Case]:
    return {row.id: row.case for row in rows if row.case is not None}


def problems(rows: list[CaseRow], base: Path) -> dict[str, str]:
    return {str(Path(row.location).relative_to(base)): "; ".join(row.problems) for row in rows if row.problems}


def test_one_photo_serves_all_its_styles(tree: Tree) -> None:
    base = tree(*(f"photos/p{n}.jpg" for n in (1, 2)), *(f"out/{s}/p{n}.png" for s in ("anime", "pop") for n in (1, 2)))
    rows = list(pair_rows(STYLES, RESTYLE, base))
    assert [row.id for row in rows] == ["p1/anime", "p2/anime", "p1/pop", "p2/pop"]
    case = cases(rows)["p2/pop"]
    assert dict(case.images) == {"original": str(base / "photos/p2.jpg"), "restyled": str(base / "out/pop/p2.png")}
    assert list(case.images) == ["original", "restyled"]
    assert case.fields == {"style": "pop"}
    assert case.groups == {"name": "p2", "style": "pop"}  # every name: tables can be split by photo


def test_a_file_without_a_partner_is_named(tree: Tree) -> None:
    base = tree("photos/p1.jpg", "photos/p9.jpg", "out/anime/p1.png", "out/anime/p7.png")
    rows = list(pair_rows(STYLES, RESTYLE, base))
    assert list(cases(rows)) == ["p1/anime"]
    assert problems(rows, base) == {
        "out/anime/p7.png": "has no partner: no file matches 'photos/{name}.jpg' (for original) with name='p7'",
        "photos/p9.jpg": "has no partner that matches 'out/{style}/{name}.png' (for restyled)",
    }


def test_two_folders_are_paired_by_name(tree: Tree) -> None:
    base = tree("a/p1.jpg", "a/p2.jpg", "a/p3.jpg", "b/p1.png", "b/p2.png", "b/p4.png", "a/.hidden.jpg", "b/sub/x.png")
    rows = list(pair_rows({"original": "a", "restyled": "b/"}, FREE, base))
    assert list(cases(rows)) == ["p1", "p2"]
    assert cases(rows)["p1"].groups == {"name": "p1"}
    assert sorted(problems(rows, base)) == ["a/p3.jpg", "b/p4.png"]


def test_two_files_of_one_name_in_a_folder_are_told(tree: Tree) -> None:
    base = tree("a/p1.jpg", "a/p1.png", "b/p1.jpg", "b/p1.png")
    rows = list(pair_rows({"original": "a", "restyled": "b"}, FREE, base))
    assert list(cases(rows)) == ["p1"]
    assert problems(rows, base) == {
        "a/p1.png": "is the second file named 'p1' in its folder",
        "b/p1.png": "is the second file named 'p1' in its folder",
    }


def test_one_folder_is_enough_where_one_image_is_judged(tree: Tree) -> None:
    rows = list(pair_rows({"image": "a"}, CaseSchema((("image",),)), tree("a/x.jpg", "a/y.png")))
    assert list(cases(rows)) == ["x", "y"]


def test_one_reference_may_serve_every_case(tree: Tree) -> None:
    base = tree("ref.jpg", "out/a.png", "out/b.png")
    rows = list(pair_rows({"original": "ref.jpg", "restyled": "out/{name}.png"}, FREE, base))
    assert {case.images["original"] for case in cases(rows).values()} == {str(base / "ref.jpg")}
    assert list(cases(rows)) == ["a", "b"]


def test_special_characters_are_literal(tree: Tree) -> None:
    base = tree("a (1)+[x].$/p.1^.jpg", "a (1)+[x]_$/p2^.jpg", "b?/p.1.png", "b?/p2.png")
    rows = list(pair_rows({"original": "a (1)+[x].$/{name}^.jpg", "restyled": "b?/{name}.png"}, FREE, base))
    assert list(cases(rows)) == ["p.1"]


def test_a_name_twice_in_a_pattern_must_agree(tree: Tree) -> None:
    base = tree("a/p1.jpg", "b/p1/p1_final.png", "b/p1/p2_final.png")
    rows = list(pair_rows({"original": "a/{name}.jpg", "restyled": "b/{name}/{name}_final.png"}, FREE, base))
    assert list(cases(rows)) == ["p1"]
    assert problems(rows, base) == {}


def test_a_name_never_crosses_a_folder_and_hidden_files_are_skipped(tree: Tree) -> None:
    base = tree("a/p1.jpg", "a/deep/p2.jpg", "a/.p3.jpg", "a/.trash/p4.jpg")
    assert list(cases(list(pair_rows({"image": "a/{name}.jpg"}, CaseSchema((("image",),)), base)))) == ["p1"]
    assert list(cases(list(pair_rows({"image": "a/{folder}/{name}.jpg"}, CaseSchema((("image",),)), base)))) == [
        "deep/p2"
    ]


def test_partners_decide_how_a_name_is_read(tree: Tree) -> None:
    base = tree("a/p1.jpg", "a/p2_x.jpg", "b/p1_pop_art.png", "b/p2_x_anime.png")
    rows = list(pair_rows({"original": "a/{name}.jpg", "restyled": "b/{name}_{style}.png"}, RESTYLE, base))
    assert list(cases(rows)) == ["p1/pop_art", "p2_x/anime"]


def test_a_name_that_stays_ambiguous_is_told(tree: Tree) -> None:
    base = tree("a/p1.jpg", "a/p1_pop.jpg", "b/p1_pop_art.png")
    rows = list(pair_rows({"original": "a/{name}.jpg", "restyled": "b/{name}_{style}.png"}, RESTYLE, base))
    assert not cases(rows)
    assert "more than one way" in problems(rows, base)["b/p1_pop_art.png"]


def test_very_many_readings_end_soon(tree: Tree) -> None:
    base = tree("b/" + "_" * 200 + ".png")
    (row,) = pair_rows({"image": "b/{a}_{b}_{c}_{d}_{e}.png"}, CaseSchema((("image",),)), base)
    assert "more than one way" in row.problems[0]


def test_composed_and_decomposed_letters_are_one_name(tree: Tree) -> None:
    base = tree("a/caf\u00e9.jpg", "b/cafe\u0301.png")
    rows = list(pair_rows({"original": "a", "restyled": "b"}, FREE, base))
    assert list(cases(rows)) == ["caf\u00e9"]
    assert cases(rows)["caf\u00e9"].images["restyled"] == str(base / "b/cafe\u0301.png")


def test_a_name_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with open(bytes(tmp_path / "a") + b"/p\xff.jpg", "wb") as file:
        file.write(picture("JPEG"))
    (row,) = pair_rows({"image": "a"}, CaseSchema((("image",),)), tmp_path)
    assert "cannot be printed" in row.problems[0]


@pytest.mark.parametrize(
    ("patterns", "shape", "said"),
    [
        ({"original": "a/**/{name}.jpg", "restyled": "b"}, FREE, r"'\*\*' is not supported"),
        ({"original": "a/*.jpg", "restyled": "b/{name}.png"}, FREE, "stands for itself"),
        ({"original": "a", "restyled": "b/{name}.png"}, FREE, "is a folder and"),
        ({"original": "a/{name}.jpg"}, FREE, "pattern for 'restyled' is missing"),
        ({"original": "a", "restyled": "b", "other": "c"}, FREE, "no image 'other'"),
        ({"original": "a/{name}.jpg", "restyled": "b/{other}.png"}, FREE, "shares no name"),
        ({"original": "a/{}.jpg", "restyled": "b"}, FREE, "should hold a name"),
        ({"original": "a/{na me}.jpg", "restyled": "b"}, FREE, "should hold a name"),
        ({"original": "a/{name.jpg", "restyled": "b"}, FREE, "brace without"),
        ({"original": "a/{a}{b}.jpg", "restyled": "b"}, FREE, "must stand between"),
        ({"original": "a/p1.jpg", "restyled": "b/p1.png"}, FREE, "no name in braces"),
        ({"original": "none/{name}.jpg", "restyled": "b/{name}.png"}, FREE, "no folder 'none'"),
        ({"original": "a/{name}.gif", "restyled": "b/{name}.png"}, FREE, "No file matches"),
        ({"original": "", "restyled": "b"}, FREE, "is empty"),
        ({"original": "a", "restyled": "b"}, RESTYLE, "No pattern says the field 'style'"),
        ({"input": "a", "edited": "b"}, EDIT, "field 'instruction'"),
    ],
)
def test_patterns_that_cannot_work_are_one_sentence(
    tree: Tree, patterns: dict[str, str], shape: CaseSchema, said: str
) -> None:
    base = tree("a/p1.jpg", "b/p1.png")
    with pytest.raises(CaseError, match=said):
        list(pair_rows(patterns, shape, base))
