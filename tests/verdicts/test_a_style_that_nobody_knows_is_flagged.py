"""A style whose name nobody knows is judged by the generic assertions, and the verdict says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beholder.rubrics.brief import Composer
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.verdict import Flag, Verdict

WHY = "no style has this name; the generic assertions were asked."


@pytest.mark.parametrize(
    ("style", "flags"),
    [
        ("Animee", (Flag("generic_style", "style", "Animee", f"{WHY} Did you mean Anime?"),)),
        ("Mosaic", (Flag("generic_style", "style", "Mosaic", WHY),)),
        ("anime", ()),
    ],
)
def test_the_verdict_says_so(
    style: str, flags: tuple[Flag, ...], verdict: Callable[..., Verdict], restyle: Callable[..., dict[str, Any]]
) -> None:
    rubric = Composer(Rubric.load("restyle")).rubric_for_style(style)
    assert verdict(rubric, restyle()).flags == flags
    assert verdict(rubric, "no JSON at all").flags == flags
    unscored = verdict(rubric, "I cannot help with that.")
    assert (unscored.outcome, unscored.flags) == ("refused", flags)
