"""Whether more photographs would help a calibration: ρ on other photographs, by the number that maps are fitted on.

    python benchmarks/alignment/learning_curve.py [DIR]

DIR is laid out like `../shared/data` (the default) and holds `imagenhub/`. The jury of GPT-4o and Gemini with the
instruments, as in `calibration.py`; `curved` and `blend` without a choice and without finishing, which is why `SC`,
where ties at 0 matter, is lower than there. Beside them GPT-4o alone and one rater on the same photographs: means
over random divisions. The last line has random halves against each other, and their standard deviation.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import calibration
import claims
import numpy as np
from agreement import ceiling, spearman

from beholder.statistics.calibration_recipes import RECIPES
from beholder.statistics.calibration_task import CalibrationTask, fit_map

NAMES = ("curved", "blend")
FITTED = {12: 24, 24: 24, 36: 5, 44: 5}  # photographs to fit on, and to test on
DIVISIONS, HALVES = 24, 40


def divided(task: CalibrationTask, fitted: int, tested: int, seed: int) -> list[float]:
    """ρ of each map, of the judge and of one rater, on some photographs by maps of others."""
    photographs = np.random.default_rng(seed).permutation(np.unique(task.group_index))
    seen, out = (np.isin(task.group_index, some) for some in (photographs[:fitted], photographs[-tested:]))
    assert not (seen & out).any()
    said = [fit_map(task, RECIPES[name], seen).predict(task.features.select(out)) for name in NAMES]
    people = task.mean[out]
    return [*(spearman(task.clip(one), people) for one in (*said, task.judge[out])), ceiling(task.ratings.values[out])]


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    tasks = calibration.tasks_of(Path(given[0]) if given else claims.DEFAULT)
    if tasks is None:
        print("No human ratings of edits there: nothing to measure.")
        return 0
    for (aspect, who), task in tasks.items():
        if who != calibration.JURY:
            continue
        print(f"{aspect}: {', '.join((*NAMES, calibration.JUDGE, calibration.RATER))}")
        for fitted, tested in FITTED.items():
            rows = [divided(task, fitted, tested, seed) for seed in range(DIVISIONS)]
            print(f"  fitted on {fitted} photographs: {', '.join(f'{one:.3f}' for one in np.mean(rows, axis=0))}")
        half = len(np.unique(task.group_index)) // 2
        rows = [divided(task, half, half, 100 + seed) for seed in range(HALVES)]
        both = zip(np.mean(rows, axis=0), np.std(rows, axis=0), strict=True)
        print(f"  halves: {', '.join(f'{mean:.3f} ± {spread:.3f}' for mean, spread in both)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
