"""Where words and pixels disagree: which measurement marks edits that people like less at the same GPT-4o score.

    python benchmarks/alignment/audit.py [--fit DIR] [--data DIR] [--json]

DIR is laid out like `../shared/data` (the default for both) and holds `imagenhub/`. Looked at are text-guided edits
that GPT-4o calls successful (first `SC` number 7 or more), by what the audit measures: the cheap instruments on images
of at most 400 px. For each measurement the threshold is the one beyond which a quarter of the edits of one half of the
photographs lies, and it is shown on the other half, and the other way round; with two folders it is chosen on the one
and shown on the other. The effect is the mean human `SC` (0–1) of flagged edits less that of unflagged ones with the
same GPT-4o over-editing score (its second number; strata weigh by how much they tell). Intervals are 95 %, by drawing
photographs with replacement. (Thresholds optimised on each half of 75 edits were tried in two ways: the measurements
that hold here held there too, but the surest one of a half did not, −.06 and +.05. Do not let 75 edits pick.)

`FLAGS` are the rules that the audit has for `edit-preservation`: the thresholds that came of it, rounded, and rules for
plain contradictions, which are rare. They are shown on the same edits, alone and together, on all text-guided edits,
successful or not, and on those in which GPT-4o sees hardly any over-editing (8 or more of 10), where the audit would
speak; there with both of its numbers the same. These rows have seen the edits that they are shown on, unless --data is
another folder than theirs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from agreement import draws, interval
from edits import DEFAULT, SUCCESS
from imagenhub import Bools, Edits, Floats, load, measured

from beholder.instruments import registry
from beholder.instruments.pair import AUDIT_SIDE, ImagePair
from beholder.judges.audit import RULES

SHARE = 0.25  # of the edits that a threshold flags where it is chosen
SHOWN = 1.0  # standard errors on the choosing part from which a measurement is printed
SURE = 0.4  # the standard deviation of a rating within a stratum, for weighing measurements against each other


@dataclass(frozen=True, slots=True)
class Flag:
    """Raised where the measurement is beyond the limit: above it, or below (`under`)."""

    name: str
    limit: float
    under: bool

    def raised(self, values: Floats) -> Bools:
        with np.errstate(invalid="ignore"):
            return values < self.limit if self.under else values > self.limit

    def __str__(self) -> str:
        return f"{self.name.partition('.')[2]} {'<' if self.under else '>'} {self.limit:.3g}"


KEPT = 8  # of 10: hardly any over-editing
PRESERVATION = ("unchanged_regions", "global_consistency", "identity_preservation")
_RULES = [rule for rule in RULES if rule.criterion in PRESERVATION]
FLAGS = tuple(dict.fromkeys(Flag(rule.measurement, rule.limit, rule.below) for rule in _RULES))


def effect(flagged: Bools, ratings: Floats, strata: Floats) -> tuple[float, float]:
    """Mean rating of flagged less unflagged cases within strata, and the weight behind it (as many pairs of cases as
    would tell as much); nan and 0 where no stratum has both."""
    total, weight = 0.0, 0.0
    for one in np.unique(strata):
        here = strata == one
        yes, no = ratings[here & flagged], ratings[here & ~flagged]
        if len(yes) and len(no):
            worth = len(yes) * len(no) / (len(yes) + len(no))
            total += worth * float(yes.mean() - no.mean())
            weight += worth
    return (total / weight, weight) if weight else (float("nan"), 0.0)


def chosen(name: str, under: bool, values: Floats, ratings: Floats, strata: Floats) -> tuple[Flag, float]:
    """The threshold beyond which a quarter of these cases lies, and how many standard errors its effect is below 0."""
    there = ~np.isnan(values)
    flag = Flag(name, float(np.quantile(values[there], SHARE if under else 1 - SHARE)), under)
    size, weight = effect(flag.raised(values)[there], ratings[there], strata[there])
    return flag, -size * weight**0.5 / SURE if weight else 0.0


def halves(sources: Any) -> Bools:
    """Every second photograph."""
    return np.isin(sources, np.unique(sources)[::2])


def judged(edits: Edits) -> Edits:
    """Text-guided edits to which GPT-4o gave both numbers."""
    return edits.chosen(np.array([row.task == "text" and len(row.judged.get("SC", ())) == 2 for row in edits.rows]))


def successful(edits: Edits) -> Bools:
    return edits.number("SC", 0) >= SUCCESS


def shown(flagged: Bools, there: Bools, edits: Edits, *, both: bool = False) -> dict[str, Any]:
    """The effect of a flag on edits, where it was measured, at the same over-editing score; `both`: at the same score
    for success too."""
    if not there.any():
        return {"flagged": 0, "of": 0, "effect": None, "interval": [0.0, 0.0]}
    known = edits.chosen(there)
    flagged, ratings, strata = flagged[there], known.mean("SC"), known.number("SC", 1)
    if both:
        strata = strata + 100 * known.number("SC", 0)
    drawn = draws(known.sources)
    size, _ = effect(flagged, ratings, strata)
    low, high = interval(lambda cases: _number(effect(flagged[cases], ratings[cases], strata[cases])[0]), drawn)
    return {
        "flagged": int(flagged.sum()),
        "of": len(known),
        "effect": None if np.isnan(size) else round(size, 3),
        "interval": [round(low, 3), round(high, 3)],
    }


def report(known: tuple[Edits, dict[str, Floats]], tested: tuple[Edits, dict[str, Floats]], same: bool) -> list[dict]:
    """Thresholds and their effect on photographs they were not chosen on: of each part's surest measurement, then of
    every measurement."""
    (first, columns), (second, others) = known, tested
    everyone = np.ones(len(second), np.bool_)
    half = halves(first.sources)
    # (cases on which thresholds are chosen, cases on which they are shown)
    parts = [(half, ~half), (~half, half)] if same else [(np.ones(len(first), np.bool_), everyone)]
    measurements = [
        (name, under)
        for name, under in _directed()
        if np.isnan(columns[name]).mean() < 0.5 and np.nanstd(columns[name]) > 0
    ]
    flags: list[dict[tuple[str, bool], tuple[Flag, float]]] = []
    for part, _ in parts:
        ratings, strata = first.chosen(part).mean("SC"), first.chosen(part).number("SC", 1)
        flags.append({one: chosen(*one, columns[one[0]][part], ratings, strata) for one in measurements})

    def entry(picked: Sequence[tuple[Flag, float]], there: Bools) -> dict[str, Any]:
        flagged = np.zeros(len(second), np.bool_)
        for (flag, _), (_, rest) in zip(picked, parts, strict=True):
            flagged[rest] = flag.raised(others[flag.name])[rest]
        sure = round(min(sure for _, sure in picked), 1)
        return {"flags": [str(flag) for flag, _ in picked], "sure": sure} | shown(flagged, there, second)

    surest = [max(found.values(), key=lambda one: one[1]) for found in flags]
    each = [entry([found[one] for found in flags], ~np.isnan(others[one[0]])) for one in measurements]
    return [entry(surest, everyone), *sorted(each, key=lambda one: -one["sure"])]


def fixed_flags(edits: Edits, columns: dict[str, Floats] | None) -> list[dict[str, Any]]:
    """`FLAGS` one by one and together. Without columns they are measured, and the edits' success is held equal too."""
    both = columns is None
    if columns is None:
        columns = measured(edits, [flag.name for flag in FLAGS], AUDIT_SIDE)
    raised = {str(flag): flag.raised(columns[flag.name]) for flag in FLAGS}
    there = {str(flag): ~np.isnan(columns[flag.name]) for flag in FLAGS}
    raised["any"], there["any"] = (np.logical_or.reduce([*one.values()]) for one in (raised, there))
    kept = edits.number("SC", 1) >= KEPT
    parts = {"all": np.ones(len(edits), np.bool_), "said to be kept": kept} if both else {"successful": kept | ~kept}
    return [
        {"flag": f"{name} ({who})"} | shown(raised[name][part], there[name][part], edits.chosen(part), both=both)
        for who, part in parts.items()
        for name in raised
    ]


def _directed() -> list[tuple[str, bool]]:
    """Measurements of the audit, and whether they are bad when low; both ways where neither is better."""
    grey = ImagePair(np.full((64, 64, 3), 128, np.uint8), np.full((64, 64, 3), 90, np.uint8))
    found = registry.measure_pair(grey, cheap_only=True)
    ways = {"higher": (True,), "lower": (False,), "": (True, False)}
    return [(name, under) for name, one in found.items() for under in ways[one.better]]


def _number(value: float) -> float:
    return 0.0 if np.isnan(value) else value


def _line(name: str, one: dict[str, Any]) -> str:
    low, high = one["interval"]
    effect = "—" if one["effect"] is None else f"{one['effect']:.3f}"
    return f"  {name:60} {one['flagged']:3}/{one['of']:3} {effect:>7}   {low:6.3f} … {high:.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fit", type=Path, default=DEFAULT, metavar="DIR")
    parser.add_argument("--data", type=Path, default=DEFAULT, metavar="DIR")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    same = asked.fit.resolve() == asked.data.resolve()
    loaded = [load(folder) for folder in (asked.fit, asked.data)]
    if loaded[0] is None or loaded[1] is None:
        print("No human ratings of edits there (imagenhub/): nothing to show.")
        return 0
    first, everyone = (judged(edits) for edits in loaded if edits is not None)
    first = first.chosen(successful(first))
    second = everyone.chosen(successful(everyone))
    names = sorted({name for name, _ in _directed()})
    columns = measured(first, names, AUDIT_SIDE)
    others = columns if same else measured(second, names, AUDIT_SIDE)
    entries = report((first, columns), (second, others), same)
    fixed = fixed_flags(second, others) + fixed_flags(everyone, None)
    if asked.json:
        print(json.dumps({"chosen": entries, "fixed": fixed}, indent=2, ensure_ascii=False))
        return 0
    where = "chosen on one half of the photographs, shown on the other" if same else "chosen on --fit, shown on --data"
    print("\naudit: human SC of flagged less unflagged edits at the same GPT-4o over-editing score")
    print(f"  {len(second)} edits. Thresholds {where}.")
    print("  First the surest measurement of each choosing part, then each measurement, surest first:")
    print(f"  {'':60} flagged  effect   95 %")
    for one in [one for one in entries if one["sure"] >= SHOWN]:
        print(_line(" / ".join(dict.fromkeys(one["flags"])), one))
    print("  Thresholds that came of it, rounded:")
    for one in fixed:
        print(_line(one["flag"], one))
    return 0


if __name__ == "__main__":
    sys.exit(main())
