"""A description is held against the expected ones: copies are right, contradictions and gaps are found and named."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.instruments.text.comparison import TextInput
from beholder.instruments.text.description import INSTRUMENTS, DescriptionAssessment, assess_description
from beholder.rubrics.rubric import Rubric

YARD = (
    "A red car is parked on the left of a wooden house. "
    "Two black dogs sit in front of the door and there are no people."
)  # fmt: skip


def described(output: str, *expected: str, question: str = "") -> DescriptionAssessment:
    return assess_description(TextInput(output, expected, question))


def scores(found: DescriptionAssessment) -> dict[str, float | None]:
    return {key: dimension.score for key, dimension in found.dimensions.items()}


def accuracy(output: str, *expected: str) -> float:
    score = described(output, *expected).dimensions["visual_accuracy"].score
    assert score is not None
    return score


def total(output: str, *expected: str, question: str = "") -> float:
    """What the rubric makes of the dimensions."""
    found = scores(described(output, *expected, question=question))
    criteria = Rubric.load("description").criteria
    return sum(one.weight * (found[one.key] or 0.0) for one in criteria) / sum(one.weight for one in criteria)


def against(found: DescriptionAssessment) -> list[str]:
    named = "against the expected description: "
    return [one.removeprefix(named) for one in found.findings["hallucinations"] if one.startswith(named)]


def measure(name: str, output: str, *expected: str, question: str = "") -> float | None:
    return described(output, *expected, question=question).measurements[f"description.{name}"].value


subjects = st.sampled_from(["dog", "car", "woman", "boat", "horse", "pizza", "laptop", "tree"])
colours = st.sampled_from(["red", "green", "blue", "black", "white"])
acts = st.sampled_from(["stands", "waits", "rests", "shines"])
places = st.sampled_from(["beside a bridge", "near the fence", "on the beach", "behind a table"])
sentences = st.builds(
    lambda colour, subject, act, place: f"A {colour} {subject} {act} {place}.", colours, subjects, acts, places
)


def test_the_answer_has_the_rubrics_dimensions_and_findings_in_its_order() -> None:
    rubric = Rubric.load("description")
    found = described("A dog.", "A cat.")
    assert list(found.dimensions) == [criterion.key for criterion in rubric.criteria]
    assert list(found.findings) == [finding.key for finding in rubric.findings]
    assert "no image was looked at" in found.assessment


@given(st.lists(sentences, min_size=1, max_size=4), st.lists(sentences, max_size=3))
def test_a_copy_of_an_expected_description_is_accurate_and_complete(copy: list[str], others: list[str]) -> None:
    text = " ".join(copy)
    found = scores(described(text, text, *others))
    assert found["visual_accuracy"] == pytest.approx(1)
    assert found["completeness"] == pytest.approx(1)


def test_a_copy_with_every_kind_of_claim_is_perfect_and_pleases_people() -> None:
    found = described(YARD, YARD)
    assert list(scores(found).values()) == pytest.approx([1, 1, 1, 1])
    assert found.findings["hallucinations"] == found.findings["missing_elements"] == ()
    assert found.human_rating is not None
    assert found.human_rating > 3.5


def test_an_unrelated_description_is_low_in_all_but_wording() -> None:
    found = described("A woman is eating pizza in a restaurant with a glass of wine.", YARD)
    assert scores(found)["visual_accuracy"] == scores(found)["completeness"] == scores(found)["relevance"] == 0
    assert "not in the expected description: pizza" in found.findings["hallucinations"]
    assert "two black dogs" in found.findings["missing_elements"]
    assert found.human_rating is not None
    assert found.human_rating < 1.3


@pytest.mark.parametrize(
    ("kind", "old", "new", "said", "expected"),
    [
        ("colours", "red car", "blue car", "blue car", "red car"),
        ("numbers", "Two black", "Three black", "3 dogs", "2 dogs"),
        ("sides", "left", "right", "car on the right", "car on the left"),
        ("negations", "are no people", "are people", "people", "no people"),
        ("negations", "A red car is", "No car is", "no car", "car"),
    ],
)
def test_a_contradiction_lowers_the_accuracy_visibly_and_is_named(
    kind: str, old: str, new: str, said: str, expected: str
) -> None:
    assert old in YARD
    found = described(YARD.replace(old, new), YARD)
    assert measure(f"contradicted_{kind}", YARD, YARD) == 0
    assert measure(f"contradicted_{kind}", YARD.replace(old, new), YARD) == 1
    named = f"against the expected description: “{said}” where “{expected}” is expected"
    assert named in found.findings["hallucinations"]
    assert scores(found)["visual_accuracy"] == pytest.approx(0.42, abs=0.04)


@given(subjects, colours, colours, acts, places)
def test_another_colour_always_costs_accuracy(subject: str, one: str, other: str, act: str, place: str) -> None:
    said, expected = (f"A {colour} {subject} {act} {place}." for colour in (one, other))
    assert (accuracy(said, expected) < 0.9) == (one != other)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("a black and white dog", "a black dog"),  # one of several colours
        ("a tan dog", "a brown dog"),  # synonyms
        ("a golden dog", "a brown dog"),  # neighbours
        ("a dog", "two dogs"),  # "a" does not count
        ("a dog on the left", "a dog in the middle"),
        ("a red car and a blue house", "a blue house"),
        ("there are no people", "a red car"),  # what is not spoken of
        ("there is no blue cup", "a red cup"),
        ("there is no red cup", "a cup"),  # of which no colour is given
        ("a blue cup", "there is no red cup"),
        ("There is no red cup.", "There is no red cup."),
        ("Red.", "a red car and a blue house"),
        ("12 eggs", "a dozen eggs"),
        ("six eggs", "half a dozen eggs"),
        ("24 eggs", "two dozen eggs"),
        ("25 eggs", "twenty-five eggs"),
        ("the red one of two dogs", "two dogs"),
        ("not only a dog but also a cat", "a dog and a cat"),
        ("On the left.", "The dog is on the left."),
    ],
)
def test_what_fits_or_is_not_spoken_of_is_no_contradiction(said: str, expected: str) -> None:
    assert not against(described(said, expected))


EXCELLENT, PASSES = 0.9, 0.7


@pytest.mark.parametrize(
    ("once", "twice", "expected"),
    [
        ("A car left of the house.", "A red car left of the house.", "A blue car right of the house."),
        (
            "Three dogs play with a red frisbee on the grass.",
            "Three dogs play with a yellow frisbee on the grass.",
            "Two dogs play with a red frisbee on the grass.",
        ),
        (
            "A blue car beside a house without people.",
            "A blue car beside a house with people.",
            "A red car beside a house without people.",
        ),
        ("a blue car beside a house", "a blue car beside a red house", "a red car beside a blue house"),
    ],
)  # fmt: skip
def test_one_contradiction_is_not_excellent_and_two_do_not_pass(once: str, twice: str, expected: str) -> None:
    assert len(against(described(once, expected))) == 1
    assert total(once, expected) < EXCELLENT
    assert len(against(described(twice, expected))) == 2
    assert total(twice, expected) < PASSES
    assert total(expected, expected) == pytest.approx(1)


def test_a_contradiction_weighs_less_among_many_things() -> None:
    many = (
        "The room has a bed, a lamp, a desk, a chair, a shelf, a rug, a mirror, a clock, a vase, a plant and a door. "
    )
    short = accuracy("The cup is blue and white.", "The cup is red.")
    long = accuracy(f"{many} The cup is blue.", f"{many} The cup is red.")
    assert short < 0.5 < long < 0.8


@pytest.mark.parametrize(
    ("said", "expected", "question", "found"),
    [
        (
            "There is no red cup on the table.",
            "A red cup and a silver spoon on a wooden table.",
            "",
            "“no red cup” where “red cup” is expected",
        ),
        ("The cup is not red.", "A red cup on a table.", "", "“no red cup” where “red cup” is expected"),
        ("A red cup on a table.", "There is no red cup.", "", "“red cup” where “no red cup” is expected"),
        ("Blue.", "The car is red.", "", "“blue” where “red car” is expected"),
        ("It is blue.", "A red car and a blue house.", "What colour is the car?", "“blue” where “red car” is expected"),
        ("The car is blue.", "Red.", "What colour is the car?", "“blue car” where “red” is expected"),
        ("Three.", "There are two dogs.", "How many dogs are there?", "“3” where “2 dogs” is expected"),
        (
            "On the left.",
            "The car is on the right.",
            "Where is the car?",
            "“on the left” where “car on the right” is expected",
        ),
        ("No visible people.", "Two people on a beach.", "", "“no people” where “people” is expected"),
        ("A dozen eggs.", "Ten eggs.", "", "“12 eggs” where “10 eggs” is expected"),
    ],
)
def test_a_denied_quality_and_an_answer_of_one_word_are_contradicted_too(
    said: str, expected: str, question: str, found: str
) -> None:
    assert against(described(said, expected, question=question)) == [found]


def test_what_is_contradicted_is_not_praised() -> None:
    found = described("Three dogs play.", "Two dogs play.")
    assert "names what is expected: dogs" in found.findings["strengths"]


def test_a_dozen_is_a_number_and_no_thing() -> None:
    found = described("A dozen eggs. 12 eggs in a box, dozens of them.", "Twelve eggs in a box.")
    assert found.findings["hallucinations"] == ()
    assert scores(found)["visual_accuracy"] == pytest.approx(1, abs=0.2)


def test_a_text_that_only_repeats_itself_does_not_pass() -> None:
    expected = "A red car is parked in front of a wooden house."
    assert total(" ".join([expected] * 9000), expected) < 0.5
    assert total(" ".join([expected] * 6), expected) < PASSES
    buried = described(" ".join([expected] * 6), expected).dimensions["completeness"].reason
    assert "100 % of the expected description is said, buried in a text of which" in buried


def test_a_swap_of_colours_is_found_though_every_word_is_right() -> None:
    expected = "a red car beside a blue house"
    swapped = described("a blue car beside a red house", expected)
    assert swapped.measurements["description.precision"].value == 1
    assert swapped.measurements["description.contradicted_colours"].value == 2


def test_the_same_relation_said_the_other_way_round_is_no_contradiction() -> None:
    assert measure("contradicted_sides", "a house right of a car", "a car to the left of a house") == 0
    assert measure("contradicted_sides", "a house left of a car", "a car to the left of a house") == 1


def test_any_of_several_expected_descriptions_may_bear_a_word_out() -> None:
    expected = ("A dog runs.", "A brown animal plays with a ball on grass.")
    assert measure("precision", "A brown dog runs on the lawn with a ball", *expected) == pytest.approx(1, abs=0.05)
    assert measure("contradicted_colours", "a red car", "a blue car", "a red car") == 0


@given(sentences, st.lists(sentences, min_size=1, max_size=4))
def test_one_more_expected_description_never_takes_support_away(said: str, expected: list[str]) -> None:
    fewer, more = measure("precision", said, *expected[:1]), measure("precision", said, *expected)
    assert fewer is not None
    assert more is not None
    assert more >= fewer - 1e-9


@given(sentences, st.lists(sentences, min_size=2, max_size=4))
def test_the_order_of_the_expected_descriptions_does_not_matter(said: str, expected: list[str]) -> None:
    one, other = scores(described(said, *expected)), scores(described(said, *reversed(expected)))
    assert [one[key] for key in ("visual_accuracy", "relevance")] == pytest.approx(
        [other[key] for key in ("visual_accuracy", "relevance")]
    )
    assert one["completeness"] == pytest.approx(other["completeness"])


@given(st.lists(sentences, min_size=2, max_size=5, unique=True))
def test_leaving_a_sentence_out_never_adds_completeness(expected: list[str]) -> None:
    whole = " ".join(expected)
    shares = [measure("recall", " ".join(expected[:count]), whole) for count in range(1, len(expected) + 1)]
    assert all(share is not None for share in shares)
    assert shares == sorted(shares, key=lambda share: share or 0.0)
    assert shares[-1] == pytest.approx(1)


def test_synonyms_and_general_words_are_no_hallucinations_and_siblings_are() -> None:
    found = described("An automobile and an animal near a cat.", "A car and a dog.")
    assert found.findings["hallucinations"] == ("not in the expected description: cat",)


def test_a_long_answer_that_covers_all_is_not_taken_for_wrong() -> None:
    more = f"The image shows the following. {YARD} Behind it are lush green hills, a fence, a mailbox and a tall oak."
    found = described(more, YARD)
    assert scores(found)["completeness"] == pytest.approx(1)
    score = scores(found)["visual_accuracy"]
    assert score is not None
    assert 0.5 < score < 0.95
    assert any("mailbox" in one for one in found.findings["hallucinations"])


def test_missing_qualities_are_counted_and_named() -> None:
    measurement = described("a car", "a red car and two wooden houses").measurements["description.attribute_recall"]
    assert measurement.value == 0
    assert "red" in measurement.sentence
    assert "two" in measurement.sentence


def test_what_most_expected_descriptions_name_is_an_improvement() -> None:
    found = described("A dog runs.", "A dog runs.", "A dog runs with a ball.", "A dog carries a ball.")
    assert scores(found)["completeness"] == pytest.approx(1)
    assert any("ball" in one for one in found.findings["improvements"])


def test_repetition_and_vague_words_cost_clarity() -> None:
    expected = "A dog runs over a field with a ball."
    clear = scores(described(expected, expected))["clarity"]
    again = scores(described(" ".join([expected] * 5), expected))["clarity"]
    vague = scores(described("Something, maybe a dog or some thing, runs over a field with stuff.", expected))[
        "clarity"
    ]
    assert clear == 1
    assert again is not None
    assert again < 0.4
    assert vague is not None
    assert vague < 0.6


def test_length_is_measured_against_what_is_expected() -> None:
    assert measure("length", "a dog and a cat", "a dog", "a brown dog") == pytest.approx(2)
    assert measure("words", "a dog and a cat") == 5


@pytest.mark.parametrize(
    ("question", "good", "bad"),
    [
        ("How many dogs are there?", "There are three dogs.", "There are dogs."),
        ("What colour is the bus?", "The bus is red.", "The bus is full."),
        ("Where is the cat?", "The cat is under the table.", "The cat sleeps."),
        ("Who holds the umbrella?", "A woman holds the umbrella.", "The umbrella is held."),
        ("Is there a dog?", "Yes, there is a dog.", "Trees."),
        ("What is the man holding?", "The man holds a rope.", "It rains."),
    ],
)
def test_an_answer_fits_its_question_when_it_has_what_was_asked_for(question: str, good: str, bad: str) -> None:
    better = measure("question_fit", good, question=question)
    worse = measure("question_fit", bad, question=question)
    assert better is not None
    assert worse is not None
    assert better >= 0.9
    assert worse <= better - 0.3


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is on the table?", "A cup."),
        ("What is the man doing?", "Surfing."),
        ("What animal is this?", "A dog."),
        ("What is the weather like?", "Sunny."),
        ("Which animals are in the field?", "Two horses."),
    ],
)
def test_a_short_right_answer_is_no_misfit(question: str, answer: str) -> None:
    fit = measure("question_fit", answer, question=question)
    assert fit is not None
    assert fit >= 0.69
    echo = measure("question_fit", question.removeprefix("What ").removeprefix("Which "), question=question)
    assert echo is not None
    assert echo < 0.5


def test_any_description_answers_what_is_shown() -> None:
    found = described("A dog.", question="What is shown in the image?").measurements["description.question_fit"]
    assert "nothing particular" in found.sentence


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("No.", "Yes.", "No, there is no dog."),
        ("Yes.", "No.", "Yes, there is a dog."),
        ("On the left.", "On the right.", "The dog is on the left."),
    ],
)
def test_an_answer_without_a_content_word_is_right_or_wrong(right: str, wrong: str, expected: str) -> None:
    assert accuracy(wrong, expected) < accuracy(right, expected)
    assert accuracy(wrong, expected) == 0 or accuracy(right, expected) > 2 * accuracy(wrong, expected)


def test_words_of_answering_are_no_things() -> None:
    assert described("Yes, sure, there is a dog.", "A dog.").findings["hallucinations"] == ()


def test_a_negative_answer_takes_up_the_question() -> None:
    assert measure("question_fit", "No, there is no dog.", question="Is there a dog?") == pytest.approx(1)


@given(sentences, st.lists(sentences, max_size=3), st.sampled_from(["", "Describe it.", "What colour is it?"]))
def test_every_number_is_in_its_range(said: str, expected: list[str], question: str) -> None:
    found = described(said, *expected, question=question)
    for measurement in found.measurements.values():
        assert measurement.sentence
        if measurement.value is not None and measurement.unit == "share":
            assert 0 <= measurement.value <= 1
    for score in scores(found).values():
        assert score is None or (0 <= score <= 1 and math.isfinite(score))
    assert found.human_rating is None or 1 <= found.human_rating <= 4


def test_every_instrument_has_a_name_a_convention_and_measures_texts() -> None:
    names = [one.name for one in INSTRUMENTS]
    assert len(set(names)) == len(names) >= 19
    for one in INSTRUMENTS:
        assert one.kind == "text"
        assert one.about.endswith(".")
        assert one.measure(TextInput(YARD, (YARD,), "How many dogs are there?")).name == one.name
