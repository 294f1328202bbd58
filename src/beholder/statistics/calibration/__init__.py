"""Calibration: from what a judge said of a case, and what was measured, to the mean rating that people would give.

    task = task_of(scores, ratings, column)         what there is to learn from, for one aspect
    result = calibrate(task)                        every recipe, chosen and tested on cases that it had not seen
    saved = document([result], made)                the maps that help, as plain JSON

Fitting is here; reading and applying a calibration is lower, in `verdicts.calibrating` and `verdicts.maps`, since a run
applies one to every verdict.
"""

from __future__ import annotations

from beholder.statistics.calibration.choosing import Result, calibrate
from beholder.statistics.calibration.features import Besides, measured_pixels, read_features
from beholder.statistics.calibration.recipes import RECIPES
from beholder.statistics.calibration.saving import document
from beholder.statistics.calibration.scoring import Measure
from beholder.statistics.calibration.task import Task, Terms, task_of

__all__ = [
    "RECIPES",
    "Besides",
    "Measure",
    "Result",
    "Task",
    "Terms",
    "calibrate",
    "document",
    "measured_pixels",
    "read_features",
    "task_of",
]
