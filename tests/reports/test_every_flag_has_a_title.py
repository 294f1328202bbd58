"""What pages call a flag: a few plain words for every flag that Beholder raises, wherever in its code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import beholder
from beholder.judges.audit import DISAGREE, NOT_AUDITED
from beholder.judges.base import MEASURED_NOT_SEEN
from beholder.providers.schema_support import STRUCTURED_OUTPUT_UNAVAILABLE
from beholder.reports.text import FLAG_TITLES, flag_title
from beholder.verdicts.preference import CRITERION_FLIP, JURY_SPLIT, ORDER_FLIP, ORDER_LEAN

SOURCE = Path(beholder.__file__).parent
OF_PAIRS = {CRITERION_FLIP, JURY_SPLIT, ORDER_FLIP, ORDER_LEAN}
BY_NAME = {DISAGREE, NOT_AUDITED, STRUCTURED_OUTPUT_UNAVAILABLE, MEASURED_NOT_SEEN} | OF_PAIRS
OF_IMAGES = {
    "rotated_upright",
    "reduced_to_8_bit",
    "converted_from_cmyk",
    "converted_to_srgb",
    "alpha_over_background",
    "colour_profile_ignored",
}


def raised() -> Iterator[str]:
    """The flags that are made with their key written out."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Flag" and node.args:
                key = node.args[0]
                if isinstance(key, ast.Constant):
                    yield str(key.value)


def test_every_flag_has_a_title_and_no_title_is_of_nothing() -> None:
    found = set(raised())
    assert len(found) > 20
    assert FLAG_TITLES.keys() == found | BY_NAME | OF_IMAGES | {"score_in_odd_form"}


def test_no_two_have_the_same_title_and_none_is_its_key() -> None:
    assert len(set(FLAG_TITLES.values())) == len(FLAG_TITLES)
    assert not [title for title in FLAG_TITLES.values() if "_" in title or len(title) > 40]


@pytest.mark.parametrize(
    ("key", "title"),
    [
        ("first_frame_of_gif", "first frame of GIF"),
        ("webp_quality_70", "sent as WEBP of quality 70"),
        ("said_by_a_plugin", "said by a plugin"),
    ],
)
def test_a_flag_that_is_not_in_the_list_is_told_in_words(key: str, title: str) -> None:
    assert flag_title(key) == title
