"""Judges and people to calibrate with: people who rate 0 to 1 in steps, and judges who are wrong in a known way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from beholder.statistics.calibration import calibrate
from beholder.statistics.calibration_recipes import RECIPES
from beholder.statistics.calibration_task import CalibrationTask, TaskOptions, build_task
from beholder.statistics.data import Column, ColumnKind, Floats, Ratings, Scores

PLAIN = {name: RECIPES[name] for name in ("constant", "offset", "line", "isotonic", "linear")}


def ratings(truth: Floats, rng: np.random.Generator, raters: int = 3, noise: float = 0.1) -> Ratings:
    """What several people say of cases whose worth is known."""
    said = truth[:, None] + rng.normal(0, noise, (len(truth), raters))
    values = np.clip(np.round(said * 4) / 4, 0, 1)
    names = tuple(f"rater {one}" for one in range(raters))
    return Ratings("quality", tuple(f"case {row}" for row in range(len(truth))), names, values)


def scores(
    columns: Mapping[str, Floats],
    groups: Mapping[str, Sequence[str]] | None = None,
    scale: tuple[float, float] = (0.0, 10.0),
) -> Scores:
    count = len(next(iter(columns.values())))
    return Scores(
        "a judge",
        tuple(f"case {row}" for row in range(count)),
        {name: Column(name, ColumnKind.CRITERION, values, scale) for name, values in columns.items()},
        {name: tuple(values) for name, values in (groups or {}).items()},
    )


def task(judged: Scores, rated: Ratings, raw: str = "quality") -> CalibrationTask:
    return build_task(judged, rated, judged.columns[raw], TaskOptions(scale=(0.0, 1.0)))


__all__ = ["PLAIN", "calibrate", "ratings", "scores", "task"]
