"""Which of two edits people rate higher, and whether measurements, SSIM and GPT-4o's scores say the same.

    python benchmarks/alignment/pairs.py [--data DIR] [--json]

DIR is laid out like `../shared/data` (the default) and holds `imagenhub/`. A pair is two text-guided edits of one
photograph by the same instruction, whose mean ratings differ. Whoever gives a number to each edit votes for the higher
one; equal numbers, or none, are half a point. Intervals are 95 %, by drawing photographs with replacement.

The maps `people.realism` and `people.kept` were fitted on these very photographs, so that each photograph's edits are
predicted here by a map that was fitted on the others: what is committed in `weights/` would do better, and should not
be believed. The choice of their measurements, and the curves of `edit-preservation`, saw all of them. SSIM and GPT-4o
saw nothing. The ceiling is one rater against the mean of the two others, where that differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from agreement import draws, interval
from edits import DEFAULT, KEPT, NAMES, REALISM, SSIM, SUCCESS
from fitting import Recipe, apply, fit
from imagenhub import Bools, Edits, Floats, load, matrix, measured

import beholder

Ints = npt.NDArray[np.int64]
MARGINS = (0.05, 0.1, 0.2)  # of a map, 0 to 1
CLEAR = 1 / 3  # of people's mean ratings, 0 to 1: two steps of one rater, or one step of two


def list_pairs(edits: Edits) -> Ints:
    """Rows of two edits of one photograph and instruction; the input's name says both."""
    groups: dict[str, list[int]] = {}
    for at, row in enumerate(edits.rows):
        groups.setdefault(row.before.name, []).append(at)
    return np.array([pair for members in groups.values() for pair in combinations(members, 2)], np.int64)


def predict_unseen(recipe: Recipe, values: Floats, ratings: Floats, sources: Any, fitted_on: Bools) -> Floats:
    """Each photograph's edits by a map of the others', fitted on some of these."""
    found = np.empty(len(ratings))
    for source in np.unique(sources):
        here = sources == source
        seen = ~here & fitted_on
        found[here] = apply(fit(recipe, values[seen], ratings[seen]), values[here])
    return found


def measure_preservation(edits: Edits) -> Floats:
    """The mean of the factors that the offline judge gives by `edit-preservation`; nan where it abstains from all."""
    found = []
    for count, row in enumerate(edits.rows, 1):
        images = {"input": row.before, "edited": row.after}
        verdict = beholder.judge("edit-preservation", **images, instruction=row.instruction)
        factors = [float(factor.score) for factor in verdict.criteria.values() if factor.score is not None]
        found.append(float(np.mean(factors)) if factors else np.nan)
        if sys.stderr.isatty():
            print(f"\r{count} of {len(edits)} edits judged", end="", file=sys.stderr)
    return np.array(found)


class PairTable:
    """Pairs whose ratings differ, and how often a number for each edit votes as people do."""

    def __init__(self, edits: Edits, pairs: Ints, ratings: Floats) -> None:
        difference = ratings[pairs[:, 0]] - ratings[pairs[:, 1]]
        self.pairs, self.better = pairs[difference != 0], np.sign(difference[difference != 0])
        self.distance = np.abs(difference[difference != 0])
        self.drawn = draws(edits.sources[self.pairs[:, 0]])

    def votes(self, numbers: Floats, margin: float = 0.0) -> tuple[Floats, Bools]:
        """1 for the vote of people, 0 for the other, ½ for none; and whether it votes at all."""
        difference = numbers[self.pairs[:, 0]] - numbers[self.pairs[:, 1]]
        decides = ~np.isnan(difference) & (np.abs(difference) > margin)
        return np.where(decides, (np.sign(difference) == self.better).astype(np.float64), 0.5), decides

    def row(self, numbers: Floats, margin: float = 0.0, among: Bools | None = None) -> dict[str, Any]:
        """Accuracy with half a point where it does not vote, accuracy where it does, and how often it does."""
        points, decides = self.votes(numbers, margin)
        among = np.ones(len(points), np.bool_) if among is None else among
        return {
            "pairs": int(among.sum()),
            "accuracy": _estimate(points, among, self.drawn),
            "where_it_votes": _estimate(points, among & decides, self.drawn),
            "votes": float(decides[among].mean()),
        }


def _estimate(points: Floats, among: Bools, drawn: Sequence[Ints]) -> dict[str, Any]:
    def mean(pairs: Ints) -> float:
        chosen = pairs[among[pairs]]
        return float(points[chosen].mean()) if len(chosen) else 0.5

    low, high = interval(mean, drawn)
    return {"value": mean(np.arange(len(points))), "interval": [low, high]}


def measure_ceiling(edits: Edits, pairs: Ints, aspect: str) -> dict[str, Any]:
    """One rater against the mean of the others, the mean over raters."""
    raters = edits.raters(aspect)
    rows = []
    for one in range(raters.shape[1]):
        others = np.delete(raters, one, axis=1).mean(axis=1)
        rows.append(PairTable(edits, pairs, others).row(raters[:, one]))
    return {
        "pairs": int(np.mean([row["pairs"] for row in rows])),
        **{
            key: {
                "value": float(np.mean([row[key]["value"] for row in rows])),
                "interval": np.mean([row[key]["interval"] for row in rows], axis=0).tolist(),
            }
            for key in ("accuracy", "where_it_votes")
        },
        "votes": float(np.mean([row["votes"] for row in rows])),
    }


def report(edits: Edits) -> dict[str, dict[str, Any]]:
    """The tables by aspect: `PQ` (looks natural) and `SC` (did what was asked, kept the rest)."""
    columns = measured(edits, NAMES)
    preserved = measure_preservation(edits)
    pairs, sources = list_pairs(edits), edits.sources
    success = edits.number("SC", 0) >= SUCCESS
    found: dict[str, dict[str, Any]] = {}
    everything = np.ones(len(edits), np.bool_)
    for aspect, recipe, fitted_on in (("PQ", REALISM, everything), ("SC", KEPT, success)):
        ratings = edits.mean(aspect)
        table = PairTable(edits, pairs, ratings)
        predicted = predict_unseen(recipe, matrix(columns, recipe.features), ratings, sources, fitted_on)
        name = f"people.{recipe.name}, photograph not seen"
        rows = {
            name: table.row(predicted),
            **{f"{name}, {margin} apart": table.row(predicted, margin) for margin in MARGINS},
            "edit-preservation, offline": table.row(preserved),
            "SSIM with the input": table.row(columns[SSIM]),
            "GPT-4o, least of its scores": table.row(edits.judge(aspect)),
        }
        both = success[table.pairs].all(axis=1)
        clear = table.distance >= CLEAR - 1e-9
        shown = {name: predicted, "edit-preservation, offline": preserved, "SSIM with the input": columns[SSIM]}
        shown["GPT-4o, least of its scores"] = edits.judge(aspect)
        rows |= {f"ratings a third apart: {key}": table.row(numbers, among=clear) for key, numbers in shown.items()}
        rows |= {
            f"GPT-4o calls both a success: {key}": table.row(numbers, among=both) for key, numbers in shown.items()
        }
        found[aspect] = {"pairs": len(table.pairs), "of": len(pairs), "rows": rows}
        found[aspect]["rows"]["one rater against two"] = measure_ceiling(edits, pairs, aspect)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DEFAULT, metavar="DIR")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    edits = load(chosen.data)
    if edits is None:
        print(f"No human ratings of edits at {chosen.data} (imagenhub/ is not there): nothing to measure.")
        return 0
    found = report(edits.chosen(np.array([row.task == "text" for row in edits.rows])))
    if chosen.json:
        print(json.dumps(found, indent=2))
        return 0
    for aspect, table in found.items():
        print(f"\n{aspect}: {table['pairs']:,} of {table['of']:,} pairs have ratings that differ")
        print("| who votes | pairs | accuracy, no vote ½ | where it votes | votes |")
        for name, row in table["rows"].items():
            cells = [
                f"{row[key]['value']:.2f} ({row[key]['interval'][0]:.2f} to {row[key]['interval'][1]:.2f})"
                for key in ("accuracy", "where_it_votes")
            ]
            print(f"| {name} | {row['pairs']:,} | {' | '.join(cells)} | {row['votes']:.0%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
