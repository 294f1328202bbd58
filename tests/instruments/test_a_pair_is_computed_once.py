"""Whoever measures a pair decodes each image once, and the instruments share what they have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from support.instruments import noisy, pasted, photo, png

from beholder import judge, measure
from beholder.instruments import pair as pairs
from beholder.instruments.human_ratings import measure_pixel_features

BEFORE = photo("coffee", 480, 360)
AFTER = noisy(pasted(BEFORE, 0.1, 0.1, 0.4, 0.4, (9, 9, 200)))
EACH_ONCE = {"_decode_scaled": 2, "to_gray": 2, "register_images": 1, "compute_color_difference": 1, "compute_ssim": 1}


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each of the costly steps was taken."""
    found: Counter[str] = Counter()

    def count(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            found[name] += 1
            return step(*args, **options)

        return counted

    for name in EACH_ONCE:
        monkeypatch.setattr(pairs, name, count(name, getattr(pairs, name)))
    return found


def test_by_measure(counts: Counter[str]) -> None:
    found = measure(png(BEFORE), png(AFTER))
    assert {"colour.noticeable", "quality.noise", "people.realism"} <= set(found.values)
    assert counts == EACH_ONCE


def test_by_a_calibration(counts: Counter[str]) -> None:
    features, _ = measure_pixel_features((png(BEFORE), png(AFTER)))
    assert "pixels.colour.noticeable" in features
    assert counts == EACH_ONCE


def test_by_the_judge_of_edits(counts: Counter[str]) -> None:
    verdict = judge(
        "edit-preservation", judge="instruments", input=png(BEFORE), edited=png(AFTER), instruction="paint a square"
    )
    assert "people.realism" in verdict.measurements
    assert counts == EACH_ONCE


def test_by_the_judge_of_restyles(counts: Counter[str]) -> None:
    verdict = judge("restyle", judge="instruments", original=png(BEFORE), restyled=png(AFTER), style="Watercolour")
    assert {"restyle.strength", "quality.noise"} & set(verdict.measurements)
    assert counts == EACH_ONCE
