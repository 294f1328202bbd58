"""A style of one's own replaces ours of the same name, however that is spelled, and is read as it stands now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beholder.errors import UsageError
from beholder.rubrics.load import find_style, load_styles

STYLE = "style: {name}\ndescription: {text}\nassertions: {{accuracy: [Is it?]}}\n"


@pytest.fixture
def style(rubric_file: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a style and gives its folder."""
    return lambda name, text="Mine.", file="mine/one.yaml": rubric_file(STYLE.format(name=name, text=text), file).parent


@pytest.mark.parametrize("name", ["anime", "Anime", "ANIME", "a-nime"])
def test_it_replaces_ours_whatever_its_case(name: str, style: Callable[..., Path]) -> None:
    folder = style(name)
    assert find_style("Anime", [folder]).description == "Mine."
    listed = load_styles([folder])
    assert [one for one in listed if one.casefold().replace("-", "") == "anime"] == [name]
    assert len(listed) == 17
    assert list(listed) == sorted(listed, key=str.casefold)


def test_it_replaces_an_alias_of_ours(style: Callable[..., Path]) -> None:
    alias = load_styles()["Anime"].aliases[0]
    assert find_style(alias, [style(alias.lower())]).description == "Mine."


def test_the_first_folder_wins(style: Callable[..., Path]) -> None:
    first, second = style("anime", "First.", "a/z.yaml"), style("Anime", "Second.", "b/a.yaml")
    assert find_style("anime", [first, second]).description == "First."
    assert find_style("anime", [second, first]).description == "Second."


def test_an_edited_file_is_read_again(style: Callable[..., Path]) -> None:
    folder = style("Fresco", "Old.")
    assert find_style("fresco", [folder]).description == "Old."
    style("Fresco", "New.")
    assert find_style("fresco", [folder]).description == "New."


def test_a_folder_that_cannot_be_is_a_sentence() -> None:
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(UsageError, match="no folder of styles"):
            find_style("Anime", [Path(name)])


@pytest.mark.parametrize(
    ("name", "near"),
    [("Animee", "Anime"), ("plush toys", "Plush Toy"), ("Frescoe", "Fresco"), ("Mosaic", ""), ("Baroque", "")],
)
def test_the_generic_set_says_that_it_is(name: str, near: str, style: Callable[..., Path]) -> None:
    found = find_style(name, [style("Fresco")])
    assert (found.style, found.generic, found.near) == (name, True, near)
    assert not find_style("Anime").generic
