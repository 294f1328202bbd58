"""Whether a run is good enough: the exit code of `beholder run`.

1  a threshold was missed: a mean below `fail_under`, or more without a score than `max_unscored` allows
3  some cases have no score, and no `max_unscored` said how many may
0  otherwise
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from beholder.errors import UsageError
from beholder.rubrics.model import exact


@dataclass(frozen=True, slots=True)
class Means:
    """What a run came to. `means` has the mean of each criterion's scores on its own scale, and of `score`, 0 to 1."""

    total: int
    scored: int
    means: Mapping[str, float | Fraction]


def missed(means: Means, fail_under: Mapping[str, float], max_unscored: str | float | None) -> list[str]:
    """What was missed, each as a sentence. `fail_under["score"]` is on a scale to 100; other names are criteria."""
    said = []
    for name, least in fail_under.items():
        mean = means.means.get(name)
        if mean is None:
            said.append(f"{name}: no case has a score, and {least:g} was asked for")
            continue
        reached = exact(str(mean)) * (100 if name == "score" else 1)
        if reached < exact(least):
            said.append(f"{name}: the mean is {float(reached):.2f}, and {least:g} was asked for")
    unscored = means.total - means.scored
    if max_unscored is not None and unscored > allowed(max_unscored, means.total):
        said.append(f"{unscored} of {means.total} have no score, and {max_unscored} may")
    return said


def exit_code(means: Means, fail_under: Mapping[str, float], max_unscored: str | float | None) -> int:
    """See the module's docstring."""
    if missed(means, fail_under, max_unscored):
        return 1
    return 3 if max_unscored is None and means.scored < means.total else 0


def allowed(max_unscored: str | float, total: int) -> Fraction:
    """How many may be without a score: a number, or a share of all such as `2%`."""
    text = str(max_unscored).strip()
    try:
        share = text.endswith("%")
        number = exact(text.rstrip("% "))
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"max_unscored is a number or a percentage such as 2%, and {text!r} is neither.") from None
    if number < 0:
        raise UsageError(f"max_unscored is 0 or more, and {text!r} is not.")
    return number * total / 100 if share else number
