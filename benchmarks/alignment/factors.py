"""Whether a calibrated judge is nearer to people than a constant on the twelve edit factors.

    python benchmarks/alignment/factors.py [--fit DIR] [--data DIR] [--json]

DIR is laid out like `../shared/data` (the default for both) and holds `edit-factors/`. The judge is GPT-5-mini with the
prompt `category_wise`, input and edited image compared; the other recorded judges stand beside it. The map is the
recipe `linear` of `beholder calibrate`: for each factor a ridge on all that the judge said of the case, with one strong
penalty. One folder for both: each case by maps of all the others; two folders: fitted on the one, tested on the other.

The constant is the better one of the mean and the median of the cases that the maps are fitted on, in the same way.
One rater is held against the mean of the others, who are fewer than what all else is held against. The claim is that
the error, averaged over the twelve factors, is less than the constant's by an interval that excludes 0. A factor on
which the map is not nearer must be one that `beholder calibrate --together` leaves out, on the cases that it learns
from; it compares with the median, over ten folds.

On the developers' half (41 cases) about 120 combinations of judge, setting, map and penalty were looked at. One slope
for all factors is not surely better than a constant, nor is a penalty chosen anew for each factor; every strong fixed
one (30 to 300) is, for this judge and mostly for the others.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import claims
import numpy as np
from claims import Claim, Table

from beholder.judges.recorded import Rescorer, read_recorded
from beholder.rubrics.load import load_rubrics
from beholder.statistics.aspects import match_aspects
from beholder.statistics.bootstrap import ClusterBootstrap, Interval, Statistic
from beholder.statistics.calibration import calibrate
from beholder.statistics.calibration_evaluation import (
    absolute_error_statistic,
    average_statistics,
    one_rater_statistics,
)
from beholder.statistics.calibration_held_out import predict_out_of_fold
from beholder.statistics.calibration_recipes import RECIPES, TOGETHER_RECIPES, CalibrationRecipe, TrainingData
from beholder.statistics.calibration_task import CalibrationTask, TaskOptions, build_task, fit_map
from beholder.statistics.data import Floats, read_ratings, tabulate_verdicts
from beholder.verdicts.calibration_maps import ConstantMap

SET = "edit-factors"
JUDGE = "category_wise"
JUDGES = (JUDGE, "main", "factor_level_rubrics", "factor_level_rubrics_gemini")
SETTING = "online"
SCALE = (1, 7)
RECIPE = RECIPES["linear"]
DRAWS = 500  # for the decision of `calibrate`

MAP, RAW, CONSTANT, RATER, GAIN = "the map", "the raw judge", "a constant", "one rater", "nearer than the constant"


def mean(lesson: TrainingData) -> ConstantMap:
    return ConstantMap(float(lesson.ratings.mean()))


def tasks_of(folder: Path, judge: str) -> dict[str, CalibrationTask] | None:
    """By factor what there is to learn of it, where people rated it; None where the judge's answers or the ratings are
    not there."""
    place = folder / SET
    answers, ratings = place / f"answers_{judge}.jsonl", place / "ratings.csv"
    if not answers.is_file() or not ratings.is_file():
        return None
    people = read_ratings(ratings)
    rescorers = [Rescorer(rubric, setting=SETTING, family=True) for rubric in load_rubrics("edit")]
    verdicts = (one.verdict(recorded)[0] for recorded in read_recorded(answers) for one in rescorers)
    scores = tabulate_verdicts(judge, ((verdict, {}) for verdict in verdicts))
    columns = match_aspects(people, scores)
    return {
        aspect: build_task(scores, people[aspect], column, TaskOptions(scale=SCALE))
        for aspect, column in columns.items()
    }


def predicted(known: CalibrationTask, tested: CalibrationTask, recipe: CalibrationRecipe, same: bool) -> Floats:
    """Each case by a map that has not seen it."""
    if same:
        return tested.clip(predict_out_of_fold(tested, recipe, tested.group_index).values)
    fresh = claims.fresh(known.cases, tested.cases)
    return tested.clip(fit_map(known, recipe, fresh).predict(tested.features))


class Errors:
    """Errors of all factors as statistics of the same cases; those that only one of the two has are left out."""

    def __init__(self, known: Mapping[str, CalibrationTask], tested: Mapping[str, CalibrationTask], same: bool) -> None:
        tested = {aspect: task for aspect, task in tested.items() if aspect in known}
        if not tested:
            raise SystemExit("No factor of --data was rated in --fit too: there is nothing to test.")
        self.cases = tuple(dict.fromkeys(case for task in tested.values() for case in task.cases))
        constants = {
            which: {aspect: predicted(known[aspect], task, recipe, same) for aspect, task in tested.items()}
            for which, recipe in {"median": RECIPES["constant"], "mean": CalibrationRecipe(mean)}.items()
        }
        self.constant = min(constants, key=lambda which: self._total(tested, constants[which]))
        self.factors = {
            aspect: {
                MAP: self._over(
                    task, absolute_error_statistic(predicted(known[aspect], task, RECIPE, same), task.mean)
                ),
                RAW: self._over(task, absolute_error_statistic(task.judge, task.mean)),
                CONSTANT: self._over(task, absolute_error_statistic(constants[self.constant][aspect], task.mean)),
                RATER: self._over(task, one_rater_statistics(task.ratings.values)[1]),
            }
            for aspect, task in tested.items()
        }

    @staticmethod
    def _total(tested: Mapping[str, CalibrationTask], said: Mapping[str, Floats]) -> float:
        return sum(float(np.abs(said[aspect] - task.mean).mean()) for aspect, task in tested.items())

    def _over(self, task: CalibrationTask, statistic: Statistic) -> Statistic:
        place = {case: at for at, case in enumerate(self.cases)}
        rows = [place[case] for case in task.cases]
        return lambda weights: statistic(weights[:, rows])

    def together(self) -> dict[str, Statistic]:
        return {
            name: average_statistics([one[name] for one in self.factors.values()])
            for name in (MAP, RAW, CONSTANT, RATER)
        }

    def estimated(self, draws: ClusterBootstrap, one: Mapping[str, Statistic]) -> dict[str, Interval]:
        def statistics(weights: Floats) -> dict[str, Floats]:
            found = {name: statistic(weights) for name, statistic in one.items()}
            return found | {GAIN: found[CONSTANT] - found[MAP]}

        return draws.estimates(statistics)


def refused(known: Mapping[str, CalibrationTask]) -> list[str]:
    """The factors that `beholder calibrate --together` leaves out; all of them where no map helps."""
    recipes = {name: RECIPES[name] for name in TOGETHER_RECIPES}
    choice = calibrate(*known.values(), recipes=recipes, draw_count=DRAWS)
    return [task.aspect for task in choice.tasks if not choice.is_worth_having(task)]


def tables(fit: Path, data: Path) -> list[Table] | None:
    same = fit.resolve() == data.resolve()
    rows: dict[str, dict[str, Interval]] = {}
    others: dict[str, dict[str, Interval]] = {}
    constant, told, cases = "", "", 0
    left_out: set[str] = set()
    for judge in JUDGES:
        tested = tasks_of(data, judge)
        known = tested if same else tasks_of(fit, judge)
        if known is None or tested is None:
            if judge == JUDGE:
                return None
            continue
        errors = Errors(known, tested, same)
        draws = ClusterBootstrap(None, len(errors.cases))
        whole = errors.estimated(draws, errors.together())
        others[judge] = whole
        if judge == JUDGE:
            rows = {name: errors.estimated(draws, one) for name, one in errors.factors.items()}
            rows[f"all {len(rows)}"] = whole
            constant, told, cases = errors.constant, draws.describe(), len(errors.cases)
            left_out = set(refused(known))
    nearer = {name: (row[GAIN].value or 0) > 0 for name, row in rows.items() if not name.startswith("all ")}
    further = ", ".join(name for name, near in nearer.items() if not near)
    better, safe = sum(nearer.values()), sum(near or name in left_out for name, near in nearer.items())
    whole = others[JUDGE]
    how = "each case by maps of the others" if same else "fitted on the cases of --fit"
    counts = {"cases": cases, "factors": len(rows) - 1, "factors nearer than the constant": better}
    headings = (MAP, RAW, CONSTANT, RATER, GAIN)
    return [
        Table(
            f"edit factors: mean absolute error on the scale 1–7, {how}",
            [
                f"{cases} cases; judge: GPT-5-mini, {JUDGE}; constant: the {constant}.",
                f"Nearer on {better} factors; not nearer on {further or 'none'}.",
                f"`calibrate --together` leaves out {', '.join(sorted(left_out)) or 'none'}.",
            ],
            headings,
            rows,
            [
                Claim("error of a constant less that of the map, over all factors", whole[GAIN], 0, surely=True),
                Claim("factors on which the map is nearer than a constant", Interval(float(better)), 10),
                Claim("factors on which it is, or that calibrate leaves out", Interval(float(safe)), len(nearer)),
            ],
            told,
            counts,
        ),
        Table("edit factors: all factors together, by recorded judge", [], headings, others),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    return claims.main(__doc__, tables, f"No human ratings of edit factors there ({SET}/): nothing to show.", arguments)


if __name__ == "__main__":
    sys.exit(main())
