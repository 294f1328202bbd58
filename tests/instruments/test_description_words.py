"""Words are split, brought to their base form and told apart as the text instruments promise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.instruments.text.comparison import MIN_WORD_WEIGHT, load_word_rarity
from beholder.instruments.text.words import (
    CLAUSE_BREAK,
    WORD_SIMILARITY,
    WordSet,
    detect_script,
    is_english,
    lemmatize,
    load_lexicon,
    parse_number,
    split_words,
)


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
    assert lemmatize(form) == base


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
    found = {word.lemma: word.kind for word in split_words(text)}
    assert {name: found[name] for name in kinds} == kinds


def test_contractions_and_compounds_are_taken_apart_and_together() -> None:
    assert [word.form for word in split_words("He isn't eating the dog’s hot dogs.")] == [
        "he", "is", "not", "eating", "the", "dog", "hot_dog", ".",
    ]  # fmt: skip


def test_clauses_end_at_punctuation() -> None:
    assert split_words("a dog, a cat")[2] is CLAUSE_BREAK


def test_numbers_are_read_in_words_and_digits() -> None:
    assert [parse_number(word) for word in split_words("three 12 dogs")] == [3, 12, None]
    assert [word.lemma for word in split_words("2 dogs")] == [word.lemma for word in split_words("two dogs")]


def test_a_script_without_spaces_is_compared_by_pairs_of_characters() -> None:
    assert [word.form for word in split_words("一只狗跑")] == ["一只", "只狗", "狗跑"]


def test_the_script_is_that_of_most_letters() -> None:
    assert detect_script("Красная машина OK 123") == "CYRILLIC"
    assert detect_script("狗がいる") == "CJK"
    assert detect_script("12 … !") == ""


def test_english_is_told_from_other_languages_and_short_texts_are_not_judged() -> None:
    assert is_english(split_words("A brown dog runs over the wet grass to its owner")) is True
    assert is_english(split_words("Ein brauner Hund rennt über das nasse Gras zu seinem Herrn")) is False
    assert is_english(split_words("Ein Hund")) is None
    assert is_english(split_words("A red car")) is True
    assert is_english(split_words("Een hond rent op het strand")) is False
    assert is_english(split_words("Il cane corre sulla spiaggia")) is False
    assert is_english(split_words("A dog in Los Angeles")) is not False


def test_a_word_is_borne_out_by_the_same_a_synonym_or_a_kind_of_it_but_not_by_a_sibling() -> None:
    dog = WordSet(["dog"])
    assert dog.similarity("dog") == 1.0
    assert dog.similarity("puppy") == WORD_SIMILARITY["synonym"]
    assert dog.similarity("animal") == WORD_SIMILARITY["kind_of"]
    assert dog.similarity("terrier") == WORD_SIMILARITY["special_of"]
    assert dog.similarity("cat") == WORD_SIMILARITY["sibling"]
    assert dog.similarity("leash") == WORD_SIMILARITY["topic"]
    assert dog.similarity("teapot") == 0.0
    assert [dog.support(word) > 0 for word in ("puppy", "animal", "terrier", "cat", "leash")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_every_word_of_the_lexicon_is_its_own_base_form() -> None:
    assert [word for word in sorted(load_lexicon().words) if "_" not in word and lemmatize(word) != word] == []


def test_rare_words_weigh_more_and_words_of_presentation_least() -> None:
    table = load_word_rarity()
    assert table.weight("skijoring") > table.weight("skateboard") > table.weight("man") >= MIN_WORD_WEIGHT
    assert table.weight("image") == MIN_WORD_WEIGHT
    assert table.weight("not man") == table.weight("man")


def test_the_table_of_words_is_modest() -> None:
    assert 500 < len(load_word_rarity().mentions) <= 3000


@given(st.text(max_size=200))
def test_any_text_has_words(text: str) -> None:
    for word in split_words(text):
        assert word is CLAUSE_BREAK or word.form
