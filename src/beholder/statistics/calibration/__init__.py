"""Calibration: from what a judge said of a case, and what was measured, to the mean rating that people would give.

    task = task_of(scores, ratings, column)         what there is to learn from, for one aspect
    result = calibrate(task)                        every recipe, chosen and tested on cases that it had not seen
    saved = document([result], made)                the maps that help, as plain JSON

Fitting is here; reading and applying a calibration is lower, in `verdicts.calibrating` and `verdicts.maps`, since a run
applies one to every verdict.
"""

from __future__ import annotations

from beholder.statistics.calibration.choosing import FOLDS, HOLDS, Result, calibrate
from beholder.statistics.calibration.features import Features, features_of, measured_pixels, read_features, usable
from beholder.statistics.calibration.folding import folds_of, numbered
from beholder.statistics.calibration.ground import CHOSEN, CONSTANT, JUDGE, PEOPLE, Row
from beholder.statistics.calibration.lesson import Lesson, Recipe
from beholder.statistics.calibration.recipes import (
    RECIPES,
    TREES,
    blend,
    constant,
    curved,
    ends,
    isotonic,
    linear,
    offset,
)
from beholder.statistics.calibration.saving import document, scores_of, text_of
from beholder.statistics.calibration.scoring import Measure
from beholder.statistics.calibration.task import Fitted, Task, fitted, leaving_out, out_of_fold, task_of
from beholder.statistics.calibration.trees import boosted, forest

__all__ = [
    "CHOSEN",
    "CONSTANT",
    "FOLDS",
    "HOLDS",
    "JUDGE",
    "PEOPLE",
    "RECIPES",
    "TREES",
    "Features",
    "Fitted",
    "Lesson",
    "Measure",
    "Recipe",
    "Result",
    "Row",
    "Task",
    "blend",
    "boosted",
    "calibrate",
    "constant",
    "curved",
    "document",
    "ends",
    "features_of",
    "fitted",
    "folds_of",
    "forest",
    "isotonic",
    "leaving_out",
    "linear",
    "measured_pixels",
    "numbered",
    "offset",
    "out_of_fold",
    "read_features",
    "scores_of",
    "task_of",
    "text_of",
    "usable",
]
