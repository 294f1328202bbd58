"""What people would say is predicted for edits of photographs, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import pytest
from support.instruments import flat, pasted, photo

from beholder.instruments.human_ratings import predict_pair_ratings
from beholder.instruments.instrument import state_condition
from beholder.instruments.pair import ImagePair

PHOTO = photo("coffee", 512, 384)
CLEAR = np.zeros((384, 512, 4), np.uint8)
NOISE = np.random.default_rng(0).integers(0, 256, PHOTO.shape).astype(np.uint8)
EDIT = pasted(PHOTO, 0.1, 0.1, 0.3, 0.3, (200, 30, 30))

RUBBISH: dict[str, tuple[Callable[[], ImagePair], str]] = {
    "black": (lambda: ImagePair(PHOTO, flat((0, 0, 0), 512, 384)), "the image after has no detail"),
    "transparent": (lambda: ImagePair(PHOTO, CLEAR), "the image after has no detail"),
    "from black": (lambda: ImagePair(flat((0, 0, 0), 512, 384), PHOTO), "the image before has no detail"),
    "black to black": (lambda: ImagePair(*[flat((0, 0, 0), 512, 384)] * 2), "the image before has no detail"),
    "one pixel": (lambda: ImagePair(PHOTO, flat((255, 0, 0), 1, 1)), "the image after is too small (1×1 px)"),
    "a thumbnail": (lambda: ImagePair(PHOTO, cv2.resize(PHOTO, (64, 48))), "the image after is too small (64×48 px)"),
    "noise": (lambda: ImagePair(PHOTO, NOISE), "the images could not be registered"),
    "upside down": (lambda: ImagePair(PHOTO, np.ascontiguousarray(PHOTO[::-1, ::-1])), "could not be registered"),
    "another photo": (lambda: ImagePair(PHOTO, photo("rocket", 512, 384)), "could not be registered"),
    "another shape": (lambda: ImagePair(PHOTO, photo("rocket", 300, 384)), "the images have different shapes"),
    "identical": (lambda: ImagePair(PHOTO, PHOTO.copy()), "the images are identical"),
    "a mask": (lambda: ImagePair(PHOTO, EDIT, mask=np.ones((384, 512), np.bool_)), "without a mask"),
}


@pytest.mark.parametrize("what", RUBBISH)
def test_rubbish_is_not_rated(what: str) -> None:
    make, why = RUBBISH[what]
    said = predict_pair_ratings(make())
    assert set(said) == {"people.realism", "people.kept"}
    for one in said.values():
        assert one.value is None
        assert one.sentence.startswith("Not predicted: ")
        assert why in one.sentence


def test_an_edit_is_rated() -> None:
    for one in predict_pair_ratings(ImagePair(PHOTO, EDIT)).values():
        assert one.value is not None
        assert one.sentence.startswith("People would rate it about")


def test_what_is_shown_of_kept_says_on_what_condition_it_holds() -> None:
    predicted = predict_pair_ratings(ImagePair(PHOTO, EDIT))
    shown = {name: state_condition(name, one.sentence) for name, one in predicted.items()}
    assert shown["people.kept"].startswith(
        "If the edit did what was asked, which is not measured: people would rate it"
    )
    assert shown["people.realism"] == predicted["people.realism"].sentence
    assert state_condition("people.kept", "Not predicted: identical.") == "Not predicted: identical."
