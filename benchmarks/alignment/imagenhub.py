"""ImagenHub in a folder laid out like `../shared/data`: edits, what people and GPT-4o said of them, measurements."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from beholder.instruments import registry
from beholder.instruments.human_ratings import RATING_SIDE
from beholder.instruments.pair import ImagePair

SET = "imagenhub"
JUDGE = "gpt4o_0shot"

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit. `ratings` has three scores an aspect; `judged` GPT-4o's numbers, as many as it gave."""

    id: str
    task: str
    model: str
    source: str
    before: Path
    after: Path
    ratings: dict[str, tuple[float, ...]]
    judged: dict[str, tuple[float, ...]]
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class Edits:
    """Edits as columns."""

    rows: tuple[Edit, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sources(self) -> npt.NDArray[np.str_]:
        return np.array([row.source for row in self.rows])

    @property
    def models(self) -> npt.NDArray[np.str_]:
        return np.array([row.model for row in self.rows])

    def raters(self, aspect: str) -> Floats:
        """A row a case, a column a rater."""
        return np.array([row.ratings[aspect] for row in self.rows])

    def mean(self, aspect: str) -> Floats:
        return self.raters(aspect).mean(axis=1)

    def judge(self, aspect: str) -> Floats:
        """The least of GPT-4o's numbers; nan where it gave none."""
        return np.array([min(row.judged.get(aspect, ()), default=math.nan) for row in self.rows])

    def number(self, aspect: str, which: int) -> Floats:
        """GPT-4o's first (0) or second (1) number; nan where it did not give it."""
        found = [row.judged.get(aspect, ()) for row in self.rows]
        return np.array([numbers[which] if len(numbers) > which else math.nan for numbers in found])

    def chosen(self, which: Bools) -> Edits:
        return Edits(tuple(row for row, one in zip(self.rows, which, strict=True) if one))


def load(folder: Path) -> Edits | None:
    """None where the data is not there."""
    place = folder / SET
    files = {name: place / name for name in ("cases.jsonl", "ratings.csv", "judge_scores.jsonl")}
    if not all(file.is_file() for file in files.values()):
        return None
    ratings: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    with files["ratings.csv"].open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            ratings[row["case"]][row["aspect"]][row["rater"]] = float(row["score"])
    judged: dict[str, dict[str, tuple[float, ...]]] = defaultdict(dict)
    for line in files["judge_scores.jsonl"].read_text("utf-8").splitlines():
        said = json.loads(line)
        if said["judge"] == JUDGE:
            judged[said["case"]][said["aspect"]] = tuple(said["scores"])
    rows = []
    for line in files["cases.jsonl"].read_text("utf-8").splitlines():
        case = json.loads(line)
        scores = {
            aspect: tuple(score for _, score in sorted(by_rater.items()))
            for aspect, by_rater in ratings[case["id"]].items()
        }
        places = place / case["input"], place / case["edited"]
        about = case["id"], case["task"], case["model"], case["source"]
        rows.append(Edit(*about, *places, scores, judged[case["id"]], case["instruction"]))
    return Edits(tuple(rows))


def measured(edits: Edits, names: Collection[str], side: int = RATING_SIDE) -> dict[str, Floats]:
    """The measurements as columns, nan where one has no meaning. No mask is given: most users have none."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    columns: dict[str, list[float]] = {name: [] for name in names}
    for count, row in enumerate(edits.rows, 1):
        pair = ImagePair.load(row.before.read_bytes(), row.after.read_bytes(), side=side)
        found = registry.measure_pair(pair, names)
        for name, values in columns.items():
            value = found[name].value
            values.append(math.nan if value is None else value)
        if sys.stderr.isatty():
            print(f"\r{count} of {len(edits)} edits measured", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    cv2.setNumThreads(threads)
    return {name: np.array(values) for name, values in columns.items()}


def matrix(columns: dict[str, Floats], names: Sequence[str]) -> Floats:
    return np.column_stack([columns[name] for name in names])
