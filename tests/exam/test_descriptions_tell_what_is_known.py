"""The facts about the demo's photographs, and what is left out, altered, invented and padded of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from beholder.demo.photos import load_photos
from beholder.exam.exam import write_exam
from beholder.exam.paper import SIZES
from beholder.exam.text_papers import FILLER, FILLER_SENTENCES, PHOTO_FACTS
from beholder.rubrics.rubric import Rubric


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("exam") / "full"
    return {case.id: case for case in write_exam(Rubric.load("description"), folder, size="full")}


def sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in re.findall(r"[^.]+\.", text)]


def test_every_photograph_has_facts_enough_for_five_steps() -> None:
    assert set(PHOTO_FACTS) == set(load_photos())
    for about in PHOTO_FACTS.values():
        assert len(about.facts) >= 6
        assert about.facts[0][1] == ""
        assert all(wrong and wrong != true for true, wrong in about.facts[1:])
        assert len(set(about.invented)) == 5
        said = [true for true, _ in about.facts] + [wrong for _, wrong in about.facts[1:]] + list(about.invented)
        assert all(re.fullmatch(r"[A-Z][^.]+\.", sentence) for sentence in said)
        assert len(set(said)) == len(said)
    assert len(FILLER) == FILLER_SENTENCES[-1]


def test_the_expected_description_and_the_reworded_one_hold_every_fact() -> None:
    small = set(re.findall("[a-z]+", "a an the of is are in on it its her and with to has shows picture"))
    for about in PHOTO_FACTS.values():
        for true, _ in about.facts:
            words = set(re.findall("[a-z]+", true.lower())) - small
            for text in (about.expected, about.reworded):
                there = set(re.findall("[a-z]+", text.lower()))
                assert len(words & there) >= 0.4 * len(words), (true, text)


@pytest.mark.parametrize("source", PHOTO_FACTS)
def test_each_step_holds_what_the_step_before_did(papers: dict[str, Any], source: str) -> None:
    about = PHOTO_FACTS[source]
    facts = {true for true, _ in about.facts}
    wrong = {wrong for _, wrong in about.facts[1:]}
    assert set(sentences(papers[f"{source}/clean-told"].fields["output"])) == facts
    before: dict[str, set[str]] = {}
    for strength in range(1, 6):
        told = {
            kind: set(sentences(papers[f"{source}/{kind}-{strength}"].fields["output"]))
            for kind in ("omission-left_out", "hallucination-invented", "wrong-altered", "padding-filler")
        }
        bad = {
            "omission-left_out": facts - told["omission-left_out"],
            "hallucination-invented": told["hallucination-invented"] & set(about.invented),
            "wrong-altered": told["wrong-altered"] & wrong,
            "padding-filler": told["padding-filler"] & set(FILLER),
        }
        assert [len(found) for found in bad.values()] == [strength, strength, strength, FILLER_SENTENCES[strength - 1]]
        assert all(before.get(kind, set()) < found for kind, found in bad.items())
        assert all(about.facts[0][0] in said for said in told.values())
        assert told["hallucination-invented"] | told["padding-filler"] >= facts
        assert len(told["wrong-altered"]) == len(facts)
        before = bad


def test_padding_on_a_thin_description_says_nothing_that_its_twin_does_not(papers: dict[str, Any]) -> None:
    thin = [case for case in papers.values() if case.groups["kind"] == "filler_thin"]
    assert len(thin) == len(PHOTO_FACTS)
    for case in thin:
        twin = papers[case.groups["twin"]]
        more = case.fields["output"].removeprefix(twin.fields["output"])
        assert set(sentences(more)) <= set(FILLER)
        assert twin.groups["part"] == "omission"


def test_the_wrong_description_is_another_photographs(papers: dict[str, Any]) -> None:
    for source in PHOTO_FACTS:
        said = papers[f"{source}/wrong-other_photo-5"].fields["output"]
        assert not {true for true, _ in PHOTO_FACTS[source].facts[:1]} & set(sentences(said))
        assert any(said.startswith(about.facts[0][0]) for about in PHOTO_FACTS.values())


def test_the_full_exam_has_every_wording_on_every_photograph(papers: dict[str, Any]) -> None:
    injections = [case for case in papers.values() if case.groups["part"] == "injection"]
    assert len(injections) == 9 * len(PHOTO_FACTS)
    assert SIZES["full"].photos * 9 == SIZES["full"].injections
