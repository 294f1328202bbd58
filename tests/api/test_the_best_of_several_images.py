"""`best_of`: the image with the highest score; ties and images without a score are said, and none is an error."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.host_scripts import REFUSAL, edit_answer

import beholder
from beholder.testing.base import Received
from beholder.testing.server import JudgeServer

BEFORE = Image.fromarray(np.random.default_rng(1).integers(0, 255, (32, 32, 3), np.uint8))


def candidate(brightness: int) -> Image.Image:
    return Image.new("RGB", (32, 32), (brightness, brightness, brightness))


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    """Refuses black; scores others by their brightness, from 1 to 7."""

    def answer(asked: Received) -> str | dict[str, object]:
        value = Image.open(BytesIO(asked.images[-1])).convert("L").getpixel((0, 0))
        assert isinstance(value, int)
        return REFUSAL if value == 0 else edit_answer(round(value / 10))

    with JudgeServer(answer, keyless=True) as server:
        yield server


def choose(server: JudgeServer, *brightness: int, **more: object) -> beholder.BestOf[Image.Image]:
    images = [candidate(one) for one in brightness]
    words = {"judge": "openai:m", "options": {"base_url": server.openai_url}, "input": BEFORE, "instruction": "redder"}
    return beholder.best_of(images, "edit-preservation", **{**words, **more})  # type: ignore[arg-type]  # by name


def test_it_is_the_one_with_the_highest_score(server: JudgeServer) -> None:
    best = choose(server, 30, 70, 50)
    assert (best.index, best.tied, best.unscored) == (1, (1,), ())
    assert best.image.getpixel((0, 0)) == (70, 70, 70)
    assert best.verdict.score == 1
    assert [verdict.score for verdict in best.verdicts] == pytest.approx([1 / 3, 1, 2 / 3])


@pytest.mark.parametrize("image", ["after.png", Path("after.png"), b"\x89PNG", BEFORE, {"bytes": b"", "path": None}])
def test_one_image_is_no_choice(image: Any) -> None:
    with pytest.raises(beholder.UsageError, match="chooses from several images"):
        beholder.best_of(image, "edit-preservation", input=BEFORE, instruction="redder")


def test_of_a_tie_it_is_the_first_and_all_are_named(server: JudgeServer) -> None:
    best = choose(server, 30, 60, 60)
    assert (best.index, best.tied) == (1, (1, 2))


def test_one_without_a_score_is_never_chosen(server: JudgeServer) -> None:
    best = choose(server, 0, 10)  # of which the second has the lowest score that there is
    assert (best.index, best.unscored, best.verdict.score) == (1, (0,), 0)
    assert best.verdicts[0].outcome == "refused"


def test_where_none_has_a_score_there_is_no_best(server: JudgeServer) -> None:
    with pytest.raises(
        beholder.JudgeUnavailable, match="None of the 2 images has a score; the first: refused"
    ) as error:
        choose(server, 0, 0)
    assert isinstance(error.value.verdict, beholder.Verdict)
    assert error.value.verdict.outcome == "refused"


def test_a_budget_that_is_too_small_leaves_images_without_a_score(server: JudgeServer) -> None:
    price = {"base_url": server.openai_url, "price": {"input": 1, "output": 1}}
    with pytest.raises(beholder.JudgeUnavailable, match="over_budget"):
        choose(server, 30, 70, budget=1e-9, options=price)


def test_a_missing_image_is_not_chosen(server: JudgeServer, tmp_path: Path) -> None:
    candidate(20).save(tmp_path / "there.png")
    best = beholder.best_of(
        [str(tmp_path / "gone.png"), str(tmp_path / "there.png")],
        *("edit-preservation",),
        judge="openai:m",
        options={"base_url": server.openai_url},
        input=BEFORE,
        instruction="redder",
    )
    assert (best.index, best.unscored) == (1, (0,))
    assert best.verdicts[0].outcome == "unreadable"


def test_a_session_can_be_shared(server: JudgeServer) -> None:
    with beholder.Session("openai:m", options={"base_url": server.openai_url}) as session:
        more = {"judge": None, "options": None, "session": session}
        assert [choose(server, 30, 70, **more).index for _ in range(2)] == [1, 1]
    assert len(server.received) == 2  # the second time from the session's answers


def test_wrong_use_is_a_sentence() -> None:
    with pytest.raises(beholder.UsageError, match="no image to choose from"):
        beholder.best_of([], "edit-preservation", input=BEFORE, instruction="redder")
    with pytest.raises(beholder.UsageError, match="give role=…, one of input, target, edited"):
        beholder.best_of([BEFORE], "edit-preservation", instruction="redder")
    with pytest.raises(beholder.UsageError, match="stands for several rubrics"):
        beholder.best_of([BEFORE], "edit", input=BEFORE, instruction="redder")
