"""Texts that are empty, in another script or language, or very long: what cannot be told says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.instruments.text.comparison import TextInput
from beholder.instruments.text.description import INSTRUMENTS, DescriptionAssessment, assess_description
from beholder.instruments.text.measurements import MAX_FITTED_WORDS

CAR = "A red car is parked on the left of a wooden house near the old bridge."
COMPARED = ("precision", "recall", "agreement", "closeness", "scene", "subject", "unsupported_nouns", "human",
            "missing_elements", "attribute_recall", "contradicted_colours", "length")  # fmt: skip


def scores(found: DescriptionAssessment) -> list[float | None]:
    return [dimension.score for dimension in found.dimensions.values()]


def nothing_compared(found: DescriptionAssessment, why: str) -> None:
    for name in COMPARED:
        measurement = found.measurements[f"description.{name}"]
        assert measurement.value is None
        assert why in measurement.sentence
    assert found.human_rating is None
    assert found.findings["hallucinations"] == ()


@pytest.mark.parametrize("references", [(), ("",), ("  ", "\n")])
def test_without_an_expected_description_only_the_question_is_measured(references: tuple[str, ...]) -> None:
    found = assess_description(TextInput(CAR, references, "What colour is the car?"))
    nothing_compared(found, "no expected description")
    assert scores(found) == [None, None, None, 1.0]
    assert scores(assess_description(TextInput(CAR, references, "Describe this image."))) == [None, None, None, None]
    assert found.measurements["description.words"].value == 16


@pytest.mark.parametrize("output", ["", "   \n\t"])
def test_an_empty_output_fails_in_everything(output: str) -> None:
    found = assess_description(TextInput(output, (CAR,), "What colour is the car?"))
    nothing_compared(found, "the output is empty")
    assert scores(found) == [0.0, 0.0, 0.0, 0.0]
    assert found.measurements["description.question_fit"].value == 0
    assert found.findings["missing_elements"] == ("red car", "wooden house", "old bridge")
    assert found.findings["improvements"] == ("name red car, wooden house, old bridge",)


def test_an_empty_output_lacks_everything_in_any_language() -> None:
    found = assess_description(TextInput("", ("Ein roter Wagen steht auf der Straße.",)))
    assert found.findings["missing_elements"] == ("all that is expected",)


def test_an_output_of_punctuation_has_no_content() -> None:
    found = assess_description(TextInput("… !!! ???", (CAR,)))
    nothing_compared(found, "no content word")


@pytest.mark.parametrize("output", ["Красная машина стоит слева от дома", "赤い車が家の左にある", "سيارة حمراء"])
def test_another_script_is_not_compared(output: str) -> None:
    found = assess_description(TextInput(output, (CAR,)))
    nothing_compared(found, "is written in")
    assert scores(found) == [None, None, None, None]


def test_another_language_in_the_same_alphabet_is_not_compared() -> None:
    found = assess_description(
        TextInput("Ein rotes Auto steht links neben einem alten Holzhaus an der Brücke.", (CAR,))
    )
    nothing_compared(found, "different languages")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Ein rotes Auto auf der Straße", "A red car on the street"),
        ("A red car", "Ein rotes Auto steht auf der Straße"),
    ],
)
def test_a_short_text_in_another_language_is_not_compared_either(output: str, expected: str) -> None:
    nothing_compared(assess_description(TextInput(output, (expected,))), "different languages")


def test_repetition_costs_clarity_in_every_language() -> None:
    text = "Красная машина стоит слева от дома. "
    clarity = assess_description(TextInput(text * 9, (text,))).dimensions["clarity"].score
    assert clarity is not None
    assert clarity < 0.3


def test_what_is_not_compared_is_told_in_plain_words() -> None:
    relevance = assess_description(TextInput("赤い車が家の左にある", (CAR,), "What is on the left?")).dimensions[
        "relevance"
    ]
    assert "Chinese or Japanese characters, the expected description in Latin letters" in relevance.reason
    assert relevance.reason.endswith("questions are understood in English only.")


def test_digits_are_in_every_script() -> None:
    assert (
        assess_description(TextInput("3", ("There are 3 dogs",), "How many dogs?")).dimensions["visual_accuracy"].score
        == 1
    )


def test_an_expected_description_in_the_outputs_script_is_enough() -> None:
    found = assess_description(TextInput("A red car", ("Красная машина", "A red car")))
    assert found.dimensions["visual_accuracy"].score == pytest.approx(1)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Синяя машина стоит у дома", "Красная машина стоит слева от дома"),
        ("一只棕色的狗在草地上奔跑", "一只狗在草地上跑"),
        ("Ein roter Wagen parkt links neben dem alten Haus", "Ein roter Wagen parkt rechts neben dem alten Haus"),
        ("Ein roter Wagen steht auf der Straße.", "Ein blauer Wagen steht auf der Straße."),
        ("Un chat noir dort sur la table.", "Un chat blanc dort sur la table."),
        ("Un perro negro corre por la playa.", "Un perro blanco corre por la playa."),
    ],
)
def test_other_languages_are_compared_word_by_word_and_kinds_of_words_are_not_told(output: str, expected: str) -> None:
    found = assess_description(TextInput(output, (expected,)))
    precision = found.measurements["description.precision"].value
    assert precision is not None
    assert 0.3 < precision < 1
    assert found.dimensions["clarity"].score == 1  # by repetition and length alone
    assert None not in scores(found)
    assert "word by word" in found.dimensions["visual_accuracy"].reason
    assert "English only" in found.measurements["description.unsupported_nouns"].sentence
    assert found.human_rating is None


def test_function_words_of_another_language_are_no_agreement() -> None:
    found = assess_description(
        TextInput("der Hund und die Katze", ("der Wagen und die Brücke vor dem Haus an der alten Straße",))
    )
    assert found.measurements["description.precision"].value == 0


def test_the_map_to_peoples_ratings_keeps_to_what_it_was_fitted_on() -> None:
    long = " ".join([CAR] * (MAX_FITTED_WORDS // 10))
    assert assess_description(TextInput(CAR, (CAR,))).human_rating is not None
    found = assess_description(TextInput(long, (CAR,)))
    assert found.human_rating is None
    assert "single sentences" in found.measurements["description.human"].sentence


@pytest.mark.parametrize("words", [["dog", "runs", "the", "red"], [f"w{n}" for n in range(50_000)], ["狗跑草地"]])
def test_a_hundred_thousand_words_are_measured(words: list[str]) -> None:
    text = " ".join(words * (100_000 // len(words)))
    for texts in (TextInput(text, (CAR, text)), TextInput(CAR, (text,)), TextInput(text, (), text)):
        found = assess_description(texts)
        assert found.dimensions.keys() == {"visual_accuracy", "completeness", "clarity", "relevance"}
        assert all(len(findings) <= 20 for findings in found.findings.values())
        assert len(found.assessment) < 5000


@given(st.text(max_size=80), st.lists(st.text(max_size=80), max_size=3), st.text(max_size=40))
def test_any_texts_at_all_are_measured_or_said_not_to_be(output: str, expected: list[str], question: str) -> None:
    texts = TextInput(output, tuple(expected), question)
    assess_description(texts)
    for one in INSTRUMENTS:
        measurement = one.measure(texts)
        assert measurement.sentence
        assert (measurement.value is None) == measurement.sentence.startswith("Not measured: ")


def test_a_number_that_is_too_long_to_be_one_is_a_word() -> None:
    assess_description(TextInput("9" * 10_000 + " dogs", ("two dogs",)))


def test_lone_surrogates_are_text_too() -> None:
    assess_description(TextInput("a dog \ud800 runs", ("a dog \udfff runs",)))
