"""Every check that an assertion may be measured by is there, and holds and fails on pictures made for it."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import pytest
from support.offline import Image, blurred, photo, png, posterised, recompressed, resized, stylised

from beholder.instruments.pair import ImagePair
from beholder.judges.offline.restyle import CHECKS, Findings
from beholder.rubrics.rubric import CheckRule, InstrumentCheck


def plain(level: int, shape: tuple[int, int] = (200, 300)) -> Image:
    return np.full((*shape, 3), level, np.uint8)


def grey(pixels: Image) -> Image:
    return np.asarray(cv2.cvtColor(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB), np.uint8)


def faded(pixels: Image) -> Image:
    return (pixels * 0.3 + 90).astype(np.uint8)


def framed(pixels: Image, level: int = 245) -> Image:
    """On a plain ground."""
    out = plain(level, pixels.shape[:2])
    height, width = pixels.shape[:2]
    inner = cv2.resize(pixels, (width // 2, height // 2), interpolation=cv2.INTER_AREA)
    out[height // 4 : height // 4 + inner.shape[0], width // 4 : width // 4 + inner.shape[1]] = inner
    return out


def enlarged(pixels: Image, side: int) -> Image:
    scale = side / max(pixels.shape[:2])
    return np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC), np.uint8)


def inked(pixels: Image) -> Image:
    """Black lines on white."""
    lines = cv2.adaptiveThreshold(
        cv2.medianBlur(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), 7), 255, cv2.ADAPTIVE_THRESH_MEAN_C,
        cv2.THRESH_BINARY, 11, 4,
    )  # fmt: skip
    return np.repeat(np.asarray(lines, np.uint8)[..., None], 3, axis=2)


def vivid(pixels: Image) -> Image:
    hsv = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)
    hsv[..., 1] = 230
    return np.asarray(cv2.cvtColor(np.maximum(hsv, (0, 0, 90)).astype(np.uint8), cv2.COLOR_HSV2RGB), np.uint8)


def rainbow(_: Image) -> Image:
    hue, value = np.meshgrid(np.linspace(0, 179, 300), np.linspace(60, 255, 200))
    hsv = np.stack([hue, np.full_like(hue, 200), value], axis=2).astype(np.uint8)
    return np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB), np.uint8)


def other(_: Image) -> Image:
    height, width = photo().shape[:2]
    return resized(photo("astronaut"), (width, height))


def coded(pixels: Image) -> Image:
    return recompressed(pixels, 92)


def same(pixels: Image) -> Image:
    return pixels


Make = Callable[[Image], Image]
# By check: what makes a picture of the photo on which it holds, and one on which it does not.
BOTH: dict[InstrumentCheck, tuple[Make, Make]] = {
    InstrumentCheck.COMPOSITION_KEPT: (stylised, other),
    InstrumentCheck.LIGHT_KEPT: (posterised, lambda one: 255 - one),
    InstrumentCheck.REDRAWN: (stylised, grey),
    InstrumentCheck.STYLE_EVERYWHERE: (stylised, same),
    InstrumentCheck.STRONG: (inked, lambda one: recompressed(one, 20)),
    InstrumentCheck.STRENGTH: (stylised, lambda one: recompressed(one, 20)),
    InstrumentCheck.SHARP: (stylised, lambda one: blurred(one, 4)),
    InstrumentCheck.CLEAN: (stylised, coded),
    InstrumentCheck.PRINT_SIZE: (lambda one: enlarged(one, 1800), same),
    InstrumentCheck.TONAL_RANGE: (inked, faded),
    InstrumentCheck.DEEP_BLACKS: (lambda one: (one * 0.2).astype(np.uint8), faded),
    InstrumentCheck.OPEN_SHADOWS: (faded, lambda one: (one * 0.05).astype(np.uint8)),
    InstrumentCheck.COLOURLESS: (grey, vivid),
    InstrumentCheck.SATURATED: (vivid, grey),
    InstrumentCheck.FEW_COLOURS: (inked, rainbow),
    InstrumentCheck.FLAT_COLOUR: (posterised, lambda one: blurred(one, 2)),
    InstrumentCheck.WHITE_PAPER: (inked, same),
    InstrumentCheck.PLAIN_GROUND: (framed, same),
    InstrumentCheck.CALM_AREA: (framed, lambda one: inked(one)),
    InstrumentCheck.UPRIGHT: (lambda one: np.ascontiguousarray(np.rot90(one)), same),
}


def test_every_check_is_made_and_tried_here() -> None:
    assert set(CHECKS) == set(InstrumentCheck) == set(BOTH)


@pytest.mark.parametrize("check", BOTH)
@pytest.mark.parametrize("expected", [True, False], ids=["holds", "fails"])
def test_a_check_holds_and_fails(check: InstrumentCheck, expected: bool) -> None:
    after = BOTH[check][0 if expected else 1](photo())
    found = Findings(ImagePair(photo(), after), png(after))
    result = found.check(check)
    assert result.holds is expected, result.evidence
    assert any(letter.isdigit() for letter in result.evidence)
    assert result.evidence.endswith(".")
    assert found.measurements


@pytest.mark.parametrize("check", BOTH)
@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (64, 64)])
@pytest.mark.parametrize("level", [0, 255])
def test_a_check_never_fails_on_an_odd_picture(check: InstrumentCheck, shape: tuple[int, int], level: int) -> None:
    after = plain(level, shape)
    result = Findings(ImagePair(photo(), after), png(after)).check(check)
    assert result.holds in (True, False, None)
    assert result.evidence


OF_THE_PHOTO = [
    InstrumentCheck.COMPOSITION_KEPT,
    InstrumentCheck.REDRAWN,
    InstrumentCheck.STYLE_EVERYWHERE,
    InstrumentCheck.STRONG,
    InstrumentCheck.STRENGTH,
    InstrumentCheck.FLAT_COLOUR,
]


@pytest.mark.parametrize("check", OF_THE_PHOTO)
@pytest.mark.parametrize("change", [lambda one: one, stylised, posterised], ids=["as it is", "stylised", "posterised"])
@pytest.mark.parametrize("turn", [lambda one: one[:, ::-1], lambda one: one[::-1, ::-1]], ids=["mirrored", "turned"])
def test_what_lost_the_composition_is_no_restyle_of_the_photo(check: InstrumentCheck, change: Make, turn: Make) -> None:
    after = change(np.ascontiguousarray(turn(photo("astronaut"))))
    assert Findings(ImagePair(photo("astronaut"), after), png(after)).check(check).holds is not True


def test_several_checks_hold_where_all_do() -> None:
    after = grey(photo())
    found = Findings(ImagePair(photo(), after), png(after))
    assert found.check(InstrumentCheck.SHARP, InstrumentCheck.COLOURLESS).holds is True
    both = found.check(InstrumentCheck.REDRAWN, InstrumentCheck.COLOURLESS)
    assert both.holds is False
    assert both.evidence == found.check(InstrumentCheck.REDRAWN).evidence  # only what speaks against it
    small = Findings(ImagePair(photo(), plain(0, (1, 1))), png(plain(0, (1, 1))))
    assert small.check(InstrumentCheck.COMPOSITION_KEPT, InstrumentCheck.COLOURLESS).holds is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("sharp", CheckRule((InstrumentCheck.SHARP,))),
        ("yes if sharp", CheckRule((InstrumentCheck.SHARP,), no=False)),
        ("no unless sharp and clean", CheckRule((InstrumentCheck.SHARP, InstrumentCheck.CLEAN), yes=False)),
        ("", None),
        ("sharpp", None),
        ("yes if", None),
        ("no unless yes if sharp", CheckRule((InstrumentCheck.SHARP,), yes=False)),
        ("sharp and", None),
        ("Sharp", None),
    ],
)
def test_a_tag_says_how_an_assertion_is_measured(text: str, meant: CheckRule | None) -> None:
    assert CheckRule.parse(text) == meant
