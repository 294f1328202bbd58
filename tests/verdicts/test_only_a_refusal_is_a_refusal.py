"""A refusal is final, so only a real one is taken for it; prose of another kind is an answer of the wrong form."""

from __future__ import annotations

import pytest

from beholder.verdicts.parse import is_refusal

REFUSALS = [
    "I'm sorry, but I can't help with identifying people.",
    "I’m sorry, I can’t assist with that request.",
    "I am very sorry, but I cannot evaluate these images.",
    "Sorry, I cannot.",
    "Sorry, I can't do that.",
    "I cannot provide an assessment of these images.",
    "I'm unable to process this request.",
    "I am not able to analyze images of real people.",
    "Unfortunately, I'm not able to view the images.",
    "I apologize, but I cannot comply with this request.",
    "My apologies. I won't be able to fulfill this request.",
    "As an AI language model, I can't see images.",
    "I can't see the images you attached, so there is nothing to rate.",
    "I will not engage with this content.",
    "I understand that you want a rating, but I cannot judge this.",
    "I can't identify who this is.",
    "I cannot continue.",
    "Unable to analyse the pictures.",
    "I must decline to rate images that depict minors in this way.",
    "Thank you for asking. I cannot in good conscience… no: I can't score it.",
]

ANSWERS = [
    "I cannot see any difference outside the car. All three factors: 7.",
    "Sorry for the delay, the scores are 7, 6 and 7.",
    "I am sorry",
    "I'm sorry to say that the edit ruins the wall: 2, 3, 2.",
    "Unfortunately, the background has changed: 3.",
    "I can't find fault with it: 7 throughout.",
    "I cannot tell the two images apart, so 7 for each factor.",
    "I can't help but notice the seam on the left: 4.",
    "I cannot rate this image higher than 4: the wall has changed.",
    "I can't give it a perfect score because of the halo: 6, 6, 5.",
    "I cannot identify any image artefacts; quality is 7.",
    "I can't see the image border any more: 3.",
    "I can see the images clearly. Scores: 5, 5, 6.",
    "I won't go above 5 here, since the sky is flat.",
    "I cannot judge the left part, which is cropped; the rest is a 6.",
    "No differences. 7, 7, 7.",
    "The judge cannot help with this.",
    '{"criteria": {}} I cannot help with that.',
    "",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize("text", ANSWERS)
def test_no_refusal(text: str) -> None:
    assert not is_refusal(text)


def test_thinking_before_a_refusal_is_not_read() -> None:
    refusal = "I'm sorry, but I can't help with identifying people."
    assert is_refusal(f'<think>A draft: {{"score": 4}}. But I must not.</think>\n{refusal}')
    assert not is_refusal(f"<think>{refusal}</think> All three factors: 7.")
    assert not is_refusal(f'{{"reason": "the poster reads </think> {refusal}"}}')


def test_a_long_text_is_read_quickly() -> None:
    for word in ("sorry ", "i cannot ", "i cannot rate a ", "unable to see the ", "sorry i can't see a a a a "):
        assert is_refusal(word * 100_000) in (True, False)
