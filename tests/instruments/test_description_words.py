"""Words are split, brought to their base form and told apart as the text instruments promise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.instruments.lexicon import NEARNESS, Company, lexicon
from beholder.instruments.texts import LEAST_WEIGHT, rarity
from beholder.instruments.words import BREAK, is_english, lemma, number, script, words


@pytest.mark.parametrize(
    ("form", "base"),
    [
        ("dogs", "dog"), ("children", "child"), ("boxes", "box"), ("buses", "bus"), ("berries", "berry"),
        ("glasses", "glasses"), ("grass", "grass"), ("riding", "ride"), ("rode", "ride"), ("rides", "ride"),
        ("running", "run"), ("stopped", "stop"), ("carried", "carry"), ("building", "building"), ("wooded", "wooded"),
        ("shelves", "shelf"), ("hugging", "hug"), ("smiled", "smile"), ("parked", "park"), ("tennis", "tennis"),
        ("vaping", "vape"), ("zipping", "zip"), ("blorps", "blorp"), ("colours", "color"), ("42", "42"),
    ],
)  # fmt: skip
def test_a_base_form_is_found(form: str, base: str) -> None:
    assert lemma(form) == base


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (
            "Two young boys ride bikes",
            {"two": "number", "young": "quality", "boy": "noun", "ride": "verb", "bike": "noun"},
        ),
        ("an orange on a plate", {"orange": "noun", "plate": "noun"}),
        ("a man in an orange shirt", {"orange": "quality", "shirt": "noun", "in": "function"}),
        ("lush green trees", {"lush": "quality", "green": "quality", "tree": "noun"}),
        ("the one on the left", {"one": "function", "left": "function"}),
    ],
)
def test_kinds_of_words_are_told_apart(text: str, kinds: dict[str, str]) -> None:
    found = {word.lemma: word.kind for word in words(text)}
    assert {name: found[name] for name in kinds} == kinds


def test_contractions_and_compounds_are_taken_apart_and_together() -> None:
    assert [word.form for word in words("He isn't eating the dog’s hot dogs.")] == [
        "he", "is", "not", "eating", "the", "dog", "hot_dog", ".",
    ]  # fmt: skip


def test_clauses_end_at_punctuation() -> None:
    assert words("a dog, a cat")[2] is BREAK


def test_numbers_are_read_in_words_and_digits() -> None:
    assert [number(word) for word in words("three 12 dogs")] == [3, 12, None]
    assert [word.lemma for word in words("2 dogs")] == [word.lemma for word in words("two dogs")]


def test_a_script_without_spaces_is_compared_by_pairs_of_characters() -> None:
    assert [word.form for word in words("一只狗跑")] == ["一只", "只狗", "狗跑"]


def test_the_script_is_that_of_most_letters() -> None:
    assert script("Красная машина OK 123") == "CYRILLIC"
    assert script("狗がいる") == "CJK"
    assert script("12 … !") == ""


def test_english_is_told_from_other_languages_and_short_texts_are_not_judged() -> None:
    assert is_english(words("A brown dog runs over the wet grass to its owner")) is True
    assert is_english(words("Ein brauner Hund rennt über das nasse Gras zu seinem Herrn")) is False
    assert is_english(words("Ein Hund")) is None
    assert is_english(words("A red car")) is True
    assert is_english(words("Een hond rent op het strand")) is False
    assert is_english(words("Il cane corre sulla spiaggia")) is False
    assert is_english(words("A dog in Los Angeles")) is not False


def test_a_word_is_borne_out_by_the_same_a_synonym_or_a_kind_of_it_but_not_by_a_sibling() -> None:
    dog = Company(["dog"])
    assert dog.nearest("dog") == 1.0
    assert dog.nearest("puppy") == NEARNESS["synonym"]
    assert dog.nearest("animal") == NEARNESS["kind_of"]
    assert dog.nearest("terrier") == NEARNESS["special_of"]
    assert dog.nearest("cat") == NEARNESS["sibling"]
    assert dog.nearest("leash") == NEARNESS["topic"]
    assert dog.nearest("teapot") == 0.0
    assert [dog.borne_out(word) > 0 for word in ("puppy", "animal", "terrier", "cat", "leash")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_every_word_of_the_lexicon_is_its_own_base_form() -> None:
    assert [word for word in sorted(lexicon().words) if "_" not in word and lemma(word) != word] == []


def test_rare_words_weigh_more_and_words_of_presentation_least() -> None:
    table = rarity()
    assert table.weight("skijoring") > table.weight("skateboard") > table.weight("man") >= LEAST_WEIGHT
    assert table.weight("image") == LEAST_WEIGHT
    assert table.weight("not man") == table.weight("man")


def test_the_table_of_words_is_modest() -> None:
    assert 500 < len(rarity().mentions) <= 3000


@given(st.text(max_size=200))
def test_any_text_has_words(text: str) -> None:
    for word in words(text):
        assert word is BREAK or word.form
