"""How well text instruments foretell what experts think of a description: the map in `weights/description.json`.

    python benchmarks/alignment/descriptions.py [--fit DIR] [--data DIR] [--write] [--json]

DIR is laid out like `../shared/data` (the default for both) and holds `flickr8k-expert/cases.jsonl` and `ratings.csv`.
One folder for both means cross-validation in ten parts by `image`, so that no photograph is on both sides; two folders
mean fitted on the one and tested on the other. `--write` commits the numbers fitted on all of `--fit`. Everything that
is learned (the rarity of words, the map) is learned from the fitting part alone.

The measure is Kendall's τc × 100 with each expert's rating a point of its own, as in the literature. Intervals are
95 %, by drawing images with replacement. Beside it: the tf-idf cosine to the joined references with its paired
difference, one expert against the two others, and what is left when only one reference is given.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from beholder.instruments.text.comparison import TextComparison, TextInput, WordRarity
from beholder.instruments.text.description import assess_description
from beholder.instruments.text.measurements import HUMAN_FEATURES, TEXT_MEASURES, TextRatingFeature, TextRatingMap

ROOT = Path(__file__).parents[2]
DEFAULT = ROOT / ".." / "shared" / "data"
WEIGHTS = ROOT / "src" / "beholder" / "instruments" / "weights"
SET = "flickr8k-expert"
FOLDS = 10
PARTITIONS = 5
DRAWS = 1000
PENALTY = 0.01  # of the logistic ridge, per case; the result hardly moves between 0.0003 and 0.03
LEAST_MENTIONS = 2  # a word of one photograph weighs like one of none, so it is not kept
MOST_WORDS = 3000
# Feature sets and models looked at before the five features were kept, all with cross-validated τc on the first half of
# the data: 144 of them steps of one greedy search over twenty features, the rest named sets, penalties and trees (which
# were no better: 56.2 with eight features).
VARIANTS_TRIED = 172
# The share of each dimension in the score of the rubric `description`.
SHARES = {"visual_accuracy": 0.4, "completeness": 0.3, "clarity": 0.2, "relevance": 0.1}

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rated:
    """Descriptions with what the experts gave: `ratings` has a row a case and a column an expert."""

    texts: tuple[TextInput, ...]
    images: tuple[str, ...]
    ratings: Ints

    @property
    def mean(self) -> Floats:
        return self.ratings.mean(1)

    def photos(self, chosen: npt.NDArray[np.bool_]) -> list[tuple[str, ...]]:
        """The references of every photograph among the chosen cases, once."""
        found = {
            image: text.references for image, text, one in zip(self.images, self.texts, chosen, strict=True) if one
        }
        return list(found.values())


def load(folder: Path) -> Rated | None:
    """None where the data is not there."""
    place = folder / SET
    if not (place / "cases.jsonl").is_file() or not (place / "ratings.csv").is_file():
        return None
    scores: dict[str, list[int]] = defaultdict(list)
    with (place / "ratings.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            scores[row["case"]].append(int(row["score"]))
    cases = [json.loads(line) for line in (place / "cases.jsonl").read_text("utf-8").splitlines()]
    raters = min(len(scores[case["id"]]) for case in cases)
    return Rated(
        tuple(TextInput(case["output"], tuple(case["references"])) for case in cases),
        tuple(case["image"] for case in cases),
        np.array([scores[case["id"]][:raters] for case in cases]),
    )


def tau_c(predictions: Floats, ratings: Ints) -> float:
    """Stuart's τc × 100 between a prediction a case and its ratings, each a point. Ties count for neither side."""
    levels = np.unique(ratings)
    shorter = min(len(levels), len(np.unique(predictions)))
    if shorter < 2:
        return 0.0
    by_level = [np.sort(np.repeat(predictions, (ratings == level).sum(1))) for level in levels]
    surplus = 0
    for i, low in enumerate(by_level):
        for high in by_level[i + 1 :]:
            above = np.searchsorted(low, high, "left").sum()
            below = (len(low) - np.searchsorted(low, high, "right")).sum()
            surplus += int(above) - int(below)
    return 100 * 2 * shorter * surplus / (ratings.size**2 * (shorter - 1))


def features(texts: Sequence[TextInput], rarity: WordRarity) -> Floats:
    """A row a text; nan where an instrument has no value."""
    rows = []
    for text in texts:
        seen = TextComparison(text, rarity)
        values = [TEXT_MEASURES[name](seen).value for name in HUMAN_FEATURES]
        rows.append([math.nan if value is None else value for value in values])
    return np.array(rows)


def fit(matrix: Floats, ratings: Floats) -> TextRatingMap:
    """A logistic ridge on (rating − 1) ÷ 3, in Newton's steps."""
    mean, deviation = np.nanmean(matrix, 0), np.nanstd(matrix, 0)
    standard = np.nan_to_num((matrix - mean) / deviation)
    design = np.c_[np.ones(len(standard)), standard]
    target = (ratings - 1) / 3
    penalty = PENALTY * len(target) * np.eye(design.shape[1])
    penalty[0, 0] = 0
    weights = np.zeros(design.shape[1])
    for _ in range(25):
        likely = 1 / (1 + np.exp(-design @ weights))
        curvature = design.T @ (design * (likely * (1 - likely))[:, None]) + penalty
        weights = weights + np.linalg.solve(curvature, design.T @ (target - likely) - penalty @ weights)
    columns = zip(HUMAN_FEATURES, weights[1:].tolist(), mean.tolist(), deviation.tolist(), strict=True)
    return TextRatingMap(float(weights[0]), tuple(TextRatingFeature(*column) for column in columns))


def apply(weights: TextRatingMap, matrix: Floats) -> Floats:
    """Through the very function that the judge uses."""
    rows = [
        dict(zip(HUMAN_FEATURES, (None if math.isnan(x) else x for x in row), strict=True)) for row in matrix.tolist()
    ]
    return np.array([weights.rating(row) for row in rows])


def parts(images: Sequence[str], seed: int) -> Ints:
    """Which of the ten parts each case is in; an image is in one."""
    names = sorted(set(images))
    np.random.default_rng(seed).shuffle(names)
    place = {name: i % FOLDS for i, name in enumerate(names)}
    return np.array([place[image] for image in images])


def cross_validated(learned: Rated, data: Rated, seed: int = 0) -> Floats:
    """`data` are the cases of `learned`, perhaps in another dress (fewer references)."""
    part = parts(learned.images, seed)
    found = np.zeros(len(part))
    for fold in range(FOLDS):
        inside, outside = part != fold, part == fold
        rarity = WordRarity.from_descriptions(learned.photos(inside))
        weights = fit(features(_chosen(learned.texts, inside), rarity), learned.mean[inside])
        found[outside] = apply(weights, features(_chosen(data.texts, outside), rarity))
    return found


def transferred(learned: Rated, data: Rated) -> Floats:
    rarity = WordRarity.from_descriptions(learned.photos(np.ones(len(learned.images), bool)))
    weights = fit(features(learned.texts, rarity), learned.mean)
    return apply(weights, features(data.texts, rarity))


def _chosen(texts: Sequence[TextInput], mask: npt.NDArray[np.bool_]) -> list[TextInput]:
    return [text for text, one in zip(texts, mask, strict=True) if one]


def tf_idf(data: Rated) -> Floats:
    """The usual cosine between the output and the joined references, inverse document frequencies from the joined
    references themselves (as scikit-learn's TfidfVectorizer does it)."""
    split: Callable[[str], list[str]] = re.compile(r"\w\w+").findall
    joined = {image: " ".join(text.references) for image, text in zip(data.images, data.texts, strict=True)}
    seen_in = Counter(word for text in joined.values() for word in set(split(text.lower())))

    def vector(text: str) -> dict[str, float]:
        counts = Counter(word for word in split(text.lower()) if word in seen_in)
        found = {w: n * (math.log((1 + len(joined)) / (1 + seen_in[w])) + 1) for w, n in counts.items()}
        size = math.sqrt(sum(x * x for x in found.values())) or 1.0
        return {word: x / size for word, x in found.items()}

    against = {image: vector(text) for image, text in joined.items()}
    return np.array(
        [
            sum(x * against[image].get(word, 0.0) for word, x in vector(text.output).items())
            for image, text in zip(data.images, data.texts, strict=True)
        ]
    )


def intervals(data: Rated, predictions: dict[str, Floats], against: str) -> dict[str, dict[str, Any]]:
    """τc of each with its 95 % interval, and the paired difference to `against`."""
    rows: dict[str, list[int]] = defaultdict(list)
    for at, image in enumerate(data.images):
        rows[image].append(at)
    images = list(rows.values())
    rng = np.random.default_rng(0)
    drawn: dict[str, list[float]] = {name: [] for name in predictions}
    for _ in range(DRAWS):
        at = np.concatenate([images[i] for i in rng.integers(len(images), size=len(images))])
        for name, found in predictions.items():
            drawn[name].append(tau_c(found[at], data.ratings[at]))
    told: dict[str, dict[str, Any]] = {}
    base = np.array(drawn[against])
    for name, found in predictions.items():
        own = np.array(drawn[name])
        whole = tau_c(found, data.ratings)
        told[name] = {
            "tau_c": round(whole, 2),
            "interval": _middle(own),
            "more_than_tf_idf": round(whole - tau_c(predictions[against], data.ratings), 2),
            "more_than_tf_idf_interval": _middle(own - base),
        }
    return told


def _middle(values: Floats) -> list[float]:
    return [round(float(x), 2) for x in np.quantile(values, (0.025, 0.975))]


def one_expert(data: Rated) -> list[float]:
    """τc of the two other experts' mean against each expert."""
    raters = range(data.ratings.shape[1])
    return [round(tau_c(np.delete(data.ratings, k, 1).mean(1), data.ratings[:, [k]]), 2) for k in raters]


def rubric_score(data: Rated) -> Floats:
    """The score that the rubric `description` comes to, with the committed table of words; not fitted to ratings."""
    scores = []
    for text in data.texts:
        found = assess_description(text).dimensions
        known = {key: share for key, share in SHARES.items() if found[key].score is not None}
        total = sum(share * (found[key].score or 0.0) for key, share in known.items())
        scores.append(total / sum(known.values()) if known else 0.0)
    return np.array(scores)


def with_one_reference(data: Rated) -> Rated:
    """The same cases, each with one of its references, drawn."""
    rng = np.random.default_rng(0)
    drawn = (TextInput(text.output, (text.references[rng.integers(len(text.references))],)) for text in data.texts)
    return Rated(tuple(drawn), data.images, data.ratings)


def report(learned: Rated, data: Rated, same: bool) -> dict[str, Any]:
    test = cross_validated if same else transferred
    ours = test(learned, data)
    predictions = {
        "the map": ours,
        "the map, one reference": test(learned, with_one_reference(data)),
        "rubric score, not fitted": rubric_score(data),
        "tf-idf cosine": tf_idf(data),
    }
    others = [tau_c(cross_validated(data, data, seed), data.ratings) for seed in range(1, PARTITIONS)] if same else []
    return {
        "cases": len(data.texts),
        "images": len(set(data.images)),
        "ratings": int(data.ratings.size),
        "how": f"cross-validated in {FOLDS} parts by image" if same else "fitted on the other folder",
        "tau_c": intervals(data, predictions, "tf-idf cosine"),
        "tau_c_of_other_partitions": [round(one, 2) for one in others],
        "two_experts_against_the_third": one_expert(data),
        "mean_absolute_error": round(float(np.abs(ours - data.mean).mean()), 3),
        "mean_absolute_error_of_a_constant": round(float(np.abs(data.mean - np.median(learned.mean)).mean()), 3),
    }


def write(learned: Rated, scores: dict[str, Any]) -> None:
    """The numbers that the judge uses, fitted on all cases, and the table of words."""
    rarity = WordRarity.from_descriptions(learned.photos(np.ones(len(learned.images), bool)))
    often = [(word, count) for word, count in rarity.mentions.items() if count >= LEAST_MENTIONS]
    kept = dict(sorted(sorted(often, key=lambda pair: (-pair[1], pair[0]))[:MOST_WORDS]))
    words = {
        "about": "In how many of the photographs the five reference descriptions mention a word, in its base form. "
        f"Counted in the {SET} data by benchmarks/alignment/descriptions.py; words of one photograph are left out.",
        "photos": rarity.photos,
        "mentions": kept,
    }
    weights = fit(features(learned.texts, WordRarity(rarity.photos, kept)), learned.mean)
    shares = [
        {key: value if isinstance(value, str) else round(value, 4) for key, value in asdict(feature).items()}
        for feature in weights.features
    ]
    fitted = {
        "about": "From text instruments to the rating that an expert gives a description of a photograph, 1–4: "
        "1 + 3 / (1 + exp(-s)), s = intercept + the sum of weight * (value - mean) / deviation. "
        "Fitted by benchmarks/alignment/descriptions.py --write.",
        "intercept": round(weights.intercept, 4),
        "features": shares,
        "variants_tried": VARIANTS_TRIED,
        "score": scores,
    }
    (WEIGHTS / "words.json").write_text(_lines(words, "mentions"), "utf-8")
    (WEIGHTS / "description.json").write_text(json.dumps(fitted, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _lines(table: dict[str, Any], long: str) -> str:
    """JSON in which the entries of the long table share lines, so that it can be looked through."""
    entries = [f"{json.dumps(word)}: {count}" for word, count in table[long].items()]
    rows = [", ".join(entries[at : at + 8]) for at in range(0, len(entries), 8)]
    head = json.dumps({key: value for key, value in table.items() if key != long}, indent=2, ensure_ascii=False)
    body = ",\n    ".join(rows)
    return f"{head[:-2]},\n  {json.dumps(long)}: {{\n    {body}\n  }}\n}}\n"


def show(scores: dict[str, Any]) -> None:
    print(
        f"Descriptions ({SET}): {scores['cases']} cases, {scores['images']} images, {scores['ratings']} ratings; ",
        end="",
    )
    print(f"{scores['how']}. Kendall τc × 100, each rating a point, 95 % by images.\n")
    print(f"{'':28}{'τc':>7}  {'interval':>16}  {'more than tf-idf':>16}  interval")
    for name, row in scores["tau_c"].items():
        low, high = row["interval"]
        difference = row["more_than_tf_idf"]
        least, most = row["more_than_tf_idf_interval"]
        print(
            f"{name:28}{row['tau_c']:7.2f}  {low:7.2f} – {high:5.2f}  {difference:+16.2f}  {least:+.2f} … {most:+.2f}"
        )
    if scores["tau_c_of_other_partitions"]:
        print(f"\nThe map in other partitions: {', '.join(map(str, scores['tau_c_of_other_partitions']))}")
    print(f"Two experts' mean against the third: {', '.join(map(str, scores['two_experts_against_the_third']))}")
    error, constant = scores["mean_absolute_error"], scores["mean_absolute_error_of_a_constant"]
    print(f"Mean absolute error on the scale 1–4: {error} (a constant: {constant})")
    print(f"Variants tried before this one was kept: {VARIANTS_TRIED}. In the literature: SPICE 44.9, CLIPScore 51.2.")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fit", type=Path, default=DEFAULT, metavar="DIR")
    parser.add_argument("--data", type=Path, default=DEFAULT, metavar="DIR")
    parser.add_argument("--write", action="store_true", help="commit the numbers fitted on all of --fit")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    learned, data = load(options.fit), load(options.data)
    for folder, found in ((options.fit, learned), (options.data, data)):
        if found is None:
            print(f"There is no {SET} in {folder}, so nothing is measured; see the layout in this file's first lines.")
    if learned is None or data is None:
        return 0
    same = options.fit.resolve() == options.data.resolve()
    if options.write:
        write(learned, {})  # the words first: the rubric's score is measured with them
    scores = report(learned, data, same)
    if options.write:
        write(learned, scores)
    print(json.dumps(scores, indent=2, ensure_ascii=False)) if options.json else show(scores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
