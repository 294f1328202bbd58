"""Each style is judged by questions that were written for it, and could not stand in another."""

import re
from collections.abc import Iterator
from importlib.resources import files
from itertools import combinations
from typing import Any

import pytest
import yaml

from beholder.rubrics.rubric import CheckRule

COUNTS = {"accuracy": 5, "completeness": 5, "relevance": 4, "usefulness": 4, "exceptional": 5}
KEYS = {"style", "aliases", "description", "expect", "acceptable", "goes_wrong", "assertions"}
SUBJECTS = {"people", "animals", "people or animals", "text"}
PRESETS = {
    "Movie Poster", "Plush Toy", "Anime", "Chibi Sticker", "Caricature", "Superhero", "Toy Model", "Graffiti",
    "Crochet Art", "Doodle", "Pencil Portrait", "Storybook", "Photo Booth", "Pop Art", "Neon Cyberpunk",
    "Oil Painting Renaissance", "Paper Cut Art",
}  # fmt: skip
SHARED_AT_MOST = 0.15
LONGEST_QUESTION = 25  # words
FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an the of in on at by to for from with without and or nor not no but as is are was were be been being
        do does did has have had can could would should will may might its it that this these those there than so
        such any all each every one ones if who whom which what where when while rather instead more""",
    )
)

FILES = {
    entry.name.removesuffix(".yaml"): yaml.safe_load(entry.read_text(encoding="utf-8"))
    for entry in (files("beholder.rubrics") / "styles").iterdir()
    if entry.name.endswith(".yaml")
}
STYLES = {slug: style for slug, style in FILES.items() if slug != "generic"}

Question = tuple[str, str]  # style, question without the style's names


def questions(style: dict[str, Any]) -> list[str]:
    listed = (entry for entries in style["assertions"].values() for entry in entries)
    return [entry["text"] if isinstance(entry, dict) else entry for entry in listed]


def without_its_name(question: str, style: dict[str, Any]) -> str:
    """The question in lower case, without the style's names, punctuation and extra spaces."""
    names = sorted([style["style"], *style["aliases"]], key=len, reverse=True)
    nameless = re.sub("|".join(rf"\b{re.escape(name)}\b" for name in names), " ", question, flags=re.IGNORECASE)
    return " ".join(re.findall(r"\w+", nameless.lower()))


def pairs_across_styles() -> Iterator[tuple[Question, Question]]:
    """Every two questions of two different styles."""
    told = [(slug, without_its_name(q, style)) for slug, style in STYLES.items() for q in questions(style)]
    return ((one, other) for one, other in combinations(told, 2) if one[0] != other[0])


def similarity(one: str, other: str) -> float:
    """Jaccard similarity of the content words: 1 for the same set of words, 0 for none in common."""
    a, b = set(one.split()) - FUNCTION_WORDS, set(other.split()) - FUNCTION_WORDS
    return len(a & b) / len(a | b) if a | b else 1.0


def share_of_questions_alike(threshold: float) -> tuple[float, list[tuple[Question, Question]]]:
    alike = [pair for pair in pairs_across_styles() if similarity(pair[0][1], pair[1][1]) >= threshold]
    total = sum(len(questions(style)) for style in STYLES.values())
    return len({side for pair in alike for side in pair}) / total, alike


def test_every_preset_has_a_file_named_after_it() -> None:
    assert {style["style"] for style in STYLES.values()} == PRESETS
    assert all(slug == style["style"].lower().replace(" ", "-") for slug, style in STYLES.items())


def test_no_name_leads_to_two_styles() -> None:
    names = [name.casefold() for style in STYLES.values() for name in [style["style"], *style["aliases"]]]
    assert sorted(names) == sorted(set(names))


def test_any_other_style_is_judged_under_its_own_name() -> None:
    generic = FILES["generic"]
    assert generic["style"] == "{style}"
    assert any("{style}" in question for question in questions(generic))


def test_a_preset_never_shows_an_unfilled_placeholder() -> None:
    assert not [slug for slug, style in STYLES.items() if "{" in yaml.safe_dump(style, default_flow_style=False)]


@pytest.mark.parametrize("slug", FILES)
def test_a_style_is_complete(slug: str) -> None:
    style = FILES[slug]
    assert set(style) == KEYS
    assert {dimension: len(listed) for dimension, listed in style["assertions"].items()} == COUNTS
    assert 4 <= len(style["expect"]) <= 6
    assert 3 <= len(style["acceptable"]) <= 5
    assert 4 <= len(style["goes_wrong"]) <= 6


@pytest.mark.parametrize("slug", FILES)
def test_an_assertion_is_one_short_question(slug: str) -> None:
    for question in questions(FILES[slug]):
        assert question.index("?") == len(question) - 1, question
        assert len(question.split()) <= LONGEST_QUESTION, question


@pytest.mark.parametrize("slug", FILES)
def test_a_condition_names_a_subject_and_most_assertions_have_none(slug: str) -> None:
    listed = [entry for entries in FILES[slug]["assertions"].values() for entry in entries]
    conditional = [entry for entry in listed if isinstance(entry, dict) and "applies" in entry]
    assert all(set(entry) == {"text", "applies"} and entry["applies"] in SUBJECTS for entry in conditional)
    assert 3 <= len(conditional) <= 6


@pytest.mark.parametrize("slug", FILES)
def test_some_questions_are_measured_and_none_that_may_not_apply(slug: str) -> None:
    listed = [entry for entries in FILES[slug]["assertions"].values() for entry in entries]
    tagged = [entry for entry in listed if isinstance(entry, dict) and "measured" in entry]
    assert all(set(entry) == {"text", "measured"} and CheckRule.parse(entry["measured"]) for entry in tagged)
    assert 4 <= len(tagged) <= 9


@pytest.mark.parametrize("slug", FILES)
def test_no_assertion_stands_twice_in_a_style(slug: str) -> None:
    nameless = [without_its_name(question, FILES[slug]) for question in questions(FILES[slug])]
    assert len(nameless) == len(set(nameless))


def test_styles_do_not_share_assertions_once_their_names_are_removed() -> None:
    alike = [side for one, other in pairs_across_styles() if one[1] == other[1] for side in (one, other)]
    total = sum(len(questions(style)) for style in STYLES.values())
    assert len(set(alike)) / total <= SHARED_AT_MOST, alike


def test_styles_do_not_share_assertions_in_other_words() -> None:
    share, alike = share_of_questions_alike(0.8)
    assert share <= SHARED_AT_MOST, alike
