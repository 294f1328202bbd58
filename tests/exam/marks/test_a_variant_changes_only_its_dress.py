"""What is varied is what is said: the order of the criteria, or the names of the images, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from beholder.exam.exam import exam_rubrics, relabel_images, reverse_criteria, write_variant
from beholder.rubrics.load import find_style, load_rubric
from beholder.rubrics.prompt import render_system_prompt
from beholder.rubrics.rubric import Rubric

NAMES = exam_rubrics()


def text_of(rubric: Rubric) -> str:
    rubric = rubric.with_style(find_style("Anime")) if rubric.styles else rubric
    return render_system_prompt(rubric.with_setting(next(iter(rubric.settings), "")))


@pytest.mark.parametrize("name", NAMES)
def test_a_rubric_that_is_written_down_reads_back(name: str, tmp_path: Path) -> None:
    for variant in (load_rubric(name), reverse_criteria(load_rubric(name)), relabel_images(load_rubric(name))):
        assert load_rubric(write_variant(variant, tmp_path / "written")) == variant


@pytest.mark.parametrize("name", NAMES)
def test_the_other_order_has_the_same_criteria_word_for_word(name: str) -> None:
    rubric = load_rubric(name)
    other = reverse_criteria(rubric)
    assert other.criteria == rubric.criteria[::-1]
    plain, reversed_ = (sorted(re.sub(r"\d+", "", text_of(one)).split()) for one in (rubric, other))
    assert [word.strip(",;") for word in plain] == [word.strip(",;") for word in reversed_]
    places = [text_of(other).index(f"`{one.key}`") if not one.letter else -1 for one in other.criteria]
    assert places == sorted(places)


@pytest.mark.parametrize("name", NAMES)
def test_other_labels_leave_every_other_word(name: str) -> None:
    rubric = load_rubric(name)
    other = relabel_images(rubric)
    text = text_of(rubric)
    for old, new in zip(rubric.images, other.images, strict=True):
        assert old.label != new.label
        assert new.label.startswith("Image ")
        text = text.replace(old.label, new.label) if " " in old.label else text
    assert text_of(other) == text
    asked = [other.image(role).label for role in other.roles]
    assert asked == ["Image A", "Image B"][: len(asked)]


def test_labels_that_are_taken_already_are_not_given_again() -> None:
    once = relabel_images(load_rubric("restyle"))
    assert [image.label for image in relabel_images(once).images] == ["Picture A", "Picture B"]
