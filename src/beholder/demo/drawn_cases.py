"""The cases of the demo where it is drawn: restyles, edits and descriptions of four pictures, half of them flawed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from beholder.demo import photos
from beholder.demo.cases import POP_ART_INKS, DemoSample, enlarge, make_edit_sample, make_restyle_sample
from beholder.demo.drawings import BLUE, GREEN, VIOLET, draw_balloon, draw_cottage, draw_harbor, draw_table


def make_drawn_restyles(originals: Mapping[str, photos.Pixels]) -> Iterator[DemoSample]:
    """Yield the restyles, the good ones first."""
    large = {name: enlarge(picture) for name, picture in originals.items()}
    yield make_restyle_sample("balloon", "neon", "Neon Cyberpunk", photos.draw_neon(large["balloon"]))
    yield make_restyle_sample("cottage", "oil", "Oil Painting", photos.paint_oil(large["cottage"]))
    yield make_restyle_sample("harbor", "watercolour", "Watercolour", photos.paint_watercolor(large["harbor"]))
    yield make_restyle_sample("table", "comic", "Comic Book", photos.draw_comic(large["table"]))
    yield make_restyle_sample("cottage", "linocut", "Linocut", photos.print_linocut(large["cottage"]))

    half = photos.join_halves(photos.draw_pencil(large["cottage"]), large["cottage"])
    yield make_restyle_sample(
        "cottage", "pencil", "Pencil Portrait", half, "the right half is still the picture itself"
    )
    faint = photos.saturate(large["table"], 1.15)
    yield make_restyle_sample("table", "watercolour", "Watercolour", faint, "hardly any style, only stronger colours")
    small = photos.shrink_to_width(photos.paint_oil(large["harbor"]), 160)
    yield make_restyle_sample("harbor", "oil", "Oil Painting", small, "tiny, 160 pixels wide")
    other = photos.print_pop_art(large["table"], POP_ART_INKS)
    yield make_restyle_sample("balloon", "pop-art", "Pop Art", other, "made from the wrong picture, the table")
    poor = photos.draw_comic(large["harbor"])
    yield make_restyle_sample("harbor", "comic", "Comic Book", poor, "saved so small that it falls into blocks", 7)
    soft = photos.blur(photos.paint_watercolor(large["cottage"]), 5)
    yield make_restyle_sample("cottage", "watercolour", "Watercolour", soft, "blurred all over")


def make_drawn_edits() -> Iterator[DemoSample]:
    """Yield the edits, the good ones first."""
    boat, mug, roof, stripes = (
        "Paint the red boat green.",
        "Make the mug blue.",
        "Make the roof blue.",
        "Make the yellow stripes of the balloon violet.",
    )
    green_boat, blue_mug = draw_harbor(hull=GREEN), draw_table(mug=BLUE)
    blue_roof, violet_stripes = draw_cottage(roof=BLUE), draw_balloon(stripes=VIOLET)
    yield make_edit_sample("harbor", "green", boat, green_boat)
    yield make_edit_sample("table", "blue", mug, blue_mug)
    yield make_edit_sample("cottage", "blue-roof", roof, blue_roof)
    yield make_edit_sample("balloon", "violet", stripes, violet_stripes)
    yield make_edit_sample("harbor", "no-buoy", "Take away the yellow buoy.", draw_harbor(buoy=False))

    tinted = photos.tint(green_boat, (1.16, 0.93, 0.80))
    yield make_edit_sample("harbor", "green-cast", boat, tinted, "the sky and the sea have turned reddish")
    cut = photos.zoom(blue_mug, 1.15)
    yield make_edit_sample("table", "blue-zoomed", mug, cut, "zoomed in, and cut off all around")
    without = draw_table(mug=BLUE, lemon=False)
    yield make_edit_sample("table", "blue-no-lemon", mug, without, "the lemon is gone too")
    soft = photos.blur(blue_roof, 2.2)
    yield make_edit_sample("cottage", "blue-roof-blurred", roof, soft, "everything is blurred")
    flipped = photos.mirror(violet_stripes)
    yield make_edit_sample("balloon", "violet-mirrored", stripes, flipped, "left and right are swapped")
    yield make_edit_sample(
        "balloon", "violet-blocky", stripes, violet_stripes, "compressed until it falls into blocks", 7
    )
