"""A judge's own arithmetic, checked. What it worked out wrongly is kept as a correction; what is right is not noise.

A claimed number is right when it is the exact one rounded to as many decimals as it was given with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING

from beholder.rubrics.model import Rubric, exact
from beholder.verdicts.model import Correction, plain_number
from beholder.verdicts.values import as_count, as_number

if TYPE_CHECKING:
    from beholder.verdicts.observing import ObservedCriterion
    from beholder.verdicts.scoring import CriterionTally, Overall

COMPUTED = "computed from the answer"


def criterion_corrections(tally: CriterionTally, seen: ObservedCriterion) -> list[Correction]:
    """Where a criterion's claimed pass rate, counts or sums differ from what its answers give."""
    if not tally.criterion.assertions:
        return []
    truths: dict[str, object] = {
        "pass_rate": (tally.yes, tally.yes + tally.no),
        "passed": Fraction(tally.yes),
        "total": Fraction(tally.yes + tally.no),
        "avg_confidence": tally.mean_confidence,
        "weighted_score": None if tally.score is None else tally.score * exact(tally.criterion.weight),
    }
    if tally.mean_confidence is not None:
        truths["score"] = tally.score
        claims = {**seen.claims, **({} if seen.score is None else {"score": seen.score})}
    else:
        claims = dict(seen.claims)
    return list(_differences(tally.criterion.key, truths, claims))


def overall_corrections(
    rubric: Rubric, tallies: list[CriterionTally], overall: Overall, claims: Mapping[str, object]
) -> list[Correction]:
    """Where claimed totals, percentages, grades or passes differ from the computed ones."""
    yes = sum(tally.yes for tally in tallies)
    asked = sum(tally.yes + tally.no for tally in tallies)
    truths: dict[str, object] = {
        "score": overall.score if rubric.format == "description" else None,
        "passed": overall.passed,
        "grade": overall.grade,
        "percentage": overall.percentage,
        "weighted_total": overall.total,
        "max_score": overall.max_total,
    }
    if asked:
        truths |= {
            "total_assertions": Fraction(asked),
            "total_passed": Fraction(yes),
            "overall_pass_rate": (yes, asked),
        }
    return list(_differences("", truths, claims))


def _differences(place: str, truths: Mapping[str, object], claims: Mapping[str, object]) -> Iterator[Correction]:
    for key, truth in truths.items():
        said = claims.get(key)
        if said is None or truth is None or _agrees(said, truth):
            continue
        yield Correction(f"{place}.{key}" if place else key, _plain(said), _stands(truth), COMPUTED)


def _agrees(said: object, truth: object) -> bool:
    if isinstance(truth, tuple):
        return as_count(said) == truth
    if isinstance(truth, bool | str):
        return said == truth
    claimed = as_number(said)
    if claimed is None or not isinstance(truth, Fraction) or not -(10**6) <= claimed <= 10**6:
        return False
    decimals = min(12, max(0, -int(Decimal(claimed).as_tuple().exponent)))  # further out is a double's noise
    return abs(Fraction(claimed) - truth) <= Fraction(1, 2 * 10**decimals)


def _stands(truth: object) -> object:
    if isinstance(truth, tuple):
        return f"{truth[0]}/{truth[1]}"
    return plain_number(truth) if isinstance(truth, Fraction) else truth


def _plain(said: object) -> object:
    return float(said) if isinstance(said, Decimal) and isfinite(said) else said
